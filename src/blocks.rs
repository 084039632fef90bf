//! Which blocks of a crate `cargo eindecomp` plans, and how they are told to it.

use std::fs::OpenOptions;
use std::io::Write;

use eindecomp_core::graph::EinGraph;
use eindecomp_core::plan::cache::version;

use crate::model::block_path;
use crate::{Error, Model, ModelGraph};

/// Names the blocks of a crate that `cargo eindecomp` plans: one line, anywhere in its library or in a binary, once
/// per module. It becomes a test that makes each block's graph; `cargo eindecomp` runs it to be
/// told them.
///
/// ```
/// eindecomp::ein! {
///     pub fn scale<dim N>(x: f32[N], #[host] by: f32) -> f32[N] { let y[n] = x[n] * by; y }
///     pub fn total<dim N, T: Float>(x: T[N]) -> T[] { let y[] = sum[n] x[n]; y }
/// }
/// eindecomp::blocks! { scale(2.0), total<f32> }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! blocks {
    () => {
        compile_error!("blocks! names the crate's blocks: `eindecomp::blocks! { scale(2.0), total<f32> }`");
    };
    ($($block:ident $(:: $more:ident)* $(< $($dtype:ty),+ >)? $(( $($host:expr),* ))?),+ $(,)?) => {
        #[cfg(test)]
        #[test]
        fn eindecomp_blocks() {
            $($crate::__private::block(
                $block $(:: $more)* :: graph $(::< $($dtype),+ >)? ($($($host),*)?),
            );)+
        }
    };
}

/// The file that blocks are told to, if `cargo eindecomp` asks.
pub(crate) const FILE: &str = "EINDECOMP_BLOCKS";

/// Makes a block's graph, and appends it to the file if there is one.
///
/// # Panics
/// The graph has mistakes, or the file cannot be written: it is a test that calls this.
#[doc(hidden)]
pub fn block<M: Model>(graph: ModelGraph<M>) {
    let name = block_path::<M>();
    let told = graph.into_graph().and_then(|graph| tell(&name, &graph));
    if let Err(error) = told {
        panic!("{name}: {error}");
    }
}

fn tell(name: &str, graph: &EinGraph) -> Result<(), Error> {
    let Some(path) = std::env::var_os(FILE) else {
        return Ok(());
    };
    let text = graph.to_string();
    let lines = text.lines().count();
    let record = format!("block {} {lines} {name}\n{}\n", version(), text.trim_end());
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(record.as_bytes()));
    written.map_err(|e| Error::Source(format!("{}: {e}", path.display())))
}

#[cfg(feature = "cli")]
pub(crate) mod told {
    //! Blocks as `cargo eindecomp` reads them.

    use super::*;

    /// A block of a crate.
    #[derive(Clone, Debug)]
    pub struct Block {
        /// Its path.
        pub name: String,
        /// With symbolic dims.
        pub graph: EinGraph,
    }

    /// Every block of a file. A module of several crates of a package tells its blocks from each; those of one
    /// path that differ, by what `#[host]` parameters are, stay.
    ///
    /// # Errors
    /// What is no record, or that of a crate with another version of this one.
    pub fn read(text: &str) -> Result<Vec<Block>, String> {
        let ours = version();
        let mut blocks: Vec<Block> = Vec::new();
        let mut lines = text.lines();
        while let Some(head) = lines.next() {
            let words: Vec<&str> = head.splitn(4, ' ').collect();
            let record = match words[..] {
                ["block", theirs, count, name] => count.parse().ok().map(|n| (theirs, n, name)),
                _ => None,
            };
            let Some((theirs, count, name)) = record else {
                return Err(format!(
                    "`{head}` is no block: its eindecomp is another version"
                ));
            };
            if theirs != ours {
                return Err(format!(
                    "its eindecomp has {theirs}, this command {ours}: use one version of both"
                ));
            }
            let graph: Vec<&str> = lines.by_ref().take(count).collect();
            let graph = EinGraph::parse(&graph.join("\n"));
            let graph = graph.map_err(|e| format!("{name}: {e}"))?;
            if blocks.iter().all(|b| b.name != name || b.graph != graph) {
                blocks.push(Block {
                    name: name.into(),
                    graph,
                });
            }
        }
        Ok(blocks)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn blocks_are_read_once_and_of_this_version_only() {
            let graph = |dtype: &str| {
                format!("eingraph {{\n  %0 \"x\" = input {dtype}[N]\n  output \"y\" = %0\n}}\n")
            };
            let block =
                |name: &str, dtype| format!("block {} 4 {name}\n{}", version(), graph(dtype));
            let all = [
                block("a::f", "f32"),
                block("a::f<f32, i64>", "f32"),
                // told by the library and by a binary
                block("a::f", "f32"),
                block("a::f", "f64"),
            ];
            let read = read(&all.concat()).unwrap();
            let names: Vec<&str> = read.iter().map(|b| &b.name[..]).collect();
            assert_eq!(names, ["a::f", "a::f<f32, i64>", "a::f"]);
            let refused = |text: &str, says: &str| {
                let error = super::read(text).unwrap_err();
                assert!(error.contains(says), "{error}");
            };
            let other = block("a::f", "f32").replace("entries/", "entries/1");
            refused(&other, "its eindecomp has planner/");
            refused(
                "block a::f planner/4 1\n",
                "is no block: its eindecomp is another version",
            );
            refused("junk", "`junk` is no block");
            refused(&block("a::f", "g32"), "a::f: line ");
        }
    }
}
