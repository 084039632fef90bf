//! The job that an MPI launcher started.

use std::path::Path;
use std::sync::Arc;

use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::cluster::{Calibration, Link, Links};
use eindecomp_runtime::transport::{Mpi, Transport, ping, pong, tell, told};
use serde::{Deserialize, Serialize};

use crate::cache::folder;
use crate::job::{Job, JobError};
use crate::{Error, machine};

/// The name of the file that keeps the [`Ways`] of jobs of other placements, without its extension.
const NAME: &str = "mpi";

/// Where the ranks are, and what the ways between them take, as rank 0 measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ways {
    nodes: u32,
    neighbours: u32,
    /// Between ranks of a node, if it has several.
    within: Option<Link>,
    /// Between nodes, if there are several.
    between: Option<Link>,
}

impl Ways {
    /// Nodes, and ranks of each.
    fn placed(&self) -> (u32, u32) {
        (self.nodes, self.neighbours)
    }
}

/// What rank 0 knows and the others go by: plans follow from it.
#[derive(Serialize, Deserialize)]
struct Figures {
    machine: Calibration,
    ways: Ways,
}

/// The ranks of the job, one device each.
pub(crate) fn job() -> Result<Job, Error> {
    let mpi = Mpi::start()?;
    let figures = figures(&mpi)?;
    let cluster = cluster(&figures);
    let workers = workers(mpi.neighbours() as usize);
    Ok(Job {
        transport: mpi as Arc<dyn Transport>,
        cluster,
        workers: Some(workers),
    })
}

/// The devices of the ranks, one each.
fn cluster(Figures { machine, ways }: &Figures) -> Cluster {
    let mut cluster = Cluster {
        name: "mpi".into(),
        ..Cluster::calibrated(ways.neighbours, machine).with_servers(ways.nodes)
    };
    if let Some(within) = ways.within {
        cluster.server.links = Links::Switch(within);
        cluster.server.device.port = within.bandwidth;
    }
    if let Some(between) = ways.between {
        cluster.network = between;
    }
    cluster
}

/// Rank 0's figures, on every rank.
fn figures(mpi: &Mpi) -> Result<Figures, Error> {
    if mpi.rank() > 0 {
        let measures = told(mpi, "whether ways are measured").map_err(JobError::Refused)?;
        if !measures.is_empty() && partners(mpi).into_iter().flatten().any(|r| r == mpi.rank()) {
            pong(mpi, 0);
        }
        let figures = told(mpi, "the figures of its machine").map_err(JobError::Refused)?;
        let figures = serde_json::from_slice(&figures);
        return figures.map_err(|e| JobError::Refused(e.to_string()).into());
    }
    let nominal = || Calibration::nominal(u32::try_from(online()).unwrap_or(1));
    let folder = machine::default_folder();
    let found = folder.as_deref().map(machine::calibration).transpose();
    let machine = match found {
        Ok(found) => found.flatten().unwrap_or_else(nominal),
        Err(error) => {
            tell(mpi, Err(&error.to_string()));
            return Err(error.into());
        }
    };
    let mut kept = folder.as_deref().map(kept).unwrap_or_default();
    let placed = (mpi.nodes(), mpi.ranks() / mpi.nodes());
    let known = kept.iter().find(|ways| ways.placed() == placed);
    let figures = |ways: &Ways| Figures {
        machine: machine.clone(),
        ways: ways.clone(),
    };
    let known = known.map(figures);
    let known = known.filter(|figures| cluster(figures).verify().is_ok());
    tell(mpi, Ok(if known.is_some() { b"" } else { b"measure" }));
    let figures = known.unwrap_or_else(|| {
        let ways = measured(mpi);
        kept.retain(|other| other.placed() != placed);
        kept.push(ways.clone());
        if let Some(folder) = &folder {
            keep(folder, &kept);
        }
        figures(&ways)
    });
    tell(mpi, Ok(serde_json::json!(figures).to_string().as_bytes()));
    Ok(figures)
}

/// The ranks that rank 0 measures the way to: one of its node, and the first one of the next.
fn partners(mpi: &Mpi) -> [Option<u32>; 2] {
    let neighbours = mpi.ranks() / mpi.nodes();
    [
        (neighbours > 1).then_some(1),
        (mpi.nodes() > 1).then_some(neighbours),
    ]
}

fn measured(mpi: &Mpi) -> Ways {
    let [within, between] = partners(mpi).map(|other| other.map(|other| ping(mpi, other)));
    Ways {
        nodes: mpi.nodes(),
        neighbours: mpi.ranks() / mpi.nodes(),
        within,
        between,
    }
}

/// What was measured by jobs before. A file that cannot be used is written anew.
fn kept(folder: &Path) -> Vec<Ways> {
    let text = folder::bytes(&folder::entry(folder, NAME)).ok().flatten();
    let ways = text.and_then(|text| serde_json::from_slice(&text).ok());
    ways.unwrap_or_default()
}

/// Keeps what was measured; where nothing can be written, the next job measures again.
fn keep(folder: &Path, ways: &[Ways]) {
    let text = serde_json::json!(ways).to_string();
    if let Err(error) = folder::store(folder, NAME, text.as_bytes()) {
        tracing::warn!(%error, "what was measured between ranks is not kept");
    }
}

/// Threads of a rank: the cores it is bound to, or its share of the machine's.
fn workers(neighbours: usize) -> usize {
    let share = online() / neighbours.max(1);
    machine::cores().min(share.max(1))
}

/// Cores of this machine, whichever this process may use.
fn online() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
        Some(to.checked_sub(from)? + 1)
    };
    let counted: Option<usize> = text.trim().split(',').map(range).sum();
    counted.unwrap_or(0).max(machine::cores())
}
