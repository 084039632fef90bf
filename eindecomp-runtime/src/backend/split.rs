//! A vertex in parts: reductions inside its expressions, and the parts of a `softmax_sum`, as statements
//! of their own. What every backend compiles.

use std::collections::BTreeSet;
use std::sync::Arc;

use eindecomp_core::ein::access::{AccessMap, AxisAccess, affine};
use eindecomp_core::ein::einsum::Part;
use eindecomp_core::ein::{
    Agg, DType, EinSum, EinSumSpec, Expr, Fold, LabelId, Operand, Reduce, ScalarFn, Value,
};
use eindecomp_core::graph::{BoundGraph, NodeId};

use super::error::KernelError;
use super::program::stays_inside;

/// What a kernel knows of an operand's tensor.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    pub(super) name: Arc<str>,
}

/// What a kernel is compiled from.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) einsum: EinSum,
    /// Extents of the labels.
    pub(super) extents: Vec<usize>,
    pub(super) operands: Vec<Tensor>,
    pub(super) name: Arc<str>,
}

impl Statement {
    /// A vertex.
    ///
    /// # Errors
    /// [`KernelError::Input`].
    pub(super) fn of(graph: &BoundGraph, node: NodeId) -> Result<Statement, KernelError> {
        let vertex = graph.node(node);
        let einsum = vertex.einsum().ok_or(KernelError::Input(node))?;
        let tensor = |o: &Operand| Tensor {
            shape: graph.shape(o.node).to_vec(),
            dtype: graph.node(o.node).dtype,
            name: graph.node(o.node).name.clone(),
        };
        Ok(Statement {
            operands: einsum.operands.iter().map(tensor).collect(),
            einsum: einsum.clone(),
            extents: graph.label_extents(node).to_vec(),
            name: vertex.name.clone(),
        })
    }

    /// How its operands are read.
    ///
    /// # Errors
    /// [`KernelError::Index`].
    pub(super) fn maps(&self) -> Result<Vec<AccessMap>, KernelError> {
        let maps: Vec<AccessMap> = self.einsum.operands.iter().map(AccessMap::of).collect();
        for (map, operand) in maps.iter().zip(&self.operands) {
            if let Some(axis) = map.axes.iter().position(|a| !is_small(a, &self.extents)) {
                let tensor = operand.name.clone();
                return Err(KernelError::Index { tensor, axis });
            }
        }
        Ok(maps)
    }
}

/// Do the values of an affine index stay so small that no place computed from them overflows?
fn is_small(axis: &AxisAccess, extents: &[usize]) -> bool {
    let AxisAccess::Affine { terms, offset } = axis else {
        return true;
    };
    let largest = |&(l, c): &(LabelId, i64)| u128::from(c.unsigned_abs()) * extents[l.at()] as u128;
    let sum: u128 = terms.iter().map(largest).sum();
    sum + u128::from(offset.unsigned_abs()) <= 1 << 32
}

/// Of a reduction over records: per component, its labels, and those that every component has, which are
/// the slowest axes of every component's array.
pub(super) fn record_labels(e: &EinSum) -> (Vec<Vec<LabelId>>, Vec<LabelId>) {
    let carried = |part: Part| {
        let axes = e.out.iter().zip(part.axes).filter(|(_, carried)| *carried);
        axes.flat_map(|(axis, _)| axis).copied().collect::<Vec<_>>()
    };
    let mut labels: Vec<Vec<LabelId>> = e.parts().into_iter().map(carried).collect();
    let everywhere = |l: &LabelId| labels.iter().all(|of| of.contains(l));
    let out = e.out.iter().flatten().copied();
    let rows: Vec<LabelId> = out.filter(everywhere).collect();
    for of in &mut labels {
        of.sort_by_key(|l| !rows.contains(l));
    }
    (labels, rows)
}

/// A part of a vertex as a statement of its own, with one axis per label.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) statement: Statement,
    /// The labels of the whole vertex that its own stand for.
    pub(super) labels: Vec<LabelId>,
    /// How many of them are axes of the result.
    pub(super) axes: usize,
    /// The operands of the whole vertex that its own stand for.
    pub(super) reads: Vec<usize>,
}

