//! Emission: from a valid tree and the key of a kernel to complete CUDA C++.
//!
//! The configuration, the arguments' struct, the function of one element, the visitor and the kernel's entry are
//! generated; everything else is the headers of `src/device/`, inlined. Nothing here makes choices.

pub(crate) mod arguments;
pub(crate) mod element;
pub(crate) mod epilogue;
pub(crate) mod needed;
pub(crate) mod origin;
pub(crate) mod reducers;
pub(crate) mod rows;
pub(crate) mod symbol;
pub(crate) mod tail;
pub(crate) mod text;

use epilogue_runtime::Source;

use self::origin::{origin_of_kernel, origin_of_tree};
use self::symbol::{later_symbol, symbol};
use self::text::Emitted;
use super::kernel::ArgumentViews;
use super::kernel::later::LaterKey;
use super::problem::Error;
use crate::evt::{Pass, Phases, Prices, ValidTree};
use crate::gemm::families::{self, KernelKey};

/// Why a tree's phases are not computed in a tile.
const NOT_IN_TILE: &str = "the epilogue's phases can't be computed in a tile: ask for `Finish::SecondLaunch`";

/// Writes a kernel of a product: of its first part and the launch's tail, or of all phases, as the key says. `views` are
/// its arguments that are no plain matrices.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no kernel like this.
pub(crate) fn emit(phases: &Phases, key: &KernelKey, views: ArgumentViews) -> Result<Emitted, Error> {
    let refused = |reason| Error::NoKernel { kernel: key.to_string(), reason };
    let of = phases.computation(key.in_tile()).ok_or_else(|| refused(NOT_IN_TILE))?;
    let symbol = symbol(of.tree, key);
    let mut emitted = key.of_family().emit(&of, views, &symbol).map_err(refused)?;
    emitted.source.origin = Some(origin_of_kernel(origin_of_tree(&phases.tree), key, views));
    Ok(emitted.with_places(of.tree, views))
}

/// Writes the kernel of a launch after the product's.
pub(crate) fn emit_later(pass: &Pass<'_>, (key, views): (LaterKey, ArgumentViews), phase: usize) -> Emitted {
    let tree = &pass.part.tree;
    families::emit_later(&pass.computation(), (key, views), phase, &later_symbol(tree, phase)).with_places(tree, views)
}

/// The CUDA C++ of a kernel, without any device. If the epilogue uses its own reductions, it is the kernel with the
/// main loop. It computes all phases or only the first, as the key says.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no kernel like this.
pub fn source(tree: &ValidTree, key: &KernelKey) -> Result<Source, Error> {
    Ok(emit(&Phases::of(tree.clone(), Prices::GPU), key, ArgumentViews::default())?.source)
}
