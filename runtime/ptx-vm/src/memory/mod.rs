//! The memory spaces: device memory, which all blocks share ([`global`]), the shared memory of a block ([`shared`]),
//! and the map of the generic address space ([`window`]).

pub(crate) mod global;
pub(crate) mod shared;
pub(crate) mod window;
