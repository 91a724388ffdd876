//! Automatic schedules on the CPU: expressions as programs over strips (batches of points that are computed at once,
//! operation by operation), and reductions and scans of strips.
//!
//! Maps and reductions run the same programs as machine code (`machine`), if points are neighbours in memory and there
//! are enough of them. Points of several runs count together. Maps compute and check indices once a row, if these choose
//! whole rows, as in embeddings (`map_rows.rs`). A chain of reductions along rows is one loop over whole rows. Strips
//! serve all else: operations without vector instructions, work too small to compile for, and other CPUs. Tests compare
//! the code's bits with theirs.
//!
//! # Reductions: which code is taken
//!
//! A reduction is compiled for the shapes of a run as a [`Job`](reduce_job::Job); reductions that follow each other are a
//! [`Chain`](reduce_chain::Chain). A job first gets its [`Tree`](reduce_tree::Tree). The tree fixes the lanes, and so the order of
//! combination. It depends on shapes, strides and the reduction, not on threads. The code below keeps this order, so
//! strips and machine code give the same bits.
//!
//! | lanes | if |
//! |---|---|
//! | a GPU's threads | the order is [`Order::Shape`](super::order::Order), and a GPU's threads would share outputs |
//! | neighbouring outputs ("across") | in exact order with several outputs; or from 64 outputs on, if they are neighbours in memory or have few elements |
//! | elements of one output | otherwise. Ordered reductions give each lane a run of neighbours |
//!
//! From top to bottom, the first code that fits is taken. Machine code waits until the runs so far have 2¹⁶ points.
//!
//! | code | file | if |
//! |---|---|---|
//! | tiles of outputs in registers | `contraction/` | a contraction: operands share some axes only |
//! | one loop over rows, in machine code | `machine/whole_rows.rs` | lanes are elements of one output, unordered and in one part. All reductions have the same rows and are sums, products, minima or maxima. There are several of them, or elements are computed: an exponential before, a quotient after. No index depends on an earlier result |
//! | a walk down columns, in machine code | `reduce_columns.rs`, `machine/walk.rs` | lanes are outputs, and all steps have vector instructions. Elements are computed, or reductions share strips of outputs |
//! | rows of memory, straight into lanes | `reduce_in_memory/`, `fold_memory.rs` | sums, products, minima or maxima of elements as they are in memory |
//! | search for an extreme | `reduce_argmax.rs`, `fold_by_comparison.rs` | argmax or argmin of contiguous elements; lanes are not outputs |
//! | strips of neighbouring outputs | `reduce_strips.rs` | lanes are outputs |
//! | strips that outputs share | `reduce_shared_strips.rs` | an output has few lanes, one part and no order; reads are affine; no step can fail or has a condition |
//! | strips of one output | `reduce_strips.rs` | always |
//!
//! In the last two, one loop in machine code (`machine/of_job.rs`) replaces the strips if it can. If there are few
//! outputs with many elements, these are cut into parts. Threads combine the parts, and the parts' results are combined
//! in their order.
//!
//! All these combine lanes with each other in `fold_lanes.rs`, and compute outputs of elements in `apply.rs`.
//! `reduce_chain.rs` takes the outputs of a chain block by block, so that their elements stay in a near cache.
//!
//! # Safety
//! Unsafe code here reads and writes the arguments' memory, under their locks and within the bounds that
//! [`Space`](super::bind::iteration_space::Space) has checked.

mod apply;
mod compile;
mod computed;
mod contraction;
mod elements;
mod fold_by_comparison;
mod fold_lanes;
mod fold_memory;
mod invariant;
mod machine;
pub(super) mod made;
mod map;
mod map_rows;
mod memory;
mod program;
mod reduce_argmax;
mod reduce_chain;
mod reduce_columns;
mod reduce_in_memory;
mod reduce_job;
mod reduce_shared_strips;
mod reduce_strips;
mod reduce_tree;
mod registers;
mod reused;
mod scan;
mod scan_columns;
mod scan_plain;
mod task;

#[cfg(test)]
pub(super) use self::machine::{COMPILED, IN_ROWS};
pub(super) use self::task::Task;
