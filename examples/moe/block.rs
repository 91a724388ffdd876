//! The block: its weights, its plans, and the memory that runs write.
//!
//! ```text
//!           ┌─► router ─► top experts ─► sort ── rows of each expert
//!   tokens ─┤                                        │
//!           └──► rows of the tokens ─► gate, up ─► SwiGLU ─► down · weight ─► each token's sum ─► result
//! ```
//!
//! A token has one row for each of its experts, and rows are sorted by expert. All experts are one product, with as
//! many rows for each as tokens take it: `rows(…).in_groups(&offsets)` forward and for the gradients of rows,
//! `depth(…).in_groups(…)` for the gradients of weights, which sum over rows. The first product gathers the tokens'
//! rows while it runs. The last one scatters its results: a token's first expert's results are where tokens are, its
//! second one's behind them. So sums for tokens read plain tensors.

use epilogue::gemm::{depth, rows};
use epilogue::prelude::*;

use crate::Result;
use crate::data::{Data, Sizes};
use crate::expressions::{Combined, Gathered, Ordered, ScoreGradient, Top};
use crate::products::{Down, Router, RowGradient, Swiglu, SwigluBackward, TokenGradient, WeightGradient};
use crate::values::tensor;

/// The inputs of a run.
pub(crate) struct Inputs {
    /// `[tokens, columns]`
    pub(crate) x: DeviceTensor,
    /// `[columns, experts]`
    pub(crate) router: DeviceTensor,
    /// `[experts, columns, 2 · hidden]`
    pub(crate) gate_up: DeviceTensor,
    /// Its two halves.
    pub(crate) gate: DeviceTensor,
    pub(crate) up: DeviceTensor,
    /// `[experts, hidden, columns]`
    pub(crate) down: DeviceTensor,
    /// The gradient of the result, `[tokens, columns]`.
    pub(crate) d_out: DeviceTensor,
}

/// The experts' work: `[top, tokens]` of each token's experts, the largest weight's first, and the order of rows.
pub(crate) struct Choices {
    pub(crate) experts: DeviceTensor,
    pub(crate) weights: DeviceTensor,
    /// `[experts + 1]`
    pub(crate) offsets: DeviceTensor,
    /// One for each row, `[rows]`.
    pub(crate) tokens: DeviceTensor,
    pub(crate) choices: DeviceTensor,
    pub(crate) weights_of_rows: DeviceTensor,
}

/// The results of a run; every run writes the same memory.
pub(crate) struct Values {
    pub(crate) probabilities: DeviceTensor,
    /// `[rows, hidden]`
    pub(crate) g: DeviceTensor,
    pub(crate) u: DeviceTensor,
    pub(crate) h: DeviceTensor,
    /// One for each choice, `[top, tokens, columns]`.
    pub(crate) y: DeviceTensor,
    pub(crate) out: DeviceTensor,
}

/// Gradients: each is that of the value or weight of its name.
pub(crate) struct Gradients {
    /// The tokens' rows, copied.
    pub(crate) rows: DeviceTensor,
    pub(crate) d_y: DeviceTensor,
    /// `[rows, 2 · hidden]`: of gates, then of what they let up.
    pub(crate) d_gate_up_rows: DeviceTensor,
    /// One for each choice, `[top, tokens, columns]`.
    pub(crate) d_rows: DeviceTensor,
    pub(crate) d_scores: DeviceTensor,
    pub(crate) d_x_of_experts: DeviceTensor,
    pub(crate) d_x: DeviceTensor,
    pub(crate) d_router: DeviceTensor,
    pub(crate) d_gate_up: DeviceTensor,
    pub(crate) d_down: DeviceTensor,
}

pub(crate) struct Plans {
    pub(crate) router: Gemm<Router>,
    pub(crate) swiglu: Gemm<Swiglu>,
    pub(crate) down: Gemm<Down>,
    pub(crate) swiglu_backward: Gemm<SwigluBackward>,
    pub(crate) d_rows: Gemm<RowGradient>,
    pub(crate) d_gate_up: Gemm<WeightGradient>,
    pub(crate) d_down: Gemm<WeightGradient>,
    pub(crate) d_router: Gemm<WeightGradient>,
    pub(crate) d_x: Gemm<TokenGradient>,
}

pub(crate) struct Expressions {
    pub(crate) top: Top,
    pub(crate) ordered: Ordered,
    pub(crate) combined: Combined,
    pub(crate) gathered: Gathered,
    pub(crate) d_scores: ScoreGradient,
}

pub(crate) struct Block {
    pub(crate) sizes: Sizes,
    pub(crate) inputs: Inputs,
    pub(crate) choices: Choices,
    pub(crate) values: Values,
    pub(crate) gradients: Gradients,
    pub(crate) plans: Plans,
    pub(crate) expressions: Expressions,
}

impl Block {
    /// A block with this data, in memory of this element type; products sum in f32.
    pub(crate) fn new(device: &Device, data: &Data, element: ElementType) -> Result<Self> {
        let inputs = Inputs::new(device, data, element)?;
        let choices = Choices::new(device, &data.sizes)?;
        let values = Values::new(device, &data.sizes, element)?;
        let gradients = Gradients::new(device, &data.sizes, element)?;
        let plans = Plans::new(device, &inputs, &choices, &values, &gradients)?;
        let expressions = Expressions::new(device, element, data.sizes.top)?;
        Ok(Self { sizes: data.sizes, inputs, choices, values, gradients, plans, expressions })
    }
}

