//! What a call is given: each argument by itself.

use super::body::BodyCx;
use super::expr::StmtCx;
use super::tree::{Argument, Expr, ExprKind, Param, ParamRole, TensorType, Type};
use crate::syntax::ast;
use crate::syntax::diag::Code;
use crate::syntax::token::Span;

/// An argument, as far as it is known.
pub(super) struct Given {
    pub(super) argument: Option<Argument>,
    pub(super) ty: Option<Type>,
}

impl From<Option<(Argument, Type)>> for Given {
    fn from(known: Option<(Argument, Type)>) -> Given {
        let (argument, ty) = known.unzip();
        Given { argument, ty }
    }
}

/// The types of arguments.
pub(super) fn types_of(given: &[Given]) -> Vec<Option<Type>> {
    given.iter().map(|given| given.ty.clone()).collect()
}

/// The arguments with their types, if all are known.
pub(super) fn all(given: Vec<Given>) -> Option<(Vec<Argument>, Vec<Type>)> {
    let known = given.into_iter().map(|given| given.argument.zip(given.ty));
    known
        .collect::<Option<Vec<_>>>()
        .map(|all| all.into_iter().unzip())
}

fn is_call(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Paren(inner) => is_call(inner),
        kind => matches!(kind, ast::ExprKind::Call { .. }),
    }
}

impl BodyCx<'_> {
    /// An argument: literals take their type from the parameter. `wanted` is the parameter, where that is known.
    fn argument(&mut self, arg: &ast::Expr, wanted: Option<&Param>) -> Given {
        let inner = match &arg.kind {
            ast::ExprKind::Paren(inner) => inner,
            _ => arg,
        };
        if let ast::ExprKind::Name(place) = &inner.kind
            && !self.is_size(inner)
        {
            return self.named_argument(place, arg.span).into();
        }
        let literal = match &inner.kind {
            ast::ExprKind::Lit(_) => true,
            ast::ExprKind::Unary(ast::UnaryOp::Neg, e) => matches!(e.kind, ast::ExprKind::Lit(_)),
            _ => false,
        };
        if literal {
            return self.literal_argument(inner).into();
        }
        let diag = self.no_argument(arg, inner, wanted);
        self.errors.extend(diag);
        Given {
            argument: None,
            ty: self.inner_result(inner),
        }
    }

    fn named_argument(&mut self, place: &ast::Place, span: Span) -> Option<(Argument, Type)> {
        let place = self.place(place)?;
        let ty = place.ty.clone();
        if self.vars[place.var.at()].role != Some(ParamRole::Host) {
            return Some((Argument::Place(place), ty));
        }
        let value = Expr {
            kind: ExprKind::Host(place.var),
            dtype: ty.tensor()?.dtype,
            span,
        };
        Some((Argument::Value(value), ty))
    }

    fn literal_argument(&mut self, literal: &ast::Expr) -> Option<(Argument, Type)> {
        let (mut cx, _) = StmtCx::new(self, &[])?;
        let value = cx.expr(literal)?;
        let ty = Type::Tensor(TensorType {
            dtype: value.dtype,
            axes: Vec::new(),
        });
        Some((Argument::Value(value), ty))
    }

    /// What a call as an argument gives, which is refused there: its own errors are told, but for those of
    /// the calls in it, which go where it goes.
    fn inner_result(&mut self, e: &ast::Expr) -> Option<Type> {
        let ast::ExprKind::Call { path, args } = &e.kind else {
            return None;
        };
        let name = path.to_string();
        if !self.is_local(&name) {
            return None;
        }
        let before = self.errors.len();
        let made = self.seen_call(&name, path, args, &[]);
        let mut at = 0;
        self.errors.retain(|diag| {
            at += 1;
            let refused = args
                .iter()
                .any(|arg| arg.span == diag.primary && is_call(arg));
            at <= before || !(refused && diag.code == Code::Argument)
        });
        match &made?.results[..] {
            [one] => Some(one.clone()),
            _ => None,
        }
    }

    /// The arguments of a call; `params` are the parameters as far as known.
    pub(super) fn arguments(&mut self, args: &[ast::Expr], params: &[Param]) -> Vec<Given> {
        let args = args.iter().enumerate();
        args.map(|(at, arg)| self.argument(arg, params.get(at)))
            .collect()
    }
}
