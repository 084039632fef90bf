//! A checked block as an EinGraph: calls are inlined, loops unrolled, and every reduction inside
//! an expression becomes a vertex of its own.
//!
//! * [`block_graph`]: the block alone, its parameters as inputs;
//! * [`append_block`]: the block on tensors of a graph under construction.

mod error;
mod kernel;
mod record;
mod solve;
mod statement;
mod store;

pub use error::{LowerError, TextError};
pub use record::is_softmax_sum;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Clause, Cmp, EinGraph, GraphBuilder, GraphError, NodeId, Role};
use crate::ein::{DType, Dim, EinSum, EinSumSpec, Value};
use crate::syntax::ast::CmpOp;
use crate::syntax::check::{
    Argument, Block, Call, Callee, Checked, Expr, ExprKind, ForeignCall, LoopVar, MAX_LENGTH,
    Param, ParamRole, Place, Stmt, Type, VarId,
};
use crate::syntax::{Diag, check, parse_text};

/// Values of the Rust consts that a program mentions, by their path as written.
pub type Consts = BTreeMap<Arc<str>, i64>;

/// Values of `#[host]` parameters, by name.
pub type Hosts = BTreeMap<Arc<str>, Value>;

/// What a block is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A tensor of the graph.
    Tensor(NodeId),
    /// A state, by its input: whatever its newest version is.
    State(NodeId),
    /// A struct: its fields, in order.
    Struct(Vec<Arg>),
    /// An array: its elements, in order.
    Array(Vec<Arg>),
    /// A number for a parameter of rank 0.
    Value(Value),
}

impl Arg {
    /// With the newest version of each state in its place.
    fn settled(self, builder: &GraphBuilder) -> Arg {
        let all = |args: Vec<Arg>| args.into_iter().map(|a| a.settled(builder)).collect();
        match self {
            Arg::Tensor(node) | Arg::State(node) => Arg::Tensor(builder.version(node)),
            Arg::Struct(fields) => Arg::Struct(all(fields)),
            Arg::Array(elements) => Arg::Array(all(elements)),
            value => value,
        }
    }

    /// As states, if all of it is.
    fn states(self, builder: &GraphBuilder) -> Option<Arg> {
        let all = |args: Vec<Arg>| {
            args.into_iter()
                .map(|a| a.states(builder))
                .collect::<Option<Vec<_>>>()
        };
        match self {
            Arg::Tensor(node) | Arg::State(node) => {
                let state = builder.node(node)?.role() == Some(Role::State);
                state.then_some(Arg::State(node))
            }
            Arg::Struct(fields) => all(fields).map(Arg::Struct),
            Arg::Array(elements) => all(elements).map(Arg::Array),
            Arg::Value(_) => None,
        }
    }

    /// The tensors in it.
    fn nodes(&self, out: &mut Vec<NodeId>) {
        match self {
            Arg::Tensor(node) | Arg::State(node) => out.push(*node),
            Arg::Struct(args) | Arg::Array(args) => args.iter().for_each(|a| a.nodes(out)),
            Arg::Value(_) => {}
        }
    }
}

/// Blocks that a program calls but does not contain.
pub trait Foreign {
    /// Appends the block at `call.path`, `prefix` before the names of its statements, and gives
    /// its results in order.
    ///
    /// # Errors
    /// Whatever keeps the block from being appended.
    fn call(
        &mut self,
        call: &ForeignCall,
        prefix: &str,
        builder: &mut GraphBuilder,
        args: &[Arg],
    ) -> Result<Vec<NodeId>, Vec<LowerError>>;
}

/// There are none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoForeign;

impl Foreign for NoForeign {
    fn call(
        &mut self,
        call: &ForeignCall,
        _: &str,
        _: &mut GraphBuilder,
        _: &[Arg],
    ) -> Result<Vec<NodeId>, Vec<LowerError>> {
        Err(vec![LowerError::NoBlock(call.path.to_string().into())])
    }
}

/// What a block needs beside its arguments.
pub struct Context<'a> {
    /// Rust consts.
    pub consts: &'a Consts,
    /// `#[host]` parameters.
    pub hosts: &'a Hosts,
    /// Blocks of other programs.
    pub foreign: &'a mut dyn Foreign,
    /// Before the names of the statements.
    pub prefix: &'a str,
}

