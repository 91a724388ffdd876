//! The guide: one page after the other, from a first product to kernels that one measures. Every example runs as a test, on
//! this computer's CPU.
//!
//! | page | what it answers |
//! |---|---|
//! | [`first_product`] | how do I fuse a function into a product, and see what runs? |
//! | [`plans`] | how do I plan once, keep the plan in a struct, and run it with other arguments? |
//! | [`cookbook`] | how do I do bias, activations, gates (SwiGLU), residuals, scales, LoRA, norms, losses, gradients, batches, views, 8-bit products? |
//! | [`tensor_expressions`] | how do I do the reductions and scans around products, without and with a schedule? |
//! | [`from_mathematics`] | how do contractions of tensor expressions become products with fused epilogues? |
//! | [`devices`] | where does it run, are results the same everywhere, how accurate are they? |
//! | [`quantized_weights`] | how do I multiply weights of 4 or 8 bits with scales of groups? |
//! | [`memory`] | how do slices, `Vec`s, ndarray, DLPack, safetensors and cudarc come in and go out without a copy? |
//! | [`quantized_checkpoints`] | how do I read GGUF, GPTQ, AWQ and other quantised weights, and quantise values? |
//! | [`deployment`] | how do I ship a program whose kernels are compiled already? |
//! | [`services`] | how do I see what happens, share plans among threads, and use CUDA graphs? |
//! | [`ranks`] | how do I divide a layer among GPUs, and test that without any? |
//! | [`performance`] | which kernel was chosen, why, and what do I measure? |
//! | [`debugging`] | a result is wrong: what do I look at? |
//! | [`proof`] | what is proved, by which means, and what is not? |
//! | [`comparison`] | how does it compare with cuBLASLt, CUTLASS, Triton, and the fusion of candle and burn? |

pub mod comparison;
pub mod cookbook;
pub mod debugging;
pub mod deployment;
pub mod devices;
pub mod first_product;
pub mod from_mathematics;
pub mod memory;
pub mod performance;
pub mod plans;
pub mod proof;
pub mod quantized_checkpoints;
pub mod quantized_weights;
pub mod ranks;
pub mod services;
pub mod tensor_expressions;
