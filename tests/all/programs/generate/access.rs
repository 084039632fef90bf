//! Reading tensors.

use eindecomp_core::ein::DType;

use super::value::{PRIMARY, Val, literal, unsigned};
use super::{ExtentId, Maker, Tensor};

/// How an axis is read.
struct Sub {
    text: String,
    /// It may leave the axis.
    leaves: bool,
    /// It stays inside under this condition.
    guard: Option<String>,
}

impl Sub {
    fn inside(text: impl Into<String>) -> Sub {
        Sub {
            text: text.into(),
            leaves: false,
            guard: None,
        }
    }

    fn leaving(text: impl Into<String>) -> Sub {
        Sub {
            leaves: true,
            ..Sub::inside(text)
        }
    }
}

impl Maker<'_> {
    /// An element of `t`. With `must`, the index in scope at this position is used if it can be.
    pub(super) fn read(&mut self, t: &Tensor, must: Option<usize>) -> Val {
        let mut must = must;
        let bare = std::mem::take(&mut self.bare);
        let mut subs = Vec::new();
        for &axis in &t.axes {
            let wanted = must.filter(|&m| self.indices[m].extent == axis);
            let sub = match wanted {
                Some(at) => {
                    must = None;
                    self.bare.push(at);
                    Sub::inside(self.indices[at].name.clone())
                }
                None => self.sub(axis),
            };
            subs.push(sub);
        }
        let mut val = Val {
            text: t.name.clone(),
            strength: PRIMARY,
            dtype: t.dtype,
            bound: t.bound,
            error: t.error,
            nan: t.nan,
            typed: true,
        };
        // With a value outside or under a guard, bare uses settle nothing.
        let plain = self.guarded == 0 && subs.iter().all(|s| !s.leaves && s.guard.is_none());
        for at in std::mem::replace(&mut self.bare, bare) {
            self.indices[at].settled |= plain;
        }
        if subs.is_empty() {
            return val;
        }
        let texts: Vec<&str> = subs.iter().map(|s| &*s.text).collect();
        val.text = format!("{}[{}]", t.name, texts.join(", "));
        if subs.iter().any(|s| s.leaves) {
            let n = if unsigned(t.dtype) || t.dtype == DType::Bool {
                self.rng.below(2) as i64
            } else {
                self.rng.below(3) as i64 - 1
            };
            let outside = match t.dtype.is_float() && self.rng.chance(12) {
                true => {
                    val.bound = f64::INFINITY;
                    "-inf".to_owned()
                }
                false => literal(t.dtype, n).text,
            };
            val.text = format!("({} else {outside})", val.text);
            val.bound = val.bound.max(1.0);
            self.mark("a value outside");
        }
        let guards: Vec<String> = subs.into_iter().filter_map(|s| s.guard).collect();
        if !guards.is_empty() {
            let n = i64::from(t.dtype == DType::Bool && self.rng.chance(2));
            let other = literal(t.dtype, n).text;
            let guard = guards.join(" && ");
            val.text = format!("if {guard} {{ {} }} else {{ {other} }}", val.text);
            self.mark("a guard");
        }
        val
    }

    /// Positions in the scope of indices with this extent.
    fn like(&self, extent: ExtentId) -> Vec<usize> {
        let all = 0..self.indices.len();
        all.filter(|&i| self.indices[i].extent == extent).collect()
    }

    fn sub(&mut self, axis: ExtentId) -> Sub {
        let same = self.like(axis);
        let positive = self.value(axis) >= 1;
        if !same.is_empty() {
            let at = self.rng.one_of(&same);
            let name = self.indices[at].name.clone();
            let text = self.extents[axis].text.clone();
            match self.rng.below(24) {
                0 => {
                    self.mark("an affine access that leaves");
                    return Sub::leaving(format!("{name} - 1"));
                }
                1 => {
                    self.mark("an affine access that leaves");
                    return Sub::leaving(format!("2 * {name} + 1"));
                }
                2 => {
                    self.mark("a reversed axis");
                    return Sub::inside(format!("{text} - 1 - {name}"));
                }
                3 => {
                    self.mark("an affine guard");
                    let guard = Some(format!("{name} >= 1"));
                    let text = format!("{name} - 1");
                    return Sub {
                        guard,
                        ..Sub::inside(text)
                    };
                }
                4 => {
                    self.mark("an affine guard");
                    let guard = Some(format!("{name} + 1 < {text}"));
                    let text = format!("{name} + 1");
                    return Sub {
                        guard,
                        ..Sub::inside(text)
                    };
                }
                5 => {
                    self.mark("a halved index");
                    return Sub::inside(format!("{name} / 2"));
                }
                6 => {
                    self.mark("a periodic access");
                    let by = self.factor(axis);
                    return Sub::inside(format!("({name} + 1) % {by}"));
                }
                7 if self.is_positive(axis) => {
                    self.mark("a clamped index");
                    return Sub::inside(format!("min({name} + 1, {text} - 1)"));
                }
                8 => return Sub::inside(format!("0 + {name}")),
                _ => {
                    self.bare.push(at);
                    return Sub::inside(name);
                }
            }
        }
        if let Some((a, b)) = self.extents[axis].parts {
            let (slow, fast) = (self.like(a), self.like(b));
            if !slow.is_empty() && !fast.is_empty() {
                let (slow, fast) = (self.rng.one_of(&slow), self.rng.one_of(&fast));
                if slow != fast {
                    self.mark("merged axes on the right");
                    let (slow, fast) = (&self.indices[slow].name, &self.indices[fast].name);
                    return Sub::inside(format!("({slow}, {fast})"));
                }
            }
        }
        for at in 0..self.indices.len() {
            let index = self.indices[at].clone();
            let extent = self.extents[index.extent].clone();
            if extent.strided == Some((axis, 2)) {
                self.mark("a strided access");
                let more = self.rng.one_of(&["", " + 1"]);
                return Sub::inside(format!("2 * {}{more}", index.name));
            }
            if let Some((longer, window)) = extent.window
                && longer == axis
            {
                self.mark("a window");
                let at = self.rng.below(window as usize);
                return Sub::inside(format!("{} + {at}", index.name));
            }
        }
        // Some index of another extent, or a number.
        let any = match self.indices.is_empty() {
            true => None,
            false => {
                let at = self.rng.below(self.indices.len());
                Some(self.indices[at].clone())
            }
        };
        match (self.rng.below(8), any) {
            (0 | 1, Some(index)) if positive => {
                self.mark("a periodic access");
                let by = self.factor(axis);
                let more = self.rng.below(3);
                Sub::inside(format!("({} + {more}) % {by}", index.name))
            }
            (2, Some(index)) => {
                self.mark("an affine access that leaves");
                Sub::leaving(format!("{} - 1", index.name))
            }
            (3, Some(index))
                if !self.simple
                    && self.value(index.extent) <= self.value(axis)
                    && self.may_compare(index.extent, axis) =>
            {
                let (a, b) = (&self.extents[index.extent].text, &self.extents[axis].text);
                let clause = format!("{a} <= {b}");
                self.clauses.insert(clause);
                self.mark("where an order");
                Sub::inside(format!("0 + {}", index.name))
            }
            (4, Some(index)) if self.is_positive(axis) => {
                self.mark("a clamped index");
                let text = &self.extents[axis].text;
                Sub::inside(format!("clamp({} - 1, 0, {text} - 1)", index.name))
            }
            (5 | 6, _) => self.gather(axis),
            _ if self.is_positive(axis) => Sub::inside("0"),
            _ => Sub::leaving(self.rng.one_of(&["0", "1", "-1"])),
        }
    }

    /// Is a clause about the two of use to the checker, and no nuisance to it?
    pub(super) fn may_compare(&self, a: ExtentId, b: ExtentId) -> bool {
        let name = |id: ExtentId| {
            let text = &self.extents[id].text;
            text.len() == 1 && text.starts_with(|c: char| c.is_ascii_uppercase()) && text != "E"
        };
        name(a) && name(b) && a != b
    }

    fn gather(&mut self, axis: ExtentId) -> Sub {
        let ids: Vec<Tensor> = self.tensors.iter().filter(|t| t.ids).cloned().collect();
        let bare = |maker: &Self, t: &Tensor| t.axes.iter().all(|&a| !maker.like(a).is_empty());
        let ids: Vec<Tensor> = ids.into_iter().filter(|t| bare(self, t)).collect();
        if ids.is_empty() {
            return Sub::leaving("0");
        }
        let t = self.rng.one_of(&ids);
        let mut names = Vec::new();
        for &a in &t.axes {
            let like = self.like(a);
            let at = self.rng.one_of(&like);
            names.push(self.indices[at].name.clone());
        }
        let text = match names.is_empty() {
            true => t.name.clone(),
            false => format!("{}[{}]", t.name, names.join(", ")),
        };
        self.mark("a gather");
        match self.value(axis) >= 4 && self.rng.chance(2) {
            true => Sub::inside(text),
            false => Sub::leaving(text),
        }
    }
}
