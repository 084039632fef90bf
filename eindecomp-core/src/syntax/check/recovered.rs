//! What reads the result of a statement with an error, checked all the same.
//!
//! The block is checked twice more, with unlike names for extents that the statement does not say
//! for sure: only errors that come both times are errors whatever its result becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::body::{self, BodyCx, Items};
use super::extents::{Decl, Uses};
use super::tree::{Block, IndexId, TensorType, Type};
use super::walk;
use crate::ein::{Agg, DType, Dim, ScalarFn};
use crate::syntax::ast::{self, Pattern, RType};
use crate::syntax::diag::{Code, Diag};
use crate::syntax::token::Span;

/// What stands for what is not known of results.
#[derive(Default)]
pub(super) struct Guess {
    /// Names of extents start with it: no name of the language does.
    mark: &'static str,
    /// How many extents were guessed.
    extents: usize,
    /// How many errors there were when an element type was guessed.
    pub(super) dtype: Option<usize>,
}

/// Errors beside those `told` that do not come from them.
pub(super) fn more<'a>(
    ast: &'a ast::Block,
    block: &Block,
    items: &'a Items<'a>,
    told: &[Diag],
) -> Vec<Diag> {
    let found = |mark| {
        let guess = Guess {
            mark,
            ..Guess::default()
        };
        let pass = body::pass(ast, block, items, Some(guess));
        let sure = pass.before_dtypes().unwrap_or(usize::MAX);
        let (_, errors, _) = pass.finish();
        let errors = errors.into_iter().enumerate();
        let errors = errors.filter(|(at, diag)| *at < sure || !of_dtypes(diag.code));
        errors.map(|(_, diag)| diag).collect::<Vec<Diag>>()
    };
    let (mut errors, others) = (found("?a"), found("?b"));
    let changes = |diag: &Diag| -> Vec<(Span, String)> {
        let fixes = diag.fixes.iter();
        fixes.flat_map(|fix| fix.edits.clone()).collect()
    };
    let known: Vec<_> = told.iter().flat_map(changes).collect();
    errors.retain(|diag| {
        let mut places = told.iter().map(|other| other.primary);
        let changes = changes(diag);
        let told = places.any(|place| place.overlaps(diag.primary))
            || !changes.is_empty() && changes.iter().all(|edit| known.contains(edit));
        others.contains(diag) && !told
    });
    errors
}

/// May an error of this kind come from an element type?
fn of_dtypes(code: Code) -> bool {
    let calls = matches!(
        code,
        Code::CallExtent | Code::ResultType | Code::CarriedType | Code::Argument
    );
    calls || of_values(code)
}

/// Is an error of this kind about element types alone?
fn of_values(code: Code) -> bool {
    matches!(
        code,
        Code::Narrowing
            | Code::GatherIndex
            | Code::NarrowingFactor
            | Code::NoCommonDtype
            | Code::IntegerLiteral
            | Code::DtypeRule
            | Code::Literal
    )
}

/// Is an error of this kind about how long an index is?
fn of_ranges(code: Code) -> bool {
    matches!(
        code,
        Code::OutOfRange | Code::UnknownExtent | Code::MergedAxis | Code::Extent
    )
}

/// What says how long an index, or a dim of the block called, is.
struct Reading {
    extent: Dim,
    /// The index that says so, if it is one.
    place: Span,
    /// What it stands in: an access, an argument.
    around: Span,
}

/// What a statement says of its results before it is known to be right.
#[derive(Default)]
pub(super) struct Sketch {
    /// By the name of the index or dim.
    readings: Vec<(Arc<str>, Reading)>,
    /// Merged reads: the indices, and where.
    merged: Vec<(Vec<Arc<str>>, Span)>,
    /// Extents by an `in`.
    declared: BTreeMap<Arc<str>, Dim>,
    /// What stands for an extent in the axes.
    names: Vec<Arc<str>>,
    /// Element types, and axes over these.
    results: Vec<(Option<DType>, Vec<Dim>)>,
}

