//! Groups of channels: convolutions whose filters see some of the images' channels each, as PyTorch's `groups` are.
//!
//! With g groups, filters are `[K, R, S, C / g]`. The first K / g filters see the first C / g channels, the next ones
//! the next, and so on. A convolution with groups is therefore a batch of g products: **the batch is the group**. It
//! has everything that batches of matrices have: tiles, splits of K, several accumulators, phases.
//!
//! | | in memory | of a group |
//! |---|---|---|
//! | A, patches | images `[N, H, W, C]` | M × R·S·C/g: begins C/g channels further than the last group's |
//! | B, filters | a matrix `[R·S·C/g, K]` | R·S·C/g × K/g: the columns after the last group's |
//! | D and its like | a matrix `[M, K]`, or images `[N, P, Q, K]` | M × K/g: likewise |
//! | of each column | `[K]` | K/g: likewise |
//! | of each row | `[M]`, or `[N, P, Q]` | M: the same, or one for each group |
//!
//! All of these are views, made here and in `run/images.rs`; a user's tensors are as without groups. Patches count the
//! channels of one group, and have a stride from group to group ([`Patches::group`](super::patches::Patches::group)),
//! where the loads of a group begin.
//!
//! The gradients have the same form with other channels. For the images' gradient, the outputs' gradient is divided as
//! images are, and the columns are the C channels. Its B is a copy made group by group: a group's rows would otherwise
//! need two strides, for filter positions and for filters. For the filters' gradient, images are divided, columns are
//! the K filters, and rows are the elements of one filter.
//!
//! A reduction that gives one value per row gives one per row and group: `[g, M]`, or `[N, P, Q, g]` with the group in
//! place of the channels. `column()` counts the columns of a group, and `batch()` is the group.
//!
//! **On sm_90a** a box has a k-tile of channels. A box that reaches beyond its group would load channels of the next
//! one. B has zeros for them, but 0 times infinity is NaN. So kernels for sm_90a take groups of whole k-tiles, and
//! kernels for sm_80 take all others. B is a batch of matrices there already, one for each element of the window. A
//! group's filters are further columns of its map, or further elements of the window ([`StepsOfB`]). The outputs'
//! gradient, the B of transposed patches, is an ordinary batch.

use epilogue_runtime::DeviceTensor;

use super::layout::OperandView;
use crate::evt::MOST;

/// The tensor with an axis cut in two: of groups, and of what each of them has. `None` if they don't have equal shares.
pub(crate) fn cut(tensor: &DeviceTensor, axis: usize, groups: usize) -> Option<DeviceTensor> {
    let (before, after) = tensor.shape().split_at(axis);
    let (extent, after) = after.split_first()?;
    let each = extent.checked_div(groups).filter(|each| each * groups == *extent)?;
    tensor.reshape([before, &[groups, each], after].concat()).ok()
}

/// A batch of matrices, one for each group of a matrix's columns; `None` as of [`cut`].
pub(crate) fn of_columns(matrix: &DeviceTensor, groups: usize) -> Option<DeviceTensor> {
    cut(matrix, 1, groups)?.permute(&[1, 0, 2]).ok()
}

/// How a group's boxes of B lie beside the last group's. B is one matrix for each filter position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepsOfB {
    /// Behind its elements of the window.
    Taps,
    /// Behind its columns.
    Columns,
}

impl StepsOfB {
    /// The steps that all B share; `None` if they differ. Without groups, both serve.
    pub(crate) fn of(all_b: &[OperandView]) -> Option<Self> {
        let chained = |b: &OperandView, stride: isize, extent: usize| {
            let is_counted = extent.checked_mul(b.batch_extent).is_some_and(|all| all <= MOST);
            b.batch_extent <= 1 || (is_counted && stride.checked_mul(extent.cast_signed()) == Some(b.batch))
        };
        // One column in each group has no stride, and what is contiguous needs none.
        let by_columns = |b: &OperandView| match b.outer_extent {
            1 => b.batch_extent <= 1 || b.k == 1 || b.batch == 1,
            extent => chained(b, b.outer, extent),
        };
        if all_b.iter().all(|b| chained(b, b.k, b.k_extent)) {
            return Some(Self::Taps);
        }
        all_b.iter().all(by_columns).then_some(Self::Columns)
    }

    /// How far it is from a group to the next: columns, and elements of the window.
    pub(crate) const fn counts(self, columns: usize, taps: usize) -> [usize; 2] {
        match self {
            Self::Columns => [columns, 0],
            Self::Taps => [0, taps],
        }
    }
}
