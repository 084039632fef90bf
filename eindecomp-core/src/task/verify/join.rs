//! Rules 6 and 7: kernels are the tuples of the joins, and their results are folded once.

use std::collections::BTreeMap;

use super::Check;
use crate::ein::einsum::Part;
use crate::graph::NodeId;
use crate::plan::Region;
use crate::task::exchange::{Join, Tuple};
use crate::task::{BufferId, BufferRole, Task, TaskError, TaskId};

/// The tuples of a join, and how often each ran.
pub(super) struct Tuples<'a> {
    join: Join<'a>,
    ran: BTreeMap<Vec<u32>, (Tuple, usize)>,
}

impl<'a> Tuples<'a> {
    pub(super) fn of(join: Join<'a>) -> Tuples<'a> {
        let tuples = join.tuples();
        let ran = tuples.into_iter().map(|t| (join.key(&t), (t, 0))).collect();
        Tuples { join, ran }
    }
}

impl Check<'_> {
    /// Rule 6; returns the boxes of the result, one per buffer.
    #[expect(clippy::too_many_arguments, reason = "the fields of a kernel task")]
    pub(super) fn kernel(
        &mut self,
        id: TaskId,
        task: &Task,
        node: NodeId,
        key: &[u32],
        tile: &Region,
        reads: &[BufferId],
        writes: &[BufferId],
    ) -> Result<Vec<Region>, TaskError> {
        let wrong = |what| TaskError::Kernel {
            task: id,
            node,
            key: key.to_vec(),
            what,
        };
        let tuples = self.joins.get_mut(node.at()).and_then(Option::as_mut);
        let tuples = tuples.ok_or(wrong("vertex"))?;
        let (tuple, times) = tuples.ran.get_mut(key).ok_or(wrong("key"))?;
        *times += 1;
        let tuple = tuple.clone();
        let wants: Vec<_> = tuples.join.reads(&tuple).collect();
        let (folds, parts) = (tuples.join.folds(), tuples.join.parts().to_vec());
        if task.device != tuple.device {
            return Err(wrong("device"));
        }
        if *tile != tuple.tile {
            return Err(wrong("tile"));
        }
        if reads.len() != wants.len() {
            return Err(wrong("number of reads"));
        }
        for (&buffer, (operand, want)) in reads.iter().zip(&wants) {
            if self.buffer(buffer).node != *operand || !self.is_final(buffer) {
                return Err(wrong("operand"));
            }
            self.read(id, task, buffer, want)?;
        }
        if writes.len() != parts.len() {
            return Err(wrong("number of results"));
        }
        let boxes: Vec<Region> = parts.iter().map(|p| p.region(&tuple.output)).collect();
        for (n, (&write, part)) in writes.iter().zip(&parts).enumerate() {
            let result = self.buffer(write);
            let fits = match result.role {
                BufferRole::Owned | BufferRole::Version(_) => folds == 1 && self.is_final(write),
                BufferRole::Partial => result.region == boxes[n] && result.dtype == part.dtype,
                _ => false,
            };
            if result.node != node || !fits {
                return Err(wrong("result"));
            }
            if result.role == BufferRole::Partial {
                self.origin[write.0 as usize] = Some((tuple.number, n));
            }
        }
        Ok(boxes)
    }

    /// Rule 7 for Copy and Move: final values stay final, partial ones keep their tuple.
    pub(super) fn transfer(
        &mut self,
        id: TaskId,
        src: BufferId,
        dst: BufferId,
        region: &Region,
    ) -> Result<(), TaskError> {
        let (from, to) = (self.buffer(src), self.buffer(dst));
        let node = from.node;
        let partial = from.role == BufferRole::Partial;
        let same = to.node == node && to.dtype == from.dtype;
        let fits = match to.role {
            BufferRole::Weight | BufferRole::State | BufferRole::Version(_) => false,
            BufferRole::Replica => !partial,
            BufferRole::Owned => partial && self.folds(node) == 1,
            BufferRole::Partial => partial && *region == to.region,
        };
        if !same || !fits {
            return Err(TaskError::Fold { task: id, node });
        }
        if to.role == BufferRole::Partial {
            self.origin[dst.0 as usize] = self.origin[src.0 as usize];
        }
        self.moves.add(
            from.device,
            to.device,
            (region.volume() * from.dtype.size()) as u64,
        );
        Ok(())
    }

    fn folds(&self, node: NodeId) -> usize {
        self.joins[node.at()].as_ref().map_or(0, |t| t.join.folds())
    }

    /// The parts of a vertex's results.
    pub(super) fn parts(&self, node: NodeId) -> Vec<Part> {
        self.joins[node.at()]
            .as_ref()
            .map_or(Vec::new(), |t| t.join.parts().to_vec())
    }

    /// Rule 7 for Aggregate. That no partial is folded twice follows from rule 4 on the owned
    /// tile, that none is left out from rule 8.
    pub(super) fn fold(
        &self,
        id: TaskId,
        node: NodeId,
        srcs: &[BufferId],
        dst: BufferId,
    ) -> Result<(), TaskError> {
        let wrong = TaskError::Fold { task: id, node };
        let to = self.buffer(dst);
        let (folds, parts) = match self.joins.get(node.at()) {
            Some(Some(t)) => (t.join.folds(), t.join.parts().len()),
            _ => return Err(wrong),
        };
        let numbers: Option<Vec<(usize, usize)>> =
            srcs.iter().map(|s| self.origin[s.0 as usize]).collect();
        let first = numbers.as_ref().and_then(|n| n.first().copied());
        let tuples = |(f, _)| f..f + folds;
        let all = first.filter(|(f, _)| f % folds == 0).map(|f| {
            let of = |tuple| (0..parts).map(move |part| (tuple, part));
            tuples(f).flat_map(of).collect()
        });
        let of_node = srcs.iter().all(|&s| self.buffer(s).node == node);
        match to.node == node && to.role == BufferRole::Owned && of_node && numbers == all {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    pub(super) fn tuples(&self) -> Result<(), TaskError> {
        for (at, tuples) in self.joins.iter().enumerate() {
            let mut ran = tuples.iter().flat_map(|t| &t.ran);
            if let Some((key, (_, times))) = ran.find(|(_, (_, times))| *times != 1) {
                return Err(TaskError::Tuples {
                    node: NodeId(at as u32),
                    key: key.clone(),
                    times: *times,
                });
            }
        }
        Ok(())
    }
}
