//! Random statements.

use super::{Axes, DIMS, DTYPES, INDICES, NAMES, Param, Ty, Writer, number, tensor};

impl Writer<'_> {
    pub(super) fn stmt(&mut self, deep: usize) {
        if self.rng.chance(10) {
            self.word(&[
                "#[whole]",
                "#[split(i = 2)]",
                "#[split(i = 2, j = 3)]",
                "#[split(q = 0, i = 99)]",
                "#[whole] #[split(j = 2)]",
            ]);
        }
        match self.choose(14) {
            8 | 9 if deep > 0 => self.repeat(deep),
            10 | 11 => self.store(),
            12 => self.call(false),
            13 => self.of_aggregation(),
            7 => {
                let tensors = self.tensors();
                let alias = self.rng.one_of(&["u", "v", "mut u"]);
                self.put("let");
                self.put(alias);
                self.put("=");
                match tensors.is_empty() {
                    true => self.word(&NAMES),
                    false => {
                        let t = self.rng.one_of(&tensors);
                        self.put(&t.name);
                        self.declare(Param {
                            name: alias.trim_start_matches("mut ").to_owned(),
                            state: false,
                            ..t
                        });
                    }
                }
                self.put(";");
            }
            _ => {
                let name = self.rng.one_of(&["a", "b", "x", "y"]);
                let axes = self.axes();
                self.definition(name, axes);
            }
        }
    }

    /// `for l in ls { y = f(y, l); }` and the like.
    fn repeat(&mut self, deep: usize) {
        for (name, at) in [("mut u", 0), ("mut v", 1)] {
            let last = self.blocks.last().and_then(|b| b.results.get(at));
            if let Some(axes) = last.cloned() {
                self.definition(name, axes);
            }
        }
        let before = self.scope.clone();
        let arrays: Vec<Param> = self.of(|t| t.ty == Ty::Array);
        let count = arrays.len().min(1 + self.rng.below(2));
        self.put("for");
        match count {
            0 => {
                let name = self.rng.one_of(&["n", "_n", "q"]);
                self.put(name);
                self.put("in");
                self.word(&["0 .. 2", "0 .. 3", "1 .. LAYERS", "0 .. LAYERS"]);
                self.declare(Param {
                    ty: Ty::Position,
                    ..number(name)
                });
            }
            _ => {
                let several = count > 1 || self.wild();
                if several {
                    self.put("(");
                }
                self.list(count, |w, at| w.put(["l", "c"][at]));
                self.put(if several { ") in (" } else { "in" });
                self.list(count, |w, at| w.put(&arrays[at].name));
                if several {
                    self.put(")");
                }
                for (array, name) in arrays.iter().zip(["l", "c"]).take(count) {
                    self.declare(Param {
                        name: name.to_owned(),
                        ty: Ty::Struct,
                        ..array.clone()
                    });
                }
            }
        }
        self.put("{");
        for _ in 0..1 + self.rng.below(2) {
            match self.rng.chance(2) {
                true => self.call(true),
                false => self.stmt(deep - 1),
            }
        }
        self.put("}");
        self.scope = before;
    }

    /// `let y = f(x);`, or what carries a loop.
    fn call(&mut self, carry: bool) {
        if self.blocks.is_empty() && !self.rng.chance(6) {
            let axes = self.axes();
            return self.definition("u", axes);
        }
        if self.blocks.is_empty() || self.wild() {
            self.word(&["x", "let y", "let ( y , z )", "( x , y )"]);
            self.put("=");
            self.word(&["f0", "g", "a :: f"]);
            self.put("(");
            let count = self.rng.below(4);
            self.list(count, |w, _| w.word(&NAMES));
            return self.put(") ;");
        }
        let last = self.blocks[self.blocks.len() - 1].clone();
        let block = match carry {
            true => last,
            false => self.rng.one_of(&self.blocks.clone()),
        };
        let names = ["u", "v"];
        if !carry {
            self.put("let");
        }
        match block.results.len() {
            1 => self.put(names[0]),
            _ => self.put("( u , v )"),
        }
        if !carry && self.rng.chance(6) {
            self.put(":");
            self.results(&block.results);
        }
        self.put("=");
        self.put(&block.name);
        self.put("(");
        self.list(block.params.len(), |w, at| {
            let param = &block.params[at];
            let like = w.of(|t| t.ty == param.ty && (t.state || !param.state));
            match like.is_empty() {
                true => w.word(&["x", "1.0", "2", "l", "nan", "- 1.0"]),
                false => {
                    let arg = w.rng.one_of(&like);
                    w.put(&arg.name);
                }
            }
        });
        self.put(") ;");
        for (axes, name) in block.results.iter().zip(names) {
            self.declare(tensor(name, axes.clone()));
        }
    }

    /// `let (m, v)[i] = welford[j] (x[i, j]);`
    fn of_aggregation(&mut self) {
        self.put("let");
        let names: &[&str] = match self.rng.below(3) {
            0 => &["u"],
            1 => &["u", "v"],
            _ => &["u", "_"],
        };
        match names {
            [one] => self.put(one),
            _ => self.put(&format!("( {} )", names.join(" , "))),
        }
        self.put("[ i ]");
        if self.rng.chance(6) {
            self.word(&[": f32", ": ( f32 , bf16 )", ": bf16"]);
        }
        self.put("=");
        self.word(&["welford", "welford", "softmax_sum"]);
        self.put("[ j");
        self.indices = vec![0, 1];
        if self.rng.chance(3) {
            self.put("where");
            self.condition(2);
        }
        self.put("] (");
        let count = 1 + self.rng.below(2);
        self.list(count, |w, _| w.expr(3));
        self.put(") ;");
        for name in names {
            self.declare(tensor(name, vec![0]));
        }
    }

    /// `s[n + i, j] = …;`
    fn store(&mut self) {
        let states = self.of(|t| t.state && !matches!(t.ty, Ty::Array));
        let Some(state) = (!states.is_empty()).then(|| self.rng.one_of(&states)) else {
            let axes = self.axes();
            return self.definition("y", axes);
        };
        let (mut name, mut axes) = (state.name, vec![0, 1]);
        match state.ty {
            Ty::Tensor(of) => axes = of,
            _ if self.rng.chance(2) => {
                name += " . b";
                axes = vec![1];
            }
            _ => name += " . a",
        }
        let positions = self.of(|t| t.ty == Ty::Position);
        self.put(&name);
        self.put("[");
        self.indices.clear();
        self.list(axes.len(), |w, at| {
            let (index, dim) = (INDICES[axes[at]], DIMS[axes[at]]);
            let position = match positions.is_empty() {
                true => "0".to_owned(),
                false => w.rng.one_of(&positions).name,
            };
            let of = [
                index.to_owned(),
                format!("{position} + {index}"),
                format!("{index} + {position}"),
                format!("( {position} + {index} ) % {dim}"),
                position,
                format!("{dim} - 1"),
                format!("2 * {index}"),
                format!("{index} + {index}"),
                "i".to_owned(),
                "x [ i ]".to_owned(),
            ];
            let most = if w.wild() { of.len() } else { 6 };
            let text = &of[w.rng.below(most)];
            if text.contains(index) {
                w.indices.push(axes[at]);
            }
            w.put(text);
        });
        self.put("] =");
        self.expr(4);
        self.put(";");
    }

    pub(super) fn definition(&mut self, name: &str, axes: Axes) {
        self.put("let");
        self.put(name);
        self.put("[");
        self.indices = axes.clone();
        let merged = axes.len() >= 2 && self.rng.chance(12);
        if self.wild() {
            self.put("..l ,");
        }
        if merged {
            self.put("(");
        }
        self.list(axes.len(), |w, at| {
            w.index(axes[at]);
            if merged && at == 1 {
                w.put(")");
            }
        });
        self.put("]");
        match self.rng.below(8) {
            0 => {
                self.put(":");
                self.word(&DTYPES);
            }
            1 => self.put(": f32"),
            _ => {}
        }
        self.put("=");
        self.expr(5);
        self.put(";");
        // Merged axes are no dim: what reads it is wrong.
        self.declare(tensor(name.trim_start_matches("mut "), axes));
    }

    pub(super) fn index(&mut self, at: usize) {
        match self.wild() {
            true => self.word(&INDICES),
            false => self.put(INDICES[at]),
        }
        if !self.rng.chance(4) {
            self.put("in");
            self.dim(at, 2);
        }
    }
}
