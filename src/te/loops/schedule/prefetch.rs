//! `prefetch`: requests early what a later iteration reads.

use super::properties::Prefetch;
use super::stage::Stage;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::expr::expression::{Expr, Kind};
use crate::te::expr::tensor::Tensor;

impl Stage {
    /// Requests, in every iteration of a loop, the elements of `tensor` that are read `offset` iterations later. It is
    /// a hint and computes nothing. Targets without a prefetch instruction ignore it; at present these are all targets
    /// (CUDA, as in TVM, and native code). It is printed as TVM prints it.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::Primitive`] for a tensor that the stage doesn't read, a thread
    /// axis, or an offset that is negative or not an integer. Lowering refuses, with the same error, elements that no
    /// range describes.
    pub fn prefetch(&mut self, tensor: &Tensor, axis: Axis, offset: impl Into<Expr>) -> Result<(), TeError> {
        let offset = offset.into();
        self.leaf(axis)?;
        let refuse = |reason: String| {
            Err(ScheduleError::Primitive { primitive: "prefetch", stage: self.name().to_owned(), reason }.into())
        };
        if let Kind::Invalid(error) = offset.kind() {
            return Err(error.clone());
        }
        if !offset.dtype().is_integer() || offset.as_int().is_some_and(|value| value < 0) {
            let given = crate::te::text::expression(&offset);
            return refuse(format!("the offset {given} was given; it is a number of iterations, 0 or more"));
        }
        if self.threads.contains_key(&axis) {
            return refuse(format!(
                "{} is bound to a thread index; prefetch in a loop that runs in order",
                axis.name()
            ));
        }
        if !self.operation.inputs().contains(tensor) {
            return refuse(format!("it doesn't read {}; prefetch a tensor that it reads", tensor.name()));
        }
        let ahead = crate::te::text::expression(&offset);
        self.note("prefetch", &format!("{}, {}, {ahead}", tensor.name(), axis.name()));
        self.prefetches.push(Prefetch { tensor: tensor.clone(), axis, offset });
        Ok(())
    }
}
