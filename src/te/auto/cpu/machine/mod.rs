//! Steps as machine code: where all points of a strip lie next to each other in memory, their steps become one loop from
//! memory to memory, whatever the number of steps. Everything else is done step by step, with the same bits.
//!
//! `lower` (steps → what a lane computes) → `point_loop` (and where lanes are) → `of_job` (which loops a reduction has).

mod lower;
mod of_job;
mod point_loop;

pub(super) use self::point_loop::{At, Builder, MachineLoops, Moving, PointLoop, Rows};

/// From this many points on, code is compiled, which takes as long as some 10⁵ steps of points.
const WORTH: i64 = 1 << 16;

#[cfg(test)]
thread_local! {
    /// Whether this thread compiles code, whatever the number of points; `None` where that decides.
    pub(in crate::te::auto) static FORCED: std::cell::Cell<Option<bool>> = const { std::cell::Cell::new(None) };
    /// The number of loops that this thread has compiled.
    pub(in crate::te::auto) static COMPILED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Whether it pays to compile code for this many points.
pub(super) fn is_worth(points: i64) -> bool {
    #[cfg(test)]
    if let Some(always) = FORCED.get() {
        return always;
    }
    points >= WORTH
}
