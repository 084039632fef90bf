//! Statements as vertices.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Arg, Frame, Lower, LowerError, record};
use crate::ein::{
    Agg, DType, Dim, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn, Value,
};
use crate::graph::{NodeId, Pin};
use crate::syntax::check;
use crate::syntax::check::{Aggregation, ExprKind, Index, IndexId, Read, Statement, Sub};

/// A statement while its vertices are made.
pub(super) struct Cx<'s> {
    pub(super) statement: &'s Statement,
    name: String,
    /// Reductions that have a vertex already, with what encloses them.
    floated: Vec<(check::Reduce, Vec<Guard>, Vec<IndexId>, NodeId)>,
    /// How many vertices are named after the statement.
    parts: usize,
    /// Inside the arguments of an aggregation over records, where reductions stay.
    fused: bool,
}

/// A condition around an expression, and whether it holds there.
#[derive(Clone, PartialEq)]
pub(super) struct Guard {
    pub(super) cond: check::Expr,
    pub(super) holds: bool,
}

/// A vertex while it is made.
#[derive(Default)]
pub(super) struct Vertex {
    labels: Vec<Label>,
    /// The index of each label.
    indices: Vec<IndexId>,
    operands: Vec<Operand>,
}

impl<'s> Cx<'s> {
    pub(super) fn new(statement: &'s Statement, name: String) -> Cx<'s> {
        Cx {
            statement,
            name,
            floated: Vec::new(),
            parts: 0,
            fused: false,
        }
    }
}

impl Vertex {
    pub(super) fn labels(&self) -> &[Label] {
        &self.labels
    }

    pub(super) fn into_operands(self) -> Vec<Operand> {
        self.operands
    }

    pub(super) fn label(&self, index: IndexId) -> LabelId {
        // The last one: a fold that is read twice has labels of its own each time.
        let at = self.indices.iter().rposition(|i| *i == index);
        LabelId(at.unwrap_or(self.indices.len()) as u16)
    }

    pub(super) fn operand(&mut self, operand: Operand) -> Expr {
        let at = self
            .operands
            .iter()
            .position(|o| *o == operand)
            .unwrap_or_else(|| {
                self.operands.push(operand);
                self.operands.len() - 1
            });
        Expr::Operand(at)
    }
}

/// What an expression is for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// A value: literals go into numbered slots.
    Value,
    /// An access, extent or guard: literals are part of the key.
    Structure,
}

impl Lower<'_, '_> {
    /// The vertices of a statement; the last one is its tensor.
    pub(super) fn statement(
        &mut self,
        frame: &Frame<'_>,
        statement: &Statement,
    ) -> Result<NodeId, LowerError> {
        let body = frame.block.body.as_ref();
        let target = body.map(|b| &b.vars[statement.target.at()]);
        let dtype = target
            .and_then(|v| v.ty.tensor())
            .map_or(statement.value.dtype, |t| t.dtype);
        let name = target.map_or("_", |v| &*v.name);
        let mut cx = Cx::new(statement, format!("{}{name}", frame.prefix));
        let name: Arc<str> = cx.name.as_str().into();
        if let ExprKind::Reduce(reduce) = &statement.value.kind {
            return self.reduction(frame, &mut cx, name, &statement.left, reduce, &[], dtype);
        }
        let mut vertex = self.start(frame, &cx, statement.left.iter().flatten());
        let body = self.expr(
            frame,
            &mut cx,
            &mut vertex,
            &statement.value,
            Mode::Value,
            &mut vec![],
        )?;
        self.finish(&cx, name, vertex, &statement.left, None, body, dtype)
    }

