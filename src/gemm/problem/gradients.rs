//! The A of a convolution's gradients. Both are products with patches.
//!
//! **Of the images.** The gradient is a convolution of the outputs' gradient, with a mirrored window and mirrored
//! filters. If the window moved by 1, it is an ordinary convolution, and only the padding differs: it may be negative.
//! Its B is a mirrored copy of the filters, made once for each training step. Filters are small, so that is cheaper
//! than a second order of the window's elements in everything that loads B.
//!
//! If the window moved by more than 1, there are zeros between the elements of the outputs' gradient. Finding an
//! element then takes a division, so kernels have a form of their own (`gradient_patches.cuh`). On a GPU
//! these zeros are multiplied, as many as the strides' product less one for each element. Leaving them out would need
//! rows ordered by remainder, which outputs are not. The CPU makes that order for each tile.
//!
//! **Of the filters.** The patches are the columns of A, that is: A is transposed and B is not. So the product has the
//! shape of a filter's matrix, and patches are always A. The stores to `[K, R, S, C]` are strided, but few, since K is
//! long. On sm_90a lanes make them, not TMA.

use epilogue_runtime::DeviceTensor;

use super::operand::Left;
use super::reading::TensorReading;
use super::sliding::{MOST_AXES, PatchMatrix};
use super::window::Window;

/// The A of the gradient of a convolution's images (its *input gradient*, or *data gradient*), or of a transposed
/// convolution (`ConvTranspose`).
///
/// `gradient` is the outputs', `[N, P, Q, K]` (or with one or three axes), with any strides. `window` is the
/// convolution's, with its stride, padding and dilation. `image` has the extents of the images, `[H, W]`; the outputs
/// alone don't tell them if the window moves by more than 1. B is the
/// [`gradient_filter`](super::filter::gradient_filter) of the convolution's filters, or any matrix `[R·S·K, N]`. The
/// GEMM has a row for each element of the images, N·H·W in all, and a column for each channel.
///
/// ```
/// use epilogue::gemm::{Window, filter, gradient_filter, gradient_patches, patches};
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn layer(accum: Accum) -> Tensor<f32> {
///     let y = accum;
///     y
/// }
///
/// /// The gradient of what was before the ReLU that made the images, and the bias' before it: one launch.
/// #[epilogue]
/// fn before_relu(accum: Accum, x: Tensor<f32>) -> (Tensor<f32>, RowVector<f32>) {
///     let dx = if x > 0.0 { accum } else { 0.0 };
///     let bias = reduction_op(dx, Column, Add);
///     (dx, bias)
/// }
///
/// let device = Device::cpu();
/// let x = device.full::<f32>([1, 5, 6, 2], 1.0)?; // [N, H, W, C]
/// let w = device.full::<f32>([3, 3, 3, 2], 0.5)?; // [K, R, S, C]
/// let window = Window::of([3, 3]).stride([2, 2]).padding([1, 1]);
/// let mut y = device.zeros::<f32>([1, 3, 3, 3])?; // [N, P, Q, K]
/// let forward = Gemm::plan::<Layer>(&device, patches(&x, window), &filter(&w)?)?;
/// forward.run(patches(&x, window), &filter(&w)?, Layer { y: &mut y })?;
///
/// let dy = device.full::<f32>([1, 3, 3, 3], 1.0)?;
/// let (a, b) = (gradient_patches(&dy, window, [5, 6]), gradient_filter(&w)?);
/// let (mut dx, mut bias) = (device.zeros::<f32>([1, 5, 6, 2])?, device.zeros::<f32>([2])?);
/// let backward = Gemm::plan::<BeforeRelu>(&device, a, &b)?;
/// backward.run(a, &b, BeforeRelu { x: &x, dx: &mut dx, bias: &mut bias })?;
/// // The window has the corner in one output, its neighbour in two; each by three filters.
/// assert_eq!(dx.to_vec::<f32>()?[..4], [1.5, 1.5, 3.0, 3.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// **As a transposed convolution**, images `[N, P, Q, K]` and filters `[K, R, S, C]` give outputs with C channels.
/// Their extents are any from which the window would make P×Q. (PyTorch's
/// `H = (P − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1`.) The epilogue has the bias and the
/// activation.
///
/// The outputs' gradient is read with zeros around it and, if the window has strides, between its elements. A weight
/// that is infinite or NaN makes NaN from these zeros. GPUs multiply the zeros: with strides, a run takes the time of a
/// convolution that moves by 1 over H×W, by kernels for sm_80 on every GPU. CPUs with AVX-512 skip them if all weights
/// are finite and each filter has whole words of channels, at least eight. Without strides it is a convolution, by the
/// same kernels.
///
/// Arguments may be given as images, `[N, H, W, C]` and `[N, H, W]`, as those of [`patches`](super::window::patches()). With
/// [groups](Window::groups) of channels, B is a [`gradient_filter_in_groups`](super::filter::gradient_filter_in_groups).
#[must_use]
#[doc(alias = "dgrad")]
#[doc(alias = "conv_transpose")]
#[doc(alias = "deconvolution")]
pub const fn gradient_patches<const AXES: usize>(
    gradient: &DeviceTensor,
    window: Window<AXES>,
    image: [usize; AXES],
) -> Left<'_> {
    let (mut extents, mut axis) = ([1; MOST_AXES], 0);
    while axis < AXES && AXES <= MOST_AXES {
        extents[axis + MOST_AXES - AXES] = image[axis];
        axis += 1;
    }
    Left::read(gradient, TensorReading::Patches(window.sliding(PatchMatrix::Gradient(extents))))
}

