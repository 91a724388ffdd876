//! Tensor maps: the 128-byte operands of tensor copies (`cp.async.bulk.tensor`, PTX ISA 9.7.9.27).
//!
//! [`TensorMap::encode`] checks every limit of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object
//! Management"). It gives 128 bytes in a layout of this crate, since the hardware's is not public. A kernel passes the
//! bytes on without reading them, so the same kernel works with both. [`super::tensor_box`] finds the bytes that a box
//! covers. [`super::im2col`] has the other mode of maps.
//!
//! Not supported, and refused: interleaved layouts, and the `_FTZ` and `TFLOAT32` element types, which change the values
//! that are copied.
//!
//! The layout (little-endian): bytes 0–3 `PVTM`; 4 element type; 5 rank; 6 swizzle; 7 fill; 8–15 global address;
//! 16–47 four strides; 48–87 five sizes; 88–97 five 16-bit box sizes; 98–102 five element strides; 103 mode (1:
//! im2col); 104–115 three lower and three upper corners; 116–119 channels and pixels; 120–127 a checksum of the bytes before it.

use super::pixel_box::{Im2col, PixelBox};
use super::swizzle::Swizzle;

pub use super::tensor_element::{Fill, MapElement};
pub use super::tensor_field::MAXIMUM_RANK;
pub use super::tensor_map_error::TensorMapError;

/// Number of bytes of an encoded map.
pub const MAP_BYTES: usize = 128;

/// A tensor in global memory and the box that one copy moves. Dimension 0 is the contiguous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorMap {
    element: MapElement,
    rank: usize,
    address: u64,
    sizes: [u64; MAXIMUM_RANK],
    /// The distance in bytes between successive indices of a dimension; for dimension 0 it is the element's size.
    strides: [u64; MAXIMUM_RANK],
    /// 1 in im2col mode.
    box_sizes: [u32; MAXIMUM_RANK],
    element_strides: [u32; MAXIMUM_RANK],
    swizzle: Swizzle,
    fill: Fill,
    /// In im2col mode, what a copy moves.
    pixels: Option<PixelBox>,
}

/// The arguments of [`TensorMap::encode`], named like those of `cuTensorMapEncodeTiled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiled<'a> {
    /// `tensorDataType`.
    pub element: MapElement,
    /// `globalAddress`.
    pub address: u64,
    /// `globalDim`, one for each dimension.
    pub sizes: &'a [u64],
    /// `globalStrides` in bytes, of dimensions 1 and up.
    pub strides: &'a [u64],
    /// `boxDim`, one for each dimension.
    pub box_sizes: &'a [u32],
    /// `elementStrides`, one for each dimension; that of dimension 0 is ignored.
    pub element_strides: &'a [u32],
    /// `swizzle`.
    pub swizzle: Swizzle,
    /// `oobFill`.
    pub fill: Fill,
}

pub(super) fn exactly<T>(what: &'static str, list: &[T], rank: usize, expected: usize) -> Result<(), TensorMapError> {
    if list.len() == expected {
        Ok(())
    } else {
        Err(TensorMapError::Length { rank, what, expected, given: list.len() })
    }
}

/// The common arguments of maps of both modes.
pub(super) struct Common<'a> {
    pub(super) element: MapElement,
    pub(super) address: u64,
    pub(super) sizes: &'a [u64],
    pub(super) strides: &'a [u64],
    pub(super) element_strides: &'a [u32],
    pub(super) swizzle: Swizzle,
    pub(super) fill: Fill,
}

impl TensorMap {
    /// Checks the arguments.
    ///
    /// # Errors
    /// The first limit of `cuTensorMapEncodeTiled` that they break.
    pub fn new(tiled: &Tiled) -> Result<Self, TensorMapError> {
        let &Tiled { element, address, sizes, strides, box_sizes, element_strides, swizzle, fill } = tiled;
        let rank = sizes.len();
        let mut map = Self::without_box(&Common { element, address, sizes, strides, element_strides, swizzle, fill })?;
        exactly("box sizes", box_sizes, rank, rank)?;
        for (dimension, &size) in box_sizes.iter().enumerate() {
            if !(1..=256).contains(&size) {
                return Err(TensorMapError::Box { dimension, size });
            }
            map.box_sizes[dimension] = size;
        }
        map.check_inner()?;
        Ok(map)
    }

