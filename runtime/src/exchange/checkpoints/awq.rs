//! AWQ's layout.

use super::layer::{I32, Layer, SCALES, pack};
use super::source::TensorSource;
use crate::error::formats::CheckpointError;
use crate::formats::IntegerWeights;

const LAYOUT: &str = "AWQ";

/// The place in a word of each of 8 neighbours along N: the word has them in the order 0, 2, 4, 6, 1, 3, 5, 7.
const PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// AWQ weights of 4 bits, version "gemm": words have codes of 8 output features, in the order 0, 2, 4, 6, 1, 3, 5, 7 from
/// the lowest bits. Versions "gemv", "gemv_fast" and "marlin" have other shapes and are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awq {
    /// The input features of a group; `None` is all of them (`group_size` -1).
    pub group: Option<usize>,
}

impl Awq {
    /// The weights of a layer, such as `model.layers.0.self_attn.q_proj`.
    ///
    /// # Errors
    /// [`CheckpointError::Missing`], [`CheckpointError::ElementType`], [`CheckpointError::Shape`],
    /// [`CheckpointError::Group`], [`CheckpointError::Format`].
    pub fn read<S: TensorSource + ?Sized>(&self, source: &S, layer: &str) -> Result<IntegerWeights, CheckpointError> {
        let layer = Layer::new(source, layer, LAYOUT);
        let weights = layer.part("qweight", &I32, "")?;
        let [k, words] = weights.matrix("[K, N/8]")?;
        let n = words.checked_mul(8).ok_or_else(|| weights.misshapen("[K, N/8]".to_owned()))?;
        let (group, groups) = layer.groups(k, self.group)?;
        let scales = layer.part("scales", &SCALES, "")?;
        scales.require(&[groups, n])?;
        let zeros = layer.part("qzeros", &I32, "")?;
        zeros.require(&[groups, words])?;
        let scales = scales.scales(n * groups, |at| at % groups * n + at / groups);
        let codes = pack(n, k, 4, |row, column| weights.code(column * words + row / 8, PLACES[row % 8], 4));
        let zero = |at: usize| zeros.code(at % groups * words + at / groups / 8, PLACES[at / groups % 8], 4);
        let zeros = (0..n * groups).map(zero).collect();
        layer.weights([n, k], 4, group, codes, scales, Some(zeros))
    }
}
