//! From tokens to the block's result.

use epilogue::gemm::rows;

use crate::Result;
use crate::block::{Block, Choices, of_choices};
use crate::clock::Clock;
use crate::products::{Down, Router, Swiglu};
use crate::sort::Order;

impl Block {
    pub(crate) fn forward(&mut self, clock: &mut Clock) -> Result<Order> {
        let Self { inputs, choices, values, plans, expressions, .. } = self;
        clock.time("router and softmax", || {
            Ok(plans.router.run(&inputs.x, &inputs.router, Router { probabilities: &mut values.probabilities })?)
        })?;
        clock.time("top experts", || expressions.top.run(&values.probabilities, &choices.experts, &choices.weights))?;
        let order = clock.time("sort by expert, on the host", || {
            let order = Order::of(&choices.experts.to_vec::<i32>()?, self.sizes.experts, self.sizes.tokens);
            choices.take(&order)?;
            expressions.ordered.run(&choices.weights, &choices.choices, &mut choices.weights_of_rows)?;
            Ok(order)
        })?;
        let Choices { offsets, tokens, weights_of_rows: weight, .. } = &*choices;
        clock.time("gate and up, SwiGLU", || {
            let results = Swiglu { h: &mut values.h, g: &mut values.g, u: &mut values.u };
            let x = rows(&inputs.x).picked(tokens).in_groups(offsets);
            Ok(plans.swiglu.run(x, [&inputs.gate, &inputs.up], results)?)
        })?;
        clock.time("down, times weights", || {
            let h = rows(&values.h).scattered(&choices.choices).in_groups(offsets);
            Ok(plans.down.run(h, &inputs.down, Down { weight, y: &mut of_choices(&values.y)? })?)
        })?;
        clock.time("sum for each token", || expressions.combined.run(&values.y, &mut values.out))?;
        Ok(order)
    }
}

impl Choices {
    /// Puts the order where the device reads it.
    fn take(&mut self, order: &Order) -> Result<()> {
        self.offsets.copy_from(&order.offsets)?;
        self.tokens.copy_from(&order.tokens)?;
        self.choices.copy_from(&order.choices)?;
        Ok(())
    }
}
