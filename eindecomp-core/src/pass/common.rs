//! Statements that compute the same are one: the first of them, under its name.
//!
//! Two are the same if they differ in names of statements and indices alone, and read the same
//! tensors. New versions of states stay, as do opaque kernels, whose functions may do something
//! else each time, and pinned statements, unless the first one has the same pins. Results keep
//! their bits.

use std::collections::HashMap;

use super::{Pass, Rebuild, Rewrite};
use crate::ein::{EinSum, EinSumSpec};
use crate::graph::{BoundGraph, GraphError, Node, NodeId, Pin};

/// The pass of this module.
pub struct CommonStatements;

impl Pass for CommonStatements {
    fn name(&self) -> &'static str {
        "common_statements"
    }

    fn run(&self, graph: &BoundGraph) -> Result<Rewrite, GraphError> {
        let mut known: HashMap<EinSumSpec, NodeId> = HashMap::new();
        Rebuild::each(graph, |rebuild, id| {
            let node = graph.node(id);
            let Some(meaning) = node.einsum().and_then(|e| meaning(node, e, rebuild)) else {
                return Ok(None);
            };
            let first = *known.entry(meaning).or_insert(id);
            if first == id || !covers(&graph.node(first).pins, &node.pins) {
                return Ok(None);
            }
            rebuild.map[id.at()] = Some(rebuild.node(first));
            Ok(Some(format!(
                "`{}` is `{}`",
                node.name,
                graph.node(first).name
            )))
        })
    }
}

/// The statement without names, over the tensors of the new graph; `None` if it stays what it is.
fn meaning(node: &Node, e: &EinSum, rebuild: &Rebuild) -> Option<EinSumSpec> {
    if node.store.is_some() || e.opaque().is_some() {
        return None;
    }
    let mut spec = e.clone().into_spec();
    for label in &mut spec.labels {
        label.name = "".into();
    }
    for operand in &mut spec.operands {
        operand.node = rebuild.node(operand.node);
    }
    Some(spec)
}

/// Does a statement with the pins `first` do what `pins` ask?
fn covers(first: &[Pin], pins: &[Pin]) -> bool {
    pins.is_empty() || first == pins
}

#[cfg(test)]
mod tests {
    use super::super::testing::{rewritten, stays};
    use super::*;

    #[test]
    fn the_same_under_other_names_is_computed_once() {
        let (text, did) = rewritten(
            CommonStatements,
            r#"eingraph {
                slot $0 = 0.5
                %0 "x" = input f32[4, 3]
                %1 "w" = input f32[3]
                %2 "a" = sum[k=3; f32] %0[i, k] * %1[k] -> f32[i=4]
                %3 "b" = sum[c=3; f32] %0[r, c] * %1[c] -> f32[r=4]
                %4 "c" = sum[k=3; f64] %0[i, k] * %1[k] -> f32[i=4]
                %5 "d" = exp(%2[i]) * $0:f32 -> f32[i=4]
                %6 "e" = exp(%3[j]) * $0:f32 -> f32[j=4]
                %7 "y" = %5[i] + %6[i] + %4[i] -> f32[i=4]
                output "y" = %7
                output "e" = %6
            }"#,
        );
        insta::assert_snapshot!(text, @r#"
        eingraph {
          slot $0 = 0.5
          %0 "x" = input f32[4, 3]
          %1 "w" = input f32[3]
          %2 "a" = sum[k=3; f32] %0[i, k] * %1[k] -> f32[i=4]
          %3 "c" = sum[k=3; f64] %0[i, k] * %1[k] -> f32[i=4]
          %4 "d" = exp(%2[i]) * $0:f32 -> f32[i=4]
          %5 "y" = %4[i] + %4[i] + %3[i] -> f32[i=4]
          output "y" = %5
          output "e" = %4
        }
        "#);
        assert_eq!(did, ["`b` is `a`", "`e` is `d`"]);
    }

    #[test]
    fn versions_and_pins_stay() {
        let kept = r#"eingraph {
  %0 "x" = input f32[4]
  %1 "s" = state f32[4]
  %2 "a" = %0[i] + %1[i] -> f32[i=4]
  %3 "s" = if(true:bool, %2[i], %1[i]) -> f32[i=4] store %1 @1 [all]
  %4 "b" = %0[i] + %3[i] -> f32[i=4]
  %5 "c" = %0[i] + %3[i] -> f32[i=4] pin split("i", 2)
  output "b" = %4
  output "c" = %5
}
"#;
        stays(CommonStatements, kept);
    }
}
