//! Names that are meant when another is written.

use super::ast::Path;
use crate::ein::Dim;
use crate::ein::agg::AGGS;
use crate::ein::scalar::SCALARS;

/// A name for what gets one: `t`, `t2`, …, the first that is not taken.
pub(in crate::syntax) fn fresh(taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|n| format!("t{n}"));
    let mut names = std::iter::once("t".to_owned()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or_default()
}

/// Is each different from all others?
pub(in crate::syntax) fn are_distinct<T: PartialEq>(names: &[T]) -> bool {
    let mut each = names.iter().enumerate();
    each.all(|(at, name)| !names[..at].contains(name))
}

/// The built-in aggregation over records.
pub(in crate::syntax) const SOFTMAX_SUM: &str = "softmax_sum";

/// What is wrong with an `if` that has no `else`.
pub(in crate::syntax) const NO_ELSE: &str = "an `if` is a value, so it needs an `else`";

/// What people coming from other libraries call our functions and aggregations.
const ALIASES: &[(&str, &str)] = &[
    ("average", "mean"),
    ("avg", "mean"),
    ("amax", "max"),
    ("amin", "min"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("product", "prod"),
    ("add", "sum"),
    ("norm", "sum"),
    ("lse", "logsumexp"),
    ("Σ", "sum"),
    ("Sum", "sum"),
    ("Π", "prod"),
    ("Prod", "prod"),
    ("softmax", "softmax_sum"),
    ("attention", "softmax_sum"),
    ("swish", "silu"),
    ("sigm", "sigmoid"),
    ("logistic", "sigmoid"),
    ("ln", "log"),
    ("square", "sq"),
    ("sqr", "sq"),
    ("pow2", "sq"),
    ("absolute", "abs"),
    ("fmax", "max"),
    ("fmin", "min"),
    ("tahn", "tanh"),
    ("clip", "clamp"),
    ("logsum", "logsumexp"),
    ("inverse", "recip"),
    ("reciprocal", "recip"),
    ("power", "pow"),
    ("isnan", "is_nan"),
    ("sgn", "sign"),
    ("fabs", "abs"),
];

/// Functions of other libraries of one argument, which is `x` in what they are here.
const FORMULAS: &[(&str, &str)] = &[
    ("relu6", "clamp(x, 0.0, 6.0)"),
    ("hardtanh", "clamp(x, -1.0, 1.0)"),
    ("hardsigmoid", "clamp(x / 6.0 + 0.5, 0.0, 1.0)"),
    ("hardswish", "x * clamp(x / 6.0 + 0.5, 0.0, 1.0)"),
    ("leaky_relu", "max(x, 0.01 * x)"),
    ("elu", "if x > 0.0 { x } else { exp(x) - 1.0 }"),
    ("mish", "x * tanh(softplus(x))"),
    ("softsign", "x / (1.0 + abs(x))"),
    ("logsigmoid", "-softplus(-x)"),
    ("exp2", "exp(0.6931471805599453 * x)"),
    ("expm1", "exp(x) - 1.0"),
    ("log2", "log(x) / 0.6931471805599453"),
    ("log10", "log(x) / 2.302585092994046"),
    ("tan", "sin(x) / cos(x)"),
    ("sinh", "(exp(x) - exp(-x)) / 2.0"),
    ("cosh", "(exp(x) + exp(-x)) / 2.0"),
    ("cbrt", "sign(x) * pow(abs(x), 0.3333333333333333)"),
    ("logit", "log(x / (1.0 - x))"),
    ("square_root", "sqrt(x)"),
];

/// What a function of another library is here, as an expression of the argument: `x` where it
/// stands alone, `held` where operators are around it.
pub(in crate::syntax) fn formula(name: &str, x: &str, held: &str) -> Option<String> {
    let (_, formula) = FORMULAS.iter().find(|(known, _)| *known == name)?;
    let mut out = String::new();
    for (at, ch) in formula.char_indices() {
        let before = formula[..at].chars().next_back();
        let after = formula[at + 1..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if ch != 'x' || inside(before) || inside(after) {
            out.push(ch);
        } else {
            let alone = before == Some('(') && matches!(after, Some(',' | ')'));
            out += if alone { x } else { held };
        }
    }
    Some(out)
}

/// The candidate that is `name` but for its case, or is nearest to it, if that is near.
pub(in crate::syntax) fn nearest<'a>(
    name: &str,
    among: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let among: Vec<&str> = among.into_iter().filter(|other| *other != name).collect();
    if let Some(same) = among.iter().find(|other| name.eq_ignore_ascii_case(other)) {
        return Some(same);
    }
    let allowed = |other: &str| 1 + name.len().min(other.len()).saturating_sub(1) / 4;
    among
        .into_iter()
        .map(|other| (distance(name, other), other))
        .filter(|(d, other)| {
            *d <= allowed(other) && *d < name.chars().count().max(other.chars().count())
        })
        .min_by_key(|(d, _)| *d)
        .map(|(_, other)| other)
}

/// Is an index called like an axis, as `d` is like `D`?
pub(in crate::syntax) fn is_like(axis: &Dim, index: &str) -> bool {
    axis.to_string().to_lowercase() == index
}

/// What other libraries have a function for, and how it is written here.
const WRITTEN_OUT: &[(&[&str], &str)] = &[
    (
        &["softmax", "log_softmax"],
        "a softmax is written out, with `max[j]` and `sum[j]` over its axis: `exp(x[i] - m) / z`",
    ),
    (
        &[
            "matmul",
            "mm",
            "bmm",
            "dot",
            "einsum",
            "tensordot",
            "linear",
        ],
        "a product is written out: `let y[m, n] = sum[k] x[m, k] * w[k, n];`",
    ),
    (
        &["transpose", "permute", "swapaxes"],
        "axes change places by their indices: `let y[n, m] = x[m, n];`",
    ),
    (
        &["reshape", "view", "flatten"],
        "axes are merged and split by tuples: `let y[(h, e)] = x[h, e];`",
    ),
    (
        &["concat", "concatenate", "cat", "stack"],
        "say where each part goes: `if i < N { x[i] } else { y[i - N] }`",
    ),
    (
        &[
            "to", "into", "cast", "astype", "type", "float", "int", "convert",
        ],
        "a conversion is `x as f32`",
    ),
    (
        &["where", "select", "masked_fill"],
        "write `if … { … } else { … }`",
    ),
    (
        &["var", "variance", "std"],
        "a variance is written out: `mean[i] sq(x[i] - m)`, with `let m[] = mean[i] x[i];` before",
    ),
    (
        &["median", "quantile", "sort", "topk"],
        "what needs the elements in order is an `extern fn`",
    ),
    (
        &[
            "dropout",
            "rand",
            "randn",
            "randint",
            "random",
            "bernoulli",
            "uniform",
            "normal",
            "multinomial",
        ],
        "random numbers are inputs: a parameter of the block",
    ),
    (
        &[
            "zeros",
            "ones",
            "full",
            "zeros_like",
            "ones_like",
            "full_like",
        ],
        "a constant is a value: `let z[i in N] = 0.0;`",
    ),
    (
        &["arange", "linspace"],
        "an index is a number too: `let t[i in N] = i as f32;`",
    ),
    (
        &[
            "gather",
            "take",
            "index_select",
            "embedding",
            "take_along_dim",
        ],
        "an element of integers is a position: `table[ids[i], j]`",
    ),
    (
        &["scatter", "scatter_add", "index_add"],
        "say for each element what it takes: `sum[s where ids[s] == c] x[s]`",
    ),
    (
        &["cumsum", "cumprod"],
        "a running sum is written out: `sum[s where s <= t] x[s]`",
    ),
    (
        &["one_hot"],
        "a comparison is 0 or 1: `if ids[i] == c { 1.0 } else { 0.0 }`",
    ),
    (
        &["tril", "triu"],
        "a triangle is a condition: `if j <= i { x[i, j] } else { 0.0 }`",
    ),
    (
        &[
            "expand",
            "broadcast",
            "broadcast_to",
            "repeat",
            "tile",
            "squeeze",
            "unsqueeze",
        ],
        "an index that the right does not have repeats it: `let y[b, d in D] = x[b];`",
    ),
    (
        &["pad"],
        "a value outside stands in the access: `(x[i - 1] else 0.0)`",
    ),
    (
        &["flip", "roll"],
        "a position says which element: `x[N - 1 - i]`, `x[(i + 1) % N]`",
    ),
    (
        &["len", "shape", "size"],
        "a size is a dim, `N`, and a number as `N as f32`",
    ),
];

/// Has another library a function of this name, which is written out here?
pub(in crate::syntax) fn is_known_elsewhere(name: &str) -> bool {
    WRITTEN_OUT.iter().any(|(names, _)| names.contains(&name))
}

/// Is it what other libraries call a product of matrices?
pub(in crate::syntax) fn is_product(name: &str) -> bool {
    matches!(name, "matmul" | "mm" | "bmm" | "dot")
}

/// What to write where there is no function like `name`.
pub(in crate::syntax) fn instead(name: &str) -> String {
    if let Some((_, text)) = WRITTEN_OUT.iter().find(|(names, _)| names.contains(&name)) {
        return (*text).to_owned();
    }
    let known = SCALARS.iter().filter(|row| row.symbol.is_none());
    let known: Vec<&str> = known.map(|row| row.name).collect();
    format!(
        "functions are `{}`; or write `fn {name}(x) = …;`",
        known.join("`, `")
    )
}

/// The aggregation meant by `name`, or one of `others`.
pub(in crate::syntax) fn nearest_agg<'a>(
    name: &str,
    others: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let rows = || AGGS.iter().map(|row| row.name).chain([SOFTMAX_SUM]);
    // One's own names come first.
    nearest(name, others)
        .or_else(|| alias(name).filter(|meant| rows().any(|row| row == *meant)))
        .or_else(|| rows().find(|row| name.eq_ignore_ascii_case(row)))
        .or_else(|| nearest(name, rows()))
}

