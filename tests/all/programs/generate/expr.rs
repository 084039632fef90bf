//! Random expressions.

use eindecomp_core::ein::DType;

use super::value::{
    AND, CAST, COMPARE, OR, PRIMARY, PRODUCT, REDUCTION, ROUGHEST, SUM, UNARY, Val, bounds, common,
    limit, literal, rounding, undefined, unsigned,
};
use super::{Maker, Tensor, records};

/// Continuous functions, and what they need around their argument.
const ROUGH: [(&str, &str); 20] = [
    ("exp", "{}"),
    ("log", "1.0 + abs({})"),
    ("log1p", "abs({})"),
    ("sqrt", "1.0 + abs({})"),
    ("rsqrt", "1.0 + sq({})"),
    ("recip", "2.0 + abs({})"),
    ("pow", "1.0 + abs({}), 2.0"),
    ("pow", "2.0, {}"),
    ("sin", "{}"),
    ("cos", "{}"),
    ("tanh", "{}"),
    ("erf", "{}"),
    ("sigmoid", "{}"),
    ("softplus", "{}"),
    ("silu", "{}"),
    ("gelu", "{}"),
    ("gelu_tanh", "{}"),
    ("exp", "-abs({})"),
    ("sin", "2.0 * {}"),
    ("cos", "{} + 1.0"),
];

/// Their largest value and steepest slope on −3 ..= 3.
const ROUGH_BOUND: f64 = 21.0;

