//! The executor: one warp instruction at a time, all 32 lanes together.
//!
//! `launch` checks a launch and starts `worker`s; a worker keeps clusters of blocks resident (`unit`) and lets their
//! warps take turns (`run`). The other modules are the instructions' handlers, one group each, over `context`, which is
//! all a handler sees. `dispatch` chooses the SIMD level.
//!
//! Nothing here reads PTX text; the decoder binds instructions to handlers.

pub(crate) mod access;
pub(crate) mod atomics;
pub(crate) mod barrier;
mod block;
pub(crate) mod bulk;
pub(crate) mod clusters;
pub(crate) mod collective;
pub(crate) mod compare;
mod context;
pub(crate) mod control;
pub(crate) mod convert;
pub(crate) mod copies;
pub(crate) mod dispatch;
mod fault;
pub(crate) mod float;
pub(crate) mod general;
pub(crate) mod integer;
pub(crate) mod lanes;
mod launch;
pub(crate) mod load_store;
pub(crate) mod matrix;
pub(crate) mod mbarrier;
pub(crate) mod moves;
mod observe;
mod polling;
mod printf;
pub(crate) mod proxy;
mod run;
pub(crate) mod system;
mod undefined;
mod unit;
mod warp;
pub(crate) mod wgmma;
mod wgmma_fence;
mod worker;

pub(crate) use context::Handler;
pub(crate) use general::LaneFunction;
pub(crate) use launch::{MachineMemory, launch};
