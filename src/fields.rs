//! How the arrays and handles of a block's parameters are walked: by the paths of their fields.

use std::collections::BTreeMap;
use std::path::Path;

use eindecomp_core::ein::{Dim, Value};
use eindecomp_core::graph::NodeId;
use eindecomp_core::graph::from_syntax::Arg;
use eindecomp_runtime::{Data, Element};
use ndarray::Dimension;

use crate::model::{Array, Pack, Tensors};
use crate::source::{Other, Source};
use crate::weights::StoredTensor;
use crate::{Error, Graph, Tensor, WeightsFile};

/// Where a walk is.
#[derive(Default)]
struct Place {
    /// `layers.3.w1`
    path: String,
    /// The array indices in the path, outermost first.
    indices: Vec<usize>,
    /// How long the arrays of the field are, outermost first; for those that are not entered yet.
    lengths: Vec<usize>,
}

/// What walks over values, with the place where it is.
trait Walk: Sized {
    fn place(&mut self) -> &mut Place;

    /// Goes into a field.
    fn enter<R>(&mut self, name: &str, lengths: &[usize], one: impl FnOnce(&mut Self) -> R) -> R {
        let place = self.place();
        let before = place.path.len();
        if before > 0 {
            place.path.push('.');
        }
        place.path.push_str(name);
        let outside = std::mem::replace(&mut place.lengths, lengths.to_vec());
        let result = one(self);
        let place = self.place();
        place.path.truncate(before);
        place.lengths = outside;
        result
    }

    /// Goes into each element of an array.
    fn elements<T, R>(
        &mut self,
        values: impl Iterator<Item = T>,
        mut one: impl FnMut(&mut Self, T) -> R,
    ) -> Vec<R> {
        let lengths = self.place().lengths.get(1..).unwrap_or_default().to_vec();
        let mut results = Vec::new();
        for (index, value) in values.enumerate() {
            self.place().indices.push(index);
            let result = self.enter(&index.to_string(), &lengths, |walk| one(walk, value));
            self.place().indices.pop();
            results.push(result);
        }
        results
    }
}

/// Moves arrays to tensors, or from tensors or a file, by the paths of their fields.
pub struct Walker {
    place: Place,
    /// The field's name in a file, if that is not its path: `{}`s are array indices.
    template: Option<&'static str>,
    store: Store,
}

enum Store {
    /// Arrays go here.
    Into(Tensors),
    /// Arrays come from here, with the first that was missing or unfit.
    From(Tensors, Option<Error>),
    /// Arrays come from here, by the names in it.
    File(WeightsFile),
    /// Arrays stay there: where they are, by the paths of their fields.
    Stored(WeightsFile, BTreeMap<String, StoredTensor>),
}

