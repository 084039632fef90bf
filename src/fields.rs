//! How the arrays and handles of a block's parameters are walked: by the paths of their fields.

use std::path::Path;

use eindecomp_core::ein::Value;
use eindecomp_core::graph::NodeId;
use eindecomp_core::graph::from_syntax::Arg;
use eindecomp_runtime::{Data, Element};
use ndarray::Dimension;

use crate::model::{Array, Tensors};
use crate::source::Other;
use crate::{Error, Graph, Tensor, WeightsFile};

/// A place in a block's parameters, and what goes to or comes from the fields met on the way.
pub struct Walker<S> {
    /// `layers.3.w1`
    path: String,
    /// The array indices in the path, outermost first.
    indices: Vec<usize>,
    store: S,
}

/// Arrays → tensors.
pub type Packer<'a> = Walker<&'a mut Tensors>;
/// A file, or tensors → arrays.
pub type Reader = Walker<Stored>;
/// Handles and host values → the arguments of a block.
pub type Args<'g> = Walker<Arguments<'g>>;

impl<S> Walker<S> {
    fn over(store: S) -> Walker<S> {
        Walker {
            path: String::new(),
            indices: Vec::new(),
            store,
        }
    }

    /// Walks into a field.
    pub fn field<T, R>(&mut self, name: &str, value: T, one: impl FnOnce(&mut Self, T) -> R) -> R {
        let before = self.path.len();
        if before > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let result = one(self, value);
        self.path.truncate(before);
        result
    }

    /// Walks into an element of an array.
    fn element<T, R>(&mut self, index: usize, value: T, one: impl FnOnce(&mut Self, T) -> R) -> R {
        self.indices.push(index);
        let result = self.field(&index.to_string(), value, one);
        self.indices.pop();
        result
    }
}

/// What arrays are read from.
pub enum Stored {
    /// A file, by the names in it.
    File(WeightsFile),
    /// Tensors by path, and the first that was missing or unfit.
    Tensors(Tensors, Option<Error>),
}

impl Stored {
    fn take<D: Element, const RANK: usize>(&mut self, path: &str, name: &str) -> Array<D, RANK>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        match self {
            Stored::File(file) => file.take(name),
            Stored::Tensors(tensors, first) => tensors.take(path).unwrap_or_else(|error| {
                first.get_or_insert(error);
                ndarray::Array::default(ndarray::Dim::<[usize; RANK]>::default())
            }),
        }
    }
}

/// A struct of arrays.
pub trait Fields {
    /// The struct as other programs see it.
    const STRUCT: Other;
    /// The handles on its tensors.
    type Handles<'g>: Handles<'g> + Copy;
    /// Moves every array into the tensors.
    fn pack(self, packer: &mut Packer<'_>);
    /// Takes every array from the file or tensors.
    fn take(reader: &mut Reader) -> Self;
}

impl<'a> Packer<'a> {
    /// Fills `tensors`.
    pub fn new(tensors: &'a mut Tensors) -> Packer<'a> {
        Walker::over(tensors)
    }

    /// One array.
    pub fn tensor<D: Element, R: Dimension>(&mut self, array: ndarray::Array<D, R>) {
        self.store.put(self.path.as_str(), array);
    }

    /// An array of values.
    pub fn each<T>(&mut self, values: Vec<T>, mut one: impl FnMut(&mut Self, T)) {
        for (index, value) in values.into_iter().enumerate() {
            self.element(index, value, &mut one);
        }
    }
}

impl Reader {
    /// Reads a safetensors file.
    ///
    /// # Errors
    /// As [`WeightsFile::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        WeightsFile::open(path).map(|file| Walker::over(Stored::File(file)))
    }

    /// Reads `tensors`.
    pub fn of(tensors: &mut Tensors) -> Reader {
        Walker::over(Stored::Tensors(std::mem::take(tensors), None))
    }

    /// The tensor called as its path.
    pub fn tensor<D: Element, const RANK: usize>(&mut self) -> Array<D, RANK>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        self.store.take(&self.path, &self.path)
    }

