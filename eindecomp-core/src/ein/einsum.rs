//! The EinSum: `Out[ℓZ] ← ⊕ over ℓagg of ⊗(X[ℓX], Y[ℓY], …)` (EinDecomp, arXiv 2410.02682, §3).

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use super::{Agg, Aggregation, DType, Dim, Expr, Opaque, ScalarFn, Value};
use crate::graph::NodeId;
use crate::plan::layout::Region;

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
    pub agg: Aggregation,
    /// The reduced labels, in canonical label order.
    pub labels: Vec<LabelId>,
    /// Element type of partial results; of a record aggregation, that of its result.
    pub acc: DType,
    /// Only points where this bool holds take part (`where`).
    pub filter: Option<Expr>,
}

impl Reduce {
    /// Element type of the result of reducing `body`; `None` if it does not fit the aggregation.
    pub(crate) fn result(
        &self,
        body: &Expr,
        operands: &dyn Fn(usize) -> Option<DType>,
    ) -> Option<DType> {
        match &self.agg {
            Aggregation::Row(agg) => {
                let row = agg.row();
                let body = body.dtype(operands)?;
                let fits = !row.boolean || body == DType::Bool;
                let result = if row.selects { DType::I64 } else { self.acc };
                fits.then_some(result)
            }
            Aggregation::Record(record) => {
                let Expr::Tuple(given) = body else {
                    return None;
                };
                let given = given.iter().map(|a| a.dtype(operands));
                let wanted = record.args.iter().copied().map(Some);
                (given.eq(wanted) && self.acc == record.dtype).then_some(record.dtype)
            }
        }
    }
}

/// A part of a partial result: a whole one, or a component of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Element type.
    pub dtype: DType,
    /// Which axes of the output it has; the others have one element in it.
    pub axes: Vec<bool>,
}

impl Part {
    /// The result as stored.
    pub fn whole(e: &EinSum) -> Part {
        Part {
            dtype: e.dtype,
            axes: vec![true; e.out.len()],
        }
    }

    /// Its box in a partial result for a box of the output.
    pub fn region(&self, output: &Region) -> Region {
        let axis = |(&range, &carried): (&(usize, usize), &bool)| match carried {
            true => range,
            false => (0, 1),
        };
        if output.is_empty() {
            return output.clone();
        }
        Region(output.0.iter().zip(&self.axes).map(axis).collect())
    }
}

/// The parts of an [`EinSum`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EinSumSpec {
    /// Every index: those of the output in output order, then the reduced ones, then those of
    /// [`Expr::Fold`]s as they are read (or, of an opaque kernel, those that only operands have).
    /// This order is the vertex's canonical label order: keys and fold order follow it.
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

impl EinSumSpec {
    /// Per operand, the labels that its place depends on.
    fn operand_labels(&self) -> Vec<BTreeSet<LabelId>> {
        let mut all: Vec<BTreeSet<LabelId>> = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            let mut of = BTreeSet::new();
            operand.index.iter().for_each(|e| labels(e, &all, &mut of));
            all.push(of);
        }
        all
    }
}

