//! The layouts of torchao's integer weights, as its `flatten_tensor_state_dict` names them in safetensors files.

use super::layer::{BYTES, Layer, Part, SCALES, ZEROS, pack};
use super::source::TensorSource;
use crate::error::formats::CheckpointError;
use crate::formats::IntegerWeights;
use crate::layout::element::ElementType;

const LAYOUT: &str = "torchao's";

/// torchao's integer weights, by the class of the tensor (`_type` in the file's metadata).
///
/// Its other classes of 4 bits are packed for one kernel, and are not read: `Int4TilePackedTo4dTensor`,
/// `Int4PreshuffledTensor`, `Int4PlainInt32Tensor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torchao {
    /// `Int4Tensor`: `qdata` i8 `[N, K/2]` with two signed codes in a byte, the even one in the lower half; `scale` and
    /// `zero_point` `[K/group, N]` in the weights' type. Its zero points are added after scaling, so only 0 can be
    /// represented: others are refused.
    Int4,
    /// `IntxUnpackedToInt8Tensor`: `qdata` i8 `[N, K]`, a signed code of 4 or 8 bits each; `scale` and `zero_point`
    /// `[N, K/group]`, zero points as i8.
    IntxUnpacked {
        /// The bits of a code: 4 or 8 (`target_dtype` is `torch.int4` or `torch.int8`).
        bits: u32,
    },
}

impl Torchao {
    /// The weights of a layer, such as `model.layers.0.self_attn.q_proj`. `group` is the number of input features of a
    /// group (the last number of `block_size`); `None` is all of them.
    ///
    /// # Errors
    /// All of [`CheckpointError`] but those of act-orders.
    pub fn read<S: TensorSource + ?Sized>(
        self,
        source: &S,
        layer: &str,
        group: Option<usize>,
    ) -> Result<IntegerWeights, CheckpointError> {
        let layer = Layer::new(source, layer, LAYOUT);
        let codes = layer.part("_weight_qdata", &BYTES, "")?;
        let scales = layer.part("_weight_scale", &SCALES, "")?;
        let zeros = layer.part("_weight_zero_point", &ZEROS, "")?;
        match self {
            Self::Int4 => int4(&layer, &codes, &scales, &zeros, group),
            Self::IntxUnpacked { bits } => unpacked(&layer, &codes, &scales, &zeros, (bits, group)),
        }
    }
}

fn int4<S: TensorSource + ?Sized>(
    layer: &Layer<'_, S>,
    codes: &Part<'_>,
    scales: &Part<'_>,
    zeros: &Part<'_>,
    group: Option<usize>,
) -> Result<IntegerWeights, CheckpointError> {
    let [n, half] = codes.matrix("[N, K/2]")?;
    let k = half.checked_mul(2).ok_or_else(|| codes.misshapen("[N, K/2]".to_owned()))?;
    let (group, groups) = layer.groups(k, group)?;
    scales.require(&[groups, n])?;
    zeros.require(&[groups, n])?;
    // All bits but the sign's: -0 is 0.
    let is_zero = |at: usize| match zeros.element {
        ElementType::F32 => u32::from_le_bytes(zeros.word(at)) << 1 == 0,
        ElementType::I8 => zeros.bytes()[at] == 0,
        _ => u16::from_le_bytes([zeros.bytes()[at * 2], zeros.bytes()[at * 2 + 1]]) << 1 == 0,
    };
    if let Some(index) = (0..n * groups).find(|at| !is_zero(*at)) {
        return Err(CheckpointError::ZeroPoint {
            name: zeros.name.clone(),
            index,
            given: "a number other than 0".to_owned(),
            reason: "it is added after scaling, and integer weights have integer zero points; quantise symmetrically, \
                     or with integer zero points",
        });
    }
    // -8 … 7 with a sign become 0 … 15.
    let made = codes.bytes().iter().map(|byte| byte ^ 0x88).collect();
    let scales = scales.scales(n * groups, |at| at % groups * n + at / groups);
    layer.weights([n, k], 4, group, made, scales, None)
}

fn unpacked<S: TensorSource + ?Sized>(
    layer: &Layer<'_, S>,
    codes: &Part<'_>,
    scales: &Part<'_>,
    zeros: &Part<'_>,
    (bits, group): (u32, Option<usize>),
) -> Result<IntegerWeights, CheckpointError> {
    if bits != 4 && bits != 8 {
        return Err(CheckpointError::Bits { layout: LAYOUT, given: bits, allowed: "4 and 8 are" });
    }
    let [n, k] = codes.matrix("[N, K]")?;
    let (group, groups) = layer.groups(k, group)?;
    scales.require(&[n, groups])?;
    zeros.require(&[n, groups])?;
    if zeros.element != ElementType::I8 {
        let (name, given) = (zeros.name.clone(), zeros.element.name().to_owned());
        return Err(CheckpointError::ElementType { name, layout: LAYOUT, given, needed: "i8" });
    }
    let unsigned = |part: &Part<'_>| -> Result<Vec<u8>, CheckpointError> {
        let middle = 1i64 << (bits - 1);
        let code = |(index, byte): (usize, &u8)| {
            let given = i64::from(byte.cast_signed());
            let name = || part.name.clone();
            let wrong = || CheckpointError::Code { name: name(), index, given, bits, least: -middle, most: middle - 1 };
            u8::try_from(given + middle).ok().filter(|_| given < middle).ok_or_else(wrong)
        };
        part.bytes().iter().enumerate().map(code).collect()
    };
    let (all, zeros) = (unsigned(codes)?, unsigned(zeros)?);
    let scales = scales.scales(n * groups, |at| at);
    layer.weights([n, k], bits, group, pack(n, k, bits, |row, column| all[row * k + column]), scales, Some(zeros))
}
