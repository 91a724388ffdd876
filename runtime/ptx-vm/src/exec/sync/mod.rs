//! Barriers, mbarriers, clusters, proxy fences, and exchanges between the lanes of a warp.

pub(crate) mod barrier;
pub(crate) mod clusters;
pub(crate) mod collective;
pub(crate) mod mbarrier;
mod members;
pub(in crate::exec) mod polling;
pub(crate) mod proxy;
