//! Integer weights of a checkpoint, in tensors of a device.

use epilogue_runtime::formats::{IntegerWeights, Scales};
use epilogue_runtime::{Device, DeviceTensor};

use super::error::Error;
use super::quantization::CodeType;
use super::quantized::{Quantized, quantized};
use crate::ElementType;

/// Integer weights that a [checkpoint](epilogue_runtime::checkpoints) or
/// [`IntegerWeights`](epilogue_runtime::formats::IntegerWeights) holds, copied to a device.
///
/// ```
/// use epilogue::gemm::LoadedWeights;
/// use epilogue::prelude::*;
/// use epilogue::runtime::formats::{IntegerWeights, Scales};
///
/// #[epilogue]
/// fn linear(accum: Accum, bias: RowVector) -> Tensor {
///     let d = accum + bias;
///     d
/// }
///
/// // Two output features of K = 16, all codes 9, zero points 8: weights are the scales.
/// let scales = Scales::F32(vec![0.5, -1.0]);
/// let stored = IntegerWeights::new([2, 16], 4, 16, vec![0x99; 16], scales, None)?;
///
/// let device = Device::cpu();
/// let weights = LoadedWeights::new(&device, &stored)?;
/// let (x, bias) = (device.full::<f32>([1, 16], 1.0)?, device.full::<f32>([2], 1.0)?);
/// let gemm = Gemm::plan::<Linear>(&device, &x, weights.quantized())?;
/// let packed = gemm.pack(weights.quantized())?;
/// let mut d = device.zeros::<f32>([1, 2])?;
/// gemm.run(&x, &packed, Linear { bias: &bias, d: &mut d })?;
/// assert_eq!(d.to_vec::<f32>()?, [9.0, -15.0]);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoadedWeights {
    codes: CodeType,
    tensor: DeviceTensor,
    scales: DeviceTensor,
    zero_points: Option<DeviceTensor>,
    permutation: Option<DeviceTensor>,
    group: usize,
    depth: usize,
}

impl LoadedWeights {
    /// Copies weights to a device.
    ///
    /// # Errors
    /// Too little memory.
    pub fn new(device: &Device, weights: &IntegerWeights) -> Result<Self, Error> {
        let ([n, k], group) = (weights.shape(), weights.group());
        let codes = if weights.bits() == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let of_groups = [n, k.div_ceil(group)];
        let scales = match weights.scales() {
            Scales::F16(scales) => device.tensor(scales, of_groups)?,
            Scales::BF16(scales) => device.tensor(scales, of_groups)?,
            Scales::F32(scales) => device.tensor(scales, of_groups)?,
        };
        let zero_points = weights.zeros().map(|zeros| device.tensor(zeros, of_groups)).transpose()?;
        let order = |columns: &[u32]| columns.iter().map(|column| i64::from(*column)).collect::<Vec<_>>();
        let permutation = weights.permutation().map(|columns| device.tensor(&order(columns), [k])).transpose()?;
        let shape = [n, codes.elements(k)];
        let tensor = device.tensor_from_bytes(ElementType::U8, weights.codes(), shape)?;
        Ok(Self { codes, tensor, scales, zero_points, permutation, group, depth: k })
    }

    /// The weights as a product's B, `[K, N]`.
    #[must_use]
    pub const fn quantized(&self) -> Quantized<'_> {
        let weights = quantized(self.codes, &self.tensor, &self.scales).group(self.group).depth(self.depth);
        match &self.zero_points {
            Some(zero_points) => weights.zero_points(zero_points),
            None => weights.zero_point(1 << (self.codes.bits() - 1)),
        }
    }

    /// The input feature of each row of B: i64 of `[K]`. `None` if they are in order. A's columns must be in this
    /// order, too.
    #[must_use]
    pub const fn permutation(&self) -> Option<&DeviceTensor> {
        self.permutation.as_ref()
    }
}
