//! Calls of blocks: dims solved from the arguments, extents and clauses proved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::body::{BodyCx, Known};
use super::dtype::{fix, flex};
use super::expr::StmtCx;
use super::fixes::index_names;
use super::instance::{self, Misfit};
use super::prove::Equality;
use super::stores::overlap;
use super::tree::{
    Argument, Block, Call, Callee, Clause, Expr, ExprKind, ForeignCall, Origin, ParamRole, Place,
    Stmt, TensorType, Type, VarId,
};
use super::types::too_long;
use crate::ein::dim::Atom;
use crate::ein::{Dim, ScalarFn};
use crate::syntax::ast::{self, CmpOp, Ident, Pattern, RType};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{are, count, instead, is_known_elsewhere, nearest};
use crate::syntax::token::Span;

/// A callee with its arguments, and the types of its results.
struct Made {
    callee: Callee,
    args: Vec<Argument>,
    results: Vec<Type>,
    /// Where the results are declared, if that is known.
    declared: Option<Span>,
}

impl BodyCx<'_> {
    /// `let y: T = f(x);`
    pub(super) fn let_call(
        &mut self,
        pat: &Pattern,
        mutable: bool,
        ty: Option<&RType>,
        (value, path, args): (&ast::Expr, &ast::Path, &[ast::Expr]),
        span: Span,
    ) -> Option<Stmt> {
        let name = path.to_string();
        let (local, other) = (self.is_local(&name), self.is_other(&name));
        if !local && !other && self.is_function(&name) {
            let diag = self.no_left(pat, value);
            self.errors.push(diag);
            return None;
        }
        if !local && !other && ty.is_none() {
            let elsewhere = path.as_ident().is_none();
            let lost = self.items.declared.lost.contains(&*name);
            if !(lost || elsewhere && self.items.declared.others.is_open()) {
                self.errors.push(self.unknown_block(path));
            }
            return None;
        }
        let annotated = match ty {
            None => None,
            Some(ty) => Some((self.annotation(ty)?, ty.span)),
        };
        let mut made = if local || other {
            let hints = annotated.as_ref().filter(|_| local);
            let hints = hints.map_or(&[][..], |(types, _)| types);
            let made = self.seen_call(&name, path, args, hints)?;
            match &annotated {
                Some((declared, at)) => {
                    let place = made.declared.map(|place| (place, "declared here"));
                    self.same_types(declared, &made.results, *at, Code::CallAnnotation, place)?;
                }
                None if local => {}
                None => {
                    self.errors.push(self.unannotated(pat, path, &made.results));
                    return None;
                }
            }
            made
        } else {
            self.unseen_call(path, args, annotated.clone()?)?
        };
        if other && let Some((declared, _)) = annotated {
            made.results = declared;
        }
        let Made {
            callee,
            args,
            results,
            ..
        } = made;
        if results.len() != pat.names.len() {
            let text = format!(
                "`{name}` has {}, but {} bound",
                count(results.len(), "result", "results"),
                count(pat.names.len(), "name is", "names are")
            );
            let diag = Diag::new(Code::Pattern, pat.span, text);
            let more = match &pat.names[..] {
                [one] => {
                    let rest = ", _".repeat(results.len() - 1);
                    Some(Fix::replace(pat.span, format!("({one}{rest})"), "write {}"))
                }
                _ => None,
            };
            self.errors.push(diag.fixes(more));
            return None;
        }
        let mut targets = Vec::new();
        for (target, ty) in pat.names.iter().zip(results) {
            targets.push((target.as_str() != "_").then(|| self.define(target, Some(ty), mutable)));
        }
        Some(Stmt::Call(Call {
            targets,
            callee,
            args,
            span,
        }))
    }

    /// `x = f(x);`
    pub(super) fn carry(
        &mut self,
        targets: &[Ident],
        path: &ast::Path,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<Stmt> {
        let name = path.to_string();
        let mut vars = Vec::new();
        for target in targets {
            let var = self.lookup_or_report(target)?;
            let known = &self.vars[var.at()];
            if !known.mutable && known.ty.is_some() {
                let text = format!("`{target}` is assigned, but not declared `mut`");
                let diag = Diag::new(Code::NotMutable, target.span, text)
                    .secondary(known.span, "declared here")
                    .fixes(self.mutable(known));
                self.errors.push(diag);
                return None;
            }
            vars.push(var);
        }
        let carried: Option<Vec<Type>> = vars
            .iter()
            .map(|v: &VarId| self.vars[v.at()].ty.clone())
            .collect();
        let made = if self.is_local(&name) || self.is_other(&name) {
            let hints = carried.as_deref().filter(|_| self.is_local(&name));
            self.seen_call(&name, path, args, hints.unwrap_or_default())?
        } else if self.is_function(&name) {
            self.errors.push(self.unknown_block(path));
            return None;
        } else {
            let at = targets.iter().map(|t| t.span).reduce(Span::join)?;
            self.unseen_call(path, args, (carried.clone()?, at))?
        };
        let Made {
            callee,
            args,
            results,
            ..
        } = made;
        let carried = carried?;
        if results.len() != carried.len() {
            let text = format!(
                "`{name}` has {}, but {} assigned",
                count(results.len(), "result", "results"),
                count(carried.len(), "name is", "names are")
            );
            self.errors.push(Diag::new(Code::Pattern, span, text));
            return None;
        }
        for ((var, old), new) in vars.iter().zip(&carried).zip(&results) {
            let known = &self.vars[var.at()];
            let text = format!("`{}` is `{old}`, but would become `{new}`", known.name);
            let diag = Diag::new(Code::CarriedType, path.span, text)
                .secondary(known.span, "declared here")
                .help("what a loop carries keeps its type; bind another name with `let`");
            if !self.same_type(old, new, &diag) {
                self.errors.push(diag);
                return None;
            }
        }
        let targets = vars.into_iter().map(Some).collect();
        Some(Stmt::Call(Call {
            targets,
            callee,
            args,
            span,
        }))
    }

    /// `mut` where a name is defined; a parameter is defined anew.
    fn mutable(&self, known: &Known) -> Option<Fix> {
        let name = &known.name;
        if known.role.is_none() {
            let help = format!("write `let mut {name}`");
            return Some(Fix::before(known.span, "mut ", &help));
        }
        let first = self.ast.stmts.first()?;
        let text = format!("let mut {name} = {name}; ");
        Some(Fix::before(first.span, text, "begin with {}"))
    }

    fn is_local(&self, name: &str) -> bool {
        self.items.blocks.contains(name)
    }

    /// A block of another program whose signature is known?
    fn is_other(&self, name: &str) -> bool {
        self.items.declared.others.block(name).is_some()
    }

    /// The refusal of a call of another program's block whose result has no type.
    fn unannotated(&self, pat: &Pattern, path: &ast::Path, results: &[Type]) -> Diag {
        let text = format!("`{path}` stands in another `ein!`, so its result needs a type here");
        let diag = Diag::new(Code::CallAnnotation, pat.span, text);
        // The other program's consts have no name here.
        let others = self.items.declared.others;
        let dims = results.iter().flat_map(Type::dims).flat_map(Dim::symbols);
        if dims.into_iter().any(|s| others.const_place(&s).is_some()) {
            return diag.help(format!("`let {pat}: … = {path}(…);`"));
        }
        let types = match results {
            [one] => one.to_string(),
            many => format!("({})", super::tree::listed(many)),
        };
        diag.help(format!("`let {pat}: {types} = {path}(…);`"))
    }

    fn is_function(&self, name: &str) -> bool {
        self.items.scalars.contains_key(name)
            || (1..=3)
                .any(|n| ScalarFn::from_name(name, n).is_some_and(|f| f.row().symbol.is_none()))
    }

    fn unknown_block(&self, path: &ast::Path) -> Diag {
        let text = format!("there is no block `{path}` in this `ein!`");
        let diag = Diag::new(Code::UnknownFunction, path.span, text);
        match nearest(&path.to_string(), self.items.blocks.iter().copied()) {
            Some(meant) => diag.fix(Fix::replace(path.span, meant, "did you mean {}?")),
            None if path
                .as_ident()
                .is_some_and(|name| is_known_elsewhere(name.as_str())) =>
            {
                diag.help(instead(&path.to_string()))
            }
            None => diag.help(
                "if it stands in another `ein!`, give its result a type: `let y: f32[…] = …`",
            ),
        }
    }

    /// An argument with its type, if it has one: literals take theirs from the parameter.
    fn argument(&mut self, arg: &ast::Expr) -> Option<(Argument, Type)> {
        let inner = match &arg.kind {
            ast::ExprKind::Paren(inner) => inner,
            _ => arg,
        };
        if let ast::ExprKind::Name(place) = &inner.kind {
            let place = self.place(place)?;
            let ty = place.ty.clone();
            if self.vars[place.var.at()].role == Some(ParamRole::Host) {
                let dtype = ty.tensor()?.dtype;
                let value = Expr {
                    kind: ExprKind::Host(place.var),
                    dtype,
                    span: arg.span,
                };
                return Some((Argument::Value(value), ty));
            }
            return Some((Argument::Place(place), ty));
        }
        let literal = match &inner.kind {
            ast::ExprKind::Lit(_) => true,
            ast::ExprKind::Unary(ast::UnaryOp::Neg, e) => matches!(e.kind, ast::ExprKind::Lit(_)),
            _ => false,
        };
        if !literal {
            let text = "an argument is a name, a field, or a literal or host value";
            let diag = Diag::new(Code::Argument, arg.span, text);
            self.errors.push(match &inner.kind {
                ast::ExprKind::Access { place, .. } => {
                    let text = place.to_string();
                    diag.fix(Fix::replace(
                        arg.span,
                        text,
                        "a block takes the whole tensor: {}",
                    ))
                }
                _ => diag.help(format!("give it a name: `let t[…] = {arg};`")),
            });
            return None;
        }
        let (mut cx, _) = StmtCx::new(self, &[])?;
        let value = cx.expr(inner)?;
        let ty = Type::Tensor(TensorType {
            dtype: value.dtype,
            axes: Vec::new(),
        });
        Some((Argument::Value(value), ty))
    }

    fn arguments(&mut self, args: &[ast::Expr]) -> Option<Vec<(Argument, Type)>> {
        let made: Vec<_> = args.iter().map(|arg| self.argument(arg)).collect();
        made.into_iter().collect()
    }

    /// A call of another program's block that is not known yet: what is said of it is trusted.
    fn unseen_call(
        &mut self,
        path: &ast::Path,
        args: &[ast::Expr],
        (results, results_span): (Vec<Type>, Span),
    ) -> Option<Made> {
        let made = self.arguments(args)?;
        let (arguments, types): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        Some(Made {
            callee: self.foreign(path, args, types, results_span),
            args: arguments,
            results,
            declared: None,
        })
    }

    fn foreign(
        &mut self,
        path: &ast::Path,
        args: &[ast::Expr],
        types: Vec<Type>,
        results_span: Span,
    ) -> Callee {
        self.block.foreign.push(ForeignCall {
            path: path.clone(),
            args: types,
            arg_spans: args.iter().map(|a| a.span).collect(),
            results_span,
        });
        Callee::Foreign(self.block.foreign.len() - 1)
    }

    /// A call of a block whose signature is known.
    /// `hints` are the types that the results are said to have: they give dims that no argument
    /// determines.
    fn seen_call(
        &mut self,
        name: &str,
        path: &ast::Path,
        args: &[ast::Expr],
        hints: &[Type],
    ) -> Option<Made> {
        let made = self.arguments(args);
        let mut made = made?;
        let types: Vec<&Type> = made.iter().map(|(_, ty)| ty).collect();
        let callee = self.callee(name, &types, args, path)?;
        if made.len() != callee.params.len() {
            let wanted = callee.params.len();
            let text = format!(
                "block `{name}` takes {}, but {} given",
                count(wanted, "argument", "arguments"),
                are(made.len())
            );
            let diag = Diag::new(Code::Arity, path.span, text)
                .secondary(callee.name.span, "declared here");
            let params = callee.params.iter();
            let params: Vec<String> = params.map(|p| format!("{}: {}", p.name, p.ty)).collect();
            let help = format!("it is `{name}({})`", params.join(", "));
            self.errors.push(diag.help(help));
            return None;
        }
        for (at, (argument, ty)) in made.iter_mut().enumerate() {
            self.fit(&callee, at, argument, ty, &args[at])?;
        }
        self.states(&callee, &made, args)?;
        for (name, path) in &callee.consts {
            if !self.dims.hides(name) {
                self.dims.consts.insert(name.clone(), path.clone());
            }
        }
        let types: Vec<Type> = made.iter().map(|(_, ty)| ty.clone()).collect();
        let spans: Vec<Span> = args.iter().map(|a| a.span).collect();
        let dims = self.solve_dims(&callee, &types, &spans, hints, path)?;
        let of = |s: &str| dims.get(s).cloned();
        for clause in &callee.clauses {
            let sides = [&clause.left, &clause.right].map(|side| side.try_substitute(&of));
            let [Some(left), Some(right)] = sides else {
                self.errors.push(too_long(path.span));
                return None;
            };
            if self.facts.holds(&left, clause.cmp, &right) {
                continue;
            }
            let difference = &left - &right;
            if clause.origin == Origin::Declared && !self.dims.only_consts(&difference) {
                let here = format!("{left} {} {right}", clause.cmp.symbol());
                let that_is = match here == clause.to_string() {
                    true => String::new(),
                    false => format!(", that is `{here}`"),
                };
                let text =
                    format!("block `{name}` needs `{clause}`{that_is}, which does not follow");
                let diag = Diag::new(Code::CalleeClause, path.span, text)
                    .secondary(clause.span, "needed here");
                let fix = self.add_clause(&here, &[&left, &right]);
                self.errors.push(diag.fixes(fix));
                continue;
            }
            let (cmp, origin, span) = (clause.cmp, clause.origin.clone(), path.span);
            let text = format!("block `{name}` needs `{clause}`, which does not hold");
            let diag =
                Diag::new(Code::CalleeClause, span, text).secondary(clause.span, "needed here");
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span,
            };
            self.require_or(clause, diag);
        }
        let declared = callee.results.iter().map(|r| r.span).reduce(Span::join);
        let results = callee
            .results
            .iter()
            .map(|r| r.ty.try_substitute(&dims))
            .collect::<Option<Vec<Type>>>();
        let Some(results) = results else {
            self.errors.push(too_long(path.span));
            return None;
        };
        let arguments = made.into_iter().map(|(argument, _)| argument).collect();
        let made = match self.is_local(name) {
            true => Callee::Local {
                name: callee.name.name.clone(),
                dims,
            },
            false => self.foreign(path, args, types, path.span),
        };
        Some(Made {
            callee: made,
            args: arguments,
            results,
            declared,
        })
    }

    /// The block called `name`, or its instance for the ranks and dtypes of the arguments. `None`
    /// says nothing if its signature is wrong.
    fn callee(
        &mut self,
        name: &str,
        args: &[&Type],
        texts: &[ast::Expr],
        path: &ast::Path,
    ) -> Option<Block> {
        let given = |ty: &&Type| ty.tensor().map(|t| (t.dtype, t.axes.len()));
        if !self.is_local(name) {
            let instances = self.items.declared.others.block(name)?;
            let first = instances.first()?;
            let fits = |block: &&Block| {
                let wanted = block.params.iter().map(|p| given(&&p.ty));
                block.params.len() == args.len() && wanted.eq(args.iter().map(given))
            };
            let found = instances.iter().find(fits);
            if found.is_none() && instances.len() > 1 && first.params.len() == args.len() {
                self.errors.push(no_ranks(name, path));
                return None;
            }
            return Some(found.unwrap_or(first).clone());
        }
        let Some(generic) = self.items.generic.get(name).copied() else {
            return self.items.checked.block(name).cloned();
        };
        if !self.items.callable(name) {
            return None;
        }
        let given: Vec<_> = args.iter().map(given).collect();
        let literal = |at: usize| matches!(texts[at].kind, ast::ExprKind::Lit(_));
        let known: Vec<_> = given
            .iter()
            .enumerate()
            .map(|(at, given)| given.filter(|_| !literal(at)))
            .collect();
        // A wrong number of arguments is told for any instance.
        let choices = match instance::fit(generic, &known) {
            _ if given.len() != generic.params.len() => instance::declared(generic).swap_remove(0),
            Ok(choices) => choices,
            Err(Misfit::Ranks) => {
                self.errors.push(no_ranks(name, path));
                return None;
            }
            Err(Misfit::Dtype(at, why)) => {
                let (param, arg) = (&generic.params[at], &args[at]);
                let text = format!(
                    "`{}` of block `{name}` is `{}`, but this argument is `{arg}`",
                    param.name, param.ty
                );
                let diag = Diag::new(Code::Argument, texts[at].span, text).help(why);
                self.errors
                    .push(diag.secondary(param.name.span, "declared here"));
                return None;
            }
            Err(Misfit::Open(variable)) => {
                let text = format!("nothing says what `{variable}` of block `{name}` stands for");
                let diag = Diag::new(Code::Argument, path.span, text);
                let place = generic.generics.iter().find(|g| g.name().name == variable);
                let place = place.map_or(generic.head.name.span, |g| g.name().span);
                self.errors.push(diag.secondary(place, "declared here"));
                return None;
            }
        };
        self.items.instance(generic, &choices)
    }

    /// `#[state]` agrees between parameters and arguments, and no state is given twice.
    fn states(
        &mut self,
        callee: &Block,
        made: &[(Argument, Type)],
        args: &[ast::Expr],
    ) -> Option<()> {
        let name = instance::base(callee.name.as_str()).to_owned();
        let mut given: Vec<&Place> = Vec::new();
        for ((param, (argument, _)), text) in callee.params.iter().zip(made).zip(args) {
            let place = match argument {
                Argument::Place(place) => Some(place),
                Argument::Value(_) => None,
            };
            let is_state = |p: &&Place| self.vars[p.var.at()].role == Some(ParamRole::State);
            let state = place.filter(is_state);
            let diag = |message: String| {
                Diag::new(Code::ParamRole, text.span, message)
                    .secondary(param.name.span, "declared here")
            };
            let diag = match (param.role == ParamRole::State, state) {
                (false, None) => continue,
                (true, Some(state)) => {
                    let twice = given.iter().any(|other| overlap(state, other));
                    given.push(state);
                    if !twice {
                        continue;
                    }
                    diag(format!("block `{name}` is given the state `{text}` twice"))
                        .help("give each `#[state]` parameter a state of its own")
                }
                (true, None) => {
                    let message = format!(
                        "`{}` of block `{name}` is `#[state]`, but `{text}` is not",
                        param.name
                    );
                    let root = place.map(|p| &self.vars[p.var.at()]);
                    let fix = root.filter(|v| v.role == Some(ParamRole::Data)).map(|v| {
                        Fix::before(v.span, "#[state] ", "declare it as a {} parameter here too")
                    });
                    let help = "only a `#[state]` parameter can be given here";
                    match fix {
                        Some(fix) => diag(message).fix(fix),
                        None => diag(message).help(help),
                    }
                }
                (false, Some(_)) => {
                    let message = format!(
                        "`{text}` is `#[state]`, but `{}` of block `{name}` is not",
                        param.name
                    );
                    diag(message).help(format!("`let now = {text};` is its value at that point"))
                }
            };
            self.errors.push(diag);
            return None;
        }
        Some(())
    }

    /// Kind, dtype and rank of an argument; a literal takes the parameter's dtype.
    fn fit(
        &mut self,
        callee: &Block,
        at: usize,
        argument: &mut Argument,
        ty: &mut Type,
        text: &ast::Expr,
    ) -> Option<()> {
        let param = &callee.params[at];
        if let (Argument::Value(value), Type::Tensor(wanted)) = (&mut *argument, &param.ty)
            && flex(value).is_some()
            && wanted.axes.is_empty()
        {
            fix(value, wanted.dtype, &mut self.errors)?;
            *ty = param.ty.clone();
        }
        if param.role == ParamRole::Host && matches!(argument, Argument::Place(_)) {
            let message = format!(
                "`{}` of block `{}` is `#[host]`, so it takes a literal or host value",
                param.name,
                instance::base(callee.name.as_str())
            );
            let diag = Diag::new(Code::Argument, text.span, message)
                .secondary(param.name.span, "declared here");
            self.errors
                .push(diag.help("a parameter of this block that is `#[host]` too is one"));
            return None;
        }
        let local = self.is_local(instance::base(callee.name.as_str()));
        if same_kind(&param.ty, ty, local) {
            return Some(());
        }
        let message = format!(
            "`{}` of block `{}` is `{}`, but this argument is `{ty}`",
            param.name,
            instance::base(callee.name.as_str()),
            param.ty
        );
        let diag = Diag::new(Code::Argument, text.span, message)
            .secondary(param.name.span, "declared here");
        let help = match (&param.ty, &*ty) {
            (Type::Tensor(wanted), Type::Tensor(given))
                if wanted.axes.len() == given.axes.len() =>
            {
                let names = match given.axes.is_empty() {
                    true => String::new(),
                    false => format!("[{}]", index_names(&given.axes).join(", ")),
                };
                let left = if names.is_empty() { "[]" } else { &names };
                let dtype = wanted.dtype;
                format!("cast it before: `let t{left} = {text}{names} as {dtype};`")
            }
            (Type::Struct(_), Type::Array(..)) => {
                format!("take one after the other: `for l in {text} {{ … }}`")
            }
            (wanted, _) => {
                format!(
                    "`{}` takes `{wanted}`; define one before: `let t[…] = …;`",
                    param.name
                )
            }
        };
        self.errors.push(diag.help(help));
        None
    }

    /// The callee's dims by the extents of the arguments: bare axes first, then linear ones.
    fn solve_dims(
        &mut self,
        callee: &Block,
        types: &[Type],
        spans: &[Span],
        hints: &[Type],
        path: &ast::Path,
    ) -> Option<BTreeMap<Arc<str>, Dim>> {
        let mut pairs = Vec::new();
        for (at, (param, ty)) in callee.params.iter().zip(types).enumerate() {
            let name = param.name.to_string();
            let mut places = param.dim_spans.iter().copied();
            axes(
                &param.ty,
                ty,
                (&name, &callee.dims),
                &mut |axis, actual, what| {
                    let place = places.next().unwrap_or(param.name.span);
                    pairs.push((axis.clone(), actual.clone(), what, spans[at], place));
                },
            );
        }
        // A const of the callee may be called as a dim of the caller.
        let mut dims: BTreeMap<Arc<str>, Dim> = callee
            .consts
            .iter()
            .filter(|(name, _)| self.dims.hides(name))
            .map(|(name, path)| (name.clone(), outer(path)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|(name, path)| (name, self.dims.constant(&path)))
            .collect();
        let names: BTreeSet<&Arc<str>> = callee.dims.iter().collect();
        for (axis, actual, ..) in &pairs {
            if let Some(symbol) = axis.as_symbol().filter(|s| names.contains(s)) {
                dims.entry(symbol.clone()).or_insert_with(|| actual.clone());
            }
        }
        loop {
            let before = dims.len();
            for (axis, actual, ..) in &pairs {
                if let Some((symbol, value)) = solve_linear(axis, actual, &names, &dims)
                    && self.exact(&value)
                {
                    dims.insert(symbol, self.facts.normal(&value));
                }
            }
            if dims.len() == before {
                break;
            }
        }
        for (result, hint) in callee.results.iter().zip(hints) {
            let (Some(declared), Some(given)) = (result.ty.tensor(), hint.tensor()) else {
                continue;
            };
            for (axis, actual) in declared.axes.iter().zip(&given.axes) {
                if let Some((symbol, value)) = solve_linear(axis, actual, &names, &dims)
                    && self.exact(&value)
                {
                    dims.insert(symbol, self.facts.normal(&value));
                }
            }
        }
        if let Some(missing) = callee.dims.iter().find(|d| !dims.contains_key(*d)) {
            let text = format!(
                "dim `{missing}` of block `{}` does not follow from the arguments",
                instance::base(callee.name.as_str())
            );
            let diag = Diag::new(Code::CallExtent, path.span, text)
                .secondary(callee.name.span, "declared here");
            self.errors.push(diag.help(format!(
                "dims follow from axes like `{missing}` or `2 * {missing} + 1`, or from the type that the result is given"
            )));
            return None;
        }
        let of = |s: &str| dims.get(s).cloned();
        let mut wrong = false;
        for (axis, actual, what, span, place) in &pairs {
            let Some(expected) = axis.try_substitute(&of) else {
                self.errors.push(too_long(path.span));
                return None;
            };
            let known = axis.as_symbol().is_some() || axis.to_string() == expected.to_string();
            let shown = match known {
                true => format!("`{expected}`"),
                false => format!("`{axis}` = `{expected}`"),
            };
            let text = format!(
                "{what} of block `{}` is {shown}, but this argument's is `{actual}`",
                instance::base(callee.name.as_str())
            );
            let diag = Diag::new(Code::CallExtent, *span, text).secondary(*place, "declared here");
            let what = format!("{what} of block `{}`", instance::base(callee.name.as_str()));
            let answer = self.equal(&expected, actual, &what, || diag.clone());
            if !matches!(answer, Equality::Equal) {
                self.errors.push(diag);
                wrong = true;
            }
        }
        (!wrong).then_some(dims)
    }

    /// A quotient in it, if any, leaves no remainder.
    fn exact(&self, value: &Dim) -> bool {
        value.terms().flat_map(|(m, _)| m).all(|atom| match atom {
            Atom::Div(a, b) => self.facts.holds(&a.rem(b), CmpOp::Eq, &Dim::from(0)),
            _ => true,
        })
    }
}

