//! Kernels against the reference interpreter, tile by tile.
#![expect(unsafe_code, reason = "windows on test buffers")]

mod functions;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

use eindecomp_core::ein::access::{AccessMap, output_region, splittable};
use eindecomp_core::ein::{
    Agg, DType, Dim, EinSum, EinSumSpec, Expr, Label, LabelId, Operand, Reduce, ScalarFn, Value,
};
use eindecomp_core::graph::{BoundGraph, GraphBuilder, NodeId, Role};
use eindecomp_core::plan::layout::{Layout, Region};
use eindecomp_core::reference::{self, RefTensor};

use super::{Kernel, KernelRunError, Scratch, copy, fold};
use crate::view::{View, ViewMut};

/// A dense box, 8-byte aligned.
struct Buffer {
    bytes: Vec<u64>,
    dtype: DType,
    region: Region,
    strides: Vec<isize>,
}

impl Buffer {
    fn new(dtype: DType, region: Region) -> Buffer {
        let mut strides = vec![1; region.0.len()];
        for axis in (1..strides.len()).rev() {
            strides[axis - 1] = strides[axis] * region.shape()[axis] as isize;
        }
        let bytes = vec![0; (region.volume() * dtype.size()).div_ceil(8) + 1];
        Buffer {
            bytes,
            dtype,
            region,
            strides,
        }
    }

    /// The same box with the axes in reverse order in memory.
    fn transposed(dtype: DType, region: Region) -> Buffer {
        let mut buffer = Buffer::new(dtype, region);
        let mut stride = 1;
        for (s, n) in buffer.strides.iter_mut().zip(buffer.region.shape()) {
            *s = stride;
            stride *= n as isize;
        }
        buffer
    }

    fn of(values: &[f64], dtype: DType, shape: &[usize]) -> Buffer {
        let mut wide = Buffer::new(DType::F64, Region::whole(shape));
        for (to, v) in wide.bytes.iter_mut().zip(values) {
            *to = v.to_bits();
        }
        let mut buffer = Buffer::new(dtype, Region::whole(shape));
        if dtype.is_float() {
            copy(&wide.view(), &buffer.view_mut(), &Region::whole(shape));
        } else {
            let mut ints = Buffer::new(DType::I64, Region::whole(shape));
            for (to, v) in ints.bytes.iter_mut().zip(values) {
                *to = (*v as i64) as u64;
            }
            copy(&ints.view(), &buffer.view_mut(), &Region::whole(shape));
        }
        buffer
    }

    fn view(&self) -> View {
        let (region, strides) = (self.region.clone(), self.strides.clone());
        // SAFETY: the buffer is the box, and tests write it between uses of the view only.
        unsafe { View::new(self.bytes.as_ptr().cast(), self.dtype, region, strides) }
    }

    fn view_mut(&mut self) -> ViewMut {
        let (region, strides) = (self.region.clone(), self.strides.clone());
        // SAFETY: as `view`.
        unsafe { ViewMut::new(self.bytes.as_mut_ptr().cast(), self.dtype, region, strides) }
    }

    fn values(&self) -> Vec<f64> {
        let kind = if self.dtype.is_float() {
            DType::F64
        } else {
            DType::I64
        };
        let mut wide = Buffer::new(kind, self.region.clone());
        let region = self.region.clone();
        let mut to = wide.view_mut();
        if self.dtype == DType::Bool {
            let mut bytes = Buffer::new(DType::U8, region.clone());
            bytes.bytes = self.bytes.clone();
            bytes.strides = self.strides.clone();
            copy(&bytes.view(), &to, &region);
        } else {
            copy(&self.view(), &to, &region);
        }
        to = wide.view_mut();
        drop(to);
        let word = |w: &u64| {
            if kind == DType::F64 {
                f64::from_bits(*w)
            } else {
                *w as i64 as f64
            }
        };
        wide.bytes[..region.volume()].iter().map(word).collect()
    }
}

/// A statement to test: `out` and `reduced` are label names, one letter each.
struct Case {
    out: &'static str,
    /// Label groups of merged output axes; empty: every label is an axis.
    merged: Vec<Vec<u16>>,
    reduced: &'static str,
    extents: Vec<usize>,
    inputs: Vec<(DType, Vec<usize>)>,
    operands: Vec<Operand>,
    agg: Option<Agg>,
    acc: DType,
    filter: Option<Expr>,
    body: Expr,
    dtype: DType,
    slots: Vec<Value>,
    /// Values of the inputs, where they matter.
    data: Vec<Option<Vec<f64>>>,
    /// Relative to the largest result.
    tolerance: f64,
}

