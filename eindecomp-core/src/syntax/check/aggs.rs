//! Aggregations over records: what a user's `agg` means, and `softmax_sum`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::body::{BodyCx, Items};
use super::dtype::{coerce, element_type, settle};
use super::expr::{Args, MAX_SIZE, StmtCx};
use super::tree::{Component, Expr, ExprKind, RecordAgg};
use super::types::{Declared, Once};
use super::walk;
use crate::ein::{DType, ScalarFn, Value};
use crate::syntax::ast::{self, Ident, RecordValue};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::nearest;
use crate::syntax::parse_text;
use crate::syntax::token::Span;

/// The online softmax, in the dtype `T`. A score of −inf weighs 0 whatever the maximum is, so that
/// two maxima of −inf make no NaN; what no score selects is 0 / 0.
const SOFTMAX_SUM_TEXT: &str = "agg softmax_sum(score: T, value: T) {
    state { m: T = -inf, z: T = 0.0, o: T = 0.0 }
    lift {
        m: score,
        z: if score == -inf { 0.0 } else { 1.0 },
        o: value * (if score == -inf { 0.0 } else { 1.0 }),
    }
    merge(a, b) {
        let m = max(a.m, b.m);
        let base = if m == -inf { 0.0 } else { m };
        let p = exp(a.m - base);
        let q = exp(b.m - base);
        { m: m, z: a.z * p + b.z * q, o: a.o * p + b.o * q }
    }
    finish { o / z }
}";

/// `softmax_sum` with records of a float dtype.
pub(crate) fn softmax_sum(dtype: DType) -> Option<Arc<RecordAgg>> {
    static MADE: [OnceLock<Option<Arc<RecordAgg>>>; DType::ALL.len()] =
        [const { OnceLock::new() }; DType::ALL.len()];
    MADE[dtype as usize]
        .get_or_init(|| {
            let source = SOFTMAX_SUM_TEXT.replace(": T", &format!(": {dtype}"));
            let (program, _) = parse_text(&source);
            let (checked, made, others) = Default::default();
            let declared = Declared::of(&program, &others);
            let items = Items::of(&program, &declared, &checked, &made);
            let mut aggs = program.items.iter().filter_map(|item| match item {
                ast::Item::Agg(agg) => Some(agg),
                _ => None,
            });
            aggs.next().and_then(|agg| check(agg, &items).0)
        })
        .clone()
}

/// Where an expression of an aggregation's definition stands.
pub(super) struct Definition {
    /// `lift`, `merge`, `finish`, or what has no names to read.
    part: &'static str,
    agg: Ident,
    /// The states of a `merge`.
    states: Vec<Ident>,
    /// Names of the components.
    components: Vec<Arc<str>>,
    /// The component that the expression gives.
    gives: Option<Arc<str>>,
}

impl Definition {
    /// A name that the definition does not know.
    pub(super) fn unknown(&self, place: &ast::Place, known: &Args) -> Diag {
        let text = format!(
            "`{place}` is not known in the {} of `{}`",
            self.part, self.agg
        );
        let diag = Diag::new(Code::UndefinedName, place.span, text);
        let name = place.to_string();
        let of = |state: &Ident| {
            let text = format!("{state}.{name}");
            Fix::replace(place.span, text, "write {}")
        };
        if self.components.iter().any(|c| **c == *name)
            && let [a, b] = &self.states[..]
        {
            if self.gives.as_ref().is_some_and(|gives| **gives != *name) {
                let others: Vec<String> =
                    self.components.iter().map(|c| format!("{c}: …")).collect();
                return diag.help(format!(
                    "a merged value has a name by a `let`: `{{ let {name} = …; {{ {} }} }}`; those merged are `{a}.{name}` \
                     and `{b}.{name}`",
                    others.join(", ").replacen(&format!("{name}: …"), &format!("{name}: {name}"), 1)
                ));
            }
            return diag.fixes([of(a), of(b)]);
        }
        let partner = || {
            let (state, _) = name.split_once('.')?;
            let meant = format!("{state}.{}", self.gives.as_ref()?);
            known
                .keys()
                .find(|known| ***known == *meant)
                .map(|known| &**known)
        };
        match partner().or_else(|| nearest(&name, known.keys().map(|k| &**k))) {
            Some(meant) => diag.fix(Fix::replace(place.span, meant, "did you mean {}?")),
            None if known.is_empty() => diag,
            None => {
                let known: Vec<&str> = known.keys().map(|k| &**k).collect();
                diag.help(format!("it knows `{}`", known.join("`, `")))
            }
        }
    }

