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
        // By the tensors that they read, the first statements of each meaning.
        let mut known: HashMap<Vec<NodeId>, Vec<NodeId>> = HashMap::new();
        Rebuild::each(graph, |rebuild, id| {
            let node = graph.node(id);
            let Some(e) = node.einsum().filter(|e| may_be_shared(node, e)) else {
                return Ok(None);
            };
            let read = e.operands.iter().map(|o| rebuild.node(o.node)).collect();
            let alike = known.entry(read).or_default();
            let same = |first: &&NodeId| {
                let other = graph.node(**first).einsum();
                other.is_some_and(|other| meaning(other, rebuild) == meaning(e, rebuild))
            };
            let Some(&first) = alike.iter().find(same) else {
                alike.push(id);
                return Ok(None);
            };
            let (name, pins) = (&graph.node(first).name, &graph.node(first).pins);
            if !covers(pins, &node.pins) {
                return Ok(None);
            }
            rebuild.map[id.at()] = Some(rebuild.node(first));
            Ok(Some(format!("`{}` is `{name}`", node.name)))
        })
    }
}

/// A version of a state stays what it is, and so does a kernel that may do something else each time.
fn may_be_shared(node: &Node, e: &EinSum) -> bool {
    node.store.is_none() && e.opaque().is_none()
}

/// The statement without names, over the tensors of the new graph.
fn meaning(e: &EinSum, rebuild: &Rebuild<'_>) -> EinSumSpec {
    let mut spec = e.clone().into_spec();
    for label in &mut spec.labels {
        label.name = "".into();
    }
    for operand in &mut spec.operands {
        operand.node = rebuild.node(operand.node);
    }
    spec
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
