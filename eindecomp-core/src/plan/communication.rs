//! Planning by partition vectors: one vector per vertex, at least total cost under a model that
//! looks at vectors alone ([`CostModel`]).

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::cost::CostModel;
use super::cost::communication::{Communication, output_parts};
use super::options::PlanOptions;
use super::partition::viable;
use super::planner::{Algorithm, PlanError};
use super::search::{
    Budget, PairTable, Problem, Progress, Solution, Unwatched, VarId, check, exhaustive,
    linearized, solve,
};
use super::{Certificate, Constraints};
use crate::ein::{DType, EinSum, Expr, Operand};
use crate::graph::{BoundGraph, NodeId, Pin};
use crate::quick::{Table, classes};

/// Most assignments that [`Algorithm::Exhaustive`] tries.
const EXHAUSTIVE: u128 = 1 << 32;

/// A partition vector per vertex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decomposition {
    /// Per node, in canonical label order; `None` for inputs.
    pub vectors: Vec<Option<Vec<u32>>>,
    /// What was proved about their cost.
    pub certificate: Certificate,
}

/// The decomposition of least `communication` cost over `devices` devices.
///
/// # Errors
/// Pins that cannot be kept, or an exhaustive search of too much.
pub fn plan(
    graph: &BoundGraph,
    devices: u32,
    algorithm: Algorithm,
) -> Result<Decomposition, PlanError> {
    let options = PlanOptions {
        algorithm,
        ..PlanOptions::default()
    };
    decompose(graph, devices, &Communication, &options, &Unwatched)
}

/// The decomposition of least cost under `model` over `devices` devices, by the algorithm of `options` under
/// their constraints, until `progress` says no.
///
/// # Errors
/// As [`plan`].
pub fn decompose(
    graph: &BoundGraph,
    devices: u32,
    model: &dyn CostModel,
    options: &PlanOptions,
    progress: &dyn Progress,
) -> Result<Decomposition, PlanError> {
    let space = Space::build(graph, devices, model, options.constraints)?;
    let found = match options.algorithm {
        Algorithm::Exact => solve(&space.problem, Budget::default(), progress),
        Algorithm::Linearized => linearized::solve(&space.problem),
        Algorithm::Exhaustive => exhaustive::solve(&space.problem, EXHAUSTIVE)
            .ok_or(PlanError::TooManyPlans { limit: EXHAUSTIVE })?,
    };
    let checked = check::confirmed(&space.problem, &found);
    let Solution {
        assignment,
        cost,
        bound,
        stopped,
        ..
    } = found;
    Ok(Decomposition {
        vectors: space.read(&assignment),
        certificate: Certificate {
            cost,
            bound,
            space: "partition vectors".into(),
            wider: None,
            checked: (checked < bound).then_some(checked),
            stopped,
        },
    })
}

/// The total cost of given vectors: an independent check of a search.
pub fn evaluate(graph: &BoundGraph, vectors: &[Option<Vec<u32>>], model: &dyn CostModel) -> u128 {
    let mut total = 0;
    for (node, vertex) in graph.ids() {
        let (Some(e), Some(d)) = (vertex.einsum(), &vectors[node.at()]) else {
            continue;
        };
        total += model.vertex(graph, node, d);
        for (o, operand) in e.operands.iter().enumerate() {
            let maker = graph.node(operand.node).einsum();
            if let (Some(maker), Some(made)) = (maker, &vectors[operand.node.at()]) {
                total += model.edge(graph, node, o, &output_parts(maker, made), d);
            }
        }
    }
    total
}

/// The labelling problem, and what its values are.
struct Space {
    problem: Problem,
    /// Per node: its variable and kind.
    variables: Vec<Option<(VarId, usize)>>,
    kinds: Vec<Kind>,
}

/// Vertices that differ only in where they stand: their costs are the same functions of the same
/// vectors.
struct Kind {
    vectors: Vec<Vec<u32>>,
    costs: Arc<[u64]>,
    /// Parts per axis of what they make: the distinct ones, and which one each vector leads to.
    made: Vec<Vec<u32>>,
    rows: Vec<u32>,
}

/// What decides the costs of a vertex: how it is computed ([`BoundGraph::kinds`]), its operands' shapes and types, what the
/// model sees of them beside, and pins.
type KindKey<'a> = (u32, Vec<(&'a [usize], DType, u128)>, &'a [Pin]);

impl Space {
    fn build(
        graph: &BoundGraph,
        devices: u32,
        model: &dyn CostModel,
        constraints: Constraints,
    ) -> Result<Space, PlanError> {
        let mut space = Space {
            problem: Problem::new(),
            variables: Vec::new(),
            kinds: Vec::new(),
        };
        let mut kinds: Table<KindKey, usize> = Table::default();
        // consumer, operand, producer
        let mut tables: Table<(usize, usize, usize), PairTable> = Table::default();
        for (node, vertex) in graph.ids() {
            let Some(e) = vertex.einsum() else {
                space.variables.push(None);
                continue;
            };
            let kind = match kinds.entry(key(graph, node, e, model)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    space
                        .kinds
                        .push(Kind::of(graph, node, e, devices, model, constraints)?);
                    *new.insert(space.kinds.len() - 1)
                }
            };
            let costs = space.kinds[kind].costs.clone();
            let variable = space.problem.add_variable(costs);
            space.variables.push(Some((variable, kind)));
            for (o, operand) in e.operands.iter().enumerate() {
                let Some((from, producer)) = space.variables[operand.node.at()] else {
                    continue;
                };
                let table = match tables.get(&(kind, o, producer)) {
                    Some(&table) => table,
                    None => {
                        let producer = &space.kinds[producer];
                        let read = space.kinds[kind].vectors.iter();
                        let (columns, read) = classes(read.map(|d| projection(e, o, d)));
                        let costs = model.edges(graph, node, o, &producer.made, &read);
                        let costs: Vec<u64> = costs.into_iter().map(number).collect();
                        let rows = &producer.rows;
                        space.problem.pair_table(rows, &columns, &costs)
                    }
                };
                tables.insert((kind, o, producer), table);
                space.problem.add_pair(from, variable, table);
            }
        }
        Ok(space)
    }

    fn read(&self, assignment: &[u32]) -> Vec<Option<Vec<u32>>> {
        let vector = |choice: &Option<(VarId, usize)>| {
            choice.map(|(v, kind)| self.kinds[kind].vectors[assignment[v.at()] as usize].clone())
        };
        self.variables.iter().map(vector).collect()
    }
}

