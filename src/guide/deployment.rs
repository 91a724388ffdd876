//! Deployment: how do I ship a program whose kernels are compiled already?
//!
//! On a machine of your own, NVRTC compiles a kernel once, and the cache on disk keeps it: see [What compiles
//! again](super::plans#what-compiles-again). The cache serves without NVRTC, too: what was compiled there once stays. A
//! machine that others run, a container or a robot should need neither a compiler nor a folder that must be writable.
//! Its first request should not wait for a compiler. For those there are [bundles](crate::bundle): all kernels of a
//! program in one file.
//!
//! # Make a bundle
//!
//! A [`bundle::Builder`](crate::bundle::Builder) gives *targets*. A target is a [`Device`](crate::Device) for a GPU
//! that need not be there. Kernels that you plan, build or run on it are compiled and kept; nothing runs, and its
//! tensors have shapes but no memory. So making a bundle is the start of your program, done on targets:
//!
//! ```
//! use epilogue::bundle::{Builder, Bundle};
//! use epilogue::prelude::*;
//! use epilogue::te;
//!
//! #[epilogue]
//! fn bias_gelu(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = gelu(accum + bias);
//!     d
//! }
//!
//! /// All that the program runs. It is called once for every target, and once where the program starts.
//! fn kernels(device: &Device) -> Result<(Gemm<BiasGelu>, te::auto::Kernel), Box<dyn std::error::Error>> {
//!     let gemm = Gemm::builder::<BiasGelu>(device).elements(ElementType::F16, ElementType::F16).problem(64, 48, 32);
//!     let (rows, columns) = (te::var("rows"), te::var("columns"));
//!     let x = te::placeholder([rows, columns], "x");
//!     let softmax = te::ops::softmax(&x, 1)?;
//!     let kernel = te::auto::build(&[&softmax])?.build(device)?;
//!     // An automatic kernel is compiled for classes of shapes: say which ones there will be.
//!     kernel.prepare(&[(&x, &[64, 48]), (&softmax, &[64, 48])])?;
//!     Ok((gemm.plan()?, kernel))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if epilogue::runtime::testing::compiler("the guide's page of deployment").is_none() { return Ok(()) }
//! // Where there is an NVRTC, and no GPU:
//! let builder = Builder::new();
//! # if false {
//! kernels(&builder.target(GpuModel::A100))?;
//! kernels(&builder.target(GpuModel::H200))?;
//! # }
//! kernels(&builder.emulated_target(Arch::SM_80)?)?; // for tests
//! let path = std::env::temp_dir().join(format!("kernels-{}.bundle", std::process::id()));
//! builder.write(&path)?;
//!
//! // Where the program runs, without NVRTC, Python or a cache:
//! let bundle = Bundle::open(&path)?;
//! let device = Device::emulated(Arch::SM_80)?; // or `Device::best()?`
//! bundle.install(&device)?;
//! let (gemm, softmax) = kernels(&device)?; // found, not compiled
//! # assert!(gemm.kernel().is_some_and(|kernel| kernel.was_cached()) && softmax.source().contains("softmax"));
//!
//! // What is not there is refused by name.
//! let other = Gemm::builder::<BiasGelu>(&device).elements(ElementType::BF16, ElementType::BF16).problem(64, 48, 32);
//! let refused = other.plan().unwrap_err().to_string();
//! assert!(refused.contains("holds the kernel `bias_gelu_bf16_"), "{refused}");
//!
//! // On a machine without a GPU the same program runs on the CPU, which needs no kernels.
//! let cpu = Device::cpu(); // `Device::best()?` is the CPU there
//! bundle.install(&cpu)?;
//! kernels(&cpu)?;
//! # std::fs::remove_file(path)?;
//! # Ok(()) }
//! ```
//!
//! A program does this as well as a build script. A build script needs the functions that the program has: put them in
//! a file of their own and `include!` it in both. They may stand at other lines and in other folders: the places of
//! your files are not part of a kernel's identity. Put the file beside the program, or into it:
//! `Bundle::from_bytes(include_bytes!(concat!(env!("OUT_DIR"), "/kernels.bundle")).as_slice())`. `examples/deploy.rs`
//! in the repository is a program that does this.
//!
//! # What to plan on the targets
//!
//! | what differs | what to do |
//! |---|---|
//! | epilogues, element types, arithmetic | plan each |
//! | layouts of A and B, narrower alignment | plan each, with [`layouts`](crate::gemm::Builder::layouts); or run each on the target, with tensors that lie so |
//! | M, N, K | any kernel runs all of them; plan for the extents that take most of the time, since other extents may have another best kernel |
//! | shapes of automatic kernels | [`prepare`](crate::te::auto::Kernel::prepare) each; kernels of one class are kept once |
//! | GPUs | a target for each architecture; code for `sm_80` also runs on `sm_86` and `sm_89`, where FP8 is then multiplied as f16 |
//!
//! A plan on a device with bundles chooses the best of the kernels that they hold. [`choice`](crate::Gemm::choice) says
//! so if the model ranks others before it. A kernel that you ask for (a tile, a split) must be there.
//!
//! A program's start may also [capture](super::services#cuda-graphs) its steps as graphs; on a target that compiles their
//! kernels.
//!
//! # Without Rust
//!
//! A program in C or C++, PyTorch's extensions among them, calls a kernel by a header. The command `epilogue`
//! (`cargo install epilogue-cli`) writes it, for one product:
//!
//! ```text
//! epilogue emit layer.rs --arch sm_90a --shape 4096,4096,1024 --b column --all layer/
//! ```
//!
//! `layer/` then has the CUDA C++, the PTX, the machine code and `layer.h`: the kernel's parameter as a struct, the
//! shape of its launch, and how many bytes of memory it needs beside its arguments. Its functions `layer_load` and
//! `layer_launch` use the CUDA driver and nothing else. The header is for packed tensors of exactly this shape, and for
//! one launch: an epilogue that is computed from its own reductions is refused. `--prefix large`
//! names it otherwise, so that a program has headers of one epilogue for several shapes. `tools/command/example/main.cpp`
//! in the repository is a program that uses one. `epilogue run layer.rs` checks the same epilogue first, on random data
//! against the reference.
//!
//! The header's content comes from [`Gemm::describe_launch`](crate::Gemm::describe_launch): a program that writes
//! headers for another language starts there.
//!
//! # What can go wrong
//!
//! | what | error |
//! |---|---|
//! | a damaged, cut or foreign file, or one of another version; one that others may write | [`BundleError`](crate::bundle::BundleError), when it is opened |
//! | no kernel for this GPU | [`BundleError::NotForDevice`](crate::bundle::BundleError::NotForDevice), when it is installed |
//! | a kernel that is not there | [`NotInBundle`](crate::runtime::Error::NotInBundle) when it is planned, or by the first run whose tensors lie in another way; it names the kernel, what there is instead, and what to add |
//! | this library was updated, and writes kernels in another way | the same: make the bundle anew |
//!
//! A device with a bundle never compiles, even if it could: what was tested is what runs. So start the program once on a
//! machine without NVRTC (`EPILOGUE_NVRTC=none EPILOGUE_CACHE=off`) or on an emulated device, with the bundle, before you
//! ship it.
