//! How a machine runs: architecture, parallelism, checks, arithmetic, completion of asynchronous work.

/// The architecture whose instructions are accepted and whose behaviour is followed where architectures differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// Compute capability 8.0 (A100).
    Sm80,
    /// Compute capability 9.0 with its architecture-specific instructions (H100, H200).
    Sm90a,
}

/// Whether the happens-before detector watches a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detector {
    /// Nothing is watched.
    #[default]
    Off,
    /// Every access is watched; findings are returned in the report.
    On,
}

/// A generation of tensor cores, for bit-exact arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Third generation (A100).
    Ampere,
    /// Fourth generation (H100, H200).
    Hopper,
}

/// How tensor-core products are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// A chain of f32 fused multiply-adds in the order of K: fast, and as exact as a CPU's product.
    #[default]
    Fast,
    /// The published bit model of a generation: truncated, aligned sums.
    Exact(Generation),
}

/// When asynchronous copies and products take effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// As soon as they are issued.
    #[default]
    Eager,
    /// Only when something waits for them; until then their destinations hold poison.
    Lazy,
    /// At random times drawn from the seed; until then their destinations hold poison.
    Random,
}

/// Options of a machine; a launch may override them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The architecture.
    pub arch: Arch,
    /// Worker threads; 0 is one per core.
    pub workers: usize,
    /// The most blocks a worker keeps resident at once. More are admitted only while those resident wait for others.
    pub resident_blocks: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// How many random choices a worker makes; from then on it makes always the same one. [`explore`](crate::explore())
    /// looks for the fewest that a finding needs.
    pub random_choices: u64,
    /// The race detector.
    pub detector: Detector,
    /// Whether reads of bytes never written are errors. Bounds and alignment are always checked.
    pub memory_checks: bool,
    /// Tensor-core arithmetic.
    pub arithmetic: Arithmetic,
    /// Completion of asynchronous work.
    pub completion: Completion,
    /// Whether two plain writes of one value to one place are findings: nobody sees such a race as long as the values are
    /// the same, which depends on the data.
    pub same_values: bool,
    /// Whether registers of `wgmma` products that are read or written before the products were waited for are findings.
    /// `ptxas` mends some of them by waiting earlier (its warning C7517), as in Triton's kernels with f16 accumulators.
    pub wgmma_registers: bool,
    /// Whether instructions, bytes and bank conflicts are counted.
    pub statistics: bool,
    /// Most warp instructions that one worker executes in one launch.
    pub instruction_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            arch: Arch::Sm80,
            workers: 0,
            resident_blocks: 256,
            seed: 0,
            random_choices: u64::MAX,
            detector: Detector::Off,
            memory_checks: true,
            arithmetic: Arithmetic::Fast,
            completion: Completion::Eager,
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
    /// Sets the number of worker threads; 0 is one per core.
    workers: usize,
    /// Sets the most blocks a worker keeps resident at once.
    resident_blocks: usize,
    /// Sets the seed of everything random.
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
    /// Turns findings of writes of one value to one place on or off.
    same_values: bool,
    /// Turns findings of `wgmma` registers that are touched too early on or off.
    wgmma_registers: bool,
    /// Turns counting on or off.
    statistics: bool,
    /// Sets the most warp instructions that one worker executes in one launch.
    instruction_limit: u64,
}