/// The scalar function meant by `name`, or one of `others`.
pub(in crate::syntax) fn nearest_function<'a>(
    name: &str,
    others: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let functions = || {
        SCALARS
            .iter()
            .filter(|row| row.symbol.is_none())
            .map(|row| row.name)
    };
    nearest(name, others)
        .or_else(|| alias(name).filter(|meant| functions().any(|row| row == *meant)))
        .or_else(|| functions().find(|row| name.eq_ignore_ascii_case(row)))
        .or_else(|| nearest(name, functions()))
}

/// A constant of Rust's number types, `f32::MAX` or `std::f32::consts::PI`, as a literal.
pub(in crate::syntax) fn rust_number(path: &Path) -> Option<String> {
    let names: Vec<&str> = path.segments.iter().map(|s| s.as_str()).collect();
    if let [name] = names[..] {
        return Some(unnamed_number(name)?.to_owned());
    }
    let [.., module, name] = names[..] else {
        return None;
    };
    let float = |max: String, least: String, epsilon: String| {
        Some(match name {
            "MAX" => max,
            "MIN" => format!("-{max}"),
            "MIN_POSITIVE" => least,
            "EPSILON" => epsilon,
            "INFINITY" => "inf".into(),
            "NEG_INFINITY" => "-inf".into(),
            "NAN" => "nan".into(),
            _ => return None,
        })
    };
    let int = |min: i64, max: i64| match name {
        "MAX" => Some(max.to_string()),
        // The magnitude of the least i64 is no literal.
        "MIN" if min != i64::MIN => Some(min.to_string()),
        _ => None,
    };
    let text = |x: f64| format!("{x:e}");
    match module {
        "f64" => float(text(f64::MAX), text(f64::MIN_POSITIVE), text(f64::EPSILON)),
        "f32" => {
            let text = |x: f32| format!("{x:e}");
            float(text(f32::MAX), text(f32::MIN_POSITIVE), text(f32::EPSILON))
        }
        "f16" => float("65504.0".into(), "6.104e-5".into(), "9.77e-4".into()),
        "bf16" => float(
            "3.3895314e38".into(),
            text(2f64.powi(-126)),
            "7.8125e-3".into(),
        ),
        "i64" => int(i64::MIN, i64::MAX),
        "i32" => int(i32::MIN.into(), i32::MAX.into()),
        "u32" => int(0, u32::MAX.into()),
        "u8" => int(0, u8::MAX.into()),
        "consts" if matches!(names[..], [.., "f32" | "f64", _, _]) => constant(name),
        _ => None,
    }
}

