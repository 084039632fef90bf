//! The program behind the items of one `ein!`: its text is read again, by the same parser and
//! check, when it is first used.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use eindecomp_core::ein::{DType, Dim, Value};
use eindecomp_core::graph::from_syntax::{
    Arg, Consts, Context, Foreign, Hosts, LowerError, MAX_STATEMENTS, append_block,
    block_graph_with, statements,
};
use eindecomp_core::graph::{GraphBuilder, Lines, NodeId};
use eindecomp_core::kernel::KernelFn;
use eindecomp_core::syntax::ast::{Item, Path, Program};
use eindecomp_core::syntax::check::{Checked, ForeignCall, Others, Signature, check_with};
use eindecomp_core::syntax::{Diag, parse_text};

use crate::Error;
use crate::model::{Model, ModelGraph};

/// A program: its text, where it stands, the values of the Rust consts in it, the functions of its kernels, and what
/// it uses of others.
pub struct Source {
    text: &'static str,
    file: &'static str,
    lines: &'static [u32],
    consts: &'static [(&'static str, i64)],
    kernels: &'static [(&'static str, KernelFn)],
    others: &'static [(&'static str, Other)],
    known: OnceLock<Box<dyn Known>>,
}

/// What is found of a program by its text, each part once.
#[derive(Default)]
struct Found {
    parsed: OnceLock<(Program, Vec<Diag>)>,
    read: OnceLock<Result<Read, String>>,
}

/// A [`Found`], whose type says that threads may share it: every user's crate has a static of it, for which rustc
/// would else look at each type of the tree, in every check.
trait Known: Send + Sync {
    fn found(&self) -> &Found;
}

impl Known for Found {
    fn found(&self) -> &Found {
        self
    }
}

/// A block or struct of another program.
#[derive(Clone, Copy)]
pub struct Other {
    /// A function, since a const cannot refer to what is filled in later.
    source: fn() -> &'static Source,
    name: &'static str,
    /// The values of the consts in its signature.
    consts: &'static [i64],
}

impl Other {
    /// The block or struct `name` of `source`.
    pub const fn new(
        source: fn() -> &'static Source,
        name: &'static str,
        consts: &'static [i64],
    ) -> Other {
        Other {
            source,
            name,
            consts,
        }
    }

    /// The value of a const in its signature.
    pub const fn value(self, at: usize) -> i64 {
        self.consts[at]
    }
}

/// A program that has been read.
struct Read {
    checked: Checked,
    lines: Lines,
    consts: Consts,
}

/// The blocks being appended, from the outside in.
type Stack = Vec<(*const Source, Arc<str>)>;

