//! The names of types, operations and kinds in the text.

use crate::ElementType;
use crate::expr::Op;
use crate::te::dtype::DType;
use crate::te::expr::axis::AxisKind;
use crate::te::expr::expression::Binary;
use crate::te::loops::ir::stmt::LoopKind;

const BINARY: [(Binary, &str); 16] = [
    (Binary::Add, "add"),
    (Binary::Sub, "sub"),
    (Binary::Mul, "mul"),
    (Binary::Div, "div"),
    (Binary::FloorDiv, "floor_div"),
    (Binary::FloorMod, "floor_mod"),
    (Binary::Min, "min"),
    (Binary::Max, "max"),
    (Binary::Lt, "lt"),
    (Binary::Le, "le"),
    (Binary::Gt, "gt"),
    (Binary::Ge, "ge"),
    (Binary::Eq, "eq"),
    (Binary::Ne, "ne"),
    (Binary::And, "and"),
    (Binary::Or, "or"),
];

const AXES: [(AxisKind, &str); 4] = [
    (AxisKind::Data, "data"),
    (AxisKind::Thread, "thread"),
    (AxisKind::Reduce, "reduce"),
    (AxisKind::Ordered, "ordered"),
];

const LOOPS: [(LoopKind, &str); 4] = [
    (LoopKind::Serial, "serial"),
    (LoopKind::Parallel, "parallel"),
    (LoopKind::Vectorized, "vectorized"),
    (LoopKind::Unrolled, "unrolled"),
];

fn name_in<T: PartialEq>(table: &[(T, &'static str)], of: &T) -> &'static str {
    table.iter().find(|(known, _)| known == of).map_or("", |(_, name)| name)
}

fn value_in<T: Copy>(table: &[(T, &str)], name: &str) -> Option<T> {
    table.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
}

pub(super) fn binary(op: Binary) -> &'static str {
    name_in(&BINARY, &op)
}

pub(super) fn parse_binary(name: &str) -> Option<Binary> {
    value_in(&BINARY, name)
}

pub(super) fn axis(kind: AxisKind) -> &'static str {
    name_in(&AXES, &kind)
}

pub(super) fn parse_axis(name: &str) -> Option<AxisKind> {
    value_in(&AXES, name)
}

pub(super) fn loop_kind(kind: LoopKind) -> &'static str {
    name_in(&LOOPS, &kind)
}

pub(super) fn parse_loop_kind(name: &str) -> Option<LoopKind> {
    value_in(&LOOPS, name)
}

pub(super) fn op(op: Op) -> String {
    format!("{op:?}").to_lowercase()
}

pub(super) fn parse_op(name: &str) -> Option<Op> {
    Op::ALL.into_iter().find(|known| op(*known) == name)
}

pub(super) fn dtype(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::Number(element) => element.name(),
    }
}

pub(super) fn parse_dtype(name: &str) -> Option<DType> {
    let element = ElementType::ALL.into_iter().find(|element| element.name() == name);
    element.map(DType::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        assert!(BINARY.iter().all(|(op, _)| parse_binary(binary(*op)) == Some(*op)));
        assert!(AXES.iter().all(|(kind, _)| parse_axis(axis(*kind)) == Some(*kind)));
        assert!(LOOPS.iter().all(|(kind, _)| parse_loop_kind(loop_kind(*kind)) == Some(*kind)));
        assert!(Op::ALL.iter().all(|known| parse_op(&op(*known)) == Some(*known)));
        let types = ElementType::ALL.map(DType::from);
        assert!(types.into_iter().all(|known| parse_dtype(dtype(known)) == Some(known)));
    }
}
