//! From mathematics to kernels: tensor expressions whose contractions run as matrix products with fused epilogues.
//!
//! [`build`] takes the expressions that [`te::auto::build`](crate::te::auto::build) takes, and gives the same
//! [`Kernel`]. A contraction that is a sum of products of two tensors runs as a
//! [`Gemm`](crate::Gemm). The expressions around it become the product's epilogue: elementwise functions, casts, rows and columns
//! of values, residuals, and reductions of whole rows or columns with what is computed from them. Everything else is a
//! kernel of [`te::auto`](crate::te::auto).
//!
//! ```
//! use epilogue::{Device, fuse, ops, te};
//!
//! let (tokens, width, inner) = (te::var("tokens"), te::var("width"), te::var("inner"));
//! let x = te::placeholder([tokens, width], "x");
//! let w = te::placeholder([inner, width], "w"); // [out, in], as a checkpoint has it
//! let bias = te::placeholder([inner], "bias");
//! let k = te::reduce_axis((0, width), "k");
//! let z = te::compute([tokens, inner], "z", |[i, j]| te::sum(x.at([i, k]) * w.at([j, k]), [k]))?;
//! let y = te::compute([tokens, inner], "y", |[i, j]| ops::relu(z.at([i, j]) + bias.at([j])))?;
//!
//! let device = Device::cpu();
//! let program = fuse::build(&[&y])?.build(&device)?;
//! let (xs, ws) = (device.full::<f32>([2, 3], 1.0)?, device.full::<f32>([4, 3], 2.0)?);
//! let bs = device.tensor(&[0f32, 1.0, -7.0, 2.0], [4])?;
//! let mut ys = device.zeros::<f32>([2, 4])?;
//! program.run_bound(&[(&x, (&xs).into()), (&w, (&ws).into()), (&bias, (&bs).into()), (&y, (&mut ys).into())])?;
//! assert_eq!(ys.to_vec::<f32>()?, [6.0, 7.0, 0.0, 8.0, 6.0, 7.0, 0.0, 8.0]);
//! assert_eq!(program.choice(), "z with y: a product of 2×4×3, f32 × f32");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`choice`](crate::te::auto::Kernel::choice) tells what ran. It names each contraction that is no product, with the
//! [`Reason`]. It also names each value that is computed after its product and not with it ([`Apart`]).
//!
//! # Numbers
//!
//! A product adds in an order of its own, as [`Order::Device`] allows; other orders get no products. The result is the
//! same at every run on a device: a plan depends on the class of the extents and on layouts, never on earlier runs.
//! Products of f32 multiply and add in f32.
//!
//! Joining changes no rounding: what an expression casts is rounded there, and what it doesn't is held in f32, in an
//! epilogue as between kernels. Only a factor of a product that is computed before is stored, in its own type: that is
//! how a product multiplies it. Windows of images and rows that an index picks are not computed before.
//!
//! # How it is made
//!
//! `product.rs` recognises products by their axes, and `factor.rs` how factors are read. `cut.rs` grows regions, `tree.rs`
//! makes epilogues, `program.rs` puts the parts together. `kept.rs` says what is read from memory instead of written
//! out. `draw.rs` draws the parts. `kernel.rs` plans and runs a product, whose operands are made by
//! `view.rs`; `own.rs` is the same product for te. The program of expressions is cut before te sees the rest, so te
//! knows nothing of products. It gets placeholders for the tensors that products write.
//! A tensor of a run may lie so that no product takes it, so every region is also built as kernels of te.

mod cut;
mod draw;
mod factor;
mod kept;
mod kernel;
mod names;
mod own;
mod product;
mod program;
mod reason;
mod role;
#[cfg(test)]
mod tests;
mod tree;
mod view;
mod weights;

use epilogue_runtime::{Device, DeviceTensor};

pub use self::draw::Regions;
use self::program::Request;
pub use self::reason::{Apart, Reason};
use crate::level;
use crate::te::auto::{self, Kernel, Order};
use crate::te::{TeError, Tensor};

/// Outputs to be computed by products with epilogues and by kernels of [`te::auto`](crate::te::auto).
#[derive(Debug)]
pub struct Fused {
    request: Request,
}

/// Schedules any outputs, as [`te::auto::build`](auto::build) does, with products where contractions are.
///
/// # Errors
/// Errors of [`te::auto::build`](auto::build).
pub fn build(outputs: &[&Tensor]) -> Result<Fused, TeError> {
    // It refuses what no kernel computes.
    auto::build(outputs)?;
    let outputs = outputs.iter().copied().cloned().collect();
    let request = Request { outputs, required: Vec::new(), weights: Vec::new(), order: Order::default() };
    Ok(Fused { request })
}

