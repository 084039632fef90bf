//! How long moves take: the busiest of the resources that they cross.

use std::collections::BTreeMap;

use super::{Time, nanoseconds};
use crate::plan::Cluster;
use crate::plan::cluster::{Link, LinkClass, Links};
use crate::task::traffic::Traffic;

/// What bytes cross, and what one of these carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Resource {
    /// A link between two devices of a server.
    Link(u32, u32),
    /// What a device sends within its server.
    Out(u32),
    /// What it receives.
    In(u32),
    /// What a server sends.
    Sends(u32),
    /// What it receives.
    Receives(u32),
    /// Memory that the devices of a server share.
    Bus(u32),
}

impl Time {
    /// What a byte from one device to another crosses, each with what it carries; memory that is
    /// shared at both ends is there twice.
    pub(super) fn crossed(&self, from: u32, to: u32) -> Vec<(Resource, Link)> {
        use Resource::{Bus, In, Link as Pair, Out, Receives, Sends};
        let server = &self.machine.server;
        let (a, b) = (self.hierarchy.server(from), self.hierarchy.server(to));
        let mut all = match self.hierarchy.class(from, to) {
            LinkClass::Device => Vec::new(),
            LinkClass::Server => {
                let first = a * self.hierarchy.per_server;
                let link = server.links.between(from - first, to - first);
                let port = Link {
                    bandwidth: server.device.port,
                    ..link
                };
                vec![(Pair(from, to), link), (Out(from), port), (In(to), port)]
            }
            LinkClass::Network => {
                let network = self.machine.network;
                vec![(Sends(a), network), (Receives(b), network)]
            }
        };
        if let Some(bandwidth) = server.memory_bus {
            let latency = all.first().map_or(0, |r| r.1.latency);
            let bus = Link { latency, bandwidth };
            all.extend([(Bus(a), bus), (Bus(b), bus)]);
        }
        all
    }

    /// Nanoseconds until everything has arrived.
    pub(super) fn busiest(&self, traffic: &Traffic) -> u128 {
        let mut load: BTreeMap<Resource, (u128, Link)> = BTreeMap::new();
        for (from, to, bytes) in traffic.iter() {
            for (resource, link) in self.crossed(from, to) {
                let slot = load.entry(resource).or_insert((0, link));
                slot.0 += u128::from(bytes);
                slot.1.latency = slot.1.latency.max(link.latency);
            }
        }
        let time = |(bytes, link): &(u128, Link)| {
            u128::from(link.latency) + nanoseconds(*bytes, link.bandwidth)
        };
        load.values().map(time).max().unwrap_or(0)
    }

    /// No way of moving so many bytes takes less: all ports at once, and all memory.
    pub(super) fn spread(&self, bytes: u128) -> u128 {
        if bytes == 0 || self.several {
            return 0;
        }
        let server = &self.machine.server;
        let mut ports = u128::from(server.devices) * u128::from(server.device.port);
        if self.machine.servers > 1 {
            ports += u128::from(self.machine.network.bandwidth);
        }
        let servers = u128::from(self.machine.servers);
        let over = |amount: u128, rate: u128| amount * 1_000_000_000 / (rate * servers);
        let bus = server
            .memory_bus
            .map_or(0, |bus| over(2 * bytes, bus.into()));
        self.latency + over(bytes, ports).max(bus)
    }
}

/// The shortest of the links that a cluster has.
pub(super) fn least_latency(cluster: &Cluster) -> u64 {
    let machine = cluster.rounded();
    let within = match &machine.server.links {
        Links::Switch(link) => Some(link.latency),
        Links::Matrix(rows) => {
            let rows = rows.iter().enumerate();
            let others = rows.flat_map(|(a, row)| {
                let row = row.iter().enumerate();
                row.filter(move |(b, _)| a != *b).map(|(_, l)| l.latency)
            });
            others.min()
        }
    };
    let network = (machine.servers > 1).then_some(machine.network.latency);
    within.into_iter().chain(network).min().unwrap_or(0)
}
