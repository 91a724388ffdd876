//! The properties of a GPU that the model uses.

use epilogue_runtime::{Arch, Properties};

use crate::gemm::families::list::Constants;

/// A GPU's limits and speeds, per multiprocessor and clock unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The architecture.
    pub arch: Arch,
    /// Streaming multiprocessors.
    pub multiprocessors: usize,
    /// The most shared memory of one block, in bytes.
    pub shared_per_block: usize,
    /// The shared memory of a multiprocessor, in bytes.
    pub shared: usize,
    /// The 32-bit registers of a multiprocessor.
    pub registers: usize,
    /// The most threads that a multiprocessor can hold.
    pub threads: usize,
    /// Clock in GHz.
    pub clock: f64,
    /// Bandwidth of the L2 cache in GB/s, for all multiprocessors together. The L2 has its own clock, so it is not
    /// given per clock.
    pub l2_gigabytes_per_second: f64,
    /// Bytes per clock between the L2 and one multiprocessor.
    pub l2_port_bytes_per_clock: f64,
    /// Bytes per clock from memory, for each multiprocessor.
    pub memory_bytes_per_clock: f64,
    /// The model's constants.
    pub constants: Constants,
}

/// Shared memory that the driver reserves in every block (CUDA C++ Programming Guide, "Compute Capability 8.x").
pub(crate) const RESERVED_SHARED: usize = 1024;

impl Machine {
    /// NVIDIA A100-SXM4-40GB (A100 whitepaper: 108 multiprocessors, 1.41 GHz, 1555 GB/s; L2 5120 bytes per clock).
    #[must_use]
    pub const fn a100() -> Self {
        Self {
            arch: Arch::SM_80,
            multiprocessors: 108,
            shared_per_block: 163 * 1024,
            shared: 164 * 1024,
            registers: 65536,
            threads: 2048,
            clock: 1.41,
            l2_gigabytes_per_second: 7200.0,
            l2_port_bytes_per_clock: 64.0,
            memory_bytes_per_clock: 10.2,
            constants: Constants::ESTIMATED,
        }
    }

    /// NVIDIA H100-SXM5 (H100 whitepaper: 132 multiprocessors, 1.83 GHz boost, 3350 GB/s; L2 8 TB/s, as in DeepGEMM's
    /// heuristics for sm_90).
    #[must_use]
    pub const fn h100() -> Self {
        Self {
            arch: Arch::SM_90A,
            multiprocessors: 132,
            shared_per_block: 227 * 1024,
            shared: 228 * 1024,
            registers: 65536,
            threads: 2048,
            clock: 1.83,
            l2_gigabytes_per_second: 8000.0,
            l2_port_bytes_per_clock: 64.0,
            memory_bytes_per_clock: 13.9,
            constants: Constants::ESTIMATED,
        }
    }

    /// NVIDIA H200-SXM5: an H100 with faster memory (data sheet: 4.8 TB/s, of which 4.2 have been measured; 1.98 GHz).
    #[must_use]
    pub const fn h200() -> Self {
        Self { clock: 1.98, memory_bytes_per_clock: 16.1, ..Self::h100() }
    }

    /// Bytes per clock that a multiprocessor gets from the L2: an equal share, limited by the multiprocessor's port.
    pub(crate) fn l2_bytes_per_clock(&self) -> f64 {
        let share = self.l2_gigabytes_per_second / (self.multiprocessors.max(1) as f64 * self.clock);
        share.min(self.l2_port_bytes_per_clock)
    }

    /// The numbers of a device; those that it does not report are the A100's or H100's. `None` for the CPU.
    #[must_use]
    pub fn of(properties: &Properties) -> Option<Self> {
        let arch = properties.arch?;
        // An H200 is recognised by its memory of 141 GB.
        let base = match arch.capability().0 {
            ..9 => Self::a100(),
            _ if properties.memory_bytes > 100 << 30 => Self::h200(),
            _ => Self::h100(),
        };
        let or = |given: u32, default: usize| if given == 0 { default } else { given as usize };
        Some(Self {
            arch,
            multiprocessors: or(properties.multiprocessors, base.multiprocessors),
            shared_per_block: or(properties.shared_bytes_per_block, base.shared_per_block),
            shared: or(properties.shared_bytes_per_multiprocessor, base.shared),
            registers: or(properties.registers_per_multiprocessor, base.registers),
            threads: or(properties.threads_per_multiprocessor, base.threads),
            clock: if properties.clock_khz == 0 { base.clock } else { f64::from(properties.clock_khz) * 1e-6 },
            ..base
        })
    }
}
