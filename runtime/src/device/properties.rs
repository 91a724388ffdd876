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
    /// The newest CUDA that the driver knows, as 1000 times the major and 10 times the minor version; 0 without a
    /// driver.
    pub driver_version: u32,
}

impl Properties {
    /// The properties of a typical GPU of an architecture: an A100 of 40 GB, an A10, an L40S, an H200, a B200, an RTX
    /// PRO 6000 (NVIDIA's data sheets; CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    /// `None` for other architectures.
    pub(crate) fn typical(arch: Arch) -> Option<Self> {
        // Multiprocessors, KiB of shared memory of one, threads of one, MiB of L2, GiB of memory, clock in MHz.
        let (multiprocessors, shared, threads, l2, memory, clock) = match arch.capability() {
            (8, 0) => (108, 164, 2048, 40, 40, 1410),
            (8, 6) => (72, 100, 1536, 6, 24, 1695),
            (8, 9) => (142, 100, 1536, 96, 48, 2520),
            (9, 0) => (132, 228, 2048, 50, 141, 1980),
            (10, 0) => (148, 228, 2048, 126, 180, 1965),
            (12, 0) => (188, 100, 1536, 128, 96, 2617),
            _ => return None,
        };
        Some(Self {
            name: format!("a typical {arch}"),
            arch: Some(arch),
            multiprocessors,
            // The driver reserves 1 KiB in every block.
            shared_bytes_per_block: (shared - 1) << 10,
            shared_bytes_per_multiprocessor: shared << 10,
            registers_per_multiprocessor: 65536,
            threads_per_multiprocessor: threads,
            l2_bytes: l2 << 20,
            memory_bytes: memory << 30,
            driver_version: 0,
            clock_khz: clock * 1000,
        })
    }
}
