//! A checked block as an EinGraph: calls are inlined, loops unrolled, and every reduction inside
//! an expression becomes a vertex of its own.
//!
//! * [`block_graph`]: the block alone, its parameters as inputs;
//! * [`append_block`]: the block on tensors of a graph under construction.

mod error;
mod inline;
mod kernel;
mod record;
mod size;
mod solve;
mod statement;
mod store;

pub use error::{LowerError, TextError};
pub use record::is_softmax_sum;
pub(crate) use record::softmax_sum;
pub use size::{MAX_STATEMENTS, statements};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use inline::{Frame, Lower};

use super::{EinGraph, GraphBuilder, GraphError, Lines, NodeId, Role};
use crate::ein::{Dim, Value};
use crate::syntax::check::{Block, Checked, ForeignCall, ParamRole, base_name};
use crate::syntax::{check, parse_text};

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
    /// its results in order; `said` are the shapes that these are said to have.
    ///
    /// # Errors
    /// Whatever keeps the block from being appended.
    fn call(
        &mut self,
        call: &ForeignCall,
        prefix: &str,
        builder: &mut GraphBuilder,
        args: &[Arg],
        said: &[Vec<Dim>],
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
        _: &[Vec<Dim>],
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
    /// Where these stand, if the program was read from a file.
    pub lines: Option<&'a Lines>,
}

impl EinGraph {
    /// The block called `block` of a program in text form; an instance of a generic block has its
    /// choices in its name, `norm/bf16`, `add/2/f32`. `consts` are the values of the Rust consts
    /// that the program mentions.
    ///
    /// # Errors
    /// Every error of the program with its line, or those of building the block.
    pub fn from_text(source: &str, block: &str, consts: &Consts) -> Result<EinGraph, TextError> {
        let (program, mut errors) = parse_text(source);
        let checked = check::check_program(&program);
        errors.extend(checked.errors.iter().cloned());
        errors.sort_by_key(|diag| (diag.primary, diag.code));
        if !errors.is_empty() {
            return Err(TextError::Program {
                source: source.into(),
                errors,
            });
        }
        if let Some(error) = unnamed(&checked, block) {
            return Err(error);
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
            lines: None,
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
    let held;
    let program = match program.block(block) {
        Some(_) => program,
        None => {
            held = program.with_instance(block);
            held.as_deref().unwrap_or(program)
        }
    };
    let mut builder = GraphBuilder::new();
    let block = find(program, block)?;
    let mut lower = Lower::new(program, context, &mut builder);
    let dims = block
        .dims
        .iter()
        .map(|d| (d.clone(), Dim::sym(d.clone())))
        .collect();
    let frame = Frame::new(block, dims, lower.context.prefix.to_owned());
    let args = lower.inputs(&frame).map_err(|e| vec![e])?;
    let results = lower.outermost(block, frame.dims, args)?;
    let outputs = block.results.iter().zip(results);
    let named: Result<Vec<()>, GraphError> = outputs
        .map(|(result, node)| builder.output(result.name.clone(), node))
        .collect();
    named
        .and_then(|_| builder.finish())
        .map_err(|e| vec![e.into()])
}

/// Appends the block to a graph, on the tensors `args`; `dims` are those that the arguments do not
/// determine, which also follow from the shapes that the results are `said` to have, if they are.
/// Gives the results in order. What cannot be decided yet becomes a clause.
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
    said: &[Vec<Dim>],
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
    let held;
    let program = match program.block(&name) {
        Some(_) => program,
        None => {
            held = program.with_instance(&name);
            held.as_deref().unwrap_or(program)
        }
    };
    let block = find(program, &name)?;
    let args = given_states(block, builder, args)?;
    let mut lower = Lower::new(program, context, builder);
    let dims = lower.solve(block, &args, dims, said)?;
    lower.outermost(block, dims, args)
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

/// The error about a name that is no block's, or a generic block's.
fn unnamed(program: &Checked, block: &str) -> Option<TextError> {
    if program.block(block).is_some() || program.with_instance(block).is_some() {
        return None;
    }
    let names = program.blocks.iter().map(|b| &b.name.name);
    if program.instance_name(block, &[]).is_some() {
        let of = |name: &&Arc<str>| base_name(name) == block;
        return Some(TextError::Generic {
            block: block.into(),
            instances: names.filter(of).take(3).cloned().collect(),
        });
    }
    let known: BTreeSet<&str> = names.map(|name| base_name(name)).collect();
    Some(TextError::UnknownBlock {
        block: block.into(),
        known: known.into_iter().map(Arc::from).collect(),
    })
}

fn find<'p>(program: &'p Checked, name: &str) -> Result<&'p Block, Vec<LowerError>> {
    let found = program.block(name);
    found.ok_or_else(|| vec![LowerError::NoBlock(name.into())])
}

#[cfg(test)]
mod tests;
