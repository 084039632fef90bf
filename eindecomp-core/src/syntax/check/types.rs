//! Resolves extents, types, structs and signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cycles::{Node, cycles};
use super::dims::{DimScope, numbers, tensors, unused};
use super::dtype::element_type;
use super::instance::is_generic;
use super::mentions;
use super::others::Others;
use super::prove::Facts;
use super::roles::role;
use super::tree::{
    Block, Checked, Clause, Field, Origin, Param, ResultVar, Struct, StructType, TensorType, Type,
};
use crate::ein::{Agg, DType, Dim};
use crate::syntax::ast::{self, AttrKind, ClauseKind, CmpOp, Generic, Ident, Item};
use crate::syntax::diag::{Code, Diag, Fix};
use crate::syntax::names::{SOFTMAX_SUM, are, count, nearest};
use crate::syntax::token::Span;

/// Names that may be declared once only.
#[derive(Default)]
pub(super) struct Once<'a>(BTreeMap<&'a str, Span>);

impl<'a> Once<'a> {
    pub(super) fn add(&mut self, name: &'a Ident, what: &str, errors: &mut Vec<Diag>) -> bool {
        self.distinct(name, what, errors) && !reserved(name, errors)
    }

    /// For a name that stands for nothing by itself, so that any will do.
    pub(super) fn distinct(&mut self, name: &'a Ident, what: &str, errors: &mut Vec<Diag>) -> bool {
        let fresh = match self.0.get(name.as_str()) {
            None => true,
            Some(first) => {
                let text = format!("{what} `{name}` is declared twice");
                let diag = Diag::new(Code::Duplicate, name.span, text);
                let diag = diag.secondary(*first, "first here");
                errors.push(diag.help("give one of them another name"));
                false
            }
        };
        self.0.entry(name.as_str()).or_insert(name.span);
        fresh
    }
}

/// Reports a name that is an aggregation's.
pub(super) fn reserved(name: &Ident, errors: &mut Vec<Diag>) -> bool {
    let taken = Agg::from_name(name.as_str()).is_some() || name.as_str() == SOFTMAX_SUM;
    if taken {
        errors.push(is_agg(name));
    }
    taken
}

/// The structs that a type may name.
pub(super) struct Declared<'a> {
    /// Of this program, as written.
    pub(super) structs: BTreeMap<&'a str, &'a ast::Struct>,
    /// Of others.
    pub(super) others: &'a Others,
    /// Names of items that could not be read: their uses say nothing.
    pub(super) lost: BTreeSet<&'a str>,
    /// Scalar functions with errors: their uses say nothing.
    pub(super) broken: BTreeSet<&'a str>,
}

impl<'a> Declared<'a> {
    pub(super) fn of(program: &'a ast::Program, others: &'a Others) -> Declared<'a> {
        let structs = program.items.iter().filter_map(|item| match item {
            Item::Struct(s) => Some((s.head.name.as_str(), s)),
            _ => None,
        });
        let structs = structs.collect();
        Declared {
            structs,
            others,
            lost: program.lost.iter().map(|name| &**name).collect(),
            broken: BTreeSet::new(),
        }
    }

    fn local(&self, path: &ast::Path) -> Option<&'a ast::Struct> {
        self.structs.get(path.as_ident()?.as_str()).copied()
    }

    /// May there be such a struct where this program cannot see it?
    fn unseen(&self, path: &ast::Path) -> bool {
        let slip = |name: &Ident| nearest(name.as_str(), self.structs.keys().copied()).is_some();
        self.others.is_open() && !path.as_ident().is_some_and(slip)
    }
}

/// The signatures of a program's blocks, and its structs.
pub(super) fn signatures(program: &ast::Program) -> Checked {
    let (mut out, others) = (Checked::default(), Others::unseen());
    items(program, &Declared::of(program, &others), &mut out);
    out
}

/// The refusal of an aggregation's name.
pub(super) fn is_agg(name: &Ident) -> Diag {
    let text = format!("`{name}` is an aggregation and cannot be declared as anything else");
    let help = format!("call it `{name}_` or something more telling");
    Diag::new(Code::ReservedName, name.span, text).help(help)
}

