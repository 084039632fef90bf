//! Clusters: devices, links and shared resources as the planner sees them.
//!
//! A cluster is a number of equal *servers* (nodes of the network) of equal devices; device `d` is
//! on server `d / devices per server`. Every number is an integer: bytes, nanoseconds, and bytes or
//! operations per second, a multiply-add being two operations.
//!
//! Files: `device` (devices and their rates), `links`, `presets` (ready-made clusters),
//! `calibration` (what was measured of this machine), `verify` (the rules).

mod calibration;
mod device;
mod links;
mod presets;
mod verify;

use std::fmt;

pub use calibration::Calibration;
pub use device::{Device, DeviceKind, Rate, Rates, ShapeClass};
pub use links::{Link, LinkClass, Links};
pub use verify::{ClusterError, MAX_DEVICES, MAX_NANOSECONDS, MAX_RATE};

use serde::{Deserialize, Serialize};

/// Capacity of a CPU device unless set: constant, so that plan keys do not depend on the machine.
pub const DEFAULT_CAPACITY: u64 = 64 << 30;

/// Devices that plans are made for, and what joins them.
///
/// The fields are free to set; [`Cluster::verify`] has the rules, and planning checks them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// What people call it; no part of plan keys.
    pub name: String,
    /// Number of servers, at least 1.
    pub servers: u32,
    /// Each of them.
    pub server: Server,
    /// Between two servers: what one of them sends, or receives, altogether.
    pub network: Link,
}

/// Devices on one machine, and the resources that they share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Number of devices, at least 1.
    pub devices: u32,
    /// Each of them.
    pub device: Device,
    /// Between two devices of the server.
    pub links: Links,
    /// Cores that its devices share, each with the rates of [`Server::device`]; a device alone uses
    /// all of them. `None`: each device computes by itself, with these rates.
    pub cores: Option<u32>,
    /// Bytes per second that its devices read and write altogether. `None`: each device has memory
    /// of its own.
    pub memory_bus: Option<u64>,
}

/// What the models of moved bytes see of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hierarchy {
    /// Number of servers.
    pub servers: u32,
    /// Devices of each.
    pub per_server: u32,
    /// A byte between two servers costs as much as this number of bytes within one.
    pub weight: u32,
}

/// Devices that are all on one server.
impl From<u32> for Hierarchy {
    fn from(devices: u32) -> Hierarchy {
        Hierarchy::flat(devices)
    }
}

impl Hierarchy {
    /// Devices that are all on one server.
    pub fn flat(devices: u32) -> Hierarchy {
        Hierarchy {
            servers: 1,
            per_server: devices,
            weight: 1,
        }
    }

    /// Number of devices.
    pub fn devices(self) -> u32 {
        self.servers.saturating_mul(self.per_server)
    }

    /// The server of a device.
    pub fn server(self, device: u32) -> u32 {
        device / self.per_server.max(1)
    }

    /// What bytes from one device to another cross.
    pub fn class(self, from: u32, to: u32) -> LinkClass {
        if from == to {
            LinkClass::Device
        } else if self.server(from) == self.server(to) {
            LinkClass::Server
        } else {
            LinkClass::Network
        }
    }

    /// What so many bytes from one device to another count.
    pub fn weighted(self, from: u32, to: u32, bytes: u64) -> u128 {
        let weight = match self.class(from, to) {
            LinkClass::Network => self.weight.max(1),
            LinkClass::Device | LinkClass::Server => 1,
        };
        u128::from(bytes) * u128::from(weight)
    }
}

/// `8 devices`, `2 servers of 8 devices, where a byte between servers counts 12`
impl fmt::Display for Hierarchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: u32| if n == 1 { "" } else { "s" };
        let Hierarchy {
            servers,
            per_server,
            weight,
        } = *self;
        match servers {
            1 => write!(f, "{per_server} device{}", s(per_server)),
            _ => write!(
                f,
                "{servers} servers of {per_server} device{}, where a byte between servers counts {weight}",
                s(per_server)
            ),
        }
    }
}

impl Cluster {
    /// The same with another capacity, in bytes per device.
    pub fn with_capacity(mut self, capacity: u64) -> Cluster {
        self.server.device.capacity = capacity;
        self
    }

