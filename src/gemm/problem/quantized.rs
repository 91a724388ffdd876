//! A B of quantised weights, as checkpoints hold them.

use epilogue_runtime::DeviceTensor;

use super::digits::{has_digits, shape_of};
use super::error::Error;
use super::format_error::FormatError;
use super::quantization::{CodeType, Quantization, ZeroPoints};
use super::weight_values::{WeightExtents, WeightOrder, WeightValues};
use crate::ElementType;
use crate::evt::reference;

/// A B of quantised weights: codes of 4 or 8 bits, with a scale for each column and group of K.
///
/// Every tensor has a row for each column of B (for each output feature), as weights lie in checkpoints:
///
/// | tensor | shape | element type |
/// |---|---|---|
/// | codes of 4 bits | `[N, ceil(K / 2)]`; byte `j` has code `2j` in its low half, and `2j + 1` in its high half | u8 |
/// | codes of 8 bits | `[N, K]` | i8 or u8 |
/// | scales | `[N, ceil(K / group)]` | f16, bf16 or f32 |
/// | zero points | `[N, ceil(K / group)]`, a code each | u8 |
///
/// All may have a batch axis in front, and any strides. B is the matrix `[K, N]` of `scale · (code - zero point)`. If a
/// group doesn't divide K, the last group is shorter. Zero points are for unsigned codes.
///
/// ```
/// use epilogue::gemm::{CodeType, quantized};
/// use epilogue::prelude::*;
///
/// #[epilogue]
/// fn relu_of_sum(accum: Accum, bias: RowVector) -> Tensor {
///     let d = relu(accum + bias);
///     d
/// }
///
/// let device = Device::cpu();
/// // 3 output features of K = 32; all codes are 9, so that weights are scale · (9 - 8).
/// let codes = device.full::<u8>([3, 16], 0x99)?;
/// let scales = device.tensor(&[f16::from_f32(0.5), f16::from_f32(-0.5), f16::from_f32(2.0)], [3, 1])?;
/// let weights = quantized(CodeType::Uint4, &codes, &scales).group(32).zero_point(8);
///
/// let (x, bias) = (device.full::<f32>([2, 32], 1.0)?, device.full::<f32>([3], 1.0)?);
/// let gemm = Gemm::plan::<ReluOfSum>(&device, &x, weights)?;
/// let packed = gemm.pack(weights)?; // once, for many runs
/// let mut d = device.zeros::<f32>([2, 3])?;
/// gemm.run(&x, &packed, ReluOfSum { bias: &bias, d: &mut d })?;
/// assert_eq!(d.to_vec::<f32>()?, [17.0, 0.0, 65.0, 17.0, 0.0, 65.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Running
/// [`pack`](crate::Gemm::pack) repacks weights into the order in which the device reads them. A run with weights that
/// aren't packed packs them first, each time. Several accumulators take several weights: `[gate, up]`, or
/// `[&packed_gate, &packed_up]`. GPUs don't multiply them yet: [`dequantized`](Self::dequantized) gives a tensor.
///
/// # Accuracy
/// With [`Arithmetic::Exact`](super::Arithmetic::Exact), a weight is exact or rounded once to A's element type; products
/// are summed in f32. Scales that are infinite or NaN give what these weights give. With
/// [`Arithmetic::Int8Activations`](super::Arithmetic::Int8Activations), A is quantised, too.
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    codes: CodeType,
    tensor: &'a DeviceTensor,
    scales: &'a DeviceTensor,
    zero_points: GivenZeroPoints<'a>,
    group: Option<usize>,
    depth: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum GivenZeroPoints<'a> {
    None,
    One(u8),
    Each(&'a DeviceTensor),
}

/// Quantised weights with a scale for each column; see [`Quantized`].
#[must_use]
pub const fn quantized<'a>(codes: CodeType, tensor: &'a DeviceTensor, scales: &'a DeviceTensor) -> Quantized<'a> {
    Quantized { codes, tensor, scales, zero_points: GivenZeroPoints::None, group: None, depth: None }
}

impl<'a> Quantized<'a> {
    /// The number of codes along K that share a scale: a multiple of 16, as 32, 64 or 128. By default all of K do.
    #[must_use]
    pub const fn group(self, codes: usize) -> Self {
        Self { group: Some(codes), ..self }
    }

    /// K. By default all codes of a row count; with 4 bits, an odd K leaves out the last one.
    #[must_use]
    pub const fn depth(self, k: usize) -> Self {
        Self { depth: Some(k), ..self }
    }

    /// One zero point for all codes, as 8 for symmetric weights of [`CodeType::Uint4`].
    #[must_use]
    pub const fn zero_point(self, zero: u8) -> Self {
        Self { zero_points: GivenZeroPoints::One(zero), ..self }
    }

