//! Calls of blocks: which block, what its results are, and its clauses proved.

use super::body::BodyCx;
use super::dims::too_long;
use super::given::{all, types_of};
use super::instance::{self, Misfit};
use super::recovered::Sketch;
use super::tree::{Argument, Block, Call, Callee, Clause, ForeignCall, Origin, Stmt, Type, VarId};
use super::variables::Known;
use crate::ein::{Dim, ScalarFn};
use crate::syntax::ast::{self, Ident, Pattern, RType};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{are, count, instead, is_known_elsewhere, nearest};
use crate::syntax::token::Span;

/// A callee with its arguments, and the types of its results.
pub(super) struct Made {
    callee: Callee,
    args: Vec<Argument>,
    pub(super) results: Vec<Type>,
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
            let diag = self.no_left(pat, ty, value);
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
            let said = annotated.as_ref().map_or(&[][..], |(types, _)| types);
            let Some(made) = self.seen_call(&name, path, args, said) else {
                let blocks = &self.items;
                let known = blocks.checked.block(&name).map(|block| block.results.len());
                let generic = || Some(blocks.generic.get(&*name)?.ret.types.len());
                let diag = known
                    .or_else(generic)
                    .and_then(|n| self.wrong_count(&name, pat, n));
                self.errors.extend(diag);
                return None;
            };
            match &annotated {
                Some((declared, at)) => {
                    let place = made.declared.map(|place| (place, "declared here"));
                    let (code, before) = (Code::CallAnnotation, self.errors.len());
                    let same = self.same_types(declared, &made.results, *at, code, place);
                    if same.is_none() {
                        self.mend_results(before);
                        return None;
                    }
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
        if let Some(diag) = self.wrong_count(&name, pat, results.len()) {
            self.errors.push(match diag.fixes.is_empty() {
                true => diag.help(format!("it gives `{}`", super::tree::listed(&results))),
                false => diag,
            });
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

    /// The error about another number of names than a block has results.
    fn wrong_count(&self, name: &str, pat: &Pattern, results: usize) -> Option<Diag> {
        let text = format!(
            "`{name}` has {}, but {} bound",
            count(results, "result", "results"),
            count(pat.names.len(), "name is", "names are")
        );
        let diag = Diag::new(Code::Pattern, pat.span, text);
        (results != pat.names.len()).then(|| diag.fixes(self.as_many(pat, results)))
    }

    /// `x = f(x);`
    pub(super) fn carry(
        &mut self,
        targets: &[Ident],
        path: &ast::Path,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<Stmt> {
        let (name, before) = (path.to_string(), self.errors.len());
        let mut vars = Vec::new();
        for target in targets {
            let found = self.lookup_or_report(target);
            vars.push(found);
            let Some(var) = found else { continue };
            let known = &self.vars[var.at()];
            if !known.mutable && known.ty.is_some() {
                let text = format!("`{target}` is assigned, but not declared `mut`");
                let diag = Diag::new(Code::NotMutable, target.span, text)
                    .secondary(known.span, "declared here");
                let carried = |var: &VarId| self.vars[var.at()].mutable;
                self.errors.push(match known.hides.filter(carried) {
                    _ if known.element_of.is_some() => diag.help(format!(
                        "`{target}` is another element in each round: what a loop carries is a `let mut` before it"
                    )),
                    None => diag.fixes(self.mutable(known)),
                    Some(_) => diag.help(format!(
                        "this `{target}` ends with the round, and hides the one that the loop \
                         carries: give it another name"
                    )),
                });
                // It is told once.
                self.vars[var.at()].mutable = true;
            }
        }
        let wrong = self.errors.len() > before;
        let carried: Option<Vec<Type>> = vars
            .iter()
            .map(|v: &Option<VarId>| self.vars[(*v)?.at()].ty.clone())
            .collect();
        let made = if self.is_local(&name) || self.is_other(&name) {
            self.seen_call(&name, path, args, carried.as_deref().unwrap_or_default())?
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
            let diag = Diag::new(Code::Pattern, span, text);
            self.errors.push(diag.help(
                "a loop carries all results of a block: make one that returns what is carried",
            ));
            return None;
        }
        let vars: Vec<VarId> = vars.into_iter().flatten().collect();
        for ((var, old), new) in vars.iter().zip(&carried).zip(&results) {
            let known = &self.vars[var.at()];
            // No element of an array is carried, which is told.
            if known.element_of.is_some() {
                continue;
            }
            let text = format!("`{}` is `{old}`, but would become `{new}`", known.name);
            let diag = Diag::new(Code::CarriedType, path.span, text)
                .secondary(known.span, "declared here")
                .help("what a loop carries keeps its type; bind another name with `let`");
            if !self.same_type(old, new, &diag) {
                self.errors.push(diag);
                self.mend_results(self.errors.len() - 1);
                return None;
            }
        }
        let targets = vars.into_iter().map(Some).collect();
        (!wrong).then_some(Stmt::Call(Call {
            targets,
            callee,
            args,
            span,
        }))
    }

    /// `mut` where a name is defined; a parameter is defined anew.
    pub(super) fn mutable(&self, known: &Known) -> Option<Fix> {
        let name = &known.name;
        if known.role.is_none() {
            let help = format!("write `let mut {name}`");
            return Some(Fix::before(known.span, "mut ", &help));
        }
        let first = self.ast.stmts.first()?;
        let text = format!("let mut {name} = {name}; ");
        Some(Fix::before(first.span, text, "begin with {}"))
    }

    pub(super) fn is_local(&self, name: &str) -> bool {
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
        let help = format!("`let {pat}: {types} = {path}(…);`");
        diag.fix(Fix::after(pat.span, format!(": {types}"), &help))
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

    /// A call of another program's block that is not known yet: what is said of it is trusted.
    fn unseen_call(
        &mut self,
        path: &ast::Path,
        args: &[ast::Expr],
        (results, results_span): (Vec<Type>, Span),
    ) -> Option<Made> {
        let (arguments, types) = all(self.arguments(args, &[]))?;
        Some(Made {
            callee: self.foreign(path, args, (types, results.clone()), results_span),
            args: arguments,
            results,
            declared: None,
        })
    }

    fn foreign(
        &mut self,
        path: &ast::Path,
        args: &[ast::Expr],
        (types, results): (Vec<Type>, Vec<Type>),
        results_span: Span,
    ) -> Callee {
        self.block.foreign.push(ForeignCall {
            path: path.clone(),
            args: types,
            results,
            arg_spans: args.iter().map(|a| a.span).collect(),
            results_span,
        });
        Callee::Foreign(self.block.foreign.len() - 1)
    }

    /// A call of a block whose signature is known.
    /// `said` are the types that the results are said to have: they give dims that no argument
    /// determines.
    pub(super) fn seen_call(
        &mut self,
        name: &str,
        path: &ast::Path,
        args: &[ast::Expr],
        said: &[Type],
    ) -> Option<Made> {
        let checked = self.items.checked;
        let params = checked.block(name).map_or(&[][..], |b| &b.params);
        let mut made = self.arguments(args, params);
        let types = types_of(&made);
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
            let mended = self.one_more_or_less((&callee, &types), args, said);
            self.errors.push(match mended {
                Some(fix) => diag.fix(fix),
                None => diag.help(help),
            });
            return None;
        }
        let before = self.errors.len();
        self.sketch = Sketch::of_call(&callee, &types, args);
        for (at, given) in made.iter_mut().enumerate() {
            self.fit(&callee, at, given, &args[at]);
        }
        if self.errors.len() > before && self.mend_arguments((&callee, &types), args, said, before)
        {
            return None;
        }
        for (name, path) in &callee.consts {
            if !self.dims.hides(name) {
                self.dims.consts.insert(name.clone(), path.clone());
            }
        }
        let fitting = types_of(&made);
        let open = (self.block.obligations.len(), self.facts.clone());
        let dims = self.solve_dims(&callee, &fitting, args, said, path);
        self.mend_obligations((&callee, &fitting), args, said, open);
        let (arguments, types) = all(made)?;
        self.states(&callee, &arguments, args)?;
        let Some(dims) = dims else {
            self.mend_arguments((&callee, &fitting), args, said, before);
            return None;
        };
        let of = |s: &str| dims.get(s).cloned();
        let mut possible = true;
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
            let here = format!("{left} {} {right}", clause.cmp.symbol());
            let needs = match here == clause.to_string() {
                true => format!("block `{name}` needs `{clause}`"),
                false => format!("block `{name}` needs `{clause}`, that is `{here}`"),
            };
            if clause.origin == Origin::Declared && !self.dims.only_consts(&difference) {
                let text = format!("{needs}, which does not follow");
                let diag = Diag::new(Code::CalleeClause, path.span, text)
                    .secondary(clause.span, "needed here");
                let fix = self.add_clause(&left, clause.cmp, &right);
                self.errors.push(diag.fixes(fix));
                continue;
            }
            let (cmp, origin, span) = (clause.cmp, clause.origin.clone(), path.span);
            let text = format!("{needs}, which does not hold");
            let diag =
                Diag::new(Code::CalleeClause, span, text).secondary(clause.span, "needed here");
            let clause = Clause {
                left,
                cmp,
                right,
                origin,
                span,
            };
            let told = self.errors.len();
            self.require_or(clause, diag);
            possible &= self.errors.len() == told;
        }
        // Of sizes that cannot be, nothing more is said.
        if !possible {
            return None;
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
        let made = match self.is_local(name) {
            true => Callee::Local {
                name: callee.name.name.clone(),
                dims,
            },
            false => self.foreign(path, args, (types, said.to_vec()), path.span),
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
        args: &[Option<Type>],
        texts: &[ast::Expr],
        path: &ast::Path,
    ) -> Option<Block> {
        let given = |ty: &Type| ty.tensor().map(|t| (t.dtype, t.axes.len()));
        let known: Option<Vec<&Type>> = args.iter().map(Option::as_ref).collect();
        if !self.is_local(name) {
            let instances = self.items.declared.others.block(name)?;
            let first = instances.first()?;
            let fits = |block: &&Block| {
                let wanted = block.params.iter().map(|p| given(&p.ty));
                let args = known.iter().flatten().map(|ty| given(ty));
                block.params.len() == args.clone().count() && wanted.eq(args)
            };
            let found = instances.iter().find(fits);
            if instances.len() > 1 && known.is_none() {
                return None;
            }
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
        let given: Vec<_> = args.iter().map(|ty| given(ty.as_ref()?)).collect();
        let literal = |at: usize| matches!(texts[at].kind, ast::ExprKind::Lit(_));
        let ranked: Vec<_> = given
            .iter()
            .enumerate()
            .map(|(at, given)| given.filter(|_| !literal(at)))
            .collect();
        // A wrong number of arguments is told for any instance.
        let choices = match instance::fit(generic, &ranked) {
            _ if given.len() != generic.params.len() => instance::declared(generic).swap_remove(0),
            Ok(choices) => choices,
            Err(Misfit::Ranks | Misfit::Open(_)) if known.is_none() => return None,
            Err(Misfit::Ranks) => {
                let params = generic
                    .params
                    .iter()
                    .map(|p| format!("{}: {}", p.name, p.ty));
                let params = params.collect::<Vec<_>>().join(", ");
                let given: Vec<String> =
                    known.iter().flatten().map(|ty| format!("`{ty}`")).collect();
                let help = format!(
                    "it takes `{params}`; the arguments are {}",
                    given.join(", ")
                );
                self.errors.push(no_ranks(name, path).help(help));
                return None;
            }
            Err(Misfit::Dtype(at, why)) => {
                let (param, arg) = (&generic.params[at], args[at].as_ref()?);
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
}

fn no_ranks(name: &str, path: &ast::Path) -> Diag {
    let text = format!("no number of axes for the `..` of block `{name}` fits these arguments");
    Diag::new(Code::CallExtent, path.span, text)
}
