//! Automatic schedules: they make kernels from tensor expressions alone, chosen by the shapes, strides and device of a
//! run.
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
//! Only the expression is fixed before a run. The shapes of a run give the key of a kernel. The first run with a key
//! generates and compiles the kernel's text; later runs with this key reuse it. On one device, all runs give the same
//! bits; [`Order`] can demand more.
//!
//! Softmaxes, logarithms of sums of exponentials and variances of columns have a second form, by passes. The first is one
//! reduction of pairs, which reads elements once. The second is a maximum or mean, then a sum. The CPU takes the second
//! under [`Order::Device`], because elements and exponentials stay in near caches between its passes. GPUs and the other
//! orders take the first.
//!
//! A reduction may be over a range whose ends are data: `reduce_axis((starts.at([i]), starts.at([i + 1])), "k")` for the rows
//! of a sparse matrix. One thread combines the elements of each result, in order; an end below its start gives none, and an
//! element that a tensor lacks is a [`DataError`](crate::DataError). Where sizes bound the range, as `min` does, all
//! kernels take it, as a range of that length with a condition. On the CPU, ranges by data need the feature `native`.
//!
//! Floating-point values with fewer than 32 bits are computed in f32, and rounded where they are stored (or where the
//! expression casts). On a GPU, exponentials, roots, reciprocals and quotients may use functions with a relative error
//! below 2⁻¹⁷. Two conditions must hold: everything that a reduction or map stores has at most 16 bits, and its order
//! is [`Order::Device`]. Other orders promise the same bits elsewhere, so they use the accurate functions.

mod bind;
mod cpu;
mod gpu;
mod kernel;
mod order;
mod pattern;
mod run;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use self::bind::arguments::{BoundTensors, Signature, Sizes};
pub use self::kernel::Kernel;
pub(crate) use self::kernel::{Ran, Runs};
pub use self::order::Order;
pub(crate) use self::pattern::passes::{inlined_except, parts};
pub(crate) use self::pattern::reads::{computed, is_size, read_type};
pub(crate) use self::run::intermediates::{Intermediates, part};
pub(crate) use self::split::by_pass::TensorOrigin;
pub(crate) use self::split::rewriting::{HeldResult, Rewriting};

use epilogue_runtime::{Device, trace};

use self::pattern::fused::Reduction;
use self::pattern::reads::refused;
use self::pattern::recurrence::Recurrence;
use self::run::{backend, kernels};
use self::split::by_shape::Contents;
use self::split::sequence::KernelSequence;
use crate::level;
use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;
use crate::tuning::Tuning;

/// Outputs to be computed by automatically scheduled kernels.
#[derive(Debug)]
pub struct Automatic {
    pattern: Pattern,
    order: Order,
    tuning: Tuning,
}

#[derive(Debug)]
enum Pattern {
    Reduce(Reduction),
    Sequence(KernelSequence),
    Scan(Box<Recurrence>),
}

/// Schedules any outputs: maps, reductions, scans, or what is computed from them. It makes one kernel if one can do
/// everything. Otherwise it makes several that run one after another, with memory for intermediate tensors.
///
/// [`map_all`], [`reduce_all`] and [`scan_all`] accept only one of these kinds.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) if there are no outputs, if an output is given twice, or
/// for what automatic kernels can't do.
pub fn build(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let all = owned(outputs);
    let first = all.first().ok_or_else(|| refused("a kernel without outputs (give the tensors to be computed)"))?;
    let reads = Contents::of(&all);
    let one = if reads.scans {
        Recurrence::of(&all).map(|recurrence| Pattern::Scan(Box::new(recurrence)))
    } else if reads.reductions {
        Reduction::of(&all).map(Pattern::Reduce)
    } else if first.operation().as_compute().is_some() {
        Reduction::map(&all).map(Pattern::Reduce)
    } else {
        Err(refused(&format!("{}, which is an input (give what is computed from it),", first.name())))
    };
    let pattern = match one {
        Ok(pattern) => pattern,
        Err(error) => Pattern::Sequence(KernelSequence::of_any(&all)?.ok_or(error)?),
    };
    Ok(Automatic::new(pattern))
}

