//! Values of symbolic dims from the shapes of given tensors: bare axes first, then linear ones;
//! every disagreement is reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eindecomp_core::ein::Dim;
use eindecomp_core::graph::{BindError, EinGraph, Node, Role};
use eindecomp_runtime::TensorSource;

use crate::{Error, ShapeError};

/// The dims that `given` determine; those that they do not, and the `pinned` ones, are `known`.
///
/// # Errors
/// [`Error::Shapes`]: tensors that are missing, unknown or of another type; extents that disagree; with these,
/// what does not hold at the dims that they agree on.
pub(crate) fn dims(
    graph: &EinGraph,
    given: &BTreeMap<String, impl TensorSource>,
    wanted: impl Fn(Role) -> bool,
    known: &BTreeMap<Arc<str>, i64>,
    pinned: impl Fn(&str) -> bool,
) -> Result<BTreeMap<Arc<str>, i64>, Error> {
    let mut errors = Vec::new();
    let mut axes = Vec::new();
    // Dims in axes that are not what they must be, or not there.
    let mut disputed = BTreeSet::new();
    let declared: Vec<&Node> = graph
        .nodes()
        .iter()
        .filter(|n| n.role().is_some_and(&wanted))
        .collect();
    for node in &declared {
        let name = node.name.to_string();
        let Some(tensor) = given.get(&*node.name) else {
            errors.push(ShapeError::Missing(name));
            disputed.extend(symbols(node));
            continue;
        };
        if tensor.dtype() != node.dtype {
            errors.push(ShapeError::DType {
                name: name.clone(),
                declared: declaration(node),
                given: tensor.dtype(),
            });
        }
        if tensor.shape().len() != node.shape.len() {
            errors.push(ShapeError::Rank {
                name,
                declared: declaration(node),
                given: tensor.shape().len(),
            });
            disputed.extend(symbols(node));
            continue;
        }
        axes.extend(node.shape.iter().zip(tensor.shape()).enumerate().map(
            |(axis, (extent, &n))| Axis {
                name: &node.name,
                axis,
                extent,
                given: n,
            },
        ));
    }
    let unknown = given
        .keys()
        .filter(|k| !declared.iter().any(|n| *n.name == ***k));
    errors.extend(unknown.map(|name| ShapeError::Unknown(name.clone())));

    // A symbol's value, and what gave it.
    let pins = known.iter().filter(|(symbol, _)| pinned(symbol));
    let mut solved: BTreeMap<Arc<str>, (i64, String)> = pins
        .map(|(symbol, &value)| (symbol.clone(), (value, "the dims compiled for".into())))
        .collect();
    for axis in &axes {
        if let Some(symbol) = axis.extent.as_symbol() {
            solved
                .entry(symbol.clone())
                .or_insert((axis.number(), axis.place()));
        }
    }
    for axis in &axes {
        if let Some((symbol, value)) = axis.linear(&|s| solved.get(s).map(|v| v.0)) {
            solved.entry(symbol).or_insert((value, axis.place()));
        }
    }
    let mut dims = known.clone();
    dims.extend(
        solved
            .iter()
            .map(|(symbol, (value, _))| (symbol.clone(), *value)),
    );
    for axis in &axes {
        // A dim that nothing gives a value is reported by `EinGraph::bind`.
        let Ok(expected) = axis.extent.eval(&|s| dims.get(s).copied()) else {
            continue;
        };
        if expected != axis.number() {
            disputed.extend(axis.extent.symbols());
            let source = axis.extent.symbols().into_iter().filter_map(|s| {
                let (value, place) = solved.get(&s)?;
                Some(format!("`{s}` is {value} by {place}"))
            });
            let source: Vec<_> = source.collect();
            let because = if source.is_empty() {
                String::new()
            } else {
                format!(": {}", source.join(", "))
            };
            errors.push(ShapeError::Extent {
                name: axis.name.to_string(),
                axis: axis.axis,
                extent: axis.extent.to_string(),
                expected,
                given: axis.given,
                because,
            });
        }
    }
    if errors.is_empty() {
        return Ok(dims);
    }
    let agreed = |error: &BindError| {
        let at = error.at();
        !at.is_empty() && at.iter().all(|(dim, _)| !disputed.contains(dim))
    };
    let more = graph.bind(&dims).err().into_iter().flatten();
    errors.extend(more.filter(agreed).map(ShapeError::Dims));
    Err(Error::Shapes(errors))
}

/// One axis of a given tensor.
struct Axis<'a> {
    name: &'a str,
    axis: usize,
    extent: &'a Dim,
    given: usize,
}

impl Axis<'_> {
    /// What no `i64` holds is too large for any tensor, and reported as such.
    fn number(&self) -> i64 {
        i64::try_from(self.given).unwrap_or(i64::MAX)
    }

    fn place(&self) -> String {
        format!("axis {} of `{}`", self.axis, self.name)
    }

    /// `extent = a·S + b` with one unsolved symbol S → its value, if that is a whole number.
    fn linear(&self, solved: &dyn Fn(&str) -> Option<i64>) -> Option<(Arc<str>, i64)> {
        let mut open = self
            .extent
            .symbols()
            .into_iter()
            .filter(|s| solved(s).is_none());
        let symbol = open.next()?;
        if open.next().is_some() {
            return None;
        }
        let at = |x: i64| {
            self.extent
                .eval(&|s| if *s == *symbol { Some(x) } else { solved(s) })
                .ok()
        };
        let (b, a) = (at(0)?, at(1)?.checked_sub(at(0)?)?);
        let given = self.number();
        let scaled = given.checked_sub(b)?;
        let value = scaled.checked_div(a)?;
        (at(value)? == given).then_some((symbol, value))
    }
}

/// The dims in a shape.
fn symbols(node: &Node) -> impl Iterator<Item = Arc<str>> + '_ {
    node.shape.iter().flat_map(Dim::symbols)
}

/// `f32[B, S]`
fn declaration(node: &Node) -> String {
    let shape: Vec<String> = node.shape.iter().map(Dim::to_string).collect();
    format!("{}[{}]", node.dtype, shape.join(", "))
}
