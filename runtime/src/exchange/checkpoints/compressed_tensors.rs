//! The layout of compressed-tensors' format "pack-quantized".

use super::layer::{I32, INTEGERS, Layer, Part, SCALES, pack};
use super::source::TensorSource;
use crate::error::formats::CheckpointError;
use crate::formats::IntegerWeights;

const LAYOUT: &str = "compressed-tensors";

/// Weights of the format "pack-quantized" with 4 or 8 bits: words have codes of neighbours along K, the first in the
/// lowest bits. Codes are numbers without a sign: the signed number plus `2^(bits - 1)`.
///
/// Zero points are read if there are some. Other strategies than "group" and "channel", and `weight_g_idx` whose groups
/// are not sorted, are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressedTensors {
    /// The bits of a code: 4 or 8.
    pub bits: u32,
    /// The input features of a group; `None` is all of them (the strategy "channel").
    pub group: Option<usize>,
}

impl CompressedTensors {
    /// The weights of a layer, such as `model.layers.0.self_attn.q_proj`.
    ///
    /// # Errors
    /// All of [`CheckpointError`] but those of zero points.
    pub fn read<S: TensorSource + ?Sized>(&self, source: &S, layer: &str) -> Result<IntegerWeights, CheckpointError> {
        let bits = self.bits;
        if bits != 4 && bits != 8 {
            return Err(CheckpointError::Bits { layout: LAYOUT, given: bits, allowed: "4 and 8 are" });
        }
        let layer = Layer::new(source, layer, LAYOUT);
        let per_word = (32 / bits) as usize;
        let packed = layer.part("weight_packed", &I32, " in the format \"pack-quantized\"")?;
        let [n, words] = packed.matrix("[N, ⌈K·bits/32⌉]")?;
        let shape = layer.part("weight_shape", &INTEGERS, "")?;
        shape.require(&[2])?;
        let k = match shape.integers()[..] {
            [rows, columns] if usize::try_from(rows) == Ok(n) => usize::try_from(columns).ok(),
            _ => None,
        };
        // K in the last word.
        let Some(k) = k.filter(|k| k.div_ceil(per_word) == words) else {
            let needed =
                format!("[N, ⌈K·bits/32⌉] for the N and K of `weight_shape`, which are {:?}", shape.integers());
            return Err(packed.misshapen(needed));
        };
        let (group, groups) = layer.groups(k, self.group)?;
        let scales = layer.part("weight_scale", &SCALES, "")?;
        scales.require(&[n, groups])?;
        if let Some(places) = layer.optional("weight_g_idx", &INTEGERS)? {
            places.require(&[k])?;
            require_sorted(&places, group)?;
        }
        let zeros = match layer.optional("weight_zero_point", &I32)? {
            None => None,
            Some(zeros) => {
                zeros.require(&[n.div_ceil(per_word), groups])?;
                let zero = |at: usize| {
                    let (row, group) = (at / groups, at % groups);
                    zeros.code(row / per_word * groups + group, row % per_word, bits)
                };
                Some((0..n * groups).map(zero).collect())
            }
        };
        let scales = scales.scales(n * groups, |at| at);
        let code = |row: usize, column: usize| packed.code(row * words + column / per_word, column % per_word, bits);
        layer.weights([n, k], bits, group, pack(n, k, bits, code), scales, zeros)
    }
}

/// # Errors
/// [`CheckpointError::ActOrder`]. All -1 says that there is no act-order.
fn require_sorted(places: &Part<'_>, group: usize) -> Result<(), CheckpointError> {
    let of = places.integers();
    if of.iter().all(|own| *own == -1) {
        return Ok(());
    }
    match of.iter().enumerate().find(|(at, own)| usize::try_from(**own) != Ok(at / group)) {
        None => Ok(()),
        Some((at, own)) => {
            Err(CheckpointError::ActOrder { name: places.name.clone(), at, given: *own, needed: at / group })
        }
    }
}
