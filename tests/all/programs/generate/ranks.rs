//! Blocks of any rank and of any dtype.

use eindecomp_core::ein::DType;

use super::value::{ROUGHEST, limit, rounding, unsigned};
use super::{ExtentId, LARGEST_SPACE, Maker, Tensor};

impl Maker<'_> {
    /// A call of a block whose parameters have any rank, or any dtype.
    pub(super) fn call_of_any_rank(&mut self) {
        let able = |t: &&Tensor| t.bound.is_finite() && t.dtype != DType::Bool && !t.nan;
        let tensors: Vec<Tensor> = self.tensors.iter().filter(able).cloned().collect();
        if tensors.is_empty() {
            return self.statement(None);
        }
        let (x, y) = (self.rng.one_of(&tensors), self.rng.one_of(&tensors));
        let (x, y) = (self.valued(&x), self.valued(&y));
        let dtype = x.dtype;
        let last = x.axes.last().map_or(0, |&a| self.value(a)) as f64;
        let inside = |bound: f64| bound <= limit(dtype);
        let (text, call, made) = match self.rng.below(6) {
            0 if !x.axes.is_empty() && !unsigned(dtype) && inside(2.0 * x.bound) => (
                center(dtype),
                format!("center_{dtype}({})", x.name),
                Tensor {
                    bound: 2.0 * x.bound,
                    error: 2.0 * x.error,
                    ids: false,
                    ..x
                },
            ),
            1 if !x.axes.is_empty() && inside(x.bound * last.max(1.0)) => (
                format!(
                    "fn total_{dtype}<dim ..L, dim C>(x: {dtype}[..L, C]) -> {dtype}[..L] {{\n    \
                     let y[..l] = sum[j] x[..l, j];\n    y\n}}"
                ),
                format!("total_{dtype}({})", x.name),
                Tensor {
                    axes: x.axes[..x.axes.len() - 1].to_vec(),
                    bound: x.bound * last.max(1.0),
                    error: x.error * last.max(1.0) * 2.0,
                    ids: false,
                    ..x
                },
            ),
            2 if dtype.is_float()
                && y.dtype == dtype
                && x.axes.len() + y.axes.len() <= 4
                && inside(x.bound * y.bound)
                && self.space(x.axes.iter().chain(&y.axes)) <= LARGEST_SPACE =>
            {
                let error = x.bound * y.error + y.bound * x.error + x.error * y.error;
                let error = match error > 0.0 {
                    true => error + rounding(x.bound * y.bound),
                    false => 0.0,
                };
                (
                    "fn outer<T: Float, dim ..L, dim ..M>(x: T[..L], y: T[..M]) -> T[..L, ..M] {\n    \
                     let z[..l, ..m] = x[..l] * y[..m];\n    z\n}"
                        .to_owned(),
                    format!("outer({}, {})", x.name, y.name),
                    Tensor {
                        axes: [&x.axes[..], &y.axes].concat(),
                        bound: x.bound * y.bound,
                        error,
                        ..x
                    },
                )
            }
            3 if dtype.is_int() && inside(2.0 * x.bound) => (
                "fn twice<T: Int, dim ..L>(x: T[..L]) -> T[..L] {\n    \
                 let y[..l] = x[..l] + x[..l];\n    y\n}"
                    .to_owned(),
                format!("twice({})", x.name),
                Tensor {
                    bound: 2.0 * x.bound,
                    ids: false,
                    ..x
                },
            ),
            4 if x.axes.len() >= 2 && !unsigned(dtype) && inside(2.0 * x.bound) => (
                [center(dtype), format!(
                    "fn corner_{dtype}<dim ..L, dim C>(x: {dtype}[..L, C]) -> {dtype}[..L, C] {{\n    \
                     let c = center_{dtype}(x);\n    \
                     let d = center_{dtype}(c);\n    d\n}}"
                )].join("\n"),
                format!("corner_{dtype}({})", x.name),
                Tensor {
                    bound: 2.0 * x.bound,
                    error: 4.0 * x.error,
                    ids: false,
                    ..x
                },
            ),
            5 if dtype.is_float() && y.dtype == dtype => {
                let (Some((&a, left)), Some((&b, right))) =
                    (x.axes.split_last(), y.axes.split_first())
                else {
                    return self.statement(None);
                };
                let n = self.value(a).max(1) as f64;
                let bound = x.bound * y.bound * n;
                let rough = x.error + y.error > 0.0;
                let error = n * (x.bound * y.error + y.bound * x.error + x.error * y.error);
                let space = self.space(left.iter().chain([&a]).chain(right));
                let few = left.len() + right.len() <= 4;
                if a != b || !few || !inside(bound) || space > LARGEST_SPACE {
                    return self.statement(None);
                }
                (
                    "fn applied<T: Float, dim ..L, dim C, dim ..M>(x: T[..L, C], w: T[C, ..M]) -> T[..L, ..M] {\n    \
                     let y[..l, ..m] = sum[c] x[..l, c] * w[c, ..m];\n    y\n}"
                        .to_owned(),
                    format!("applied({}, {})", x.name, y.name),
                    Tensor {
                        axes: [left, right].concat(),
                        bound,
                        error: if rough { error + n * rounding(bound) } else { 0.0 },
                        nan: x.nan || y.nan,
                        ids: false,
                        ..x.clone()
                    },
                )
            }
            _ => return self.statement(None),
        };
        if made.error > ROUGHEST {
            return self.statement(None);
        }
        self.mark("a call of any rank");
        if text.contains(": Float") || text.contains(": Int") {
            self.mark("a dtype variable");
        }
        for item in text.split_inclusive("\n}") {
            let item = item.trim().to_owned();
            if !self.items.contains(&item) {
                self.items.push(item);
            }
        }
        if call.starts_with("applied") || call.starts_with("outer") {
            self.mark("several dim ..");
        }
        let name = self.fresh("t");
        self.line(&format!("let {name} = {call};"));
        self.tensors.push(Tensor { name, ..made });
    }

    fn space<'t>(&self, axes: impl Iterator<Item = &'t ExtentId>) -> i64 {
        axes.map(|&a| self.value(a).max(1)).product()
    }
}

/// The distance to the largest of each row.
fn center(dtype: DType) -> String {
    format!(
        "fn center_{dtype}<dim ..L, dim C>(x: {dtype}[..L, C]) -> {dtype}[..L, C] {{\n    \
         let m[..l] = max[j] x[..l, j];\n    \
         let y[..l, j] = x[..l, j] - m[..l];\n    y\n}}"
    )
}
