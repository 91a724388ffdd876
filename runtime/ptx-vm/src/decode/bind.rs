//! The only file of the decoder that imports the executor: it gives the [`handler`] of each operation, and the groups
//! of operations. Everything else that both sides know, such as modifiers and shapes, is data in [`crate::program`].

pub(super) use crate::exec::arithmetic::{compare, convert, float, general, integer, moves};
pub(super) use crate::exec::dispatch::{handler, scalar_handler};
pub(super) use crate::exec::host::system;
pub(super) use crate::exec::lanes;
pub(super) use crate::exec::memory::{atomics, bulk, copies, frame, load_store, local};
pub(super) use crate::exec::schedule::control;
pub(super) use crate::exec::sync::{barrier, clusters, collective, mbarrier, proxy};
pub(super) use crate::exec::tensor::{matrix, tcgen05, wgmma};
