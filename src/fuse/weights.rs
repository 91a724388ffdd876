//! Inputs whose values are known when a program is built.

use epilogue_runtime::{Device, DeviceTensor};

use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::{RunError, TeError};

/// The weights of a program, each copied.
///
/// # Errors
/// [`RunError::Argument`] for one that is given twice or lies on another device; those of the copy.
pub(super) fn copied(
    given: &[(Tensor, DeviceTensor)],
    device: &Device,
) -> Result<Vec<(Tensor, DeviceTensor)>, TeError> {
    let mut made: Vec<(Tensor, DeviceTensor)> = Vec::with_capacity(given.len());
    for (of, values) in given {
        let refuse = |reason: String| TeError::from(RunError::Argument { tensor: of.name(), reason });
        if made.iter().any(|(known, _)| known == of) {
            return Err(refuse("it has values already; give it once".to_owned()));
        }
        if values.device() != device {
            return Err(refuse(format!("it is on {}; the program is for {device}", values.device())));
        }
        let (given, needed) = (values.element_type(), of.dtype().in_memory());
        if given != needed {
            return Err(refuse(format!("it has elements of {given}; give a tensor of {needed}")));
        }
        let extents: Vec<Option<i64>> = of.shape().iter().map(Expr::as_int).collect();
        let shape = values.shape();
        let fits = |(extent, given): (&Option<i64>, &usize)| {
            extent.is_none_or(|extent| usize::try_from(extent).is_ok_and(|extent| extent == *given))
        };
        if extents.len() != shape.len() || !extents.iter().zip(shape).all(fits) {
            let needed: Vec<String> = of.shape().iter().map(crate::te::text::expression).collect();
            return Err(refuse(format!("its shape is {shape:?}; give one of [{}]", needed.join(", "))));
        }
        let mut copy = device.zeros_of(given, shape)?;
        copy.copy_from_tensor(values)?;
        made.push((of.clone(), copy));
    }
    Ok(made)
}

/// Checks that weights are inputs.
///
/// # Errors
/// [`RunError::Argument`] for one that is none.
pub(super) fn read(known: &[Tensor], inputs: &[Tensor]) -> Result<(), TeError> {
    match known.iter().find(|of| !inputs.contains(of)) {
        None => Ok(()),
        Some(of) => {
            let reason = "it is no input of the program; give values of placeholders that it reads".to_owned();
            Err(RunError::Argument { tensor: of.name(), reason }.into())
        }
    }
}

/// Where a tensor lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lying {
    address: u64,
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Lying {
    pub(super) fn of(tensor: &DeviceTensor) -> Self {
        Self { address: tensor.device_address(), shape: tensor.shape().to_vec(), strides: tensor.strides().to_vec() }
    }

    pub(super) fn is(&self, tensor: &DeviceTensor) -> bool {
        self.address == tensor.device_address() && self.shape == tensor.shape() && self.strides == tensor.strides()
    }
}
