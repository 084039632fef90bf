//! Bytes that commands move between devices, counted from the copies that they are.

use super::driver::{Command, Op, Place};
use super::steps::Block;
use crate::trace::{Moved, Traffic};

/// Adds what goes from one device to another: what leaves a device is sent, what enters one is received.
/// `block` tells what a block is for, and whose memory it is.
pub fn count(commands: &[Command], blocks: &[(Block, Place)], traffic: &mut Traffic) {
    for command in commands {
        let Op::Copy { src, dst, bytes } = command.op else {
            continue;
        };
        let (from, to) = (
            &blocks[src.memory.0 as usize],
            &blocks[dst.memory.0 as usize],
        );
        let pairs = match (from, to) {
            ((Block::Hop(a, b), _), _) => (None, Some((*a, *b))),
            (_, (Block::Hop(a, b), _)) => (Some((*a, *b)), None),
            ((_, Place::Device(a)), (_, Place::Device(b))) if a != b => {
                (Some((*a, *b)), Some((*a, *b)))
            }
            _ => (None, None),
        };
        if let Some(pair) = pairs.0 {
            *traffic.sent.entry(pair).or_default() += bytes;
        }
        if let Some(pair) = pairs.1 {
            let Moved { copied, shared } = traffic.received.get(&pair).copied().unwrap_or_default();
            let copied = copied + bytes;
            traffic.received.insert(pair, Moved { copied, shared });
        }
    }
}
