//! Options of a machine: architecture, parallelism, checks, arithmetic, completion of asynchronous work.

use crate::arch::Arch;
pub use crate::numerics::dot::Generation;
pub use crate::numerics::mma::Arithmetic;

/// Whether the race detector, which works by happens-before, watches a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// The detector is off.
    #[default]
    Off,
    /// Every access is watched. The report has the findings.
    On,
}

/// When asynchronous copies and products take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// As soon as they are issued.
    #[default]
    Eager,
    /// Only when something waits for them. Until then their destinations hold poison.
    Lazy,
    /// At random times drawn from the seed. Until then their destinations hold poison.
    Random,
}

/// Options of a machine. A launch may replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The architecture.
    pub arch: Arch,
    /// Number of worker threads; 0 means one for each core.
    pub workers: usize,
    /// The most blocks that a worker keeps resident at once. More are admitted only while the resident ones wait for
    /// others.
    pub resident_blocks: usize,
    /// The most blocks of a cluster that the machine has room for. No machine has room for more than 16.
    pub largest_cluster: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// How many random choices a worker makes; later choices are always the same. [`explore`](crate::explore()) looks
    /// for the smallest number with which a problem is found.
    pub random_choices: u64,
    /// The race detector.
    pub detector: Detector,
    /// Whether reads of unwritten bytes are errors. Bounds and alignment are always checked.
    pub memory_checks: bool,
    /// Tensor-core arithmetic.
    pub arithmetic: Arithmetic,
    /// Completion of asynchronous work.
    pub completion: Completion,
    /// Whether strong reads of global memory may see older values that the memory model still allows them, drawn from
    /// the seed: a wait without an acquire, or store buffering, then gives the values that a GPU may give. Lanes of a warp
    /// see the same, and one worker runs all blocks.
    pub weak_memory: bool,
    /// Whether two plain writes of the same value to the same place are a finding. Their race is harmless as long as
    /// the values are equal, which depends on the data.
    pub same_values: bool,
    /// Whether it is a finding if registers of a `wgmma` product are read or written before the product was waited for.
    /// `ptxas` repairs some of these cases by waiting earlier (its warning C7517), for example in Triton's kernels with
    /// f16 accumulators.
    pub wgmma_registers: bool,
    /// Whether instructions, bytes and bank conflicts are counted.
    pub statistics: bool,
    /// The most warp instructions that one worker may execute in one launch.
    pub instruction_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arch: Arch::Sm80,
            workers: 0,
            resident_blocks: 256,
            largest_cluster: 16,
            seed: 0,
            random_choices: u64::MAX,
            detector: Detector::Off,
            memory_checks: true,
            arithmetic: Arithmetic::Fast,
            completion: Completion::Eager,
            weak_memory: false,
            same_values: false,
            wgmma_registers: true,
            statistics: false,
            instruction_limit: 1 << 40,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        impl Options {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> Self {
                    self.$name = $name;
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets the architecture.
    arch: Arch,
    /// Sets the number of worker threads; 0 means one for each core.
    workers: usize,
    /// Sets the most blocks that a worker keeps resident at once.
    resident_blocks: usize,
    /// Sets the most blocks of a cluster that the machine has room for.
    largest_cluster: u32,
    /// Sets the seed of all random choices.
    seed: u64,
    /// Sets how many random choices a worker makes.
    random_choices: u64,
    /// Turns the race detector on or off.
    detector: Detector,
    /// Turns the check for uninitialised reads on or off.
    memory_checks: bool,
    /// Sets the tensor-core arithmetic.
    arithmetic: Arithmetic,
    /// Sets when asynchronous work takes effect.
    completion: Completion,
    /// Turns older values in strong reads on or off.
    weak_memory: bool,
    /// Turns findings about writes of the same value to the same place on or off.
    same_values: bool,
    /// Turns findings about `wgmma` registers that are accessed too early on or off.
    wgmma_registers: bool,
    /// Turns counting on or off.
    statistics: bool,
    /// Sets the most warp instructions that one worker may execute in one launch.
    instruction_limit: u64,
}
