//! The statements of a block, in order, with the variables in scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::extents;
use super::names::nearest;
use super::prove::{Equality, Facts};
use super::ranges;
use super::rank;
use super::tree::{
    Block, Body, Checked, Clause, IndexId, LoopVar, Origin, ParamRole, Place, Statement, Stmt,
    TensorType, Type, Var, VarId, Warning,
};
use super::types::{DimScope, element_type, extent, not_yet, reserved, resolve};
use crate::ein::Dim;
use crate::syntax::ast::{
    self, AttrKind, CmpOp, ForRange, Ident, Item, LeftIndex, Pattern, RType, StmtKind,
};
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

/// The program around a block.
pub(super) struct Items<'a> {
    /// Structs and the signatures of blocks.
    pub(super) checked: &'a Checked,
    /// Structs as written.
    pub(super) structs: BTreeMap<&'a str, &'a ast::Struct>,
    /// Scalar functions.
    pub(super) scalars: BTreeMap<&'a str, &'a ast::ScalarFn>,
    /// Every block, those with a broken signature too.
    pub(super) blocks: BTreeSet<&'a str>,
}

impl<'a> Items<'a> {
    pub(super) fn of(program: &'a ast::Program, checked: &'a Checked) -> Items<'a> {
        let mut items = Items {
            checked,
            structs: BTreeMap::new(),
            scalars: BTreeMap::new(),
            blocks: BTreeSet::new(),
        };
        for item in &program.items {
            let name = item.head().name.as_str();
            match item {
                Item::Struct(s) => drop(items.structs.insert(name, s)),
                Item::ScalarFn(f) => drop(items.scalars.insert(name, f)),
                Item::Block(_) => drop(items.blocks.insert(rank::base(name))),
                Item::Agg(_) | Item::Extern(_) => {}
            }
        }
        items
    }
}

/// A variable while its block is checked.
pub(super) struct Known {
    pub(super) name: Arc<str>,
    /// `None` if what defines it is wrong: whatever reads it says nothing.
    pub(super) ty: Option<Type>,
    pub(super) role: Option<ParamRole>,
    pub(super) mutable: bool,
    pub(super) span: Span,
    pub(super) used: bool,
}

/// A block being checked.
pub(super) struct BodyCx<'a> {
    pub(super) items: &'a Items<'a>,
    pub(super) block: Block,
    pub(super) dims: DimScope,
    pub(super) facts: Facts,
    pub(super) vars: Vec<Known>,
    /// Innermost last.
    scopes: Vec<BTreeMap<Arc<str>, VarId>>,
    /// What later statements define, for the message about a use before.
    upcoming: Vec<(Arc<str>, Span)>,
    pub(super) errors: Vec<Diag>,
    pub(super) warnings: Vec<Warning>,
}

