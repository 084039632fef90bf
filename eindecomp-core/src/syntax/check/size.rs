//! How many statements a block is with its loops and calls written out, as far as that is known before
//! consts and other programs are.

use super::body::{BodyCx, Items};
use super::instance::base;
use super::loops::NO_STEP;
use super::tree::{Call, Callee, LoopVar, MAX_STATEMENTS, Stmt, Type};
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

impl Items<'_> {
    /// At least so many statements the block of a call is.
    fn size(&self, call: &Call) -> usize {
        let Callee::Local { name, .. } = &call.callee else {
            return 0;
        };
        let of = |block: &super::Block| block.body.as_ref().map(|body| body.statements);
        let here = self.checked.block(name);
        here.map_or_else(|| self.instances.with(name, of), of)
            .unwrap_or(0)
    }
}

impl BodyCx<'_> {
    /// At least so many statements these are.
    pub(super) fn statements(&self, stmts: &[Stmt]) -> usize {
        let each = stmts.iter().map(|stmt| {
            let more = match stmt {
                Stmt::Call(call) => self.items.size(call),
                Stmt::For { var, body } => self.statements(body).saturating_mul(self.rounds(var)),
                _ => 0,
            };
            more.saturating_add(1)
        });
        each.fold(0, usize::saturating_add)
    }

    /// How many rounds a loop has, 0 where that is not known yet.
    fn rounds(&self, var: &LoopVar) -> usize {
        let rounds = match var {
            LoopVar::Number { low, high, .. } => (high - low).as_const(),
            LoopVar::Elements(vars) => {
                let lengths = vars.iter().filter_map(|(_, array)| {
                    match self.vars[array.at()].ty.as_ref()? {
                        Type::Array(_, length) => length.as_const(),
                        _ => None,
                    }
                });
                lengths.min()
            }
        };
        rounds.map_or(0, |rounds| usize::try_from(rounds).unwrap_or(0))
    }

    /// The refusal of a loop whose rounds are too many statements.
    pub(super) fn too_many_rounds(
        &self,
        var: &LoopVar,
        body: &[Stmt],
        place: Span,
    ) -> Option<Diag> {
        let (rounds, each) = (self.rounds(var), self.statements(body));
        if each > MAX_STATEMENTS || rounds.saturating_mul(each) <= MAX_STATEMENTS {
            return None;
        }
        let text = format!(
            "this `for` is {rounds} rounds of {each} statements, but a graph has \
             {MAX_STATEMENTS} at most"
        );
        Some(Diag::new(Code::TooLarge, place, text))
    }

    /// The refusal of a block of `count` statements, if these are too many.
    pub(super) fn too_large(&self, stmts: &[Stmt], count: usize) -> Option<Diag> {
        if count <= MAX_STATEMENTS {
            return None;
        }
        let text = format!(
            "block `{}` is {count} statements when its calls are written out, but a graph has \
             {MAX_STATEMENTS} at most",
            base(self.block.name.as_str())
        );
        let diag = Diag::new(Code::TooLarge, self.block.name.span, text);
        let mut all = Vec::new();
        calls(stmts, &mut all);
        let largest = all
            .into_iter()
            .rev()
            .max_by_key(|call| self.items.size(call));
        let diag = match largest.map(|call| (call, &call.callee)) {
            Some((call, Callee::Local { name, .. })) => {
                let each = self.items.size(call);
                diag.secondary(call.span, format!("`{}` is {each}", base(name)))
            }
            _ => diag,
        };
        Some(diag.help(NO_STEP))
    }
}

fn calls<'s>(stmts: &'s [Stmt], out: &mut Vec<&'s Call>) {
    for stmt in stmts {
        match stmt {
            Stmt::Call(call) => out.push(call),
            Stmt::For { body, .. } => calls(body, out),
            _ => {}
        }
    }
}
