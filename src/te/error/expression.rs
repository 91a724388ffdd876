//! Errors of expressions, reductions and the tensors made of them.

use super::einsum::EinsumError;
use crate::te::dtype::DType;

/// A mistake in an expression, a reduction or a tensor made of them: found as it is built.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// Operands of two different types.
    #[error("operands of types {left} and {right} don't mix; convert one with `.cast(…)`")]
    MixedTypes {
        /// The left operand's type.
        left: DType,
        /// The right operand's type.
        right: DType,
    },
    /// Operands of one function that have different types.
    #[error(
        "`{function}` takes operands of one type, and was given {first} and {other}; convert one of them, the latter with \
         `.cast({})`",
        written(*.first)
    )]
    MixedOperands {
        /// The function.
        function: String,
        /// The type of the first operand that is not a literal number.
        first: DType,
        /// The type of an operand that differs from it.
        other: DType,
    },
    /// An operation on a type it doesn't have.
    #[error("`{operation}` takes no operand of type {given}; convert it with `.cast(…)`")]
    OperandType {
        /// The operation.
        operation: String,
        /// The operand's type.
        given: DType,
    },
    /// The wrong number of operands.
    #[error("`{function}` takes {needed} operands, {given} were given; give as many as it takes")]
    Arity {
        /// The function.
        function: String,
        /// How many it takes.
        needed: usize,
        /// How many were given.
        given: usize,
    },
    /// A function of too many operations.
    #[error("the function `{function}` is too long: {reason}")]
    LongFunction {
        /// The function.
        function: String,
        /// How many operations it has, and how many are allowed.
        reason: String,
    },
    /// Operations that nest too deeply.
    #[error(
        "the operations of an expression nest deeper than {most}: combine long sums in pairs, or compute a part of it \
         as a tensor of its own"
    )]
    Nested {
        /// How deeply they may nest.
        most: u32,
    },
    /// Too long a chain of tensors, each computed from the one before.
    #[error(
        "{tensor} ends a chain of more than {most} tensors that are computed from each other: compute a part of it first, \
         and read the result through a placeholder"
    )]
    Chained {
        /// The tensor or scan at the chain's end.
        tensor: String,
        /// How long a chain may be.
        most: u32,
    },
    /// An expression that is too large once its shared parts are written out.
    #[error(
        "an expression has more than {most} operations where what it shares is written out, because conditions choose \
         what it reads: compute a part of it as a tensor of its own"
    )]
    Unfolded {
        /// How many operations it may have.
        most: usize,
    },
    /// A number that its type doesn't hold.
    #[error(
        "{value} is not a value of type {dtype}{}",
        .dtype.least_and_greatest().map(|(least, greatest)| format!(
            ", which holds whole numbers from {least} to {greatest}; use a wider type, for example \
             `.cast(ElementType::I64)` on the other operand"
        )).unwrap_or_default()
    )]
    Unrepresentable {
        /// The number, or the constant arithmetic that gives it.
        value: String,
        /// The type.
        dtype: DType,
    },
    /// An axis whose computed range has been dropped (see [`Axis`](crate::te::Axis)).
    #[error(
        "the range of the axis {axis} is no longer kept: of axes with computed ranges that no tensor has, the last {kept} \
         are; make the axis anew"
    )]
    AxisGivenUp {
        /// The axis.
        axis: String,
        /// The number of ranges that are kept.
        kept: usize,
    },
    /// The wrong number of indices or axes.
    #[error("{tensor} has {needed} dimensions, {given} indices were given; give one for each")]
    Rank {
        /// The tensor.
        tensor: String,
        /// Its dimensions.
        needed: usize,
        /// The indices.
        given: usize,
    },
    /// A tensor whose extents don't fit what an operation does with it.
    #[error("{operation}: {tensor} is {given}; it must be {needed}")]
    Shape {
        /// The operation.
        operation: &'static str,
        /// The tensor, and its role in the operation.
        tensor: String,
        /// Its extents.
        given: String,
        /// The needed extents, and the reason.
        needed: String,
    },
    /// An equation of [`einsum`](crate::te::ops::einsum()) that can't be read, or that doesn't fit its operands.
    #[error("einsum of {equation:?}: {error}")]
    Einsum {
        /// The equation.
        equation: String,
        /// The mistake.
        error: EinsumError,
    },
    /// A stride, a padding, a dilation or a number of groups that is too small or too large.
    #[error("{operation}: the {option} is {given}; it must be from {least} to 2147483647")]
    Sliding {
        /// The operation.
        operation: &'static str,
        /// The option.
        option: &'static str,
        /// Its value.
        given: usize,
        /// The least that is allowed.
        least: usize,
    },
    /// An index that is not an integer.
    #[error("an index of {tensor} has type {given}; indices are integers: convert it with `.cast(ElementType::I32)`")]
    IndexType {
        /// The tensor.
        tensor: String,
        /// The index's type.
        given: DType,
    },
    /// An axis requested by a number that the tensor doesn't have.
    #[error("{tensor} has {count} {kind} axes, number {dimension} was asked for; {}", numbers(*.count, .kind))]
    NoSuchAxis {
        /// The tensor.
        tensor: String,
        /// `data`, `reduction` or `scan`.
        kind: &'static str,
        /// The number asked for; from the end on if it is negative.
        dimension: i64,
        /// How many there are.
        count: usize,
    },
    /// An axis of another computation, used in a body.
    #[error(
        "{tensor} uses the axis {axis}, which is neither its own nor reduced over; use the axes that its body is given, or \
         reduce over this one"
    )]
    ForeignAxis {
        /// The tensor.
        tensor: String,
        /// The axis.
        axis: String,
    },
    /// A computation without values.
    #[error("{tensor} computes nothing; give at least one expression")]
    EmptyBody {
        /// The tensor.
        tensor: String,
    },
    /// A reduction inside an expression.
    #[error("{tensor} uses a reduction inside an expression; compute the reduction first, then use its tensor")]
    ReductionInside {
        /// The tensor.
        tensor: String,
    },
    /// A tuple reduction whose values are not all returned.
    #[error("{tensor} must return all values of one reduction, in order, and nothing else")]
    TupleReduction {
        /// The tensor.
        tensor: String,
    },
    /// A reduction over an axis that is not a reduction axis.
    #[error("{axis} is not a reduction axis; make one with `reduce_axis`")]
    NotAReduceAxis {
        /// The axis.
        axis: String,
    },
    /// An axis given twice.
    #[error("the axis {axis} is given twice; give it once")]
    RepeatedAxis {
        /// The axis.
        axis: String,
    },
    /// A reducer whose combination or identity has the wrong number of values.
    #[error(
        "the reducer `{reducer}` combines {needed} values, but its combination or identity has {given}; it must have as many"
    )]
    ReducerArity {
        /// The reducer.
        reducer: String,
        /// The number of values that are reduced.
        needed: usize,
        /// The number of values that the combination or identity has.
        given: usize,
    },
    /// A reducer whose result has another type than its operands.
    #[error(
        "the reducer `{reducer}` combines values of type {needed}, but gives one of type {given}; convert it with `.cast(…)`"
    )]
    ReducerType {
        /// The reducer.
        reducer: String,
        /// The values' type.
        needed: DType,
        /// The result's type.
        given: DType,
    },
    /// A reducer that uses more than its operands, numbers and sizes.
    #[error(
        "the {part} of the reducer `{reducer}` {what}; it is made of {}numbers and sizes only: put what depends on more \
         into the expression that is reduced",
        if *.part == "identity" { "" } else { "its two operands, " }
    )]
    ReducerUses {
        /// The reducer.
        reducer: String,
        /// `combination` or `identity`.
        part: &'static str,
        /// The thing that it uses.
        what: String,
    },
    /// The wrong number of initial values.
    #[error("{needed} initial values are needed, {given} were given; give one for each value that is reduced")]
    InitCount {
        /// The number of values that are reduced.
        needed: usize,
        /// The number of initial values.
        given: usize,
    },
    /// An initial value that is an expression.
    #[error(
        "an initial value (of type {given}) must be a number or a tensor's element; compute it as a tensor, and give its \
         element"
    )]
    InitForm {
        /// Its type.
        given: DType,
    },
    /// An extent that is negative, too large or no i32.
    #[error("{of} has the extent {given}; an extent is an i32 from 0 to 2147483647")]
    Extent {
        /// The dimension or axis.
        of: String,
        /// The extent.
        given: String,
    },
}

epilogue_runtime::message::debug!(ExpressionError);

/// The name of a type in messages.
fn written(dtype: DType) -> String {
    match dtype {
        DType::Bool => "DType::Bool".to_owned(),
        DType::Number(element) => format!("ElementType::{element:?}"),
    }
}

/// The numbers that name an axis among this many of a kind.
fn numbers(count: usize, kind: &str) -> String {
    match (count.checked_sub(1), kind) {
        (Some(last), _) => format!("numbers go from -{count} to {last}"),
        (None, "reduction") => "only a computation that reduces has them".to_owned(),
        (None, "scan") => "only what `te::scan` makes has one".to_owned(),
        (None, _) => "only a computation of 1 or more dimensions has them".to_owned(),
    }
}
