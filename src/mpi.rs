//! The job that an MPI launcher started.

use std::sync::Arc;

use eindecomp_core::plan::Cluster;
use eindecomp_core::plan::cluster::Calibration;
use eindecomp_runtime::transport::{Mpi, Transport, send_text, wait_text};

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
    const FIGURES: u8 = b'+';
    let nominal = || Calibration::nominal(u32::try_from(online()).unwrap_or(1));
    if mpi.rank() > 0 {
        let text = wait_text(mpi, 0, "the figures of its machine");
        let refused = |why: &[u8]| JobError::Refused(String::from_utf8_lossy(why).into_owned());
        return match text.split_first() {
            Some((&FIGURES, figures)) => {
                let figures = Calibration::from_json(figures);
                figures.map_err(|e| JobError::Refused(e.to_string()).into())
            }
            _ => Err(refused(text.get(1..).unwrap_or_default()).into()),
        };
    }
    let folder = machine::default_folder();
    let found = folder.map(|f| machine::calibration(&f)).transpose();
    let (kind, text) = match &found {
        Ok(found) => {
            let figures = found.clone().flatten().unwrap_or_else(nominal);
            (FIGURES, figures.to_json())
        }
        Err(error) => (b'-', error.to_string()),
    };
    let text = [&[kind], text.as_bytes()].concat();
    (1..mpi.ranks()).for_each(|to| send_text(mpi, to, &text));
    Ok(found?.flatten().unwrap_or_else(nominal))
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
