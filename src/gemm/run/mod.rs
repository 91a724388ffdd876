//! Runs: checks of the arguments, the kernels of a plan, copies of operands, the launch; and what the CPU does instead.

pub(crate) mod by_name;
pub(crate) mod check;
pub(crate) mod cpu_words;
pub(crate) mod fill;
pub(crate) mod groups;
pub(crate) mod images;
pub(crate) mod later;
pub(crate) mod launch;
mod merged;
mod pack;
pub(crate) mod patches;
pub(crate) mod picked;
pub(crate) mod plan;
pub(crate) mod repack;
pub(crate) mod scales;
pub(crate) mod scattered;
pub(crate) mod sought;
pub(crate) mod variant;
mod wanted;
pub(crate) mod workspace;
