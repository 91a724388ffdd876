//! Products of matrices: `matmul`, and a layer's product with its weights.

use super::contraction::{Factor, Labels, Types, contract};
use super::reductions::narrowed;
use super::{map, misshapen, require_rank, require_shape, wide};
use crate::te::arith::equal;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The product of matrices, `[…, rows, k]` times `[…, k, columns]`, as numpy's `matmul` has it.
///
/// The dimensions before the last two count batches, and are broadcast. They are aligned at the right, and where one
/// operand has the extent 1 or nothing, its matrix serves all batches. An operand of one dimension is a row on the
/// left, a column on the right, and the result lacks that dimension. Broadcasting needs an extent that is the number 1,
/// because a size is known only when it runs.
///
/// The result has the operands' type if both have one floating-point type; f16 and bf16 are summed in f32 and rounded
/// once. 8-bit integers of either sign are summed to i32, and i32 and i64 in their own type. Operands of different
/// types, for example f16 and f32, give the type of their sum. A sum over no elements is 0.
///
/// ```
/// use epilogue::{Device, te};
///
/// let (batch, n) = (te::var("batch"), te::var("n"));
/// let a = te::placeholder([batch.into(), n.into(), te::Expr::from(2)], "a");
/// let b = te::placeholder([2, 3], "b"); // one matrix for all batches
/// let c = te::ops::matmul(&a, &b)?; // [batch, n, 3]
///
/// let device = Device::cpu();
/// let (left, right) = (device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 1, 2])?, device.full::<f32>([2, 3], 1.0)?);
/// let mut product = device.zeros::<f32>([2, 1, 3])?;
/// let kernel = te::auto::build(&[&c])?.build(&device)?;
/// kernel.run_bound(&[(&a, (&left).into()), (&b, (&right).into()), (&c, (&mut product).into())])?;
/// assert_eq!(product.to_vec::<f32>()?, [3.0, 3.0, 3.0, 7.0, 7.0, 7.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Shape`] for scalars, inner extents that differ, and batches that can't be broadcast;
/// [`ExpressionError::MixedTypes`] for types with sums of different types, as f32 and f64.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, TeError> {
    let (left, right) = (("the left operand", a), ("the right operand", b));
    for given in [left, right] {
        if given.1.rank() == 0 {
            return Err(misshapen("matmul", given, "of 1 or more dimensions".to_owned()));
        }
    }
    let types = Types::of([a, b])?;
    let ((x, y), mut labels) = ((a.shape(), b.shape()), Labels::default());
    let k = labels.add("k", x[x.len() - 1].clone());
    let mut wanted = y.clone();
    let inner = y.len().saturating_sub(2);
    wanted[inner] = labels.extent(k).clone();
    require_shape("matmul", right, &wanted, "with as many rows as the left operand has columns")?;
    let (ours, theirs) = (&x[..x.len().saturating_sub(2)], &y[..inner]);
    let mut batches = Vec::new();
    for place in 0..ours.len().max(theirs.len()) {
        let from_right = |extents: &[Expr]| extents.iter().rev().nth(place).cloned();
        let (our, their) = (from_right(ours), from_right(theirs));
        if let (Some(our), Some(their)) = (&our, &their)
            && ![our, their].iter().any(|extent| extent.as_int() == Some(1))
            && !equal(our, their)
        {
            wanted[inner - 1 - place] = our.clone();
            require_shape("matmul", right, &wanted, "with the left operand's batches, or 1 in their place")?;
        }
        let label = labels.add(format!("batch{place}"), our.or(their.clone()).unwrap_or_else(|| Expr::int(1)));
        if let Some(their) = their {
            labels.widen(label, &their);
        }
        batches.insert(0, label);
    }
    let of = |count: usize| batches[batches.len() - count..].to_vec();
    let (mut row_labels, mut column_labels, mut output) = (of(ours.len()), of(theirs.len()), batches.clone());
    if x.len() > 1 {
        let row = labels.add("i", x[x.len() - 2].clone());
        row_labels.push(row);
        output.push(row);
    }
    row_labels.push(k);
    column_labels.push(k);
    if y.len() > 1 {
        let column = labels.add("j", y[y.len() - 1].clone());
        column_labels.push(column);
        output.push(column);
    }
    let factors =
        vec![Factor { tensor: a.clone(), labels: row_labels }, Factor { tensor: b.clone(), labels: column_labels }];
    narrowed(contract("matmul", factors, &output, &labels, types.sum)?, types.result, "matmul")
}

/// A linear layer: `x` of `[…, in]` times the transposed `weight` of `[out, in]`, plus `bias` of `[out]`. The result is
/// `[…, out]`. Checkpoints of PyTorch have weights in this layout.
///
/// Types are those of [`matmul`]. The bias is added to the sum before this is rounded.
///
/// ```
/// use epilogue::{Device, te};
///
/// let tokens = te::var("tokens");
/// let x = te::placeholder([tokens.into(), te::Expr::from(2)], "x");
/// let (weight, bias) = (te::placeholder([3, 2], "weight"), te::placeholder([3], "bias"));
/// let y = te::ops::linear(&x, &weight, Some(&bias))?;
///
/// let device = Device::cpu();
/// let xs = device.tensor(&[1f32, 2.0], [1, 2])?;
/// let weights = device.tensor(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?;
/// let biases = device.tensor(&[0f32, 0.0, 10.0], [3])?;
/// let mut ys = device.zeros::<f32>([1, 3])?;
/// let kernel = te::auto::build(&[&y])?.build(&device)?;
/// kernel.run_bound(&[
///     (&x, (&xs).into()),
///     (&weight, (&weights).into()),
///     (&bias, (&biases).into()),
///     (&y, (&mut ys).into()),
/// ])?;
/// assert_eq!(ys.to_vec::<f32>()?, [1.0, 2.0, 13.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::Shape`] for a scalar, or a weight or bias that doesn't fit; [`ExpressionError::MixedTypes`] as in
/// [`matmul`].
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, TeError> {
    let (shape, weights) = (x.shape(), weight.shape());
    let Some((features, outer)) = shape.split_last() else {
        return Err(misshapen("linear", ("the input", x), "[…, in]".to_owned()));
    };
    require_rank("linear", ("the weight", weight), 2, "[out, in]")?;
    let wanted = [weights[0].clone(), features.clone()];
    require_shape("linear", ("the weight", weight), &wanted, "[out, in] with the input's last extent")?;
    let types = Types::of([x, weight])?;
    if let Some(bias) = bias {
        require_shape("linear", ("the bias", bias), &weights[..1], "as the weight's rows")?;
        if wide(bias.dtype()) != types.sum {
            return Err(ExpressionError::MixedTypes { left: x.dtype(), right: bias.dtype() }.into());
        }
    }
    let mut labels = Labels::default();
    let mut output: Vec<usize> =
        outer.iter().enumerate().map(|(d, extent)| labels.add(format!("i{d}"), extent.clone())).collect();
    let k = labels.add("k", features.clone());
    let column = labels.add("j", weights[0].clone());
    let row_labels = output.iter().copied().chain([k]).collect();
    output.push(column);
    let factors = vec![
        Factor { tensor: x.clone(), labels: row_labels },
        Factor { tensor: weight.clone(), labels: vec![column, k] },
    ];
    let product = contract("linear", factors, &output, &labels, types.sum)?;
    let Some(bias) = bias else { return narrowed(product, types.result, "linear") };
    map(product.shape(), "linear", |at| {
        let own = bias.at(&at[at.len() - 1..]).cast(types.sum);
        (product.at(at) + own).cast(types.result)
    })
}