impl Walk for Walker {
    fn place(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Walker {
    fn over(store: Store) -> Walker {
        Walker {
            place: Place::default(),
            template: None,
            store,
        }
    }

    /// One field.
    pub fn field(&mut self, name: &str, value: &mut impl Pack) {
        self.field_of(name, value, None, &[]);
    }

    /// One field that has a name in files, or arrays of so many values.
    pub fn field_of(
        &mut self,
        name: &str,
        value: &mut impl Pack,
        template: Option<&'static str>,
        lengths: &[usize],
    ) {
        let outside = std::mem::replace(&mut self.template, template);
        self.enter(name, lengths, |walker| value.walk(walker));
        self.template = outside;
    }

    /// One array.
    pub(crate) fn array<D: Element, const RANK: usize>(&mut self, array: &mut Array<D, RANK>)
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        let path = &self.place.path;
        match &mut self.store {
            Store::Into(tensors) => tensors.put(path, std::mem::take(array)),
            Store::From(tensors, first) => match tensors.take(path) {
                Ok(found) => *array = found,
                Err(error) => _ = first.get_or_insert(error),
            },
            Store::File(file) => {
                *array = file.take(&name_in_file(path, self.template, &self.place.indices));
            }
            Store::Stored(file, found) => {
                let name = name_in_file(path, self.template, &self.place.indices);
                let stored = file.find(&name, D::DTYPE, RANK);
                found.extend(stored.map(|stored| (path.clone(), stored)));
            }
        }
    }

    /// The values of one array: where values are read, as many as it is declared to have.
    pub(crate) fn each<T: Pack + Default>(&mut self, values: &mut Vec<T>) {
        if !matches!(self.store, Store::Into(_)) {
            let length = self.place.lengths.first().copied().unwrap_or_default();
            *values = std::iter::repeat_with(T::default).take(length).collect();
        }
        self.elements(values.iter_mut(), |walker, value| value.walk(walker));
    }
}

/// Moves every array of `values` into `tensors`.
pub fn pack(mut values: impl Pack, tensors: &mut Tensors) {
    let mut walker = Walker::over(Store::Into(std::mem::take(tensors)));
    values.walk(&mut walker);
    if let Store::Into(filled) = walker.store {
        *tensors = filled;
    }
}

/// Takes every array out of `tensors`.
///
/// # Errors
/// That of the first that is missing or unfit.
pub fn unpack<T: Pack + Default>(tensors: &mut Tensors) -> Result<T, Error> {
    let mut walker = Walker::over(Store::From(std::mem::take(tensors), None));
    let mut values = T::default();
    values.walk(&mut walker);
    if let Store::From(left, Some(error)) = walker.store {
        *tensors = left;
        return Err(error);
    }
    if let Store::From(left, None) = walker.store {
        *tensors = left;
    }
    Ok(values)
}

/// Reads every array from a safetensors file.
///
/// # Errors
/// As [`WeightsFile::open`]; or all that are missing or unfit.
pub fn from_safetensors<T: Pack + Default>(path: impl AsRef<Path>) -> Result<T, Error> {
    let mut walker = Walker::over(Store::File(WeightsFile::open(path)?));
    let mut values = T::default();
    values.walk(&mut walker);
    match walker.store {
        Store::File(file) => file.finish(values),
        _ => Ok(values),
    }
}

/// Where every array of a struct is in a safetensors file, by the paths of its fields.
///
/// # Errors
/// As [`WeightsFile::open`]; or all that are missing or unfit.
pub fn stored<T: Pack + Default>(
    path: impl AsRef<Path>,
) -> Result<BTreeMap<String, StoredTensor>, Error> {
    let file = WeightsFile::open(path)?;
    let mut walker = Walker::over(Store::Stored(file, BTreeMap::new()));
    T::default().walk(&mut walker);
    match walker.store {
        Store::Stored(file, found) => file.finish(found),
        _ => Ok(BTreeMap::new()),
    }
}

/// What an array is called in a file: its path, or `template` with its `{}`s replaced in order; those without an
/// index stay.
fn name_in_file(path: &str, template: Option<&str>, indices: &[usize]) -> String {
    let Some(template) = template else {
        return path.into();
    };
    indices.iter().fold(template.to_owned(), |name, index| {
        name.replacen("{}", &index.to_string(), 1)
    })
}

/// A struct of arrays.
#[diagnostic::on_unimplemented(
    message = "EIN0032: `{Self}` is no struct of an `ein!`",
    label = "a parameter is a tensor or a struct of an `ein!`",
    note = "declare it where its fields have shapes: `ein! {{ pub struct … {{ w: f32[F, D] }} }}`",
    note = "docs: eindecomp::errors::EIN0032"
)]
pub trait Fields: Pack {
    /// The struct as other programs see it.
    const STRUCT: Other;
    /// The handles on its tensors.
    type Handles<'g>: Handles<'g>;
}

/// The arguments of a block, and what is wrong with them.
pub struct Args<'g> {
    place: Place,
    graph: &'g Graph,
    given: Vec<Arg>,
    dims: Vec<(&'static str, Dim)>,
    /// Some argument is the result of a mistake.
    poisoned: bool,
    errors: Vec<String>,
}

impl Walk for Args<'_> {
    fn place(&mut self) -> &mut Place {
        &mut self.place
    }
}

/// An argument of a block: a handle, a struct of handles, or a slice of them.
pub trait Handles<'g>: Copy {
    /// As an argument.
    fn give(self, args: &mut Args<'g>) -> Arg;
}

impl<'g, D, const RANK: usize> Handles<'g> for Tensor<'g, D, RANK> {
    fn give(self, args: &mut Args<'g>) -> Arg {
        if !std::ptr::eq(self.graph(), args.graph) {
            let text = format!("argument `{}` belongs to another graph", args.place.path);
            args.errors.push(text);
        }
        args.poisoned |= self.node().is_none();
        // A call with a poisoned argument ends before it looks at the arguments.
        Arg::Tensor(self.node().unwrap_or(NodeId(0)))
    }
}

impl<'g, T: Handles<'g>> Handles<'g> for &[T] {
    fn give(self, args: &mut Args<'g>) -> Arg {
        let length = args.place.lengths.first().copied().unwrap_or_default();
        if self.len() != length {
            let (path, given) = (&args.place.path, self.len());
            let text = format!("argument `{path}` has {given} elements, not {length}");
            args.errors.push(text);
        }
        Arg::Array(args.elements(self.iter(), |args, value| value.give(args)))
    }
}

