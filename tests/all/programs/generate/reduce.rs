//! Reductions.

use eindecomp_core::ein::DType;

use super::value::{
    PRODUCT, REDUCTION, ROUGHEST, UNARY, Val, bounds, common, limit, literal, rounding, spread,
    undefined,
};
use super::{LARGEST_SPACE, Maker, Tensor};

impl Maker<'_> {
    pub(super) fn any_or_all(&mut self, deep: usize) -> Val {
        let extent = self.any_extent(&[]);
        let depth = self.indices.len();
        let index = self.index(extent);
        let body = self.condition(deep - 1);
        if is_same(&body.text, &[&index]) {
            self.indices.truncate(depth);
            return body;
        }
        let settled = self.indices[depth].settled;
        self.indices.truncate(depth);
        let agg = self.rng.one_of(&["any", "all"]);
        self.mark(agg);
        let range = match settled {
            true => index,
            false => format!("{index} in {}", self.extents[extent].text),
        };
        let text = format!("{agg}[{range}] {}", body.at(UNARY));
        Val::exact(text, REDUCTION, DType::Bool, 1.0)
    }

    pub(super) fn reduction(&mut self, dtype: DType, deep: usize) -> Val {
        let aggs: &[&'static str] = match dtype {
            DType::F32 | DType::F64 => &[
                "sum",
                "sum",
                "sum",
                "max",
                "min",
                "prod",
                "mean",
                "logsumexp",
            ],
            DType::I64 => &["sum", "sum", "max", "min", "prod", "argmax", "argmin"],
            _ => &["sum", "sum", "max", "min", "prod"],
        };
        let agg = self.rng.one_of(aggs);
        let selects = agg.starts_with("arg");
        let of = match selects {
            true => self.rng.one_of(&[DType::F32, DType::F64, DType::I32]),
            false => dtype,
        };
        let tensors = self.readable(of);
        if tensors.is_empty() || (self.exact && matches!(agg, "mean" | "logsumexp")) {
            return self.leaf(dtype);
        }
        let t = self.fitting(&tensors);
        // Over axes of the tensor, so that its elements are what is reduced.
        let before = self.saved();
        let depth = self.indices.len();
        let mut over = Vec::new();
        let mut axes = t.axes.clone();
        let count = if selects || self.rng.chance(2) { 1 } else { 2 };
        while over.len() < count {
            let extent = match axes.is_empty() {
                true => self.any_extent(&[]),
                false => axes.remove(self.rng.below(axes.len())),
            };
            over.push(extent);
        }
        let space = |maker: &Self| -> i64 {
            let scope = maker.indices.iter().map(|i| i.extent);
            scope.map(|e| maker.value(e).max(1)).product()
        };
        for extent in over {
            if space(self) * self.value(extent) <= LARGEST_SPACE || self.indices.len() == depth {
                self.index(extent);
            }
        }
        let points: f64 = self.indices[depth..]
            .iter()
            .map(|i| self.value(i.extent) as f64)
            .product();
        let exact_before = self.exact;
        self.exact |= selects;
        let filter = self.rng.chance(4).then(|| {
            self.mark("a filter");
            self.condition(1)
        });
        self.guarded += usize::from(filter.is_some());
        let mut val = self.body(agg, &t, depth, points, deep);
        self.guarded -= usize::from(filter.is_some());
        self.exact = exact_before;
        let mut reduced: Vec<_> = self.indices.drain(depth..).collect();
        let names: Vec<&str> = reduced.iter().map(|i| &*i.name).collect();
        if is_same(&val.text, &names) {
            self.restore(before);
            return self.leaf(dtype);
        }
        // What nothing uses is not reduced over.
        if reads(&val.text) {
            let filter = filter.as_ref().map_or("", |filter| &filter.text);
            reduced.retain(|i| uses(&val.text, &i.name) || uses(filter, &i.name));
        }
        let ranges: Vec<String> = reduced
            .iter()
            .map(|i| match i.settled && !self.rng.chance(5) {
                true => i.name.clone(),
                false => format!("{} in {}", i.name, self.extents[i.extent].text),
            })
            .collect();
        let mut head = format!("{agg}[{}", ranges.join(", "));
        if let Some(filter) = &filter {
            head += &format!(" where {}", filter.text);
        }
        let empty = points == 0.0 || filter.is_some();
        let accumulates = matches!(agg, "sum" | "prod" | "max" | "min") && val.dtype != dtype;
        if accumulates || (self.rng.chance(8) && agg == "sum" && val.dtype.widens_to(dtype)) {
            head += &format!("; {dtype}");
            // Integer arithmetic is refused where it could wrap in a narrower dtype.
            if val.dtype.is_int() && val.dtype != dtype && val.text.contains(['*', '+', '-', '(']) {
                val.text = format!("(({}) as {dtype})", val.text);
            }
            val.dtype = dtype;
            self.mark("an accumulator");
        }
        self.mark(agg);
        let text = format!("{head}] {}", val.text);
        let n = points.max(1.0);
        let (bound, error) = match agg {
            "sum" => (
                val.bound * n,
                val.error * n + spread(val.error, val.bound * n),
            ),
            "prod" => (val.bound.max(1.0).powf(n), 0.0),
            "max" | "min" if empty => (f64::INFINITY, val.error),
            "max" | "min" => (val.bound, val.error),
            "mean" => (val.bound, val.error + 10.0 * rounding(val.bound)),
            "logsumexp" if empty => (f64::INFINITY, val.error + 10.0 * rounding(val.bound + n)),
            "logsumexp" => (
                val.bound + n.ln(),
                val.error + 10.0 * rounding(val.bound + n),
            ),
            _ => (n, 0.0),
        };
        val = Val {
            text,
            strength: REDUCTION,
            dtype: if selects { DType::I64 } else { val.dtype },
            bound,
            error,
            nan: !selects && (val.nan || (agg == "mean" && empty) || val.bound.is_infinite()),
            typed: val.typed || selects,
        };
        val
    }

    /// What a reduction folds, such that the result is exact where it should be.
    fn body(&mut self, agg: &str, t: &Tensor, depth: usize, points: f64, deep: usize) -> Val {
        let n = points.max(1.0);
        let room = limit(t.dtype);
        let most = match agg {
            "sum" => (room / n).sqrt().floor(),
            "prod" => room.powf(1.0 / n).min(4.0).floor(),
            "mean" | "logsumexp" => 20.0,
            _ => f64::INFINITY,
        };
        let rounds = matches!(agg, "sum" | "mean" | "logsumexp" | "max" | "min");
        let exact_before = self.exact;
        self.exact |= !rounds;
        let before = self.saved();
        let first = self.read(t, Some(depth));
        let first = match first.bound <= most && (rounds || first.error == 0.0) {
            true => first,
            false => self.clamped(first, most.clamp(1.0, 3.0)),
        };
        let mut val = Val {
            text: first.at(UNARY),
            strength: UNARY,
            ..first
        };
        if agg == "sum" && most >= 2.0 && self.rng.chance(2) {
            let one = self.saved();
            let other = self.expr(val.dtype, deep - 1);
            let other = match other.bound <= most {
                true => other,
                false => self.clamped(other, most.clamp(1.0, 3.0)),
            };
            let (bound, error) = bounds("*", &val, &other);
            if error * n <= ROUGHEST {
                self.mark("a product");
                val = Val {
                    text: format!("{} * {}", val.text, other.at(UNARY)),
                    strength: PRODUCT,
                    dtype: common(&val, &other),
                    bound,
                    error,
                    nan: val.nan || other.nan || undefined("*", &val, &other),
                    typed: val.typed || other.typed,
                };
            } else {
                self.restore(one);
            }
        }
        self.exact = exact_before;
        if val.error * n > ROUGHEST || (!rounds && val.error > 0.0) {
            self.restore(before);
            return literal(val.dtype, 1);
        }
        val
    }
}

/// Does a text read a tensor, and by none of these indices? Such a body is not reduced.
pub(super) fn is_same(text: &str, indices: &[&str]) -> bool {
    reads(text) && !indices.iter().any(|index| uses(text, index))
}

fn reads(text: &str) -> bool {
    text.contains('[')
}

fn uses(text: &str, index: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == index)
}