/// Schedules the tensor `output`, which is computed element by element: see [`map_all`].
///
/// # Errors
/// The errors of [`map_all`].
pub fn map(output: &Tensor) -> Result<Automatic, TeError> {
    map_all(&[output])
}

/// Schedules tensors of one shape that are computed element by element and may read others at any indices: elementwise
/// functions, gathers, cells of recurrent networks. Reads of each other, and of other computations without reductions,
/// are inlined and take no memory.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for outputs of different shapes, and for an output that
/// is a reduction or a scan or reads one.
pub fn map_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    Ok(Automatic::new(Pattern::Reduce(Reduction::map(&owned(outputs))?)))
}

/// Schedules `output`, which is a reduction or is computed from reductions: see [`reduce_all`].
///
/// # Errors
/// The errors of [`reduce_all`].
pub fn reduce(output: &Tensor) -> Result<Automatic, TeError> {
    reduce_all(&[output])
}

/// Schedules reductions and what is computed from them. Reductions over the same axes are done in one kernel. Otherwise
/// there are several kernels that run one after another, with memory for intermediate tensors.
///
/// An output is a reduction, or one of several values that are reduced together. It may also be computed element by
/// element from reductions and other tensors. Its axes are those of a result, as for the root of a sum, or also the
/// reduced ones, as for a softmax. Reductions may read the results of earlier ones at the same axes:
/// `sum(exp(a[i, k] - largest[i]))`. Reductions that don't need each other are done in one pass over the elements.
/// Between passes, the elements of a row stay in registers if they fit.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for outputs that are not reductions and don't read any.
pub fn reduce_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let outputs = owned(outputs);
    let one = match Reduction::of(&outputs) {
        Ok(reduction) => return Ok(Automatic::new(Pattern::Reduce(reduction))),
        Err(error) => error,
    };
    Ok(Automatic::new(Pattern::Sequence(KernelSequence::of(&outputs)?.ok_or(one)?)))
}

/// Schedules `output`, which is a state of a scan or is computed from one: see [`scan_all`].
///
/// # Errors
/// The errors of [`scan_all`].
pub fn scan(output: &Tensor) -> Result<Automatic, TeError> {
    scan_all(&[output])
}

/// Schedules states of a scan and what is computed from them. The scan's own kernel also computes outputs that use one
/// step only (in reverse: step `steps - 1 - t`), element by element or by a reduction of up to 256 columns. It then
/// writes only those states that are outputs. Everything else is computed by other kernels after the scan, from its
/// states in memory.
///
/// *Columns that read each other's state.* Examples are a cell whose gates are products of the state and a matrix, and
/// states of several widths. Their scan runs stage by stage within each step. The stages are reductions, updates, and
/// values that are computed from the states and read inside a reduction. On a GPU, one launch does all steps if a
/// block's shared memory holds the states and stages of a row. A step must also be too little work for the whole
/// device. Each block then has some rows of the batch, and a barrier separates the stages. Otherwise each step is a few
/// kernels, which are compiled once for all steps. CPUs do the same, and threads share the columns of a step.
/// [`Kernel::choice`] tells the decision and the reason.
///
/// *Other columns.* If the update is proven linear in the state (over +·, max+ or min+), steps are composed in
/// parallel. This reassociates them, so only [`Order::Device`] allows it. The proof is over the real numbers. A state
/// may therefore become infinite or NaN, although step by step it would not, in these cases:
///
/// - the product of many steps' coefficients overflows, for example with a gain above 1 over hundreds of steps;
/// - the sum of some steps alone overflows;
/// - a state or coefficient is infinite.
///
/// States that an update does not read have no effect: a reset, `flag.select(x, y + x)`, forgets an infinite or NaN
/// state.
///
/// On the CPU, steps are composed if columns are few and long. Running sums of contiguous elements are made in groups
/// of 16, from 16 steps on. The groups do not depend on the number of columns or threads. All else runs step by step.
/// [`Kernel::choice`] tells which.
///
/// # Errors
/// [`LoweringError::Target`](crate::te::LoweringError::Target) for an output that is not a scan and doesn't read one.
pub fn scan_all(outputs: &[&Tensor]) -> Result<Automatic, TeError> {
    let outputs = owned(outputs);
    let one = match Recurrence::of(&outputs) {
        Ok(recurrence) => return Ok(Automatic::new(Pattern::Scan(Box::new(recurrence)))),
        Err(error) => error,
    };
    Ok(Automatic::new(Pattern::Sequence(KernelSequence::of(&outputs)?.ok_or(one)?)))
}

