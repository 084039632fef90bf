//! Instances as they are called for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Choice, base, declared, expand, instance_name, told};
use crate::syntax::ast::{self, Generic, Ident, LeftIndex, StmtKind, Sub};
use crate::syntax::check::body::{self, Items};
use crate::syntax::check::tree::{Block, Checked, Warning};
use crate::syntax::check::types::signature;
use crate::syntax::diag::{Code, Diag};

/// Instances that call each other for the first time are made one inside the other.
const MAX_DEPTH: usize = 64;

/// An instance; without a block, its signature is wrong.
struct Made {
    block: Option<Block>,
    errors: Vec<Diag>,
    warnings: Vec<Warning>,
}

/// The instances of one program, in the order of making.
#[derive(Default)]
pub(in crate::syntax::check) struct Instances {
    made: RefCell<Vec<(Arc<str>, Made)>>,
    /// Blocks whose callees are checked.
    ready: RefCell<BTreeSet<Arc<str>>>,
    /// All are, and their errors are told.
    done: bool,
    depth: Cell<usize>,
}

impl Instances {
    /// Those of a checked program.
    pub(in crate::syntax::check) fn of(checked: &Checked) -> Instances {
        let known = checked
            .blocks
            .iter()
            .filter(|b| b.name.as_str().contains('/'));
        let made = known.map(|block| {
            let made = Made {
                block: Some(block.clone()),
                errors: Vec::new(),
                warnings: Vec::new(),
            };
            (block.name.name.clone(), made)
        });
        Instances {
            made: RefCell::new(made.collect()),
            done: true,
            ..Instances::default()
        }
    }

    /// Calls of the block may make instances of it.
    pub(in crate::syntax::check) fn ready(&self, name: &str) {
        self.ready.borrow_mut().insert(name.into());
    }

    /// None yet, with the same blocks ready.
    pub(in crate::syntax::check) fn trial(&self) -> Instances {
        Instances {
            ready: RefCell::new(self.ready.borrow().clone()),
            ..Instances::default()
        }
    }

    /// The errors of a block's instances.
    pub(in crate::syntax::check) fn errors(&self, block: &str) -> Vec<Diag> {
        let made = self.made.borrow();
        let mine = made.iter().filter(|(name, _)| base(name) == block);
        mine.flat_map(|(_, made)| made.errors.clone()).collect()
    }

    fn known(&self, name: &str) -> Option<Option<Block>> {
        let made = self.made.borrow();
        let found = made.iter().find(|(n, _)| **n == *name);
        found.map(|(_, made)| made.block.clone())
    }

    /// What is said of an instance that has been made.
    pub(in crate::syntax::check) fn with<T>(
        &self,
        name: &str,
        say: impl FnOnce(&Block) -> Option<T>,
    ) -> Option<T> {
        let made = self.made.borrow();
        let (_, found) = made.iter().find(|(n, _)| **n == *name)?;
        found.block.as_ref().and_then(say)
    }

    /// Puts the instances into `checked`. Of the instances of a block, the first one with errors
    /// tells its own: the others would say the same again.
    pub(in crate::syntax::check) fn finish(self, checked: &mut Checked) {
        let mut told: BTreeMap<String, (Vec<Diag>, Vec<Warning>)> = BTreeMap::new();
        for (name, made) in self.made.into_inner() {
            let told = told.entry(base(&name).into()).or_insert_with(|| {
                let warnings = made.warnings.clone();
                (Vec::new(), warnings)
            });
            if told.0.is_empty() {
                told.0 = made.errors;
            }
            if let Some(block) = made.block
                && checked.block(&name).is_none()
            {
                checked.blocks.push(block);
            }
        }
        for (errors, warnings) in told.into_values() {
            checked.errors.extend(errors);
            checked.warnings.extend(warnings);
        }
    }
}