    /// Checks what maps of both modes have. The map has a box of one element.
    pub(super) fn without_box(common: &Common<'_>) -> Result<Self, TensorMapError> {
        let rank = common.sizes.len();
        if !(1..=MAXIMUM_RANK).contains(&rank) {
            return Err(TensorMapError::Rank(rank));
        }
        exactly("strides", common.strides, rank, rank - 1)?;
        exactly("element strides", common.element_strides, rank, rank)?;
        if !common.address.is_multiple_of(16) {
            return Err(TensorMapError::Address(common.address));
        }
        let mut map = TensorMap {
            element: common.element,
            rank,
            address: common.address,
            sizes: [1; MAXIMUM_RANK],
            strides: [0; MAXIMUM_RANK],
            box_sizes: [1; MAXIMUM_RANK],
            element_strides: [1; MAXIMUM_RANK],
            swizzle: common.swizzle,
            fill: common.fill,
            pixels: None,
        };
        map.strides[0] = common.element.bytes() as u64;
        for dimension in 0..rank {
            let size = common.sizes[dimension];
            if !(1..=1 << 32).contains(&size) {
                return Err(TensorMapError::Size { dimension, size });
            }
            map.sizes[dimension] = size;
            if dimension == 0 {
                continue;
            }
            let stride = common.strides[dimension - 1];
            if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                return Err(TensorMapError::Stride { dimension, stride });
            }
            map.strides[dimension] = stride;
            let stride = common.element_strides[dimension];
            if !(1..=8).contains(&stride) {
                return Err(TensorMapError::ElementStride { dimension, stride });
            }
            map.element_strides[dimension] = stride;
        }
        Ok(map)
    }

    /// The map, but copying pixels.
    pub(super) fn of_pixels(self, pixels: PixelBox) -> Result<Self, TensorMapError> {
        let map = Self { pixels: Some(pixels), ..self };
        map.check_inner()?;
        Ok(map)
    }

    fn check_inner(&self) -> Result<(), TensorMapError> {
        let bytes = self.row_bytes() as usize;
        if !bytes.is_multiple_of(16) {
            return Err(TensorMapError::InnerMultiple { bytes });
        }
        let limit = self.swizzle.row_bytes();
        if self.swizzle != Swizzle::None && bytes > limit as usize {
            return Err(TensorMapError::InnerSwizzle { bytes, limit });
        }
        if self.fill == Fill::Nan && !self.element.is_float() {
            return Err(TensorMapError::Fill(self.element));
        }
        Ok(())
    }

    /// Checks the arguments, and gives the 128 bytes that a kernel takes as its tensor map (it must be aligned to 64
    /// bytes).
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn encode(tiled: &Tiled) -> Result<[u8; MAP_BYTES], TensorMapError> {
        Ok(TensorMap::new(tiled)?.to_bytes())
    }

    /// The 128 bytes.
    pub fn to_bytes(&self) -> [u8; MAP_BYTES] {
        Image {
            element: self.element,
            rank: self.rank as u8,
            swizzle: self.swizzle,
            nan_fill: self.fill == Fill::Nan,
            address: self.address,
            strides: std::array::from_fn(|i| self.strides[i + 1]),
            sizes: self.sizes,
            box_sizes: self.box_sizes.map(|size| size as u16),
            element_strides: self.element_strides.map(|stride| stride as u8),
            pixels: self.pixels,
        }
        .to_bytes()
    }

    /// Reads the 128 bytes back.
    ///
    /// [`TensorMapError::NotAMap`] if they were not made by [`encode`](Self::encode) and
    /// [`replace`](super::tensor_replace::replace); otherwise the first limit that the fields break.
    pub fn decode(bytes: &[u8; MAP_BYTES]) -> Result<Self, TensorMapError> {
        if bytes == &[0; MAP_BYTES] {
            return Err(TensorMapError::NotAMap);
        }
        let image = Image::read(bytes)?;
        let rank = usize::from(image.rank);
        if rank == 0 {
            return Err(TensorMapError::Rank(0));
        }
        if let Some(pixels) = image.pixels {
            let axes = rank.saturating_sub(2);
            return TensorMap::im2col(&Im2col {
                element: image.element,
                address: image.address,
                sizes: &image.sizes[..rank],
                strides: &image.strides[..rank - 1],
                lower_corner: &pixels.lower.map(i32::from)[..axes],
                upper_corner: &pixels.upper.map(i32::from)[..axes],
                channels_per_pixel: pixels.channels,
                pixels_per_column: pixels.pixels,
                element_strides: &image.element_strides.map(u32::from)[..rank],
                swizzle: image.swizzle,
                fill: if image.nan_fill { Fill::Nan } else { Fill::Zero },
            });
        }
        TensorMap::new(&Tiled {
            element: image.element,
            address: image.address,
            sizes: &image.sizes[..rank],
            strides: &image.strides[..rank - 1],
            box_sizes: &image.box_sizes.map(u32::from)[..rank],
            element_strides: &image.element_strides.map(u32::from)[..rank],
            swizzle: image.swizzle,
            fill: if image.nan_fill { Fill::Nan } else { Fill::Zero },
        })
    }

    /// The element type.
    pub const fn element(&self) -> MapElement {
        self.element
    }

    /// The number of dimensions.
    pub const fn rank(&self) -> usize {
        self.rank
    }

    /// The tensor's address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Number of elements of the tensor in a dimension; 1 beyond the rank.
    pub fn size(&self, dimension: usize) -> u64 {
        self.sizes.get(dimension).copied().unwrap_or(1)
    }

    /// The distance in bytes between successive indices of a dimension; 0 beyond the rank.
    pub fn stride(&self, dimension: usize) -> u64 {
        self.strides.get(dimension).copied().unwrap_or(0)
    }

    /// Number of elements of the tensor that the box spans in a dimension; 1 beyond the rank.
    pub fn box_size(&self, dimension: usize) -> u32 {
        self.box_sizes.get(dimension).copied().unwrap_or(1)
    }

    /// The step of the box in a dimension; 1 beyond the rank.
    pub fn element_stride(&self, dimension: usize) -> u32 {
        self.element_strides.get(dimension).copied().unwrap_or(1)
    }

    /// Number of elements that the copy moves in a dimension: the box's size divided by the step, rounded up.
    pub fn moved(&self, dimension: usize) -> u32 {
        self.box_size(dimension).div_ceil(self.element_stride(dimension))
    }

    /// The swizzle of the image in shared memory.
    pub const fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// The value of elements outside the tensor.
    pub const fn fill(&self) -> Fill {
        self.fill
    }

    /// The required alignment of the shared-memory address: 128, or the swizzle's period.
    pub fn shared_alignment(&self) -> u32 {
        self.swizzle.atom().max(128)
    }

    /// The pixels and channels of a copy in im2col mode; `None` in tiled mode.
    pub const fn pixel_box(&self) -> Option<PixelBox> {
        self.pixels
    }

    /// The bytes of one row of the box in shared memory.
    pub fn row_bytes(&self) -> u32 {
        self.pixels.map_or(self.box_sizes[0], |pixels| pixels.channels) * self.element.bytes() as u32
    }

    /// The bytes of one box in shared memory, including elements outside the tensor. The copy counts these on its
    /// mbarrier.
    pub fn box_bytes(&self) -> u32 {
        let rows = |pixels: PixelBox| pixels.pixels;
        self.row_bytes() * self.pixels.map_or_else(|| (1..self.rank).map(|d| self.moved(d)).product(), rows)
    }
}

