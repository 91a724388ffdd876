//! Automatic schedules on the CPU: expressions as programs over strips of points, reductions and scans of strips.
//!
//! Unsafe code reads and writes the arguments' memory here, under their locks and within the bounds that
//! [`Space`](super::space::Space) has found.

mod chain;
mod code;
mod direct;
mod elements;
mod fold;
mod memory;
mod points;
mod program;
mod reduce;
mod rows;
mod same;
mod scan;
mod scan_fold;
mod strip;
mod tree;

pub(super) use chain::run as chain;
pub(super) use points::run as map;
pub(super) use reduce::{Task, run as reduce};
pub(super) use scan::run as scan;
