//! Runs kernels on a device, alone or several in a row. [`Backend`] is where a GPU and the CPU part.

mod analysis;
mod backend;
mod by_data;
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
use crate::te::auto::pattern::reads::refused;
use crate::te::error::TeError;
use crate::tuning::Tuning;

/// Makes the kernels of a device.
///
/// # Errors
/// A tuning on a GPU.
pub(in crate::te::auto) fn backend(device: &Device, tuning: Tuning) -> Result<Box<dyn Backend + '_>, TeError> {
    match device.arch() {
        None => Ok(Box::new(Cpu { device, tuning })),
        Some(_) if tuning == Tuning::default() => Ok(Box::new(Gpu { device })),
        Some(_) => Err(refused("a tuning on a GPU, which has none of its choices,")),
    }
}
