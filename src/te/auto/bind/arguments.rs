//! Finds the sizes of a run: checks every argument's type, rank and extents, and gives every size its value.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use epilogue_runtime::{Device, DeviceTensor, KernelArgument};
use smallvec::SmallVec;

use crate::sync::lock;
use crate::te::bind::binding::{GivenShape, OF_KERNELS, check_kind, evaluate, unknown_size, without_value};
use crate::te::error::{RunError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::{Argument, ElementType};

/// The values of the sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sizes {
    values: Arc<HashMap<Var, i64>>,
    /// The tensors whose extents give them.
    parameters: Arc<[Tensor]>,
}

impl Sizes {
    /// The value of an integer expression of sizes.
    ///
    /// # Errors
    /// [`RunError::UnknownSize`], and the errors of [`evaluate`].
    pub(crate) fn value(&self, x: &Expr) -> Result<i64, TeError> {
        match without_value(x, &self.values) {
            Some(var) => Err(self.unknown(var)),
            None => evaluate(x, &self.values),
        }
    }

    /// The value of a variable.
    ///
    /// # Errors
    /// [`RunError::UnknownSize`].
    pub(in crate::te::auto) fn require(&self, var: Var) -> Result<i64, TeError> {
        self.of(var).ok_or_else(|| self.unknown(var))
    }

    fn unknown(&self, var: Var) -> TeError {
        unknown_size(var, self.parameters.iter(), OF_KERNELS)
    }

    /// These values, and the value of one more variable.
    pub(in crate::te::auto) fn with(&self, var: Var, value: i64) -> Self {
        let mut all = HashMap::clone(&self.values);
        all.insert(var, value);
        Self { values: Arc::new(all), parameters: Arc::clone(&self.parameters) }
    }

    /// Whether all sizes except one are equal.
    pub(in crate::te::auto) fn equal_but(&self, other: &Self, one: Var) -> bool {
        let same = |(var, value): (&Var, &i64)| *var == one || other.values.get(var) == Some(value);
        self.values.len() == other.values.len() && self.values.iter().all(same)
    }

    /// The value of a variable, if the arguments' shapes determine it.
    pub(crate) fn of(&self, var: Var) -> Option<i64> {
        self.values.get(&var).copied()
    }
}

/// The tensors of a run, in the order of the parameters, and the sizes that their shapes give.
#[derive(Debug)]
pub(crate) struct BoundTensors<'a> {
    pub(crate) tensors: Vec<&'a DeviceTensor>,
    pub(crate) sizes: Sizes,
}

impl BoundTensors<'_> {
    /// The tensors as a kernel's arguments: this many are read, and the others written.
    pub(in crate::te::auto) fn arguments(&self, inputs: usize) -> impl Iterator<Item = KernelArgument<'_>> {
        let (inputs, outputs) = self.tensors.split_at(inputs);
        let read = inputs.iter().map(|tensor| KernelArgument::Reads(tensor));
        read.chain(outputs.iter().map(|tensor| KernelArgument::Writes(tensor)))
    }
}

/// A tensor's place in memory.
#[derive(Debug)]
pub(in crate::te::auto) struct TensorPlace {
    pub(in crate::te::auto) address: u64,
    shape: SmallVec<[usize; 4]>,
    strides: SmallVec<[isize; 4]>,
}

impl TensorPlace {
    pub(in crate::te::auto) fn of(tensor: &DeviceTensor) -> Self {
        Self { address: tensor.device_address(), shape: tensor.shape().into(), strides: tensor.strides().into() }
    }

    /// Whether the tensor has the same shape and strides.
    pub(in crate::te::auto) fn has_shape_of(&self, tensor: &DeviceTensor) -> bool {
        *self.shape == *tensor.shape() && *self.strides == *tensor.strides()
    }
}

/// The arguments that a kernel's runs must have.
#[derive(Debug)]
pub(crate) struct Signature {
    /// The tensors that a run takes as arguments: first those that are read, then those that are written.
    pub(crate) parameters: Vec<Tensor>,
    /// How many of them are read.
    pub(crate) inputs: usize,
    /// Tensors whose values are known: they follow the arguments of each run.
    known: Vec<(Tensor, DeviceTensor)>,
    /// The shapes of all of them.
    shapes: Vec<Vec<Expr>>,
    last: Mutex<Option<Fitting>>,
}

/// Arguments that have been checked, and their sizes: the same ones need no second check.
#[derive(Debug)]
struct Fitting {
    tensors: Vec<(ElementType, TensorPlace)>,
    sizes: Sizes,
}

impl Signature {
    pub(crate) fn new(parameters: &[Tensor], inputs: usize) -> Self {
        Self::with_known(parameters, inputs, Vec::new())
    }

