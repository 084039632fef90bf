//! What `ein!` implements for each block, so that running a model uses no strings.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use eindecomp_core::graph::{EinGraph, Pin};
use eindecomp_runtime::{Element, Tensor};
use ndarray::Dimension;

use crate::Error;
use crate::fields::{self, Walker};

/// An array of `RANK` axes in and out of models: [`ndarray::Array`].
pub type Array<D, const RANK: usize> = ndarray::Array<D, ndarray::Dim<[usize; RANK]>>;

/// A block as a program: the types of what it takes and gives. A part without a field is
/// [`Empty`].
pub trait Model {
    /// A field per `dim`.
    type Dims: Dims;
    /// A field per data parameter.
    type Inputs: Pack;
    /// A field per `#[weight]` parameter.
    type Weights: Pack;
    /// A field per `#[state]` parameter.
    type State: Unpack;
    /// A field per result.
    type Outputs: Unpack;
}

/// The path of a model's block, with its element types: `my_crate::decoder::step<f32>`.
pub(crate) fn block_path<M: Model>() -> String {
    let name = std::any::type_name::<M>();
    let (path, dtypes) = name.split_once('<').unwrap_or((name, ""));
    let block = path.strip_suffix("::Model").unwrap_or(path);
    let dtypes = dtypes.trim_end_matches('>').split(", ");
    let dtypes: Vec<&str> = dtypes.filter_map(|d| d.rsplit("::").next()).collect();
    match dtypes[..] {
        [""] => block.into(),
        _ => format!("{block}<{}>", dtypes.join(", ")),
    }
}

/// Dims, inputs, weights or state of a block that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Empty {}

impl Dims for Empty {
    fn values(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}

impl Pack for Empty {
    fn walk(&mut self, _: &mut Walker) {}
}

/// Values of a block's dims.
pub trait Dims {
    /// Name as declared, and value.
    fn values(&self) -> Vec<(&'static str, usize)>;
}

/// Typed arrays ↔ tensors by parameter path or result name.
#[diagnostic::on_unimplemented(
    message = "EIN0032: `{Self}` is no array and no struct of an `ein!`",
    note = "docs: eindecomp::errors::EIN0032"
)]
pub trait Pack {
    /// Hands every array to `walker`.
    #[doc(hidden)]
    fn walk(&mut self, walker: &mut Walker);

    /// Moves every array into `tensors`.
    fn pack(self, tensors: &mut Tensors)
    where
        Self: Sized,
    {
        fields::pack(self, tensors);
    }
}

/// Tensors → typed arrays.
pub trait Unpack: Pack + Default {
    /// Takes every array out of `tensors`.
    ///
    /// # Errors
    /// A result that is missing or of another rank or element type.
    fn unpack(tensors: &mut Tensors) -> Result<Self, Error> {
        fields::unpack(tensors)
    }
}

impl<T: Pack + Default> Unpack for T {}

impl<D: Element, const RANK: usize> Pack for Array<D, RANK>
where
    ndarray::Dim<[usize; RANK]>: Dimension,
{
    fn walk(&mut self, walker: &mut Walker) {
        walker.array(self);
    }
}

impl<T: Pack + Default> Pack for Vec<T> {
    fn walk(&mut self, walker: &mut Walker) {
        walker.each(self);
    }
}

/// Tensors by parameter path (`layers.3.w1`) or result name.
#[derive(Clone, Debug, Default)]
pub struct Tensors {
    by_name: BTreeMap<String, Tensor>,
}

impl Tensors {
    /// None.
    pub fn new() -> Tensors {
        Tensors::default()
    }

    /// Adds an array.
    pub fn put<D: Element, R: Dimension>(
        &mut self,
        name: impl Into<String>,
        array: ndarray::Array<D, R>,
    ) {
        self.by_name.insert(name.into(), to_tensor(array));
    }

