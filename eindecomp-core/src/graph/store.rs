//! Stores: a new version of a state, equal to the version before outside a window of positions.
//!
//! A store is an ordinary EinSum over the state's own axes, by the inverse map:
//!
//! ```text
//! kc[b, pos + s] = kn[b, s]   as   if(c >= pos && c < pos + S, kn[b, c - pos], kc[b, c])
//! ```
//!
//! so that whoever computes EinSums computes stores. The [`Store`] beside it says where the window
//! is: who keeps versions in one memory writes nothing else, and a window that leaves its axis is
//! an error of the run.

use super::NodeId;
use crate::ein::{Dim, EinSum, Expr, LabelId, ScalarFn, Value};

/// What makes a vertex a new version of a state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    /// The input that the versions are of.
    pub state: NodeId,
    /// The operand that is the version before, read axis by axis.
    pub old: usize,
    /// Per axis: what is written.
    pub windows: Vec<Window>,
}

/// The positions of one axis that a store writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// No bound is known: the statement alone decides.
    All,
    /// `length` positions from `start`, an expression over operands of rank 0.
    Range {
        /// The first position.
        start: Expr,
        /// How many.
        length: Dim,
    },
    /// `length` positions from `start % extent`, going on at 0.
    Ring {
        /// The first position, before the remainder is taken.
        start: Expr,
        /// How many, at most the axis' extent.
        length: Dim,
    },
}

/// A position that a store would write outside its axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The axis, from 0.
    pub axis: usize,
    /// The position.
    pub value: i64,
}

impl Window {
    /// First position and length, unless it is [`Window::All`].
    pub fn parts(&self) -> Option<(&Expr, &Dim)> {
        match self {
            Window::All => None,
            Window::Range { start, length } | Window::Ring { start, length } => {
                Some((start, length))
            }
        }
    }

    /// How far a position of the axis is into the window.
    pub fn offset(&self, label: LabelId, extent: &Dim) -> Expr {
        let at = Expr::Index(label);
        match self {
            Window::All => at,
            Window::Range { start, .. } if *start == Expr::int(0) => at,
            Window::Range { start, .. } => Expr::call(ScalarFn::SUB, [at, start.clone()]),
            Window::Ring { start, .. } => {
                let extent = Expr::Dim(extent.clone());
                let start = Expr::call(ScalarFn::REM, [start.clone(), extent.clone()]);
                let from = Expr::call(ScalarFn::SUB, [at, start]);
                Expr::call(ScalarFn::REM, [from, extent])
            }
        }
    }

    /// Whether a position of the axis is in the window; `None` if all are.
    pub fn contains(&self, label: LabelId, extent: &Dim) -> Option<Expr> {
        let below = |length: &Dim| {
            let (offset, length) = (self.offset(label, extent), Expr::Dim(length.clone()));
            Expr::call(ScalarFn::LT, [offset, length])
        };
        match self {
            Window::All => None,
            Window::Range { start, length } => {
                let least = Expr::call(ScalarFn::GE, [Expr::Index(label), start.clone()]);
                Some(Expr::call(ScalarFn::AND, [least, below(length)]))
            }
            Window::Ring { length, .. } => Some(below(length)),
        }
    }

    pub(super) fn map(
        &self,
        expr: &mut dyn FnMut(Expr) -> Expr,
        dim: &dyn Fn(&Dim) -> Dim,
    ) -> Window {
        match self.clone() {
            Window::All => Window::All,
            Window::Range { start, length } => Window::Range {
                start: expr(start),
                length: dim(&length),
            },
            Window::Ring { start, length } => Window::Ring {
                start: expr(start),
                length: dim(&length),
            },
        }
    }
}

/// Half-open ranges of positions in one axis.
pub type Ranges = Vec<(usize, usize)>;

