//! Comparison: what else fuses work into matrix products, and when it is the better choice.
//!
//! This page's statements about others come from their documentation and source of 2026; the links say where. They
//! change: look there before you decide. No speeds are compared, because no speed of this library on a GPU has been
//! measured yet.
//!
//! # What each of them fuses
//!
//! | | into a product it fuses | you write | it needs |
//! |---|---|---|---|
//! | this library | any function of up to four accumulators (of one A and as many B), tensors, masks of bits, row and column vectors, scalars, positions and random numbers; several outputs; reductions over rows, columns or everything, whose results are values too; rows in groups | a Rust function | on a GPU: the driver, NVRTC; on a CPU: nothing |
//! | cuBLASLt | [one of 16 modes](https://docs.nvidia.com/cuda/nvmath-python/latest/bindings/generated/nvmath.bindings.cublasLt.Epilogue.html): bias, ReLU, GELU, their slopes, gradients of biases, and combinations of these | a value of an enumeration | NVIDIA's library and driver |
//! | CUTLASS, epilogue visitor trees | [trees of nodes](https://github.com/NVIDIA/cutlass/blob/main/include/cutlass/epilogue/fusion/sm90_visitor_tma_warpspecialized.hpp): any function, auxiliary tensors, vectors, scalars; reductions over rows, columns or everything | C++ types, or a Python function of a smaller language | nvcc or NVRTC, CUTLASS's headers |
//! | Triton | [whatever you write](https://github.com/triton-lang/triton/blob/main/python/tutorials/03-matrix-multiplication.py) behind the loop over K, on one block's tile | the whole kernel, in Python | Python, Triton |
//! | torch.compile | [elementwise operations behind a product](https://github.com/pytorch/pytorch/pull/120275), where its Triton template with them is measured to be faster; there is a [CUTLASS backend](https://github.com/pytorch/pytorch/pull/110890), too | a PyTorch program | Python, PyTorch, to compile |
//! | candle | nothing by itself: [a linear layer](https://github.com/huggingface/candle/blob/main/candle-nn/src/linear.rs) is a product, then an addition. The crate [`candle-cublaslt`](https://lib.rs/crates/candle-cublaslt) has cuBLASLt's bias, ReLU and GELU | a call of that crate | cuBLASLt |
//! | burn | [elementwise operations behind a product](https://github.com/tracel-ai/burn/blob/main/crates/burn-cubecl-fusion/src/optim/matmul/fuser.rs), found while the program runs, up to the first that it can't take | a burn program | burn, with one of its CubeCL backends |
//!
//! # Reductions behind a product
//!
//! | | |
//! |---|---|
//! | this library | sum, product, minimum, maximum, largest magnitude, sum of squares, mean, variance, log-sum-exp, any, all, position of the largest or smallest; complete or one partial per tile; the same bits in every run; on all its devices, with every split of K |
//! | cuBLASLt | the gradients of biases (`BGRADA`, `BGRADB`, `DRELU_BGRAD`, `DGELU_BGRAD`) |
//! | CUTLASS | on sm_90, of rows and columns: atomic, or deterministic by partials in a workspace; of everything: atomic. [On sm_80](https://github.com/NVIDIA/cutlass/tree/main/include/cutlass/epilogue/threadblock/fusion) all are atomic, into memory that the caller has filled. Its Python front end makes atomic sums and maxima |
//! | Triton | inside of a tile; across blocks by your own code |
//! | burn | [no reduction](https://github.com/tracel-ai/burn/blob/main/crates/burn-cubecl-fusion/src/engine/codegen/ir.rs) in the product's kernel; it fuses elementwise operations with a reduction in another one |
//!
//! # When something else is the better choice
//!
//! **cuBLASLt**, if one of its modes is what you need: then there is nothing to write. Its epilogue is not always in the
//! product's kernel: on an RTX 4090 [bf16 with GELU ran as two](https://github.com/karpathy/llm.c/issues/338). A user
//! reports that its ReLU
//! [gives 0 for NaN](https://forums.developer.nvidia.com/t/incorrect-result-of-cublasltmatmul-with-cublaslt-epilogue-relu-when-input-is-nan/329783).
//!
//! **CUTLASS**, where you write C++, and want what it has and this library lacks. Its
//! [examples](https://github.com/NVIDIA/cutlass/tree/main/examples) have convolutions, products with gathered rows, block-scaled
//! types and Blackwell's own instructions; kernels are in your binary. Its trees have limits of their own.
//! On sm_80 they take
//! [no split-K](https://github.com/NVIDIA/cutlass/blob/main/include/cutlass/gemm/kernel/gemm_universal_with_visitor.h).
//! On sm_90
//! [some schedules](https://github.com/NVIDIA/cutlass/blob/main/include/cutlass/epilogue/collective/builders/sm90_builder.inl)
//! take only a linear combination of A·B and C. A user finds it [slow to compile](https://github.com/NVIDIA/cutlass/issues/1042).
//!
//! **Triton**, if the loop itself is new: its [tutorials](https://triton-lang.org/main/getting-started/tutorials) have fused
//! attention, grouped and block-scaled products. It also runs on
//! [GPUs of AMD](https://github.com/triton-lang/triton#compatibility), and has an interpreter for debugging. The epilogue is easy
//! there; a whole kernel that is fast on every shape is your work.
//!
//! **torch.compile**, if your model is a PyTorch program. It takes the whole program, the [backward
//! pass](https://huggingface.co/docs/transformers/v5.12.0/torch_compile) included, and
//! [AOTInductor](https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html) makes a package that runs
//! without Python. Its compiler decides about fusion: a user shows a case where [the library's product was chosen, and
//! the activation not fused](https://github.com/pytorch/pytorch/issues/180811).
//!
//! **candle**, if you want models that run: it has
//! [many of them](https://github.com/huggingface/candle/blob/main/README.md), with their file formats and quantised types.
//!
//! **burn**, if you train in Rust, with [automatic differentiation](https://docs.rs/burn-dispatch), or need GPUs of other
//! makers: ROCm, Metal, Vulkan and WebGPU are among its [backends](https://docs.rs/burn-cubecl/0.22.1/burn_cubecl/). Its fusion
//! needs no word of yours; how you order operations and clone tensors
//! [decides what is fused](https://github.com/tracel-ai/burn/blob/main/burn-book/src/performance/good-practices/kernel-fusion.md).
//!
//! **This library**, if the epilogue is your own and should be one function that reads like its formula; if you must
//! know what runs, between which bounds results lie, and that they are the same tomorrow; or if the same function should
//! run on machines without a GPU.
//!
//! # What this library lacks today
//!
//! - **Speed that was measured.** No kernel of this version has run on a GPU; they have run on emulated ones. The cost
//!   model's times are predictions.
//! - **The result of a wide reduction in the same launch.** A softmax or a norm of the product is one function. It is
//!   one launch if its rows have at most 256 columns, on Hopper 2048; beyond that, on a GPU each later phase is a
//!   launch of its own over memory, unless all that follows is a vector.
//! - **Gradients of images with strides by Hopper's own kernels**, and convolutions with groups of few channels: those run by
//!   kernels for sm_80 on Hopper, too ([`Window::groups`](crate::gemm::Window::groups) says from how many on they don't).
//! - **Chains of products in one kernel**: no attention.
//! - **Gates over halves of one accumulator's columns.** SwiGLU takes two accumulators, which may be views of one weight.
//! - **GPUs of other makers**, and pairs of blocks on a B200, whose kernels are of single blocks (`tcgen05`). An RTX 50
//!   runs the kernels for sm_80.
//! - **4-bit types, and scales of one for 32 or 16 elements** (MX, NVFP4). FP8 has scales of blocks of 128:
//!   [`scaled`](crate::gemm::scaled).
//! - **A framework**: the backward pass of an epilogue can be [derived](crate::evt::derive), that of a whole program can't;
//!   no models, no loading of their files.
