//! Barriers, mbarriers, clusters, fences between proxies, and what lanes of a warp exchange.

pub(crate) mod barrier;
pub(crate) mod clusters;
pub(crate) mod collective;
pub(crate) mod mbarrier;
pub(in crate::exec) mod polling;
pub(crate) mod proxy;
