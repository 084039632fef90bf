//! Structs, arrays of them, and loops.

use eindecomp_core::ein::DType;

use super::blocks::{Dims, Passed};
use super::{ExtentId, LARGEST, Maker, Tensor};

/// A struct's name, its fields, and their axes as positions in its dims.
type Shape = (&'static str, &'static [(&'static str, &'static [usize])]);

const LAYER: Shape = ("Layer", &[("w", &[0, 1]), ("v", &[1]), ("n", &[])]);
const CACHE: Shape = ("Cache", &[("k", &[0, 1]), ("m", &[1])]);

/// A struct, or an array of two, that the block is given.
#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// The parameter.
    name: String,
    shape: Shape,
    dtype: DType,
    dims: [ExtentId; 2],
    state: bool,
}

/// The number of a loop from 0 on.
#[derive(Clone, Debug)]
pub(super) struct Number {
    pub name: String,
    /// What it stays below, as written.
    pub high: String,
    pub below: i64,
}

/// What a loop runs over.
enum Over {
    Numbers { high: String, below: i64 },
    Arrays(Vec<Layers>),
}

impl Maker<'_> {
    /// Declares a struct with two dims.
    fn declare(&mut self, shape: Shape, dtype: DType) {
        let names = ["D", "F"];
        let field = |(name, axes): &(&str, &[usize])| {
            let axes: Vec<&str> = axes.iter().map(|&a| names[a]).collect();
            match axes.is_empty() {
                true => format!("{name}: {dtype}"),
                false => format!("{name}: {dtype}[{}]", axes.join(", ")),
            }
        };
        let fields: Vec<String> = shape.1.iter().map(field).collect();
        self.items.push(format!(
            "struct {}<dim D, dim F> {{ {} }}",
            shape.0,
            fields.join(", ")
        ));
    }

    /// A struct with two dims of the block.
    fn layers(&mut self, name: &str, shape: Shape, dtype: DType) -> Layers {
        let rows = self.any_extent(&[]);
        let columns = self.any_extent(&[rows]);
        Layers {
            name: name.to_owned(),
            shape,
            dtype,
            dims: [rows, columns],
            state: shape.0 == CACHE.0,
        }
    }

    /// The type of such a struct.
    fn layer(&self, l: &Layers) -> String {
        let [rows, columns] = l.dims.map(|d| &self.extents[d].text);
        format!("{}<{rows}, {columns}>", l.shape.0)
    }

    /// The fields of a struct, at a path.
    fn fields(&mut self, path: &str, l: &Layers) {
        for (field, axes) in l.shape.1 {
            let axes = axes.iter().map(|&a| l.dims[a]).collect();
            self.field(&format!("{path}.{field}"), l, axes);
        }
    }

    fn field(&mut self, name: &str, l: &Layers, axes: Vec<ExtentId>) {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            axes,
            dtype: l.dtype,
            bound: LARGEST,
            error: 0.0,
            nan: false,
            ids: false,
            state: l.state,
        });
    }

    /// Parameters that are structs.
    pub(super) fn structs(&mut self) -> Vec<String> {
        let mut params = Vec::new();
        if self.rng.chance(2) {
            return params;
        }
        let dtypes = [DType::F32, DType::F32, DType::F64, DType::I32];
        let dtype = self.rng.one_of(&dtypes);
        self.declare(LAYER, dtype);
        self.mark("a struct");
        let role = self.rng.one_of(&["", "#[weight] "]);
        let l = self.layers("ls", LAYER, dtype);
        let ty = self.layer(&l);
        match self.rng.below(4) {
            0 => {
                params.push(format!("{role}l: {ty}"));
                self.fields("l", &l);
            }
            1 => {
                self.items.push(format!(
                    "struct Net<dim D, dim F> {{ first: Layer<D, F>, g: {dtype}[D, 2] }}"
                ));
                params.push(format!("{role}l: {}", ty.replace("Layer", "Net")));
                self.fields("l.first", &l);
                self.field("l.g", &l, vec![l.dims[0], 1]);
                self.mark("a struct in a struct");
            }
            _ => {
                params.push(format!("{role}ls: [{ty}; 2]"));
                self.layers.push(l);
            }
        }
        params
    }

    /// A parameter that is a struct of states, or an array of two.
    pub(super) fn state_struct(&mut self) -> String {
        let dtype = self.rng.one_of(&[DType::F32, DType::I64, DType::BF16]);
        self.declare(CACHE, dtype);
        self.mark("a struct of states");
        let l = self.layers("cs", CACHE, dtype);
        let ty = self.layer(&l);
        match self.rng.chance(3) {
            true => {
                self.fields("c", &l);
                format!("#[state] c: {ty}")
            }
            false => {
                self.layers.push(l);
                format!("#[state] cs: [{ty}; 2]")
            }
        }
    }

    /// `for l in ls { x = block(x, l); }`
    pub(super) fn repeat(&mut self) {
        let able = |t: &&Tensor| t.bound <= LARGEST && t.error == 0.0 && !t.nan;
        let tensors: Vec<Tensor> = self.tensors.iter().filter(able).cloned().collect();
        if tensors.is_empty() {
            return self.statement(None);
        }
        let mut carried = Vec::new();
        for _ in 0..1 + usize::from(self.rng.chance(3)) {
            let x = self.rng.one_of(&tensors);
            let y = self.fresh("t");
            self.line(&format!("let mut {y} = {};", x.name));
            carried.push(Tensor {
                name: y,
                bound: if x.dtype == DType::Bool { 1.0 } else { LARGEST },
                nan: x.dtype.is_float(),
                ids: false,
                state: false,
                ..x
            });
        }
        let nested = self.rng.chance(4);
        if nested {
            self.line("for _m in 0 .. 2 {");
            self.mark("a loop in a loop");
        }
        let over = self.over();
        self.round(&carried, &over);
        if nested {
            if self.rng.chance(2) {
                let number = Over::Numbers {
                    high: "2".into(),
                    below: 2,
                };
                self.round(&carried, &number);
            }
            self.line("}");
        }
        self.tensors.extend(carried);
    }

    fn over(&mut self) -> Over {
        let mut arrays = self.layers.clone();
        if arrays.is_empty() || self.rng.chance(3) {
            let k = self.extents.iter().find(|e| e.text == "K").map(|e| e.value);
            let (high, below) = match k.filter(|_| self.rng.chance(2)) {
                Some(k) => ("K".to_owned(), k),
                None => {
                    let times = self.rng.below(4) as i64;
                    (times.to_string(), times)
                }
            };
            self.mark("for over a range");
            return Over::Numbers { high, below };
        }
        if self.rng.chance(3) {
            arrays.truncate(1);
        }
        self.mark(match arrays.len() {
            1 => "for over an array",
            _ => "for over arrays side by side",
        });
        Over::Arrays(arrays)
    }

    /// One loop, in which the block changes what is carried.
    fn round(&mut self, carried: &[Tensor], over: &Over) {
        let before = (self.tensors.len(), self.positions.len());
        let exact = std::mem::replace(&mut self.exact, true);
        self.tensors.extend(carried.iter().cloned());
        let (head, arrays) = match over {
            Over::Numbers { high, below } => {
                let name = self.fresh("n");
                let head = format!("{name} in 0 .. {high}");
                self.numbers.push(Number {
                    name,
                    high: high.clone(),
                    below: *below,
                });
                (head, Vec::new())
            }
            Over::Arrays(arrays) => {
                let mut elements = Vec::new();
                for l in arrays {
                    let name = self.fresh(if l.state { "c" } else { "l" });
                    self.fields(&name, l);
                    elements.push((name, l.clone()));
                }
                let side = |names: Vec<&str>| match names.len() {
                    1 => names[0].to_owned(),
                    _ => format!("({})", names.join(", ")),
                };
                let variables = side(elements.iter().map(|e| &*e.0).collect());
                let of = side(arrays.iter().map(|l| &*l.name).collect());
                (format!("{variables} in {of}"), elements)
            }
        };
        self.line(&format!("for {head} {{"));
        let mut args: Vec<Tensor> = carried.to_vec();
        match self.rng.below(6) {
            0 | 1 => {
                self.statement(Some(&carried[0]));
                if let Some(made) = self.tensors.last() {
                    args[0] = made.clone();
                }
                self.mark("a statement in a loop");
            }
            2 | 3 => {
                self.store();
                self.mark("a store in a loop");
            }
            4 => self.call(),
            _ => {}
        }
        self.step(carried, args, arrays);
        self.line("}");
        self.exact = exact;
        self.tensors.truncate(before.0);
        self.positions.truncate(before.1);
        if let Over::Numbers { .. } = over {
            self.numbers.pop();
        }
    }

    /// `(x, y) = block(x, y, l);`
    fn step(&mut self, carried: &[Tensor], args: Vec<Tensor>, arrays: Vec<(String, Layers)>) {
        let name = self.block_name("step");
        let inner_of = |l: &Layers, dims: &Dims| Layers {
            dims: l.dims.map(|d| dims.inside(&[d])[0]),
            ..l.clone()
        };
        let mut state = None;
        let states: Vec<Tensor> = self.stored();
        let own: Vec<Tensor> = states
            .into_iter()
            .filter(|t| {
                !arrays
                    .iter()
                    .any(|a| t.name.starts_with(&format!("{}.", a.0)))
            })
            .collect();
        if !own.is_empty() && self.rng.chance(2) {
            state = Some(self.rng.one_of(&own));
        }
        let axes = arrays.iter().flat_map(|a| &a.1.dims);
        let dims = Dims::of(args.iter().chain(&state).flat_map(|t| &t.axes).chain(axes));
        let stores = state.is_some() || arrays.iter().any(|a| a.1.state);
        let (mut passed, mut positions) = (Passed::default(), Passed::default());
        if stores {
            self.given_positions(&mut positions);
        }
        let mut inner = self.inner(&name, &dims);
        inner.exact = true;
        let mut like = Vec::new();
        for (at, arg) in args.iter().enumerate() {
            let param = inner.param(format!("x{at}"), arg, &dims);
            passed.push(param, &*arg.name);
            like.extend(inner.tensors.last().cloned());
        }
        if let Some(t) = &state {
            let param = inner.param("s".into(), t, &dims);
            passed.push(param, &*t.name);
        }
        for (variable, l) in &arrays {
            let l = inner_of(l, &dims);
            let own = if l.state { "c" } else { "l" };
            let role = if l.state { "#[state] " } else { "" };
            passed.push(format!("{role}{own}: {}", inner.layer(&l)), &**variable);
            inner.fields(own, &l);
        }
        inner.declare_positions(&positions);
        if inner.rng.chance(3) {
            inner.statement(None);
        }
        if stores {
            inner.store();
            inner.mark("a store in a call");
        }
        let mut results = Vec::new();
        for t in &like {
            inner.statement(Some(t));
            results.extend(inner.tensors.last().cloned());
        }
        let rooms = inner.rooms();
        passed.params.extend(positions.params.clone());
        passed.args.extend(positions.args.clone());
        let block = inner.block(&name, &dims, &passed.params, &results);
        self.limit_positions(&positions, &rooms);
        self.items.push(block);
        let names: Vec<&str> = carried.iter().map(|t| &*t.name).collect();
        let args = passed.args.join(", ");
        match names[..] {
            [one] => self.line(&format!("{one} = {name}({args});")),
            _ => {
                self.mark("a tuple carried by a loop");
                self.line(&format!("({}) = {name}({args});", names.join(", ")));
            }
        }
    }
}
