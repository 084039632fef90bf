//! Stores into state: `kc[b, pos + s] = kn[b, s];`.
//!
//! The positions of a store name its indices: a lower-case name in them that is no dim, loop number
//! or integer of rank 0. A store writes no element twice: each index runs along an axis of its own,
//! as `i`, as `i + offset`, or as `(i + offset) % C` on an axis of `C ≥ I` positions.

use std::collections::{BTreeMap, BTreeSet};

use super::body::BodyCx;
use super::dtype::cast;
use super::expr::StmtCx;
use super::tree::{
    Expr, ExprKind, Index, IndexId, ParamRole, Place, Statement, Stmt, Store, StoreAxis, Sub,
    TensorType, Type, listed,
};
use super::walk::{self, free};
use super::{extents, ranges};
use crate::ein::{DType, Dim, ScalarFn, Value};
use crate::syntax::ast::{self, CmpOp, Ident, IndexDecl, LeftIndex};
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

/// A position of a store as written, and as checked.
struct Position<'p> {
    ast: &'p ast::Expr,
    value: Expr,
    extent: Dim,
}

impl BodyCx<'_> {
    pub(super) fn store(
        &mut self,
        stmt: &ast::Stmt,
        target: &ast::Place,
        subs: &[ast::Expr],
        value: &ast::Expr,
    ) -> Option<Stmt> {
        let Some(root) = target.path.as_ident() else {
            self.place(target);
            return None;
        };
        let var = self.lookup(root.as_str());
        let state = var.is_some_and(|var| self.vars[var.at()].role == Some(ParamRole::State));
        if !state {
            self.refused(target, root, subs, value);
            return None;
        }
        // Reported with the signature.
        if (self.type_of(target)).is_some_and(|state| state.axes.is_empty()) {
            let var = self.lookup(root.as_str())?;
            self.vars[var.at()].used = true;
            return None;
        }
        let mut offsets = subs.iter().filter(|sub| walk::name(sub).is_none());
        let wrong = offsets
            .find_map(|sub| self.long_offset(sub, value))
            .or_else(|| scatter(target, subs))
            .or_else(|| self.merged_position(target, subs));
        if let Some(diag) = wrong {
            self.errors.push(diag);
            self.nowhere(root, subs, value);
            return None;
        }
        let mut names = Vec::new();
        subs.iter()
            .for_each(|sub| self.index_names(sub, &mut names));
        let left: Vec<LeftIndex> = names
            .into_iter()
            .map(|name| LeftIndex::Index(IndexDecl { name, extent: None }))
            .collect();
        let span = Span::new(target.span.start, subs.last()?.span.end);
        let before = self.errors.len();
        let (mut cx, left) = StmtCx::new(self, &left)?;
        let positions: Vec<ast::Sub> = subs.iter().cloned().map(ast::Sub::Expr).collect();
        let made = cx.access(target, &positions, None, span);
        let dtype = made.as_ref().map(|m| m.dtype);
        cx.uses.target = cx.accesses.get(&span).cloned();
        // The positions alone do not use an index.
        let read = cx.read_by_positions();
        let stored = cx.stored(root, value, dtype);
        cx.axis_left_out(before, target, &positions, value);
        let moved = cx.moved(before, target, subs, value);
        cx.use_again(&read);
        let value = stored;
        let StmtCx {
            indices,
            mut uses,
            accesses,
            ..
        } = cx;
        if value.is_none() || made.is_none() {
            let all = (0..indices.len()).map(|at| IndexId(at as u16));
            uses.poisoned.extend(all);
        }
        let ranges: Vec<Span> = indices.iter().map(extents::Decl::range).collect();
        let told = self.errors.len();
        let indices = extents::solve(self, indices, &uses, &BTreeMap::new());
        let mut at = 0;
        self.errors.retain(|error| {
            at += 1;
            at <= told || !moved.contains(&error.primary)
        });
        let (indices, mut value, mut made) = (indices?, value?, made?);
        self.index_extents(&indices, &ranges)?;
        let at = self.axes(&places(&made, subs)?, &indices, target, span);
        // What writes an element twice has no range to speak of.
        let inside = match at {
            Some(_) => ranges::prove_store(self, &indices, &left, &mut made, &accesses),
            None => None,
        };
        ranges::prove(self, &indices, &left, &mut value, &accesses, None)?;
        self.note_conversions(&value);
        let at = at.filter(|_| inside.is_some())?;
        let ExprKind::Read(read) = made.kind else {
            return None;
        };
        let axes = indices.iter().take(left.len());
        let ty = TensorType {
            dtype: dtype?,
            axes: axes.map(|i| i.extent.clone()).collect(),
        };
        // What is stored is a tensor of its own, without a name that others see.
        let scopes = std::mem::take(&mut self.scopes);
        let new = self.define(root, Some(Type::Tensor(ty)), false);
        self.scopes = scopes;
        self.vars[new.at()].used = true;
        let (whole, split) = self.pinned(&stmt.attrs, &indices);
        Some(Stmt::Store(Box::new(Store {
            state: read.place,
            at,
            value: Statement {
                target: new,
                indices,
                left,
                value,
                whole,
                split,
                span: stmt.span,
            },
        })))
    }

    /// The refusal of a position that names a tensor with axes, unless that is an index too.
    fn long_offset(&mut self, e: &ast::Expr, value: &ast::Expr) -> Option<Diag> {
        let ast::ExprKind::Name(place) = &e.kind else {
            let arithmetic = matches!(
                e.kind,
                ast::ExprKind::Binary(..) | ast::ExprKind::Unary(..) | ast::ExprKind::Paren(_)
            );
            let mut children = e.children().into_iter().filter(|_| arithmetic);
            return children.find_map(|e| self.long_offset(e, value));
        };
        let name = place.as_ident()?.as_str();
        let t = self.type_of(place).filter(|t| !t.axes.is_empty())?;
        if free(value).contains(&name) {
            return None;
        }
        let var = self.lookup(name)?;
        self.vars[var.at()].used = true;
        let axes = listed(&t.axes);
        let text = format!("the offset of a store is one number, but `{name}` has axes [{axes}]");
        let diag = Diag::new(Code::StoreNotInjective, e.span, text);
        Some(diag.help("an offset is an integer of rank 0: `pos: i64`"))
    }

    /// The names in a position that are indices.
    pub(super) fn index_names(&self, e: &ast::Expr, out: &mut Vec<Ident>) {
        let mut both = |a: &ast::Expr, b: &ast::Expr| {
            self.index_names(a, out);
            self.index_names(b, out);
        };
        match &e.kind {
            ast::ExprKind::Binary(_, a, b) => both(a, b),
            ast::ExprKind::Unary(_, e) | ast::ExprKind::Cast(e, _) | ast::ExprKind::Paren(e) => {
                self.index_names(e, out);
            }
            ast::ExprKind::Tuple(items) => items.iter().for_each(|e| self.index_names(e, out)),
            ast::ExprKind::Name(place) => {
                let Some(name) = place.as_ident() else { return };
                let lower = name
                    .as_str()
                    .starts_with(|c: char| c.is_lowercase() || c == '_');
                let known = self
                    .lookup(name.as_str())
                    .map(|var| &self.vars[var.at()].ty);
                let moves = known.is_some_and(|ty| match ty {
                    None => true,
                    Some(Type::Tensor(t)) => t.axes.is_empty(),
                    Some(_) => false,
                });
                let number = self.dims.named(name.as_str()).is_some();
                if lower && !moves && !number && !out.iter().any(|n| n.name == name.name) {
                    out.push(name.clone());
                }
            }
            _ => {}
        }
    }

    /// What each axis is indexed by; each index moves along one of them.
    fn axes(
        &mut self,
        positions: &[Position<'_>],
        indices: &[Index],
        target: &ast::Place,
        span: Span,
    ) -> Option<Vec<StoreAxis>> {
        let mut covered: BTreeSet<IndexId> = BTreeSet::new();
        let (mut axes, mut rings) = (Vec::new(), Vec::new());
        for position in positions {
            let axis = axis(position, &covered);
            match &axis {
                StoreAxis::Bare(i) | StoreAxis::Shifted(i, _) => drop(covered.insert(*i)),
                StoreAxis::Ring(i, _) => {
                    covered.insert(*i);
                    rings.push((*i, position));
                }
                StoreAxis::At(e) => self.affine(e, position)?,
            }
            axes.push(axis);
        }
        let used = |id: IndexId| {
            let at = |p: &&Position<'_>| p.value.indices().iter().any(|(_, other)| *other == id);
            positions.iter().find(at)
        };
        let count = positions.iter().flat_map(|p| p.value.indices());
        let count: BTreeSet<IndexId> = count.map(|(_, id)| id).collect();
        if let Some(free) = count.into_iter().find(|id| !covered.contains(id)) {
            let name = &indices[free.at()].name;
            let text = format!(
                "`{target}[…]` may be written twice in one place: no axis is indexed by `{name}` or \
                 `{name}` plus an offset"
            );
            let place = used(free).map_or(span, |p| p.ast.span);
            let diag = Diag::new(Code::StoreNotInjective, place, text);
            let help = format!(
                "every index needs an axis of its own: `{name}`, `pos + {name}`, or \
                 `(pos + {name}) % C` where `C` is the axis"
            );
            self.errors.push(diag.help(help));
            return None;
        }
        for (id, position) in rings {
            let (length, extent) = (&indices[id.at()].extent, &position.extent);
            if self.facts.holds(length, CmpOp::Le, extent) {
                continue;
            }
            let name = &indices[id.at()].name;
            let text = format!(
                "`{}` may come round to where it was: `{name}` runs over `{length}`, the axis has \
                 `{extent}` positions",
                position.ast
            );
            let diag = Diag::new(Code::StoreNotInjective, position.ast.span, text);
            if self.dims.only_consts(&(length - extent)) {
                let clause = super::tree::Clause {
                    left: length.clone(),
                    cmp: CmpOp::Le,
                    right: extent.clone(),
                    origin: super::tree::Origin::Access(position.ast.to_string().into()),
                    span: position.ast.span,
                };
                self.require_or(clause, diag);
                continue;
            }
            self.errors
                .push(match self.add_clause(length, CmpOp::Le, extent) {
                    Some(fix) => diag.fix(fix),
                    None => diag.help("write at most as many elements as the axis has"),
                });
            return None;
        }
        Some(axes)
    }

    /// A position that moves no index: affine, of indices or of run-time numbers.
    fn affine(&mut self, e: &Expr, position: &Position<'_>) -> Option<()> {
        let indices = e.indices();
        let what = if !is_affine(e) {
            "is not affine in indices, dims and integers of rank 0"
        } else if !indices.is_empty() && e.has_data() {
            "follows the index of another axis and a run-time number at once"
        } else {
            return Some(());
        };
        let text = format!("the position `{}` of a store {what}", position.ast);
        let diag = Diag::new(Code::StoreNotInjective, position.ast.span, text);
        self.errors
            .push(diag.help("a position is `i`, `pos + i`, `(pos + i) % C`, or free of indices"));
        None
    }
}