    /// `servers` servers like those of this cluster.
    pub fn with_servers(self, servers: u32) -> Cluster {
        Cluster { servers, ..self }
    }

    /// Its name, with how many servers and devices of it there are where they are not always as many: `cpus:4`,
    /// `dgx_a100`, `2xdgx_h100`.
    pub fn label(&self) -> String {
        let servers = match self.servers {
            1 => String::new(),
            n => format!("{n}x"),
        };
        let devices = match self.server.device.kind {
            DeviceKind::Cpu => format!(":{}", self.server.devices),
            _ => String::new(),
        };
        format!("{servers}{}{devices}", self.name)
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.servers.saturating_mul(self.server.devices)
    }

    /// Bytes per device.
    pub fn capacity(&self) -> u64 {
        self.server.device.capacity
    }

    /// Servers, devices, and how many bytes within a server take as long as one between servers,
    /// where all devices send at once: what a device sends within its server, divided by its share
    /// of what the server sends; rounded, at least 1.
    pub fn hierarchy(&self) -> Hierarchy {
        let share = self.network.bandwidth / u64::from(self.server.devices.max(1));
        let within = self.server.within();
        let ratio = (within + share / 2) / share.max(1);
        Hierarchy {
            servers: self.servers,
            per_server: self.server.devices,
            weight: match self.servers {
                1 => 1,
                _ => u32::try_from(ratio).unwrap_or(u32::MAX).max(1),
            },
        }
    }

    /// What the model `time` sees of it: rates and bandwidths of two significant digits, no name, and
    /// of a single server no network.
    pub fn rounded(&self) -> Cluster {
        let mut rounded = self.clone();
        rounded.name = String::new();
        rounded.network = match self.servers {
            1 => Link {
                latency: 0,
                bandwidth: 1,
            },
            _ => self.network.rounded(),
        };
        let server = &mut rounded.server;
        server.links = server.links.map(Link::rounded);
        server.memory_bus = server.memory_bus.map(two_digits);
        server.device = server.device.rounded();
        rounded
    }
}

impl Server {
    /// Bytes per second that a device sends within its server, to all others together.
    fn within(&self) -> u64 {
        let shared = self.memory_bus.map(|b| b / u64::from(self.devices.max(1)));
        let port = self.device.port;
        shared.map_or(port, |shared| shared.min(port))
    }
}

/// Two significant digits.
pub(crate) fn two_digits(n: u64) -> u64 {
    let unit = 10u64.pow(n.checked_ilog10().unwrap_or(0).saturating_sub(1));
    (n + unit / 2) / unit * unit
}

/// Three lines: what it is, a device, the links.
impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server {
            devices,
            device,
            links,
            cores,
            memory_bus,
        } = &self.server;
        let s = |n: u32| if n == 1 { "" } else { "s" };
        write!(f, "{}: ", self.name)?;
        if self.servers != 1 {
            write!(f, "{} servers of ", self.servers)?;
        }
        write!(f, "{devices} {} device{}", device.kind, s(*devices))?;
        if let Some(cores) = cores {
            write!(f, " on {cores} core{}", s(*cores))?;
        }
        write!(f, "\n  {device}")?;
        if let Some(bus) = memory_bus {
            write!(f, ", all together {}B/s", si(*bus))?;
        }
        write!(f, "\n  {links} within a server")?;
        if self.servers != 1 {
            let weight = self.hierarchy().weight;
            write!(f, "; {} between, ", self.network)?;
            write!(f, "where a byte counts {weight}")?;
        }
        Ok(())
    }
}

/// Three digits with a decimal prefix: `312 T`.
fn si(n: u64) -> String {
    let power = (n.checked_ilog10().unwrap_or(0) / 3).min(5);
    let value = n as f64 / 1000f64.powi(power as i32);
    let digits = match value {
        _ if power == 0 => 0,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    format!(
        "{value:.digits$} {}",
        ["", "k", "M", "G", "T", "P"][power as usize]
    )
}

/// `350 ns`, `2 µs`.
fn duration(ns: u64) -> String {
    match ns {
        0..1000 => format!("{ns} ns"),
        1000..1_000_000 => format!("{} µs", ns as f64 / 1e3),
        _ => format!("{} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
