//! The executor: one warp instruction at a time, all 32 lanes together.
//!
//! `schedule` checks a launch, starts workers, keeps clusters of blocks resident and lets their warps take turns. The
//! other rooms hold the instructions' handlers by kind: `memory`, `arithmetic`, `tensor`, `sync`, `host`; `check` holds
//! what watches them. All of them work over `context`, which is all a handler sees, and `state`, the data it holds; `lanes`
//! loops over the 32 lanes, `dispatch` chooses the SIMD level.
//!
//! Nothing here reads PTX text; the decoder binds instructions to handlers (`decode/bind.rs`).

pub(crate) mod arithmetic;
mod check;
mod context;
pub(crate) mod dispatch;
pub(crate) mod host;
mod lane;
pub(crate) mod lanes;
pub(crate) mod memory;
pub(crate) mod schedule;
mod state;
pub(crate) mod sync;
pub(crate) mod tensor;

pub(crate) use schedule::launch::launch;
pub(crate) use state::launch::MachineMemory;
