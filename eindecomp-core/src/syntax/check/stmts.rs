//! Statements: tensors, aliases, loops, results.

use std::collections::BTreeMap;

use super::body::BodyCx;
use super::dims::too_long;
use super::dtype::element_type;
use super::expr::StmtCx;
use super::extents::{Decl, Found};
use super::quotients::Fraction;
use super::ranges::{Accesses, Meant};
use super::recovered::Sketch;
use super::together::without_mixed_up;
use super::tree::{Expr, Index, IndexId, ParamRole, Statement, Stmt, TensorType, Type, VarId};
use super::types::extent;
use super::variables::Known;
use super::{extents, ranges, unbound, walk};
use crate::ein::{DType, Dim};
use crate::syntax::ast::{self, CmpOp, Ident, LeftIndex, Pattern, RType, StmtKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::token::Span;

impl<'a> BodyCx<'a> {
    /// Every statement, or `None` if one is wrong.
    pub(super) fn stmts(&mut self, stmts: &'a [ast::Stmt]) -> Option<Vec<Stmt>> {
        let mut out = Some(Vec::new());
        let outer = self.upcoming.len();
        for stmt in stmts.iter().rev() {
            let names = defined(stmt).iter().rev();
            (self.upcoming).extend(names.map(|name| (name.name.clone(), name.span)));
        }
        for stmt in stmts {
            let left = self.upcoming.len().saturating_sub(defined(stmt).len());
            self.upcoming.truncate(left.max(outer));
            let checked = self.stmt(stmt);
            match (checked, &mut out) {
                (Some(stmt), Some(out)) => out.push(stmt),
                _ => out = None,
            }
        }
        out
    }

    fn stmt(&mut self, stmt: &'a ast::Stmt) -> Option<Stmt> {
        self.stmt = Some(stmt);
        match &stmt.kind {
            StmtKind::Let {
                mutable,
                pat,
                ty,
                value,
            } => self.let_stmt(stmt, mutable.is_some(), pat, ty.as_ref(), value),
            StmtKind::Store {
                target,
                subs,
                value,
            } => self.store(stmt, target, subs, value),
            StmtKind::For { vars, range, body } => self.for_stmt(vars, range, body),
            StmtKind::Carry {
                targets,
                path,
                args,
            } => self.carry(targets, path, args, stmt.span),
            StmtKind::Error(names) => {
                for name in names {
                    self.define(name, None, true);
                }
                None
            }
        }
    }

    fn let_stmt(
        &mut self,
        stmt: &ast::Stmt,
        mutable: bool,
        pat: &Pattern,
        ty: Option<&RType>,
        value: &ast::Expr,
    ) -> Option<Stmt> {
        for name in &pat.names {
            self.reserved(name);
        }
        let hidden = pat.names.iter().find_map(|name| {
            let var = self.lookup(name.as_str())?;
            let state = self.vars[var.at()].role == Some(ParamRole::State);
            state.then_some((name, var))
        });
        if let Some((name, state)) = hidden
            && self.names_number(pat)
        {
            let diag = self.hides_state(name, state, (stmt.span, pat, value), None);
            let bare = Span::new(stmt.span.start, pat.span.start);
            let help = format!("to store into it write `{pat} = {value};`");
            let fix = Fix::replace(bare, "", &help);
            self.errors.push(Diag { help: None, ..diag }.fix(fix));
            return None;
        }
        let before = self.errors.len();
        self.sketch = None;
        let made = match &pat.indices {
            Some(left) => self.tensor_stmt(stmt, pat, left, ty, value),
            None => match &value.kind {
                ast::ExprKind::Call { path, args } => {
                    self.let_call(pat, mutable, ty, (value, path, args), stmt.span)
                }
                ast::ExprKind::Name(place) if pat.names.len() == 1 => {
                    self.alias(pat, mutable, ty, place)
                }
                _ => {
                    let diag = self.no_left(pat, ty, value);
                    self.errors.push(diag);
                    None
                }
            },
        };
        let made = match hidden {
            Some((name, state)) if made.is_some() => {
                let place = (stmt.span, pat, value);
                let diag = self.hides_state(name, state, place, made.as_ref());
                self.errors.push(diag);
                None
            }
            _ => made,
        };
        match &made {
            None => {
                let types = self.guessed(pat, ty, value, before);
                for (name, ty) in pat.names.iter().zip(types) {
                    let var = self.define(name, ty, mutable);
                    self.vars[var.at()].guessed = true;
                }
            }
            Some(Stmt::Tensor(s)) => self.vars[s.target.at()].mutable = mutable,
            Some(Stmt::Tensors(all)) => {
                for s in all {
                    self.vars[s.target.at()].mutable = mutable;
                }
            }
            Some(_) => {}
        }
        made
    }

    /// Is an index on the left a number of a run, as a position of a store may be?
    fn names_number(&self, pat: &Pattern) -> bool {
        let number = |index: &LeftIndex| {
            let LeftIndex::Index(decl) = index else {
                return false;
            };
            let var = self
                .lookup(decl.name.as_str())
                .map(|var| &self.vars[var.at()]);
            let ty = var.and_then(|var| var.ty.as_ref()?.tensor());
            ty.is_some_and(|t| t.axes.is_empty() && t.dtype.is_int())
        };
        pat.indices.iter().flatten().any(number)
    }

    /// The error about a `let` of the name of a state: a store, if it gives all of it.
    fn hides_state(
        &mut self,
        name: &Ident,
        state: VarId,
        (stmt, pat, value): (Span, &Pattern, &ast::Expr),
        made: Option<&Stmt>,
    ) -> Diag {
        let known = &mut self.vars[state.at()];
        known.used = true;
        let text = format!("this `let` would hide the state `{name}`");
        let diag =
            Diag::new(Code::Duplicate, name.span, text).secondary(known.span, "declared here");
        let ty = known.ty.clone();
        let whole = match made {
            Some(Stmt::Tensor(s)) => {
                self.vars[s.target.at()].ty == ty && s.left.iter().all(|l| l.len() == 1)
            }
            _ => false,
        };
        match whole {
            true => {
                let bare = Span::new(stmt.start, pat.span.start);
                let help = format!("to store into it write `{pat} = {value};`");
                diag.fix(Fix::replace(bare, "", &help))
            }
            false => diag.help(format!(
                "a store says where, `{name}[pos + i] = …;`; a tensor of its own has another name"
            )),
        }
    }

    /// The error about an expression that is given to a name without indices.
    pub(super) fn no_left(&self, pat: &Pattern, ty: Option<&RType>, value: &ast::Expr) -> Diag {
        let text = format!("`{}` needs its indices on the left", pat.names[0]);
        let diag = Diag::new(Code::Pattern, pat.span, text);
        // The indices give the axes, so that a type which names them is a dtype then.
        let dtype = ty.and_then(|ty| match &ty.types[..] {
            [
                ast::Type {
                    kind:
                        ast::TypeKind::Tensor {
                            dtype,
                            axes: Some(_),
                        },
                    ..
                },
            ] => Some((ty.span, dtype.as_str())),
            _ => None,
        });
        let state = self.lookup(pat.names[0].as_str());
        let state = state.is_some_and(|var| self.vars[var.at()].role == Some(ParamRole::State));
        match (self.indexed(pat, value), dtype) {
            (Some(fix), None) if state => {
                let help = fix
                    .help
                    .replacen("write `let ", "to store into it write `", 1);
                let bare = self
                    .stmt
                    .map(|stmt| Span::new(stmt.span.start, pat.span.start));
                let fix = Fix { help, ..fix };
                diag.fix(bare.into_iter().fold(fix, |fix, bare| fix.and(bare, "")))
            }
            (Some(fix), Some((span, dtype))) => {
                let help = format!("{}, and `{dtype}` as its type", fix.help);
                diag.fix(Fix { help, ..fix }.and(span, dtype))
            }
            (Some(fix), None) => diag.fix(fix),
            (None, _) => diag.help("a statement works on elements: `let y[i] = exp(x[i]);`"),
        }
    }

    fn alias(
        &mut self,
        pat: &Pattern,
        mutable: bool,
        ty: Option<&RType>,
        place: &ast::Place,
    ) -> Option<Stmt> {
        let value = self.place(place)?;
        if let Some(ty) = ty {
            let declared = self.annotation(ty)?;
            self.same_types(
                &declared,
                std::slice::from_ref(&value.ty),
                ty.span,
                Code::ResultType,
                None,
            )?;
        }
        let target = self.define(&pat.names[0], Some(value.ty.clone()), mutable);
        Some(Stmt::Alias { target, value })
    }

    fn tensor_stmt(
        &mut self,
        stmt: &ast::Stmt,
        pat: &Pattern,
        left: &[LeftIndex],
        ty: Option<&RType>,
        value: &ast::Expr,
    ) -> Option<Stmt> {
        if let ast::ExprKind::Call { path, args } = &value.kind
            && pat.names.len() == 1
            && self.items.blocks.contains(&*path.to_string())
        {
            let diag = self.bound_whole(pat, path, args);
            self.errors.push(diag);
            return None;
        }
        let dtypes = match ty {
            None => vec![None; pat.names.len()],
            Some(ty) => self.statement_dtypes(ty, pat)?,
        };
        let before = self.errors.len();
        let (mut cx, left) = StmtCx::new(self, left)?;
        let mut values = cx.values(value, pat, &dtypes);
        let StmtCx {
            indices,
            mut uses,
            accesses,
            kept,
            ..
        } = cx;
        let mut sketch = Sketch::new(&left, &indices, &uses, dtypes.len());
        sketch.dtypes((0..dtypes.len()).map(|at| {
            let value = values.as_ref().and_then(|values| values.get(at));
            dtypes[at].or_else(|| value.map(|value| value.dtype))
        }));
        self.sketch = Some(sketch);
        self.unbound_on_left(before, pat, value);
        if values.is_none() {
            let all = (0..indices.len()).map(|at| IndexId(at as u16));
            uses.poisoned.extend(all);
        }
        let wanted = self.wanted(&pat.names[0], &left, &indices);
        let ranges: Vec<Span> = indices.iter().map(Decl::range).collect();
        let told = self.errors.len();
        let found = extents::found(self, indices, &uses, &wanted);
        let indices = found.all();
        if let (None, Some(values), true) = (&indices, &mut values, before == told) {
            let meant = Some((&uses, &wanted));
            self.with_ranges(&found, told, &left, values, &accesses, meant);
        }
        let right = self.errors.len() == told;
        if let (None, Some(indices), true) = (&values, &indices, right) {
            self.prove_kept(kept, indices, &accesses);
        }
        without_mixed_up(&mut self.errors, before);
        let (indices, mut values) = (indices?, values?);
        if !right {
            if before == told {
                self.ranges_beside(told, (&indices, &left), &mut values, &accesses);
            }
            return None;
        }
        self.index_extents(&indices, &ranges)?;
        self.note_ranges(&pat.names[0], &indices, &uses, &wanted);
        self.fraction = None;
        for value in &mut values {
            let meant = Some((&uses, &wanted));
            ranges::prove(self, &indices, &left, value, &accesses, meant)?;
            self.note_conversions(value);
        }
        let fraction = self.fraction.filter(|_| pat.names.len() == 1);
        let axes = left
            .iter()
            .map(|axis| Dim::try_product(axis.iter().map(|i: &IndexId| &indices[i.at()].extent)))
            .collect::<Option<Vec<Dim>>>();
        let Some(axes) = axes else {
            self.errors.push(too_long(pat.span));
            return None;
        };
        let (whole, split) = self.pinned(&stmt.attrs, &indices);
        let mut made = Vec::new();
        for ((name, value), dtype) in pat.names.iter().zip(values).zip(dtypes) {
            if pat.names.len() > 1 && name.as_str() == "_" {
                continue;
            }
            let ty = TensorType {
                dtype: dtype.unwrap_or(value.dtype),
                axes: axes.clone(),
            };
            let sum = value.dtype.is_int() && self.is_sum(&value);
            let target = self.define(name, Some(Type::Tensor(ty)), false);
            self.vars[target.at()].sum = sum;
            (self.fractions).extend(fraction.map(|place| Fraction::new(target, place)));
            made.push(Statement {
                target,
                indices: indices.clone(),
                left: left.clone(),
                value,
                whole,
                split: split.clone(),
                span: stmt.span,
            });
        }
        Some(match made.pop() {
            Some(only) if pat.names.len() == 1 => Stmt::Tensor(only),
            last => {
                made.extend(last);
                Stmt::Tensors(made)
            }
        })
    }

    /// The ranges of reads beside those of which the errors since number `told` say which indices are meant.
    fn ranges_beside(
        &mut self,
        told: usize,
        (indices, left): (&[Index], &[Vec<IndexId>]),
        values: &mut [Expr],
        accesses: &Accesses,
    ) {
        let mut wrong: Vec<Span> = Vec::new();
        for error in &self.errors[told..] {
            let [fix] = &error.fixes[..] else { return };
            for (edit, _) in &fix.edits {
                let around = accesses.keys().find(|access| access.contains(*edit));
                let Some(access) = around.filter(|_| error.help.is_none()) else {
                    return;
                };
                wrong.push(*access);
            }
        }
        let before = self.errors.len();
        for value in values {
            ranges::prove(self, indices, left, value, accesses, None);
        }
        let mut at = 0;
        self.errors.retain(|error| {
            at += 1;
            at <= before || !wrong.iter().any(|access| access.contains(error.primary))
        });
    }

    /// Says with the ranges that the errors since number `told` propose, if there are no others, how the reads that
    /// leave their axes then are mended.
    fn with_ranges(
        &mut self,
        found: &Found,
        told: usize,
        left: &[Vec<IndexId>],
        values: &mut [Expr],
        accesses: &Accesses,
        meant: Meant<'_>,
    ) {
        let mut indices = found.indices.clone();
        for open in &found.open {
            indices[open.id.at()] = Some(open.index.clone());
        }
        let indices: Option<Vec<Index>> = indices.into_iter().collect();
        let only = self.errors.len() - told == found.open.len();
        let Some(indices) = indices.filter(|_| only) else {
            return;
        };
        let before = self.errors.len();
        for value in values {
            ranges::prove(self, &indices, left, value, accesses, meant);
        }
        let behind = self.errors.split_off(before);
        let more: Option<Vec<&Fix>> = behind.iter().map(|error| error.fixes.first()).collect();
        let Some(more) = more else { return };
        for open in &found.open {
            let fix = more.iter().fold(open.range.clone(), |mut fix, next| {
                let next_help = next.help.replacen("did you mean", "write", 1);
                fix.help += &format!(", and {}", next_help.trim_end_matches('?'));
                let new = next.edits.iter().filter(|edit| !fix.edits.contains(edit));
                let new: Vec<_> = new.cloned().collect();
                fix.edits.extend(new);
                fix
            });
            if let Some(error) = self.errors.get_mut(open.error) {
                error.fixes = vec![fix];
            }
        }
    }

    /// Unbound indices, by the errors since number `before`, that the declared result has an axis
    /// for, or what reads the tensor, or that all factors share.
    fn unbound_on_left(&mut self, before: usize, pat: &Pattern, value: &ast::Expr) {
        for at in before..self.errors.len() {
            let error = &self.errors[at];
            if error.code != Code::UnboundIndex {
                continue;
            }
            let Some(name) = unbound::name_at(value, error.primary) else {
                continue;
            };
            let (fix, only) = match self.put_left(pat, name.as_str()) {
                Some(fix) => match unbound::renamed(value, name.as_str(), fix) {
                    Some(fix) => (Some(fix), true),
                    None => continue,
                },
                // What a reduction in it binds cannot stand on the left.
                None if walk::binds(value, name.as_str()) => (None, false),
                None => (self.batched(pat, name.as_str(), value), false),
            };
            let Some(fix) = fix else {
                let help = format!(
                    "or put it on the left, and where `{}` is read",
                    pat.names[0]
                );
                let everywhere = self.left_out_everywhere(pat, name.as_str(), value);
                let error = &mut self.errors[at];
                if everywhere && error.help.is_none() && !error.fixes.is_empty() {
                    error.help = Some(help);
                }
                continue;
            };
            let error = &mut self.errors[at];
            if only {
                (error.fixes, error.help) = (Vec::new(), None);
            }
            error.fixes.insert(0, fix);
        }
    }

    /// The extents of left indices without an `in` where `name` is a result.
    fn wanted(
        &self,
        name: &Ident,
        left: &[Vec<IndexId>],
        decls: &[Decl],
    ) -> BTreeMap<IndexId, Dim> {
        let axes = self.result_axes(name.as_str()).unwrap_or_default();
        let open = left.iter().zip(axes).filter_map(|(axis, extent)| {
            let ranges = axis.iter().map(|id| (*id, decls[id.at()].extent.as_ref()));
            let (known, open): (Vec<_>, Vec<_>) = ranges.partition(|(_, range)| range.is_some());
            let [(index, _)] = open[..] else { return None };
            let known = known
                .iter()
                .filter_map(|(_, range)| Some(&range.as_ref()?.0));
            let product = Dim::try_product(known)?;
            let exact = self
                .facts
                .holds(&extent.rem(&product), CmpOp::Eq, &Dim::from(0));
            exact.then(|| (index, self.facts.normal(&extent.floor_div(&product))))
        });
        open.filter(|_| axes.len() == left.len()).collect()
    }

    /// The dtypes of an annotated statement, one per name.
    fn statement_dtypes(&mut self, ty: &RType, pat: &Pattern) -> Option<Vec<Option<DType>>> {
        let dtype = |ty: &ast::Type| match &ty.kind {
            ast::TypeKind::Tensor { dtype, axes: None } => Some(dtype.clone()),
            _ => None,
        };
        let names: Option<Vec<Ident>> = ty.types.iter().map(dtype).collect();
        match names.filter(|names| names.len() == pat.names.len()) {
            Some(names) => names
                .iter()
                .map(|name| element_type(name, &mut self.errors).map(Some))
                .collect(),
            None => {
                let text = "the annotation of a statement is a dtype; its indices give the axes";
                let dtype = match &ty.types[..] {
                    [
                        ast::Type {
                            kind: ast::TypeKind::Tensor { dtype, .. },
                            ..
                        },
                    ] => Some(Fix::replace(ty.span, dtype.as_str(), "write {}")),
                    _ => None,
                };
                self.errors
                    .push(Diag::new(Code::Pattern, ty.span, text).fixes(dtype));
                None
            }
        }
    }

    /// Every extent is at least 0.
    pub(super) fn index_extents(&mut self, indices: &[Index], ranges: &[Span]) -> Option<()> {
        let before = self.errors.len();
        for (index, range) in indices.iter().zip(ranges) {
            let of = |var: &Known| {
                let axes = var.ty.as_ref().and_then(Type::tensor).map(|t| &t.axes);
                axes.is_some_and(|axes| axes.contains(&index.extent))
            };
            // That of an axis is reported with the axis.
            if index.extent.as_const().is_some() && self.vars.iter().any(of) {
                continue;
            }
            let (scope, errors) = (&mut self.dims, &mut self.errors);
            extent(&index.extent, *range, scope, &self.facts, errors);
        }
        (self.errors.len() == before).then_some(())
    }
}

/// What a statement defines.
fn defined(stmt: &ast::Stmt) -> &[Ident] {
    match &stmt.kind {
        StmtKind::Let { pat, .. } => &pat.names,
        _ => &[],
    }
}