impl Maker<'_> {
    /// A value that widens to `dtype` and, unless infinite, stays exact in its own.
    pub(super) fn expr(&mut self, dtype: DType, deep: usize) -> Val {
        if dtype == DType::Bool {
            return self.condition(deep);
        }
        if deep == 0 {
            return self.leaf(dtype);
        }
        match self.rng.below(14) {
            0..=2 => self.leaf(dtype),
            3..=5 => self.arithmetic(dtype, deep),
            6 => self.call_of_function(dtype, deep),
            7 => self.choice(dtype, deep),
            8 => self.cast(dtype, deep),
            9 if dtype.is_float() && !self.exact => self.rough(dtype, deep),
            10 if matches!(dtype, DType::F32 | DType::F64) => records::reduction(self, dtype, deep),
            _ => self.reduction(dtype, deep),
        }
    }

    /// A value of finite, small bound.
    pub(super) fn small(&mut self, dtype: DType, deep: usize, most: f64) -> Val {
        let val = self.expr(dtype, deep);
        match val.bound <= most {
            true => val,
            false => self.clamped(val, most.min(3.0)),
        }
    }

    /// `clamp(…)` to a whole bound.
    pub(super) fn clamped(&mut self, val: Val, most: f64) -> Val {
        let most = most.floor();
        let high = literal(val.dtype, most as i64).text;
        let low = literal(
            val.dtype,
            if unsigned(val.dtype) {
                0
            } else {
                -(most as i64)
            },
        )
        .text;
        Val {
            text: format!("clamp({}, {low}, {high})", val.text),
            strength: PRIMARY,
            bound: most,
            ..val
        }
    }

    /// Tensors that may be read where `dtype` is wanted.
    pub(super) fn readable(&self, dtype: DType) -> Vec<Tensor> {
        let narrower = match dtype {
            DType::F64 => Some(DType::F32),
            DType::F32 => Some(DType::BF16),
            DType::I64 => Some(DType::I32),
            _ => None,
        };
        let fits = |t: &&Tensor| {
            (t.dtype == dtype || Some(t.dtype) == narrower) && (!self.exact || t.error == 0.0)
        };
        self.tensors.iter().filter(fits).cloned().collect()
    }

    /// Of some tensors, one whose axes have indices in scope.
    pub(super) fn fitting(&mut self, of: &[Tensor]) -> Tensor {
        let score = |maker: &Self, t: &Tensor| {
            let reached = |&&axis: &&usize| maker.reaches(axis);
            2 * t.axes.iter().filter(reached).count() + 1 - t.axes.len().min(1)
        };
        let (a, b) = (self.rng.one_of(of), self.rng.one_of(of));
        if score(self, &a) >= score(self, &b) {
            a
        } else {
            b
        }
    }

    /// Do indices in scope reach all of an axis?
    fn reaches(&self, axis: usize) -> bool {
        let has = |extent| self.indices.iter().any(|i| i.extent == extent);
        let parts = self.extents[axis].parts;
        let made = |e: usize| {
            let (stride, window) = (self.extents[e].strided, self.extents[e].window);
            [stride, window]
                .into_iter()
                .flatten()
                .any(|of| of.0 == axis)
        };
        has(axis)
            || parts.is_some_and(|(a, b)| has(a) && has(b))
            || self.indices.iter().any(|i| made(i.extent))
    }

    pub(super) fn leaf(&mut self, dtype: DType) -> Val {
        let tensors = self.readable(dtype);
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .filter(|h| h.1 == dtype)
            .map(|h| h.0.clone())
            .collect();
        if !hosts.is_empty() && self.rng.chance(4) {
            return Val::exact(self.rng.one_of(&hosts), PRIMARY, dtype, 3.0);
        }
        let whole = matches!(dtype, DType::I64 | DType::F32 | DType::F64 | DType::I32);
        if whole && !self.numbers.is_empty() && self.rng.chance(4) {
            let number = self.rng.one_of(&self.numbers.clone());
            self.mark("a loop number as a value");
            let number = Val::exact(number.name, PRIMARY, DType::I64, number.below as f64);
            return match dtype {
                DType::I64 => number,
                _ => Val {
                    text: format!("{} as {dtype}", number.text),
                    strength: CAST,
                    dtype,
                    ..number
                },
            };
        }
        if dtype == DType::I64 && !self.indices.is_empty() && self.rng.chance(4) {
            let at = self.rng.below(self.indices.len());
            let index = self.indices[at].clone();
            self.mark("an index as a value");
            let bound = self.value(index.extent).max(1) as f64;
            return Val::exact(index.name, PRIMARY, dtype, bound);
        }
        if dtype == DType::I64 && self.rng.chance(8) {
            let at = self.rng.below(self.extents.len());
            let extent = self.extents[at].clone();
            // A Rust const needs a cast.
            if extent.text.len() == 1 && extent.text != "K" && at >= 3 {
                self.mark("a dim as a value");
                return Val::exact(extent.text, PRIMARY, dtype, extent.value.max(1) as f64);
            }
        }
        if tensors.is_empty() || self.rng.chance(10) {
            let low = if unsigned(dtype) { 0 } else { -2 };
            let n = low + self.rng.below(5) as i64;
            return literal(dtype, n);
        }
        let t = self.fitting(&tensors);
        self.read_small(&t, None)
    }

    /// A read, clamped if the tensor's elements may be infinite.
    fn read_small(&mut self, t: &Tensor, must: Option<usize>) -> Val {
        let val = self.read(t, must);
        match val.bound.is_finite() || self.rng.chance(4) {
            true => val,
            false => self.clamped(val, 3.0),
        }
    }

    fn arithmetic(&mut self, dtype: DType, deep: usize) -> Val {
        let room = limit(self.narrowest(dtype));
        let op = match unsigned(dtype) {
            true => self.rng.one_of(&["+", "*", "*"]),
            false => self.rng.one_of(&["+", "-", "-", "*", "*"]),
        };
        let (most, strength) = match op {
            "*" => (room.sqrt().floor(), PRODUCT),
            _ => (room / 2.0, SUM),
        };
        let a = self.small(dtype, deep - 1, most);
        let before = self.saved();
        let mut b = self.small(dtype, deep - 1, most);
        let (mut bound, mut error) = bounds(op, &a, &b);
        if error > ROUGHEST {
            self.restore(before.clone());
            b = literal(dtype, 2);
            (bound, error) = bounds(op, &a, &b);
        }
        if error > ROUGHEST {
            return a;
        }
        if dtype.is_int() && self.rng.chance(6) {
            self.restore(before);
            let n = 1 + self.rng.below(3);
            let op = self.rng.one_of(&["/", "%"]);
            self.mark(if op == "/" { "integer /" } else { "integer %" });
            let text = format!("{} {op} {n}", a.at(PRODUCT));
            let bound = a.bound.max(3.0);
            return Val {
                text,
                strength: PRODUCT,
                bound,
                ..a
            };
        }
        if dtype.is_float() && error == 0.0 && self.rng.chance(16) {
            self.restore(before);
            self.mark("float %");
            let text = format!("{} % 3.0", a.at(PRODUCT));
            let nan = a.nan || a.bound.is_infinite();
            return Val {
                text,
                strength: PRODUCT,
                bound: 3.0,
                nan,
                ..a
            };
        }
        let (left, right) = match op {
            "*" => (a.at(PRODUCT), b.at(CAST)),
            // The body of a reduction ends before a sum.
            _ => (a.at(SUM), b.at(REDUCTION)),
        };
        Val {
            text: format!("{left} {op} {right}"),
            strength,
            dtype: common(&a, &b),
            bound,
            error,
            nan: a.nan || b.nan || undefined(op, &a, &b),
            typed: a.typed || b.typed,
        }
    }

    /// The narrowest dtype that may be computed in where `dtype` is wanted.
    fn narrowest(&self, dtype: DType) -> DType {
        let all = self.readable(dtype).into_iter().map(|t| t.dtype);
        all.chain([dtype])
            .min_by(|a, b| limit(*a).total_cmp(&limit(*b)))
            .unwrap_or(dtype)
    }

    fn call_of_function(&mut self, dtype: DType, deep: usize) -> Val {
        let room = limit(self.narrowest(dtype));
        let a = self.small(dtype, deep - 1, room.sqrt().floor());
        let call = |name: &str, a: &Val, bound: f64| Val {
            text: format!("{name}({})", a.text),
            strength: PRIMARY,
            bound,
            ..a.clone()
        };
        match self.rng.below(9) {
            0 if !unsigned(a.dtype) => call("abs", &a, a.bound),
            1 if !unsigned(a.dtype) => call("relu", &a, a.bound),
            2 if a.error == 0.0 => call("sq", &a, a.bound * a.bound),
            3 if a.error == 0.0 => call("sign", &a, 1.0),
            4 if !unsigned(dtype) => {
                self.mark("a sign");
                Val {
                    text: format!("-{}", a.at(UNARY)),
                    strength: UNARY,
                    ..a
                }
            }
            5 if dtype.is_float() && a.error == 0.0 => {
                let name = self.rng.one_of(&["floor", "ceil", "round"]);
                call(name, &a, a.bound)
            }
            6 => self.clamped(a, 2.0),
            7 if !self.simple => self.own_function(a, dtype, deep),
            _ => {
                let b = self.small(dtype, deep - 1, room);
                let name = self.rng.one_of(&["max", "min"]);
                self.mark("max and min of two");
                Val {
                    text: format!("{name}({}, {})", a.text, b.text),
                    strength: PRIMARY,
                    dtype: common(&a, &b),
                    bound: a.bound.max(b.bound),
                    error: a.error.max(b.error),
                    nan: a.nan || b.nan,
                    typed: a.typed || b.typed,
                }
            }
        }
    }

    /// A scalar function of one's own.
    fn own_function(&mut self, a: Val, dtype: DType, deep: usize) -> Val {
        let before = self.saved();
        let b = self.small(dtype, deep - 1, 3.0);
        let a = match a.bound <= 4.0 {
            true => a,
            false => self.clamped(a, 3.0),
        };
        let all = [
            ("fn larger(x, y) = if x > y { x } else { y };", "larger"),
            ("fn both(x, y) = x * y + x;", "both"),
            ("fn more(x, y) = both(max(x, y), y) + abs(x);", "more"),
        ];
        let (_, name) = self.rng.one_of(&all);
        // `if x > y` on values that are not exact may choose the other, which is as near.
        let (bound, error) = match name {
            "larger" => (a.bound.max(b.bound), a.error + b.error),
            _ => (40.0, 20.0 * (a.error + b.error)),
        };
        if error > ROUGHEST {
            self.restore(before);
            return a;
        }
        for (text, _) in all {
            if !self.items.iter().any(|item| item == text) {
                self.items.push(text.to_owned());
            }
        }
        self.mark("a scalar function");
        Val {
            text: format!("{name}({}, {})", a.text, b.text),
            strength: PRIMARY,
            dtype: common(&a, &b),
            bound,
            error,
            nan: a.nan || b.nan,
            typed: a.typed || b.typed,
        }
    }

    fn rough(&mut self, dtype: DType, deep: usize) -> Val {
        let a = self.small(dtype, deep - 1, 3.0);
        let a = match a.bound <= 3.0 {
            true => a,
            false => self.clamped(a, 3.0),
        };
        let error = a.error * ROUGH_BOUND + 100.0 * rounding(ROUGH_BOUND);
        if !matches!(a.dtype, DType::F32 | DType::F64) || error > ROUGHEST {
            return a;
        }
        let at = self.rng.below(ROUGH.len());
        let (name, argument) = ROUGH[at];
        self.mark(name);
        Val {
            text: format!("{name}({})", argument.replace("{}", &a.at(PRIMARY))),
            strength: PRIMARY,
            bound: ROUGH_BOUND,
            error,
            ..a
        }
    }

    fn choice(&mut self, dtype: DType, deep: usize) -> Val {
        let condition = self.condition(deep - 1);
        self.guarded += 1;
        let a = self.expr(dtype, deep - 1);
        let b = self.expr(dtype, deep - 1);
        self.guarded -= 1;
        self.mark("if");
        Val {
            text: format!(
                "if {} {{ {} }} else {{ {} }}",
                condition.text, a.text, b.text
            ),
            strength: PRIMARY,
            dtype: common(&a, &b),
            bound: a.bound.max(b.bound),
            error: a.error.max(b.error),
            nan: a.nan || b.nan,
            typed: a.typed || b.typed,
        }
    }

    fn cast(&mut self, dtype: DType, deep: usize) -> Val {
        let from = self.rng.one_of(&[
            DType::F64,
            DType::F32,
            DType::I64,
            DType::I32,
            DType::U8,
            DType::Bool,
            DType::BF16,
        ]);
        let before = self.saved();
        let a = self.expr(from, deep - 1);
        let whole = a.error == 0.0 && !a.nan && a.bound <= limit(dtype);
        let sign = !unsigned(dtype) || unsigned(from) || from == DType::Bool;
        let flex = a.strength == PRIMARY && a.text.starts_with(|c: char| c.is_ascii_digit());
        if !whole || !sign || from == dtype || flex {
            if a.dtype == dtype {
                return a;
            }
            self.restore(before);
            return self.leaf(dtype);
        }
        self.mark("as");
        Val {
            text: format!("{} as {dtype}", a.at(UNARY)),
            strength: CAST,
            dtype,
            typed: true,
            ..a
        }
    }

    /// A bool.
    pub(super) fn condition(&mut self, deep: usize) -> Val {
        let bools = self.readable(DType::Bool);
        let exact = |text: String, strength| Val::exact(text, strength, DType::Bool, 1.0);
        match self.rng.below(9) {
            0 if !self.indices.is_empty() => {
                let (a, b) = (
                    self.rng.below(self.indices.len()),
                    self.rng.below(self.indices.len()),
                );
                let (a, b) = (&self.indices[a].name, &self.indices[b].name);
                let text = match self.rng.chance(2) {
                    true => format!("{a} <= {b}"),
                    false => format!("{a} == {}", self.rng.below(3)),
                };
                self.mark("a comparison of indices");
                exact(text, COMPARE)
            }
            1 if deep > 0 => {
                let a = self.condition(deep - 1);
                let b = self.condition(deep - 1);
                match self.rng.chance(2) {
                    true => exact(format!("{} && {}", a.at(AND), b.at(COMPARE)), AND),
                    false => exact(format!("{} || {}", a.at(OR), b.at(AND)), OR),
                }
            }
            2 if deep > 0 => {
                let a = self.condition(deep - 1);
                exact(format!("!{}", a.at(UNARY)), UNARY)
            }
            3 if deep > 0 => self.any_or_all(deep),
            4 if deep > 0 => {
                let a = self.expr(DType::F32, deep - 1);
                self.mark("is_nan");
                exact(format!("is_nan({})", a.text), PRIMARY)
            }
            5 | 6 if !bools.is_empty() => {
                let t = self.fitting(&bools);
                self.read(&t, None)
            }
            _ => {
                let dtype = self
                    .rng
                    .one_of(&[DType::F32, DType::F64, DType::I64, DType::U32]);
                let exact_before = std::mem::replace(&mut self.exact, true);
                let a = self.expr(dtype, deep.min(1));
                let b = self.leaf(dtype);
                self.exact = exact_before;
                let op = self.rng.one_of(&["<", "<=", ">", ">=", "==", "!="]);
                self.mark("a comparison");
                exact(format!("{} {op} {}", a.at(SUM), b.at(SUM)), COMPARE)
            }
        }
    }
}
