//! Why something is no tensor map.

use super::tensor_element::MapElement;
use super::tensor_field::MapField;

/// Arguments that `cuTensorMapEncodeTiled` or `cuTensorMapEncodeIm2col` refuses.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    /// The number of dimensions is not one to five.
    #[error("a tensor map has 1 to 5 dimensions, not {0}")]
    Rank(usize),
    /// A list has the wrong length.
    #[error("a map of {rank} dimensions takes {expected} {what}, not {given}")]
    Length {
        /// The number of sizes.
        rank: usize,
        /// The list.
        what: &'static str,
        /// How many it must have.
        expected: usize,
        /// How many it has.
        given: usize,
    },
    /// A misaligned tensor.
    #[error("the tensor's global address {0:#x} must be a multiple of 16")]
    Address(u64),
    /// A size that is zero or too large.
    #[error("size {size} of dimension {dimension} must be between 1 and 2^32")]
    Size {
        /// The dimension.
        dimension: usize,
        /// Its size.
        size: u64,
    },
    /// A stride that is misaligned or too large.
    #[error("stride {stride} of dimension {dimension} must be a multiple of 16 bytes below 2^40")]
    Stride {
        /// The dimension.
        dimension: usize,
        /// Its stride.
        stride: u64,
    },
    /// A box size that is zero or too large.
    #[error("box size {size} of dimension {dimension} must be between 1 and 256")]
    Box {
        /// The dimension.
        dimension: usize,
        /// The box's size.
        size: u32,
    },
    /// An element stride out of range.
    #[error("element stride {stride} of dimension {dimension} must be between 1 and 8")]
    ElementStride {
        /// The dimension.
        dimension: usize,
        /// Its element stride.
        stride: u32,
    },
    /// A row of the box is not a whole number of chunks.
    #[error("the box's inner dimension has {bytes} bytes; it must be a multiple of 16")]
    InnerMultiple {
        /// Number of bytes in the row.
        bytes: usize,
    },
    /// A row of the box that is wider than the swizzle.
    #[error("the box's inner dimension has {bytes} bytes; with this swizzle it must not exceed {limit}")]
    InnerSwizzle {
        /// Number of bytes in the row.
        bytes: usize,
        /// Number of bytes in a row of the swizzle.
        limit: u32,
    },
    /// NaN fill for an integer type.
    #[error("NaN fill needs a floating-point type, not {0:?}")]
    Fill(MapElement),
    /// A value that a field of a map can't have.
    #[error("{field:?} of a tensor map cannot be {value}; supported are {allowed}")]
    Field {
        /// The field.
        field: MapField,
        /// The value given.
        value: u64,
        /// The supported values.
        allowed: &'static str,
    },
    /// A map in im2col mode of too few or too many dimensions.
    #[error("a tensor map in im2col mode has 3 to 5 dimensions, not {0}")]
    ImageRank(usize),
    /// A corner out of range.
    #[error("corner {corner} along dimension {dimension} must be between -{limit} and {} in a map of {rank} dimensions", limit - 1)]
    Corner {
        /// The dimension.
        dimension: usize,
        /// The corner.
        corner: i32,
        /// The number of dimensions.
        rank: usize,
        /// The value must be below it.
        limit: i32,
    },
    /// Corners that leave no place.
    #[error("the corners leave no place along dimension {dimension}: the first is {first}, the last {last}")]
    NoPlace {
        /// The dimension.
        dimension: usize,
        /// The first place.
        first: i64,
        /// The last place.
        last: i64,
    },
    /// A number of channels that is zero or too large.
    #[error("{0} channels per pixel: there must be between 1 and 256")]
    Channels(u32),
    /// A number of pixels that is zero or too large.
    #[error("{0} pixels per column: there must be between 1 and 1024")]
    Pixels(u32),
    /// A step from image to image.
    #[error("element stride {0} of the images must be 1: what another does in im2col mode is documented nowhere")]
    ImageStride(u32),
    /// A field of a map in im2col mode.
    #[error("`tensormap.replace.tile` cannot set fields of a tensor map in im2col mode")]
    ReplacedImages,
    /// Bytes that were not made by [`TensorMap::encode`](super::tensor_map::TensorMap::encode).
    #[error("the 128 bytes at the tensor map's address are no tensor map of this machine, or were altered")]
    NotAMap,
}

crate::message::debug!(TensorMapError);
