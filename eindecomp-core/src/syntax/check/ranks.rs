//! Accesses with too many or too few indices.

use super::access::bare_name;
use super::expr::StmtCx;
use super::tree::{IndexId, listed};
use super::unbound::name_at;
use super::walk::{self, named, sub_name};
use crate::ein::Dim;
use crate::syntax::ast;
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{count, is_like};
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// The error about an access with too many or too few indices.
    pub(super) fn wrong_rank(
        &self,
        place: &ast::Place,
        axes: &[Dim],
        subs: &[ast::Sub],
        span: Span,
    ) -> Diag {
        let text = format!(
            "`{place}` has {} [{}], but {} given",
            count(axes.len(), "axis", "axes"),
            listed(axes),
            count(subs.len(), "index is", "indices are"),
        );
        let diag = Diag::new(Code::RankMismatch, span, text);
        let names: Vec<String> = subs.iter().map(|s| s.to_string()).collect();
        if axes.is_empty() {
            let help = "a tensor without axes is read by its name: {}";
            return diag.fix(Fix::replace(span, place.to_string(), help));
        }
        if let Some(fix) =
            flattened(place, subs, axes.len()).filter(|_| self.may_flatten(subs, axes))
        {
            return diag.fix(fix);
        }
        if let Some(fix) = self.unmerged(place, axes, subs) {
            return diag.fix(fix);
        }
        if let Some(help) = of_any_rank(place, &names, axes).filter(|_| self.cx.is_ranked()) {
            return diag.help(help);
        }
        if subs.len() + 1 == axes.len() {
            // The axis to leave out so that most indices stand on an axis that they run over
            // elsewhere, or of their own name.
            let elsewhere: Vec<Option<Dim>> = names.iter().map(|n| self.runs_over(n)).collect();
            let score = |gap: usize| {
                let kept = axes.iter().enumerate().filter(|(at, _)| *at != gap);
                let pairs = kept.map(|(_, axis)| axis);
                let pairs = pairs.zip(names.iter().zip(&elsewhere));
                let fits = |(axis, (name, other)): &(&Dim, (&String, &Option<Dim>))| match other {
                    Some(other) => other == *axis,
                    None => is_like(axis, name),
                };
                let open = self.index_like(&axes[gap]);
                let open = open.filter(|own| !names.contains(own));
                let unused = open.as_ref().filter(|own| {
                    let value = self.cx.value();
                    value.is_some_and(|value| walk::in_accesses(value, own) == 0)
                });
                // `t` stands for a second index over `S`.
                let second = pairs
                    .clone()
                    .filter(|(axis, (name, _))| is_second(axis, name));
                let second = second.count();
                let fits = pairs.filter(fits).count();
                (fits, unused.is_some(), second, open.is_some())
            };
            // The first of equals; what merges indices stays where it stands.
            let merges = subs.iter().any(|sub| matches!(sub, ast::Sub::Merged(..)));
            let order = |gap: usize| if merges { gap } else { axes.len() - gap };
            let gap = (0..axes.len()).max_by_key(|&gap| (score(gap), order(gap)));
            let gap = gap.unwrap_or(0);
            return self.missing(diag, place, &axes[gap], subs, gap);
        }
        if subs.len() < axes.len() {
            return diag.help(format!("give an index for each axis of [{}]", listed(axes)));
        }
        if let Some(fix) = self.repeated(place, axes, subs) {
            return diag.fix(fix);
        }
        // The indices that are called like the axes, in order.
        let mut rest = names.iter();
        let kept: Option<Vec<&String>> = axes
            .iter()
            .map(|axis| rest.find(|name| is_like(axis, name)))
            .collect();
        match (kept, subs.first(), subs.last()) {
            (Some(kept), Some(first), Some(last)) => {
                let kept: Vec<&str> = kept.into_iter().map(|name| &**name).collect();
                let idle = names
                    .iter()
                    .find(|name| !kept.contains(&&***name) && self.is_reduced_here(name));
                let kept = kept.join(", ");
                if let Some(idle) = idle {
                    return diag.help(format!(
                        "`{place}[{kept}]` reads all of its axes, and nothing is left for `{idle}` to reduce"
                    ));
                }
                let help = format!("did you mean `{place}[{kept}]`?");
                diag.fix(Fix::replace(first.span().join(last.span()), kept, &help))
            }
            _ => diag.help(format!("leave out {} of them", subs.len() - axes.len())),
        }
    }

    /// One index less where it stands twice side by side, if the others run over the axes that they then read.
    fn repeated(&self, place: &ast::Place, axes: &[Dim], subs: &[ast::Sub]) -> Option<Fix> {
        let at = subs.windows(2).position(|two| {
            let [a, b] = [&two[0], &two[1]].map(sub_name);
            a.is_some() && a == b
        })?;
        let kept: Vec<&ast::Sub> = (0..subs.len())
            .filter(|n| *n != at)
            .map(|n| &subs[n])
            .collect();
        let fits = kept.len() == axes.len()
            && kept.iter().zip(axes).all(|(sub, axis)| {
                let extent = sub_name(sub).and_then(|name| self.declared_extent(name));
                extent.is_none_or(|extent| self.cx.facts.equal(&extent, axis))
            });
        let shown: Vec<String> = kept.iter().map(|sub| sub.to_string()).collect();
        let help = format!("did you mean `{place}[{}]`?", shown.join(", "));
        let span = Span::new(subs[at].span().start, subs[at + 1].span().start);
        fits.then(|| Fix::replace(span, "", &help))
    }

    /// The extent of an index by its `in`, where it has one.
    fn declared_extent(&self, name: &str) -> Option<Dim> {
        let index = self.visible_index(name)?;
        let (extent, _) = self.indices[index.at()].extent.as_ref()?;
        Some(extent.clone())
    }

    /// Is it an index of a reduction that nothing else in the statement uses?
    fn is_reduced_here(&self, name: &str) -> bool {
        let reduced = |id: IndexId| self.indices[id.at()].reduced;
        let mut uses = Vec::new();
        if let Some(value) = self.cx.value() {
            named(value, name, &mut uses);
        }
        self.visible_index(name).is_some_and(reduced) && uses.len() < 2
    }

    /// Of the errors since number `since`: the index of a store's value that nothing binds stands for the
    /// axis that has no index, and is told with that.
    pub(super) fn axis_left_out(
        &mut self,
        since: usize,
        place: &ast::Place,
        subs: &[ast::Sub],
        value: &ast::Expr,
    ) {
        let Some(state) = self
            .cx
            .type_of(place)
            .filter(|t| t.axes.len() == subs.len() + 1)
        else {
            return;
        };
        let errors = &self.cx.errors[since..];
        let unbound = errors.iter().filter(|e| e.code == Code::UnboundIndex);
        let mut names: Vec<&str> = unbound
            .filter_map(|e| name_at(value, e.primary))
            .map(ast::Ident::as_str)
            .collect();
        names.dedup();
        let [name] = names[..] else { return };
        let extent = self.runs_over(name);
        let axes = || state.axes.iter();
        let gap = axes()
            .position(|axis| Some(axis) == extent.as_ref())
            .or_else(|| axes().position(|axis| is_like(axis, name)));
        let Some(gap) = gap else { return };
        let (_, fix) = completed(place, &state.axes[gap], subs, (gap, name));
        let Some(fix) = fix else { return };
        let mut errors = self.cx.errors.split_off(since);
        errors.retain(|e| e.code != Code::UnboundIndex);
        for error in errors.iter_mut().filter(|e| e.code == Code::RankMismatch) {
            (error.fixes, error.help) = (vec![fix.clone()], None);
        }
        self.cx.errors.extend(errors);
    }

    /// `w[d, (h, e)]` for `w[d, h, e]`: neighbours whose extents multiply to that of the axis where
    /// they stand.
    fn unmerged(&self, place: &ast::Place, axes: &[Dim], subs: &[ast::Sub]) -> Option<Fix> {
        let more = subs
            .len()
            .checked_sub(axes.len())
            .filter(|more| *more > 0)?;
        let extent = |sub: &ast::Sub| {
            let name = sub_name(sub)?;
            let named = || self.cx.dims.named(&name.to_uppercase());
            let index = self.visible_index(name)?;
            let ranged = self.indices[index.at()].extent.as_ref();
            let ranged = ranged.map(|(extent, _)| extent.clone());
            self.runs_over(name).or(ranged).or_else(named)
        };
        let extents: Vec<Option<Dim>> = subs.iter().map(extent).collect();
        let equal = |a: &Dim, b: &Dim| self.cx.facts.equal(a, b);
        let at = (0..axes.len()).find(|&at| {
            let members: Option<Vec<&Dim>> =
                extents[at..=at + more].iter().map(Option::as_ref).collect();
            let product = members.and_then(Dim::try_product);
            product.is_some_and(|product| equal(&product, &axes[at]))
        })?;
        let names: Vec<String> = subs.iter().map(ast::Sub::to_string).collect();
        let mut shown = names.clone();
        shown.splice(
            at..=at + more,
            [format!("({})", names[at..=at + more].join(", "))],
        );
        let help = format!("did you mean `{place}[{}]`?", shown.join(", "));
        let span = subs[at].span().join(subs[at + more].span());
        let fix = Fix::wrap(span, "(", ")", "", &help);
        // All but one of the members have an extent by other means.
        let open = (at..=at + more).filter(|&nth| {
            let name = &names[nth];
            let index = self
                .visible_index(name)
                .map(|index| &self.indices[index.at()]);
            self.runs_over(name).is_none() && index.is_some_and(|decl| decl.extent.is_none())
        });
        let open: Vec<usize> = open.collect();
        let ranged = open.split_last().map_or(&[][..], |(_, before)| before);
        Some(ranged.iter().fold(fix, |mut fix, &nth| {
            if let (Some(index), Some(extent)) = (self.visible_index(&names[nth]), &extents[nth]) {
                fix.help += &format!(" Then `{} in {extent}`", names[nth]);
                let end = self.indices[index.at()].span.end;
                fix.edits
                    .push((Span::new(end, end), format!(" in {extent}")));
            }
            fix
        }))
    }

    /// The extent of the axes that an index alone reads in the statement, if it is one.
    fn runs_over(&self, index: &str) -> Option<Dim> {
        let found = self.cx.axes_of(self.cx.value()?, index);
        let first = found.first()?.clone();
        found.iter().all(|axis| *axis == first).then_some(first)
    }

    /// May the members of merged reads be indices of axes of their own: does none run over anything else
    /// than the axis where it would stand?
    fn may_flatten(&self, subs: &[ast::Sub], axes: &[Dim]) -> bool {
        let members = subs.iter().flat_map(|sub| match sub {
            ast::Sub::Merged(parts, _) => &parts[..],
            other => std::slice::from_ref(other),
        });
        members.zip(axes).all(|(sub, axis)| {
            let extent = sub_name(sub).and_then(|name| self.extent_here(name));
            extent.is_none_or(|extent| self.cx.facts.equal(&extent, axis))
        })
    }

    /// The extent of a visible index by its `in`, or by what it reads alone.
    fn extent_here(&self, name: &str) -> Option<Dim> {
        let index = self.visible_index(name)?;
        let ranged = self.indices[index.at()].extent.as_ref();
        let ranged = ranged.map(|(extent, _)| extent.clone());
        ranged.or_else(|| self.runs_over(name))
    }

    /// Axis number `gap` of an access has no index.
    fn missing(
        &self,
        diag: Diag,
        place: &ast::Place,
        axis: &Dim,
        subs: &[ast::Sub],
        gap: usize,
    ) -> Diag {
        let used = |name: &str| {
            let mut names = Vec::new();
            let exprs = subs.iter().flat_map(ast::Sub::exprs);
            exprs.for_each(|e| named(e, name, &mut names));
            !names.is_empty()
        };
        let fits = |name: &String| {
            let extent = self.extent_here(name);
            extent.is_some_and(|extent| self.cx.facts.equal(&extent, axis))
        };
        let visible = self.visible.iter();
        let visible = visible.map(|index| self.indices[index.at()].name.to_string());
        // The index of its name, else those that run over as much.
        let meant: Vec<String> = match self.index_like(axis).filter(|name| !used(name)) {
            Some(name) => vec![name],
            None => visible.filter(|name| !used(name) && fits(name)).collect(),
        };
        let bare = subs.iter().all(|sub| match sub {
            ast::Sub::Expr(e) => bare_name(e).is_some(),
            _ => true,
        });
        // A size that says nothing else is read at its only position.
        let meant = match axis.as_const() {
            Some(1) if meant.is_empty() => vec!["0".to_owned()],
            _ => meant,
        };
        match &meant[..] {
            [] => {
                let (shown, _) = completed(place, axis, subs, (gap, "…"));
                diag.help(format!(
                    "{shown}, with an index that is on the left or reduced"
                ))
            }
            [name] => match completed(place, axis, subs, (gap, name)) {
                (_, Some(fix)) if bare => diag.fix(fix),
                (help, _) => diag.help(help),
            },
            names => {
                let shown = names.iter().map(|name| with(place, subs, (gap, name)));
                let shown: Vec<String> = shown.collect();
                let help = format!("axis `{axis}` is missing: `{}`", shown.join("` or `"));
                diag.help(help)
            }
        }
    }
}

