//! Chained reductions over the same outputs, as for a softmax or a layer norm: each uses the results of earlier ones.
//! Some outputs go through all reductions while their elements stay in a near cache, then the next outputs. If machine
//! code can do all reductions, they are one loop over rows.

use std::ops::Range;

use super::machine::reduce_rows::WholeRows;
use super::machine::{Awaited, NARROW, Strips};
use super::reduce_job::{ALONE, Job, TASK, Worker};
use super::registers::LANES;
use super::task::Task;
use crate::parallel;
use crate::simd::stream::Fence;
use crate::te::auto::order::Order;
use crate::te::auto::pattern::reads::Read;
use crate::te::error::TeError;
use crate::te::expr::var::Var;

/// Bytes of elements that stay in a second-level cache from one reduction to the next.
const NEAR: i64 = 256 << 10;
/// Typical bytes of an element: it is read, and another one is written.
const ELEMENT: i64 = 8;

/// Reductions, compiled for the shapes of a run.
pub(in crate::te::auto) struct Chain {
    jobs: Vec<Job>,
    /// The outputs that go through all reductions together.
    blocks: Option<Blocks>,
    /// The registers of the caller's thread, if there is too little to do for others.
    alone: Option<Vec<Worker>>,
    /// All of it as machine code for whole rows, if it is of that shape.
    rows: Option<WholeRows>,
    /// Until rows are compiled; `None` if the reductions are no chain along the same rows, or if one chooses what it reads by the
    /// result of another.
    awaited: Option<Awaited>,
    /// Whether tiles have been compiled since that was asked last.
    changed: bool,
}

/// Outputs whose elements stay in a near cache.
#[derive(Clone, Copy)]
enum Blocks {
    /// This many outputs; none of them is cut into parts.
    Of(i64),
    /// Strips of neighbours, if lanes are outputs.
    Strips(Strips),
}