    /// A signature with tensors whose values are known.
    pub(crate) fn with_known(parameters: &[Tensor], inputs: usize, known: Vec<(Tensor, DeviceTensor)>) -> Self {
        let shapes = parameters.iter().chain(known.iter().map(|(of, _)| of)).map(Tensor::shape).collect();
        Self { parameters: parameters.to_vec(), inputs, known, shapes, last: Mutex::default() }
    }

    /// All tensors of a run, in order.
    fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.parameters.iter().chain(self.known.iter().map(|(of, _)| of))
    }

    /// Checks the arguments of a run.
    pub(in crate::te::auto) fn bind<'a>(
        &'a self,
        device: &Device,
        arguments: &[&'a Argument<'a>],
    ) -> Result<BoundTensors<'a>, TeError> {
        if arguments.len() != self.parameters.len() {
            let needed = self.parameters.iter().map(Tensor::name).collect();
            return Err(RunError::ArgumentCount { given: arguments.len(), needed }.into());
        }
        let mut tensors = Vec::with_capacity(arguments.len());
        for (place, (parameter, argument)) in self.parameters.iter().zip(arguments).enumerate() {
            let refuse = |reason: String| RunError::Argument { tensor: parameter.name(), reason }.into();
            let given: &DeviceTensor = match (argument, place < self.inputs) {
                (Argument::Input(tensor), true) => tensor,
                (Argument::Output(tensor), false) => tensor,
                (_, true) => return Err(refuse("it is read; give `&tensor`".to_owned())),
                (_, false) => return Err(refuse("it is written; give `&mut tensor`".to_owned())),
            };
            if given.device() != device {
                return Err(refuse(format!("it is on {}; the kernel was built for {device}", given.device())));
            }
            tensors.push(given);
        }
        tensors.extend(self.known.iter().map(|(_, tensor)| tensor));
        if let Some(sizes) = self.fitting(&tensors) {
            return Ok(BoundTensors { tensors, sizes });
        }
        for ((parameter, shape), tensor) in self.all().zip(&self.shapes).zip(&tensors) {
            check_kind(parameter, parameter.dtype(), shape.len(), &GivenShape::from(*tensor))?;
        }
        let sizes = self.sizes(&tensors)?;
        self.check_outputs(&tensors)?;
        let layouts = tensors.iter().map(|tensor| (tensor.element_type(), TensorPlace::of(tensor))).collect();
        *lock(&self.last) = Some(Fitting { tensors: layouts, sizes: sizes.clone() });
        Ok(BoundTensors { tensors, sizes })
    }

    /// The sizes, if the last run's arguments had the same types, shapes, strides and places in memory.
    fn fitting(&self, tensors: &[&DeviceTensor]) -> Option<Sizes> {
        let last = lock(&self.last);
        let fitting = last.as_ref()?;
        let same = |((element, layout), tensor): (&(ElementType, TensorPlace), &&DeviceTensor)| {
            *element == tensor.element_type()
                && layout.address == tensor.device_address()
                && layout.has_shape_of(tensor)
        };
        fitting.tensors.iter().zip(tensors).all(same).then(|| fitting.sizes.clone())
    }

    fn sizes(&self, tensors: &[&DeviceTensor]) -> Result<Sizes, TeError> {
        let mut all = HashMap::new();
        for (shape, tensor) in self.shapes.iter().zip(tensors) {
            for (extent, given) in shape.iter().zip(tensor.shape()) {
                if let Some(var) = extent.as_var() {
                    all.entry(var).or_insert(i64::try_from(*given).unwrap_or(i64::MAX));
                }
            }
        }
        let sizes = Sizes { values: Arc::new(all), parameters: self.all().cloned().collect() };
        for ((parameter, shape), tensor) in self.all().zip(&self.shapes).zip(tensors) {
            for (d, (extent, given)) in shape.iter().zip(tensor.shape()).enumerate() {
                let needed = sizes.value(extent)?;
                if usize::try_from(needed) != Ok(*given) {
                    let text = crate::te::text::expression(extent);
                    let reason = format!("dimension {d} is {text}, which is {needed} here; {given} was given");
                    return Err(RunError::Argument { tensor: parameter.name(), reason }.into());
                }
            }
        }
        Ok(sizes)
    }

    /// Checks that every output is written only once, and shares no memory with another argument.
    fn check_outputs(&self, tensors: &[&DeviceTensor]) -> Result<(), TeError> {
        for (place, (parameter, tensor)) in self.parameters.iter().zip(tensors).enumerate().skip(self.inputs) {
            let refuse = |reason: String| RunError::Argument { tensor: parameter.name(), reason }.into();
            if tensor.has_internal_overlap() {
                let (shape, strides) = (tensor.shape(), tensor.strides());
                return Err(refuse(format!(
                    "it is written, and its strides {strides:?} put several of the elements of {shape:?} in one place"
                )));
            }
            for (other, name) in tensors.iter().zip(&self.parameters).take(place) {
                if tensor.overlaps(other) {
                    return Err(refuse(format!("it is written, and it shares memory with {}", name.name())));
                }
            }
        }
        Ok(())
    }
}