impl EinGraph {
    /// The block called `block` of a program in text form.
    ///
    /// # Errors
    /// Every error of the program, or those of building the block.
    pub fn from_text(source: &str, block: &str, consts: &Consts) -> Result<EinGraph, TextError> {
        let (program, mut errors) = parse_text(source);
        let checked = check::check_program(&program);
        errors.extend(checked.errors.iter().cloned());
        errors.sort_by_key(|diag| (diag.primary, diag.code));
        if !errors.is_empty() {
            return Err(TextError::Program(errors));
        }
        block_graph(&checked, block, consts).map_err(TextError::Block)
    }
}

/// The block alone: parameters are inputs named by their path (`layers.3.w1`), results are
/// outputs, dims stay symbols.
///
/// # Errors
/// An unknown block or one with errors, a const without a value, a condition on consts that does
/// not hold, `#[host]` parameters (see [`block_graph_with`]).
pub fn block_graph(
    program: &Checked,
    block: &str,
    consts: &Consts,
) -> Result<EinGraph, Vec<LowerError>> {
    let (hosts, foreign) = (&Hosts::new(), &mut NoForeign);
    block_graph_with(
        program,
        block,
        &mut Context {
            consts,
            hosts,
            foreign,
            prefix: "",
        },
    )
}

/// [`block_graph`] with everything a block may need.
///
/// # Errors
/// As [`block_graph`].
pub fn block_graph_with(
    program: &Checked,
    block: &str,
    context: &mut Context<'_>,
) -> Result<EinGraph, Vec<LowerError>> {
    let program = &*containing(program, block);
    let mut builder = GraphBuilder::new();
    let block = find(program, block)?;
    let mut lower = Lower {
        steps: 0,
        program,
        context,
        builder: &mut builder,
    };
    let dims = block
        .dims
        .iter()
        .map(|d| (d.clone(), Dim::sym(d.clone())))
        .collect();
    let frame = Frame::new(block, dims, lower.context.prefix.to_owned());
    let args = lower.inputs(&frame).map_err(|e| vec![e])?;
    let results = lower.block(block, frame.dims, args, frame.prefix)?;
    let outputs = block.results.iter().zip(results);
    let named: Result<Vec<()>, GraphError> = outputs
        .map(|(result, node)| builder.output(result.name.clone(), node))
        .collect();
    named
        .and_then(|_| builder.finish())
        .map_err(|e| vec![e.into()])
}

/// Appends the block to a graph, on the tensors `args`; `dims` are those that the arguments do not
/// determine. Gives the results in order. What cannot be decided yet becomes a clause.
///
/// # Errors
/// Every argument that does not fit, with names; else as [`block_graph`].
pub fn append_block(
    program: &Checked,
    block: &str,
    context: &mut Context<'_>,
    builder: &mut GraphBuilder,
    args: &[Arg],
    dims: &BTreeMap<Arc<str>, Dim>,
) -> Result<Vec<NodeId>, Vec<LowerError>> {
    let given = |arg: &Arg| match arg {
        Arg::Tensor(node) | Arg::State(node) => {
            builder.node(*node).map(|n| (n.dtype, n.shape.len()))
        }
        _ => None,
    };
    let given: Vec<_> = args.iter().map(given).collect();
    let name = match program.instance_name(block, &given) {
        Some(Ok(instance)) => instance,
        Some(Err(_)) => return Err(vec![LowerError::NoInstance(block.into())]),
        None => block.into(),
    };
    let program = &*containing(program, &name);
    let block = find(program, &name)?;
    let args = given_states(block, builder, args)?;
    let mut lower = Lower {
        steps: 0,
        program,
        context,
        builder,
    };
    let dims = lower.solve(block, &args, dims)?;
    let prefix = lower.context.prefix.to_owned();
    lower.block(block, dims, args, prefix)
}

/// The arguments, with states for `#[state]` parameters and their newest versions for the others.
fn given_states(
    block: &Block,
    builder: &GraphBuilder,
    args: &[Arg],
) -> Result<Vec<Arg>, Vec<LowerError>> {
    let (mut errors, mut made, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for (at, arg) in args.iter().enumerate() {
        let param = block.params.get(at);
        let Some(param) = param.filter(|p| p.role == ParamRole::State) else {
            made.push(arg.clone().settled(builder));
            continue;
        };
        let mut nodes = Vec::new();
        arg.nodes(&mut nodes);
        let wrong = match arg.clone().states(builder) {
            None => Some("no state"),
            Some(_) if nodes.iter().any(|n| seen.contains(n)) => Some("the state of another one"),
            Some(state) => {
                made.push(state);
                None
            }
        };
        seen.extend(nodes);
        errors.extend(wrong.map(|given| LowerError::Argument {
            block: block.name.name.clone(),
            param: param.name.name.clone(),
            expected: format!("#[state] {}", param.ty),
            given: given.into(),
        }));
    }
    match errors.is_empty() {
        true => Ok(made),
        false => Err(errors),
    }
}

/// The program, if need be with the instance `name` of a block.
fn containing<'p>(program: &'p Checked, name: &str) -> Cow<'p, Checked> {
    match program.block(name) {
        Some(_) => Cow::Borrowed(program),
        None => program
            .with_instance(name)
            .map_or(Cow::Borrowed(program), Cow::Owned),
    }
}

