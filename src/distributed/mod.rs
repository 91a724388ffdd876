//! Products on several ranks: weights divided among GPUs (*tensor parallel*), with the epilogue before or after what the
//! ranks add up.
//!
//! ```text
//!                    rank 0               rank 1
//!  x, [M, K]           x                    x             the same on every rank
//!                      │                    │
//!  ColumnParallel    x·W₁[:, half]        x·W₁[:, half]   with bias, activation, gate: of a rank's own columns
//!                      │                    │
//!  RowParallel       h·W₂[half, :]        h·W₂[half, :]   partial sums, in chunks of rows:
//!                      └──── all-reduce ────┘             while one is added up, the next is multiplied
//!                      │                    │
//!                    epilogue             epilogue        bias, residual, norm: of the sum
//! ```
//!
//! With [`Combine::ReduceScatter`] each rank gets its part of the sum's rows, and
//! [`gather_rows`](ColumnSettings::gather_rows) brings them together before the next layer: as much is sent, and what lies
//! between is computed once and not by every rank.
//!
//! The ranks are GPUs that talk by NVIDIA's NCCL (feature `nccl`), or threads of this process on any devices, such as this
//! computer's CPU: so a layer is written and tested where there are no GPUs. [`Communicator`] has both, and
//! [the guide](crate::guide::ranks) says how to start them.
//!
//! ```
//! use epilogue::distributed::{ColumnParallel, RowParallel};
//! use epilogue::prelude::*;
//! use epilogue::runtime::Communicator;
//!
//! #[epilogue]
//! fn up(accum: Accum, bias: RowVector) -> Tensor {
//!     let h = relu(accum + bias);
//!     h
//! }
//!
//! #[epilogue]
//! fn down(accum: Accum, bias: RowVector, x: Tensor) -> Tensor {
//!     let y = accum + bias + x;
//!     y
//! }
//!
//! /// y = relu(x·W₁ + b₁)·W₂ + b₂ + x, with half of W₁'s columns and half of W₂'s rows.
//! fn half(ranks: &Communicator) -> Result<Vec<f32>, epilogue::distributed::Error> {
//!     let (device, mine) = (Device::cpu(), ranks.rank() as f32);
//!     let x = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
//!     let w1 = device.full::<f32>([2, 3], 1.0 + mine)?; // all of it is [2, 6]
//!     let w2 = device.full::<f32>([3, 2], 0.5)?; // all of it is [6, 2]
//!     let (b1, b2) = (device.zeros::<f32>([3])?, device.full::<f32>([2], 10.0)?);
//!     let (mut h, mut y) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([2, 2])?);
//!
//!     let first = ColumnParallel::plan::<Up>(&device, ranks, &x, &w1)?;
//!     let second = RowParallel::plan::<Down>(&device, ranks, &h, &w2)?;
//!     first.run(&x, &w1, Up { bias: &b1, h: &mut h })?;
//!     second.run(&h, &w2, Down { bias: &b2, x: &x, y: &mut y })?;
//!     Ok(y.to_vec()?)
//! }
//!
//! std::thread::scope(|scope| {
//!     for ranks in Communicator::in_process(2) {
//!         scope.spawn(move || assert_eq!(half(&ranks).unwrap(), [24.5, 25.5, 44.5, 45.5]));
//!     }
//! });
//! ```
//!
//! # How it is made
//! - Both products are a [`Parallel`]. It plans, runs chunk by chunk and keeps memory. A division by columns or by rows
//!   adds the plans, and the work on a chunk before and after the ranks exchange it.
//! - A [`RowParallel`] is two plans. The first gives partial sums (`partial_product`), in f32. The second is the
//!   epilogue, with its accumulators read from memory: a product without a multiplication (`trees`). So every epilogue
//!   works, in phases too, and kernels know nothing of ranks. With [`Place::Before`] there is one plan: the epilogue's
//!   own.
//! - Chunks are views of the rows of A and of the arguments (`rows`). Each chunk's sums are in an allocation of their
//!   own. So work on the two streams waits only for the chunk that it needs, by the runtime's order of uses.
//! - A run first goes through all of it on a dry stream: everything is checked and compiled. Then the ranks tell each other
//!   what they are about to do, or why they can't (`agreement`). With NCCL that waits for the GPU, so it is done at the
//!   first run of a shape; between threads, at every run.
//! - A part of the rows or columns gives reductions across it, and positions, another meaning: planning refuses these.
//!
//! # Limits
//! Operands are matrices of floats. A sum that is multiplied by a host scalar of 0 gives 0, whatever the sum is. With
//! NCCL, ranks may run different shapes after agreeing on each of them; only `always_agree` notices this.

mod agreement;
mod column;
mod error;
mod memory;
mod parallel;
mod row;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod trees;

pub use column::{ByColumns, ColumnParallel, ColumnSettings};
pub use error::Error;
pub use parallel::Parallel;
pub use row::{ByRows, Combine, Place, RowParallel, RowSettings};
pub use settings::Settings;

#[doc(inline)]
pub use epilogue_runtime::{Communicator, CommunicatorError, LaunchedRank, Rendezvous};
