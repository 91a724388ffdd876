//! The properties of a device.

use crate::compile::arch::Arch;

/// The properties by which kernels are chosen. A number that doesn't apply to a device is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The maker's name for it.
    pub name: String,
    /// The architecture to compile for; `None` on the CPU.
    pub arch: Option<Arch>,
    /// Streaming multiprocessors; on the CPU, the threads that run at once.
    pub multiprocessors: u32,
    /// Shared memory that one block can have if it opts in, in bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Threads that one multiprocessor can hold.
    pub threads_per_multiprocessor: u32,
    /// The second-level cache, in bytes; on the CPU, one core's.
    pub l2_bytes: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Peak clock, in kHz.
    pub clock_khz: u32,
    /// Peak clock of the memory, in kHz. It moves two bits for each clock and wire.
    pub memory_clock_khz: u32,
    /// Width of the memory's bus, in bits.
    pub memory_bus_bits: u32,
    /// The power that the board may take, in milliwatts.
    pub power_milliwatts: u32,
    /// The newest CUDA that the driver knows, as 1000 times the major and 10 times the minor version; 0 without a
    /// driver.
    pub driver_version: u32,
}

impl Properties {
    /// The memory's bandwidth by its clock and bus, in units of 10⁹ bytes a second; 0 if the driver gives neither.
    #[must_use]
    pub fn memory_gigabytes_per_second(&self) -> f64 {
        2.0 * f64::from(self.memory_clock_khz) * 1e-6 * f64::from(self.memory_bus_bits) / 8.0
    }
}