/// Is an index called like the one behind that of an axis, as `t` is behind `s`?
fn is_second(axis: &Dim, index: &str) -> bool {
    let own = axis.to_string().to_lowercase();
    match (own.as_bytes(), index.as_bytes()) {
        ([own], [index]) => own + 1 == *index,
        _ => false,
    }
}

/// An access with one index more, as text.
fn with(place: &ast::Place, subs: &[ast::Sub], (gap, name): (usize, &str)) -> String {
    let mut shown: Vec<String> = subs.iter().map(ast::Sub::to_string).collect();
    shown.insert(gap, name.to_owned());
    format!("{place}[{}]", shown.join(", "))
}

/// An access with an index for the axis that has none: a help in words, and the edit, if there is an index to put
/// it beside.
fn completed(
    place: &ast::Place,
    axis: &Dim,
    subs: &[ast::Sub],
    (gap, name): (usize, &str),
) -> (String, Option<Fix>) {
    let help = format!(
        "axis `{axis}` is missing: `{}`",
        with(place, subs, (gap, name))
    );
    let fix = match (subs.get(gap), subs.last()) {
        (Some(next), _) => Some(Fix::before(next.span(), format!("{name}, "), &help)),
        (None, Some(last)) => Some(Fix::after(last.span(), format!(", {name}"), &help)),
        (None, None) => None,
    };
    (help, fix)
}

