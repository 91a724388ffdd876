//! The reason that stopped a warp, before its place in the text is added.

use crate::error::{LaunchError, MemorySpace, Site};

/// The reason why an instruction could not be executed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(in crate::exec) lane: Option<u32>,
    pub(in crate::exec) kind: FaultKind,
}

#[derive(Debug)]
pub(crate) enum FaultKind {
    OutOfBounds { space: MemorySpace, address: u64, bytes: u32, nearest: String },
    Misaligned { space: MemorySpace, address: u64, alignment: u32 },
    Uninitialised { space: MemorySpace, address: u64, bytes: u32, buffer: String },
    Invalid(String),
    Trap,
}

impl Fault {
    /// The error that a caller gets.
    pub(in crate::exec) fn into_error(self, mut site: Site) -> LaunchError {
        site.lane = self.lane;
        let site = Box::new(site);
        match self.kind {
            FaultKind::OutOfBounds { space, address, bytes, nearest } => {
                LaunchError::OutOfBounds { site, space, address, bytes, nearest }
            }
            FaultKind::Misaligned { space, address, alignment } => {
                LaunchError::Misaligned { site, space, address, alignment }
            }
            FaultKind::Uninitialised { space, address, bytes, buffer } => {
                LaunchError::Uninitialised { site, space, address, bytes, buffer }
            }
            FaultKind::Invalid(message) => LaunchError::Invalid { site, message },
            FaultKind::Trap => LaunchError::Trap { site },
        }
    }
}
