//! The tree of a program, as written: names are not resolved and parentheses are kept, since some
//! rules depend on them. Whatever an error may point at carries a [`Span`].

use std::fmt;
use std::sync::Arc;

use super::token::{Span, Token};

mod dim;
mod expr;

pub use dim::{Dim, DimKind, DimOp};
pub use expr::{BinaryOp, Expr, ExprKind, Lit, Outside, Place, Reduce, ReduceBody, Sub, UnaryOp};

/// A name and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ident {
    /// The name, as written.
    pub name: Arc<str>,
    /// Where it stands.
    pub span: Span,
}

impl Ident {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A Rust path: `D_MODEL`, `config::D_MODEL`, `::krate::norm`.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Starts with `::`.
    pub global: bool,
    /// The segments, at least one.
    pub segments: Vec<Ident>,
    /// The whole path.
    pub span: Span,
}

impl Path {
    /// The path that is written as `text`.
    pub fn from_text(text: &str) -> Path {
        let span = Span::default();
        let global = text.starts_with("::");
        let segments = text.trim_start_matches("::").split("::");
        let segments = segments.map(|name| Ident {
            name: name.trim().into(),
            span,
        });
        Path {
            global,
            segments: segments.collect(),
            span,
        }
    }

    /// The name, if the path is a single identifier.
    pub fn as_ident(&self) -> Option<&Ident> {
        match &self.segments[..] {
            [only] if !self.global => Some(only),
            _ => None,
        }
    }

    /// The last segment.
    pub fn last(&self) -> &Ident {
        &self.segments[self.segments.len() - 1]
    }
}

impl From<Ident> for Path {
    fn from(name: Ident) -> Path {
        Path {
            global: false,
            span: name.span,
            segments: vec![name],
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            if self.global || i > 0 {
                f.write_str("::")?;
            }
            write!(f, "{segment}")?;
        }
        Ok(())
    }
}

/// Everything in one `ein!`, or in one text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The items, in order.
    pub items: Vec<Item>,
    /// Names of items that could not be read (an error is reported already).
    pub lost: Vec<Arc<str>>,
    /// What could be read of the signatures of those that are blocks. A type that could not is
    /// the dtype `_`.
    pub broken: Vec<Block>,
}

/// One item of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// `fn f<…>(…) -> … { … }`, or `extern fn f<…>(…) -> … splits(…);`
    Block(Block),
    /// `struct S<…> { … }`
    Struct(Struct),
    /// `fn f(x) = …;`
    ScalarFn(ScalarFn),
    /// `agg a(…) { … }`
    Agg(Box<Agg>),
}

impl Item {
    /// The part that all items share.
    pub fn head(&self) -> &Head {
        match self {
            Item::Block(item) => &item.head,
            Item::Struct(item) => &item.head,
            Item::ScalarFn(item) => &item.head,
            Item::Agg(item) => &item.head,
        }
    }
}

/// What all items share.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Attributes and docs, in order.
    pub attrs: Vec<Attr>,
    /// Visibility.
    pub vis: Vis,
    /// The item's name.
    pub name: Ident,
}

/// Visibility of an item.
#[derive(Clone, Debug, PartialEq)]
pub enum Vis {
    /// None written.
    Private,
    /// `pub`
    Public(Span),
    /// `pub(crate)`, `pub(super)`, `pub(self)`, `pub(in path)`
    Restricted(Path),
}

/// An attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attr {
    /// What it says.
    pub kind: AttrKind,
    /// From `#` to `]`.
    pub span: Span,
}

/// What an attribute says.
#[derive(Clone, Debug, PartialEq)]
pub enum AttrKind {
    /// A doc comment's text.
    Doc(Arc<str>),
    /// `#[name = "…"]`: a weight's name in a file; `{}` is an array index.
    Name(Arc<str>),
    /// `#[weight]`
    Weight,
    /// `#[state]`
    State,
    /// `#[host]`
    Host,
    /// `#[whole]`
    Whole,
    /// `#[split(b = 8)]`
    Split(Vec<(Ident, u64)>),
    /// `#[kernel = path::to::f]`: the Rust function of an `extern fn`.
    Kernel(Path),
    /// Any other attribute of an item: the tokens between the brackets, passed on to Rust.
    Rust(Vec<Token>),
}

