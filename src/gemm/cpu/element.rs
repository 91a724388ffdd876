//! Views of tensors in memory: the address of each element.

use std::ops::Range;

use crate::ElementType;
pub(crate) use crate::lane::element::Arithmetic;

/// A tensor's memory: its first element, its type, and its strides.
///
/// Whoever creates a view promises that every element within the extents of the product is inside a live allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) pointer: *mut u8,
    pub(crate) element: ElementType,
    /// Strides in elements: of the batch, then of the two axes.
    pub(crate) strides: [isize; 3],
    /// Where batches are counted by two digits; the batch's stride is that of the lower one.
    pub(crate) batches: Option<Digits>,
    /// A matrix or vector with rows or columns of two digits; a vector has no columns. `strides` has the strides of the
    /// lower digits.
    pub(crate) digits: Option<[Digits; 2]>,
}

/// An axis that is counted by two digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    /// How many values the lower digit has; at least 1.
    pub(crate) extent: usize,
    /// The stride of the upper one, in elements.
    pub(crate) upper: isize,
}

impl Digits {
    /// An axis of one stride.
    pub(crate) const ONE: Self = Self { extent: usize::MAX, upper: 0 };

    /// How far an index is from the first, where the lower digit has this stride.
    fn offset(self, index: usize, lower: isize) -> isize {
        (index / self.extent) as isize * self.upper + (index % self.extent) as isize * lower
    }
}

// SAFETY: a view is an address; the functions that use it are unsafe and say what must hold across threads.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// The address of an element.
    pub(super) fn at(&self, batch: usize, i: usize, j: usize) -> *mut u8 {
        let [b, r, c] = self.strides;
        let within = match self.digits {
            None => i as isize * r + j as isize * c,
            Some([rows, columns]) => rows.offset(i, r) + columns.offset(j, c),
        };
        let of_batch = self.batches.map_or(batch as isize * b, |batches| batches.offset(batch, b));
        self.pointer.wrapping_offset((of_batch + within) * self.element.size() as isize)
    }

    /// The parts of some columns within which they are one stride apart.
    pub(super) fn stretches(&self, columns: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        stretches(columns, self.digits.map_or(Digits::ONE, |[_, columns]| columns))
    }

    /// The parts of some of a vector's values within which they are one stride apart.
    pub(super) fn stretches_of_vector(&self, values: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        stretches(values, self.digits.map_or(Digits::ONE, |[values, _]| values))
    }
}

fn stretches(indices: Range<usize>, digits: Digits) -> impl Iterator<Item = Range<usize>> + use<> {
    let mut start = indices.start;
    std::iter::from_fn(move || {
        let end = (start / digits.extent).saturating_add(1).saturating_mul(digits.extent).min(indices.end);
        let stretch = (start < end).then_some(start..end);
        start = end;
        stretch
    })
}