impl Chain {
    pub(in crate::te::auto) fn new(tasks: &[Task<'_>], order: Order) -> Result<Self, TeError> {
        let count_alike = count_alike(tasks);
        let one_of_some = count_alike && tasks.len() > 1;
        let jobs = tasks.iter().map(|task| Job::new(task, order, one_of_some)).collect::<Result<Vec<_>, _>>()?;
        let comes_back = jobs.len() > 1 || jobs.iter().any(|job| job.code.apply.is_some());
        let blocks = if comes_back && count_alike { Blocks::of(&jobs) } else { None };
        let points = jobs
            .iter()
            .fold(0i64, |all, job| all.saturating_add(job.count().max(1).saturating_mul(job.count_outputs())));
        // Rows that are only combined have code of their own.
        let computes = |job: &Job| job.direct.is_none() || job.code.apply.is_some();
        let is_chain = count_alike && (jobs.len() > 1 || jobs.iter().any(computes));
        let of_one = jobs.first().map_or(0, |job| job.count().saturating_mul(job.count_outputs()));
        let first = tasks.first().filter(|_| is_chain && !choose_by_results(tasks));
        let awaited = first.map(|task| Awaited::new(of_one, task.tuning.code));
        let is_small = points <= ALONE && jobs.iter().all(|job| job.tree.parts == 1);
        let alone = is_small.then(|| jobs.iter().map(Job::worker).collect());
        Ok(Self { jobs, blocks, alone, rows: None, awaited, changed: false })
    }

    /// The choice of each, in words.
    pub(in crate::te::auto) fn describe(&self) -> Vec<String> {
        self.jobs.iter().map(Job::describe).collect()
    }

    /// Whether the choice of a reduction has changed since this was asked last.
    pub(in crate::te::auto) const fn has_changed(&mut self) -> bool {
        std::mem::replace(&mut self.changed, false)
    }

    /// Adapts the addresses after the arguments of the reductions have moved, each by some bytes.
    pub(in crate::te::auto) fn moved(&mut self, by: impl Fn(usize) -> Vec<i64>) {
        self.jobs.iter_mut().enumerate().for_each(|(number, job)| job.moved(&by(number)));
    }

    /// Runs them.
    ///
    /// # Safety
    /// Nobody else may access the tensors during the call, and no output may overlap another tensor.
    pub(in crate::te::auto) unsafe fn run(&mut self) -> Result<(), TeError> {
        if self.awaited.as_mut().is_some_and(Awaited::pays) {
            self.rows = WholeRows::of(&self.jobs);
        }
        if let Some(rows) = &self.rows {
            // SAFETY: the caller's promise.
            return unsafe { run_rows(rows, &self.jobs) };
        }
        let strips = match self.blocks {
            Some(Blocks::Strips(strips)) => Some(strips),
            _ => None,
        };
        for job in &mut self.jobs {
            self.changed |= job.prepare(strips);
        }
        if let Some(workers) = self.alone.as_mut().filter(|_| !self.jobs.iter().any(Job::has_tiles)) {
            return self.jobs.iter().zip(workers).try_for_each(|(job, worker)| {
                // SAFETY: the caller's promise.
                unsafe { job.run_outputs(worker, 0..job.count_outputs()) }
            });
        }
        let (jobs, outputs) = (&self.jobs, self.jobs.first().map_or(0, Job::count_outputs));
        let is_whole = |job: &Job| job.tree.parts == 1 || job.machine.columns.is_some();
        let blocks: Vec<Range<i64>> = match self.blocks {
            Some(Blocks::Of(block)) => {
                (0..outputs).step_by(block as usize).map(|first| first..(first + block).min(outputs)).collect()
            }
            Some(Blocks::Strips(strips)) if jobs.iter().all(is_whole) => {
                strips.of(0..outputs).map(|(first, count)| first..first + count as i64).collect()
            }
            // SAFETY: the caller's promise.
            _ => return jobs.iter().try_for_each(|job| unsafe { job.run() }),
        };
        // SAFETY: the caller's promise.
        unsafe { run_blocks(jobs, blocks) }
    }
}

/// Whether a number means the same output in all of them.
fn count_alike(tasks: &[Task<'_>]) -> bool {
    let mut orders = tasks.iter().map(|task| {
        let outer: Vec<usize> = (0..task.reduction.outer).filter(|axis| task.space.extents[*axis] != 1).collect();
        task.space.order(outer)
    });
    let first = orders.next();
    orders.all(|order| Some(&order) == first.as_ref())
}

/// Whether a reduction chooses elements by results of those before it. Code for whole rows finds what indices choose before it
/// computes a row, and so before there are results.
fn choose_by_results(tasks: &[Task<'_>]) -> bool {
    tasks.iter().enumerate().any(|(number, task)| {
        let earlier = tasks[..number].iter().flat_map(|task| &task.reduction.outputs);
        let is_result = |read: &Read| earlier.clone().any(|output| output.tensor == read.tensor);
        let reads = &task.reduction.reads;
        let results: Vec<Var> = reads.list.iter().filter(|read| is_result(read)).map(|read| read.var).collect();
        let by_result = reads.depending_on(&results);
        by_result.iter().zip(&task.space.reads).any(|(depends, steps)| *depends && steps.is_none())
    })
}

impl Blocks {
    /// `None` if whole outputs are too large.
    fn of(jobs: &[Job]) -> Option<Self> {
        let bytes = jobs.iter().map(Job::count).max()?.max(1).saturating_mul(ELEMENT);
        let outputs = jobs.first()?.count_outputs();
        let fair = outputs / jobs[0].pieces;
        if jobs.iter().any(|job| job.count_outputs() != outputs) {
            return None;
        }
        let lines = || jobs.iter().filter(|job| job.tree.across).filter_map(|job| Some(job.outer.last()?.extent));
        if let Some(line) = lines().min() {
            // With fewer neighbouring outputs, memory would be read in pieces that are too small.
            let most = 2 * NEAR / bytes;
            if line == 0 || lines().any(|other| other % line != 0) || most < NARROW.min(line) {
                return None;
            }
            let strips = Strips::at_most(line, most.min(fair.max(NARROW)).min(LANES as i64));
            return (strips.count(outputs) >= jobs[0].pieces).then_some(Self::Strips(strips));
        }
        let whole = jobs.iter().all(|job| job.tree.parts == 1);
        whole.then(|| Self::Of((NEAR / bytes).min(fair).max(1)))
    }
}

/// Runs machine code for whole rows.
///
/// # Safety
/// Nobody else may access the tensors during the call. The code must be of these jobs.
unsafe fn run_rows(rows: &WholeRows, jobs: &[Job]) -> Result<(), TeError> {
    let (outputs, count) = jobs.first().map_or((0, 0), |job| (job.count_outputs(), job.count()));
    if outputs.saturating_mul(count) <= ALONE {
        // SAFETY: the caller's promise.
        return unsafe { rows.run(jobs, &mut rows.memory(jobs), 0..outputs) };
    }
    let pieces = parallel::pieces(outputs as usize, (TASK / count.max(1)).max(1) as usize);
    parallel::try_for_each(
        pieces,
        || (rows.memory(jobs), Fence),
        |(memory, _), piece| {
            // SAFETY: the caller's promise; no two pieces share a row.
            unsafe { rows.run(jobs, memory, piece.start as i64..piece.end as i64) }
        },
    )
}

/// # Safety
/// Nobody else may access the tensors during the call. A number must mean the same output in all jobs, and blocks must be
/// such as [`Job::run_outputs`] takes.
unsafe fn run_blocks(jobs: &[Job], blocks: Vec<Range<i64>>) -> Result<(), TeError> {
    parallel::try_for_each(
        blocks.into_iter(),
        || jobs.iter().map(Job::worker).collect::<Vec<Worker>>(),
        |workers, outputs| {
            // SAFETY: the caller's promise; these outputs and their intermediate values belong to this task.
            jobs.iter().zip(workers).try_for_each(|(job, worker)| unsafe { job.run_outputs(worker, outputs.clone()) })
        },
    )
}
