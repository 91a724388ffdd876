//! Tensor maps in im2col mode (PTX ISA §5.5.4): one copy reads the same element of a window at many places of images.
//!
//! Dimensions are those of images: channels, then one to three axes (W, H, D), then the images. The corners say where
//! the window may begin: from `lower` to `size - 1 + upper` along each axis. A copy is given where it begins the first
//! time, and the offsets of the window's element. It goes on along W, H, D and the images, by the element strides. At
//! each end it goes back to the lower corner, until it has as many *pixels* as the map says. Each pixel is a row of the
//! box, with the map's number of channels.
//!
//! ```text
//!   W of 5, corners -1 and -1, element stride 2, offset 2        base:      -1   1   3  | -1 ...   (at most 5 - 1 - 1)
//!                                                                read at:    1   3   5* |  1 ...   * outside: zeros
//! ```

use super::tensor_box::BoxRow;
use super::tensor_map::{Common, MAP_BYTES, MAXIMUM_RANK, TensorMap, TensorMapError, exactly};

pub use super::pixel_box::{Im2col, MAXIMUM_AXES, PixelBox, PixelError};

/// Bits of offsets and, with their sign, of corners, for maps of a rank.
const fn corner_bits(rank: usize) -> u32 {
    match rank {
        3 => 16,
        4 => 8,
        _ => 5,
    }
}

impl TensorMap {
    /// Checks the arguments of a map in im2col mode.
    ///
    /// # Errors
    /// The first limit of `cuTensorMapEncodeIm2col` that they break.
    pub fn im2col(map: &Im2col<'_>) -> Result<Self, TensorMapError> {
        let &Im2col { element, address, sizes, strides, element_strides, swizzle, fill, .. } = map;
        let rank = sizes.len();
        if !(3..=MAXIMUM_RANK).contains(&rank) {
            return Err(TensorMapError::ImageRank(rank));
        }
        let plain = Self::without_box(&Common { element, address, sizes, strides, element_strides, swizzle, fill })?;
        let axes = rank - 2;
        exactly("lower corners", map.lower_corner, rank, axes)?;
        exactly("upper corners", map.upper_corner, rank, axes)?;
        let limit = 1 << (corner_bits(rank) - 1);
        let (mut lower, mut upper) = ([0; MAXIMUM_AXES], [0; MAXIMUM_AXES]);
        for axis in 0..axes {
            let dimension = axis + 1;
            for (to, corner) in [(&mut lower, map.lower_corner[axis]), (&mut upper, map.upper_corner[axis])] {
                match i16::try_from(corner) {
                    Ok(small) if (-limit..limit).contains(&corner) => to[axis] = small,
                    _ => return Err(TensorMapError::Corner { dimension, corner, rank, limit }),
                }
            }
            let (first, last) = (i64::from(lower[axis]), sizes[dimension] as i64 - 1 + i64::from(upper[axis]));
            if first > last {
                return Err(TensorMapError::NoPlace { dimension, first, last });
            }
        }
        let (channels, pixels) = (map.channels_per_pixel, map.pixels_per_column);
        if !(1..=256).contains(&channels) {
            return Err(TensorMapError::Channels(channels));
        }
        if !(1..=1024).contains(&pixels) {
            return Err(TensorMapError::Pixels(pixels));
        }
        if element_strides[rank - 1] != 1 {
            return Err(TensorMapError::ImageStride(element_strides[rank - 1]));
        }
        plain.of_pixels(PixelBox { lower, upper, channels, pixels })
    }

    /// [`im2col`](Self::im2col), as the 128 bytes that a kernel takes as its tensor map (it must be aligned to 64 bytes).
    ///
    /// # Errors
    /// The errors of [`im2col`](Self::im2col).
    pub fn encode_im2col(map: &Im2col<'_>) -> Result<[u8; MAP_BYTES], TensorMapError> {
        Ok(Self::im2col(map)?.to_bytes())
    }

