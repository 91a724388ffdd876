//! The input of a launch, and its report.

use crate::memory::global::Address;
use crate::options::Options;
use crate::race::Finding;
use crate::statistics::Statistics;

/// The shape of a launch, and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// Number of blocks in each dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block in each dimension; at most 1024 in all.
    pub block: [u32; 3],
    /// Number of blocks of a cluster in each dimension; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// A cluster may have more than 8 blocks, up to 16 (the kernel's attribute "non-portable cluster size allowed").
    pub non_portable_cluster: bool,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The launch may begin before the previous one has ended (the attribute "programmatic stream serialization"). The
    /// machine still runs it afterwards. But with the detector on, memory that the previous launch wrote may only be
    /// accessed after `griddepcontrol.wait`.
    pub overlaps_previous: bool,
    /// The launch is cooperative: its blocks may wait for each other at a barrier of the whole grid (`grid.sync()` of
    /// cooperative groups, which traps in other launches).
    pub cooperative: bool,
    /// Options for this launch that replace the machine's.
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
            non_portable_cluster: false,
            shared_bytes: 0,
            overlaps_previous: false,
            cooperative: false,
            options: None,
        }
    }

    /// Sets the number of blocks of a cluster.
    #[must_use]
    pub fn cluster(mut self, cluster: [u32; 3]) -> Self {
        self.cluster = cluster;
        self
    }

    /// Allows a cluster to have more than 8 blocks.
    #[must_use]
    pub fn non_portable_cluster(mut self, allowed: bool) -> Self {
        self.non_portable_cluster = allowed;
        self
    }

    /// Sets the bytes of dynamic shared memory.
    #[must_use]
    pub fn shared_bytes(mut self, bytes: u32) -> Self {
        self.shared_bytes = bytes;
        self
    }

    /// Lets the launch overlap the previous one.
    #[must_use]
    pub fn overlaps_previous(mut self, overlaps: bool) -> Self {
        self.overlaps_previous = overlaps;
        self
    }

    /// Makes the launch cooperative: blocks may wait for each other at barriers of the grid.
    #[must_use]
    pub fn cooperative(mut self, cooperative: bool) -> Self {
        self.cooperative = cooperative;
        self
    }

    /// Sets options that replace the machine's.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = Some(options);
        self
    }
}

/// One argument of a kernel. It must have the parameter's size.
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

/// The report of a launch that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The counts. Only `warp_instructions` is counted unless `Options::statistics` is on.
    pub statistics: Statistics,
    /// The findings of the race detector; empty if it is off.
    pub races: Vec<Finding>,
    /// The kernel's output by `printf`, up to 1 MiB. Blocks may print in any order.
    pub printed: String,
}
