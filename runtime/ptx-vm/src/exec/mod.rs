//! The executor: one warp instruction at a time, all 32 lanes together.
//!
//! `schedule` checks a launch, starts workers, keeps clusters of blocks resident, and lets their warps take turns. The
//! handlers of instructions are in the modules `memory`, `arithmetic`, `tensor`, `sync` and `host`, by kind. `check`
//! has the checks of what they do. All of them work on a `context`, the view of the machine that a handler has, and on
//! `state`, its data. `lanes` has loops over the 32 lanes. `dispatch` chooses the SIMD level.
//!
//! Nothing here reads PTX text. The decoder binds instructions to handlers (`decode/bind.rs`).

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
