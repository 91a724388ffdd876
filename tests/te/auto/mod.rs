//! Automatic maps, reductions and scans on the CPU and on an emulated GPU, compared with the interpreter or with plain
//! loops.

mod by_data;
mod cells;
mod cells_in_one_launch;
mod chain;
mod chain_exact;
mod maps;
mod ragged;
mod reduce;
mod scan;
mod scan_fold;
mod several;
pub(crate) mod shared;
mod table;
