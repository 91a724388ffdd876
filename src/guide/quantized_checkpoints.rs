//! Quantised checkpoints: weights of 4 and 8 bits, read from the files that people have.
//!
//! | the file | what reads it | what it gives |
//! |---|---|---|
//! | GGUF (llama.cpp) | [`runtime::gguf`](crate::runtime::gguf) | metadata and tensors by name; blocks such as Q4_K |
//! | safetensors of GPTQ, AWQ, compressed-tensors, torchao | [`runtime::checkpoints`](crate::runtime::checkpoints) | [`IntegerWeights`](crate::runtime::formats::IntegerWeights): codes, scales and zero points in one form |
//! | tensors of MX or NVFP4 values and scales | [`runtime::formats`](crate::runtime::formats) | values, and scales in the order of tensor cores |
//!
//! All of them work on the host and need no GPU. They don't trust a file: whatever stands in it, they give its weights or
//! an error that says what is wrong.
//!
//! # GGUF
//!
//! [`Gguf::open`](crate::runtime::gguf::Gguf::open) reads a file into memory; `Gguf::from_bytes` takes bytes that you
//! have. `Gguf::map` maps the file and is `unsafe`, because a file that is truncated meanwhile ends the process.
//!
//! ```no_run
//! use epilogue::Device;
//! use epilogue::runtime::gguf::Gguf;
//!
//! let file = Gguf::open("model.gguf")?;
//! let layers = file.metadata("llama.block_count")?.as_u64().unwrap_or(0);
//! for tensor in file.tensors() {
//!     println!("{} of {layers} layers: {} {:?}", tensor.name(), tensor.type_name(), tensor.shape());
//! }
//!
//! // Weights as numbers: exactly those that ggml computes with.
//! let weights = file.tensor("blk.0.attn_q.weight")?;
//! let values = weights.decode()?;
//! let tensor = Device::cpu().take_vec(values, weights.shape())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # GPTQ, AWQ and others
//!
//! A layout is a type with the settings of the checkpoint's `quantization_config`, and `read` takes the layer's name. A
//! model in several files is a slice of them.
//!
//! ```
//! use std::collections::BTreeMap;
//! use epilogue::ElementType;
//! use epilogue::runtime::checkpoints::{ActOrder, Gptq, GptqVersion, StoredTensor};
//!
//! // One layer of 8 input and 8 output features. With the feature `safetensors`, a `SafeTensors` takes the map's place.
//! let codes = [0x7654_3210u32; 8].map(u32::to_le_bytes).concat(); // 8 codes of one output feature each
//! let zeros = 0x7777_7777u32.to_le_bytes(); // version 1 stores 8 as 7
//! let scales = [0x3c00u16; 8].map(u16::to_le_bytes).concat(); // 1 as f16
//! let file = BTreeMap::from([
//!     ("q_proj.qweight", StoredTensor::new(ElementType::I32, [1, 8], &codes)),
//!     ("q_proj.qzeros", StoredTensor::new(ElementType::I32, [1, 1], &zeros)),
//!     ("q_proj.scales", StoredTensor::new(ElementType::F16, [1, 8], &scales)),
//! ]);
//!
//! let layout = Gptq { bits: 4, group: None, version: GptqVersion::V1, act_order: ActOrder::Refuse };
//! let weights = layout.read(&file, "q_proj")?;
//! assert_eq!(weights.shape(), [8, 8]); // output features, input features
//! assert!(weights.zeros().is_none()); // all are 8, the middle
//! assert_eq!(weights.decode()[..8], [-8.0, -7.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0]);
//! # Ok::<(), epilogue::runtime::CheckpointError>(())
//! ```
//!
//! [`gemm::LoadedWeights`](crate::gemm::LoadedWeights) copies them to a device, as the B of a product
//! ([`quantized_weights`](super::quantized_weights)).
//!
//! An act-order (`desc_act`) whose groups are not sorted is refused, unless
//! [`ActOrder::Permute`](crate::runtime::checkpoints::ActOrder::Permute) asks for sorted input features. The weights then
//! say in which order a product takes the activations' columns.
//!
//! # Quantising values
//!
//! [`EncodeBlocks::encode`](crate::runtime::formats::EncodeBlocks::encode) makes blocks from values, with torchao's,
//! torch's and ggml's bits. [`scale_layout::to_blocked`](crate::runtime::formats::scale_layout::to_blocked) orders MX and
//! NVFP4 scales in 128 × 4 blocks, as `torch._scaled_mm` and cuBLASLt read them:
//!
//! ```
//! use epilogue::runtime::formats::{EncodeBlocks, Mx, ScaleMode, scale_layout};
//!
//! let (rows, k) = (3, 64);
//! let values: Vec<f32> = (0..rows * k).map(|i| (i as f32).cos()).collect();
//! let (codes, scales) = Mx::fp8_e4m3(ScaleMode::Rceil).encode(&values)?;
//! let scales = scale_layout::to_blocked(&scales, rows, k / 32)?;
//! assert_eq!((codes.len(), scales.len()), (192, 512));
//! # Ok::<(), epilogue::runtime::FormatError>(())
//! ```
//!
//! In tensor expressions, [`te::ops::quantize`](crate::te::ops::quantize()) and
//! [`dequantize`](crate::te::ops::dequantize()) compute codes with f32 scales, by the rules of
//! [`F32Scaled`](crate::runtime::formats::F32Scaled), on every device.
