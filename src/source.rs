//! The program behind the items of one `ein!`: its text is read again, by the same parser and
//! check, when it is first used.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use eindecomp_core::ein::{DType, Value};
use eindecomp_core::graph::NodeId;
use eindecomp_core::graph::from_syntax::{
    Arg, Consts, Context, Hosts, LowerError, NoForeign, append_block, block_graph_with,
};
use eindecomp_core::syntax::check::{Checked, check_program};
use eindecomp_core::syntax::parse_text;

use crate::Error;
use crate::fields::{Args, Arguments};
use crate::model::{Model, ModelGraph};

/// A program: its text, and the values of the Rust consts in it.
pub struct Source {
    text: &'static str,
    consts: &'static [(&'static str, i64)],
    checked: OnceLock<Result<Checked, String>>,
}

impl Source {
    /// The program of an `ein!`.
    pub const fn new(text: &'static str, consts: &'static [(&'static str, i64)]) -> Source {
        Source {
            text,
            consts,
            checked: OnceLock::new(),
        }
    }

    fn checked(&self) -> Result<&Checked, String> {
        let read = || {
            let (program, mut errors) = parse_text(self.text);
            let mut checked = check_program(&program);
            errors.append(&mut checked.errors);
            match errors.is_empty() {
                true => Ok(checked),
                false => Err(errors
                    .iter()
                    .map(|e| e.render(self.text).to_string())
                    .collect()),
            }
        };
        self.checked
            .get_or_init(read)
            .as_ref()
            .map_err(String::clone)
    }

    fn consts(&self) -> Consts {
        self.consts
            .iter()
            .map(|&(name, value)| (name.into(), value))
            .collect()
    }

    /// The graph of a block as a program by itself.
    pub fn graph<M: Model>(&self, block: &str, hosts: &[(&str, Value)]) -> ModelGraph<M> {
        let hosts = hosts
            .iter()
            .map(|&(name, value)| (name.into(), value))
            .collect();
        let graph = self.checked().and_then(|checked| {
            self.with(&hosts, |context| block_graph_with(checked, block, context))
                .map_err(|errors| texts(errors).join("\n"))
        });
        ModelGraph::new(graph.map_err(Error::Source))
    }

    /// Appends a block to the graph of its arguments and gives its results. Mistakes are recorded
    /// at the caller's place; then, as after an earlier one, there are no results.
    #[track_caller]
    pub fn call<const N: usize>(
        &self,
        block: &str,
        context: Args<'_>,
        args: &[Arg],
    ) -> [Option<NodeId>; N] {
        let Arguments {
            graph,
            poisoned,
            errors,
        } = context.finish();
        if poisoned && errors.is_empty() {
            return [None; N];
        }
        let results = graph.build(|builder| {
            if !errors.is_empty() {
                return Err(errors);
            }
            let checked = self.checked().map_err(|e| vec![e])?;
            // Host values are arguments like the others.
            self.with(&Hosts::new(), |context| {
                append_block(checked, block, context, builder, args, &BTreeMap::new())
            })
            .map_err(texts)
        });
        let mut results = results.into_iter().flatten();
        std::array::from_fn(|_| results.next())
    }

    fn with<T>(&self, hosts: &Hosts, build: impl FnOnce(&mut Context<'_>) -> T) -> T {
        build(&mut Context {
            consts: &self.consts(),
            hosts,
            foreign: &mut NoForeign,
        })
    }
}

/// The name of the instance of `block` for these dtypes.
pub fn instance(block: &str, dtypes: &[DType]) -> String {
    let dtypes = dtypes.iter().map(|dtype| format!("/{dtype}"));
    std::iter::once(block.to_owned()).chain(dtypes).collect()
}

fn texts(errors: Vec<LowerError>) -> Vec<String> {
    errors.iter().map(LowerError::to_string).collect()
}
