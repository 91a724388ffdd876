//! Compiles the loops of a reduction.

use super::point_loop::{Builder, MachineLoops, Moving, PointLoop};
use crate::te::auto::cpu::job::Job;

impl Job {
    /// What machine code does of it.
    pub(in crate::te::auto::cpu) fn machine_loops(&self) -> MachineLoops {
        MachineLoops { add: add(self), apply: apply(self) }
    }
}

const fn moving(job: &Job) -> Moving {
    if job.tree.across { Moving::Outer } else { Moving::Inner }
}

fn add(job: &Job) -> Option<PointLoop> {
    let (tree, code, source) = (&job.tree, &job.code, job.source.as_ref()?);
    if job.direct.is_some() || job.extreme.is_some() {
        return None;
    }
    let period = if tree.across {
        None
    } else if job.inner.len() == 1 && !tree.ordered && tree.lanes >= 8 && tree.lanes.count_ones() == 1 {
        Some(u32::try_from(tree.lanes).ok()?)
    } else {
        return None;
    };
    let elements = &job.elements[0];
    let mut builder = Builder::new(&job.program, elements, moving(job));
    for register in &source.spread {
        if tree.across { builder.strip(*register) } else { builder.uniform(*register) }?;
    }
    let mut states = Vec::with_capacity(code.left.len());
    for left in &code.left {
        states.push(builder.state(*left, period)?);
    }
    builder.steps(&source.each)?;
    builder.steps(&code.accumulate.0)?;
    for ((argument, left), result) in states.into_iter().zip(&code.left).zip(&code.accumulate.1) {
        builder.set_state(argument, *left, *result, code.condition)?;
    }
    if let Some(reuse) = &job.reuse {
        builder.keep(reuse.from)?;
    }
    builder.finish()
}

fn apply(job: &Job) -> Option<PointLoop> {
    let results = job.code.apply.as_ref()?;
    let mut builder = Builder::new(&job.program, &job.elements[2], moving(job));
    let steps = if job.tree.across {
        for left in &job.code.left {
            builder.strip(*left)?;
        }
        &results.steps
    } else {
        let invariant = job.invariant.as_ref()?;
        for register in &invariant.spread {
            builder.uniform(*register)?;
        }
        if let Some(reuse) = &job.reuse {
            builder.kept(reuse.to);
        }
        &invariant.each
    };
    builder.steps(steps)?;
    for (place, register) in &results.results {
        builder.write(*register, *place, &job.outputs[*place], steps)?;
    }
    builder.finish()
}
