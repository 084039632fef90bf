//! Stores into what is no state, which sums and copies of other languages are: as the one statement that is
//! meant, and checked all the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::BodyCx;
use super::expr::StmtCx;
use super::tree::{IndexId, ParamRole, Type, listed};
use super::walk::{accessed, sub_name};
use super::{extents, ranges, walk};
use crate::ein::Dim;
use crate::syntax::ast::{self, BinaryOp, Ident, IndexDecl, LeftIndex, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

const CARRIED: &str =
    "a loop carries the result of a block: make what a round does a `fn`, and call it";

/// A loop over numbers that is one statement.
pub(super) struct Once {
    /// What it defines.
    name: Arc<str>,
    /// The `let` before it, which goes.
    before: Option<Span>,
    fix: Fix,
}

impl BodyCx<'_> {
    /// The axes that an index reads by itself, where each axis has an index.
    pub(super) fn axes_of(&self, e: &ast::Expr, index: &str) -> Vec<Dim> {
        let mut axes: Vec<Dim> = Vec::new();
        if let Some((place, subs)) = accessed(e)
            && let Some(t) = self.type_of(place)
            && t.axes.len() == subs.len()
        {
            let bare = subs.iter().map(|sub| sub_name(sub) == Some(index));
            let read = bare.zip(&t.axes).filter(|(bare, _)| *bare);
            axes.extend(read.map(|(_, axis)| axis.clone()));
        }
        let children = e.children().into_iter();
        axes.extend(children.flat_map(|e| self.axes_of(e, index)));
        axes
    }

    /// Reports a store into `root`, which is no state, and what is wrong with its value. What it is afterwards is
    /// not known.
    pub(super) fn refused(
        &mut self,
        target: &ast::Place,
        root: &Ident,
        subs: &[ast::Expr],
        value: &ast::Expr,
    ) {
        let found = self.lookup(root.as_str());
        let once = (self.once.as_ref()).filter(|once| once.name == root.name);
        let once = once.map(|once| (once.before, once.fix.clone()));
        let told = once.is_some();
        if let Some(Some(before)) = once.as_ref().map(|(before, _)| *before) {
            self.errors.retain(|diag| !before.contains(diag.primary));
        }
        let access = format!("{target}[{}]", listed(subs));
        let fold = folded(value, &access);
        let mut step = format!("{CARRIED}, `{root} = step({root});`");
        if let (Some((agg, _)), term) = fold {
            step = format!(
                "rounds that only add to it are one statement, `{agg}[…] {term}`; else {step}"
            );
        }
        let diag = match found {
            Some(var) => {
                self.vars[var.at()].used = true;
                self.no_state(target, root, subs, once.is_some())
            }
            None => self.no_let(root, subs),
        };
        let diag = diag.map(|diag| match diag.fixes.is_empty() && diag.help.is_none() {
            true => diag.help(step),
            false => diag,
        });
        // A state whose name is near is what is meant.
        let state = |diag: &Diag| {
            let meant = diag.fixes.iter().flat_map(|fix| &fix.edits);
            let mut meant = meant.filter_map(|(_, text)| self.lookup(text));
            meant.any(|var| self.vars[var.at()].role == Some(ParamRole::State))
        };
        let diag = diag.map(|diag| match once {
            Some((_, fix)) if !state(&diag) => Diag {
                fixes: vec![fix],
                help: None,
                ..diag
            },
            _ => diag,
        });
        self.errors.extend(diag);
        let value = if told { fold.1 } else { value };
        match found {
            Some(var) if self.scopes.len() > 1 => {
                let known = &mut self.vars[var.at()].ty;
                // The number that it started from is of no dtype yet.
                let float = known.as_ref().and_then(Type::tensor);
                if float.is_none_or(|t| !t.dtype.is_float()) {
                    *known = None;
                }
                self.nowhere(root, subs, value);
                self.vars[var.at()].ty = None;
            }
            Some(_) => self.nowhere(root, subs, value),
            // Rounds do not see each other's, so that behind them it is the same error.
            None => {
                let inner = self.scopes.split_off(1);
                self.define(root, None, false);
                self.scopes.extend(inner);
                self.nowhere(root, subs, value);
            }
        }
    }

    /// The refusal of a store into a tensor.
    fn no_state(
        &self,
        target: &ast::Place,
        root: &Ident,
        subs: &[ast::Expr],
        once: bool,
    ) -> Option<Diag> {
        let var = &self.vars[self.lookup(root.as_str())?.at()];
        if var.ty.is_none() && !once {
            return None;
        }
        let text = format!("`{root}` is no state, so nothing can be stored into it");
        let diag = Diag::new(Code::StoreTarget, root.span, text);
        let diag = diag.secondary(var.span, "declared here");
        let rank = var.ty.as_ref().and_then(Type::tensor).map(|t| t.axes.len());
        if var.role == Some(ParamRole::Data) && rank == Some(subs.len()) {
            return Some(diag.fix(Fix::before(
                var.span,
                "#[state] ",
                "declare it as a {} parameter",
            )));
        }
        if self.scopes.len() > 1 && var.role.is_none() {
            return Some(diag);
        }
        let bare = |sub: &ast::Expr| walk::name(sub).is_some();
        Some(match target.fields.is_empty() && subs.iter().all(bare) {
            true => diag.fix(Fix::before(
                root.span,
                "let ",
                "{} makes a new tensor of that name",
            )),
            false => {
                diag.help("only `#[state]` parameters are stored into; `let` makes new tensors")
            }
        })
    }

    /// The error about a tensor that is defined without its `let`, unless another name is near.
    fn no_let(&mut self, root: &Ident, subs: &[ast::Expr]) -> Option<Diag> {
        self.lookup_or_report(root);
        let diag = self.errors.pop()?;
        let plain = diag.fixes.is_empty() && subs.iter().all(|sub| walk::name(sub).is_some());
        if !plain {
            return Some(diag);
        }
        let diag = Diag { help: None, ..diag };
        Some(match self.scopes.len() {
            1 => {
                let help = "{} defines a tensor: only a state is stored into";
                diag.fix(Fix::before(root.span, "let ", help))
            }
            _ => diag,
        })
    }

    /// The refusal of a merged position, `s[(i, e)]`.
    pub(super) fn merged_position(&self, target: &ast::Place, subs: &[ast::Expr]) -> Option<Diag> {
        let members = |sub: &ast::Expr| -> Vec<String> {
            match &sub.kind {
                ast::ExprKind::Tuple(items) => items.iter().map(ToString::to_string).collect(),
                _ => vec![sub.to_string()],
            }
        };
        let tuple = |sub: &&ast::Expr| matches!(sub.kind, ast::ExprKind::Tuple(_));
        let merged = subs.iter().find(tuple)?;
        let flat: Vec<String> = subs.iter().flat_map(members).collect();
        let state = self.type_of(target)?;
        let text = format!("the position `{merged}` of a store is no index of its own");
        let diag = Diag::new(Code::StoreNotInjective, merged.span, text);
        let all = subs.first()?.span.join(subs.last()?.span);
        let flat = flat.join(", ");
        Some(match state.axes.len() > subs.len() {
            true => {
                let help = format!("write `{target}[{flat}]`");
                diag.fix(Fix::replace(all, flat, &help))
            }
            false => diag.help(format!(
                "declare the state with an axis for each of `{}`; a `let` of it may merge them",
                listed(&members(merged))
            )),
        })
    }

    /// What is wrong with the value of a store that is refused.
    pub(super) fn nowhere(&mut self, root: &Ident, subs: &[ast::Expr], value: &ast::Expr) {
        let mut names = Vec::new();
        for sub in subs {
            self.index_names(sub, &mut names);
            for name in walk::free(sub) {
                let known = names.iter().any(|index: &Ident| index.as_str() == name);
                if !known && self.lookup(name).is_none() {
                    names.push(Ident {
                        name: name.into(),
                        span: sub.span,
                    });
                }
            }
        }
        let index = |name| LeftIndex::Index(IndexDecl { name, extent: None });
        let left: Vec<LeftIndex> = names.into_iter().map(index).collect();
        let pat = ast::Pattern {
            names: vec![root.clone()],
            indices: None,
            span: root.span,
        };
        let before = self.errors.len();
        let Some((mut cx, left)) = StmtCx::new(self, &left) else {
            return;
        };
        let made = cx.values(value, &pat, &[None]);
        let StmtCx {
            indices,
            mut uses,
            accesses,
            ..
        } = cx;
        if made.is_none() {
            let all = (0..indices.len()).map(|at| IndexId(at as u16));
            uses.poisoned.extend(all);
        }
        let solved = extents::solve(self, indices, &uses, &BTreeMap::new());
        if let (Some(indices), Some(mut made)) = (solved, made) {
            for value in &mut made {
                ranges::prove(self, &indices, &left, value, &accesses, None);
            }
        }
        // The positions are those of the error that is told.
        let mut at = 0;
        self.errors.retain(|diag| {
            at += 1;
            at <= before || value.span.contains(diag.primary)
        });
    }

    /// The one statement that a loop over numbers is, if it adds to the elements of a tensor or gives them
    /// their values.
    pub(super) fn as_once(
        &mut self,
        vars: &[Ident],
        range: &ast::ForRange,
        body: &[ast::Stmt],
    ) -> Option<Once> {
        let (mut vars, mut range, mut body) = (vars, range, body);
        let mut rounds: Vec<(&Ident, &ast::Dim)> = Vec::new();
        let (target, subs, value) = loop {
            let ([var], ast::ForRange::Range(low, high)) = (vars, range) else {
                return None;
            };
            if !matches!(low.kind, ast::DimKind::Int(0)) {
                return None;
            }
            rounds.push((var, high));
            match body {
                [stmt] => match &stmt.kind {
                    StmtKind::For {
                        vars: inner,
                        range: over,
                        body: next,
                    } => (vars, range, body) = (inner, over, next),
                    StmtKind::Store {
                        target,
                        subs,
                        value,
                    } => break (target, subs, value),
                    _ => return None,
                },
                _ => return None,
            }
        };
        let name = target.as_ident()?.clone();
        let place = self.stmt?.span;
        let defined = match self.lookup(name.as_str()) {
            Some(var) => Some(self.made_by(var, place)?),
            None => None,
        };
        let (pat, ty, start) = match defined {
            Some(stmt) => match &stmt.kind {
                StmtKind::Let { pat, ty, value, .. } => (Some(pat), ty.as_ref(), Some(value)),
                _ => return None,
            },
            None => (None, None, None),
        };
        let access = format!("{target}[{}]", listed(subs));
        let (agg, term) = folded(value, &access);
        let identity = match agg {
            None => start.is_none_or(|e| matches!(e.kind, ast::ExprKind::Lit(_))),
            Some((_, identity)) => start.is_none_or(|e| identity.contains(&&*e.to_string())),
        };
        if !identity || walk::uses_in(term, name.as_str()) > 0 {
            return None;
        }
        let mut open = Vec::new();
        for (var, high) in &rounds {
            let told = self.errors.len();
            let extent = self.dims.dim(high, &mut self.errors);
            self.errors.truncate(told);
            let (extent, read) = (extent?, self.axes_of(term, var.as_str()));
            open.push(match &read[..] {
                [] => format!("{var} in {high}"),
                read if read.iter().all(|axis| self.facts.equal(axis, &extent)) => var.to_string(),
                _ => return None,
            });
        }
        let mut left = Vec::new();
        for sub in subs {
            let index = walk::name(sub)?;
            let round = rounds.iter().position(|(var, _)| var.as_str() == index);
            left.push(match round {
                Some(at) => std::mem::take(&mut open[at]),
                None if !self.axes_of(term, index).is_empty() => index.to_owned(),
                None => declared(pat?, index)?,
            });
        }
        let over: Vec<String> = open.into_iter().filter(|round| !round.is_empty()).collect();
        if left.iter().any(String::is_empty) || over.is_empty() == agg.is_some() {
            return None;
        }
        let ty = ty.map_or(String::new(), |ty| format!(": {ty}"));
        let value = match agg {
            None => term.to_string(),
            Some((agg, _)) if is_product(term) => format!("{agg}[{}] {term}", over.join(", ")),
            Some((agg, _)) => format!("{agg}[{}] ({term})", over.join(", ")),
        };
        let text = format!("let {name}[{}]{ty} = {value};", left.join(", "));
        let help = "the rounds together are one statement: {}";
        let fix = Fix::replace(place, text, help);
        let before = defined.map(|stmt| stmt.span);
        let fix = before
            .into_iter()
            .fold(fix, |fix, before| fix.and(before, ""));
        Some(Once {
            name: name.name,
            before,
            fix,
        })
    }
}

