//! Statements.

use std::collections::BTreeSet;

use eindecomp_core::ein::DType;

use super::value::{Val, limit};
use super::{DTYPES, ExtentId, Index, LARGEST_SPACE, Maker, Tensor};

impl Maker<'_> {
    /// `let y[…] = …;`; with `like`, a tensor of its type and bound.
    pub(super) fn statement(&mut self, like: Option<&Tensor>) {
        let dtype = like.map_or_else(|| self.rng.one_of(&DTYPES), |t| t.dtype);
        let left: Vec<ExtentId> = match like {
            Some(t) => t.axes.clone(),
            None => {
                let mut left = Vec::new();
                for _ in 0..self.rng.one_of(&[0, 1, 1, 2, 2, 2, 3]) {
                    let extent = self.any_extent(&left);
                    left.push(extent);
                }
                if self.rng.chance(3) {
                    self.relate(&mut left);
                }
                left
            }
        };
        self.indices.clear();
        for extent in &left {
            self.index(*extent);
        }
        let mut value = self.expr(dtype, 3);
        if let Some(like) = like
            && value.bound > like.bound
        {
            value = self.clamped(value, like.bound);
        }
        self.define(value, dtype, like.is_some());
    }

    /// Adds indices of which some axis of a tensor is made.
    fn relate(&mut self, left: &mut Vec<ExtentId>) {
        let axes: BTreeSet<ExtentId> = self.tensors.iter().flat_map(|t| t.axes.clone()).collect();
        let mut groups: Vec<Vec<ExtentId>> = Vec::new();
        for &axis in &axes {
            groups.extend(self.extents[axis].parts.map(|(a, b)| vec![a, b]));
        }
        for (at, extent) in self.extents.iter().enumerate() {
            let of = [extent.strided, extent.window].into_iter().flatten();
            groups.extend(of.filter(|of| axes.contains(&of.0)).map(|_| vec![at]));
        }
        let space = |of: &[ExtentId]| -> i64 { of.iter().map(|&e| self.value(e).max(1)).product() };
        groups.retain(|group| space(left) * space(group) <= LARGEST_SPACE / 20);
        if !groups.is_empty() {
            left.extend(self.rng.one_of(&groups));
        }
    }

    /// An index in scope.
    pub(super) fn index(&mut self, extent: ExtentId) -> String {
        let name = self.fresh("i");
        self.indices.push(Index {
            name: name.clone(),
            extent,
            settled: false,
        });
        name
    }

    /// Writes the statement whose left indices are those in scope.
    fn define(&mut self, mut value: Val, dtype: DType, plain: bool) {
        // A sum of very many ones.
        if value.bound > limit(dtype) && value.bound.is_finite() {
            value = self.clamped(value, 3.0);
        }
        let name = self.fresh("t");
        let left = std::mem::take(&mut self.indices);
        let mut subs: Vec<String> = left
            .iter()
            .map(|i| match i.settled && !self.rng.chance(4) {
                true => i.name.clone(),
                false => format!("{} in {}", i.name, self.extents[i.extent].text),
            })
            .collect();
        let mut axes: Vec<ExtentId> = left.iter().map(|i| i.extent).collect();
        let merge = subs.len() >= 2 && !plain && !self.simple && self.rng.chance(4);
        if merge && axes[axes.len() - 2..].iter().all(|&a| self.value(a) >= 1) {
            let (last, slow) = (subs.pop().unwrap(), subs.pop().unwrap());
            subs.push(format!("({slow}, {last})"));
            let (b, a) = (axes.pop().unwrap(), axes.pop().unwrap());
            axes.push(self.product(a, b));
            self.mark("merged axes on the left");
        }
        let annotated = value.dtype != dtype || !value.typed || self.rng.chance(5);
        let ty = match annotated {
            true => format!(": {dtype}"),
            false => String::new(),
        };
        self.pins(&left);
        self.line(&format!(
            "let {name}[{}]{ty} = {};",
            subs.join(", "),
            value.text
        ));
        self.mark(dtype.name());
        self.tensors.push(Tensor {
            name,
            axes,
            dtype,
            bound: value.bound,
            error: value.error,
            nan: value.nan,
            ids: false,
            state: false,
        });
    }

    /// Sometimes, how the planner must split the next statement.
    pub(super) fn pins(&mut self, indices: &[Index]) {
        match self.rng.below(16) {
            0 => {
                self.mark("#[whole]");
                self.line("#[whole]");
            }
            1 | 2 => {
                let room = |i: &&Index| self.value(i.extent) >= 2;
                let able: Vec<Index> = indices.iter().filter(room).cloned().collect();
                let mut splits = Vec::new();
                for index in able.iter().take(1 + self.rng.below(2)) {
                    let most = self.value(index.extent).min(4) as usize;
                    splits.push(format!("{} = {}", index.name, 1 + self.rng.below(most)));
                }
                if !splits.is_empty() {
                    self.mark("#[split]");
                    self.line(&format!("#[split({})]", splits.join(", ")));
                }
            }
            _ => {}
        }
    }
}