/// Structs and signatures of the program. Of wrong signatures what is known of them is given.
pub(super) fn items(
    program: &ast::Program,
    declared: &Declared<'_>,
    out: &mut Checked,
) -> Vec<Block> {
    out.structs.extend(declared.others.structs().cloned());
    let mut names = Once::default();
    for item in &program.items {
        names.add(&item.head().name, "item", &mut out.errors);
    }
    let nodes = declared.structs.values().map(|structure| Node {
        name: &structure.head.name,
        uses: held(structure),
    });
    let mut nodes: Vec<Node> = nodes.collect();
    nodes.sort_by_key(|node| node.name.span);
    let help = "several of a struct are an array: `[…; 4]`";
    let cyclic = cycles(&nodes, ("struct ", "contains"), help, &mut out.errors);
    for (name, structure) in &declared.structs {
        if cyclic.contains(name) {
            continue;
        }
        if let Some(s) = resolve_struct(structure, declared, &mut out.errors) {
            out.structs.push(s);
        }
    }
    let mut wrong = Vec::new();
    for item in &program.items {
        if let Item::Block(block) = item
            && !is_generic(block)
        {
            match signature(block, declared, &mut out.errors) {
                Ok(block) => out.blocks.push(block),
                Err(known) => wrong.extend(known.map(|known| *known)),
            }
        }
    }
    wrong
}

/// The structs of this program that its fields are made of, with where.
fn held(structure: &ast::Struct) -> Vec<(&str, Span)> {
    let inner = structure.fields.iter().filter_map(|field| {
        let name = super::mentions::structure(&field.ty)?.as_ident()?;
        Some((name.as_str(), name.span))
    });
    inner.collect()
}

/// Blocks have instances, structs have none.
fn no_variable(name: &Ident, what: &str) -> Diag {
    let text = format!("a struct has no {what}: its generics are dims");
    Diag::new(Code::OutOfScope, name.span, text)
        .help("declare a struct per number of axes and dtype")
}

/// Where a dim more would be declared, and how.
pub(super) fn one_more(head: &ast::Head, generics: &[Generic]) -> Option<(Span, &'static str)> {
    let behind = |span: Span| Span::new(span.end, span.end);
    Some(match generics.last() {
        Some(last) => (behind(last.name().span), ", dim {}"),
        None => (behind(head.name.span), "<dim {}>"),
    })
}

fn generic_dims(
    head: &ast::Head,
    generics: &[Generic],
    errors: &mut Vec<Diag>,
) -> Option<(Vec<Arc<str>>, DimScope)> {
    let (mut dims, mut names, mut known) = (Vec::new(), Once::default(), true);
    for generic in generics {
        match generic {
            Generic::Dim(name) => {
                if name.as_str().starts_with(char::is_lowercase) {
                    let text =
                        format!("`{name}` is lower case, as indices are; dims are upper case");
                    let help = format!("name it `{}`", name.as_str().to_uppercase());
                    errors.push(Diag::new(Code::Syntax, name.span, text).help(help));
                }
                if names.add(name, "dim", errors) {
                    dims.push(name.name.clone());
                }
            }
            Generic::Rest(name) => {
                errors.push(no_variable(name, "`..`"));
                known = false;
            }
            Generic::Dtype(name, _) => {
                errors.push(no_variable(name, "dtype variable"));
                known = false;
            }
        }
    }
    let scope = DimScope {
        dims: dims.iter().cloned().collect(),
        generics: one_more(head, generics),
        ..DimScope::default()
    };
    known.then_some((dims, scope))
}

fn resolve_struct(
    structure: &ast::Struct,
    declared: &Declared<'_>,
    errors: &mut Vec<Diag>,
) -> Option<Struct> {
    let (dims, mut scope) = generic_dims(&structure.head, &structure.generics, errors)?;
    // Whatever uses the struct would have to give one more.
    scope.generics = None;
    let mut names = Once::default();
    let mut fields = Some(Vec::new());
    for field in &structure.fields {
        names.add(&field.name, "field", errors);
        let ty = match mentions::structure(&field.ty) {
            Some(path) if declared.local(path).is_none() && declared.unseen(path) => {
                errors.push(foreign_field(path));
                None
            }
            _ => resolve(&field.ty, &mut scope, declared, errors),
        };
        match (ty, &mut fields) {
            (Some(ty), Some(fields)) => fields.push(Field {
                name: field.name.clone(),
                file_name: file_name(&field.attrs, &ty, errors),
                ty,
            }),
            _ => fields = None,
        }
    }
    Some(Struct {
        name: structure.head.name.clone(),
        dims,
        fields: fields?,
        consts: scope.consts,
    })
}

