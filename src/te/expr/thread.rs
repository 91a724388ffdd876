//! Indices of threads and blocks of a device.

/// A thread or block index of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Thread {
    /// `blockIdx.x`, `.y` or `.z`, by 0, 1, 2.
    Block(u8),
    /// `threadIdx.x`, `.y` or `.z`, by 0, 1, 2.
    Thread(u8),
    /// A virtual thread: one real thread does the work of several, interleaved.
    Virtual,
}

impl Thread {
    /// CUDA's name of the index.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block(0) => "blockIdx.x",
            Self::Block(1) => "blockIdx.y",
            Self::Block(_) => "blockIdx.z",
            Self::Thread(0) => "threadIdx.x",
            Self::Thread(1) => "threadIdx.y",
            Self::Thread(_) => "threadIdx.z",
            Self::Virtual => "vthread",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let is_virtual = name == "cthread" || name.starts_with("vthread");
        let mut device = (0..3).flat_map(|d| [Self::Block(d), Self::Thread(d)]);
        device.find(|thread| thread.name() == name).or(is_virtual.then_some(Self::Virtual))
    }
}
