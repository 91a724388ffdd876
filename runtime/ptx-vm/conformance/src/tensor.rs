//! Tensors in the input buffer of a case, for tensor copies.

use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::MapElement;

/// A tensor that starts at the input or the output buffer, and a box of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorCase {
    /// The type of its elements.
    pub element: MapElement,
    /// Whether it is in the output buffer.
    pub over_output: bool,
    /// The number of dimensions.
    pub rank: usize,
    /// Number of elements in each dimension.
    pub sizes: [u64; 5],
    /// The distance in bytes between successive indices of dimensions 1 and up.
    pub strides: [u64; 4],
    /// The box.
    pub box_sizes: [u32; 5],
    /// The swizzle.
    pub swizzle: Swizzle,
}

impl TensorCase {
    /// A tensor of 16-bit integers in the input buffer, whose rows are padded to 16 bytes.
    pub fn new(sizes: &[u64], box_sizes: &[u32], swizzle: Swizzle) -> Self {
        Self::of(MapElement::U16, sizes, box_sizes, swizzle)
    }

    /// A tensor of any type in the input buffer, whose rows are padded to 16 bytes.
    pub fn of(element: MapElement, sizes: &[u64], box_sizes: &[u32], swizzle: Swizzle) -> Self {
        let mut case = TensorCase {
            element,
            over_output: false,
            rank: sizes.len(),
            sizes: [1; 5],
            strides: [0; 4],
            box_sizes: [1; 5],
            swizzle,
        };
        case.sizes[..sizes.len()].copy_from_slice(sizes);
        case.box_sizes[..sizes.len()].copy_from_slice(box_sizes);
        let mut stride = (element.bytes() as u64 * sizes[0]).next_multiple_of(16);
        for (place, size) in case.strides.iter_mut().zip(&sizes[1..]) {
            *place = stride;
            stride *= size;
        }
        case
    }

    /// Number of bytes of the tensor.
    pub fn bytes(&self) -> usize {
        let last = self.rank - 1;
        if last == 0 {
            (self.element.bytes() as u64 * self.sizes[0]).next_multiple_of(16) as usize
        } else {
            (self.strides[last - 1] * self.sizes[last]) as usize
        }
    }

    /// Number of bytes of the box.
    pub fn box_bytes(&self) -> usize {
        self.element.bytes() * self.box_sizes[..self.rank].iter().product::<u32>() as usize
    }

    /// For each element of the box in its plain order, its byte offset in the tensor; `None` outside.
    pub fn elements(&self, corner: &[i64]) -> Vec<Option<usize>> {
        (0..self.box_bytes() / self.element.bytes())
            .map(|element| {
                let mut index = element as i64;
                let mut offset = 0;
                for (dimension, start) in corner.iter().enumerate().take(self.rank) {
                    let size = i64::from(self.box_sizes[dimension]);
                    let at = start + index % size;
                    index /= size;
                    if at < 0 || at >= self.sizes[dimension] as i64 {
                        return None;
                    }
                    let stride =
                        if dimension == 0 { self.element.bytes() as i64 } else { self.strides[dimension - 1] as i64 };
                    offset += at * stride;
                }
                Some(offset as usize)
            })
            .collect()
    }
}