/// The `#[name]`, which only tensors have.
fn file_name(attrs: &[ast::Attr], ty: &Type, errors: &mut Vec<Diag>) -> Option<Arc<str>> {
    let (name, span) = attrs.iter().find_map(|attr| match &attr.kind {
        AttrKind::Name(name) => Some((name.clone(), attr.span)),
        _ => None,
    })?;
    let mut leaf = ty;
    while let Type::Array(element, _) = leaf {
        leaf = element;
    }
    if leaf.tensor().is_none() {
        let text = "`#[name]` is the name of a tensor in a file, but this is a struct";
        let diag = Diag::new(Code::Attribute, span, text);
        errors.push(diag.help("name the fields of the struct"));
    }
    Some(name)
}

/// A type, with its dims as polynomials.
pub(super) fn resolve(
    ty: &ast::Type,
    scope: &mut DimScope,
    declared: &Declared<'_>,
    errors: &mut Vec<Diag>,
) -> Option<Type> {
    match &ty.kind {
        ast::TypeKind::Tensor { dtype, axes } => {
            let dtype = element_type(dtype, errors);
            let axes: Vec<Option<Dim>> = axes
                .iter()
                .flatten()
                .map(|dim| scope.dim(dim, errors))
                .collect();
            let axes = axes.into_iter().collect::<Option<Vec<_>>>()?;
            Some(Type::Tensor(TensorType {
                dtype: dtype?,
                axes,
            }))
        }
        ast::TypeKind::Struct { path, args } => {
            let args: Vec<Option<Dim>> = args.iter().map(|dim| scope.dim(dim, errors)).collect();
            let text: Arc<str> = path.to_string().into();
            let (local, other) = (declared.local(path), declared.others.structure(&text));
            let found = match (local, other) {
                (Some(s), _) => Some((s.generics.len(), s.head.name.span)),
                (None, Some(s)) => Some((s.dims.len(), s.name.span)),
                (None, None) if declared.unseen(path) => None,
                (None, None) => {
                    if !declared.lost.contains(&*path.to_string()) {
                        errors.push(unknown_type(path, declared));
                    }
                    return None;
                }
            };
            if let Some((wanted, place)) = found.filter(|(wanted, _)| *wanted != args.len()) {
                let text = format!(
                    "struct `{path}` has {}, but {} given",
                    count(wanted, "dim", "dims"),
                    are(args.len())
                );
                let diag = Diag::new(Code::Arity, ty.span, text);
                let diag = diag.secondary(place, "declared here");
                let dims = local.map(|s| s.generics.iter().map(|g| g.name().as_str()));
                let dims: Vec<&str> = dims.into_iter().flatten().collect();
                let shown = format!("{path}<{}>", dims.join(", "));
                let known = dims.iter().all(|dim| scope.named(dim).is_some());
                errors.push(match local {
                    Some(_) if known => diag.fix(Fix::replace(ty.span, shown, "write {}")),
                    Some(_) => diag.help(format!("it is `{shown}`, with an extent for each")),
                    None => diag,
                });
                return None;
            }
            let args = args.into_iter().collect::<Option<Vec<_>>>()?;
            Some(Type::Struct(StructType { name: text, args }))
        }
        ast::TypeKind::Array(element, length) => {
            if let Some(fix) = tensor(ty, scope) {
                let text = "this is an array of numbers, whose length is fixed";
                errors.push(Diag::new(Code::Extent, ty.span, text).fix(fix));
                return None;
            }
            let element = resolve(element, scope, declared, errors);
            let count = scope.dim(length, errors)?;
            if count.as_const().is_none() && !scope.only_consts(&count) {
                let text =
                    format!("the length of an array is a number or Rust const, not `{count}`");
                let diag = Diag::new(Code::Extent, length.span, text);
                errors.push(diag.help("loops over it are unrolled when the program is compiled"));
                return None;
            }
            Some(Type::Array(Box::new(element?), count))
        }
    }
}

