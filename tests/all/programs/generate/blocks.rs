//! Blocks that are called, and what they are given.

use std::collections::BTreeMap;

use eindecomp_core::ein::DType;

use super::{ExtentId, Maker, Tensor};

/// The outer extents of a call in the dims of the block called.
pub(super) struct Dims {
    by_outer: BTreeMap<ExtentId, ExtentId>,
    names: Vec<String>,
}

impl Dims {
    /// Of tensors with these axes.
    pub(super) fn of<'t>(axes: impl Iterator<Item = &'t ExtentId>) -> Dims {
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

    /// Outer extents in the block.
    pub(super) fn inside(&self, axes: &[ExtentId]) -> Vec<ExtentId> {
        axes.iter().map(|a| self.by_outer[a]).collect()
    }
}

/// A list of parameters, and what they are given.
#[derive(Default)]
pub(super) struct Passed {
    pub params: Vec<String>,
    pub args: Vec<String>,
    /// Of the positions of the block, those of the caller.
    positions: Vec<Option<usize>>,
}

impl Passed {
    pub(super) fn push(&mut self, param: String, arg: impl Into<String>) {
        self.params.push(param);
        self.args.push(arg.into());
    }
}

impl Maker<'_> {
    /// A name that no other block has.
    pub(super) fn block_name(&mut self, what: &str) -> String {
        let own = self.fresh(what);
        format!("{}{own}", self.block)
    }

    /// The maker of a block with these dims, on the same random numbers.
    pub(super) fn inner(&mut self, name: &str, dims: &Dims) -> Maker<'_> {
        let mut values = vec![0; dims.names.len()];
        for (&outer, &inner) in &dims.by_outer {
            if inner >= 3 {
                values[inner - 3] = self.extents[outer].value;
            }
        }
        let depth = self.depth + 1;
        let mut inner = Maker::new(self.rng, self.features, self.items);
        inner.simple = true;
        inner.depth = depth;
        inner.block = format!("{name}_");
        for (name, value) in dims.names.iter().zip(values) {
            inner.extent(name, value);
        }
        inner
    }

    /// A parameter like `t` of a block under construction.
    pub(super) fn param(&mut self, name: String, t: &Tensor, dims: &Dims) -> String {
        let param = Tensor {
            name,
            axes: dims.inside(&t.axes),
            ..t.clone()
        };
        let role = if t.state { "#[state] " } else { "" };
        let text = format!("{role}{}: {}", param.name, self.ty(&param));
        self.tensors.push(param);
        text
    }

    /// Positions of the caller for a block that stores, before it is made.
    pub(super) fn given_positions(&mut self, passed: &mut Passed) {
        for at in 0..1 + self.rng.below(2) {
            let (arg, of, dtype) = match self.positions.is_empty() {
                true => ("0".to_owned(), None, DType::I64),
                false => {
                    let at = self.rng.below(self.positions.len());
                    let known = &self.positions[at];
                    (known.name.clone(), Some(known.of), known.dtype)
                }
            };
            passed.push(format!("p{at}: {dtype}"), arg);
            passed.positions.push(of);
        }
    }

    /// The parameters that [`Maker::given_positions`] made, in the block.
    pub(super) fn declare_positions(&mut self, passed: &Passed) {
        let first = passed.params.len() - passed.positions.len();
        for param in &passed.params[first..] {
            let (name, dtype) = param.split_once(": ").expect("a name and a dtype");
            let dtype = DType::from_name(dtype).expect("a dtype");
            self.position(name.to_owned(), dtype);
        }
    }

    /// What the block does with its positions, its caller does.
    pub(super) fn limit_positions(&mut self, passed: &Passed, rooms: &[Option<i64>]) {
        for (of, room) in passed.positions.iter().zip(rooms) {
            if let (Some(of), Some(room)) = (of, room) {
                let known = &mut self.positions[*of].room;
                *known = Some(known.map_or(*room, |known| known.min(*room)));
            }
        }
    }

    /// How far the positions may go that the block is given.
    pub(super) fn rooms(&self) -> Vec<Option<i64>> {
        let given = self.positions.iter().enumerate();
        let given = given.filter(|(at, p)| p.of == *at);
        given.map(|(_, p)| p.room).collect()
    }

    /// `let y = block(x, w);`, the block being made for it.
    pub(super) fn call(&mut self) {
        let name = self.block_name("block");
        let mut given: Vec<Tensor> = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let arg = self.rng.one_of(&self.tensors.clone());
            given.push(self.valued(&arg));
        }
        let mut states = self.stored();
        if states.is_empty() || self.rng.chance(2) {
            states.clear();
        }
        while states.len() > 2 {
            states.remove(self.rng.below(states.len()));
        }
        let mut host = None;
        if self.rng.chance(5) {
            let of = self.hosts.iter().find(|h| h.1 == DType::F32);
            host = Some(of.map_or("3.0".to_owned(), |h| h.0.clone()));
        }
        let literal = self.rng.chance(5);
        let mut passed = Passed::default();
        let dims = Dims::of(given.iter().chain(&states).flat_map(|t| &t.axes));
        let mut positions = Passed::default();
        if !states.is_empty() {
            self.given_positions(&mut positions);
        }
        let mut inner = self.inner(&name, &dims);
        for (at, t) in given.iter().chain(&states).enumerate() {
            let param = inner.param(format!("a{at}"), t, &dims);
            passed.push(param, &*t.name);
        }
        if literal {
            passed.push("s: f32".into(), "2.0");
            inner.number("s", DType::F32);
            inner.mark("a literal as an argument");
        }
        if let Some(host) = host {
            passed.push("#[host] k: f32".into(), host);
            inner.hosts.push(("k".into(), DType::F32));
            inner.mark("#[host] of a call");
        }
        inner.declare_positions(&positions);
        for _ in 0..1 + inner.rng.below(2) {
            match inner.rng.below(8) {
                0 if inner.depth < 2 => {
                    inner.call();
                    inner.mark("a call in a call");
                }
                1 => inner.kernel(),
                _ => inner.statement(None),
            }
        }
        if !states.is_empty() {
            inner.store();
            inner.statement(None);
            inner.mark("a store in a call");
        }
        let results = inner.results();
        let rooms = inner.rooms();
        passed.params.extend(positions.params.clone());
        passed.args.extend(positions.args.clone());
        let block = inner.block(&name, &dims, &passed.params, &results);
        self.limit_positions(&positions, &rooms);
        self.items.push(block);
        self.mark("a call");
        let outer: BTreeMap<ExtentId, ExtentId> =
            dims.by_outer.iter().map(|(&o, &i)| (i, o)).collect();
        let results: Vec<Tensor> = results
            .into_iter()
            .map(|t| Tensor {
                name: self.fresh("t"),
                axes: t.axes.iter().map(|a| outer[a]).collect(),
                state: false,
                ..t
            })
            .collect();
        let (names, types) = listed(self, &results);
        let annotation = match self.rng.chance(3) {
            true => format!(": {types}"),
            false => String::new(),
        };
        let args = passed.args.join(", ");
        self.line(&format!("let {names}{annotation} = {name}({args});"));
        self.tensors.extend(results);
    }

    /// A number of rank 0 that the block is given.
    fn number(&mut self, name: &str, dtype: DType) {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            axes: Vec::new(),
            dtype,
            bound: super::LARGEST,
            error: 0.0,
            nan: false,
            ids: false,
            state: false,
        });
    }

    /// The text of a block.
    pub(super) fn block(
        &self,
        name: &str,
        dims: &Dims,
        params: &[String],
        results: &[Tensor],
    ) -> String {
        let (names, types) = listed(self, results);
        let generics: Vec<String> = dims.names.iter().map(|d| format!("dim {d}")).collect();
        let generics = match generics.is_empty() {
            true => String::new(),
            false => format!("<{}>", generics.join(", ")),
        };
        let (params, body) = (params.join(", "), &self.body);
        format!("fn {name}{generics}({params}) -> {types} {{\n{body}    {names}\n}}")
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
