//! Reductions: their indices, arguments and dtypes.

use super::dtype::{Flex, cast, element_type, fix, flex};
use super::expr::StmtCx;
use super::fixes::zero;
use super::heads::{another_index, twice, without_accumulator};
use super::tree::{Aggregation, Expr, ExprKind, IndexId, Reduce};
use super::unbound::name_at;
use super::walk::{mentions, positions};
use crate::ein::{Agg, DType};
use crate::syntax::ast::{self, ReduceBody};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{SOFTMAX_SUM, are, instead, is_known_elsewhere, nearest, nearest_agg};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    pub(super) fn reduce(&mut self, reduce: &ast::Reduce, span: Span) -> Option<Expr> {
        if let Some(definition) = &self.definition {
            let diag = definition.refuse("a reduction", span);
            self.report(diag);
            return None;
        }
        if let Some(named) = self.record_agg(reduce) {
            let made = self.record(reduce, named, span)?;
            if let [only] = &made[..] {
                return Some(only.clone());
            }
            let (name, count) = (&reduce.agg, made.len());
            let text = format!("`{name}` gives {count} results, which need names of their own");
            let names: Vec<String> = (0..count).map(|n| format!("y{n}")).collect();
            let diag = Diag::new(Code::Pattern, reduce.agg.span, text);
            let names = names.join(", ");
            let help =
                format!("put it in a statement of its own: `let ({names})[…] = {name}[…] (…);`");
            self.report(diag.help(help));
            return None;
        }
        let name = reduce.agg.to_string();
        let agg = Agg::from_name(&name);
        let (Some(agg), ReduceBody::Product(body)) = (agg, &reduce.body) else {
            // A name of its own that hides it is reported, and so is one that could not be read.
            let lost = self.cx.items.declared.lost.contains(&*name);
            let mut misspelt = false;
            if !lost && Agg::from_name(&name).is_none() {
                let diag = self.no_agg(&name, reduce);
                misspelt = !diag.fixes.is_empty();
                self.report(diag);
            }
            if lost || misspelt {
                let bodies: Vec<&ast::Expr> = match &reduce.body {
                    ReduceBody::Product(body) => vec![body],
                    ReduceBody::Args(args) => args.iter().collect(),
                };
                self.bound(reduce, &bodies, |cx| {
                    bodies.iter().for_each(|body| drop(cx.expr(body)));
                    Some(())
                });
            }
            return None;
        };
        self.naked(reduce, body, span)?;
        self.divided(agg, reduce, body)?;
        let (indices, filter, value) = self.bound(reduce, &[body], |cx| cx.expr(body))?;
        self.unused((reduce, span), &[body], &[&value])?;
        // In either reading it is a value of this dtype, so that what stands beside it is checked.
        let _told = self.traps(agg, (reduce, span), body, &indices);
        let acc = self.accumulator(reduce)?;
        let (acc, dtype, value) = self.reduced_dtype(agg, reduce, body, value, acc)?;
        let reduce = Reduce {
            agg: Aggregation::Row(agg),
            indices,
            filter,
            acc,
            body: value,
        };
        Some(Expr {
            kind: ExprKind::Reduce(Box::new(reduce)),
            dtype,
            span,
        })
    }

    /// The indices and the filter of a reduction, with what `value` makes in their scope.
    pub(super) fn bound<T>(
        &mut self,
        reduce: &ast::Reduce,
        bodies: &[&ast::Expr],
        value: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<(Vec<IndexId>, Option<Expr>, T)> {
        if let Some(diag) = twice(reduce) {
            self.report(diag);
            return None;
        }
        if let Some(diag) = self.prefix(reduce, bodies) {
            self.report(diag);
            return None;
        }
        let before = self.visible.len();
        let depth = self.guards.len();
        let declared: Vec<Option<IndexId>> = reduce
            .indices
            .iter()
            .map(|decl| self.declare(decl, true))
            .collect();
        if declared.contains(&None) {
            self.suggest_free(reduce, bodies);
            self.visible.truncate(before);
            return None;
        }
        let (told, kept) = (self.cx.errors.len(), self.kept.len());
        let filter = reduce.filter.as_ref().map(|f| self.condition(f));
        if let Some(filter) = &reduce.filter {
            self.unfiltered(reduce, filter, told);
        }
        if let Some(Some(filter)) = &filter {
            self.guard(filter, true);
        }
        let value = value(self);
        self.guards.truncate(depth);
        // What is reduced is not known.
        if let Some(None) = filter {
            self.kept.truncate(kept);
        }
        self.closed
            .extend(reduce.indices.iter().map(|decl| decl.name.name.clone()));
        self.visible.truncate(before);
        let indices = declared.into_iter().collect::<Option<Vec<_>>>()?;
        let filter = match filter {
            None => None,
            Some(filter) => Some(filter?),
        };
        if value.is_none() {
            self.keep(filter);
            return None;
        }
        Some((indices, filter, value?))
    }

    /// The only index, in place of what a filter without it names that is not there; errors since number `told`.
    fn unfiltered(&mut self, reduce: &ast::Reduce, filter: &ast::Expr, told: usize) {
        let [index] = &reduce.indices[..] else { return };
        let index = index.name.as_str();
        if mentions(filter, &[index]) {
            return;
        }
        for diag in &mut self.cx.errors[told..] {
            let open = diag.code == Code::UndefinedName && diag.fixes.is_empty();
            if open && name_at(filter, diag.primary).is_some() {
                diag.help = None;
                diag.fixes
                    .push(Fix::replace(diag.primary, index, "did you mean {}?"));
            }
        }
    }

    /// The dtype after the `;`.
    pub(super) fn accumulator(&mut self, reduce: &ast::Reduce) -> Option<Option<DType>> {
        match &reduce.acc {
            None => Some(None),
            Some(dtype) => element_type(dtype, &mut self.cx.errors).map(Some),
        }
    }

    fn no_agg(&self, name: &str, reduce: &ast::Reduce) -> Diag {
        let span = reduce.agg.span;
        let diag = Diag::new(
            Code::UnknownAgg,
            span,
            format!("there is no aggregation `{name}`"),
        );
        if let (None, Some(last)) = (reduce.agg.as_ident(), reduce.agg.segments.last()) {
            if Agg::from_name(last.as_str()).is_some() || last.as_str() == SOFTMAX_SUM {
                return diag.fix(Fix::replace(span, last.as_str(), "it has no path: {}"));
            }
            return diag.help(format!(
                "an aggregation is used in the `ein!` that declares it: declare `agg {last}` here too, or \
                 call a block there"
            ));
        }
        let users = || self.cx.items.checked.aggs.iter().map(|(agg, _)| &**agg);
        if let ("norm", ReduceBody::Product(body)) = (name, &reduce.body)
            && nearest(name, users()).is_none()
        {
            let indices = super::tree::listed(&reduce.indices);
            let text = format!("sqrt(sum[{indices}] sq({body}))");
            let whole = span.join(body.span);
            return diag.fix(Fix::replace(whole, text, "write {}"));
        }
        let pair = matches!(&reduce.body, ReduceBody::Args(args) if args.len() == 2);
        if is_known_elsewhere(name) && nearest(name, users()).is_none() && !pair {
            return diag.help(instead(name));
        }
        match nearest_agg(name, users()) {
            Some(meant) => diag.fix(Fix::replace(span, meant, "did you mean {}?")),
            None => {
                let rows = crate::ein::agg::AGGS.iter().map(|row| row.name);
                let known: Vec<&str> = rows.chain([SOFTMAX_SUM]).chain(users()).collect();
                diag.help(format!("aggregations are `{}`", known.join("`, `")))
            }
        }
    }

    /// The dtypes of partial results and of the result.
    fn reduced_dtype(
        &mut self,
        agg: Agg,
        reduce: &ast::Reduce,
        text: &ast::Expr,
        mut value: Expr,
        acc: Option<DType>,
    ) -> Option<(DType, DType, Expr)> {
        if let Some(kind) = flex(&value) {
            let own = if kind == Flex::Float {
                DType::F32
            } else {
                DType::I64
            };
            fix(&mut value, acc.unwrap_or(own), &mut self.cx.errors)?;
        }
        let row = agg.row();
        let undefined = |fix: Fix| {
            let message = format!("`{agg}` is not defined for {}", value.dtype);
            Diag::new(Code::DtypeRule, text.span, message).fix(fix)
        };

        let bad = if row.boolean {
            (value.dtype != DType::Bool).then(|| {
                let zero = zero(value.dtype);
                let (close, shown) = (format!(" != {zero})"), format!("({text} != {zero})"));
                let compared = Fix::wrap(text.span, "(", &close, &shown, "compare it: {}");
                undefined(compared)
            })
        } else if value.dtype == DType::Bool {
            let whole = reduce.agg.span.join(text.span);
            let wanted = self.cx.wanted_dtype(whole).filter(|d| d.is_float());
            let number = row.int_identity.map_or(DType::F32, |_| DType::I64);
            let number = wanted.unwrap_or(number);
            Some(undefined(cast(text, number)))
        } else if row.int_identity.is_none() && value.dtype.is_int() {
            Some(undefined(cast(text, DType::F32)))
        } else {
            None
        };
        if let Some(diag) = bad {
            self.report(diag);
            return None;
        }
        if row.selects && reduce.indices.len() != 1 {
            let given = are(reduce.indices.len());
            let message = format!("`{agg}` takes one index, but {given} given");
            let diag = Diag::new(Code::Arity, reduce.agg.span, message);
            let names: Vec<&str> = reduce.indices.iter().map(|d| d.name.as_str()).collect();
            let merged = format!("let t[({})] = {text};", names.join(", "));
            let help =
                format!("merge the axes in a statement before, `{merged}`, then `{agg}[i] t[i]`");
            self.report(diag.help(help));
            return None;
        }
        if row.selects {
            return Some((value.dtype, DType::I64, value));
        }
        let Some(wanted) = acc else {
            let sums = matches!(agg, Agg::SUM | Agg::PROD) && value.dtype == DType::U8;
            if sums && !self.cx.is_of_any_dtype() {
                let over = super::tree::listed(&reduce.indices);
                let message = format!(
                    "this {agg} wraps at 256, as u8 does; `{agg}[{over}; i32] …` is one of i32"
                );
                let span = reduce.agg.span;
                self.cx.warnings.push(super::tree::Warning {
                    span,
                    unused: false,
                    message,
                });
            }
            return Some((value.dtype.default_accumulator(), value.dtype, value));
        };
        if !value.dtype.widens_to(wanted)
            && let Some(wider) = self.wider(reduce)
        {
            let message = format!("`{agg}` of {} would accumulate in {wanted}", value.dtype);
            let place = reduce.acc.as_ref().map_or(text.span, |acc| acc.span);
            self.report(Diag::new(Code::Narrowing, place, message).fix(wider));
            return None;
        }
        if !value.dtype.widens_to(wanted) {
            let message = format!("this {} value would be narrowed to {wanted}", value.dtype);
            // The parentheses keep the cast from looking like one of the last factor alone.
            let (mut fix, after) = (cast(text, wanted), Span::new(text.span.end, text.span.end));
            fix.edits
                .insert(0, (Span::new(text.span.start, text.span.start), "(".into()));
            fix.help = format!("`({})`", fix.help.trim_matches('`'));
            let diag = Diag::new(Code::Narrowing, text.span, message);
            self.report(diag.fix(fix.and(after, ")")));
            return None;
        }
        self.wraps(reduce, text, &value, wanted)?;
        Some((wanted, wanted, value))
    }

    /// In a block of any dtype, an accumulator that is too narrow for one of them is better left
    /// out: what is reduced accumulates in f32 or wider by itself.
    pub(super) fn wider(&self, reduce: &ast::Reduce) -> Option<Fix> {
        let acc = reduce.acc.as_ref()?;
        let help = format!("leave out `; {acc}`: floats accumulate in f32 or wider by themselves");
        let fix = without_accumulator(reduce, &help);
        fix.filter(|_| self.cx.is_of_any_dtype())
    }

    /// Adds to the error about a reduced index that is bound already: the only free index of the
    /// body is the one that is meant, else another name.
    fn suggest_free(&mut self, reduce: &ast::Reduce, bodies: &[&ast::Expr]) {
        let mut names = Vec::new();
        bodies.iter().for_each(|body| positions(body, &mut names));
        names.retain(|name| {
            self.visible_index(name).is_none()
                && self.cx.lookup(name).is_none()
                && !self.cx.dims.dims.contains(*name)
        });
        let other = match &names[..] {
            [name] => self.other_on_left(name, bodies),
            _ => None,
        };
        let whole = bodies
            .iter()
            .map(|body| body.span)
            .fold(reduce.agg.span, Span::join);
        let kept = match &reduce.indices[..] {
            [index] => self.cx.not_kept(index.name.as_str(), whole),
            _ => None,
        };
        let Some(error) = self.cx.errors.last_mut() else {
            return;
        };
        match (error.code, &names[..]) {
            (Code::ReducedOutput, _) if other.is_some() => error.fixes.extend(other),
            (Code::ReducedOutput, [name]) => {
                let help = format!("did you mean `{}[{name}]`?", reduce.agg);
                error.fixes.push(Fix::replace(error.primary, *name, &help));
            }
            (Code::ReducedOutput, _) if kept.is_some() => error.fixes.extend(kept),
            (Code::ReducedOutput | Code::NestedReduction, _) => {
                error.fixes.extend(another_index(reduce));
            }
            _ => {}
        }
    }
}

