//! Quantised weights: codes of 4 or 8 bits, multiplied as they are, with any fused epilogue.
//!
//! A weight is `scale · (code - zero point)`. A group of codes along K shares a scale and a zero point, for each output
//! feature by itself. The product reads the codes, so a linear layer of few rows reads a fourth of the memory of bf16.
//!
//! # From tensors to a product
//!
//! The tensors lie as in a checkpoint, with a row for each output feature: codes `[N, ceil(K / 2)]`, scales and zero
//! points `[N, ceil(K / group)]`. [`quantized`](crate::gemm::quantized) makes a B `[K, N]` of them, and
//! [`Gemm::pack`](crate::Gemm::pack) repacks it once for many runs. Nothing else stays in memory.
//!
//! ```
//! use epilogue::gemm::{CodeType, quantized};
//! use epilogue::prelude::*;
//!
//! /// The gated half of a feed-forward block.
//! #[epilogue]
//! fn swiglu(gate: Accum, up: Accum) -> Tensor {
//!     let d = silu(gate) * up;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (k, n, group) = (64, 48, 32);
//! let codes = device.full::<u8>([n, k / 2], 0x9a)?; // 10 and 9
//! let scales = device.full::<f16>([n, k / group], f16::from_f32(0.125))?;
//! let zero_points = device.full::<u8>([n, k / group], 8)?;
//! let weights = quantized(CodeType::Uint4, &codes, &scales).group(group).zero_points(&zero_points);
//!
//! let x = device.full::<bf16>([3, k], bf16::from_f32(0.5))?;
//! let gemm = Gemm::plan::<Swiglu>(&device, &x, [weights, weights])?;
//! let (gate, up) = (gemm.pack(weights)?, gemm.pack(weights)?);
//! let mut d = device.zeros::<bf16>([3, n])?;
//! gemm.run(&x, [&gate, &up], Swiglu { d: &mut d })?;
//! // Both sums are 0.5 · 0.125 · (32 · 2 + 32 · 1) = 6.
//! assert!(d.to_vec::<bf16>()?.iter().all(|y| (y.to_f32() - 35.91).abs() < 0.15));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | a checkpoint has | here |
//! |---|---|
//! | signed codes of 4 bits, or of 8 | [`CodeType::Int4`](crate::gemm::CodeType::Int4), [`CodeType::Int8`](crate::gemm::CodeType::Int8) |
//! | unsigned codes, symmetric around 8 | [`CodeType::Uint4`](crate::gemm::CodeType::Uint4) with `.zero_point(8)` |
//! | unsigned codes and zero points | `.zero_points(&tensor)`, a u8 for each |
//! | a scale for each group of 32, 64, 128 | `.group(32)`; any multiple of 16 |
//! | a scale for each output feature | nothing: that is the default |
//! | experts, `[L, N, …]` | the same tensors, with L in front |
//!
//! The format is a part of the plan. A run with weights of another format is refused, and so are weights that another plan
//! has packed for something else.
//!
//! # Exact, or with 8-bit activations
//!
//! [`Arithmetic`](crate::gemm::Arithmetic) chooses the computation; the library never does.
//!
//! | | `Exact`, the default | `Int8Activations` |
//! |---|---|---|
//! | A | its values | rounded to 8 bits, with a scale for each 32 along K |
//! | a weight | exact, or rounded once to A's type | exact |
//! | sums | f32 | exact integers of each block, then f32 |
//! | error | that of an f32 product | up to 1/254 of the largest element of a block of A, for each element |
//!
//! `Int8Activations` is what llama.cpp computes, and `MatMulNBits` with accuracy level 4. The
//! [reference](crate::Gemm::reference) rounds A in the same way, so its bounds are narrow for both.
//!
//! ```
//! use epilogue::gemm::{Arithmetic, CodeType, quantized};
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn biased(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
//!     let d = accum + bias;
//!     d
//! }
//!
//! let device = Device::cpu();
//! let codes = device.tensor(&(0..40 * 96).map(|i| (i % 251) as i8).collect::<Vec<_>>(), [40, 96])?;
//! let (scales, bias) = (device.full::<f32>([40, 1], 0.01)?, device.full::<f32>([40], 1.0)?);
//! let weights = quantized(CodeType::Int8, &codes, &scales);
//! let x = device.tensor(&(0..2 * 96).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>(), [2, 96])?;
//!
//! let plan = Gemm::builder::<Biased>(&device).operands(&x, weights)?.arithmetic(Arithmetic::Int8Activations);
//! let gemm = plan.plan()?;
//! let mut d = device.zeros::<f32>([2, 40])?;
//! let reference = gemm.reference(&x, weights, Biased { bias: &bias, d: &mut d })?;
//! gemm.run(&x, weights, Biased { bias: &bias, d: &mut d })?;
//! reference.compare("d", &d)?.check()?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # Devices
//!
//! The CPU device multiplies every format. It reads codes by AVX-512 with VNNI, by AVX2, or by portable code. For few rows
//! it multiplies codes in registers. For many it unpacks a part of K once for a tile, and multiplies it like any B.
//!
//! GPUs refuse the format, in [`supports`](crate::gemm::supports) as in plans. There,
//! [`Quantized::dequantized`](crate::gemm::Quantized::dequantized) gives a tensor of any type:
//!
//! ```
//! use epilogue::gemm::{CodeType, Error, FormatError, quantized};
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn plain(accum: Accum) -> Tensor<f32> {
//!     accum
//! }
//!
//! let device = Device::emulated(Arch::SM_80)?;
//! let (codes, scales) = (device.full::<u8>([8, 8], 0x12)?, device.full::<f16>([8, 1], f16::ONE)?);
//! let (x, weights) = (device.zeros::<f16>([4, 16])?, quantized(CodeType::Int4, &codes, &scales));
//! let refused = Gemm::builder::<Plain>(&device).operands(&x, weights)?.choose().unwrap_err();
//! assert!(matches!(refused, Error::Format(FormatError::Device { .. })));
//!
//! let dense = weights.dequantized(ElementType::F16)?;
//! assert_eq!(dense.shape(), [16, 8]);
//! assert!(Gemm::builder::<Plain>(&device).operands(&x, &dense)?.choose().is_ok());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
