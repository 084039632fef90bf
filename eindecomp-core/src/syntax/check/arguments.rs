//! Arguments against parameters: kinds, dtypes and roles, and the callee's dims by their extents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::body::BodyCx;
use super::dims::too_long;
use super::dtype::{fix, flex};
use super::fixes::index_names;
use super::given::Given;
use super::instance;
use super::prove::Equality;
use super::tree::{Argument, Block, ParamRole, Place, Type};
use super::unequal::is_size;
use super::walk;
use crate::ein::Dim;
use crate::ein::dim::Atom;
use crate::syntax::ast::{self, CmpOp, Ident};
use crate::syntax::diag::{Code, Diag, Fix};

impl BodyCx<'_> {
    /// `#[state]` agrees between parameters and arguments, and no state is given twice.
    pub(super) fn states(
        &mut self,
        callee: &Block,
        made: &[Argument],
        args: &[ast::Expr],
    ) -> Option<()> {
        let name = instance::base(callee.name.as_str()).to_owned();
        let mut given: Vec<&Place> = Vec::new();
        for ((param, argument), text) in callee.params.iter().zip(made).zip(args) {
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
                    let twice = given.iter().any(|other| self.overlap(state, other));
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

    /// Kind, dtype and rank of an argument; a literal takes the parameter's dtype. Of one that does not fit
    /// nothing is known then.
    pub(super) fn fit(&mut self, callee: &Block, at: usize, given: &mut Given, text: &ast::Expr) {
        if self.fits(callee, at, given, text).is_none() {
            *given = None.into();
        }
    }

    fn fits(
        &mut self,
        callee: &Block,
        at: usize,
        given: &mut Given,
        text: &ast::Expr,
    ) -> Option<()> {
        let param = &callee.params[at];
        if let (Some(Argument::Value(value)), Type::Tensor(wanted)) =
            (&mut given.argument, &param.ty)
            && flex(value).is_some()
            && wanted.axes.is_empty()
        {
            fix(value, wanted.dtype, &mut self.errors)?;
            given.ty = Some(param.ty.clone());
        }
        let ty = given.ty.as_ref()?;
        if param.role == ParamRole::Host && matches!(given.argument, Some(Argument::Place(_))) {
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
        // The axes of an instance are not those that are written.
        let base = instance::base(callee.name.as_str());
        let generic = self.items.generic.get(base).filter(|_| local);
        let written = generic.map_or_else(
            || param.ty.to_string(),
            |block| block.params[at].ty.to_string(),
        );
        let name = &param.name;
        let message =
            format!("`{name}` of block `{base}` is `{written}`, but this argument is `{ty}`");
        let diag = Diag::new(Code::Argument, text.span, message)
            .secondary(param.name.span, "declared here");
        let help = match (&param.ty, ty) {
            (Type::Tensor(wanted), Type::Tensor(given))
                if wanted.axes.len() == given.axes.len() && param.role != ParamRole::State =>
            {
                let names = match given.axes.is_empty() {
                    true => String::new(),
                    false => format!("[{}]", index_names(&given.axes).join(", ")),
                };
                let left = if names.is_empty() { "[]" } else { &names };
                let value = format!("{text}{names} as {}", wanted.dtype);
                if let Some(fix) = self.hoisted(left, &value, text.span) {
                    self.errors.push(diag.fix(fix));
                    return None;
                }
                format!("cast it before: `let t{left} = {value};`")
            }
            (Type::Struct(_), Type::Array(..)) => {
                format!("take one after the other: `for l in {text} {{ … }}`")
            }
            _ => format!("`{name}` takes `{written}`; define one before: `let t[…] = …;`"),
        };
        self.errors.push(diag.help(help));
        None
    }

    /// The callee's dims by the extents of the arguments whose types are known, bare axes first, then linear ones; then by
    /// the types that its results are `said` to have.
    pub(super) fn solve_dims(
        &mut self,
        callee: &Block,
        types: &[Option<Type>],
        args: &[ast::Expr],
        said: &[Type],
        path: &ast::Path,
    ) -> Option<BTreeMap<Arc<str>, Dim>> {
        let mut pairs = Vec::new();
        for (at, (param, ty)) in callee.params.iter().zip(types).enumerate() {
            let Some(ty) = ty else { continue };
            let name = param.name.to_string();
            let mut places = param.dim_spans.iter().copied();
            let called = |dim: &Arc<str>| {
                let rest = self.items.rest_of(callee.name.as_str(), dim);
                callee.dims.contains(dim).then(|| match rest {
                    Some(rest) => Called::OneOf(rest),
                    None => Called::Dim(dim.clone()),
                })
            };
            axes(
                &param.ty,
                ty,
                (&name, &called),
                &mut |axis, actual, what| {
                    let place = places.next().unwrap_or(param.name.span);
                    pairs.push((axis.clone(), actual.clone(), what, &args[at], place));
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
        let mut known: Vec<(&Dim, &Dim)> = pairs.iter().map(|p| (&p.0, &p.1)).collect();
        let results = callee.results.iter().zip(said);
        let results = results.filter_map(|(r, said)| r.ty.tensor().zip(said.tensor()));
        let results = results.flat_map(|(r, said)| r.axes.iter().zip(&said.axes));
        for more in [Vec::new(), results.collect()] {
            known.extend(more);
            loop {
                let before = dims.len();
                for (axis, actual) in &known {
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
        }
        let missing = callee.dims.iter().find(|d| !dims.contains_key(*d));
        let whole = types.iter().all(Option::is_some);
        if let Some(missing) = missing.filter(|_| whole) {
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
        for (axis, actual, what, arg, place) in &pairs {
            let open = |s: &Arc<str>| names.contains(s) && !dims.contains_key(s);
            if missing.is_some() && axis.symbols().iter().any(open) {
                continue;
            }
            let Some(expected) = axis.try_substitute(&of) else {
                self.errors.push(too_long(path.span));
                return None;
            };
            // What another call's error moves from here is told there.
            let moved = self.errors.iter().filter(|e| e.code == Code::CallExtent);
            let mut moved = moved.flat_map(|e| &e.fixes).flat_map(|fix| &fix.edits);
            if moved.any(|(place, _)| *place == arg.span) {
                wrong |= !self.facts.equal(&expected, actual);
                continue;
            }
            let known = axis.as_symbol().is_some() || axis.to_string() == expected.to_string();
            let shown = match known {
                true => format!("`{expected}`"),
                false => format!("`{axis}` = `{expected}`"),
            };
            let text = format!(
                "{what} of block `{}` is {shown}, but this argument's is `{actual}`",
                instance::base(callee.name.as_str())
            );
            let diag =
                Diag::new(Code::CallExtent, arg.span, text).secondary(*place, "declared here");
            let what = format!("{what} of block `{}`", instance::base(callee.name.as_str()));
            let answer = self.equal(&expected, actual, &what, || diag.clone());
            if !matches!(answer, Equality::Equal) {
                let fix = match answer {
                    Equality::Unknown if !wrong => walk::name(arg)
                        .and_then(|name| self.given_instead(name, actual, &expected))
                        .or_else(|| self.equal_clause(&expected, actual)),
                    _ => None,
                };
                let unknown = matches!(answer, Equality::Unknown);
                self.errors.push(match fix {
                    Some(fix) => diag.fix(fix),
                    None if axis.as_const().is_some() => {
                        diag.help("the block is for axes of that size: make it a dim of it")
                    }
                    None if unknown && !wrong && is_size(&expected) && is_size(actual) => {
                        diag.help(self.two_sizes(&expected, actual, "another argument"))
                    }
                    None => diag,
                });
                wrong = true;
            }
        }
        (!wrong && missing.is_none()).then_some(dims)
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
        let others = monomial.iter().filter(|a| !is_symbol(a));
        let term = &Dim::from(coefficient) * &Dim::monomial(others);
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
    let (zero, product) = (Dim::from(0), actual - &rest);
    // A divisor is at least 1.
    let value = match slope.as_const() {
        Some(0) => return None,
        Some(..0) => (&zero - &product).floor_div(&(&zero - &slope)),
        _ => product.floor_div(&slope),
    };
    Some((symbol.clone(), value))
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
pub(super) fn same_kind(a: &Type, b: &Type, one_program: bool) -> bool {
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

/// What the block called has in place of an axis.
pub(super) enum Called {
    /// A dim.
    Dim(Arc<str>),
    /// One of the axes of a `..`.
    OneOf(Arc<str>),
}

/// What a dim of the block called is in it, as written.
pub(super) type Names<'a> = dyn Fn(&Arc<str>) -> Option<Called> + 'a;

/// Every extent of a parameter with that of its argument and what to call it.
pub(super) fn axes(
    param: &Type,
    arg: &Type,
    (name, called): (&str, &Names<'_>),
    each: &mut dyn FnMut(&Dim, &Dim, String),
) {
    match (param, arg) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            for (at, (x, y)) in a.axes.iter().zip(&b.axes).enumerate() {
                let axis = match x.as_symbol().and_then(called) {
                    Some(Called::Dim(dim)) => format!("`{dim}`"),
                    Some(Called::OneOf(rest)) => format!("{at}, one of `..{rest}`,"),
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
            axes(a, b, (name, called), each);
        }
        _ => {}
    }
}
