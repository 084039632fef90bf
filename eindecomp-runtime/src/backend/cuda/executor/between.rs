//! What is put on devices and fetched from them between runs: weights and states.

use std::collections::BTreeMap;

use eindecomp_core::graph::{NodeId, Role};
use eindecomp_core::plan::layout::Region;
use eindecomp_core::task::{BufferId, BufferRole, TaskKind};

use super::{GpuExecutor, Held, dense, packed};
use crate::backend::cpu::copy;
use crate::backend::cuda::driver::{Address, Command, GpuError, MemoryId, Op, Place};
use crate::error::RunError;
use crate::executor::given;
use crate::source::{Contents, TensorSource};
use crate::storage::{box_view, host_view_mut};
use crate::tensor::Tensor;
use crate::trace::Traffic;

/// Bytes of host memory that weights and states pass through.
const PASSAGE: u64 = 32 << 20;

impl GpuExecutor {
    pub(super) fn zero_states(&self) -> Result<(), RunError> {
        for (buffer, _) in self.states_of(|_| true) {
            let tile = self.tasks.buffer(buffer);
            let zero = Op::Zero {
                dst: self.address(buffer),
                bytes: tile.bytes(),
            };
            self.at_once(tile.device, zero)?;
        }
        Ok(())
    }

    /// Does one thing between runs.
    fn at_once(&self, device: u32, op: Op) -> Result<(), GpuError> {
        let stream = self.take[device as usize];
        let touches = Vec::new();
        self.gpus.driver.submit(&[Command {
            stream,
            op,
            touches,
        }])?;
        self.gpus.driver.synchronise(stream)
    }

    fn address(&self, buffer: BufferId) -> Address {
        let buffer = self.tasks.buffer(buffer);
        Address {
            memory: self.arenas[buffer.device as usize],
            offset: buffer.offset,
        }
    }

    /// Bytes of weights that [`GpuExecutor::load`] brings to the devices.
    pub fn weight_bytes(&self) -> u64 {
        let loads = self.tasks.load.iter().filter_map(|task| match task.kind {
            TaskKind::Load { dst } => Some(self.tasks.buffer(dst).bytes()),
            _ => None,
        });
        loads.sum()
    }

    /// Fills the weights, by input name.
    ///
    /// # Errors
    /// As [`Executor::load`](crate::Executor::load).
    pub fn load<T: TensorSource>(
        &mut self,
        weights: &BTreeMap<String, T>,
    ) -> Result<Traffic, RunError> {
        let inputs = given::inputs(&self.graph, weights, |role| role == Role::Weight)?;
        self.loaded = false;
        let mut traffic = Traffic::default();
        let passage = self.passage()?;
        for task in &self.tasks.load {
            let TaskKind::Load { dst } = task.kind else {
                continue;
            };
            let buffer = self.tasks.buffer(dst);
            let name = &self.graph.node(buffer.node).name;
            let weight = inputs[buffer.node.at()];
            let weight = weight.ok_or_else(|| RunError::MissingInput(name.clone()))?;
            let read = weight.contents(&buffer.region);
            let dense = match read.map_err(|source| RunError::Weight {
                name: name.clone(),
                source,
            })? {
                Contents::Whole(tensor) => packed(tensor, &buffer.region),
                Contents::Box(tensor) => {
                    given::check(name, buffer.dtype, &buffer.region.shape(), &tensor)?;
                    tensor
                }
            };
            traffic.loaded += self.put(&passage, dst, dense.data().bytes())?;
        }
        self.loaded = true;
        Ok(traffic)
    }

    /// Host memory for what is put and fetched between runs.
    fn passage(&self) -> Result<(Held, MemoryId), GpuError> {
        let mut held = Held::new(&self.gpus);
        let stays = self.tasks.buffers.iter().filter(|b| b.role.stays());
        let most = stays.map(|b| b.bytes()).max().unwrap_or(0);
        let memory = held.memory(Place::Host, most.clamp(1, PASSAGE))?;
        Ok((held, memory))
    }

    /// Fills a buffer; its bytes.
    fn put(
        &self,
        (_, passage): &(Held, MemoryId),
        buffer: BufferId,
        bytes: &[u8],
    ) -> Result<u64, GpuError> {
        let device = self.tasks.buffer(buffer).device;
        let src = Address {
            memory: *passage,
            offset: 0,
        };
        let mut dst = self.address(buffer);
        for part in bytes.chunks(PASSAGE as usize) {
            self.gpus.driver.write(src, part)?;
            let bytes = part.len() as u64;
            self.at_once(device, Op::Copy { src, dst, bytes })?;
            dst.offset += bytes;
        }
        Ok(bytes.len() as u64)
    }

    /// What a buffer holds.
    fn fetch(
        &self,
        (_, passage): &(Held, MemoryId),
        buffer: BufferId,
    ) -> Result<Vec<u8>, GpuError> {
        let device = self.tasks.buffer(buffer).device;
        let dst = Address {
            memory: *passage,
            offset: 0,
        };
        let mut src = self.address(buffer);
        let mut bytes = vec![0; self.tasks.buffer(buffer).bytes() as usize];
        for part in bytes.chunks_mut(PASSAGE as usize) {
            let bytes = part.len() as u64;
            self.at_once(device, Op::Copy { src, dst, bytes })?;
            self.gpus.driver.read(dst, part)?;
            src.offset += bytes;
        }
        Ok(bytes)
    }

    /// The tiles of the states whose inputs are wanted.
    fn states_of(
        &self,
        wanted: impl Fn(NodeId) -> bool,
    ) -> impl Iterator<Item = (BufferId, &Region)> {
        let buffers = self.tasks.buffers.iter().enumerate();
        buffers
            .filter(move |(_, b)| b.role == BufferRole::State && wanted(b.node))
            .map(|(at, b)| (BufferId(at as u32), &b.region))
    }

    /// The states as they are after the last run, by input name; at first they are zeros.
    ///
    /// # Errors
    /// A device that fails.
    pub fn states(&self) -> Result<BTreeMap<String, Tensor>, RunError> {
        let passage = self.passage()?;
        let mut states = BTreeMap::new();
        for (id, node) in self.graph.ids() {
            if node.role() != Some(Role::State) {
                continue;
            }
            let mut tensor = Tensor::zeros(node.dtype, self.graph.shape(id).to_vec());
            let target = host_view_mut(&mut tensor);
            for (buffer, region) in self.states_of(|n| n == id) {
                let bytes = self.fetch(&passage, buffer)?;
                if let Some(dense) = dense(node.dtype, region, &bytes) {
                    copy(&box_view(&dense, region.clone()), &target, region);
                }
            }
            states.insert(node.name.to_string(), tensor);
        }
        Ok(states)
    }

    /// Gives every state a value, by input name.
    ///
    /// # Errors
    /// A state that is missing, unknown, or of another shape or element type; then none is changed. A device
    /// that fails.
    pub fn set_states(&mut self, states: &BTreeMap<String, Tensor>) -> Result<(), RunError> {
        let given = given::inputs(&self.graph, states, |role| role == Role::State)?;
        let passage = self.passage()?;
        for (at, tensor) in given.into_iter().enumerate() {
            let Some(tensor) = tensor else { continue };
            for (buffer, region) in self.states_of(|n| n.at() == at) {
                self.put(&passage, buffer, packed(tensor, region).data().bytes())?;
            }
        }
        self.lost = false;
        Ok(())
    }

    /// Are the states what some run or the caller made them?
    pub fn has_states(&self) -> bool {
        !self.lost
    }
}