/// `"ij,jk->ik"` of these extents, multiplied and summed.
fn einsum(expr: &'static str, extents: &[(char, usize)], dtype: DType) -> Case {
    let (inputs, out) = expr.split_once("->").unwrap();
    let mut order: Vec<char> = out.chars().collect();
    for c in inputs.chars().filter(|c| *c != ',') {
        if !order.contains(&c) {
            order.push(c);
        }
    }
    let size = |c: char| extents.iter().find(|e| e.0 == c).unwrap().1;
    let index = |c: char| ix(order.iter().position(|o| *o == c).unwrap() as u16);
    let terms: Vec<&str> = inputs.split(',').collect();
    let reduced: String = order[out.len()..].iter().collect();
    let operands = terms.iter().enumerate().map(|(n, t)| Operand {
        node: NodeId(n as u32),
        index: t.chars().map(index).collect(),
        otherwise: None,
    });
    Case {
        out,
        merged: Vec::new(),
        agg: (!reduced.is_empty()).then_some(Agg::SUM),
        reduced: Box::leak(reduced.into_boxed_str()),
        extents: order.iter().map(|&c| size(c)).collect(),
        inputs: terms
            .iter()
            .map(|t| (dtype, t.chars().map(size).collect()))
            .collect(),
        operands: operands.collect(),
        acc: dtype.default_accumulator(),
        filter: None,
        body: (1..terms.len()).fold(Expr::Operand(0), |a, n| {
            Expr::call(ScalarFn::MUL, [a, Expr::Operand(n)])
        }),
        dtype,
        slots: Vec::new(),
        data: vec![None; terms.len()],
        tolerance: match dtype {
            DType::F64 => 1e-13,
            DType::F32 => 2e-6,
            DType::BF16 => 1e-2,
            DType::F16 => 2e-3,
            _ => 0.0,
        },
    }
}

fn ix(n: u16) -> Expr {
    Expr::Index(LabelId(n))
}

fn call<const N: usize>(f: ScalarFn, args: [Expr; N]) -> Expr {
    Expr::call(f, args)
}

fn float(x: f64, dtype: DType) -> Expr {
    Expr::Const(Value::Float(x), dtype)
}

impl Case {
    fn graph(&self) -> (BoundGraph, NodeId) {
        let mut b = GraphBuilder::new();
        for (n, (dtype, shape)) in self.inputs.iter().enumerate() {
            let shape = shape.iter().map(|&n| Dim::from(n as i64)).collect();
            b.input(format!("x{n}"), Role::Data, *dtype, shape).unwrap();
        }
        for slot in &self.slots {
            b.literal(*slot, DType::F32);
        }
        let names = self.out.chars().chain(self.reduced.chars());
        let labels: Vec<Label> = names
            .zip(&self.extents)
            .map(|(c, &n)| Label {
                name: c.to_string().into(),
                extent: Dim::from(n as i64),
            })
            .collect();
        let outs = self.out.len() as u16;
        let out = match self.merged.is_empty() {
            true => (0..outs).map(|l| vec![LabelId(l)]).collect(),
            false => self
                .merged
                .iter()
                .map(|a| a.iter().map(|&l| LabelId(l)).collect())
                .collect(),
        };
        let reduce = self.agg.map(|agg| Reduce {
            agg: agg.into(),
            labels: (outs..labels.len() as u16).map(LabelId).collect(),
            acc: self.acc,
            filter: self.filter.clone(),
        });
        let spec = EinSumSpec {
            labels,
            out,
            reduce,
            operands: self.operands.clone(),
            body: self.body.clone(),
            dtype: self.dtype,
        };
        let node = b
            .einsum("y", EinSum::new(spec).unwrap(), Vec::new())
            .unwrap();
        b.output("y", node).unwrap();
        (b.finish().unwrap().bind(&BTreeMap::new()).unwrap(), node)
    }

    fn values(&self, n: usize) -> Vec<f64> {
        let (dtype, shape) = &self.inputs[n];
        let len: usize = shape.iter().product();
        let value = |i: usize| match dtype {
            DType::Bool => f64::from(i.is_multiple_of(3)),
            d if d.is_float() => ((0.7 * i as f64 + n as f64).sin() + 0.01) as f32 as f64,
            DType::U32 | DType::U8 => ((7 * i + 3 * n) % 11) as f64,
            _ => ((7 * i + 3 * n) % 11) as f64 - 5.0,
        };
        let values = self.data[n]
            .clone()
            .unwrap_or_else(|| (0..len).map(value).collect());
        // What the element type can hold.
        Buffer::of(&values, *dtype, shape).values()
    }

    fn reference(&self, graph: &BoundGraph) -> Result<Vec<f64>, reference::RefError> {
        let mut inputs = BTreeMap::new();
        for (n, (dtype, shape)) in self.inputs.iter().enumerate() {
            let value = |x: f64| match dtype {
                DType::Bool => Value::Bool(x != 0.0),
                d if d.is_float() => Value::Float(x),
                _ => Value::Int(x as i64),
            };
            let data = self.values(n).into_iter().map(value).collect();
            let tensor = RefTensor::new(*dtype, shape.clone(), data).unwrap();
            inputs.insert(Arc::from(format!("x{n}")), tensor);
        }
        Ok(reference::run(graph, &inputs)?[0].to_f64())
    }