impl Sketch {
    /// Of a tensor's statement: its indices by their `in` or by what they read by themselves.
    pub(super) fn new(
        left: &[Vec<IndexId>],
        decls: &[Decl],
        uses: &Uses,
        results: usize,
    ) -> Sketch {
        let name = |id: &IndexId| decls[id.at()].name.clone();
        let strong = uses.bare.iter().filter(|u| !u.weak);
        let readings = strong.map(|u| {
            let reading = Reading {
                extent: u.extent.clone(),
                place: u.span,
                around: u.access.span,
            };
            (name(&u.index), reading)
        });
        let merged = uses.merged.iter();
        let merged = merged.map(|read| (read.members.iter().map(name).collect(), read.span));
        let declared = decls.iter().filter_map(|decl| {
            let (extent, _) = decl.extent.as_ref()?;
            Some((decl.name.clone(), extent.clone()))
        });
        let product = |axis: &Vec<IndexId>| {
            let members = axis.iter().map(|id| Dim::sym(name(id)));
            members.reduce(|a, b| &a * &b).unwrap_or(Dim::from(1))
        };
        let axes: Vec<Dim> = left.iter().map(product).collect();
        Sketch {
            readings: readings.collect(),
            merged: merged.collect(),
            declared: declared.collect(),
            names: left.iter().flatten().map(name).collect(),
            results: vec![(None, axes); results],
        }
    }

    /// The element types of the results, as far as they are known.
    pub(super) fn dtypes(&mut self, dtypes: impl Iterator<Item = Option<DType>>) {
        for (result, dtype) in self.results.iter_mut().zip(dtypes) {
            result.0 = dtype;
        }
    }

    /// Of a call with arguments of these types: the callee's dims by axes that are one; `None` where a
    /// result is no tensor.
    pub(super) fn of_call(
        callee: &Block,
        types: &[Option<Type>],
        args: &[ast::Expr],
    ) -> Option<Sketch> {
        let mut readings = Vec::new();
        for ((param, ty), arg) in callee.params.iter().zip(types).zip(args) {
            let given = ty.as_ref().and_then(Type::tensor);
            let (Some(wanted), Some(given)) = (param.ty.tensor(), given) else {
                continue;
            };
            for (axis, actual) in wanted.axes.iter().zip(&given.axes) {
                let Some(dim) = axis.as_symbol().filter(|dim| callee.dims.contains(dim)) else {
                    continue;
                };
                let reading = Reading {
                    extent: actual.clone(),
                    place: arg.span,
                    around: arg.span,
                };
                readings.push((dim.clone(), reading));
            }
        }
        let results = callee.results.iter().map(|result| {
            let ty = result.ty.tensor()?;
            Some((Some(ty.dtype), ty.axes.clone()))
        });
        Some(Sketch {
            readings,
            names: callee.dims.clone(),
            results: results.collect::<Option<_>>()?,
            ..Sketch::default()
        })
    }

    /// The readings as they are when these errors have been mended by their helps. Names that an error
    /// is about which has no help in the statement, or several, are left out.
    fn mended(&self, errors: &[Diag], stmt: Span) -> BTreeMap<Arc<str>, Vec<&Dim>> {
        let mut said: BTreeMap<Arc<str>, Vec<&Dim>> = BTreeMap::new();
        let errors = errors.iter().filter(|diag| !of_values(diag.code));
        let (clear, open): (Vec<&Diag>, Vec<&Diag>) =
            errors.partition(|diag| diag.fixes.len() == 1 && edits(diag, stmt));
        // Another range may be meant for any index.
        if open.iter().any(|diag| of_ranges(diag.code)) {
            return said;
        }
        // What is declared otherwise has other axes.
        let declared = open.iter().filter(|diag| !diag.fixes.is_empty());
        let read = declared.flat_map(|diag| {
            let read = self.readings.iter();
            read.filter(|(_, reading)| reading.around.contains(diag.primary))
        });
        let read = read.map(|(name, _)| name);
        let told = open.iter().flat_map(|diag| self.named(diag));
        let doubtful: Vec<&Arc<str>> = told.chain(read).collect();
        for (name, reading) in &self.readings {
            let mut wrong = clear.iter().filter(|diag| edits(diag, reading.around));
            let name = match (wrong.next(), wrong.next()) {
                (None, _) => Some(name.clone()),
                (Some(diag), None) => self.meant(name, reading, diag),
                _ => None,
            };
            if let Some(name) = name.filter(|name| !doubtful.contains(&name)) {
                said.entry(name).or_default().push(&reading.extent);
            }
        }
        said
    }

