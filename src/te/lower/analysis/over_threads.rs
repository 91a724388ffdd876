//! Reductions over threads: which can be done, and their loops in the order in which they run.
//!
//! Where only a part of a reduction's loops is bound to threads, every thread first reduces over the other loops by
//! itself, and then the threads combine what each has: the threads' loops run outside the serial ones.

use crate::te::error::TeError;
use crate::te::lang::axis::{Axis, AxisKind};
use crate::te::lang::expr::Kind;
use crate::te::lang::thread::Thread;
use crate::te::schedule::{Schedule, Stage};

/// Who combines the values of a stage's reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// No threads: every value is combined with what is in the stage's memory.
    Loops,
    /// Threads, one value of each.
    Threads,
    /// Threads, with what each has made of the values of the serial loops, from the loop at this place on.
    ThreadsAfterLoops(usize),
}

/// Puts the threads' loops of each reduction outside its serial ones, in the places of reduction loops.
pub(crate) fn put_threads_outside(mut schedule: Schedule) -> Schedule {
    for stage in &mut schedule.stages {
        let places: Vec<usize> =
            (0..stage.leaves.len()).filter(|place| stage.leaves[*place].kind() == AxisKind::Reduce).collect();
        let (threads, serial): (Vec<Axis>, Vec<Axis>) =
            places.iter().map(|place| stage.leaves[*place]).partition(|leaf| stage.threads.contains_key(leaf));
        for (place, leaf) in places.into_iter().zip(threads.into_iter().chain(serial)) {
            stage.leaves[place] = leaf;
        }
    }
    schedule
}

impl Over {
    /// Who reduces a stage whose loops are in order; `once` says of a loop that it has one iteration.
    ///
    /// # Errors
    /// [`TeError::ThreadReduction`] for a reduction over threads that no device can do.
    pub(crate) fn of(stage: &Stage, once: impl Fn(Axis) -> bool) -> Result<Self, TeError> {
        let reduced: Vec<Axis> = stage.leaves.iter().copied().filter(|leaf| leaf.kind() == AxisKind::Reduce).collect();
        let threads: Vec<Option<Thread>> =
            reduced.iter().filter_map(|leaf| stage.threads.get(leaf)).map(|axis| axis.thread()).collect();
        if threads.is_empty() {
            return Ok(Self::Loops);
        }
        let refuse = |reason| Err(TeError::ThreadReduction { stage: stage.name().to_owned(), reason });
        if threads.contains(&Some(Thread::Virtual)) {
            return refuse("virtual threads can't be reduced over; bind the reduction axis to threadIdx");
        }
        if threads.iter().any(|thread| matches!(thread, Some(Thread::Block(_)))) {
            return refuse("blocks can't be reduced over; bind the reduction axis to threadIdx");
        }
        let first = stage.leaves.iter().position(|leaf| leaf.kind() == AxisKind::Reduce).unwrap_or(0);
        if stage.leaves[first..].iter().any(|leaf| leaf.kind() != AxisKind::Reduce) {
            return refuse("a data axis lies inside a reduction axis that is a thread; reorder it outside");
        }
        if let Some(Kind::Reduce(reduce, _)) = stage.operation.as_compute().map(|c| c.body[0].kind())
            && !reduce.init.is_empty()
        {
            return refuse("a reduction over threads starts from the identity and takes no initial value");
        }
        let serial = first + threads.len();
        if stage.leaves[serial..].iter().all(|leaf| once(*leaf)) {
            return Ok(Self::Threads);
        }
        if reduced.iter().any(|leaf| stage.is_mixed(*leaf)) {
            return refuse(
                "a loop of it is fused of data and reduction axes, and only some of its reduction loops are threads; \
                 don't fuse them, or make all of them threads",
            );
        }
        if stage.tensorized_from()?.is_some() {
            return refuse("an intrinsic can't do the loops that each thread of a reduction does; use rfactor first");
        }
        Ok(Self::ThreadsAfterLoops(serial))
    }
}