    /// Adds a tensor.
    pub fn put_tensor(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.by_name.insert(name.into(), tensor);
    }

    /// Takes an array out.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorType`].
    pub fn take<D: Element, const RANK: usize>(
        &mut self,
        name: &str,
    ) -> Result<Array<D, RANK>, Error>
    where
        ndarray::Dim<[usize; RANK]>: Dimension,
    {
        let tensor = self
            .by_name
            .remove(name)
            .ok_or_else(|| Error::MissingTensor {
                name: name.into(),
                near: None,
            })?;
        to_array(name, tensor)
    }

    /// By name.
    pub fn as_map(&self) -> &BTreeMap<String, Tensor> {
        &self.by_name
    }

    /// By name.
    pub fn into_map(self) -> BTreeMap<String, Tensor> {
        self.by_name
    }
}

impl FromIterator<(String, Tensor)> for Tensors {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(items: I) -> Tensors {
        Tensors {
            by_name: items.into_iter().collect(),
        }
    }
}

/// An array as a row-major tensor; copies only if it is not row-major already.
pub fn to_tensor<D: Element, R: Dimension>(array: ndarray::Array<D, R>) -> Tensor {
    let shape = array.shape().to_vec();
    let elements = if array.is_standard_layout() {
        let volume = array.len();
        let (mut elements, offset) = array.into_raw_vec_and_offset();
        let offset = offset.unwrap_or(0);
        elements.truncate(offset + volume);
        elements.drain(..offset);
        elements
    } else {
        array.iter().copied().collect()
    };
    Tensor::new(shape, D::wrap(elements)).expect("an array has as many elements as its shape says")
}

/// A tensor as an array.
///
/// # Errors
/// [`Error::TensorType`] if rank or element type differ.
pub fn to_array<D: Element, const RANK: usize>(
    name: &str,
    tensor: Tensor,
) -> Result<Array<D, RANK>, Error>
where
    ndarray::Dim<[usize; RANK]>: Dimension,
{
    let wrong = |dtype, rank| Error::TensorType {
        name: name.into(),
        expected: D::DTYPE,
        expected_rank: RANK,
        given: dtype,
        given_rank: rank,
    };
    let (dtype, rank) = (tensor.dtype(), tensor.shape().len());
    let (shape, data) = tensor.into_parts();
    let elements = D::unwrap(data).map_err(|_| wrong(dtype, rank))?;
    let dynamic =
        ndarray::ArrayD::from_shape_vec(shape, elements).map_err(|_| wrong(dtype, rank))?;
    dynamic
        .into_dimensionality()
        .map_err(|_| wrong(dtype, rank))
}

/// The graph of a block, dims still symbolic, with the types of its model. What `graph()` of a
/// generated module returns; a mistake in it is reported by `Session::compile`.
pub struct ModelGraph<M> {
    graph: Result<EinGraph, Error>,
    model: PhantomData<fn() -> M>,
}

impl<M: Model> ModelGraph<M> {
    /// Wraps a block's graph.
    pub fn new(graph: Result<EinGraph, Error>) -> ModelGraph<M> {
        ModelGraph {
            graph,
            model: PhantomData,
        }
    }

    /// With a constraint on the plans of every tensor called `tensor`: a parameter's path or the name that a
    /// statement gives its result. `#[split]` and `#[whole]` say what statements can; who has a
    /// tensor ([`Pin::Owner`]) is said here.
    #[must_use]
    pub fn pin(self, tensor: &str, pin: Pin) -> ModelGraph<M> {
        let missing = |_| Error::MissingTensor {
            name: tensor.into(),
            near: None,
        };
        let pinned = self
            .graph
            .and_then(|g| g.with_pin(tensor, pin).map_err(missing));
        ModelGraph::new(pinned)
    }

    /// The graph.
    ///
    /// # Errors
    /// What was wrong when it was made.
    pub fn into_graph(self) -> Result<EinGraph, Error> {
        self.graph
    }
}
