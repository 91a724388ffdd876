//! An automatically scheduled kernel on a device, and its runs.

use std::fmt;
use std::sync::{Arc, Mutex};

use epilogue_runtime::{Device, Stream};
use smallvec::SmallVec;

use crate::Argument;
use crate::level;
use crate::sync::lock;
use crate::te::auto::bind::arguments::{BoundTensors, Signature};
use crate::te::bind::arguments::{places, stand_ins};
use crate::te::error::TeError;
use crate::te::expr::tensor::Tensor;

/// A kernel of any kind, ready to run.
pub(crate) trait Runs: Send + Sync {
    /// Runs on tensors that have been checked; `None` if there is nothing to do.
    fn run_bound(&self, stream: &Stream, bound: &BoundTensors<'_>) -> Result<Option<Ran>, TeError>;
}

/// A record of a run: the choice in words, and the complete text of its kernels, which is empty on the CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ran {
    pub(crate) choice: Arc<str>,
    pub(crate) source: Arc<str>,
}

impl Ran {
    /// A run on the CPU.
    pub(in crate::te::auto) fn on_host(choice: impl Into<Arc<str>>) -> Self {
        Self { choice: choice.into(), source: Arc::default() }
    }

    /// This with what it computed, for a listing of several.
    pub(crate) fn of(self, names: &str) -> Self {
        Self { choice: format!("{names}: {}", self.choice).into(), ..self }
    }

    pub(crate) fn one_after_another(all: &[Self]) -> Self {
        let choices: Vec<&str> = all.iter().map(|ran| &*ran.choice).collect();
        let sources: Vec<&str> = all.iter().map(|ran| &*ran.source).collect();
        let choice = format!("{} kernels: {}", all.len(), choices.join("; then "));
        Self { choice: choice.into(), source: sources.join("\n").into() }
    }
}

/// An automatically scheduled kernel on a device.
pub struct Kernel {
    device: Device,
    signature: Signature,
    kernels: Box<dyn Runs>,
    last: Mutex<Ran>,
}

impl Kernel {
    pub(crate) fn new(device: &Device, signature: Signature, kernels: Box<dyn Runs>) -> Self {
        Self { device: device.clone(), signature, kernels, last: Mutex::default() }
    }

    /// The tensors that a run takes as arguments: first the inputs, in the order in which the inlined expressions first
    /// use them, then the outputs in the given order. The order of inputs depends on how an expression is written (for
    /// `z[i] = x[i] - sum(y)` it is `y`, `x`); [`run_bound`](Self::run_bound) does not depend on it.
    #[must_use]
    pub fn parameters(&self) -> &[Tensor] {
        &self.signature.parameters
    }

    /// The tensors that a run reads, in the order of [`parameters`](Self::parameters).
    #[must_use]
    pub fn inputs(&self) -> &[Tensor] {
        &self.signature.parameters[..self.signature.inputs]
    }

    /// The tensors that a run writes, in the given order.
    #[must_use]
    pub fn outputs(&self) -> &[Tensor] {
        &self.signature.parameters[self.signature.inputs..]
    }

    /// The device that it runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Runs the kernel on the device's default stream. Arguments are given with their tensors, in any order. Reading an
    /// output back waits for the run.
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
    /// [`RunError::Argument`](crate::te::RunError::Argument), which names the tensor, for one that is missing, given
    /// twice or not the kernel's; the errors of [`run`](Self::run).
    pub fn run_bound(&self, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        self.run_bound_on(&self.device().default_stream(), arguments)
    }

