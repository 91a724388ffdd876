//! What a tensor map is made of.

use crate::tensor::DeviceTensor;

/// How 16-byte chunks change places in shared memory, so that reading a column of a box meets no bank conflict (PTX ISA
/// 5.5.6, "Swizzling modes"). A box's row has at most as many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    /// They don't.
    #[default]
    None,
    /// Within rows of 32 bytes.
    Bytes32,
    /// Within rows of 64 bytes.
    Bytes64,
    /// Within rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// The narrowest that a box's row of so many bytes takes whole: none for 16 bytes and for rows of other lengths.
    #[must_use]
    pub const fn of_row(bytes: usize) -> Self {
        match bytes {
            32 => Self::Bytes32,
            64 => Self::Bytes64,
            128 => Self::Bytes128,
            _ => Self::None,
        }
    }
}

/// How much the L2 fetches from memory at once for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum L2Promotion {
    /// What the copy asks for.
    None,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    #[default]
    Bytes256,
}

/// What a tensor map is made of; innermost dimension first, as tensor copies count coordinates.
#[derive(Clone, Copy, Debug)]
pub struct TiledMap<'a> {
    /// The tensor: where its first element lies, its element type, its device. Launches of kernels that use the map
    /// must name it ([`KernelArgument::Reads`](crate::KernelArgument::Reads), or `Writes`).
    pub tensor: &'a DeviceTensor,
    /// Elements along each of 1 to 5 dimensions, from 1 to 2^32. Elements beyond them read as 0 and are not written.
    pub extents: &'a [u64],
    /// Bytes from one index to the next along dimensions 1 and up: multiples of 16 below 2^40.
    pub strides: &'a [u64],
    /// Elements that one copy moves, along each dimension, from 1 to 256; a multiple of 16 bytes along the first.
    pub box_extents: &'a [u32],
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// How much the L2 fetches at once.
    pub l2_promotion: L2Promotion,
}
