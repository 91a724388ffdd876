//! Runs: checks of the arguments, the kernels of a plan, copies of operands, the launch; and what the CPU does instead.

pub(crate) mod by_name;
pub(crate) mod check;
pub(crate) mod cpu_words;
mod fill;
pub(crate) mod groups;
pub(crate) mod images;
pub(crate) mod later;
pub(crate) mod launch;
mod merged;
mod pack;
mod patches;
pub(crate) mod picked;
pub(crate) mod plan;
pub(crate) mod repack;
mod scales;
pub(crate) mod scattered;
pub(crate) mod tensor_maps;
pub(crate) mod variant;
mod wanted;
pub(crate) mod workspace;
