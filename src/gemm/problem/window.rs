//! A window that slides over images, as users write it.

use epilogue_runtime::DeviceTensor;

use super::operand::Left;
use super::reading::TensorReading;
use super::sliding::{MOST_AXES, PatchMatrix, Sliding};

/// A window that slides over images, along `AXES` axes: 1, 2 or 3.
///
/// ```
/// use epilogue::gemm::{Window, filter, patches};
/// use epilogue::prelude::*;
///
/// /// A convolution with batch normalisation folded into it, the residual and the activation: one launch.
/// #[epilogue]
/// fn bottleneck(accum: Accum, scale: RowVector, bias: RowVector, residual: Tensor) -> Tensor {
///     let y = relu(accum * scale + bias + residual);
///     y
/// }
///
/// let device = Device::cpu();
/// let x = device.full::<f32>([2, 6, 6, 3], 1.0)?; // [N, H, W, C]
/// let w = device.full::<f32>([4, 3, 3, 3], 0.5)?; // [K, R, S, C]: as many filters as y has channels
/// let (scale, bias) = (device.full::<f32>([4], 2.0)?, device.full::<f32>([4], -1.0)?);
/// let residual = device.zeros::<f32>([2, 3, 3, 4])?;
///
/// let window = Window::of([3, 3]).stride([2, 2]).padding([1, 1]);
/// let filter = filter(&w)?;
/// let gemm = Gemm::plan::<Bottleneck>(&device, patches(&x, window), &filter)?;
/// let mut y = device.zeros::<f32>([2, 3, 3, 4])?; // [N, P, Q, K]
/// let (scale, bias, residual) = (&scale, &bias, &residual);
/// gemm.run(patches(&x, window), &filter, Bottleneck { scale, bias, residual, y: &mut y })?;
/// // In the corner the window has 2·2 elements of the image with 3 channels, in the middle 3·3.
/// assert_eq!((y.to_vec::<f32>()?[0], y.to_vec::<f32>()?[4 * 4]), (11.0, 26.0));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// Along an axis, the window for output `p` starts at `p · stride - before`. Its elements are `dilation` apart.
/// Elements outside the image are 0; a weight that is infinite or NaN makes NaN there. There is an output for each
/// position at which the whole window is in the padded image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const AXES: usize> {
    size: [usize; AXES],
    stride: [usize; AXES],
    padding: [(usize, usize); AXES],
    dilation: [usize; AXES],
    groups: usize,
}

impl<const AXES: usize> Window<AXES> {
    /// A window of this many elements along each axis of the image, in its order: `[R, S]` for images of `[H, W]`. It moves
    /// by 1, and there is no padding.
    #[must_use]
    pub const fn of(size: [usize; AXES]) -> Self {
        Self { size, stride: [1; AXES], padding: [(0, 0); AXES], dilation: [1; AXES], groups: 1 }
    }

    /// How far the window moves from one output to the next.
    #[must_use]
    pub const fn stride(self, stride: [usize; AXES]) -> Self {
        Self { stride, ..self }
    }

    /// Zeros on both sides of each axis: this many before it, and as many after it.
    #[must_use]
    pub const fn padding(self, padding: [usize; AXES]) -> Self {
        let (mut sides, mut axis) = ([(0, 0); AXES], 0);
        while axis < AXES {
            sides[axis] = (padding[axis], padding[axis]);
            axis += 1;
        }
        Self { padding: sides, ..self }
    }

    /// Zeros before and after each axis; the two numbers may differ.
    #[must_use]
    pub const fn padding_around(self, padding: [(usize, usize); AXES]) -> Self {
        Self { padding, ..self }
    }

    /// How far neighbours in the window are apart in the image.
    #[must_use]
    pub const fn dilation(self, dilation: [usize; AXES]) -> Self {
        Self { dilation, ..self }
    }

