//! Runs kernels on a device, alone or several in a row. [`Backend`] is where a GPU and the CPU part.

mod analysis;
mod backend;
mod cell;
mod cpu;
mod gpu;
pub(in crate::te::auto) mod intermediates;
pub(in crate::te::auto) mod kernels;
mod scan;
mod several;
mod steps;

use epilogue_runtime::Device;

pub(in crate::te::auto) use self::backend::Backend;
use self::cpu::Cpu;
use self::gpu::Gpu;

/// Makes the kernels of a device.
pub(in crate::te::auto) fn backend(device: &Device) -> Box<dyn Backend + '_> {
    if device.arch().is_some() { Box::new(Gpu { device }) } else { Box::new(Cpu { device }) }
}
