//! The place outside of memory that a read gets if a test of its indices fails.
//!
//! `inside.select(A[i, j + 1], nowhere)` reads an element or fails. It has the form of a value until accesses are
//! flattened. So passes before that see the indices of the element as they are.

use crate::te::expr::buffer::Buffer;
use crate::te::expr::expression::{Expr, Kind};

/// An index outside of every memory.
const OUTSIDE: i64 = i32::MIN as i64;

/// A read outside of a buffer.
pub(crate) fn nowhere(buffer: &Buffer) -> Expr {
    let indices = vec![Expr::int(OUTSIDE); buffer.shape().len()];
    Expr::new(buffer.dtype(), Kind::Load(buffer.clone(), indices))
}

/// Whether indices are those of [`nowhere`]. Memory that gets another dimension, as for two halves, has one more before
/// them.
pub(crate) fn is_nowhere(indices: &[Expr]) -> bool {
    indices.last().is_some_and(|index| index.as_int() == Some(OUTSIDE))
}

/// An index outside of every memory, in the type of another.
pub(crate) fn outside(index: &Expr) -> Expr {
    Expr::wrapped(OUTSIDE, index.dtype())
}