    /// What reads tensors or indices there.
    pub(super) fn refuse(&self, what: &str, span: Span) -> Diag {
        let text = format!(
            "{what} cannot stand in the {} of `{}`, which sees numbers only",
            self.part, self.agg
        );
        let diag = Diag::new(Code::NestedReduction, span, text);
        diag.help("pass the value as an argument of the aggregation")
    }
}

/// The aggregation, if nothing is wrong with it.
pub(super) fn check(agg: &ast::Agg, items: &Items<'_>) -> (Option<Arc<RecordAgg>>, Vec<Diag>) {
    let span = agg.head.name.span;
    let outside = ast::Block {
        head: agg.head.clone(),
        generics: Vec::new(),
        params: Vec::new(),
        ret: ast::RType {
            types: Vec::new(),
            span,
        },
        clauses: Vec::new(),
        stmts: Vec::new(),
        result: None,
        unnamed: None,
        signature: span,
        splits: None,
    };
    let mut cx = BodyCx::bare(&outside, items);
    let mut check = Check {
        agg,
        cx: &mut cx,
        gives: None,
    };
    let made = check.record();
    let errors = std::mem::take(&mut cx.errors);
    (made.filter(|_| errors.is_empty()).map(Arc::new), errors)
}

struct Check<'c, 'a> {
    agg: &'c ast::Agg,
    cx: &'c mut BodyCx<'a>,
    /// The component whose value is being checked.
    gives: Option<Arc<str>>,
}

impl Check<'_, '_> {
    fn record(&mut self) -> Option<RecordAgg> {
        let agg = self.agg;
        let mut names = Once::default();
        let mut args = Vec::new();
        for (name, dtype) in &agg.params {
            names.add(name, "argument", &mut self.cx.errors);
            args.push((name, element_type(dtype, &mut self.cx.errors)));
        }
        let mut names = Once::default();
        let mut state = Vec::new();
        for field in &agg.state {
            names.add(&field.name, "component", &mut self.cx.errors);
            state.push((field, element_type(&field.dtype, &mut self.cx.errors)));
        }
        let mut names = Once::default();
        for name in [&agg.merge_args.0, &agg.merge_args.1] {
            names.add(name, "state", &mut self.cx.errors);
        }
        let args: Option<Vec<(&Ident, DType)>> =
            args.into_iter().map(|(name, d)| Some((name, d?))).collect();
        let state: Option<Vec<(&ast::StateField, DType)>> = state
            .into_iter()
            .map(|(field, d)| Some((field, d?)))
            .collect();
        let (args, state) = (args?, state?);
        if !self.cx.errors.is_empty() {
            return None;
        }
        let identities: Vec<Option<Value>> = state
            .iter()
            .map(|(field, dtype)| self.identity(field, *dtype))
            .collect();
        let arg = |n: usize, dtype: DType, span: Span| Expr {
            kind: ExprKind::Arg(n),
            dtype,
            span,
        };
        let known: Args = (args.iter().enumerate())
            .map(|(n, (name, d))| (name.name.clone(), arg(n, *d, name.span)))
            .collect();
        let lift = self.components("lift", &agg.lift, &state, known, &[]);
        let (a, b) = (&agg.merge_args.0, &agg.merge_args.1);
        let mut known = Args::new();
        for (side, of) in [a, b].into_iter().enumerate() {
            for (n, (field, d)) in state.iter().enumerate() {
                let place = format!("{of}.{}", field.name).into();
                known.insert(place, arg(side * state.len() + n, *d, field.name.span));
            }
        }
        let merge = self.merge(&state, known);
        let known = (state.iter().enumerate())
            .map(|(n, (field, d))| (field.name.name.clone(), arg(n, *d, field.name.span)))
            .collect();
        let finish = self.finish(known);
        let parts = identities.into_iter().zip(lift?).zip(merge?);
        let mut components = Vec::new();
        for ((field, dtype), ((identity, lift), merge)) in state.iter().zip(parts) {
            components.push(Component {
                name: field.name.name.clone(),
                dtype: *dtype,
                identity: identity?,
                lift,
                merge,
            });
        }
        Some(RecordAgg {
            name: agg.head.name.name.clone(),
            args: args
                .iter()
                .map(|(name, d)| (name.name.clone(), *d))
                .collect(),
            state: components,
            results: finish?,
        })
    }

