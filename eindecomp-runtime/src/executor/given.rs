//! The tensors that callers give: whether they fit the graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::ein::DType;
use eindecomp_core::graph::{BoundGraph, Role};

use crate::error::RunError;
use crate::source::TensorSource;
use crate::tensor::Tensor;

/// Given tensors by node, checked.
///
/// # Errors
/// One that is missing, unknown, or of another shape or element type.
pub fn inputs<'t, T: TensorSource>(
    graph: &BoundGraph,
    given: &'t BTreeMap<String, T>,
    wanted: impl Fn(Role) -> bool,
) -> Result<Vec<Option<&'t T>>, RunError> {
    let mut by_node = vec![None; graph.nodes().len()];
    for (id, node) in graph.ids() {
        if node.role().is_some_and(&wanted) {
            let tensor = given
                .get(&*node.name)
                .ok_or_else(|| RunError::MissingInput(node.name.clone()))?;
            check(&node.name, node.dtype, graph.shape(id), tensor)?;
            by_node[id.at()] = Some(tensor);
        }
    }
    let known = |name: &str| {
        let mut nodes = graph.nodes().iter();
        nodes.any(|n| n.role().is_some_and(&wanted) && &*n.name == name)
    };
    match given.keys().find(|name| !known(name)) {
        Some(name) => Err(RunError::UnknownInput(name.clone())),
        None => Ok(by_node),
    }
}

/// Name, element type and shape of each output.
pub fn output_specs(graph: &BoundGraph) -> impl Iterator<Item = (&Arc<str>, DType, &[usize])> {
    let outputs = graph.outputs().iter();
    outputs.map(|o| (&o.name, graph.node(o.node).dtype, graph.shape(o.node)))
}

/// Tensors to run into: zeros.
pub fn outputs(graph: &BoundGraph) -> Vec<Tensor> {
    let zeros = |(_, dtype, shape): (_, _, &[usize])| Tensor::zeros(dtype, shape.to_vec());
    output_specs(graph).map(zeros).collect()
}

/// Do tensors to run into fit?
///
/// # Errors
/// Another number of them, or one of another shape or element type.
pub fn check_outputs(graph: &BoundGraph, given: &[Tensor]) -> Result<(), RunError> {
    let expected = graph.outputs().len();
    if given.len() != expected {
        return Err(RunError::Outputs {
            expected,
            given: given.len(),
        });
    }
    for ((name, dtype, shape), tensor) in output_specs(graph).zip(given) {
        check(name, dtype, shape, tensor)?;
    }
    Ok(())
}

/// Is a tensor of this shape and element type?
///
/// # Errors
/// What it is instead.
pub fn check(
    name: &Arc<str>,
    dtype: DType,
    shape: &[usize],
    given: &impl TensorSource,
) -> Result<(), RunError> {
    if given.shape() != shape {
        let (expected, given) = (shape.to_vec(), given.shape().to_vec());
        return Err(RunError::Shape {
            name: name.clone(),
            expected,
            given,
        });
    }
    if given.dtype() != dtype {
        return Err(RunError::DType {
            name: name.clone(),
            expected: dtype,
            given: given.dtype(),
        });
    }
    Ok(())
}
