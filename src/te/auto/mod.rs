//! Automatic schedules: kernels from tensor expressions alone, chosen by the shapes, strides and device of a run.
//!
//! ```
//! use epilogue::{Device, te};
//!
//! let x = te::placeholder([2, 2], "x");
//! let (softmax, sums) = (te::ops::softmax(&x, 1)?, te::ops::cumsum(&x, 0)?);
//!
//! let device = Device::cpu();
//! let values = device.tensor(&[1f32, 1.0, 5.0, 5.0], [2, 2])?;
//! for (result, expected) in [(softmax, [0.5; 4]), (sums, [1.0, 1.0, 6.0, 6.0])] {
//!     let kernel = te::auto::build(&[&result])?.build(&device)?;
//!     assert_eq!(kernel.inputs(), std::slice::from_ref(&x));
//!     let mut out = device.zeros::<f32>([2, 2])?;
//!     kernel.run_bound(&[(&x, (&values).into()), (&result, (&mut out).into())])?;
//!     assert_eq!(out.to_vec::<f32>()?, expected);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is fixed before a run is the expression; the kernel's text is made, and compiled once, for every class of shape
//! that runs ask for. Results are the same bits at every run on one device; [`Order`] asks for more.
//!
//! Values of floating-point types with fewer than 32 bits are computed in f32 and rounded where they are stored (or where
//! the expression casts). Where all that a reduction or a map stores has at most 16 bits, and its [`Order`] is the device's
//! own, a GPU computes exponentials, roots, reciprocals and quotients by functions with a relative error below 2⁻¹⁷.

mod bind;
mod cpu;
mod gpu;
mod kernel;
mod order;
mod pattern;
mod run;
mod split;

pub use self::kernel::Kernel;
pub use self::order::Order;

use epilogue_runtime::Device;

use self::pattern::fused::Reduction;
use self::pattern::reads::refused;
use self::pattern::recurrence::Recurrence;
use self::run::reduce::ReduceKernel;
use self::run::scan::ScanKernel;
use self::run::several::SeveralKernels;
use self::split::by_shape::{Contents, Several};
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;

/// Outputs to be computed by one automatically scheduled kernel.
#[derive(Debug)]
pub struct Automatic {
    pattern: Pattern,
    order: Order,
}

#[derive(Debug)]
enum Pattern {
    Reduce(Reduction),
    Several(Several),
    Scan(Box<Recurrence>),
}

/// Whatever `outputs` are: maps, reductions, scans, or what is computed from them. One kernel where one does it all, else
/// several in a row, with memory of their own for what passes from one to the next.
///
/// [`map_all`], [`reduce_all`] and [`scan_all`] say which of them is meant, and refuse the others.
///
/// # Errors
/// [`TeError::Target`] for no outputs, an output given twice, and what automatic kernels can't do.
pub fn build(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let all = owned(outputs);
    let first = all.first().ok_or_else(|| refused("a kernel without outputs"))?;
    let reads = Contents::of(&all);
    let one = if reads.scans {
        Recurrence::of(&all).map(|recurrence| Pattern::Scan(Box::new(recurrence)))
    } else if reads.reductions {
        Reduction::of(&all).map(Pattern::Reduce)
    } else if first.operation().as_compute().is_some() {
        Reduction::map(&all).map(Pattern::Reduce)
    } else {
        Err(refused(&format!("{}, which is an input,", first.name())))
    };
    let pattern = match one {
        Ok(pattern) => pattern,
        Err(error) => Pattern::Several(Several::of_any(&all)?.ok_or(error)?),
    };
    Ok(Automatic::new(pattern))
}

/// The tensor `output`, which is computed element by element: see [`map_all`].
///
/// # Errors
/// As [`map_all`].
pub fn map(output: &Tensor) -> Result<Automatic, TeError> {
    map_all(&[output])
}

/// Tensors of one shape that are computed element by element, by reading others at any indices: elementwise functions,
/// gathers, the cells of recurrent networks. What they read of each other, and of other computations without reductions,
/// is computed in place and takes no memory.
///
/// # Errors
/// [`TeError::Target`] for outputs of different shapes, and for what is a reduction or a scan or reads one.
pub fn map_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    Ok(Automatic::new(Pattern::Reduce(Reduction::map(&owned(outputs))?)))
}

/// The reduction that `output` is, or the reductions that it is computed from: see [`reduce_all`].
///
/// # Errors
/// As [`reduce_all`].
pub fn reduce(output: &Tensor) -> Result<Automatic, TeError> {
    reduce_all(&[output])
}

