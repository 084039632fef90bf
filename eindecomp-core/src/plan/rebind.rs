//! A plan for other dims than it was made for: those of a bucket that a run's dims fall into.

use std::sync::Arc;

use super::cost::node_costs;
use super::layout::Layout;
use super::verify::InvalidPlan;
use super::{Certificate, Cluster, NodePlan, Plan};
use crate::graph::BoundGraph;
use crate::task::traffic::bytes;

/// The same decomposition for `graph`, which is the graph of `plan` at other dims, on the same cluster: every number of
/// parts is clipped to its extent, a tile stays on the device it was on, and the bytes are counted
/// anew. Nothing is proved about them, so the bound is 0.
///
/// # Errors
/// The plan does not have the structure of the graph. Memory and the other rules of a plan are those
/// of [`verify`](super::verify::verify), which the result has yet to pass.
pub fn rebind(plan: &Plan, graph: &BoundGraph, cluster: &Cluster) -> Result<Plan, InvalidPlan> {
    let nodes = plan.nodes.iter().zip(graph.ids());
    let clipped = nodes.map(|(entry, (id, _))| {
        let clip_to = |layout: &Option<Arc<Layout>>, extents: &[usize]| {
            layout.as_ref().map(|layout| clip(layout, extents).into())
        };
        NodePlan {
            join: clip_to(&entry.join, graph.label_extents(id)),
            owner: clip_to(&entry.owner, graph.shape(id)),
            cost: 0,
        }
    });
    let mut nodes: Vec<NodePlan> = clipped.collect();
    let bytes = bytes(graph, plan.hierarchy, &nodes)?;
    let costs = node_costs(graph, cluster, plan, &nodes, &bytes)?;
    for (node, cost) in nodes.iter_mut().zip(costs) {
        node.cost = cost;
    }
    let moved_bytes = bytes.iter().map(|b| b.moved).sum();
    Ok(Plan {
        moved_bytes,
        certificate: Certificate {
            cost: nodes.iter().map(|n| n.cost).sum(),
            bound: 0,
            space: "plans of a bucket of dims".into(),
            wider: None,
            checked: None,
            stopped: plan.certificate.stopped,
        },
        nodes,
        ..plan.clone()
    })
}

/// The tiles of a layout whose keys are within the extents. A layout of another rank stays as it is.
fn clip(layout: &Layout, extents: &[usize]) -> Layout {
    if layout.parts.len() != extents.len() {
        return layout.clone();
    }
    let parts = layout.parts.iter().zip(extents);
    let clip = |(&parts, &extent): (&u32, &usize)| {
        u32::try_from(extent.max(1)).map_or(parts, |most| parts.min(most))
    };
    let mut clipped = Layout {
        parts: parts.map(clip).collect(),
        devices: Vec::new(),
    };
    let device = |n| layout.devices[layout.number(&clipped.key(n))];
    clipped.devices = (0..clipped.tiles()).map(device).collect();
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planner::{PlanOptions, plan};
    use crate::plan::samples::{ffn, transformer};
    use crate::plan::verify::verify;
    use crate::plan::{Cluster, Residency};

    #[test]
    fn plans_of_a_bucket_keep_every_rule_at_smaller_dims() {
        for residency in [Residency::AsNeeded, Residency::Sharded] {
            let options = PlanOptions {
                residency,
                ..PlanOptions::default()
            };
            for devices in [1, 3, 4, 8] {
                let cluster = Cluster::cpus(devices);
                let made = plan(&transformer(1, [2, 16, 2, 4, 12]), &cluster, &options).unwrap();
                for s in [1, 3, 7, 16] {
                    let graph = transformer(1, [2, s, 2, 4, 12]);
                    let bound = rebind(&made, &graph, &cluster).unwrap();
                    verify(&graph, &bound, &cluster).unwrap();
                    assert!(s < 16 || bound.moved_bytes == made.moved_bytes);
                }
            }
        }
    }

    #[test]
    fn at_its_own_dims_a_plan_stays_as_it_is() {
        let (graph, cluster) = (ffn(4, 6, 8), Cluster::cpus(4));
        let made = plan(&graph, &cluster, &PlanOptions::default()).unwrap();
        let same = rebind(&made, &graph, &cluster).unwrap();
        assert_eq!(
            (same.nodes, same.moved_bytes),
            (made.nodes, made.moved_bytes)
        );
    }

    #[test]
    fn a_plan_of_another_graph_is_refused() {
        let (graph, cluster) = (ffn(4, 6, 8), Cluster::cpus(4));
        let made = plan(&graph, &cluster, &PlanOptions::default()).unwrap();
        let other = transformer(1, [2, 4, 2, 4, 8]);
        assert!(rebind(&made, &other, &cluster).is_err());
    }
}