impl Items<'_> {
    /// The instance of a generic block; `None` if its signature is wrong, which is told elsewhere.
    pub(in crate::syntax::check) fn instance(
        &self,
        block: &ast::Block,
        choices: &[Choice],
    ) -> Option<Block> {
        let name = instance_name(block.head.name.as_str(), choices);
        if let Some(known) = self.instances.known(&name) {
            return known;
        }
        let expanded = expand(block, choices);
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let mut made = match signature(&expanded, self.declared, &mut errors) {
            Ok(block) => Some(block),
            Err(known) => {
                let more = known.map(|known| body::check(&expanded, &known, self).1);
                errors.extend(more.into_iter().flatten());
                None
            }
        };
        if let Some(block) = &mut made {
            let depth = self.instances.depth.get();
            if depth < MAX_DEPTH {
                self.instances.depth.set(depth + 1);
                let (done, more, told) = body::check(&expanded, block, self);
                self.instances.depth.set(depth);
                (*block, warnings) = (done, told);
                errors.extend(more);
            } else {
                let text = "calls of generic blocks are nested too deeply";
                errors.push(Diag::new(Code::TooDeep, expanded.head.name.span, text));
            }
        }
        let first = declared(block)
            .first()
            .is_some_and(|first| first == choices);
        let rests = rests(block);
        for error in &mut errors {
            error.reword(&|text| as_written(text, &rests));
        }
        if !first {
            let where_ = told(block, choices);
            for error in &mut errors {
                error.message += &format!(", where {where_}");
            }
        }
        let made = Made {
            block: made,
            errors,
            warnings,
        };
        let block = made.block.clone();
        self.instances.made.borrow_mut().push((name, made));
        block
    }

    /// The `..` of a block whose axes the dim of its instance is one of.
    pub(in crate::syntax::check) fn rest_of(&self, instance: &str, dim: &str) -> Option<Arc<str>> {
        let number = |rest: &Ident| {
            let digits = dim.strip_prefix(rest.as_str())?;
            digits.parse::<usize>().ok()
        };
        let generics = self.generic.get(base(instance))?.generics.iter();
        let mut rests = generics.filter_map(|generic| match generic {
            Generic::Rest(name) => Some(name),
            _ => None,
        });
        let found = rests.find(|rest| number(rest).is_some())?;
        Some(found.name.clone())
    }

    /// May a call make instances of the block? Not of one that calls itself.
    pub(in crate::syntax::check) fn callable(&self, name: &str) -> bool {
        self.instances.done || self.instances.ready.borrow().contains(name)
    }
}

/// The names behind `..` in a block: of dims, and of indices, those that an error may propose
/// included.
fn rests(block: &ast::Block) -> BTreeSet<Arc<str>> {
    fn left(indices: &[LeftIndex], out: &mut BTreeSet<Arc<str>>) {
        for index in indices {
            match index {
                LeftIndex::Rest(name) => drop(out.insert(name.name.clone())),
                LeftIndex::Merged(parts, _) => left(parts, out),
                LeftIndex::Index(_) => {}
            }
        }
    }
    let mut out = BTreeSet::new();
    for generic in &block.generics {
        if let Generic::Rest(name) = generic {
            out.insert(name.name.clone());
            out.insert(name.as_str().to_lowercase().into());
        }
    }
    for stmt in &block.stmts {
        let StmtKind::Let { pat, value, .. } = &stmt.kind else {
            continue;
        };
        left(pat.indices.as_deref().unwrap_or_default(), &mut out);
        read(value, &mut out);
    }
    out
}

fn read(e: &ast::Expr, out: &mut BTreeSet<Arc<str>>) {
    if let ast::ExprKind::Access { subs, .. } = &e.kind {
        out.extend(subs.iter().filter_map(|sub| match sub {
            Sub::Rest(name) => Some(name.name.clone()),
            _ => None,
        }));
    }
    e.children().into_iter().for_each(|e| read(e, out));
}

/// `l0, l1` of an instance as the `..l` of the block.
fn as_written(text: &str, rests: &BTreeSet<Arc<str>>) -> String {
    let is_word = |ch: char| ch.is_alphanumeric() || ch == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(is_word) {
        let word = &rest[start..];
        let word = &word[..word.find(|ch| !is_word(ch)).unwrap_or(word.len())];
        let base = word.trim_end_matches(|ch: char| ch.is_ascii_digit());
        out += &rest[..start];
        if base.len() < word.len() && rests.contains(base) {
            let written = format!("..{base}");
            // The next of the same.
            match out
                .strip_suffix(", ")
                .filter(|before| before.ends_with(&written))
            {
                Some(before) => out.truncate(before.len()),
                None => out += &written,
            }
        } else {
            out += word;
        }
        rest = &rest[start + word.len()..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_an_instance_are_told_as_written() {
        let rests = BTreeSet::from(["L".into(), "l".into()]);
        let told = |text| as_written(text, &rests);
        assert_eq!(
            told("`x[l0, l1, c]` is f32[L0, L1, C]"),
            "`x[..l, c]` is f32[..L, C]"
        );
        assert_eq!(told("il0, l, w1"), "il0, l, w1");
    }
}
