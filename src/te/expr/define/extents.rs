//! Checks of extents and ranges.

use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::Domain;
use crate::te::expr::expression::Expr;
use crate::te::text::expression;

/// # Errors
/// [`ExpressionError::Extent`], and the mistake inside an extent that is one. `of` names, by its place, what has the
/// extent.
pub(crate) fn check_extents(extents: &[Expr], of: impl Fn(usize) -> String) -> Result<(), TeError> {
    for (place, extent) in extents.iter().enumerate() {
        if let Some(error) = extent.error() {
            return Err(error);
        }
        check_type(extent, || of(place))?;
        let out_of_range = |extent: i64| extent < 0 || !DType::I32.holds(extent);
        if simplify(extent).as_int().is_some_and(out_of_range) {
            return Err(ExpressionError::Extent { of: of(place), given: expression(extent) }.into());
        }
    }
    Ok(())
}

/// Indices, which are compared with extents, are i32s.
fn check_type(extent: &Expr, of: impl FnOnce() -> String) -> Result<(), TeError> {
    if extent.dtype() == DType::I32 {
        return Ok(());
    }
    let given = format!("{} of type {}", expression(extent), extent.dtype());
    Err(ExpressionError::Extent { of: of(), given }.into())
}

/// # Errors
/// [`ExpressionError::Extent`] and [`ExpressionError::Unrepresentable`] for a range that 32-bit indices can't count,
/// and the mistake inside a bound that is one.
pub(crate) fn check_range(range: &Domain, axis: &str) -> Result<(), TeError> {
    let of = || format!("the axis {axis}");
    if let Some(error) = range.min.error() {
        return Err(error);
    }
    check_type(&range.min, of)?;
    check_extents(std::slice::from_ref(&range.extent), |_| of())?;
    if let (Some(min), Some(extent)) = (range.min.as_int(), simplify(&range.extent).as_int())
        && !(DType::I32.holds(min) && DType::I32.holds(min.saturating_add(extent)))
    {
        let end = min.saturating_add(extent);
        let value = format!("an index of the axis {axis}, from {min} to before {end}");
        return Err(ExpressionError::Unrepresentable { value, dtype: DType::I32 }.into());
    }
    Ok(())
}
