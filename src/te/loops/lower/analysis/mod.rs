//! Analyses of a schedule, which run before its loops are made.

mod align;
pub(crate) mod bounds;
mod inline;
pub(crate) mod matching;
pub(crate) mod nesting;
mod normalize;
pub(crate) mod over_threads;
pub(crate) mod preconditions;
pub(crate) mod private_memory;
pub(crate) mod readers;
mod rolling;
pub(crate) mod scans;
