//! The errors of bundles.

use std::path::PathBuf;

/// Why a bundle can't be used.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    /// Other users may write the file, so they could run code as this user.
    #[error(
        "the bundle {} belongs to another user, or others may write it: a bundle is code. Give it to this user or the \
         administrator, and let nobody else write it (`chmod go-w`)",
        path.display()
    )]
    Untrusted {
        /// The file.
        path: PathBuf,
    },
    /// The bytes don't begin like a bundle.
    #[error("this is not a bundle: it does not begin with `epilogue bundle`")]
    NoBundle,
    /// A bundle of another version of this format.
    #[error("the bundle has version {found} of the format, and version {known} is read here: make it anew")]
    Version {
        /// The version of the bundle.
        found: u32,
        /// The version that this library reads.
        known: u32,
    },
    /// The bundle doesn't have as many bytes as it says.
    #[error("the bundle has {bytes} bytes, and should have {needed}: it was cut short, or something was added")]
    Length {
        /// The bytes that there are.
        bytes: u64,
        /// The bytes that there should be.
        needed: u64,
    },
    /// The file is longer than any bundle.
    #[error("the bundle has {bytes} bytes; at most {most} are read")]
    TooLong {
        /// The bytes that it has.
        bytes: u64,
        /// The most that are read.
        most: u64,
    },
    /// The bundle was changed or damaged after it was made.
    #[error("the bundle is damaged: {what}: copy it again, or make it anew")]
    Damaged {
        /// Where, and what is wrong.
        what: String,
    },
    /// The bundle has no kernels for the device.
    #[error("the bundle has no kernel for {device}: it holds kernels for {holds}; make it for this one, too")]
    NotForDevice {
        /// The device.
        device: String,
        /// The targets of its kernels.
        holds: String,
    },
}

crate::message::debug!(BundleError);
