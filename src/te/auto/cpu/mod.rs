//! Automatic schedules on the CPU: expressions as programs over strips of points, reductions and scans of strips.
//!
//! Unsafe code reads and writes the arguments' memory here, under their locks and within the bounds that
//! [`Space`](super::bind::iteration_space::Space) has found.

mod compile;
mod direct;
mod elements;
mod fold;
mod invariant;
mod job;
pub(super) mod map;
mod memory;
pub(super) mod passes;
mod program;
pub(super) mod reduce;
mod registers;
mod rows;
pub(super) mod scan;
mod scan_fold;
mod tree;
mod vm;

pub(super) use self::job::Task;
