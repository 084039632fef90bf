//! What a run did: bytes per pair of devices, and time per task.

use std::collections::BTreeMap;
use std::time::Duration;

use eindecomp_core::plan::layout::Region;

/// Bytes from one device to another in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Copied from one memory to another.
    pub copied: u64,
    /// Read in place, since both devices share the memory.
    pub shared: u64,
}

impl Moved {
    /// Copied and shared.
    pub fn total(self) -> u64 {
        self.copied + self.shared
    }
}

/// Counters of one run; payload bytes only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Received, per ordered pair (from, to), counted by the receiver from what it received.
    pub received: BTreeMap<(u32, u32), Moved>,
    /// Sent, per ordered pair (from, to), counted by the sender from what it gave.
    pub sent: BTreeMap<(u32, u32), u64>,
    /// Host → device.
    pub loaded: u64,
    /// Device → host.
    pub gathered: u64,
    /// Between buffers of one device.
    pub local: u64,
}

impl Traffic {
    /// Bytes that were received within servers of so many devices each, and between them.
    pub fn between_servers(&self, per_server: u32) -> (u64, u64) {
        let server = |device: u32| device / per_server.max(1);
        self.received
            .iter()
            .fold((0, 0), |(within, between), (&(from, to), m)| {
                match server(from) == server(to) {
                    true => (within + m.total(), between),
                    false => (within, between + m.total()),
                }
            })
    }

    /// Everything that was received.
    pub fn moved(&self) -> Moved {
        self.received
            .values()
            .fold(Moved::default(), |sum, m| Moved {
                copied: sum.copied + m.copied,
                shared: sum.shared + m.shared,
            })
    }
}

/// One piece of a task of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpan {
    /// Number of the task.
    pub task: usize,
    /// Number of the piece: a kernel's tile may be cut into several for the workers.
    pub piece: usize,
    /// The worker that ran it.
    pub worker: usize,
    /// The device of this process that it was work of: the task's own; of a box that is sent, the sender; of a result that
    /// comes from another process, the first.
    pub device: u32,
    /// Of a store in place: the boxes of its tile that it wrote.
    pub stored: Option<Vec<Region>>,
    /// Start, from the start of the run.
    pub start: Duration,
    /// End, from the start of the run.
    pub end: Duration,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Bytes.
    pub traffic: Traffic,
    /// Per device, the bytes of its memory that were in use at most since the program was compiled.
    pub peaks: Vec<u64>,
    /// Wall time of the run.
    pub wall: Duration,
    /// Pieces of tasks in order of their end; empty unless asked for.
    pub tasks: Vec<TaskSpan>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_servers_are_told_apart() {
        let mut traffic = Traffic::default();
        for (pair, copied) in [((0, 1), 5), ((1, 2), 7), ((3, 2), 11), ((3, 0), 13)] {
            let shared = 0;
            traffic.received.insert(pair, Moved { copied, shared });
        }
        assert_eq!(traffic.between_servers(2), (16, 20));
        assert_eq!(traffic.between_servers(4), (36, 0));
        assert_eq!(traffic.between_servers(0), (0, 36));
    }
}