fn find<'p>(program: &'p Checked, name: &str) -> Result<&'p Block, Vec<LowerError>> {
    let found = program.block(name);
    found.ok_or_else(|| vec![LowerError::NoBlock(name.into())])
}

/// Statements of a program, blocks inlined and loops unrolled.
const MAX_STEPS: usize = 1 << 20;

/// Builds blocks of one program.
struct Lower<'a, 'c> {
    /// Statements so far.
    steps: usize,
    program: &'a Checked,
    context: &'a mut Context<'c>,
    builder: &'a mut GraphBuilder,
}

/// One inlined block.
struct Frame<'a> {
    block: &'a Block,
    /// Its dims and loop numbers in those of the graph.
    dims: BTreeMap<Arc<str>, Dim>,
    vars: Vec<Option<Arg>>,
    /// Before the names of its statements.
    prefix: String,
}

impl<'a> Frame<'a> {
    fn new(block: &'a Block, dims: BTreeMap<Arc<str>, Dim>, prefix: String) -> Frame<'a> {
        let vars = block
            .body
            .as_ref()
            .map_or(block.params.len(), |b| b.vars.len());
        Frame {
            block,
            dims,
            vars: vec![None; vars],
            prefix,
        }
    }
}

impl<'a> Lower<'a, '_> {
    /// An extent in the dims of the graph.
    fn dim(&self, frame: &Frame<'_>, dim: &Dim) -> Dim {
        dim.substitute(&|s| match frame.dims.get(s) {
            Some(value) => Some(value.clone()),
            None => self.const_value(s).map(Dim::from),
        })
    }

    /// The value of a Rust const; one that a dim hides is mentioned as `self::N`.
    fn const_value(&self, path: &str) -> Option<i64> {
        let consts = self.context.consts;
        let outer = || consts.get(path.strip_prefix("self::")?);
        consts.get(path).or_else(outer).copied()
    }

    fn inputs(&mut self, frame: &Frame<'a>) -> Result<Vec<Arg>, LowerError> {
        frame
            .block
            .params
            .iter()
            .map(|param| self.param(frame, param))
            .collect()
    }

    fn param(&mut self, frame: &Frame<'a>, param: &Param) -> Result<Arg, LowerError> {
        let role = match param.role {
            ParamRole::Data => Role::Data,
            ParamRole::Weight => Role::Weight,
            ParamRole::State => Role::State,
            ParamRole::Host => {
                let value = self.context.hosts.get(&param.name.name);
                let missing = || LowerError::MissingHost(param.name.name.clone());
                return value.map(|v| Arg::Value(*v)).ok_or_else(missing);
            }
        };
        self.input(frame, role, &param.ty, param.name.to_string())
    }

    fn input(
        &mut self,
        frame: &Frame<'a>,
        role: Role,
        ty: &Type,
        path: String,
    ) -> Result<Arg, LowerError> {
        match ty {
            Type::Tensor(t) => {
                let shape = t.axes.iter().map(|axis| self.dim(frame, axis)).collect();
                let node = self.builder.input(path, role, t.dtype, shape)?;
                Ok(match role {
                    Role::State => Arg::State(node),
                    Role::Data | Role::Weight => Arg::Tensor(node),
                })
            }
            Type::Struct(s) => {
                let fields = self
                    .program
                    .structure(&s.name)
                    .into_iter()
                    .flat_map(|s| &s.fields);
                let typed = fields.filter_map(|field| {
                    let name = field.name.as_str();
                    Some((name, self.program.field_type(s, name)?))
                });
                let made: Result<Vec<Arg>, LowerError> = typed
                    .map(|(name, ty)| self.input(frame, role, &ty, format!("{path}.{name}")))
                    .collect();
                Ok(Arg::Struct(made?))
            }
            Type::Array(element, length) => {
                let count = self.number(frame, length)?;
                let made: Result<Vec<Arg>, LowerError> = (0..count)
                    .map(|at| self.input(frame, role, element, format!("{path}.{at}")))
                    .collect();
                Ok(Arg::Array(made?))
            }
        }
    }

