//! Stores as vertices: a new version of a state, over the state's own axes.

use std::sync::Arc;

use super::statement::{Cx, Mode, Vertex};
use super::{Arg, Frame, Lower, LowerError};
use crate::ein::{DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, ScalarFn};
use crate::graph::{NodeId, Store, Window};
use crate::syntax::check;
use crate::syntax::check::{ExprKind, IndexId, Statement, StoreAxis, Sub};

impl Lower<'_, '_> {
    /// `kc[b, pos + s] = value` as `if(c >= pos && c < pos + S, value[b, c - pos], kc[b, c])`.
    pub(super) fn store(
        &mut self,
        frame: &Frame<'_>,
        store: &check::Store,
    ) -> Result<(), LowerError> {
        let Some(Arg::State(state)) = self.place(frame, &store.state) else {
            return Err(LowerError::NoBlock(frame.block.name.name.clone()));
        };
        let old = self.builder.version(state);
        let (value, order) = match self.plain(frame, &store.value) {
            Some(plain) => plain,
            None => {
                let left = store.value.left.iter().flatten().copied();
                (self.statement(frame, &store.value)?, left.collect())
            }
        };
        let node = self.builder.node(state);
        let (name, shape, dtype) = node.map_or_else(
            || (Arc::from("_"), Vec::new(), DType::F32),
            |n| (n.name.clone(), n.shape.clone(), n.dtype),
        );
        let name: Arc<str> = format!("{}{name}", frame.prefix).into();
        let mut cx = Cx::new(&store.value, name.to_string());
        let left = store.value.left.iter().flatten();
        // Positions are lowered over the store's own indices, which then become what they are in
        // terms of the state's axes.
        let mut vertex = self.start(frame, &cx, left);
        let mut windows = Vec::new();
        let mut inverse: Vec<Option<Expr>> = vec![None; vertex.labels().len()];
        let mut rest = Vec::new();
        for (axis, (at, extent)) in store.at.iter().zip(&shape).enumerate() {
            let label = LabelId(axis as u16);
            let window = match at {
                StoreAxis::Bare(_) => Window::All,
                StoreAxis::Shifted(index, offset) => Window::Range {
                    start: self.position(frame, &mut cx, &mut vertex, offset)?,
                    length: self.extent(frame, &store.value, *index),
                },
                StoreAxis::Ring(index, offset) => Window::Ring {
                    start: self.position(frame, &mut cx, &mut vertex, offset)?,
                    length: self.extent(frame, &store.value, *index),
                },
                StoreAxis::At(e) => {
                    let at = self.position(frame, &mut cx, &mut vertex, e)?;
                    let mut moved = false;
                    at.visit(&mut |x| moved |= matches!(x, Expr::Index(_)));
                    match moved {
                        // Checked with the dims: it moves with the index of another axis.
                        true => {
                            rest.push((label, at));
                            Window::All
                        }
                        false => Window::Range {
                            start: at,
                            length: Dim::from(1),
                        },
                    }
                }
            };
            if let StoreAxis::Bare(i) | StoreAxis::Shifted(i, _) | StoreAxis::Ring(i, _) = at {
                inverse[vertex.label(*i).at()] = Some(window.offset(label, extent));
            }
            windows.push(window);
        }
        let of_axes = |e: Expr| {
            e.map(&mut |x| match x {
                Expr::Index(l) => inverse[l.at()].clone().unwrap_or(Expr::Index(l)),
                other => other,
            })
        };
        let labels: Vec<Label> = shape
            .iter()
            .enumerate()
            .map(|(axis, extent)| Label {
                name: format!("i{axis}").into(),
                extent: extent.clone(),
            })
            .collect();
        let label = |axis: usize| LabelId(axis as u16);
        let inside = windows.iter().zip(&shape).enumerate();
        let inside = inside.filter_map(|(axis, (w, extent))| w.contains(label(axis), extent));
        let follows = rest
            .into_iter()
            .map(|(l, at)| Expr::call(ScalarFn::EQ, [Expr::Index(l), of_axes(at)]));
        let cond = inside
            .chain(follows)
            .reduce(|a, b| Expr::call(ScalarFn::AND, [a, b]));
        let stored = self
            .builder
            .node(value)
            .map_or_else(Vec::new, |n| n.shape.clone());
        let index = order.iter().zip(&stored).map(|(i, extent)| {
            let at = of_axes(Expr::Index(vertex.label(*i)));
            // Equal by a clause alone: another polynomial.
            match &at {
                Expr::Index(l) if shape[l.at()] != *extent => {
                    Expr::call(ScalarFn::ADD, [Expr::int(0), at])
                }
                _ => at,
            }
        });
        let read = Operand {
            node: value,
            index: index.collect(),
            otherwise: None,
        };
        let new = vertex.operand(read);
        let before = Operand {
            node: old,
            index: (0..shape.len()).map(|a| Expr::Index(label(a))).collect(),
            otherwise: None,
        };
        let before = vertex.operand(before);
        let always = || Expr::call(ScalarFn::EQ, [Expr::int(0), Expr::int(0)]);
        let at = match before {
            Expr::Operand(at) => at,
            _ => 0,
        };
        let operands = vertex.into_operands();
        let spec = EinSumSpec {
            out: (0..shape.len()).map(|a| vec![label(a)]).collect(),
            labels,
            reduce: None,
            operands,
            body: Expr::If(
                Box::new(cond.unwrap_or_else(always)),
                Box::new(new),
                Box::new(before),
            ),
            dtype,
        };
        let einsum = EinSum::new(spec).map_err(|source| LowerError::EinSum {
            statement: name.clone(),
            source,
        })?;
        let mark = Store {
            state,
            old: at,
            windows,
        };
        self.builder.store(name, einsum, mark, Vec::new())?;
        Ok(())
    }