/// The tensor that is meant by arrays of numbers, one of whose lengths is a dim.
fn tensor(ty: &ast::Type, scope: &DimScope) -> Option<Fix> {
    let (mut element, mut lengths) = (ty, Vec::new());
    while let ast::TypeKind::Array(inner, length) = &element.kind {
        lengths.push(length.to_string());
        element = inner;
    }
    let ast::TypeKind::Tensor { dtype, axes } = &element.kind else {
        return None;
    };
    let open = |name: &String| scope.named(name).is_some_and(|d| d.as_const().is_none());
    let open = lengths.iter().any(open) && DType::from_name(dtype.as_str()).is_some();
    lengths.extend(axes.iter().flatten().map(ast::Dim::to_string));
    let text = format!("{dtype}[{}]", lengths.join(", "));
    open.then(|| Fix::replace(ty.span, text, "did you mean the tensor {}?"))
}

fn unknown_type(path: &ast::Path, declared: &Declared<'_>) -> Diag {
    let text = format!("there is no struct `{path}`");
    let diag = Diag::new(Code::UnknownType, path.span, text);
    match nearest(&path.to_string(), declared.structs.keys().copied()) {
        Some(meant) => diag.fix(Fix::replace(path.span, meant, "did you mean {}?")),
        None => diag.help("structs are declared in the same `ein!`: `struct …<dim D> { … }`"),
    }
}

fn foreign_field(path: &ast::Path) -> Diag {
    let text = format!("there is no struct `{path}` in this `ein!`");
    let help =
        "the structs in a struct stand in its own `ein!`; a block may take others as parameters";
    Diag::new(Code::UnknownType, path.span, text).help(help)
}

/// The signature of a block; of a wrong one the parameters without an error, and the results if they have none.
pub(super) fn signature(
    block: &ast::Block,
    declared: &Declared<'_>,
    errors: &mut Vec<Diag>,
) -> Result<Block, Option<Box<Block>>> {
    let Some((dims, mut scope)) = generic_dims(&block.head, &block.generics, errors) else {
        return Err(None);
    };
    scope.numbers = numbers(block);
    scope.tensors = tensors(block);
    scope.unused = unused(block);
    let mut clauses = Vec::new();
    for clause in &block.clauses {
        match &clause.kind {
            ClauseKind::Define(name, value) => {
                if scope.dims.contains(&name.name) || scope.defs.contains_key(&name.name) {
                    let text = format!("dim `{name}` is declared twice");
                    let diag = Diag::new(Code::Duplicate, name.span, text);
                    let diag = match declaration(block, name) {
                        Some(first) => diag.secondary(first, "first here"),
                        None => diag,
                    };
                    errors.push(diag.help("give one of them another name"));
                } else if let Some(value) = scope.dim(value, errors) {
                    scope.defs.insert(name.name.clone(), value);
                }
            }
            ClauseKind::Compare(left, cmp, right) => {
                let (a, b) = (scope.dim(left, errors), scope.dim(right, errors));
                if let (Some(left), Some(right)) = (a, b) {
                    let (cmp, origin) = (*cmp, Origin::Declared);
                    clauses.push(Clause {
                        left,
                        cmp,
                        right,
                        origin,
                        span: clause.span,
                    });
                }
            }
        }
    }
    let mut facts = Facts::default();
    clauses.retain(|clause| {
        let refuted = facts.refuted(&clause.left, clause.cmp, &clause.right);
        if refuted {
            let text = format!("`{clause}` can never hold");
            let diag = Diag::new(Code::ClauseFalse, clause.span, text);
            errors.push(diag.help("sizes are 0 or more, and fulfil the clauses before"));
        } else {
            facts.assume(&clause.left, clause.cmp, &clause.right);
        }
        !refuted
    });
    let (mut params, mut names) = (Vec::new(), Once::default());
    for param in &block.params {
        let new = names.add(&param.name, "parameter", errors);
        let ty = resolve(&param.ty, &mut scope, declared, errors).filter(|_| new);
        if let Some((ty, role)) = ty.zip(role(param, block, &declared.structs, errors)) {
            let (name, file_name) = (param.name.clone(), file_name(&param.attrs, &ty, errors));
            let dim_spans = dim_spans(&param.ty);
            for (dim, span) in ty.dims().into_iter().zip(&dim_spans) {
                extent(dim, *span, &mut scope, &facts, errors);
            }
            params.push(Param {
                name,
                role,
                ty,
                file_name,
                dim_spans,
            });
        }
    }
    let mut results = Vec::new();
    scope.in_result = true;
    for (at, ty) in block.ret.types.iter().enumerate() {
        let name = block.result.as_ref().and_then(|r| r.names.get(at));
        let name = match (name, &block.splits) {
            (Some(name), _) => name.name.clone(),
            (None, Some(_)) => format!("out{at}").into(),
            (None, None) => "_".into(),
        };
        match resolve(ty, &mut scope, declared, errors) {
            Some(Type::Tensor(t)) => results.push(ResultVar {
                name,
                ty: Type::Tensor(t),
                span: ty.span,
            }),
            Some(_) => {
                let diag = Diag::new(Code::ResultType, ty.span, "a result is a tensor");
                errors.push(diag.help("return the tensors in it, as a tuple"));
            }
            None => {}
        }
    }
    let results_known = results.len() == block.ret.types.len();
    let whole = params.len() == block.params.len() && results_known;
    if !results_known {
        results.clear();
    }
    clauses.extend(scope.implicit);
    clauses.extend(sizes(&dims, &block.generics, &params, &results));
    let known = Block {
        name: block.head.name.clone(),
        dims,
        params,
        results,
        tuple: block.ret.types.len() > 1,
        clauses,
        obligations: Vec::new(),
        consts: scope.consts,
        foreign: Vec::new(),
        splits: None,
        body: None,
    };
    match whole {
        true => Ok(known),
        false => Err(Some(Box::new(known))),
    }
}

