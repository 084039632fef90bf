//! Extents, and those made of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Extent, ExtentId, LARGEST_SPACE, Maker};

impl Maker<'_> {
    pub(super) fn extent(&mut self, text: &str, value: i64) -> ExtentId {
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
    pub(super) fn factor(&self, id: ExtentId) -> String {
        let text = &self.extents[id].text;
        match text.contains(' ') {
            true => format!("({text})"),
            false => text.clone(),
        }
    }

    /// The product of two extents.
    pub(super) fn product(&mut self, a: ExtentId, b: ExtentId) -> ExtentId {
        let text = format!("{} * {}", self.factor(a), self.factor(b));
        let id = self.extent(&text, self.value(a) * self.value(b));
        self.extents[id].parts = Some((a, b));
        id
    }

    pub(super) fn value(&self, id: ExtentId) -> i64 {
        self.extents[id].value
    }

    pub(super) fn is_positive(&self, id: ExtentId) -> bool {
        self.extents[id].positive
    }

    /// An extent with which the space stays small.
    pub(super) fn any_extent(&mut self, with: &[ExtentId]) -> ExtentId {
        let space: i64 = with.iter().map(|&e| self.value(e).max(1)).product();
        let named = self.extents.len() > 3 && !self.rng.chance(5);
        let from = if named { 3 } else { 0 };
        let id = from + self.rng.below(self.extents.len() - from);
        match space * self.value(id) <= LARGEST_SPACE / 20 {
            true => id,
            false => 0,
        }
    }

    /// Extents made of others, and the clauses they need.
    pub(super) fn derived(&mut self, dims: &mut BTreeMap<Arc<str>, i64>) {
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
}
