//! Tile primitives: layouts and reductions of the values that threads hold.
//!
//! It has algorithms over the threads of a block ([`collective`]), layouts of tiles over registers, lanes and warps
//! ([`TileLayout`]), and reductions of tiles ([`reduction`]). It also has the CUDA C++ for all of these. Scheduled
//! programs of [`te`](crate::te) print their reductions over threads through [`collective`].

mod buffer;
pub mod collective;
mod error;
mod layout;
pub mod reduction;

pub use buffer::{ExecutionScope, MemoryScope, TileBuffer};
pub use collective::{Algorithm, Collective, CollectiveError, CollectivePlan};
pub use error::{Refusal, TileError};
pub use layout::{LayoutError, Place, TileAxis, TileIter, TileLayout};
pub use reduction::{DispatchTable, TileCode, TileOp, TileReduction, Variant};

/// The device headers that this module's CUDA C++ needs, as one text without `#include`s. Emitted code must stand in
/// namespace `epilogue`, or use it.
#[must_use]
pub fn headers() -> String {
    crate::device::inlined(&["collective.cuh"])
}
