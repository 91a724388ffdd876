//! A B that was prepacked once for many runs on the CPU.

use std::fmt;

use epilogue_runtime::DeviceTensor;

use super::arithmetic::Arithmetic;
use crate::ElementType;
use crate::simd::lines::Lines;

/// A B that [`Gemm::pack`](crate::Gemm::pack) has packed: weights, which many products read and nothing writes.
///
/// A run takes it in place of the tensor. The result is the same, except for the order of sums if there are few rows.
/// It is a copy: later writes to the tensor do not change it. Every plan on the same device with the same element types
/// and [`Arithmetic`] takes it, with any epilogue and extents.
///
/// ```
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn biased(accum: Accum, bias: RowVector) -> Tensor {
///     let d = accum + bias;
///     d
/// }
///
/// let device = Device::cpu();
/// let weights = device.full::<f32>([64, 32], 0.5)?.transpose()?; // [N, K] in memory, as linear layers have them
/// let bias = device.full::<f32>([64], -1.0)?;
/// let x = device.full::<f32>([128, 32], 1.0)?;
/// let gemm = Gemm::plan::<Biased>(&device, &x, &weights)?;
///
/// let packed = gemm.pack(&weights)?;
/// let mut d = device.zeros::<f32>([128, 64])?;
/// gemm.run(&x, &packed, Biased { bias: &bias, d: &mut d })?;
/// assert!(d.to_vec::<f32>()?.iter().all(|y| *y == 15.0));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// It holds a copy of the matrix `[K, N]`. If this CPU multiplies from panels (with AVX-512: f32, bf16 and 8-bit
/// integers), it also holds the panels: together about twice the matrix's memory. Elements are then summed in the order
/// of K, in parts of 512, whatever the number of rows. A row of f32s or integers has the same bits in every batch.
/// Other GEMMs read the copy, and are as fast as with the tensor.
#[derive(Clone)]
pub struct Packed {
    pub(crate) tensor: DeviceTensor,
    /// The rounded operand, if the plan's arithmetic rounds.
    pub(crate) rounded: Option<DeviceTensor>,
    pub(crate) purpose: Purpose,
    pub(crate) panels: Option<std::sync::Arc<WholePanels>>,
}

impl Packed {
    /// The copy of the tensor, with its shape, and contiguous along the same axis.
    #[must_use]
    pub const fn tensor(&self) -> &DeviceTensor {
        &self.tensor
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, purpose, panels, .. } = self;
        let mut all = f.debug_struct("Packed");
        all.field("tensor", tensor).field("purpose", purpose).field("has_panels", &panels.is_some()).finish()
    }
}

/// The GEMMs that a B is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) a: ElementType,
    pub(crate) b: ElementType,
    pub(crate) arithmetic: Arithmetic,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { a, b, arithmetic } = self;
        write!(f, "{a} by {b} with `Arithmetic::{arithmetic:?}`")
    }
}

/// All panels of B: of every matrix, of every part of K, of all columns.
#[derive(Debug)]
pub(crate) struct WholePanels {
    /// Matrix by matrix; of each, part of K by part of K.
    pub(crate) words: Lines<i32>,
    /// For each panel of bf16s: the bits of its least magnitude, and whether all its elements are finite.
    pub(crate) contents: Vec<(u16, bool)>,
    /// Elements of a word.
    pub(crate) elements: usize,
    /// Whether the first bit of every element is changed.
    pub(crate) flipped: bool,
    /// 1 if all batches share one.
    pub(crate) matrices: usize,
    /// K and N.
    pub(crate) extents: [usize; 2],
}
