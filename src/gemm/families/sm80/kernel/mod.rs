//! The kernels for sm_80 and later, as the host sees them: instructions, tiles, and what a kernel is generated from.

pub(crate) mod instruction;
pub(crate) mod key;
pub(crate) mod tile;

pub use instruction::Instruction;
pub use key::Sm80Key;
pub use tile::Tile;

/// Size of `sm80::Operand` in bytes.
pub(crate) const OPERAND_BYTES: usize = 32;

/// Size of `sm80::Patches` in bytes, which follows `Common` where A is patches.
pub(crate) const PATCHES_BYTES: usize = 136;

/// Size of the divisors of three axes, which follow that in kernels of gradients.
pub(crate) const DIVISORS_BYTES: usize = 48;

/// Alignment of the kernel's parameter.
pub(crate) const PARAMETER_ALIGNMENT: usize = 8;

/// Size of `sm80::Common` in bytes: A, one B for each accumulator, 8 extents, 4 numbers for stream-K, 2 pointers.
pub(crate) const fn common_bytes(accumulators: usize) -> usize {
    OPERAND_BYTES * (1 + accumulators) + 8 * 4 + 4 * 4 + 2 * 8
}
