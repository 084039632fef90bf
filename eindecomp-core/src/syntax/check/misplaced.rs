//! Arguments in another's place: of the same call, of another call, or with their axes turned.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arguments::{axes, same_kind};
use super::body::BodyCx;
use super::fixes::index_names;
use super::instance;
use super::orders::reordered_argument;
use super::prove::Facts;
use super::tree::{Block, TensorType, Type};
use crate::ein::Dim;
use crate::syntax::ast::{self, ExprKind, Stmt, StmtKind};
use crate::syntax::diag::Fix;
use crate::syntax::token::Span;

/// A call as it might be.
#[derive(Clone, Copy)]
struct Trial<'t> {
    callee: &'t Block,
    args: &'t [ast::Expr],
    /// What its results are to be, as far as that is declared.
    wanted: &'t [Option<Type>],
}

impl<'a> BodyCx<'a> {
    /// Says of the first error since number `before` which argument is meant, or where, if then all
    /// of them fit and the results are as `said`. Is there such a one?
    pub(super) fn mend_arguments(
        &mut self,
        callee: (&Block, &[Option<Type>]),
        args: &[ast::Expr],
        said: &[Type],
        before: usize,
    ) -> bool {
        let Some(fix) = self.meant_arguments(callee, args, said) else {
            return false;
        };
        self.errors.truncate(before + 1);
        if let Some(error) = self.errors.get_mut(before) {
            error.fixes = vec![fix];
            error.help = None;
        }
        true
    }

    /// The same of obligations since number `since`, which are what the call needs of consts; `facts` are those without
    /// them.
    pub(super) fn mend_obligations(
        &mut self,
        callee: (&Block, &[Option<Type>]),
        args: &[ast::Expr],
        said: &[Type],
        (since, facts): (usize, Facts),
    ) {
        if self.block.obligations.len() == since {
            return;
        }
        let known = std::mem::replace(&mut self.facts, facts);
        let fix = self.meant_arguments(callee, args, said);
        self.facts = known;
        let Some(fix) = fix else { return };
        for obligation in &mut self.block.obligations[since..] {
            obligation.diag.fixes = vec![fix.clone()];
            obligation.diag.help = None;
        }
    }

    /// Which argument of a call that does not fit is meant, or where, if then all of them fit and the results are as
    /// `said`.
    fn meant_arguments(
        &mut self,
        (callee, types): (&Block, &[Option<Type>]),
        args: &[ast::Expr],
        said: &[Type],
    ) -> Option<Fix> {
        let types: Vec<Type> = types.iter().cloned().collect::<Option<_>>()?;
        let stmt = self.stmt?;
        let wanted = self.said_or_declared(stmt, said);
        let trial = Trial {
            callee,
            args,
            wanted: &wanted,
        };
        if self.agree(trial, &types) {
            return None;
        }
        self.swapped_arguments(trial, &types)
            .or_else(|| self.other_argument(trial, &types))
            .or_else(|| self.of_another_call(trial, &types, stmt))
            .or_else(|| self.turned_argument(trial, &types))
            .or_else(|| reordered_argument(self, args, &types, &|types| self.agree(trial, types)))
    }

