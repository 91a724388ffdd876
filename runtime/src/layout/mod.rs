//! Shapes and strides: the part of a tensor that a view changes.

pub(crate) mod axes;
pub(crate) mod element;
pub(crate) mod float8;
pub(crate) mod overlap;
pub(crate) mod strided;

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::error::LayoutError;

/// The positions of a view's elements: extents, strides in elements, and the first element's index in the buffer.
///
/// Strides are never negative. Every index within `shape` stays below `isize::MAX` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewLayout {
    pub(crate) shape: SmallVec<[usize; 4]>,
    pub(crate) strides: SmallVec<[isize; 4]>,
    pub(crate) offset: usize,
}

impl ViewLayout {
    /// The row-major layout without gaps.
    pub(crate) fn packed(shape: &[usize], element_bytes: usize) -> Result<Self, LayoutError> {
        // The strides of an empty tensor are computed as if every extent were at least one, as in NumPy and PyTorch.
        let mut strides: SmallVec<[isize; 4]> = smallvec![0; shape.len()];
        let mut step: usize = 1;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            *stride = step as isize;
            step = step
                .checked_mul(extent.max(1))
                .filter(|n| n.checked_mul(element_bytes).is_some_and(|bytes| isize::try_from(bytes).is_ok()))
                .ok_or_else(|| LayoutError::TooLarge { shape: shape.to_vec() })?;
        }
        Ok(Self { shape: shape.into(), strides, offset: 0 })
    }

    /// A layout with the caller's strides.
    pub(crate) fn strided(shape: &[usize], strides: &[isize], element_bytes: usize) -> Result<Self, LayoutError> {
        if shape.len() != strides.len() {
            return Err(LayoutError::StrideCount { shape: shape.to_vec(), strides: strides.to_vec() });
        }
        if strides.iter().any(|&s| s < 0) {
            return Err(LayoutError::NegativeStride { strides: strides.to_vec() });
        }
        Self::packed(shape, element_bytes)?;
        let layout = Self { shape: shape.into(), strides: strides.into(), offset: 0 };
        let last = shape.iter().zip(strides).try_fold(1usize, |last, (&n, &s)| {
            n.saturating_sub(1).checked_mul(s.unsigned_abs()).and_then(|x| last.checked_add(x))
        });
        last.and_then(|n| n.checked_mul(element_bytes))
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| LayoutError::TooLarge { shape: shape.to_vec() })?;
        Ok(layout)
    }

    /// The strides that these extents have in row-major order without gaps.
    pub(crate) fn packed_strides(&self) -> SmallVec<[isize; 4]> {
        let mut strides: SmallVec<[isize; 4]> = smallvec![1; self.shape.len()];
        for axis in (1..self.shape.len()).rev() {
            strides[axis - 1] = strides[axis] * self.shape[axis].max(1) as isize;
        }
        strides
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// One more than the largest element index of the view, relative to `offset`; 0 for an empty view.
    pub(crate) fn span(&self) -> usize {
        if self.len() == 0 {
            return 0;
        }
        1 + self.shape.iter().zip(&self.strides).map(|(&n, &s)| (n - 1) * s.unsigned_abs()).sum::<usize>()
    }

    /// Whether the elements are consecutive in row-major order.
    pub(crate) fn is_packed(&self) -> bool {
        let mut expected = 1isize;
        for (&extent, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if extent == 0 {
                return true;
            }
            if extent > 1 {
                if stride != expected {
                    return false;
                }
                expected *= extent as isize;
            }
        }
        true
    }

    /// The part `range` of `axis`.
    pub(crate) fn slice(&self, axis: usize, range: Range<usize>) -> Result<Self, LayoutError> {
        let extent = *self.shape.get(axis).ok_or_else(|| self.bad_axis(axis))?;
        if range.start > range.end || range.end > extent {
            return Err(LayoutError::Range { axis, start: range.start, end: range.end, shape: self.shape.to_vec() });
        }
        let mut view = self.clone();
        view.shape[axis] = range.len();
        if !range.is_empty() {
            view.offset += range.start * self.strides[axis].unsigned_abs();
        }
        Ok(view)
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]` of `self`.
    pub(crate) fn permute(&self, order: &[usize]) -> Result<Self, LayoutError> {
        let mut seen: SmallVec<[bool; 4]> = smallvec![false; self.shape.len()];
        let valid = order.len() == seen.len()
            && order.iter().all(|&axis| seen.get_mut(axis).is_some_and(|seen| !std::mem::replace(seen, true)));
        if !valid {
            return Err(LayoutError::Permutation { order: order.to_vec(), shape: self.shape.to_vec() });
        }
        Ok(Self {
            shape: order.iter().map(|&axis| self.shape[axis]).collect(),
            strides: order.iter().map(|&axis| self.strides[axis]).collect(),
            offset: self.offset,
        })
    }

    /// Gives the elements, in row-major order, another shape, if strides can express it.
    pub(crate) fn reshape(&self, shape: &[usize], element_bytes: usize) -> Result<Self, LayoutError> {
        let packed = Self::packed(shape, element_bytes)?;
        if packed.len() != self.len() {
            return Err(LayoutError::ElementCount { from: self.shape.to_vec(), to: shape.to_vec() });
        }
        if self.len() == 0 || self.is_packed() {
            return Ok(Self { offset: self.offset, ..packed });
        }
        let refuse =
            || LayoutError::Reshape { from: self.shape.to_vec(), strides: self.strides.to_vec(), to: shape.to_vec() };
        // Walks both shapes from the outside. Consecutive old axes that have one common step can be cut into any new
        // axes with the same product.
        let old: SmallVec<[(usize, isize); 4]> =
            self.shape.iter().zip(&self.strides).filter(|&(&n, _)| n != 1).map(|(&n, &s)| (n, s)).collect();
        let mut strides: SmallVec<[isize; 4]> = smallvec![0; shape.len()];
        let (mut next_old, mut next_new) = (0, 0);
        while next_old < old.len() {
            let (first_old, first_new) = (next_old, next_new);
            let mut old_count = old[next_old].0;
            let mut new_count = 1;
            next_old += 1;
            loop {
                while new_count < old_count && next_new < shape.len() {
                    new_count *= shape[next_new];
                    next_new += 1;
                }
                if new_count == old_count {
                    break;
                }
                let Some(&(extent, _)) = old.get(next_old) else { return Err(refuse()) };
                old_count *= extent;
                next_old += 1;
            }
            let run = &old[first_old..next_old];
            if run.windows(2).any(|w| w[0].1 != w[1].1 * w[1].0 as isize) {
                return Err(refuse());
            }
            let mut step = run[run.len() - 1].1;
            for axis in (first_new..next_new).rev() {
                strides[axis] = step;
                step = step.saturating_mul(shape[axis] as isize);
            }
        }
        for axis in next_new..shape.len() {
            strides[axis] = 1;
        }
        Ok(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// Repeats axes of extent 1, and adds new axes in front, like NumPy's broadcasting (stride 0).
    pub(crate) fn broadcast_to(&self, shape: &[usize], element_bytes: usize) -> Result<Self, LayoutError> {
        Self::packed(shape, element_bytes)?;
        let refuse = || LayoutError::Broadcast { from: self.shape.to_vec(), to: shape.to_vec() };
        let added = shape.len().checked_sub(self.shape.len()).ok_or_else(refuse)?;
        let mut strides: SmallVec<[isize; 4]> = smallvec![0; shape.len()];
        for (axis, (&extent, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match (extent, shape[added + axis]) {
                (given, wanted) if given == wanted => strides[added + axis] = stride,
                (1, _) => {}
                _ => return Err(refuse()),
            }
        }
        Ok(Self { shape: shape.into(), strides, offset: self.offset })
    }

    /// A new axis of extent 1 in front of `axis`.
    pub(crate) fn unsqueeze(&self, axis: usize) -> Result<Self, LayoutError> {
        if axis > self.shape.len() {
            return Err(self.bad_axis(axis));
        }
        let mut view = self.clone();
        let inner = match (self.shape.get(axis), self.strides.get(axis)) {
            (Some(&extent), Some(&stride)) => stride.saturating_mul(extent.max(1) as isize),
            _ => 1,
        };
        view.shape.insert(axis, 1);
        view.strides.insert(axis, inner);
        Ok(view)
    }

    fn bad_axis(&self, axis: usize) -> LayoutError {
        LayoutError::Axis { axis, shape: self.shape.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::strided::{Axis, each_offset};

    impl ViewLayout {
        /// The index of every element in row-major order, relative to `offset`.
        pub(crate) fn indices(&self) -> Vec<usize> {
            let axis = |(&extent, stride): (&usize, &isize)| Axis { extent, from: stride.unsigned_abs(), to: 0 };
            let axes: Vec<Axis> = self.shape.iter().zip(&self.strides).map(axis).collect();
            let mut all = Vec::new();
            each_offset(&axes, |at, _| all.push(at));
            all
        }
    }

    /// The index of every element in row-major order.
    fn indices(layout: &ViewLayout) -> Vec<usize> {
        layout.indices().into_iter().map(|at| layout.offset + at).collect()
    }

    fn packed(shape: &[usize]) -> ViewLayout {
        ViewLayout::packed(shape, 4).unwrap()
    }

    #[test]
    fn views_address_the_right_elements() {
        let m = packed(&[3, 4]);
        assert_eq!(indices(&m), (0..12).collect::<Vec<_>>());
        assert_eq!(indices(&m.slice(1, 1..3).unwrap()), [1, 2, 5, 6, 9, 10]);
        assert_eq!(indices(&m.permute(&[1, 0]).unwrap()), [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
        assert_eq!(indices(&packed(&[3]).broadcast_to(&[2, 3], 4).unwrap()), [0, 1, 2, 0, 1, 2]);
        assert_eq!(indices(&packed(&[])), [0]);
        assert_eq!(indices(&packed(&[2, 0, 3])), Vec::<usize>::new());
        assert_eq!(packed(&[3]).unsqueeze(1).unwrap().shape.as_slice(), [3, 1]);
    }

    #[test]
    fn reshape_keeps_row_major_order_or_refuses() {
        let sliced = packed(&[4, 6]).slice(1, 0..3).unwrap();
        let cut = sliced.reshape(&[2, 2, 3, 1], 4).unwrap();
        assert_eq!(indices(&cut), indices(&sliced));
        assert!(matches!(sliced.reshape(&[12], 4), Err(LayoutError::Reshape { .. })));
        assert!(matches!(sliced.reshape(&[5], 4), Err(LayoutError::ElementCount { .. })));
        let transposed = packed(&[2, 3, 4]).permute(&[2, 0, 1]).unwrap();
        let joined = transposed.reshape(&[4, 6], 4).unwrap();
        assert_eq!(indices(&joined), indices(&transposed));
        assert!(transposed.reshape(&[8, 3], 4).is_err());
        assert!(transposed.reshape(&[0, 3], 4).is_err());
        // A repeated element stays repeated.
        let repeated = packed(&[1]).broadcast_to(&[6], 4).unwrap();
        assert_eq!(indices(&repeated.reshape(&[2, 3], 4).unwrap()), [0; 6]);
    }

    #[test]
    fn impossible_views_are_refused() {
        let m = packed(&[3, 4]);
        assert!(matches!(m.slice(2, 0..1), Err(LayoutError::Axis { .. })));
        assert!(matches!(m.slice(1, 2..5), Err(LayoutError::Range { .. })));
        assert!(matches!(m.slice(0, Range { start: 2, end: 1 }), Err(LayoutError::Range { .. })));
        assert!(matches!(m.permute(&[0, 0]), Err(LayoutError::Permutation { .. })));
        assert!(matches!(m.permute(&[0]), Err(LayoutError::Permutation { .. })));
        assert!(matches!(m.broadcast_to(&[4], 4), Err(LayoutError::Broadcast { .. })));
        assert!(matches!(m.broadcast_to(&[3, 5], 4), Err(LayoutError::Broadcast { .. })));
        assert!(matches!(m.unsqueeze(3), Err(LayoutError::Axis { .. })));
        assert!(matches!(ViewLayout::packed(&[usize::MAX / 2, 3], 4), Err(LayoutError::TooLarge { .. })));
        assert!(matches!(ViewLayout::packed(&[usize::MAX / 4], 4), Err(LayoutError::TooLarge { .. })));
        assert!(matches!(ViewLayout::strided(&[2, 2], &[1], 4), Err(LayoutError::StrideCount { .. })));
        assert!(matches!(ViewLayout::strided(&[2], &[-1], 4), Err(LayoutError::NegativeStride { .. })));
        assert!(matches!(ViewLayout::strided(&[3], &[isize::MAX / 2], 4), Err(LayoutError::TooLarge { .. })));
    }

    #[test]
    fn spans_and_packing() {
        assert_eq!(packed(&[3, 4]).slice(1, 0..2).unwrap().span(), 10);
        assert!(packed(&[3, 4]).slice(0, 1..3).unwrap().is_packed());
        assert!(!packed(&[3, 4]).slice(1, 0..2).unwrap().is_packed());
        assert!(packed(&[1, 4]).slice(1, 0..2).unwrap().is_packed());
        assert_eq!(packed(&[2, 0]).span(), 0);
    }
}
