//! Operators, functions of the table, `if`, and conditions as guards.

use super::dtype::{Flex, cast, counts, fix, flex, unify, whole};
use super::expr::{Mode, StmtCx};
use super::fixes::zero;
use super::padding;
use super::ranges::poly;
use super::tree::{Expr, ExprKind, listed};
use super::walk;
use crate::ein::scalar::DTypeRule;
use crate::ein::{DType, ScalarFn, Value};
use crate::syntax::ast::{self, BinaryOp, CmpOp, UnaryOp};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::NO_ELSE;
use crate::syntax::token::Span;

impl StmtCx<'_, '_> {
    /// A function of the table on its arguments.
    pub(super) fn apply(
        &mut self,
        function: ScalarFn,
        mut args: Vec<Expr>,
        texts: &[&ast::Expr],
        span: Span,
    ) -> Option<Expr> {
        let Some(dtype) = self.applied(function, &mut args, texts, span) else {
            self.keep(args);
            return None;
        };
        Some(Expr {
            kind: ExprKind::Call(function, args),
            dtype,
            span,
        })
    }

    /// The dtype of a function of the table on its arguments, which have a common one then.
    fn applied(
        &mut self,
        function: ScalarFn,
        args: &mut [Expr],
        texts: &[&ast::Expr],
        span: Span,
    ) -> Option<DType> {
        if matches!(function, ScalarFn::AND | ScalarFn::OR) {
            let number = args.iter().position(|arg| arg.dtype != DType::Bool);
            if let Some(at) = number {
                let diag = no_bool(texts[at], args[at].dtype);
                self.report(diag);
                return None;
            }
        }
        if unify(args, texts, &mut self.cx.errors).is_none() {
            self.namesake(texts);
            self.whole_number(function, args);
            self.counter(function, args, texts);
            self.fraction(function, args, texts);
            self.mask(function, args, texts, span);
            return None;
        }
        let common = args.iter().map(|arg| arg.dtype).find(|d| *d != DType::U8);
        if let Some(common) = common.filter(|_| args.iter().any(|arg| arg.dtype == DType::U8)) {
            for (arg, text) in args.iter().zip(texts) {
                self.wrapped(arg, text, common)?;
            }
        }
        let dtypes: Vec<DType> = args.iter().map(|a| a.dtype).collect();
        let Some(dtype) = function.result_dtype(&dtypes) else {
            if function.row().rule == DTypeRule::Float
                && args.iter().all(|a| flex(a) == Some(Flex::Int))
            {
                for arg in args {
                    fix(arg, DType::F32, &mut self.cx.errors)?;
                }
                return None;
            }
            let shown = listed(&dtypes);
            let name = function.row().symbol.unwrap_or(function.name());
            let diag = Diag::new(
                Code::DtypeRule,
                span,
                format!("`{name}` is not defined for {shown}"),
            );
            let number = dtypes.iter().position(|d| *d != DType::Bool);
            let int = dtypes.iter().position(|d| d.is_int());
            self.report(match (number, int) {
                (Some(at), _) if function == ScalarFn::NOT => {
                    let zero = zero(dtypes[at]);
                    let text = format!("{} == {zero}", texts[at]);
                    diag.fix(Fix::replace(span, text, "compare it: {}"))
                }
                (_, Some(_)) if function.row().int.is_none() => {
                    let ints = texts.iter().zip(&dtypes).filter(|(_, d)| d.is_int());
                    let casts = ints.map(|(text, _)| as_float(text));
                    let joined = casts.reduce(|all, one| Fix {
                        help: format!("{} and {}", all.help, one.help),
                        edits: [all.edits, one.edits].concat(),
                    });
                    diag.fixes(joined)
                }
                _ => diag,
            });
            return None;
        };
        self.unsigned(function, args, texts, span)?;
        Some(dtype)
    }

    /// Says of the last error, about a fraction beside what counts, that the integer is meant: in a
    /// position, and in a comparison.
    fn whole_number(&mut self, function: ScalarFn, args: &[Expr]) {
        let compares = is_comparison(function);
        let counted = args
            .iter()
            .any(|arg| arg.dtype.is_int() && flex(arg).is_none());
        let meant = args.iter().find_map(|arg| match arg.kind {
            ExprKind::Lit(Value::Float(x)) => Some((arg.span, whole(x)?)),
            _ => None,
        });
        if let (Some((span, meant)), Some(error)) = (meant, self.cx.errors.last_mut())
            && error.code == Code::NoCommonDtype
            && counted
            && (compares || self.mode == Mode::Index)
        {
            error.primary = span;
            error.fixes = vec![Fix::replace(span, meant, "write {}")];
            error.help = None;
        }
    }

