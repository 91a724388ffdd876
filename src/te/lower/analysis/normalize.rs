//! Normal form of a schedule: what lowering works on.

use super::inline::inline;
use crate::te::error::TeError;
use crate::te::lang::axis::Axis;
use crate::te::lang::tensor::OperationKind;
use crate::te::schedule::{Attach, Relation, Schedule, Stage};

impl Schedule {
    /// The same schedule with its inlined stages expanded where they are read, its groups' places given to their stages,
    /// and what was placed at a loop that has been split or fused since placed at the loop that took its place: the
    /// inner one of a split, and the fused one where the loop was the inner of the two.
    ///
    /// Lowering does this by itself.
    ///
    /// # Errors
    /// [`TeError::Inlined`] and [`TeError::Nested`] for a stage that is too large with what is inlined in it.
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

/// The loop in which the innermost part of an axis runs now.
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
