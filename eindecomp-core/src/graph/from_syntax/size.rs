//! How many statements a block is, with all that it calls and every round of its loops: known before
//! any of them is built, in time that is linear in the program.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::inline::{Frame, Lower};
use super::{Consts, Context, Hosts, NoForeign};
use crate::ein::Dim;
use crate::graph::GraphBuilder;
pub use crate::syntax::check::MAX_STATEMENTS;
use crate::syntax::check::{
    Block, Callee, Checked, ForeignCall, LoopVar, Stmt, Type, VarId, base_name,
};

/// Statements of a block with all that it calls, as far as they do not depend on its dims;
/// `foreign` says those of calls of other programs. More than [`MAX_STATEMENTS`] may be any number
/// above.
pub fn statements(
    program: &Checked,
    block: &str,
    consts: &Consts,
    foreign: &dyn Fn(&ForeignCall) -> usize,
) -> usize {
    let of = |b: &&Block| b.name.as_str() == block || base_name(b.name.as_str()) == block;
    let Some(block) = program.blocks.iter().find(of) else {
        return 0;
    };
    let (hosts, builder) = (&Hosts::new(), &mut GraphBuilder::new());
    let context = &mut Context {
        consts,
        hosts,
        foreign: &mut NoForeign,
        prefix: "",
        lines: None,
    };
    let known = &mut Sizes::with(foreign);
    Lower::new(program, context, builder).size(block, BTreeMap::new(), known)
}

/// A block's name and dims.
type Instance = (Arc<str>, BTreeMap<Arc<str>, Dim>);

/// What is known of sizes.
pub(super) struct Sizes<'f> {
    /// Of blocks.
    pub(super) blocks: HashMap<Instance, usize>,
    /// Of calls of other programs.
    foreign: &'f dyn Fn(&ForeignCall) -> usize,
}

impl Sizes<'_> {
    /// Of a program by itself: others count their statements when they append them.
    pub(super) fn new() -> Sizes<'static> {
        Sizes::with(&|_| 0)
    }

    fn with(foreign: &dyn Fn(&ForeignCall) -> usize) -> Sizes<'_> {
        Sizes {
            blocks: HashMap::new(),
            foreign,
        }
    }
}

impl<'a> Lower<'a, '_> {
    /// Statements of a block of these dims, or more than [`MAX_STATEMENTS`].
    pub(super) fn size(
        &self,
        block: &'a Block,
        dims: BTreeMap<Arc<str>, Dim>,
        known: &mut Sizes<'_>,
    ) -> usize {
        let Some(body) = &block.body else { return 1 };
        let key = (block.name.name.clone(), dims);
        if let Some(size) = known.blocks.get(&key) {
            return *size;
        }
        // Each of these is a call, which is a statement.
        if known.blocks.len() > MAX_STATEMENTS {
            return usize::MAX;
        }
        let mut frame = Frame::new(block, key.1.clone(), String::new());
        let size = self.sum(&mut frame, &body.stmts, known);
        known.blocks.insert(key, size);
        size
    }

    fn sum(&self, frame: &mut Frame<'a>, stmts: &'a [Stmt], known: &mut Sizes<'_>) -> usize {
        let mut sum: usize = 0;
        for stmt in stmts {
            let more = match stmt {
                Stmt::Call(call) => match &call.callee {
                    Callee::Local { name, dims } => {
                        let callee = self.program.block(name);
                        let dims = self.callee_dims(frame, dims);
                        callee.map_or(0, |callee| self.size(callee, dims, known))
                    }
                    Callee::Foreign(at) => {
                        let call = frame.block.foreign.get(*at);
                        call.map_or(0, |call| (known.foreign)(call))
                    }
                },
                Stmt::For { var, body } => self.rounds(frame, var, body, known),
                _ => 0,
            };
            sum = sum.saturating_add(more).saturating_add(1);
            if sum > MAX_STATEMENTS {
                break;
            }
        }
        sum
    }

    fn rounds(
        &self,
        frame: &mut Frame<'a>,
        var: &LoopVar,
        body: &'a [Stmt],
        known: &mut Sizes<'_>,
    ) -> usize {
        match var {
            LoopVar::Elements(vars) => {
                let types = frame.block.body.as_ref().map(|body| &body.vars);
                let length = |(_, array): &(VarId, VarId)| match &types?[array.at()].ty {
                    Type::Array(_, length) => self.number(frame, length).ok(),
                    _ => None,
                };
                let rounds = vars.iter().filter_map(length).min().unwrap_or(0);
                let rounds = usize::try_from(rounds).unwrap_or(0);
                match rounds {
                    0 => 0,
                    _ => self.sum(frame, body, known).saturating_mul(rounds),
                }
            }
            LoopVar::Number { symbol, low, high } => {
                // What is wrong with them is said where they are written out.
                let ends = self
                    .number(frame, low)
                    .ok()
                    .zip(self.number(frame, high).ok());
                let (low, high) = ends.unwrap_or((0, 0));
                let mut sum: usize = 0;
                for at in low..high {
                    frame.dims.insert(symbol.clone(), Dim::from(at));
                    sum = sum.saturating_add(self.sum(frame, body, known));
                    if sum > MAX_STATEMENTS {
                        break;
                    }
                }
                sum
            }
        }
    }
}
