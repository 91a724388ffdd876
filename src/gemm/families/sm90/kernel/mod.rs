//! The kernels for sm_90a and sm_100a, as the host sees them: tiles, what a kernel is generated from, the map of shared memory, and
//! how tiles are assigned to blocks.
//!
//! A tile is described in one of two ways. In *product terms*, rows are M and columns N, as the user has them. In *MMA
//! terms*, rows are the instruction's M (64, on sm_100a 128), columns its N (8 to 256). They differ if a kernel is *swapped*.
//! When M is small, B's transpose becomes wgmma's first operand. The columns of the product then fill the 64 rows that an
//! instruction always has.

pub(crate) mod cores;
pub(crate) mod grid;
pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod reach;
pub(crate) mod request;
pub(crate) mod shared;
pub(crate) mod structs;
pub(crate) mod supported;
pub(crate) mod tile;

/// Alignment of the kernel's parameter, which is that of tensor maps (PTX ISA 9.7.9.27: 64 bytes).
pub(crate) const PARAMETER_ALIGNMENT: usize = 64;

pub use crate::gemm::kernel::stream::{Part, Stream};
pub use cores::TensorCores;
pub use grid::{Turn, Units};
pub use instruction::Wgmma;
pub use key::{Cluster, Hint, Hints, Raster, Sm90Key, Staging};
pub use reach::direct_when_packed;
pub(crate) use request::NOT_DIVIDED;
pub use request::Request;
pub use shared::{MapOf, SharedMap, Traffic};
pub use tile::{Schedule, Tile};