impl Store {
    /// Per axis the ranges of positions that are written, for the values `of` the operands of rank
    /// 0; none if nothing is.
    ///
    /// # Errors
    /// The first position that is outside its axis.
    pub fn written(
        &self,
        shape: &[usize],
        of: &dyn Fn(usize) -> i64,
    ) -> Result<Option<Vec<Ranges>>, Outside> {
        let lengths: Vec<Option<i64>> = self
            .windows
            .iter()
            .map(|w| Some(w.parts()?.1.as_const().unwrap_or(0)))
            .collect();
        if lengths.contains(&Some(0))
            || shape
                .iter()
                .zip(&lengths)
                .any(|(n, l)| *n == 0 && l.is_none())
        {
            return Ok(None);
        }
        let axis = |(axis, (window, &extent)): (usize, (&Window, &usize))| {
            let Some((start, length)) = window.parts() else {
                return Ok(vec![(0, extent)]);
            };
            let (start, length) = (evaluate(start, of), length.as_const().unwrap_or(0));
            if let Window::Ring { .. } = window {
                let (from, extent) = (start.rem_euclid(extent.max(1) as i64) as usize, extent);
                let end = from + (length as usize).min(extent);
                return Ok(match end.checked_sub(extent) {
                    None | Some(0) => vec![(from, end)],
                    Some(rest) => vec![(0, rest), (from, extent)],
                });
            }
            let end = i128::from(start) + i128::from(length);
            if start < 0 || end > extent as i128 {
                let value = if start < 0 {
                    start
                } else {
                    start.max(extent as i64)
                };
                return Err(Outside { axis, value });
            }
            Ok(vec![(start as usize, end as usize)])
        };
        let axes = self.windows.iter().zip(shape).enumerate();
        axes.map(axis).collect::<Result<_, _>>().map(Some)
    }

    /// Does the vertex do what a store does: the value before at each point outside the windows?
    pub(super) fn fits(&self, e: &EinSum) -> bool {
        let axes = e.out.iter().enumerate();
        let bare = |index: &[Expr]| {
            let each = (0..e.labels.len()).map(|l| Expr::Index(LabelId(l as u16)));
            each.eq(index.iter().cloned())
        };
        let own = e.reduce.is_none()
            && self.windows.len() == e.out.len()
            && axes
                .clone()
                .all(|(at, labels)| labels[..] == [LabelId(at as u16)])
            && e.operands.get(self.old).is_some_and(|o| bare(&o.index));
        let Expr::If(cond, _, old) = &e.body else {
            return false;
        };
        let mut conditions = Vec::new();
        conjuncts(cond, &mut conditions);
        let label = |at: usize| (LabelId(at as u16), &e.labels[at].extent);
        own && **old == Expr::Operand(self.old)
            && self.windows.iter().enumerate().all(|(at, window)| {
                let mut scalar = true;
                let start = window.parts().map(|(start, _)| start);
                start.iter().for_each(|s| {
                    s.visit(&mut |x| match x {
                        Expr::Operand(n) => {
                            scalar &= e.operands.get(*n).is_some_and(|o| o.index.is_empty())
                        }
                        Expr::Const(..) | Expr::Dim(_) | Expr::Call(..) | Expr::Cast(..) => {}
                        _ => scalar = false,
                    })
                });
                let (label, extent) = label(at);
                scalar
                    && window.contains(label, extent).is_none_or(|c| {
                        let mut needed = Vec::new();
                        conjuncts(&c, &mut needed);
                        needed.iter().all(|n| conditions.contains(n))
                    })
            })
    }
}

/// What `&&` joins.
fn conjuncts<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match e {
        Expr::Call(ScalarFn::AND, args) => args.iter().for_each(|a| conjuncts(a, out)),
        other => out.push(other),
    }
}

fn evaluate(e: &Expr, of: &dyn Fn(usize) -> i64) -> i64 {
    match e {
        Expr::Operand(n) => of(*n),
        Expr::Const(v, _) => v.as_i64(),
        Expr::Dim(d) => d.as_const().unwrap_or(0),
        Expr::Cast(to, e) => Value::Int(evaluate(e, of)).cast(*to).as_i64(),
        Expr::Call(f, args) => {
            let args: Vec<Value> = args.iter().map(|a| Value::Int(evaluate(a, of))).collect();
            f.eval(&args).map_or(0, |v| v.as_i64())
        }
        _ => 0,
    }
}