impl Kind {
    fn of(
        graph: &BoundGraph,
        node: NodeId,
        e: &EinSum,
        devices: u32,
        model: &dyn CostModel,
        constraints: Constraints,
    ) -> Result<Kind, PlanError> {
        let vectors = viable(graph, node, devices, constraints)?;
        let costs = model.vertices(graph, node, &vectors);
        let (rows, made) = classes(vectors.iter().map(|d| output_parts(e, d)));
        Ok(Kind {
            costs: costs.into_iter().map(number).collect(),
            vectors,
            made,
            rows,
        })
    }
}

fn key<'a>(graph: &'a BoundGraph, node: NodeId, e: &EinSum, model: &dyn CostModel) -> KindKey<'a> {
    let read = |o: &Operand| {
        let (shape, dtype) = (graph.shape(o.node), graph.node(o.node).dtype);
        (shape, dtype, model.of_read(graph, o.node))
    };
    (
        graph.kinds()[node.at()],
        e.operands.iter().map(read).collect(),
        &graph.node(node).pins,
    )
}

/// A cost as the search counts it; past 64 bits it is merely large.
fn number(cost: u128) -> u64 {
    u64::try_from(cost).unwrap_or(super::search::INFEASIBLE - 1)
}

/// `d` where it decides what is read of an operand, else 1.
fn projection(e: &EinSum, operand: usize, d: &[u32]) -> Vec<u32> {
    let mut out = vec![1; d.len()];
    for index in &e.operands[operand].index {
        index.visit(&mut |x| {
            if let Expr::Index(l) = x {
                out[l.at()] = d[l.at()];
            }
        });
    }
    out
}

/// Per-node costs of given vectors, for tables: JOIN, AGG and REPART.
pub fn columns(graph: &BoundGraph, node: NodeId, vectors: &[Option<Vec<u32>>]) -> [u128; 3] {
    use super::cost::communication::{agg, join, repart};
    let (Some(e), Some(d)) = (graph.node(node).einsum(), &vectors[node.at()]) else {
        return [0; 3];
    };
    let moved = |(o, operand): (usize, &crate::ein::Operand)| {
        let maker = graph.node(operand.node).einsum()?;
        let made = vectors[operand.node.at()].as_ref()?;
        Some(repart(graph, node, o, &output_parts(maker, made), d))
    };
    let moved = e.operands.iter().enumerate().filter_map(moved).sum();
    [join(graph, node, d), agg(graph, node, d), moved]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::testing::random_graph;
    use crate::plan::cost::limit::vertex_limit;
    use crate::plan::samples::transformer;

    proptest! {
        #[test]
        fn searches_agree_on_random_graphs(
            seed: u64,
            statements in 1..5usize,
            devices in prop::sample::select(vec![1u32, 2, 3, 4, 6, 8]),
        ) {
            let graph = random_graph(seed, statements).bound();
            let by = |algorithm| plan(&graph, devices, algorithm).unwrap();
            let exact = by(Algorithm::Exact);
            let cost = exact.certificate.cost;
            prop_assert!(exact.certificate.is_optimal());
            prop_assert_eq!(by(Algorithm::Exhaustive).certificate.cost, cost);
            prop_assert!(by(Algorithm::Linearized).certificate.cost >= cost);
            prop_assert_eq!(evaluate(&graph, &exact.vectors, &Communication), cost);
            let columns = graph
                .ids()
                .map(|(id, _)| columns(&graph, id, &exact.vectors));
            prop_assert_eq!(columns.flatten().sum::<u128>(), cost);
            if devices == 1 {
                let moved = graph.ids().map(|(id, _)| columns_moved(&graph, id, &exact));
                prop_assert_eq!(moved.sum::<u128>(), 0);
            }
            for (id, _) in graph.ids() {
                let Some(d) = &exact.vectors[id.at()] else {
                    continue;
                };
                let tuples = d.iter().product();
                let own = Communication.vertex(&graph, id, d);
                prop_assert!(vertex_limit(&graph, id, tuples) <= own);
            }
        }
    }

    /// AGG and REPART.
    fn columns_moved(graph: &BoundGraph, id: NodeId, found: &Decomposition) -> u128 {
        columns(graph, id, &found.vectors)[1..].iter().sum()
    }

    #[test]
    fn deep_graphs_are_solved_exactly() {
        let graph = transformer(12, [2, 64, 4, 16, 256]);
        for devices in [4, 8] {
            let found = plan(&graph, devices, Algorithm::Exact).unwrap();
            assert!(found.certificate.is_optimal());
            assert_eq!(found, plan(&graph, devices, Algorithm::Exact).unwrap());
            let linear = plan(&graph, devices, Algorithm::Linearized).unwrap();
            assert!(linear.certificate.cost >= found.certificate.cost);
        }
    }
}
