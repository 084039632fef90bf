//! Byte counters of Moves, per pair of devices.
//!
//! The receiver counts what it received, the sender what it gave; neither reads the plan. The
//! executor compares both with the plan after every run.

use std::sync::atomic::{AtomicU64, Ordering};

use eindecomp_core::plan::layout::Region;

use crate::trace::{Moved, Traffic};
use crate::view::View;

#[derive(Default)]
struct Pair {
    copied: AtomicU64,
    shared: AtomicU64,
    sent: AtomicU64,
}

/// Counters of one run.
pub struct Counters {
    devices: usize,
    pairs: Vec<Pair>,
    loaded: AtomicU64,
    gathered: AtomicU64,
    local: AtomicU64,
}

/// Bytes of the part of `region` that a view holds.
fn held(view: &View, region: &Region) -> u64 {
    let volume = view.region().intersect(region).map_or(0, |r| r.volume());
    volume as u64 * view.dtype().size() as u64
}

impl Counters {
    /// Zeros, for `devices` devices.
    pub fn new(devices: usize) -> Counters {
        Counters {
            devices,
            pairs: (0..devices * devices).map(|_| Pair::default()).collect(),
            loaded: AtomicU64::new(0),
            gathered: AtomicU64::new(0),
            local: AtomicU64::new(0),
        }
    }

    fn pair(&self, from: u32, to: u32) -> &Pair {
        &self.pairs[from as usize * self.devices + to as usize]
    }

    /// A Move that copied `received` bytes out of `source`.
    pub fn copied(&self, from: u32, to: u32, source: &View, region: &Region, received: u64) {
        self.pair(from, to)
            .copied
            .fetch_add(received, Ordering::Relaxed);
        self.pair(from, to)
            .sent
            .fetch_add(held(source, region), Ordering::Relaxed);
    }

    /// A Move whose two buffers are the same memory.
    pub fn shared(&self, from: u32, to: u32, source: &View, target: &View, region: &Region) {
        self.pair(from, to)
            .shared
            .fetch_add(held(target, region), Ordering::Relaxed);
        self.pair(from, to)
            .sent
            .fetch_add(held(source, region), Ordering::Relaxed);
    }

    /// The half of a Move that gives a box to another process.
    pub fn sent(&self, from: u32, to: u32, bytes: u64) {
        self.pair(from, to).sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The half of a Move that takes a box of another process.
    pub fn received(&self, from: u32, to: u32, bytes: u64) {
        self.pair(from, to)
            .copied
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Host → device.
    pub fn load(&self, bytes: u64) {
        self.loaded.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Device → host.
    pub fn gather(&self, bytes: u64) {
        self.gathered.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Between buffers of one device.
    pub fn local(&self, bytes: u64) {
        self.local.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The totals.
    pub fn finish(self) -> Traffic {
        let mut traffic = Traffic {
            loaded: self.loaded.into_inner(),
            gathered: self.gathered.into_inner(),
            local: self.local.into_inner(),
            ..Traffic::default()
        };
        for (n, pair) in self.pairs.into_iter().enumerate() {
            let key = ((n / self.devices) as u32, (n % self.devices) as u32);
            let moved = Moved {
                copied: pair.copied.into_inner(),
                shared: pair.shared.into_inner(),
            };
            if moved.total() > 0 {
                traffic.received.insert(key, moved);
            }
            let sent = pair.sent.into_inner();
            if sent > 0 {
                traffic.sent.insert(key, sent);
            }
        }
        traffic
    }
}
