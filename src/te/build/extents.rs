//! What may be an extent.

use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::error::TeError;
use crate::te::lang::expr::Expr;
use crate::te::text::expression;

/// # Errors
/// [`TeError::Extent`], and the error of an extent that is a mistake. `of` says of what an extent is, by its place.
pub(crate) fn check_extents(extents: &[Expr], of: impl Fn(usize) -> String) -> Result<(), TeError> {
    for (place, extent) in extents.iter().enumerate() {
        if let Some(error) = extent.error() {
            return Err(error);
        }
        let out_of_range = |extent: i64| extent < 0 || !DType::I32.holds(extent);
        if !extent.dtype().is_integer() || simplify(extent).as_int().is_some_and(out_of_range) {
            return Err(TeError::Extent { of: of(place), given: expression(extent) });
        }
    }
    Ok(())
}
