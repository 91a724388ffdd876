//! The errors: of the PTX text ([`ParseError`]), of host calls ([`MemoryError`]) and of a launch ([`LaunchError`]).

use std::fmt;

use crate::race::Finding;

/// The reason why a text is not a module that this machine can run.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text breaks PTX's grammar.
    #[error("PTX line {line}: {message}")]
    Syntax {
        /// Line in the text, counted from 1.
        line: u32,
        /// The expected and the found text.
        message: String,
    },
    /// An instruction, modifier or type that is not implemented.
    #[error("PTX line {line}: `{opcode}` is not supported: {message}")]
    Unsupported {
        /// Line in the text, counted from 1.
        line: u32,
        /// The full opcode as written.
        opcode: String,
        /// The part that is not known.
        message: String,
    },
    /// A name that is not declared, is declared twice, or is used for something else than declared.
    #[error("PTX line {line}: {message}")]
    Name {
        /// Line in the text, counted from 1.
        line: u32,
        /// The name and what is wrong with it.
        message: String,
    },
}

crate::message::debug!(ParseError);

/// The reason why a host call on the machine's memory failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The range is not inside one living allocation.
    #[error("{bytes} bytes at {address:#x} are not inside one allocation ({nearest})")]
    OutOfBounds {
        /// First address of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
        /// The nearest allocation, in words.
        nearest: String,
    },
    /// The address is not what `allocate` returned, or was freed already.
    #[error("{address:#x} is not the start of a living allocation")]
    NotAllocated {
        /// The address given.
        address: u64,
    },
    /// The allocation is larger than the machine allows.
    #[error("an allocation of {bytes} bytes is larger than the machine's limit of {limit}")]
    TooLarge {
        /// The number of bytes that was requested.
        bytes: u64,
        /// The size of the largest possible allocation.
        limit: u64,
    },
    /// The host has not enough memory.
    #[error("{bytes} bytes can't be allocated: the host has not so much memory")]
    OutOfMemory {
        /// The number of bytes that was requested.
        bytes: u64,
    },
}

crate::message::debug!(MemoryError);

/// The place in a launch where something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The kernel's name.
    pub kernel: String,
    /// Line in the PTX text, counted from 1.
    pub line: u32,
    /// The source position from `.loc`, as `file:line`, if the text has one.
    pub source: Option<String>,
    /// The instruction's full opcode.
    pub opcode: String,
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The warp's index in its block.
    pub warp: u32,
    /// The lane, if a single one caused it.
    pub lane: Option<u32>,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "`{}` at PTX line {}", self.opcode, self.line)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        write!(f, ", kernel `{}`, block ({x}, {y}, {z}), warp {}", self.kernel, self.warp)?;
        match self.lane {
            Some(lane) => write!(f, ", lane {lane}"),
            None => Ok(()),
        }
    }
}

/// A memory space, as errors and statistics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemorySpace {
    /// Device memory, including constants and module variables.
    Global,
    /// A block's own shared memory.
    Shared,
    /// Another block's shared memory, in the same cluster.
    DistributedShared,
    /// A thread's private memory.
    Local,
    /// Kernel parameters.
    Parameter,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemorySpace::Global => "global",
            MemorySpace::Shared => "shared",
            MemorySpace::DistributedShared => "distributed shared",
            MemorySpace::Local => "local",
            MemorySpace::Parameter => "parameter",
        })
    }
}

/// The reason why a launch failed. After an error, memory that the kernel writes has unspecified contents.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The module has no kernel of this name.
    #[error("no kernel `{name}` in the module; it has: {available}")]
    UnknownKernel {
        /// The name given.
        name: String,
        /// The names of the kernels in the module.
        available: String,
    },
    /// The launch is not valid: sizes, arguments, shared memory or architecture.
    #[error("bad launch of `{kernel}`: {message}")]
    BadLaunch {
        /// The kernel's name.
        kernel: String,
        /// The given and the allowed value.
        message: String,
    },
    /// An access outside every allocation.
    #[error("out of bounds: {bytes} bytes of {space} memory at {address:#x} ({nearest}); {site}")]
    OutOfBounds {
        /// The place.
        site: Box<Site>,
        /// The memory space.
        space: MemorySpace,
        /// The address.
        address: u64,
        /// Size of the access.
        bytes: u32,
        /// The nearest buffer, and the distance of the access from it.
        nearest: String,
    },
    /// An access that is not aligned as its instruction requires.
    #[error("misaligned: {space} address {address:#x} must be a multiple of {alignment}; {site}")]
    Misaligned {
        /// The place.
        site: Box<Site>,
        /// The memory space.
        space: MemorySpace,
        /// The address.
        address: u64,
        /// The required alignment in bytes.
        alignment: u32,
    },
    /// A read of bytes that nothing has written.
    #[error("uninitialised: {bytes} bytes of {space} memory at {address:#x} ({buffer}) were never written; {site}")]
    Uninitialised {
        /// The place.
        site: Box<Site>,
        /// The memory space.
        space: MemorySpace,
        /// The address.
        address: u64,
        /// Size of the access.
        bytes: u32,
        /// The buffer's name.
        buffer: String,
    },
    /// An instruction used in a way PTX leaves undefined, such as `mma.sync` with inactive lanes.
    #[error("{message}; {site}")]
    Invalid {
        /// The place.
        site: Box<Site>,
        /// The fault.
        message: String,
    },
    /// The kernel executed `trap` or failed a device-side assertion.
    #[error("the kernel trapped; {site}")]
    Trap {
        /// The place.
        site: Box<Site>,
    },
    /// No thread can make progress any more.
    #[error("deadlock: {}", Waiter::list(.waiting))]
    Deadlock {
        /// The waiting threads, their places, and what they wait for.
        waiting: Vec<Waiter>,
    },
    /// The launch ran longer than `Options::instruction_limit`.
    #[error("stopped after {limit} warp instructions without an end in sight; {site}")]
    InstructionLimit {
        /// The place of one of the warps.
        site: Box<Site>,
        /// The limit.
        limit: u64,
    },
}

crate::message::debug!(LaunchError);

/// A launch that failed: the reason, and what the race detector had found before. A race is often the cause of a later
/// error.
#[derive(Clone, PartialEq)]
pub struct LaunchFailure {
    /// The reason.
    pub error: LaunchError,
    /// The findings before the error; empty if the detector is off.
    pub races: Vec<Finding>,
    /// The text that the kernel had printed before the error.
    pub printed: String,
}

impl fmt::Display for LaunchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        if !self.races.is_empty() {
            write!(f, "\nbefore that, the race detector found:{}", Finding::list(&self.races))?;
        }
        Ok(())
    }
}

impl std::error::Error for LaunchFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

crate::message::debug!(LaunchFailure);

impl From<LaunchError> for LaunchFailure {
    fn from(error: LaunchError) -> Self {
        Self { error, races: vec![], printed: String::new() }
    }
}

/// Something that waits in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The place where it waits.
    pub site: Site,
    /// The waiting lanes of the warp, as a mask.
    pub lanes: u32,
    /// The event that it waits for.
    pub reason: String,
}

impl Waiter {
    /// The first few, to keep the message short.
    fn list(waiting: &[Waiter]) -> String {
        const SHOWN: usize = 8;
        let mut text: Vec<_> = waiting.iter().take(SHOWN).map(|w| format!("{} ({})", w.reason, w.site)).collect();
        if waiting.len() > SHOWN {
            text.push(format!("and {} more", waiting.len() - SHOWN));
        }
        text.join("; ")
    }
}
