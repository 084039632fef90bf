//! Aggregations whose partial results are records: a user's `agg`, and `softmax_sum`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use super::agg::AggRow;
use super::{Agg, DType, Expr, Value};

/// An aggregation over records of scalars. `lift` makes the record of one element, `merge` that of
/// two, `finish` the result of one. `merge` is taken to be associative and commutative, with the
/// identities as its neutral record; so it may be split over devices.
///
/// Its expressions read numbered operands ([`Expr::Operand`]) instead of tensors: `lift` the
/// arguments, `merge` the components of its two records (those of the second after those of the
/// first), `finish` the components.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecordAgg {
    /// As written.
    pub name: Arc<str>,
    /// Element types of the arguments.
    pub args: Vec<DType>,
    /// The components of the record.
    pub state: Vec<Component>,
    /// The result of a record.
    pub finish: Expr,
    /// Element type of the result.
    pub dtype: DType,
}

/// A component of a [`RecordAgg`]'s record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    /// As written.
    pub name: Arc<str>,
    /// Its element type.
    pub dtype: DType,
    /// Its value in the record of no element.
    pub identity: Value,
    /// Its value in the record of one element.
    pub lift: Expr,
    /// Its value in the record of two records.
    pub merge: Expr,
}

impl RecordAgg {
    /// Without the components that the result does not need.
    pub fn pruned(mut self) -> RecordAgg {
        let count = self.state.len();
        let mut needed = BTreeSet::new();
        operands(&self.finish, &mut needed);
        loop {
            let before = needed.len();
            for c in needed.clone() {
                let mut read = BTreeSet::new();
                operands(&self.state[c].merge, &mut read);
                needed.extend(read.into_iter().map(|n| n % count));
            }
            if needed.len() == before {
                break;
            }
        }
        if needed.is_empty() {
            // A record has a component.
            needed.insert(0);
        }
        let place = |n: usize| needed.iter().position(|&c| c == n).unwrap_or(0);
        let kept = needed.len();
        let renumber = |e: Expr| {
            e.map(&mut |x| match x {
                Expr::Operand(n) => Expr::Operand(n / count * kept + place(n % count)),
                other => other,
            })
        };
        self.finish = renumber(self.finish);
        let state = self.state.into_iter().enumerate();
        self.state = state
            .filter(|(n, _)| needed.contains(n))
            .map(|(_, c)| Component {
                merge: renumber(c.merge),
                ..c
            })
            .collect();
        self
    }

    /// Do its expressions fit each other: numbers of operands, element types, nothing but scalars?
    pub(crate) fn fits(&self) -> bool {
        let state: Vec<DType> = self.state.iter().map(|c| c.dtype).collect();
        let both = [&state[..], &state].concat();
        let is = |e: &Expr, over: &[DType], dtype: DType| {
            let mut scalar = true;
            e.visit(&mut |x| {
                scalar &= !matches!(
                    x,
                    Expr::Slot(..) | Expr::Index(_) | Expr::Dim(_) | Expr::Tuple(_) | Expr::Fold(_)
                );
            });
            scalar && e.dtype(&|n| over.get(n).copied()) == Some(dtype)
        };
        let component = |c: &Component| {
            is(&c.lift, &self.args, c.dtype)
                && is(&c.merge, &both, c.dtype)
                && c.identity == c.identity.cast(c.dtype)
        };
        !self.args.is_empty()
            && !self.state.is_empty()
            && self.state.iter().all(component)
            && is(&self.finish, &state, self.dtype)
    }

    /// Per component, the arguments that its lift or that of a component which its merge reads
    /// depends on.
    pub(crate) fn sources(&self) -> Vec<BTreeSet<usize>> {
        let count = self.state.len();
        let mut all: Vec<BTreeSet<usize>> = (self.state.iter())
            .map(|c| {
                let mut read = BTreeSet::new();
                operands(&c.lift, &mut read);
                read
            })
            .collect();
        loop {
            let before = all.clone();
            for (at, c) in self.state.iter().enumerate() {
                let mut read = BTreeSet::new();
                operands(&c.merge, &mut read);
                for n in read {
                    let more = before[n % count].clone();
                    all[at].extend(more);
                }
            }
            if all == before {
                return all;
            }
        }
    }
}

/// Numbers of the operands that an expression reads.
fn operands(e: &Expr, out: &mut BTreeSet<usize>) {
    e.visit(&mut |x| {
        if let Expr::Operand(n) = x {
            out.insert(*n);
        }
    });
}

/// A ⊕: a row of THE table, or one over records.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Aggregation {
    /// A row of [`super::agg::AGGS`].
    Row(Agg),
    /// One over records.
    Record(Arc<RecordAgg>),
}

impl Aggregation {
    /// The row of the table, if it is one.
    pub fn row(&self) -> Option<&'static AggRow> {
        match self {
            Aggregation::Row(agg) => Some(agg.row()),
            Aggregation::Record(_) => None,
        }
    }

    /// The record aggregation, if it is one.
    pub fn record(&self) -> Option<&Arc<RecordAgg>> {
        match self {
            Aggregation::Row(_) => None,
            Aggregation::Record(record) => Some(record),
        }
    }

    /// May it be split over devices?
    pub fn splits(&self) -> bool {
        self.row().is_none_or(|row| row.splits)
    }

    /// Is the result the position of an element?
    pub fn selects(&self) -> bool {
        self.row().is_some_and(|row| row.selects)
    }

    /// As written.
    pub fn name(&self) -> &str {
        match self {
            Aggregation::Row(agg) => agg.name(),
            Aggregation::Record(record) => &record.name,
        }
    }
}

impl From<Agg> for Aggregation {
    fn from(agg: Agg) -> Aggregation {
        Aggregation::Row(agg)
    }
}

impl PartialEq<Agg> for Aggregation {
    fn eq(&self, other: &Agg) -> bool {
        matches!(self, Aggregation::Row(agg) if agg == other)
    }
}

impl fmt::Debug for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
