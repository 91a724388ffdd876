//! The model's kernels: the epilogues of its products, and tensor expressions for everything between them.

use epilogue::expr::Op;
use epilogue::prelude::*;
use epilogue::te::auto::Kernel;
use epilogue::te::{self, DType, Expr, Tensor as Expression};
use epilogue::{Argument, DeviceTensor, ElementType};

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

/// A kernel with the expressions that its arguments stand for.
pub(crate) struct Bound {
    kernel: Kernel,
    output: Expression,
    inputs: Vec<Expression>,
}

impl Bound {
    /// The automatic kernel that computes `output`; runs take values of `inputs`, in this order.
    fn new(device: &Device, output: Expression, inputs: Vec<Expression>) -> Result<Self> {
        Ok(Self { kernel: te::auto::reduce(&output)?.build(device)?, output, inputs })
    }

    /// Computes the output from the inputs.
    pub(crate) fn run(&self, inputs: &[&DeviceTensor], output: &mut DeviceTensor) -> Result<()> {
        let mut output = Some(output);
        let mut arguments: Vec<Argument<'_>> = Vec::new();
        for parameter in self.kernel.parameters() {
            if *parameter == self.output {
                arguments.extend(output.take().map(Argument::Output));
            } else {
                let place = self.inputs.iter().position(|input| input == parameter);
                arguments.push(Argument::Input(inputs[place.ok_or("a parameter that is no input")?]));
            }
        }
        Ok(self.kernel.run(&arguments)?)
    }
}

/// The kernels that are no products.
pub(crate) struct Kernels {
    /// Token ids, their positions, word, position and type embeddings, weight, bias: the normalised sums.
    pub(crate) embed: Bound,
    /// Rows, weight, bias.
    pub(crate) layer_norm: Bound,
    /// Scores `[heads, tokens, tokens]`.
    pub(crate) softmax: Bound,
    /// Rows: their mean.
    pub(crate) mean: Bound,
    /// Rows: each scaled to length 1.
    pub(crate) unit: Bound,
}

impl Kernels {
    pub(crate) fn new(device: &Device, epsilon: f64) -> Result<Self> {
        let (n, h) = (te::var("n"), te::var("h"));
        let x = te::placeholder([n, h], "x");
        let (weight, bias) = (te::placeholder([h], "weight"), te::placeholder([h], "bias"));

        let (words, places) = (te::var("words"), te::var("places"));
        let i32 = DType::Number(ElementType::I32);
        let ids = te::placeholder_of(i32, [n], "ids");
        let positions = te::placeholder_of(i32, [n], "positions");
        let word = te::placeholder([words, h], "word");
        let place = te::placeholder([places, h], "place");
        let kind = te::placeholder([h], "kind");
        let embedded = te::compute([n, h], "embedded", |[i, j]| {
            word.at([ids.at([i]), j.into()]) + place.at([positions.at([i]), j.into()]) + kind.at([j])
        })?;
        let embed = te::ops::layer_norm(&embedded, &[1], Some(&weight), Some(&bias), epsilon)?;
        let embed = Bound::new(device, embed, vec![ids, positions, word, place, kind, weight.clone(), bias.clone()])?;

        let layer_norm = te::ops::layer_norm(&x, &[1], Some(&weight), Some(&bias), epsilon)?;
        let layer_norm = Bound::new(device, layer_norm, vec![x.clone(), weight, bias])?;

        let (heads, tokens) = (te::var("heads"), te::var("tokens"));
        let scores = te::placeholder([heads, tokens, tokens], "scores");
        let softmax = Bound::new(device, te::ops::softmax(&scores, 2)?, vec![scores])?;

        let mean = Bound::new(device, te::ops::mean(&x, &[0])?, vec![x.clone()])?;

        let k = te::reduce_axis((0, h), "k");
        let squares = te::compute([n], "squares", |[i]| te::sum(x.at([i, k]) * x.at([i, k]), [k]))?;
        let unit = te::compute([n, h], "unit", |[i, j]| x.at([i, j]) * Expr::apply(Op::Rsqrt, vec![squares.at([i])]))?;
        let unit = Bound::new(device, unit, vec![x])?;
        Ok(Self { embed, layer_norm, softmax, mean, unit })
    }
}
