//! `tensorize`: a loop and those inside it, replaced by an intrinsic.

use super::intrinsic::TensorIntrin;
use super::stage::Stage;
use crate::te::error::TeError;
use crate::te::lang::axis::{Axis, AxisKind};
use crate::te::lang::reduce::Reduce;

impl Stage {
    /// Replaces a loop, and all loops inside it, by an intrinsic.
    ///
    /// Where all loops of the stage's reduction are inside, the intrinsic's `body` is what is done. Where some are
    /// around, its `reset` comes before them and its `update` is what is repeated; without a `reset`, its `body` does the
    /// first iteration.
    ///
    /// Lowering checks that the intrinsic computes what the loops do: the trailing axes of the computation and of the
    /// intrinsic's expression have the same extents inside, leading ones have one index, and the expressions are the same,
    /// term by term, with the intrinsic's tensors standing for parts of the computation's.
    ///
    /// # Errors
    /// [`TeError::NotALoop`]; [`TeError::AxisKind`] for a thread's axis or a scan update's time; [`TeError::Intrinsic`] for
    /// an intrinsic of another number of tensors, a reduction for what is none, a stage whose reduction is over threads or
    /// that is tensorized already. Lowering refuses, with the same error: an expression, extent, stride, offset or memory
    /// that is not the intrinsic's; a bound that depends on a loop inside; stages computed and threads bound inside.
    pub fn tensorize(&mut self, axis: Axis, intrin: &TensorIntrin) -> Result<(), TeError> {
        self.leaf(axis)?;
        let refuse =
            |reason: String| Err(TeError::Intrinsic { intrinsic: intrin.operation().name().to_owned(), reason });
        let kind = |reason| Err(TeError::AxisKind { primitive: "tensorize", axis: axis.name().to_owned(), reason });
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

    /// The place of the loop that an intrinsic replaces.
    pub(crate) fn tensorized_from(&self) -> Result<Option<usize>, TeError> {
        self.tensorized.as_ref().map(|(axis, _)| self.leaf(*axis)).transpose()
    }
}

/// Whether two reductions combine alike: the same combiner but for the names of its operands.
pub(crate) fn combine_alike(a: &Reduce, b: &Reduce) -> bool {
    let (a, b) = (&a.combiner, &b.combiner);
    if a.left.len() != b.left.len() || a.commutative != b.commutative || a.identity != b.identity {
        return false;
    }
    let operands = |vars: &[crate::te::lang::var::Var]| -> Vec<crate::te::lang::expr::Expr> {
        vars.iter().map(|v| (*v).into()).collect()
    };
    let renamed = b.combine(&operands(&a.left), &operands(&a.right));
    a.left.iter().zip(&b.left).all(|(x, y)| x.dtype() == y.dtype()) && a.result == renamed
}