    /// The names that an error is about: what reads at its places, else all around them.
    fn named(&self, diag: &Diag) -> Vec<&Arc<str>> {
        let second = diag.secondary.as_ref().map(|(span, _)| *span);
        let places = [Some(diag.primary), second].into_iter().flatten();
        let at = places.flat_map(|place| {
            let reads = self
                .readings
                .iter()
                .map(|(name, r)| (name, r.place, r.around));
            let merged = self
                .merged
                .iter()
                .flat_map(|(names, place)| names.iter().map(move |name| (name, *place, *place)));
            let all: Vec<_> = reads.chain(merged).collect();
            let exact = all.iter().any(|(_, at, _)| *at == place);
            let named = all.into_iter().filter(move |(_, at, around)| match exact {
                true => *at == place,
                false => around.contains(place) || place.contains(*around),
            });
            named.map(|(name, ..)| name)
        });
        at.collect()
    }

    /// The index in the place of a reading when an error has been mended, unless that takes in more than
    /// an index.
    fn meant(&self, name: &Arc<str>, reading: &Reading, diag: &Diag) -> Option<Arc<str>> {
        let [fix] = &diag.fixes[..] else { return None };
        let within = |span: &Span| reading.around.contains(*span);
        let mut edits = fix.edits.iter().filter(|(span, _)| within(span));
        let wider = |span: Span| {
            let mut places = self.readings.iter().map(|(_, reading)| reading.place);
            places.any(|place| place != span && place.overlaps(span))
        };
        if edits.clone().any(|(span, _)| wider(*span)) {
            return None;
        }
        let here = edits.find(|(span, _)| *span == reading.place);
        Some(here.map_or_else(|| name.clone(), |(_, text)| text.as_str().into()))
    }
}

