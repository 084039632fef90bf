//! Random productions of the grammar. Names are mostly in scope and of the rank and extents that
//! they need, so that many programs get far; now and then anything stands in their place.

mod statements;
mod values;

use eindecomp_core::graph::testing::Rng;

const DIMS: [&str; 4] = ["N", "M", "D", "K"];
/// The index that runs over each of them.
const INDICES: [&str; 4] = ["i", "j", "k", "t"];
const NAMES: [&str; 8] = ["x", "y", "z", "w", "s", "l", "c", "n"];
const DTYPES: [&str; 9] = [
    "f32", "f64", "bf16", "f16", "i64", "i32", "u32", "u8", "bool",
];
/// Axes as positions in [`DIMS`].
type Axes = Vec<usize>;

/// What a block is given and gives.
#[derive(Clone)]
struct Signature {
    name: String,
    params: Vec<Param>,
    results: Vec<Axes>,
}

#[derive(Clone)]
struct Param {
    name: String,
    ty: Ty,
    state: bool,
}

#[derive(Clone, PartialEq)]
enum Ty {
    Tensor(Axes),
    /// An integer of rank 0.
    Position,
    Struct,
    Array,
}

struct Writer<'a> {
    rng: &'a mut Rng,
    out: String,
    /// Productions that may still branch.
    fuel: usize,
    blocks: Vec<Signature>,
    /// In the block being written.
    scope: Vec<Param>,
    indices: Vec<usize>,
    /// A struct, an aggregation and a scalar function are declared.
    known: [bool; 3],
    /// Where no axes are.
    scalar: bool,
}

const STRUCT: usize = 0;
const AGG: usize = 1;
const FUNCTION: usize = 2;

