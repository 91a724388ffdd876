//! From mathematics to kernels: write what each element is, and get products with fused epilogues.
//!
//! [`fuse::build`](crate::fuse::build) takes the expressions of [`tensor_expressions`](super::tensor_expressions). It runs
//! their contractions as the [`Gemm`](crate::Gemm)s of the other pages, with what surrounds them as epilogues.
//!
//! ```
//! use epilogue::{Device, fuse, ops, te};
//!
//! let (tokens, width, inner) = (te::var("tokens"), te::var("width"), te::var("inner"));
//! let x = te::placeholder([tokens, width], "x");
//! let up = te::placeholder([inner, width], "up");
//! let down = te::placeholder([width, inner], "down");
//!
//! // h = relu(x · upᵀ), y = h · downᵀ + x
//! let (k, c) = (te::reduce_axis((0, width), "k"), te::reduce_axis((0, inner), "c"));
//! let z = te::compute([tokens, inner], "z", |[i, j]| te::sum(x.at([i, k]) * up.at([j, k]), [k]))?;
//! let h = te::compute([tokens, inner], "h", |[i, j]| ops::relu(z.at([i, j])))?;
//! let s = te::compute([tokens, width], "s", |[i, j]| te::sum(h.at([i, c]) * down.at([j, c]), [c]))?;
//! let y = te::compute([tokens, width], "y", |[i, j]| s.at([i, j]) + x.at([i, j]))?;
//!
//! let device = Device::cpu();
//! let program = fuse::build(&[&y])?.build(&device)?;
//! let xs = device.full::<f32>([2, 3], 1.0)?;
//! let (ups, downs) = (device.full::<f32>([4, 3], 0.5)?, device.full::<f32>([3, 4], 2.0)?);
//! let mut ys = device.zeros::<f32>([2, 3])?;
//! program.run_bound(&[(&x, (&xs).into()), (&up, (&ups).into()), (&down, (&downs).into()), (&y, (&mut ys).into())])?;
//! assert_eq!(ys.to_vec::<f32>()?, [13.0; 6]);
//! assert!(program.choice().starts_with("2 kernels: z with h: a product of 2×4×3, f32 × f32; then s with y: a product"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is a product
//!
//! A product is a [`sum`](crate::te::sum) of `a * b`. An axis that only `a` has counts rows, one that only `b` has
//! columns, one that both have batches; what is summed over must be in both. Layouts are free: `[K, N]` and `[N, K]`,
//! several axes that lie one after another, one tensor as both factors.
//!
//! | `choice()` says | what to change |
//! |---|---|
//! | *what is summed is no product of two factors* | write `a * b`; three factors are two sums |
//! | *a factor has no axis of the result to itself* | nothing: a matrix times a vector reads each element once anyway |
//! | *it is no sum that starts from 0* | nothing: maxima and minima of sums are kernels of [`te::auto`](crate::te::auto) |
//! | *it sums only where a condition holds* | put the condition into a factor, by `select` with 0 |
//! | *only one factor has k* | sum that factor over `k` before |
//! | *no product sums … here* | cast the factors to the type of the sum; [`gemm::supports`](crate::gemm::supports) lists the pairs |
//! | *the order is …* | ask for `Order::Device`, the default |
//! | *… has axes that don't lie one after another as one* | give that tensor contiguous |
//!
//! A factor that is computed, such as a gather or the windows of a convolution, is stored by a kernel before the product,
//! which `choice()` lists. So it takes memory and time; the windows of a 3 × 3 filter take nine times the image.
//!
//! # What is computed with it
//!
//! Functions of elements, casts, selects, conditions on positions, and vectors of rows or columns; also sums, products,
//! maxima and minima of whole rows or columns, and what is computed from these, such as a softmax. A value that reads the
//! product elsewhere than at its own place stays outside, and `choice()` says so.
