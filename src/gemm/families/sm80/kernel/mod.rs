//! The kernels for sm_80 and later, as the host sees them: instructions, tiles, and what a kernel is generated from.

pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod structs;
pub(crate) mod tile;

pub use instruction::{Instruction, NativeFp8};
pub use key::Sm80Key;
pub use tile::Tile;

/// Alignment of the kernel's parameter.
pub(crate) const PARAMETER_ALIGNMENT: usize = 8;