    /// The tensor called `template`, whose `{}`s are array indices, outermost first.
    pub fn named<D: Element, const RANK: usize>(&mut self, template: &str) -> Array<D, RANK>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        let name = filled(template, &self.indices);
        self.store.take(&self.path, &name)
    }

    /// An array of values.
    pub fn each<T>(&mut self, len: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..len)
            .map(|index| self.element(index, (), |reader, ()| one(reader)))
            .collect()
    }

    /// `weights`, unless some tensor was missing or unfit.
    ///
    /// # Errors
    /// [`Error::Weights`] with all of them; of tensors, the first.
    pub fn finish<W>(self, weights: W) -> Result<W, Error> {
        match self.store {
            Stored::File(file) => file.finish(weights),
            Stored::Tensors(_, first) => first.map_or(Ok(weights), Err),
        }
    }
}

/// `template` with its `{}`s replaced in order; those without an index stay.
fn filled(template: &str, indices: &[usize]) -> String {
    indices.iter().fold(template.to_owned(), |name, index| {
        name.replacen("{}", &index.to_string(), 1)
    })
}

/// What becomes known of a block's arguments.
pub struct Arguments<'g> {
    pub(crate) graph: &'g Graph,
    /// Some argument is the result of a mistake.
    pub(crate) poisoned: bool,
    /// What is wrong with the arguments.
    pub(crate) errors: Vec<String>,
}

/// A struct of handles.
pub trait Handles<'g> {
    /// As an argument.
    fn give(self, args: &mut Args<'g>) -> Arg;
}

impl<'g> Args<'g> {
    /// For a call that appends to `graph`.
    pub fn new(graph: &'g Graph) -> Args<'g> {
        Walker::over(Arguments {
            graph,
            poisoned: false,
            errors: Vec::new(),
        })
    }

    /// One tensor.
    pub fn tensor<D, const RANK: usize>(&mut self, tensor: Tensor<'g, D, RANK>) -> Arg {
        if !std::ptr::eq(tensor.graph(), self.store.graph) {
            let text = format!("argument `{}` belongs to another graph", self.path);
            self.store.errors.push(text);
        }
        self.store.poisoned |= tensor.node().is_none();
        // A call with a poisoned argument ends before it looks at the arguments.
        Arg::Tensor(tensor.node().unwrap_or(NodeId(0)))
    }

    /// An array of values that is declared to have `len`.
    pub fn each<T: Copy>(
        &mut self,
        len: usize,
        values: &[T],
        mut one: impl FnMut(&mut Self, T) -> Arg,
    ) -> Arg {
        if values.len() != len {
            let text = format!(
                "argument `{}` has {} elements, not {len}",
                self.path,
                values.len()
            );
            self.store.errors.push(text);
        }
        let values = values.iter().enumerate();
        Arg::Array(
            values
                .map(|(index, &value)| self.element(index, value, &mut one))
                .collect(),
        )
    }

    pub(crate) fn finish(self) -> Arguments<'g> {
        self.store
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
        assert_eq!(filled("a.{}.b.{}.c", &[3, 1]), "a.3.b.1.c");
        assert_eq!(filled("a.{}.b", &[3, 1]), "a.3.b");
        assert_eq!(filled("a", &[3]), "a");
        assert_eq!(filled("a.{}", &[]), "a.{}");
    }

    #[test]
    fn paths_name_fields_and_elements() {
        let mut tensors = Tensors::new();
        let mut packer = Packer::new(&mut tensors);
        let arrays = vec![ndarray::arr1(&[1.0f32]), ndarray::arr1(&[2.0])];
        packer.field("layers", arrays, |packer, arrays| {
            packer.each(arrays, |packer, array| {
                packer.field("w", array, |p, a| p.tensor(a))
            });
        });
        packer.field("x", ndarray::arr0(3u8), |packer, array| {
            packer.tensor(array)
        });
        let names: Vec<_> = tensors.as_map().keys().collect();
        assert_eq!(names, ["layers.0.w", "layers.1.w", "x"]);
    }

    #[test]
    fn tensors_of_two_graphs_and_arrays_of_another_length_are_mistakes() {
        let (one, two) = (Graph::new(), Graph::new());
        let x = two.input::<f32, 0>("x", []);
        let mut args = Args::new(&one);
        args.field("x", x, |args, x| args.tensor(x));
        args.field("l", &[x][..], |args, l| {
            args.each(2, l, |args, x| args.tensor(x))
        });
        let errors = args.finish().errors;
        assert_eq!(errors[0], "argument `x` belongs to another graph");
        assert_eq!(errors[1], "argument `l` has 1 elements, not 2");
    }
}