impl StmtCx<'_, '_> {
    /// The free index on the left in place of the reduced one, if it is that one's axis that the
    /// result is declared with there.
    fn other_on_left(&self, free: &str, bodies: &[&ast::Expr]) -> Option<Fix> {
        let error = self.cx.errors.last()?;
        let (place, _) = error.secondary.as_ref()?;
        let at = self.indices.iter().position(|decl| decl.span == *place)?;
        let Some(ast::StmtKind::Let { pat, .. }) = self.cx.stmt.map(|stmt| &stmt.kind) else {
            return None;
        };
        let bare = |index: &ast::LeftIndex| matches!(index, ast::LeftIndex::Index(decl) if decl.extent.is_none());
        let indices = pat.indices.as_ref().filter(|all| all.iter().all(bare))?;
        let declared = self.cx.result_axes(pat.names.first()?.as_str())?;
        let axis = declared
            .get(at)
            .filter(|_| declared.len() == indices.len())?;
        let of = |name: &str| -> Vec<_> {
            let bodies = bodies.iter();
            bodies
                .flat_map(|body| self.cx.axes_of(body, name))
                .collect()
        };
        let meant = of(free).contains(axis) && !of(&self.indices[at].name).contains(axis);
        let mut shown: Vec<String> = indices.iter().map(|i| i.to_string()).collect();
        shown[at] = free.to_owned();
        let help = format!("did you mean `let {}[{}]`?", pat.names[0], shown.join(", "));
        meant.then(|| Fix::replace(*place, free, &help))
    }
}