/// `c·S + rest = axis` with the value `actual`, solved for `S`, the only one of `names` without a
/// value in `dims`; the quotient is exact only where `c` divides.
pub(crate) fn solve_linear(
    axis: &Dim,
    actual: &Dim,
    names: &BTreeSet<&Arc<str>>,
    dims: &BTreeMap<Arc<str>, Dim>,
) -> Option<(Arc<str>, Dim)> {
    let unknown: Vec<Arc<str>> = axis
        .symbols()
        .into_iter()
        .filter(|s| names.contains(s) && !dims.contains_key(s))
        .collect();
    let [symbol] = &unknown[..] else { return None };
    let (mut slope, mut rest) = (Dim::from(0), Dim::from(0));
    for (monomial, coefficient) in axis.terms() {
        let is_symbol = |a: &Atom| matches!(a, Atom::Sym(s) if s == symbol);
        let mut term = Dim::from(coefficient);
        for atom in monomial.iter().filter(|a| !is_symbol(a)) {
            term = &term
                * &match atom {
                    Atom::Sym(s) => Dim::sym(s.clone()),
                    Atom::Div(a, b) => a.floor_div(b),
                    Atom::Rem(a, b) => a.rem(b),
                };
        }
        match monomial.iter().filter(|a| is_symbol(a)).count() {
            0 => rest = &rest + &term,
            1 => slope = &slope + &term,
            _ => return None,
        }
    }
    if slope.symbols().contains(symbol) || rest.symbols().contains(symbol) {
        return None;
    }
    let of = |s: &str| dims.get(s).cloned();
    let (slope, rest) = (slope.try_substitute(&of)?, rest.try_substitute(&of)?);
    (slope.as_const() != Some(0)).then(|| (symbol.clone(), (actual - &rest).floor_div(&slope)))
}

