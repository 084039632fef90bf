//! What a program mentions of the world around it: structs, blocks and Rust consts.

use std::collections::{BTreeMap, BTreeSet};

use super::dims::is_const;
use crate::ein::ScalarFn;
use crate::syntax::ast::{
    Clause, ClauseKind, Dim, DimKind, Expr, ExprKind, ForRange, Generic, Item, LeftIndex, Path,
    Pattern, Program, RType, Stmt, StmtKind, Type, TypeKind,
};

/// Paths by their text.
pub type Paths<'a> = BTreeMap<String, &'a Path>;

/// What a program mentions and does not contain.
#[derive(Clone, Debug, Default)]
pub struct Mentions<'a> {
    /// Structs.
    pub structs: Paths<'a>,
    /// Blocks, where the result is annotated or carried, or the path is no single name.
    pub blocks: Paths<'a>,
    /// Rust consts.
    pub consts: Paths<'a>,
}

impl<'a> Mentions<'a> {
    /// Of a program.
    pub fn of(program: &'a Program) -> Mentions<'a> {
        let items = program.items.iter().map(|i| i.head().name.as_str());
        let mut walk = Walk {
            items: items
                .chain(program.lost.iter().map(|name| &**name))
                .collect(),
            names: BTreeSet::new(),
            found: Mentions::default(),
        };
        program.items.iter().for_each(|item| walk.item(item));
        walk.found
    }
}

/// The consts of the signatures in a program.
pub(super) fn signature_consts(program: &Program) -> Paths<'_> {
    Mentions::of(program).consts
}

/// The struct that a type is made of.
pub(super) fn structure(ty: &Type) -> Option<&Path> {
    match &ty.kind {
        TypeKind::Tensor { .. } => None,
        TypeKind::Struct { path, .. } => Some(path),
        TypeKind::Array(element, _) => structure(element),
    }
}

struct Walk<'a> {
    items: BTreeSet<&'a str>,
    /// Dims and tensors of the item, wherever they are declared in it: consts have other names.
    names: BTreeSet<&'a str>,
    found: Mentions<'a>,
}

impl<'a> Walk<'a> {
    fn item(&mut self, item: &'a Item) {
        self.names.clear();
        match item {
            Item::Block(block) => {
                self.generics(&block.generics);
                self.names
                    .extend(block.params.iter().map(|p| p.name.as_str()));
                for clause in &block.clauses {
                    if let ClauseKind::Define(name, _) = &clause.kind {
                        self.names.insert(name.as_str());
                    }
                }
                self.declared(&block.stmts);
                block.params.iter().for_each(|param| self.ty(&param.ty));
                self.rtype(&block.ret);
                block.clauses.iter().for_each(|clause| self.clause(clause));
                self.stmts(&block.stmts);
            }
            Item::Struct(structure) => {
                self.generics(&structure.generics);
                structure.fields.iter().for_each(|field| self.ty(&field.ty));
            }
            Item::ScalarFn(_) | Item::Agg(_) => {}
        }
    }

    fn generics(&mut self, generics: &'a [Generic]) {
        self.names
            .extend(generics.iter().map(|g| g.name().as_str()));
    }

    fn declared(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Let { pat, .. } => {
                    self.names
                        .extend(pat.names.iter().map(|name| name.as_str()));
                }
                StmtKind::For { vars, body, .. } => {
                    self.names.extend(vars.iter().map(|var| var.as_str()));
                    self.declared(body);
                }
                _ => {}
            }
        }
    }

    fn constant(&mut self, path: &'a Path) {
        let known = path
            .as_ident()
            .is_some_and(|name| self.names.contains(name.as_str()));
        if !known && is_const(path) {
            self.found.consts.insert(path.to_string(), path);
        }
    }

    fn block(&mut self, path: &'a Path, annotated: bool) {
        let name = path.to_string();
        let built_in = (1..=3).any(|n| ScalarFn::from_name(&name, n).is_some());
        let single = path.as_ident().is_some();
        if !self.items.contains(&*name) && !built_in && (annotated || !single) {
            self.found.blocks.insert(name, path);
        }
    }

    fn ty(&mut self, ty: &'a Type) {
        match &ty.kind {
            TypeKind::Tensor { axes, .. } => axes.iter().flatten().for_each(|dim| self.dim(dim)),
            TypeKind::Struct { path, args } => {
                let local = path
                    .as_ident()
                    .is_some_and(|name| self.items.contains(name.as_str()));
                if !local {
                    self.found.structs.insert(path.to_string(), path);
                }
                args.iter().for_each(|dim| self.dim(dim));
            }
            TypeKind::Array(element, length) => {
                self.ty(element);
                self.dim(length);
            }
        }
    }

    fn rtype(&mut self, ty: &'a RType) {
        ty.types.iter().for_each(|ty| self.ty(ty));
    }

    fn dim(&mut self, dim: &'a Dim) {
        match &dim.kind {
            DimKind::Int(_) | DimKind::Rest(_) => {}
            DimKind::Name(path) => self.constant(path),
            DimKind::Neg(inner) | DimKind::Paren(inner) => self.dim(inner),
            DimKind::Binary(_, left, right) => {
                self.dim(left);
                self.dim(right);
            }
        }
    }

    fn clause(&mut self, clause: &'a Clause) {
        match &clause.kind {
            ClauseKind::Define(_, value) => self.dim(value),
            ClauseKind::Compare(left, _, right) => {
                self.dim(left);
                self.dim(right);
            }
        }
    }

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Let { pat, ty, value, .. } => {
                    self.pattern(pat);
                    ty.iter().for_each(|ty| self.rtype(ty));
                    match &value.kind {
                        ExprKind::Call { path, args } if pat.indices.is_none() => {
                            self.block(path, ty.is_some());
                            args.iter().for_each(|arg| self.expr(arg));
                        }
                        _ => self.expr(value),
                    }
                }
                StmtKind::Store { subs, value, .. } => {
                    subs.iter().for_each(|sub| self.expr(sub));
                    self.expr(value);
                }
                StmtKind::For { range, body, .. } => {
                    if let ForRange::Range(low, high) = range {
                        self.dim(low);
                        self.dim(high);
                    }
                    self.stmts(body);
                }
                StmtKind::Carry { path, args, .. } => {
                    self.block(path, true);
                    args.iter().for_each(|arg| self.expr(arg));
                }
                StmtKind::Error(_) => {}
            }
        }
    }

    fn pattern(&mut self, pat: &'a Pattern) {
        pat.indices
            .iter()
            .flatten()
            .for_each(|index| self.left(index));
    }

    fn left(&mut self, index: &'a LeftIndex) {
        match index {
            LeftIndex::Index(decl) => decl.extent.iter().for_each(|dim| self.dim(dim)),
            LeftIndex::Rest(_) => {}
            LeftIndex::Merged(members, _) => members.iter().for_each(|index| self.left(index)),
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Name(place) if place.fields.is_empty() => self.constant(&place.path),
            ExprKind::Reduce(reduce) => {
                let ranges = reduce
                    .indices
                    .iter()
                    .filter_map(|index| index.extent.as_ref());
                ranges.for_each(|dim| self.dim(dim));
            }
            _ => {}
        }
        for child in expr.children() {
            self.expr(child);
        }
    }
}
