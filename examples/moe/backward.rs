//! From the gradient of the block's result to those of the tokens and of all weights.

use epilogue::gemm::{depth, rows};

use crate::Result;
use crate::block::{Block, Choices, of_choices, transposed};
use crate::clock::Clock;
use crate::products::{RowGradient, SwigluBackward, TokenGradient, WeightGradient};

impl Block {
    /// After [`forward`](Self::forward).
    pub(crate) fn backward(&mut self, clock: &mut Clock) -> Result<()> {
        let Self { inputs, choices, values, gradients, plans, expressions, sizes, .. } = self;
        let Choices { experts, offsets, tokens, choices, weights_of_rows, .. } = &*choices;
        clock.time("rows and their gradients, gathered", || {
            let (of, by) = ([&inputs.x, &inputs.d_out], [tokens, weights_of_rows]);
            expressions.gathered.run(of, by, &mut gradients.rows, &mut gradients.d_y)
        })?;
        clock.time("through down and SwiGLU", || {
            let gate_up = &gradients.d_gate_up_rows;
            let mut d_gate = gate_up.slice(1, 0..sizes.hidden)?;
            let mut d_up = gate_up.slice(1, sizes.hidden..2 * sizes.hidden)?;
            let arguments = SwigluBackward { g: &values.g, u: &values.u, d_gate: &mut d_gate, d_up: &mut d_up };
            let d_y = rows(&gradients.d_y).in_groups(offsets);
            Ok(plans.swiglu_backward.run(d_y, &transposed(&inputs.down)?, arguments)?)
        })?;
        clock.time("through gate and up", || {
            // Both at once: the halves of each row meet the halves of the weights.
            let both = rows(&gradients.d_gate_up_rows).scattered(choices).in_groups(offsets);
            let d_rows = &mut of_choices(&gradients.d_rows)?;
            Ok(plans.d_rows.run(both, &transposed(&inputs.gate_up)?, RowGradient { d_rows })?)
        })?;
        clock.time("weights of gate and up", || {
            let x = gradients.rows.transpose()?;
            let d_weights = &mut gradients.d_gate_up;
            let results = WeightGradient { d_weights };
            Ok(plans.d_gate_up.run(depth(&x).in_groups(offsets), &gradients.d_gate_up_rows, results)?)
        })?;
        clock.time("weights of down", || {
            let h = values.h.transpose()?;
            let d_weights = &mut gradients.d_down;
            let results = WeightGradient { d_weights };
            Ok(plans.d_down.run(depth(&h).in_groups(offsets), &gradients.d_y, results)?)
        })?;
        clock.time("scores and weights of the router", || {
            let (y, probabilities) = (&values.y, &values.probabilities);
            let d_scores = &mut gradients.d_scores;
            expressions.d_scores.run(&inputs.d_out, y, experts, probabilities, d_scores)?;
            let results = WeightGradient { d_weights: &mut gradients.d_router };
            Ok(plans.d_router.run(&inputs.x.transpose()?, &gradients.d_scores, results)?)
        })?;
        clock.time("sum for each token, with the router's", || {
            let experts = &mut gradients.d_x_of_experts;
            expressions.combined.run(&gradients.d_rows, experts)?;
            let results = TokenGradient { experts: &*experts, d_x: &mut gradients.d_x };
            Ok(plans.d_x.run(&gradients.d_scores, &inputs.router.transpose()?, results)?)
        })
    }
}
