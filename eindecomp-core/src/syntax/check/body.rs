//! The statements of a block, in order, with the variables in scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::dims::{DimScope, numbers, tensors};
use super::instance::{Instances, is_generic};
use super::kernels;
use super::prove::{Equality, Facts};
use super::recovered::{self, Guess, Sketch};
use super::refused::Once;
use super::rounds;
use super::tree::{
    Block, Body, Checked, Clause, Obligation, Origin, ParamRole, Place, Stmt, TensorType, Type,
    Var, VarId, Warning,
};
use super::types::{Declared, one_more, reserved};
use super::walk;
use crate::ein::Dim;
use crate::syntax::ast::{self, CmpOp, Ident, Item};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::token::Span;

/// The program around a block.
pub(super) struct Items<'a> {
    /// Structs and the signatures of blocks.
    pub(super) checked: &'a Checked,
    /// Structs as written, and other programs.
    pub(super) declared: &'a Declared<'a>,
    /// Scalar functions.
    pub(super) scalars: BTreeMap<&'a str, &'a ast::ScalarFn>,
    /// Every block, those with a broken signature too.
    pub(super) blocks: BTreeSet<&'a str>,
    /// Blocks that have instances.
    pub(super) generic: BTreeMap<&'a str, &'a ast::Block>,
    /// Instances so far.
    pub(super) instances: &'a Instances,
}

impl<'a> Items<'a> {
    pub(super) fn of(
        program: &'a ast::Program,
        declared: &'a Declared<'a>,
        checked: &'a Checked,
        instances: &'a Instances,
    ) -> Items<'a> {
        let mut items = Items {
            checked,
            declared,
            scalars: BTreeMap::new(),
            blocks: BTreeSet::new(),
            generic: BTreeMap::new(),
            instances,
        };
        for item in &program.items {
            let name = item.head().name.as_str();
            match item {
                Item::ScalarFn(f) => drop(items.scalars.insert(name, f)),
                Item::Block(block) => {
                    items.blocks.insert(name);
                    if is_generic(block) {
                        items.generic.entry(name).or_insert(block);
                    }
                }
                Item::Struct(_) | Item::Agg(_) => {}
            }
        }
        items
    }
}

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
}

/// A block being checked.
pub(super) struct BodyCx<'a> {
    pub(super) items: &'a Items<'a>,
    /// As written.
    pub(super) ast: &'a ast::Block,
    pub(super) block: Block,
    /// The statement that is being checked.
    pub(super) stmt: Option<&'a ast::Stmt>,
    pub(super) dims: DimScope,
    pub(super) facts: Facts,
    pub(super) vars: Vec<Known>,
    /// The loop around that is one statement.
    pub(super) once: Option<Once>,
    /// Innermost last.
    pub(super) scopes: Vec<BTreeMap<Arc<str>, VarId>>,
    /// Loop variables that run over numbers, in this block.
    pub(super) numbers: Vec<Arc<str>>,
    /// What later statements define, for the message about a use before.
    pub(super) upcoming: Vec<(Arc<str>, Span)>,
    /// Of results, by their places: the range of an index that would give the declared axis, where
    /// only reads under conditions give another.
    pub(super) ranged: BTreeMap<Span, Fix>,
    /// What results of wrong statements are taken to be.
    pub(super) guess: Option<Guess>,
    /// What the statement that is being checked says of its results.
    pub(super) sketch: Option<Sketch>,
    pub(super) errors: Vec<Diag>,
    pub(super) warnings: Vec<Warning>,
}

/// A block with its body, and what is wrong with it.
pub(super) fn check<'a>(
    ast: &'a ast::Block,
    block: &Block,
    items: &'a Items<'a>,
) -> (Block, Vec<Diag>, Vec<Warning>) {
    if let Some(splits) = &ast.splits {
        return kernels::check(ast, block, splits);
    }
    let first = pass(ast, block, items, None);
    let mut unknown = first.cx.vars.iter().filter(|var| var.ty.is_none());
    let open = unknown.any(|var| walk::goes_on(ast, &var.name));
    let (block, mut errors, warnings) = first.finish();
    if open {
        errors.extend(recovered::more(ast, &block, items, &errors));
    }
    (block, errors, warnings)
}

/// A block whose statements have been looked at, in order.
pub(super) struct Pass<'a> {
    cx: BodyCx<'a>,
    stmts: Option<Vec<Stmt>>,
    results: Option<Vec<VarId>>,
}

impl Pass<'_> {
    /// The number of errors before an element type was guessed.
    pub(super) fn before_dtypes(&self) -> Option<usize> {
        self.cx.guess.as_ref()?.dtype
    }

    /// The block with its body, and what is wrong with it.
    pub(super) fn finish(self) -> (Block, Vec<Diag>, Vec<Warning>) {
        self.cx.finish(self.stmts, self.results)
    }
}