    /// Divides the channels into groups. Each group has its own filters, which read no other channels. Filters are
    /// `[K, R, S, C / groups]`, and the first `K / groups` filters read the first `C / groups` channels. The number of
    /// groups must divide C and K.
    ///
    /// Arguments have the shapes of a convolution without groups. A `Tensor` is `[N, P, Q, K]` or `[M, K]`. A
    /// `RowVector`, and the result of a reduction along `Column`, is `[K]`. A `ColumnVector` that is read is
    /// `[N, P, Q]`.
    ///
    /// The GEMM is a batch with one entry for each group, so the epilogue's columns are one group's columns. A
    /// reduction along `Row` leaves `[N, P, Q, groups]` or `[groups, M]`; one along `All` leaves `[groups]`. With
    /// `Batch` they combine all groups and leave `[N, P, Q]` and one value. `column()` counts a group's columns, and
    /// `batch()` is the group. An argument that a batch may share or have once for each entry (`RowVector`s, scalars)
    /// works for groups too.
    ///
    /// ```
    /// use epilogue::gemm::{Window, filter, patches};
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn layer(accum: Accum, bias: RowVector) -> (Tensor, RowVector) {
    ///     let y = relu(accum + bias);
    ///     let sums = reduction_op(y, Column, Add);
    ///     (y, sums)
    /// }
    ///
    /// let device = Device::cpu();
    /// let x = device.tensor(&[1f32, 10.0, 100.0, 1000.0], [1, 1, 1, 4])?; // [N, H, W, C]
    /// let w = device.full::<f32>([6, 3, 3, 2], 1.0)?; // [K, R, S, C / 2]: three filters for each half of the channels
    /// let bias = device.tensor(&[0f32, 1.0, 2.0, 3.0, 4.0, 5.0], [6])?;
    /// let (mut y, mut sums) = (device.zeros::<f32>([1, 1, 1, 6])?, device.zeros::<f32>([6])?);
    ///
    /// let window = Window::of([3, 3]).padding([1, 1]).groups(2);
    /// let filter = filter(&w)?;
    /// let gemm = Gemm::plan::<Layer>(&device, patches(&x, window), &filter)?;
    /// gemm.run(patches(&x, window), &filter, Layer { bias: &bias, y: &mut y, sums: &mut sums })?;
    /// assert_eq!(y.to_vec::<f32>()?, [11.0, 12.0, 13.0, 1103.0, 1104.0, 1105.0]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// On sm_90a a group needs whole k-tiles of channels (multiples of 64 of 16 bits, of 128 of 8, of 32 of f32; of filters, in the
    /// gradient of images), or kernels for sm_80 serve. Groups of few channels leave most of a GPU's tile unused. Where each has one (*depthwise*), memory is
    /// the limit and tensor cores are of no use: [`te`](crate::te) computes it as a reduction over the window.
    ///
    /// Filters that are [packed](crate::Gemm::pack) are packed as the batch that they are, `[groups, R·S·C/groups,
    /// K/groups]`: `gemm.pack(&w.reshape([groups, k / groups, r * s * c / groups])?.transpose()?)`.
    #[must_use]
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// This window with three axes; leading axes that it lacks are 1.
    pub(super) const fn sliding(self, kind: PatchMatrix) -> Sliding {
        let one = [1; MOST_AXES];
        let mut to = Sliding {
            axes: AXES,
            size: one,
            stride: one,
            before: [0; MOST_AXES],
            after: [0; MOST_AXES],
            dilation: one,
            input_dilation: one,
            groups: self.groups,
            kind,
        };
        let mut axis = 0;
        while axis < AXES && AXES <= MOST_AXES {
            let at = axis + MOST_AXES - AXES;
            to.size[at] = self.size[axis];
            to.stride[at] = self.stride[axis];
            let (before, after) = self.padding[axis];
            (to.before[at], to.after[at]) = (signed(before), signed(after));
            to.dilation[at] = self.dilation[axis];
            axis += 1;
        }
        to
    }
}

/// Numbers beyond any image are refused later, when they are counted.
const fn signed(zeros: usize) -> isize {
    if zeros > isize::MAX.cast_unsigned() { isize::MAX } else { zeros.cast_signed() }
}

/// The patches of images under a window: the A of a convolution. One row holds all channels of the window's elements at
/// one output position. A is `[M, K]`, with M = N·P·Q outputs and K = R·S·C; it is never stored.
///
/// `x` is `[N, W, C]`, `[N, H, W, C]` or `[N, D, H, W, C]`, with any strides; contiguous channels are fastest. B is a
/// [`Filter`](super::filter::Filter), or any matrix `[K, N]`, packed or not. [`Window`] has an example.
///
/// Arguments of the epilogue are those of the matrix GEMM. Arguments with a value for each row may also have the
/// images' shape: `[N, P, Q, K]` for a `Tensor`, `[N, P, Q]` for a `ColumnVector` and for the result of a reduction
/// along `Row`. A `RowVector`, and the result of a reduction along `Column`, has a value for each of the K filters:
/// statistics of batch normalisation come from the convolution's own launch.
///
/// Plans for sm_90a load patches by TMA if TMA can: see [`Unboxed`](super::patch_boxes::Unboxed).
///
/// A window of one element that moves by 1 without padding makes a plain GEMM, if the images' axes merge. It is run as
/// one.
///
/// With [groups](Window::groups) of channels a patch is of one group.
///
/// [`gradient_patches`](super::gradients::gradient_patches) are for the gradient of x (and for transposed convolutions),
/// [`transposed_patches`](super::gradients::transposed_patches) for that of the filters.
#[must_use]
pub const fn patches<const AXES: usize>(x: &DeviceTensor, window: Window<AXES>) -> Left<'_> {
    Left::read(x, TensorReading::Patches(window.sliding(PatchMatrix::Rows)))
}
