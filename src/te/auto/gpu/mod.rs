//! Kernels for a GPU: their choice and their text. The CPU uses some of these choices too, for the same trees of
//! combination.

pub(in crate::te::auto) mod choose;
pub(in crate::te::auto) mod emit;
pub(in crate::te::auto) mod key;
pub(in crate::te::auto) mod values;
pub(in crate::te::auto) mod variants;
