//! `softmax_sum`: scores of some rows by some of the reduced range at a time, weighed against the largest so
//! far, then a product with the values. Scores of more than a block are never there.

use eindecomp_core::ein::{DType, Expr, LabelId, Value};
use eindecomp_core::plan::layout::Region;

use super::call::Call;
use super::function::{Array, Builder, Function, THREADS};
use super::kernel::{Kernel, Sites, blocks, cut};
use super::merge::{Merge, Walked};
use super::plain::{Ends, output_walk, volume};
use super::state::State;
use super::text::{literal, load, register, store};
use crate::backend::error::KernelError;
use crate::backend::program::Kind;
use crate::backend::split::{Inner, SoftmaxParts, Statement, record_labels};

/// Least length of a part of the reduced range, as long as there is more than one row.
const LENGTH: usize = 1 << 12;

/// A statement that is a `softmax_sum` in f32 or f64.
#[derive(Debug)]
pub(super) struct Softmax {
    statement: Statement,
    state: State,
    /// Per component.
    labels: Vec<Vec<LabelId>>,
    out: Vec<LabelId>,
    reduced: Vec<LabelId>,
    score: (Inner, Kernel),
    /// Σ weight · value over everything: right while what a filter leaves out is finite.
    quick: (Inner, Kernel),
    /// The same with the filter.
    weigh: Option<(Inner, Kernel)>,
    weights: DType,
    dtype: DType,
    /// Scores at a time.
    most: usize,
}

impl Softmax {
    pub(super) fn new(statement: Statement, sites: &mut Sites) -> Result<Softmax, KernelError> {
        let (labels, _) = record_labels(&statement.einsum);
        let e = &statement.einsum;
        let reduce = e.reduce.as_ref().ok_or(KernelError::DType)?;
        let dtype = reduce.acc;
        let weights = weights(&statement, dtype);
        let parts = SoftmaxParts::new(&statement, &labels, weights)?;
        let mut compiled = |inner: Inner| {
            let kernel = Kernel::new(inner.statement.clone(), sites)?;
            Ok::<_, KernelError>((inner, kernel))
        };
        let score = compiled(parts.score)?;
        let (quick, weigh) = match parts.filter {
            None => (compiled(parts.weigh)?, None),
            Some(filter) => (compiled(filter.quick)?, Some(compiled(parts.weigh)?)),
        };
        Ok(Softmax {
            state: State::of(reduce, Kind::of(dtype), e.dtype).ok_or(KernelError::DType)?,
            out: e.out.iter().flatten().copied().collect(),
            reduced: reduce.labels.clone(),
            labels,
            score,
            quick,
            weigh,
            weights,
            dtype,
            most: sites.staged,
            statement,
        })
    }

    pub(super) fn calls(
        &self,
        tile: &Region,
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
        builder: &mut Builder,
    ) {
        let length = volume(tile, &self.reduced);
        let rows = &self.labels[0];
        let scores = |block: &Region| volume(block, rows) * length.min(LENGTH);
        for block in blocks(tile, &self.out, &self.statement.einsum, self.most, &scores) {
            builder.scoped(|builder| self.block(&block, reads, ends, slots, builder));
        }
    }

