//! Beyond one GPU: how do I divide a layer among ranks, test that without GPUs, and run it under a launcher?
//!
//! [`distributed`](crate::distributed) divides the weights of a layer among *ranks*: the first product's columns
//! ([`ColumnParallel`](crate::distributed::ColumnParallel)), the second product's rows
//! ([`RowParallel`](crate::distributed::RowParallel)), after which the ranks add up what they have. Epilogues are the same
//! functions as on one device.
//!
//! # A layer
//!
//! The function below is written for a [`Communicator`](crate::distributed::Communicator), and doesn't know which kind it
//! is. Here it runs in two threads on this computer's CPU, and is compared with the same layer on one device.
//!
//! ```
//! use epilogue::distributed::{ColumnParallel, Combine, Communicator, Error, RowParallel, RowSettings};
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn swiglu(gate: Accum, up: Accum) -> Tensor {
//!     let h = silu(gate) * up;
//!     h
//! }
//!
//! #[epilogue]
//! fn residual(accum: Accum, x: Tensor) -> Tensor {
//!     let y = accum + x;
//!     y
//! }
//!
//! const WIDTH: usize = 16;
//! const HIDDEN: usize = 24;
//!
//! fn weights(device: &Device, rows: usize, columns: usize, seed: usize) -> Result<DeviceTensor, Error> {
//!     let value = |i: usize| ((i * 31 + seed) % 17) as f32 / 16.0 - 0.5;
//!     Ok(device.tensor(&(0..rows * columns).map(value).collect::<Vec<_>>(), [rows, columns])?)
//! }
//!
//! /// A gated feed-forward block, of which this rank has HIDDEN / ranks columns and rows.
//! fn block(device: &Device, ranks: &Communicator) -> Result<Vec<f32>, Error> {
//!     let mine = HIDDEN / ranks.ranks();
//!     let mine = ranks.rank() * mine..(ranks.rank() + 1) * mine;
//!     let x = weights(device, 8, WIDTH, 0)?;
//!     let gate = weights(device, WIDTH, HIDDEN, 1)?.slice(1, mine.clone())?;
//!     let up = weights(device, WIDTH, HIDDEN, 2)?.slice(1, mine.clone())?;
//!     let down = weights(device, HIDDEN, WIDTH, 3)?.slice(0, mine.clone())?;
//!     let mut h = device.zeros::<f32>([8, mine.len()])?;
//!     let mut y = device.zeros::<f32>([8, WIDTH])?;
//!
//!     let first = ColumnParallel::plan::<Swiglu>(device, ranks, &x, [&gate, &up])?;
//!     let settings = RowSettings::default().combine(Combine::AllReduce).chunks(2);
//!     let second = RowParallel::plan_with::<Residual>(device, ranks, &h, &down, settings)?;
//!     first.run(&x, [&gate, &up], Swiglu { h: &mut h })?;
//!     second.run(&h, &down, Residual { x: &x, y: &mut y })?;
//!     Ok(y.to_vec()?)
//! }
//!
//! let alone = block(&Device::cpu(), &Communicator::in_process(1)[0])?;
//! let two = std::thread::scope(|scope| {
//!     let ranks = Communicator::in_process(2).into_iter();
//!     let ranks: Vec<_> = ranks.map(|ranks| scope.spawn(move || block(&Device::cpu(), &ranks))).collect();
//!     ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
//! })?;
//! assert_eq!(two[0], two[1]); // every rank has the sum, with the same bits
//! assert!(alone.iter().zip(&two[0]).all(|(one, two)| (one - two).abs() <= 1e-4));
//! # Ok::<(), Error>(())
//! ```
//!
//! Sums over ranks round in another order than one device does, so the two agree up to rounding. Between threads the order
//! is that of the ranks, and every run gives the same bits.
//!
//! # What goes where
//!
//! | the epilogue has | in a `ColumnParallel` | in a `RowParallel` |
//! |---|---|---|
//! | bias, scales: row vectors | each rank its columns | all of it, on every rank |
//! | residual: a tensor `[M, N]` | each rank its columns | all of it; of `Combine::ReduceScatter` each rank its rows |
//! | activation, gate | before anything is sent | of the sum |
//! | softmax, norms, sums along a row | refused: a rank has a part of the row | of the sum |
//! | `alpha * accum` and nothing else | | also before the sum (`Place::Before`): sums in 16 bits are half as many bytes |
//!
//! `Combine::ReduceScatter` leaves each rank its part of the rows, for norms and residuals that are then computed once and
//! not by every rank; the next `ColumnParallel` gathers them (`ColumnSettings::gather_rows`).
//!
//! Both cut their rows into chunks: while the sums of one chunk are on their way, on a stream of the communicator's, the
//! next is multiplied. From 1024 rows on it is 4 chunks; `.chunks(n)` says another number. An epilogue that reduces columns,
//! or asks for its row, is computed in one.
//!
//! # GPUs, under a launcher
//!
//! With the feature `nccl`, ranks are processes (or threads) with a GPU each. The launcher says which rank a process is
//! ([`LaunchedRank`](crate::distributed::LaunchedRank) knows `torchrun`, `mpirun` and `srun`); where the ranks meet, the
//! variable `EPILOGUE_RENDEZVOUS` says: a file that all see, new for every job, or a port on rank 0's computer.
//!
//! ```no_run
//! use epilogue::distributed::{Communicator, LaunchedRank, Rendezvous};
//! # use epilogue::{Device, distributed::Error};
//! # fn block(_: &Device, _: &Communicator) -> Result<Vec<f32>, Error> { Ok(Vec::new()) }
//!
//! let me = LaunchedRank::from_environment()?.unwrap_or_default();
//! let device = Device::cuda(me.local_rank)?;
//! let ranks = Communicator::nccl(&device, &me, &Rendezvous::from_environment()?)?;
//! let y = block(&device, &ranks)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! ```sh
//! export EPILOGUE_RENDEZVOUS=tcp:$(hostname):29511
//! torchrun --nproc-per-node 8 --no-python ./serve
//! mpirun -n 8 -x EPILOGUE_RENDEZVOUS ./serve
//! EPILOGUE_RENDEZVOUS=file:$HOME/job-$SLURM_JOB_ID.id srun --ntasks-per-node 8 ./serve
//! ```
//!
//! A program that has a communicator already (cudarc's, PyTorch's) lends it by `Communicator::borrow_nccl`. NCCL is loaded at
//! run time, from `EPILOGUE_NCCL` if that is set: nothing of it is needed to build. It has been tested here with a stand-in
//! library only, whose ranks are threads on a stand-in driver; no speed has been measured.
//!
//! # Ranks that disagree
//!
//! Before the first run of a shape, the ranks tell each other what they are about to do. **All** ranks fail if rows,
//! columns, types, chunks or epilogues differ, or if one rank's arguments are wrong. The error says which rank has
//! what, and nothing has been written. A rank that doesn't come is an error after one minute
//! ([`Communicator::with_timeout`](crate::distributed::Communicator::with_timeout)). Between threads this is checked at
//! every call. With NCCL, ranks that have agreed on two shapes and then run different ones of them are not noticed:
//! while looking for this mistake, `always_agree(true)` exchanges at every run.