/// A block with its body, and what is wrong with it.
pub(super) fn check(
    ast: &ast::Block,
    block: &Block,
    items: &Items<'_>,
) -> (Block, Vec<Diag>, Vec<Warning>) {
    let mut dims = DimScope {
        dims: block.dims.iter().cloned().collect(),
        consts: block.consts.clone(),
        ..DimScope::default()
    };
    let mut facts = Facts::default();
    for clause in &block.clauses {
        facts.assume(&clause.left, clause.cmp, &clause.right);
    }
    // Reported with the signature.
    let mut reported = Vec::new();
    for clause in &ast.clauses {
        if let ast::ClauseKind::Define(name, value) = &clause.kind
            && let Some(value) = dims.dim(value, &mut reported)
        {
            dims.defs.insert(name.name.clone(), value);
        }
    }
    dims.implicit.clear();
    let mut cx = BodyCx {
        items,
        block: block.clone(),
        dims,
        facts,
        vars: Vec::new(),
        scopes: vec![BTreeMap::new()],
        upcoming: Vec::new(),
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    for param in &block.params {
        let var = cx.define(&param.name, Some(param.ty.clone()), false);
        cx.vars[var.at()].role = Some(param.role);
    }
    let stmts = cx.stmts(&ast.stmts);
    let results = cx.results(ast);
    cx.finish(stmts, results)
}

impl BodyCx<'_> {
    fn finish(
        mut self,
        stmts: Option<Vec<Stmt>>,
        results: Option<Vec<VarId>>,
    ) -> (Block, Vec<Diag>, Vec<Warning>) {
        for var in &self.vars {
            if !var.used && var.ty.is_some() && !var.name.starts_with('_') {
                let message = format!("`{}` is never read", var.name);
                self.warnings.push(Warning {
                    span: var.span,
                    message,
                });
            }
        }
        for clause in std::mem::take(&mut self.dims.implicit) {
            self.require(clause);
        }
        self.block.consts = self.dims.consts;
        let vars: Option<Vec<Var>> = self
            .vars
            .into_iter()
            .map(|v| {
                Some(Var {
                    name: v.name,
                    ty: v.ty?,
                })
            })
            .collect();
        if self.errors.is_empty()
            && let (Some(stmts), Some(results), Some(vars)) = (stmts, results, vars)
        {
            self.block.body = Some(Body {
                vars,
                stmts,
                results,
            });
        }
        (self.block, self.errors, self.warnings)
    }

    /// Adds an implicit clause where it does not follow; over consts it is an obligation.
    pub(super) fn require(&mut self, clause: Clause) {
        if self.facts.holds(&clause.left, clause.cmp, &clause.right) {
            return;
        }
        self.facts.assume(&clause.left, clause.cmp, &clause.right);
        if self.dims.only_consts(&(&clause.left - &clause.right)) {
            if !self.block.obligations.contains(&clause) {
                self.block.obligations.push(clause);
            }
        } else if !self.block.clauses.contains(&clause) {
            self.block.clauses.push(clause);
        }
    }

    /// Are the two extents equal? Over consts alone that becomes an obligation.
    pub(super) fn equal(&mut self, a: &Dim, b: &Dim, what: &str, span: Span) -> Equality {
        let answer = self.facts.equality(a, b);
        if matches!(answer, Equality::Unknown)
            && self.dims.only_consts(&self.facts.normal(&(a - b)))
        {
            let (left, right) = (a.clone(), b.clone());
            let (cmp, origin) = (CmpOp::Eq, Origin::Equal(what.into()));
            self.require(Clause {
                left,
                cmp,
                right,
                origin,
                span,
            });
            return Equality::Equal;
        }
        answer
    }

    pub(super) fn define(&mut self, name: &Ident, ty: Option<Type>, mutable: bool) -> VarId {
        let id = VarId(self.vars.len() as u32);
        self.vars.push(Known {
            name: name.name.clone(),
            ty,
            role: None,
            mutable,
            span: name.span,
            used: false,
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
                } else if let Some(meant) = nearest(name.as_str(), visible) {
                    diag = diag.help(format!("did you mean `{meant}`?"));
                }
                self.errors.push(diag);
            }
        }
        found
    }

    /// Where a later statement defines the name.
    fn later(&self, name: &Ident) -> Option<Span> {
        self.upcoming
            .iter()
            .find(|(n, _)| *n == name.name)
            .map(|(_, span)| *span)
    }

    /// A variable or field, with its type. `None` says nothing if the variable is poisoned.
    pub(super) fn place(&mut self, place: &ast::Place) -> Option<Place> {
        let Some(root) = place.path.as_ident() else {
            let text = format!("`{}` is a Rust path, not a tensor", place.path);
            self.errors
                .push(Diag::new(Code::UndefinedName, place.path.span, text));
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
                self.errors.push(self.no_field(&ty, field));
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

    fn no_field(&self, ty: &Type, field: &Ident) -> Diag {
        let Type::Struct(s) = ty else {
            let text = format!("a value of type `{ty}` has no fields");
            return Diag::new(Code::UnknownField, field.span, text);
        };
        let text = format!("struct `{}` has no field `{field}`", s.name);
        let diag = Diag::new(Code::UnknownField, field.span, text);
        let Some(structure) = self.items.checked.structure(&s.name) else {
            return diag;
        };
        let fields = structure.fields.iter().map(|f| f.name.as_str());
        match nearest(field.as_str(), fields.clone()) {
            Some(meant) => diag.help(format!("did you mean `{meant}`?")),
            None => diag.help(format!(
                "its fields are `{}`",
                fields.collect::<Vec<_>>().join("`, `")
            )),
        }
    }

    /// Every statement, or `None` if one is wrong.
    fn stmts(&mut self, stmts: &[ast::Stmt]) -> Option<Vec<Stmt>> {
        let mut out = Some(Vec::new());
        for (at, stmt) in stmts.iter().enumerate() {
            let outer = std::mem::replace(&mut self.upcoming, defined(&stmts[at + 1..]));
            self.upcoming.extend(outer.iter().cloned());
            let checked = self.stmt(stmt);
            self.upcoming = outer;
            match (checked, &mut out) {
                (Some(stmt), Some(out)) => out.push(stmt),
                _ => out = None,
            }
        }
        out
    }

    fn stmt(&mut self, stmt: &ast::Stmt) -> Option<Stmt> {
        match &stmt.kind {
            StmtKind::Let {
                mutable,
                pat,
                ty,
                value,
            } => self.let_stmt(stmt, mutable.is_some(), pat, ty.as_ref(), value),
            StmtKind::Store { target, .. } => {
                self.errors.push(not_yet(target.span, "a store into state"));
                None
            }
            StmtKind::For { var, range, body } => self.for_stmt(var, range, body),
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
            reserved(name, &mut self.errors);
        }
        let made = match &pat.indices {
            Some(left) => self.tensor_stmt(stmt, pat, left, ty, value),
            None => match &value.kind {
                ast::ExprKind::Call { path, args } => {
                    self.let_call(pat, mutable, ty, path, args, stmt.span)
                }
                ast::ExprKind::Name(place) if pat.names.len() == 1 => {
                    self.alias(pat, mutable, ty, place)
                }
                _ => {
                    let text = format!("`{}` needs its indices on the left", pat.names[0]);
                    let diag = Diag::new(Code::Pattern, pat.span, text);
                    let help = format!("a tensor of rank 0 is `let {}[] = …`", pat.names[0]);
                    self.errors.push(diag.help(help));
                    None
                }
            },
        };
        match &made {
            None => {
                for name in &pat.names {
                    self.define(name, None, mutable);
                }
            }
            Some(Stmt::Tensor(s)) => self.vars[s.target.at()].mutable = mutable,
            Some(_) => {}
        }
        made
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
            )?;
        }
        let target = self.define(&pat.names[0], Some(value.ty.clone()), mutable);
        Some(Stmt::Alias { target, value })
    }

    /// An annotation as types.
    pub(super) fn annotation(&mut self, ty: &RType) -> Option<Vec<Type>> {
        let types: Vec<Option<Type>> = ty
            .types
            .iter()
            .map(|t| resolve(t, &mut self.dims, &self.items.structs, &mut self.errors))
            .collect();
        types.into_iter().collect()
    }

    /// Reports a declared type that is not the one found.
    pub(super) fn same_types(
        &mut self,
        declared: &[Type],
        found: &[Type],
        span: Span,
        code: Code,
    ) -> Option<()> {
        let equal = declared.len() == found.len()
            && declared
                .iter()
                .zip(found)
                .all(|(a, b)| self.same_type(a, b, span));
        if !equal {
            let show = |types: &[Type]| match types {
                [one] => format!("`{one}`"),
                many => format!("`({})`", super::tree::listed(many)),
            };
            let text = format!(
                "{} is declared, but the value is {}",
                show(declared),
                show(found)
            );
            self.errors.push(Diag::new(code, span, text));
        }
        equal.then_some(())
    }

    /// Equal element types and provably equal extents?
    pub(super) fn same_type(&mut self, a: &Type, b: &Type, span: Span) -> bool {
        let mut dims = |a: &Dim, b: &Dim| {
            matches!(
                self.equal(a, b, "the extents of one axis", span),
                Equality::Equal
            )
        };
        match (a, b) {
            (Type::Tensor(a), Type::Tensor(b)) => {
                a.dtype == b.dtype
                    && a.axes.len() == b.axes.len()
                    && a.axes.iter().zip(&b.axes).all(|(a, b)| dims(a, b))
            }
            (Type::Struct(a), Type::Struct(b)) => {
                a.name == b.name && a.args.iter().zip(&b.args).all(|(a, b)| dims(a, b))
            }
            (Type::Array(a, n), Type::Array(b, m)) => dims(n, m) && self.same_type(a, b, span),
            _ => false,
        }
    }

    fn tensor_stmt(
        &mut self,
        stmt: &ast::Stmt,
        pat: &Pattern,
        left: &[LeftIndex],
        ty: Option<&RType>,
        value: &ast::Expr,
    ) -> Option<Stmt> {
        let [name] = &pat.names[..] else {
            self.errors.push(not_yet(
                pat.span,
                "a statement that defines several tensors",
            ));
            return None;
        };
        let dtype = match ty {
            None => None,
            Some(ty) => Some(self.statement_dtype(ty)?),
        };
        let (mut cx, left) = super::expr::StmtCx::new(self, left)?;
        let value = cx.value(value, dtype);
        let super::expr::StmtCx {
            indices,
            uses,
            merged,
            mut poisoned,
            texts,
            ..
        } = cx;
        if value.is_none() {
            poisoned.extend((0..indices.len()).map(|at| IndexId(at as u16)));
        }
        let indices = extents::solve(self, indices, uses, merged, &poisoned);
        let (indices, mut value) = (indices?, value?);
        self.index_extents(&indices);
        ranges::prove(self, &indices, &left, &mut value, &texts)?;
        let axes = left
            .iter()
            .map(|axis| Dim::product(axis.iter().map(|i: &IndexId| &indices[i.at()].extent)))
            .collect();
        let ty = TensorType {
            dtype: dtype.unwrap_or(value.dtype),
            axes,
        };
        let (mut whole, mut split) = (false, Vec::new());
        for attr in &stmt.attrs {
            match &attr.kind {
                AttrKind::Whole => whole = true,
                AttrKind::Split(parts) => self.pins(parts, &indices, &mut split),
                _ => {}
            }
        }
        let target = self.define(name, Some(Type::Tensor(ty)), false);
        Some(Stmt::Tensor(Statement {
            target,
            indices,
            left,
            value,
            whole,
            split,
            span: stmt.span,
        }))
    }

    fn pins(
        &mut self,
        parts: &[(Ident, u64)],
        indices: &[super::tree::Index],
        split: &mut Vec<(Arc<str>, u64)>,
    ) {
        for (index, n) in parts {
            if indices.iter().any(|i| i.name == index.name) {
                split.push((index.name.clone(), *n));
            } else {
                let text = format!("the statement has no index `{index}`");
                self.errors
                    .push(Diag::new(Code::Attribute, index.span, text));
            }
        }
    }

    /// The dtype of an annotated statement. Extents may be given too, in which case they are those
    /// of the left.
    fn statement_dtype(&mut self, ty: &RType) -> Option<crate::ein::DType> {
        match &ty.types[..] {
            [
                ast::Type {
                    kind: ast::TypeKind::Tensor { dtype, axes: None },
                    ..
                },
            ] => element_type(dtype, &mut self.errors),
            _ => {
                let text = "the annotation of a statement is a dtype; its indices give the axes";
                self.errors.push(Diag::new(Code::Pattern, ty.span, text));
                None
            }
        }
    }

    /// Every extent is at least 0.
    fn index_extents(&mut self, indices: &[super::tree::Index]) {
        for index in indices {
            let (scope, errors) = (&mut self.dims, &mut self.errors);
            extent(&index.extent, index.span, scope, &self.facts, errors);
        }
    }

    fn for_stmt(&mut self, var: &Ident, range: &ForRange, body: &[ast::Stmt]) -> Option<Stmt> {
        self.scopes.push(BTreeMap::new());
        let facts = self.facts.clone();
        let (loop_var, element) = match range {
            ForRange::Array(array) => self.over_array(var, array),
            ForRange::Range(low, high) => (self.over_range(var, low, high), None),
        };
        if loop_var.is_none() || element.is_some() {
            self.define(var, element, false);
        }
        let body = self.stmts(body);
        self.scopes.pop();
        self.facts = facts;
        if let Some(LoopVar::Number { symbol, .. }) = &loop_var {
            self.dims.dims.remove(symbol);
        }
        Some(Stmt::For {
            var: loop_var?,
            body: body?,
        })
    }

    fn over_array(&mut self, var: &Ident, array: &Ident) -> (Option<LoopVar>, Option<Type>) {
        let Some(array_var) = self.lookup_or_report(array) else {
            return (None, None);
        };
        match self.vars[array_var.at()].ty.clone() {
            None => (None, None),
            Some(Type::Array(element, _)) => {
                let id = VarId(self.vars.len() as u32);
                let over = LoopVar::Element {
                    var: id,
                    array: array_var,
                };
                (Some(over), Some(*element))
            }
            Some(other) => {
                let text = format!("`{array}` is `{other}`, but a `for` needs an array");
                let diag = Diag::new(Code::Loop, array.span, text);
                self.errors
                    .push(diag.secondary(var.span, "to give this its values"));
                (None, None)
            }
        }
    }

    fn over_range(&mut self, var: &Ident, low: &ast::Dim, high: &ast::Dim) -> Option<LoopVar> {
        let bounds = [low, high].map(|bound| {
            let value = self.dims.dim(bound, &mut self.errors)?;
            if value.as_const().is_some() || self.dims.only_consts(&value) {
                return Some(value);
            }
            let text = format!("a `for` needs a constant range, but `{value}` is a dim");
            let diag = Diag::new(Code::Loop, bound.span, text);
            self.errors
                .push(diag.help("recurrences of symbolic length are outside the language"));
            None
        });
        let [Some(low), Some(high)] = bounds else {
            return None;
        };
        let symbol = var.name.clone();
        self.dims.dims.insert(symbol.clone());
        self.facts
            .assume(&Dim::sym(symbol.clone()), CmpOp::Ge, &low);
        self.facts
            .assume(&Dim::sym(symbol.clone()), CmpOp::Lt, &high);
        Some(LoopVar::Number { symbol, low, high })
    }

    fn results(&mut self, ast: &ast::Block) -> Option<Vec<VarId>> {
        let result = ast.result.as_ref()?;
        let declared: Vec<Type> = self.block.results.iter().map(|r| r.ty.clone()).collect();
        if result.names.len() != declared.len() {
            let text = format!(
                "{} results are declared, but {} returned",
                declared.len(),
                result.names.len()
            );
            let diag = Diag::new(Code::ResultType, result.span, text);
            self.errors
                .push(diag.secondary(ast.ret.span, "declared here"));
            return None;
        }
        let mut out = Some(Vec::new());
        for (at, name) in result.names.iter().enumerate() {
            if result.names[..at].iter().any(|n| n.name == name.name) {
                let text = format!("`{name}` is returned twice");
                self.errors
                    .push(Diag::new(Code::Duplicate, name.span, text));
            }
            let Some(var) = self.lookup_or_report(name) else {
                out = None;
                continue;
            };
            let Some(ty) = self.vars[var.at()].ty.clone() else {
                out = None;
                continue;
            };
            if !self.same_type(&declared[at], &ty, name.span) {
                let text = format!("`{name}` is `{ty}`, but `{}` is declared", declared[at]);
                let diag = Diag::new(Code::ResultType, name.span, text);
                self.errors
                    .push(diag.secondary(ast.ret.types[at].span, "declared here"));
            }
            if let Some(out) = &mut out {
                out.push(var);
            }
        }
        out
    }
}

/// What statements define, with their places.
fn defined(stmts: &[ast::Stmt]) -> Vec<(Arc<str>, Span)> {
    stmts
        .iter()
        .filter_map(|stmt| match &stmt.kind {
            StmtKind::Let { pat, .. } => Some(&pat.names),
            _ => None,
        })
        .flatten()
        .map(|name| (name.name.clone(), name.span))
        .collect()
}