fn no_ranks(name: &str, path: &ast::Path) -> Diag {
    let text = format!("no number of axes for the `..` of block `{name}` fits these arguments");
    Diag::new(Code::CallExtent, path.span, text)
}

/// The same const from where no dim hides it.
fn outer(path: &ast::Path) -> ast::Path {
    let here = Ident {
        name: "self".into(),
        span: path.span,
    };
    let segments = std::iter::once(here)
        .chain(path.segments.iter().cloned())
        .collect();
    ast::Path {
        global: false,
        segments,
        span: path.span,
    }
}

/// Equal but for extents? Whether two programs mean the same struct is left to rustc.
fn same_kind(a: &Type, b: &Type, one_program: bool) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => a.dtype == b.dtype && a.axes.len() == b.axes.len(),
        (Type::Struct(a), Type::Struct(b)) => match one_program {
            true => a.name == b.name,
            false => a.args.len() == b.args.len(),
        },
        (Type::Array(a, _), Type::Array(b, _)) => same_kind(a, b, one_program),
        _ => false,
    }
}

/// Every extent of a parameter with that of its argument and what to call it.
fn axes(
    param: &Type,
    arg: &Type,
    (name, dims): (&str, &[Arc<str>]),
    each: &mut dyn FnMut(&Dim, &Dim, String),
) {
    match (param, arg) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            for (at, (x, y)) in a.axes.iter().zip(&b.axes).enumerate() {
                let axis = match x.as_symbol().filter(|s| dims.contains(s)) {
                    Some(symbol) => format!("`{symbol}`"),
                    None => at.to_string(),
                };
                each(x, y, format!("axis {axis} of `{name}`"));
            }
        }
        (Type::Struct(a), Type::Struct(b)) => {
            for (at, (x, y)) in a.args.iter().zip(&b.args).enumerate() {
                each(x, y, format!("dim {at} of `{name}`"));
            }
        }
        (Type::Array(a, n), Type::Array(b, m)) => {
            each(n, m, format!("the length of `{name}`"));
            axes(a, b, (name, dims), each);
        }
        _ => {}
    }
}
