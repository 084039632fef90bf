//! The checked program: names resolved, element types and extents known, every access in bounds
//! or under a recorded condition.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

mod expr;
mod types;

use super::others::Others;
use crate::ein::Dim;
use crate::syntax::ast::{CmpOp, Ident, Path, Program};
use crate::syntax::diag::Diag;
use crate::syntax::token::Span;

pub use expr::*;
pub(super) use types::listed;
pub use types::{StructType, TensorType, Type};

/// What checking a program gives. It is whole even where there are errors: signatures that could
/// be read are there, and bodies without an error of their own.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// As written: what instances of generic blocks are made from.
    pub(crate) program: Arc<Program>,
    /// What the check knew of other programs.
    pub(crate) others: Arc<Others>,
    /// The blocks, in order; then the instances of generic ones.
    pub blocks: Vec<Block>,
    /// The structs, in order.
    pub structs: Vec<Struct>,
    /// The aggregations by name, in order; `None` for one with an error in it.
    pub aggs: Vec<(Arc<str>, Option<Arc<RecordAgg>>)>,
    /// Every error, in order of place.
    pub errors: Vec<Diag>,
    /// Every warning, in order of place.
    pub warnings: Vec<Warning>,
    pub(super) more: More,
}

/// Programs with further instances of generic blocks, by the name of the one that was asked for.
#[derive(Debug, Default)]
pub(super) struct More(pub(super) Mutex<BTreeMap<Arc<str>, Arc<Checked>>>);

impl Clone for More {
    /// Of another program, which has none yet.
    fn clone(&self) -> More {
        More::default()
    }
}

impl Checked {
    /// The block called `name`.
    pub fn block(&self, name: &str) -> Option<&Block> {
        self.blocks.iter().find(|b| b.name.as_str() == name)
    }

    /// The struct called `name`.
    pub fn structure(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|s| s.name.as_str() == name)
    }

    /// The type of a struct's field, for the struct's dims given as `args`.
    pub fn field_type(&self, ty: &StructType, field: &str) -> Option<Type> {
        let structure = self.structure(&ty.name)?;
        let field = structure.fields.iter().find(|f| f.name.as_str() == field)?;
        field.ty.try_substitute(&structure.bindings(&ty.args))
    }
}

/// Something that compiles but is probably not meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// What it is about.
    pub span: Span,
    /// It is of a name that nothing uses.
    pub unused: bool,
    /// What it says.
    pub message: String,
}

/// A checked block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its name.
    pub name: Ident,
    /// Its generic dims, in order.
    pub dims: Vec<Arc<str>>,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Its results, in order. A name that could not be read is `_`.
    pub results: Vec<ResultVar>,
    /// The result type is written as a tuple, of two or more.
    pub tuple: bool,
    /// What must hold of the dims: declared, then implicit (divisors ≥ 1, extents ≥ 0).
    pub clauses: Vec<Clause>,
    /// What must hold of Rust consts alone, known when they are evaluated.
    pub obligations: Vec<Obligation>,
    /// The Rust consts that it or a signature of its callees mentions, keyed by their text.
    pub consts: BTreeMap<Arc<str>, Path>,
    /// Calls of blocks outside this program, in order.
    pub foreign: Vec<ForeignCall>,
    /// Of an opaque kernel: the dims that may be split.
    pub splits: Option<Vec<Arc<str>>>,
    /// The statements; `None` if there is an error in them, and of an opaque kernel.
    pub body: Option<Body>,
}

impl Block {
    /// Has it neither statements nor a kernel, because of an error?
    pub fn is_broken(&self) -> bool {
        self.body.is_none() && self.splits.is_none()
    }
}

/// A parameter of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// What it is to the runs.
    pub role: ParamRole,
    /// Its type.
    pub ty: Type,
    /// Its name in a weights file (`#[name]`), if given.
    pub file_name: Option<Arc<str>>,
    /// Where its extents stand, in the order of [`Type::dims`].
    pub dim_spans: Vec<Span>,
}

/// What a parameter is to the runs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamRole {
    /// Given at each run.
    Data,
    /// `#[weight]`
    Weight,
    /// `#[state]`
    State,
    /// `#[host]`: an ordinary Rust value.
    Host,
}

/// A result of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultVar {
    /// The name it has in the block.
    pub name: Arc<str>,
    /// Its type, as declared.
    pub ty: Type,
    /// Where the type stands.
    pub span: Span,
}

/// A struct of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// Its name.
    pub name: Ident,
    /// Its generic dims, in order.
    pub dims: Vec<Arc<str>>,
    /// Its fields, in order.
    pub fields: Vec<Field>,
    /// The Rust consts it mentions, keyed by their text.
    pub consts: BTreeMap<Arc<str>, Path>,
}

impl Struct {
    /// Its dims with their values.
    pub fn bindings(&self, args: &[Dim]) -> BTreeMap<Arc<str>, Dim> {
        self.dims
            .iter()
            .cloned()
            .zip(args.iter().cloned())
            .collect()
    }
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub ty: Type,
    /// Its name in a weights file (`#[name]`), if given.
    pub file_name: Option<Arc<str>>,
}

/// A condition on dims.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// Left side.
    pub left: Dim,
    /// The comparison, never `!=`.
    pub cmp: CmpOp,
    /// Right side.
    pub right: Dim,
    /// What it comes from.
    pub origin: Origin,
    /// Where that is.
    pub span: Span,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.left, self.cmp.symbol(), self.right)
    }
}

/// A condition on Rust consts, and what its failure is.
#[derive(Clone, Debug, PartialEq)]
pub struct Obligation {
    /// What must hold.
    pub clause: Clause,
    /// The error if it does not; the message says what the consts are.
    pub diag: Diag,
}