/// Reductions, and what is computed from them: over the same axes in one kernel, over different ones in several, one
/// after the other, with memory of their own for what passes from one to the next.
///
/// An output is a reduction (or one of several values that are reduced together), or is computed element by element from
/// reductions and other tensors: with the axes of a result, such as a root of a sum, or with these and the reduced ones,
/// such as a softmax. Reductions may read what earlier ones gave at the same axes: `sum(exp(a[i, k] - largest[i]))`.
/// Those that don't need each other are done in one pass over the elements. Between passes, a row's elements stay in
/// registers where they fit.
///
/// # Errors
/// [`TeError::Target`] for outputs that neither are reductions nor read any.
pub fn reduce_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let outputs = owned(outputs);
    let one = match Reduction::of(&outputs) {
        Ok(reduction) => return Ok(Automatic::new(Pattern::Reduce(reduction))),
        Err(error) => error,
    };
    Ok(Automatic::new(Pattern::Several(Several::of(&outputs)?.ok_or(one)?)))
}

/// The scan that `output` is a state of, or is computed from: see [`scan_all`].
///
/// # Errors
/// As [`scan_all`].
pub fn scan(output: &Tensor) -> Result<Automatic, TeError> {
    scan_all(&[output])
}

/// States of a scan, and what is computed from them. What is made of one step, element by element (in reverse: of step
/// `steps - 1 - t`), or by a reduction of up to 256 columns, is computed by the scan's own kernel, which then stores no
/// state that is no output. Anything else is computed by kernels of its own after the scan, from its states in memory.
///
/// Columns that read each other's state (a cell whose gates are products of the state and a matrix, states of several
/// widths) run by the stages of a step: reductions, what is computed of the states and read inside one, and the updates. On a
/// GPU all steps are one launch where a row's states and stages fit the shared memory of a block, and a step is not work for
/// the whole device: blocks have rows of the batch, and a barrier stands between stages. Else, and on the CPU, where a step's
/// columns are shared among the threads, a step is a few kernels, which are compiled once for all steps.
/// [`Kernel::choice`] says which, and why.
///
/// Of other columns, where the update is proven linear in the state (over +·, max+ or min+), steps are composed in parallel,
/// which reassociates them; only [`Order::Device`] allows that. The proof is over the real numbers: where the product of many
/// steps' coefficients overflows (a gain above 1 over hundreds of steps), or where a state or coefficient is infinite, a state
/// may become NaN that is not step by step. States that an update does not read don't matter: a reset,
/// `flag.select(x, y + x)`, forgets an infinite or NaN state.
///
/// # Errors
/// [`TeError::Target`] for what neither is a scan nor reads one.
pub fn scan_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let outputs = owned(outputs);
    let one = match Recurrence::of(&outputs) {
        Ok(recurrence) => return Ok(Automatic::new(Pattern::Scan(Box::new(recurrence)))),
        Err(error) => error,
    };
    Ok(Automatic::new(Pattern::Several(Several::of(&outputs)?.ok_or(one)?)))
}

fn owned(outputs: &[&Tensor]) -> Vec<Tensor> {
    outputs.iter().copied().cloned().collect()
}

impl Automatic {
    fn new(pattern: Pattern) -> Self {
        Self { pattern, order: Order::default() }
    }

    /// In what order values or steps may be combined.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The tensors that a run takes: see [`Kernel::parameters`].
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        match &self.pattern {
            Pattern::Reduce(reduction) => &reduction.parameters,
            Pattern::Several(several) => &several.parameters,
            Pattern::Scan(recurrence) => &recurrence.parameters,
        }
    }

    /// Whether this is a scan whose update is proven linear in the state, so that time can be cut.
    #[must_use]
    pub fn is_parallel_in_time(&self) -> bool {
        match &self.pattern {
            Pattern::Reduce(_) => false,
            Pattern::Several(several) => several.is_linear() && self.order == Order::Device,
            Pattern::Scan(recurrence) => recurrence.map.is_some() && self.order == Order::Device,
        }
    }

    /// The kernel on a device. Its text depends on a run's shapes: it is compiled by the first run of each class.
    ///
    /// # Errors
    /// None so far: what a device can't do shows when it runs.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        Ok(Kernel(match self.pattern {
            Pattern::Reduce(reduction) => Box::new(ReduceKernel::new(device, reduction, self.order)?),
            Pattern::Several(several) => Box::new(SeveralKernels::new(device, several, self.order)?),
            Pattern::Scan(recurrence) => Box::new(ScanKernel::new(device, *recurrence, self.order)?),
        }))
    }
}
