//! GPTQ's layout.

use super::layer::{I32, INTEGERS, Layer, Part, SCALES, pack};
use super::source::TensorSource;
use crate::error::formats::CheckpointError;
use crate::formats::IntegerWeights;

const LAYOUT: &str = "GPTQ";

/// How zero points are stored: `checkpoint_format` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GptqVersion {
    /// `gptq`: the zero point less 1.
    V1,
    /// `gptq_v2`: the zero point.
    V2,
}

/// Act-orders (`desc_act`) whose groups are not sorted along K are refused, or sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActOrder {
    /// It is refused ([`CheckpointError::ActOrder`]).
    #[default]
    Refuse,
    /// The input features are sorted by group. The weights then have a
    /// [permutation](IntegerWeights::permutation), in which a product takes the activations' columns.
    Permute,
}

/// GPTQ weights of 4 or 8 bits: words have codes of neighbours along K, the first in the lowest bits.
///
/// A zero point that version 1 stores as the largest code is refused: kernels read it as 0 or as the code after the
/// largest one. Marlin's repacked checkpoints have other tensors and are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gptq {
    /// The bits of a code: 4 or 8.
    pub bits: u32,
    /// The input features of a group; `None` is all of them (`group_size` -1).
    pub group: Option<usize>,
    /// The version.
    pub version: GptqVersion,
    /// Groups that are not sorted: refused, or sorted.
    pub act_order: ActOrder,
}

impl Gptq {
    /// The weights of a layer, such as `model.layers.0.self_attn.q_proj`.
    ///
    /// # Errors
    /// All of [`CheckpointError`].
    pub fn read<S: TensorSource + ?Sized>(&self, source: &S, layer: &str) -> Result<IntegerWeights, CheckpointError> {
        let Self { bits, version, .. } = *self;
        if bits != 4 && bits != 8 {
            return Err(CheckpointError::Bits { layout: LAYOUT, given: bits, allowed: "4 and 8 are" });
        }
        let layer = Layer::new(source, layer, LAYOUT);
        let per_word = (32 / bits) as usize;
        let weights = layer.part("qweight", &I32, " (Marlin's own checkpoints have other tensors)")?;
        let [words, n] = weights.matrix("[K·bits/32, N]")?;
        let k = words.checked_mul(per_word).ok_or_else(|| weights.misshapen("[K·bits/32, N]".to_owned()))?;
        let (group, groups) = layer.groups(k, self.group)?;
        let scales = layer.part("scales", &SCALES, "")?;
        scales.require(&[groups, n])?;
        let zeros = layer.part("qzeros", &I32, " also if they are symmetric")?;
        if !n.is_multiple_of(per_word) {
            return Err(weights.misshapen(format!("an N that is a multiple of {per_word}")));
        }
        zeros.require(&[groups, n / per_word])?;
        let zeros = read_zeros(&zeros, version, bits, [n, groups])?;
        let order = match layer.optional("g_idx", &INTEGERS)? {
            None => None,
            Some(places) => {
                places.require(&[k])?;
                self.order(&places, group)?
            }
        };
        let scales = scales.scales(n * groups, |at| at % groups * n + at / groups);
        let code = |row: usize, column: usize| weights.code(column / per_word * n + row, column % per_word, bits);
        let codes = match &order {
            None => pack(n, k, bits, code),
            Some(order) => pack(n, k, bits, |row, column| code(row, order[column] as usize)),
        };
        let made = layer.weights([n, k], bits, group, codes, scales, Some(zeros))?;
        match order {
            None => Ok(made),
            Some(order) => {
                made.permuted(order).map_err(|source| CheckpointError::Format { name: layer.name.to_owned(), source })
            }
        }
    }

    /// The order of input features in which groups are sorted; `None` if they are.
    fn order(&self, places: &Part<'_>, group: usize) -> Result<Option<Vec<u32>>, CheckpointError> {
        let of = places.integers();
        let Some(at) = of.iter().enumerate().position(|(at, own)| usize::try_from(*own) != Ok(at / group)) else {
            return Ok(None);
        };
        let name = || places.name.clone();
        let is_sorted = of.is_sorted();
        if !is_sorted && self.act_order == ActOrder::Refuse {
            return Err(CheckpointError::ActOrder { name: name(), at, given: of[at], needed: at / group });
        }
        let too_many = |_| places.misshapen("fewer than 2^32 input features".to_owned());
        let mut order: Vec<u32> = (0..u32::try_from(of.len()).map_err(too_many)?).collect();
        // Stable: input features of a group keep their order.
        order.sort_by_key(|feature| of[*feature as usize]);
        let uneven =
            order.iter().enumerate().find(|(at, feature)| usize::try_from(of[**feature as usize]) != Ok(at / group));
        if let Some((_, feature)) = uneven {
            let index = of[*feature as usize];
            let given = of.iter().filter(|own| **own == index).count();
            return Err(CheckpointError::Uneven { name: name(), index, given, group });
        }
        Ok(Some(order))
    }
}

/// Zero points `[N, groups]`, from words of neighbours along N.
fn read_zeros(
    zeros: &Part<'_>,
    version: GptqVersion,
    bits: u32,
    [n, groups]: [usize; 2],
) -> Result<Vec<u8>, CheckpointError> {
    let per_word = (32 / bits) as usize;
    let most = u8::MAX >> (8 - bits);
    let zero = |at: usize| {
        let (row, group) = (at / groups, at % groups);
        let index = group * n + row;
        let stored = zeros.code(index / per_word, index % per_word, bits);
        match version {
            GptqVersion::V2 => Ok(stored),
            GptqVersion::V1 if stored < most => Ok(stored + 1),
            GptqVersion::V1 => Err(CheckpointError::ZeroPoint {
                name: zeros.name.clone(),
                index,
                given: stored.to_string(),
                reason: "version 1 stores the zero point less 1, and some kernels add 1 and others wrap to 0; if the \
                         checkpoint is of version 2 (`gptq_v2`), read it as that",
            }),
        }
    };
    (0..n * groups).map(zero).collect()
}
