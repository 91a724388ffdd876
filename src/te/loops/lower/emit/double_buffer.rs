//! Finds the stages whose memory gets two halves.

use super::Emitter;
use crate::te::loops::lower::passes::double_buffer::DoubleBuffered;
use crate::te::loops::schedule::{Attach, Stage};

impl Emitter<'_> {
    /// The stages whose memory gets two halves.
    pub(crate) fn double_buffered(&self) -> Vec<DoubleBuffered> {
        let stages = self.schedule.stages.iter().zip(&self.plan.buffers);
        stages
            .filter(|(stage, _)| stage.memory.double)
            .map(|(stage, buffers)| DoubleBuffered {
                stage: stage.name().to_owned(),
                buffers: buffers.clone(),
                once: self.runs_once(stage),
            })
            .collect()
    }

    /// Whether the loop inside which a stage is computed has one iteration.
    fn runs_once(&self, stage: &Stage) -> bool {
        let Attach::At(parent, axis) = &stage.attach else { return false };
        let Some(index) = self.schedule.index_of(parent) else { return false };
        let bound = self.schedule.stages[index].threads.contains_key(axis);
        let extent = self.plan.nests[index].as_ref().map(|nest| nest.extent(*axis));
        !bound && extent.is_some_and(|extent| extent.as_int() == Some(1))
    }
}
