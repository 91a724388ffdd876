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
//! [`regions`](crate::fuse::Fused::regions) tells what is computed together, before anything runs. It is printed as lines
//! of text, and drawn by [`to_svg`](crate::fuse::Regions::to_svg). Here is a layer of attention, whose softmax is in the
//! epilogue of the first product:
//!
//! ```
//! use epilogue::{Device, fuse, te};
//!
//! let tokens = te::var("tokens");
//! let [q, k, v] = ["q", "k", "v"].map(|name| te::placeholder([tokens.into(), te::Expr::from(64)], name));
//! let scores = te::ops::einsum("id,jd->ij", &[&q, &k])?;
//! let weights = te::ops::softmax(&scores, 1)?;
//! let mixed = te::ops::einsum("ij,jd->id", &[&weights, &v])?;
//! let positive = te::compute(mixed.shape(), "positive", |[i, d]| te::relu(mixed.at([i, d])))?;
//!
//! let regions = fuse::build(&[&positive])?.regions(&Device::cpu())?;
//! assert_eq!(
//!     regions.to_string(),
//!     "einsum with largest, exponentials, softmax: a product, f32 × f32\n\
//!      einsum with positive: a product, f32 × f32\n"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
#![doc = include_str!("pictures/regions.svg")]
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
//! Three kinds of left factors are read where they lie, and never stored as a matrix:
//!
//! | written as | runs as | needs |
//! |---|---|---|
//! | `x.at([n, i * stride + r * dilation - padding, …, c])`, 0 outside by `select`; [`conv2d`](crate::te::ops::conv2d) | the crate's [convolution](crate::gemm::patches()) | up to three axes with windows; channels last, or images and filters are copied into that order first |
//! | `x.at([index.at([i]), k])` | [picked rows](crate::gemm::Rows::picked) | an index of i32; one that is computed is stored first |
//! | anything else, such as `relu(x.at([i, k]))` | a matrix, stored by a kernel before | memory, and the time of that kernel |
//!
//! ```
//! use epilogue::te::{self, ops::{self, Convolution}};
//! use epilogue::{Device, fuse};
//!
//! let image = te::placeholder([2, 8, 8, 3], "image"); // [N, H, W, C]
//! let filter = te::placeholder([4, 3, 3, 3], "filter"); // [K, R, S, C]
//! let z = ops::conv2d(&image, &filter, Convolution::new().padding([1, 1]).channels_last())?;
//! let y = te::compute([2, 8, 8, 4], "y", |[n, i, j, f]| epilogue::ops::relu(z.at([n, i, j, f]) - 20.0))?;
//!
//! let device = Device::cpu();
//! let program = fuse::build(&[&y])?.require(&z).build(&device)?;
//! let (images, filters) = (device.full::<f32>([2, 8, 8, 3], 1.0)?, device.full::<f32>([4, 3, 3, 3], 1.0)?);
//! let mut ys = device.zeros::<f32>([2, 8, 8, 4])?;
//! program.run_bound(&[(&image, (&images).into()), (&filter, (&filters).into()), (&y, (&mut ys).into())])?;
//! assert_eq!(ys.to_vec::<f32>()?[4 * 9], 7.0); // 3 · 3 · 3 in the middle
//! assert_eq!(program.choice(), "conv2d with y: a convolution, as a product of 128×4×27, f32 × f32");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `choice()` names the kernels that store or copy factors. A convolution in groups of channels stores its windows: they
//! take as many times the image as the filter has elements.
//!
//! Channels first cost a copy of the image in every run, and one of the filter unless it is a
//! [weight](crate::fuse::Fused::weights). The filter's copy is the dearer one where images are small. A 3×3
//! convolution of 4×7×7×512 took 4.2 ms channels last, and 48 ms channels first. With a known filter it was 4.9 ms (two
//! busy cores of a Zen 4).
//!
//! [`weights`](crate::fuse::Fused::weights) gives inputs their values for all runs, and packs factors once.
//! [`require`](crate::fuse::Fused::require) refuses a program in which a contraction is no product.
//!
//! # Several products of one factor
//!
//! Products of one left factor run as one [`Gemm`](crate::Gemm) with an accumulator each, up to four: the gate of a gated
//! layer, or queries, keys and values. They need right factors of one type, with the same extents and order of axes.
//! `choice()` gives the reason for those that stay apart.
//!
//! # What is computed with it
//!
//! Functions of elements, casts, selects, conditions on positions, and vectors of rows or columns; also sums, products,
//! maxima and minima of whole rows or columns, and what is computed from these, such as a softmax. A value that reads the
//! product elsewhere than at its own place stays outside, and `choice()` says so.
//!
//! A tensor that is an output or a factor of a product is in memory. Other expressions read it from there, if its type is
//! that of its values. So a network with residuals is one program: the example `minilm` has a transformer as one, in a
//! third of the lines that its products by hand take.