impl Inner {
    /// `body` of `of` at every point of `out`, reduced or not.
    pub(super) fn new(
        of: &Statement,
        out: Vec<LabelId>,
        reduce: Option<&Reduce>,
        body: &Expr,
        dtype: DType,
    ) -> Result<Inner, KernelError> {
        let (e, operands) = (&of.einsum, &of.operands);
        let axes = out.len();
        let filter = reduce.and_then(|r| r.filter.as_ref());
        let mut labels = out;
        labels.extend(reduce.iter().flat_map(|r| &r.labels));
        let mut used = BTreeSet::new();
        for x in filter.into_iter().chain([body]) {
            x.visit(&mut |x| {
                if let Expr::Fold(f) = x {
                    labels.extend(&f.reduce.labels);
                }
            });
            reads(&e.operands, x, &mut used);
        }
        let used: Vec<usize> = used.into_iter().collect();
        let label = |l: LabelId| {
            let at = labels.iter().position(|&known| known == l);
            LabelId(at.unwrap_or(labels.len()) as u16)
        };
        let operand = |n: usize| used.iter().position(|&u| u == n).unwrap_or(used.len());
        let translate = |x: &Expr| {
            x.clone().map(&mut |x| match x {
                Expr::Index(l) => Expr::Index(label(l)),
                Expr::Operand(n) => Expr::Operand(operand(n)),
                Expr::Fold(mut f) => {
                    f.reduce.labels.iter_mut().for_each(|l| *l = label(*l));
                    Expr::Fold(f)
                }
                other => other,
            })
        };
        let spec = EinSumSpec {
            labels: labels.iter().map(|l| e.labels[l.at()].clone()).collect(),
            out: (0..axes as u16).map(|l| vec![LabelId(l)]).collect(),
            reduce: reduce.map(|r| Reduce {
                agg: r.agg.clone(),
                labels: r.labels.iter().map(|&l| label(l)).collect(),
                acc: r.acc,
                filter: r.filter.as_ref().map(translate),
            }),
            operands: (used.iter())
                .map(|&n| Operand {
                    node: NodeId(0),
                    index: e.operands[n].index.iter().map(translate).collect(),
                    otherwise: e.operands[n].otherwise,
                })
                .collect(),
            body: translate(body),
            dtype,
        };
        let einsum = EinSum::new(spec).map_err(|_| KernelError::DType)?;
        let tensors = used.iter().map(|&n| operands[n].clone()).collect();
        Ok(Inner {
            statement: Statement {
                extents: labels.iter().map(|l| of.extents[l.at()]).collect(),
                operands: tensors,
                name: "".into(),
                einsum,
            },
            labels,
            axes,
            reads: used,
        })
    }
}

/// Numbers of the operands that an expression reads, also to know where others are read.
fn reads(operands: &[Operand], x: &Expr, used: &mut BTreeSet<usize>) {
    x.visit(&mut |x| {
        if let Expr::Operand(n) = x
            && used.insert(*n)
        {
            operands[*n]
                .index
                .iter()
                .for_each(|i| reads(operands, i, used));
        }
    });
}

/// A vertex whose inner folds run first.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) inner: Vec<Inner>,
    pub(super) rest: Statement,
    /// What the rest reads of the operands and, numbered after them, the results of the inner folds.
    pub(super) kept: Vec<usize>,
}