    /// A zero point for each column and group.
    #[must_use]
    pub const fn zero_points(self, zero_points: &'a DeviceTensor) -> Self {
        Self { zero_points: GivenZeroPoints::Each(zero_points), ..self }
    }

    /// How they are quantised.
    #[must_use]
    pub fn quantization(&self) -> Quantization {
        let zero_points = match self.zero_points {
            GivenZeroPoints::None => ZeroPoints::None,
            GivenZeroPoints::One(zero) => ZeroPoints::One(zero),
            GivenZeroPoints::Each(_) => ZeroPoints::Each,
        };
        Quantization { codes: self.codes, scales: self.scales.element_type(), zero_points, group: self.group }
    }

    /// The weights as a tensor `[K, N]` or `[L, K, N]`, contiguous along K, each rounded once to the element type: for
    /// devices that don't multiply codes.
    ///
    /// # Errors
    /// As [`Gemm::plan`](crate::Gemm::plan) for the tensors' types and shapes; a tensor that can't be read; too little
    /// memory.
    pub fn dequantized(&self, element: ElementType) -> Result<DeviceTensor, Error> {
        let values = self.values()?;
        let WeightExtents { batch, k, n } = values.extents;
        let mut bytes = Vec::with_capacity(batch.unwrap_or(1) * n * k * element.size());
        for (matrix, column) in (0..batch.unwrap_or(1)).flat_map(|matrix| (0..n).map(move |column| (matrix, column))) {
            let row: Vec<f64> = (0..k).map(|k| values.weight(matrix, k, column)).collect();
            bytes.extend(reference::encode(element, &row));
        }
        let shape: Vec<usize> = batch.into_iter().chain([n, k]).collect();
        let rows = self.tensor.device().tensor_from_bytes(element, &bytes, &shape)?;
        let axes: &[usize] = if batch.is_some() { &[0, 2, 1] } else { &[1, 0] };
        Ok(rows.permute(axes)?)
    }

    /// The tensor of codes.
    pub(crate) const fn tensor(&self) -> &'a DeviceTensor {
        self.tensor
    }

    /// The tensors beside the codes, under their names.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&'static str, &'a DeviceTensor)> + use<'a> {
        let zero_points = match self.zero_points {
            GivenZeroPoints::Each(tensor) => Some(("b_zero_points", tensor)),
            GivenZeroPoints::None | GivenZeroPoints::One(_) => None,
        };
        std::iter::once(("b_scales", self.scales)).chain(zero_points)
    }

    /// The extents of B, if the tensors have the element types and shapes that they need.
    ///
    /// # Errors
    /// [`FormatError`].
    pub(crate) fn extents(&self) -> Result<WeightExtents, FormatError> {
        let format = self.quantization();
        format.check()?;
        let codes = self.codes;
        let given = self.tensor.element_type();
        if given != codes.element() {
            return Err(FormatError::CodesElement { codes, given });
        }
        let (batch, n, elements) = match *shape_of(self.tensor) {
            [n, elements] if !has_digits(self.tensor) => (None, n, elements),
            [batch, n, elements] if !has_digits(self.tensor) => (Some(batch), n, elements),
            _ => return Err(self.refused_shape()),
        };
        let k = match self.depth {
            Some(k) => k,
            None => elements.checked_mul(8 / codes.bits()).ok_or_else(|| self.refused_shape())?,
        };
        if codes.elements(k) != elements {
            return Err(self.refused_shape());
        }
        let needed: Vec<usize> = batch.into_iter().chain([n, format.groups_of(k)]).collect();
        let names = ["scales", "zero points"];
        for ((name, tensor), what) in self.others().zip(names) {
            let element = tensor.element_type();
            if name == "b_zero_points" && element != ElementType::U8 {
                return Err(FormatError::ZeroPointsElement { given: element });
            }
            if has_digits(tensor) || *shape_of(tensor) != *needed {
                return Err(FormatError::Shape { what, format, given: tensor.shape().to_vec(), needed });
            }
        }
        Ok(WeightExtents { batch, k, n })
    }

    fn refused_shape(&self) -> FormatError {
        FormatError::CodesShape { codes: self.codes, given: self.tensor.shape().to_vec(), depth: self.depth }
    }

    /// Their numbers, on the host.
    ///
    /// # Errors
    /// As [`extents`](Self::extents); a tensor that can't be read.
    pub(crate) fn values(&self) -> Result<WeightValues, Error> {
        let extents = self.extents()?;
        let quantization = self.quantization();
        let scales = reference::decode(quantization.scales, &self.scales.to_bytes()?);
        let zero_points = match self.zero_points {
            GivenZeroPoints::Each(tensor) => tensor.to_bytes()?,
            GivenZeroPoints::None | GivenZeroPoints::One(_) => Vec::new(),
        };
        let codes = self.tensor.to_bytes()?;
        Ok(WeightValues { order: WeightOrder::Rows, quantization, extents, codes, scales, zero_points })
    }
}
