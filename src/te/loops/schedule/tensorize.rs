//! `tensorize`: replaces a loop, and all loops inside it, by an intrinsic.

use super::intrinsic::TensorIntrin;
use super::stage::Stage;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::reduce::Reduce;

impl Stage {
    /// Replaces a loop, and all loops inside it, by an intrinsic.
    ///
    /// If all reduction loops of the stage are inside, the intrinsic's `body` is used. If some are around it, its
    /// `reset` comes before them and its `update` is repeated. Without a `reset`, its `body` does the first iteration.
    ///
    /// Lowering checks that the intrinsic computes what the loops do. The trailing axes of the computation and of the
    /// intrinsic's expression must have the same extents inside, and the leading axes one index. The expressions must
    /// be the same, term by term, with the intrinsic's tensors standing for parts of the computation's.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::AxisKind`] for a thread axis or the time of a scan's update;
    /// [`ScheduleError::Intrinsic`] for an intrinsic with another number of tensors, and for a reducing intrinsic if
    /// the stage is not a reduction. Also for a stage that reduces over threads or is tensorized already. Lowering
    /// refuses, with the same error, an expression, extent, stride, offset or memory that differs from the intrinsic's;
    /// a bound that depends on a loop inside; and stages or threads inside.
    pub fn tensorize(&mut self, axis: Axis, intrin: &TensorIntrin) -> Result<(), TeError> {
        self.leaf(axis)?;
        let refuse = |reason: String| {
            Err(ScheduleError::Intrinsic { intrinsic: intrin.operation().name().to_owned(), reason }.into())
        };
        let kind = |reason| {
            Err(ScheduleError::AxisKind { primitive: "tensorize", axis: axis.name().to_owned(), reason }.into())
        };
        if self.threads.contains_key(&axis) {
            return kind("it is bound to a thread index");
        }
        if self.time == Some(axis) || axis.kind() == AxisKind::Ordered {
            return kind("a scan's time runs in order");
        }
        let (Some(own), Some(other)) = (self.operation.as_compute(), intrin.operation().as_compute()) else {
            return refuse(format!("{} is not computed in loops", self.name()));
        };
        if own.body.len() != other.body.len() {
            let (own, other) = (own.body.len(), other.body.len());
            return refuse(format!("it makes {other} tensors, {} {own}", self.name()));
        }
        if own.is_reduction() != other.is_reduction() {
            let what = |reduces: bool| if reduces { "a reduction" } else { "none" };
            let (own, other) = (own.is_reduction(), other.is_reduction());
            return refuse(format!("it is {}, {} is {}", what(other), self.name(), what(own)));
        }
        let over_threads = |leaf: &Axis| leaf.kind() == AxisKind::Reduce && self.threads.contains_key(leaf);
        if self.leaves.iter().any(over_threads) {
            return refuse(format!("{} is reduced over threads, which no intrinsic takes part in", self.name()));
        }
        if self.tensorized.as_ref().is_some_and(|(known, _)| *known != axis) {
            return refuse(format!("another loop of {} is tensorized already", self.name()));
        }
        self.tensorized = Some((axis, intrin.clone()));
        self.note("tensorize", &format!("{}, {}", axis.name(), intrin.operation().name()));
        Ok(())
    }

    /// The position of the loop that an intrinsic replaces.
    pub(crate) fn tensorized_from(&self) -> Result<Option<usize>, TeError> {
        self.tensorized.as_ref().map(|(axis, _)| self.leaf(*axis)).transpose()
    }
}

/// Whether two reductions combine in the same way: their combiners differ at most in the names of their operands.
pub(crate) fn combine_alike(a: &Reduce, b: &Reduce) -> bool {
    let (a, b) = (&a.combiner, &b.combiner);
    if a.left.len() != b.left.len() || a.commutative != b.commutative || a.identity != b.identity {
        return false;
    }
    let operands = |vars: &[crate::te::expr::var::Var]| -> Vec<crate::te::expr::expression::Expr> {
        vars.iter().map(|v| (*v).into()).collect()
    };
    let renamed = b.combine(&operands(&a.left), &operands(&a.right));
    a.left.iter().zip(&b.left).all(|(x, y)| x.dtype() == y.dtype()) && a.result == renamed
}
