//! The support table: operand types and knobs of each device. Plans call this, and check nothing of the kind elsewhere.

use epilogue_runtime::Device;

use super::devices;
use super::problem::property::Properties;
use super::problem::{Arithmetic, Error, FormatError, Knob, Property, Quantization, weight_check};
use crate::ElementType;
use crate::evt::Types;

/// The things that [`supports`] can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// The product of operands of these types.
    Product {
        /// A's element type.
        a: ElementType,
        /// B's element type.
        b: ElementType,
        /// How it is computed.
        arithmetic: Arithmetic,
    },
    /// A knob of a plan.
    Knob(Knob),
    /// Groups of rows ([`rows`](super::rows)) or of K ([`depth`](super::depth)).
    Groups,
    /// An A of [`patches`](super::patches()): convolutions and their gradients.
    Patches,
    /// FP8 operands with [scales of blocks](super::Scaled).
    BlockScales,
    /// The product with [quantised weights](super::Quantized) as B.
    Weights {
        /// A's element type.
        a: ElementType,
        /// How B is quantised.
        format: Quantization,
        /// How it is computed.
        arithmetic: Arithmetic,
    },
    /// Two properties of one product.
    Both(Property, Property),
}

impl From<(Property, Property)> for Feature {
    fn from((x, y): (Property, Property)) -> Self {
        Self::Both(x, y)
    }
}

impl From<(ElementType, ElementType)> for Feature {
    fn from((a, b): (ElementType, ElementType)) -> Self {
        Self::Product { a, b, arithmetic: Arithmetic::Exact }
    }
}

impl From<(ElementType, ElementType, Arithmetic)> for Feature {
    fn from((a, b, arithmetic): (ElementType, ElementType, Arithmetic)) -> Self {
        Self::Product { a, b, arithmetic }
    }
}

impl From<Knob> for Feature {
    fn from(knob: Knob) -> Self {
        Self::Knob(knob)
    }
}

/// Whether a device supports the product of two element types, a [`Knob`] of a plan, or two properties of a product. If
/// not, the error says why, and
/// what to do instead. A plan fails with the same error.
///
/// ```
/// use epilogue::gemm::{self, Error, Knob};
/// use epilogue::{Arch, Device, ElementType::{BF16, F16}};
///
/// let (cpu, gpu) = (Device::cpu(), Device::emulated(Arch::SM_80)?);
/// assert!(gemm::supports(&cpu, (F16, BF16)).is_ok());
/// assert!(matches!(gemm::supports(&gpu, (F16, BF16)), Err(Error::OperandTypes { .. })));
/// assert!(gemm::supports(&gpu, Knob::SplitK).is_ok());
/// assert!(matches!(gemm::supports(&cpu, Knob::SplitK), Err(Error::NoKnob { knob: Knob::SplitK, .. })));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # What every device supports
///
/// An emulated device supports what a GPU of its architecture does.
///
#[doc = include_str!("support.md")]
///
/// # Errors
/// [`Error::OperandTypes`], [`Error::Arithmetic`], [`Error::Format`] or [`Error::NoKnob`]; for two properties, why they exclude each other.
pub fn supports(device: &Device, feature: impl Into<Feature>) -> Result<(), Error> {
    match feature.into() {
        Feature::Product { a, b, arithmetic } => multiplies(device, a, b, arithmetic),
        Feature::Knob(knob) => match devices::list::of(device).lacks(knob) {
            None => Ok(()),
            Some(reason) => Err(Error::NoKnob { knob, device: device.to_string(), reason }),
        },
        Feature::Weights { a, format, arithmetic } => {
            weight_check::check_types(a, format, arithmetic)?;
            if devices::list::of(device).multiplies_weights(format) {
                return Ok(());
            }
            Err(FormatError::Device { device: device.to_string(), format }.into())
        }
        // On every GPU by kernels of the oldest family, at least.
        Feature::Groups | Feature::Patches | Feature::BlockScales => Ok(()),
        Feature::Both(x, y) => Properties::default().with(x, true).with(y, true).check(None),
    }
}

fn multiplies(device: &Device, a: ElementType, b: ElementType, arithmetic: Arithmetic) -> Result<(), Error> {
    let needed = match arithmetic {
        Arithmetic::Exact => None,
        Arithmetic::Tf32 | Arithmetic::FastBf16 => Some("f32"),
        Arithmetic::FastFp8 => Some("f8e4m3 or f8e5m2"),
        Arithmetic::Int8Activations => return Err(FormatError::NotQuantized { given: b }.into()),
    };
    for (operand, given) in [("A", a), ("B", b)] {
        if let Some(needed) = needed
            && !arithmetic.takes(given)
        {
            return Err(Error::Arithmetic { arithmetic, needed, operand, given });
        }
    }
    let refuse = |advice| Err(Error::OperandTypes { a, b, device: device.to_string(), advice });
    if let Err(reason) = Types::new(a, b).check() {
        return refuse(reason);
    }
    devices::list::of(device).refuses((a, b), arithmetic).map_or(Ok(()), refuse)
}

#[cfg(test)]
mod tests;