impl Inputs {
    fn new(device: &Device, data: &Data, element: ElementType) -> Result<Self> {
        let Sizes { tokens, columns, hidden, experts, .. } = data.sizes;
        let given = |values: &[f64], shape: &[usize]| tensor(device, element, values, shape);
        let gate_up = given(&data.gate_up, &[experts, columns, 2 * hidden])?;
        Ok(Self {
            x: given(&data.x, &[tokens, columns])?,
            router: given(&data.router, &[columns, experts])?,
            gate: gate_up.slice(2, 0..hidden)?,
            up: gate_up.slice(2, hidden..2 * hidden)?,
            gate_up,
            down: given(&data.down, &[experts, hidden, columns])?,
            d_out: given(&data.d_out, &[tokens, columns])?,
        })
    }
}

impl Choices {
    fn new(device: &Device, sizes: &Sizes) -> Result<Self> {
        let (shape, rows) = ([sizes.top, sizes.tokens], sizes.rows());
        Ok(Self {
            experts: device.zeros::<i32>(shape)?,
            weights: device.zeros::<f32>(shape)?,
            offsets: device.zeros::<i32>([sizes.experts + 1])?,
            tokens: device.zeros::<i32>([rows])?,
            choices: device.zeros::<i32>([rows])?,
            weights_of_rows: device.zeros::<f32>([rows])?,
        })
    }
}

impl Values {
    fn new(device: &Device, sizes: &Sizes, element: ElementType) -> Result<Self> {
        let Sizes { tokens, columns, hidden, experts, top } = *sizes;
        let zeros = |shape: [usize; 2]| device.zeros_of(element, shape);
        Ok(Self {
            probabilities: device.zeros::<f32>([tokens, experts])?,
            g: zeros([sizes.rows(), hidden])?,
            u: zeros([sizes.rows(), hidden])?,
            h: zeros([sizes.rows(), hidden])?,
            y: device.zeros_of(element, [top, tokens, columns])?,
            out: zeros([tokens, columns])?,
        })
    }
}

impl Gradients {
    fn new(device: &Device, sizes: &Sizes, element: ElementType) -> Result<Self> {
        let Sizes { tokens, columns, hidden, experts, top } = *sizes;
        let zeros = |shape: [usize; 2]| device.zeros_of(element, shape);
        Ok(Self {
            rows: zeros([sizes.rows(), columns])?,
            d_y: zeros([sizes.rows(), columns])?,
            d_gate_up_rows: zeros([sizes.rows(), 2 * hidden])?,
            d_rows: device.zeros_of(element, [top, tokens, columns])?,
            d_scores: zeros([tokens, experts])?,
            d_x_of_experts: zeros([tokens, columns])?,
            d_x: zeros([tokens, columns])?,
            d_router: device.zeros::<f32>([columns, experts])?,
            d_gate_up: device.zeros::<f32>([experts, columns, 2 * hidden])?,
            d_down: device.zeros::<f32>([experts, hidden, columns])?,
        })
    }
}

impl Plans {
    fn new(
        device: &Device,
        inputs: &Inputs,
        choices: &Choices,
        values: &Values,
        gradients: &Gradients,
    ) -> Result<Self> {
        let Inputs { x, router, gate_up, gate, up, down, .. } = inputs;
        let Choices { offsets, tokens, choices, .. } = choices;
        let Gradients { rows: gathered, d_y, d_gate_up_rows, d_scores, .. } = gradients;
        let h = &values.h;
        let of_depth = |a: &DeviceTensor, b: &DeviceTensor| -> Result<Gemm<WeightGradient>> {
            let a = a.transpose()?;
            Ok(Gemm::plan(device, depth(&a).in_groups(offsets), b)?)
        };
        Ok(Self {
            router: Gemm::plan(device, x, router)?,
            swiglu: Gemm::plan(device, rows(x).picked(tokens).in_groups(offsets), [gate, up])?,
            down: Gemm::plan(device, rows(h).scattered(choices).in_groups(offsets), down)?,
            swiglu_backward: Gemm::plan(device, rows(d_y).in_groups(offsets), &transposed(down)?)?,
            d_rows: Gemm::plan(
                device,
                rows(d_gate_up_rows).scattered(choices).in_groups(offsets),
                &transposed(gate_up)?,
            )?,
            d_gate_up: of_depth(gathered, d_gate_up_rows)?,
            d_down: of_depth(h, d_y)?,
            d_router: Gemm::plan(device, &x.transpose()?, d_scores)?,
            d_x: Gemm::plan(device, d_scores, &router.transpose()?)?,
        })
    }
}

impl Expressions {
    fn new(device: &Device, element: ElementType, top: usize) -> Result<Self> {
        Ok(Self {
            top: Top::new(device, top)?,
            ordered: Ordered::new(device)?,
            combined: Combined::new(device, element, top)?,
            gathered: Gathered::new(device, element)?,
            d_scores: ScoreGradient::new(device, element, top)?,
        })
    }
}

/// `[top, tokens, columns]` as a row for each choice.
pub(crate) fn of_choices(y: &DeviceTensor) -> Result<DeviceTensor> {
    let [top, tokens, columns] = [0, 1, 2].map(|axis| y.shape()[axis]);
    Ok(y.reshape([top * tokens, columns])?)
}

/// Each expert's matrix, transposed.
pub(crate) fn transposed(experts: &DeviceTensor) -> Result<DeviceTensor> {
    Ok(experts.permute(&[0, 2, 1])?)
}
