//! The memory of an intermediate tensor: padded rows, two halves, a rolling window.
//!
//! These primitives never change the result. They are refused on outputs, whose memory is the caller's.

use super::properties::Alignment;
use super::stage::Stage;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;

impl Stage {
    /// Pads the stride of a dimension to `offset` more than a multiple of `factor` elements: the smallest value of this
    /// kind that is not below the dense stride. This avoids bank conflicts in shared memory: with a stride that is a
    /// power of two, the elements of a column lie in one bank. A later call for the same dimension replaces an earlier
    /// one.
    ///
    /// `axis` is one of the computation's own axes (`tensor.axis(d)`), whether or not it is still a loop.
    ///
    /// # Errors
    /// [`ScheduleError::Primitive`] for an output or a part of a scan, whose memory is the caller's or the scan's; for
    /// an axis that is not a dimension of the tensor; for a factor below 1.
    pub fn storage_align(&mut self, axis: Axis, factor: i64, offset: i64) -> Result<(), TeError> {
        self.check_intermediate("storage_align")?;
        let refuse = |reason| {
            Err(ScheduleError::Primitive { primitive: "storage_align", stage: self.name().to_owned(), reason }.into())
        };
        if self.layout.is_some() {
            return refuse("it has a new layout (`transform_layout`), whose dimensions are others".to_owned());
        }
        let axes = self.operation.as_compute().map(|compute| compute.axes.as_slice()).unwrap_or_default();
        let Some(dimension) = axes.iter().position(|own| *own == axis) else {
            return refuse(format!(
                "{} is not a dimension of it; give one of its own data axes, as `tensor.axis(0)`, not a part of one",
                axis.name()
            ));
        };
        if factor < 1 {
            return refuse(format!("the factor {factor} was given; a stride is aligned to 1 element or more"));
        }
        self.memory.alignments.retain(|known| known.dimension != dimension);
        self.memory.alignments.push(Alignment { dimension, factor, offset: offset.rem_euclid(factor) });
        self.note("storage_align", &format!("{}, {factor}, {offset}", axis.name()));
        Ok(())
    }

    /// Gives the tensor two halves of memory: while the consumer reads one, the elements of the next iteration are
    /// written to the other. The stage must be computed inside a loop of its consumer. The elements of the first
    /// iteration are computed before that loop.
    ///
    /// # Errors
    /// [`ScheduleError::Primitive`] for an output or a part of a scan. Lowering refuses two kinds of stages with the
    /// same error: one that is not computed inside a serial loop, and one that reads what is computed in the same
    /// iteration.
    pub fn double_buffer(&mut self) -> Result<(), TeError> {
        self.check_intermediate("double_buffer")?;
        self.check_one_of("double_buffer", self.memory.rolling)?;
        self.memory.double = true;
        self.note("double_buffer", "");
        Ok(())
    }

    /// Keeps the elements of the previous iteration. Two consecutive iterations of the surrounding loop may need overlapping elements along one dimension.
    /// Then only the new elements are computed, into memory that is used as a ring.
    /// The stage must be computed inside a loop of its consumer.
    ///
    /// # Errors
    /// [`ScheduleError::Primitive`] for an output, a part of a scan, or a stage with two halves or another layout.
    /// Lowering refuses, with the same error, a stage that is not computed inside a serial loop. It also refuses a
    /// window along one dimension that has no constant width or does not move by a smaller constant.
    pub fn rolling_buffer(&mut self) -> Result<(), TeError> {
        self.check_intermediate("rolling_buffer")?;
        self.check_one_of("rolling_buffer", self.memory.double)?;
        self.memory.rolling = true;
        self.note("rolling_buffer", "");
        Ok(())
    }

    fn check_one_of(&self, primitive: &'static str, other: bool) -> Result<(), TeError> {
        if !other {
            return Ok(());
        }
        let reason =
            "memory is used in a circle (`rolling_buffer`) or in two halves (`double_buffer`), not both".to_owned();
        Err(ScheduleError::Primitive { primitive, stage: self.name().to_owned(), reason }.into())
    }

    /// Checks that the program allocates the tensor's memory: it is not an output, an input or a part of a scan.
    pub(super) fn check_intermediate(&self, primitive: &'static str) -> Result<(), TeError> {
        let refuse = |reason: &str| {
            Err(ScheduleError::Primitive { primitive, stage: self.name().to_owned(), reason: reason.to_owned() }.into())
        };
        if self.output {
            return refuse("it is an output, whose memory is the caller's; use it on an intermediate tensor");
        }
        if self.operation.as_compute().is_none() {
            return refuse("it is not a computation; use it on an intermediate tensor that is computed");
        }
        if matches!(self.attach, super::Attach::ScanInit(_) | super::Attach::ScanUpdate(_)) {
            return refuse("a scan's init and update are computed in the scan's memory");
        }
        Ok(())
    }
}
