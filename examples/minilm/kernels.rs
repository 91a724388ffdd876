//! The model's kernels: the epilogues of its products, and tensor expressions for everything between them.

use epilogue::expr::Op;
use epilogue::prelude::*;
use epilogue::te::auto::Kernel;
use epilogue::te::{self, DType, Expr, Tensor};

use crate::Result;

/// A linear layer at the end of a residual branch.
#[epilogue]
pub fn linear_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
    let d = accum + bias + residual;
    d
}

/// Attention scores.
#[epilogue]
pub fn scaled(accum: Accum, scale: Scalar) -> Tensor {
    let d = scale * accum;
    d
}

/// The kernels that are not products, and the tensors that they read.
pub(crate) struct Kernels {
    pub(crate) inputs: Inputs,
    /// The normalised sums of word, position and type embeddings.
    pub(crate) embed: Kernel,
    /// Rows `x`, each normalised.
    pub(crate) layer_norm: Kernel,
    /// The softmax of `scores` along the last dimension.
    pub(crate) softmax: Kernel,
    /// The mean of the rows of `x`.
    pub(crate) mean: Kernel,
    /// The rows of `x`, each scaled to length 1.
    pub(crate) unit: Kernel,
}

/// The tensors that kernels read.
pub(crate) struct Inputs {
    /// Rows, `[n, h]`.
    pub(crate) x: Tensor,
    /// The weight and bias of a normalisation, `[h]`.
    pub(crate) weight: Tensor,
    pub(crate) bias: Tensor,
    /// Token ids and their positions, `[n]`.
    pub(crate) ids: Tensor,
    pub(crate) positions: Tensor,
    /// Embeddings: `[words, h]`, `[places, h]` and `[h]`.
    pub(crate) word: Tensor,
    pub(crate) place: Tensor,
    pub(crate) kind: Tensor,
    /// `[heads, tokens, tokens]`.
    pub(crate) scores: Tensor,
}

impl Kernels {
    pub(crate) fn new(device: &Device, epsilon: f64) -> Result<Self> {
        let (n, h) = (te::var("n"), te::var("h"));
        let (words, places) = (te::var("words"), te::var("places"));
        let (heads, tokens) = (te::var("heads"), te::var("tokens"));
        let i32 = DType::Number(ElementType::I32);
        let inputs = Inputs {
            x: te::placeholder([n, h], "x"),
            weight: te::placeholder([h], "weight"),
            bias: te::placeholder([h], "bias"),
            ids: te::placeholder_of(i32, [n], "ids"),
            positions: te::placeholder_of(i32, [n], "positions"),
            word: te::placeholder([words, h], "word"),
            place: te::placeholder([places, h], "place"),
            kind: te::placeholder([h], "kind"),
            scores: te::placeholder([heads, tokens, tokens], "scores"),
        };
        let Inputs { x, weight, bias, ids, positions, word, place, kind, scores } = &inputs;
        let build = |output: &Tensor| te::auto::build(&[output])?.build(device);
        let embedded = te::compute([n, h], "embedded", |[i, j]| {
            word.at([ids.at([i]), j.into()]) + place.at([positions.at([i]), j.into()]) + kind.at([j])
        })?;
        let k = te::reduce_axis((0, h), "k");
        let squares = te::compute([n], "squares", |[i]| te::sum(x.at([i, k]) * x.at([i, k]), [k]))?;
        let unit = te::compute([n, h], "unit", |[i, j]| x.at([i, j]) * Expr::apply(Op::Rsqrt, vec![squares.at([i])]))?;
        Ok(Self {
            embed: build(&te::ops::layer_norm(&embedded, [1], Some(weight), Some(bias), epsilon)?)?,
            layer_norm: build(&te::ops::layer_norm(x, [1], Some(weight), Some(bias), epsilon)?)?,
            softmax: build(&te::ops::softmax(scores, 2)?)?,
            mean: build(&te::ops::mean(x, [0])?)?,
            unit: build(&unit)?,
            inputs,
        })
    }
}
