//! The shape of a launch.

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z; all 1 for no clusters. In all at most 16; not every GPU has room for more than 8,
    /// which [`Kernel::active_clusters`](crate::Kernel::active_clusters) says.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Whether the kernel may start before the kernel before it on the stream is done. Then it must wait
    /// (`griddepcontrol.wait`) before it touches what that kernel writes; nothing else orders the two.
    pub programmatic_dependent_launch: bool,
}

/// The most blocks of a cluster that every GPU with clusters can run (CUDA C++ Programming Guide, "Thread Block Clusters").
#[cfg(any(feature = "cuda", feature = "emulated"))]
const PORTABLE_CLUSTER: u32 = 8;

#[cfg(any(feature = "cuda", feature = "emulated"))]
impl Launch {
    /// Whether its clusters have more blocks than every GPU can run. Then the kernel must be allowed to have such.
    pub(crate) fn has_large_clusters(&self) -> bool {
        self.cluster.iter().fold(1, |blocks: u32, &n| blocks.saturating_mul(n)) > PORTABLE_CLUSTER
    }
}

impl Default for Launch {
    /// One thread.
    fn default() -> Self {
        Self { grid: [1; 3], block: [1; 3], cluster: [1; 3], shared_bytes: 0, programmatic_dependent_launch: false }
    }
}
