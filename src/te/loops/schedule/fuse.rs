//! `fuse`: makes one loop of several.

use super::record::names;
use super::stage::{Relation, Stage};
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::{Axis, AxisKind, Domain};

impl Stage {
    /// Makes one loop of two that directly follow each other. Its kind is the later of the two kinds, in the order of
    /// [`AxisKind`]: a data axis and a reduction axis make a reduction axis. Earlier marks of the two loops (as by
    /// [`Stage::unroll`]) are lost. Gives the new loop.
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::NotConsecutive`]; [`ScheduleError::AxisKind`].
    pub fn fuse(&mut self, outer: Axis, inner: Axis) -> Result<Axis, TeError> {
        let (first, second) = (self.leaf(outer)?, self.leaf(inner)?);
        self.check_free(outer, "fuse")?;
        self.check_free(inner, "fuse")?;
        if second != first + 1 {
            let (first, second) = (outer.name().to_owned(), inner.name().to_owned());
            return Err(ScheduleError::NotConsecutive { first, second }.into());
        }
        let kind = outer.kind().max(inner.kind());
        let fused = Axis::new(&format!("{}.{}.fused", outer.name(), inner.name()), None, kind);
        self.relations.push(Relation::Fuse { outer, inner, fused });
        self.replace_leaves(first..=second, [fused]);
        self.note("fuse", &names(&[outer, inner]));
        Ok(fused)
    }

    /// [`Stage::fuse`] of any number of loops, outermost first. One loop stays as it is. No loops give a new outermost
    /// loop of one iteration, which can be bound to a thread.
    ///
    /// # Errors
    /// The errors of [`Stage::fuse`]. On an error the stage is unchanged.
    pub fn fuse_all(&mut self, axes: &[Axis]) -> Result<Axis, TeError> {
        let Some((first, rest)) = axes.split_first() else {
            let axis = Axis::new("singleton", Some(Domain::up_to(1)), AxisKind::Data);
            self.relations.push(Relation::Singleton { axis });
            // The time of a scan's update stays outermost.
            let place = usize::from(self.time.is_some() && self.leaves.first() == self.time.as_ref());
            self.leaves.insert(place, axis);
            self.note("fuse", "");
            return Ok(axis);
        };
        self.leaf(*first)?;
        self.check_free(*first, "fuse")?;
        let mut tried = self.clone();
        let mut fused = *first;
        for (place, axis) in rest.iter().enumerate() {
            // Errors name the loops that were given, not the intermediate ones.
            fused = tried.fuse(fused, *axis).map_err(|error| match error {
                TeError::Schedule(ScheduleError::NotConsecutive { second, .. }) => {
                    ScheduleError::NotConsecutive { first: axes[place].name().to_owned(), second }.into()
                }
                other => other,
            })?;
        }
        *self = tried;
        Ok(fused)
    }

    /// Whether an axis contains a data axis, alone or fused with others.
    pub(crate) fn spans_data(&self, axis: Axis) -> bool {
        if axis.kind() != AxisKind::Reduce || self.root_axes.contains(&axis) {
            return axis.kind() == AxisKind::Data;
        }
        self.relations.iter().any(|relation| match relation {
            Relation::Split { parent, outer, inner, .. } => {
                (*outer == axis || *inner == axis) && self.spans_data(*parent)
            }
            Relation::Fuse { outer, inner, fused } => {
                *fused == axis && (self.spans_data(*outer) || self.spans_data(*inner))
            }
            Relation::Singleton { .. } | Relation::Transform { .. } => false,
        })
    }

    /// Whether a loop runs over both data and reduction axes.
    pub(crate) fn is_mixed(&self, axis: Axis) -> bool {
        axis.kind() == AxisKind::Reduce && self.spans_data(axis)
    }
}