/// A checked [`EinSumSpec`]; fields are read through `Deref`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EinSum(Box<EinSumSpec>);

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
    /// The labels are not listed as output order, then reduced order, then those of inner folds.
    #[error("the labels are not in canonical order: output, then reduced, then inner")]
    LabelOrder,
    /// An index outside of the inner reduction that it belongs to.
    #[error("index `{0}` is used outside of its reduction")]
    Scope(Arc<str>),
    /// A record aggregation whose parts do not fit each other, or its arguments.
    #[error("the parts of aggregation `{0}` do not fit")]
    Record(Arc<str>),
    /// An aggregation without reduced labels.
    #[error("`{0}` reduces no index")]
    EmptyReduce(Arc<str>),
    /// `argmax`/`argmin` over several indices.
    #[error("`{0}` takes exactly one index")]
    SelectsOne(Agg),
    /// An opaque kernel that breaks a rule of its own.
    #[error("an opaque kernel {0}")]
    Opaque(&'static str),
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
        let mut order: Vec<LabelId> = spec.out.iter().flatten().chain(reduced).copied().collect();
        let outer = order.len();
        let filter = spec.reduce.as_ref().and_then(|r| r.filter.as_ref());
        for e in filter.into_iter().chain([&spec.body]) {
            e.visit(&mut |e| {
                if let Expr::Fold(f) = e {
                    order.extend(&f.reduce.labels);
                }
            });
        }
        if let Expr::Opaque(opaque) = &spec.body {
            check_opaque(&spec, opaque).map_err(EinSumError::Opaque)?;
            order.extend((order.len()..labels).map(|at| LabelId(at as u16)));
        }
        order.iter().try_for_each(|&l| label(l))?;
        for (at, l) in spec.labels.iter().enumerate() {
            if order.iter().filter(|o| o.at() == at).count() != 1 {
                return Err(EinSumError::LabelUse(l.name.clone()));
            }
        }
        if order.iter().enumerate().any(|(at, l)| l.at() != at) {
            return Err(EinSumError::LabelOrder);
        }
        let mut scope = vec![false; labels];
        scope[..outer].fill(true);
        // Whether the labels of an operand are in scope is checked where it is read.
        let all = vec![true; labels];
        let read = spec.operand_labels();
        for (n, operand) in spec.operands.iter().enumerate() {
            let mut index = operand.index.iter();
            index.try_for_each(|e| check(&spec, e, &read[..n], &all))?;
        }
        check(&spec, &spec.body, &read, &scope)?;
        if let Some(r) = &spec.reduce {
            if let Some(filter) = &r.filter {
                check(&spec, filter, &read, &scope)?;
            }
            r.check()?;
        }
        Ok(EinSum(Box::new(spec)))
    }

    /// Each symbol of its dims replaced by what `of` gives for it, which changes no label or operand.
    pub fn substitute(&mut self, of: &dyn Fn(&str) -> Option<Dim>) {
        let EinSumSpec {
            labels,
            operands,
            body,
            reduce,
            ..
        } = &mut *self.0;
        let extents = labels.iter_mut().map(|l| &mut l.extent);
        for extent in extents.filter(|d| d.as_const().is_none()) {
            *extent = extent.substitute(of);
        }
        let indices = operands.iter_mut().flat_map(|o| &mut o.index);
        let filter = reduce.iter_mut().flat_map(|r| &mut r.filter);
        for e in indices
            .chain(filter)
            .chain([body])
            .filter(|e| e.is_symbolic())
        {
            *e = e.clone().substitute(of);
        }
    }

    /// The opaque kernel, if the body is one.
    pub fn opaque(&self) -> Option<&Opaque> {
        match &self.body {
            Expr::Opaque(opaque) => Some(opaque),
            _ => None,
        }
    }

    /// The parts of a partial result. A component of a record has the output's axes whose labels
    /// its lift depends on, or the lift of a component that its merge reads.
    pub fn parts(&self) -> Vec<Part> {
        let Some(reduce) = &self.reduce else {
            return vec![Part::whole(self)];
        };
        let Aggregation::Record(record) = &reduce.agg else {
            return vec![Part {
                dtype: reduce.acc,
                ..Part::whole(self)
            }];
        };
        let args = self.body.arguments();
        let sources = record.sources();
        let part = |(component, of): (&super::Component, &BTreeSet<usize>)| {
            let from = of.iter().filter_map(|&n| args.get(n)).chain(&reduce.filter);
            let labels: BTreeSet<LabelId> = from.flat_map(|e| self.labels_of(e)).collect();
            Part {
                dtype: component.dtype,
                axes: (self.out.iter())
                    .map(|axis| axis.iter().any(|l| labels.contains(l)))
                    .collect(),
            }
        };
        record.state.iter().zip(&sources).map(part).collect()
    }

    /// Labels that the value of an expression depends on, those of its inner folds included.
    pub fn labels_of(&self, e: &Expr) -> BTreeSet<LabelId> {
        let mut out = BTreeSet::new();
        labels(e, &self.operand_labels(), &mut out);
        out
    }

    /// The parts, to build another one from.
    pub fn into_spec(self) -> EinSumSpec {
        *self.0
    }

    /// Is the label in the output?
    pub fn is_output(&self, label: LabelId) -> bool {
        self.out.iter().flatten().any(|&l| l == label)
    }

    /// Is the label of an inner fold?
    pub fn is_inner(&self, label: LabelId) -> bool {
        let reduced = self.reduce.as_ref().map_or(0, |r| r.labels.len());
        label.at() >= self.out.iter().map(Vec::len).sum::<usize>() + reduced
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

impl Reduce {
    /// The rules that need neither labels nor operands.
    fn check(&self) -> Result<(), EinSumError> {
        if self.labels.is_empty() {
            return Err(EinSumError::EmptyReduce(self.agg.name().into()));
        }
        match &self.agg {
            Aggregation::Row(agg) if agg.row().selects && self.labels.len() != 1 => {
                Err(EinSumError::SelectsOne(*agg))
            }
            Aggregation::Row(agg) if agg.row().derived => Err(EinSumError::Derived(*agg)),
            Aggregation::Record(record) if !record.fits() => {
                Err(EinSumError::Record(record.name.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Do labels and operands of an expression exist, and are they in scope? `read` are the labels of
/// the operands that it may read.
fn check(
    spec: &EinSumSpec,
    e: &Expr,
    read: &[BTreeSet<LabelId>],
    scope: &[bool],
) -> Result<(), EinSumError> {
    let label = |l: &LabelId| match scope.get(l.at()) {
        None => Err(EinSumError::NoLabel(l.0)),
        Some(false) => Err(EinSumError::Scope(spec.labels[l.at()].name.clone())),
        Some(true) => Ok(()),
    };
    match e {
        Expr::Operand(n) => match read.get(*n) {
            None => return Err(EinSumError::NoOperand(*n)),
            Some(labels) => labels.iter().try_for_each(label)?,
        },
        Expr::Index(l) => label(l)?,
        Expr::Opaque(_) if !std::ptr::eq(e, &spec.body) => {
            return Err(EinSumError::Opaque("is a whole body"));
        }
        Expr::Fold(f) => {
            f.reduce.check()?;
            let mut inner = scope.to_vec();
            f.reduce.labels.iter().for_each(|l| inner[l.at()] = true);
            let mut children = e.children().into_iter();
            return children.try_for_each(|c| check(spec, c, read, &inner));
        }
        _ => {}
    }
    let mut children = e.children().into_iter();
    children.try_for_each(|c| check(spec, c, read, scope))
}

/// Labels that the value of an expression depends on, given those of operands, and those of its
/// inner folds.
fn labels(e: &Expr, read: &[BTreeSet<LabelId>], out: &mut BTreeSet<LabelId>) {
    e.visit(&mut |x| match x {
        Expr::Index(l) => drop(out.insert(*l)),
        Expr::Operand(n) => out.extend(read.get(*n).into_iter().flatten()),
        _ => {}
    });
}

/// The rules of an opaque kernel: it reduces nothing, reads each axis by one index and writes each
/// by one; its splits are indices of the result, and at most once in an operand.
fn check_opaque(spec: &EinSumSpec, opaque: &Opaque) -> Result<(), &'static str> {
    let mut rules = vec![
        (spec.reduce.is_none(), "reduces nothing"),
        (
            spec.out.iter().all(|axis| axis.len() == 1),
            "has no merged axis",
        ),
        (opaque.dtype == spec.dtype, "stores its result as it is"),
        (
            opaque.splits.is_sorted_by(|a, b| a < b),
            "lists each label of its splits once, in order",
        ),
    ];
    let outputs: Vec<LabelId> = spec.out.iter().flatten().copied().collect();
    let known = opaque.splits.iter().all(|l| outputs.contains(l));
    rules.push((known, "splits only labels of the result"));
    for operand in &spec.operands {
        let axes: Option<Vec<LabelId>> = operand.index.iter().map(one_label).collect();
        let bare = operand.otherwise.is_none() && axes.is_some();
        rules.push((bare, "reads each axis by one index"));
        let axes = axes.unwrap_or_default();
        let twice = |l: &LabelId| axes.iter().filter(|a| *a == l).count() > 1;
        rules.push((
            !opaque.splits.iter().any(twice),
            "reads a label of its splits once per operand",
        ));
    }
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(rule),
        None => Ok(()),
    }
}

/// `i`, or `0 + i` where the axis is as long as the index by a clause only.
fn one_label(index: &Expr) -> Option<LabelId> {
    match index {
        Expr::Index(l) => Some(*l),
        Expr::Call(ScalarFn::ADD, args) => match args.as_slice() {
            [zero, Expr::Index(l)] if *zero == Expr::int(0) => Some(*l),
            _ => None,
        },
        _ => None,
    }
}

impl Deref for EinSum {
    type Target = EinSumSpec;
    fn deref(&self) -> &EinSumSpec {
        &self.0
    }
}
