//! Checks a parsed program: names, ranks, element types, extents, index ranges.
//!
//! Every error has a place and a code; what follows from an error is not reported again: the
//! variable it would have defined is poisoned, or has the type that it is said to have.
//!
//! * `instance`: a block with `dim ..L` or `T: Float` as one block per rank and dtype;
//! * `dims`: extents as polynomials; `types`: structs, signatures; `roles`: of parameters; `scalars`: scalar functions;
//! * `others`: blocks and structs of other programs; `mentions`: what a program needs of them;
//! * `kernels`: `extern fn`; `cycles`: items that come back to themselves;
//! * `body`: a block; `variables`: those in scope; `required`: what must hold of sizes; `declared`: the types of variables as written; `stmts`: its statements; `loops`: those that repeat;
//!   `pins`: of their plans; `stores`: those into state; `stored`: how those may be meant; `refused`: those into anything else;
//!   `recovered`: what reads the results of wrong ones; `salvaged`: what is right in those; `results`: what it returns; `remade`: how that may be meant; `rounds`: what a round of a loop loses;
//! * `calls`: blocks calling blocks; `given`: what they are called with; `arguments`: whether that fits;
//!   `misplaced`: arguments in another's place;
//!   `hoisted`: what needs a statement of its own; `size`: how many statements all of it is;
//! * `expr`, `ops`, `functions`, `access`, `ranks`, `reduce`, `records`: expressions; `heads`: those of reductions; `traps`: what a reduction hardly means; `unused`: indices that it does not use; `prefixes`: ranges of part of an axis; `kept`: axes kept where they are reduced; `dtype`: their element types;
//!   `wraps`: integers wanted wider than they wrap; `quotients`: fractions that they lose; `unsigned`: what they have no sign for;
//! * `aggs`: aggregations over records;
//! * `extents`: what indices run over; `conflicts`: uses that disagree; `otherwise`: how they agree; `meant`: which index is meant there; `renamed`: two that are called as each other's axes;
//!   `unequal`: two sizes that would have to be equal; `groups`: heads in groups; `merged`: their members against them; `transposed`: merged axes in another's place; `swapped`: results in another's place;
//!   `left`: indices missing on the left; `parts`: axes of several lengths; `lower`: indices in upper case;
//!   `ranges`: accesses in bounds; `prove`: the facts for both;
//! * `conditions`: guards as facts; `bounds`: of positions; `outside`: accesses not proved; `lengths`: indices that are too long; `guards`: how conditions around them
//!   are corrected; `together`: several errors as one;
//! * `slips`, `shifts`: of positions; `fixes`: changes that errors propose; `padding`: values outside; `unbound`: which index is meant;
//! * `walk`: looking through expressions; `tree`: what comes out.

mod access;
mod aggs;
mod arguments;
mod body;
mod bounds;
mod calls;
mod conditions;
mod conflicts;
mod consts;
mod cycles;
mod declared;
mod dims;
mod dtype;
mod expr;
mod extents;
mod fields;
mod fixes;
mod functions;
mod given;
mod groups;
mod guards;
mod heads;
mod hoisted;
mod instance;
mod kept;
mod kernels;
mod left;
mod lengths;
mod loops;
mod lower;
mod meant;
mod mentions;
mod merged;
mod misplaced;
mod once;
mod ops;
mod orders;
mod others;
mod otherwise;
mod outside;
mod padding;
mod parts;
mod pins;
mod prefixes;
mod prove;
mod quotients;
mod ranges;
mod ranks;
mod records;
mod recovered;
mod reduce;
mod refused;
mod remade;
mod renamed;
mod required;
mod results;
mod roles;
mod rounds;
mod salvaged;
mod scalars;
mod shifts;
mod size;
mod slips;
mod stmts;
mod stored;
mod stores;
mod swapped;
mod together;
mod transposed;
mod traps;
mod tree;
mod types;
mod unbound;
mod unequal;
mod unsigned;
mod unused;
mod variables;
mod walk;
mod wraps;

