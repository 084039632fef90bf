//! Random productions of the grammar, in few names, so that some of them mean something.

use eindecomp_core::graph::testing::Rng;

/// Tokens that programs are made of, and some that no program has.
pub const TOKENS: &[&str] = &[
    "fn",
    "struct",
    "agg",
    "extern",
    "pub",
    "let",
    "mut",
    "for",
    "in",
    "if",
    "else",
    "where",
    "dim",
    "as",
    "state",
    "lift",
    "merge",
    "finish",
    "splits",
    "inf",
    "nan",
    "true",
    "false",
    "crate",
    "self",
    "super",
    "Self",
    "_",
    "x",
    "y",
    "w",
    "l",
    "i",
    "j",
    "k",
    "t",
    "N",
    "M",
    "D",
    "L",
    "T",
    "f32",
    "f64",
    "bf16",
    "i64",
    "u8",
    "bool",
    "sum",
    "max",
    "mean",
    "argmax",
    "logsumexp",
    "any",
    "softmax_sum",
    "exp",
    "gelu",
    "clamp",
    "pow",
    "0",
    "1",
    "2",
    "7",
    "1.0",
    "0.5",
    "1e3",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999",
    "4294967296",
    "0xff",
    "0x",
    "1e",
    "3u8",
    "1.5f32",
    "-3",
    "-9223372036854775808",
    "\"s\"",
    "\"{}\"",
    "r#fn",
    "r#type",
    "b\"x\"",
    "'c'",
    "'a",
    "+",
    "-",
    "*",
    "/",
    "%",
    "=",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "&&",
    "||",
    "!",
    "->",
    "=>",
    "::",
    "..",
    ".",
    ",",
    ";",
    ":",
    "#",
    "|",
    "&",
    "^",
    "~",
    "@",
    "?",
    "$",
    "weight",
    "host",
    "whole",
    "split",
    "name",
    "doc",
    "é",
    "Float",
    "Int",
    "macro_rules",
];

const DIMS: [&str; 4] = ["N", "M", "D", "K"];
const INDICES: [&str; 4] = ["i", "j", "k", "t"];
const TENSORS: [&str; 5] = ["x", "y", "z", "w", "s"];
const DTYPES: [&str; 10] = [
    "f32", "f32", "f32", "f64", "bf16", "f16", "i64", "u32", "bool", "T",
];
const AGGS: [&str; 12] = [
    "sum",
    "sum",
    "prod",
    "max",
    "min",
    "mean",
    "logsumexp",
    "any",
    "argmax",
    "softmax_sum",
    "welford",
    "avg",
];
const FUNCTIONS: [&str; 12] = [
    "exp", "sqrt", "max", "min", "clamp", "pow", "relu", "abs", "is_nan", "mish", "block", "f",
];

struct Writer<'a> {
    rng: &'a mut Rng,
    out: String,
    /// Productions that may still branch.
    fuel: usize,
}

