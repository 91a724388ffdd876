//! The bytes of global and shared memory that a tensor copy of one box accesses.

use super::tensor_map::{MAXIMUM_RANK, TensorMap};

/// One row of a box: a contiguous run along dimension 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BoxRow {
    /// The start of the row in the box's plain shared-memory image, in bytes. Add the destination address, then apply
    /// the map's swizzle to each 16-byte chunk.
    pub shared_offset: u32,
    /// The row's length in shared memory, a multiple of 16.
    pub bytes: u32,
    /// The part inside the tensor, if any. A load fills the rest, and a store leaves it out.
    pub inside: Option<Inside>,
}

/// The part of a row that is inside the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inside {
    /// Number of bytes of the row before this part.
    pub skip: u32,
    /// Its length in bytes.
    pub bytes: u32,
    /// Its address in global memory.
    pub address: u64,
}

impl TensorMap {
    /// The rows of the box whose corner is at `coordinates` (dimension 0 first; entries beyond the rank are ignored,
    /// missing ones are 0). Coordinates may be negative, or beyond the tensor.
    pub fn rows(&self, coordinates: &[i32]) -> impl Iterator<Item = BoxRow> + '_ {
        let mut corner = [0i64; MAXIMUM_RANK];
        for (c, given) in corner.iter_mut().zip(coordinates).take(self.rank()) {
            *c = (*given).into();
        }
        let count: u32 = (1..self.rank()).map(|d| self.moved(d)).product();
        (0..count).map(move |row| {
            let mut index = row;
            let mut place = corner;
            for (dimension, at) in place.iter_mut().enumerate().take(self.rank()).skip(1) {
                let step = index % self.moved(dimension);
                index /= self.moved(dimension);
                *at += i64::from(step * self.element_stride(dimension));
            }
            self.row_at(row, &place)
        })
    }

    /// Row `row` of a box, whose first element is at these indices.
    pub(super) fn row_at(&self, row: u32, place: &[i64; MAXIMUM_RANK]) -> BoxRow {
        let (element, bytes) = (self.element().bytes() as i64, self.row_bytes());
        let first = place[0].max(0);
        let last = (place[0] + i64::from(bytes) / element).min(self.size(0) as i64);
        let mut address = self.address().wrapping_add_signed(first * element);
        let mut inside = first < last;
        for (dimension, at) in place.iter().enumerate().take(self.rank()).skip(1) {
            inside &= (0..self.size(dimension) as i64).contains(at);
            address = address.wrapping_add((*at as u64).wrapping_mul(self.stride(dimension)));
        }
        let (skip, inner) = (((first - place[0]) * element) as u32, ((last - first) * element) as u32);
        let inside = inside.then_some(Inside { skip, bytes: inner, address });
        BoxRow { shared_offset: row * bytes, bytes, inside }
    }
}

#[cfg(test)]
mod tests {
    use super::super::swizzle::Swizzle;
    use super::super::tensor_map::{Fill, MapElement, Tiled};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every element of a box, by its definition: index by index.
        #[test]
        fn rows_are_the_elements(
            rank in 1usize..=5,
            sizes in proptest::collection::vec(1u64..12, 5),
            steps in proptest::collection::vec(1u32..4, 5),
            boxes in proptest::collection::vec(1u32..5, 5),
            corner in proptest::collection::vec(-6i32..14, 5),
            which in 0usize..10,
        ) {
            let element = MapElement::ALL[which];
            let size = element.bytes();
            let mut sizes = sizes[..rank].to_vec();
            sizes[0] *= 3;
            let mut box_sizes = boxes[..rank].to_vec();
            box_sizes[0] = 16 / size as u32 * box_sizes[0].min(2);
            let mut strides = vec![(sizes[0] * size as u64).next_multiple_of(16)];
            for d in 1..rank {
                strides.push(strides[d - 1] * sizes[d]);
            }
            let map = TensorMap::new(&Tiled {
                element, address: 0x10000, sizes: &sizes, strides: &strides[..rank - 1], box_sizes: &box_sizes,
                element_strides: &steps[..rank], swizzle: Swizzle::None, fill: Fill::Zero,
            }).unwrap();
            // Bytes of the box's image: the global address each comes from.
            let mut image = vec![None; map.box_bytes() as usize];
            let mut covered = 0;
            for row in map.rows(&corner) {
                prop_assert_eq!(row.shared_offset, covered);
                covered += row.bytes;
                if let Some(inside) = row.inside {
                    prop_assert!(inside.skip + inside.bytes <= row.bytes && inside.bytes > 0);
                    for i in 0..inside.bytes {
                        image[(row.shared_offset + inside.skip + i) as usize] = Some(inside.address + u64::from(i));
                    }
                }
            }
            prop_assert_eq!(covered, map.box_bytes());
            for (byte, found) in image.iter().enumerate() {
                let mut index = byte / size;
                let mut address = Some(0x10000 + (byte % size) as u64);
                for d in 0..rank {
                    let step = if d == 0 { 1 } else { steps[d] };
                    let moved = box_sizes[d].div_ceil(step) as usize;
                    let at = i64::from(corner[d]) + (index % moved) as i64 * i64::from(step);
                    index /= moved;
                    let stride = if d == 0 { size as u64 } else { strides[d - 1] };
                    address = address.filter(|_| at >= 0 && (at as u64) < sizes[d]).map(|a| a + at as u64 * stride);
                }
                prop_assert_eq!(*found, address, "byte {}", byte);
            }
        }
    }
}
