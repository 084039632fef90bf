//! The EinSum: `Out[ℓZ] ← ⊕ over ℓagg of ⊗(X[ℓX], Y[ℓY], …)` (EinDecomp, arXiv 2410.02682, §3).

use std::ops::Deref;
use std::sync::Arc;

use super::{Agg, DType, Dim, Expr, Value};
use crate::graph::NodeId;

/// An index of one EinSum: its position in [`EinSumSpec::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelId(pub u16);

impl LabelId {
    /// As a position in [`EinSumSpec::labels`].
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// An index: name and extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// As written; for people, never for identity.
    pub name: Arc<str>,
    /// How many values it runs over.
    pub extent: Dim,
}

/// How one operand is read: one i64 index expression per axis of the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The tensor.
    pub node: NodeId,
    /// One expression per axis, over indices, dims, literals and *earlier* operands (a gather).
    pub index: Vec<Expr>,
    /// The value where an index is out of range; without it that is an error.
    pub otherwise: Option<Value>,
}

/// The ⊕ of an EinSum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// Which aggregation.
    pub agg: Agg,
    /// The reduced labels, in canonical label order.
    pub labels: Vec<LabelId>,
    /// Element type of partial results.
    pub acc: DType,
    /// Only points where this bool holds take part (`where`).
    pub filter: Option<Expr>,
}

/// The parts of an [`EinSum`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EinSumSpec {
    /// Every index: those of the output in output order, then the reduced ones. This order is
    /// the vertex's canonical label order: keys and fold order follow it.
    pub labels: Vec<Label>,
    /// Labels of each output axis; more than one is a merged axis, the last one running fastest.
    pub out: Vec<Vec<LabelId>>,
    /// The aggregation, iff there are reduced labels.
    pub reduce: Option<Reduce>,
    /// What is read.
    pub operands: Vec<Operand>,
    /// The ⊗.
    pub body: Expr,
    /// Stored element type of the result.
    pub dtype: DType,
}

/// A checked [`EinSumSpec`]; fields are read through `Deref`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EinSum(EinSumSpec);

/// Why an [`EinSumSpec`] is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EinSumError {
    /// A label number past the end of the list.
    #[error("label number {0} does not exist")]
    NoLabel(u16),
    /// An operand number past the end, or not before the access that gathers through it.
    #[error("operand number {0} does not exist here")]
    NoOperand(usize),
    /// A label that is in no output axis and not reduced, or in two places.
    #[error("index `{0}` must be exactly once in the output or among the reduced indices")]
    LabelUse(Arc<str>),
    /// The labels are not listed as output order, then reduced order.
    #[error("the labels are not in canonical order: output, then reduced")]
    LabelOrder,
    /// An aggregation without reduced labels.
    #[error("`{0}` reduces no index")]
    EmptyReduce(Agg),
    /// `argmax`/`argmin` over several indices.
    #[error("`{0}` takes exactly one index")]
    SelectsOne(Agg),
    /// A surface form such as `mean`, which is lowered before.
    #[error("`{0}` is lowered to other aggregations before it gets here")]
    Derived(Agg),
}

impl EinSum {
    /// Checks the parts that need no graph: labels and operand numbers.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn new(spec: EinSumSpec) -> Result<EinSum, EinSumError> {
        let labels = spec.labels.len();
        let label = |l: LabelId| {
            if l.at() < labels {
                Ok(())
            } else {
                Err(EinSumError::NoLabel(l.0))
            }
        };
        let reduced: &[LabelId] = spec.reduce.as_ref().map_or(&[], |r| &r.labels);
        let order: Vec<LabelId> = spec.out.iter().flatten().chain(reduced).copied().collect();
        order.iter().try_for_each(|&l| label(l))?;
        for (at, l) in spec.labels.iter().enumerate() {
            if order.iter().filter(|o| o.at() == at).count() != 1 {
                return Err(EinSumError::LabelUse(l.name.clone()));
            }
        }
        if order.iter().enumerate().any(|(at, l)| l.at() != at) {
            return Err(EinSumError::LabelOrder);
        }
        let check = |e: &Expr, operands: usize| {
            let mut result = Ok(());
            e.visit(&mut |e| match e {
                Expr::Operand(n) if *n >= operands => result = Err(EinSumError::NoOperand(*n)),
                Expr::Index(l) if l.at() >= labels => result = Err(EinSumError::NoLabel(l.0)),
                _ => {}
            });
            result
        };
        for (n, operand) in spec.operands.iter().enumerate() {
            operand.index.iter().try_for_each(|e| check(e, n))?;
        }
        check(&spec.body, spec.operands.len())?;
        if let Some(r) = &spec.reduce {
            r.filter
                .iter()
                .try_for_each(|e| check(e, spec.operands.len()))?;
            if r.labels.is_empty() {
                return Err(EinSumError::EmptyReduce(r.agg));
            }
            if r.agg.row().selects && r.labels.len() != 1 {
                return Err(EinSumError::SelectsOne(r.agg));
            }
            if r.agg.row().derived {
                return Err(EinSumError::Derived(r.agg));
            }
        }
        Ok(EinSum(spec))
    }

    /// The parts, to build another one from.
    pub fn into_spec(self) -> EinSumSpec {
        self.0
    }

    /// Is the label in the output?
    pub fn is_output(&self, label: LabelId) -> bool {
        self.out.iter().flatten().any(|&l| l == label)
    }

    /// Extents of the output's axes.
    pub fn shape(&self) -> Vec<Dim> {
        let extent = |l: &LabelId| &self.labels[l.at()].extent;
        self.out
            .iter()
            .map(|axis| Dim::product(axis.iter().map(extent)))
            .collect()
    }
}

impl Deref for EinSum {
    type Target = EinSumSpec;
    fn deref(&self) -> &EinSumSpec {
        &self.0
    }
}
