//! Memory that comes in and goes out without a copy.
//!
//! One rule holds for every function here: **nothing is copied**. If something would need a copy, the function fails
//! with an error that says so and names a function that copies. So a device with its own memory (a GPU, an emulated
//! one) refuses this computer's memory: [`Device::tensor`](crate::Device::tensor) copies values to it.
//!
//! Three words say who owns the memory:
//! - **borrow** (`scope`): the caller, who gets it back at the end of a scope;
//! - **take** (`owned`): the tensor, which can give it back (`into_…`);
//! - **share** (`owned`): an `Arc`; the tensor keeps a clone of it.
//!
//! # Why a scope
//! Tensors can be cloned and viewed freely, and each clone or view keeps the memory alive. An output is a
//! `&mut DeviceTensor`, whose holder may swap the tensor for another. So a guard around a tensor can't keep it in, and
//! a guard may never be dropped (`mem::forget`). A lifetime on the type itself would appear in every signature and
//! struct of every user, and most users borrow nothing. The way of `std::thread::scope` is left:
//! [`Device::scope`](crate::Device::scope) calls a closure, and the compiler checks that the memory outlives the call.
//! When the closure returns or panics, the scope waits for work that still uses the memory, and then ends its use. A
//! tensor that has left the scope has no memory any more; using it is
//! [`ExchangeError::Ended`](crate::ExchangeError::Ended). This is checked under the lock that every access to a CPU
//! tensor's memory takes anyway, so it costs nothing.

pub mod checkpoints;
#[cfg(feature = "cuda")]
mod cudarc;
pub mod dlpack;
pub mod gguf;
#[cfg(feature = "ndarray")]
mod ndarray;
mod owned;
#[cfg(feature = "cuda")]
mod raw_cuda;
#[cfg(feature = "safetensors")]
mod safetensors;
mod scope;
#[cfg(test)]
mod tests;

pub use owned::Kept;
pub use scope::Scope;