/// The fields of a map as stored in memory, whether or not they are consistent. 128 zeros have fields of zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Image {
    pub(super) element: MapElement,
    /// 0 in a map without a rank.
    pub(super) rank: u8,
    pub(super) swizzle: Swizzle,
    pub(super) nan_fill: bool,
    pub(super) address: u64,
    /// Strides of dimensions 1 and up.
    pub(super) strides: [u64; MAXIMUM_RANK - 1],
    pub(super) sizes: [u64; MAXIMUM_RANK],
    pub(super) box_sizes: [u16; MAXIMUM_RANK],
    pub(super) element_strides: [u8; MAXIMUM_RANK],
    pub(super) pixels: Option<PixelBox>,
}

const MARK: &[u8] = b"PVTM";

impl Image {
    pub(super) fn read(bytes: &[u8; MAP_BYTES]) -> Result<Self, TensorMapError> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let is_map = bytes.starts_with(MARK) && word(120) == checksum(&bytes[..120]);
        let (element, swizzle) = (MapElement::ALL.get(bytes[4] as usize), Swizzle::ALL.get(bytes[6] as usize));
        let (Some(&element), Some(&swizzle), true) = (element, swizzle, is_map || bytes == &[0; MAP_BYTES]) else {
            return Err(TensorMapError::NotAMap);
        };
        Ok(Self {
            element,
            rank: bytes[5].min(MAXIMUM_RANK as u8),
            swizzle,
            nan_fill: bytes[7] == 1,
            address: word(8),
            strides: std::array::from_fn(|i| word(16 + 8 * i)),
            sizes: std::array::from_fn(|i| word(48 + 8 * i)),
            box_sizes: std::array::from_fn(|i| u16::from_le_bytes([bytes[88 + 2 * i], bytes[89 + 2 * i]])),
            element_strides: std::array::from_fn(|i| bytes[98 + i]),
            pixels: (bytes[103] == 1).then(|| PixelBox::read(&bytes[104..120])),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; MAP_BYTES] {
        let mut bytes = [0; MAP_BYTES];
        let mut at = 0;
        let mut put = |source: &[u8]| {
            bytes[at..at + source.len()].copy_from_slice(source);
            at += source.len();
        };
        let code = MapElement::ALL.iter().position(|e| *e == self.element).unwrap_or_default();
        let swizzle = Swizzle::ALL.iter().position(|s| *s == self.swizzle).unwrap_or_default();
        put(MARK);
        put(&[code as u8, self.rank, swizzle as u8, u8::from(self.nan_fill)]);
        put(&self.address.to_le_bytes());
        self.strides.iter().for_each(|stride| put(&stride.to_le_bytes()));
        self.sizes.iter().for_each(|size| put(&size.to_le_bytes()));
        self.box_sizes.iter().for_each(|size| put(&size.to_le_bytes()));
        put(&self.element_strides);
        if let Some(pixels) = self.pixels {
            put(&[1]);
            put(&pixels.to_bytes());
        }
        let checksum = checksum(&bytes[..120]);
        bytes[120..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// FNV-1a, which tells a map from other bytes.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix<'a>() -> Tiled<'a> {
        Tiled {
            element: MapElement::Bf16,
            address: 0x1000,
            sizes: &[1000, 300],
            strides: &[2000],
            box_sizes: &[64, 128],
            element_strides: &[1, 1],
            swizzle: Swizzle::Bytes128,
            fill: Fill::Zero,
        }
    }

    #[test]
    fn maps_round_trip() {
        for swizzle in Swizzle::ALL {
            for element in MapElement::ALL {
                let tiled = Tiled {
                    element,
                    address: 1 << 47,
                    sizes: &[1 << 32, 5, 7, 9, 11],
                    strides: &[16, 1 << 39, 0, 4096],
                    box_sizes: &[16 / element.bytes() as u32, 256, 1, 2, 3],
                    element_strides: &[1, 2, 3, 4, 8],
                    swizzle,
                    fill: if element.is_float() { Fill::Nan } else { Fill::Zero },
                };
                let map = TensorMap::new(&tiled).unwrap();
                assert_eq!(TensorMap::decode(&map.to_bytes()), Ok(map));
                assert_eq!(map.box_bytes(), 16 * 128);
            }
        }
        let map = TensorMap::new(&matrix()).unwrap();
        assert_eq!((map.box_bytes(), map.shared_alignment()), (128 * 128, 1024));
    }

    #[test]
    fn altered_bytes_are_no_map() {
        let bytes = TensorMap::encode(&matrix()).unwrap();
        for i in 0..MAP_BYTES {
            let mut altered = bytes;
            altered[i] ^= 0x10;
            assert_eq!(TensorMap::decode(&altered), Err(TensorMapError::NotAMap), "byte {i}");
        }
        assert_eq!(TensorMap::decode(&[0; MAP_BYTES]), Err(TensorMapError::NotAMap));
    }

    #[test]
    fn every_limit_is_checked() {
        use TensorMapError as E;
        let m = matrix();
        let cases = [
            (Tiled { sizes: &[], ..m }, E::Rank(0)),
            (Tiled { sizes: &[1; 6], ..m }, E::Rank(6)),
            (Tiled { strides: &[], ..m }, E::Length { rank: 2, what: "strides", expected: 1, given: 0 }),
            (Tiled { box_sizes: &[8], ..m }, E::Length { rank: 2, what: "box sizes", expected: 2, given: 1 }),
            (Tiled { address: 0x1008, ..m }, E::Address(0x1008)),
            (Tiled { sizes: &[1000, 0], ..m }, E::Size { dimension: 1, size: 0 }),
            (Tiled { sizes: &[(1 << 32) + 1, 1], ..m }, E::Size { dimension: 0, size: (1 << 32) + 1 }),
            (Tiled { strides: &[2008], ..m }, E::Stride { dimension: 1, stride: 2008 }),
            (Tiled { strides: &[1 << 40], ..m }, E::Stride { dimension: 1, stride: 1 << 40 }),
            (Tiled { box_sizes: &[64, 257], ..m }, E::Box { dimension: 1, size: 257 }),
            (Tiled { box_sizes: &[0, 1], ..m }, E::Box { dimension: 0, size: 0 }),
            (Tiled { element_strides: &[1, 9], ..m }, E::ElementStride { dimension: 1, stride: 9 }),
            (Tiled { box_sizes: &[12, 1], ..m }, E::InnerMultiple { bytes: 24 }),
            (Tiled { box_sizes: &[72, 1], ..m }, E::InnerSwizzle { bytes: 144, limit: 128 }),
            (Tiled { swizzle: Swizzle::Bytes32, box_sizes: &[24, 1], ..m }, E::InnerSwizzle { bytes: 48, limit: 32 }),
            (Tiled { element: MapElement::U16, fill: Fill::Nan, ..m }, E::Fill(MapElement::U16)),
        ];
        for (tiled, expected) in cases {
            assert_eq!(TensorMap::new(&tiled), Err(expected));
        }
        let wide = Tiled { swizzle: Swizzle::None, box_sizes: &[256, 1], ..m };
        assert!(TensorMap::new(&wide).is_ok(), "without a swizzle a row may have 512 bytes");
    }
}