fn owned(outputs: &[&Tensor]) -> Vec<Tensor> {
    outputs.iter().copied().cloned().collect()
}

impl Automatic {
    fn new(pattern: Pattern) -> Self {
        Self { pattern, order: Order::default(), tuning: Tuning::default() }
    }

    /// Sets the order in which values or steps may be combined.
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets choices of the CPU device. A kernel for a GPU takes none.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.tuning = tuning;
        self
    }

    /// The tensors that a run takes as arguments: see [`Kernel::parameters`].
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        match &self.pattern {
            Pattern::Reduce(reduction) => &reduction.parameters,
            Pattern::Sequence(sequence) => &sequence.parameters,
            Pattern::Scan(recurrence) => &recurrence.parameters,
        }
    }

    /// Whether this is a scan with an update that is proven linear in the state: its time can be computed in parallel.
    #[must_use]
    pub fn is_parallel_in_time(&self) -> bool {
        match &self.pattern {
            Pattern::Reduce(_) => false,
            Pattern::Sequence(sequence) => sequence.is_linear() && self.order == Order::Device,
            Pattern::Scan(recurrence) => recurrence.map.is_some() && self.order == Order::Device,
        }
    }

    /// The kernel on a device. Its text depends on the shapes of a run: the first run with each key compiles it.
    ///
    /// # Errors
    /// [`LoweringError::Target`](crate::te::LoweringError::Target) for a [tuning](Self::tuning) on a GPU. Anything else that a
    /// device can't do is reported by a run.
    pub fn build(self, device: &Device) -> Result<Kernel, TeError> {
        level::on(device, || self.built(device))
    }

    fn built(self, device: &Device) -> Result<Kernel, TeError> {
        let _span = trace::span!(DEBUG, "build", device = trace::text(device));
        let (signature, kernels) = self.kernels(device)?;
        Ok(Kernel::new(device, signature, kernels))
    }

    /// The kernels on a device, and what their arguments must be: what a kernel consists of, and a part of
    /// [`fuse`](crate::fuse)'s programs.
    pub(crate) fn kernels(self, device: &Device) -> Result<(Signature, Box<dyn Runs>), TeError> {
        let backend = &*backend(device, self.tuning)?;
        let of = |parameters: &[Tensor], outputs: usize| Signature::new(parameters, parameters.len() - outputs);
        Ok(match self.pattern {
            Pattern::Reduce(reduction) => {
                let signature = of(&reduction.parameters, reduction.outputs.len());
                (signature, backend.reduction(reduction, self.order, None)?)
            }
            Pattern::Sequence(sequence) => {
                let signature = Signature::new(&sequence.parameters, sequence.inputs);
                (signature, Box::new(kernels::several(backend, sequence, self.order, None)?))
            }
            Pattern::Scan(recurrence) => {
                let signature = of(&recurrence.parameters, recurrence.outputs.len());
                (signature, Box::new(kernels::scan(backend, *recurrence, self.order)?))
            }
        })
    }
}
