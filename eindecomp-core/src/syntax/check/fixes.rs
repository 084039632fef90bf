//! Changes of a block that its errors propose.

use std::fmt::Display;

use super::body::BodyCx;
use super::dtype::cast;
use super::instance::base;
use super::traps::counted;
use super::tree::{ParamRole, Type};
use super::walk::{self, free};
use super::wraps::widened;
use crate::ein::dim::Atom;
use crate::ein::{DType, Dim};
use crate::syntax::ast::{self, CmpOp, Generic, Ident, IndexDecl, LeftIndex, Pattern, StmtKind};
use crate::syntax::diag::Fix;
use crate::syntax::names::is_like;
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// A clause more in the block's `where`; see [`BodyCx::add_clauses`].
    pub(super) fn add_clause(&self, left: &Dim, cmp: CmpOp, right: &Dim) -> Option<Fix> {
        let exact = self.exact_quotient(left, cmp, right);
        self.add_clauses(&[exact.unwrap_or_else(|| (left.clone(), cmp, right.clone()))])
    }

    /// Clauses more in the block's `where`, if all of their dims can be named there, and dims of 2
    /// and more may fulfil them: what forces a dim to be 0 or 1 is not meant.
    pub(super) fn add_clauses(&self, clauses: &[(Dim, CmpOp, Dim)]) -> Option<Fix> {
        let _helping = self.facts.helping();
        let mut facts = self.facts.clone();
        for (left, _, right) in clauses {
            for symbol in (left - right).symbols() {
                facts.assume(&Dim::sym(symbol), CmpOp::Ge, &Dim::from(2));
            }
        }
        for (left, cmp, right) in clauses {
            let named = self.nameable(left) && self.nameable(right);
            if !named || facts.refuted(left, *cmp, right) {
                return None;
            }
            facts.assume(left, *cmp, right);
        }
        let text = |(left, cmp, right): &(Dim, CmpOp, Dim)| {
            let symbol = cmp.symbol();
            format!("{left} {symbol} {right}")
        };
        let text = clauses.iter().map(text).collect::<Vec<_>>().join(", ");
        let help = format!("add `where {text}`");
        Some(match self.ast.clauses.last() {
            Some(last) => Fix::after(last.span, format!(", {text}"), &help),
            None => Fix::after(self.ast.ret.span, format!(" where {text}"), &help),
        })
    }

    /// That one of the quotients in a clause leaves no remainder, if the clause follows from that.
    pub(super) fn exact_quotient(
        &self,
        left: &Dim,
        cmp: CmpOp,
        right: &Dim,
    ) -> Option<(Dim, CmpOp, Dim)> {
        let zero = Dim::from(0);
        let mut quotients = Vec::new();
        for side in [left, right] {
            quotients_in(side, &mut quotients);
        }
        let remainders = quotients.into_iter().map(|(a, b)| a.rem(&b));
        let mut enough = remainders.filter(|remainder| {
            let mut facts = self.facts.clone();
            facts.assume(remainder, CmpOp::Eq, &zero);
            facts.holds(left, cmp, right)
        });
        enough.next().map(|remainder| (remainder, CmpOp::Eq, zero))
    }

    /// Is it an instance of any rank, such as `f/2`?
    pub(super) fn is_ranked(&self) -> bool {
        let choices = self.ast.head.name.as_str().split('/').skip(1);
        choices.flat_map(str::parse::<usize>).next().is_some()
    }

    /// Is it an instance of any dtype, such as `f/bf16`?
    pub(super) fn is_of_any_dtype(&self) -> bool {
        let mut choices = self.ast.head.name.as_str().split('/').skip(1);
        choices.any(|choice| DType::from_name(choice).is_some())
    }

    /// Can the extent be written in the block's signature?
    fn nameable(&self, dim: &Dim) -> bool {
        dim.symbols().iter().all(|symbol| {
            let mut generics = self.ast.generics.iter().map(Generic::name);
            let is_dim = generics.any(|name| name.name == *symbol);
            // The dims of an instance of any rank are not written in the block.
            (is_dim && !self.is_ranked()) || self.dims.consts.contains_key(symbol)
        })
    }

    /// The type `found` in place of one that is declared at `place`.
    pub(super) fn declare(&self, found: &[Type], place: Span) -> Option<Fix> {
        // What holds of one instance may not hold of the next.
        let instance = self.ast.head.name.as_str().contains('/');
        let nameable = |ty: &Type| ty.dims().into_iter().all(|dim| self.nameable(dim));
        (!instance && found.iter().all(nameable)).then(|| {
            let text = match found {
                [one] => one.to_string(),
                many => format!("({})", super::tree::listed(many)),
            };
            Fix::replace(place, text, "declare {}")
        })
    }

    /// The statement that defines the name at `place`: what is on its left, and its value.
    pub(super) fn defined_at(&self, place: Span) -> Option<(&Pattern, &ast::Expr)> {
        self.ast.stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Let { pat, value, .. } if pat.names.iter().any(|n| n.span == place) => {
                Some((pat, value))
            }
            _ => None,
        })
    }

    /// The only axis that the statement at `place` gives otherwise than `declared`: which it is, its index on the
    /// left, and the value.
    pub(super) fn odd_index(
        &self,
        place: Span,
        found: &[Dim],
        declared: &[Dim],
    ) -> Option<(usize, &IndexDecl, &ast::Expr)> {
        let (pattern, value) = self.defined_at(place)?;
        let mut other = (0..found.len()).filter(|&at| declared.get(at) != Some(&found[at]));
        let (Some(at), None) = (other.next(), other.next()) else {
            return None;
        };
        match pattern.indices.as_ref()?.get(at)? {
            LeftIndex::Index(decl) => Some((at, decl, value)),
            _ => None,
        }
    }

    /// The left indices of the statement that defines the name at `place`, in another order, if
    /// its axes then are those `declared`.
    pub(super) fn reordered(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (&found.tensor()?.axes, &declared.tensor()?.axes);
        let (pattern, _) = self.defined_at(place)?;
        let indices = pattern.indices.as_ref()?.iter().map(|index| match index {
            LeftIndex::Index(decl) => Some(decl),
            _ => None,
        });
        let indices: Vec<&IndexDecl> = indices.collect::<Option<_>>()?;
        if found.len() != declared.len() || indices.len() != found.len() {
            return None;
        }
        let mut left: Vec<usize> = (0..found.len()).collect();
        let mut order = Vec::new();
        for axis in declared {
            let at = left.iter().position(|&at| found[at] == *axis)?;
            order.push(indices[left.remove(at)]);
        }
        if order.iter().zip(&indices).all(|(a, b)| a.name == b.name) {
            return None;
        }
        let help = format!(
            "did you mean `let {}[{}]`?",
            pattern.names[0],
            super::tree::listed(&order)
        );
        let span = |decl: &IndexDecl| {
            let range = decl.extent.as_ref().map(|extent| extent.span);
            range.map_or(decl.name.span, |range| decl.name.span.join(range))
        };
        let edits = indices.iter().zip(&order);
        let edits = edits.map(|(old, new)| (span(old), new.to_string()));
        Some(Fix {
            help,
            edits: edits.collect(),
        })
    }

    /// The declared dtype as the annotation of the statement that defines the name at `place`, if
    /// its value is converted to that.
    pub(super) fn annotated(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        let (from, to) = (found.dtype, declared.dtype);
        // In a block of any dtype it may hold of one of them only.
        let instance = self.is_of_any_dtype();
        let converts = from != DType::Bool && from.is_float() == to.is_float() && from != to;
        let (pattern, value) = self.ast.stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Let {
                pat,
                ty: None,
                value,
                ..
            } => (pat.names.iter().any(|n| n.span == place)).then_some((pat, value)),
            _ => None,
        })?;
        let statement = pattern.indices.is_some() && pattern.names.len() == 1;
        let converts = converts && statement && found.axes == declared.axes;
        // What was computed has wrapped already.
        let computed = !matches!(
            value.kind,
            ast::ExprKind::Access { .. } | ast::ExprKind::Cast(..)
        );
        if !instance && converts && computed && from.is_int() && from.widens_to(to) {
            return widened(self, value, to);
        }
        let to = match instance {
            true => self.variable(pattern.names[0].as_str())?,
            false => to.to_string(),
        };
        converts.then(|| {
            let help = format!("write `let {pattern}: {to}`");
            Fix::after(pattern.span, format!(": {to}"), &help)
        })
    }

    /// The dtype variable that the result called `name` is declared with.
    fn variable(&self, name: &str) -> Option<String> {
        let generic = self.items.generic.get(base(self.block.name.as_str()))?;
        let mut names = self.ast.result.as_ref()?.names.iter();
        let at = names.position(|n| n.as_str() == name)?;
        match &generic.ret.types.get(at)?.kind {
            ast::TypeKind::Tensor { dtype, .. } => DType::from_name(dtype.as_str())
                .is_none()
                .then(|| dtype.to_string()),
            _ => None,
        }
    }

    /// A cast of the value of the statement that defines the name at `place` to the declared dtype, to
    /// which no annotation converts it.
    pub(super) fn cast_value(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        let (from, to) = (found.dtype, declared.dtype);
        let alike = from.is_float() == to.is_float() && from.is_int() == to.is_int();
        let value = self.ast.stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Let {
                pat,
                ty: None,
                value,
                ..
            } => {
                let alone = pat.names.len() == 1 && pat.indices.is_some();
                (alone && pat.names[0].span == place).then_some(value)
            }
            _ => None,
        })?;
        let fits = !alike && !self.is_of_any_dtype() && found.axes == declared.axes;
        (fits && to != DType::Bool).then(|| cast(value, to))
    }

    /// The dtype found, where a result of a block of any rank is declared.
    pub(super) fn declared_dtype(
        &self,
        found: &Type,
        declared: &Type,
        written: &ast::Type,
    ) -> Option<Fix> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        let ast::TypeKind::Tensor { dtype, .. } = &written.kind else {
            return None;
        };
        let alone = self.is_ranked() && !self.is_of_any_dtype();
        let differs = found.axes == declared.axes && found.dtype != declared.dtype;
        let fix = Fix::replace(dtype.span, found.dtype.to_string(), "declare {}");
        (alone && differs).then_some(fix)
    }

    /// The comparisons counted, in the statement that defines the name at `place`, where that gives
    /// the declared number.
    pub(super) fn counted(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        let bools = found.dtype == DType::Bool && found.axes == declared.axes;
        let value = self.ast.stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Let {
                pat,
                ty: None,
                value,
                ..
            } => pat.names.iter().any(|n| n.span == place).then_some(value),
            _ => None,
        })?;
        counted(value, declared.dtype).filter(|_| bools)
    }

    /// Indices for a statement on whole tensors: those that its accesses use, or one for each axis
    /// of the tensors that it names.
    pub(super) fn indexed(&self, pattern: &Pattern, value: &ast::Expr) -> Option<Fix> {
        if self.calls_block(value) {
            return self.with_calls(pattern, value);
        }
        let [name] = &pattern.names[..] else {
            return None;
        };
        let mut used = free(value);
        used.retain(|name| self.lookup(name).is_none() && self.dims.named(name).is_none());
        if used.iter().any(|name| walk::binds(value, name)) {
            return None;
        }
        let whole = whole_tensors(self, value);
        let indices = match whole.first() {
            None => used.join(", "),
            Some((_, _, first)) => {
                let same = |axes: &Vec<Dim>| axes.len() == first.len();
                if !used.is_empty() || !whole.iter().all(|(_, _, axes)| same(axes)) {
                    return None;
                }
                index_names(first).join(", ")
            }
        };
        let mut shown = vec![format!("`let {name}[{indices}]`")];
        for (name, ..) in &whole {
            let read = format!("`{name}[{indices}]`");
            if !shown.contains(&read) {
                shown.push(read);
            }
        }
        let fix = Fix::after(pattern.span, format!("[{indices}]"), "");
        Some(Fix {
            help: format!("write {}", shown.join(" and ")),
            edits: whole.iter().fold(fix.edits, |mut edits, (_, span, _)| {
                edits.push((Span::new(span.end, span.end), format!("[{indices}]")));
                edits
            }),
        })
    }

    /// As many names as there are results: further ones are `_`, those that nothing reads are left out.
    pub(super) fn as_many(&self, pat: &Pattern, count: usize) -> Option<Fix> {
        let mut names: Vec<&str> = pat.names.iter().map(Ident::as_str).collect();
        let surplus = names.iter().skip(count);
        if surplus.into_iter().any(|name| walk::reads(self.ast, name)) {
            return None;
        }
        names.resize(count, "_");
        let text = match &names[..] {
            [one] => (*one).to_owned(),
            many => format!("({})", many.join(", ")),
        };
        let (first, last) = (pat.names.first()?.span, pat.names.last()?.span);
        // The parentheses around several.
        let place = match pat.names.len() {
            1 => first,
            _ if pat.indices.is_none() => pat.span,
            _ => Span::new(pat.span.start, last.end + 1),
        };
        Some(Fix::replace(place, text, "write {}"))
    }

    /// The one integer that is given at each run as the offset of an index at `place` in a store.
    pub(super) fn offset(&self, place: Span, index: &str) -> Option<Fix> {
        let numbers = self.block.params.iter().filter(|param| {
            let number = param.ty.tensor();
            number.is_some_and(|t| t.axes.is_empty() && t.dtype.is_int())
                && param.role == ParamRole::Data
        });
        let shadowed = |name: &Ident| {
            let var = self.lookup(name.as_str());
            var.is_none_or(|var| self.vars[var.at()].span != name.span)
        };
        let mut numbers = numbers.filter(|param| !shadowed(&param.name));
        let (Some(only), None) = (numbers.next(), numbers.next()) else {
            return None;
        };
        // It says already where another axis is written.
        if let Some(StmtKind::Store { subs, .. }) = self.stmt.map(|stmt| &stmt.kind)
            && subs
                .iter()
                .any(|sub| walk::mentions(sub, &[only.name.as_str()]))
        {
            return None;
        }
        let help = format!("did you mean `{} + {index}`?", only.name);
        Some(Fix::before(place, format!("{} + ", only.name), &help))
    }

    /// Does an axis of the store that is being checked have a position that no index reads by itself?
    pub(super) fn stores_in_part(&self) -> bool {
        let Some(StmtKind::Store { subs, .. }) = self.stmt.map(|stmt| &stmt.kind) else {
            return false;
        };
        let moved = |sub: &ast::Expr| match walk::name(sub) {
            Some(name) => self.lookup(name).is_some(),
            None => true,
        };
        subs.iter().any(moved)
    }

    /// The declared extents of the result called `name`.
    pub(super) fn result_axes(&self, name: &str) -> Option<&[Dim]> {
        let names = &self.ast.result.as_ref()?.names;
        let at = names.iter().position(|n| n.as_str() == name)?;
        match &self.block.results.get(at)?.ty {
            Type::Tensor(t) => Some(&t.axes),
            _ => None,
        }
    }

    /// The dtype that the value of the statement is declared with, if `place` is all of it.
    pub(super) fn wanted_dtype(&self, place: Span) -> Option<DType> {
        let whole = self.value().is_some_and(|value| value.span == place);
        self.declared_value().filter(|_| whole)
    }

    /// The dtype that the result is declared with which the statement defines.
    pub(super) fn declared_value(&self) -> Option<DType> {
        let StmtKind::Let { pat, ty: None, .. } = &self.stmt?.kind else {
            return None;
        };
        let names = &self.ast.result.as_ref()?.names;
        let at = names.iter().position(|n| n.name == pat.names[0].name)?;
        let declared = self.block.results.get(at)?.ty.tensor()?;
        (pat.names.len() == 1).then_some(declared.dtype)
    }

    /// Another dtype where a tensor with these axes is declared, if it is the parameter of its
    /// name; a `let` at `place` may shadow that.
    pub(super) fn declared_as(
        &self,
        name: &Ident,
        place: Span,
        dtype: &str,
        axes: &str,
    ) -> Option<Fix> {
        let mut params = self.ast.params.iter();
        let param = params.find(|p| p.name.name == name.name && p.name.span == place)?;
        let ast::TypeKind::Tensor { dtype: old, .. } = &param.ty.kind else {
            return None;
        };
        let help = format!("declare `{name}: {dtype}{axes}`");
        Some(Fix::replace(old.span, dtype, &help))
    }

    /// `argmax` in place of the `max` that a tensor is, which is read as positions.
    pub(super) fn position_of(&self, place: &ast::Place) -> Option<Fix> {
        let name = place.as_ident()?;
        let var = &self.vars[self.lookup(name.as_str())?.at()];
        let value = self.ast.stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Let {
                pat,
                ty: None,
                value,
                ..
            } if pat.names.iter().any(|n| n.span == var.span) => Some(value),
            _ => None,
        })?;
        let ast::ExprKind::Reduce(reduce) = &value.kind else {
            return None;
        };
        let meant = match reduce.agg.to_string().as_str() {
            "max" => "argmax",
            "min" => "argmin",
            _ => return None,
        };
        let once = reduce.indices.len() == 1 && walk::uses(self.ast, name.as_str()) == 1;
        let help = format!("did you mean `{meant}[{}]`?", reduce.indices[0]);
        once.then(|| Fix::replace(reduce.agg.span, meant, &help))
    }

    /// Another extent for an axis of a parameter.
    pub(super) fn declared_axis(&self, param: &ast::Param, axis: usize, to: &Dim) -> Option<Fix> {
        let ast::TypeKind::Tensor { axes, .. } = &param.ty.kind else {
            return None;
        };
        let place = axes.as_ref()?.get(axis)?.span;
        let known = self.block.params.iter().find(|p| p.name == param.name)?;
        let mut ty = known.ty.tensor()?.clone();
        *ty.axes.get_mut(axis)? = to.clone();
        let help = format!("declare `{}: {ty}`", param.name);
        let same = ty.axes.len() == axes.as_ref()?.len();
        (same && self.nameable(to)).then(|| Fix::replace(place, to.to_string(), &help))
    }

    /// The statement that defines the name at `place` with two subscripts of an access in each
    /// other's place, if its axes then are those `declared`.
    pub(super) fn transposed(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (&found.tensor()?.axes, &declared.tensor()?.axes);
        let (at, decl, value) = self.odd_index(place, found, declared)?;
        let name = decl.name.as_str();
        // Its axis is the one of its name, unless it stands in the place of a gather.
        let own = is_like(&found[at], name) && !is_like(declared.get(at)?, name);
        if own && !walk::gathers(value) {
            return None;
        }
        (walk::in_accesses(value, name) == 1).then_some(())?;
        self.turned(value, value, name, &found[at], declared.get(at)?)
    }

    /// The access in `e` in which a bare index and another subscript change places, so that the index
    /// runs over an axis of the extent `meant`. In `whole`, nothing else says what the other one runs
    /// over: it is a gather, or an index of that access alone.
    fn turned(
        &self,
        e: &ast::Expr,
        whole: &ast::Expr,
        index: &str,
        found: &Dim,
        meant: &Dim,
    ) -> Option<Fix> {
        if let Some((place, subs)) = walk::accessed(e)
            && let Some(t) = self.type_of(place)
            && t.axes.len() == subs.len()
        {
            let padded = matches!(
                e.kind,
                ast::ExprKind::Access {
                    default: Some(_),
                    ..
                }
            );
            let free = |sub: &ast::Sub| match (sub, walk::sub_name(sub)) {
                (_, Some(name)) if name != index => walk::in_accesses(whole, name) == 1,
                (ast::Sub::Expr(e), None) => walk::accesses(e) || padded,
                _ => false,
            };
            let named = |at: &usize| walk::sub_name(&subs[*at]) == Some(index);
            let bare = (0..subs.len()).find(|at| named(at) && t.axes[*at] == *found);
            let other = (0..subs.len()).find(|at| free(&subs[*at]) && t.axes[*at] == *meant);
            if let (Some(bare), Some(other)) = (bare, other) {
                let shown: Vec<String> = subs.iter().map(ast::Sub::to_string).collect();
                let places = [bare, other].map(|at| (at, subs[at].span()));
                let (shown, edits) = exchanged(place, &shown, places);
                let help = format!("did you mean {shown}?");
                return Some(Fix { help, edits });
            }
        }
        let mut children = e.children().into_iter();
        children.find_map(|e| self.turned(e, whole, index, found, meant))
    }
}

