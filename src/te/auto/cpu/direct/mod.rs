//! Reductions whose points are elements as they lie in memory: rows of memory are combined into lanes without passing
//! through registers.

pub(super) mod plan;
mod run;
