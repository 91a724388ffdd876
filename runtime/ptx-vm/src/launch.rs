//! What a launch is given and what it gives back.

use crate::memory::global::Address;
use crate::options::Options;
use crate::race::Finding;
use crate::statistics::Statistics;

/// The shape of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension; at most 1024 together.
    pub block: [u32; 3],
    /// Blocks of a cluster in each dimension; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The launch may begin before the one before has ended (the attribute "programmatic stream serialization"). It is
    /// still run after it, but with the detector on, memory that the one before wrote may be touched only after
    /// `griddepcontrol.wait`.
    pub overlaps_previous: bool,
    /// The launch is cooperative: its blocks may wait for each other at a barrier of the whole grid (`grid.sync()` of
    /// cooperative groups, which traps in other launches).
    pub cooperative: bool,
    /// Options for this launch instead of the machine's.
    pub options: Option<Options>,
}

impl Launch {
    /// A launch without clusters and without dynamic shared memory.
    #[must_use]
    pub fn new(grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            grid,
            block,
            cluster: [1, 1, 1],
            shared_bytes: 0,
            overlaps_previous: false,
            cooperative: false,
            options: None,
        }
    }

    /// Sets the blocks of a cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: [u32; 3]) -> Self {
        self.cluster = cluster;
        self
    }

    /// Sets the bytes of dynamic shared memory.
    #[must_use]
    pub fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Lets the launch overlap the one before.
    #[must_use]
    pub fn overlaps_previous(mut self, overlaps: bool) -> Self {
        self.overlaps_previous = overlaps;
        self
    }

    /// Lets blocks wait for each other at barriers of the grid.
    #[must_use]
    pub fn cooperative(mut self, cooperative: bool) -> Self {
        self.cooperative = cooperative;
        self
    }

    /// Overrides the machine's options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = Some(options);
        self
    }
}

/// One argument of a kernel; its size must be the parameter's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    /// A value as its bytes, little-endian.
    Bytes(&'a [u8]),
    /// A pointer.
    Address(Address),
    /// A 32-bit unsigned integer.
    U32(u32),
    /// A 32-bit signed integer.
    I32(i32),
    /// A 64-bit unsigned integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
}

impl Argument<'_> {
    /// Its bytes, little-endian.
    pub(crate) fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Argument::Bytes(bytes) => then(bytes),
            Argument::Address(Address(value)) | Argument::U64(value) => then(&value.to_le_bytes()),
            Argument::U32(value) => then(&value.to_le_bytes()),
            Argument::I32(value) => then(&value.to_le_bytes()),
            Argument::F32(value) => then(&value.to_le_bytes()),
            Argument::F64(value) => then(&value.to_le_bytes()),
        }
    }
}

/// What a launch that ended gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What was counted. Only `warp_instructions` unless `Options::statistics` is on.
    pub statistics: Statistics,
    /// What the race detector found; empty when it is off.
    pub races: Vec<Finding>,
    /// What the kernel printed with `printf`, up to 1 MiB; blocks print in any order.
    pub printed: String,
}
