//! Emission: from a valid tree and the key of a kernel to complete CUDA C++.
//!
//! The configuration, the arguments' struct, the function of one element, the visitor and the kernel's entry are
//! generated; everything else is the headers of `src/device/`, inlined. Nothing here makes choices.

pub(crate) mod arguments;
mod element;
mod sm80;
mod sm90;
pub(crate) mod symbol;
pub(crate) mod text;

use epilogue_runtime::Source;

use self::symbol::symbol;
use self::text::Emitted;
use super::kernel::sm90::supported::supports;
use super::kernel::{KernelKey, SplitKind};
use super::problem::Error;
use crate::evt::ValidTree;

/// Writes a kernel.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub(crate) fn emit(tree: &ValidTree, key: &KernelKey) -> Result<Emitted, Error> {
    let symbol = symbol(tree, key);
    match key {
        KernelKey::Sm80(kernel) => match kernel.split_k {
            SplitKind::None => Ok(sm80::emit(tree, kernel, "None", &symbol)),
            SplitKind::Serial => Ok(sm80::emit(tree, kernel, "Serial", &symbol)),
            SplitKind::Parallel => Ok(sm80::emit(tree, kernel, "Parallel", &symbol)),
            SplitKind::Stream => Ok(sm80::emit(tree, kernel, "Stream", &symbol)),
        },
        KernelKey::Sm90(kernel) => match supports(kernel) {
            Ok(()) => Ok(sm90::emit(tree, kernel, &symbol)),
            Err(reason) => Err(Error::NoKernel { kernel: key.to_string(), reason }),
        },
    }
}

/// The CUDA C++ of a kernel, written without a device.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub fn source(tree: &ValidTree, key: &KernelKey) -> Result<Source, Error> {
    Ok(emit(tree, key)?.source)
}
