//! Runs a reduction over a range that data give: a program, compiled for a device.

use epilogue_runtime::{Device, Stream};

use crate::te::auto::bind::arguments::BoundTensors;
use crate::te::auto::kernel::{Ran, Runs};
use crate::te::error::TeError;
use crate::te::loops::backend::kernel::Kernel;
use crate::te::loops::ir::program::Program;

/// A program that one thread runs for each result.
pub(super) struct ProgramKernel {
    kernel: Kernel,
    ran: Ran,
}

impl ProgramKernel {
    pub(super) fn new(program: &Program, device: &Device) -> Result<Self, TeError> {
        let kernel = program.build(device)?;
        let choice = "a range by data: a thread combines the elements of each result, in order";
        let ran = Ran { choice: choice.into(), source: kernel.source().into() };
        Ok(Self { kernel, ran })
    }
}

impl Runs for ProgramKernel {
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError> {
        self.kernel.run_tensors(stream, &bound.tensors)?;
        Ok(Some(self.ran.clone()))
    }
}
