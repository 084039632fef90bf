//! A plan as text. Most nodes of a deep model are planned alike: layouts, and what is planned of a
//! node, are written once and numbered.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::lines::to_string;
use crate::plan::{
    Certificate, Constraints, Hierarchy, Layout, NodePlan, Plan, Residency, decimal,
};

/// Numbers that the layouts of all nodes may have together: a file of [`MAX_BYTES`](super::MAX_BYTES)
/// that named each of them would hold no more. What is written once takes memory per node.
const MAX_NUMBERS: usize = 32 << 20;
/// Nodes on one line.
const ROW: usize = 32;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    hierarchy: Hierarchy,
    model: String,
    residency: Residency,
    #[serde(default, skip_serializing_if = "Constraints::is_default")]
    constraints: Constraints,
    layouts: Vec<Arc<Layout>>,
    kinds: Vec<Kind>,
    /// Per node its kind.
    nodes: Vec<Vec<usize>>,
    #[serde(with = "decimal")]
    moved_bytes: u128,
    certificate: Certificate,
}

/// A [`NodePlan`], its layouts by number.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    join: Option<usize>,
    owner: Option<usize>,
    #[serde(with = "decimal")]
    cost: u128,
}

/// Numbers in the order of first use.
struct Numbers<T>(HashMap<T, usize>, Vec<T>);

impl<T: Clone + Eq + Hash> Numbers<T> {
    fn new() -> Numbers<T> {
        Numbers(HashMap::new(), Vec::new())
    }

    fn of(&mut self, item: T) -> usize {
        let Numbers(known, all) = self;
        *known.entry(item).or_insert_with_key(|item| {
            all.push(item.clone());
            all.len() - 1
        })
    }
}

/// The only text of a plan.
pub(super) fn write(plan: &Plan) -> String {
    let (mut layouts, mut kinds) = (Numbers::new(), Numbers::new());
    let mut kind = |node: &NodePlan| {
        let mut layout = |l: &Option<Arc<Layout>>| l.clone().map(|l| layouts.of(l));
        kinds.of(Kind {
            join: layout(&node.join),
            owner: layout(&node.owner),
            cost: node.cost,
        })
    };
    let nodes: Vec<usize> = plan.nodes.iter().map(&mut kind).collect();
    to_string(&Table {
        hierarchy: plan.hierarchy,
        model: plan.model.clone(),
        residency: plan.residency,
        constraints: plan.constraints,
        layouts: layouts.1,
        kinds: kinds.1,
        nodes: nodes.chunks(ROW).map(<[usize]>::to_vec).collect(),
        moved_bytes: plan.moved_bytes,
        certificate: plan.certificate.clone(),
    })
}

/// The plan of a text.
///
/// # Errors
/// Not a plan's JSON; a number of no layout or kind; more than any entry written out would hold.
pub(super) fn read(text: &[u8]) -> Result<Plan, serde_json::Error> {
    use serde::de::Error;
    let table: Table = serde_json::from_slice(text)?;
    let Table { layouts, kinds, .. } = &table;
    let none = |what, at| serde_json::Error::custom(format!("there is no {what} {at}"));
    let layout = |at: Option<usize>| {
        let layout = |at| layouts.get(at).ok_or_else(|| none("layout", at));
        at.map(layout).transpose()
    };
    let mut plans = Vec::with_capacity(kinds.len());
    for kind in kinds {
        plans.push((layout(kind.join)?, layout(kind.owner)?, kind.cost));
    }
    let size = |l: Option<&Arc<Layout>>| l.map_or(0, |l| l.parts.len() + l.devices.len());
    let (mut nodes, mut numbers) = (Vec::new(), 0usize);
    for &kind in table.nodes.iter().flatten() {
        let &(join, owner, cost) = plans.get(kind).ok_or_else(|| none("kind", kind))?;
        numbers = numbers
            .saturating_add(size(join))
            .saturating_add(size(owner));
        if numbers > MAX_NUMBERS {
            let message = format!("its layouts name more than {MAX_NUMBERS} numbers");
            return Err(serde_json::Error::custom(message));
        }
        nodes.push(NodePlan {
            join: join.cloned(),
            owner: owner.cloned(),
            cost,
        });
    }
    Ok(Plan {
        hierarchy: table.hierarchy,
        model: table.model,
        residency: table.residency,
        constraints: table.constraints,
        nodes,
        moved_bytes: table.moved_bytes,
        certificate: table.certificate,
    })
}