/// A block: a tensor program with a name, or an opaque kernel, whose program is a Rust function.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Attributes, visibility, name.
    pub head: Head,
    /// Generic dims and dtypes.
    pub generics: Vec<Generic>,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// Result type.
    pub ret: RType,
    /// The `where` clauses.
    pub clauses: Vec<Clause>,
    /// Statements, in order.
    pub stmts: Vec<Stmt>,
    /// What is returned; `None` if it could not be read (an error is reported already).
    pub result: Option<ResultNames>,
    /// An expression that stands where the names of the result should: an error.
    pub unnamed: Option<Expr>,
    /// From the visibility to the result type and clauses.
    pub signature: Span,
    /// Of an `extern fn`, which has neither clauses nor statements: the dims that may be split.
    pub splits: Option<Vec<Ident>>,
}

/// The names a block returns.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultNames {
    /// One name, or those of a tuple.
    pub names: Vec<Ident>,
    /// All of them.
    pub span: Span,
}

/// A struct of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// Attributes, visibility, name.
    pub head: Head,
    /// Generic dims and dtypes.
    pub generics: Vec<Generic>,
    /// Fields, in order.
    pub fields: Vec<Field>,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Docs and `#[name]`.
    pub attrs: Vec<Attr>,
    /// The field's name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
}

/// `fn mish(x) = x * tanh(softplus(x));`
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarFn {
    /// Attributes, visibility, name.
    pub head: Head,
    /// Arguments, at least one.
    pub params: Vec<Ident>,
    /// The value.
    pub body: Expr,
}

/// A user's aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Agg {
    /// Attributes, visibility, name.
    pub head: Head,
    /// Arguments and their dtypes.
    pub params: Vec<(Ident, Dtype)>,
    /// State components with the identity.
    pub state: Vec<StateField>,
    /// The state of one element.
    pub lift: Record,
    /// Names of the two states that are merged.
    pub merge_args: (Ident, Ident),
    /// The merged state.
    pub merge: RecordBlock,
    /// The value of a state.
    pub finish: RecordBlock,
}

/// A component of an aggregation's state.
#[derive(Clone, Debug, PartialEq)]
pub struct StateField {
    /// Its name.
    pub name: Ident,
    /// Its dtype.
    pub dtype: Dtype,
    /// The identity.
    pub identity: Expr,
}

/// `{ n: 1.0, mu: x }`
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Components and values, in order.
    pub fields: Vec<(Ident, Expr)>,
    /// With its braces.
    pub span: Span,
}

/// `{ let n = …; value }`
#[derive(Clone, Debug, PartialEq)]
pub struct RecordBlock {
    /// Local scalars, in order.
    pub lets: Vec<(Ident, Expr)>,
    /// What the block is worth.
    pub value: RecordValue,
    /// With its braces.
    pub span: Span,
}

/// The value of a [`RecordBlock`].
#[derive(Clone, Debug, PartialEq)]
pub enum RecordValue {
    /// A record of components.
    Record(Record),
    /// A single value.
    Expr(Expr),
}

/// A generic parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Generic {
    /// `dim D`
    Dim(Ident),
    /// `dim ..L`: any number of leading axes.
    Rest(Ident),
    /// `T: Float` or `T: Int`
    Dtype(Ident, DtypeClass),
}

impl Generic {
    /// The parameter's name.
    pub fn name(&self) -> &Ident {
        match self {
            Generic::Dim(name) | Generic::Rest(name) | Generic::Dtype(name, _) => name,
        }
    }
}

/// What a dtype variable stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtypeClass {
    /// Any float.
    Float,
    /// Any integer.
    Int,
}

/// A parameter of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Docs, `#[weight]`, `#[state]`, `#[host]`, `#[name]`.
    pub attrs: Vec<Attr>,
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
}

/// A dtype or dtype variable, unresolved.
pub type Dtype = Ident;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// What it is.
    pub kind: TypeKind,
    /// All of it.
    pub span: Span,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `f32[B, S]`; `axes` is `None` for a bare `f32`.
    Tensor {
        /// The element type.
        dtype: Dtype,
        /// The axes.
        axes: Option<Vec<Dim>>,
    },
    /// `Layer<D, F>`, or a bare capitalised name that is no dtype variable in scope.
    Struct {
        /// The struct's path.
        path: Path,
        /// Its dims.
        args: Vec<Dim>,
    },
    /// `[T; N]`
    Array(Box<Type>, Dim),
}

