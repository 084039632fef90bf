//! Kernels of the generator, as the fake runs them: compiled as C++.
#![expect(
    unsafe_code,
    reason = "a kernel is given pointers into the memory of a fake device"
)]

use std::cell::Cell;
use std::sync::Arc;

use super::{HostArgument, Launched, Launcher};
use crate::backend::cuda::call::Module;
use crate::backend::cuda::twin::{self, Memory, Twin};

impl Launcher for Twin {
    fn compile(&self, module: &Module) -> Result<(), String> {
        Twin::compile(self, &[Arc::new(module.clone())])
    }

    fn launch(&self, launched: &Launched<'_>) -> Result<(), String> {
        let argument = |argument: &HostArgument| match *argument {
            HostArgument::Int(n) => twin::Argument::Int(n),
            HostArgument::Float(x) => twin::Argument::Float(x),
            HostArgument::Pointer(start, bytes) => {
                // SAFETY: as many bytes are in memory of a fake device, which no other command uses while this
                // one runs; cells may overlap.
                let cells =
                    unsafe { std::slice::from_raw_parts(start.cast::<Cell<u8>>(), bytes as usize) };
                twin::Argument::Memory(Memory {
                    bytes: cells,
                    known: None,
                })
            }
        };
        let arguments: Vec<_> = launched.arguments.iter().map(argument).collect();
        self.launch(&twin::Launched {
            module: launched.module,
            entry: launched.entry,
            blocks: launched.grid.iter().product(),
            threads: launched.block.iter().product(),
            arguments: &arguments,
            seed: launched.seed,
            races: false,
        })
    }
}