/// What a clause comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// A `where`.
    Declared,
    /// A division: its divisor is at least 1.
    Divisor,
    /// An axis or index: its extent is at least 0.
    Extent,
    /// An access that must stay in bounds.
    Access(Arc<str>),
    /// Two extents that must be equal.
    Equal(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Declared => f.write_str("`where` clause"),
            Origin::Divisor => f.write_str("a divisor is at least 1"),
            Origin::Extent => f.write_str("an extent is at least 0"),
            Origin::Access(access) => write!(f, "`{access}` stays in bounds"),
            Origin::Equal(what) => write!(f, "{what}"),
        }
    }
}

/// A call of a block outside this program.
#[derive(Clone, Debug)]
pub struct ForeignCall {
    /// The block.
    pub path: Path,
    /// Types of the arguments.
    pub args: Vec<Type>,
    /// Types that the results are said to have.
    pub results: Vec<Type>,
    /// Where each argument stands.
    pub arg_spans: Vec<Span>,
    /// The annotation, or what is assigned.
    pub results_span: Span,
}

/// The statements of a block.
#[derive(Clone, Debug)]
pub struct Body {
    /// Every tensor and parameter, parameters first.
    pub vars: Vec<Var>,
    /// The statements, in order.
    pub stmts: Vec<Stmt>,
    /// What is returned.
    pub results: Vec<VarId>,
    /// At least so many statements it is with all that it calls, rounds of loops whose number is known
    /// written out.
    pub statements: usize,
}

/// A variable: a parameter, a `let`, a loop variable. Shadowing makes a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

impl VarId {
    /// As a position in [`Body::vars`].
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A variable's name and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    /// As written.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
}

/// A checked statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// `let y[i] = …;`
    Tensor(Statement),
    /// `let (m, v)[i] = stats[k] (…);`: one statement per result that has a name.
    Tensors(Vec<Statement>),
    /// `let x = y;`
    Alias {
        /// What is defined.
        target: VarId,
        /// What it stands for.
        value: Place,
    },
    /// `let y = f(x);` and `x = f(x);`
    Call(Call),
    /// `kc[b, pos + s] = …;`
    Store(Box<Store>),
    /// `for l in layers { … }`
    For {
        /// The loop variable: elements, or nothing of use for a range.
        var: LoopVar,
        /// The body.
        body: Vec<Stmt>,
    },
}

impl Stmt {
    /// Where it stands, if it makes a tensor or calls a block.
    pub fn span(&self) -> Option<Span> {
        Some(match self {
            Stmt::Tensor(statement) => statement.span,
            Stmt::Tensors(all) => all.first()?.span,
            Stmt::Call(call) => call.span,
            Stmt::Store(store) => store.value.span,
            Stmt::Alias { .. } | Stmt::For { .. } => return None,
        })
    }
}

/// Elements of an array, and the last number of a loop, at most.
pub const MAX_LENGTH: i64 = 1 << 12;

/// Statements that a graph may have.
pub const MAX_STATEMENTS: usize = 1 << 20;

/// What a loop runs over.
#[derive(Clone, Debug)]
pub enum LoopVar {
    /// Over the elements of arrays, side by side: each loop variable with its array.
    Elements(Vec<(VarId, VarId)>),
    /// Over numbers; inside, the symbol stands for the number.
    Number {
        /// The symbol.
        symbol: Arc<str>,
        /// The first number.
        low: Dim,
        /// One past the last.
        high: Dim,
    },
}

/// A call of a block.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is assigned, in order; `None` for `_`.
    pub targets: Vec<Option<VarId>>,
    /// The block.
    pub callee: Callee,
    /// Its arguments, in order.
    pub args: Vec<Argument>,
    /// Where it stands.
    pub span: Span,
}

/// Which block is called.
#[derive(Clone, Debug, PartialEq)]
pub enum Callee {
    /// One of this program, with the values of its dims.
    Local {
        /// Its name.
        name: Arc<str>,
        /// Its dims in the caller's.
        dims: BTreeMap<Arc<str>, Dim>,
    },
    /// Another one: position in [`Block::foreign`].
    Foreign(usize),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A name or field.
    Place(Place),
    /// A literal or host value for a rank-0 parameter.
    Value(Expr),
}

/// A variable, or a field of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The variable.
    pub var: VarId,
    /// The fields, outermost first.
    pub fields: Vec<Arc<str>>,
    /// Type of the whole place.
    pub ty: Type,
}

/// `let y[i, (h, e)] = value;`
#[derive(Clone, Debug)]
pub struct Statement {
    /// What is defined; its type is that of the variable.
    pub target: VarId,
    /// Every index: those on the left and those reduced.
    pub indices: Vec<Index>,
    /// The left axes; more than one index is a merged axis.
    pub left: Vec<Vec<IndexId>>,
    /// The value.
    pub value: Expr,
    /// `#[whole]`
    pub whole: bool,
    /// `#[split(…)]`
    pub split: Vec<(Arc<str>, u64)>,
    /// Where it stands.
    pub span: Span,
}

/// `kc[b, pos + s] = value;`
#[derive(Clone, Debug)]
pub struct Store {
    /// The state.
    pub state: Place,
    /// What each of its axes is indexed by.
    pub at: Vec<StoreAxis>,
    /// What is stored, over the indices of the store; its target has no name.
    pub value: Statement,
}

/// What an axis of a state is indexed by in a store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreAxis {
    /// `i`: all of it.
    Bare(IndexId),
    /// `i + offset`
    Shifted(IndexId, Expr),
    /// `(i + offset) % C` on an axis of `C` positions, at least as many as `i` has.
    Ring(IndexId, Expr),
    /// A position that no index of its own moves.
    At(Expr),
}
