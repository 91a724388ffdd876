//! The list of kinds of devices.

use epilogue_runtime::Device;

use super::backend::Backend;
use super::cpu::Cpu;
use super::gpu::Gpu;
use crate::gemm::families::Families;
use crate::gemm::model::Machine;

/// The kind of a device.
pub(crate) fn of(device: &Device) -> Box<dyn Backend> {
    match Machine::of(device.properties()) {
        Some(machine) => Box::new(Gpu { machine, families: Families::of(device) }),
        None => Box::new(Cpu),
    }
}