impl BodyCx<'_> {
    /// The types that the names of a statement with errors, those since number `before`, are taken
    /// to have, if that is to be guessed.
    pub(super) fn guessed(
        &mut self,
        pat: &Pattern,
        ty: Option<&RType>,
        value: &ast::Expr,
        before: usize,
    ) -> Vec<Option<Type>> {
        let (sketch, none) = (self.sketch.take(), vec![None; pat.names.len()]);
        let errors = self.errors[before..].to_vec();
        // A left side that is wrong says nothing.
        let left = Span::new(pat.span.start, value.span.start);
        if self.guess.is_none()
            || errors
                .iter()
                .any(|e| left.contains(e.primary) || edits(e, left))
        {
            return none;
        }
        if let (None, Some(ty)) = (&pat.indices, ty) {
            let count = self.errors.len();
            let types = self.annotation(ty);
            self.errors.truncate(count);
            let types = types.filter(|types| types.len() == pat.names.len());
            return types.map_or(none, |types| types.into_iter().map(Some).collect());
        }
        let Some(sketch) = sketch.filter(|s| s.results.len() == pat.names.len()) else {
            return none;
        };
        let said = sketch.mended(&errors, pat.span.join(value.span));
        let (sure, dtype) = (self.float_of(value), self.dtype_like(value));
        let Some(guess) = &mut self.guess else {
            return none;
        };
        let mut extents = BTreeMap::new();
        for name in &sketch.names {
            let said = said.get(name).map_or(&[][..], Vec::as_slice);
            let agree = |first: &&&Dim| said.iter().all(|dim| self.facts.equal(dim, first));
            let known = sketch
                .declared
                .get(name)
                .or(said.first().filter(agree).copied());
            let extent = known.cloned().unwrap_or_else(|| {
                guess.extents += 1;
                Dim::sym(format!("{}{}", guess.mark, guess.extents))
            });
            extents.insert(name.clone(), extent);
        }
        let results = sketch.results.iter().map(|(known, axes)| {
            let known = known.or(sure.filter(|_| sketch.results.len() == 1));
            if known.is_none() {
                guess.dtype.get_or_insert(self.errors.len());
            }
            let axes = axes
                .iter()
                .map(|axis| axis.try_substitute(&|s| extents.get(s).cloned()));
            Some(Type::Tensor(TensorType {
                axes: axes.collect::<Option<_>>()?,
                dtype: known.unwrap_or(dtype),
            }))
        });
        results.collect()
    }

    /// The float that all tensors are of which an expression computes with, if that does not change it: so is
    /// the result, whatever is wrong with the rest.
    fn float_of(&self, e: &ast::Expr) -> Option<DType> {
        let mut found = Vec::new();
        self.floats(e, &mut found)?;
        let first = *found.first()?;
        (first.is_float() && found.iter().all(|dtype| *dtype == first)).then_some(first)
    }

    /// The element types of what an expression computes with; `None` if something else says that of the
    /// result.
    fn floats(&self, e: &ast::Expr, out: &mut Vec<DType>) -> Option<()> {
        match &e.kind {
            ast::ExprKind::Lit(_) => {}
            ast::ExprKind::Name(place) => match place.as_ident() {
                // An index or a size is cast to a float beside one.
                Some(name) if self.lookup(name.as_str()).is_none() => {}
                _ => out.push(self.type_of(place)?.dtype),
            },
            ast::ExprKind::Access { place, .. } => out.push(self.type_of(place)?.dtype),
            ast::ExprKind::Cast(_, dtype) => out.push(DType::from_name(dtype.as_str())?),
            ast::ExprKind::Paren(inner) | ast::ExprKind::Unary(ast::UnaryOp::Neg, inner) => {
                self.floats(inner, out)?;
            }
            ast::ExprKind::Binary(op, a, b) => {
                let computes = matches!(
                    op,
                    ast::BinaryOp::Add
                        | ast::BinaryOp::Sub
                        | ast::BinaryOp::Mul
                        | ast::BinaryOp::Div
                );
                computes.then_some(())?;
                self.floats(a, out)?;
                self.floats(b, out)?;
            }
            ast::ExprKind::Call { path, args } => {
                let function = ScalarFn::from_name(path.as_ident()?.as_str(), args.len())?;
                (function != ScalarFn::IS_NAN).then_some(())?;
                args.iter().try_for_each(|arg| self.floats(arg, out))?;
            }
            ast::ExprKind::If {
                then,
                otherwise: Some(otherwise),
                ..
            } => {
                self.floats(then, out)?;
                self.floats(otherwise, out)?;
            }
            ast::ExprKind::Reduce(reduce) => {
                let row = Agg::from_name(reduce.agg.as_ident()?.as_str())?.row();
                (!row.selects && !row.boolean).then_some(())?;
                match (&reduce.acc, &reduce.body) {
                    (Some(acc), _) => out.push(DType::from_name(acc.as_str())?),
                    (None, ast::ReduceBody::Product(body)) => self.floats(body, out)?,
                    (None, ast::ReduceBody::Args(_)) => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// The element type of the first tensor that an expression reads.
    fn dtype_like(&self, e: &ast::Expr) -> DType {
        fn first(cx: &BodyCx<'_>, e: &ast::Expr) -> Option<DType> {
            let own = walk::accessed(e).and_then(|(place, _)| cx.type_of(place));
            let children = || e.children().into_iter();
            own.map(|t| t.dtype)
                .or_else(|| children().find_map(|e| first(cx, e)))
        }
        first(self, e).unwrap_or(DType::F32)
    }
}

/// Does a help change something there?
fn edits(diag: &Diag, place: Span) -> bool {
    let edits = diag.fixes.iter().flat_map(|fix| &fix.edits);
    edits.into_iter().any(|(span, _)| place.contains(*span))
}
