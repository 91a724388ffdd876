//! Recipes: dropout and gradients.
//!
//! If a recipe doesn't make them itself, `device`, `a`, `b` and `d` are those of [the cookbook](super). The
//! repository's `examples/train` is a whole training with epilogues of this kind, held against the same in numpy;
//! `examples/moe` has the gradients of a mixture of experts.
//!
//! # Dropout, and the same mask in the backward pass
//!
//! `random(seed)` is a number from 0 to 1 for each element, which follows from the seed and the element's row, column and
//! batch alone. So a backward product with the same seed has the same mask, whatever its kernel or device, and nothing is
//! stored:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[elementwise]
//! fn dropout(x: f32, u: f32, p: f32) -> f32 {
//!     if u < p { 0.0 } else { x / (1.0 - p) }
//! }
//!
//! #[epilogue]
//! fn forward(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> Tensor {
//!     let y = dropout(accum + bias, random(seed), p);
//!     y
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, RowVector) {
//!     let dz = dropout(accum, random(seed), p);
//!     let bias_gradient = reduction_op(dz, Column, Add);
//!     (dz, bias_gradient)
//! }
//! # let device = Device::cpu();
//! # let (m, n) = (40, 50);
//! # let (a, b) = (device.tensor(&[1f32; 80], [m, 2])?, device.tensor(&[0.5f32; 100], [2, n])?);
//! # let bias = device.zeros::<f32>([n])?;
//! # let (mut y, mut dz) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, n])?);
//! # let mut bias_gradient = device.zeros::<f32>([n])?;
//!
//! let seed = Seed::with_offset(2024, 7); // the offset counts the steps of a training
//! let gemm = Gemm::plan::<Forward>(&device, &a, &b)?;
//! gemm.run(&a, &b, Forward { bias: &bias, p: 0.25, seed, y: &mut y })?;
//! let gradient = Gemm::plan::<Backward>(&device, &a, &b)?;
//! gradient.run(&a, &b, Backward { p: 0.25, seed, dz: &mut dz, bias_gradient: &mut bias_gradient })?;
//! let (y, dz) = (y.to_vec::<f32>()?, dz.to_vec::<f32>()?);
//! assert_eq!(y, dz); // of products that are all 1, kept are the same elements
//! let kept = y.iter().filter(|y| **y != 0.0).count();
//! assert!((1400..1600).contains(&kept), "{kept} of 2000");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Further random numbers of an element, independent of the first, are `random(seed, 1)`, `random(seed, 2)`, and so on: as
//! for dropout twice in one epilogue. Another seed or offset needs no other kernel. In device memory a seed is a tensor of
//! two `i64`, `Seed::in_memory(&tensor)`, which recorded graphs read anew at each launch.
//!
//! If the mask is needed by something else than a product, store it: `let keep = random(seed) >= p;` is returned as
//! `Bits`, one for each element, and a parameter of that class reads them. (As a `Tensor<bool>` each takes a byte.)
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn forward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, Bits) {
//!     let keep = random(seed) >= p;
//!     let y = if keep { accum / (1.0 - p) } else { 0.0 };
//!     (y, keep)
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, p: Scalar, keep: Bits) -> Tensor {
//!     let dz = if keep { accum / (1.0 - p) } else { 0.0 };
//!     dz
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32; 80], [40, 2])?, device.tensor(&[0.5f32; 100], [2, 50])?);
//! # let (mut y, mut dz, mut keep) =
//! #     (device.zeros::<f32>([40, 50])?, device.zeros::<f32>([40, 50])?, device.zeros::<u8>([40, 7])?);
//! # let (gemm, gradient) = (Gemm::plan::<Forward>(&device, &a, &b)?, Gemm::plan::<Backward>(&device, &a, &b)?);
//! gemm.run(&a, &b, Forward { p: 0.25, seed: Seed::new(1), y: &mut y, keep: &mut keep })?;
//! gradient.run(&a, &b, Backward { p: 0.25, keep: &keep, dz: &mut dz })?;
//! assert_eq!(y.to_vec::<f32>()?, dz.to_vec::<f32>()?);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! # The gradient through bias and GELU
//!
//! The forward product also stores `z`, what GELU was applied to. The backward product is `dY·Wᵀ`, whose epilogue
//! multiplies by the slope at `z`. The bias' gradient is the sum of every column of that.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn forward(accum: Accum, bias: RowVector) -> (Tensor, Tensor) {
//!     let z = accum + bias;
//!     let y = gelu(z);
//!     (y, z)
//! }
//!
//! #[epilogue]
//! fn backward(accum: Accum, z: Tensor) -> (Tensor, RowVector) {
//!     let dz = accum * gelu_grad(z);
//!     let bias_gradient = reduction_op(dz, Column, Add);
//!     (dz, bias_gradient)
//! }
//! # assert_eq!(Forward::tree().outputs().len(), 2);
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let z = device.tensor(&[40f32, 0.0, -40.0, 40.0], [2, 2])?; // the slopes are 1, 1/2, 0, 1
//! let (mut dz, mut bias_gradient) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! let gemm = Gemm::plan::<Backward>(&device, &a, &b)?;
//! gemm.run(&a, &b, Backward { z: &z, dz: &mut dz, bias_gradient: &mut bias_gradient })?;
//! assert_eq!(dz.to_vec::<f32>()?, [1.0, 1.5, 0.0, 7.0]);
//! assert_eq!(bias_gradient.to_vec::<f32>()?, [1.0, 8.5]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The weights' gradient is a product of its own, `Xᵀ·dZ`: give `x.transpose()?` as A, and add to what is there with a
//! `TensorMut`, as in "Add a residual" in [the cookbook](super). The other activations have slopes too, such as `relu_grad`
//! and `silu_grad`.
//!
//! # A backward pass that nobody writes
//!
//! `#[epilogue(backward(…))]` derives the backward function from the forward one, and makes a second struct of it: here
//! with dropout, whose mask is drawn again from the same seed.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[elementwise]
//! fn dropout(x: f32, u: f32, p: f32) -> f32 {
//!     if u < p { 0.0 } else { x / (1.0 - p) }
//! }
//!
//! #[epilogue(backward(through = y, saved(z), gradients(bias)))]
//! fn layer(accum: Accum, bias: RowVector, p: Scalar, seed: Seed) -> (Tensor, Tensor) {
//!     let z = accum + bias;
//!     let y = dropout(gelu(z), random(seed), p);
//!     (y, z)
//! }
//! # let device = Device::cpu();
//! # let (a, b) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?, device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?);
//!
//! let (bias, seed) = (device.tensor(&[40f32, 40.0], [2])?, Seed::new(7)); // where GELU's slope is 1
//! let (mut y, mut z) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2, 2])?);
//! let forward = Gemm::plan::<Layer>(&device, &a, &b)?;
//! forward.run(&a, &b, Layer { bias: &bias, p: 0.5, seed, y: &mut y, z: &mut z })?;
//!
//! // dY = dX'·W'ᵀ, the gradient that comes from the layers behind
//! let (dx, wt) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([3, 2], 1.0)?);
//! let (mut d_accum, mut d_bias) = (device.zeros::<f32>([2, 2])?, device.zeros::<f32>([2])?);
//! let backward = Gemm::plan::<LayerBackward>(&device, &dx, &wt)?;
//! let arguments = LayerBackward { bias: &bias, p: 0.5, seed, z: &z, d_accum: &mut d_accum, d_bias: &mut d_bias };
//! backward.run(&dx, &wt, arguments)?;
//!
//! let kept: Vec<f32> = y.to_vec::<f32>()?.iter().map(|y| if *y == 0.0 { 0.0 } else { 6.0 }).collect();
//! assert_eq!(d_accum.to_vec::<f32>()?, kept);
//! assert_eq!(d_bias.to_vec::<f32>()?, [kept[0] + kept[2], kept[1] + kept[3]]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `LayerBackward`'s fields are the forward parameters (what no derivative needs, as `bias` here, isn't read), what was saved,
//! and the gradients: `d_accum` goes into the next products, and `d_bias` to the optimiser. See
//! [`language`](crate::language#backward-passes). By [`evt::derive`](crate::evt::derive) the same is made of trees.
