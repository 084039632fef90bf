//! Random programs that are well-typed by construction.
//!
//! Every value carries how large it may be and how far rounding may take it from the reference, so
//! that whole numbers stay exact in their element type and nothing discontinuous sees the rest.

mod access;
mod blocks;
mod expr;
mod extents;
mod kernels;
mod loops;
mod ranks;
mod records;
mod reduce;
mod state;
mod statements;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::testing::Rng;

use blocks::listed;
use loops::{Layers, Number};
use state::Position;

/// A program with what it is bound to.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its text; the block to run is `main`.
    pub text: String,
    /// Values of its dims.
    pub dims: BTreeMap<Arc<str>, i64>,
    /// Values of the Rust consts it mentions.
    pub consts: BTreeMap<Arc<str>, i64>,
    /// Values of its `#[host]` parameters.
    pub hosts: BTreeMap<Arc<str>, Value>,
    /// Of the parameters that say where to store, the largest value that is inside.
    pub positions: BTreeMap<Arc<str>, Option<i64>>,
    /// Per result, how far it may be from the reference.
    pub errors: Vec<f64>,
    /// Parts of the language that are in it.
    pub features: BTreeSet<&'static str>,
}

/// Position in [`Maker::extents`].
type ExtentId = usize;

/// How many values an axis or index has.
#[derive(Clone, Debug)]
struct Extent {
    /// As written.
    text: String,
    value: i64,
    /// The extents whose product it is, the slower first.
    parts: Option<(ExtentId, ExtentId)>,
    /// The extent that is `step` times as long, or one less.
    strided: Option<(ExtentId, i64)>,
    /// The extent that is `window - 1` longer.
    window: Option<(ExtentId, i64)>,
    /// The checker knows that it is at least 1.
    positive: bool,
}

/// A tensor to read.
#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    axes: Vec<ExtentId>,
    dtype: DType,
    /// No element is larger.
    bound: f64,
    /// How far an element may be from the reference.
    error: f64,
    /// It may hold NaN.
    nan: bool,
    /// A `u32` input: its elements are 0 to 3.
    ids: bool,
    /// It may be stored into.
    state: bool,
}

/// An index in scope.
#[derive(Clone, Debug)]
struct Index {
    name: String,
    extent: ExtentId,
    /// It has a bare use that settles its extent.
    settled: bool,
}

/// One block under construction.
struct Maker<'a> {
    rng: &'a mut Rng,
    features: &'a mut BTreeSet<&'static str>,
    /// Items that the block needs, in text.
    items: &'a mut Vec<String>,
    extents: Vec<Extent>,
    tensors: Vec<Tensor>,
    /// Numbers of rank 0 that are no tensors: `#[host]` parameters.
    hosts: Vec<(String, DType)>,
    /// Numbers of loops in scope.
    numbers: Vec<Number>,
    /// Where to store.
    positions: Vec<Position>,
    clauses: BTreeSet<String>,
    indices: Vec<Index>,
    /// Under an `if` or a filter, where a bare use settles nothing.
    guarded: usize,
    /// Positions in [`Maker::indices`] of the bare uses of the access being written.
    bare: Vec<usize>,
    /// Arrays of structs for loops.
    layers: Vec<Layers>,
    /// The block's name.
    block: String,
    /// Blocks around it that call it.
    depth: usize,
    /// Names given so far.
    names: usize,
    /// Nothing that rounds.
    exact: bool,
    /// Only extents that a caller can name: no products, no clauses.
    simple: bool,
    body: String,
}

/// Dtypes of statements, the usual ones more often.
const DTYPES: [DType; 16] = [
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F32,
    DType::F64,
    DType::F64,
    DType::F64,
    DType::BF16,
    DType::F16,
    DType::I64,
    DType::I64,
    DType::I32,
    DType::U32,
    DType::U8,
    DType::Bool,
];

/// Points of one statement.
const LARGEST_SPACE: i64 = 3000;
/// The largest element of an input.
pub const LARGEST: f64 = 4.0;

/// The program number `seed`.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let (mut features, mut items) = (BTreeSet::new(), Vec::new());
    let mut dims = BTreeMap::new();
    let mut maker = Maker::new(&mut rng, &mut features, &mut items);
    let size = |rng: &mut Rng| match rng.below(12) {
        0 => 0,
        1 | 2 => 1,
        n => n as i64 / 2,
    };
    for name in ["A", "B", "C"] {
        let value = size(maker.rng);
        dims.insert(Arc::from(name), value);
        maker.extent(name, value);
        match value {
            0 => maker.mark("an extent of 0"),
            1 => maker.mark("an extent of 1"),
            _ => {}
        }
    }
    let mut consts = BTreeMap::new();
    if maker.rng.chance(3) {
        let value = 1 + maker.rng.below(3) as i64;
        consts.insert(Arc::from("K"), value);
        maker.extent("K", value);
        maker.mark("a Rust const");
    }
    maker.derived(&mut dims);
    let mut params = maker.params();
    let hosts = maker.host_values(&mut params);
    params.extend(maker.structs());
    params.extend(maker.states());
    for _ in 0..1 + maker.rng.below(4) {
        match maker.rng.below(8) {
            0 => maker.call(),
            1 => maker.call_of_any_rank(),
            2 => maker.repeat(),
            3 => maker.kernel(),
            4 | 5 => maker.store(),
            _ => maker.statement(None),
        }
    }
    if maker.layers.len() > 1 {
        maker.repeat();
    }
    if maker.rng.chance(2) {
        maker.store();
    }
    maker.statement(None);
    let results = maker.results();
    let generics: Vec<String> = dims.keys().map(|d| format!("dim {d}")).collect();
    let generics = generics.join(", ");
    let (names, types) = listed(&maker, &results);
    let clauses: Vec<String> = maker.clauses.iter().cloned().collect();
    let clauses = match clauses.is_empty() {
        true => String::new(),
        false => format!("\n    where {}", clauses.join(", ")),
    };
    let named = |p: &Position| (Arc::from(&*p.name), p.room);
    let given = maker
        .positions
        .iter()
        .enumerate()
        .filter(|(at, p)| p.of == *at);
    let positions = given.map(|(_, p)| named(p)).collect();
    let errors = results.iter().map(|t| t.error).collect();
    let body = std::mem::take(&mut maker.body);
    let mut text = String::new();
    for item in &items {
        text += item;
        text.push('\n');
    }
    let params: String = params.iter().map(|p| format!("    {p},\n")).collect();
    let _ = write!(
        text,
        "fn main<{generics}>(\n{params}) -> {types}{clauses}\n{{\n{body}    {names}\n}}\n"
    );
    Program {
        text,
        dims,
        consts,
        hosts,
        positions,
        errors,
        features,
    }
}