/// The members of merged axes as axes of their own, if there are so many.
fn flattened(place: &ast::Place, subs: &[ast::Sub], rank: usize) -> Option<Fix> {
    let members = |sub: &ast::Sub| match sub {
        ast::Sub::Merged(parts, _) => parts.len(),
        _ => 1,
    };
    let text = |sub: &ast::Sub| match sub {
        ast::Sub::Merged(parts, _) => listed(parts),
        other => other.to_string(),
    };
    if subs.iter().map(members).sum::<usize>() != rank {
        return None;
    }
    let shown: Vec<String> = subs.iter().map(text).collect();
    let help = format!("did you mean `{place}[{}]`?", shown.join(", "));
    let merged = subs
        .iter()
        .filter(|sub| matches!(sub, ast::Sub::Merged(..)));
    let edits: Vec<(Span, String)> = merged.map(|sub| (sub.span(), text(sub))).collect();
    (!edits.is_empty()).then_some(Fix { help, edits })
}

/// `..l` in place of an `l` that stands for all axes of a `..L`, of which an instance has some.
fn of_any_rank(place: &ast::Place, names: &[String], axes: &[Dim]) -> Option<String> {
    let of = |name: &str| {
        let first = format!("{name}0");
        axes.iter().any(|axis| is_like(axis, &first))
    };
    let name = names.iter().find(|name| of(name))?;
    let shown = names.iter().map(|other| match other == name {
        true => format!("..{name}"),
        false => other.clone(),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    Some(format!(
        "any number of axes is `..{name}`, here and where it is bound: `{place}[{shown}]`"
    ))
}
