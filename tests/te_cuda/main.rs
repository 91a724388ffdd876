//! Tensor expressions on a GPU that ptx-vm executes, with its race detector on: the same results as the interpreter's.

mod case;
mod expressions;
mod listing;
mod misuse;
mod reductions;
mod scans;
mod schedules;
