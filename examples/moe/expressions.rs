//! Computations between products, by tensor expressions. Sizes are those of a run, but for the number of experts that a
//! token takes: sums over these are written out, in their order.

use epilogue::prelude::*;
use epilogue::te::auto::{self, Kernel};
use epilogue::te::{self, DType, Expr, TeError, Tensor};

use crate::Result;

/// The experts of each token, and their probabilities: the largest `top`, the largest first, of equal ones the first expert.
pub(crate) struct Top {
    probabilities: Tensor,
    /// One for each rank.
    experts: Vec<Tensor>,
    weights: Vec<Tensor>,
    kernel: Kernel,
}

impl Top {
    pub(crate) fn new(device: &Device, top: usize) -> Result<Self, TeError> {
        let (tokens, count) = (te::var("tokens"), te::var("experts"));
        let probabilities = te::placeholder([tokens, count], "probabilities");
        let (mut experts, mut weights) = (Vec::new(), Vec::new());
        let mut left = probabilities.clone();
        for _ in 0..top {
            let expert = te::ops::argmax(&left, 1)?;
            weights.push(te::ops::max(&left, 1)?);
            // Probabilities are not negative, so no later rank takes it again.
            left =
                te::compute([tokens, count], "left", |[t, e]| expert.at([t]).equal(e).select(-1.0, left.at([t, e])))?;
            experts.push(expert);
        }
        let outputs: Vec<&Tensor> = experts.iter().chain(&weights).collect();
        let kernel = auto::build(&outputs)?.build(device)?;
        Ok(Self { probabilities, experts, weights, kernel })
    }

    /// From probabilities `[tokens, experts]`: the experts' numbers in i32 and their weights in f32, each `[top, tokens]`.
    pub(crate) fn run(
        &self,
        probabilities: &DeviceTensor,
        experts: &DeviceTensor,
        weights: &DeviceTensor,
    ) -> Result<()> {
        let rank = |all: &DeviceTensor, i: usize| all.slice(0, i..i + 1)?.reshape([all.shape()[1]]);
        let ranks = 0..self.experts.len();
        let mut numbers = ranks.clone().map(|i| rank(experts, i)).collect::<Result<Vec<_>, _>>()?;
        let mut values = ranks.map(|i| rank(weights, i)).collect::<Result<Vec<_>, _>>()?;
        let mut arguments = vec![(&self.probabilities, probabilities.into())];
        arguments.extend(self.experts.iter().zip(&mut numbers).map(|(tensor, view)| (tensor, view.into())));
        arguments.extend(self.weights.iter().zip(&mut values).map(|(tensor, view)| (tensor, view.into())));
        Ok(self.kernel.run_bound(&arguments)?)
    }
}

/// Numbers in the order of the rows.
pub(crate) struct Ordered {
    values: Tensor,
    choices: Tensor,
    ordered: Tensor,
    kernel: Kernel,
}

impl Ordered {
    pub(crate) fn new(device: &Device) -> Result<Self, TeError> {
        let (count, rows) = (te::var("count"), te::var("rows"));
        let values = te::placeholder([count], "values");
        let choices = te::placeholder_of(DType::I32, [rows], "choices");
        let ordered = te::compute([rows], "ordered", |[row]| values.at([choices.at([row])]))?;
        let kernel = auto::build(&[&ordered])?.build(device)?;
        Ok(Self { values, choices, ordered, kernel })
    }

    pub(crate) fn run(&self, values: &DeviceTensor, choices: &DeviceTensor, ordered: &mut DeviceTensor) -> Result<()> {
        let values = values.reshape([values.len()])?;
        Ok(self.kernel.run_bound(&[
            (&self.values, (&values).into()),
            (&self.choices, choices.into()),
            (&self.ordered, ordered.into()),
        ])?)
    }
}

/// Each token's sum of its experts' results, the largest weight's first.
pub(crate) struct Combined {
    y: Tensor,
    out: Tensor,
    kernel: Kernel,
}

impl Combined {
    pub(crate) fn new(device: &Device, element: ElementType, top: usize) -> Result<Self, TeError> {
        let (tokens, columns) = (te::var("tokens"), te::var("columns"));
        let y = te::placeholder_of(element, [Expr::from(top), tokens.into(), columns.into()], "y");
        let out = te::compute([tokens, columns], "out", |[t, n]| {
            sum(top, |rank| y.at((rank, t, n)).cast(DType::F32)).cast(element)
        })?;
        let kernel = auto::build(&[&out])?.build(device)?;
        Ok(Self { y, out, kernel })
    }

    /// From what each choice gave, `[top, tokens, columns]`.
    pub(crate) fn run(&self, y: &DeviceTensor, out: &mut DeviceTensor) -> Result<()> {
        Ok(self.kernel.run_bound(&[(&self.y, y.into()), (&self.out, out.into())])?)
    }
}

