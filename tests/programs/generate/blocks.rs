//! Structs, blocks that are called, and loops.

use std::collections::BTreeMap;

use eindecomp_core::ein::DType;

use super::value::{ROUGHEST, limit, rounding, unsigned};
use super::{ExtentId, LARGEST, LARGEST_SPACE, Maker, Tensor};

/// The struct of which loops take an array.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// The parameter.
    name: String,
    dtype: DType,
    rows: ExtentId,
    columns: ExtentId,
}

/// The outer extents of a call in the dims of the block called.
struct Dims {
    by_outer: BTreeMap<ExtentId, ExtentId>,
    names: Vec<String>,
}

impl Maker<'_> {
    /// Parameters that are structs.
    pub(super) fn structs(&mut self) -> Vec<String> {
        let mut params = Vec::new();
        if self.rng.chance(2) {
            return params;
        }
        let dtype = self
            .rng
            .one_of(&[DType::F32, DType::F32, DType::F64, DType::I32]);
        self.items.push(format!(
            "struct Layer<dim D, dim F> {{ w: {dtype}[D, F], v: {dtype}[F], n: {dtype} }}"
        ));
        self.mark("a struct");
        let rows = self.any_extent(&[]);
        let columns = self.any_extent(&[rows]);
        let ty = self.layer(rows, columns);
        let role = self.rng.one_of(&["", "#[weight] "]);
        match self.rng.below(3) {
            0 => {
                params.push(format!("{role}l: {ty}"));
                self.fields("l", dtype, rows, columns);
            }
            1 => {
                self.items.push(format!(
                    "struct Net<dim D, dim F> {{ first: Layer<D, F>, g: {dtype}[D, 2] }}"
                ));
                params.push(format!("{role}l: {}", ty.replace("Layer", "Net")));
                self.fields("l.first", dtype, rows, columns);
                self.field("l.g", dtype, vec![rows, 1]);
                self.mark("a struct in a struct");
            }
            _ => {
                params.push(format!("{role}ls: [{ty}; 2]"));
                self.layers = Some(Layers {
                    name: "ls".into(),
                    dtype,
                    rows,
                    columns,
                });
            }
        }
        params
    }

    fn layer(&self, rows: ExtentId, columns: ExtentId) -> String {
        let (rows, columns) = (&self.extents[rows].text, &self.extents[columns].text);
        format!("Layer<{rows}, {columns}>")
    }

    fn fields(&mut self, path: &str, dtype: DType, rows: ExtentId, columns: ExtentId) {
        self.field(&format!("{path}.w"), dtype, vec![rows, columns]);
        self.field(&format!("{path}.v"), dtype, vec![columns]);
        self.field(&format!("{path}.n"), dtype, Vec::new());
    }

    fn field(&mut self, name: &str, dtype: DType, axes: Vec<ExtentId>) {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            axes,
            dtype,
            bound: LARGEST,
            error: 0.0,
            nan: false,
            ids: false,
        });
    }

    /// Dims of a block called with tensors of these axes.
    fn dims<'t>(&self, axes: impl Iterator<Item = &'t ExtentId>) -> Dims {
        // The numbers have the same positions everywhere.
        let mut dims = Dims {
            by_outer: (0..3).map(|n| (n, n)).collect(),
            names: Vec::new(),
        };
        for axis in axes {
            if !dims.by_outer.contains_key(axis) {
                dims.by_outer.insert(*axis, 3 + dims.names.len());
                dims.names.push(format!("P{}", dims.names.len()));
            }
        }
        dims
    }

    /// The maker of a block with these dims, on the same random numbers.
    fn inner(&mut self, dims: &Dims) -> Maker<'_> {
        let mut values = vec![0; dims.names.len()];
        for (&outer, &inner) in &dims.by_outer {
            if inner >= 3 {
                values[inner - 3] = self.extents[outer].value;
            }
        }
        let mut inner = Maker::new(self.rng, self.features, self.items);
        inner.simple = true;
        for (name, value) in dims.names.iter().zip(values) {
            inner.extent(name, value);
        }
        inner
    }

    /// `let y = block(x, w);`, the block being made for it.
    pub(super) fn call(&mut self) {
        let name = self.fresh("block");
        let mut args: Vec<Tensor> = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            args.push(self.rng.one_of(&self.tensors.clone()));
        }
        let literal = self.rng.chance(5);
        let dims = self.dims(args.iter().flat_map(|t| &t.axes));
        let mut inner = self.inner(&dims);
        let mut params = Vec::new();
        for (at, arg) in args.iter().enumerate() {
            let param = Tensor {
                name: format!("a{at}"),
                axes: arg.axes.iter().map(|a| dims.by_outer[a]).collect(),
                ..arg.clone()
            };
            params.push(format!("a{at}: {}", inner.ty(&param)));
            inner.tensors.push(param);
        }
        if literal {
            params.push("s: f32".into());
            inner.field("s", DType::F32, Vec::new());
            inner.mark("a literal as an argument");
        }
        for _ in 0..1 + inner.rng.below(2) {
            inner.statement(None);
        }
        let results = inner.results();
        let block = inner.block(&name, &dims, &params, &results);
        self.items.push(block);
        self.mark("a call");
        let outer: BTreeMap<ExtentId, ExtentId> =
            dims.by_outer.iter().map(|(&o, &i)| (i, o)).collect();
        let results: Vec<Tensor> = results
            .into_iter()
            .map(|t| Tensor {
                name: self.fresh("t"),
                axes: t.axes.iter().map(|a| outer[a]).collect(),
                ..t
            })
            .collect();
        let mut list: Vec<String> = args.iter().map(|t| t.name.clone()).collect();
        list.extend(literal.then(|| "2.0".to_owned()));
        let (names, types) = listed(self, &results);
        let annotation = match self.rng.chance(3) {
            true => format!(": {types}"),
            false => String::new(),
        };
        let list = list.join(", ");
        self.line(&format!("let {names}{annotation} = {name}({list});"));
        self.tensors.extend(results);
    }

    /// The text of a block.
    fn block(&self, name: &str, dims: &Dims, params: &[String], results: &[Tensor]) -> String {
        let (names, types) = listed(self, results);
        let generics: Vec<String> = dims.names.iter().map(|d| format!("dim {d}")).collect();
        let generics = match generics.is_empty() {
            true => String::new(),
            false => format!("<{}>", generics.join(", ")),
        };
        let (params, body) = (params.join(", "), &self.body);
        format!("fn {name}{generics}({params}) -> {types} {{\n{body}    {names}\n}}")
    }

    /// A call of a block whose parameters have any rank, or any dtype.
    pub(super) fn call_of_any_rank(&mut self) {
        let able = |t: &&Tensor| t.bound.is_finite() && t.dtype != DType::Bool && !t.nan;
        let tensors: Vec<Tensor> = self.tensors.iter().filter(able).cloned().collect();
        if tensors.is_empty() {
            return self.statement(None);
        }
        let (x, y) = (self.rng.one_of(&tensors), self.rng.one_of(&tensors));
        let dtype = x.dtype;
        let last = x.axes.last().map_or(0, |&a| self.value(a)) as f64;
        let inside = |bound: f64| bound <= limit(dtype);
        let (text, call, made) = match self.rng.below(4) {
            0 if !x.axes.is_empty() && !unsigned(dtype) && inside(2.0 * x.bound) => (
                format!(
                    "fn center_{dtype}<dim ..L, dim C>(x: {dtype}[..L, C]) -> {dtype}[..L, C] {{\n    \
                     let m[..l] = max[j] x[..l, j];\n    \
                     let y[..l, j] = x[..l, j] - m[..l];\n    y\n}}"
                ),
                format!("center_{dtype}({})", x.name),
                Tensor {
                    bound: 2.0 * x.bound,
                    error: 2.0 * x.error,
                    ids: false,
                    ..x
                },
            ),
            1 if !x.axes.is_empty() && inside(x.bound * last.max(1.0)) => (
                format!(
                    "fn total_{dtype}<dim ..L, dim C>(x: {dtype}[..L, C]) -> {dtype}[..L] {{\n    \
                     let y[..l] = sum[j] x[..l, j];\n    y\n}}"
                ),
                format!("total_{dtype}({})", x.name),
                Tensor {
                    axes: x.axes[..x.axes.len() - 1].to_vec(),
                    bound: x.bound * last.max(1.0),
                    error: x.error * last.max(1.0) * 2.0,
                    ids: false,
                    ..x
                },
            ),
            2 if dtype.is_float()
                && y.dtype == dtype
                && x.axes.len() + y.axes.len() <= 4
                && inside(x.bound * y.bound)
                && self.space(x.axes.iter().chain(&y.axes)) <= LARGEST_SPACE =>
            {
                let error = x.bound * y.error + y.bound * x.error + x.error * y.error;
                let error = match error > 0.0 {
                    true => error + rounding(x.bound * y.bound),
                    false => 0.0,
                };
                (
                    "fn outer<T: Float, dim ..L, dim ..M>(x: T[..L], y: T[..M]) -> T[..L, ..M] {\n    \
                     let z[..l, ..m] = x[..l] * y[..m];\n    z\n}"
                        .to_owned(),
                    format!("outer({}, {})", x.name, y.name),
                    Tensor {
                        axes: [&x.axes[..], &y.axes].concat(),
                        bound: x.bound * y.bound,
                        error,
                        ..x
                    },
                )
            }
            3 if dtype.is_int() && inside(2.0 * x.bound) => (
                "fn twice<T: Int, dim ..L>(x: T[..L]) -> T[..L] {\n    \
                 let y[..l] = x[..l] + x[..l];\n    y\n}"
                    .to_owned(),
                format!("twice({})", x.name),
                Tensor {
                    bound: 2.0 * x.bound,
                    ids: false,
                    ..x
                },
            ),
            _ => return self.statement(None),
        };
        if made.error > ROUGHEST {
            return self.statement(None);
        }
        self.mark("a call of any rank");
        if text.contains(": Float") || text.contains(": Int") {
            self.mark("a dtype variable");
        }
        if !self.items.contains(&text) {
            self.items.push(text);
        }
        let name = self.fresh("t");
        self.line(&format!("let {name} = {call};"));
        self.tensors.push(Tensor { name, ..made });
    }

    fn space<'t>(&self, axes: impl Iterator<Item = &'t ExtentId>) -> i64 {
        axes.map(|&a| self.value(a).max(1)).product()
    }

    /// `for l in ls { x = block(x, l); }`
    pub(super) fn repeat(&mut self) {
        let able = |t: &&Tensor| t.bound <= LARGEST && t.error == 0.0 && !t.nan;
        let tensors: Vec<Tensor> = self.tensors.iter().filter(able).cloned().collect();
        if tensors.is_empty() {
            return self.statement(None);
        }
        let x = self.rng.one_of(&tensors);
        let layers = self.layers.clone();
        let name = self.fresh("step");
        let more = layers.iter().flat_map(|l| [&l.rows, &l.columns]);
        let dims = self.dims(x.axes.iter().chain(more));
        let mut inner = self.inner(&dims);
        inner.exact = true;
        let carried = Tensor {
            name: "x".into(),
            axes: x.axes.iter().map(|a| dims.by_outer[a]).collect(),
            bound: if x.dtype == DType::Bool { 1.0 } else { LARGEST },
            ids: false,
            ..x.clone()
        };
        let mut params = vec![format!("x: {}", inner.ty(&carried))];
        if let Some(l) = &layers {
            let (rows, columns) = (dims.by_outer[&l.rows], dims.by_outer[&l.columns]);
            params.push(format!("l: {}", inner.layer(rows, columns)));
            inner.fields("l", l.dtype, rows, columns);
        }
        inner.tensors.push(carried.clone());
        let twice = inner.rng.chance(3);
        if twice {
            inner.statement(None);
        }
        inner.statement(Some(&carried));
        let result: Vec<Tensor> = inner.tensors.last().cloned().into_iter().collect();
        let block = inner.block(&name, &dims, &params, &result);
        self.items.push(block);
        let y = self.fresh("t");
        self.line(&format!("let mut {y} = {};", x.name));
        match &layers {
            Some(l) => {
                self.line(&format!("for l in {} {{ {y} = {name}({y}, l); }}", l.name));
                self.mark("for over an array");
            }
            None => {
                let times = self.rng.below(4);
                self.line(&format!("for _n in 0 .. {times} {{ {y} = {name}({y}); }}"));
                self.mark("for over a range");
            }
        }
        self.tensors.push(Tensor {
            name: y,
            bound: carried.bound,
            nan: result.iter().any(|t| t.nan),
            ids: false,
            ..x
        });
    }
}

/// Names and types of results, in parentheses if there are several.
pub(super) fn listed(maker: &Maker<'_>, results: &[Tensor]) -> (String, String) {
    let types: Vec<String> = results.iter().map(|t| maker.ty(t)).collect();
    let names: Vec<&str> = results.iter().map(|t| &*t.name).collect();
    match results.len() {
        1 => (names[0].to_owned(), types[0].clone()),
        _ => (
            format!("({})", names.join(", ")),
            format!("({})", types.join(", ")),
        ),
    }
}