/// The A of the gradient of a convolution's filters (its *weight gradient*): its [`patches`](super::window::patches())
/// transposed, so a patch is a column.
///
/// `x` and `window` are the convolution's. B is the gradient of its outputs, `[N, P, Q, K]`, or the same as a matrix
/// `[N·P·Q, K]`. The product is `[R·S·C, K]`, as is [`Filter::matrix`](super::filter::Filter::matrix): a filter in each
/// column. A `Tensor` of the epilogue may also be given as the filters that it is, `[K, R, S, C]`; a `ColumnVector` as
/// `[R, S, C]`. With [groups](Window::groups) of channels the product is a batch of one for each, and filters are
/// `[K, R, S, C / groups]`. K is long here and the result small, so on GPUs K is shared by split-K or stream-K.
///
/// Kernels for sm_90a take images of 16 bits whose groups have multiples of 64 channels: then 64 neighbouring rows
/// belong to one filter position.
///
/// ```
/// use epilogue::gemm::{Window, transposed_patches};
/// use epilogue::prelude::*;
///
/// /// A step of gradient descent with weight decay, in place: the gradient itself is never in memory.
/// #[epilogue]
/// fn step(accum: Accum, w: TensorMut<f32>, rate: Scalar, decay: Scalar) -> Tensor<f32> {
///     w -= rate * (accum + decay * w);
///     w
/// }
///
/// let device = Device::cpu();
/// let x = device.full::<f32>([2, 5, 6, 4], 1.0)?; // [N, H, W, C]
/// let dy = device.full::<f32>([2, 5, 6, 8], 0.25)?; // [N, P, Q, K]
/// let mut w = device.full::<f32>([8, 3, 3, 4], 2.0)?; // [K, R, S, C]
/// let window = Window::of([3, 3]).padding([1, 1]);
/// let gemm = Gemm::plan::<Step>(&device, transposed_patches(&x, window), &dy)?;
/// gemm.run(transposed_patches(&x, window), &dy, Step { w: &mut w, rate: 0.1, decay: 0.5 })?;
/// // The middle of the window has every element of two images of 5×6.
/// let middle = w.slice(0, 0..1)?.slice(1, 1..2)?.slice(2, 1..2)?.to_vec::<f32>()?;
/// assert!(middle.iter().all(|w| (w - (2.0 - 0.1 * (60.0 * 0.25 + 0.5 * 2.0))).abs() < 1e-6));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// The gradient of the bias is a sum of the outputs' gradient: a reduction along `Column` of the epilogue that computes that.
#[must_use]
#[doc(alias = "wgrad")]
pub const fn transposed_patches<const AXES: usize>(x: &DeviceTensor, window: Window<AXES>) -> Left<'_> {
    Left::read(x, TensorReading::Patches(window.sliding(PatchMatrix::Columns)))
}
