//! One error for one mistake that stands at several places: a name that is not there, a dim that is not declared, the
//! integers of a statement over floats.

use crate::syntax::ast::{Item, Program};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::count;
use crate::syntax::token::Span;

/// Leaves one error for each mistake, whose change mends it everywhere.
pub(super) fn told_once(program: &Program, errors: &mut Vec<Diag>) {
    declared_once(errors);
    mended_once(errors);
    errors.sort_by_key(|diag| (diag.primary, diag.code));
    errors.dedup();
    let scopes = Scopes::of(program);
    let mut at = 0;
    while at < errors.len() {
        let rest = errors.split_off(at + 1);
        let same = |other: &Diag| scopes.is_again(&errors[at], other);
        let (again, rest): (Vec<Diag>, Vec<Diag>) = rest.into_iter().partition(same);
        everywhere(&mut errors[at], again);
        errors.extend(rest);
        at += 1;
    }
}

/// Makes the change of an error at the places of the others too.
fn everywhere(first: &mut Diag, again: Vec<Diag>) {
    let Some(fix) = first.fixes.first_mut().filter(|_| !again.is_empty()) else {
        return;
    };
    let places = count(again.len() + 1, "place", "places");
    let more: Vec<Fix> = again.into_iter().flat_map(|diag| diag.fixes).collect();
    let mut texts = vec![fix.help.clone()];
    for other in more {
        let text = other.help.strip_prefix("write ").unwrap_or(&other.help);
        if !texts.iter().any(|known| known.ends_with(text)) {
            texts.push(text.to_owned());
        }
        let new = other
            .edits
            .into_iter()
            .filter(|edit| !fix.edits.contains(edit));
        fix.edits.extend(new.collect::<Vec<_>>());
    }
    fix.help = match texts.pop() {
        Some(last) if !texts.is_empty() => format!("{} and {last}", texts.join(", ")),
        _ => format!("{} ({places})", fix.help),
    };
}

/// How far a mistake reaches.
struct Scopes {
    /// Where each item begins.
    items: Vec<u32>,
    /// Statements that are no loops.
    stmts: Vec<Span>,
}

impl Scopes {
    fn of(program: &Program) -> Scopes {
        let items = program.items.iter().map(|item| item.head().name.span.start);
        let mut scopes = Scopes {
            items: items.collect(),
            stmts: Vec::new(),
        };
        for item in &program.items {
            if let Item::Block(block) = item {
                let stmts = block.stmts.iter();
                stmts.for_each(|stmt| stmt.visit(&mut |stmt| scopes.stmts.push(stmt.span)));
            }
        }
        scopes
    }

    /// Is it the mistake of the first at another place?
    fn is_again(&self, first: &Diag, other: &Diag) -> bool {
        let item = |diag: &Diag| {
            self.items
                .partition_point(|start| *start <= diag.primary.start)
        };
        // Of statements in each other, the last is the innermost.
        let stmt = |diag: &Diag| {
            self.stmts
                .iter()
                .rposition(|stmt| stmt.contains(diag.primary))
        };
        let reaches = match first.code {
            Code::UnknownType | Code::UnknownFunction if !first.fixes.is_empty() => true,
            Code::UnknownType | Code::UnknownFunction | Code::UndefinedName => {
                item(first) == item(other)
            }
            Code::IntegerLiteral => stmt(first).is_some() && stmt(first) == stmt(other),
            // What one clause makes exact.
            Code::OutOfRange => shares(first, other),
            _ => false,
        };
        let helps = match (&first.fixes[..], &other.fixes[..]) {
            ([], []) => first.help == other.help,
            ([a], [b]) => a.help == b.help || first.code == Code::IntegerLiteral,
            _ => false,
        };
        let apart = !first.primary.overlaps(other.primary);
        let same = first.message == other.message || first.code == Code::OutOfRange;
        reaches && helps && apart && same && first.code == other.code
    }
}

/// Have the changes of two errors an edit in common?
fn shares(first: &Diag, other: &Diag) -> bool {
    let edits = |diag: &Diag| {
        diag.fixes
            .iter()
            .flat_map(|fix| fix.edits.clone())
            .collect::<Vec<_>>()
    };
    let others = edits(other);
    edits(first).iter().any(|edit| others.contains(edit))
}

/// One error for all uses of a name that one declaration more would mend.
fn declared_once(errors: &mut Vec<Diag>) {
    errors.dedup();
    let mut at = 0;
    while at < errors.len() {
        let first = errors[at].clone();
        let [fix] = &first.fixes[..] else {
            at += 1;
            continue;
        };
        let shared = |other: &Diag| {
            let inserted = fix.edits.iter().filter(|(span, _)| span.start == span.end);
            let other_fix = &other.fixes;
            let mut inserted = inserted.filter(|e| other_fix.iter().any(|f| f.edits.contains(e)));
            let same = (other.code, &other.message) == (first.code, &first.message);
            same && first.code == Code::UndefinedName && inserted.next().is_some()
        };
        let rest = errors.split_off(at + 1);
        let (same, rest): (Vec<Diag>, Vec<Diag>) = rest.into_iter().partition(shared);
        let more = same.into_iter().flat_map(|other| other.fixes);
        for edit in more.flat_map(|fix| fix.edits) {
            let edits = &mut errors[at].fixes[0].edits;
            if !edits.contains(&edit) {
                edits.push(edit);
            }
        }
        errors.extend(rest);
        at += 1;
    }
}

/// One error for two of the same kind that one change mends.
fn mended_once(errors: &mut Vec<Diag>) {
    let mut at = 1;
    while at < errors.len() {
        let same = |other: &Diag| match (&other.fixes[..], &errors[at].fixes[..]) {
            ([a], [b]) => {
                // What is only added declares more, once for all.
                let adds = a.edits.iter().all(|(span, _)| span.start == span.end);
                let one = adds && !a.edits.is_empty() || a.edits.len() > 1;
                one && a.edits == b.edits && other.code == errors[at].code
            }
            _ => false,
        };
        match errors[..at].iter().any(same) {
            true => drop(errors.remove(at)),
            false => at += 1,
        }
    }
}
