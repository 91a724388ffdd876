//! SIMD video instructions (PTX ISA 9.7.18).

use crate::case::Case;
use crate::elementwise::Elementwise;
use crate::oracle::bits::{clamp, number, wrap};
use crate::values::Kind;

type Element = fn(i128, i128) -> i128;

pub(super) fn cases() -> Vec<Case> {
    let operations: [(&str, Element); 6] = [
        ("vadd", |a, b| a + b),
        ("vsub", |a, b| a - b),
        // Rounded up when it is positive, down when it is negative.
        ("vavrg", |a, b| if a + b >= 0 { (a + b + 1).div_euclid(2) } else { (a + b).div_euclid(2) }),
        ("vabsdiff", |a, b| (a - b).abs()),
        ("vmin", i128::min),
        ("vmax", i128::max),
    ];
    let mut cases = Vec::new();
    for (name, f) in operations {
        for count in [2, 4] {
            for types in ["u32.u32.u32", "s32.s32.s32", "s32.u32.u32", "u32.s32.u32"] {
                for modifier in ["", ".sat", ".add"] {
                    cases.push(simd(&format!("{name}{count}.{types}{modifier}"), count, types, modifier, f));
                }
            }
        }
    }
    for (name, holds) in [
        ("eq", (|a, b| (a == b).into()) as Element),
        ("ne", |a, b| (a != b).into()),
        ("lt", |a, b| (a < b).into()),
        ("le", |a, b| (a <= b).into()),
        ("gt", |a, b| (a > b).into()),
        ("ge", |a, b| (a >= b).into()),
    ] {
        for count in [2, 4] {
            for types in ["u32.u32", "s32.s32", "u32.s32"] {
                for modifier in ["", ".add"] {
                    let all = format!("u32.{types}");
                    cases.push(simd(&format!("vset{count}.{types}.{name}{modifier}"), count, &all, modifier, holds));
                }
            }
        }
    }
    cases
}

/// The operation on every element of A and B; `types` are those of the result, A and B.
fn simd(opcode: &str, count: u32, types: &str, modifier: &str, f: Element) -> Case {
    let signed: Vec<bool> = types.split('.').map(|ty| ty == "s32").collect();
    let (bits, saturate, accumulate) = (32 / count, modifier == ".sat", modifier == ".add");
    Elementwise::new(opcode, &[Kind::B32; 3], Kind::B32, move |o| {
        let results: Vec<i128> = (0..count)
            .map(|i| {
                let element = |n: usize, signed: bool| number(o[n] >> (i * bits), bits, signed);
                let value = f(element(0, signed[1]), element(1, signed[2]));
                if saturate { clamp(value, bits, signed[0]) } else { value }
            })
            .collect();
        if accumulate {
            return wrap(number(o[2], 32, false) + results.iter().sum::<i128>(), 32);
        }
        results.iter().rev().fold(0, |word, value| word << bits | wrap(*value, bits))
    })
    .case()
}
