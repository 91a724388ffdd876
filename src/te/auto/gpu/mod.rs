//! Kernels for a GPU: which, and their text. The CPU combines values in the trees that are chosen here.

pub(in crate::te::auto) mod choose;
pub(in crate::te::auto) mod class;
pub(in crate::te::auto) mod emit;
pub(in crate::te::auto) mod variants;
