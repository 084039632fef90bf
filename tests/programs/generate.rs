//! Random programs that are well-typed by construction.
//!
//! Every value carries how large it may be and how far rounding may take it from the reference, so
//! that whole numbers stay exact in their element type and nothing discontinuous sees the rest.

mod access;
mod blocks;
mod expr;
mod records;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::testing::Rng;

use blocks::{Layers, listed};
use value::{Val, limit};

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
    clauses: BTreeSet<String>,
    indices: Vec<Index>,
    /// Under an `if` or a filter, where a bare use settles nothing.
    guarded: usize,
    /// Positions in [`Maker::indices`] of the bare uses of the access being written.
    bare: Vec<usize>,
    /// An array of structs for loops.
    layers: Option<Layers>,
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
    let mut hosts = BTreeMap::new();
    if maker.rng.chance(4) {
        let dtype = maker.rng.one_of(&[DType::F32, DType::I64]);
        let value = match dtype {
            DType::F32 => Value::Float(3.0),
            _ => Value::Int(2),
        };
        params.push(format!("#[host] k: {dtype}"));
        hosts.insert(Arc::from("k"), value);
        maker.hosts.push(("k".into(), dtype));
        maker.mark("#[host]");
    }
    params.extend(maker.structs());
    for _ in 0..1 + maker.rng.below(4) {
        match maker.rng.below(6) {
            0 => maker.call(),
            1 => maker.call_of_any_rank(),
            2 => maker.repeat(),
            _ => maker.statement(None),
        }
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
            clauses: BTreeSet::new(),
            indices: Vec::new(),
            guarded: 0,
            bare: Vec::new(),
            layers: None,
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

    fn mark(&mut self, feature: &'static str) {
        self.features.insert(feature);
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn extent(&mut self, text: &str, value: i64) -> ExtentId {
        if let Some(known) = self.extents.iter().position(|e| e.text == text) {
            return known;
        }
        self.extents.push(Extent {
            text: text.to_owned(),
            value,
            parts: None,
            strided: None,
            window: None,
            positive: false,
        });
        self.extents.len() - 1
    }

    /// The extent's text as an operand.
    fn factor(&self, id: ExtentId) -> String {
        let text = &self.extents[id].text;
        match text.contains(' ') {
            true => format!("({text})"),
            false => text.clone(),
        }
    }

    /// The product of two extents.
    fn product(&mut self, a: ExtentId, b: ExtentId) -> ExtentId {
        let text = format!("{} * {}", self.factor(a), self.factor(b));
        let id = self.extent(&text, self.value(a) * self.value(b));
        self.extents[id].parts = Some((a, b));
        id
    }

    fn value(&self, id: ExtentId) -> i64 {
        self.extents[id].value
    }

    fn is_positive(&self, id: ExtentId) -> bool {
        self.extents[id].positive
    }

    /// Extents made of others, and the clauses they need.
    fn derived(&mut self, dims: &mut BTreeMap<Arc<str>, i64>) {
        let of = |maker: &mut Maker<'_>| 3 + maker.rng.below(3);
        for _ in 0..self.rng.below(4) {
            let a = of(self);
            let (text, value) = (self.extents[a].text.clone(), self.value(a));
            match self.rng.below(7) {
                0 if value >= 1 => {
                    let two = self.extent("2", 2);
                    self.product(two, a);
                }
                1 => {
                    let half = self.extent(&format!("{text} / 2"), value / 2);
                    self.extents[half].strided = Some((a, 2));
                }
                2 if value >= 2 => {
                    let valid = self.extent(&format!("{text} - 2"), value - 2);
                    self.extents[valid].window = Some((a, 3));
                }
                3 => {
                    let b = of(self);
                    if self.value(a) >= 1 && self.value(b) >= 1 {
                        self.product(a, b);
                    }
                }
                4 if !dims.contains_key("D") => {
                    let (h, e) = (1 + self.rng.below(3) as i64, 1 + self.rng.below(3) as i64);
                    dims.insert("D".into(), h * e);
                    dims.insert("H".into(), h);
                    let (d, h_id) = (self.extent("D", h * e), self.extent("H", h));
                    self.clauses.insert("D % H == 0".into());
                    self.mark("where a divisor");
                    let rest = match self.rng.chance(2) {
                        true => {
                            self.clauses.insert("dim E = D / H".into());
                            self.mark("where a definition");
                            self.extent("E", e)
                        }
                        false => self.extent("D / H", e),
                    };
                    self.extents[d].parts = Some((h_id, rest));
                }
                5 if !dims.contains_key("P") => {
                    let b = of(self);
                    let value = self.value(a) * self.value(b);
                    if value >= 1 {
                        dims.insert("P".into(), value);
                        let clause = format!("P == {} * {}", text, self.extents[b].text);
                        self.clauses.insert(clause);
                        let p = self.extent("P", value);
                        self.extents[p].parts = Some((a, b));
                        self.mark("where a product");
                    }
                }
                6 if value >= 1 => {
                    self.clauses.insert(format!("{text} >= 1"));
                    self.extents[a].positive = true;
                    self.mark("where a bound");
                }
                _ => {}
            }
        }
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
        }
    }

    /// An extent with which the space stays small.
    fn any_extent(&mut self, with: &[ExtentId]) -> ExtentId {
        let space: i64 = with.iter().map(|&e| self.value(e).max(1)).product();
        let named = self.extents.len() > 3 && !self.rng.chance(5);
        let from = if named { 3 } else { 0 };
        let id = from + self.rng.below(self.extents.len() - from);
        match space * self.value(id) <= LARGEST_SPACE / 20 {
            true => id,
            false => 0,
        }
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

    /// `let y[…] = …;`; with `like`, a tensor of its type and bound.
    fn statement(&mut self, like: Option<&Tensor>) {
        let dtype = like.map_or_else(|| self.rng.one_of(&DTYPES), |t| t.dtype);
        let left: Vec<ExtentId> = match like {
            Some(t) => t.axes.clone(),
            None => {
                let mut left = Vec::new();
                for _ in 0..self.rng.one_of(&[0, 1, 1, 2, 2, 2, 3]) {
                    let extent = self.any_extent(&left);
                    left.push(extent);
                }
                if self.rng.chance(3) {
                    self.relate(&mut left);
                }
                left
            }
        };
        self.indices.clear();
        for extent in &left {
            self.index(*extent);
        }
        let mut value = self.expr(dtype, 3);
        if let Some(like) = like
            && value.bound > like.bound
        {
            value = self.clamped(value, like.bound);
        }
        self.define(value, dtype, like.is_some());
    }

    /// Adds indices of which some axis of a tensor is made.
    fn relate(&mut self, left: &mut Vec<ExtentId>) {
        let axes: BTreeSet<ExtentId> = self.tensors.iter().flat_map(|t| t.axes.clone()).collect();
        let mut groups: Vec<Vec<ExtentId>> = Vec::new();
        for &axis in &axes {
            groups.extend(self.extents[axis].parts.map(|(a, b)| vec![a, b]));
        }
        for (at, extent) in self.extents.iter().enumerate() {
            let of = [extent.strided, extent.window].into_iter().flatten();
            groups.extend(of.filter(|of| axes.contains(&of.0)).map(|_| vec![at]));
        }
        let space = |of: &[ExtentId]| -> i64 { of.iter().map(|&e| self.value(e).max(1)).product() };
        groups.retain(|group| space(left) * space(group) <= LARGEST_SPACE / 20);
        if !groups.is_empty() {
            left.extend(self.rng.one_of(&groups));
        }
    }

    /// An index in scope.
    fn index(&mut self, extent: ExtentId) -> String {
        let name = self.fresh("i");
        self.indices.push(Index {
            name: name.clone(),
            extent,
            settled: false,
        });
        name
    }

    /// Writes the statement whose left indices are those in scope.
    fn define(&mut self, mut value: Val, dtype: DType, plain: bool) {
        // A sum of very many ones.
        if value.bound > limit(dtype) && value.bound.is_finite() {
            value = self.clamped(value, 3.0);
        }
        let name = self.fresh("t");
        let left = std::mem::take(&mut self.indices);
        let mut subs: Vec<String> = left
            .iter()
            .map(|i| match i.settled && !self.rng.chance(4) {
                true => i.name.clone(),
                false => format!("{} in {}", i.name, self.extents[i.extent].text),
            })
            .collect();
        let mut axes: Vec<ExtentId> = left.iter().map(|i| i.extent).collect();
        let merge = subs.len() >= 2 && !plain && !self.simple && self.rng.chance(4);
        if merge && axes[axes.len() - 2..].iter().all(|&a| self.value(a) >= 1) {
            let (last, slow) = (subs.pop().unwrap(), subs.pop().unwrap());
            subs.push(format!("({slow}, {last})"));
            let (b, a) = (axes.pop().unwrap(), axes.pop().unwrap());
            axes.push(self.product(a, b));
            self.mark("merged axes on the left");
        }
        let annotated = value.dtype != dtype || !value.typed || self.rng.chance(5);
        let ty = match annotated {
            true => format!(": {dtype}"),
            false => String::new(),
        };
        if self.rng.chance(12) && !subs.is_empty() {
            self.mark("#[whole]");
            self.line("#[whole]");
        }
        self.line(&format!(
            "let {name}[{}]{ty} = {};",
            subs.join(", "),
            value.text
        ));
        self.mark(name_of(dtype));
        self.tensors.push(Tensor {
            name,
            axes,
            dtype,
            bound: value.bound,
            error: value.error,
            nan: value.nan,
            ids: false,
        });
    }

    /// The last tensor, and sometimes others.
    fn results(&mut self) -> Vec<Tensor> {
        let made: Vec<&Tensor> = self
            .tensors
            .iter()
            .filter(|t| t.name.starts_with('t'))
            .collect();
        let last = made[made.len() - 1].clone();
        let mut results = vec![last];
        for t in made.iter().rev().skip(1) {
            if results.len() < 3 {
                results.push((*t).clone());
            }
        }
        let keep = 1 + self.rng.below(results.len());
        results.truncate(keep);
        if keep > 1 {
            self.mark("several results");
        }
        results
    }
}

/// The name of a dtype as a feature.
fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "f64",
        DType::F32 => "f32",
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::I64 => "i64",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::U8 => "u8",
        DType::Bool => "bool",
    }
}