#[cfg(feature = "plan")]
pub(crate) use aggs::softmax_sum;
#[cfg(feature = "plan")]
pub(crate) use arguments::solve_linear;
pub use mentions::{Mentions, Paths};
pub use others::{Others, Signature};
pub use tree::*;
pub(in crate::syntax) use walk::free;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use super::ast;
use super::ast::{Item, Program, StmtKind};
use super::diag::Diag;
use super::token::Span;
#[cfg(feature = "plan")]
use crate::ein::DType;
use cycles::{Node, cycles};
use instance::Instances;
#[cfg(feature = "plan")]
pub(crate) use instance::base as base_name;

/// Checks a program. A block `f` with `dim ..L` or `T: Float` gives the instances `f/1/f32`,
/// `f/1/f64`, … for one axis and every dtype, and those that are called.
pub fn check_program(program: &Program) -> Checked {
    check_with(program, &Others::default())
}

/// [`check_program`] for a program that uses blocks and structs of others.
pub fn check_with(program: &Program, others: &Others) -> Checked {
    let mut declared = types::Declared::of(program, others);
    let is_generic = |item: &Item| matches!(item, Item::Block(b) if instance::is_generic(b));
    let mut checked = Checked {
        // Of instances alone, which are made of it.
        program: match program.items.iter().any(is_generic) {
            true => Arc::new(program.clone()),
            false => Arc::default(),
        },
        others: Arc::new(others.clone()),
        ..Checked::default()
    };
    declared.broken = scalars::check(program, &declared, &mut checked.errors);
    let declared = &declared;
    let wrong = types::items(program, declared, &mut checked);
    let blocks: Vec<&ast::Block> = program
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let made = Instances::default();
    let mut aggs = Vec::new();
    for item in &program.items {
        if let Item::Agg(agg) = item {
            let items = body::Items::of(program, declared, &checked, &made);
            let (record, errors) = aggs::check(agg, &items);
            checked.errors.extend(errors);
            aggs.push((agg.head.name.name.clone(), record));
        }
    }
    checked.aggs = aggs;
    let (order, cyclic) = callees_first(&blocks, &mut checked.errors);
    for block in order {
        let recursive = cyclic.contains(block.head.name.as_str());
        let items = body::Items::of(program, declared, &checked, &made);
        if instance::is_generic(block) {
            if recursive {
                continue;
            }
            let undetermined = instance::undetermined(block);
            if undetermined.is_empty() {
                for choices in instance::declared(block) {
                    items.instance(block, &choices);
                }
                let name = block.head.name.as_str();
                made.ready(name);
                if let Some(choices) = instance::longer(block)
                    && made.errors(name).is_empty()
                {
                    let trial = made.trial();
                    let items = body::Items::of(program, declared, &checked, &trial);
                    items.instance(block, &choices);
                    checked.errors.extend(trial.errors(name));
                }
            }
            checked.errors.extend(undetermined);
            continue;
        }
        let Some(at) = checked
            .blocks
            .iter()
            .position(|b| b.name == block.head.name)
        else {
            if let (None, Some(known)) = (
                &block.splits,
                wrong.iter().find(|b| b.name == block.head.name),
            ) {
                checked.errors.extend(body::check(block, known, &items).1);
            }
            continue;
        };
        let (mut done, errors, warnings) = body::check(block, &checked.blocks[at], &items);
        if recursive {
            done.body = None;
        }
        checked.blocks[at] = done;
        checked.errors.extend(errors);
        checked.warnings.extend(warnings);
    }
    made.finish(&mut checked);
    once::told_once(program, &mut checked.errors);
    checked.warnings.sort_by_key(|warning| warning.span);
    checked.warnings.dedup();
    checked
}

impl Checked {
    /// With the instance of that name, and those that it calls, if they are not there yet; `None`
    /// if the program has no such instance. Each is made once.
    pub fn with_instance(&self, name: &str) -> Option<Arc<Checked>> {
        let mut more = self.more.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = more.get(name) {
            return Some(made.clone());
        }
        let made = Arc::new(self.instantiated(name)?);
        more.insert(name.into(), made.clone());
        Some(made)
    }

