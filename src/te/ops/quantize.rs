//! Values of few bits with f32 scales of blocks or rows: the rules of [`F32Scaled`](crate::runtime::formats::F32Scaled).

use epilogue_runtime::formats::ScaledElement;

use super::{Over, map, misshapen, require_float};
use crate::expr::Op;
use crate::te::arith::{equal, simplify};
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::define::reducer::max_reducer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The codes and the scales of `a`, `[…, K]`: the codes have its shape, the scales are f32 of `[…, K/block]`. A block is
/// `block` neighbours of the last dimension, such as 16, 32 or 128; `None` is the whole row, so scales are `[…, 1]`.
///
/// A scale is the largest magnitude of its block divided by the largest code: 127, 448 (e4m3) or 57344 (e5m2). A code is
/// the nearest one to `x / scale`; ties go to even. A block whose scale is 0 has the codes 0. All steps are in f32: elements
/// of other types are converted first. These are the bits of
/// [`F32Scaled::encode`](crate::runtime::formats::EncodeBlocks::encode). [`dequantize`] is the way back.
///
/// If a block has NaN, its scale is NaN; if it has an infinity and no NaN, its scale is infinite.
///
/// ```
/// use epilogue::runtime::formats::ScaledElement;
/// use epilogue::{Device, te};
///
/// let x = te::placeholder([2, 4], "x");
/// let (codes, scales) = te::ops::quantize(&x, ScaledElement::I8, 2)?;
///
/// let device = Device::cpu();
/// let xs = device.tensor(&[127f32, -1.0, 0.0, 0.0, 2.0, -4.0, 254.0, 3.0], [2, 4])?;
/// let (mut q, mut s) = (device.zeros::<i8>([2, 4])?, device.zeros::<f32>([2, 2])?);
/// te::auto::build(&[&codes, &scales])?.build(&device)?.run_bound(&[
///     (&x, (&xs).into()),
///     (&codes, (&mut q).into()),
///     (&scales, (&mut s).into()),
/// ])?;
/// assert_eq!(q.to_vec::<i8>()?, [127, -1, 0, 0, 64, -127, 127, 2]);
/// assert_eq!(s.to_vec::<f32>()?, [1.0, 0.0, 4.0 / 127.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::OperandType`] for integers; [`ExpressionError::Shape`] for a tensor without dimensions, and if the
/// last extent is not provably a multiple of the block.
pub fn quantize(
    a: &Tensor,
    element: ScaledElement,
    block: impl Into<Option<usize>>,
) -> Result<(Tensor, Tensor), TeError> {
    require_float(a, "quantize")?;
    let mut shape = a.shape();
    let Some(last) = shape.pop() else {
        return Err(misshapen("quantize", ("the tensor", a), "[…, K]".to_owned()));
    };
    let each = match block.into() {
        None => last,
        Some(block) if block > 0 && simplify(&last.floor_mod(block)).as_int() == Some(0) => block.into(),
        Some(block) => {
            let needed = format!("with a last dimension that is a multiple of the blocks of {block}");
            return Err(misshapen("quantize", ("the tensor", a), needed));
        }
    };
    let blocks = blocks_of(a, &each);
    shape.extend([blocks, each.clone()]);
    let blocked = map(shape, "blocked", |at| {
        let (outer, own) = at.split_at(at.len() - 2);
        a.at([outer, &[&own[0] * &each + &own[1]]].concat()).cast(DType::F32)
    })?;
    let over = Over::new(&blocked, -1)?;
    let largest =
        over.reduce("largest", |at, axes| vec![max_reducer().over(Expr::apply(Op::Abs, vec![blocked.at(at)]), axes)])?;
    let number = |x: f32| Expr::constant(f64::from(x), DType::F32);
    let scales = map(largest[0].shape(), "scales", |at| largest[0].at(at) / number(element.largest()))?;
    let codes = map(a.shape(), "codes", |at| {
        let scale = scales.at(of_block(at, &each));
        let scaled = a.at(at).cast(DType::F32) / &scale;
        let code = match element {
            ScaledElement::I8 => nearest(&scaled.min(number(127.0)).max(number(-127.0))),
            ScaledElement::F8E4M3 | ScaledElement::F8E5M2 => scaled,
        };
        scale.equal(number(0.0)).select(number(0.0), code).cast(element.element_type())
    })?;
    Ok((codes, scales))
}