impl Split {
    /// `None` if there is no fold inside.
    pub(super) fn of(statement: &Statement) -> Result<Option<Split>, KernelError> {
        let Statement {
            einsum: e,
            extents,
            operands,
            name,
        } = statement;
        let mut folds = Folds {
            e,
            extents,
            operands,
            found: Vec::new(),
        };
        let mut spec = e.clone().into_spec();
        if let Some(r) = &mut spec.reduce {
            r.filter = r.filter.take().map(|f| folds.take(f, None));
        }
        let filter = e.reduce.as_ref().and_then(|r| r.filter.clone());
        spec.body = folds.take(spec.body, filter);
        let found = folds.found;
        if found.is_empty() {
            return Ok(None);
        }
        let outer = spec.out.iter().map(Vec::len).sum::<usize>()
            + spec.reduce.as_ref().map_or(0, |r| r.labels.len());
        spec.labels.truncate(outer);
        let mut tensors = operands.clone();
        let mut inner = Vec::new();
        for (axes, fold) in found {
            let dtype = match fold.reduce.agg.selects() {
                true => DType::I64,
                false => fold.reduce.acc,
            };
            spec.operands.push(Operand {
                node: NodeId(0),
                index: axes.iter().map(|&l| Expr::Index(l)).collect(),
                otherwise: None,
            });
            tensors.push(Tensor {
                shape: axes.iter().map(|l| extents[l.at()]).collect(),
                dtype,
                name: name.clone(),
            });
            let reduce = Some(&fold.reduce);
            inner.push(Inner::new(statement, axes, reduce, &fold.body, dtype)?);
        }
        // Operands that only folds read are not read any more.
        let mut used = BTreeSet::new();
        let filter = spec.reduce.as_ref().and_then(|r| r.filter.as_ref());
        for x in filter.into_iter().chain([&spec.body]) {
            reads(&spec.operands, x, &mut used);
        }
        let kept: Vec<usize> = used.into_iter().collect();
        fn renumber(x: Expr, kept: &[usize]) -> Expr {
            x.map(&mut |x| match x {
                Expr::Operand(n) => {
                    let at = kept.iter().position(|&u| u == n);
                    Expr::Operand(at.unwrap_or(kept.len()))
                }
                other => other,
            })
        }
        spec.body = renumber(spec.body, &kept);
        if let Some(r) = &mut spec.reduce {
            r.filter = r.filter.take().map(|f| renumber(f, &kept));
        }
        let all = std::mem::take(&mut spec.operands);
        for &n in &kept {
            let Operand { index, .. } = all[n].clone();
            spec.operands.push(Operand {
                index: index.into_iter().map(|i| renumber(i, &kept)).collect(),
                ..all[n]
            });
        }
        let rest = Statement {
            operands: kept.iter().map(|&n| tensors[n].clone()).collect(),
            einsum: EinSum::new(spec).map_err(|_| KernelError::DType)?,
            extents: extents[..outer].to_vec(),
            name: name.clone(),
        };
        Ok(Some(Split { inner, rest, kept }))
    }
}

/// Takes folds out of expressions.
struct Folds<'a> {
    e: &'a EinSum,
    extents: &'a [usize],
    operands: &'a [Tensor],
    /// The labels that each depends on, and the fold.
    found: Vec<(Vec<LabelId>, Fold)>,
}

impl Folds<'_> {
    /// The expression with operands in place of its folds; `guard` holds where it is needed.
    fn take(&mut self, x: Expr, guard: Option<Expr>) -> Expr {
        let and = |guard: &Option<Expr>, cond: Expr| match guard {
            None => Some(cond),
            Some(g) => Some(Expr::call(ScalarFn::AND, [g.clone(), cond])),
        };
        match x {
            Expr::Fold(fold) => self.fold(*fold, guard),
            Expr::Call(f, args) => {
                let mut inner = guard.clone();
                let mut made = Vec::with_capacity(args.len());
                for arg in args {
                    made.push(self.take(arg.clone(), inner.clone()));
                    match f {
                        ScalarFn::AND => inner = and(&guard, arg),
                        ScalarFn::OR => inner = and(&guard, Expr::call(ScalarFn::NOT, [arg])),
                        _ => {}
                    }
                }
                Expr::Call(f, made)
            }
            Expr::Cast(d, inner) => Expr::Cast(d, Box::new(self.take(*inner, guard))),
            Expr::Tuple(items) => {
                let taken = items.into_iter().map(|x| self.take(x, guard.clone()));
                Expr::Tuple(taken.collect())
            }
            Expr::If(c, a, b) => {
                let not = Expr::call(ScalarFn::NOT, [(*c).clone()]);
                let (yes, no) = (and(&guard, (*c).clone()), and(&guard, not));
                let c = self.take(*c, guard);
                let (a, b) = (self.take(*a, yes), self.take(*b, no));
                Expr::If(Box::new(c), Box::new(a), Box::new(b))
            }
            leaf => leaf,
        }
    }

    fn fold(&mut self, mut fold: Fold, guard: Option<Expr>) -> Expr {
        // Outside of its `if`, it would read what the `if` keeps it from reading.
        if let Some(guard) = guard.filter(|_| self.may_miss(&fold)) {
            let filter = fold.reduce.filter.take();
            fold.reduce.filter = Some(match filter {
                None => guard,
                Some(own) => Expr::call(ScalarFn::AND, [guard, own]),
            });
        }
        let mut labels = self.e.labels_of(&fold.body);
        if let Some(filter) = &fold.reduce.filter {
            labels.extend(self.e.labels_of(filter));
        }
        labels.retain(|&l| !self.e.is_inner(l));
        let at = self.operands.len() + self.found.len();
        self.found.push((labels.into_iter().collect(), fold));
        Expr::Operand(at)
    }

    /// May some access be out of range, without a value there?
    fn may_miss(&self, fold: &Fold) -> bool {
        let mut used = BTreeSet::new();
        reads(&self.e.operands, &fold.body, &mut used);
        used.into_iter().any(|n| {
            let (operand, shape) = (&self.e.operands[n], &self.operands[n].shape);
            let inside = |(x, &extent): (&Expr, &usize)| {
                affine(x).is_some_and(|(t, o)| stays_inside(&t, o, self.extents, extent))
            };
            operand.otherwise.is_none() && !operand.index.iter().zip(shape).all(inside)
        })
    }
}

