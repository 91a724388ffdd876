//! A B that was prepacked once for many runs on the CPU.

use std::fmt;
use std::sync::Arc;

use epilogue_runtime::DeviceTensor;

use super::arithmetic::Arithmetic;
use super::format::Format;
use super::quantized::Quantized;
use super::weight_panels::WeightPanels;
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
///
/// [Quantised](Quantized) weights are packed as they are, a code in 4 or 8 bits, and nothing else is kept. Columns are
/// filled up to a multiple of 16, and K to a multiple of 8 (of 4 if codes have 8 bits).
#[derive(Clone)]
pub struct Packed {
    pub(crate) contents: Contents,
    pub(crate) purpose: Purpose,
}

/// The packed operand, and its order.
#[derive(Clone)]
pub(crate) enum Contents {
    /// A copy of a tensor.
    Tensor(Box<PackedTensor>),
    /// Quantised weights.
    Weights(Box<WeightPanels>),
}

/// A copy of a tensor, and its panels.
#[derive(Clone)]
pub(crate) struct PackedTensor {
    pub(crate) tensor: DeviceTensor,
    /// The rounded operand, if the plan's arithmetic rounds.
    pub(crate) rounded: Option<DeviceTensor>,
    pub(crate) panels: Option<Arc<WholePanels>>,
}

impl Packed {
    /// The copy of the tensor, with its shape, and contiguous along the same axis. For quantised weights,
    /// these are the codes in the device's order.
    #[must_use]
    pub const fn tensor(&self) -> &DeviceTensor {
        match &self.contents {
            Contents::Tensor(of) => &of.tensor,
            Contents::Weights(weights) => &weights.codes,
        }
    }

    /// The panels of a tensor, if this CPU multiplies from panels.
    pub(crate) fn panels(&self) -> Option<&WholePanels> {
        match &self.contents {
            Contents::Tensor(of) => of.panels.as_deref(),
            Contents::Weights(_) => None,
        }
    }

    /// The rounded tensor, if the plan's arithmetic rounds.
    pub(crate) const fn rounded(&self) -> Option<&DeviceTensor> {
        match &self.contents {
            Contents::Tensor(of) => of.rounded.as_ref(),
            Contents::Weights(_) => None,
        }
    }

    /// The bytes that it keeps in memory.
    ///
    /// ```
    /// use epilogue::gemm::{CodeType, quantized};
    /// use epilogue::prelude::*;
    ///
    /// #[epilogue]
    /// fn plain(accum: Accum) -> Tensor {
    ///     accum
    /// }
    ///
    /// let device = Device::cpu();
    /// let (codes, scales) = (device.zeros::<u8>([64, 128])?, device.zeros::<f16>([64, 8])?);
    /// let weights = quantized(CodeType::Int4, &codes, &scales).group(32);
    /// let gemm = Gemm::plan::<Plain>(&device, &device.zeros::<f32>([1, 256])?, weights)?;
    /// assert_eq!(gemm.pack(weights)?.bytes(), 64 * 128 + 2 * 64 * 8);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |tensor: &DeviceTensor| tensor.len() * tensor.element_type().size();
        match &self.contents {
            Contents::Tensor(packed) => {
                let PackedTensor { tensor, rounded, panels } = &**packed;
                let panels = panels.as_ref().map_or(0, |panels| size_of_val::<[i32]>(&panels.words));
                of(tensor) + rounded.as_ref().map_or(0, of) + panels
            }
            Contents::Weights(weights) => {
                let WeightPanels { codes, scales, zero_points, .. } = &**weights;
                of(codes) + of(scales) + zero_points.as_ref().map_or(0, of)
            }
        }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Packed");
        match &self.contents {
            Contents::Tensor(of) => {
                all.field("tensor", &of.tensor).field("has_panels", &of.panels.is_some());
            }
            Contents::Weights(weights) => {
                all.field("weights", weights);
            }
        }
        all.field("purpose", &self.purpose).finish()
    }
}

/// A B that [`Gemm::pack`](crate::Gemm::pack) can pack: a tensor, or quantised weights. `&b` and
/// [`quantized(…)`](super::quantized::quantized) both work for an `impl Into<Unpacked>`.
#[derive(Clone, Copy, Debug)]
pub enum Unpacked<'a> {
    /// A tensor `[K, N]` or `[L, K, N]`.
    Tensor(&'a DeviceTensor),
    /// Quantised weights.
    Weights(Quantized<'a>),
}

impl<'a> Unpacked<'a> {
    /// The shape of the tensor, or of the tensor of codes.
    #[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "a span has it"))]
    pub(crate) fn shape(&self) -> &'a [usize] {
        match self {
            Self::Tensor(tensor) => tensor.shape(),
            Self::Weights(weights) => weights.tensor().shape(),
        }
    }
}

impl<'a> From<&'a DeviceTensor> for Unpacked<'a> {
    fn from(tensor: &'a DeviceTensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl<'a> From<&&'a DeviceTensor> for Unpacked<'a> {
    fn from(tensor: &&'a DeviceTensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl<'a> From<Quantized<'a>> for Unpacked<'a> {
    fn from(weights: Quantized<'a>) -> Self {
        Self::Weights(weights)
    }
}

/// The GEMMs that a B is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) a: ElementType,
    pub(crate) b: ElementType,
    pub(crate) format: Format,
    pub(crate) arithmetic: Arithmetic,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { a, b, format, arithmetic } = self;
        match format {
            Format::Quantized(quantization) => write!(f, "{a} by weights of {quantization}")?,
            Format::Plain | Format::Scaled => write!(f, "{a} by {b}")?,
        }
        write!(f, " with `Arithmetic::{arithmetic:?}`")
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
