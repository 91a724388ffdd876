//! Normal form of a schedule: lowering works on this form.

use super::inline::inline;
use crate::te::error::TeError;
use crate::te::expr::axis::Axis;
use crate::te::expr::tensor::OperationKind;
use crate::te::loops::schedule::{Attach, Relation, Schedule, Stage};

impl Schedule {
    /// The schedule in normal form. Inlined stages are expanded where they are read. The place of a group is given to
    /// its stages. A place at a loop that has since been split or fused moves to the loop that replaced it: after a
    /// split to the inner loop; after a fusion to the fused loop, if the old one was the inner of the two.
    ///
    /// Lowering does this automatically.
    ///
    /// # Errors
    /// [`ScheduleError::Inlined`](crate::te::ScheduleError::Inlined) and
    /// [`ExpressionError::Nested`](crate::te::ExpressionError::Nested) for a stage that is too large after inlining.
    pub fn normalize(&self) -> Result<Self, TeError> {
        let mut placed = self.clone();
        for index in 0..placed.stages.len() {
            if matches!(self.stages[index].operation.kind(), OperationKind::Placeholder { .. }) {
                continue;
            }
            let mut place = self.place_of(index);
            if let Attach::At(operation, axis) = &mut place
                && let Some(parent) = self.index_of(operation)
            {
                *axis = current(&self.stages[parent], *axis);
            }
            placed.stages[index].attach = place;
        }
        inline(&placed)
    }
}

/// The loop that now contains the innermost part of an axis.
fn current(stage: &Stage, axis: Axis) -> Axis {
    let mut found = axis;
    for relation in &stage.relations {
        match relation {
            Relation::Split { parent, inner, .. } if *parent == found => found = *inner,
            Relation::Fuse { inner, fused, .. } if *inner == found => found = *fused,
            Relation::Split { .. }
            | Relation::Fuse { .. }
            | Relation::Singleton { .. }
            | Relation::Transform { .. } => {}
        }
    }
    found
}