    fn block(
        &self,
        block: &Region,
        reads: &[Array],
        ends: &Ends<'_>,
        slots: &[Value],
        builder: &mut Builder,
    ) {
        let array = |labels: &[LabelId], builder: &mut Builder| {
            let region = Region(labels.iter().map(|l| block.0[l.at()]).collect());
            builder.array(self.dtype, region)
        };
        let state: Vec<Array> = self.labels.iter().map(|of| array(of, builder)).collect();
        let rows = volume(block, &self.labels[0]);
        let width = volume(block, &self.labels[2]) / rows.max(1);
        let scale = array(&self.labels[0], builder);
        let length = (self.most / rows.max(1)).max(1);
        let parts = match volume(block, &self.reduced) {
            0 => vec![block.clone()],
            _ => cut(block, &self.reduced, &self.reduced, length),
        };
        for (n, part) in parts.iter().enumerate() {
            builder.scoped(|builder| {
                let scores = staged(&self.score, part, reads, slots, builder);
                let weights = match self.weights == self.dtype {
                    true => scores.clone(),
                    false => builder.array(self.weights, scores.region.clone()),
                };
                let length = volume(part, &self.reduced);
                let weighed = [&scores, &weights, &state[0], &state[1], &scale];
                builder.push(weigh(weighed, rows, length, n == 0));
                let mut operands = reads.to_vec();
                operands.push(weights);
                let more = staged(&self.quick, part, &operands, slots, builder);
                if let Some(weigh) = &self.weigh {
                    let ends = Ends {
                        prior: None,
                        targets: std::slice::from_ref(&more),
                        partial: false,
                        repair: true,
                    };
                    run(weigh, part, &operands, &ends, slots, builder);
                }
                builder.push(rescale([&state[2], &more, &scale], rows, width, n == 0));
            });
        }
        let source: Vec<Walked> = (state.iter().zip(&self.labels))
            .map(|(array, labels)| Walked::by_axis(array, labels, |_| true))
            .collect();
        let carried = |n: usize| match ends.partial {
            true => self.statement.einsum.parts().get(n).cloned(),
            false => None,
        };
        let target = |(n, array): (usize, &Array)| {
            let lacking = self
                .out
                .iter()
                .filter(|l| ends.partial && !self.labels[n].contains(l));
            Walked {
                walk: output_walk(&self.statement, array, carried(n).as_ref()),
                array: array.clone(),
                lacking: lacking.copied().collect(),
            }
        };
        let targets: Vec<Walked> = ends.targets.iter().enumerate().map(target).collect();
        let merge = Merge {
            state: &self.state,
            labels: &self.out,
            tile: block,
        };
        merge.calls(&[source], &targets, !ends.partial, builder);
    }
}

/// The result of a stage, in the workspace.
pub(super) fn staged(
    stage: &(Inner, Kernel),
    tile: &Region,
    reads: &[Array],
    slots: &[Value],
    builder: &mut Builder,
) -> Array {
    let (inner, _) = stage;
    let axes = inner.labels[..inner.axes].iter();
    let region = Region(axes.map(|l| tile.0[l.at()]).collect());
    let made = builder.array(inner.statement.einsum.dtype, region);
    let ends = Ends {
        prior: None,
        targets: std::slice::from_ref(&made),
        partial: false,
        repair: false,
    };
    run(stage, tile, reads, &ends, slots, builder);
    made
}

/// Runs a stage on its part of a tile of the whole vertex.
fn run(
    (inner, kernel): &(Inner, Kernel),
    tile: &Region,
    reads: &[Array],
    ends: &Ends<'_>,
    slots: &[Value],
    builder: &mut Builder,
) {
    let own = Region(inner.labels.iter().map(|l| tile.0[l.at()]).collect());
    let reads: Vec<Array> = inner.reads.iter().map(|&n| reads[n].clone()).collect();
    kernel.calls(&own, &reads, ends, slots, builder);
}

/// In which element type weights meet the values: that of the values where they are short floats, so that
/// their product is one of equal types.
fn weights(statement: &Statement, dtype: DType) -> DType {
    let mut value = statement.einsum.body.arguments().get(1);
    while let Some(Expr::Cast(_, inner)) = value {
        value = Some(inner);
    }
    let short = |n: usize| {
        let of = statement.operands[n].dtype;
        [DType::BF16, DType::F16].contains(&of).then_some(of)
    };
    match value {
        Some(Expr::Operand(n)) => short(*n).unwrap_or(dtype),
        _ => dtype,
    }
}