    /// Runs with these parts per label, in private dense windows, `transposed` or not.
    fn run(&self, parts: &[u32], transposed: bool) -> Result<Vec<f64>, KernelRunError> {
        self.run_in(parts, transposed, false)
    }

    /// As `run`; `shared`: operands are read through windows on the whole tensors.
    fn run_in(
        &self,
        parts: &[u32],
        transposed: bool,
        shared: bool,
    ) -> Result<Vec<f64>, KernelRunError> {
        let (graph, node) = self.graph();
        let e = graph.node(node).einsum().unwrap().clone();
        let kernel = Kernel::compile(&graph, node).unwrap();
        let sources: Vec<Buffer> = (0..self.inputs.len())
            .map(|n| Buffer::of(&self.values(n), self.inputs[n].0, &self.inputs[n].1))
            .collect();
        let layout = Layout {
            parts: parts.to_vec(),
            devices: vec![0; parts.iter().product::<u32>() as usize],
        };
        let new = if transposed {
            Buffer::transposed
        } else {
            Buffer::new
        };
        let mut result = new(self.dtype, Region::whole(graph.shape(node)));
        let mut partials: BTreeMap<Region, Vec<Buffer>> = BTreeMap::new();
        let mut scratch = Scratch::default();
        for (tile, _) in layout.iter(&self.extents) {
            let mut boxes = Vec::new();
            for operand in &e.operands {
                let source = &sources[operand.node.at()];
                let shape = graph.shape(operand.node);
                let region = AccessMap::of(operand).footprint(&tile, shape);
                let mut window = new(source.dtype, region.clone());
                copy(&source.view(), &window.view_mut(), &region);
                boxes.push(window);
            }
            let reads: Vec<View> = match shared {
                false => boxes.iter().map(Buffer::view).collect(),
                true => e
                    .operands
                    .iter()
                    .map(|o| sources[o.node.at()].view())
                    .collect(),
            };
            let region = output_region(&e, &tile, &self.extents);
            let split = parts[self.out.len()..].iter().any(|&d| d > 1);
            let mut partial = new(self.acc, region.clone());
            let write = if split {
                partial.view_mut()
            } else {
                result.view_mut()
            };
            let pieces = kernel.subtiles(&tile, 4);
            assert_eq!(
                pieces.iter().map(Region::volume).sum::<usize>(),
                tile.volume()
            );
            for piece in pieces {
                kernel.run(
                    &piece,
                    &reads,
                    std::slice::from_ref(&write),
                    graph.slots(),
                    &mut scratch,
                )?;
            }
            if split {
                partials.entry(region).or_default().push(partial);
            }
        }
        for (region, list) in &partials {
            let views: Vec<View> = list.iter().map(Buffer::view).collect();
            fold(self.agg, &views, &result.view_mut(), region);
        }
        Ok(result.values())
    }

    /// Bits do not depend on the strides of windows: `got` from private ones against shared ones.
    fn check_bits(&self, parts: &[u32]) {
        let [private, shared] =
            [false, true].map(|shared| self.run_in(parts, false, shared).unwrap());
        let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            bits(&private),
            bits(&shared),
            "{} over {parts:?}",
            self.body_text()
        );
    }

    fn check(&self) {
        let (graph, node) = self.graph();
        let want = self.reference(&graph).unwrap();
        let e = graph.node(node).einsum().unwrap();
        let can_split = splittable(e);
        // Terms are about 1, so that a sum's error is relative to their number.
        let terms: usize = self.extents[self.out.len()..].iter().product();
        let finite = want.iter().filter(|w| w.is_finite());
        let scale = finite.fold(terms as f64, |a, b| a.max(b.abs()));
        for (n, transposed) in [(1, false), (2, false), (3, true), (5, false)] {
            let mut left = n;
            let mut parts = vec![1; self.extents.len()];
            for (l, part) in parts.iter_mut().enumerate().rev() {
                if can_split[l] && self.extents[l] > 1 {
                    *part = left.min(self.extents[l] as u32);
                    left = if n == 5 { 2 } else { 1.max(left / *part) };
                }
            }
            if !transposed {
                self.check_bits(&parts);
            }
            let got = self.run(&parts, transposed).unwrap();
            assert_eq!(got.len(), want.len());
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                let near = (g - w).abs() <= self.tolerance * scale.max(w.abs());
                let same = g == w || (g.is_nan() && w.is_nan());
                assert!(
                    near || same,
                    "{} over {}, parts {parts:?}: [{i}] is {g}, not {w}",
                    self.body_text(),
                    self.reduced
                );
            }
        }
    }

    fn body_text(&self) -> String {
        format!("{:?} {:?}", self.agg, self.body)
    }
}
