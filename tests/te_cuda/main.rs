//! Tensor expressions on a GPU that ptx-vm executes, with its race detector on: the same results as the interpreter's.

mod case;
mod listing;
mod reductions;