    /// An expression over numbers.
    fn expr(
        &mut self,
        part: &'static str,
        known: &Args,
        states: &[Ident],
        e: &ast::Expr,
    ) -> Option<Expr> {
        let definition = Definition {
            part,
            agg: self.agg.head.name.clone(),
            states: states.to_vec(),
            components: self.agg.state.iter().map(|f| f.name.name.clone()).collect(),
            gives: self.gives.clone(),
        };
        let (mut cx, _) = StmtCx::new(self.cx, &[])?;
        let made = cx.defined(definition, known.clone(), e)?;
        if made.nodes().len() > MAX_SIZE {
            let text = format!("the {part} of `{}` unfolds to too much", self.agg.head.name);
            self.cx.errors.push(Diag::new(Code::TooDeep, e.span, text));
            return None;
        }
        Some(made)
    }

    fn identity(&mut self, field: &ast::StateField, dtype: DType) -> Option<Value> {
        let e = self.expr("identity", &Args::new(), &[], &field.identity)?;
        let e = coerce(e, dtype, &field.identity, &mut self.cx.errors)?;
        let value = constant(&e);
        if value.is_none() {
            let text = format!("the identity of `{}` has no value", field.name);
            let span = field.identity.span;
            self.cx.errors.push(Diag::new(Code::DtypeRule, span, text));
        }
        value
    }

    /// One expression per component, in their order.
    fn components(
        &mut self,
        part: &'static str,
        record: &ast::Record,
        state: &[(&ast::StateField, DType)],
        known: Args,
        states: &[Ident],
    ) -> Option<Vec<Expr>> {
        let mut names = Once::default();
        let mut made: BTreeMap<&str, Option<Expr>> = BTreeMap::new();
        let mut unknown = Vec::new();
        for (name, e) in &record.fields {
            names.add(name, "component", &mut self.cx.errors);
            let declared = state.iter().find(|(f, _)| f.name.name == name.name);
            let Some((_, dtype)) = declared else {
                unknown.push(name);
                continue;
            };
            self.gives = Some(name.name.clone());
            let before = self.cx.errors.len();
            let value = self.expr(part, &known, states, e);
            self.gives = None;
            for error in &mut self.cx.errors[before..] {
                other_component(error, e, name, states);
            }
            let value = value.and_then(|v| coerce(v, *dtype, e, &mut self.cx.errors));
            made.insert(name.as_str(), value);
        }
        let missing = state.iter().map(|(field, _)| &field.name);
        let missing: Vec<&Ident> = missing.filter(|n| !made.contains_key(n.as_str())).collect();
        for name in &unknown {
            let diag = unknown_component(self.agg, name, &missing);
            self.cx.errors.push(diag);
        }
        // A component without a value is most likely the one that is called something else.
        for name in missing.iter().filter(|_| unknown.is_empty()) {
            let text = format!("the {part} gives no value to component `{name}`");
            let diag = Diag::new(Code::Arity, record.span, text);
            self.cx
                .errors
                .push(diag.secondary(name.span, "declared here"));
        }
        let components = state.iter();
        components
            .map(|(field, _)| made.remove(field.name.as_str())?)
            .collect()
    }

    fn merge(&mut self, state: &[(&ast::StateField, DType)], mut known: Args) -> Option<Vec<Expr>> {
        let agg = self.agg;
        let states = [agg.merge_args.0.clone(), agg.merge_args.1.clone()];
        self.lets("merge", &agg.merge.lets, &mut known, &states)?;
        match &agg.merge.value {
            RecordValue::Record(record) => self.components("merge", record, state, known, &states),
            RecordValue::Expr(e) => {
                let text = "a `merge` gives a record, one value per component";
                let diag = Diag::new(Code::Pattern, e.span, text);
                self.cx.errors.push(match state {
                    [(only, _)] => {
                        let open = format!("{{ {}: ", only.name);
                        let shown = format!("{open}{e} }}");
                        diag.fix(Fix::wrap(e.span, &open, " }", &shown, "write {}"))
                    }
                    _ => diag,
                });
                None
            }
        }
    }

