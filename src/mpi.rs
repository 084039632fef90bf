//! The job that an MPI launcher started.

use std::sync::Arc;

use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::cluster::Calibration;
use eindecomp_runtime::transport::{Mpi, Transport, tell, told};

use crate::job::{Job, JobError};
use crate::{Error, machine};

/// The ranks of the job, one device each.
pub(crate) fn job() -> Result<Job, Error> {
    let mpi = Mpi::start()?;
    let figures = figures(&*mpi)?;
    let (ranks, nodes) = (mpi.ranks(), mpi.nodes());
    let cluster = Cluster {
        name: "mpi".into(),
        ..Cluster::calibrated(ranks / nodes, &figures).with_servers(nodes)
    };
    let workers = workers(mpi.neighbours() as usize);
    Ok(Job {
        transport: mpi as Arc<dyn Transport>,
        cluster,
        workers: Some(workers),
    })
}

/// Rank 0's figures of its machine, on every rank: plans follow from them.
fn figures(mpi: &dyn Transport) -> Result<Calibration, Error> {
    let nominal = || Calibration::nominal(u32::try_from(online()).unwrap_or(1));
    if mpi.rank() > 0 {
        let figures = told(mpi, "the figures of its machine").map_err(JobError::Refused)?;
        let figures = Calibration::from_json(&figures);
        return figures.map_err(|e| JobError::Refused(e.to_string()).into());
    }
    let folder = machine::default_folder();
    let found = folder.map(|f| machine::calibration(&f)).transpose();
    let figures = found.map(|found| found.flatten().unwrap_or_else(nominal));
    match &figures {
        Ok(figures) => tell(mpi, Ok(figures.to_json().as_bytes())),
        Err(error) => tell(mpi, Err(&error.to_string())),
    }
    Ok(figures?)
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