    /// Says of the last error, about an index compared with a number of a run, that this is declared as an
    /// integer, if it stands nowhere else.
    fn counter(&mut self, function: ScalarFn, args: &[Expr], texts: &[&ast::Expr]) {
        let number = args
            .iter()
            .zip(texts)
            .find_map(|(arg, text)| match &arg.kind {
                ExprKind::Read(read) if read.subs.is_empty() && arg.dtype.is_float() => {
                    let ast::ExprKind::Name(place) = &text.kind else {
                        return None;
                    };
                    let span = self.cx.vars[read.place.var.at()].span;
                    self.cx.declared_as(place.as_ident()?, span, "i64", "")
                }
                _ => None,
            });
        let counts = args.iter().any(counts) && is_comparison(function);
        if let (Some(fix), Some(error), true) = (number, self.cx.errors.last_mut(), counts)
            && error.code == Code::NoCommonDtype
        {
            error.fixes = vec![fix];
        }
    }

    /// Says of the last error, about a float literal beside an integer in arithmetic, that the integer
    /// is meant as a float where the statement is declared as one.
    fn fraction(&mut self, function: ScalarFn, args: &[Expr], texts: &[&ast::Expr]) {
        let integer = args
            .iter()
            .position(|arg| arg.dtype.is_int() && flex(arg).is_none());
        let float = args
            .iter()
            .find(|arg| matches!(arg.kind, ExprKind::Lit(Value::Float(x)) if x.is_finite()));
        let declared = self.cx.declared_value().filter(|dtype| dtype.is_float());
        if let (Some(at), Some(float), Some(dtype)) = (integer, float, declared)
            && let Some(error) = self.cx.errors.last_mut()
            && self.mode == Mode::Value
            && !is_comparison(function)
            && error.code == Code::NoCommonDtype
            && error.primary == float.span
        {
            error.fixes = vec![cast(texts[at], dtype)];
        }
    }

    /// Says of the last error, about a literal beside a mask, that the mask is meant as a number.
    fn mask(&mut self, function: ScalarFn, args: &[Expr], texts: &[&ast::Expr], span: Span) {
        let arithmetic = !is_comparison(function) && function != ScalarFn::NOT;
        let mask = args.iter().position(|arg| arg.dtype == DType::Bool);
        let numbers = args
            .iter()
            .all(|arg| arg.dtype == DType::Bool || flex(arg).is_some());
        let float = args.iter().any(|arg| flex(arg) == Some(Flex::Float));
        let wanted = self.cx.wanted_dtype(span).filter(|d| d.is_float());
        if let (Some(at), Some(error)) = (mask, self.cx.errors.last_mut())
            && arithmetic
            && numbers
            && error.code == Code::NoCommonDtype
        {
            let dtype = if float { DType::F32 } else { DType::I64 };
            let mut fix = cast(texts[at], wanted.unwrap_or(dtype));
            for arg in args.iter().filter(|_| wanted.is_some()) {
                if let ExprKind::Lit(Value::Int(n)) = arg.kind {
                    fix.help += &format!(", and `{n}.0`");
                    fix = fix.and(arg.span, format!("{n}.0"));
                }
            }
            error.primary = texts[at].span;
            error.message = format!("`{}` is bool, but a number is needed here", texts[at]);
            error.fixes = vec![fix];
            error.help = None;
        }
    }