/// A constant of mathematics by its name in Rust.
pub(in crate::syntax) fn constant(name: &str) -> Option<String> {
    use std::f64::consts as c;
    let known = [
        ("PI", c::PI),
        ("TAU", c::TAU),
        ("E", c::E),
        ("SQRT_2", c::SQRT_2),
        ("LN_2", c::LN_2),
        ("LN_10", c::LN_10),
        ("LOG2_E", c::LOG2_E),
        ("LOG10_E", c::LOG10_E),
        ("FRAC_PI_2", c::FRAC_PI_2),
        ("FRAC_PI_4", c::FRAC_PI_4),
        ("FRAC_1_PI", c::FRAC_1_PI),
        ("FRAC_2_PI", c::FRAC_2_PI),
        ("FRAC_1_SQRT_2", c::FRAC_1_SQRT_2),
        ("FRAC_2_SQRT_PI", c::FRAC_2_SQRT_PI),
    ];
    let (_, value) = known.into_iter().find(|(known, _)| *known == name)?;
    Some(format!("{value:?}"))
}

/// What is no finite number, as other languages call it.
fn unnamed_number(name: &str) -> Option<&'static str> {
    match name {
        "INFINITY" | "INF" | "Inf" | "Infinity" => Some("inf"),
        "NEG_INFINITY" | "NEG_INF" => Some("-inf"),
        "NAN" | "NaN" | "Nan" => Some("nan"),
        _ => None,
    }
}

