//! The kernels for sm_90a, seen from the host: tiles, what a kernel is generated from, where everything lies in shared
//! memory, how tiles are dealt to blocks.
//!
//! Two ways of speaking of a tile are kept apart. *Product terms*: rows are M, columns N, as the user has them. *MMA
//! terms*: rows are wgmma's M (64 per instruction), columns its N (8 to 256). They differ where a kernel is *swapped*:
//! where M is small, B's transpose becomes wgmma's first operand, so that the product's columns fill the 64 rows that an
//! instruction always has.

pub(crate) mod grid;
pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod reach;
pub(crate) mod request;
pub(crate) mod shared;
pub(crate) mod supported;
pub(crate) mod tile;

/// Bytes of `sm90::Common`: 8 extents, 2 flags, how units are dealt, 2 pointers.
pub(crate) const COMMON_BYTES: usize = 8 * 4 + 2 * 4 + 18 * 4 + 2 * 8;
/// Alignment of the kernel's parameter: the tensor maps' (PTX ISA 9.7.9.27: 64 bytes).
pub(crate) const PARAMETER_ALIGNMENT: usize = 64;

pub use super::stream::{Part, Stream};
pub use grid::{Turn, Units};
pub use instruction::Wgmma;
pub use key::{Cluster, Hint, Hints, Raster, Sm90Key, Staging};
pub use reach::direct_when_packed;
pub use request::Request;
pub use shared::{MapOf, SharedMap, Traffic};
pub use tile::{Schedule, Tile};
