//! Automatic schedules: a reduction or scan is given as a tensor expression, and the kernel is chosen from the shapes,
//! strides and device of a run.
//!
//! What is fixed before a run is the expression; the kernel's text is made, and compiled once, for every class of shape
//! that runs ask for. Results are the same bits at every run on one device; [`Order`] asks for more.
//!
//! Values of floating-point types with fewer than 32 bits are computed in f32 and rounded where they are stored (or where
//! the expression casts).

mod binding;
mod choose;
mod element;
mod frame;
mod kernel;
mod reduce_text;
mod reduction;
mod space;

use epilogue_runtime::Device;

use self::element::refused;
pub use self::kernel::Kernel;
use self::reduction::Reduction;
use super::error::TeError;
use super::tensor::Tensor;

/// In what order a kernel may combine values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any tree that depends on nothing but shapes, strides and the device: the same bits at every run there.
    #[default]
    Device,
    /// A tree that depends on the shape only: the same bits on every device, where it computes the same of a point
    /// (sums, products, quotients, roots, minima and maxima; not `exp` and its kind).
    Shape,
    /// One after the other, from the initial value on, as the default schedule does it.
    Exact,
}

/// A reduction to be scheduled automatically.
#[derive(Debug)]
pub struct Reduce {
    reduction: Reduction,
    order: Order,
}

/// The reduction that `output` is, or that it is computed from, element by element and at the same indices.
///
/// # Errors
/// [`TeError::Target`] for what is no single reduction.
pub fn reduce(output: &Tensor) -> Result<Reduce, TeError> {
    reduce_all(&[output])
}

/// A reduction with several outputs: the values of a tuple, and what is computed of them.
///
/// # Errors
/// As [`reduce`].
pub fn reduce_all(outputs: &[&Tensor]) -> Result<Reduce, TeError> {
    let outputs: Vec<Tensor> = outputs.iter().map(|t| Tensor::clone(t)).collect();
    Ok(Reduce { reduction: Reduction::of(&outputs)?, order: Order::default() })
}

impl Reduce {
    /// In what order values may be combined.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The tensors that a run takes, in this order: those that are read, in the order of first use, then the outputs.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        &self.reduction.parameters
    }

    /// The kernel on a device. Its text depends on a run's shapes: it is compiled by the first run of each class.
    ///
    /// # Errors
    /// [`TeError::Target`] for a device that runs no kernels.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        Kernel::new(device, self.reduction, self.order)
    }
}