    fn number(&self, frame: &Frame<'_>, dim: &Dim) -> Result<i64, LowerError> {
        let dim = self.dim(frame, dim);
        match dim.as_const() {
            Some(n) if n > MAX_LENGTH => Err(LowerError::TooLarge),
            Some(n) => Ok(n),
            None => Err(LowerError::Length(dim)),
        }
    }

    /// Inlines a block.
    fn block(
        &mut self,
        block: &'a Block,
        dims: BTreeMap<Arc<str>, Dim>,
        args: Vec<Arg>,
        prefix: String,
    ) -> Result<Vec<NodeId>, Vec<LowerError>> {
        if block.is_broken() {
            let (block, first) = (block.name.name.clone(), self.program.errors.first());
            let first = first.map_or_else(String::new, Diag::to_string);
            return Err(vec![LowerError::Invalid { block, first }]);
        }
        let missing = block
            .consts
            .keys()
            .filter(|c| self.const_value(c).is_none());
        let mut errors: Vec<LowerError> = missing.cloned().map(LowerError::MissingConst).collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut frame = Frame::new(block, dims, prefix);
        for (slot, arg) in frame.vars.iter_mut().zip(args) {
            *slot = Some(arg);
        }
        let obligations = block.obligations.iter().map(|o| &o.clause);
        for clause in obligations.chain(&block.clauses) {
            if let Err(error) = self.clause(&frame, clause) {
                errors.push(error);
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let Some(body) = &block.body else {
            return self.kernel(&frame, block).map_err(|e| vec![e]);
        };
        self.stmts(&mut frame, &body.stmts)?;
        let results = body.results.iter().map(|var| {
            let arg = frame.vars[var.at()].clone();
            let ty = &body.vars[var.at()];
            match (arg, ty.ty.tensor()) {
                (Some(Arg::Tensor(node)), _) => Ok(node),
                (Some(Arg::State(state)), _) => Ok(self.builder.version(state)),
                (Some(Arg::Value(value)), Some(t)) => self.constant(&ty.name, value, t.dtype),
                _ => Err(LowerError::NoBlock(block.name.name.clone())),
            }
        });
        results
            .collect::<Result<_, _>>()
            .map_err(|e: LowerError| vec![e])
    }

    /// A number as a tensor of rank 0.
    fn constant(
        &mut self,
        name: &Arc<str>,
        value: Value,
        dtype: DType,
    ) -> Result<NodeId, LowerError> {
        let body = self.builder.literal(value, dtype);
        let spec = EinSumSpec {
            labels: Vec::new(),
            out: Vec::new(),
            reduce: None,
            operands: Vec::new(),
            body,
            dtype,
        };
        self.vertex(name.clone(), spec, Vec::new())
    }

    /// Adds a vertex.
    fn vertex(
        &mut self,
        name: Arc<str>,
        spec: EinSumSpec,
        pins: Vec<super::Pin>,
    ) -> Result<NodeId, LowerError> {
        let einsum = EinSum::new(spec).map_err(|source| LowerError::EinSum {
            statement: name.clone(),
            source,
        })?;
        Ok(self.builder.einsum(name, einsum, pins)?)
    }

    /// Checks a condition, or leaves it for when the dims are bound.
    fn clause(&mut self, frame: &Frame<'_>, clause: &check::Clause) -> Result<(), LowerError> {
        let cmp = match clause.cmp {
            CmpOp::Eq => Cmp::Eq,
            CmpOp::Le => Cmp::Le,
            CmpOp::Ge => Cmp::Ge,
            CmpOp::Lt => Cmp::Lt,
            CmpOp::Gt => Cmp::Gt,
            CmpOp::Ne => return Ok(()),
        };
        let (left, right) = (
            self.dim(frame, &clause.left),
            self.dim(frame, &clause.right),
        );
        let block = &frame.block.name;
        let known = |d: &Dim| d.symbols().is_empty();
        if known(&left) && known(&right) {
            let none = |_: &str| None;
            if cmp.holds(left.eval(&none)?, right.eval(&none)?) {
                return Ok(());
            }
            return Err(LowerError::Clause {
                block: block.name.clone(),
                clause: clause.to_string(),
                origin: clause.origin.to_string(),
            });
        }
        let origin = format!("{} in block `{block}`", clause.origin).into();
        self.builder.clause(Clause {
            left,
            cmp,
            right,
            origin,
        });
        Ok(())
    }

    fn stmts(&mut self, frame: &mut Frame<'a>, stmts: &'a [Stmt]) -> Result<(), Vec<LowerError>> {
        for stmt in stmts {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(vec![LowerError::TooLarge]);
            }
            match stmt {
                Stmt::Tensor(s) => {
                    let node = self.statement(frame, s).map_err(|e| vec![e])?;
                    frame.vars[s.target.at()] = Some(Arg::Tensor(node));
                }
                Stmt::Tensors(all) => {
                    for s in all {
                        let node = self.statement(frame, s).map_err(|e| vec![e])?;
                        frame.vars[s.target.at()] = Some(Arg::Tensor(node));
                    }
                }
                Stmt::Alias { target, value } => {
                    let value = self.place(frame, value);
                    frame.vars[target.at()] = value.map(|arg| arg.settled(self.builder));
                }
                Stmt::Store(store) => self.store(frame, store).map_err(|e| vec![e])?,
                Stmt::Call(call) => self.call(frame, call)?,
                Stmt::For { var, body } => self.repeat(frame, var, body)?,
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        var: &LoopVar,
        body: &'a [Stmt],
    ) -> Result<(), Vec<LowerError>> {
        let prefix = frame.prefix.clone();
        match var {
            LoopVar::Elements(vars) => {
                let elements = |array: &VarId| match &frame.vars[array.at()] {
                    Some(Arg::Array(elements)) => elements.clone(),
                    _ => Vec::new(),
                };
                let arrays: Vec<Vec<Arg>> = vars.iter().map(|(_, a)| elements(a)).collect();
                let count = arrays.iter().map(Vec::len).min().unwrap_or(0);
                for at in 0..count {
                    for ((var, _), array) in vars.iter().zip(&arrays) {
                        frame.vars[var.at()] = Some(array[at].clone());
                    }
                    frame.prefix = format!("{prefix}{at}.");
                    self.stmts(frame, body)?;
                }
            }
            LoopVar::Number { symbol, low, high } => {
                let low = self.number(frame, low).map_err(|e| vec![e])?;
                let high = self.number(frame, high).map_err(|e| vec![e])?;
                for at in low..high {
                    frame.dims.insert(symbol.clone(), Dim::from(at));
                    frame.prefix = format!("{prefix}{at}.");
                    self.stmts(frame, body)?;
                }
            }
        }
        frame.prefix = prefix;
        Ok(())
    }

    fn call(&mut self, frame: &mut Frame<'a>, call: &'a Call) -> Result<(), Vec<LowerError>> {
        let args: Option<Vec<Arg>> = call
            .args
            .iter()
            .map(|arg| match arg {
                Argument::Place(place) => self.place(frame, place),
                Argument::Value(Expr {
                    kind: ExprKind::Lit(value),
                    ..
                }) => Some(Arg::Value(*value)),
                Argument::Value(Expr {
                    kind: ExprKind::Host(var),
                    ..
                }) => frame.vars[var.at()].clone(),
                Argument::Value(_) => None,
            })
            .collect();
        let args = args.unwrap_or_default();
        let first = call.targets.iter().flatten().next();
        let vars = frame.block.body.as_ref().map(|b| &b.vars);
        let target = first
            .zip(vars)
            .map_or("_", |(var, vars)| &*vars[var.at()].name);
        let prefix = format!("{}{target}.", frame.prefix);
        let results = match &call.callee {
            Callee::Local { name, dims } => {
                let callee = find(self.program, name)?;
                let dims = dims
                    .iter()
                    .map(|(d, value)| (d.clone(), self.dim(frame, value)))
                    .collect();
                self.block(callee, dims, args, prefix)?
            }
            Callee::Foreign(at) => {
                let foreign = &frame.block.foreign[*at];
                let others = &mut *self.context.foreign;
                others.call(foreign, &prefix, self.builder, &args)?
            }
        };
        for (target, node) in call.targets.iter().zip(results) {
            if let Some(target) = target {
                frame.vars[target.at()] = Some(Arg::Tensor(node));
            }
        }
        Ok(())
    }

    /// What a variable or field stands for.
    fn place(&self, frame: &Frame<'_>, place: &Place) -> Option<Arg> {
        let body = frame.block.body.as_ref()?;
        let mut arg = frame.vars[place.var.at()].clone()?;
        let mut ty = body.vars[place.var.at()].ty.clone();
        for field in &place.fields {
            let (Arg::Struct(fields), Type::Struct(s)) = (arg, &ty) else {
                return None;
            };
            let structure = self.program.structure(&s.name)?;
            let at = structure
                .fields
                .iter()
                .position(|f| *f.name.name == **field)?;
            arg = fields.get(at)?.clone();
            ty = self.program.field_type(s, field)?;
        }
        Some(arg)
    }
}

#[cfg(test)]
mod tests;
