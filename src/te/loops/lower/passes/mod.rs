//! Passes from a program to a program, one in each file.

pub(crate) mod barriers;
pub(crate) mod double_buffer;
pub(crate) mod flatten;
pub(crate) mod hoist;
pub(crate) mod partition;
pub(crate) mod pragmas;
pub(crate) mod share;
pub(crate) mod simplify;
pub(crate) mod unroll;
pub(crate) mod virtual_threads;
