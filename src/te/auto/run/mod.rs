//! Runs kernels on a device, alone or several in a row. [`Backend`] is where a GPU and the CPU part.
//!
//! `scan`, `several` and `steps` import each other: a scan that runs step by step runs several kernels in a row, and
//! these may include scans.

mod analysis;
mod backend;
mod cell;
mod cpu;
mod gpu;
mod intermediates;
pub(in crate::te::auto) mod scan;
pub(in crate::te::auto) mod several;
mod steps;

use epilogue_runtime::Device;

pub(in crate::te::auto) use self::backend::Backend;
use self::cpu::Cpu;
use self::gpu::Gpu;

/// What makes the kernels of a device.
pub(in crate::te::auto) fn backend(device: &Device) -> Box<dyn Backend + '_> {
    if device.arch().is_some() { Box::new(Gpu { device }) } else { Box::new(Cpu { device }) }
}