impl Fused {
    /// Sets the order in which values or steps may be combined. Only [`Order::Device`] allows products.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.request.order = order;
        self
    }

    /// Requires a contraction to be a product: instead of te's own kernels, there is an error with the reason.
    ///
    /// ```
    /// use epilogue::{Device, fuse, te};
    ///
    /// let (a, b) = (te::placeholder([4, 8], "a"), te::placeholder([8, 6], "b"));
    /// let k = te::reduce_axis((0, 8), "k");
    /// let z = te::compute([4, 6], "z", |[i, j]| te::max(a.at([i, k]) * b.at([k, j]), [k]))?;
    /// let refused = fuse::build(&[&z])?.require(&z).build(&Device::cpu()).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "z must be a product: it is no sum that starts from 0; only sums are products"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`build`](Self::build) gives [`TeError::Product`] if the expression is none, and a run does if it is given a tensor
    /// that no product takes. Then nothing has been written.
    #[must_use]
    pub fn require(mut self, product: &Tensor) -> Self {
        self.request.required.push(product.clone());
        self
    }

    /// Gives inputs their values for all runs: weights. Runs have no arguments for them.
    ///
    /// The program keeps a copy, so later writes to the tensors do not change it. On the CPU, a weight that is the right
    /// factor of a product is [packed](crate::Gemm::pack) once, by the first run. A tensor of fixed extents that is computed
    /// from weights alone is computed once, by [`build`](Self::build): a filter in another order of its axes, for example.
    ///
    /// ```
    /// use epilogue::{Device, fuse, te};
    ///
    /// let rows = te::var("rows");
    /// let (x, w) = (te::placeholder([rows.into(), te::Expr::from(3)], "x"), te::placeholder([4, 3], "w"));
    /// let k = te::reduce_axis((0, 3), "k");
    /// let z = te::compute([rows.into(), te::Expr::from(4)], "z", |[i, j]| te::sum(x.at([i, k]) * w.at([j, k]), [k]))?;
    ///
    /// let device = Device::cpu();
    /// let weights = device.full::<f32>([4, 3], 0.5)?;
    /// let program = fuse::build(&[&z])?.weights([(&w, &weights)]).build(&device)?;
    /// let (xs, mut zs) = (device.full::<f32>([2, 3], 1.0)?, device.zeros::<f32>([2, 4])?);
    /// program.run_bound(&[(&x, (&xs).into()), (&z, (&mut zs).into())])?;
    /// assert_eq!(zs.to_vec::<f32>()?, [1.5; 8]);
    /// assert_eq!(program.choice(), "z: a product of 2×4×3, f32 × f32, packed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`build`](Self::build) refuses a tensor that is no input of the program, or given twice, and values of another type,
    /// shape or device.
    #[must_use]
    pub fn weights<'a>(mut self, weights: impl IntoIterator<Item = (&'a Tensor, &'a DeviceTensor)>) -> Self {
        self.request.weights.extend(weights.into_iter().map(|(of, values)| (of.clone(), values.clone())));
        self
    }

    /// The parts that are computed together on a device, to be printed or drawn. No run is needed, and no product is planned.
    ///
    /// ```
    /// use epilogue::{Device, fuse, te};
    ///
    /// let (x, w) = (te::placeholder([2, 3], "x"), te::placeholder([4, 3], "w"));
    /// let z = te::ops::linear(&x, &w, None)?;
    /// let y = te::compute([2, 4], "y", |[i, j]| te::relu(z.at([i, j])))?;
    /// let regions = fuse::build(&[&y])?.regions(&Device::cpu())?;
    /// assert_eq!(regions.to_string(), "linear with y: a product, f32 × f32\n");
    /// assert!(regions.to_svg().starts_with("<svg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Errors of [`build`](Self::build).
    pub fn regions(&self, device: &Device) -> Result<Regions, TeError> {
        level::on(device, || Regions::of(&self.request, device))
    }

    /// The program on a device. Its products are planned by the first run of each class of extents.
    ///
    /// # Errors
    /// Errors of [`te::auto::build`](auto::build); [`TeError::Product`] for what is [required](Self::require) and no
    /// product; [`RunError::Argument`](crate::te::RunError::Argument) for [weights](Self::weights) that don't fit.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        level::on(device, || program::build(&self.request, device))
    }
}
