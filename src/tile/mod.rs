//! Tile primitives: how values that threads hold are laid out and reduced.
//!
//! Algorithms over the threads of a block ([`collective`]), layouts of tiles over registers, lanes and warps
//! ([`TileLayout`]), reductions of tiles ([`reduction`]), and the CUDA C++ that carries them out. The kernels of
//! [`gemm`](crate::gemm) and [`te`](crate::te) are both emitted through this module.

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

/// The device primitives that this module's CUDA C++ is written in: the text of headers, without `#include`s. What is
/// emitted stands in namespace `epilogue`, or where it is used.
#[must_use]
pub fn headers() -> String {
    crate::device::inlined(&["collective.cuh"])
}
