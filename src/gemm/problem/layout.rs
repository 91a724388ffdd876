//! The layouts of A and B in memory.

use epilogue_runtime::DeviceTensor;

use super::digits::has_batch_digits;
use super::error::Error;
use super::groups::Grouping;
use crate::ElementType;

/// Which index of an operand is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Major {
    /// K: row-major A, column-major B.
    K,
    /// M or N: column-major A, row-major B.
    Mn,
}

/// How an operand's tiles are copied. A kernel is compiled for one layout of each operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperandLayout {
    /// Which index is contiguous.
    pub major: Major,
    /// Bytes of one copy: 16, 8, 4, or one element. Copies of one element take any strides.
    pub copy_bytes: usize,
}

impl OperandLayout {
    /// A packed operand whose rows begin at multiples of 16 bytes.
    #[must_use]
    pub const fn packed(major: Major) -> Self {
        Self { major, copy_bytes: 16 }
    }

    /// The layout of an A that is divided into groups. If the contiguous axis is divided, a group may begin anywhere,
    /// and elements are copied one by one.
    pub(crate) fn of_a_in_groups(self, grouping: Option<Grouping>, element: ElementType) -> Self {
        match (grouping, self.major) {
            (Some(Grouping::Shared), Major::Mn) | (Some(Grouping::Depth), Major::K) => {
                Self { copy_bytes: element.size(), ..self }
            }
            _ => self,
        }
    }

    /// That of a B, likewise.
    pub(crate) fn of_b_in_groups(self, grouping: Option<Grouping>, element: ElementType) -> Self {
        match (grouping, self.major) {
            (Some(Grouping::Depth), Major::K) => Self { copy_bytes: element.size(), ..self },
            _ => self,
        }
    }

    /// # Errors
    /// [`Error::CopyBytes`].
    pub(crate) fn check(self, operand: &'static str, element: ElementType) -> Result<(), Error> {
        let (given, size) = (self.copy_bytes, element.size());
        if given == size || (given > size && [4, 8, 16].contains(&given)) {
            return Ok(());
        }
        Err(Error::CopyBytes { operand, given, element })
    }
}

/// An operand as a kernel sees it. Strides are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandView {
    /// Address of the first element.
    pub address: u64,
    /// Type of the elements.
    pub element: ElementType,
    /// Extent of M (for A) or N (for B).
    pub outer_extent: usize,
    /// Extent of K.
    pub k_extent: usize,
    /// Extent of the batch.
    pub batch_extent: usize,
    /// Stride along M or N.
    pub outer: isize,
    /// Stride along K.
    pub k: isize,
    /// Stride of the batch; 0 if all batches share the operand.
    pub batch: isize,
}

impl OperandView {
    /// A: `[M, K]` or `[L, M, K]`.
    pub(crate) fn of_a(a: &DeviceTensor) -> Self {
        let axis = a.rank() - 2;
        Self::new(a, axis, axis + 1, None)
    }

    /// B: `[K, N]` or `[L, K, N]`.
    pub(crate) fn of_b(b: &DeviceTensor) -> Self {
        Self::of_b_or_copy(b, None)
    }

    /// [`of_b`](Self::of_b). If B is copied, the copy is contiguous along `copied`, or else as B is.
    pub(crate) fn of_b_or_copy(b: &DeviceTensor, copied: Option<Major>) -> Self {
        let axis = b.rank() - 2;
        Self::new(b, axis + 1, axis, copied)
    }

    fn new(tensor: &DeviceTensor, outer: usize, k: usize, copied: Option<Major>) -> Self {
        let (shape, strides) = (tensor.shape(), tensor.strides());
        if has_batch_digits(tensor) {
            return Self::of_copy(tensor, outer, k, copied);
        }
        let has_batch = tensor.rank() == 3;
        Self {
            address: tensor.device_address(),
            element: tensor.element_type(),
            outer_extent: shape[outer],
            k_extent: shape[k],
            batch_extent: if has_batch { shape[0] } else { 1 },
            outer: strides[outer],
            k: strides[k],
            batch: if has_batch { strides[0] } else { 0 },
        }
    }

    /// The copy that kernels get of an operand whose batch is counted by two digits: contiguous along the axis `major`, or else
    /// along the operand's, in rows of whole 16 bytes.
    fn of_copy(tensor: &DeviceTensor, outer: usize, k: usize, major: Option<Major>) -> Self {
        let (shape, strides, element) = (tensor.shape(), tensor.strides(), tensor.element_type());
        let along_k = major.map_or(strides[k] == 1 || strides[outer] != 1, |major| major == Major::K);
        let (rows, columns) = if along_k { (outer, k) } else { (k, outer) };
        let pitch = shape[columns].next_multiple_of(16 / element.size()).cast_signed();
        Self {
            address: 0,
            element,
            outer_extent: shape[outer],
            k_extent: shape[k],
            batch_extent: shape[0] * shape[1],
            outer: if along_k { pitch } else { 1 },
            k: if along_k { 1 } else { pitch },
            batch: shape[rows].cast_signed().saturating_mul(pitch),
        }
    }

