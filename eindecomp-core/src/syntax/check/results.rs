//! The results of a block.

use super::body::BodyCx;
use super::fixes::{index_names, quotients_in, range, whole_tensors};
use super::tree::{Type, VarId};
use super::walk::{self, free};
use crate::ein::Dim;
use crate::syntax::ast::{self, CmpOp, Expr, ExprKind};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{are, count, is_like};
use crate::syntax::token::Span;

impl BodyCx<'_> {
    /// The results of a block, which have the declared types.
    pub(super) fn results(&mut self, ast: &ast::Block) -> Option<Vec<VarId>> {
        let declared: Vec<Type> = self.block.results.iter().map(|r| r.ty.clone()).collect();
        if let Some(value) = &ast.unnamed {
            self.unnamed(value, &declared);
        }
        let result = ast.result.as_ref()?;
        if declared.len() != ast.ret.types.len() {
            for name in &result.names {
                self.lookup_or_report(name);
            }
            return None;
        }
        if result.names.len() != declared.len() {
            let text = format!(
                "{} declared, but {} returned",
                count(declared.len(), "result is", "results are"),
                are(result.names.len())
            );
            let diag = Diag::new(Code::ResultType, result.span, text)
                .secondary(ast.ret.span, "declared here");
            let found = result.names.iter().map(|name| {
                let var = self.lookup_or_report(name)?;
                self.vars[var.at()].used = true;
                self.vars[var.at()].ty.clone()
            });
            let found: Vec<Option<Type>> = found.collect();
            let found: Option<Vec<Type>> = found.into_iter().collect();
            let declare = found.and_then(|found| self.declare(&found, ast.ret.span));
            let help = "several results are a tuple on both sides: `(y, z)`";
            self.errors.push(diag.fixes(declare).help(help));
            return None;
        }
        let mut out = Some(Vec::new());
        for (at, name) in result.names.iter().enumerate() {
            if result.names[..at].iter().any(|n| n.name == name.name) {
                let text = format!("`{name}` is returned twice");
                let diag = Diag::new(Code::Duplicate, name.span, text);
                self.errors
                    .push(diag.help("define the second as a tensor of its own"));
            }
            let Some(var) = self.lookup_or_report(name) else {
                out = None;
                continue;
            };
            let Some(ty) = self.vars[var.at()].ty.clone() else {
                out = None;
                continue;
            };
            // What mends its statement may give it another type.
            if self.vars[var.at()].guessed {
                out = None;
                continue;
            }
            if self.narrowed(self.vars[var.at()].span, &ty, &declared[at]) {
                out = None;
                continue;
            }
            let text = format!("`{name}` is `{ty}`, but `{}` is declared", declared[at]);
            let diag = Diag::new(Code::ResultType, name.span, text)
                .secondary(ast.ret.types[at].span, "declared here");
            if !self.same_type(&declared[at], &ty, &diag) {
                let place = self.vars[var.at()].span;
                let reordered = self.reordered(place, &ty, &declared[at]);
                let annotated = self.annotated(place, &ty, &declared[at]);
                let found = std::slice::from_ref(&ty);
                let transposed = self.transposed(place, &ty, &declared[at]);
                let ranged = self.ranged.get(&place).cloned();
                let counted = self.counted(place, &ty, &declared[at]);
                let cast = self.cast_value(place, &ty, &declared[at]);
                let cast = cast.filter(|_| counted.is_none());
                let swapped = self.swapped_call(place);
                let exact = self.exact_result(&ty, &declared[at]);
                let in_part = self.in_part(place, &ty, &declared[at]);
                let other = transposed.as_ref().or(ranged.as_ref()).or(counted.as_ref());
                let other = other.or(swapped.as_ref()).or(exact.as_ref());
                let declare = match other {
                    None => self.declare(found, ast.ret.types[at].span),
                    Some(_) => None,
                };
                let alone = other.is_none() && in_part.is_none() && reordered.is_none();
                let remade = alone
                    .then(|| self.remade(place, &ty, &declared[at]))
                    .flatten();
                let misread = self
                    .called_otherwise(place, &ty, &declared[at])
                    .filter(|_| alone);
                let (declare, diag) = match (remade, misread, declare) {
                    (Some(remade), _, declare) => {
                        let or = declare.map(|_| format!("or declare `{ty}`"));
                        let diag = diag.fix(remade);
                        (None, or.into_iter().fold(diag, Diag::help))
                    }
                    (None, Some(misread), _) => (None, diag.help(misread)),
                    (None, None, declare) => (declare, diag),
                };
                let of_dtype = self.declared_dtype(&ty, &declared[at], &ast.ret.types[at]);
                let of_dtype = of_dtype.filter(|_| annotated.is_none());
                let diag = diag.fixes(exact).fixes(in_part);
                let diag = diag.fixes(swapped).fixes(reordered).fixes(annotated);
                let diag = diag.fixes(counted).fixes(cast);
                let diag = diag.fixes(of_dtype);
                self.errors
                    .push(diag.fixes(transposed).fixes(ranged).fixes(declare));
            }
            if let Some(out) = &mut out {
                out.push(var);
            }
        }
        out
    }

    /// Does the statement at `place` cast the last factor of a reduction, where it may mean the result, which has the
    /// element type declared then?
    fn narrowed(&self, place: Span, found: &Type, declared: &Type) -> bool {
        let (Some(found), Some(declared)) = (found.tensor(), declared.tensor()) else {
            return false;
        };
        let told = self.errors.iter();
        let mut told = told.filter(|error| error.code == Code::NarrowingFactor);
        found.dtype != declared.dtype
            && told.any(|error| {
                let defined = self.defined_at(place);
                defined.is_some_and(|(_, value)| value.span.contains(error.primary))
            })
    }

    /// The clause that one of the quotients in the axes leaves no remainder, if they are those declared then.
    fn exact_result(&self, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (found.tensor()?, declared.tensor()?);
        if found.dtype != declared.dtype || found.axes.len() != declared.axes.len() {
            return None;
        }
        let mut quotients = Vec::new();
        for axis in found.axes.iter().chain(&declared.axes) {
            quotients_in(axis, &mut quotients);
        }
        let zero = Dim::from(0);
        let mut rests = quotients.into_iter().map(|(a, b)| a.rem(&b));
        rests.find_map(|rest| {
            let mut facts = self.facts.clone();
            facts.assume(&rest, CmpOp::Eq, &zero);
            let mut axes = found.axes.iter().zip(&declared.axes);
            let equal = axes.all(|(a, b)| facts.equal(a, b));
            equal.then(|| self.add_clause(&rest, CmpOp::Eq, &zero))?
        })
    }

    /// What to do about an index of the statement at `place` that is called like the axis declared, and runs over another
    /// dim where it is read.
    fn called_otherwise(&self, place: Span, found: &Type, declared: &Type) -> Option<String> {
        let (axes, declared) = (&found.tensor()?.axes, &declared.tensor()?.axes);
        let (pattern, _) = self.defined_at(place)?;
        let left = pattern
            .indices
            .as_ref()
            .filter(|_| axes.len() == declared.len())?;
        let axes = left.iter().zip(axes.iter().zip(declared));
        axes.into_iter().find_map(|(index, (found_axis, own))| {
            let ast::LeftIndex::Index(decl) = index else {
                return None;
            };
            let (name, other) = (decl.name.as_str(), found_axis.as_symbol()?);
            let odd = is_like(own, name) && decl.extent.is_none() && found_axis != own;
            odd.then(|| {
                format!(
                    "`{name}` runs over `{other}` where it is read: mend that, or declare `{found}`"
                )
            })
        })
    }

    /// A read of the beginning of an axis where the statement at `place` reads all of it: the declared result
    /// is shorter there.
    fn in_part(&self, place: Span, found: &Type, declared: &Type) -> Option<Fix> {
        let (found, declared) = (&found.tensor()?.axes, &declared.tensor()?.axes);
        let (at, decl, value) = self.odd_index(place, found, declared)?;
        let wanted = declared.get(at).filter(|_| found.len() == declared.len())?;
        let name = decl.name.as_str();
        let mut places = Vec::new();
        walk::stands(value, name, &mut places);
        let alone = decl.extent.is_none() && walk::in_accesses(value, name) == places.len();
        if !alone || places.is_empty() || !self.facts.holds(wanted, CmpOp::Le, &found[at]) {
            return None;
        }
        let range = range(name, decl.name.span, &wanted.to_string());
        let help = format!(
            "to read the beginning {}, and `0 + {name}` for `{name}` there",
            range.help
        );
        let fix = Fix { help, ..range };
        Some(places.into_iter().fold(fix, |fix, read| {
            fix.and(Span::new(read.start, read.start), "0 + ")
        }))
    }

    /// Reports each part of a result that is no name.
    fn unnamed(&mut self, value: &Expr, declared: &[Type]) {
        let mut value = value;
        while let ExprKind::Paren(inner) = &value.kind {
            value = inner;
        }
        let parts: Vec<&Expr> = match &value.kind {
            ExprKind::Tuple(parts) => parts.iter().collect(),
            _ => vec![value],
        };
        self.read(value);
        let mut taken: Vec<&str> = parts.iter().filter_map(|part| walk::name(part)).collect();
        for (at, part) in parts.iter().enumerate() {
            if walk::name(part).is_some() {
                continue;
            }
            let text = "the result of a block is a name or a tuple of names";
            let mut diag = Diag::new(Code::ResultNotName, part.span, text);
            let wanted = declared.get(at).filter(|_| parts.len() == declared.len());
            let names = ["y", "z", "out", "result"].into_iter();
            let mut names = names.filter(|name| !taken.contains(name));
            let fresh = names.find(|name| self.lookup(name).is_none());
            let whole = wanted.and_then(|wanted| self.whole(part, wanted));
            if let Some(whole) = whole {
                diag = diag.fix(Fix::replace(part.span, whole, "the whole tensor is {}"));
            } else if let (Some(wanted), Some(fresh)) = (wanted, fresh)
                && let Some((left, right)) = self.statement(part, wanted)
            {
                taken.push(fresh);
                let statement = format!("let {fresh}{left} = {right}; ");
                let help = format!("give it a name: `{statement}{fresh}`");
                let before = Fix::before(value.span, statement, &help);
                diag = diag.fix(match parts.len() {
                    1 => Fix::replace(value.span, before.edits[0].1.clone() + fresh, &help),
                    _ => before.and(part.span, fresh),
                });
            } else {
                diag = diag.help("give it a name first, by a `let` of its own");
            }
            self.errors.push(diag);
        }
    }

    /// Counts what an expression names as read.
    fn read(&mut self, e: &Expr) {
        if let Some(place) = walk::place(e)
            && let Some(name) = place.path.as_ident()
            && let Some(var) = self.lookup(name.as_str())
        {
            self.vars[var.at()].used = true;
        }
        e.children().into_iter().for_each(|e| self.read(e));
    }

    /// The tensor of which an expression reads the element at an index for each axis, if that is
    /// the result.
    fn whole(&self, e: &Expr, wanted: &Type) -> Option<String> {
        let ExprKind::Access { place, subs, .. } = &e.kind else {
            return None;
        };
        let name = place.as_ident()?;
        let ty = self.vars[self.lookup(name.as_str())?.at()].ty.as_ref()?;
        let bare = |sub: &ast::Sub| matches!(sub, ast::Sub::Expr(e) if walk::name(e).is_some());
        (ty == wanted && subs.iter().all(bare)).then(|| name.to_string())
    }

    /// The left indices and the right side of a statement that gives the result.
    fn statement(&self, e: &Expr, wanted: &Type) -> Option<(String, String)> {
        if let ExprKind::Call { path, args } = &e.kind
            && self.items.blocks.contains(&*path.to_string())
        {
            let names = args.iter().all(|arg| walk::name(arg).is_some());
            return names.then(|| (String::new(), e.to_string()));
        }
        let axes = &wanted.tensor()?.axes;
        let mut used = free(e);
        used.retain(|name| self.lookup(name).is_none() && self.dims.named(name).is_none());
        let whole = whole_tensors(self, e);
        let own = index_names(axes);
        let like = own.iter().all(|name| used.contains(&name.as_str()));
        let left = match used.len() == axes.len() && !like {
            true => used.iter().map(|name| (*name).to_owned()).collect(),
            false => own,
        };
        let known = used.iter().all(|name| left.iter().any(|l| l == name));
        // An index needs a tensor that gives its extent.
        let given = !whole.is_empty() || used.len() == left.len();
        let ranks = |(_, _, theirs): &(String, Span, Vec<Dim>)| theirs.len() == axes.len();
        if !known || !given || !whole.iter().all(ranks) || self.calls_block(e) {
            return None;
        }
        let mut right = e.clone();
        let spans: Vec<Span> = whole.iter().map(|(_, span, _)| *span).collect();
        read_by(&mut right, &spans, &left);
        Some((format!("[{}]", left.join(", ")), right.to_string()))
    }

    /// Does it call a block?
    pub(super) fn calls_block(&self, e: &Expr) -> bool {
        let block = matches!(&e.kind, ExprKind::Call { path, .. }
            if self.items.blocks.contains(&*path.to_string()));
        block || e.children().into_iter().any(|e| self.calls_block(e))
    }
}

/// The tensors named at `places` are read by these indices.
pub(super) fn read_by(e: &mut Expr, places: &[Span], indices: &[String]) {
    if let ExprKind::Name(place) = &e.kind
        && places.contains(&e.span)
    {
        let span = e.span;
        let index = |name: &String| {
            let name = ast::Ident {
                name: name.as_str().into(),
                span,
            };
            let path = ast::Path {
                global: false,
                segments: vec![name],
                span,
            };
            let place = ast::Place {
                path,
                fields: Vec::new(),
                span,
            };
            ast::Sub::Expr(Expr {
                kind: ExprKind::Name(place),
                span,
            })
        };
        e.kind = ExprKind::Access {
            place: place.clone(),
            subs: indices.iter().map(index).collect(),
            default: None,
        };
        return;
    }
    let children = e.children_mut().into_iter();
    children.for_each(|e| read_by(e, places, indices));
}
