//! Runs an `#[epilogue]` on candle's tensors, in place of the product and the operations after it.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use epilogue::ops::gelu;
//! use epilogue::prelude::epilogue;
//! use epilogue_candle::Fused;
//!
//! #[epilogue]
//! fn bias_gelu(accum: Accum, bias: RowVector, alpha: Scalar) -> Tensor {
//!     let d = gelu(alpha * accum + bias);
//!     d
//! }
//!
//! # fn main() -> candle_core::Result<()> {
//! let x = Tensor::randn(0f32, 1.0, (5, 16), &Device::Cpu)?;
//! let weight = Tensor::randn(0f32, 1.0, (8, 16), &Device::Cpu)?; // as linear layers have it: [out, in]
//! let bias = Tensor::randn(0f32, 1.0, 8, &Device::Cpu)?;
//!
//! let layer = Fused::<BiasGelu>::new().input("bias", &bias).scalar("alpha", 0.5);
//! let y = layer.apply(&x, &weight.t()?)?; // transposed by strides only
//!
//! let by_candle = ((x.matmul(&weight.t()?)? * 0.5)?.broadcast_add(&bias))?.gelu_erf()?;
//! assert!((y - by_candle)?.abs()?.max_all()?.to_scalar::<f32>()? < 1e-5);
//! # Ok(()) }
//! ```
//!
//! Inputs are read where candle has them, whatever their strides and offsets, and results are written into memory that
//! becomes candle's: nothing is copied. A [`Fused`] with one result is candle's `CustomOp2`, too.
//!
//! Tensors are on candle's CPU device; those on its CUDA and Metal devices are refused: move them to the CPU
//! (`to_device(&Device::Cpu)`). On a GPU, plan and run the epilogue without this crate, in candle's memory and on its stream:
//! `CudaStorage::as_cuda_slice` gives the memory, which `Scope::borrow_cuda` of `epilogue` makes a tensor of without a copy,
//! and `Stream::of_cudarc` takes `CudaDevice::cuda_stream`.

mod fused;
mod memory;

pub use fused::{Fused, Input};
