//! Opaque kernels as vertices: one per result, on the same operands.

use std::sync::Arc;

use super::{Arg, Frame, Lower, LowerError};
use crate::ein::{Dim, EinSumSpec, Expr, Label, LabelId, Opaque, Operand, ScalarFn};
use crate::graph::NodeId;
use crate::syntax::check::{Block, base_name};

/// The labels of one vertex, by the extents they stand for.
#[derive(Default)]
struct Labels {
    labels: Vec<Label>,
    /// As declared by the kernel.
    declared: Vec<Dim>,
}

impl Labels {
    /// The labels of a tensor's axes: each axis has one of its own, of its declared extent.
    fn of(&mut self, declared: &[Dim], extent: &dyn Fn(usize) -> Dim) -> Vec<LabelId> {
        let mut own: Vec<LabelId> = Vec::new();
        for (axis, dim) in declared.iter().enumerate() {
            let free =
                |at: &usize| self.declared[*at] == *dim && !own.contains(&LabelId(*at as u16));
            let at = (0..self.labels.len()).find(free).unwrap_or_else(|| {
                let name: Arc<str> = match dim.as_symbol() {
                    Some(symbol) => symbol.to_lowercase().into(),
                    None => format!("axis{}", self.labels.len()).into(),
                };
                self.labels.push(Label {
                    name,
                    extent: extent(axis),
                });
                self.declared.push(dim.clone());
                self.labels.len() - 1
            });
            own.push(LabelId(at as u16));
        }
        own
    }
}

impl<'a> Lower<'a, '_> {
    /// The vertices of a call, one per result.
    pub(super) fn kernel(
        &mut self,
        frame: &Frame<'a>,
        block: &'a Block,
    ) -> Result<Vec<NodeId>, LowerError> {
        let kernel: Arc<str> = base_name(block.name.as_str()).into();
        let mut nodes = Vec::new();
        for param in frame.vars.iter().zip(&block.params) {
            nodes.push(match param {
                (Some(Arg::Tensor(node)), _) => *node,
                (Some(Arg::Value(value)), param) => {
                    let dtype = param.ty.tensor().map(|t| t.dtype);
                    let dtype = dtype.ok_or_else(|| LowerError::NoBlock(kernel.clone()))?;
                    self.constant(&param.name.name, *value, dtype)?
                }
                _ => return Err(LowerError::NoBlock(kernel)),
            });
        }
        let mut made = Vec::new();
        for result in 0..block.results.len() {
            let name = match block.results.len() {
                1 => format!("{}{kernel}", frame.prefix),
                _ => format!("{}{kernel}.{result}", frame.prefix),
            };
            let spec = self.opaque(frame, block, &kernel, &nodes, result)?;
            made.push(self.vertex(name.into(), spec, Vec::new())?);
        }
        Ok(made)
    }

    fn opaque(
        &self,
        frame: &Frame<'a>,
        block: &Block,
        kernel: &Arc<str>,
        nodes: &[NodeId],
        result: usize,
    ) -> Result<EinSumSpec, LowerError> {
        let wrong = || LowerError::NoBlock(kernel.clone());
        let result_type = block.results[result].ty.tensor().ok_or_else(wrong)?;
        let mut labels = Labels::default();
        let extent = |axis: usize| self.dim(frame, &result_type.axes[axis]);
        let out = labels.of(&result_type.axes, &extent);
        let mut operands = Vec::new();
        for (param, node) in block.params.iter().zip(nodes) {
            let ty = param.ty.tensor().ok_or_else(wrong)?;
            let shape = self.builder.node(*node).map(|n| n.shape.clone());
            let shape = shape.ok_or_else(wrong)?;
            let axes = labels.of(&ty.axes, &|axis| shape[axis].clone());
            let index = axes.iter().zip(&shape).map(|(label, actual)| {
                let index = Expr::Index(*label);
                // As long as the label by a clause only.
                match labels.labels[label.at()].extent == *actual {
                    true => index,
                    false => Expr::call(ScalarFn::ADD, [Expr::int(0), index]),
                }
            });
            operands.push(Operand {
                node: *node,
                index: index.collect(),
                otherwise: None,
            });
        }
        let splits = block.splits.iter().flatten();
        let is_split = |at: usize| {
            let dim = labels.declared[at].as_symbol();
            dim.is_some_and(|dim| splits.clone().any(|s| s == dim))
        };
        // Splits are axes of every result, so their labels come first.
        let splits = (0..out.len()).filter(|at| is_split(*at));
        let splits = splits.map(|at| LabelId(at as u16)).collect();
        let body = Expr::Opaque(Opaque {
            kernel: kernel.clone(),
            result: result as u16,
            splits,
            dtype: result_type.dtype,
        });
        Ok(EinSumSpec {
            labels: labels.labels,
            out: out.into_iter().map(|l| vec![l]).collect(),
            reduce: None,
            operands,
            body,
            dtype: result_type.dtype,
        })
    }
}