    /// Says of the last error that an operand is an index which is called like a tensor.
    fn namesake(&mut self, texts: &[&ast::Expr]) {
        let namesake = texts.iter().find_map(|text| {
            let name = walk::name(text)?;
            self.visible_index(name)?;
            let var = self.cx.lookup(name)?;
            let axes = &self.cx.vars[var.at()].ty.as_ref()?.tensor()?.axes;
            let indices: Option<Vec<String>> = axes.iter().map(|a| self.index_like(a)).collect();
            Some((var, text.span, name, indices))
        });
        let (Some((var, span, name, indices)), Some(error)) = (namesake, self.cx.errors.last_mut())
        else {
            return;
        };
        self.cx.vars[var.at()].used = true;
        error.fixes.clear();
        match indices {
            Some(indices) => {
                let indices = format!("[{}]", indices.join(", "));
                let help = format!("`{name}` is the index here; the tensor is `{name}{indices}`");
                error.fixes.push(Fix::after(span, indices, &help));
            }
            None => error.help = Some(format!("`{name}` is the index here, not the tensor")),
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, inner: &ast::Expr, span: Span) -> Option<Expr> {
        let value = self.expr(inner)?;
        if op == UnaryOp::Not {
            return self.apply(ScalarFn::NOT, vec![value], &[inner], span);
        }
        let negated = match value.kind {
            ExprKind::Lit(Value::Int(n)) => Some(Value::Int(-n)),
            ExprKind::Lit(Value::Float(x)) => Some(Value::Float(-x)),
            _ => None,
        };
        match negated {
            Some(literal) => Some(Expr {
                kind: ExprKind::Lit(literal),
                dtype: value.dtype,
                span,
            }),
            None => self.apply(ScalarFn::NEG, vec![value], &[inner], span),
        }
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Option<Expr> {
        let mode = match op {
            BinaryOp::Cmp(_) if self.mode == Mode::Value => Mode::Number,
            _ => self.mode,
        };
        let before = self.cx.errors.len();
        let a = self.within(mode, left);
        let (depth, kept) = (self.guards.len(), self.kept.len());
        if let (BinaryOp::And | BinaryOp::Or, Some(a)) = (op, &a) {
            self.guard(a, op == BinaryOp::And);
        }
        let b = self.within(mode, right);
        self.guards.truncate(depth);
        if matches!(op, BinaryOp::And | BinaryOp::Or) && a.is_none() {
            self.kept.truncate(kept);
        }
        let function = match op {
            BinaryOp::Add => ScalarFn::ADD,
            BinaryOp::Sub => ScalarFn::SUB,
            BinaryOp::Mul => ScalarFn::MUL,
            BinaryOp::Div => ScalarFn::DIV,
            BinaryOp::Rem => ScalarFn::REM,
            BinaryOp::And => ScalarFn::AND,
            BinaryOp::Or => ScalarFn::OR,
            BinaryOp::Cmp(CmpOp::Eq) => ScalarFn::EQ,
            BinaryOp::Cmp(CmpOp::Ne) => ScalarFn::NE,
            BinaryOp::Cmp(CmpOp::Lt) => ScalarFn::LT,
            BinaryOp::Cmp(CmpOp::Le) => ScalarFn::LE,
            BinaryOp::Cmp(CmpOp::Gt) => ScalarFn::GT,
            BinaryOp::Cmp(CmpOp::Ge) => ScalarFn::GE,
        };
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => (a, b),
            (a, b) => {
                let made = [a, b];
                self.of_types(before, function, &made, &[left, right], span);
                let [a, b] = made;
                let decides = matches!(op, BinaryOp::And | BinaryOp::Or);
                self.keep(a);
                self.keep(b.filter(|_| !decides));
                return None;
            }
        };
        if let BinaryOp::Cmp(cmp) = op
            && let Some(other) = beside_nan((&a, left), (&b, right))
        {
            self.report(no_nan(cmp, other, span));
            return None;
        }
        let dims_only = |e: &Expr| e.dtype.is_int() && flex(e).is_none_or(|f| f == Flex::Int);
        if matches!(op, BinaryOp::Div | BinaryOp::Rem)
            && dims_only(&a)
            && dims_only(&b)
            && let Some(divisor) = poly(&b, &self.index_names())
            && !divisor
                .symbols()
                .iter()
                .any(|s| self.visible_index(s).is_some())
        {
            self.cx
                .dims
                .divisor(&divisor, right.span, &mut self.cx.errors)?;
        }
        self.apply(function, vec![a, b], &[left, right], span)
    }

    pub(super) fn branch(
        &mut self,
        cond: &ast::Expr,
        then: &ast::Expr,
        otherwise: Option<&ast::Expr>,
        span: Span,
    ) -> Option<Expr> {
        let test = self.condition(cond);
        let (depth, kept) = (self.guards.len(), self.kept.len());
        if let Some(test) = &test {
            self.guard(test, true);
        }
        let a = self.expr(then);
        self.guards.truncate(depth);
        if let Some(test) = &test {
            self.guard(test, false);
        }
        let Some(otherwise) = otherwise else {
            self.guards.truncate(depth);
            self.kept.truncate(kept);
            let diag = Diag::new(Code::MissingElse, span, NO_ELSE);
            let fix = a.and_then(|a| padding::otherwise(self.cx, span, a.dtype));
            self.report(match fix {
                Some(fix) => diag.fix(fix),
                None => diag.help("write `else { … }`"),
            });
            return None;
        };
        let b = self.expr(otherwise);
        self.guards.truncate(depth);
        // Where the branches are evaluated is not known.
        if test.is_none() {
            self.kept.truncate(kept);
        }
        let mut branches = [a?, b?];
        let test = test?;
        let texts = [then, otherwise];
        let dtype = unify(&mut branches, &texts, &mut self.cx.errors)?;
        let [a, b] = branches.map(Box::new);
        Some(Expr {
            kind: ExprKind::If(Box::new(test), a, b),
            dtype,
            span,
        })
    }

    /// A condition: a bool.
    pub(super) fn condition(&mut self, cond: &ast::Expr) -> Option<Expr> {
        let mode = if self.mode == Mode::Value {
            Mode::Number
        } else {
            self.mode
        };
        let test = self.within(mode, cond)?;
        if test.dtype != DType::Bool {
            self.report(no_bool(cond, test.dtype));
            return None;
        }
        Some(test)
    }

    /// Notes the indices of a condition that is a fact where it holds, or where it fails.
    pub(super) fn guard(&mut self, test: &Expr, truth: bool) {
        let ExprKind::Call(f, parts) = &test.kind else {
            return;
        };
        match (*f, truth) {
            (ScalarFn::NOT, _) => self.guard(&parts[0], !truth),
            (ScalarFn::AND, true) | (ScalarFn::OR, false) => {
                parts.iter().for_each(|p| self.guard(p, truth));
            }
            _ if is_comparison(*f) => {
                let names = self.index_names();
                if parts.iter().all(|p| poly(p, &names).is_some()) {
                    let indices = parts.iter().flat_map(|p| p.indices());
                    self.guards.extend(indices.map(|(_, id)| id));
                }
            }
            _ => {}
        }
    }
}

/// An integer as a float.
fn as_float(e: &ast::Expr) -> Fix {
    match e.kind {
        ast::ExprKind::Lit(ast::Lit::Int(n)) => Fix::replace(e.span, format!("{n}.0"), "{}"),
        _ => cast(e, DType::F32),
    }
}

fn is_comparison(f: ScalarFn) -> bool {
    use ScalarFn as F;
    [F::EQ, F::NE, F::LT, F::LE, F::GT, F::GE].contains(&f)
}

/// What is compared with a literal NaN.
fn beside_nan<'e>(a: (&Expr, &'e ast::Expr), b: (&Expr, &'e ast::Expr)) -> Option<&'e ast::Expr> {
    let nan = |e: &Expr| matches!(e.kind, ExprKind::Lit(Value::Float(x)) if x.is_nan());
    match (nan(a.0), nan(b.0)) {
        (_, true) => Some(a.1),
        (true, _) => Some(b.1),
        _ => None,
    }
}

/// The refusal of a comparison with NaN.
fn no_nan(cmp: CmpOp, other: &ast::Expr, span: Span) -> Diag {
    let always = match cmp {
        CmpOp::Ne => "always true",
        _ => "never true",
    };
    let diag = Diag::new(
        Code::DtypeRule,
        span,
        format!("a comparison with NaN is {always}"),
    );
    let mut other = other;
    while let ast::ExprKind::Paren(inner) = &other.kind {
        other = inner;
    }
    let meant = match cmp {
        CmpOp::Eq => Some(format!("is_nan({other})")),
        CmpOp::Ne => Some(format!("!is_nan({other})")),
        _ => None,
    };
    diag.fixes(meant.map(|meant| Fix::replace(span, meant, "did you mean {}?")))
}

/// The refusal of a number for a condition.
fn no_bool(e: &ast::Expr, dtype: DType) -> Diag {
    let text = format!("a condition is a bool, but this is {dtype}");
    let diag = Diag::new(Code::DtypeRule, e.span, text);
    let zero = zero(dtype);
    let help = format!("compare it: `{e} != {zero}`");
    diag.fix(Fix::after(e.span, format!(" != {zero}"), &help))
}
