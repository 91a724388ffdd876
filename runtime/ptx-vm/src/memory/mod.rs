//! The memory spaces: device memory shared by all blocks ([`global`]), a block's shared memory ([`shared`]), and the
//! map of the generic address space ([`window`]).

pub(crate) mod global;
pub(crate) mod shared;
pub(crate) mod window;
