//! Automatic schedules: maps, reductions and scans are given as tensor expressions, and the kernel is chosen from the
//! shapes, strides and device of a run.
//!
//! What is fixed before a run is the expression; the kernel's text is made, and compiled once, for every class of shape
//! that runs ask for. Results are the same bits at every run on one device; [`Order`] asks for more.
//!
//! Values of floating-point types with fewer than 32 bits are computed in f32 and rounded where they are stored (or where
//! the expression casts). Where all that a reduction or a map stores has at most 16 bits, and its [`Order`] is the device's
//! own, a GPU computes exponentials, roots, reciprocals and quotients by functions with a relative error below 2⁻¹⁷.

mod binding;
mod chain;
mod choose;
mod element;
mod frame;
mod host;
mod kernel;
mod linear_map;
mod map_text;
mod recurrence;
mod reduce_element;
mod reduce_kernel;
mod reduce_text;
mod reduction;
mod scan_choose;
mod scan_fold;
mod scan_kernel;
mod scan_pattern;
mod scan_text;
mod sequence;
mod several;
mod several_kernels;
mod space;
mod stepwise;
mod variants;

use std::fmt;

use epilogue_runtime::{Device, Stream};

use self::element::refused;
use self::reduce_kernel::ReduceKernel;
use self::reduction::Reduction;
use self::scan_kernel::ScanKernel;
use self::scan_pattern::Recurrence;
use self::several::{Contents, Several};
use self::several_kernels::SeveralKernels;
use crate::Argument;
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;
use crate::te::target::arguments::places;

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
/// ```
/// use epilogue::{Device, te};
///
/// let x = te::placeholder([2, 3], "x");
/// let (softmax, sums) = (te::ops::softmax(&x, 1)?, te::ops::cumsum(&x, 0)?);
/// let kernel = te::auto::build(&[&softmax])?.build(&Device::cpu())?;
/// assert_eq!(kernel.inputs(), [x]);
/// let _ = te::auto::build(&[&sums])?.build(&Device::cpu())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
/// Columns that read each other's state (a cell whose gates are products of the state and a matrix) run step by step, each
/// step by kernels of its own: states of any shapes, and whatever looks back at earlier steps. Of other columns, where the update is proven linear in the state (over +·, max+ or min+),
/// steps are composed in parallel, which reassociates them; only [`Order::Device`] allows that. The proof is over the
/// real numbers: where the product of many steps' coefficients overflows (a gain above 1 over hundreds of steps), or
/// where a state or coefficient is infinite, a state may become NaN that is not step by step. States that an update does
/// not read don't matter: a reset, `flag.select(x, y + x)`, forgets an infinite or NaN state.
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

/// A kernel of one kind.
trait Runs: Send + Sync {
    /// The tensors that a run takes.
    fn parameters(&self) -> &[Tensor];
    /// How many of them are read: the first ones.
    fn inputs(&self) -> usize;
    fn device(&self) -> &Device;
    /// What it is called in messages.
    fn name(&self) -> String;
    fn run_on(&self, stream: &Stream, arguments: &[&Argument<'_>]) -> Result<(), TeError>;
    /// What the last run chose, and its text.
    fn last(&self) -> Option<(String, String)>;
}

/// An automatically scheduled kernel on a device.
pub struct Kernel(Box<dyn Runs>);

impl Kernel {
    /// The tensors that a run takes: those that are read, in the order in which the expressions first use them once
    /// they are inlined, then the outputs as they were given. The order of the inputs follows from how an expression is
    /// written (of `z[i] = x[i] - sum(y)` it is `y`, `x`): [`run_bound`](Self::run_bound) does not depend on it.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        self.0.parameters()
    }

    /// The tensors that a run reads, in the order of [`parameters`](Self::parameters).
    #[must_use]
    pub fn inputs(&self) -> &[Tensor] {
        &self.0.parameters()[..self.0.inputs()]
    }

    /// The tensors that a run writes, as they were given.
    #[must_use]
    pub fn outputs(&self) -> &[Tensor] {
        &self.0.parameters()[self.0.inputs()..]
    }

    /// The device that it runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.0.device()
    }

    /// Runs on the device's default stream, on arguments that are given by tensor, in any order. Reading an output back
    /// waits for it.
    ///
    /// ```
    /// use epilogue::{Device, te};
    ///
    /// let (x, y) = (te::placeholder([4], "x"), te::placeholder([4], "y"));
    /// let total = te::ops::sum(&y, &[0])?;
    /// let z = te::compute([4], "z", |[i]| x.at([i]) - total.at(()))?;
    /// let device = Device::cpu();
    /// let kernel = te::auto::build(&[&z])?.build(&device)?;
    /// let (xs, ys) = (device.tensor(&[10f32; 4], [4])?, device.tensor(&[1f32, 2.0, 3.0, 4.0], [4])?);
    /// let mut zs = device.zeros::<f32>([4])?;
    /// kernel.run_bound(&[(&x, (&xs).into()), (&y, (&ys).into()), (&z, (&mut zs).into())])?;
    /// assert_eq!(zs.to_vec::<f32>()?, [0.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TeError::Argument`], which names the tensor, for one that is missing, given twice or not the kernel's, and as
    /// [`run`](Self::run).
    pub fn run_bound(&self, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        self.run_bound_on(&self.device().default_stream(), arguments)
    }

    /// [`run_bound`](Self::run_bound) on a stream of the caller's.
    ///
    /// # Errors
    /// As [`run_bound`](Self::run_bound).
    pub fn run_bound_on(&self, stream: &Stream, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.parameters().iter().collect();
        let given: Vec<&Tensor> = arguments.iter().map(|(tensor, _)| *tensor).collect();
        let places = places(&parameters, &given)?;
        let ordered: Vec<&Argument<'_>> = places.iter().map(|place| &arguments[*place].1).collect();
        self.0.run_on(stream, &ordered)
    }

    /// Runs on the device's default stream, on arguments in the order of [`parameters`](Self::parameters). Two inputs of
    /// one type and shape can be swapped unnoticed: [`run_bound`](Self::run_bound) takes them by tensor.
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
        self.0.run_on(stream, &arguments.iter().collect::<Vec<_>>())
    }

    /// What the last run chose, in words; empty before the first.
    #[must_use]
    pub fn choice(&self) -> String {
        self.0.last().map_or(String::new(), |(choice, _)| choice)
    }

    /// The CUDA C++ that the last run ran, complete; empty before the first, and on the CPU, which runs none.
    #[must_use]
    pub fn source(&self) -> String {
        self.0.last().map_or(String::new(), |(_, source)| source)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({} on {})", self.0.name(), self.device())
    }
}
