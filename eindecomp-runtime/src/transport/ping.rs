//! What a way between two ranks takes, by messages to and fro.

use std::time::{Duration, Instant};

use eindecomp_core::plan::cluster::{Link, MAX_NANOSECONDS};

use super::{LINK_TAG, Message, Transport, wait};
use crate::calibrate::{nanoseconds, per_second};

/// Messages of so many bytes, so many times: for the latency, and for the bandwidth.
const SMALL: (usize, usize) = (8, 50);
const LARGE: (usize, usize) = (4 << 20, 5);

/// Measures the way to rank `other`, which calls [`pong`]: the quickest of several messages each, since
/// whatever else goes on only slows them down.
pub fn ping(transport: &dyn Transport, other: u32) -> Link {
    let [small, large] = [SMALL, LARGE].map(|(bytes, times)| {
        let there_and_back = || {
            let start = Instant::now();
            transport.send(other, LINK_TAG, Message::zeros(bytes));
            echo(transport, other, bytes);
            start.elapsed()
        };
        let quickest = (0..times).map(|_| there_and_back()).min();
        quickest.unwrap_or_default() / 2
    });
    let transfer = large.saturating_sub(small).max(Duration::from_nanos(1));
    Link {
        latency: nanoseconds(small).min(MAX_NANOSECONDS),
        bandwidth: per_second(LARGE.0 as u64, transfer),
    }
}

/// Sends back what [`ping`] on rank `other` sends.
pub fn pong(transport: &dyn Transport, other: u32) {
    for (bytes, times) in [SMALL, LARGE] {
        for _ in 0..times {
            let message = echo(transport, other, bytes);
            transport.send(other, LINK_TAG, message);
        }
    }
}

fn echo(transport: &dyn Transport, other: u32, bytes: usize) -> Message {
    let what = move || format!("a message of {bytes} bytes that measures the way between ranks");
    wait(transport, other, LINK_TAG, bytes, what)
}