/// A `softmax_sum` in f32 or f64: scores, and what they weigh.
#[derive(Debug)]
pub(super) struct SoftmaxParts {
    /// Over the labels of the maximum, then the reduced ones.
    pub(super) score: Inner,
    /// Σ weight · value, over the labels of the sum of values; the weights are the last operand.
    pub(super) weigh: Inner,
    pub(super) filter: Option<FilterParts>,
    pub(super) reduced: Vec<LabelId>,
    pub(super) dtype: DType,
}

/// What a condition on the reduced range adds.
#[derive(Debug)]
pub(super) struct FilterParts {
    /// Over the labels of the scores.
    pub(super) mask: Inner,
    /// `weigh` over everything: the same while what is left out, whose weight is 0, is finite.
    pub(super) quick: Inner,
}

impl SoftmaxParts {
    /// `labels` are those of maximum, sum of weights and sum of values; `weights` is the element type in which
    /// weights are stored.
    pub(super) fn new(
        statement: &Statement,
        labels: &[Vec<LabelId>],
        weights: DType,
    ) -> Result<SoftmaxParts, KernelError> {
        let Statement {
            einsum: e,
            extents,
            operands,
            ..
        } = statement;
        let (Some(reduce), [score, value], [rows, _, values]) =
            (&e.reduce, e.body.arguments(), labels)
        else {
            return Err(KernelError::DType);
        };
        let dtype = reduce.acc;
        let points: Vec<LabelId> = rows.iter().chain(&reduce.labels).copied().collect();
        let score = match &reduce.filter {
            None => score.clone(),
            Some(filter) => {
                let never = Expr::Const(Value::Float(f64::NEG_INFINITY), dtype);
                let score = Box::new(score.clone());
                Expr::If(Box::new(filter.clone()), score, Box::new(never))
            }
        };
        let mut spec = e.clone().into_spec();
        let mut tensors = operands.clone();
        spec.operands.push(Operand {
            node: NodeId(0),
            index: points.iter().map(|&l| Expr::Index(l)).collect(),
            otherwise: None,
        });
        tensors.push(Tensor {
            shape: points.iter().map(|l| extents[l.at()]).collect(),
            dtype: weights,
            name: "".into(),
        });
        let weighed = Expr::call(
            ScalarFn::MUL,
            [Expr::Operand(operands.len()), value.clone()],
        );
        let sum = Reduce {
            agg: Agg::SUM.into(),
            ..reduce.clone()
        };
        let with_weights = Statement {
            einsum: EinSum::new(spec).map_err(|_| KernelError::DType)?,
            extents: extents.clone(),
            operands: tensors,
            name: "".into(),
        };
        let weigh = |sum: &Reduce| {
            let values = values.clone();
            Inner::new(&with_weights, values, Some(sum), &weighed, dtype)
        };
        let filter = match &reduce.filter {
            None => None,
            Some(filter) => Some(FilterParts {
                mask: Inner::new(statement, points.clone(), None, filter, DType::Bool)?,
                quick: weigh(&Reduce {
                    filter: None,
                    ..sum.clone()
                })?,
            }),
        };
        Ok(SoftmaxParts {
            score: Inner::new(statement, points, None, &score, dtype)?,
            weigh: weigh(&sum)?,
            filter,
            reduced: reduce.labels.clone(),
            dtype,
        })
    }
}
