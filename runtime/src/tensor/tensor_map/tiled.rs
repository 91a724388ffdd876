//! The contents of a tensor map.

use crate::tensor::DeviceTensor;

/// The permutation of 16-byte chunks in shared memory. It lets threads read a column of a box without bank conflicts
/// (PTX ISA 5.5.6, "Swizzling modes"). A row of the box has at most as many bytes as the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Swizzle {
    /// No permutation.
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
    /// The narrowest mode for a whole row of this many bytes of a box: none for 16 bytes and for rows of other lengths.
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

/// How much the L2 reads from memory at once for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum L2Promotion {
    /// Only what the copy needs.
    None,
    /// 128 bytes.
    Bytes128,
    /// 256 bytes.
    #[default]
    Bytes256,
}

/// The contents of a tensor map. The innermost dimension is first, as in the coordinates of tensor copies.
#[derive(Clone, Copy, Debug)]
pub struct TiledMap<'a> {
    /// The tensor: its address, its element type, its device. Launches of kernels that use the map must name it
    /// ([`KernelArgument::Reads`](crate::KernelArgument::Reads), or `Writes`).
    pub tensor: &'a DeviceTensor,
    /// The extent of each of 1 to 5 dimensions, from 1 to 2^32. Elements outside are read as 0 and not written.
    pub extents: &'a [u64],
    /// The strides of dimensions 1 and up, in bytes: multiples of 16 below 2^40.
    pub strides: &'a [u64],
    /// Elements that one copy moves, along each dimension, from 1 to 256; a multiple of 16 bytes along the first.
    pub box_extents: &'a [u32],
    /// The layout of the box in shared memory.
    pub swizzle: Swizzle,
    /// How much the L2 reads at once.
    pub l2_promotion: L2Promotion,
}
