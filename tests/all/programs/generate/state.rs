//! States, and stores into them.

use eindecomp_core::ein::DType;

use super::loops::Number;
use super::value::{COMPARE, PRIMARY, Val, common, limit, literal};
use super::{ExtentId, LARGEST, LARGEST_SPACE, Maker, Tensor};

/// An integer of rank 0 that positions of stores may mention.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// As written.
    pub name: String,
    /// Of the parameters of the same block, the one that it is made of.
    pub of: usize,
    pub dtype: DType,
    /// It runs from 0 to `room`; `None` is any integer.
    pub room: Option<i64>,
}

/// What may stand in the place of an axis.
struct Place {
    text: String,
    /// The tensor whose bare use gives the index its extent, and the index.
    settle: Option<(Tensor, usize)>,
}

impl Place {
    fn of(text: impl Into<String>) -> Place {
        Place {
            text: text.into(),
            settle: None,
        }
    }
}

impl Maker<'_> {
    /// Parameters that are states or positions in them.
    pub(super) fn states(&mut self) -> Vec<String> {
        let mut params = Vec::new();
        if self.rng.chance(2) {
            return params;
        }
        for _ in 0..1 + self.rng.below(2) {
            let dtype = self.rng.one_of(&super::DTYPES);
            let rank = self.rng.one_of(&[1, 1, 2, 2, 3]);
            let mut input = self.input(dtype, rank);
            // What a loop's number or a part of the axis is stored into.
            let windows: Vec<_> = self.extents.iter().filter_map(|e| e.window).collect();
            match self.rng.below(4) {
                0 => input.axes[0] = self.rng.below(3),
                1 | 2 if !windows.is_empty() => input.axes[0] = self.rng.one_of(&windows).0,
                _ => {}
            }
            let state = Tensor {
                name: self.fresh("s"),
                state: true,
                ids: false,
                ..input
            };
            params.push(format!("#[state] {}: {}", state.name, self.ty(&state)));
            self.tensors.push(state);
        }
        if self.rng.chance(2) {
            params.push(self.state_struct());
        }
        for _ in 0..self.rng.below(3) {
            let dtype = self
                .rng
                .one_of(&[DType::I64, DType::I64, DType::U32, DType::I32]);
            let name = self.fresh("n");
            params.push(format!("{name}: {dtype}"));
            self.position(name, dtype);
        }
        self.mark("a state");
        params
    }

    /// A position that the block is given.
    pub(super) fn position(&mut self, name: String, dtype: DType) {
        let of = self.positions.len();
        self.positions.push(Position {
            name,
            of,
            dtype,
            room: None,
        });
    }

    /// The tensor as a value: a state is one by a `let`.
    pub(super) fn valued(&mut self, t: &Tensor) -> Tensor {
        if !t.state {
            return t.clone();
        }
        let name = self.fresh("t");
        self.line(&format!("let {name} = {};", t.name));
        self.mark("a state as a value");
        let value = Tensor {
            name,
            state: false,
            ..t.clone()
        };
        self.tensors.push(value.clone());
        value
    }

    /// States that may be stored into.
    pub(super) fn stored(&self) -> Vec<Tensor> {
        let states = self.tensors.iter().filter(|t| t.state);
        states.cloned().collect()
    }

    /// `s[n + i, j] = …;`
    pub(super) fn store(&mut self) {
        let states = self.stored();
        if states.is_empty() {
            return self.statement(None);
        }
        if self.rng.chance(8) && !self.positions.is_empty() {
            self.computed_position();
        }
        let state = self.rng.one_of(&states);
        let exact = std::mem::replace(&mut self.exact, true);
        let part = state.axes.iter().find_map(|&axis| self.parts(axis).next());
        if let Some(axis) = part.filter(|_| self.rng.chance(2)) {
            // Something that goes into a part of it.
            self.statement(Some(&Tensor {
                axes: vec![axis],
                ..state.clone()
            }));
        }
        self.indices.clear();
        let mut places = Vec::new();
        for &axis in &state.axes {
            let place = self.place(axis, state.dtype);
            places.push(place);
        }
        let mut value: Option<Val> = None;
        let settle: Vec<_> = places.iter().filter_map(|p| p.settle.clone()).collect();
        for (t, index) in settle {
            if self.indices[index].settled {
                continue;
            }
            // Only an access that is inside gives an extent.
            let read = self.inside(&t, index);
            value = Some(match value {
                Some(first) => both(first, read),
                None => read,
            });
        }
        let mut value = match value {
            Some(value) if self.rng.chance(2) => value,
            Some(first) => {
                let more = self.small(state.dtype, 2, limit(state.dtype));
                both(first, more)
            }
            None => self.expr(state.dtype, 3),
        };
        self.exact = exact;
        // What stays over many runs grows no larger.
        if value.bound > LARGEST {
            value = self.clamped(value, LARGEST);
        }
        if value.nan {
            let zero = literal(value.dtype, 0).text;
            let text = value.text;
            value.text = format!("if is_nan({text}) {{ {zero} }} else {{ {text} }}");
            value.nan = false;
        }
        let indices = std::mem::take(&mut self.indices);
        self.pins(&indices);
        let places: Vec<String> = places.into_iter().map(|p| p.text).collect();
        self.line(&format!(
            "{}[{}] = {};",
            state.name,
            places.join(", "),
            value.text
        ));
        self.mark("a store");
    }

    /// `let n2 = min(n1, 1);`
    fn computed_position(&mut self) {
        let at = self.rng.below(self.positions.len());
        let of = self.positions[at].clone();
        let name = self.fresh("m");
        let value = self.rng.one_of(&["min({}, 1)", "max({}, 0)"]);
        let value = value.replace("{}", &of.name);
        self.line(&format!("let {name}[] = {value};"));
        self.positions.push(Position { name, ..of });
        self.mark("a computed position");
    }

    /// A position that leaves `room` before it leaves the axis.
    fn moving(&mut self, room: i64) -> Option<String> {
        if self.positions.is_empty() || room < 0 {
            return None;
        }
        let at = self.rng.below(self.positions.len());
        let Position { name, of, .. } = self.positions[at].clone();
        let known = &mut self.positions[of].room;
        *known = Some(known.map_or(room, |known| known.min(room)));
        Some(name)
    }

    /// What stands in the place of an axis of this extent.
    fn place(&mut self, axis: ExtentId, dtype: DType) -> Place {
        let (text, value) = (self.extents[axis].text.clone(), self.value(axis));
        let inside = |n: &&Number| match (n.high.parse::<i64>(), text.parse::<i64>()) {
            (Ok(high), Ok(length)) => high <= length,
            _ => n.high == text,
        };
        if let Some(number) = self.numbers.iter().find(inside).cloned()
            && self.rng.chance(2)
        {
            self.mark("a store at a loop number");
            return Place::of(number.name);
        }
        match self.rng.below(12) {
            0 | 1 if self.is_positive(axis) => {
                self.mark("a store at one place");
                Place::of(self.rng.one_of(&["0".to_owned(), format!("{text} - 1")]))
            }
            2 | 3 => match self.moving(value - 1) {
                Some(name) => {
                    self.mark("a store at a position");
                    Place::of(name)
                }
                None => self.bare_place(axis),
            },
            _ if self.rng.chance(2) && self.parts(axis).next().is_some() => self
                .shifted_place(axis, dtype)
                .unwrap_or_else(|| self.bare_place(axis)),
            4..=6 => self
                .shifted_place(axis, dtype)
                .unwrap_or_else(|| self.bare_place(axis)),
            7 | 8 => {
                let same = self.indices.iter().find(|i| i.extent == axis).cloned();
                let Some(index) = same else {
                    return self.bare_place(axis);
                };
                self.mark("a store along a diagonal");
                let other = format!("{text} - 1 - {}", index.name);
                Place::of(self.rng.one_of(&[index.name, other]))
            }
            _ => self.bare_place(axis),
        }
    }

    /// Extents that are a window shorter.
    fn parts(&self, axis: ExtentId) -> impl Iterator<Item = ExtentId> {
        let all = self.extents.iter().enumerate();
        all.filter(move |(_, e)| e.window.is_some_and(|w| w.0 == axis))
            .map(|(at, _)| at)
    }

    fn bare_place(&mut self, axis: ExtentId) -> Place {
        let at = self.indices.len();
        let name = self.index(axis);
        self.indices[at].settled = true;
        Place::of(name)
    }

    /// An index of some other tensor, moved.
    fn shifted_place(&mut self, axis: ExtentId, dtype: DType) -> Option<Place> {
        let length = self.value(axis);
        let text = self.factor(axis);
        let space: i64 = self
            .indices
            .iter()
            .map(|i| self.value(i.extent).max(1))
            .product();
        let mut able: Vec<(Tensor, ExtentId)> = Vec::new();
        for t in self.readable(dtype) {
            let fits =
                |&&a: &&ExtentId| self.value(a) <= length && space * self.value(a) <= LARGEST_SPACE;
            able.extend(t.axes.iter().filter(fits).map(|&a| (t.clone(), a)));
        }
        if able.is_empty() {
            return None;
        }
        let window =
            |a: &&(Tensor, ExtentId)| self.extents[a.1].window.is_some_and(|w| w.0 == axis);
        if let Some(first) = able.iter().find(window).cloned() {
            able.push(first.clone());
            able.push(first);
        }
        let (t, extent) = self.rng.one_of(&able);
        let (id, own) = (self.extents[extent].clone(), extent == axis);
        let room = length - id.value;
        let ring = own
            || matches!((id.text.parse(), text.parse()), (Ok::<i64, _>(a), Ok::<i64, _>(b)) if a <= b);
        let at = self.indices.len();
        let may_compare = !self.simple && self.may_compare(extent, axis);
        let index = self.index(extent);
        let text = match self.rng.below(6) {
            0 | 1 if ring || may_compare => {
                if !ring {
                    let clause = format!("{} <= {}", id.text, self.extents[axis].text);
                    self.clauses.insert(clause);
                }
                let names: Vec<String> = self.positions.iter().map(|p| p.name.clone()).collect();
                let by = match names.is_empty() {
                    true => self.rng.below(9).to_string(),
                    false => self.rng.one_of(&names),
                };
                self.mark("a store into a ring");
                format!("({by} + {index}) % {text}")
            }
            2 if own => {
                self.mark("a store from 0");
                format!("0 + {index}")
            }
            3 if may_compare => {
                let clause = format!("{} <= {}", id.text, self.extents[axis].text);
                self.clauses.insert(clause);
                self.mark("a store from 0");
                format!("{index} + 0")
            }
            2..=4 if id.window.is_some_and(|w| w.0 == axis) => {
                self.mark("a store into a window");
                format!("{index} + 1")
            }
            _ => match self.moving(room) {
                Some(name) => {
                    self.mark("a store from a position on");
                    match self.rng.chance(2) {
                        true => format!("{name} + {index}"),
                        false => format!("{index} + {name}"),
                    }
                }
                None => {
                    self.indices.pop();
                    return None;
                }
            },
        };
        Some(Place {
            text,
            settle: Some((t, at)),
        })
    }

    /// A read of `t` that gives the index its extent.
    fn inside(&mut self, t: &Tensor, index: usize) -> Val {
        for _ in 0..6 {
            let read = self.read(t, Some(index));
            if self.indices[index].settled {
                return read;
            }
        }
        // The largest along all other axes.
        let (own, extent) = (self.indices[index].name.clone(), self.indices[index].extent);
        let at = t.axes.iter().position(|&axis| axis == extent);
        let names: Vec<String> = (0..t.axes.len())
            .map(|axis| match Some(axis) == at {
                true => own.clone(),
                false => self.fresh("i"),
            })
            .collect();
        let over: Vec<&str> = names.iter().filter(|n| **n != own).map(|n| &**n).collect();
        self.indices[index].settled = true;
        let access = format!("{}[{}]", t.name, names.join(", "));
        let (agg, bound) = match t.dtype {
            DType::Bool => ("any", 1.0),
            _ => ("max", f64::INFINITY),
        };
        let text = match over.is_empty() {
            true => access,
            false => format!("({agg}[{}] {access})", over.join(", ")),
        };
        let value = Val::exact(text, PRIMARY, t.dtype, bound);
        match over.is_empty() || agg == "any" {
            true => Val {
                bound: t.bound,
                nan: t.nan,
                ..value
            },
            false => Val {
                nan: t.nan,
                ..self.clamped(value, limit(t.dtype).min(t.bound))
            },
        }
    }
}

/// A value made of two.
fn both(a: Val, b: Val) -> Val {
    let dtype = common(&a, &b);
    Val {
        text: match dtype {
            DType::Bool => format!("({}) != ({})", a.text, b.text),
            _ => format!("max({}, {})", a.text, b.text),
        },
        strength: if dtype == DType::Bool {
            COMPARE
        } else {
            PRIMARY
        },
        dtype,
        bound: a.bound.max(b.bound),
        error: a.error.max(b.error),
        nan: a.nan || b.nan,
        typed: a.typed || b.typed,
    }
}