    /// The widest copies that address and strides allow.
    #[must_use]
    pub fn layout(&self) -> OperandLayout {
        let k_major = OperandLayout { major: Major::K, copy_bytes: self.copy_bytes(Major::K) };
        let mn_major = OperandLayout { major: Major::Mn, copy_bytes: self.copy_bytes(Major::Mn) };
        if mn_major.copy_bytes > k_major.copy_bytes { mn_major } else { k_major }
    }

    /// Whether a kernel that is compiled for a layout can take this operand: either it copies single elements, which
    /// works with any strides, or its copies are no wider than address and strides allow.
    #[must_use]
    pub fn fits(&self, layout: OperandLayout) -> bool {
        layout.copy_bytes == self.element.size() || layout.copy_bytes <= self.copy_bytes(layout.major)
    }

    /// The axis along which the operand is contiguous, if it is exactly one; otherwise either major can be used.
    pub(crate) fn only_major(&self) -> Option<Major> {
        let adjacent = |stride: isize, extent: usize| stride == 1 || extent <= 1;
        match (adjacent(self.k, self.k_extent), adjacent(self.outer, self.outer_extent)) {
            (true, false) => Some(Major::K),
            (false, true) => Some(Major::Mn),
            _ => None,
        }
    }

    pub(crate) fn copy_bytes(&self, major: Major) -> usize {
        let size = self.element.size();
        let (contiguous, contiguous_extent, strided, strided_extent) = match major {
            Major::K => (self.k, self.k_extent, self.outer, self.outer_extent),
            Major::Mn => (self.outer, self.outer_extent, self.k, self.k_extent),
        };
        // The stride of an axis with one element is never used.
        let bytes = |stride: isize, extent: usize| if extent > 1 { stride.unsigned_abs() * size } else { 0 };
        let fits = |width: usize| {
            (contiguous == 1 || contiguous_extent <= 1)
                && self.address.is_multiple_of(width as u64)
                && bytes(strided, strided_extent).is_multiple_of(width)
                && bytes(self.batch, self.batch_extent).is_multiple_of(width)
        };
        [16, 8, 4].into_iter().find(|&width| width > size && fits(width)).unwrap_or(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(address: u64, element: ElementType, outer: isize, k: isize, batch: isize) -> OperandView {
        OperandView { address, element, outer_extent: 5, k_extent: 7, batch_extent: 3, outer, k, batch }
    }

    #[test]
    fn the_widest_copy_is_found() {
        let layout = |major, copy_bytes| OperandLayout { major, copy_bytes };
        assert_eq!(view(256, ElementType::F16, 8, 1, 64).layout(), layout(Major::K, 16));
        assert_eq!(view(256, ElementType::F16, 1, 8, 64).layout(), layout(Major::Mn, 16));
        assert_eq!(view(8, ElementType::F16, 8, 1, 64).layout(), layout(Major::K, 8));
        assert_eq!(view(256, ElementType::F16, 6, 1, 64).layout(), layout(Major::K, 4));
        assert_eq!(view(256, ElementType::F16, 7, 1, 64).layout(), layout(Major::K, 2));
        assert_eq!(view(256, ElementType::F16, 8, 1, 63).layout(), layout(Major::K, 2));
        assert_eq!(view(256, ElementType::F16, 16, 2, 64).layout(), layout(Major::K, 2));
        assert_eq!(view(256, ElementType::F64, 7, 1, 63).layout(), layout(Major::K, 8));
        assert_eq!(view(256, ElementType::F64, 8, 1, 64).layout(), layout(Major::K, 16));
        let column = OperandView { k_extent: 1, ..view(256, ElementType::F32, 1, 12, 8) };
        assert_eq!(column.layout(), layout(Major::Mn, 16));
    }

    #[test]
    fn narrower_kernels_take_wider_operands() {
        let aligned = view(256, ElementType::F16, 8, 1, 64);
        let odd = view(256, ElementType::F16, 7, 1, 63);
        let wide = OperandLayout::packed(Major::K);
        let narrow = OperandLayout { major: Major::K, copy_bytes: 4 };
        let single = OperandLayout { major: Major::Mn, copy_bytes: 2 };
        assert!(aligned.fits(wide) && aligned.fits(narrow) && aligned.fits(single));
        assert!(!odd.fits(wide) && !odd.fits(narrow) && odd.fits(single));
        assert!(!aligned.fits(OperandLayout::packed(Major::Mn)));
    }
}