    /// A position in i64.
    fn position(
        &mut self,
        frame: &Frame<'_>,
        cx: &mut Cx<'_>,
        vertex: &mut Vertex,
        e: &check::Expr,
    ) -> Result<Expr, LowerError> {
        let at = self.expr(frame, cx, vertex, e, Mode::Structure, &mut vec![])?;
        Ok(match e.dtype {
            DType::I64 => at,
            _ => Expr::Cast(DType::I64, Box::new(at)),
        })
    }

    fn extent(&self, frame: &Frame<'_>, statement: &Statement, index: IndexId) -> Dim {
        self.dim(frame, &statement.indices[index.at()].extent)
    }

    /// The tensor that is stored as it is, with the index of each of its axes.
    fn plain(&self, frame: &Frame<'_>, statement: &Statement) -> Option<(NodeId, Vec<IndexId>)> {
        let ExprKind::Read(read) = &statement.value.kind else {
            return None;
        };
        let node = match self.place(frame, &read.place)? {
            Arg::Tensor(node) => node,
            Arg::State(state) => self.builder.version(state),
            _ => return None,
        };
        let index = |sub: &Sub| match sub {
            Sub::Expr(e) => match e.kind {
                ExprKind::Index(index) => Some(index),
                _ => None,
            },
            Sub::Merged(..) | Sub::Mixed(_) => None,
        };
        let order = read.subs.iter().map(index).collect::<Option<Vec<_>>>()?;
        // Of the same extents: what is only equal by a clause has a statement of its own.
        let tensor = self.builder.node(node)?;
        let same = |(i, extent): (&IndexId, &Dim)| self.extent(frame, statement, *i) == *extent;
        let dtype = frame.block.body.as_ref()?.vars[statement.target.at()]
            .ty
            .tensor()?
            .dtype;
        let plain = order.iter().zip(&tensor.shape).all(same)
            && tensor.dtype == dtype
            && read.otherwise.is_none();
        plain.then_some((node, order))
    }
}