impl Source {
    /// The program of an `ein!` in `file`, with the line of each of its statements; what it uses of others goes by
    /// the path that it is mentioned by.
    pub const fn new(
        text: &'static str,
        (file, lines): (&'static str, &'static [u32]),
        consts: &'static [(&'static str, i64)],
        kernels: &'static [(&'static str, KernelFn)],
        others: &'static [(&'static str, Other)],
    ) -> Source {
        Source {
            text,
            file,
            lines,
            consts,
            kernels,
            others,
            known: OnceLock::new(),
        }
    }

    fn found(&self) -> &Found {
        self.known.get_or_init(|| Box::<Found>::default()).found()
    }

    fn parsed(&self) -> &(Program, Vec<Diag>) {
        let found = self.found();
        found.parsed.get_or_init(|| parse_text(self.text))
    }

    fn read(&self) -> Result<&Read, String> {
        let read = self.found().read.get_or_init(|| self.read_once());
        read.as_ref().map_err(String::clone)
    }

    fn read_once(&self) -> Result<Read, String> {
        let (program, errors) = self.parsed();
        let (mut others, mut given) = (Others::unseen(), BTreeMap::new());
        for (path, other) in self.others {
            given.insert(*path, other.consts);
            if let Some(signature) = (other.source)().structure(other.name) {
                others.add(&Path::from_text(path), &signature, 0);
            }
        }
        let checked = check_with(program, &others);
        let errors: Vec<&Diag> = errors.iter().chain(&checked.errors).collect();
        if !errors.is_empty() {
            let text = |e: &&Diag| e.render(self.text).to_string();
            return Err(errors.iter().map(text).collect());
        }
        let own = self
            .consts
            .iter()
            .map(|&(name, value)| (name.into(), value));
        let theirs = others.const_places().filter_map(|(symbol, path, at)| {
            let value = given.get(path)?.get(at)?;
            Some((symbol.clone(), *value))
        });
        let consts = own.chain(theirs).collect();
        let lines = Lines::new(program, self.file, self.lines);
        Ok(Read {
            checked,
            lines,
            consts,
        })
    }

    /// A struct, as other programs see it.
    fn structure(&self, name: &str) -> Option<Signature> {
        let (program, _) = self.parsed();
        program.items.iter().find_map(|item| match item {
            Item::Struct(s) if s.head.name.as_str() == name => {
                Some(Signature::structure(s, program))
            }
            _ => None,
        })
    }

    /// The refusal of a block that would be too large with all that it calls of other programs,
    /// before any of it is built.
    fn fits(&self, block: &str) -> Result<(), String> {
        match self.size(block, &Sizes::default()) <= MAX_STATEMENTS {
            true => Ok(()),
            false => Err(LowerError::TooLarge {
                block: block.into(),
            }
            .to_string()),
        }
    }

    /// At least so many statements a block has; each block is looked at once.
    fn size(&self, block: &str, known: &Sizes) -> usize {
        let key = (std::ptr::from_ref(self), Arc::from(block));
        if let Some(size) = known.borrow().get(&key) {
            return *size;
        }
        // One that calls itself is refused where it is appended.
        known.borrow_mut().insert(key.clone(), 0);
        let Ok(read) = self.read() else { return 0 };
        let others = |call: &ForeignCall| {
            let other = self.other(&call.path.to_string());
            other.map_or(0, |other| (other.source)().size(other.name, known))
        };
        let size = statements(&read.checked, block, &read.consts, &others);
        known.borrow_mut().insert(key, size);
        size
    }

    fn other(&self, path: &str) -> Option<&Other> {
        let mut others = self.others.iter();
        others
            .find(|(name, _)| *name == path)
            .map(|(_, other)| other)
    }

    /// The graph of a block as a program by itself.
    fn graph<M: Model>(&self, block: &str, hosts: &[(&str, Value)]) -> ModelGraph<M> {
        let hosts = hosts
            .iter()
            .map(|&(name, value)| (name.into(), value))
            .collect();
        let graph = self.read().and_then(|read| {
            self.fits(block)?;
            let stack = vec![(std::ptr::from_ref(self), block.into())];
            let mut calls = Calls {
                source: self,
                stack,
            };
            let mut context = Context {
                consts: &read.consts,
                hosts: &hosts,
                foreign: &mut calls,
                prefix: "",
                lines: Some(&read.lines),
            };
            block_graph_with(&read.checked, block, &mut context)
                .map_err(|errors| texts(errors).join("\n"))
        });
        let kernels = self.kernels.iter();
        let graph = graph.map(|graph| {
            kernels.fold(graph, |graph, (name, kernel)| {
                graph.with_kernel(*name, *kernel)
            })
        });
        ModelGraph::new(graph.map_err(Error::Source))
    }

    /// Appends a block to the graph of its arguments and gives its results; `dims` are those that
    /// the arguments do not determine.
    pub(crate) fn append_call(
        &self,
        block: &str,
        builder: &mut GraphBuilder,
        args: &[Arg],
        dims: &[(&str, Dim)],
    ) -> Result<Vec<NodeId>, Vec<String>> {
        self.fits(block).map_err(|e| vec![e])?;
        self.append(block, "", Stack::new(), builder, args, (dims, &[]))
    }

    /// Appends a block; `stack` holds those that it is called by. Dims that the arguments do not
    /// determine are given, or follow from the shapes that the results are said to have.
    fn append(
        &self,
        block: &str,
        prefix: &str,
        mut stack: Stack,
        builder: &mut GraphBuilder,
        args: &[Arg],
        (dims, said): (&[(&str, Dim)], &[Vec<Dim>]),
    ) -> Result<Vec<NodeId>, Vec<String>> {
        let frame = (std::ptr::from_ref(self), block.into());
        if stack.contains(&frame) {
            return Err(vec![LowerError::Recursion(frame.1).to_string()]);
        }
        stack.push(frame);
        let read = self.read().map_err(|e| vec![e])?;
        for (name, kernel) in self.kernels {
            let added = builder.kernel(name, *kernel);
            added.map_err(|e| vec![e.to_string()])?;
        }
        let mut calls = Calls {
            source: self,
            stack,
        };
        let mut context = Context {
            consts: &read.consts,
            // Host values are arguments like the others.
            hosts: &Hosts::new(),
            foreign: &mut calls,
            prefix,
            lines: Some(&read.lines),
        };
        let dims = dims.iter().map(|(name, dim)| ((*name).into(), dim.clone()));
        let dims = dims.collect();
        append_block(
            &read.checked,
            block,
            &mut context,
            builder,
            args,
            &dims,
            said,
        )
        .map_err(texts)
    }
}

/// The calls that a program makes of others.
struct Calls<'a> {
    source: &'a Source,
    stack: Stack,
}

impl Foreign for Calls<'_> {
    fn call(
        &mut self,
        call: &ForeignCall,
        prefix: &str,
        builder: &mut GraphBuilder,
        args: &[Arg],
        said: &[Vec<Dim>],
    ) -> Result<Vec<NodeId>, Vec<LowerError>> {
        let path = call.path.to_string();
        let Some(other) = self.source.other(&path) else {
            return Err(vec![LowerError::NoBlock(path.into())]);
        };
        let source = (other.source)();
        let stack = self.stack.clone();
        let made = source.append(other.name, prefix, stack, builder, args, (&[], said));
        made.map_err(|errors| errors.into_iter().map(LowerError::Other).collect())
    }
}

/// Statements of blocks of programs.
type Sizes = RefCell<BTreeMap<(*const Source, Arc<str>), usize>>;

/// The graph of a block as a program by itself; of one with dtype variables, that of an instance.
pub fn graph<M: Model>(block: Other, dtypes: &[DType], hosts: &[(&str, Value)]) -> ModelGraph<M> {
    let dtypes = dtypes.iter().map(|dtype| format!("/{dtype}"));
    let instance: String = std::iter::once(block.name.to_owned())
        .chain(dtypes)
        .collect();
    (block.source)().graph(&instance, hosts)
}

fn texts(errors: Vec<LowerError>) -> Vec<String> {
    errors.iter().map(LowerError::to_string).collect()
}
