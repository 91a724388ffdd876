//! How many elements lie in each bin. Each element is compared with each bin.

use super::{Dimensions, Over, misshapen, require_rank};
use crate::te::arith::simplify;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::define::reducer::sum;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The number of elements in each bin, in i32: numpy's `histogram` with edges. Bin `b` is from `edges[b]` to before
/// `edges[b + 1]`; the last bin has its right edge, too. Edges are of the elements' type, and should rise. Elements outside
/// and NaN are in no bin.
///
/// Each element is compared with each bin: the cost is elements times bins.
///
/// ```
/// use epilogue::{Device, te};
///
/// let (x, edges) = (te::placeholder([te::var("n")], "x"), te::placeholder([te::var("edges")], "edges"));
/// let counts = te::ops::histogram(&x, &edges)?;
///
/// let device = Device::cpu();
/// let (xs, ends) = (device.tensor(&[0.5f32, 1.0, 2.0, 9.0], [4])?, device.tensor(&[0f32, 1.0, 2.0], [3])?);
/// let mut made = device.zeros::<i32>([2])?;
/// let kernel = te::auto::build(&[&counts])?.build(&device)?;
/// kernel.run_bound(&[(&x, (&xs).into()), (&edges, (&ends).into()), (&counts, (&mut made).into())])?;
/// assert_eq!(made.to_vec::<i32>()?, [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Shape`] for edges that are not `[bins + 1]`, with 1 bin or more;
/// [`ExpressionError::MixedTypes`] for edges of another type.
pub fn histogram(a: &Tensor, edges: &Tensor) -> Result<Tensor, TeError> {
    require_rank("histogram", ("the edges", edges), 1, "[bins + 1]")?;
    let bins = simplify(&(&edges.shape()[0] - 1));
    if bins.as_int().is_some_and(|bins| bins < 1) {
        return Err(misshapen("histogram", ("the edges", edges), "[bins + 1] with 1 bin or more".to_owned()));
    }
    counted(a, bins.clone(), "histogram", |x, bin| {
        let (from, to) = (edges.at((bin,)), edges.at((bin + 1,)));
        let is_last = bin.equal(&bins - 1);
        x.greater_equal(from).and(x.less(&to).or(is_last.and(x.equal(to))))
    })
}

/// The number of elements that have each value from 0 to before `length`, in i32: numpy's `bincount` of integers. Other
/// values don't count. The cost is elements times values.
///
/// # Errors
/// [`ExpressionError::OperandType`] for elements that are no integers; [`ExpressionError::Extent`] for a length that is no
/// extent.
pub fn bincount(a: &Tensor, length: impl Into<Expr>) -> Result<Tensor, TeError> {
    if !a.dtype().is_integer() {
        return Err(ExpressionError::OperandType { operation: "bincount".to_owned(), given: a.dtype() }.into());
    }
    // Compared in 64 bits: a value need not fit the elements' type.
    counted(a, length.into(), "bincount", |x, value| x.cast(DType::I64).equal(value.cast(DType::I64)))
}

/// For each bin, the number of elements that are in it.
fn counted(
    a: &Tensor,
    bins: Expr,
    name: &'static str,
    is_in: impl FnOnce(&Expr, &Expr) -> Expr,
) -> Result<Tensor, TeError> {
    let over = Over::new(a, Dimensions::all())?;
    over.require_countable(a, name)?;
    let mut made = compute_over([bins], name, |bin| {
        let counts = is_in(&a.at(over.axes.as_slice()), &bin[0].into());
        vec![sum(counts.cast(DType::I32), &over.axes)]
    })?;
    Ok(made.swap_remove(0))
}
