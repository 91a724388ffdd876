//! The happens-before race detector.
//!
//! The executor tells an [`Observer`] what it is about to do, and what has just become ordered. The detector keeps
//! vector clocks and shadow memory. It reports every pair of conflicting accesses that no chain of synchronisation
//! orders, even if this run happened to give the right values. It never changes what a program computes.
//!
//! Clocks, shadow memory, findings and their text belong here. Execution, bounds checks, initialisation checks (those
//! are part of the memory) and scheduling don't.
//!
//! The rules are those of the PTX ISA's memory consistency model (chapter 8). Further rules are in the chapters on
//! asynchronous operations (9.7.9.25 `cp.async`, 9.7.13 `mbarrier`, 9.7.15 `wgmma`, 9.7.16.6 `tcgen05`).

mod actor_clock;
mod actors;
mod cell;
mod clock;
mod cluster;
mod detector;
mod fence;
mod finding;
mod found;
mod groups;
mod history;
mod judge;
mod knowledge;
mod lanes;
mod mbarrier;
mod observer;
mod others;
mod pattern;
mod rules;
mod shadow;
mod spill;
mod spread;
mod stamp;
mod strip;
mod tensor_map;
mod tensor_memory;
mod tensor_own;
mod warp;

pub use cluster::ClusterDetector;
pub use detector::{Detector, GridTooLarge, LaunchShape};
pub use finding::{AccessKind, Agent, Fault, Finding, Hazard, Names, Party, Race, RaceCause, Site};
pub use history::GlobalHistory;
pub use observer::{
    Access, At, BarrierArrival, Bulk, BulkWrite, CopyAsync, Footprint, Kind, MbarrierArrival, MbarrierOrder,
    MbarrierWait, Observer, Order, ProxyFence, Scope, Space, TensorMapFence, TensorProduct, shared_address,
    shared_offset, shared_rank,
};

#[cfg(test)]
mod tests;
