//! What is known of a device.

use crate::arch::Arch;

/// What kernels are chosen by. A number that means nothing on a device is 0.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Properties {
    /// The maker's name for it.
    pub name: String,
    /// The architecture to compile for; `None` on the CPU.
    pub arch: Option<Arch>,
    /// Streaming multiprocessors; on the CPU, the threads that run at once.
    pub multiprocessors: u32,
    /// Shared memory that one block can have when it opts in, in bytes.
    pub shared_bytes_per_block: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_bytes_per_multiprocessor: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Threads that one multiprocessor holds.
    pub threads_per_multiprocessor: u32,
    /// The second-level cache, in bytes; on the CPU, one core's.
    pub l2_bytes: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Peak clock, in kHz.
    pub clock_khz: u32,
    /// The newest CUDA that the driver knows, as 1000 times the major and 10 times the minor version; 0 without a driver.
    pub driver_version: u32,
}
