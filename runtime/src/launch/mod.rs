//! Kernels and the order of work: a kernel with its arguments, streams and events, recorded graphs.

pub(crate) mod graph;
pub(crate) mod kernel;
pub(crate) mod load;
pub(crate) mod recording;
pub(crate) mod stream;