/// The values of codes `[…, K]` with scales `[…, K/block]`: `code * scale`, computed in f32 and converted to a type. The
/// block follows from the shapes; with scales `[…, 1]` it is the row.
///
/// ```
/// use epilogue::{Device, ElementType, te};
///
/// let codes = te::placeholder_of(ElementType::I8, [1, 4], "codes");
/// let scales = te::placeholder([1, 2], "scales");
/// let values = te::ops::dequantize(&codes, &scales, ElementType::F32)?;
///
/// let device = Device::cpu();
/// let (q, s) = (device.tensor(&[1i8, -2, 3, 127], [1, 4])?, device.tensor(&[0.5f32, 2.0], [1, 2])?);
/// let mut x = device.zeros::<f32>([1, 4])?;
/// let kernel = te::auto::build(&[&values])?.build(&device)?;
/// kernel.run_bound(&[(&codes, (&q).into()), (&scales, (&s).into()), (&values, (&mut x).into())])?;
/// assert_eq!(x.to_vec::<f32>()?, [0.5, -1.0, 6.0, 254.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`ExpressionError::OperandType`] for codes that are truth values, f64 or integers of more than 16 bits. Scales and
/// result must be of floating-point types. [`ExpressionError::Shape`] unless the extents are
/// equal but for the last one, which must provably be a multiple of the scales'.
pub fn dequantize(codes: &Tensor, scales: &Tensor, dtype: impl Into<DType>) -> Result<Tensor, TeError> {
    let dtype = DType::of(dtype);
    let refused = |given| ExpressionError::OperandType { operation: "dequantize".to_owned(), given };
    require_float(scales, "dequantize")?;
    // f32 has every integer of 16 bits.
    if codes.dtype() == DType::Bool || super::wide(codes.dtype()) == codes.dtype() && codes.dtype() != DType::F32 {
        return Err(refused(codes.dtype()).into());
    }
    if !dtype.is_float() {
        return Err(refused(dtype).into());
    }
    let (of_codes, of_scales) = (codes.shape(), scales.shape());
    let wrong = || {
        let needed = "[…, K/block] for codes […, K], K being a multiple of it".to_owned();
        misshapen("dequantize", ("the scales", scales), needed)
    };
    let (Some((last, outer)), Some((blocks, own))) = (of_codes.split_last(), of_scales.split_last()) else {
        return Err(wrong());
    };
    let is_same = outer.len() == own.len() && outer.iter().zip(own).all(|(a, b)| equal(a, b));
    let each = if blocks.as_int() == Some(1) { last.clone() } else { simplify(&last.floor_div(blocks)) };
    let is_multiple = blocks.as_int() != Some(0) && equal(&(&each * blocks), last);
    if !is_same || !is_multiple {
        return Err(wrong());
    }
    map(codes.shape(), "values", |at| {
        let value = codes.at(at).cast(DType::F32) * scales.at(of_block(at, &each)).cast(DType::F32);
        value.cast(dtype)
    })
}

/// The number of blocks of a row.
fn blocks_of(a: &Tensor, each: &Expr) -> Expr {
    let shape = a.shape();
    match shape.last() {
        Some(last) if !equal(last, each) => simplify(&last.floor_div(each)),
        _ => Expr::int(1),
    }
}

/// The indices of a block's scale, from those of an element.
fn of_block(at: &[Expr], each: &Expr) -> Vec<Expr> {
    match at.split_last() {
        Some((last, outer)) => [outer, &[last.floor_div(each)]].concat(),
        None => Vec::new(),
    }
}

/// The nearest whole number, ties to even. All steps are exact.
fn nearest(x: &Expr) -> Expr {
    let number = |x: f64| Expr::constant(x, DType::F32);
    let floor = |x: Expr| Expr::apply(Op::Floor, vec![x]);
    let below = floor(x.clone());
    let above_it = x - &below;
    let half = floor(&below * number(0.5));
    let is_even = (half * number(2.0)).equal(&below);
    let is_below = above_it.less(number(0.5)).or(above_it.equal(number(0.5)).and(is_even));
    is_below.select(&below, &below + number(1.0))
}