    fn finish(&mut self, mut known: Args) -> Option<Vec<Expr>> {
        let agg = self.agg;
        self.lets("finish", &agg.finish.lets, &mut known, &[])?;
        let values: Vec<&ast::Expr> = match &agg.finish.value {
            RecordValue::Expr(e) => vec![e],
            RecordValue::Record(record) => {
                let mut names = Once::default();
                let fields = record.fields.iter();
                fields
                    .map(|(name, e)| {
                        names.distinct(name, "result", &mut self.cx.errors);
                        e
                    })
                    .collect()
            }
        };
        let made: Vec<Option<Expr>> = values
            .into_iter()
            .map(|e| {
                let mut made = self.expr("finish", &known, &[], e)?;
                settle(&mut made, &mut self.cx.errors)?;
                Some(made)
            })
            .collect();
        made.into_iter().collect()
    }

    /// Adds the `let`s to what is known.
    fn lets(
        &mut self,
        part: &'static str,
        lets: &[(Ident, ast::Expr)],
        known: &mut Args,
        states: &[Ident],
    ) -> Option<()> {
        let mut all = Some(());
        for (name, e) in lets {
            super::types::reserved(name, &mut self.cx.errors);
            match self.expr(part, known, states, e) {
                Some(value) => drop(known.insert(name.name.clone(), value)),
                None => all = None,
            }
        }
        all
    }
}

/// Says of an error about dtypes that one operand is another component than the one that is merged.
fn other_component(error: &mut Diag, e: &ast::Expr, component: &Ident, states: &[Ident]) {
    if error.code != Code::NoCommonDtype {
        return;
    }
    let second = error.secondary.as_ref().map(|(span, _)| *span);
    for span in std::iter::once(error.primary).chain(second) {
        let mut path = Vec::new();
        walk::path_to(e, span, &mut path);
        let Some(name) = path.last().map(|e| e.to_string()) else {
            continue;
        };
        let Some((state, field)) = name.split_once('.') else {
            continue;
        };
        let of_state = states.iter().any(|known| known.as_str() == state);
        if of_state && field != component.as_str() {
            let meant = format!("{state}.{component}");
            error.fixes = vec![Fix::replace(span, meant, "did you mean {}?")];
            return;
        }
    }
}

/// A component that the state does not have; `missing` are those that have no value.
fn unknown_component(agg: &ast::Agg, name: &Ident, missing: &[&Ident]) -> Diag {
    let text = format!("the state of `{}` has no component `{name}`", agg.head.name);
    let diag = Diag::new(Code::UnknownField, name.span, text);
    let known = agg.state.iter().map(|f| f.name.as_str());
    let near = nearest(name.as_str(), missing.iter().map(|n| n.as_str()));
    let only = match missing {
        [only] => Some(only.as_str()),
        _ => None,
    };
    match near.or(only) {
        Some(meant) => diag.fix(Fix::replace(name.span, meant, "did you mean {}?")),
        None => {
            let known: Vec<&str> = known.collect();
            diag.help(format!("its components are `{}`", known.join("`, `")))
        }
    }
}

/// The value of an expression that reads nothing.
fn constant(e: &Expr) -> Option<Value> {
    let value = match &e.kind {
        ExprKind::Lit(value) => *value,
        ExprKind::Cast(inner) => constant(inner)?,
        ExprKind::Call(f, args) => {
            let args: Option<Vec<Value>> = args.iter().map(constant).collect();
            ScalarFn::eval(*f, &args?)?
        }
        ExprKind::If(c, a, b) => constant(if constant(c)?.as_bool() { a } else { b })?,
        _ => return None,
    };
    Some(match e.dtype {
        DType::Bool => Value::Bool(value.as_bool()),
        d if d.is_float() => Value::Float(value.as_f64()),
        _ => Value::Int(value.as_i64()),
    })
}
