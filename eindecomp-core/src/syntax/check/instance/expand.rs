//! The text of an instance: `..`s written out, dtype variables replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Choice, instance_name, variables};
use crate::ein::DType;
use crate::syntax::ast::{
    Block, Dim, DimKind, Expr, ExprKind, Generic, Ident, IndexDecl, LeftIndex, Path, Place, RType,
    Stmt, StmtKind, Sub, Type, TypeKind,
};

/// The instance of a block for these choices.
pub(in crate::syntax::check) fn expand(block: &Block, choices: &[Choice]) -> Block {
    let mut by = Instance::default();
    for (generic, choice) in variables(block).zip(choices) {
        let name = generic.name().name.clone();
        match choice {
            Choice::Rank(rank) => drop(by.ranks.insert(name, *rank)),
            Choice::Dtype(dtype) => drop(by.dtypes.insert(name, *dtype)),
        }
    }
    let mut block = block.clone();
    block.head.name.name = instance_name(block.head.name.as_str(), choices);
    let generics = std::mem::take(&mut block.generics).into_iter();
    block.generics = generics
        .flat_map(|generic| match generic {
            Generic::Rest(name) => {
                let rank = by.ranks.get(&name.name).copied().unwrap_or(0);
                let axes = numbered(&name, rank).into_iter();
                axes.map(Generic::Dim).collect()
            }
            Generic::Dtype(..) => Vec::new(),
            dim => vec![dim],
        })
        .collect();
    block
        .params
        .iter_mut()
        .for_each(|param| by.ty(&mut param.ty));
    by.rtype(&mut block.ret);
    if let Some(splits) = &mut block.splits {
        let axes = std::mem::take(splits).into_iter();
        let axes = axes.flat_map(|dim| match by.ranks.get(&dim.name) {
            Some(rank) => numbered(&dim, *rank),
            None => vec![dim],
        });
        *splits = axes.collect();
    }
    by.stmts(&mut block.stmts);
    block.unnamed.iter_mut().for_each(|e| by.expr(e));
    block
}

/// What the generics stand for.
#[derive(Default)]
struct Instance {
    ranks: BTreeMap<Arc<str>, usize>,
    dtypes: BTreeMap<Arc<str>, DType>,
}

fn numbered(name: &Ident, rank: usize) -> Vec<Ident> {
    let ident = |at: usize| Ident {
        name: format!("{name}{at}").into(),
        span: name.span,
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

impl Instance {
    /// The number of axes of the index `..l`: those of `..L`, or of the only `..` there is.
    fn rank_of_index(&self, name: &Ident) -> Option<usize> {
        let dim: Arc<str> = name.as_str().to_uppercase().into();
        let mut ranks = self.ranks.values();
        match (self.ranks.get(&dim), ranks.next(), ranks.next()) {
            (Some(rank), ..) | (None, Some(rank), None) => Some(*rank),
            _ => None,
        }
    }

    fn dtype(&self, name: &mut Ident) {
        if let Some(dtype) = self.dtypes.get(&name.name) {
            name.name = dtype.name().into();
        }
    }

    fn ty(&self, t: &mut Type) {
        match &mut t.kind {
            TypeKind::Tensor { dtype, axes } => {
                self.dtype(dtype);
                let Some(axes) = axes else { return };
                let expanded = std::mem::take(axes).into_iter();
                *axes = expanded.flat_map(|axis| self.axis(axis)).collect();
            }
            TypeKind::Array(element, _) => self.ty(element),
            TypeKind::Struct { .. } => {}
        }
    }

    fn axis(&self, axis: Dim) -> Vec<Dim> {
        let known = match &axis.kind {
            DimKind::Rest(name) => self.ranks.get(&name.name).map(|rank| (name, *rank)),
            _ => None,
        };
        let Some((name, rank)) = known else {
            return vec![axis];
        };
        let dims = numbered(name, rank).into_iter().map(|name| Dim {
            span: name.span,
            kind: DimKind::Name(path(name)),
        });
        dims.collect()
    }

    fn rtype(&self, t: &mut RType) {
        t.types.iter_mut().for_each(|t| self.ty(t));
    }

    fn stmts(&self, list: &mut [Stmt]) {
        for stmt in list {
            match &mut stmt.kind {
                StmtKind::Let { pat, ty, value, .. } => {
                    if let Some(indices) = &mut pat.indices {
                        self.left(indices);
                    }
                    ty.iter_mut().for_each(|t| self.rtype(t));
                    self.expr(value);
                }
                StmtKind::Store { subs, value, .. } => {
                    subs.iter_mut().for_each(|e| self.expr(e));
                    self.expr(value);
                }
                StmtKind::For { body, .. } => self.stmts(body),
                StmtKind::Carry { args, .. } => args.iter_mut().for_each(|e| self.expr(e)),
                StmtKind::Error(_) => {}
            }
        }
    }

    fn left(&self, indices: &mut Vec<LeftIndex>) {
        let expanded = std::mem::take(indices).into_iter();
        let one = |index| match index {
            LeftIndex::Rest(name) => match self.rank_of_index(&name) {
                None => vec![LeftIndex::Rest(name)],
                Some(rank) => {
                    let index = |name| LeftIndex::Index(IndexDecl { name, extent: None });
                    numbered(&name, rank).into_iter().map(index).collect()
                }
            },
            LeftIndex::Merged(mut parts, span) => {
                self.left(&mut parts);
                vec![LeftIndex::Merged(parts, span)]
            }
            index => vec![index],
        };
        *indices = expanded.flat_map(one).collect();
    }

    /// Writes the `..` in subscripts out.
    fn subs(&self, list: &mut Vec<Sub>) {
        let expanded = std::mem::take(list).into_iter();
        let one = |sub| match sub {
            Sub::Rest(name) => match self.rank_of_index(&name) {
                None => vec![Sub::Rest(name)],
                Some(rank) => numbered(&name, rank).into_iter().map(index).collect(),
            },
            Sub::Merged(mut parts, span) => {
                self.subs(&mut parts);
                vec![Sub::Merged(parts, span)]
            }
            sub @ Sub::Expr(_) => vec![sub],
        };
        *list = expanded.flat_map(one).collect();
    }

    fn expr(&self, e: &mut Expr) {
        match &mut e.kind {
            ExprKind::Access { place, subs, .. } => {
                self.subs(subs);
                // A tensor of rank 0 is read by its name.
                if subs.is_empty() {
                    e.kind = ExprKind::Name(place.clone());
                }
            }
            ExprKind::Reduce(reduce) => reduce.acc.iter_mut().for_each(|acc| self.dtype(acc)),
            ExprKind::Cast(_, dtype) => self.dtype(dtype),
            _ => {}
        }
        e.children_mut().into_iter().for_each(|e| self.expr(e));
    }
}

/// The index as a subscript.
fn index(name: Ident) -> Sub {
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
}
