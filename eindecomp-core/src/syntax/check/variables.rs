//! The variables in scope: by name, by place.

use std::sync::Arc;

use super::body::BodyCx;
use super::tree::{ParamRole, Place, TensorType, Type, VarId};
use super::walk;
use crate::syntax::ast::{self, Ident};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

/// A variable while its block is checked.
pub(super) struct Known {
    pub(super) name: Arc<str>,
    /// `None` if what defines it is wrong and does not say: whatever reads it says nothing.
    pub(super) ty: Option<Type>,
    /// What defines it is wrong, and the type is what it says all the same.
    pub(super) guessed: bool,
    pub(super) role: Option<ParamRole>,
    pub(super) mutable: bool,
    pub(super) span: Span,
    pub(super) used: bool,
    /// It lasts for one round of a loop, and hides this one outside.
    pub(super) hides: Option<VarId>,
    /// It is an element of this array, another one each round.
    pub(super) element_of: Option<VarId>,
    /// It is a sum of integers.
    pub(super) sum: bool,
}

impl BodyCx<'_> {
    pub(super) fn define(&mut self, name: &Ident, ty: Option<Type>, mutable: bool) -> VarId {
        let id = VarId(self.vars.len() as u32);
        let mut outer = self.scopes.iter().rev().skip(1);
        let hides = outer.find_map(|scope| scope.get(&name.name).copied());
        self.vars.push(Known {
            name: name.name.clone(),
            ty,
            guessed: false,
            role: None,
            mutable,
            span: name.span,
            used: false,
            hides,
            element_of: None,
            sum: false,
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.name.clone(), id);
        }
        id
    }

    pub(super) fn lookup(&self, name: &str) -> Option<VarId> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name).copied())
    }

    /// The variable, or an error with the name that may be meant.
    pub(super) fn lookup_or_report(&mut self, name: &Ident) -> Option<VarId> {
        let found = self.lookup(name.as_str());
        match found {
            Some(var) => self.vars[var.at()].used = true,
            None => {
                let text = format!("`{name}` is not defined here");
                let mut diag = Diag::new(Code::UndefinedName, name.span, text);
                let visible = self.scopes.iter().flat_map(|s| s.keys()).map(|n| &**n);
                if let Some(later) = self.later(name) {
                    diag.message = format!("`{name}` is used before it is defined");
                    diag = diag.secondary(later, "it is defined here");
                    diag = diag.help("define it before it is used");
                } else if self.defines(name) {
                    diag.message = format!("`{name}` is read where it is defined");
                    diag = diag.help(
                        "a statement gives all elements at once: recurrences of symbolic length are outside the language, \
                         those over constants are the rounds of a `for` that calls a block",
                    );
                } else if let Some(meant) = nearest(name.as_str(), visible) {
                    diag = diag.fix(Fix::replace(name.span, meant, "did you mean {}?"));
                } else {
                    diag = diag.help("make it a parameter, or define it before");
                }
                self.errors.push(diag);
            }
        }
        found
    }

    /// Does the statement that is being checked define the name, with its indices?
    fn defines(&self, name: &Ident) -> bool {
        match self.stmt.map(|stmt| &stmt.kind) {
            Some(ast::StmtKind::Let { pat, .. }) => {
                let own = pat.names.iter().any(|own| own.name == name.name);
                own && pat.indices.as_ref().is_some_and(|all| !all.is_empty())
            }
            _ => false,
        }
    }

    /// Where a later statement defines the name.
    fn later(&self, name: &Ident) -> Option<Span> {
        self.upcoming
            .iter()
            .rev()
            .find(|(n, _)| *n == name.name)
            .map(|(_, span)| *span)
    }

    /// A variable or field, with its type. `None` says nothing if the variable is poisoned.
    pub(super) fn place(&mut self, place: &ast::Place) -> Option<Place> {
        let Some(root) = place.path.as_ident() else {
            let text = format!("`{}` is a Rust path, not a tensor", place.path);
            let diag = Diag::new(Code::UndefinedName, place.path.span, text);
            self.errors
                .push(diag.help("tensors come in as parameters, `#[weight]` for those that stay"));
            return None;
        };
        let var = self.lookup_or_report(root)?;
        let mut ty = self.vars[var.at()].ty.clone()?;
        let mut fields = Vec::new();
        for field in &place.fields {
            let found = match &ty {
                Type::Struct(s) => self.items.checked.field_type(s, field.as_str()),
                _ => None,
            };
            let Some(found) = found else {
                if !self.is_unseen(&ty) {
                    self.errors.push(self.no_field(&ty, field));
                }
                return None;
            };
            if let Type::Struct(s) = &ty
                && let Some(structure) = self.items.checked.structure(&s.name)
            {
                self.dims.consts.extend(structure.consts.clone());
            }
            ty = found;
            fields.push(field.name.clone());
        }
        Some(Place { var, fields, ty })
    }

    /// The tensor that a variable or field is, of which nothing is reported.
    pub(super) fn type_of(&self, place: &ast::Place) -> Option<TensorType> {
        let var = self.lookup(place.path.as_ident()?.as_str())?;
        let mut ty = self.vars[var.at()].ty.clone()?;
        for field in &place.fields {
            let Type::Struct(s) = &ty else { return None };
            ty = self.items.checked.field_type(s, field.as_str())?;
        }
        ty.tensor().cloned()
    }

    /// The tensors in scope that nothing in the block reads, with their types.
    pub(super) fn unread(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        let unread = |(name, _): &(&str, &TensorType)| !walk::reads(self.ast, name);
        self.tensors().filter(unread)
    }

    /// The tensors in scope, with their types.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &TensorType)> {
        let visible = self.scopes.iter().flat_map(|scope| scope.iter());
        visible.filter_map(|(name, var)| {
            let ty = self.vars[var.at()].ty.as_ref()?.tensor()?;
            Some((&**name, ty))
        })
    }

    /// The only tensor in scope of this type, but for these.
    pub(super) fn another(&self, ty: &TensorType, besides: &[&ast::Place]) -> Option<&str> {
        let fits = |other: &TensorType| {
            let mut axes = other.axes.iter().zip(&ty.axes);
            other.dtype == ty.dtype
                && other.axes.len() == ty.axes.len()
                && axes.all(|(a, b)| self.facts.equal(a, b))
        };
        let beside = |name: &str| besides.iter().any(|place| place.to_string() == name);
        let mut found = self
            .tensors()
            .filter(|(name, ty)| !beside(name) && fits(ty));
        let (first, none) = (found.next()?, found.next());
        none.is_none().then_some(first.0)
    }

    /// A struct of another program that is not known yet, or one with errors of its own?
    fn is_unseen(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct(s) if self.items.checked.structure(&s.name).is_none())
    }
}