    /// The rows of a copy in im2col mode: the channel, where the window begins along each axis, and the image; then the
    /// offset of its element along each axis. None of a map in tiled mode.
    ///
    /// # Errors
    /// [`PixelError`].
    pub fn pixels(&self, coordinates: &[i32], offsets: &[u16]) -> Result<Vec<BoxRow>, PixelError> {
        let Some(pixels) = self.pixel_box() else { return Ok(vec![]) };
        let (rank, axes) = (self.rank(), self.rank() - 2);
        let mut base = [0i64; MAXIMUM_RANK];
        for (to, given) in base.iter_mut().zip(coordinates).take(rank) {
            *to = (*given).into();
        }
        let mut offset = [0i64; MAXIMUM_RANK];
        let mut ends = [(0, 0); MAXIMUM_RANK];
        for axis in 0..axes {
            let dimension = axis + 1;
            let last = self.size(dimension) as i64 - 1 + i64::from(pixels.upper[axis]);
            let (first, given) = (i64::from(pixels.lower[axis]), base[dimension]);
            if !(first..=last).contains(&given) {
                return Err(PixelError::Base { dimension, given, first, last });
            }
            let (given, limit) = (offsets.get(axis).copied().unwrap_or(0), 1 << corner_bits(rank));
            if u32::from(given) >= limit {
                return Err(PixelError::Offset { dimension, given, limit, rank });
            }
            (offset[dimension], ends[dimension]) = (given.into(), (first, last));
        }
        let mut rows = Vec::with_capacity(pixels.pixels as usize);
        for row in 0..pixels.pixels {
            rows.push(self.row_at(row, &std::array::from_fn(|d| base[d] + offset[d])));
            let mut dimension = 1;
            while dimension <= axes {
                base[dimension] += i64::from(self.element_stride(dimension));
                if base[dimension] <= ends[dimension].1 {
                    break;
                }
                base[dimension] = ends[dimension].0;
                dimension += 1;
            }
            if dimension > axes {
                base[rank - 1] += 1;
            }
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::swizzle::Swizzle;
    use super::super::tensor_map::{Fill, MapElement};
    use super::*;
    use proptest::prelude::*;

    fn images<'a>() -> Im2col<'a> {
        Im2col {
            element: MapElement::F16,
            address: 0x1000,
            sizes: &[64, 9, 14, 64],
            strides: &[128, 128 * 9, 128 * 9 * 14],
            lower_corner: &[-1, -1],
            upper_corner: &[-1, -1],
            channels_per_pixel: 8,
            pixels_per_column: 64,
            element_strides: &[1, 1, 1, 1],
            swizzle: Swizzle::None,
            fill: Fill::Zero,
        }
    }

    /// Indices (channel, w, h, image) of each row; `None` outside.
    fn places(map: &TensorMap, coordinates: &[i32], offsets: &[u16]) -> Vec<Option<[u64; 4]>> {
        let index = |address: u64| {
            let at = (address - 0x1000) / 2;
            [at % 64, at / 64 % 9, at / (64 * 9) % 14, at / (64 * 9 * 14)]
        };
        let rows = map.pixels(coordinates, offsets).expect("allowed");
        rows.iter().map(|row| row.inside.map(|inside| index(inside.address))).collect()
    }

    /// The examples of PTX ISA 5.5.4.1: the window of 3x3 with padding, whose base begins at image 7, row 7, column 4.
    #[test]
    fn the_isas_examples() {
        let first = TensorMap::im2col(&images()).expect("a map");
        let found = places(&first, &[0, 4, 7, 7], &[0, 0]);
        assert_eq!(found.len(), 64);
        assert_eq!(found[0], Some([0, 4, 7, 7]));
        assert_eq!(found[3], Some([0, 7, 7, 7]), "the last place is 9 - 1 - 1");
        assert_eq!((found[4], found[5]), (None, Some([0, 0, 8, 7])), "then back to -1, which is outside");
        // Rows 8 to 12 of nine places each, then the next image from row -1 on.
        assert_eq!((found[48], found[49], found[57]), (Some([0, 7, 12, 7]), None, None));
        assert_eq!((found[58], found[59], found[63]), (None, Some([0, 0, 0, 8]), Some([0, 4, 0, 8])));
        let second = Im2col { lower_corner: &[0, 0], upper_corner: &[-2, -2], ..images() };
        let second = TensorMap::im2col(&second).expect("a map");
        let found = places(&second, &[0, 4, 7, 7], &[2, 2]);
        assert_eq!((found[0], found[2], found[3]), (Some([0, 6, 9, 7]), Some([0, 8, 9, 7]), Some([0, 2, 10, 7])));
        // Base rows 8 to 11 of seven places each, then the next image's row 0.
        assert_eq!((found[30], found[31]), (Some([0, 8, 13, 7]), Some([0, 2, 2, 8])));
    }

    /// A step of two (PTX ISA 5.5.4.2): as many pixels, twice as far.
    #[test]
    fn strides_skip_places_and_no_pixels() {
        let map = TensorMap::im2col(&Im2col { element_strides: &[1, 2, 2, 1], ..images() }).expect("a map");
        let found = places(&map, &[0, 5, 7, 7], &[1, 1]);
        assert_eq!(found.len(), 64);
        assert_eq!(found[..4], [Some([0, 6, 8, 7]), Some([0, 8, 8, 7]), Some([0, 0, 10, 7]), Some([0, 2, 10, 7])]);
        // From -1 on, in steps of two: 5 places; rows 9 and 11, then the next image.
        assert_eq!((found[11], found[12]), (Some([0, 8, 12, 7]), Some([0, 0, 0, 8])));
    }

    #[test]
    fn maps_round_trip() {
        for (rank, corner) in [(3, 1 << 15), (4, 1 << 7), (5, 1 << 4)] {
            for element in MapElement::ALL {
                let map = TensorMap::im2col(&Im2col {
                    element,
                    address: 1 << 47,
                    sizes: &[1 << 20; 5][..rank],
                    strides: &[16, 1 << 39, 0, 4096][..rank - 1],
                    lower_corner: &[-corner, corner - 1, 3][..rank - 2],
                    upper_corner: &[corner - 1, -corner, 4][..rank - 2],
                    channels_per_pixel: 16 / element.bytes() as u32,
                    pixels_per_column: 1024,
                    element_strides: &[1, 8, 2, 3, 1][..rank - 1].iter().copied().chain([1]).collect::<Vec<_>>(),
                    swizzle: Swizzle::Bytes32,
                    fill: if element.is_float() { Fill::Nan } else { Fill::Zero },
                });
                let map = map.expect("a map");
                assert_eq!(TensorMap::decode(&map.to_bytes()), Ok(map));
                assert_eq!(map.box_bytes(), 16 * 1024);
            }
        }
        let mut bytes = TensorMap::encode_im2col(&images()).expect("a map");
        let field = super::super::tensor_field::MapField::GlobalAddress;
        let replaced = super::super::tensor_replace::replace(&mut bytes, field, 0x2000);
        assert_eq!(replaced, Err(TensorMapError::ReplacedImages));
    }

    #[test]
    fn every_limit_is_checked() {
        use TensorMapError as E;
        let m = images();
        let far = 1 << 7;
        let cases = [
            (Im2col { sizes: &[64, 9], strides: &[128], element_strides: &[1, 1], ..m }, E::ImageRank(2)),
            (Im2col { sizes: &[1; 6], ..m }, E::ImageRank(6)),
            (Im2col { lower_corner: &[0], ..m }, E::Length { rank: 4, what: "lower corners", expected: 2, given: 1 }),
            (
                Im2col { upper_corner: &[0; 3], ..m },
                E::Length { rank: 4, what: "upper corners", expected: 2, given: 3 },
            ),
            (Im2col { lower_corner: &[0, -129], ..m }, E::Corner { dimension: 2, corner: -129, rank: 4, limit: far }),
            (Im2col { upper_corner: &[128, 0], ..m }, E::Corner { dimension: 1, corner: 128, rank: 4, limit: far }),
            (Im2col { lower_corner: &[8, 0], ..m }, E::NoPlace { dimension: 1, first: 8, last: 7 }),
            (Im2col { channels_per_pixel: 0, ..m }, E::Channels(0)),
            (Im2col { channels_per_pixel: 257, ..m }, E::Channels(257)),
            (Im2col { pixels_per_column: 0, ..m }, E::Pixels(0)),
            (Im2col { pixels_per_column: 1025, ..m }, E::Pixels(1025)),
            (Im2col { element_strides: &[1, 9, 1, 1], ..m }, E::ElementStride { dimension: 1, stride: 9 }),
            (Im2col { element_strides: &[1, 1, 1, 2], ..m }, E::ImageStride(2)),
            (Im2col { channels_per_pixel: 12, ..m }, E::InnerMultiple { bytes: 24 }),
            (
                Im2col { channels_per_pixel: 72, swizzle: Swizzle::Bytes128, ..m },
                E::InnerSwizzle { bytes: 144, limit: 128 },
            ),
            (Im2col { address: 8, ..m }, E::Address(8)),
        ];
        for (map, expected) in cases {
            assert_eq!(TensorMap::im2col(&map), Err(expected));
        }
        let map = TensorMap::im2col(&m).expect("a map");
        let base = |dimension, given, first, last| Err(PixelError::Base { dimension, given, first, last });
        assert_eq!(map.pixels(&[0, -2, 0, 0], &[0, 0]), base(1, -2, -1, 7));
        assert_eq!(map.pixels(&[0, 0, 13, 0], &[0, 0]), base(2, 13, -1, 12));
        let offset = PixelError::Offset { dimension: 2, given: 256, limit: 256, rank: 4 };
        assert_eq!(map.pixels(&[0, 0, 0, 0], &[255, 256]), Err(offset));
        // Channels and images may lie outside.
        assert!(map.pixels(&[-8, 0, 0, 99], &[0, 0]).expect("allowed").iter().all(|row| row.inside.is_none()));
    }

    proptest! {
        /// Every element of a copy, by its definition: a list has the window's places of all images, and the copy takes
        /// some of it from one on.
        #[test]
        fn pixels_are_the_windows_elements(
            rank in 3usize..=5,
            sizes in proptest::collection::vec(1u64..7, 4),
            steps in proptest::collection::vec(1u32..4, 3),
            corners in proptest::collection::vec((-3i32..2, 0i32..4), 3),
            offsets in proptest::collection::vec(0u16..4, 3),
            (channels, first_channel) in (1u64..4, -9i32..20),
            (skipped, count) in (0usize..200, 1u32..90),
        ) {
            let axes = rank - 2;
            let mut of_map = vec![8 * channels];
            of_map.extend(&sizes[..axes + 1]);
            let mut strides = vec![of_map[0] * 2 + 16];
            for d in 1..rank - 1 {
                strides.push(strides[d - 1] * of_map[d]);
            }
            // Corners that leave a place.
            let lower: Vec<i32> = (0..axes).map(|i| corners[i].0).collect();
            let upper: Vec<i32> = (0..axes).map(|i| (corners[i].0 + corners[i].1 + 1 - of_map[i + 1] as i32).max(-15)).collect();
            let possible = (0..axes).all(|i| of_map[i + 1] as i32 - 1 + upper[i] >= lower[i]);
            prop_assume!(possible);
            let mut element_strides = vec![1];
            element_strides.extend(&steps[..axes]);
            element_strides.push(1);
            let map = TensorMap::im2col(&Im2col {
                element: MapElement::U16, address: 0x10000, sizes: &of_map, strides: &strides,
                lower_corner: &lower, upper_corner: &upper, channels_per_pixel: 8, pixels_per_column: count,
                element_strides: &element_strides, swizzle: Swizzle::None, fill: Fill::Zero,
            }).unwrap();
            // All places from the corner on, in order: W fastest.
            let along = |i: usize| -> Vec<i64> {
                let last = of_map[i + 1] as i64 - 1 + i64::from(upper[i]);
                (i64::from(lower[i])..=last).step_by(steps[i] as usize).collect()
            };
            let mut all = vec![];
            for image in 0..of_map[rank - 1] as i64 + 100 {
                for &d in &(if axes > 2 { along(2) } else { vec![0] }) {
                    for &h in &(if axes > 1 { along(1) } else { vec![0] }) {
                        for &w in &along(0) {
                            all.push([w, h, d, image]);
                        }
                    }
                }
            }
            let start = all[skipped % (all.len() / 2).clamp(1, 150)];
            let begin = all.iter().position(|place| *place == start).unwrap();
            let mut coordinates = vec![first_channel];
            coordinates.extend((0..axes).map(|i| start[i] as i32));
            coordinates.push(start[3] as i32);
            let rows = map.pixels(&coordinates, &offsets[..axes]).unwrap();
            prop_assert_eq!(rows.len(), count as usize);
            for (i, row) in rows.iter().enumerate() {
                let Some(place) = all.get(begin + i) else { break };
                for channel in 0..8i64 {
                    let at = i64::from(first_channel) + channel;
                    let mut address = (0..of_map[0] as i64).contains(&at).then_some(0x10000 + 2 * at);
                    for d in 1..rank {
                        let index = if d == rank - 1 { place[3] } else { place[d - 1] + i64::from(offsets[d - 1]) };
                        let inside = (0..of_map[d] as i64).contains(&index);
                        address = address.filter(|_| inside).map(|a| a + index * strides[d - 1] as i64);
                    }
                    let found = row.inside.and_then(|inside| {
                        let byte = (2 * channel as u32).checked_sub(inside.skip)?;
                        (byte < inside.bytes).then_some((inside.address + u64::from(byte)) as i64)
                    });
                    prop_assert_eq!(found, address, "pixel {}, channel {}", i, channel);
                }
            }
        }
    }
}
