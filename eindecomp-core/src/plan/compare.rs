//! Named strategies beside a plan: what each would move, why one cannot be followed, and where it
//! loses.

use std::fmt;

use super::explain::size;
use super::fit::fits_anyhow;
use super::place::{Evaluator, Rules, Search};
use super::search::{Unwatched, Watch};
use super::strategy::{Roles, Strategy};
use super::{Cluster, NodePlan, Plan, PlanError, decimal};
use crate::graph::{BoundGraph, NodeId};
use crate::task::lower::lower;

/// A strategy and what following it comes to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Compared {
    /// Which one.
    pub strategy: Strategy,
    /// What it comes to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What following a strategy comes to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// It can be followed.
    Feasible {
        /// Bytes that Moves copy in one run.
        #[serde(with = "decimal")]
        moved: u128,
        /// Statements that follow it; the others are split as is best for these.
        follow: usize,
        /// The statement that moves most beyond what it moves in the plan.
        loses: Option<Loss>,
    },
    /// No statement can follow it on so many devices.
    Nowhere {
        /// The statement with most to do.
        statement: String,
        /// Number of devices.
        devices: u32,
    },
    /// It needs more memory than a device has.
    Memory {
        /// The device.
        device: u32,
        /// Bytes that it needs.
        bytes: u64,
        /// Bytes that it has.
        capacity: u64,
    },
}

/// A statement that moves more than in the plan.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Loss {
    /// What people call it.
    pub statement: String,
    /// How many bytes more.
    #[serde(with = "decimal")]
    pub bytes: u128,
}

/// Every named strategy beside a plan, under the plan's residency and the cluster's capacity.
///
/// # Errors
/// Pins that cannot be kept, or a defect of the planner.
pub fn compare(
    graph: &BoundGraph,
    cluster: &Cluster,
    plan: &Plan,
) -> Result<Vec<Compared>, PlanError> {
    let roles = Roles::of(graph);
    let watch = Watch::new(&Unwatched);
    let rules = Rules {
        residency: plan.residency,
        constraints: plan.constraints,
        vectors: None,
        replicas: true,
    };
    let mut search = Search::new(graph, cluster.hierarchy(), rules, &watch)?;
    let mut evaluator = Evaluator::default();
    let own = evaluator.moved(graph, &plan.nodes);
    let mut of = |strategy: Strategy| -> Result<Compared, PlanError> {
        let keeps = |node, d: &[u32]| strategy.keeps(graph, &roles, node, d);
        let outcome = match search.kept(&keeps) {
            None => Outcome::Nowhere {
                statement: largest(graph),
                devices: cluster.devices(),
            },
            Some(found) => match full(graph, cluster, plan, found.nodes.clone())? {
                Some(memory) => memory,
                None => {
                    let moved = evaluator.moved(graph, &found.nodes);
                    let more = graph.ids().zip(moved.iter().zip(&own));
                    let more = more.map(|((_, vertex), (m, o))| (m.saturating_sub(*o), vertex));
                    let most = more.max_by_key(|(bytes, _)| *bytes);
                    let split = |(id, _): &(NodeId, _)| {
                        let join = found.nodes[id.at()].join.as_ref();
                        join.is_some_and(|j| keeps(*id, &j.parts))
                    };
                    Outcome::Feasible {
                        moved: moved.iter().sum(),
                        follow: graph.ids().filter(split).count(),
                        loses: most.filter(|m| m.0 > 0).map(|(bytes, vertex)| Loss {
                            statement: vertex.name.to_string(),
                            bytes,
                        }),
                    }
                }
            },
        };
        Ok(Compared { strategy, outcome })
    };
    Strategy::ALL.into_iter().map(&mut of).collect()
}

/// The statement with the largest iteration space.
fn largest(graph: &BoundGraph) -> String {
    let vertices = graph.ids().filter(|(_, v)| v.einsum().is_some());
    let most = vertices.max_by_key(|(id, _)| graph.points(*id));
    most.map_or(String::new(), |(_, vertex)| vertex.name.to_string())
}

/// The device that needs more than it has.
fn full(
    graph: &BoundGraph,
    cluster: &Cluster,
    plan: &Plan,
    nodes: Vec<NodePlan>,
) -> Result<Option<Outcome>, PlanError> {
    let named = Plan {
        nodes,
        ..plan.clone()
    };
    let capacity = cluster.capacity();
    if fits_anyhow(graph, &named) <= capacity.into() {
        return Ok(None);
    }
    let tasks = lower(graph, &named).map_err(|e| PlanError::Rule(e.into()))?;
    let over = (0..)
        .zip(&tasks.arenas)
        .find(|(_, bytes)| **bytes > capacity);
    Ok(over.map(|(device, &bytes)| Outcome::Memory {
        device,
        bytes,
        capacity,
    }))
}