impl<'a> Maker<'a> {
    fn new(
        rng: &'a mut Rng,
        features: &'a mut BTreeSet<&'static str>,
        items: &'a mut Vec<String>,
    ) -> Maker<'a> {
        let mut maker = Maker {
            rng,
            features,
            items,
            extents: Vec::new(),
            tensors: Vec::new(),
            hosts: Vec::new(),
            numbers: Vec::new(),
            positions: Vec::new(),
            clauses: BTreeSet::new(),
            indices: Vec::new(),
            guarded: 0,
            bare: Vec::new(),
            layers: Vec::new(),
            block: String::new(),
            depth: 0,
            names: 0,
            exact: false,
            simple: false,
            body: String::new(),
        };
        for n in 1..4 {
            let id = maker.extent(&n.to_string(), n);
            maker.extents[id].positive = true;
        }
        maker
    }

    /// What an expression changes that is not used after all.
    fn saved(&self) -> (BTreeSet<&'static str>, Vec<Index>) {
        (self.features.clone(), self.indices.clone())
    }

    fn restore(&mut self, (features, indices): (BTreeSet<&'static str>, Vec<Index>)) {
        *self.features = features;
        self.indices = indices;
    }

    fn mark(&mut self, feature: &'static str) {
        self.features.insert(feature);
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Parameters of the main block that are tensors.
    fn params(&mut self) -> Vec<String> {
        let mut dtypes = vec![DType::F32];
        for _ in 0..1 + self.rng.below(4) {
            dtypes.push(self.rng.one_of(&DTYPES));
        }
        if self.rng.chance(2) {
            dtypes.push(DType::U32);
        }
        let mut params = Vec::new();
        for dtype in dtypes {
            let rank = self.rng.one_of(&[0, 1, 1, 2, 2, 2, 3]);
            let tensor = self.input(dtype, rank);
            let ty = self.ty(&tensor);
            let role = match self.rng.below(4) {
                0 => {
                    self.mark("#[weight]");
                    "#[weight] "
                }
                _ => "",
            };
            params.push(format!("{role}{}: {ty}", tensor.name));
            self.tensors.push(tensor);
        }
        params
    }

    /// A tensor with the elements of an input.
    fn input(&mut self, dtype: DType, rank: usize) -> Tensor {
        let mut axes = Vec::new();
        for _ in 0..rank {
            let axis = self.any_extent(&axes);
            axes.push(axis);
        }
        Tensor {
            name: self.fresh("x"),
            axes,
            dtype,
            bound: if dtype == DType::Bool { 1.0 } else { LARGEST },
            error: 0.0,
            nan: false,
            ids: dtype == DType::U32,
            state: false,
        }
    }

    /// `#[host]` parameters, and their values.
    fn host_values(&mut self, params: &mut Vec<String>) -> BTreeMap<Arc<str>, Value> {
        let mut hosts = BTreeMap::new();
        if self.rng.chance(3) {
            for name in ["k", "h"].into_iter().take(1 + self.rng.below(2)) {
                let dtype = self
                    .rng
                    .one_of(&[DType::F32, DType::F64, DType::I64, DType::I32]);
                let value = match dtype.is_float() {
                    true => Value::Float(3.0),
                    false => Value::Int(2),
                };
                params.push(format!("#[host] {name}: {dtype}"));
                hosts.insert(Arc::from(name), value);
                self.hosts.push((name.to_owned(), dtype));
            }
            self.mark("#[host]");
        }
        hosts
    }

    fn ty(&self, t: &Tensor) -> String {
        if t.axes.is_empty() {
            return t.dtype.to_string();
        }
        let axes: Vec<&str> = t.axes.iter().map(|&a| &*self.extents[a].text).collect();
        format!("{}[{}]", t.dtype, axes.join(", "))
    }

    fn line(&mut self, text: &str) {
        self.body += "    ";
        self.body += text;
        self.body.push('\n');
    }

    /// The last tensor, and sometimes others.
    fn results(&mut self) -> Vec<Tensor> {
        let made = self.tensors.iter().filter(|t| t.name.starts_with('t'));
        let made: Vec<&Tensor> = made.collect();
        let last = made[made.len() - 1].clone();
        let mut results = vec![last];
        for t in made.iter().rev().skip(1) {
            if results.len() < 3 {
                results.push((*t).clone());
            }
        }
        let keep = 1 + self.rng.below(results.len());
        results.truncate(keep);
        let mut states = self.stored();
        // A field is no name.
        states.retain(|s| !s.name.contains('.'));
        if !states.is_empty() && self.rng.chance(2) {
            results.push(self.rng.one_of(&states));
            self.mark("a state as a result");
        }
        let keep = results.len();
        if keep > 1 {
            self.mark("several results");
        }
        results
    }
}