    fn instantiated(&self, name: &str) -> Option<Checked> {
        let block = self.program.items.iter().find_map(|item| match item {
            Item::Block(block) if block.head.name.as_str() == instance::base(name) => Some(block),
            _ => None,
        })?;
        let choices = instance::named(block, name)?;
        let made = Instances::of(self);
        let declared = types::Declared::of(&self.program, &self.others);
        let items = body::Items::of(&self.program, &declared, self, &made);
        items.instance(block, &choices)?;
        let mut checked = self.clone();
        made.finish(&mut checked);
        Some(checked)
    }

    /// The name of the instance of a block for arguments of these dtypes and ranks (`None` is no
    /// tensor), if the block has instances; an error if none fits.
    #[cfg(feature = "plan")]
    pub(crate) fn instance_name(
        &self,
        block: &str,
        args: &[Option<(DType, usize)>],
    ) -> Option<Result<Arc<str>, instance::Misfit>> {
        let generic = self.program.items.iter().find_map(|item| match item {
            Item::Block(b) if b.head.name.as_str() == block => Some(b),
            _ => None,
        });
        let generic = generic.filter(|b| instance::is_generic(b))?;
        let choices = instance::fit(generic, args);
        Some(choices.map(|choices| instance::instance_name(block, &choices)))
    }
}

/// The blocks such that each comes after those it calls, as far as that can be: those that call
/// themselves are reported, and given by name too.
fn callees_first<'a>(
    blocks: &[&'a ast::Block],
    errors: &mut Vec<Diag>,
) -> (Vec<&'a ast::Block>, BTreeSet<&'a str>) {
    let uses = |block: &'a ast::Block| -> Vec<(&'a str, Span)> {
        let names = called(block).into_iter().filter_map(ast::Path::as_ident);
        names.map(|name| (name.as_str(), name.span)).collect()
    };
    let nodes: Vec<Node> = blocks
        .iter()
        .map(|block| Node {
            name: &block.head.name,
            uses: uses(block),
        })
        .collect();
    let help = "steps that repeat are a loop: `for _i in 0..4 { x = step(x); }`";
    let cyclic = cycles(&nodes, ("block ", "calls"), help, errors);
    let (mut order, mut left): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..blocks.len()).collect());
    while !left.is_empty() {
        let waits = |i: usize| {
            let callee = |(name, _): &(&str, Span)| {
                let open = |&at: &usize| blocks[at].head.name.as_str() == *name;
                !cyclic.contains(name) && left.iter().any(open)
            };
            nodes[i].uses.iter().any(callee)
        };
        let at = left.iter().position(|&i| !waits(i)).unwrap_or(0);
        order.push(left.remove(at));
    }
    let order = order.into_iter().map(|at| blocks[at]);
    (order.collect(), cyclic)
}

/// A block as other programs see it; `None` if its signature is wrong.
pub fn signature_of(block: &ast::Block, checked: &Checked) -> Option<Signature> {
    let name = block.head.name.as_str();
    let mut blocks = checked.blocks.iter();
    let right = blocks.any(|b| instance::base(b.name.as_str()) == name);
    right.then(|| Signature::block(block, checked.block(name)))
}

/// Everything that a block calls, each once.
pub fn called(block: &ast::Block) -> Vec<&ast::Path> {
    let mut paths = Vec::new();
    calls(&block.stmts, &mut paths);
    paths.sort_by_key(|path| path.to_string());
    paths.dedup_by_key(|path| path.to_string());
    paths
}

/// Everything that statements call.
fn calls<'a>(stmts: &'a [ast::Stmt], paths: &mut Vec<&'a ast::Path>) {
    for stmt in stmts {
        let path = match &stmt.kind {
            StmtKind::Let { value, .. } => match &value.kind {
                ast::ExprKind::Call { path, .. } => path,
                _ => continue,
            },
            StmtKind::Carry { path, .. } => path,
            StmtKind::For { body, .. } => {
                calls(body, paths);
                continue;
            }
            StmtKind::Store { .. } | StmtKind::Error(_) => continue,
        };
        paths.push(path);
    }
}

#[cfg(test)]
mod tests;