impl<'a> BodyCx<'a> {
    /// The `let` of a variable before the statement at `place`, where nothing between them reads it.
    fn made_by(&self, var: super::tree::VarId, place: Span) -> Option<&'a ast::Stmt> {
        let known = &self.vars[var.at()];
        if known.role.is_some() {
            return None;
        }
        let stmts = beside(&self.ast.stmts, place)?;
        let at = stmts.iter().position(|stmt| match &stmt.kind {
            StmtKind::Let { pat, .. } => {
                matches!(&pat.names[..], [name] if name.span == known.span)
            }
            _ => false,
        })?;
        let until = stmts.iter().position(|stmt| stmt.span == place)?;
        let between = stmts.get(at + 1..until)?;
        (walk::stmts_use(between, &known.name) == 0).then(|| &stmts[at])
    }
}

/// The statements among which the one at `place` stands.
fn beside(stmts: &[ast::Stmt], place: Span) -> Option<&[ast::Stmt]> {
    if stmts.iter().any(|stmt| stmt.span == place) {
        return Some(stmts);
    }
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::For { body, .. } => beside(body, place),
        _ => None,
    })
}

/// An aggregation, and what it starts with.
type Folded = (&'static str, &'static [&'static str]);

/// What is added to the old value, which reads `access`, and how; without it, the new value.
fn folded<'e>(value: &'e ast::Expr, access: &str) -> (Option<Folded>, &'e ast::Expr) {
    let own = |e: &ast::Expr| e.to_string() == access;
    let pair = match &value.kind {
        ast::ExprKind::Paren(inner) => return folded(inner, access),
        ast::ExprKind::Binary(BinaryOp::Add, a, b) => {
            Some(("sum", &["0", "0.0", "0."][..], &**a, &**b))
        }
        ast::ExprKind::Binary(BinaryOp::Mul, a, b) => {
            Some(("prod", &["1", "1.0", "1."][..], &**a, &**b))
        }
        ast::ExprKind::Call { path, args } => match (path.to_string().as_str(), &args[..]) {
            ("max", [a, b]) => Some(("max", &["-inf"][..], a, b)),
            ("min", [a, b]) => Some(("min", &["inf"][..], a, b)),
            _ => None,
        },
        _ => None,
    };
    match pair {
        Some((agg, start, a, b)) if own(a) => (Some((agg, start)), b),
        Some((agg, start, a, b)) if own(b) => (Some((agg, start)), a),
        _ => (None, value),
    }
}

/// Can it stand behind an aggregation as it is?
fn is_product(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Binary(BinaryOp::Mul, a, b) => is_product(a) && is_product(b),
        ast::ExprKind::Access { .. }
        | ast::ExprKind::Name(_)
        | ast::ExprKind::Lit(_)
        | ast::ExprKind::Call { .. }
        | ast::ExprKind::Paren(_) => true,
        _ => false,
    }
}

/// An index of a pattern with the range that it has there.
fn declared(pat: &ast::Pattern, index: &str) -> Option<String> {
    let all = pat.indices.iter().flatten();
    let mut found = all.filter_map(|left| match left {
        LeftIndex::Index(decl) if decl.name.as_str() == index => Some(decl),
        _ => None,
    });
    found
        .next()
        .filter(|decl| decl.extent.is_some())
        .map(ToString::to_string)
}