impl StmtCx<'_, '_> {
    /// The value of a store into a state of `dtype`: nothing narrows by itself.
    fn stored(&mut self, name: &Ident, value: &ast::Expr, dtype: Option<DType>) -> Option<Expr> {
        let pat = ast::Pattern {
            names: vec![name.clone()],
            indices: None,
            span: name.span,
        };
        let e = self.values(value, &pat, &[dtype])?.pop()?;
        let Some(dtype) = dtype.filter(|d| e.dtype != *d && !e.dtype.widens_to(*d)) else {
            return Some(e);
        };
        let text = format!(
            "this {} value would be narrowed to the state's {dtype}",
            e.dtype
        );
        let diag = Diag::new(Code::Narrowing, value.span, text);
        self.report(diag.fix(cast(value, dtype)));
        None
    }
}

/// The positions of a store, which was checked as a read.
fn places<'p>(made: &Expr, subs: &'p [ast::Expr]) -> Option<Vec<Position<'p>>> {
    let ExprKind::Read(read) = &made.kind else {
        return None;
    };
    let axes = &read.place.ty.tensor()?.axes;
    let each = read.subs.iter().zip(subs).zip(axes);
    each.map(|((sub, ast), extent)| match sub {
        Sub::Expr(value) => Some(Position {
            ast,
            value: value.clone(),
            extent: extent.clone(),
        }),
        Sub::Merged(..) | Sub::Mixed(_) => None,
    })
    .collect()
}

