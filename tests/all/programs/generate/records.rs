//! Aggregations over records: `softmax_sum`, and one of one's own.

use eindecomp_core::ein::DType;

use super::Maker;
use super::reduce::is_same;
use super::value::{REDUCTION, ROUGHEST, Val, rounding};

/// Exact in every order.
const SPAN: &str = "agg span(x: f32) {
    state { low: f32 = inf, high: f32 = -inf, n: f32 = 0.0 }
    lift { low: x, high: x, n: 1.0 }
    merge(a, b) { { low: min(a.low, b.low), high: max(a.high, b.high), n: a.n + b.n } }
    finish { if n > 0.0 { high - low } else { -1.0 } }
}";

/// A reduction over one index of what widens to `dtype`.
pub fn reduction(maker: &mut Maker<'_>, dtype: DType, deep: usize) -> Val {
    let own = dtype == DType::F32 && (maker.exact || maker.rng.chance(2));
    let tensors = maker.readable(dtype);
    if tensors.is_empty() || (maker.exact && !own) {
        return maker.expr(dtype, 0);
    }
    let t = maker.fitting(&tensors);
    let extent = match t.axes.is_empty() {
        true => maker.any_extent(&[]),
        false => maker.rng.one_of(&t.axes),
    };
    let before = maker.saved();
    let depth = maker.indices.len();
    maker.index(extent);
    let filter = maker.rng.chance(4).then(|| {
        maker.mark("a filter");
        maker.condition(1)
    });
    maker.guarded += usize::from(filter.is_some());
    let first = maker.read(&t, Some(depth));
    let first = match first.bound <= 3.0 {
        true => first,
        false => maker.clamped(first, 3.0),
    };
    let value = (!own).then(|| maker.small(dtype, deep - 1, 20.0));
    maker.guarded -= usize::from(filter.is_some());
    let index = maker.indices.remove(depth);
    let value_text = value.as_ref().map_or("", |value| &value.text);
    if is_same(&format!("{}, {value_text}", first.text), &[&index.name]) {
        maker.restore(before);
        return maker.expr(dtype, 0);
    }
    let mut range = index.name;
    if !index.settled || maker.rng.chance(5) {
        range += &format!(" in {}", maker.extents[extent].text);
    }
    if let Some(filter) = &filter {
        range += &format!(" where {}", filter.text);
    }
    let Some(value) = value else {
        if !maker.items.iter().any(|item| item == SPAN) {
            maker.items.push(SPAN.to_owned());
        }
        maker.mark("an aggregation of one's own");
        return Val {
            text: format!("span[{range}] ({})", first.text),
            strength: REDUCTION,
            dtype: DType::F32,
            bound: 2.0 * first.bound,
            error: 2.0 * first.error,
            typed: true,
            ..first
        };
    };
    // A weighted mean: of nothing, it is NaN.
    let error = value.error + 2.0 * value.bound * first.error + 20.0 * rounding(value.bound);
    if error > ROUGHEST {
        maker.restore(before);
        return maker.expr(dtype, 0);
    }
    maker.mark("softmax_sum");
    Val {
        // In parentheses, since one may not depend on the index.
        text: format!("softmax_sum[{range}] (({}), ({}))", first.text, value.text),
        strength: REDUCTION,
        error,
        nan: value.nan || first.nan || filter.is_some() || maker.value(extent) == 0,
        ..value
    }
}
