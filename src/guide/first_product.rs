//! A first product with a fused function: from an empty crate to a result that is checked.
//!
//! # The crate
//!
//! ```toml
//! [dependencies]
//! epilogue = { path = "../epilogue" } # the folder of this library
//! ```
//!
//! Nothing else is needed for the CPU. A program that needs no GPU, no emulated one and no tensor expressions can say
//! `default-features = false`, and compiles fewer crates.
//!
//! Compiled without optimisation, as `cargo run` and `cargo test` do, the library is slower by hundreds of times. Start the
//! program by `cargo run --release`, or add these lines to its `Cargo.toml`:
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//! debug-assertions = false
//! ```
//!
//! # The function
//!
//! A linear layer computes `relu(x·W + bias)`. Here is what follows the product, as a function:
//!
//! ```
//! use epilogue::prelude::*;
//!
//! #[epilogue]
//! fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = relu(accum + bias);
//!     d
//! }
//! ```
//!
//! - `accum` is the result of the product. It is always the first parameter.
//! - `bias` is a [`RowVector`](crate::language::RowVector): one value for each column, the same in every row.
//! - The last line names what is stored. `d` is a [`Tensor`](crate::language::Tensor): one value for each row and column.
//! - `relu` comes from [`ops`](crate::ops), which has the other operations too.
//!
//! The attribute makes a struct of the same name in CamelCase, `BiasRelu`, with the fields `bias` and `d`.
//! [`language`](crate::language) is the page about everything that may stand in the function.
//!
//! # Plan, run, read
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
//! #     let d = relu(accum + bias);
//! #     d
//! # }
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let device = Device::cpu();
//!
//!     // Values in row-major order, then the shape: A is [M, K], B is [K, N].
//!     let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//!     let b = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//!     let bias = device.tensor(&[-5f32, 100.0], [2])?;
//!     let mut d = device.zeros::<f32>([2, 2])?;
//!
//!     let gemm = Gemm::plan::<BiasRelu>(&device, &a, &b)?;
//!     gemm.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
//!
//!     // A·B is 4, 5, 10, 11.
//!     assert_eq!(d.to_vec::<f32>()?, [0.0, 105.0, 5.0, 111.0]);
//!     Ok(())
//! }
//! ```
//!
//! [`Gemm::plan`](crate::Gemm::plan) checks the function for these element types and chooses how to compute.
//! [`run`](crate::Gemm::run) computes. It borrows the arguments for the run only. A wrong shape, a wrong element type,
//! or an output that overlaps an input is refused before anything is written. The message says what is needed.
//!
//! # See what runs
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
//! #     let d = relu(accum + bias);
//! #     d
//! # }
//! # let device = Device::cpu();
//! # let (a, b) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let gemm = Gemm::plan::<BiasRelu>(&device, &a, &b)?;
//! println!("{}", gemm.tree());
//! println!("{}", gemm.choice());
//! println!("{}", gemm.source());
//! # let tree = gemm.tree().to_string();
//! # let expected = [
//! #     "bias_relu: A f32, B f32, accumulator f32, computed in f32",
//! #     "d = store: Tensor f32",
//! #     "└─ d = relu: Tensor f32",
//! #     "   └─ +: Tensor f32",
//! #     "      ├─ accum = accumulator: Tensor f32",
//! #     "      └─ bias = load: RowVector f32",
//! # ];
//! # assert_eq!(tree.lines().collect::<Vec<_>>(), expected);
//! # assert!(gemm.choice().to_string().starts_with("CPU, tiles of 64x64"));
//! # let drawing = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide/pictures/bias_relu.svg");
//! # expect_test::expect_file![drawing].assert_eq(&gemm.tree().to_svg());
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`tree`](crate::Gemm::tree) is the function as the library understood it, with all element types. Read it from the
//! bottom: each line is computed from the lines that hang below it.
//!
//! ```text
//! bias_relu: A f32, B f32, accumulator f32, computed in f32
//! d = store: Tensor f32
//! └─ d = relu: Tensor f32
//!    └─ +: Tensor f32
//!       ├─ accum = accumulator: Tensor f32
//!       └─ bias = load: RowVector f32
//! ```
//!
//! [`to_svg`](crate::evt::ValidTree::to_svg) draws it, from the top down:
//!
#![doc = include_str!("pictures/bias_relu.svg")]
//!
//! [`choice`](crate::Gemm::choice) is what was chosen to compute it. Here it is `CPU, tiles of 64x64`, and a word
//! if the library was compiled without optimisation. On a GPU it is a kernel, its predicted time, and the next best one. [`source`](crate::Gemm::source) is the CUDA C++ that runs on a GPU,
//! with the names of your function in it. The CPU runs no CUDA, and says in a comment what it does.
//!
//! # Check the result
//!
//! [`Gemm::reference`](crate::Gemm::reference) computes the same product and function on the host in f64 or better. For
//! each element it also knows the interval that a correct result lies in, since sums and functions round.
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
//! #     let d = relu(accum + bias);
//! #     d
//! # }
//! # let device = Device::cpu();
//! # let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! # let b = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//! # let bias = device.tensor(&[-5f32, 100.0], [2])?;
//! # let mut d = device.zeros::<f32>([2, 2])?;
//! # let gemm = Gemm::plan::<BiasRelu>(&device, &a, &b)?;
//! gemm.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
//! let expected = gemm.reference(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
//! let comparison = expected.compare("d", &d)?.check()?;
//! let text = "d: all 4 elements within the reference's bounds, the largest error is 0.000e0";
//! assert_eq!(comparison.to_string(), text);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `check` is an error if an element lies outside its interval, and names the element. The reference takes M·N·K steps
//! on one thread, so use it for small products. It reads the inputs and writes nothing. If the function overwrites an
//! input (`TensorMut`), ask the reference before the run.
//!
//! # The same on a GPU
//!
//! Only the device changes. Tensors belong to the device that made them.
//!
//! ```no_run
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias_relu(accum: Accum, bias: RowVector) -> Tensor {
//! #     let d = relu(accum + bias);
//! #     d
//! # }
//! fn layer(device: &Device) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//!     let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//!     let b = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
//!     let bias = device.tensor(&[-5f32, 100.0], [2])?;
//!     let mut d = device.zeros::<f32>([2, 2])?;
//!     let gemm = Gemm::plan::<BiasRelu>(device, &a, &b)?;
//!     gemm.run(&a, &b, BiasRelu { bias: &bias, d: &mut d })?;
//!     Ok(d.to_vec()?) // waits for the kernel
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     println!("{:?}", layer(&Device::cpu())?);
//!     println!("{:?}", layer(&Device::cuda(0)?)?); // the first GPU
//!     println!("{:?}", layer(&Device::best()?)?); // the first GPU where there is one, else the CPU
//!     println!("{:?}", layer(&Device::emulated(Arch::SM_80)?)?); // a GPU that the CPU executes
//!     Ok(())
//! }
//! ```
//!
//! - A GPU needs a driver and NVRTC, which compiles the kernel at the first plan. Later plans find it in a cache on disk.
//! - An emulated GPU needs NVRTC, but no driver and no GPU. It executes the kernel instruction by instruction, which is slow:
//!   use it for tests, with small products. It is there with the feature `emulated`, for each of `Arch::EMULATED`.
//! - The CPU needs neither.
//!
//! [`devices`](super::devices) says more about each. Next: [`plans`](super::plans), about keeping a plan and running it
//! with other arguments.
