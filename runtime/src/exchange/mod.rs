//! Memory that comes in and goes out without a copy.
//!
//! One rule holds for every function here: **nothing is copied**. What would need a copy is an error that says so, and names
//! the function that copies. So on a device that has memory of its own (a GPU, an emulated one) this computer's memory is
//! refused: [`Device::tensor`](crate::Device::tensor) brings values there.
//!
//! Three words say whose the memory is:
//! - **borrow** (`scope`): the caller's, who gets it back at the end of a scope;
//! - **take** (`owned`): the tensor's from then on, which can give it back (`into_…`);
//! - **share** (`owned`): of an `Arc`, of which the tensor keeps one.
//!
//! # Why a scope
//! A tensor is cloned and viewed freely, and each of them keeps its memory alive; `&mut DeviceTensor` is what an output is,
//! and who has one may swap the tensor for another. So no guard around a tensor can keep it from leaving, and none can be
//! relied on to be dropped (`mem::forget`). A lifetime on the type itself would stand in every signature and struct of every
//! user, most of whom borrow nothing. What is left is what `std::thread::scope` does: [`Device::scope`](crate::Device::scope)
//! calls a closure, the compiler checks that the memory outlives the call, and when the closure returns or panics, the scope
//! waits for work that still uses the memory and ends its life. A tensor that has left the scope holds no memory any more;
//! using it is [`ExchangeError::Ended`](crate::ExchangeError::Ended). This is checked under the lock that every access of a
//! CPU tensor's memory takes anyway, so it costs nothing.

mod cudarc;
pub mod dlpack;
#[cfg(feature = "ndarray")]
mod ndarray;
mod owned;
#[cfg(feature = "safetensors")]
mod safetensors;
mod scope;
#[cfg(test)]
mod tests;

pub use owned::Kept;
pub use scope::Scope;
