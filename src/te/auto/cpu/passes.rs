//! Reductions one after the other, each over the same outputs as the one before and of what it gave: a softmax, a layer
//! norm. All are done for some outputs, whose elements stay in a near cache meanwhile, before the next outputs.

use std::ops::Range;

use rayon::prelude::*;

use super::job::{ALONE, Job, Task, Worker};
use super::registers::LANES;
use crate::parallel;
use crate::te::auto::order::Order;
use crate::te::error::TeError;

/// Bytes of elements that stay in a second-level cache from one reduction to the next.
const NEAR: i64 = 256 << 10;
/// Bytes of an element, as a rule: it is read, and another is written.
const ELEMENT: i64 = 8;

/// Reductions, compiled for the shapes of a run.
pub(in crate::te::auto) struct Chain {
    jobs: Vec<Job>,
    /// Outputs that are done together by all of them.
    block: Option<i64>,
    /// What the caller's thread computes with, where there is too little to do for others.
    alone: Option<Vec<Worker>>,
}

impl Chain {
    pub(in crate::te::auto) fn new(tasks: &[Task<'_>], order: Order) -> Result<Self, TeError> {
        let jobs = tasks.iter().map(|task| Job::new(task, order)).collect::<Result<Vec<_>, _>>()?;
        let block = if jobs.len() > 1 && count_alike(tasks) { block(&jobs) } else { None };
        let points = jobs
            .iter()
            .fold(0i64, |all, job| all.saturating_add(job.count().max(1).saturating_mul(job.count_outputs())));
        let is_small = points <= ALONE && jobs.iter().all(|job| job.tree.parts == 1);
        let alone = is_small.then(|| jobs.iter().map(Job::worker).collect());
        Ok(Self { jobs, block, alone })
    }

    /// Each one's choice in words.
    pub(in crate::te::auto) fn describe(&self) -> Vec<String> {
        self.jobs.iter().map(Job::describe).collect()
    }

    /// The arguments of the reductions have moved, each by so many bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: impl Fn(usize) -> Vec<i64>) {
        self.jobs.iter_mut().enumerate().for_each(|(number, job)| job.moved(&by(number)));
    }

    /// Runs them.
    ///
    /// # Safety
    /// Nobody else touches the tensors, of which no output overlaps another tensor.
    pub(in crate::te::auto) unsafe fn run(&mut self) -> Result<(), TeError> {
        if let Some(workers) = &mut self.alone {
            return self.jobs.iter().zip(workers).try_for_each(|(job, worker)| {
                // SAFETY: the caller's promise.
                unsafe { job.run_outputs(worker, 0..job.count_outputs()) }
            });
        }
        let (jobs, block) = (&self.jobs, self.block);
        // SAFETY: the caller's promise; no two tasks have an output in common.
        parallel::run(|| unsafe {
            match block {
                Some(block) => run_blocks(jobs, block),
                None => jobs.iter().try_for_each(|job| job.run()),
            }
        })
    }
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
fn block(jobs: &[Job]) -> Option<i64> {
    let bytes = jobs.iter().map(Job::count).max()?.max(1).saturating_mul(ELEMENT);
    let across = jobs.iter().any(|job| job.tree.across);
    let outputs = jobs.first()?.count_outputs();
    if jobs.iter().any(|job| job.tree.parts > 1 || job.count_outputs() != outputs) {
        return None;
    }
    if across {
        // Of fewer neighbouring outputs, memory would be read in too small pieces.
        return (bytes.saturating_mul(LANES as i64) <= 2 * NEAR).then_some(LANES as i64);
    }
    Some((NEAR / bytes).min(outputs / jobs[0].pieces).max(1))
}

/// # Safety
/// Nobody else touches the tensors; a number stands for the same output in all jobs, and none is cut into parts.
unsafe fn run_blocks(jobs: &[Job], block: i64) -> Result<(), TeError> {
    let outputs = jobs.first().map_or(0, Job::count_outputs);
    let range = |number: i64| -> Range<i64> { number * block..((number + 1) * block).min(outputs) };
    (0..(outputs + block - 1) / block).into_par_iter().try_for_each_init(
        || jobs.iter().map(Job::worker).collect::<Vec<Worker>>(),
        |workers, number| {
            // SAFETY: the caller's promise; these outputs are this task's, and what is between the jobs is of them.
            jobs.iter().zip(workers).try_for_each(|(job, worker)| unsafe { job.run_outputs(worker, range(number)) })
        },
    )
}
