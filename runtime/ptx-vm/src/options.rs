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
    /// The race detector.
    pub detector: Detector,
    /// Whether reads of bytes never written are errors. Bounds and alignment are always checked.
    pub memory_checks: bool,
    /// Tensor-core arithmetic.
    pub arithmetic: Arithmetic,
    /// Completion of asynchronous work.
    pub completion: Completion,
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
            detector: Detector::Off,
            memory_checks: true,
            arithmetic: Arithmetic::Fast,
            completion: Completion::Eager,
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
    /// Turns the race detector on or off.
    detector: Detector,
    /// Turns the check for uninitialised reads on or off.
    memory_checks: bool,
    /// Sets the tensor-core arithmetic.
    arithmetic: Arithmetic,
    /// Sets when asynchronous work takes effect.
    completion: Completion,
    /// Turns counting on or off.
    statistics: bool,
    /// Sets the most warp instructions that one worker executes in one launch.
    instruction_limit: u64,
}