/// Looks at a block; with a guess, what reads the result of a wrong statement is looked at too.
pub(super) fn pass<'a>(
    ast: &'a ast::Block,
    block: &Block,
    items: &'a Items<'a>,
    guess: Option<Guess>,
) -> Pass<'a> {
    let mut dims = DimScope {
        dims: block.dims.iter().cloned().collect(),
        consts: block.consts.clone(),
        generics: one_more(&ast.head, &ast.generics),
        in_body: true,
        numbers: numbers(ast),
        tensors: tensors(ast),
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
    let mut made = block.clone();
    for clause in &block.clauses {
        let difference = &clause.left - &clause.right;
        if clause.origin == Origin::Declared && dims.only_consts(&difference) {
            let text = "a `where` clause does not hold";
            made.obligations.push(Obligation {
                clause: clause.clone(),
                diag: Diag::new(Code::ClauseFalse, clause.span, text),
            });
        }
    }
    let mut cx = BodyCx {
        items,
        ast,
        block: made,
        stmt: None,
        dims,
        facts,
        vars: Vec::new(),
        once: None,
        scopes: vec![BTreeMap::new()],
        numbers: Vec::new(),
        upcoming: Vec::new(),
        ranged: BTreeMap::new(),
        guess,
        sketch: None,
        errors: Vec::new(),
        warnings: Vec::new(),
    };
    let mut known = block.params.iter().peekable();
    for param in &ast.params {
        let Some(param) = known.next_if(|known| known.name.span == param.name.span) else {
            cx.define(&param.name, None, false);
            continue;
        };
        if items
            .checked
            .aggs
            .iter()
            .any(|(agg, _)| *agg == param.name.name)
        {
            cx.reserved(&param.name);
        }
        cx.hidden_const(&param.ty, param.name.span);
        let var = cx.define(&param.name, Some(param.ty.clone()), false);
        cx.vars[var.at()].role = Some(param.role);
    }
    let stmts = cx.stmts(&ast.stmts);
    let results = cx.results(ast);
    cx.swapped_results();
    Pass { cx, stmts, results }
}

impl<'a> BodyCx<'a> {
    /// Of no block: for what stands outside of all.
    pub(super) fn bare(ast: &'a ast::Block, items: &'a Items<'a>) -> BodyCx<'a> {
        let name = ast.head.name.clone();
        BodyCx {
            items,
            ast,
            block: Block {
                name,
                dims: Vec::new(),
                params: Vec::new(),
                results: Vec::new(),
                tuple: false,
                clauses: Vec::new(),
                obligations: Vec::new(),
                consts: BTreeMap::new(),
                foreign: Vec::new(),
                splits: None,
                body: None,
            },
            stmt: None,
            dims: DimScope::default(),
            facts: Facts::default(),
            vars: Vec::new(),
            once: None,
            scopes: vec![BTreeMap::new()],
            numbers: Vec::new(),
            upcoming: Vec::new(),
            ranged: BTreeMap::new(),
            guess: None,
            sketch: None,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl<'a> BodyCx<'a> {
    /// The right side of the statement that is being checked.
    pub(super) fn value(&self) -> Option<&'a ast::Expr> {
        match &self.stmt?.kind {
            ast::StmtKind::Let { value, .. } | ast::StmtKind::Store { value, .. } => Some(value),
            _ => None,
        }
    }
}

impl BodyCx<'_> {
    /// Reports a name that is an aggregation's.
    pub(super) fn reserved(&mut self, name: &Ident) {
        let user = self
            .items
            .checked
            .aggs
            .iter()
            .any(|(agg, _)| *agg == name.name);
        if user {
            self.errors.push(super::types::is_agg(name));
        } else {
            reserved(name, &mut self.errors);
        }
    }

    /// Reports a Rust const in the fields of a parameter at `place` that a dim of the block hides:
    /// one name would be two sizes.
    fn hidden_const(&mut self, ty: &Type, place: Span) {
        let mut ty = ty;
        while let Type::Array(element, _) = ty {
            ty = element;
        }
        let Type::Struct(s) = ty else { return };
        let Some(structure) = self.items.checked.structure(&s.name) else {
            return;
        };
        let hidden = structure.consts.keys().find(|name| self.dims.hides(name));
        if let Some(name) = hidden {
            let text = format!(
                "`{name}` is a dim of this block, but a Rust const in struct `{}`",
                s.name
            );
            let diag = Diag::new(Code::Duplicate, place, text);
            let help = format!(
                "make it a dim of the struct, `struct {}<dim {name}>`, or call one of them otherwise",
                s.name
            );
            let diag = diag.secondary(structure.name.span, "the struct");
            self.errors.push(diag.help(help));
            return;
        }
        for field in &structure.fields {
            self.hidden_const(&field.ty, place);
        }
    }

    fn finish(
        mut self,
        stmts: Option<Vec<Stmt>>,
        results: Option<Vec<VarId>>,
    ) -> (Block, Vec<Diag>, Vec<Warning>) {
        // A statement with an error reads nothing.
        let whole = self.errors.is_empty();
        let mut lost = Vec::new();
        for var in &self.vars {
            if var.used || var.ty.is_none() || var.name.starts_with('_') {
                continue;
            }
            let outer = var.hides.map(|outer| &self.vars[outer.at()]);
            match outer.filter(|outer| whole && outer.ty == var.ty) {
                Some(outer) => lost.push(rounds::lost(&self, var, outer)),
                None => self.warnings.push(Warning {
                    span: var.span,
                    unused: true,
                    message: format!("`{}` is never read", var.name),
                }),
            }
        }
        self.errors.extend(lost);
        for clause in std::mem::take(&mut self.dims.implicit) {
            self.require(clause);
        }
        let statements = self.statements(stmts.as_deref().unwrap_or_default());
        if let (true, Some(stmts)) = (whole, &stmts) {
            let large = self.too_large(stmts, statements);
            self.errors.extend(large);
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
                statements,
            });
        }
        (self.block, self.errors, self.warnings)
    }