/// Rows in memory, for the products that sum over rows: those of the tokens, and those of the gradient of the result, times
/// the router's weights.
pub(crate) struct Gathered {
    x: Tensor,
    d_out: Tensor,
    tokens: Tensor,
    weights: Tensor,
    rows: Tensor,
    d_y: Tensor,
    kernel: Kernel,
}

impl Gathered {
    pub(crate) fn new(device: &Device, element: ElementType) -> Result<Self, TeError> {
        let (count, rows, columns) = (te::var("tokens"), te::var("rows"), te::var("columns"));
        let x = te::placeholder_of(element, [count, columns], "x");
        let d_out = te::placeholder_of(element, [count, columns], "d_out");
        let tokens = te::placeholder_of(DType::I32, [rows], "token_of_row");
        let weights = te::placeholder([rows], "weights");
        let gathered = te::compute([rows, columns], "rows", |[row, n]| x.at((tokens.at([row]), n)))?;
        let d_y = te::compute([rows, columns], "d_y", |[row, n]| {
            (d_out.at((tokens.at([row]), n)).cast(DType::F32) * weights.at([row])).cast(element)
        })?;
        let kernel = auto::build(&[&gathered, &d_y])?.build(device)?;
        Ok(Self { x, d_out, tokens, weights, rows: gathered, d_y, kernel })
    }

    /// `of` are the tokens and the gradient, `by` the token and the weight of each row.
    pub(crate) fn run(
        &self,
        of: [&DeviceTensor; 2],
        by: [&DeviceTensor; 2],
        rows: &mut DeviceTensor,
        d_y: &mut DeviceTensor,
    ) -> Result<()> {
        let ([x, d_out], [tokens, weights]) = (of, by);
        Ok(self.kernel.run_bound(&[
            (&self.x, x.into()),
            (&self.d_out, d_out.into()),
            (&self.tokens, tokens.into()),
            (&self.weights, weights.into()),
            (&self.rows, rows.into()),
            (&self.d_y, d_y.into()),
        ])?)
    }
}

/// The gradient of the router's scores.
///
/// The result is `Σ p·y'` over a token's experts, with the probabilities p; their rows are `y = p·y'`. The gradient of p is `d_out·y'`,
/// and softmax needs it times p: that is `q = d_out·y`, of the rows as they are. So `d_scores = q - p·Σ q`, with `q = 0` for the
/// experts that the token doesn't take.
pub(crate) struct ScoreGradient {
    d_out: Tensor,
    y: Tensor,
    experts: Tensor,
    probabilities: Tensor,
    d_scores: Tensor,
    kernel: Kernel,
}

impl ScoreGradient {
    pub(crate) fn new(device: &Device, element: ElementType, top: usize) -> Result<Self, TeError> {
        let (tokens, columns, all_experts) = (te::var("tokens"), te::var("columns"), te::var("experts"));
        let d_out = te::placeholder_of(element, [tokens, columns], "d_out");
        let y = te::placeholder_of(element, [Expr::from(top), tokens.into(), columns.into()], "y");
        let experts = te::placeholder_of(DType::I32, [Expr::from(top), tokens.into()], "expert_of_choice");
        let probabilities = te::placeholder([tokens, all_experts], "probabilities");
        let n = te::reduce_axis((0, columns), "n");
        let q = te::compute([Expr::from(top), tokens.into()], "q", |[rank, t]| {
            let (d_out, y) = (d_out.at((t, n)), y.at((rank, t, n)));
            te::sum(d_out.cast(DType::F32) * y.cast(DType::F32), [n])
        })?;
        let d_scores = te::compute([tokens, all_experts], "d_scores", |[t, e]| {
            let own = sum(top, |rank| experts.at((rank, t)).equal(e).select(q.at((rank, t)), 0.0));
            let all = sum(top, |rank| q.at((rank, t)));
            (own - probabilities.at([t, e]) * all).cast(element)
        })?;
        let kernel = auto::build(&[&d_scores])?.build(device)?;
        Ok(Self { d_out, y, experts, probabilities, d_scores, kernel })
    }

    /// `y` is `[top, tokens, columns]`, the experts `[top, tokens]`.
    pub(crate) fn run(
        &self,
        d_out: &DeviceTensor,
        y: &DeviceTensor,
        experts: &DeviceTensor,
        probabilities: &DeviceTensor,
        d_scores: &mut DeviceTensor,
    ) -> Result<()> {
        Ok(self.kernel.run_bound(&[
            (&self.d_out, d_out.into()),
            (&self.y, y.into()),
            (&self.experts, experts.into()),
            (&self.probabilities, probabilities.into()),
            (&self.d_scores, d_scores.into()),
        ])?)
    }
}

/// A sum over a token's experts, from the first to the last.
fn sum(top: usize, of: impl Fn(usize) -> Expr) -> Expr {
    (1..top).fold(of(0), |sum, rank| sum + of(rank))
}
