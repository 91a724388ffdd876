//! Checks the scales of FP8 operands.

use epilogue_runtime::DeviceTensor;

use super::arithmetic::Arithmetic;
use super::digits::{has_digits, shape_of};
use super::eight_bit::Pair;
use super::error::Error;
use super::format::Formats;
use super::operand::{Left, Right};
use super::scale_error::ScaleError;
use super::scaled::SCALE_BLOCK;
use crate::ElementType;

/// Whether operands of these types may have block scales in this arithmetic.
///
/// # Errors
/// [`ScaleError::Operands`], [`ScaleError::Arithmetic`].
pub(crate) fn check_types((a, b): (ElementType, ElementType), arithmetic: Arithmetic) -> Result<(), ScaleError> {
    match (Pair::fp8(a, b), arithmetic) {
        (None, _) => Err(ScaleError::Operands { a, b }),
        (Some(_), Arithmetic::FastFp8) => Err(ScaleError::Arithmetic),
        (Some(_), _) => Ok(()),
    }
}

/// The formats of operands, if their scales have the shapes that these ask for.
///
/// # Errors
/// [`ScaleError::One`], [`ScaleError::Element`], [`ScaleError::Shape`].
pub(super) fn check(left: Left<'_>, right: &Right<'_>) -> Result<Formats, Error> {
    let Some(of_a) = both(left, right)? else { return Ok(Formats::PLAIN) };
    check_scales("A", left.tensor(), of_a, |[m, k]| [m, k.div_ceil(SCALE_BLOCK)])?;
    for (b, scales) in right.tensors().iter().zip(right.scales()) {
        check_scales("B", b, scales, |[k, n]| [k.div_ceil(SCALE_BLOCK), n.div_ceil(SCALE_BLOCK)])?;
    }
    Ok(Formats::SCALED)
}

/// A's scales if both operands have some; `None` if neither has.
///
/// # Errors
/// [`ScaleError::One`].
pub(super) fn both<'a>(left: Left<'a>, right: &Right<'_>) -> Result<Option<&'a DeviceTensor>, Error> {
    match (left.scales(), right.scales().is_empty()) {
        (Some(scales), false) => Ok(Some(scales)),
        (None, true) => Ok(None),
        (Some(_), true) => Err(ScaleError::One { with: "A", without: "B" }.into()),
        (None, false) => Err(ScaleError::One { with: "B", without: "A" }.into()),
    }
}

fn check_scales(
    operand: &'static str,
    tensor: &DeviceTensor,
    scales: &DeviceTensor,
    blocks: impl Fn([usize; 2]) -> [usize; 2],
) -> Result<(), Error> {
    let element = scales.element_type();
    if element != ElementType::F32 {
        return Err(ScaleError::Element { operand, given: element }.into());
    }
    let mut needed = shape_of(tensor).to_vec();
    if let [.., rows, columns] = needed.as_mut_slice() {
        [*rows, *columns] = blocks([*rows, *columns]);
    }
    if !has_digits(scales) && shape_of(scales).as_slice() == needed {
        return Ok(());
    }
    let (given, of) = (scales.shape().to_vec(), shape_of(tensor).to_vec());
    Err(ScaleError::Shape { operand, given, needed, of }.into())
}
