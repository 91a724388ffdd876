//! Tests for circular memory: elements of the previous iteration are not computed again.

use super::Emitter;
use crate::te::expr::expression::Expr;

impl Emitter<'_> {
    /// The test that the previous iteration did not compute an element of circular memory.
    pub(crate) fn is_new(&self, index: usize) -> Option<Expr> {
        let rolling = self.plan.rolling[index].as_ref()?;
        let axis = *self.schedule.stages[index].operation.as_compute()?.axes.get(rolling.dimension)?;
        let nest = self.plan.nests[index].as_ref()?;
        Some(rolling.is_new(&(nest.value(axis) - &nest.domain(axis).min)))
    }
}
