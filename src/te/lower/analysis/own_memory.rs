//! Memory of a thread or of a block whose elements several of them would compute: no reader would find all of them.

use super::bounds::{Plan, threads_around};
use crate::te::error::TeError;
use crate::te::lang::axis::AxisKind;
use crate::te::lang::buffer::Scope;
use crate::te::lang::thread::Thread;
use crate::te::schedule::Schedule;

/// Whether threads that differ in an index have each their own of the memory of a scope. Virtual threads are one thread.
fn is_own(scope: Scope, thread: Thread) -> bool {
    match thread {
        Thread::Thread(_) => scope == Scope::Local,
        Thread::Block(_) => scope != Scope::Global,
        Thread::Virtual => false,
    }
}

/// # Errors
/// [`TeError::AcrossThreads`] for a stage of which each thread or block would have only what it computed itself. What
/// threads reduce to one value, each of them gets; but not those of another launch, or with parts of their own.
pub(crate) fn check_own_memory(schedule: &Schedule, plan: &Plan) -> Result<(), TeError> {
    for (stage, buffers) in schedule.stages.iter().zip(&plan.buffers) {
        let Some(buffer) = buffers.first() else { continue };
        let scope = buffer.scope();
        for leaf in &stage.leaves {
            let Some(thread) = stage.threads.get(leaf).and_then(|axis| axis.thread()) else { continue };
            let total = leaf.kind() == AxisKind::Reduce && !stage.spans_data(*leaf);
            let around = threads_around(schedule, stage);
            let in_launch = around.iter().any(|thread| *thread != Thread::Virtual);
            if !is_own(scope, thread) || total && in_launch && !around.contains(&thread) {
                continue;
            }
            // What a launch of its own computes, another one reads.
            let others_read = matches!(thread, Thread::Block(_)) || total && !in_launch;
            return Err(TeError::AcrossThreads {
                tensor: buffer.name().to_owned(),
                scope: scope.name(),
                owner: if scope == Scope::Local { "thread" } else { "block" },
                axis: leaf.name().to_owned(),
                thread: thread.name(),
                wider: if others_read { Scope::Global } else { Scope::Shared }.name(),
            });
        }
    }
    Ok(())
}
