//! Element-wise statements go into what reads them, so that their results are never stored.
//!
//! * A transposition goes into every reader but opaque kernels and stores: kernels read through any strides.
//!   Another copy (a cut, a reversal) goes into its only reader, if that is element-wise.
//! * A statement that computes goes into its only reader, where no element is computed twice: into an
//!   element-wise one or a reduction, but not into a contraction, whose kernel reads tensors.
//!
//! Results keep their bits: values are computed in the same types as before, and what is rounded when it
//! is stored stays. A statement that is a result or pinned, reads or is a version of a state, or reads
//! by data stays too.

use super::inline::{LARGEST, inline, is_copy, is_inside, is_open};
use super::rebuild::{operands_of, reads_of, size, sources, statements};
use super::{Pass, Rebuild, Rewrite};
use crate::ein::{Aggregation, EinSumSpec, Expr, ScalarFn};
use crate::graph::{BoundGraph, GraphError, NodeId};

/// The pass of this module.
pub struct ElementwiseFusion;

/// Tensors that a statement reads beyond which nothing more goes into it.
const MOST_READS: usize = 8;

impl Pass for ElementwiseFusion {
    fn name(&self) -> &'static str {
        "elementwise_fusion"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        let mut specs = statements(graph);
        let mut readers = vec![0; specs.len()];
        for node in specs.iter().flatten().flat_map(|spec| sources(spec)) {
            readers[node.at()] += 1;
        }
        let mut did = Vec::new();
        for (id, node) in graph.ids() {
            let Some(mut spec) = specs[id.at()].take() else {
                continue;
            };
            for from in sources(&spec) {
                let made = specs[from.at()].as_ref();
                let Some(made) = made.filter(|_| !is_output(graph, from)) else {
                    continue;
                };
                let only = readers[from.at()] == 1;
                if let Some(reads) = fusable(graph, (id, &spec), (from, made), only) {
                    inline(spec.to_mut(), &reads, made, &|o| graph.node(o.node).dtype);
                    did.push(format!("`{}` into `{}`", graph.node(from).name, node.name));
                }
            }
            specs[id.at()] = Some(spec);
        }
        Rebuild::all(graph, specs, did)
    }
}

fn is_output(graph: &BoundGraph, id: NodeId) -> bool {
    graph.outputs().iter().any(|o| o.node == id)
}

/// The operands of `into` that read `from`, if it can go there and that pays.
fn fusable(
    graph: &BoundGraph,
    (into, spec): (NodeId, &EinSumSpec),
    (from, made): (NodeId, &EinSumSpec),
    only: bool,
) -> Option<Vec<usize>> {
    let extents = graph.label_extents(into);
    let (reads, operands) = reads_of(spec, from);
    let index = &operands.first()?.index;
    let fits = is_open(graph, from, made)
        && graph.node(into).store.is_none()
        && !matches!(spec.body, Expr::Opaque(_))
        && operands
            .iter()
            .all(|o| is_inside(o, graph.shape(from), extents))
        && !(spec.operands.iter().flat_map(|o| &o.index))
            .any(|x| operands_of(x).iter().any(|n| reads.contains(n)));
    if !fits {
        return None;
    }
    let elementwise = spec.reduce.is_none();
    if is_copy(graph, made) {
        let same = |x: &Expr| matches!(x, Expr::Index(_));
        let whole = made.operands[0].index.iter().all(same)
            && made.operands[0].index.len() == made.out.len()
            && made.operands[0].otherwise.is_none();
        return (whole || elementwise && only).then_some(reads);
    }
    let tensors = spec.operands.len() + made.operands.len();
    let takes = only
        && operands.iter().all(|o| o.index == *index)
        && graph.points(into) <= graph.elements(from) as u128
        && size(&spec.body) + size(&made.body) <= LARGEST
        && tensors <= MOST_READS
        && match &spec.reduce {
            None => true,
            Some(r) => matches!(r.agg, Aggregation::Row(_)) && !is_contraction(&spec.body),
        };
    takes.then_some(reads)
}