    pub(super) fn start<'i>(
        &self,
        frame: &Frame<'_>,
        cx: &Cx<'_>,
        indices: impl Iterator<Item = &'i IndexId>,
    ) -> Vertex {
        let mut vertex = Vertex::default();
        indices.for_each(|id| self.bind(frame, cx, &mut vertex, *id));
        vertex
    }

    /// Adds a label for an index.
    pub(super) fn bind(&self, frame: &Frame<'_>, cx: &Cx<'_>, vertex: &mut Vertex, id: IndexId) {
        let Index { name, extent, .. } = &cx.statement.indices[id.at()];
        vertex.labels.push(Label {
            name: name.clone(),
            extent: self.dim(frame, extent),
        });
        vertex.indices.push(id);
    }

    #[allow(clippy::too_many_arguments)]
    fn finish(
        &mut self,
        cx: &Cx<'_>,
        name: Arc<str>,
        vertex: Vertex,
        out: &[Vec<IndexId>],
        reduce: Option<Reduce>,
        body: Expr,
        dtype: DType,
    ) -> Result<NodeId, LowerError> {
        let axis = |axis: &Vec<IndexId>| axis.iter().map(|i| vertex.label(*i)).collect();
        let out = out.iter().map(axis).collect();
        let mut pins = Vec::new();
        if cx.statement.whole {
            pins.push(Pin::Whole);
        }
        for (index, parts) in &cx.statement.split {
            if vertex.labels.iter().any(|l| l.name == *index) {
                pins.push(Pin::Split(
                    index.clone(),
                    u32::try_from(*parts).unwrap_or(u32::MAX),
                ));
            }
        }
        let Vertex {
            labels, operands, ..
        } = vertex;
        let spec = EinSumSpec {
            labels,
            out,
            reduce,
            operands,
            body,
            dtype,
        };
        self.vertex(name, spec, pins)
    }

    /// A reduction as a vertex with the axes `out`.
    #[allow(clippy::too_many_arguments)]
    fn reduction(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        name: Arc<str>,
        out: &[Vec<IndexId>],
        reduce: &check::Reduce,
        guards: &[Guard],
        dtype: DType,
    ) -> Result<NodeId, LowerError> {
        if reduce.agg == Agg::MEAN {
            return self.mean(frame, cx, name, out, reduce, guards, dtype);
        }
        let indices = out.iter().flatten().chain(&reduce.indices);
        let mut vertex = self.start(frame, cx, indices);
        let filter = match &reduce.filter {
            None => None,
            Some(f) => Some(self.expr(frame, cx, &mut vertex, f, Mode::Structure, &mut vec![])?),
        };
        let mut inside: Vec<Guard> = reduce
            .filter
            .iter()
            .map(|f| Guard {
                cond: f.clone(),
                holds: true,
            })
            .chain(guards.iter().cloned())
            .collect();
        let mut body = self.expr(
            frame,
            cx,
            &mut vertex,
            &reduce.body,
            Mode::Value,
            &mut inside,
        )?;
        let mut filter = filter;
        for guard in guards {
            let cond = self.expr(
                frame,
                cx,
                &mut vertex,
                &guard.cond,
                Mode::Structure,
                &mut vec![],
            )?;
            match &reduce.agg {
                Aggregation::Row(agg) => {
                    let dtype = reduce.body.dtype;
                    let identity = Expr::Const(agg.identity(dtype), dtype);
                    let (yes, no) = if guard.holds {
                        (body, identity)
                    } else {
                        (identity, body)
                    };
                    body = Expr::If(Box::new(cond), Box::new(yes), Box::new(no));
                }
                Aggregation::Record(..) => {
                    let cond = match guard.holds {
                        true => cond,
                        false => Expr::call(ScalarFn::NOT, [cond]),
                    };
                    filter = Some(match filter {
                        None => cond,
                        Some(filter) => Expr::call(ScalarFn::AND, [cond, filter]),
                    });
                }
            }
        }
        let labels = reduce.indices.iter().map(|i| vertex.label(*i)).collect();
        let reduce = Reduce {
            agg: record::aggregation(&reduce.agg),
            labels,
            acc: reduce.acc,
            filter,
        };
        self.finish(cx, name, vertex, out, Some(reduce), body, dtype)
    }

    /// `mean`: a sum divided by the number of elements, or of those that `where` selects.
    #[allow(clippy::too_many_arguments)]
    fn mean(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        name: Arc<str>,
        out: &[Vec<IndexId>],
        reduce: &check::Reduce,
        guards: &[Guard],
        dtype: DType,
    ) -> Result<NodeId, LowerError> {
        let acc = reduce.acc;
        let flat: Vec<Vec<IndexId>> = out.iter().flatten().map(|i| vec![*i]).collect();
        let sum = check::Reduce {
            agg: Aggregation::Row(Agg::SUM),
            ..reduce.clone()
        };
        let sum = self.reduction(
            frame,
            cx,
            format!("{name}.sum").into(),
            &flat,
            &sum,
            guards,
            acc,
        )?;
        let mut vertex = self.start(frame, cx, out.iter().flatten());
        let index = |of: &Vec<IndexId>, vertex: &Vertex| {
            of.iter()
                .map(|i| Expr::Index(vertex.label(*i)))
                .collect::<Vec<_>>()
        };
        let all: Vec<IndexId> = flat.iter().flatten().copied().collect();
        let operand = Operand {
            node: sum,
            index: index(&all, &vertex),
            otherwise: None,
        };
        let total = vertex.operand(operand);
        let count = match &reduce.filter {
            None => {
                let extents = reduce
                    .indices
                    .iter()
                    .map(|i| &cx.statement.indices[i.at()].extent);
                Expr::Dim(self.dim(frame, &Dim::product(extents)))
            }
            Some(filter) => {
                let mut used = BTreeSet::new();
                free(filter, &mut used);
                let kept: Vec<IndexId> = all.iter().copied().filter(|i| used.contains(i)).collect();
                let axes: Vec<Vec<IndexId>> = kept.iter().map(|i| vec![*i]).collect();
                let span = filter.span;
                let one = check::Expr {
                    kind: ExprKind::Lit(Value::Int(1)),
                    dtype: DType::I64,
                    span,
                };
                let ones = check::Reduce {
                    agg: Aggregation::Row(Agg::SUM),
                    body: one,
                    acc: DType::I64,
                    ..reduce.clone()
                };
                let name = format!("{name}.count").into();
                let node = self.reduction(frame, cx, name, &axes, &ones, &[], DType::I64)?;
                let operand = Operand {
                    node,
                    index: index(&kept, &vertex),
                    otherwise: None,
                };
                vertex.operand(operand)
            }
        };
        let body = Expr::call(ScalarFn::DIV, [total, Expr::Cast(acc, Box::new(count))]);
        self.finish(cx, name, vertex, out, None, body, dtype)
    }

    /// An expression of `vertex`; reductions in it get vertices of their own.
    pub(super) fn expr(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &mut Vertex,
        e: &check::Expr,
        mode: Mode,
        guards: &mut Vec<Guard>,
    ) -> Result<Expr, LowerError> {
        let dtype = e.dtype;
        Ok(match &e.kind {
            ExprKind::Lit(value) => self.literal(*value, dtype, mode),
            ExprKind::Host(var) => match &frame.vars[var.at()] {
                Some(Arg::Value(value)) => self.literal(*value, dtype, mode),
                _ => return Err(LowerError::MissingHost("_".into())),
            },
            ExprKind::Index(index) => Expr::Index(vertex.label(*index)),
            ExprKind::Dim(dim) => Expr::Dim(self.dim(frame, dim)),
            ExprKind::Cast(inner) => Expr::Cast(
                dtype,
                Box::new(self.expr(frame, cx, vertex, inner, mode, guards)?),
            ),
            ExprKind::Call(function, args) => {
                let depth = guards.len();
                let mut made = Vec::new();
                for arg in args {
                    made.push(self.expr(frame, cx, vertex, arg, mode, guards)?);
                    // The right operand is evaluated only where the left does not decide.
                    if [ScalarFn::AND, ScalarFn::OR].contains(function) {
                        guards.push(Guard {
                            cond: arg.clone(),
                            holds: *function == ScalarFn::AND,
                        });
                    }
                }
                guards.truncate(depth);
                Expr::Call(*function, made)
            }
            ExprKind::If(cond, a, b) => {
                let test = self.expr(frame, cx, vertex, cond, Mode::Structure, guards)?;
                guards.push(Guard {
                    cond: (**cond).clone(),
                    holds: true,
                });
                let yes = self.expr(frame, cx, vertex, a, mode, guards)?;
                guards.pop();
                guards.push(Guard {
                    cond: (**cond).clone(),
                    holds: false,
                });
                let no = self.expr(frame, cx, vertex, b, mode, guards)?;
                guards.pop();
                Expr::If(Box::new(test), Box::new(yes), Box::new(no))
            }
            ExprKind::Read(read) => self.read(frame, cx, vertex, read, dtype, mode, guards)?,
            ExprKind::Tuple(items) => {
                let outer = std::mem::replace(&mut cx.fused, true);
                let made = items
                    .iter()
                    .map(|e| self.expr(frame, cx, vertex, e, mode, guards));
                let made = made.collect::<Result<_, _>>();
                cx.fused = outer;
                Expr::Tuple(made?)
            }
            // Only in definitions, which are no statements.
            ExprKind::Arg(n) => Expr::Operand(*n),
            ExprKind::Reduce(reduce) if cx.fused => {
                self.fold(frame, cx, vertex, reduce, dtype, guards)?
            }
            ExprKind::Reduce(reduce) => {
                let (node, out) = self.float(frame, cx, vertex, reduce, guards, dtype)?;
                let index = out.iter().map(|i| Expr::Index(vertex.label(*i))).collect();
                vertex.operand(Operand {
                    node,
                    index,
                    otherwise: None,
                })
            }
        })
    }

    fn literal(&mut self, value: Value, dtype: DType, mode: Mode) -> Expr {
        match mode {
            Mode::Structure => Expr::Const(value, dtype),
            Mode::Value => self.builder.literal(value, dtype),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn read(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &mut Vertex,
        read: &Read,
        dtype: DType,
        mode: Mode,
        guards: &mut Vec<Guard>,
    ) -> Result<Expr, LowerError> {
        let node = match self.place(frame, &read.place) {
            Some(Arg::Tensor(node)) => node,
            Some(Arg::State(state)) => self.builder.version(state),
            Some(Arg::Value(value)) => return Ok(self.literal(value, dtype, mode)),
            _ => return Err(LowerError::NoBlock(frame.block.name.name.clone())),
        };
        let shape = self
            .builder
            .node(node)
            .map_or_else(Vec::new, |n| n.shape.clone());
        let mut index = Vec::new();
        for (sub, axis) in read.subs.iter().zip(&shape) {
            index.push(match sub {
                Sub::Merged(members, _) => self.merged(frame, cx, vertex, members),
                Sub::Mixed(mixed) => {
                    let outer = std::mem::replace(&mut cx.fused, false);
                    let made = mixed
                        .members
                        .iter()
                        .map(|e| self.expr(frame, cx, vertex, e, Mode::Structure, guards));
                    let made = made.collect::<Result<Vec<Expr>, LowerError>>();
                    cx.fused = outer;
                    let extents = mixed.extents.iter().map(|d| self.dim(frame, d));
                    horner(made?.into_iter().zip(extents))
                }
                Sub::Expr(e) => {
                    let outer = std::mem::replace(&mut cx.fused, false);
                    let at = self.expr(frame, cx, vertex, e, Mode::Structure, guards);
                    cx.fused = outer;
                    let at = at?;
                    bare(at, axis, vertex, read.otherwise.is_some())
                }
            });
        }
        Ok(vertex.operand(Operand {
            node,
            index,
            otherwise: read.otherwise,
        }))
    }

    /// `(h, e)` as `h*E + e`.
    fn merged(&self, frame: &Frame<'_>, cx: &Cx<'_>, vertex: &Vertex, members: &[IndexId]) -> Expr {
        horner(members.iter().map(|id| {
            let extent = self.dim(frame, &cx.statement.indices[id.at()].extent);
            (Expr::Index(vertex.label(*id)), extent)
        }))
    }

    /// The vertex of a reduction inside an expression, and its indices in axis order.
    fn float(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &Vertex,
        reduce: &check::Reduce,
        guards: &[Guard],
        dtype: DType,
    ) -> Result<(NodeId, Vec<IndexId>), LowerError> {
        // Outside of its `if`, the reduction would read what the `if` keeps it from reading.
        let lazy = needs_guard(&reduce.body) || reduce.filter.as_ref().is_some_and(needs_guard);
        let guards: Vec<Guard> = if lazy { guards.to_vec() } else { Vec::new() };
        let known = |f: &&(check::Reduce, Vec<Guard>, Vec<IndexId>, NodeId)| {
            f.0 == *reduce && f.1 == guards
        };
        if let Some((_, _, out, node)) = cx.floated.iter().find(known) {
            return Ok((*node, out.clone()));
        }
        let mut used = BTreeSet::new();
        free(&reduce.body, &mut used);
        reduce.filter.iter().for_each(|f| free(f, &mut used));
        guards.iter().for_each(|g| free(&g.cond, &mut used));
        // In a condition around itself, the reduction's own indices are those of the vertex. An index
        // of a fold that is read twice is there twice.
        let indices = vertex.indices.iter().copied();
        let indices = indices.filter(|i| !reduce.indices.contains(i));
        let out: Vec<IndexId> = indices.filter(|i| used.remove(i)).collect();
        cx.parts += 1;
        let name = format!("{}.{}{}", cx.name, reduce.agg, cx.parts).into();
        let axes: Vec<Vec<IndexId>> = out.iter().map(|i| vec![*i]).collect();
        let node = self.reduction(frame, cx, name, &axes, reduce, &guards, dtype)?;
        cx.floated.push((reduce.clone(), guards, out.clone(), node));
        Ok((node, out))
    }
}

/// A bare index whose extent is equal to the axis only by a clause is written `0 + i`: the two
/// are different polynomials.
fn bare(at: Expr, axis: &Dim, vertex: &Vertex, otherwise: bool) -> Expr {
    match &at {
        Expr::Index(label) if !otherwise => match vertex.labels.get(label.at()) {
            Some(l) if l.extent != *axis => Expr::call(ScalarFn::ADD, [Expr::int(0), at]),
            _ => at,
        },
        _ => at,
    }
}

/// The position in a merged axis: members with their extents, the last one running fastest.
fn horner(members: impl Iterator<Item = (Expr, Dim)>) -> Expr {
    let position = members.fold(None, |at: Option<Expr>, (member, extent)| match at {
        None => Some(member),
        Some(outer) => {
            let scaled = Expr::call(ScalarFn::MUL, [outer, Expr::Dim(extent)]);
            Some(Expr::call(ScalarFn::ADD, [scaled, member]))
        }
    });
    position.unwrap_or_else(|| Expr::int(0))
}

/// Does it read something that is in bounds only under the conditions around it?
fn needs_guard(e: &check::Expr) -> bool {
    let here = match &e.kind {
        ExprKind::Read(read) => {
            let gathers = read.subs.iter().any(|sub| match sub {
                Sub::Expr(e) => e.has_data(),
                Sub::Merged(..) => false,
                Sub::Mixed(mixed) => mixed.members.iter().any(|e| e.has_data()),
            });
            read.guarded || (gathers && read.otherwise.is_none())
        }
        _ => false,
    };
    here || e.children().into_iter().any(needs_guard)
}

/// Indices that an expression uses and does not reduce itself.
fn free(e: &check::Expr, out: &mut BTreeSet<IndexId>) {
    match &e.kind {
        ExprKind::Index(id) => drop(out.insert(*id)),
        ExprKind::Read(read) => {
            for sub in &read.subs {
                match sub {
                    Sub::Expr(e) => free(e, out),
                    Sub::Merged(members, _) => out.extend(members),
                    Sub::Mixed(mixed) => mixed.members.iter().for_each(|e| free(e, out)),
                }
            }
        }
        ExprKind::Reduce(reduce) => {
            let mut inner = BTreeSet::new();
            free(&reduce.body, &mut inner);
            reduce.filter.iter().for_each(|f| free(f, &mut inner));
            out.extend(inner.into_iter().filter(|i| !reduce.indices.contains(i)));
        }
        _ => e.children().into_iter().for_each(|child| free(child, out)),
    }
}
