//! Tile primitives: how values that threads hold are laid out and reduced.
//!
//! What belongs here: algorithms over the threads of a block, layouts of tiles over registers, lanes and warps, and the
//! CUDA C++ that carries them out. What must never be here: matrices, epilogues, tensor expressions. `gemm` and `te`
//! both emit through this module, which knows neither.

pub mod collective;

pub use collective::{Algorithm, Collective, CollectiveError, CollectivePlan};

/// The device primitives that this module's CUDA C++ is written in: the text of headers, without `#include`s. What is
/// emitted stands in namespace `epilogue`, or where it is used.
#[must_use]
pub fn headers() -> String {
    crate::device::inlined(&["collective.cuh"])
}