/// Turns rows of scores into weights against the largest score so far; `scale` is what earlier weights are
/// worth now.
fn weigh(
    [scores, weights, max, total, scale]: [&Array; 5],
    rows: usize,
    length: usize,
    first: bool,
) -> Call {
    let mut f = Function::default();
    let kind = Kind::of(max.dtype);
    let real = register(kind);
    let exp = if kind == Kind::F32 { "expf" } else { "exp" };
    let lowest = literal(Value::Float(f64::NEG_INFINITY), kind);
    f.int("rows", rows as i64);
    f.int("length", length as i64);
    f.int("fresh", first.into());
    f.read("scores", scores);
    f.write("weights", weights);
    f.write("max", max);
    f.write("total", total);
    f.write("scale", scale);
    let tree = |f: &mut Function, combine: &str| {
        f.body.add("shared[t] = x;");
        f.body.add("__syncthreads();");
        f.body.add(format!(
            "for (int half = {}; half > 0; half /= 2) {{",
            THREADS / 2
        ));
        f.body.add("if (t < half) {");
        f.body
            .add(format!("const {real} a = shared[t], b = shared[t + half];"));
        f.body.add(format!("shared[t] = {combine};"));
        f.body.add("}");
        f.body.add("__syncthreads();");
        f.body.add("}");
    };
    f.body.add(format!("SHARED({real}, shared, {THREADS});"));
    f.body.add("const int t = threadIdx.x;");
    f.body
        .add("for (i64 row = blockIdx.x; row < rows; row += gridDim.x) {");
    f.body
        .add(format!("const {real} old = fresh ? {lowest} : max[row];"));
    f.body.add(format!("{real} x = old;"));
    f.body.add("for (i64 i = t; i < length; i += blockDim.x) {");
    f.body.add(format!(
        "const {real} y = {};",
        load(scores.dtype, "scores[row * length + i]")
    ));
    f.body.add("x = x != x || x > y ? x : y;");
    f.body.add("}");
    tree(&mut f, "a != a || a > b ? a : b");
    f.body.add(format!("const {real} largest = shared[0];"));
    f.body.add("__syncthreads();");
    // Against a maximum of −inf, scores of −inf would make NaN; they weigh 0.
    f.body.add(format!(
        "const {real} base = largest == {lowest} ? 0 : largest;"
    ));
    f.body.add("x = 0;");
    f.body.add("for (i64 i = t; i < length; i += blockDim.x) {");
    f.body.add(format!(
        "const {real} y = {};",
        load(scores.dtype, "scores[row * length + i]")
    ));
    f.body.add(format!("const {real} w = {exp}(y - base);"));
    f.body.add(format!(
        "weights[row * length + i] = {};",
        store(weights.dtype, kind, "w")
    ));
    f.body.add("x += w;");
    f.body.add("}");
    tree(&mut f, "a + b");
    f.body.add("if (t == 0) {");
    f.body
        .add(format!("const {real} worth = {exp}(old - base);"));
    f.body.add(format!("const {real} sum = shared[0];"));
    f.body
        .add("total[row] = (fresh ? 0 : total[row] * worth) + sum;");
    f.body.add("scale[row] = worth;");
    f.body.add("max[row] = largest;");
    f.body.add("}");
    f.body.add("__syncthreads();");
    f.body.add("}");
    f.launch("weigh", rows)
}

/// Rows of sums, rescaled, and what is added to them.
fn rescale([values, more, scale]: [&Array; 3], rows: usize, width: usize, first: bool) -> Call {
    let mut f = Function::default();
    let real = register(Kind::of(values.dtype));
    let points = rows * width;
    f.int("points", points as i64);
    f.int("width", width as i64);
    f.int("fresh", first.into());
    f.read("more", more);
    f.read("scale", scale);
    f.write("values", values);
    f.body.add("for (i64 p = blockIdx.x * (i64)blockDim.x + threadIdx.x; p < points; p += (i64)gridDim.x * blockDim.x) {");
    f.body.add(format!("const {real} x = more[p];"));
    f.body
        .add("values[p] = fresh ? x : values[p] * scale[p / width] + x;");
    f.body.add("}");
    f.launch("rescale", points.div_ceil(THREADS as usize))
}
