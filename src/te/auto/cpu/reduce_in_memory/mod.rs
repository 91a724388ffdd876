//! Direct reductions: their points are elements in memory, unchanged, so rows of memory are combined into lanes without
//! passing through registers.

pub(super) mod plan;
mod run;