/// The refusal of a store to where data says.
fn scatter(target: &ast::Place, subs: &[ast::Expr]) -> Option<Diag> {
    let sub = subs.iter().find(|sub| walk::accesses(sub))?;
    let text =
        format!("`{sub}` of data is no position of a store: elements could meet in one place");
    let diag = Diag::new(Code::StoreNotInjective, sub.span, text);
    Some(diag.help(format!(
        "say for each element of the state what it takes, as `{target}[c] = sum[s where ids[s] == c] x[s];`"
    )))
}

/// What indexes the axis of a position, if each of `covered` has an axis already.
fn axis(position: &Position<'_>, covered: &BTreeSet<IndexId>) -> StoreAxis {
    let e = &position.value;
    let bare = matches!(&position.ast.kind, ast::ExprKind::Name(_));
    if let Some((index, offset)) = shifted(e).filter(|(i, _)| !covered.contains(i)) {
        return match offset {
            None if bare => StoreAxis::Bare(index),
            None => StoreAxis::Shifted(index, zero(e.span)),
            Some(offset) => StoreAxis::Shifted(index, offset),
        };
    }
    if let ExprKind::Call(ScalarFn::REM, args) = &e.kind
        && args[1].indices().is_empty()
        && ranges::poly(&args[1], &[]).as_ref() == Some(&position.extent)
        && let Some((index, offset)) = shifted(&args[0]).filter(|(i, _)| !covered.contains(i))
    {
        return StoreAxis::Ring(index, offset.unwrap_or_else(|| zero(e.span)));
    }
    StoreAxis::At(e.clone())
}

