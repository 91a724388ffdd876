//! Steps as machine code. If all points of a strip are neighbours in memory, their steps become one loop from memory to
//! memory, whatever their number. All other steps run one by one, with the same bits.
//!
//! `lane::machine` turns steps into the computation of a lane; `point_loop` adds where lanes are. From this, `of_job`
//! makes the loops of a reduction. `walk` makes loops over the elements of neighbouring outputs, for
//! [columns](super::reduce_columns). `whole_rows` makes one loop over rows of a chain of reductions.

mod point_loop;
mod reduce_loops;
pub(super) mod reduce_rows;
mod strips;
mod walk;

pub(super) use self::point_loop::{At, LoopBuilder, LoopOutputs, Moving, PointLoop};
pub(super) use self::strips::{Columns, MachineLoops, NARROW, Strip, Strips, Walks};
pub(super) use self::walk::Walk;
use crate::jit;
use crate::tuning::MachineCode;

/// From this many points on, in one run or in several, code is compiled, which takes as long as some 10⁵ steps of points.
const WORTH: usize = 1 << 16;

#[cfg(test)]
thread_local! {
    /// The number of chains that this thread has compiled to a loop over rows.
    pub(in crate::te::auto) static IN_ROWS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    /// The number of loops that this thread has compiled.
    pub(in crate::te::auto) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the points of runs of one shape, until it pays to compile code for them.
#[derive(Debug)]
pub(super) struct Awaited {
    code: MachineCode,
    /// The points of a run.
    points: i64,
    /// The points of all runs so far; `None` if it has paid.
    so_far: Option<i64>,
}

impl Awaited {
    pub(super) const fn new(points: i64, code: MachineCode) -> Self {
        Self { code, points, so_far: Some(0) }
    }

    /// Counts a run. Whether it pays now: it says so once, and never if there is no code for this CPU.
    pub(super) fn pays(&mut self) -> bool {
        let Some(so_far) = &mut self.so_far else { return false };
        if !jit::has_code() {
            return false;
        }
        *so_far = so_far.saturating_add(self.points);
        let pays = self.code.is_due(usize::try_from(*so_far).unwrap_or(0), WORTH);
        if pays {
            self.so_far = None;
        }
        pays
    }
}
