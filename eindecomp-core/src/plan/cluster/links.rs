//! Links between devices.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{duration, si, two_digits};

/// One way from one device, or server, to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Nanoseconds before the first byte arrives.
    pub latency: u64,
    /// Bytes per second.
    pub bandwidth: u64,
}

impl Link {
    pub(super) fn rounded(self) -> Link {
        Link {
            latency: two_digits(self.latency),
            bandwidth: two_digits(self.bandwidth),
        }
    }
}

/// `300 GB/s after 2 µs`
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}B/s after {}",
            si(self.bandwidth),
            duration(self.latency)
        )
    }
}

/// The links between the devices of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Every pair alike.
    Switch(Link),
    /// Row-major from sender to receiver, device by device; what a device has to itself is not read.
    Matrix(Vec<Vec<Link>>),
}

impl Links {
    /// From one device to another one of the same server, counted within it.
    pub fn between(&self, from: u32, to: u32) -> Link {
        match self {
            Links::Switch(link) => *link,
            Links::Matrix(rows) => rows[from as usize][to as usize],
        }
    }

    /// Another link for each.
    pub fn map(&self, f: impl Fn(Link) -> Link) -> Links {
        match self {
            Links::Switch(link) => Links::Switch(f(*link)),
            Links::Matrix(rows) => Links::Matrix(
                rows.iter()
                    .map(|row| row.iter().map(|&l| f(l)).collect())
                    .collect(),
            ),
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Links::Switch(link) => link.fmt(f),
            Links::Matrix(rows) => {
                let others = rows.iter().enumerate().flat_map(|(from, row)| {
                    let row = row.iter().enumerate();
                    row.filter(move |(to, _)| from != *to).map(|(_, l)| l)
                });
                let mut speeds: Vec<u64> = others.map(|l| l.bandwidth).collect();
                speeds.sort_unstable();
                speeds.dedup();
                let speeds: Vec<String> = speeds.into_iter().map(|s| si(s) + "B/s").collect();
                write!(f, "{} by pair", speeds.join(" or "))
            }
        }
    }
}

/// What bytes cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkClass {
    /// Nothing: they stay on a device.
    Device,
    /// A link between two devices of a server.
    Server,
    /// The network between servers.
    Network,
}

impl fmt::Display for LinkClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkClass::Device => "on devices",
            LinkClass::Server => "within servers",
            LinkClass::Network => "between servers",
        })
    }
}