fn zero(span: Span) -> Expr {
    Expr {
        kind: ExprKind::Lit(Value::Int(0)),
        dtype: DType::I64,
        span,
    }
}

/// `i + offset`, where the offset has no index; `None` for an offset of nothing.
fn shifted(e: &Expr) -> Option<(IndexId, Option<Expr>)> {
    let mut terms = Vec::new();
    sum(e, false, &mut terms);
    let at = terms
        .iter()
        .position(|(negative, t)| !negative && matches!(t.kind, ExprKind::Index(_)))?;
    let ExprKind::Index(index) = terms.remove(at).1.kind else {
        return None;
    };
    if terms
        .iter()
        .any(|(_, t)| !t.indices().is_empty() || !is_affine(t))
    {
        return None;
    }
    let mut offset: Option<Expr> = None;
    for (negative, term) in terms {
        let span = term.span;
        let wide = Expr {
            kind: ExprKind::Cast(Box::new(term.clone())),
            dtype: DType::I64,
            span,
        };
        let term = if term.dtype == DType::I64 {
            term.clone()
        } else {
            wide
        };
        let (function, args) = match (offset, negative) {
            (None, false) => {
                offset = Some(term);
                continue;
            }
            (None, true) => (ScalarFn::NEG, vec![term]),
            (Some(sum), false) => (ScalarFn::ADD, vec![sum, term]),
            (Some(sum), true) => (ScalarFn::SUB, vec![sum, term]),
        };
        offset = Some(Expr {
            kind: ExprKind::Call(function, args),
            dtype: DType::I64,
            span,
        });
    }
    Some((index, offset))
}

/// The terms of a sum, each with whether it is subtracted.
fn sum<'e>(e: &'e Expr, negative: bool, out: &mut Vec<(bool, &'e Expr)>) {
    match &e.kind {
        ExprKind::Call(ScalarFn::ADD, args) => args.iter().for_each(|a| sum(a, negative, out)),
        ExprKind::Call(ScalarFn::SUB, args) => {
            sum(&args[0], negative, out);
            sum(&args[1], !negative, out);
        }
        ExprKind::Call(ScalarFn::NEG, args) => sum(&args[0], !negative, out),
        _ => out.push((negative, e)),
    }
}

/// Sums and multiples of indices, dims, literals, host values and integers of rank 0.
fn is_affine(e: &Expr) -> bool {
    let free = |e: &Expr| e.indices().is_empty();
    match &e.kind {
        ExprKind::Lit(_) | ExprKind::Host(_) | ExprKind::Index(_) | ExprKind::Dim(_) => true,
        ExprKind::Read(read) => read.subs.is_empty(),
        ExprKind::Cast(inner) => inner.dtype.is_int() && is_affine(inner),
        ExprKind::Call(f, args) => {
            let linear = match *f {
                ScalarFn::ADD | ScalarFn::SUB | ScalarFn::NEG => true,
                ScalarFn::MUL => args.iter().filter(|a| !free(a)).count() < 2,
                ScalarFn::DIV | ScalarFn::REM => free(e),
                _ => false,
            };
            linear && args.iter().all(is_affine)
        }
        ExprKind::If(..) | ExprKind::Reduce(_) | ExprKind::Tuple(_) | ExprKind::Arg(_) => false,
    }
}

impl BodyCx<'_> {
    /// Are two states one in the caller, or is one a part of the other? Elements of an array may be.
    pub(super) fn overlap(&self, a: &Place, b: &Place) -> bool {
        let whole = |place: &Place| {
            let mut var = place.var;
            while let Some(array) = self.vars[var.at()].element_of {
                var = array;
            }
            var
        };
        whole(a) == whole(b) && a.fields.iter().zip(&b.fields).all(|(x, y)| x == y)
    }
}