    /// Adds an implicit clause where it does not follow; over consts it is an obligation.
    pub(super) fn require(&mut self, clause: Clause) {
        let (code, text) = match &clause.origin {
            Origin::Declared => (Code::ClauseFalse, "a `where` clause does not hold".into()),
            Origin::Divisor => (Code::Extent, "a divisor is below 1".into()),
            Origin::Extent => (Code::Extent, "an extent is negative".into()),
            Origin::Access(access) => (Code::OutOfRange, format!("`{access}` leaves its axis")),
            Origin::Equal(what) => (Code::ExtentMismatch, format!("{what}, which fails")),
        };
        let diag = Diag::new(code, clause.span, text);
        self.require_or(clause, diag);
    }

    /// [`BodyCx::require`], `diag` being the error if it is over consts and does not hold.
    pub(super) fn require_or(&mut self, clause: Clause, diag: Diag) {
        if self.facts.holds(&clause.left, clause.cmp, &clause.right) {
            return;
        }
        if self.facts.refuted(&clause.left, clause.cmp, &clause.right) {
            self.errors.push(diag);
            return;
        }
        let symbols = (&clause.left - &clause.right).symbols();
        if let Some(number) = symbols.iter().find(|s| self.numbers.contains(s)) {
            let text = format!(
                "cannot prove `{clause}` for every value of `{number}`: {}",
                clause.origin
            );
            self.errors
                .push(Diag::new(Code::OutOfRange, clause.span, text));
            return;
        }
        self.facts.assume(&clause.left, clause.cmp, &clause.right);
        if self.dims.only_consts(&(&clause.left - &clause.right)) {
            let obligation = Obligation { clause, diag };
            if !self.block.obligations.contains(&obligation) {
                self.block.obligations.push(obligation);
            }
        } else if !self.block.clauses.contains(&clause) {
            self.block.clauses.push(clause);
        }
    }

    /// Are the two extents equal? Over consts alone that becomes an obligation, `diag` being the
    /// error if they are not.
    pub(super) fn equal(
        &mut self,
        a: &Dim,
        b: &Dim,
        what: &str,
        diag: impl FnOnce() -> Diag,
    ) -> Equality {
        let answer = self.facts.equality(a, b);
        if matches!(answer, Equality::Unknown)
            && self.dims.only_consts(&self.facts.normal(&(a - b)))
        {
            let (left, right) = (a.clone(), b.clone());
            let (cmp, origin) = (CmpOp::Eq, Origin::Equal(what.into()));
            let diag = diag();
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span: diag.primary,
            };
            self.require_or(clause, diag);
            return Equality::Equal;
        }
        answer
    }

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
        let visible = self.scopes.iter().flat_map(|scope| scope.iter());
        visible.filter_map(|(name, var)| {
            let ty = self.vars[var.at()].ty.as_ref()?.tensor()?;
            (!walk::reads(self.ast, name)).then_some((&**name, ty))
        })
    }

    /// A struct of another program that is not known yet, or one with errors of its own?
    fn is_unseen(&self, ty: &Type) -> bool {
        matches!(ty, Type::Struct(s) if self.items.checked.structure(&s.name).is_none())
    }
}
