//! Tensor expressions on a GPU that ptx-vm executes, with its race detector on, and on the CPU: the same results as the
//! interpreter's.

mod expressions;
mod idioms;
mod lanes;
mod layout;
mod listing;
mod memory;
mod misuse;
mod product;
mod reductions;
mod scans;
mod schedules;
mod tensorize;
