//! Random expressions.

use super::{AGG, DIMS, FUNCTION, INDICES, Param, Ty, Writer};

const AGGS: [&str; 9] = [
    "sum",
    "sum",
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "logsumexp",
    "argmax",
];
const FUNCTIONS: [&str; 12] = [
    "exp", "sqrt", "max", "min", "clamp", "pow", "relu", "abs", "is_nan", "gelu", "floor", "sq",
];

impl Writer<'_> {
    /// An element of something, as a rule by indices in scope.
    fn access(&mut self, deep: usize) {
        let able = |t: &Param| match &t.ty {
            Ty::Tensor(axes) => axes.iter().all(|a| self.indices.contains(a)),
            Ty::Struct => [0, 1].iter().all(|a| self.indices.contains(a)),
            Ty::Position | Ty::Array => false,
        };
        let able = self.of(able);
        if able.is_empty() || self.wild() {
            let any = self.tensors();
            if any.is_empty() || (able.is_empty() && self.rng.chance(2)) {
                return self.word(&["1.0", "2.0", "0.5"]);
            }
            let t = self.rng.one_of(&any);
            let rank = match t.ty {
                Ty::Tensor(axes) => axes.len(),
                _ => 1,
            };
            if rank == 0 && !self.wild() {
                return self.put(&t.name);
            }
            let outside = !self.rng.chance(4);
            if outside {
                self.put("(");
            }
            self.put(&t.name);
            self.put("[");
            self.list(rank, |w, _| w.anywhere(deep));
            self.put("]");
            if outside {
                self.put("else");
                self.word(&["0.0", "- 1.0", "inf", "- inf", "nan", "1.0"]);
                self.put(")");
            }
            return;
        }
        let t = self.rng.one_of(&able);
        self.put(&t.name);
        let axes = match t.ty {
            Ty::Tensor(axes) => axes,
            _ => {
                self.put(". a");
                vec![0, 1]
            }
        };
        if axes.is_empty() {
            return;
        }
        self.put("[");
        self.list(axes.len(), |w, at| {
            let (index, dim) = (INDICES[axes[at]], DIMS[axes[at]]);
            match w.rng.below(24) {
                0 => w.put(&format!("( {index} + 1 ) % {dim}")),
                1 => w.put(&format!("{dim} - 1 - {index}")),
                2 => w.put(&format!("0 + {index}")),
                3 => w.put(&format!("min ( {index} + 1 , {dim} - 1 )")),
                4 => w.put(&format!("{index} / 2")),
                5 if deep > 0 && w.wild() => w.anywhere(deep - 1),
                _ => w.put(index),
            }
        });
        self.put("]");
    }

    /// A position, mostly of an axis of another extent.
    fn anywhere(&mut self, deep: usize) {
        let index = match self.indices.is_empty() || self.wild() {
            true => self.rng.one_of(&INDICES),
            false => INDICES[self.rng.one_of(&self.indices)],
        };
        match self.rng.below(8) {
            0 => self.put("( i , j )"),
            1 => self.put(&format!("2 * {index} + 1")),
            2 => self.put(&format!("{index} - 1")),
            3 => self.put(&format!("( {index} + 1 ) % N")),
            4 => self.put("( i , j + 1 )"),
            5 if deep > 0 => self.expr(deep - 1),
            6 if self.wild() => self.word(&["..l", "s", "1.5", "x"]),
            6 => self.word(&["0", "N - 1", "- 1"]),
            _ => self.put(index),
        }
    }

    pub(super) fn condition(&mut self, deep: usize) {
        match self.rng.below(4) {
            0 => {
                let index = match self.indices.is_empty() {
                    true => "i",
                    false => INDICES[self.rng.one_of(&self.indices)],
                };
                self.put(index);
                self.word(&["<=", "<", "==", ">="]);
                self.word(&["0", "1", "N - 1", "D", "M / 2"]);
            }
            1 if deep > 0 => {
                self.condition(deep - 1);
                self.word(&["&&", "||"]);
                self.condition(deep - 1);
            }
            _ => {
                self.expr(deep.min(1));
                self.word(&["==", "!=", "<", "<=", ">", ">="]);
                self.expr(0);
            }
        }
    }

    pub(super) fn expr(&mut self, deep: usize) {
        if deep == 0 {
            return self.access(0);
        }
        match self.choose(18) {
            0..=4 => self.access(deep - 1),
            5 if self.wild() => self.word(&["2", "true", "N", "i", "H", "s", "T", "1e400"]),
            5 => self.word(&["1.0", "0.5", "2.0", "inf", "nan"]),
            6 | 7 => {
                self.expr(deep - 1);
                match self.wild() {
                    true => self.word(&["==", "<", "&&", "||", "!="]),
                    false => self.word(&["+", "-", "*", "*", "/", "%"]),
                }
                self.expr(deep - 1);
            }
            8 => {
                self.put("(");
                self.expr(deep - 1);
                self.put(")");
            }
            9 => {
                let sign = if self.wild() { "!" } else { "-" };
                self.put(sign);
                self.expr(deep - 1);
            }
            10 => {
                self.put("(");
                self.expr(deep - 1);
                self.put("as");
                self.word(&["f32", "f32", "f32", "f32", "f64", "i64", "bf16"]);
                self.put(")");
            }
            11 => {
                self.put("if");
                self.condition(deep - 1);
                self.put("{");
                self.expr(deep - 1);
                self.put("} else {");
                self.expr(deep - 1);
                self.put("}");
            }
            12 | 13 => {
                let function = match self.known[FUNCTION] && self.rng.chance(4) {
                    true => "mish",
                    false if self.wild() => self.rng.one_of(&["block", "f", "f0", "sum", "argmax"]),
                    false => self.rng.one_of(&FUNCTIONS),
                };
                let arity = match function {
                    "max" | "min" | "pow" => 2,
                    "clamp" => 3,
                    _ => 1,
                };
                let arity = if self.wild() { 2 } else { arity };
                self.put(function);
                self.put("(");
                self.list(arity, |w, _| w.expr(deep - 1));
                self.put(")");
            }
            _ => self.reduction(deep),
        }
    }

    fn reduction(&mut self, deep: usize) {
        let free: Vec<usize> = (0..4).filter(|at| !self.indices.contains(at)).collect();
        if free.is_empty() || (self.scalar && !self.wild()) {
            return self.access(deep - 1);
        }
        let depth = self.indices.len();
        self.put("(");
        let agg = match self.rng.below(8) {
            0 => "softmax_sum",
            1 if self.known[AGG] => "welford",
            _ if self.wild() => self.rng.one_of(&["avg", "mish", "N", "any", "argmin"]),
            _ => self.rng.one_of(&AGGS),
        };
        self.put(agg);
        self.put("[");
        let count = if agg != "argmax" && free.len() > 1 && self.rng.chance(3) {
            2
        } else {
            1
        };
        self.list(count, |w, at| {
            w.index(free[at]);
            w.indices.push(free[at]);
        });
        if self.rng.chance(5) {
            self.put("where");
            self.condition(deep - 1);
        }
        if self.rng.chance(6) {
            self.put(";");
            self.word(&["f32", "f32", "f64"]);
        }
        self.put("]");
        let count = match agg {
            "softmax_sum" => 2,
            "welford" => 1,
            _ => 0,
        };
        match if self.wild() { 1 } else { count } {
            0 => self.expr(deep - 1),
            count => {
                self.put("(");
                self.list(count, |w, _| w.expr(deep - 1));
                self.put(")");
            }
        }
        self.put(")");
        self.indices.truncate(depth);
    }
}
