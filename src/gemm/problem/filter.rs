//! Filters, as a user says them: the B of a convolution.

use epilogue_runtime::DeviceTensor;

use super::error::Error;
use super::patch_error::PatchError;
use super::sliding::MOST_AXES;

/// The filters of a convolution, a view of them as the matrix B.
///
/// [`filter`] makes it.
#[derive(Clone, Debug)]
pub struct Filter {
    matrix: DeviceTensor,
    size: FilterSize,
}

/// How many axes a filter has, and its size along the last of three.
pub(crate) type FilterSize = (usize, [usize; MOST_AXES]);

/// Filters `[K, S, C]`, `[K, R, S, C]` or `[K, T, R, S, C]` as the B of a convolution: a matrix of a filter in each of its K
/// columns. Nothing is copied. A run takes it in place of B, one or an array of them, and refuses one whose size is not the
/// window's.
///
/// # Errors
/// [`PatchError::FilterShape`]; [`PatchError::FilterStrides`] for filters that are no matrix, since something lies between
/// the elements of one.
pub fn filter(filters: &DeviceTensor) -> Result<Filter, Error> {
    let shape = filters.shape();
    let given = || shape.to_vec();
    let axes = shape.len().wrapping_sub(2);
    if !(1..=MOST_AXES).contains(&axes) {
        return Err(PatchError::FilterShape { given: given() }.into());
    }
    let mut size = [1; MOST_AXES];
    size[MOST_AXES - axes..].copy_from_slice(&shape[1..=axes]);
    let elements = shape[1..].iter().product();
    let rows = filters.reshape([shape[0], elements]);
    let rows = rows.map_err(|_| PatchError::FilterStrides { shape: given(), strides: filters.strides().to_vec() })?;
    Ok(Filter { matrix: rows.transpose()?, size: (axes, size) })
}

impl Filter {
    /// The matrix `[R·S·C, K]`: for [`Gemm::pack`](crate::Gemm::pack), or for a part of its columns.
    #[must_use]
    pub const fn matrix(&self) -> &DeviceTensor {
        &self.matrix
    }

    pub(crate) const fn size(&self) -> FilterSize {
        self.size
    }
}
