//! Rank polymorphism: a block with `dim ..L` stands for one block per number of axes.
//!
//! The instance for `k` axes of block `f` is called `f/k`; its dims `L` and indices `l` become
//! `L0`, `L1`, … and `l0`, `l1`, ….

use std::sync::Arc;

use crate::syntax::ast::{
    Block, Dim, DimKind, Expr, ExprKind, Generic, Ident, IndexDecl, Item, LeftIndex, Path, Place,
    Program, RType, ReduceBody, Stmt, StmtKind, Sub, Type, TypeKind,
};

/// The most axes that a `..L` may stand for.
pub(super) const MAX_REST: usize = 6;

/// The rank whose errors are reported.
const SHOWN: usize = 1;

/// The program with every rank-polymorphic block replaced by its instances.
pub(super) fn expand(program: &Program) -> Program {
    let items = program.items.iter().flat_map(|item| match item {
        Item::Block(block) if rest(block).is_some() => {
            let ranks = std::iter::once(SHOWN).chain((0..=MAX_REST).filter(|k| *k != SHOWN));
            ranks
                .map(|rank| Item::Block(instance(block, rank)))
                .collect()
        }
        item => vec![item.clone()],
    });
    Program {
        items: items.collect(),
    }
}

/// The one `..L` of a block.
fn rest(block: &Block) -> Option<&Ident> {
    let mut rests = block.generics.iter().filter_map(|generic| match generic {
        Generic::Rest(name) => Some(name),
        _ => None,
    });
    let first = rests.next()?;
    rests.next().is_none().then_some(first)
}

/// The name without the rank of an instance.
pub(crate) fn base(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Are errors in this block's body reported? Those of other ranks would say the same again.
pub(super) fn is_shown(name: &str) -> bool {
    name.split_once('/')
        .is_none_or(|(_, rank)| rank == SHOWN.to_string())
}

/// The name of the instance for `rank` axes.
pub(super) fn instance_name(name: &str, rank: usize) -> String {
    format!("{name}/{rank}")
}

fn instance(block: &Block, rank: usize) -> Block {
    let mut block = block.clone();
    let name = instance_name(block.head.name.as_str(), rank);
    block.head.name.name = name.into();
    let generics = std::mem::take(&mut block.generics);
    block.generics = generics
        .into_iter()
        .flat_map(|generic| match generic {
            Generic::Rest(name) => numbered(&name, rank)
                .into_iter()
                .map(Generic::Dim)
                .collect(),
            other => vec![other],
        })
        .collect();
    block
        .params
        .iter_mut()
        .for_each(|param| ty(&mut param.ty, rank));
    rtype(&mut block.ret, rank);
    stmts(&mut block.stmts, rank);
    block
}

fn numbered(name: &Ident, rank: usize) -> Vec<Ident> {
    let ident = |at: usize| {
        let text: Arc<str> = format!("{name}{at}").into();
        Ident {
            name: text,
            span: name.span,
        }
    };
    (0..rank).map(ident).collect()
}

fn path(name: Ident) -> Path {
    Path {
        global: false,
        span: name.span,
        segments: vec![name],
    }
}

fn ty(t: &mut Type, rank: usize) {
    match &mut t.kind {
        TypeKind::Tensor {
            axes: Some(axes), ..
        } => {
            *axes = std::mem::take(axes)
                .into_iter()
                .flat_map(|axis| match &axis.kind {
                    DimKind::Rest(name) => numbered(name, rank)
                        .into_iter()
                        .map(|name| Dim {
                            span: name.span,
                            kind: DimKind::Name(path(name)),
                        })
                        .collect(),
                    _ => vec![axis],
                })
                .collect();
        }
        TypeKind::Array(element, _) => ty(element, rank),
        _ => {}
    }
}

fn rtype(t: &mut RType, rank: usize) {
    t.types.iter_mut().for_each(|t| ty(t, rank));
}

fn stmts(list: &mut [Stmt], rank: usize) {
    for stmt in list {
        match &mut stmt.kind {
            StmtKind::Let { pat, ty, value, .. } => {
                if let Some(indices) = &mut pat.indices {
                    left(indices, rank);
                }
                ty.iter_mut().for_each(|t| rtype(t, rank));
                expr(value, rank);
            }
            StmtKind::Store { subs, value, .. } => {
                subs.iter_mut().for_each(|e| expr(e, rank));
                expr(value, rank);
            }
            StmtKind::For { body, .. } => stmts(body, rank),
            StmtKind::Carry { args, .. } => args.iter_mut().for_each(|e| expr(e, rank)),
            StmtKind::Error(_) => {}
        }
    }
}

fn left(indices: &mut Vec<LeftIndex>, rank: usize) {
    *indices = std::mem::take(indices)
        .into_iter()
        .flat_map(|index| match index {
            LeftIndex::Rest(name) => numbered(&name, rank)
                .into_iter()
                .map(|name| LeftIndex::Index(IndexDecl { name, extent: None }))
                .collect(),
            other => vec![other],
        })
        .collect();
}

fn subs(list: &mut Vec<Sub>, rank: usize) {
    *list = std::mem::take(list)
        .into_iter()
        .flat_map(|sub| match sub {
            Sub::Rest(name) => numbered(&name, rank)
                .into_iter()
                .map(|name| {
                    let span = name.span;
                    let place = Place {
                        path: path(name),
                        fields: Vec::new(),
                        span,
                    };
                    Sub::Expr(Expr {
                        kind: ExprKind::Name(place),
                        span,
                    })
                })
                .collect(),
            Sub::Expr(mut e) => {
                expr(&mut e, rank);
                vec![Sub::Expr(e)]
            }
            merged @ Sub::Merged(..) => vec![merged],
        })
        .collect();
}

fn expr(e: &mut Expr, rank: usize) {
    match &mut e.kind {
        ExprKind::Lit(_) | ExprKind::Name(_) => {}
        ExprKind::Access {
            place, subs: list, ..
        } => {
            subs(list, rank);
            // A tensor of rank 0 is read by its name.
            if list.is_empty() {
                e.kind = ExprKind::Name(place.clone());
            }
        }
        ExprKind::Call { args, .. } | ExprKind::Tuple(args) => {
            args.iter_mut().for_each(|e| expr(e, rank));
        }
        ExprKind::Reduce(reduce) => {
            reduce.filter.iter_mut().for_each(|e| expr(e, rank));
            match &mut reduce.body {
                ReduceBody::Product(body) => expr(body, rank),
                ReduceBody::Args(args) => args.iter_mut().for_each(|e| expr(e, rank)),
            }
        }
        ExprKind::Unary(_, a) | ExprKind::Cast(a, _) | ExprKind::Paren(a) => expr(a, rank),
        ExprKind::Binary(_, a, b) => {
            expr(a, rank);
            expr(b, rank);
        }
        ExprKind::If {
            cond,
            then,
            otherwise,
        } => {
            [cond, then, otherwise]
                .into_iter()
                .for_each(|e| expr(e, rank));
        }
    }
}
