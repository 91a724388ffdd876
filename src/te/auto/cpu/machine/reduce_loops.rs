//! Compiles the loops of a reduction.

use super::point_loop::{LoopBuilder, Moving, PointLoop};
use super::strips::{MachineLoops, Strips};
use crate::lane::LaneStep;
use crate::te::auto::cpu::reduce_job::Job;

impl Job {
    /// The job's loops in machine code. If its lanes are outputs, these are divided into `strips`, or into its own.
    pub(in crate::te::auto::cpu) fn machine_loops(&self, strips: Option<Strips>) -> MachineLoops {
        if self.tree.across {
            return MachineLoops { columns: self.columns(strips), ..MachineLoops::default() };
        }
        MachineLoops { add: add(self), apply: apply(self), columns: None }
    }
}

impl LoopBuilder<'_> {
    /// Combines points with states, of what has been given for them.
    pub(in crate::te::auto::cpu) fn add(&mut self, job: &Job, source: &[LaneStep], period: Option<u32>) -> Option<()> {
        let code = &job.code;
        let mut states = Vec::with_capacity(code.left.len());
        for left in &code.left {
            states.push(self.state(*left, period)?);
        }
        self.steps(source)?;
        self.steps(&code.accumulate.0)?;
        for ((argument, left), result) in states.into_iter().zip(&code.left).zip(&code.accumulate.1) {
            self.set_state(argument, *left, *result, code.condition)?;
        }
        if let Some(reuse) = &job.reuse {
            self.keep(reuse.from)?;
        }
        Some(())
    }
}

fn add(job: &Job) -> Option<PointLoop> {
    let (tree, source) = (&job.tree, job.source.as_ref()?);
    let in_rounds = job.inner.len() == 1 && !tree.ordered && tree.lanes >= 8 && tree.lanes.count_ones() == 1;
    if job.direct.is_some() || job.extreme.is_some() || !in_rounds {
        return None;
    }
    let mut builder = LoopBuilder::new(&job.program, &job.elements[0], Moving::Inner);
    source.spread.iter().try_for_each(|register| builder.uniform(*register))?;
    builder.add(job, &source.each, Some(u32::try_from(tree.lanes).ok()?))?;
    builder.finish()
}

fn apply(job: &Job) -> Option<PointLoop> {
    let (results, invariant) = (job.code.apply.as_ref()?, job.invariant.as_ref()?);
    let mut builder = LoopBuilder::new(&job.program, &job.elements[2], Moving::Inner);
    invariant.spread.iter().try_for_each(|register| builder.uniform(*register))?;
    if let Some(reuse) = &job.reuse {
        builder.kept(reuse.to);
    }
    builder.steps(&invariant.each)?;
    for (place, register) in &results.results {
        builder.write(*register, *place, &job.outputs[*place], &invariant.each)?;
    }
    builder.finish()
}
