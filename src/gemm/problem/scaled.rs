//! FP8 operands with a scale for each block of 128 along K.
//!
//! A has a scale for each row and 128 of K, B one for each 128 of K and 128 columns:
//!
//! ```text
//! C[m, n] = Σ over blocks b of K:  (a_scales[m, b] · b_scales[b, n / 128]) · Σ over k in b: A[m, k] · B[k, n]
//! ```
//!
//! The last block along K, and along the columns, may have fewer elements. The product of the two scales is rounded to
//! f32. A block's sum has the bits of an FP8 GEMM without scales. The kernel multiplies it by the scales and adds it to
//! the running sum, with one rounding (two on a CPU without fused multiply-add). The epilogue gets an ordinary
//! accumulator. No block is left out, whatever its scales: 0 times infinity is NaN.

use epilogue_runtime::DeviceTensor;

/// Elements of a block: of K, and of B's columns.
pub(crate) const SCALE_BLOCK: usize = 128;

/// An operand with a scale for each block of it.
///
/// It is of FP8, and so is the other operand, which has scales too. Scales are f32, with any strides:
///
/// | operand | shape | its scales |
/// |---|---|---|
/// | A | `[M, K]` or `[L, M, K]` | `[M, ceil(K / 128)]` or `[L, M, ceil(K / 128)]`: for each row and 128 of K |
/// | B | `[K, N]` or `[L, K, N]` | `[ceil(K / 128), ceil(N / 128)]`, with L in front if B has it: for each 128 by 128 |
///
/// These are the scales of DeepSeek-V3's checkpoints; there, weights `[N, K]` and their scales are both transposed to
/// be a B. Several B have scales each: `[scaled(&gate, &gate_scales), scaled(&up, &up_scales)]`. With groups of rows,
/// it is [`rows(&a).scaled(&a_scales)`](super::Rows::scaled).
///
/// ```
/// use epilogue::gemm::scaled;
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn relu_of_sum(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
///     let d = relu(accum + bias);
///     d
/// }
///
/// let device = Device::cpu();
/// let (a, b) = (device.full([2, 200], f8e4m3::from_f32(1.0))?, device.full([200, 3], f8e4m3::from_f32(2.0))?);
/// let a_scales = device.tensor(&[1f32, 10.0, 0.5, 0.0], [2, 2])?; // of K, the first 128 and the other 72
/// let b_scales = device.tensor(&[0.25f32, 1.0], [2, 1])?;
/// let bias = device.tensor(&[0f32, 100.0, -100.0], [3])?;
///
/// let (left, right) = (scaled(&a, &a_scales), scaled(&b, &b_scales));
/// let gemm = Gemm::plan::<ReluOfSum>(&device, left, right)?;
/// let mut d = device.zeros::<f32>([2, 3])?;
/// gemm.run(left, right, ReluOfSum { bias: &bias, d: &mut d })?;
/// // 256 · 1 · 0.25 + 144 · 10 · 1, and 256 · 0.5 · 0.25 + 144 · 0 · 1
/// assert_eq!(d.to_vec::<f32>()?, [1504.0, 1604.0, 1404.0, 32.0, 132.0, 0.0]);
///
/// let one = gemm.run(left, &b, ReluOfSum { bias: &bias, d: &mut d }).unwrap_err();
/// assert!(one.to_string().starts_with("A has block scales, and B has none: give both"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A scale for each row of A and each column of B alone needs none of this: it is a vector of the epilogue,
/// `accum * row_scale * column_scale`.
///
/// # Accuracy
/// A block's sum is as exact as [`Arithmetic::Exact`](super::Arithmetic::Exact) says. The product of the scales adds
/// one rounding, and so does each block's sum (two on a CPU without fused multiply-add). The
/// [reference](crate::Gemm::reference) takes the scales' product as rounded, and bounds each block. Scales are
/// multiplied as f32s, and subnormal ones keep their bits. A block with a scale of 0 or infinity is not left out: 0
/// times infinity is NaN.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    pub(super) tensor: &'a DeviceTensor,
    pub(super) scales: &'a DeviceTensor,
}

/// An FP8 operand with a scale for each block; see [`Scaled`].
#[must_use]
pub const fn scaled<'a>(operand: &'a DeviceTensor, scales: &'a DeviceTensor) -> Scaled<'a> {
    Scaled { tensor: operand, scales }
}
