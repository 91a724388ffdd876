//! Reductions over threads: which are possible, and the order of their loops.
//!
//! If only some of a reduction's loops are bound to threads, every thread first reduces over the other loops alone.
//! Then the threads combine their results. So the threads' loops run outside the serial ones.

use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::{Axis, AxisKind};
use crate::te::expr::expression::Kind;
use crate::te::expr::thread::Thread;
use crate::te::loops::schedule::{Schedule, Stage};

/// How the values of a stage's reduction are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Without threads: every value is combined with the element in the stage's memory.
    Loops,
    /// Over threads, one value from each.
    Threads,
    /// Over threads; each first combines the values of the serial loops, from the loop at this place on.
    ThreadsAfterLoops(usize),
}

/// Moves the threads' loops of each reduction outside its serial ones, within the places of its reduction loops.
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
    /// How a stage reduces whose loops are in this order. `once` tells whether a loop has one iteration.
    ///
    /// # Errors
    /// [`LoweringError::ThreadReduction`] for a reduction over threads that no device can do.
    pub(crate) fn of(stage: &Stage, once: impl Fn(Axis) -> bool) -> Result<Self, TeError> {
        let reduced: Vec<Axis> = stage.leaves.iter().copied().filter(|leaf| leaf.kind() == AxisKind::Reduce).collect();
        let threads: Vec<Option<Thread>> =
            reduced.iter().filter_map(|leaf| stage.threads.get(leaf)).map(|axis| axis.thread()).collect();
        if threads.is_empty() {
            return Ok(Self::Loops);
        }
        let refuse = |reason| Err(LoweringError::ThreadReduction { stage: stage.name().to_owned(), reason }.into());
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