/// Every quotient in an extent, inner ones behind those around them.
pub(super) fn quotients_in(d: &Dim, out: &mut Vec<(Dim, Dim)>) {
    for atom in d.terms().flat_map(|(monomial, _)| monomial) {
        match atom {
            Atom::Sym(_) => {}
            Atom::Div(a, b) => {
                out.push(((**a).clone(), (**b).clone()));
                quotients_in(a, out);
                quotients_in(b, out);
            }
            Atom::Rem(a, b) => {
                quotients_in(a, out);
                quotients_in(b, out);
            }
        }
    }
}

/// The tensors with axes that an expression names without indices: name, place, extents.
pub(super) fn whole_tensors(cx: &BodyCx<'_>, e: &ast::Expr) -> Vec<(String, Span, Vec<Dim>)> {
    if let Some(name) = walk::name(e) {
        let var = cx.lookup(name).map(|var| &cx.vars[var.at()]);
        let axes = var.and_then(|var| Some(var.ty.as_ref()?.tensor()?.axes.clone()));
        let axes = axes.filter(|axes| !axes.is_empty());
        return axes
            .map(|axes| (name.to_owned(), e.span, axes))
            .into_iter()
            .collect();
    }
    e.children()
        .into_iter()
        .flat_map(|e| whole_tensors(cx, e))
        .collect()
}

