//! `setp` and `set` (PTX ISA 9.7.6, 9.7.7).

use std::cmp::Ordering;

use crate::case::Case;
use crate::elementwise::Elementwise;
use crate::oracle::bits::number;
use crate::oracle::real::flush;
use crate::values::Kind;

/// Whether an operator holds for an order (`None` if either operand is NaN).
fn holds(operator: &str, order: Option<Ordering>) -> bool {
    let Some(order) = order else {
        return operator == "nan" || (operator.len() == 3 && operator.ends_with('u'));
    };
    match operator.trim_end_matches('u') {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "lt" | "lo" => order.is_lt(),
        "le" | "ls" => order.is_le(),
        "gt" | "hi" => order.is_gt(),
        "ge" | "hs" => order.is_ge(),
        other => other == "num",
    }
}

const FLOAT_OPERATORS: [&str; 14] =
    ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, bits, signed, kind) in [
        ("u16", 16, false, Kind::B16),
        ("s16", 16, true, Kind::B16),
        ("u32", 32, false, Kind::B32),
        ("s32", 32, true, Kind::B32),
        ("u64", 64, false, Kind::B64),
        ("s64", 64, true, Kind::B64),
    ] {
        for operator in ["eq", "ne", "lt", "le", "gt", "ge"] {
            let oracle = move |o: &[u64]| {
                holds(operator, Some(number(o[0], bits, signed).cmp(&number(o[1], bits, signed)))).into()
            };
            cases.push(Elementwise::new(format!("setp.{operator}.{name}"), &[kind; 2], Kind::Predicate, oracle).case());
        }
        if !signed {
            for operator in ["eq", "ne"] {
                let oracle = move |o: &[u64]| holds(operator, Some(o[0].cmp(&o[1]))).into();
                let opcode = format!("setp.{operator}.b{bits}");
                cases.push(Elementwise::new(opcode, &[kind; 2], Kind::Predicate, oracle).case());
            }
            for operator in ["lo", "ls", "hi", "hs"] {
                let oracle = move |o: &[u64]| holds(operator, Some(o[0].cmp(&o[1]))).into();
                let opcode = format!("setp.{operator}.{name}");
                cases.push(Elementwise::new(opcode, &[kind; 2], Kind::Predicate, oracle).case());
            }
        }
    }
    for operator in FLOAT_OPERATORS {
        for ftz in [false, true] {
            let oracle = move |o: &[u64]| {
                let number = |bits: u64| {
                    let x = f32::from_bits(bits as u32);
                    if ftz { flush(x) } else { x }
                };
                holds(operator, number(o[0]).partial_cmp(&number(o[1]))).into()
            };
            let opcode = format!("setp.{operator}{}.f32", if ftz { ".ftz" } else { "" });
            cases.push(Elementwise::new(opcode, &[Kind::F32; 2], Kind::Predicate, oracle).case());
        }
        let oracle = move |o: &[u64]| holds(operator, f64::from_bits(o[0]).partial_cmp(&f64::from_bits(o[1]))).into();
        cases.push(Elementwise::new(format!("setp.{operator}.f64"), &[Kind::F64; 2], Kind::Predicate, oracle).case());
        let oracle = move |o: &[u64]| {
            let value = |code| crate::oracle::real::F16.value(code);
            holds(operator, value(o[0]).partial_cmp(&value(o[1]))).into()
        };
        cases.push(Elementwise::new(format!("setp.{operator}.f16"), &[Kind::F16; 2], Kind::Predicate, oracle).case());
    }
    // With a predicate combined in.
    type Function = fn(bool, bool) -> bool;
    let combinations: [(&str, Function); 3] = [("and", |a, b| a && b), ("or", |a, b| a || b), ("xor", |a, b| a != b)];
    for (name, f) in combinations {
        let oracle =
            move |o: &[u64]| f(number(o[0], 32, true) < number(o[1], 32, true), o[2] & 0xffff_ffff != 0).into();
        let operands = [Kind::B32, Kind::B32, Kind::Predicate];
        cases.push(Elementwise::new(format!("setp.lt.{name}.s32"), &operands, Kind::Predicate, oracle).case());
    }
    for (opcode, yes) in [("set.lt.u32.s32", 0xffff_ffff), ("set.lt.f32.s32", 0x3f80_0000)] {
        let oracle = move |o: &[u64]| if number(o[0], 32, true) < number(o[1], 32, true) { yes } else { 0 };
        let result = if opcode.contains("f32") { Kind::F32 } else { Kind::B32 };
        cases.push(Elementwise::new(opcode, &[Kind::B32; 2], result, oracle).case());
    }
    cases
}