/// A random program.
pub fn program(rng: &mut Rng) -> String {
    let fuel = 20 + rng.below(150);
    let mut writer = Writer {
        rng,
        out: String::new(),
        fuel,
        blocks: Vec::new(),
        scope: Vec::new(),
        indices: Vec::new(),
        known: [false; 3],
        scalar: false,
    };
    for _ in 0..1 + writer.rng.below(4) {
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

    /// Now and then, anything.
    fn wild(&mut self) -> bool {
        self.rng.chance(60)
    }

    /// One of `n` productions; the first, which must end, when the program is long enough.
    fn choose(&mut self, n: usize) -> usize {
        if self.fuel == 0 {
            return 0;
        }
        self.fuel -= 1;
        self.rng.below(n)
    }

    fn list(&mut self, count: usize, mut each: impl FnMut(&mut Self, usize)) {
        for at in 0..count {
            if at > 0 {
                self.put(",");
            }
            each(self, at);
        }
    }

    fn item(&mut self) {
        if self.rng.chance(12) {
            self.word(&["#[doc = \"d\"]", "#[cfg(test)]", "/// doc\n"]);
        }
        if self.wild() {
            self.word(&["#[weight]", "#[split(i = 2)]", "#[a inline]"]);
        }
        if self.rng.chance(4) {
            self.word(&["pub", "pub(crate)", "pub(in a::b)"]);
        }
        match self.rng.below(12) {
            0 | 1 if !self.known[STRUCT] || self.wild() => {
                self.known[STRUCT] = true;
                self.put("struct S < dim N , dim M > {");
                if self.rng.chance(4) {
                    self.word(&["#[name = \"a.{}.b\"]", "#[name = \"w\"]", "#[host]"]);
                }
                self.put("a : f32 [ N , M ] , b : f32 [ M ] }");
            }
            2 if !self.known[FUNCTION] || self.wild() => {
                self.known[FUNCTION] = true;
                self.put("fn mish ( x ) =");
                self.scope = vec![number("x")];
                self.scalar = true;
                self.expr(4);
                self.put(";");
            }
            3 if !self.known[AGG] || self.wild() => self.aggregation(),
            4 => self.kernel(),
            _ => self.block(),
        }
        self.scalar = false;
        self.scope.clear();
        self.indices.clear();
    }

    fn aggregation(&mut self) {
        self.known[AGG] = true;
        self.scalar = true;
        self.put("agg welford ( x : f32 ) { state {");
        let components = 1 + self.rng.below(3);
        let all = ["n", "m", "q"];
        for name in &all[..components] {
            self.put(&format!("{name} : f32 ="));
            self.word(&["0.0", "1.0", "- inf", "inf", "nan"]);
            self.put(",");
        }
        let record = |w: &mut Self, scope: &[&str]| {
            w.scope = scope.iter().map(|name| number(name)).collect();
            w.put("{");
            w.list(components, |w, at| {
                w.put(&format!("{} :", all[at]));
                w.expr(3);
            });
            w.put("}");
        };
        self.put("} lift");
        record(self, &["x"]);
        self.put("merge ( a , b ) {");
        let fields: Vec<String> = (["a", "b"].iter())
            .flat_map(|s| all[..components].iter().map(move |c| format!("{s} . {c}")))
            .collect();
        let mut fields: Vec<&str> = fields.iter().map(|f| &**f).collect();
        if self.rng.chance(2) {
            self.scope = fields.iter().map(|name| number(name)).collect();
            self.put("let d =");
            self.expr(2);
            self.put(";");
            fields.push("d");
        }
        record(self, &fields);
        self.put("} finish {");
        self.scope = all[..components].iter().map(|name| number(name)).collect();
        if self.rng.chance(2) {
            self.put("{ u :");
            self.expr(2);
            self.put(", v :");
            self.expr(2);
            self.put("}");
        } else {
            self.expr(3);
        }
        self.put("} }");
    }

    fn kernel(&mut self) {
        let name = self.rng.one_of(&["sort", "topk", "scan"]);
        if self.rng.chance(2) {
            self.word(&["#[kernel = a::b]", "#[kernel = sort]", "#[kernel]"]);
        }
        self.put("extern fn");
        self.put(name);
        if self.rng.chance(3) {
            self.put(
                "< dim ..L , dim N > ( x : f32 [ ..L , N ] ) -> f32 [ ..L , N ] splits ( L ) ;",
            );
        } else {
            self.put("< dim N , dim M > ( x : f32 [ N , M ] ) ->");
            let results = match self.rng.chance(2) {
                true => vec![vec![0, 1], vec![0]],
                false => vec![vec![0, 1]],
            };
            self.results(&results);
            self.put("splits (");
            self.word(&["N", "N", "N", "M", "N , M", "", "D"]);
            self.put(") ;");
            self.blocks.push(Signature {
                name: name.to_owned(),
                params: vec![Param {
                    name: "x".into(),
                    ty: Ty::Tensor(vec![0, 1]),
                    state: false,
                }],
                results,
            });
        }
    }

    fn results(&mut self, results: &[Axes]) {
        if results.len() != 1 {
            self.put("(");
        }
        self.list(results.len(), |w, at| w.tensor_type(&results[at]));
        if results.len() != 1 {
            self.put(")");
        }
    }

    fn tensor_type(&mut self, axes: &[usize]) {
        match self.rng.chance(12) {
            true => self.word(&DTYPES),
            false => self.put("f32"),
        }
        if axes.is_empty() && self.rng.chance(2) {
            return;
        }
        self.put("[");
        if self.wild() {
            self.put("..L ,");
        }
        self.list(axes.len(), |w, at| w.dim(axes[at], 2));
        self.put("]");
    }

    /// Axes, none of them twice.
    fn axes(&mut self) -> Axes {
        let mut all = vec![0, 1, 2, 3];
        let count = self.rng.below(4);
        let mut axes = Vec::new();
        for _ in 0..count {
            axes.push(all.remove(self.rng.below(all.len())));
        }
        axes
    }

    fn block(&mut self) {
        let name = format!("f{}", self.blocks.len());
        if self.rng.chance(30) {
            self.word(&["#[inline]", "#[cfg(a)]"]);
        }
        self.put("fn");
        self.put(&name);
        self.put("<");
        let rest = [
            "dim ..L ,",
            "T : Float ,",
            "T : Int ,",
            "dim ..L , dim ..R ,",
        ];
        if self.rng.chance(6) {
            self.word(&rest);
        }
        let dims = if self.wild() { 2 } else { 4 };
        for dim in &DIMS[..dims] {
            self.put(&format!("dim {dim} ,"));
        }
        self.put("> (");
        self.params();
        self.put(") ->");
        let params = self.scope.clone();
        let mut results = vec![self.axes()];
        if self.rng.chance(4) {
            results.push(self.axes());
        }
        self.results(&results);
        if self.rng.chance(3) {
            self.clauses();
        }
        self.put("{");
        for _ in 0..1 + self.rng.below(4) {
            self.stmt(2);
        }
        let names: Vec<String> = (0..results.len()).map(|at| format!("r{at}")).collect();
        for (axes, name) in results.iter().zip(&names) {
            self.definition(name, axes.clone());
        }
        match &names[..] {
            [one] if !self.wild() => self.put(one),
            _ => self.put(&format!("( {} )", names.join(" , "))),
        }
        self.put("}");
        self.blocks.push(Signature {
            name,
            params,
            results,
        });
    }

    fn clauses(&mut self) {
        self.put("where");
        for _ in 0..1 + self.rng.below(2) {
            match self.rng.below(4) {
                0 => {
                    self.put("dim E =");
                    self.dim(0, 3);
                }
                1 => {
                    self.word(&DIMS);
                    self.put("% 2 == 0");
                }
                2 => {
                    self.word(&DIMS);
                    self.word(&[">= 1", ">= 2", "<= 8", "== 4", "> 0"]);
                }
                _ => {
                    self.dim(0, 3);
                    self.word(&["==", "<=", ">=", "<", ">"]);
                    self.dim(1, 3);
                }
            }
            self.put(",");
        }
    }

    fn params(&mut self) {
        let count = 1 + self.rng.below(5);
        for name in &NAMES[..count] {
            let mut state = self.rng.chance(4);
            let ty = match self.rng.below(10) {
                0 if self.known[STRUCT] => Ty::Struct,
                1 | 2 if self.known[STRUCT] => Ty::Array,
                3 => Ty::Position,
                _ => Ty::Tensor(self.axes()),
            };
            state &= !matches!(&ty, Ty::Position) && ty != Ty::Tensor(Vec::new());
            match state {
                true => self.put("#[state]"),
                false if ty == Ty::Position && self.rng.chance(3) => self.put("#[host]"),
                false if self.rng.chance(6) => self.put("#[weight]"),
                false if self.wild() => self.word(&["#[host]", "#[name = \"n\"]"]),
                false => {}
            }
            self.put(&format!("{name} :"));
            match &ty {
                Ty::Tensor(axes) => self.tensor_type(axes),
                Ty::Position => self.word(&["i64", "i64", "u32", "i32"]),
                Ty::Struct => self.put("S < N , M >"),
                Ty::Array => self.word(&["[ S < N , M > ; 2 ]", "[ S < N , M > ; LAYERS ]"]),
            }
            self.put(",");
            self.declare(Param {
                name: (*name).to_owned(),
                ty,
                state,
            });
        }
    }

    /// An extent, as a rule that of the dim at `at`.
    fn dim(&mut self, at: usize, deep: usize) {
        if !self.rng.chance(10) {
            return self.put(DIMS[at]);
        }
        match self.choose(8) {
            4 | 5 if deep > 0 => {
                self.dim(at, deep - 1);
                self.word(&["+", "-", "*", "/", "%"]);
                self.dim(at, deep - 1);
            }
            6 if deep > 0 => {
                self.put("(");
                self.dim(at, deep - 1);
                self.put(")");
            }
            7 => self.word(&[
                "0",
                "1",
                "2",
                "H",
                "a::B",
                "-1",
                "4294967296",
                "9223372036854775807",
                "18446744073709551615",
                "..L",
            ]),
            3 => self.word(&["1", "2", "3"]),
            _ => self.word(&DIMS),
        }
    }

    /// In scope from here on, instead of what had the name.
    fn declare(&mut self, param: Param) {
        self.scope.retain(|known| known.name != param.name);
        self.scope.push(param);
    }

    fn of(&self, fits: impl Fn(&Param) -> bool) -> Vec<Param> {
        self.scope.iter().filter(|t| fits(t)).cloned().collect()
    }

    fn tensors(&self) -> Vec<Param> {
        self.of(|t| matches!(t.ty, Ty::Tensor(_)))
    }
}

fn tensor(name: &str, axes: Axes) -> Param {
    Param {
        name: name.to_owned(),
        ty: Ty::Tensor(axes),
        state: false,
    }
}

/// A number of rank 0.
fn number(name: &str) -> Param {
    tensor(name, Vec::new())
}
