//! Recipes: batches, groups, convolutions, views, products of 8-bit types, scales of blocks, and weights of 8 bits.
//!
//! If a recipe doesn't make them itself, `device`, `a`, `b` and `d` are those of [the cookbook](super).
//!
//! # Many products at once
//!
//! A third axis in front, L, is the batch. If one of A and B has none, all products share it. An argument with a
//! leading axis of extent L has one value, vector or tensor for each product; without it, it is shared. Outputs have the
//! axis.
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn bias(accum: Accum, bias: RowVector) -> Tensor { let d = accum + bias; d }
//! # let device = Device::cpu();
//! # let b = device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?;
//! let a = device.tensor(&[1f32, 2.0, 3.0, 4.0, 1.0, 0.0, 0.0, 1.0], [2, 2, 2])?; // two matrices A
//! let biases = device.tensor(&[10f32, 20.0, 0.0, 0.0], [2, 2])?; // a bias for each
//! let mut d = device.zeros::<f32>([2, 2, 2])?;
//! Gemm::plan::<Bias>(&device, &a, &b)?.run(&a, &b, Bias { bias: &biases, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [11.0, 23.0, 13.0, 27.0, 1.0, 1.0, 0.0, 1.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A reduction over `(Column, Batch)` sums over the batch too. Its output has no batch axis.
//!
//! # Products of a few rows each (mixture of experts)
//!
//! [`rows`](crate::gemm::rows) divides the rows of A into groups, each with a B of its own: one run for all experts,
//! however many rows each has. The bounds are a tensor of i32, so they stay on the device where the router has computed
//! them. Arguments with one value per batch (B, row vectors, scalars, reductions along columns or of everything) have
//! one per group; column vectors and tensors have one entry for each row of A. Here the expert of a row scales by the
//! router's weight, and the largest value of each expert is kept:
//!
//! ```
//! use epilogue::gemm::rows;
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn expert(accum: Accum, bias: RowVector, weight: ColumnVector) -> (Tensor, DeviceScalar) {
//!     let d = relu(accum + bias) * weight;
//!     let largest = reduction_op(d, All, Max);
//!     (d, largest)
//! }
//! # let device = Device::cpu();
//!
//! let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [4, 2])?; // rows, sorted by expert
//! let experts = device.tensor(&[1f32, 1.0, 9.0, 9.0, 1.0, -2.0], [3, 2, 1])?;
//! let bias = device.tensor(&[0f32, 9.0, 10.0], [3, 1])?;
//! let weight = device.tensor(&[0.5f32, 1.0, 0.25, 1.0], [4])?;
//! let offsets = device.tensor(&[0i32, 3, 3, 4], [4])?; // expert 0 has rows 0 to 2, expert 1 none, expert 2 row 3
//! let (mut d, mut largest) = (device.zeros::<f32>([4, 1])?, device.zeros::<f32>([3])?);
//!
//! let grouped = rows(&x).in_groups(&offsets);
//! let gemm = Gemm::plan::<Expert>(&device, grouped, &experts)?;
//! gemm.run(grouped, &experts, Expert { bias: &bias, weight: &weight, d: &mut d, largest: &mut largest })?;
//! assert_eq!(d.to_vec::<f32>()?, [1.5, 7.0, 2.75, 1.0]);
//! assert_eq!(largest.to_vec::<f32>()?, [7.0, f32::NEG_INFINITY, 1.0]); // of no rows, the reduction's identity
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Rows`](crate::gemm::Rows) has the other forms of bounds: where each group ends, and how many rows of a matrix of its own
//! each has. Rows that no group has are left as they were. A run gives the same bits as one run for each group with the same
//! tile. [`supports`](crate::gemm::supports) says which devices have groups. On a GPU bounds that decrease or lie outside are
//! taken for the nearest that don't, and reported when results are read ([`DataError`](crate::runtime::DataError)); the CPU
//! refuses the run.
//!
//! If the rows of x are tokens in their own order, which several experts take, an index picks them while the product runs:
//! [`Rows::picked`](crate::gemm::Rows::picked). No sorted copy of the tokens is written:
//!
//! ```
//! use epilogue::gemm::rows;
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn weighted(accum: Accum, weight: ColumnVector) -> Tensor {
//!     let d = accum * weight;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let x = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])?; // 3 tokens
//! let tokens = device.tensor(&[0i32, 2, 0, 1], [4])?; // expert 0 takes tokens 0 and 2, expert 1 tokens 0 and 1
//! let ends = device.tensor(&[2i32, 4], [2])?;
//! let experts = device.tensor(&[1f32, 1.0, 10.0, 10.0], [2, 2, 1])?;
//! let weight = device.tensor(&[1f32, 1.0, 0.5, 0.5], [4])?; // of what each expert says of each of its tokens
//!
//! let taken = rows(&x).picked(&tokens).in_groups_to(&ends);
//! let gemm = Gemm::plan::<Weighted>(&device, taken, &experts)?;
//! let mut d = device.zeros::<f32>([4, 1])?;
//! gemm.run(taken, &experts, Weighted { weight: &weight, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [3.0, 11.0, 15.0, 35.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Kernels of both families gather rows, those for sm_90a if rows begin at multiples of 16 bytes. The kernels for
//! sm_90a may also take a copy of the rows that is made before, in the plan's memory; wide products hide its time.
//! `gemm.choice()` says what the model took, and what the other ways would take.
//! [`sm90::Request::picked`](crate::gemm::sm90::Request::picked) pins one. The bits are the same.
//!
//! Another index places the rows of results ([`Rows::scattered`](crate::gemm::Rows::scattered)), so that those of each token are
//! where its sum is made: in `[top, tokens, N]`, the number of a choice is `rank · tokens + token`:
//!
//! ```
//! use epilogue::gemm::rows;
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn weighted(accum: Accum, weight: ColumnVector) -> Tensor {
//! #     let d = accum * weight;
//! #     d
//! # }
//! # let device = Device::cpu();
//!
//! let h = device.tensor(&[1f32, 2.0, 3.0, 4.0], [4, 1])?; // rows, sorted by expert: tokens 0 and 1, then tokens 1 and 0
//! let choices = device.tensor(&[0i32, 3, 1, 2], [4])?; // token 0 likes expert 0 more, token 1 expert 1
//! let ends = device.tensor(&[2i32, 4], [2])?;
//! let experts = device.tensor(&[1f32, 10.0], [2, 1, 1])?;
//! let weight = device.tensor(&[0.75f32, 0.25, 0.75, 0.25], [4])?;
//!
//! let rows = rows(&h).scattered(&choices).in_groups_to(&ends);
//! let gemm = Gemm::plan::<Weighted>(&device, rows, &experts)?;
//! let mut d = device.zeros::<f32>([4, 1])?;
//! gemm.run(rows, &experts, Weighted { weight: &weight, d: &mut d })?;
//! assert_eq!(d.to_vec::<f32>()?, [0.75, 22.5, 10.0, 0.5]); // of tokens 0 and 1, and of both again
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The output may have rows that nothing is written to. No two rows may go to one place.
//!
//! The gradient of the experts' weights divides K instead, by the same bounds: [`depth`](crate::gemm::depth), with x
//! transposed as A and the gradient of the results as B, gives `[G, K, N]`; on sm_90a in one launch that loads both of 16
//! bits as they lie. The repository's `examples/moe` is a whole block
//! made so: router, top experts of each token, both layers, and all gradients.
//!
//! # Views, and outputs in another order
//!
//! [`slice`](crate::DeviceTensor::slice), [`permute`](crate::DeviceTensor::permute),
//! [`transpose`](crate::DeviceTensor::transpose) and [`reshape`](crate::DeviceTensor::reshape) give views of the same
//! memory. A run takes any view, for operands, arguments and outputs. So if a result is needed in another order,
//! permute the output where it is passed. Here the heads of an attention, which lie side by side in each row, are a
//! batch:
//!
//! ```
//! # use epilogue::prelude::*;
//! # #[epilogue]
//! # fn plain(accum: Accum) -> Tensor { let d = accum; d }
//! /// `[tokens, heads · width]` seen as `[heads, tokens, width]`.
//! fn heads(x: &DeviceTensor, heads: usize) -> Result<DeviceTensor, Box<dyn std::error::Error>> {
//!     let (tokens, width) = (x.shape()[0], x.shape()[1] / heads);
//!     Ok(x.reshape([tokens, heads, width])?.permute(&[1, 0, 2])?)
//! }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let device = Device::cpu();
//! # let b = device.tensor(&[1f32, 1.0, 0.0, 1.0], [2, 2])?;
//!
//! let x = device.tensor(&[1f32, 2.0, 5.0, 6.0, 3.0, 4.0, 7.0, 8.0], [2, 4])?;
//! let y = device.zeros::<f32>([2, 4])?;
//! let a = heads(&x, 2)?;
//! let mut d = heads(&y, 2)?; // a view of y
//! Gemm::plan::<Plain>(&device, &a, &b)?.run(&a, &b, Plain { d: &mut d })?;
//! assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 5.0, 11.0, 3.0, 7.0, 7.0, 15.0]);
//! # Ok(()) }
//! ```
//!
//! An output must reach each of its elements by one index only: a broadcast view is refused. `reshape` refuses a view for
//! which only a copy would do; [`contiguous`](crate::DeviceTensor::contiguous) makes that copy.
//!
//! # Convolutions
//!
//! The patches of images under a window are the rows of an A that is never in memory. So a convolution is a product
//! with any epilogue. Images are `[N, H, W, C]`, filters `[K, R, S, C]`; one axis (`[N, W, C]`) and three
//! (`[N, D, H, W, C]`) work as well, with strides, dilation and padding. Tensors and column vectors of the epilogue may
//! be the images that they are; row vectors, and reductions along columns, are one for each filter. Here a layer gives
//! the sums that batch normalisation needs in its own launch:
//!
//! ```
//! use epilogue::gemm::{Window, filter, patches};
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn layer(accum: Accum, bias: RowVector, residual: Tensor) -> (Tensor, RowVector, RowVector) {
//!     let y = relu(accum + bias) + residual;
//!     let sums = reduction_op(y, Column, Add);
//!     let squares = reduction_op(y * y, Column, Add);
//!     (y, sums, squares)
//! }
//! # let device = Device::cpu();
//!
//! let x = device.full::<f32>([1, 4, 4, 2], 1.0)?; // [N, H, W, C]
//! let w = device.full::<f32>([3, 3, 3, 2], 0.5)?; // [K, R, S, C]
//! let (bias, residual) = (device.zeros::<f32>([3])?, device.zeros::<f32>([1, 2, 2, 3])?);
//! let mut y = device.zeros::<f32>([1, 2, 2, 3])?; // [N, P, Q, K]
//! let (mut sums, mut squares) = (device.zeros::<f32>([3])?, device.zeros::<f32>([3])?);
//!
//! let (window, filter) = (Window::of([3, 3]).stride([2, 2]).padding([1, 1]), filter(&w)?);
//! let gemm = Gemm::plan::<Layer>(&device, patches(&x, window), &filter)?;
//! let (bias, residual) = (&bias, &residual);
//! let results = Layer { bias, residual, y: &mut y, sums: &mut sums, squares: &mut squares };
//! gemm.run(patches(&x, window), &filter, results)?;
//! assert_eq!(y.to_vec::<f32>()?.chunks(3).map(|pixel| pixel[0]).collect::<Vec<_>>(), [4.0, 6.0, 6.0, 9.0]);
//! assert_eq!((sums.to_vec::<f32>()?[2], squares.to_vec::<f32>()?[2]), (25.0, 169.0));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! One plan runs any window over images of any size. Elements outside of an image are 0. Weights that are used again
//! and again are packed as those of any product: `gemm.pack(filter.matrix())`. Channels whose bytes are a multiple of
//! 16 are copied fastest on GPUs; others, such as the 3 of a first layer, in narrower pieces. On Hopper, TMA loads
//! channels of a multiple of 16 bytes. Pixels must begin at multiples of 16 bytes. The window may move by at most 8,
//! and padding and reach must fit a tensor map. With two axes, a map takes padding before of at most 128, and a reach
//! of at most 128 more than the padding after. The printed choice says where TMA can't load them. Groups of channels
//! are a number of the window, `Window::of([3, 3]).groups(32)`; filters then have the channels of their group,
//! `[K, R, S, C / 32]`; all else stays as it is, and [`Window::groups`](crate::gemm::Window::groups) says what a row
//! is. `examples/resnet` is a whole network of them, also with batch normalisation by the batch's own statistics.
//!
//! # Gradients of convolutions, and transposed convolutions
//!
//! Both gradients are products with an A that is never in memory, too.
//!
//! | gradient of | A | B | D |
//! |---|---|---|---|
//! | the images | `gradient_patches(&dy, window, [h, w])` | `gradient_filter(&w)?` | `[N, H, W, C]` |
//! | the filters | `transposed_patches(&x, window)` | `dy`, `[N, P, Q, K]` | `[K, R, S, C]` |
//!
//! [`gradient_patches`](crate::gemm::gradient_patches) take the extents of the images, since with strides images of several
//! extents have the same outputs. A generator's transposed convolution (`ConvTranspose`) is the same product: its inputs are
//! the `dy`, and its outputs the images. So the epilogue is that of the layer itself:
//!
//! ```
//! use epilogue::gemm::{Window, gradient_filter, gradient_patches};
//! # use epilogue::prelude::*;
//! /// Twice as large, with the bias and the activation.
//! #[epilogue]
//! fn upsample(accum: Accum, bias: RowVector) -> Tensor {
//!     let y = leaky_relu(accum + bias, 0.1);
//!     y
//! }
//! # let device = Device::cpu();
//!
//! let x = device.full::<f32>([1, 3, 3, 8], 1.0)?; // [N, P, Q, K]: 8 channels in
//! let w = device.full::<f32>([8, 4, 4, 2], 0.5)?; // [K, R, S, C]: 2 channels out
//! let bias = device.full::<f32>([2], -6.0)?;
//! let mut y = device.zeros::<f32>([1, 6, 6, 2])?;
//!
//! let window = Window::of([4, 4]).stride([2, 2]).padding([1, 1]);
//! let (a, b) = (gradient_patches(&x, window, [6, 6]), gradient_filter(&w)?);
//! Gemm::plan::<Upsample>(&device, a, &b)?.run(a, &b, Upsample { bias: &bias, y: &mut y })?;
//! // In the corner one element of the input meets a filter's, in the middle 2·2 do.
//! let y = y.to_vec::<f32>()?;
//! assert!((y[0] - -0.2).abs() < 1e-6 && (y[(2 * 6 + 2) * 2] - 10.0).abs() < 1e-6);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The gradient of filters is `[R·S·C, K]`, in the shape of `filter(&w)?.matrix()`, and may be given as the filters
//! themselves: [`transposed_patches`](crate::gemm::transposed_patches) has an example that updates them in place. If
//! the convolution moved by more than 1, gradients of images multiply the zeros between the outputs, too. So they take
//! as long as a convolution over the whole image. With groups of channels, `gradient_filter_in_groups(&w, groups)?` is
//! the B of images' gradients. One plan runs convolutions and both gradients, compiling what each needs once. On
//! Hopper, tensor copies load the gradient of outputs as they load images, if the window moved by 1; and images for the
//! gradient of filters, of 16 bits with multiples of 64 channels. The printed choice says where not.
//!
//! # Heads apart: matrices of several axes
//!
//! The rows and the columns of an argument may be several axes of a tensor each. A projection's rows are `(batch, token)`
//! and its columns `(head, width)`; attention wants `[batch, head, token, width]`.
//! [`as_matrix`](crate::DeviceTensor::as_matrix) is a view of that tensor as the product's matrix: of the axes that are its
//! rows, and of those that are its columns, each in order, the last the fastest. So the product writes the heads apart, and
//! no kernel permutes them afterwards:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn projection(accum: Accum, bias: RowVector) -> Tensor {
//!     let d = accum + bias;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let [batch, tokens, heads, width] = [1, 2, 2, 2];
//! let x = device.tensor(&[1f32, 0.0, 0.0, 1.0], [batch * tokens, 2])?;
//! let weight = device.tensor(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [2, heads * width])?;
//! let bias = device.tensor(&[0f32, 0.0, 10.0, 10.0], [heads, width])?;
//! let queries = device.zeros::<f32>([batch, heads, tokens, width])?;
//!
//! let (bias, mut d) = (bias.as_row_vector(&[0, 1])?, queries.as_matrix(&[0, 2], &[1, 3])?);
//! Gemm::plan::<Projection>(&device, &x, &weight)?.run(&x, &weight, Projection { bias: &bias, d: &mut d })?;
//! assert_eq!(queries.to_vec::<f32>()?, [1.0, 2.0, 5.0, 6.0, 13.0, 14.0, 17.0, 18.0]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Inputs and `TensorMut` are viewed so, too. A mask `[S, T]` for all batches and heads takes no memory for them:
//! `mask.broadcast_to([b, h, s, t])?.as_matrix(&[0, 1, 2], &[3])?` is one for a product with rows `(b, h, s)`; with
//! [`as_batched_matrix`](crate::DeviceTensor::as_batched_matrix) some axes are the batch.
//!
//! Neighbouring axes whose strides chain count as one. At most two may be left for the rows, two for the columns and
//! two for the batch; more are refused with their strides. So a mask of each sentence, `[B, 1, S, T]`, is one of each
//! sentence and head: `mask.broadcast_to([b, h, s, t])?.as_batched_matrix(&[0, 1], &[2], &[3])?`. If one is left for
//! each, the view is an ordinary matrix; else the first run with the view makes another kernel, which counts these axes
//! by multiplication. On sm_90a the kernel copies that argument by boxes, as any other matrix, if no box goes beyond an
//! axis. The columns' last axis must be contiguous and whole boxes wide (of 64 elements at most, fewer of 4 bytes). The
//! rows' last axis must be the only one, or a multiple of a box's rows (64, or few in swapped kernels). The other
//! strides must be multiples of 16 bytes, and rows must have no groups. Else it accesses the argument element by
//! element. Vectors are viewed so, too, whether they are read, stored or results of reductions: a bias of heads that is
//! a window of a larger tensor is `bias.as_row_vector(&[0, 1])?`, with
//! [`as_batched_row_vector`](crate::DeviceTensor::as_batched_row_vector) one for each batch. Columns of `Bits` are
//! bytes: the mask `[S, T / 8]` of all heads is viewed as one of `bool`. A value for each batch is
//! [`as_batched_scalar`](crate::DeviceTensor::as_batched_scalar). On sm_90a an argument whose batch has two axes is
//! accessed element by element.
//!
//! A and B have one stride along their rows and one along their columns, and their batch may have two axes: grouped
//! queries read `keys.broadcast_to([b, h, g, t, d])?.as_batched_matrix(&[0, 1, 2], &[4], &[3])?` of keys
//! `[B, H, 1, T, D]`. The CPU multiplies them as they lie; GPUs copy this operand first, to one with a stride, in
//! memory of the plan's. Partial results of tiles have one stride along each axis.
//!
//! # Products of 8-bit integers
//!
//! They are summed in i32. `Tensor<i32>` of the accumulator itself stores the sums exactly. If the function computes
//! with the accumulator, it is an f32. Both may be `i8` or `u8`, also one of each.
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn sums(accum: Accum) -> Tensor<i32> {
//!     let d = accum;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let (a, b) = (device.full::<u8>([1, 2], 255)?, device.full::<i8>([2, 1], -128)?);
//! let mut d = device.zeros::<i32>([1, 1])?;
//! Gemm::plan::<Sums>(&device, &a, &b)?.run(&a, &b, Sums { d: &mut d })?;
//! assert_eq!(d.to_vec::<i32>()?, [-65280]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! With scales, see "Scale rows and columns" in [the cookbook](super). Stores to 8-bit types saturate: `Tensor<i8>` of 200.0 is 127.
//!
//! # Weights of 8 bits, activations of 16
//!
//! Few rows are as fast as their weights are read, and `i8` weights are half as many bytes as f16 ones. An A of `f16`
//! or `bf16` takes a B of any 8-bit type (`i8`, `u8`, `f8e4m3`, `f8e5m2`). B is converted on its way to the tensor
//! cores: exactly, since both 16-bit types have every value of the 8-bit ones. So the sums are f32, as those of 16-bit
//! products, and the scale of each column of weights is a row vector:
//!
//! ```
//! # use epilogue::prelude::*;
//! # use half::bf16;
//! #[epilogue]
//! fn dequantized(accum: Accum, scale: RowVector<f32>, bias: RowVector) -> Tensor {
//!     let d = accum * scale + bias;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let x = device.tensor(&[1.0, 2.0].map(bf16::from_f32), [1, 2])?;
//! let w = device.tensor(&[100i8, -50, 20, 127], [2, 2])?.transpose()?; // [N, K] in memory: columns (100, -50), (20, 127)
//! let scale = device.tensor(&[0.01f32, 0.5], [2])?;
//! let bias = device.tensor(&[1.0, 0.0].map(bf16::from_f32), [2])?;
//! let mut d = device.zeros::<bf16>([1, 2])?;
//! let gemm = Gemm::plan::<Dequantized>(&device, &x, &w)?;
//! gemm.run(&x, &w, Dequantized { scale: &scale, bias: &bias, d: &mut d })?;
//! assert_eq!(d.to_vec::<bf16>()?, [1.0, 137.0].map(bf16::from_f32));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! A zero point of a column is a correction by the sums of A's rows: `(accum - row_sum * zero) * scale`, with a
//! `ColumnVector` and a `RowVector`. On sm_90a the weights of few rows are best stored `[N, K]`, as here: the kernels for sm_90a
//! take them along K, others are copied first or go to a kernel for sm_80. The CPU takes an A of f32 or of 8-bit floats with
//! `i8` and `u8`, too. Weights are B: of an A of 8 bits the other operand has 8 bits, so give the transposed product.
//!
//! # Products of 8-bit floats
//!
//! One scale for the whole tensor is a [`DeviceScalar`](crate::language::DeviceScalar), in device memory. The largest
//! magnitude of the result, from which the next scale is computed, is a reduction over `All`:
//!
//! ```
//! # use epilogue::prelude::*;
//! #[epilogue]
//! fn scaled(accum: Accum, scale: DeviceScalar) -> (Tensor<f32>, DeviceScalar) {
//!     let d = scale * accum;
//!     let amax = reduction_op(d, All, AbsMax);
//!     (d, amax)
//! }
//! # let device = Device::cpu();
//! # let mut d = device.zeros::<f32>([2, 2])?;
//!
//! let a = device.tensor(&[1.0, 2.0, 3.0, 4.0].map(f8e4m3::from_f32), [2, 2])?;
//! let b = device.tensor(&[1.0, 1.0, 0.0, 1.0].map(f8e4m3::from_f32), [2, 2])?;
//! let scale = device.tensor(&[0.5f32], [1])?;
//! let mut amax = device.zeros::<f32>([1])?;
//! let gemm = Gemm::plan::<Scaled>(&device, &a, &b)?;
//! gemm.run(&a, &b, Scaled { scale: &scale, d: &mut d, amax: &mut amax })?;
//! assert_eq!(d.to_vec::<f32>()?, [0.5, 1.5, 1.5, 3.5]);
//! assert_eq!(amax.to_vec::<f32>()?, [3.5]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! `f8e5m2` is the other type, and A and B may have one each. A scale for each row and column is "Scale rows and columns" in
//! [the cookbook](super).
//!
//! # Scales of blocks
//!
//! Checkpoints in the manner of DeepSeek-V3 have an FP8 weight `[N, K]` with an f32 for each 128×128 of it. Their
//! activations have one for each row and 128 of K. [`scaled`](crate::gemm::scaled) gives an operand its scales. Each
//! 128 of K is summed by itself, multiplied by both scales, and added; the epilogue gets the complete sum, as ever:
//!
//! ```
//! use epilogue::gemm::scaled;
//! # use epilogue::prelude::*;
//! # use half::bf16;
//! #[epilogue]
//! fn layer(accum: Accum, residual: Tensor<bf16>) -> Tensor<bf16> {
//!     let d = accum + residual;
//!     d
//! }
//! # let device = Device::cpu();
//!
//! let (m, n, k) = (2, 4, 256);
//! let x = device.full([m, k], f8e4m3::from_f32(1.0))?;
//! let x_scales = device.tensor(&[1f32, 0.5, 2.0, 0.0], [m, k / 128])?;
//! let weight = device.full([n, k], f8e4m3::from_f32(0.5))?; // [N, K] in memory, as checkpoints have it
//! let weight_scales = device.tensor(&[0.25f32, 1.0], [1, k / 128])?; // [N / 128, K / 128], rounded up
//! let residual = device.zeros::<bf16>([m, n])?;
//! let mut d = device.zeros::<bf16>([m, n])?;
//!
//! let (b, b_scales) = (weight.transpose()?, weight_scales.transpose()?);
//! let (left, right) = (scaled(&x, &x_scales), scaled(&b, &b_scales));
//! let gemm = Gemm::plan::<Layer>(&device, left, right)?;
//! gemm.run(left, right, Layer { residual: &residual, d: &mut d })?;
//! // 64 · 1 · 0.25 + 64 · 0.5 · 1, and 64 · 2 · 0.25 + 64 · 0 · 1
//! assert_eq!(d.to_vec::<bf16>()?, [48.0, 48.0, 48.0, 48.0, 32.0, 32.0, 32.0, 32.0].map(bf16::from_f32));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Scaled`](crate::gemm::Scaled) has shapes and accuracy. With experts it is
//! [`rows(&x).scaled(&x_scales).in_groups(&offsets)`](crate::gemm::Rows::scaled). On a GPU scales of x that are contiguous
//! along M, `[K / 128, M]` in memory, take the fewest sectors of it.
//!
//! Activations get their scales from a tensor expression: the largest magnitude of each 128 of K becomes 448, the largest
//! number of `f8e4m3`. Here x is `[M, K / 128, 128]`, a view of `[M, K]`:
//!
//! ```
//! use epilogue::ops::abs;
//! use epilogue::{Device, ElementType, f8e4m3, te};
//!
//! let (m, blocks, block) = (te::var("m"), te::var("blocks"), te::var("block"));
//! let x = te::placeholder([m, blocks, block], "x");
//! let k = te::reduce_axis((0, block), "k");
//! let most = te::compute([m, blocks], "most", |[i, b]| te::max(abs(x.at([i, b, k])), [k]))?;
//! // Of a block of zeros the scale is a small number, since 0 / 0 would be NaN.
//! let scales = te::compute([m, blocks], "scales", |[i, b]| most.at([i, b]).max(1e-30) / 448.0)?;
//! let quantized = te::compute([m, blocks, block], "quantized", |[i, b, k]| {
//!     (x.at([i, b, k]) / scales.at([i, b])).cast(ElementType::F8E4M3)
//! })?;
//!
//! let device = Device::cpu();
//! let kernel = te::auto::build(&[&quantized, &scales])?.build(&device)?;
//! let xs = device.full::<f32>([2, 2 * 128], -7.0)?.reshape([2, 2, 128])?;
//! let (mut x8, mut x_scales) = (device.zeros::<f8e4m3>([2, 2, 128])?, device.zeros::<f32>([2, 2])?);
//! kernel.run_bound(&[(&x, (&xs).into()), (&quantized, (&mut x8).into()), (&scales, (&mut x_scales).into())])?;
//! assert_eq!(x_scales.to_vec::<f32>()?, [7.0 / 448.0; 4]);
//! assert!(x8.to_vec::<f8e4m3>()?.iter().all(|x| x.to_f32() == -448.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
