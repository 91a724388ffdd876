//! Reductions one after the other, each over the same outputs as the one before and of what it gave: a softmax, a layer
//! norm. All are done for some outputs, whose elements stay in a near cache meanwhile, before the next outputs.

use std::ops::Range;

use epilogue_runtime::HostAccess;
use rayon::prelude::*;

use super::job::{Job, Task, Worker, plan};
use super::registers::LANES;
use crate::parallel;
use crate::te::auto::order::Order;
use crate::te::error::TeError;

/// Bytes of elements that stay in a second-level cache from one reduction to the next.
const NEAR: i64 = 256 << 10;
/// Bytes of an element, as a rule: it is read, and another is written.
const ELEMENT: i64 = 8;

/// Runs reductions over the same outer axes; gives each one's choice in words.
pub(in crate::te::auto) fn run(tasks: &[Task<'_>], order: Order) -> Result<Vec<String>, TeError> {
    let plans = tasks.iter().map(|task| plan(task, order)).collect::<Result<Vec<_>, _>>()?;
    let jobs =
        tasks.iter().zip(&plans).map(|(task, plan)| Job::new(task, plan, order)).collect::<Result<Vec<_>, _>>()?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for job in &jobs {
        let (own_reads, own_writes) = job.tensors();
        reads.extend_from_slice(own_reads);
        writes.extend_from_slice(own_writes);
    }
    let access = HostAccess::lock(&reads, &writes)?;
    let block = if count_alike(tasks) { block(&jobs) } else { None };
    // SAFETY: the locks keep everyone else out, no two tasks have an output in common, and outputs don't overlap.
    parallel::run(|| unsafe {
        match block {
            Some(block) => run_blocks(&jobs, block),
            None => jobs.iter().try_for_each(|job| job.run()),
        }
    })?;
    drop(access);
    Ok(jobs.iter().map(Job::describe).collect())
}

/// Whether a number stands for the same output in all of them.
fn count_alike(tasks: &[Task<'_>]) -> bool {
    let mut orders = tasks.iter().map(|task| {
        let outer: Vec<usize> = (0..task.reduction.outer).filter(|axis| task.space.extents[*axis] != 1).collect();
        task.space.order(outer)
    });
    let first = orders.next();
    orders.all(|order| Some(&order) == first.as_ref())
}

/// Outputs whose elements stay near, where no output is cut into parts.
fn block(jobs: &[Job<'_>]) -> Option<i64> {
    let bytes = jobs.iter().map(Job::count).max()?.max(1).saturating_mul(ELEMENT);
    let across = jobs.iter().any(|job| job.tree.across);
    let outputs = jobs.first()?.outputs();
    if jobs.iter().any(|job| job.tree.parts > 1 || job.outputs() != outputs) {
        return None;
    }
    if across {
        // Of fewer neighbouring outputs, memory would be read in too small pieces.
        return (bytes.saturating_mul(LANES as i64) <= 2 * NEAR).then_some(LANES as i64);
    }
    let fair = outputs / (parallel::threads() as i64 * 4).max(1);
    Some((NEAR / bytes).min(fair).max(1))
}

/// # Safety
/// Nobody else touches the tensors; a number stands for the same output in all jobs, and none is cut into parts.
unsafe fn run_blocks(jobs: &[Job<'_>], block: i64) -> Result<(), TeError> {
    let outputs = jobs.first().map_or(0, Job::outputs);
    let range = |number: i64| -> Range<i64> { number * block..((number + 1) * block).min(outputs) };
    (0..(outputs + block - 1) / block).into_par_iter().try_for_each_init(
        || jobs.iter().map(Job::worker).collect::<Vec<Worker>>(),
        |workers, number| {
            // SAFETY: the caller's promise; these outputs are this task's, and what is between the jobs is of them.
            jobs.iter().zip(workers).try_for_each(|(job, worker)| unsafe { job.run_outputs(worker, range(number)) })
        },
    )
}
