//! The rules of a [`Cluster`]. A description may come from a file: nothing downstream checks these
//! again, and no sum or product of what passes overflows.
//!
//! 1. At least one server, one device on each, and no more than [`MAX_DEVICES`] in all.
//! 2. Devices have memory; a server that shares cores has one.
//! 3. Rates and bandwidths are from 1 to [`MAX_RATE`] per second.
//! 4. Latencies and overheads are at most [`MAX_NANOSECONDS`].
//! 5. A matrix of links has a row and a column per device of a server.

use super::{Cluster, Link, Links};

/// Most devices of a cluster.
pub const MAX_DEVICES: u32 = 1 << 15;
/// Most operations, or bytes, per second.
pub const MAX_RATE: u64 = 1_000_000_000_000_000_000;
/// Longest latency or overhead: a second.
pub const MAX_NANOSECONDS: u64 = 1_000_000_000;

/// A rule that a cluster breaks.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Rule 1: nothing to run on, or more than can be planned for.
    #[error("{servers} servers of {per_server} devices are not 1 to {MAX_DEVICES} devices")]
    Devices {
        /// Number of servers.
        servers: u32,
        /// Devices on each.
        per_server: u32,
    },
    /// Rule 2: devices without memory.
    #[error("a device has a capacity of 0 bytes")]
    Capacity,
    /// Rule 2: a shared pool without cores.
    #[error("a server's devices share 0 cores")]
    Cores,
    /// Rule 3: a rate or bandwidth of nothing, or of no machine.
    #[error("{what} is {value} per second, not 1 to {MAX_RATE}")]
    Rate {
        /// Of what: `the matmul rate of f32`.
        what: String,
        /// As given.
        value: u64,
    },
    /// Rule 4: a delay that is none of computers.
    #[error("{what} is {value} ns, more than {MAX_NANOSECONDS}")]
    Delay {
        /// Of what: `the latency of the network`.
        what: String,
        /// As given.
        value: u64,
    },
    /// Rule 5: a matrix of another shape.
    #[error(
        "row {row} of the matrix of links has {columns} entries; a server has {devices} devices"
    )]
    Matrix {
        /// The first row of another length, or the number of rows if that is wrong.
        row: usize,
        /// Its length.
        columns: usize,
        /// Devices of a server.
        devices: u32,
    },
}

crate::debug_is_text!(ClusterError);

impl Cluster {
    /// Checks every rule.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn verify(&self) -> Result<(), ClusterError> {
        let (servers, per_server) = (self.servers, self.server.devices);
        let devices = servers.checked_mul(per_server);
        if !devices.is_some_and(|n| (1..=MAX_DEVICES).contains(&n)) {
            return Err(ClusterError::Devices {
                servers,
                per_server,
            });
        }
        let device = &self.server.device;
        if device.capacity == 0 {
            return Err(ClusterError::Capacity);
        }
        if self.server.cores == Some(0) {
            return Err(ClusterError::Cores);
        }
        for (dtype, rates) in device.rates.iter() {
            for (class, value) in rates.iter() {
                rate(|| format!("the {class} rate of {dtype}"), value)?;
            }
        }
        rate(|| "the memory bandwidth".into(), device.memory_bandwidth)?;
        rate(|| "the bandwidth of a device's port".into(), device.port)?;
        if let Some(bus) = self.server.memory_bus {
            rate(|| "the bandwidth of the memory bus".into(), bus)?;
        }
        delay(|| "the overhead of a task".into(), device.overhead)?;
        link(|| "the network".into(), self.network)?;
        match &self.server.links {
            Links::Switch(all) => link(|| "the links of a server".into(), *all),
            Links::Matrix(rows) => matrix(rows, per_server),
        }
    }
}

fn matrix(rows: &[Vec<Link>], devices: u32) -> Result<(), ClusterError> {
    let size = devices as usize;
    if rows.len() != size {
        return Err(ClusterError::Matrix {
            row: rows.len(),
            columns: 0,
            devices,
        });
    }
    for (from, row) in rows.iter().enumerate() {
        if row.len() != size {
            return Err(ClusterError::Matrix {
                row: from,
                columns: row.len(),
                devices,
            });
        }
        for (to, &one) in row.iter().enumerate().filter(|(to, _)| *to != from) {
            link(|| format!("the link from device {from} to {to}"), one)?;
        }
    }
    Ok(())
}

fn link(what: impl Fn() -> String, link: Link) -> Result<(), ClusterError> {
    rate(|| format!("the bandwidth of {}", what()), link.bandwidth)?;
    delay(|| format!("the latency of {}", what()), link.latency)
}

fn rate(what: impl Fn() -> String, value: u64) -> Result<(), ClusterError> {
    match value {
        1..=MAX_RATE => Ok(()),
        _ => Err(ClusterError::Rate {
            what: what(),
            value,
        }),
    }
}

fn delay(what: impl Fn() -> String, value: u64) -> Result<(), ClusterError> {
    match value {
        0..=MAX_NANOSECONDS => Ok(()),
        _ => Err(ClusterError::Delay {
            what: what(),
            value,
        }),
    }
}
