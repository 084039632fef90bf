//! Commands on streams, and lists of them captured once.

use std::collections::BTreeMap;
use std::ffi::c_void;

use cudarc::driver::sys::{self, CUgraph, CUresult, CUstreamCaptureMode};

use super::{Cuda, State, done};
use crate::backend::cuda::driver::{Argument, Command, GpuError, Op, StreamId};

impl Cuda {
    /// What must be known before commands are given: how each matrix product is done.
    pub(super) fn prepare(&self, state: &mut State, commands: &[Command]) -> Result<(), GpuError> {
        for command in commands {
            if let Op::Matmul { gemm, operands, .. } = &command.op {
                let (device, _) = state.stream(command.stream)?;
                self.enter(device)?;
                let starts = [
                    state.at(operands[0], 0)?,
                    state.at(operands[1], 0)?,
                    state.at(operands[2], 0)?,
                ];
                let card = self.card_of[device as usize];
                state.matmuls.plan(card, gemm, starts)?;
            }
        }
        Ok(())
    }

    /// Puts a command on its stream.
    pub(super) fn enqueue(&self, state: &State, command: &Command) -> Result<(), GpuError> {
        let (device, stream) = state.stream(command.stream)?;
        self.enter(device)?;
        match &command.op {
            Op::Launch {
                module,
                entry,
                grid,
                block,
                shared,
                arguments,
            } => {
                let function = state.functions.get(&(*module, *entry));
                let &function = function
                    .ok_or_else(|| GpuError::Rule(format!("{module:?} has no `{entry}`")))?;
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(match *argument {
                        Argument::Pointer(at, bytes) => state.at(at, bytes)?,
                        Argument::Int(n) => n as u64,
                        Argument::Float(x) => x.to_bits(),
                    });
                }
                let place = |value: &mut u64| std::ptr::from_mut(value).cast::<c_void>();
                let mut places: Vec<*mut c_void> = values.iter_mut().map(place).collect();
                let ([gx, gy, gz], [bx, by, bz]) = (*grid, *block);
                // SAFETY: the function has as many parameters of 8 bytes as there are arguments (generator);
                // it uses what its command says.
                let code = unsafe {
                    sys::cuLaunchKernel(
                        function,
                        gx,
                        gy,
                        gz,
                        bx,
                        by,
                        bz,
                        *shared,
                        stream,
                        places.as_mut_ptr(),
                        std::ptr::null_mut(),
                    )
                };
                match done(device, "cuLaunchKernel", code) {
                    Err(GpuError::Call { message, .. }) => Err(GpuError::Launch {
                        device,
                        what: (*entry).into(),
                        message,
                    }),
                    other => other,
                }
            }
            Op::Matmul {
                gemm,
                operands,
                workspace,
            } => {
                let starts = [
                    state.at(operands[0], 0)?,
                    state.at(operands[1], 0)?,
                    state.at(operands[2], 0)?,
                ];
                let card = self.card_of[device as usize];
                let workspace = state.at(*workspace, 0)?;
                state
                    .matmuls
                    .run(card, device, gemm, starts, workspace, stream)
            }
            Op::Copy { src, dst, bytes } => {
                let (from, to) = (state.at(*src, *bytes)?, state.at(*dst, *bytes)?);
                // SAFETY: both ends are in their blocks; addresses of host and devices are of one space.
                let code = unsafe { sys::cuMemcpyAsync(to, from, *bytes as usize, stream) };
                done(device, "cuMemcpyAsync", code)
            }
            Op::Zero { dst, bytes } => {
                let to = state.at(*dst, *bytes)?;
                // SAFETY: the bytes are in their block.
                let code = unsafe { sys::cuMemsetD8Async(to, 0, *bytes as usize, stream) };
                done(device, "cuMemsetD8Async", code)
            }
            Op::Record(event) => {
                let event = state.event(*event)?;
                // SAFETY: both were given out and not given back.
                done(device, "cuEventRecord", unsafe {
                    sys::cuEventRecord(event, stream)
                })
            }
            Op::Wait(event) => {
                let event = state.event(*event)?;
                // SAFETY: as above.
                done(device, "cuStreamWaitEvent", unsafe {
                    sys::cuStreamWaitEvent(stream, event, 0)
                })
            }
        }
    }

    /// Captures a list: the other streams join the capture of the origin first, and it waits for them in the end.
    pub(super) fn capture(
        &self,
        state: &State,
        origin: StreamId,
        commands: &[Command],
    ) -> Result<CUgraph, GpuError> {
        let (device, stream) = state.stream(origin)?;
        let mut others = BTreeMap::new();
        for command in commands {
            if command.stream != origin {
                others.insert(command.stream, state.stream(command.stream)?);
            }
        }
        self.enter(device)?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream was given out.
        done(device, "cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(stream, mode)
        })?;
        let mut events = Vec::new();
        let mut captured = || -> Result<(), GpuError> {
            let mut link = |from: (u32, sys::CUstream), to: (u32, sys::CUstream)| {
                self.enter(from.0)?;
                let event = self.new_event(from.0)?;
                events.push(event);
                // SAFETY: streams and event are there; the event is destroyed behind the capture.
                done(from.0, "cuEventRecord", unsafe {
                    sys::cuEventRecord(event, from.1)
                })?;
                self.enter(to.0)?;
                // SAFETY: as above.
                done(to.0, "cuStreamWaitEvent", unsafe {
                    sys::cuStreamWaitEvent(to.1, event, 0)
                })
            };
            for &other in others.values() {
                link((device, stream), other)?;
            }
            for command in commands {
                self.enqueue(state, command)?;
            }
            for &other in others.values() {
                link(other, (device, stream))?;
            }
            Ok(())
        };
        let captured = captured();
        let mut graph = std::ptr::null_mut();
        self.enter(device)?;
        // SAFETY: the capture is ended once, also where something failed in it.
        let code = unsafe { sys::cuStreamEndCapture(stream, &mut graph) };
        for event in events {
            // SAFETY: created above, and part of no stream's work any more.
            unsafe { sys::cuEventDestroy_v2(event) };
        }
        captured?;
        match code {
            CUresult::CUDA_SUCCESS => Ok(graph),
            code => {
                done(device, "cuStreamEndCapture", code)?;
                Ok(graph)
            }
        }
    }
}
