//! Automatic schedules on the CPU: expressions as programs over strips (batches of points that are computed at once,
//! operation by operation), and reductions and scans of strips.
//!
//! If points are neighbours in memory and there are many, in one run or in several, maps and reductions run the same
//! programs as machine code (`machine`). A chain of reductions along rows is then one loop over whole rows. Strips
//! serve all else: operations without vector instructions, work too small to compile for, and other CPUs. Tests compare
//! the code's bits with theirs.
//!
//! Contractions, as products of matrices are, have tiles of outputs in registers (`contraction`).
//!
//! Unsafe code here reads and writes the arguments' memory, under their locks and within the bounds that
//! [`Space`](super::bind::iteration_space::Space) has checked.

mod apply;
mod columns;
mod compared;
mod compile;
mod computed;
mod contraction;
mod direct;
mod elements;
mod extreme;
mod fold;
mod fold_lanes;
mod invariant;
mod job;
mod machine;
pub(super) mod made;
mod map;
mod memory;
mod passes;
mod plain;
mod program;
mod reduce;
mod registers;
mod reused;
mod rows;
mod scan;
mod scan_columns;
mod tree;

pub(super) use self::job::Task;
#[cfg(test)]
pub(super) use self::machine::{COMPILED, FORCED, IN_ROWS};
#[cfg(test)]
pub(super) use self::memory::FAR;
