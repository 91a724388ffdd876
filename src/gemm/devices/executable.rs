//! A plan's compiled part, on a device of any kind.

use std::fmt;
use std::sync::Arc;

use epilogue_runtime::{Kernel, Source, Stream};

use super::operation::{GivenRun, Operation};
use crate::evt::reference::Multiplication;
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::problem::{Error, Packed, Unpacked};
#[cfg(test)]
use crate::gemm::run::variant::Variant;

/// The compiled part of a plan.
pub(crate) trait Executable: fmt::Debug + Send + Sync {
    /// Runs on checked operands and arguments. On a dry stream it only compiles what the run needs.
    ///
    /// # Errors
    /// Bounds or indices that the host reads and can't use; memory that ran out; a launch that failed.
    fn run(&self, stream: &Stream, given: &GivenRun<'_, '_>) -> Result<(), Error>;

    /// The launch of a [`run`](Self::run), as data.
    ///
    /// # Errors
    /// [`Error::NoLaunch`] if it is not one launch.
    fn describe(&self, given: &GivenRun<'_, '_>) -> Result<LaunchDescription, Error>;

    /// Packs a B once, for many runs.
    ///
    /// # Errors
    /// [`Error::NoPacking`] if runs read B as it lies.
    fn pack(&self, b: Unpacked<'_>) -> Result<Packed, Error>;

    /// The text of the planned kernel, or a description of what runs.
    fn source(&self) -> &str;

    /// The planned kernels in the order of their launches, the product's first.
    fn kernels(&self) -> Vec<(&Source, &Kernel)>;

    /// How it multiplies, and whether approximate instructions are allowed for outputs of any type.
    fn multiplication(&self) -> (Multiplication, bool);

    /// Its parts without a handle of the device; `None` if they can't be kept.
    fn kept(&self) -> Option<Kept>;

    /// A kernel that a run has compiled, for tests of its text.
    #[cfg(test)]
    fn compiled_variant(&self, _suits: &dyn Fn(&Variant) -> bool) -> Option<Arc<Variant>> {
        None
    }
}

/// Attaches kept parts to the device again; gives `None` if the device is gone.
pub(crate) type Kept = Box<dyn Fn(&Arc<Operation>) -> Option<Box<dyn Executable>> + Send + Sync>;