/// A random program.
pub fn program(rng: &mut Rng) -> String {
    let fuel = 20 + rng.below(150);
    let mut writer = Writer {
        rng,
        out: String::new(),
        fuel,
    };
    for _ in 0..1 + writer.rng.below(3) {
        writer.item();
    }
    writer.out
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push(' ');
    }

    fn word(&mut self, of: &[&str]) {
        let word = self.rng.one_of(of);
        self.put(word);
    }

    /// One of `n` productions; the first, which must end, when the program is long enough.
    fn choose(&mut self, n: usize) -> usize {
        if self.fuel == 0 {
            return 0;
        }
        self.fuel -= 1;
        self.rng.below(n)
    }

    fn list(&mut self, most: usize, mut each: impl FnMut(&mut Self)) {
        for at in 0..self.rng.below(most + 1) {
            if at > 0 {
                self.put(",");
            }
            each(self);
        }
    }

    fn item(&mut self) {
        if self.rng.chance(6) {
            self.word(&["#[doc = \"d\"]", "#[cfg(test)]", "#[weight]", "/// doc\n"]);
        }
        if self.rng.chance(4) {
            self.word(&["pub", "pub(crate)", "pub(in a::b)"]);
        }
        match self.rng.below(12) {
            0 => {
                self.put("struct S");
                self.generics();
                self.put("{");
                self.list(3, |w| {
                    w.word(&TENSORS);
                    w.put(":");
                    w.ty(1);
                });
                self.put("}");
            }
            1 => {
                self.put("fn mish (x) =");
                self.expr(4);
                self.put(";");
            }
            2 => self.aggregation(),
            3 => {
                self.put("extern fn sort");
                self.generics();
                self.params();
                self.put("->");
                self.ty(1);
                self.put("splits (");
                self.word(&DIMS);
                self.put(") ;");
            }
            _ => self.block(),
        }
    }

    fn aggregation(&mut self) {
        self.put("agg welford (x: f32) { state {");
        for at in 0..1 + self.rng.below(3) {
            self.put(&format!("{}: f32 =", ["n", "m", "q"][at]));
            self.expr(2);
            self.put(",");
        }
        self.put("} lift { n:");
        self.expr(2);
        self.put(", m:");
        self.expr(2);
        self.put("} merge (a, b) { let d =");
        self.expr(2);
        self.put("; { n: a.n + b.n, m:");
        self.expr(2);
        self.put("} } finish {");
        self.expr(2);
        self.put("} }");
    }

    fn block(&mut self) {
        self.put("fn");
        self.word(&["f", "g", "block"]);
        self.generics();
        self.params();
        self.put("->");
        let tuple = self.rng.chance(5);
        match tuple {
            true => {
                self.put("(");
                self.ty(1);
                self.put(",");
                self.ty(1);
                self.put(")");
            }
            false => self.ty(1),
        }
        if self.rng.chance(4) {
            self.put("where");
            for _ in 0..1 + self.rng.below(2) {
                if self.rng.chance(4) {
                    self.put("dim");
                    self.word(&DIMS);
                    self.put("=");
                } else {
                    self.dim(3);
                    self.word(&["==", "<=", ">=", "<", ">"]);
                }
                self.dim(3);
                self.put(",");
            }
        }
        self.put("{");
        for _ in 0..1 + self.rng.below(5) {
            self.stmt(2);
        }
        match tuple {
            true => self.put("(y, z)"),
            false => self.word(&TENSORS),
        }
        self.put("}");
    }

    fn generics(&mut self) {
        if self.rng.chance(8) {
            return;
        }
        self.put("<");
        let (rest, dtype) = (self.rng.chance(4), self.rng.chance(4));
        if rest {
            self.put("dim ..L,");
        }
        if dtype {
            self.put("T: Float,");
        }
        for dim in &DIMS[..1 + self.rng.below(4)] {
            self.put(&format!("dim {dim},"));
        }
        self.put(">");
    }

    fn params(&mut self) {
        self.put("(");
        for name in &TENSORS[..self.rng.below(5)] {
            if self.rng.chance(4) {
                self.word(&["#[weight]", "#[state]", "#[host]", "#[name = \"n\"]"]);
            }
            self.put(&format!("{name}:"));
            self.ty(2);
            self.put(",");
        }
        self.put(")");
    }

    fn ty(&mut self, deep: usize) {
        match self.choose(12) {
            10 if deep > 0 => {
                self.put("[");
                self.ty(deep - 1);
                self.put(";");
                self.dim(2);
                self.put("]");
            }
            11 => {
                self.put("S <");
                self.dim(2);
                self.put(">");
            }
            9 => self.word(&DTYPES),
            _ => {
                self.word(&DTYPES);
                self.put("[");
                if self.rng.chance(6) {
                    self.put("..L,");
                }
                self.list(3, |w| w.dim(2));
                self.put("]");
            }
        }
    }

    fn dim(&mut self, deep: usize) {
        match self.choose(8) {
            5 if deep > 0 => {
                self.dim(deep - 1);
                self.word(&["+", "-", "*", "/", "%"]);
                self.dim(deep - 1);
            }
            6 if deep > 0 => {
                self.put("(");
                self.dim(deep - 1);
                self.put(")");
            }
            7 => self.word(&[
                "0",
                "1",
                "2",
                "3",
                "H",
                "a::B",
                "-1",
                "4294967296",
                "9223372036854775807",
                "18446744073709551615",
                "..L",
            ]),
            4 => self.word(&["1", "2", "3"]),
            _ => self.word(&DIMS),
        }
    }

    fn stmt(&mut self, deep: usize) {
        if self.rng.chance(10) {
            self.word(&["#[whole]", "#[split(i = 2)]", "#[split(q = 0, i = 99)]"]);
        }
        match self.choose(14) {
            10 if deep > 0 => {
                self.put("for");
                self.word(&["l", "n", "_"]);
                self.put("in");
                if self.rng.chance(2) {
                    self.word(&TENSORS);
                } else {
                    self.dim(1);
                    self.put("..");
                    self.dim(1);
                }
                self.put("{");
                for _ in 0..1 + self.rng.below(2) {
                    self.stmt(deep - 1);
                }
                self.put("}");
            }
            11 => {
                self.word(&TENSORS);
                self.put("[");
                self.list(3, |w| w.expr(2));
                self.put("] =");
                self.expr(3);
                self.put(";");
            }
            12 => {
                self.word(&["x", "y", "(x, y)"]);
                self.put("=");
                self.word(&["f", "g", "block", "a::f"]);
                self.put("(");
                self.list(3, |w| w.word(&TENSORS));
                self.put(") ;");
            }
            9 => {
                self.put("let");
                self.word(&["y", "mut x", "(y, z)", "_"]);
                self.put("=");
                self.word(&["f", "g", "block", "norm"]);
                self.put("(");
                self.list(3, |w| w.expr(1));
                self.put(") ;");
            }
            _ => self.definition(),
        }
    }

    fn definition(&mut self) {
        self.put("let");
        self.word(&TENSORS);
        self.put("[");
        if self.rng.chance(8) {
            self.put("..l,");
        }
        self.list(3, |w| {
            if w.rng.chance(6) {
                w.put("(i,");
                w.index();
                w.put(")");
            } else {
                w.index();
            }
        });
        self.put("]");
        if self.rng.chance(6) {
            self.put(":");
            self.word(&DTYPES);
        }
        self.put("=");
        self.expr(5);
        self.put(";");
    }

    fn index(&mut self) {
        self.word(&INDICES);
        if self.rng.chance(3) {
            self.put("in");
            self.dim(2);
        }
    }

    fn access(&mut self, deep: usize) {
        self.word(&TENSORS);
        if self.rng.chance(10) {
            self.put(".");
            self.word(&TENSORS);
        }
        self.put("[");
        if self.rng.chance(8) {
            self.put("..l,");
        }
        self.list(3, |w| match w.rng.below(8) {
            0 => w.put("(i, j)"),
            1 => {
                w.put("2 *");
                w.word(&INDICES);
                w.put("+");
                w.word(&INDICES);
                w.put("- 1");
            }
            2 => w.expr(deep),
            _ => w.word(&INDICES),
        });
        self.put("]");
        if self.rng.chance(5) {
            self.put("else");
            self.word(&["0.0", "- 1", "inf", "- inf", "nan", "true"]);
        }
    }

    fn expr(&mut self, deep: usize) {
        if deep == 0 {
            return self.word(&["x", "i", "1.0", "2", "N", "s"]);
        }
        match self.choose(16) {
            0..=3 => self.access(deep - 1),
            4 => self.word(&[
                "1.0", "0.5", "2", "- inf", "nan", "true", "x", "s", "N", "i", "H",
            ]),
            5 | 6 => {
                self.expr(deep - 1);
                self.word(&[
                    "+", "-", "*", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||",
                ]);
                self.expr(deep - 1);
            }
            7 => {
                self.put("(");
                self.expr(deep - 1);
                self.put(")");
            }
            8 => {
                self.word(&["-", "!"]);
                self.expr(deep - 1);
            }
            9 => {
                self.expr(deep - 1);
                self.put("as");
                self.word(&DTYPES);
            }
            10 => {
                self.put("if");
                self.expr(deep - 1);
                self.put("{");
                self.expr(deep - 1);
                self.put("} else {");
                self.expr(deep - 1);
                self.put("}");
            }
            11 | 12 => {
                self.word(&FUNCTIONS);
                self.put("(");
                self.list(3, |w| w.expr(deep - 1));
                self.put(")");
            }
            _ => {
                self.word(&AGGS);
                self.put("[");
                self.index();
                if self.rng.chance(4) {
                    self.put(",");
                    self.index();
                }
                if self.rng.chance(5) {
                    self.put("where");
                    self.expr(deep - 1);
                }
                if self.rng.chance(6) {
                    self.put(";");
                    self.word(&DTYPES);
                }
                self.put("]");
                let args = self.rng.chance(6);
                if args {
                    self.put("(");
                    self.list(2, |w| w.expr(deep - 1));
                    self.put(")");
                } else {
                    self.expr(deep - 1);
                }
            }
        }
    }
}