impl<'g> Args<'g> {
    /// For a call that appends to `graph`.
    pub fn new(graph: &'g Graph) -> Args<'g> {
        Args {
            place: Place::default(),
            graph,
            given: Vec::new(),
            dims: Vec::new(),
            poisoned: false,
            errors: Vec::new(),
        }
    }

    /// A field of a struct.
    pub fn field(&mut self, name: &str, value: impl Handles<'g>) -> Arg {
        self.enter(name, &[], |args| value.give(args))
    }

    /// A field of a struct, with arrays of so many values.
    pub fn field_of(&mut self, name: &str, value: impl Handles<'g>, lengths: &[usize]) -> Arg {
        self.enter(name, lengths, |args| value.give(args))
    }

    /// The next argument.
    pub fn give(&mut self, name: &str, value: impl Handles<'g>) -> &mut Self {
        self.give_of(name, value, &[])
    }

    /// The next argument, with arrays of so many values.
    pub fn give_of(&mut self, name: &str, value: impl Handles<'g>, lengths: &[usize]) -> &mut Self {
        let arg = self.field_of(name, value, lengths);
        self.given.push(arg);
        self
    }

    /// The next argument, a host value.
    pub fn value(&mut self, value: impl Element) -> &mut Self {
        self.given.push(Arg::Value(host(value)));
        self
    }

    /// A dim that no argument determines.
    pub fn dim(&mut self, name: &'static str, value: impl Into<Dim>) -> &mut Self {
        self.dims.push((name, value.into()));
        self
    }

    /// Appends `block` and gives its results. Mistakes are recorded at the caller's place; then, as
    /// after an earlier one, there are no results.
    #[track_caller]
    pub fn call(&mut self, source: &Source, block: &str) -> Results<'g> {
        let nodes = match (self.poisoned, self.errors.is_empty()) {
            (true, true) => None,
            _ => self.graph.build(|builder| match self.errors.is_empty() {
                true => source.append_call(block, builder, &self.given, &self.dims),
                false => Err(std::mem::take(&mut self.errors)),
            }),
        };
        Results {
            graph: self.graph,
            nodes: nodes.unwrap_or_default().into_iter(),
        }
    }
}

/// The results of a call.
pub struct Results<'g> {
    graph: &'g Graph,
    nodes: std::vec::IntoIter<NodeId>,
}

impl<'g> Results<'g> {
    /// The next one.
    #[track_caller]
    pub fn take<D, const RANK: usize>(&mut self) -> Tensor<'g, D, RANK> {
        Tensor::new(self.graph, self.nodes.next())
    }
}

/// A host value as the language computes with it.
pub fn host<D: Element>(value: D) -> Value {
    match D::wrap(vec![value]) {
        Data::F64(v) => Value::Float(v[0]),
        Data::F32(v) => Value::Float(v[0].into()),
        Data::BF16(v) => Value::Float(v[0].into()),
        Data::F16(v) => Value::Float(v[0].into()),
        Data::I64(v) => Value::Int(v[0]),
        Data::I32(v) => Value::Int(v[0].into()),
        Data::U32(v) => Value::Int(v[0].into()),
        Data::U8(v) => Value::Int(v[0].into()),
        Data::Bool(v) => Value::Bool(v[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_take_indices_outermost_first() {
        assert_eq!(name_in_file("w", Some("a.{}.b.{}.c"), &[3, 1]), "a.3.b.1.c");
        assert_eq!(name_in_file("w", Some("a.{}.b"), &[3, 1]), "a.3.b");
        assert_eq!(name_in_file("w", Some("a"), &[3]), "a");
        assert_eq!(name_in_file("w", Some("a.{}"), &[]), "a.{}");
    }

    #[test]
    fn paths_name_fields_and_elements() {
        let mut tensors = Tensors::new();
        #[derive(Default)]
        struct Layer(Array<f32, 1>);
        impl Pack for Layer {
            fn walk(&mut self, walker: &mut Walker) {
                walker.field("w", &mut self.0);
            }
        }
        #[derive(Default)]
        struct All(Vec<Layer>, Array<u8, 0>);
        impl Pack for All {
            fn walk(&mut self, walker: &mut Walker) {
                walker.field_of("layers", &mut self.0, None, &[2]);
                walker.field("x", &mut self.1);
            }
        }
        let layers = [1.0, 2.0].map(|x| Layer(ndarray::arr1(&[x])));
        pack(All(layers.into(), ndarray::arr0(3)), &mut tensors);
        let names: Vec<_> = tensors.as_map().keys().collect();
        assert_eq!(names, ["layers.0.w", "layers.1.w", "x"]);
        tensors.put("other", ndarray::arr0(0u8));
        let All(layers, x) = unpack(&mut tensors).unwrap();
        assert_eq!((layers.len(), layers[1].0[0], x[()]), (2, 2.0, 3));
        assert_eq!(tensors.as_map().len(), 1, "what is no field stays");
    }

    #[test]
    fn tensors_of_two_graphs_and_arrays_of_another_length_are_mistakes() {
        let (one, two) = (Graph::new(), Graph::new());
        let x = two.input::<f32, 0>("x", []);
        let mut args = Args::new(&one);
        args.give("x", x).give_of("l", &[x][..], &[2]);
        let errors = args.errors;
        assert_eq!(errors[0], "argument `x` belongs to another graph");
        assert_eq!(errors[1], "argument `l` has 1 elements, not 2");
    }
}
