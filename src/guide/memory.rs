//! Memory of your own: inputs read where they lie, results written where you want them, nothing copied.
//!
//! [`Device::tensor`](crate::Device::tensor) copies values to the device, and [`to_vec`](crate::DeviceTensor::to_vec)
//! copies them back. The functions of this page never copy: what would need a copy is an error that says so.
//!
//! | memory | in | out |
//! |---|---|---|
//! | slices, of numbers or bytes | `scope.borrow`, `borrow_mut`, `borrow_strided`, `borrow_bytes` in [`Device::scope`](crate::Device::scope) | you have it already |
//! | a `Vec` | [`Device::take_vec`](crate::Device::take_vec) | [`into_vec`](crate::DeviceTensor::into_vec) |
//! | anything in an `Arc`, such as a mapped file | [`Device::share`](crate::Device::share), [`share_bytes`](crate::Device::share_bytes) | |
//! | ndarray's views and arrays (feature `ndarray`) | `scope.borrow_array`, `borrow_array_mut`; `device.take_array` | `with_array`, `with_array_mut`, `into_array` |
//! | a safetensors file (feature `safetensors`) | `scope.borrow_safetensor`; `device.share_safetensors` | |
//! | candle's tensors on its CPU device (crate `epilogue-candle`, in `examples/candle/` of the repository, which says what to do on a GPU) | `Fused::<E>::new().input("bias", &bias).run(&x, &w)` | its results are candle's tensors |
//! | DLPack: PyTorch, JAX, NumPy, … | [`Device::take_dlpack`](crate::Device::take_dlpack) | [`to_dlpack`](crate::DeviceTensor::to_dlpack) |
//! | cudarc's slices and streams | `scope.borrow_cuda`, `borrow_cuda_strided`, `borrow_cuda_mut`; [`Device::take_cuda_slice`](crate::Device::take_cuda_slice), [`Stream::of_cudarc`](crate::Stream::of_cudarc) | you have it already; [`into_cuda_slice`](crate::DeviceTensor::into_cuda_slice) |
//! | any GPU pointer | [`DeviceTensor::from_raw_cuda`](crate::DeviceTensor::from_raw_cuda) | [`device_address`](crate::DeviceTensor::device_address) |
//!
//! Any byte is an element of a tensor of truth values (`bool`): 0 is false, others are true. So slices, `Vec`s and
//! arrays of `bool` go in, and `to_vec::<bool>` copies them out; results are written to bytes,
//! `scope.borrow_bytes_mut(ElementType::Bool, …)`.
//!
//! # Slices, for a while
//!
//! Inside of a scope, tensors lie in slices of yours. They are tensors as any: arguments and outputs of every plan and kernel
//! of the CPU.
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn layer(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = relu(accum + bias);
//!     d
//! }
//!
//! let device = Device::cpu();
//! let (x, weights, bias) = (vec![1.0f32, 2.0, 3.0, 4.0], vec![1.0f32, -1.0, 0.0, 1.0], vec![0.5f32, -3.0]);
//! let mut result = vec![0.0f32; 4];
//!
//! device.scope(|scope| {
//!     let (x, weights) = (scope.borrow(&x, [2, 2])?, scope.borrow(&weights, [2, 2])?);
//!     let (bias, mut d) = (scope.borrow(&bias, [2])?, scope.borrow_mut(&mut result, [2, 2])?);
//!     Gemm::plan::<Layer>(&device, &x, &weights)?.run(&x, &weights, Layer { bias: &bias, d: &mut d })
//! })?;
//! assert_eq!(result, [1.5, 0.0, 3.5, 0.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! That the slices outlive the scope, the compiler checks. A tensor, a clone or a view that leaves it holds no memory
//! any more: using it is [`ExchangeError::Ended`](crate::runtime::ExchangeError::Ended). A tensor that is borrowed by
//! `borrow` can't be an output: that is [`ExchangeError::ReadOnly`](crate::runtime::ExchangeError::ReadOnly), and
//! nothing is written.
//!
//! A plan is made once and kept, as ever; only the tensors belong to a scope:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn doubled(accum: Accum) -> Tensor {
//!     let d = 2.0 * accum;
//!     d
//! }
//!
//! struct Model {
//!     weights: DeviceTensor,
//!     plan: Gemm<Doubled>,
//! }
//!
//! impl Model {
//!     /// From one slice of the caller's to another.
//!     fn run(&self, x: &[f32], y: &mut [f32]) -> Result<(), epilogue::Error> {
//!         self.weights.device().scope(|scope| {
//!             let (x, mut y) = (scope.borrow(x, [1, 2])?, scope.borrow_mut(y, [1, 2])?);
//!             self.plan.run(&x, &self.weights, Doubled { d: &mut y })
//!         })
//!     }
//! }
//!
//! let device = Device::cpu();
//! let weights = device.take_vec(vec![0.0f32, 1.0, 1.0, 0.0], [2, 2])?;
//! let plan = Gemm::plan::<Doubled>(&device, &device.zeros::<f32>([1, 2])?, &weights)?;
//! let model = Model { weights, plan };
//! let mut y = [0.0f32; 2];
//! model.run(&[3.0, 4.0], &mut y)?;
//! assert_eq!(y, [8.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A `Vec` in, the same `Vec` out
//!
//! ```
//! use epilogue::Device;
//!
//! let device = Device::cpu();
//! let values = vec![1.0f32, 2.0, 3.0, 4.0];
//! let place = values.as_ptr();
//! let mut tensor = device.take_vec(values, [2, 2])?;
//! tensor.copy_from_tensor(&device.full([2, 2], 7.0f32)?)?;
//! let values: Vec<f32> = tensor.into_vec()?;
//! assert_eq!((values.as_ptr(), values), (place, vec![7.0; 4]));
//! # Ok::<(), epilogue::runtime::Error>(())
//! ```
//!
//! While other views of the memory are left, the `Vec` is not given back; the error,
//! [`Kept`](crate::runtime::Kept), has the tensor in it, so that nothing is lost.
//!
//! # A file that stays
//!
//! A tensor for the program's whole life, in memory that somebody else holds, keeps a share of it:
//!
//! ```
//! use std::sync::Arc;
//! use epilogue::{Device, ElementType};
//!
//! let file = Arc::new(vec![0u8; 4096]); // or a mapped file: `memmap2::Mmap`
//! let weights = Device::cpu().share_bytes(Arc::clone(&file), ElementType::I8, |file| &file[1024..], [48, 64])?;
//! assert_eq!(weights.device_address(), file[1024..].as_ptr() as u64);
//! # Ok::<(), epilogue::runtime::Error>(())
//! ```
//!
//! `device.share_safetensors(&file)` does that for every tensor of a safetensors file. A file's bytes must begin where its
//! elements can: an address that is not a multiple of an element's size is
//! [`LayoutError::Misaligned`](crate::runtime::LayoutError::Misaligned). (Of a mapped file, all of a usual safetensors file's do.)
//!
//! # On a GPU
//!
//! A GPU, and an emulated one, has memory of its own. Slices, `Vec`s, `Arc`s and arrays are refused there
//! ([`Error::Unsupported`](crate::runtime::Error::Unsupported)), never copied in silence. DLPack tensors, cudarc's
//! slices and raw pointers of that GPU are taken, and cudarc's slices are borrowed in a scope, too. Work on a cudarc
//! slice comes after the work that cudarc has put on it. The order is the other way round after the slice is given back
//! or the scope ends; with DLPack and raw pointers, ordering the two sides' streams is the caller's part.
