//! What can be wrong with a bundle.

use std::path::PathBuf;

/// Why a bundle can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// The file can't be read or written.
    #[error("the bundle {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// The file may be written by other users; what is in it would run as this one's code.
    #[error(
        "the bundle {} belongs to another user, or others may write it: a bundle is code. Give it to this user or the \
         administrator, and let nobody else write it (`chmod go-w`)",
        path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
    },
    /// The bytes don't begin as a bundle does.
    #[error("this is no bundle: it does not begin with `epilogue bundle`")]
    NoBundle,
    /// A bundle of another version of this format.
    #[error("the bundle has version {found} of the format, and version {known} is read here: make it anew")]
    Version {
        /// The bundle's.
        found: u32,
        /// This library's.
        known: u32,
    },
    /// Fewer or more bytes than the bundle says that it has.
    #[error("the bundle has {bytes} bytes, and should have {needed}: it was cut short, or something was added")]
    Length {
        /// How many there are.
        bytes: u64,
        /// How many it should have.
        needed: u64,
    },
    /// Longer than any bundle.
    #[error("the bundle has {bytes} bytes; at most {most} are read")]
    TooLong {
        /// How many it has.
        bytes: u64,
        /// The most that are read.
        most: u64,
    },
    /// Bytes were changed after the bundle was made.
    #[error("the bundle is damaged: {what}: copy it again, or make it anew")]
    Damaged {
        /// Where, and what is wrong.
        what: String,
    },
    /// It has nothing that a device could run.
    #[error("the bundle has no kernel for {device}: it holds kernels for {holds}; make it for this one, too")]
    NotForDevice {
        /// The device.
        device: String,
        /// What it holds kernels for.
        holds: String,
    },
}
