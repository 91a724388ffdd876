//! Finds the sizes of a run: checks every argument's type, rank and extents, and gives every size its value.

use std::collections::HashMap;

use epilogue_runtime::{Device, DeviceTensor};

use crate::Argument;
use crate::te::error::TeError;
use crate::te::lang::expr::Expr;
use crate::te::lang::tensor::Tensor;
use crate::te::lang::var::Var;
use crate::te::target::binding::{Given, check_kind, evaluate};

/// The values of the sizes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::te::auto) struct Sizes(HashMap<Var, i64>);

impl Sizes {
    /// The value of an integer expression of sizes.
    pub(in crate::te::auto) fn value(&self, x: &Expr) -> Result<i64, TeError> {
        evaluate(x, &self.0).map_err(|_| TeError::Run {
            reason: format!("the size {} can't be found from the arguments' shapes", crate::te::text::expression(x)),
        })
    }

    /// The same values, and that of one more variable.
    pub(in crate::te::auto) fn with(&self, var: Var, value: i64) -> Self {
        let mut all = self.0.clone();
        all.insert(var, value);
        Self(all)
    }

    /// Whether all sizes except one are equal.
    pub(in crate::te::auto) fn equal_but(&self, other: &Self, one: Var) -> bool {
        let same = |(var, value): (&Var, &i64)| *var == one || other.0.get(var) == Some(value);
        self.0.len() == other.0.len() && self.0.iter().all(same)
    }

    /// The value of a variable, if the arguments' shapes determine it.
    pub(in crate::te::auto) fn of(&self, var: Var) -> Option<i64> {
        self.0.get(&var).copied()
    }
}

/// The tensors of a run, in the order of the parameters, and the sizes that their shapes give.
#[derive(Debug)]
pub(in crate::te::auto) struct Bound<'a> {
    pub(in crate::te::auto) tensors: Vec<&'a DeviceTensor>,
    pub(in crate::te::auto) sizes: Sizes,
}

/// Checks the arguments of a run. The first `inputs` of `parameters` are read, the others are written.
pub(in crate::te::auto) fn bind<'a>(
    device: &Device,
    parameters: &[Tensor],
    inputs: usize,
    arguments: &[&'a Argument<'a>],
) -> Result<Bound<'a>, TeError> {
    if arguments.len() != parameters.len() {
        let needed = parameters.iter().map(Tensor::name).collect();
        return Err(TeError::ArgumentCount { given: arguments.len(), needed });
    }
    let mut tensors = Vec::with_capacity(arguments.len());
    for (place, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        let refuse = |reason: String| TeError::Argument { tensor: parameter.name(), reason };
        let given: &DeviceTensor = match (argument, place < inputs) {
            (Argument::Input(tensor), true) => tensor,
            (Argument::Output(tensor), false) => tensor,
            (_, true) => return Err(refuse("it is read; give `&tensor`".to_owned())),
            (_, false) => return Err(refuse("it is written; give `&mut tensor`".to_owned())),
        };
        if given.device() != device {
            return Err(refuse(format!("it is on {}; the kernel was built for {device}", given.device())));
        }
        check_kind(parameter, parameter.dtype(), parameter.rank(), &Given::from(given))?;
        tensors.push(given);
    }
    let sizes = sizes(parameters, &tensors)?;
    check_outputs(parameters, inputs, &tensors)?;
    Ok(Bound { tensors, sizes })
}

fn sizes(parameters: &[Tensor], tensors: &[&DeviceTensor]) -> Result<Sizes, TeError> {
    let mut sizes = Sizes::default();
    for (parameter, tensor) in parameters.iter().zip(tensors) {
        for (extent, given) in parameter.shape().iter().zip(tensor.shape()) {
            if let Some(var) = extent.as_var() {
                sizes.0.entry(var).or_insert(i64::try_from(*given).unwrap_or(i64::MAX));
            }
        }
    }
    for (parameter, tensor) in parameters.iter().zip(tensors) {
        for (d, (extent, given)) in parameter.shape().iter().zip(tensor.shape()).enumerate() {
            let needed = sizes.value(extent)?;
            if usize::try_from(needed) != Ok(*given) {
                let text = crate::te::text::expression(extent);
                let reason = format!("dimension {d} is {text}, which is {needed} here; {given} was given");
                return Err(TeError::Argument { tensor: parameter.name(), reason });
            }
        }
    }
    Ok(sizes)
}

/// Checks that every output is written only once, and shares no memory with another argument.
fn check_outputs(parameters: &[Tensor], inputs: usize, tensors: &[&DeviceTensor]) -> Result<(), TeError> {
    for (place, (parameter, tensor)) in parameters.iter().zip(tensors).enumerate().skip(inputs) {
        let refuse = |reason: String| TeError::Argument { tensor: parameter.name(), reason };
        if tensor.has_internal_overlap() {
            let (shape, strides) = (tensor.shape(), tensor.strides());
            return Err(refuse(format!(
                "it is written, and its strides {strides:?} put several of the elements of {shape:?} in one place"
            )));
        }
        for (other, name) in tensors.iter().zip(parameters).take(place) {
            if tensor.overlaps(other) {
                return Err(refuse(format!("it is written, and it shares memory with {}", name.name())));
            }
        }
    }
    Ok(())
}
