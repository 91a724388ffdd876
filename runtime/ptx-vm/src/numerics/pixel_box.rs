//! Parts of tensor maps in im2col mode, and refusals of copies by them.

use super::swizzle::Swizzle;
use super::tensor_element::{Fill, MapElement};
use super::tensor_field::MAXIMUM_RANK;

/// The most axes of an image.
pub const MAXIMUM_AXES: usize = MAXIMUM_RANK - 2;

/// The pixels and channels of a copy in im2col mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// Where the window may begin first, along W, H, D; 0 beyond the rank.
    pub lower: [i16; MAXIMUM_AXES],
    /// Where it may begin last, from the last index; 0 beyond the rank.
    pub upper: [i16; MAXIMUM_AXES],
    /// Channels of a pixel.
    pub channels: u32,
    /// The number of pixels.
    pub pixels: u32,
}

impl PixelBox {
    /// Reads what [`to_bytes`](Self::to_bytes) gives.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let half = |i: usize| [bytes[2 * i], bytes[2 * i + 1]];
        Self {
            lower: std::array::from_fn(|i| i16::from_le_bytes(half(i))),
            upper: std::array::from_fn(|i| i16::from_le_bytes(half(MAXIMUM_AXES + i))),
            channels: u16::from_le_bytes(half(2 * MAXIMUM_AXES)).into(),
            pixels: u16::from_le_bytes(half(2 * MAXIMUM_AXES + 1)).into(),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        let corners = self.lower.into_iter().chain(self.upper).map(i16::cast_unsigned);
        let halves = corners.chain([self.channels as u16, self.pixels as u16]);
        let mut bytes = [0; 16];
        for (to, half) in bytes.chunks_exact_mut(2).zip(halves) {
            to.copy_from_slice(&half.to_le_bytes());
        }
        bytes
    }
}

/// The arguments of [`TensorMap::im2col`](super::tensor_map::TensorMap::im2col), named like those of `cuTensorMapEncodeIm2col`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Im2col<'a> {
    /// `tensorDataType`.
    pub element: MapElement,
    /// `globalAddress`.
    pub address: u64,
    /// `globalDim`: channels, W, H, D as far as there are, images.
    pub sizes: &'a [u64],
    /// `globalStrides` in bytes, of dimensions 1 and up.
    pub strides: &'a [u64],
    /// `pixelBoxLowerCorner`: of W, H, D.
    pub lower_corner: &'a [i32],
    /// `pixelBoxUpperCorner`: of W, H, D.
    pub upper_corner: &'a [i32],
    /// `channelsPerPixel`.
    pub channels_per_pixel: u32,
    /// `pixelsPerColumn`.
    pub pixels_per_column: u32,
    /// `elementStrides`, one for each dimension; that of dimension 0 is ignored.
    pub element_strides: &'a [u32],
    /// `swizzle`.
    pub swizzle: Swizzle,
    /// `oobFill`.
    pub fill: Fill,
}

/// Operands of a copy that its map does not allow.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PixelError {
    /// The window begins outside of the corners.
    #[error("coordinate {given} of dimension {dimension} must be between the map's corners, {first} and {last}")]
    Base {
        /// The dimension.
        dimension: usize,
        /// Where it begins.
        given: i64,
        /// Where it may begin first.
        first: i64,
        /// Where it may begin last.
        last: i64,
    },
    /// An offset that is too large.
    #[error("offset {given} of dimension {dimension} must be below {limit} in a copy of {rank} dimensions")]
    Offset {
        /// The dimension.
        dimension: usize,
        /// The offset.
        given: u16,
        /// The offset must be below it.
        limit: u32,
        /// The number of dimensions.
        rank: usize,
    },
}

crate::message::debug!(PixelError);
