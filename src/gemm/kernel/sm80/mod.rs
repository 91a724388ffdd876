//! The kernels for sm_80 and up, seen from the host: what multiplies, tiles, what a kernel is generated from.

pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod tile;

pub use instruction::Instruction;
pub use key::Sm80Key;
pub use tile::Tile;

/// Size of `sm80::Operand`.
pub(crate) const OPERAND_BYTES: usize = 32;

/// Size of `sm80::Common`: A and so many B, 8 extents, stream-K's 4 numbers, 2 pointers.
pub(crate) const fn common_bytes(accumulators: usize) -> usize {
    OPERAND_BYTES * (1 + accumulators) + 8 * 4 + 4 * 4 + 2 * 8
}
