//! How the axes of a tensor are read as the rows and columns of a matrix.
//!
//! The axes of a list are the digits of one index, the last the fastest. Neighbouring digits whose strides chain are
//! one digit, so most lists end as one axis, and the view as an ordinary matrix or vector. Else the view has two axes
//! for its rows and two for its columns: a view of rank 4, or of rank 2 if it is a vector. Any of these axes may have
//! one element. The batch in front has one axis or two, whatever rows and columns have. Code that knows nothing of
//! lists sees just that: the tensor with its axes in another order.

use std::fmt;

use smallvec::SmallVec;

use crate::error::LayoutError;
use crate::layout::ViewLayout;

/// The most digits of an index that don't merge.
const MOST: usize = 2;

/// The meaning of a view's axes, as [`DeviceTensor::as_matrix`](crate::DeviceTensor::as_matrix) and its like were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAxes {
    lists: SmallVec<[AxisList; 3]>,
    has_digits: bool,
    batch_axes: usize,
}

/// The axes of a tensor that are one axis of a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisList {
    name: &'static str,
    axes: SmallVec<[usize; 4]>,
    extents: SmallVec<[usize; 4]>,
}

impl AxisList {
    /// `batches`, `rows` or `columns`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The axes of the tensor, the last the fastest.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Their extents.
    #[must_use]
    pub fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// How many elements they have together.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.extents.iter().product()
    }
}

/// `axes [0, 2] have 2·1024 elements`
impl fmt::Display for AxisList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.extents.is_empty() {
            return f.write_str("no axes have 1 element");
        }
        let extents: Vec<String> = self.extents.iter().map(usize::to_string).collect();
        write!(f, "axes {:?} have {} elements", self.axes, extents.join("·"))
    }
}

impl NamedAxes {
    /// The lists: of the batch if there is one, of rows, of columns.
    #[must_use]
    pub fn lists(&self) -> &[AxisList] {
        &self.lists
    }

    /// The extents of the matrix, `[M, N]` or `[L, M, N]`, or of the vector.
    #[must_use]
    pub fn shape(&self) -> Vec<usize> {
        self.lists.iter().map(AxisList::elements).collect()
    }

    /// Whether the view has two axes for its rows and two for its columns, behind that of the batch. (A vector has rows
    /// or columns only.)
    #[must_use]
    pub const fn has_digits(&self) -> bool {
        self.has_digits
    }

    /// How many axes of the view are the batch: none, one, or two that don't merge.
    #[must_use]
    pub const fn batch_axes(&self) -> usize {
        self.batch_axes
    }
}

/// An axis to be: its name, and the tensor's axes.
#[derive(Clone, Copy)]
pub(crate) struct WantedAxis<'a> {
    name: &'static str,
    axes: &'a [usize],
    is_batch: bool,
}

impl<'a> WantedAxis<'a> {
    /// The batch in front.
    pub(crate) const fn batch(axes: &'a [usize]) -> Self {
        Self { name: "batches", axes, is_batch: true }
    }

    /// Rows or columns, which have two axes each if one of them has.
    pub(crate) const fn own(name: &'static str, axes: &'a [usize]) -> Self {
        Self { name, axes, is_batch: false }
    }
}

/// Extent and stride.
type Digit = (usize, isize);

/// The view whose axes are those that are wanted.
pub(crate) fn read(layout: &ViewLayout, wanted: &[WantedAxis<'_>]) -> Result<(ViewLayout, NamedAxes), LayoutError> {
    check_names(layout, wanted)?;
    let merged: SmallVec<[SmallVec<[Digit; 4]>; 3]> = wanted.iter().map(|list| merged(layout, list.axes)).collect();
    for (list, digits) in wanted.iter().zip(&merged) {
        if digits.len() > MOST {
            return Err(LayoutError::Digits {
                name: list.name,
                axes: list.axes.to_vec(),
                extents: digits.iter().map(|(extent, _)| *extent).collect(),
                strides: digits.iter().map(|(_, stride)| *stride).collect(),
                most: MOST,
            });
        }
    }
    let has_digits = wanted.iter().zip(&merged).any(|(list, digits)| !list.is_batch && digits.len() > 1);
    let axes_of = |list: &WantedAxis<'_>, digits: usize| match list.is_batch {
        true => digits.max(1),
        false if has_digits => MOST,
        false => 1,
    };
    let mut view = ViewLayout { shape: SmallVec::new(), strides: SmallVec::new(), offset: layout.offset };
    for (list, digits) in wanted.iter().zip(&merged) {
        let absent = std::iter::repeat_n((1, 0), axes_of(list, digits.len()) - digits.len());
        for (extent, stride) in absent.chain(digits.iter().copied()) {
            view.shape.push(extent);
            view.strides.push(stride);
        }
    }
    let named = |list: &WantedAxis<'_>| AxisList {
        name: list.name,
        axes: list.axes.into(),
        extents: list.axes.iter().map(|axis| layout.shape[*axis]).collect(),
    };
    let of_batch = wanted.iter().zip(&merged).find(|(list, _)| list.is_batch);
    let batch_axes = of_batch.map_or(0, |(list, digits)| axes_of(list, digits.len()));
    Ok((view, NamedAxes { lists: wanted.iter().map(named).collect(), has_digits, batch_axes }))
}

/// Whether every axis is named once.
fn check_names(layout: &ViewLayout, wanted: &[WantedAxis<'_>]) -> Result<(), LayoutError> {
    let mut named: SmallVec<[bool; 8]> = SmallVec::from_elem(false, layout.shape.len());
    let lists = || wanted.iter().map(|list| list.axes.to_vec()).collect();
    for axis in wanted.iter().flat_map(|list| list.axes) {
        match named.get_mut(*axis) {
            None => return Err(LayoutError::Axis { axis: *axis, shape: layout.shape.to_vec() }),
            Some(true) => return Err(LayoutError::AxisTwice { lists: lists(), axis: *axis }),
            Some(named) => *named = true,
        }
    }
    match named.iter().position(|named| !named) {
        Some(axis) => Err(LayoutError::AxisLeftOut { lists: lists(), axis }),
        None => Ok(()),
    }
}

/// The digits of an index, the last the fastest. Digits with one element are left out, and neighbours with chained
/// strides become one.
fn merged(layout: &ViewLayout, axes: &[usize]) -> SmallVec<[Digit; 4]> {
    let mut digits: SmallVec<[Digit; 4]> = SmallVec::new();
    if axes.iter().any(|axis| layout.shape[*axis] == 0) {
        // There is nothing, wherever it is.
        digits.push((0, 1));
        return digits;
    }
    for axis in axes {
        let (extent, stride) = (layout.shape[*axis], layout.strides[*axis]);
        match digits.last_mut() {
            _ if extent == 1 => {}
            // No index of a view is beyond `isize::MAX`, so the product of what is walked isn't either.
            Some(upper) if stride.checked_mul(extent as isize) == Some(upper.1) => *upper = (upper.0 * extent, stride),
            _ => digits.push((extent, stride)),
        }
    }
    digits
}
