//! Emission: from a valid tree and the key of a kernel to complete CUDA C++.
//!
//! The configuration, the arguments' struct, the function of one element, the visitor and the kernel's entry are
//! generated; everything else is the headers of `src/device/`, inlined. Nothing here makes choices.

pub(crate) mod arguments;
mod element;
mod epilogue;
mod reducers;
mod sm80;
mod sm90;
pub(crate) mod symbol;
mod tail;
pub(crate) mod text;

use epilogue_runtime::Source;

use self::symbol::{later_symbol, symbol};
use self::text::Emitted;
use super::kernel::later::LaterKey;
use super::kernel::sm90::supported::supports;
use super::kernel::{KernelKey, SplitKind};
use super::problem::Error;
use crate::evt::{Pass, Phases, Prices, ValidTree};

/// Writes a kernel of a product, and the launch's tail.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub(crate) fn emit(pass: &Pass<'_>, key: &KernelKey) -> Result<Emitted, Error> {
    let (tree, tail) = (&pass.part.tree, pass.tail.map(|part| &part.tree));
    let symbol = symbol(tree, key);
    match key {
        KernelKey::Sm80(kernel) => match kernel.split_k {
            SplitKind::None => Ok(sm80::emit((tree, tail), kernel, "None", &symbol)),
            SplitKind::Serial => Ok(sm80::emit((tree, tail), kernel, "Serial", &symbol)),
            SplitKind::Parallel => Ok(sm80::emit((tree, tail), kernel, "Parallel", &symbol)),
            SplitKind::Stream => Ok(sm80::emit((tree, tail), kernel, "Stream", &symbol)),
        },
        KernelKey::Sm90(kernel) => match supports(kernel) {
            Ok(()) => Ok(sm90::emit((tree, tail), kernel, &symbol)),
            Err(reason) => Err(Error::NoKernel { kernel: key.to_string(), reason }),
        },
    }
}

/// Writes the kernel of a launch after the product's.
pub(crate) fn emit_later(pass: &Pass<'_>, key: LaterKey, phase: usize) -> Emitted {
    let (tree, tail) = (&pass.part.tree, pass.tail.map(|part| &part.tree));
    sm80::later::emit((tree, tail), key, phase, &later_symbol(tree, phase))
}

/// The CUDA C++ of a kernel, without any device. Of an epilogue that is computed from its own reductions, it is the kernel
/// with the product.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub fn source(tree: &ValidTree, key: &KernelKey) -> Result<Source, Error> {
    Ok(emit(&Phases::of(tree.clone(), Prices::GPU).product(), key)?.source)
}