/// `moves 3.00 KiB; followed by 4 statements; `y` moves 1.50 KiB more`, or `infeasible: …`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Feasible {
                moved,
                follow,
                loses,
            } => {
                let plural = if *follow == 1 { "" } else { "s" };
                write!(
                    f,
                    "moves {}; followed by {follow} statement{plural}",
                    size(*moved)
                )?;
                match loses {
                    Some(l) => write!(f, "; `{}` moves {} more", l.statement, size(l.bytes)),
                    None => Ok(()),
                }
            }
            Outcome::Nowhere { statement, devices } => write!(
                f,
                "infeasible: no statement can be split so in {devices}, not even `{statement}`"
            ),
            Outcome::Memory {
                device,
                bytes,
                capacity,
            } => write!(
                f,
                "infeasible: device {device} needs {}, more than its {}",
                size((*bytes).into()),
                size((*capacity).into())
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planner::named;
    use crate::plan::samples::{corpus, ffn, matmul, transformer};
    use crate::plan::{Explain, PlanOptions, Residency, plan};

    fn planned(graph: &BoundGraph, devices: u32, residency: Residency) -> Plan {
        let options = PlanOptions {
            residency,
            ..PlanOptions::default()
        };
        plan(graph, &Cluster::cpus(devices), &options).unwrap()
    }

    /// The strategy that the cheapest plan follows, and what each of its statements does.
    fn found(graph: &BoundGraph, devices: u32) -> (Option<Strategy>, Vec<String>) {
        let plan = planned(graph, devices, Residency::AsNeeded);
        let explain = Explain::new(graph, &plan, &lower(graph, &plan).unwrap()).unwrap();
        let words = explain
            .rows
            .into_iter()
            .map(|r| format!("{}: {}", r.name, r.words));
        (explain.follows, words.collect())
    }

    /// With `--nocapture` a table: bytes of the plan and of every strategy. Blocks with many readers of a tensor take long on
    /// many devices without optimisation: on these only where `WORKLOADS` is set, as in `scripts/campaign.sh workloads`.
    #[test]
    fn workloads_move_no_more_than_any_strategy() {
        let names = Strategy::ALL.map(|s| s.to_string()).join(" | ");
        println!("workload | p | weights | proved | plan | {names}");
        let all = std::env::var_os("WORKLOADS").is_some();
        for (name, graph) in &corpus() {
            let wide = name.starts_with("LLaMA") || name.starts_with("ALBERT");
            let most = if wide && !all { 8 } else { 64 };
            for devices in [2, 3, 4, 8, 16, 64].into_iter().filter(|p| *p <= most) {
                for residency in [Residency::AsNeeded, Residency::Sharded, Residency::Auto] {
                    let options = PlanOptions {
                        residency,
                        ..PlanOptions::default()
                    };
                    let plan = planned(graph, devices, residency);
                    if residency == Residency::Auto {
                        // everything fits
                        assert_eq!(plan, planned(graph, devices, Residency::AsNeeded));
                        continue;
                    }
                    let all = &plan.certificate;
                    let gap = (all.cost - all.bound) as f64 / all.bound.max(1) as f64 * 100.0;
                    let mut row = format!(
                        "{name} | {devices} | {residency:?} | {gap:.1} % | {}",
                        plan.moved_bytes
                    );
                    for strategy in Strategy::ALL {
                        match named(graph, devices, &options, strategy).unwrap() {
                            None => row += " | –",
                            Some(named) => {
                                let moved = named.moved_bytes;
                                let what =
                                    format!("{name}: {strategy} on {devices}, {residency:?}");
                                assert!(plan.moved_bytes <= moved, "{what}");
                                assert!(all.bound <= named.certificate.cost, "{what}");
                                row += &format!(" | {moved}");
                            }
                        }
                    }
                    println!("{row}");
                }
            }
        }
    }

    /// One token: gathering it and reducing two results per layer beats moving weights or keys.
    #[test]
    fn one_token_is_tensor_parallel_with_one_reduction_per_half_block() {
        let (follows, words) = found(&transformer(2, [1, 1, 4, 8, 128]), 4);
        assert_eq!(follows, Some(Strategy::Tensor));
        let count = |text: &str| words.iter().filter(|w| w.contains(text)).count();
        assert_eq!(count("then reduce"), 2 * 2, "{words:#?}");
        assert_eq!(count("q: column-parallel"), 2, "{words:#?}");
        assert_eq!(count("u: column-parallel"), 2, "{words:#?}");
        assert_eq!(
            count("t: row-parallel, then reduce-scatter"),
            2,
            "{words:#?}"
        );
    }

    /// One long sequence and kept weights: heads in attention, the sequence elsewhere. Changing the
    /// layout of q, k and v moves 3(p − 1)/p of x; up to 3 devices, gathering x moves no more: p − 1.
    #[test]
    fn one_long_sequence_changes_between_sequence_and_heads() {
        for devices in [4, 8] {
            let (follows, words) = found(&transformer(2, [1, 64, 8, 8, 256]), devices);
            assert_eq!(follows, Some(Strategy::Heads), "{words:#?}");
            assert!(words.iter().any(|w| w.starts_with("c: head-parallel")));
            assert!(words.iter().any(|w| w.starts_with("u: sequence-parallel")));
        }
    }

    /// At least as many examples as devices: nothing moves.
    #[test]
    fn a_large_batch_is_data_parallel() {
        for devices in [2, 4, 8] {
            let graph = transformer(2, [8, 16, 4, 4, 64]);
            assert_eq!(found(&graph, devices).0, Some(Strategy::Data));
            assert_eq!(planned(&graph, devices, Residency::AsNeeded).moved_bytes, 0);
        }
    }

    /// Extents that are alike, and a number of devices with a cube root: all three are split; a
    /// short reduced extent: two are.
    #[test]
    fn matrix_products_are_split_in_three_dimensions_or_two() {
        assert_eq!(found(&matmul(64, 64, 64), 8).0, Some(Strategy::Grid3));
        assert_eq!(found(&matmul(64, 64, 64), 64).0, Some(Strategy::Grid3));
        assert_eq!(found(&matmul(64, 4, 64), 4).0, Some(Strategy::Grid2));
    }

    #[test]
    fn what_is_infeasible_says_why() {
        let graph = ffn(1, 64, 256);
        let plan = planned(&graph, 4, Residency::AsNeeded);
        let of = |cluster: &Cluster, strategy| {
            let all = compare(&graph, cluster, &plan).unwrap();
            all.into_iter()
                .find(|c| c.strategy == strategy)
                .unwrap()
                .outcome
        };
        let roomy = Cluster::cpus(4);
        assert_eq!(
            of(&roomy, Strategy::Data).to_string(),
            "infeasible: no statement can be split so in 4, not even `y`"
        );
        let Outcome::Feasible { moved, follow, .. } = of(&roomy, Strategy::Tensor) else {
            panic!("tensor-parallel is feasible");
        };
        assert_eq!((moved, follow), (plan.moved_bytes, 3));
        let small = Cluster::cpus(4).with_capacity(1 << 10);
        let Outcome::Memory {
            bytes, capacity, ..
        } = of(&small, Strategy::Tensor)
        else {
            panic!("weights do not fit");
        };
        assert!(bytes > capacity && capacity == 1 << 10);
    }

    #[test]
    fn tables_and_files_show_strategies() {
        let graph = ffn(1, 64, 256);
        let plan = planned(&graph, 4, Residency::AsNeeded);
        let explain = Explain::new(&graph, &plan, &lower(&graph, &plan).unwrap()).unwrap();
        let explain = explain.beside(&graph, &Cluster::cpus(4), &plan).unwrap();
        let text = explain.to_string();
        assert!(text.lines().all(|l| l.chars().count() <= 120));
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("strategy")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        strategy tensor: moves 1.50 KiB; followed by 3 statements
        strategy data: infeasible: no statement can be split so in 4, not even `y`
        strategy sequence: infeasible: no statement can be split so in 4, not even `y`
        strategy heads: infeasible: no statement can be split so in 4, not even `y`
        strategy 2-D: infeasible: no statement can be split so in 4, not even `y`
        strategy 3-D: infeasible: no statement can be split so in 4, not even `y`
        ");
        let json = serde_json::to_value(&explain).unwrap();
        assert_eq!(json["follows"], "tensor");
        assert_eq!(json["moved"], "1536");
        assert_eq!(json["rows"][0]["words"], "column-parallel; gathers x");
        assert_eq!(json["strategies"][0]["outcome"], "feasible");
        assert_eq!(json["certificate"]["wider"]["bound"], "1536");
    }
}
