//! Applies pragmas after the loops are made: removes skipped regions, and checks that the pragmas of parallel loops
//! stand where they have a meaning.

use crate::te::error::{ScheduleError, TeError};
use crate::te::loops::ir::pragma::Pragma;
use crate::te::loops::ir::stmt::{LoopKind, Note, Stmt};

/// The statement without the regions that are to be skipped.
pub(crate) fn skip_regions(statement: Stmt) -> Stmt {
    match statement {
        Stmt::Note { note: Note::Pragma(_, Pragma::DebugSkipRegion), .. } => Stmt::Seq(Vec::new()),
        other => other.map_children(&mut skip_regions),
    }
}

/// # Errors
/// [`ScheduleError::Pragma`] for a pragma of parallel loops that is not around or inside a parallel loop as it must be.
pub(crate) fn check_parallel(statement: &Stmt) -> Result<(), TeError> {
    check(statement, Region { launched: false, parallel: false })
}

#[derive(Clone, Copy)]
struct Region {
    /// Whether a team of threads was launched around this place.
    launched: bool,
    /// Whether this place is inside an iteration of a parallel loop.
    parallel: bool,
}

fn check(statement: &Stmt, mut region: Region) -> Result<(), TeError> {
    if let Stmt::Note { note: Note::Pragma(axis, pragma), .. } = statement {
        let refuse = |reason: &str| {
            Err(ScheduleError::Pragma { key: pragma.key().to_owned(), reason: format!("at {}: {reason}", axis.name()) }
                .into())
        };
        match pragma {
            Pragma::ParallelLaunchPoint if region.launched => {
                return refuse("the threads are launched already by a loop or launch point around it");
            }
            Pragma::ParallelLaunchPoint => region.launched = true,
            Pragma::ParallelStridePattern if !region.launched => {
                return refuse("no threads are launched around it; put `parallel_launch_point` at a loop outside");
            }
            Pragma::ParallelBarrierWhenFinish if !region.launched => {
                return refuse("there are no threads to wait for; put `parallel_launch_point` at a loop outside");
            }
            Pragma::ParallelBarrierWhenFinish if region.parallel => {
                return refuse("inside a parallel loop threads do different iterations; put it outside of that loop");
            }
            _ => {}
        }
    }
    if let Stmt::For { kind: LoopKind::Parallel, .. } = statement {
        region = Region { launched: true, parallel: true };
    }
    statement.children().into_iter().try_for_each(|child| check(child, region))
}