/// `1 axis`, `2 axes`.
pub(in crate::syntax) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{n} {many}")
    }
}

/// `1 is`, `2 are`.
pub(in crate::syntax) fn are(n: usize) -> String {
    count(n, "is", "are")
}

/// Is it what other libraries call one of our functions?
pub(in crate::syntax) fn is_alias(name: &str) -> bool {
    alias(name).is_some()
}

/// What other libraries call one of our functions or aggregations.
pub(in crate::syntax) fn alias(name: &str) -> Option<&'static str> {
    ALIASES
        .iter()
        .find(|(other, _)| *other == name)
        .map(|(_, meant)| *meant)
}

/// Insertions, deletions, replacements and swaps of neighbours from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(x != y))
                .min(rows[i][j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        assert_eq!(nearest("kk", ["k", "m"]), Some("k"));
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest_agg("average", []), Some("mean"));
        assert_eq!(nearest_agg("smu", []), Some("sum"));
        assert_eq!(nearest_agg("welfrod", ["welford"]), Some("welford"));
        assert_eq!(nearest_agg("softmax", []), Some("softmax_sum"));
        assert_eq!(nearest_function("swish", []), Some("silu"));
        assert_eq!(nearest_function("gelo", []), Some("gelu"));
        assert_eq!(nearest_function("frobnicate", []), None);
    }
}
