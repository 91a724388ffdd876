//! Checks private memory: if several threads (or blocks) compute the elements, each has only its own ones, and no
//! reader would find them all.

use super::bounds::{Plan, threads_around};
use crate::te::error::{LoweringError, TeError};
use crate::te::expr::axis::AxisKind;
use crate::te::expr::buffer::Scope;
use crate::te::expr::thread::Thread;
use crate::te::loops::schedule::Schedule;

/// Whether threads that differ in an index have separate memory of a scope. Virtual threads belong to one thread.
fn is_private(scope: Scope, thread: Thread) -> bool {
    match thread {
        Thread::Thread(_) => scope == Scope::Local,
        Thread::Block(_) => scope != Scope::Global,
        Thread::Virtual => false,
    }
}

/// # Errors
/// [`LoweringError::AcrossThreads`] for a stage in private memory whose elements are computed by several threads or
/// blocks. A reduction over threads to one value is allowed, because each of them gets the result; but not for readers
/// in another launch, and not if the loop also runs over data.
pub(crate) fn check_private_memory(schedule: &Schedule, plan: &Plan) -> Result<(), TeError> {
    for (stage, buffers) in schedule.stages.iter().zip(&plan.buffers) {
        let Some(buffer) = buffers.first() else { continue };
        let scope = buffer.scope();
        for leaf in &stage.leaves {
            let Some(thread) = stage.threads.get(leaf).and_then(|axis| axis.thread()) else { continue };
            let total = leaf.kind() == AxisKind::Reduce && !stage.spans_data(*leaf);
            let around = threads_around(schedule, stage);
            let in_launch = around.iter().any(|thread| *thread != Thread::Virtual);
            if !is_private(scope, thread) || total && in_launch && !around.contains(&thread) {
                continue;
            }
            // Another launch reads the elements that one launch computes here.
            let others_read = matches!(thread, Thread::Block(_)) || total && !in_launch;
            return Err(LoweringError::AcrossThreads {
                tensor: buffer.name().to_owned(),
                scope: scope.name(),
                owner: if scope == Scope::Local { "thread" } else { "block" },
                axis: leaf.name().to_owned(),
                thread: thread.name(),
                wider: if others_read { Scope::Global } else { Scope::Shared }.name(),
            }
            .into());
        }
    }
    Ok(())
}
