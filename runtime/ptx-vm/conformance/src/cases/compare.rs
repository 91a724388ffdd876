//! `setp` and `set` (PTX ISA 9.7.6, 9.7.7).

use ptx_vm::Arch;

use std::cmp::Ordering;

use super::memory::{THREADS, block};
use crate::case::Case;
use crate::elementwise::Elementwise;
use crate::oracle::bits::number;
use crate::oracle::real::{BF16, F16, flush};
use crate::template;
use crate::values::{Kind, Random};

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
            let value = |code| F16.value(code);
            holds(operator, value(o[0]).partial_cmp(&value(o[1]))).into()
        };
        cases.push(Elementwise::new(format!("setp.{operator}.f16"), &[Kind::F16; 2], Kind::Predicate, oracle).case());
    }
    // With another predicate combined.
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
    for operator in FLOAT_OPERATORS {
        half_precision(&mut cases, operator);
        pairs_to_predicates(&mut cases, operator);
    }
    cases
}

/// `set` of 16-bit floats and of pairs of them, to floats and to masks.
fn half_precision(cases: &mut Vec<Case>, operator: &'static str) {
    type Form = (&'static str, &'static str, Kind, u64, bool, bool);
    const FORMS: [Form; 9] = [
        // result, operands, kind of the operands, what "true" is, pair, sm_90
        ("f16x2", "f16x2", Kind::F16x2, 0x3c00, true, false),
        ("u32", "f16x2", Kind::F16x2, 0xffff, true, false),
        ("f16", "f16", Kind::F16, 0x3c00, false, false),
        ("u16", "f16", Kind::F16, 0xffff, false, false),
        ("u32", "f16", Kind::F16, 0xffff_ffff, false, false),
        ("bf16x2", "bf16x2", Kind::Bf16x2, 0x3f80, true, true),
        ("u32", "bf16x2", Kind::Bf16x2, 0xffff, true, true),
        ("bf16", "bf16", Kind::Bf16, 0x3f80, false, true),
        ("u16", "bf16", Kind::Bf16, 0xffff, false, true),
    ];
    for (to, from, kind, truth, pair, hopper) in FORMS {
        for ftz in [false, true] {
            if ftz && hopper {
                continue;
            }
            let result = match to {
                "f16x2" | "bf16x2" | "u32" => Kind::B32,
                _ => Kind::B16,
            };
            let oracle = move |o: &[u64]| {
                let one = |shift: u32| {
                    let value = |bits: u64| half_value(hopper, ftz, bits >> shift & 0xffff);
                    if holds(operator, value(o[0]).partial_cmp(&value(o[1]))) { truth << shift } else { 0 }
                };
                if pair { one(0) | one(16) } else { one(0) }
            };
            let opcode = format!("set.{operator}{}.{to}.{from}", if ftz { ".ftz" } else { "" });
            let case = Elementwise::new(opcode, &[kind; 2], result, oracle);
            cases.push(if hopper { case.hopper() } else { case }.case());
        }
    }
}

fn half_value(brain: bool, ftz: bool, bits: u64) -> f64 {
    let table = if brain { &BF16 } else { &F16 };
    if ftz && table.is_subnormal(bits) { 0.0 } else { table.value(bits) }
}

/// `setp` of pairs: one predicate for the low halves, one for the high ones, and both combined with a third.
fn pairs_to_predicates(cases: &mut Vec<Case>, operator: &'static str) {
    for (kind, brain) in [("f16x2", false), ("bf16x2", true)] {
        for combination in ["", ".and", ".or", ".xor"] {
            let opcode = format!("setp.{operator}{combination}.{kind}");
            let with = if combination.is_empty() { "" } else { ", !%p2" };
            // The third predicate is a destination too.
            let (low, high) = if combination.is_empty() { ("%p3", "%p4") } else { ("%p2", "%p4") };
            let body = format!(
                "    ld.global.v2.u32 {{%r1, %r2}}, [%rd60];\n    ld.global.u32 %r3, [%rd60+8];\n    and.b32 %r3, %r3, 1;\n\
                 \x20   setp.ne.u32 %p2, %r3, 0;\n    {opcode} {low}|{high}, %r1, %r2{with};\n    selp.u32 %r4, 1, 0, {low};\n\
                 \x20   selp.u32 %r5, 1, 0, {high};\n    st.global.v2.u32 [%rd61], {{%r4, %r5}};\n"
            );
            let mut case = block(&opcode, &[&opcode], "", 16, 8, &body, move |rows| {
                rows.iter()
                    .map(|row| {
                        let with = row[1] & 1 == 0;
                        let one = |shift: u32| {
                            let value = |bits: u64| half_value(brain, false, bits >> shift & 0xffff);
                            let holds = holds(operator, value(row[0]).partial_cmp(&value(row[0] >> 32)));
                            u64::from(match combination {
                                ".and" => holds && with,
                                ".or" => holds || with,
                                ".xor" => holds != with,
                                _ => holds,
                            })
                        };
                        one(0) | one(16) << 32
                    })
                    .collect()
            });
            if brain {
                case.target = Arch::Sm90a;
                case.module = template::module(Arch::Sm90a, "", "", 16, 8, &body);
            }
            let kind = if brain { Kind::Bf16x2 } else { Kind::F16x2 };
            case.inputs = Box::new(move |seed| {
                let mut random = Random::new(seed);
                let mut bytes = Vec::new();
                for _ in 0..THREADS {
                    let a = kind.value(&mut random);
                    // Operands are sometimes equal.
                    let b = if random.below(4) == 0 { a } else { kind.value(&mut random) };
                    bytes.extend((a | b << 32).to_le_bytes());
                    bytes.extend(random.bits().to_le_bytes());
                }
                bytes
            });
            cases.push(case);
        }
    }
}