/// A result type.
#[derive(Clone, Debug, PartialEq)]
pub struct RType {
    /// One type, or those of a tuple (two or more).
    pub types: Vec<Type>,
    /// All of it.
    pub span: Span,
}

/// A clause of a `where`.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// What it says.
    pub kind: ClauseKind,
    /// All of it.
    pub span: Span,
}

/// What a clause says.
#[derive(Clone, Debug, PartialEq)]
pub enum ClauseKind {
    /// `dim E = D / H`
    Define(Ident, Dim),
    /// `T >= S`
    Compare(Dim, CmpOp, Dim),
}

/// A comparison; clauses have no `!=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Docs, `#[whole]`, `#[split(…)]`.
    pub attrs: Vec<Attr>,
    /// What it does.
    pub kind: StmtKind,
    /// Without its attributes, with its `;`.
    pub span: Span,
}

impl Stmt {
    /// Calls `f` on this statement and on those of its body, in their order.
    pub fn visit<'a>(&'a self, f: &mut dyn FnMut(&'a Stmt)) {
        f(self);
        if let StmtKind::For { body, .. } = &self.kind {
            body.iter().for_each(|stmt| stmt.visit(f));
        }
    }
}

/// Where the statements of a program stand: those of its blocks in their order, the head of a loop before its
/// body.
pub fn statements(program: &Program) -> impl Iterator<Item = Span> {
    let blocks = program.items.iter().filter_map(|item| match item {
        Item::Block(block) => Some(block),
        _ => None,
    });
    let mut spans = Vec::new();
    for stmt in blocks.flat_map(|block| &block.stmts) {
        stmt.visit(&mut |stmt| spans.push(stmt.span));
    }
    spans.into_iter()
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `let pat: ty = value;`
    Let {
        /// `mut`, for what a loop carries.
        mutable: Option<Span>,
        /// What is bound.
        pat: Pattern,
        /// The annotation.
        ty: Option<RType>,
        /// The value.
        value: Expr,
    },
    /// `kc[b, pos + s] = value;`
    Store {
        /// The state, or a field of one.
        target: Place,
        /// Where in it.
        subs: Vec<Expr>,
        /// The value.
        value: Expr,
    },
    /// `for l in layers { … }`, `for (l, c) in (layers, caches) { … }`
    For {
        /// The loop variables: one, or one for each of several arrays.
        vars: Vec<Ident>,
        /// What they run over.
        range: ForRange,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `x = mlp(x, l);`
    Carry {
        /// The names assigned: one, or a tuple's.
        targets: Vec<Ident>,
        /// The block called.
        path: Path,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A statement that could not be read (an error is reported already): what it would have
    /// bound, as far as known.
    Error(Vec<Ident>),
}

/// What a `for` runs over.
#[derive(Clone, Debug, PartialEq)]
pub enum ForRange {
    /// The elements of arrays, side by side.
    Arrays(Vec<Ident>),
    /// `lo .. hi`
    Range(Dim, Dim),
}

/// The left of a `let`.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// One name, or those of a tuple (two or more); `_` is allowed.
    pub names: Vec<Ident>,
    /// Left indices: `None` for `let s = …`, empty for `let s[] = …`.
    pub indices: Option<Vec<LeftIndex>>,
    /// All of it.
    pub span: Span,
}

/// An index on the left.
#[derive(Clone, Debug, PartialEq)]
pub enum LeftIndex {
    /// `i` or `i in N`
    Index(IndexDecl),
    /// `..l`
    Rest(Ident),
    /// `(h, e)`: a merged axis.
    Merged(Vec<LeftIndex>, Span),
}

/// An index and, if written, its extent.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDecl {
    /// The index.
    pub name: Ident,
    /// Its `in`.
    pub extent: Option<Dim>,
}

impl CmpOp {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            CmpOp::Eq => "==",
            CmpOp::Ne => "!=",
            CmpOp::Lt => "<",
            CmpOp::Le => "<=",
            CmpOp::Gt => ">",
            CmpOp::Ge => ">=",
        }
    }

    /// What holds where this does not.
    pub fn negated(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Ge => CmpOp::Lt,
            CmpOp::Gt => CmpOp::Le,
        }
    }
}