    /// [`run_bound`](Self::run_bound) on another stream of the device.
    ///
    /// # Errors
    /// The errors of [`run_bound`](Self::run_bound).
    pub fn run_bound_on(&self, stream: &Stream, arguments: &[(&Tensor, Argument<'_>)]) -> Result<(), TeError> {
        // (Lists of a few need no allocation.)
        let parameters: SmallVec<[&Tensor; 8]> = self.parameters().iter().collect();
        let given: SmallVec<[&Tensor; 8]> = arguments.iter().map(|(tensor, _)| *tensor).collect();
        let places = places(&parameters, &given)?;
        let ordered: SmallVec<[&Argument<'_>; 8]> = places.iter().map(|place| &arguments[*place].1).collect();
        self.run_ordered(stream, &ordered)
    }

    /// Runs the kernel on the device's default stream. Arguments are in the order of [`parameters`](Self::parameters).
    /// Two inputs of the same type and shape could be swapped by mistake; [`run_bound`](Self::run_bound) avoids this.
    ///
    /// # Errors
    /// [`RunError::Argument`](crate::te::RunError::Argument) for arguments that don't fit; nothing is written then.
    /// [`TeError::Device`] for errors of the device or the compiler.
    pub fn run(&self, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_on(&self.device().default_stream(), arguments)
    }

    /// [`run`](Self::run) on another stream of the device.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_on(&self, stream: &Stream, arguments: &[Argument<'_>]) -> Result<(), TeError> {
        self.run_ordered(stream, &arguments.iter().collect::<Vec<_>>())
    }

    /// Compiles what a run on contiguous tensors of these shapes runs, and runs nothing: so the first request doesn't
    /// wait for a compiler. Shapes are given for all tensors of a run, in any order.
    ///
    /// One kernel serves a class of shapes: [`choice`](Self::choice) tells them apart. Tensors that are no contiguous
    /// ones may need other kernels: run on the device's [dry stream](Device::dry_stream) for those. On the CPU this
    /// checks the shapes; there is nothing to compile.
    ///
    /// ```
    /// use epilogue::{Device, te};
    ///
    /// let (n, m) = (te::var("n"), te::var("m"));
    /// let x = te::placeholder([n, m], "x");
    /// let softmax = te::ops::softmax(&x, 1)?;
    /// let kernel = te::auto::build(&[&softmax])?.build(&Device::cpu())?;
    /// for rows in [1, 16, 256] {
    ///     kernel.prepare(&[(&x, &[rows, 1000]), (&softmax, &[rows, 1000])])?;
    /// }
    /// let refused = kernel.prepare(&[(&x, &[2, 1000]), (&softmax, &[3, 1000])]).unwrap_err();
    /// assert!(refused.to_string().contains("3 was given"), "{refused}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError::Argument`](crate::te::RunError::Argument) for shapes that don't fit; [`TeError::Device`] for what
    /// the compiler fails with, or a bundle without the kernel.
    pub fn prepare(&self, shapes: &[(&Tensor, &[usize])]) -> Result<(), TeError> {
        let parameters: Vec<&Tensor> = self.parameters().iter().collect();
        let mut tensors = stand_ins(self.device(), &parameters, shapes)?;
        let (inputs, outputs) = tensors.split_at_mut(self.signature.inputs);
        let arguments: Vec<Argument<'_>> =
            inputs.iter().map(Argument::from).chain(outputs.iter_mut().map(Argument::from)).collect();
        self.run_on(&self.device().dry_stream(), &arguments)
    }

    fn run_ordered(&self, stream: &Stream, arguments: &[&Argument<'_>]) -> Result<(), TeError> {
        let bound = self.signature.bind(&self.device, arguments)?;
        // Nothing is compiled ahead of a run on the CPU.
        if stream.is_dry() && self.device.arch().is_none() {
            return Ok(());
        }
        if let Some(ran) = level::on(&self.device, || self.kernels.run_bound(stream, &bound))? {
            *lock(&self.last) = ran;
        }
        Ok(())
    }

    /// The last run's choice of kernels, in words; empty before the first run.
    #[must_use]
    pub fn choice(&self) -> String {
        lock(&self.last).choice.to_string()
    }

    /// The complete CUDA C++ source of the last run; empty before the first run, and on the CPU.
    #[must_use]
    pub fn source(&self) -> String {
        lock(&self.last).source.to_string()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.outputs().first().map(Tensor::name).unwrap_or_default();
        write!(f, "Kernel({name} on {})", self.device)
    }
}