/// Dims that no axis has for itself: a call solves an axis for them, and what comes out may be below 0.
fn sizes(
    dims: &[Arc<str>],
    generics: &[Generic],
    params: &[Param],
    results: &[ResultVar],
) -> Vec<Clause> {
    let of_params = params.iter().flat_map(|param| param.ty.dims());
    let given: Vec<&Dim> = of_params.collect();
    let of_results = results.iter().flat_map(|result| result.ty.dims());
    let axes: Vec<&Dim> = given.iter().copied().chain(of_results).collect();
    let solved = |name: &&Ident| {
        let dim = Dim::sym(name.name.clone());
        let inside = |axis: &&Dim| axis.symbols().contains(&name.name);
        dims.contains(&name.name) && !given.contains(&&dim) && axes.iter().any(inside)
    };
    let clause = |name: &Ident| Clause {
        left: Dim::sym(name.name.clone()),
        cmp: CmpOp::Ge,
        right: Dim::from(0),
        origin: Origin::Extent,
        span: name.span,
    };
    let declared = generics.iter().map(Generic::name);
    declared.filter(solved).map(clause).collect()
}

/// Where the extents of a type stand, from the outside in.
pub(super) fn dim_spans(ty: &ast::Type) -> Vec<Span> {
    let spans = |dims: &[ast::Dim]| dims.iter().map(|dim| dim.span).collect();
    match &ty.kind {
        ast::TypeKind::Tensor { axes, .. } => spans(axes.as_deref().unwrap_or_default()),
        ast::TypeKind::Struct { args, .. } => spans(args),
        ast::TypeKind::Array(element, length) => {
            let inner = dim_spans(element).into_iter();
            std::iter::once(length.span).chain(inner).collect()
        }
    }
}

/// Where a dim is declared first.
fn declaration(block: &ast::Block, name: &Ident) -> Option<Span> {
    let generics = block.generics.iter().map(Generic::name);
    let defined = block
        .clauses
        .iter()
        .filter_map(|clause| match &clause.kind {
            ClauseKind::Define(name, _) => Some(name),
            ClauseKind::Compare(..) => None,
        });
    let mut all = generics.chain(defined);
    all.find(|other| other.name == name.name)
        .map(|other| other.span)
}

/// Notes that an extent is at least 0 where that is not clear.
pub(super) fn extent(
    extent: &Dim,
    span: Span,
    scope: &mut DimScope,
    facts: &Facts,
    errors: &mut Vec<Diag>,
) {
    if facts.nonneg(extent) {
        return;
    }
    let zero = Dim::from(0);
    if facts.refuted(extent, CmpOp::Ge, &zero) {
        errors.push(Diag::new(
            Code::Extent,
            span,
            format!("the extent `{extent}` is negative"),
        ));
    } else {
        scope.implicit.push(Clause {
            left: extent.clone(),
            cmp: CmpOp::Ge,
            right: zero,
            origin: Origin::Extent,
            span,
        });
    }
}
