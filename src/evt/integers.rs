//! The range of a tree's integers, which determines how many bits they need.
//!
//! An integer is an `i64`, and wraps. If no value of a tree can leave the range of an `i32`, kernels compute all of its
//! integers in 32 bits. The results are the same, in half the registers. Otherwise kernels compute all integers in
//! 64 bits. The CPU always computes in 64.

use super::{Axis, Position, Reduction, ValidParameter, Value, ValueKind, ValueType, Width};
use crate::ElementType;
use crate::expr::Op;

/// The least and the greatest value, in a type in which no operation on two `i64` overflows.
type Range = (i128, i128);

const I32: Range = (i32::MIN as i128, i32::MAX as i128);
const I64: Range = (i64::MIN as i128, i64::MAX as i128);

/// The most rows, columns or batches that a product may have, on any device.
pub(crate) const MOST: usize = i32::MAX as usize - 1023;

/// How far tiles may extend beyond the product: elements there are computed like others, but not stored.
const BEYOND: i128 = 511;

/// The width of the integers among `values`, from their operations; the width in their types is ignored.
pub(super) fn width(values: &[Value], parameters: &[ValidParameter]) -> Width {
    let mut ranges: Vec<Range> = Vec::with_capacity(values.len());
    for value in values {
        let range = match value.ty {
            ValueType::Integer(_) => range(&value.kind, parameters, &ranges),
            ValueType::Real(_) | ValueType::Bool | ValueType::Seed => (0, 0),
        };
        ranges.push(range);
    }
    let fits = |(least, greatest): &Range| *least >= I32.0 && *greatest <= I32.1;
    if ranges.iter().all(fits) { Width::Bits32 } else { Width::Bits64 }
}

/// For every value whether it is an integer that no operation has wrapped, whatever the parameters.
pub(super) fn never_wrap(values: &[Value], parameters: &[ValidParameter]) -> Vec<bool> {
    let mut ranges: Vec<Range> = Vec::with_capacity(values.len());
    let mut never_wrap: Vec<bool> = Vec::with_capacity(values.len());
    for value in values {
        let is_integer = matches!(value.ty, ValueType::Integer(_));
        let range = if is_integer { unwrapped(&value.kind, parameters, &ranges) } else { (0, 0) };
        // Only the integers of a choice count; the condition is a truth value.
        let operands = value.kind.operands();
        let mut integers = operands.iter().filter(|id| matches!(values[id.index()].ty, ValueType::Integer(_)));
        never_wrap.push(is_integer && wrapped(range) == range && integers.all(|id| never_wrap[id.index()]));
        ranges.push(wrapped(range));
    }
    never_wrap
}

fn range(kind: &ValueKind, parameters: &[ValidParameter], ranges: &[Range]) -> Range {
    wrapped(unwrapped(kind, parameters, ranges))
}

/// The range of an operation's result, before it wraps.
fn unwrapped(kind: &ValueKind, parameters: &[ValidParameter], ranges: &[Range]) -> Range {
    match kind {
        ValueKind::Integer(x) => (i128::from(*x), i128::from(*x)),
        ValueKind::Position(Position::Row | Position::Column | Position::Batch) => (0, MOST as i128 + BEYOND),
        ValueKind::Position(Position::Rows | Position::Columns) => (0, MOST as i128),
        ValueKind::Reduce(Reduction { axis: Axis::Row | Axis::Column, .. }, _) => (-1, MOST as i128),
        ValueKind::Load(p) | ValueKind::Broadcast(p) => match parameters[p.index()].element {
            ElementType::I8 => (i8::MIN.into(), i8::MAX.into()),
            ElementType::U8 => (0, u8::MAX.into()),
            ElementType::I32 => I32,
            _ => I64,
        },
        ValueKind::Apply(op, operands) => {
            let operand = |i: usize| operands.get(i).map_or(I64, |id| ranges[id.index()]);
            apply(*op, operand(0), operand(1), operand(2))
        }
        _ => I64,
    }
}

fn apply(op: Op, x: Range, y: Range, z: Range) -> Range {
    match op {
        Op::Neg => (-x.1, -x.0),
        Op::Add => (x.0 + y.0, x.1 + y.1),
        Op::Sub => (x.0 - y.1, x.1 - y.0),
        Op::Mul => {
            let corners = [x.0 * y.0, x.0 * y.1, x.1 * y.0, x.1 * y.1];
            corners.iter().fold((corners[0], corners[0]), |(low, high), &c| (low.min(c), high.max(c)))
        }
        Op::Min => (x.0.min(y.0), x.1.min(y.1)),
        Op::Max => (x.0.max(y.0), x.1.max(y.1)),
        Op::Select => (y.0.min(z.0), y.1.max(z.1)),
        _ => I64,
    }
}

/// A result beyond the range of an `i64` wraps, so it may be anything.
fn wrapped(range: Range) -> Range {
    if range.0 >= I64.0 && range.1 <= I64.1 { range } else { I64 }
}

#[cfg(test)]
mod tests {
    use crate::ElementType;
    use crate::evt::{BroadcastClass, NodeId, ParameterClass, Position, TreeBuilder, Types, ValueType, Width};
    use crate::expr::Op;

    #[track_caller]
    fn check(expected: Width, element: ElementType, build: impl Fn(&mut TreeBuilder, NodeId) -> NodeId) {
        let mut b = TreeBuilder::new("e", "a.rs");
        let given = b.parameter("given", ParameterClass::ColumnVector, Some(element));
        let given = b.integer(given);
        let x = build(&mut b, given);
        let accum = b.accum("accum");
        let zero = b.literal(0.0);
        let column = b.position(Position::Column);
        let holds = b.apply(Op::Lt, &[x, column]);
        let d = b.apply(Op::Select, &[holds, accum, zero]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(Types::new(ElementType::F16, ElementType::F16)).expect("a valid tree");
        let width = tree.values().iter().find_map(|value| match value.ty {
            ValueType::Integer(width) => Some(width),
            _ => None,
        });
        assert_eq!(width, Some(expected));
    }

    #[test]
    fn integers_have_32_bits_where_none_can_overflow() {
        use Width::{Bits32, Bits64};
        let plus = |n: i64, position: Position| {
            move |b: &mut TreeBuilder, _: NodeId| {
                let (x, n) = (b.position(position), b.integer_literal(n));
                b.apply(Op::Add, &[x, n])
            }
        };
        check(Bits32, ElementType::I32, |_, given| given);
        check(Bits64, ElementType::I64, |_, given| given);
        check(Bits32, ElementType::I32, plus(512, Position::Row));
        check(Bits64, ElementType::I32, plus(513, Position::Row));
        check(Bits32, ElementType::I32, plus(1023, Position::Rows));
        check(Bits64, ElementType::I32, plus(1024, Position::Rows));
        let product = |b: &mut TreeBuilder, given: NodeId| b.apply(Op::Mul, &[given, given]);
        check(Bits32, ElementType::I8, product);
        check(Bits64, ElementType::I32, product);
        check(Bits32, ElementType::I32, |b, given| {
            let (row, column) = (b.position(Position::Row), b.position(Position::Column));
            let apart = b.apply(Op::Sub, &[column, row]);
            b.apply(Op::Max, &[apart, given])
        });
    }
}