    /// A block of this program or of another one, if it has no instances.
    fn block_called(&self, path: &ast::Path) -> Option<&'a Block> {
        let (name, items) = (path.to_string(), self.items);
        let other = || match items.declared.others.block(&name) {
            Some([one]) => Some(one),
            _ => None,
        };
        items.checked.block(&name).or_else(other)
    }

    /// What is `said` of the results of a call, or else declared.
    fn said_or_declared(&mut self, stmt: &Stmt, said: &[Type]) -> Vec<Option<Type>> {
        match said {
            [] => self.wanted_results(stmt),
            said => said.iter().cloned().map(Some).collect(),
        }
    }

    /// What is declared of the results of a call.
    fn wanted_results(&mut self, stmt: &Stmt) -> Vec<Option<Type>> {
        let StmtKind::Let { pat, ty, .. } = &stmt.kind else {
            return Vec::new();
        };
        if let Some(ty) = ty {
            let count = self.errors.len();
            let types = self.annotation(ty).unwrap_or_default();
            self.errors.truncate(count);
            return types.into_iter().map(Some).collect();
        }
        let results = self.ast.result.as_ref().map_or(&[][..], |r| &r.names);
        let declared = pat.names.iter().map(|name| {
            let at = results.iter().position(|n| n.name == name.name)?;
            self.block.results.get(at).map(|result| result.ty.clone())
        });
        declared.collect()
    }

    /// The arguments in another order, if just one fits of those that move the fewest.
    fn swapped_arguments(&self, trial: Trial<'_>, types: &[Type]) -> Option<Fix> {
        let args = trial.args;
        let moved = |order: &Vec<usize>| (0..order.len()).filter(|&at| order[at] != at).count();
        let mut orders = orders(args.len());
        orders.sort_by_key(moved);
        let others = orders.into_iter().filter(|order| moved(order) > 0);
        let mut fitting = others.filter(|order| {
            let types: Vec<Type> = order.iter().map(|&at| types[at].clone()).collect();
            self.agree(trial, &types)
        });
        let Some(first) = fitting.next() else {
            return self.exchanged_arguments(trial, types);
        };
        if fitting
            .next()
            .is_some_and(|next| moved(&next) == moved(&first))
        {
            return None;
        }
        let texts = first.iter().map(|&at| args[at].to_string());
        let texts: Vec<String> = texts.collect();
        let name = instance::base(trial.callee.name.as_str());
        let help = format!("did you mean `{name}({})`?", texts.join(", "));
        let edits = args.iter().zip(texts).enumerate();
        let edits = edits.filter(|(at, _)| first[*at] != *at);
        let edits = edits.map(|(_, (arg, text))| (arg.span, text)).collect();
        Some(Fix { help, edits })
    }

    /// Two of the arguments for each other wherever they stand, where one of them is given more than once.
    fn exchanged_arguments(&self, trial: Trial<'_>, types: &[Type]) -> Option<Fix> {
        let names: Vec<String> = trial.args.iter().map(ast::Expr::to_string).collect();
        let pairs = (0..names.len()).flat_map(|a| (a + 1..names.len()).map(move |b| (a, b)));
        let mut fitting = pairs.filter_map(|(a, b)| {
            let first = |name: &String| names.iter().position(|other| other == name);
            let put = |name: &String| match name {
                name if *name == names[a] => first(&names[b]),
                name if *name == names[b] => first(&names[a]),
                name => first(name),
            };
            let order: Vec<usize> = names.iter().map(put).collect::<Option<_>>()?;
            let types: Vec<Type> = order.iter().map(|&at| types[at].clone()).collect();
            (names[a] != names[b] && self.agree(trial, &types)).then_some(order)
        });
        let order = fitting.next()?;
        if fitting.any(|other| other != order) {
            return None;
        }
        let texts: Vec<String> = order.iter().map(|&at| names[at].clone()).collect();
        let name = instance::base(trial.callee.name.as_str());
        let help = format!("did you mean `{name}({})`?", texts.join(", "));
        let edits = trial.args.iter().zip(texts);
        let edits = edits.filter(|(arg, text)| arg.to_string() != *text);
        let edits = edits.map(|(arg, text)| (arg.span, text)).collect();
        Some(Fix { help, edits })
    }

    /// A tensor that nothing reads in place of an argument.
    fn other_argument(&self, trial: Trial<'_>, types: &[Type]) -> Option<Fix> {
        let args = trial.args;
        let mut unread = self.unread();
        let (at, name) = unread.find_map(|(name, ty)| {
            let fits = |at: &usize| {
                let mut types = types.to_vec();
                types[*at] = Type::Tensor(ty.clone());
                self.agree(trial, &types)
            };
            let mut places = (0..args.len()).filter(fits);
            places.next().zip(Some(name))
        })?;
        let mut shown: Vec<String> = args.iter().map(ast::Expr::to_string).collect();
        shown[at] = name.to_owned();
        let block = instance::base(trial.callee.name.as_str());
        let help = format!("did you mean `{block}({})`?", shown.join(", "));
        Some(Fix::replace(args[at].span, name, &help))
    }

    /// One argument more, a tensor that nothing reads, or one less, where just one such call fits.
    pub(super) fn one_more_or_less(
        &mut self,
        (callee, types): (&Block, &[Option<Type>]),
        args: &[ast::Expr],
        said: &[Type],
    ) -> Option<Fix> {
        let types: Vec<Type> = types.iter().cloned().collect::<Option<_>>()?;
        let wanted = self.said_or_declared(self.stmt?, said);
        let trial = Trial {
            callee,
            args,
            wanted: &wanted,
        };
        let texts: Vec<String> = args.iter().map(ast::Expr::to_string).collect();
        let mut found = Vec::new();
        if callee.params.len() == args.len() + 1 {
            for (name, ty) in self.unread() {
                for at in 0..=args.len() {
                    let (mut types, mut texts) = (types.to_vec(), texts.clone());
                    types.insert(at, Type::Tensor(ty.clone()));
                    texts.insert(at, name.to_owned());
                    let edit = match args.get(at) {
                        Some(next) => (
                            Span::new(next.span.start, next.span.start),
                            format!("{name}, "),
                        ),
                        None => {
                            let end = args.last()?.span.end;
                            (Span::new(end, end), format!(", {name}"))
                        }
                    };
                    found.extend(self.agree(trial, &types).then_some((texts, edit)));
                }
            }
        } else if callee.params.len() + 1 == args.len() {
            for (at, arg) in args.iter().enumerate() {
                let (mut types, mut texts) = (types.to_vec(), texts.clone());
                types.remove(at);
                texts.remove(at);
                let gone = match (at, args.get(at + 1)) {
                    (0, Some(next)) => Span::new(arg.span.start, next.span.start),
                    (0, None) => arg.span,
                    _ => Span::new(args[at - 1].span.end, arg.span.end),
                };
                let edit = (gone, String::new());
                found.extend(self.agree(trial, &types).then_some((texts, edit)));
            }
        }
        let (texts, edit) = found.pop().filter(|_| found.is_empty())?;
        let name = instance::base(callee.name.as_str());
        let help = format!("did you mean `{name}({})`?", texts.join(", "));
        Some(Fix {
            help,
            edits: vec![edit],
        })
    }

    /// An argument in the place of one of another call, and that one here, where each fits so alone.
    fn of_another_call(&mut self, trial: Trial<'_>, types: &[Type], stmt: &Stmt) -> Option<Fix> {
        let (ast, mut found) = (self.ast, Vec::new());
        for other in ast.stmts.iter().filter(|other| other.span != stmt.span) {
            let Some((path, args)) = called(other) else {
                continue;
            };
            let Some(callee) = self.block_called(path) else {
                continue;
            };
            let wanted = self.wanted_results(other);
            let there = Trial {
                callee,
                args,
                wanted: &wanted,
            };
            let pairs = (0..trial.args.len()).flat_map(|a| (0..args.len()).map(move |b| (a, b)));
            for (a, b) in pairs {
                if self.fit_exchanged((trial, types, stmt, a), (there, other, b)) {
                    found.push((trial.args[a].clone(), args[b].clone()));
                }
            }
        }
        let [(ours, theirs)] = &found[..] else {
            return None;
        };
        let help = format!("did you mean `{theirs}` here and `{ours}` in the other call?");
        // The same edits, whichever of the calls is told.
        let (first, second) = match ours.span < theirs.span {
            true => (ours, theirs),
            false => (theirs, ours),
        };
        let fix = Fix::replace(first.span, second.to_string(), &help);
        Some(fix.and(second.span, first.to_string()))
    }

    /// Do two calls fit with these arguments of theirs exchanged, but the other one not as it is? Of a
    /// name that is defined later nothing is asked, but for what one of them gives the other.
    fn fit_exchanged(
        &self,
        (here, types, stmt, a): (Trial<'_>, &[Type], &Stmt, usize),
        (there, other, b): (Trial<'_>, &Stmt, usize),
    ) -> bool {
        let named = |arg: &ast::Expr| match &arg.kind {
            ExprKind::Name(place) => self.type_of(place).map(Type::Tensor),
            _ => None,
        };
        let (Some(ours), Some(theirs)) = (named(&here.args[a]), named(&there.args[b])) else {
            return false;
        };
        let mut changed = types.to_vec();
        changed[a] = theirs.clone();
        if !self.agree(here, &changed) {
            return false;
        }
        let changed: Vec<Option<Type>> = changed.into_iter().map(Some).collect();
        let given = self.given(here, &changed, stmt);
        let with = |exchanged: &Type| -> Vec<Option<Type>> {
            let args = there.args.iter().enumerate();
            let types = args.map(|(at, arg)| {
                let name = arg.to_string();
                let given = given.iter().find(|(target, _)| *target == name);
                match at == b {
                    true => Some(exchanged.clone()),
                    false => given.map(|(_, ty)| ty.clone()).or_else(|| named(arg)),
                }
            });
            types.collect()
        };
        let right = with(&ours);
        let takes = self.given(there, &right, other);
        let chained = here.args.iter().enumerate().all(|(at, arg)| {
            let name = arg.to_string();
            let new = takes.iter().find(|(target, _)| *target == name);
            new.is_none_or(|(_, ty)| at != a && Some(ty) == changed[at].as_ref())
        });
        chained && self.may_agree(there, &right) && !self.may_agree(there, &with(&theirs))
    }

    /// The results of a call whose arguments have these types, by name.
    fn given(&self, trial: Trial<'_>, types: &[Option<Type>], stmt: &Stmt) -> Vec<(String, Type)> {
        let StmtKind::Let { pat, .. } = &stmt.kind else {
            return Vec::new();
        };
        let callee = trial.callee;
        let dims = bare_dims(callee, types, &[]);
        let results = pat.names.iter().zip(&callee.results);
        let results = results.filter_map(|(name, result)| {
            let ty = result.ty.try_substitute(&dims)?;
            let symbols = ty.dims().into_iter().flat_map(Dim::symbols);
            let open = |s: Arc<str>| callee.dims.contains(&s) && !dims.contains_key(&s);
            (!symbols.into_iter().any(open)).then(|| (name.to_string(), ty))
        });
        results.collect()
    }

    /// The arguments of the call that defines the name at `place` in each other's place, if its result
    /// then is of the declared type.
    pub(super) fn swapped_call(&mut self, place: Span) -> Option<Fix> {
        let ast = self.ast;
        let defines = |stmt: &&Stmt| match &stmt.kind {
            StmtKind::Let { pat, .. } => matches!(&pat.names[..], [name] if name.span == place),
            _ => false,
        };
        let stmt = ast.stmts.iter().find(defines)?;
        self.swapped_in(stmt)
    }

    /// Says of error number `at`, about the results of the call that is being checked, that two of its
    /// arguments stand in each other's place, if so the results are as declared.
    pub(super) fn mend_results(&mut self, at: usize) {
        let Some(fix) = self.stmt.and_then(|stmt| self.swapped_in(stmt)) else {
            return;
        };
        if let Some(error) = self.errors.get_mut(at) {
            error.fixes = vec![fix];
            error.help = None;
        }
    }

    /// The arguments of the call of a statement in each other's place, if its results then are of the
    /// declared types.
    fn swapped_in(&mut self, stmt: &Stmt) -> Option<Fix> {
        let wanted = match &stmt.kind {
            StmtKind::Carry { targets, .. } => {
                let vars = targets.iter().map(|name| self.lookup(name.as_str()));
                vars.map(|var| self.vars[var?.at()].ty.clone()).collect()
            }
            _ => self.wanted_results(stmt),
        };
        let (path, args) = called(stmt)?;
        let callee = self.block_called(path)?;
        let types = args.iter().map(|arg| match &arg.kind {
            ExprKind::Name(place) => self.type_of(place).map(Type::Tensor),
            _ => None,
        });
        let types: Vec<Type> = types.collect::<Option<_>>()?;
        let trial = Trial {
            callee,
            args,
            wanted: &wanted,
        };
        (types.len() == callee.params.len())
            .then(|| self.swapped_arguments(trial, &types))
            .flatten()
    }

    /// A statement before that gives two axes of an argument in each other's place.
    fn turned_argument(&self, trial: Trial<'_>, types: &[Type]) -> Option<Fix> {
        let args = types.iter().zip(trial.args).enumerate();
        args.into_iter().find_map(|(at, (ty, arg))| {
            let given = ty.tensor()?;
            let rank = given.axes.len();
            let mut pairs = (0..rank).flat_map(|a| (a + 1..rank).map(move |b| (a, b)));
            pairs.find_map(|(a, b)| {
                let (mut turned, mut left) = (given.clone(), index_names(&given.axes));
                let value = format!("{arg}[{}]", left.join(", "));
                turned.axes.swap(a, b);
                left.swap(a, b);
                let mut types = types.to_vec();
                types[at] = Type::Tensor(turned);
                let left = format!("[{}]", left.join(", "));
                let fits = self.agree(trial, &types);
                fits.then(|| self.hoisted(&left, &value, arg.span))?
            })
        })
    }

    /// Do arguments of these types fit, with one extent for each dim, and the results?
    fn agree(&self, trial: Trial<'_>, types: &[Type]) -> bool {
        let types: Vec<Option<Type>> = types.iter().cloned().map(Some).collect();
        self.may_agree(trial, &types)
    }

    /// [`BodyCx::agree`] for those of which the type is known.
    fn may_agree(&self, trial: Trial<'_>, types: &[Option<Type>]) -> bool {
        let callee = trial.callee;
        let local = self.is_local(instance::base(callee.name.as_str()));
        let params = callee.params.iter().map(|param| &param.ty).zip(types);
        let mut params = params.filter_map(|(ty, given)| Some((ty, given.as_ref()?)));
        let kinds = params
            .clone()
            .all(|(ty, given)| same_kind(ty, given, local));
        let results = callee.results.iter().zip(trial.wanted);
        let results = results.filter_map(|(result, wanted)| Some((&result.ty, wanted.as_ref()?)));
        let mut ranks = results
            .clone()
            .filter_map(|(a, b)| a.tensor().zip(b.tensor()));
        let like =
            |(a, b): (&TensorType, &TensorType)| a.dtype == b.dtype && a.axes.len() == b.axes.len();
        if !kinds || !ranks.all(like) {
            return false;
        }
        let dims = bare_dims(callee, types, trial.wanted);
        let equal = |axis: &Dim, actual: &Dim| {
            let expected = axis.try_substitute(&|s| dims.get(s).cloned());
            expected.is_some_and(|e| self.facts.equal(&e, actual))
        };
        let mut fits = true;
        for (ty, given) in params.by_ref().chain(results) {
            axes(ty, given, ("", &|_| None), &mut |axis, actual, _| {
                let known = axis.symbols();
                let mut known = known.iter().filter(|s| callee.dims.contains(s));
                fits &= !known.all(|s| dims.contains_key(s)) || equal(axis, actual);
            });
        }
        fits
    }
}

/// The callee's dims by the axes that are one: of arguments first, then of results.
fn bare_dims(
    callee: &Block,
    types: &[Option<Type>],
    wanted: &[Option<Type>],
) -> BTreeMap<Arc<str>, Dim> {
    let mut dims = BTreeMap::new();
    let params = callee.params.iter().map(|param| &param.ty).zip(types);
    let results = callee.results.iter().map(|result| &result.ty).zip(wanted);
    for (ty, given) in params.chain(results) {
        let Some(given) = given else { continue };
        axes(ty, given, ("", &|_| None), &mut |axis, actual, _| {
            if let Some(symbol) = axis.as_symbol().filter(|s| callee.dims.contains(s)) {
                dims.entry(symbol.clone()).or_insert_with(|| actual.clone());
            }
        });
    }
    dims
}

/// Every order of so many arguments; of many, those that exchange two.
pub(super) fn orders(count: usize) -> Vec<Vec<usize>> {
    const ALL: usize = 5;
    let own: Vec<usize> = (0..count).collect();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    let exchanged = pairs.map(|(a, b)| {
        let mut order = own.clone();
        order.swap(a, b);
        order
    });
    if count > ALL {
        return exchanged.collect();
    }
    let none = vec![Vec::new()];
    (0..count).fold(none, |begun: Vec<Vec<usize>>, _| {
        let longer = begun.into_iter().flat_map(|order| {
            let next = (0..count)
                .filter(|at| !order.contains(at))
                .collect::<Vec<_>>();
            next.into_iter().map(move |at| [&order[..], &[at]].concat())
        });
        longer.collect()
    })
}

/// The call that a statement is.
fn called(stmt: &Stmt) -> Option<(&ast::Path, &[ast::Expr])> {
    match &stmt.kind {
        StmtKind::Let { value, .. } => match &value.kind {
            ExprKind::Call { path, args } => Some((path, args)),
            _ => None,
        },
        StmtKind::Carry { path, args, .. } => Some((path, args)),
        _ => None,
    }
}