/// An index name for each axis: that of its dim, else one that is free.
pub(super) fn index_names(axes: &[Dim]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for axis in axes {
        let own = axis.as_symbol().map(|symbol| symbol.to_lowercase());
        let free = ["i", "j", "k", "l"].map(str::to_owned);
        let mut candidates = own.into_iter().chain(free);
        let name = candidates.find(|name| !names.contains(name));
        names.push(name.unwrap_or_else(|| format!("i{}", names.len())));
    }
    names
}

/// `0`, as a literal of the dtype.
pub(super) fn zero(dtype: DType) -> &'static str {
    if dtype.is_float() {
        "0.0"
    } else if dtype.is_int() {
        "0"
    } else {
        "false"
    }
}

/// An access with two of its indices in each other's place, each given by axis and place: as text, and
/// the edits of both.
pub(super) fn exchanged(
    tensor: impl Display,
    subs: &[String],
    [(a, first), (b, second)]: [(usize, Span); 2],
) -> (String, Vec<(Span, String)>) {
    let mut subs = subs.to_vec();
    subs.swap(a, b);
    let shown = format!("`{tensor}[{}]`", subs.join(", "));
    (
        shown,
        vec![(first, subs[a].clone()), (second, subs[b].clone())],
    )
}

/// `index in extent` on the left or in a reduction.
pub(super) fn range(name: &str, place: Span, extent: &str) -> Fix {
    let help = format!("give it a range: `{name} in {extent}`");
    Fix::after(place, format!(" in {extent}"), &help)
}
