//! The statements of a block, in order, with the variables in scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::dims::{DimScope, numbers, tensors};
use super::instance::{Instances, is_generic};
use super::kernels;
use super::prove::Facts;
use super::quotients::Fraction;
use super::recovered::{self, Guess, Sketch};
use super::refused::Once;
use super::rounds;
use super::tree::{Block, Body, Checked, Obligation, Origin, Stmt, Type, Var, VarId, Warning};
use super::types::{Declared, one_more, reserved};
use super::variables::Known;
use super::walk;
use crate::syntax::ast::{self, Ident, Item};
use crate::syntax::diag::{Code, Diag, Fix};
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
    /// A fraction that the statement that is being checked loses.
    pub(super) fraction: Option<Span>,
    /// Tensors that have lost one.
    pub(super) fractions: Vec<Fraction>,
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
        fraction: None,
        fractions: Vec::new(),
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
    cx.lost_fractions();
    cx.swapped_results();
    cx.disordered_results();
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
            fraction: None,
            fractions: Vec::new(),
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
}