/// Does a kernel for contractions read the tensors of a reduction with this body?
fn is_contraction(body: &Expr) -> bool {
    match body {
        Expr::Call(ScalarFn::SQ | ScalarFn::ABS, args) => is_contraction(&args[0]),
        Expr::Call(ScalarFn::MUL | ScalarFn::ADD | ScalarFn::SUB, _) => true,
        Expr::Cast(_, inner) => is_contraction(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{rewritten, stays};
    use super::*;

    #[test]
    fn chains_and_prologues_are_one_statement() {
        let (text, did) = rewritten(
            ElementwiseFusion,
            r#"eingraph {
                slot $0 = 0.5
                %0 "x" = input f32[4, 3]
                %1 "b" = input f32[3]
                %2 "a" = %0[i, k] * $0:f32 -> f32[i=4, k=3]
                %3 "c" = %2[i, k] + %1[k] -> f32[i=4, k=3]
                %4 "d" = %3[r, c] * %3[r, c] -> f32[r=4, c=3]
                %5 "y" = sum[k=3; f32] exp(%4[i, k]) -> f32[i=4]
                output "y" = %5
            }"#,
        );
        insta::assert_snapshot!(text, @r#"
        eingraph {
          slot $0 = 0.5
          %0 "x" = input f32[4, 3]
          %1 "b" = input f32[3]
          %2 "y" = sum[k=3; f32] exp((@0 * $0:f32 + @1) * (@0 * $0:f32 + @1)) of %0[i, k], %1[k] -> f32[i=4]
          output "y" = %2
        }
        "#);
        assert_eq!(did, ["`a` into `c`", "`c` into `d`", "`d` into `y`"]);
    }

    #[test]
    fn contractions_read_through_transpositions() {
        let (text, _) = rewritten(
            ElementwiseFusion,
            r#"eingraph {
                %0 "x" = input f32[4, 3]
                %1 "w" = input f32[5, 3]
                %2 "t" = %1[n, k] -> f32[k=3, n=5]
                %3 "y" = sum[k=3; f32] %0[m, k] * %2[k, n] -> f32[m=4, n=5]
                %4 "z" = %2[k, n] + 1.0:f32 -> f32[n=5, k=3]
                output "y" = %3
                output "z" = %4
            }"#,
        );
        insta::assert_snapshot!(text, @r#"
        eingraph {
          %0 "x" = input f32[4, 3]
          %1 "w" = input f32[5, 3]
          %2 "y" = sum[k=3; f32] %0[m, k] * %1[n, k] -> f32[m=4, n=5]
          %3 "z" = %1[n, k] + 1.0:f32 -> f32[n=5, k=3]
          output "y" = %2
          output "z" = %3
        }
        "#);
    }

    /// Operands of contractions, what would be computed twice, what is rounded, results, pins,
    /// reads with a value outside, versions of states.
    #[test]
    fn what_does_not_pay_or_changes_bits_stays() {
        for (first, second) in [
            (
                "exp(%0[i, k]) -> f32[i=4, k=4]",
                "sum[k=4; f32] %3[i, k] * %0[k, j] -> f32[i=4, j=4]",
            ),
            (
                "exp(%1[i]) -> f32[i=4]",
                "%3[i] * %0[i, k] -> f32[i=4, k=4]",
            ),
            (
                "%0[i, k] * 2.0:f32 -> bf16[i=4, k=4]",
                "%3[i, k] + 1.0:f32 -> f32[i=4, k=4]",
            ),
            (
                "exp(%1[i]) -> f32[i=4] pin whole",
                "%3[i] + 1.0:f32 -> f32[i=4]",
            ),
            (
                "exp(%1[i]) -> f32[i=4]",
                "(%3[i + 1] else 0.0) + 1.0:f32 -> f32[i=4]",
            ),
            ("exp(%2[i]) -> f32[i=4]", "%3[i] + 1.0:f32 -> f32[i=4]"),
            ("%2[i] -> f32[i=4]", "%3[i] + 1.0:f32 -> f32[i=4]"),
            (
                "sum[k=4; f32] %0[i, k] -> f32[i=4]",
                "%3[i] + 1.0:f32 -> f32[i=4]",
            ),
        ] {
            stays(
                ElementwiseFusion,
                &format!(
                    r#"eingraph {{
                        %0 "x" = input f32[4, 4]
                        %1 "v" = input f32[4]
                        %2 "s" = state f32[4]
                        %3 "a" = {first}
                        %4 "y" = {second}
                        output "y" = %4
                    }}"#
                ),
            );
        }
    }
}
