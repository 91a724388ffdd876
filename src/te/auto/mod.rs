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
mod host;
mod kernel;
mod recurrence;
mod reduce_text;
mod reduction;
mod scan_choose;
mod scan_kernel;
mod scan_pattern;
mod scan_text;
mod space;
mod variants;

use std::fmt;

use epilogue_runtime::{Device, Stream};

use self::element::refused;
use self::kernel::ReduceKernel;
use self::reduction::Reduction;
use self::scan_kernel::ScanKernel;
use self::scan_pattern::Recurrence;
use super::error::TeError;
use super::tensor::Tensor;
use crate::Argument;

/// In what order a kernel may combine values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Any tree that depends on nothing but shapes, strides and the device: the same bits at every run there.
    #[default]
    Device,
    /// A tree that depends on the shape only (of a scan: step by step): the same bits on every device, where devices
    /// compute the same of a point (sums, products, quotients, roots, minima and maxima; not `exp` and its kind).
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
    let outputs: Vec<Tensor> = outputs.iter().copied().cloned().collect();
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
    /// None so far: what a device can't do shows when it runs.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        Ok(Kernel(Inner::Reduce(ReduceKernel::new(device, self.reduction, self.order))))
    }
}

/// A scan to be scheduled automatically.
#[derive(Debug)]
pub struct Scan {
    recurrence: Recurrence,
    order: Order,
}

/// The scan that `output` is a state of, or that it is computed from, element by element, at the same step (or, to get
/// it in reverse, at `steps - 1 - t`) and column.
///
/// Columns must not read each other's state. Where the update is proven linear in the state (over +·, max+ or min+),
/// steps are composed in parallel, which reassociates them; only [`Order::Device`] allows that.
///
/// # Errors
/// [`TeError::Target`] for what is no such scan.
pub fn scan(output: &Tensor) -> Result<Scan, TeError> {
    scan_all(&[output])
}

/// A scan with several outputs: its states, and what is computed of them. A state that is no output is not stored.
///
/// # Errors
/// As [`scan`].
pub fn scan_all(outputs: &[&Tensor]) -> Result<Scan, TeError> {
    let outputs: Vec<Tensor> = outputs.iter().copied().cloned().collect();
    Ok(Scan { recurrence: Recurrence::of(&outputs)?, order: Order::default() })
}

impl Scan {
    /// In what order steps may be combined.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The tensors that a run takes, in this order: those that are read, in the order of first use, then the outputs.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        &self.recurrence.parameters
    }

    /// Whether the update is proven linear in the state, so that time can be cut.
    #[must_use]
    pub fn is_parallel_in_time(&self) -> bool {
        self.recurrence.map.is_some() && self.order == Order::Device
    }

    /// The kernel on a device. Its text depends on a run's shapes: it is compiled by the first run of each class.
    ///
    /// # Errors
    /// None so far: what a device can't do shows when it runs.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        Ok(Kernel(Inner::Scan(ScanKernel::new(device, self.recurrence, self.order))))
    }
}

/// An automatically scheduled kernel on a device.
pub struct Kernel(Inner);

enum Inner {
    Reduce(ReduceKernel),
    Scan(ScanKernel),
}

impl Kernel {
    /// The tensors that a run takes, in this order.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        match &self.0 {
            Inner::Reduce(kernel) => kernel.parameters(),
            Inner::Scan(kernel) => kernel.parameters(),
        }
    }

    /// The device that it runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        match &self.0 {
            Inner::Reduce(kernel) => kernel.device(),
            Inner::Scan(kernel) => kernel.device(),
        }
    }

    /// Runs on the device's default stream. Reading an output back waits for it.
    ///
    /// # Errors
    /// [`TeError::Argument`] for arguments that don't fit; then nothing has been written. [`TeError::Device`] for what
    /// the device or the compiler fails with.
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_on(&self.device().default_stream(), arguments)
    }

    /// [`run`](Self::run) on a stream of the caller's.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_on(&self, stream: &Stream, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        match &self.0 {
            Inner::Reduce(kernel) => kernel.run_on(stream, arguments),
            Inner::Scan(kernel) => kernel.run_on(stream, arguments),
        }
    }

    fn last(&self) -> Option<(String, String)> {
        match &self.0 {
            Inner::Reduce(kernel) => kernel.last(),
            Inner::Scan(kernel) => kernel.last(),
        }
    }

    /// What the last run chose, in words; empty before the first.
    #[must_use]
    pub fn choice(&self) -> String {
        self.last().map_or(String::new(), |(choice, _)| choice)
    }

    /// The CUDA C++ that the last run ran, complete; empty before the first, and on the CPU, which runs none.
    #[must_use]
    pub fn source(&self) -> String {
        self.last().map_or(String::new(), |(_, source)| source)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Inner::Reduce(kernel) => kernel.name(),
            Inner::Scan(kernel) => kernel.name(),
        };
        write!(f, "Kernel({name} on {})", self.device())
    }
}
