//! The filters of a convolution, as its B.
//!
//! Window and filter both say the window's size, and the two are compared. A plain matrix would not do: as a matrix, a
//! filter `[K, 1, 7, C]` looks like `[K, 7, 1, C]`. So filters have a type of their own, and A alone decides that the
//! product is a convolution.

use epilogue_runtime::DeviceTensor;

use super::channels::cut;
use super::error::Error;
use super::patch_error::PatchError;
use super::sliding::MOST_AXES;

/// The filters of a convolution as the matrix B.
///
/// [`filter`] makes it for a convolution, [`gradient_filter`] for the gradient of its images. With
/// [groups](super::window::Window::groups) of channels, [`filter`] and [`gradient_filter_in_groups`] do.
#[derive(Clone, Debug)]
pub struct Filter {
    matrix: DeviceTensor,
    size: FilterSize,
}

/// How many axes a filter has, its size along the last of three, and what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterSize {
    pub(crate) axes: usize,
    pub(crate) size: [usize; MOST_AXES],
    /// The number of groups that a gradient's filter is laid out for. That filter is mirrored, and has the number of
    /// filters in place of the channels.
    pub(crate) gradient_groups: Option<usize>,
}

impl FilterSize {
    /// # Errors
    /// [`PatchError::FilterShape`].
    fn of(filters: &DeviceTensor, gradient_groups: Option<usize>) -> Result<Self, Error> {
        let shape = filters.shape();
        let axes = shape.len().wrapping_sub(2);
        if !(1..=MOST_AXES).contains(&axes) {
            return Err(PatchError::FilterShape { given: shape.to_vec() }.into());
        }
        let mut size = [1; MOST_AXES];
        size[MOST_AXES - axes..].copy_from_slice(&shape[1..=axes]);
        Ok(Self { axes, size, gradient_groups })
    }
}

/// Filters `[K, S, C]`, `[K, R, S, C]` or `[K, T, R, S, C]` as the B of a convolution: a matrix of a filter in each of its K
/// columns. Nothing is copied. A run takes it in place of B, one or an array of them, and refuses one whose size is not the
/// window's.
///
/// # Errors
/// [`PatchError::FilterShape`]; [`PatchError::FilterStrides`] for filters that are no matrix, since something lies between
/// the elements of one.
pub fn filter(filters: &DeviceTensor) -> Result<Filter, Error> {
    let size = FilterSize::of(filters, None)?;
    let shape = filters.shape();
    let rows = filters.reshape([shape[0], shape[1..].iter().product()]);
    let (given, strides) = (|| shape.to_vec(), || filters.strides().to_vec());
    let rows = rows.map_err(|_| PatchError::FilterStrides { shape: given(), strides: strides() })?;
    Ok(Filter { matrix: rows.transpose()?, size })
}

/// Filters as the B of the gradient of a convolution's images, or of a transposed convolution: a matrix `[R·S·K, C]`
/// with the window mirrored along every axis. It goes with [`gradient_patches`](super::gradients::gradient_patches),
/// which has an example.
///
/// It is a copy, made by R·S small copies on the device's default stream; the filters may have any strides. Make it
/// anew when the filters have changed.
///
/// # Errors
/// [`PatchError::FilterShape`]; no memory for the copy.
pub fn gradient_filter(filters: &DeviceTensor) -> Result<Filter, Error> {
    gradient_filter_in_groups(filters, 1)
}

/// Like [`gradient_filter`], for a convolution with [groups](super::window::Window::groups) of channels: a batch of
/// matrices, `[groups, R·S·K/groups, C/groups]`.
///
/// # Errors
/// As [`gradient_filter`]; [`PatchError::Shares`] if the groups don't have equally many filters.
pub fn gradient_filter_in_groups(filters: &DeviceTensor, groups: usize) -> Result<Filter, Error> {
    let size = FilterSize::of(filters, Some(groups))?;
    let (shape, axes) = (filters.shape(), size.axes);
    let uneven = || PatchError::Shares { b: shape.to_vec(), count: shape[0], what: "filters", groups };
    let filters = cut(filters, 0, groups).ok_or_else(uneven)?;
    let order: Vec<usize> = std::iter::once(0).chain(2..=axes + 1).chain([1, axes + 2]).collect();
    let taps = filters.permute(&order)?; // [groups, R, S, K/groups, C/groups]
    let mirrored = filters.device().zeros_of(filters.element_type(), taps.shape())?;
    let count: usize = taps.shape()[1..=axes].iter().product();
    for number in 0..count {
        let (mut rest, mut from, mut to) = (number, taps.clone(), mirrored.clone());
        for axis in 1..=axes {
            let extent = taps.shape()[axis];
            let (at, other) = (rest % extent, extent - 1 - rest % extent);
            rest /= extent;
            from = from.slice(axis, at..at + 1)?;
            to = to.slice(axis, other..other + 1)?;
        }
        to.copy_from_tensor(&from)?;
    }
    let [of_filters, channels] = [taps.shape()[axes + 1], taps.shape()[axes + 2]];
    let of_group = [count * of_filters, channels];
    let matrix =
        if groups == 1 { mirrored.reshape(of_group) } else { mirrored.reshape([groups, of_group[0], channels]) };
    Ok(Filter { matrix: matrix?, size })
}

impl Filter {
    /// The matrix `[R·S·C, K]`: for [`Gemm::pack`](crate::Gemm::pack), or for a part of its columns. A
    /// [gradient's](gradient_filter) matrix is `[R·S·K, C]`, or one for each group.
    #[must_use]
    pub const fn matrix(&self) -> &DeviceTensor {
        &self.matrix
    }

    pub(crate) const fn size(&self) -> FilterSize {
        self.size
    }
}
