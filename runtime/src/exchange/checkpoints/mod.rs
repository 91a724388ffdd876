//! Quantised weights of checkpoints, read into one form: [`IntegerWeights`](crate::formats::IntegerWeights).
//!
//! | layout | who writes it | tensors of a layer |
//! |---|---|---|
//! | [`Gptq`] | GPTQModel, AutoGPTQ; versions 1 and 2 | `qweight` i32 `[K·bits/32, N]`, `qzeros` i32 `[K/group, N·bits/32]`, `scales` `[K/group, N]`, `g_idx` i32 `[K]` |
//! | [`Awq`] | AutoAWQ, version "gemm" | `qweight` i32 `[K, N/8]`, `qzeros` i32 `[K/group, N/8]`, `scales` `[K/group, N]` |
//! | [`CompressedTensors`] | llm-compressor, format "pack-quantized" | `weight_packed` i32 `[N, ⌈K·bits/32⌉]`, `weight_scale` `[N, K/group]`, `weight_shape`, `weight_zero_point` i32 `[⌈N·bits/32⌉, K/group]` |
//! | [`Torchao`] | torchao's `Int4Tensor`, `IntxUnpackedToInt8Tensor` | `_weight_qdata`, `_weight_scale`, `_weight_zero_point` |
//!
//! N is the number of output features, K of input features. The group size and bits are in the checkpoint's
//! `quantization_config`; a group of `None` (there -1) is the whole K. Tensors come from a [`TensorSource`]: a safetensors
//! file, a slice of them (shards), or a map of your own.
//!
//! Every tensor's type and shape is checked, and memory grows with the tensors that are there. Refused are zero points that
//! kernels read differently, act-orders whose groups are not sorted, and scales that are NaN or infinite.
//!
//! ```
//! use std::collections::BTreeMap;
//! use epilogue_runtime::ElementType;
//! use epilogue_runtime::checkpoints::{Awq, StoredTensor};
//!
//! // A layer of 2 input features and 8 output features, in one group. 8 codes of 4 bits are in an i32.
//! let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
//! let (codes, zeros) = (words(&[0x7531_6420, 0x7531_6421]), words(&[0]));
//! let scales: Vec<u8> = [0x3800u16; 8].iter().flat_map(|half| half.to_le_bytes()).collect(); // 0.5
//! let file = BTreeMap::from([
//!     ("q.qweight".to_owned(), StoredTensor::new(ElementType::I32, [2, 1], &codes)),
//!     ("q.qzeros".to_owned(), StoredTensor::new(ElementType::I32, [1, 1], &zeros)),
//!     ("q.scales".to_owned(), StoredTensor::new(ElementType::F16, [1, 8], &scales)),
//! ]);
//! let weights = Awq { group: None }.read(&file, "q")?;
//! assert_eq!(weights.shape(), [8, 2]);
//! assert_eq!(weights.decode()[..4], [0.0, 0.5, 0.5, 0.5]); // output features 0 and 1
//! # Ok::<(), epilogue_runtime::CheckpointError>(())
//! ```

mod awq;
mod compressed_tensors;
mod gptq;
mod layer;
mod source;
#[cfg(test)]
mod tests;
mod torchao;

pub use awq::Awq;
pub use compressed_tensors::CompressedTensors;
pub use gptq::{ActOrder, Gptq, GptqVersion};
pub use source::{StoredTensor, TensorSource};
pub use torchao::Torchao;
