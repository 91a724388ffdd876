//! Integer arithmetic (PTX ISA 9.7.1, 9.7.2).

use crate::case::Case;
use crate::elementwise::Elementwise;
use crate::oracle::bits::{bfind, clamp, number, wrap};
use crate::values::Kind;

/// The integer types of 16 bits and more.
const TYPES: [(&str, u32, bool); 6] = [
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];

fn kind(bits: u32) -> Kind {
    match bits {
        16 => Kind::B16,
        32 => Kind::B32,
        _ => Kind::B64,
    }
}

fn binary(
    cases: &mut Vec<Case>,
    opcode: String,
    bits: u32,
    signed: bool,
    f: impl Fn(i128, i128) -> i128 + Send + Sync + 'static,
) {
    let oracle = move |o: &[u64]| wrap(f(number(o[0], bits, signed), number(o[1], bits, signed)), bits);
    cases.push(Elementwise::new(opcode, &[kind(bits); 2], kind(bits), oracle).case());
}

/// `min` and `max` with negative results replaced by zero.
fn clamped(cases: &mut Vec<Case>) {
    type Extremum = fn(i128, i128) -> i128;
    for (name, f) in [("min", i128::min as Extremum), ("max", i128::max)] {
        let oracle = move |o: &[u64]| wrap(f(number(o[0], 32, true), number(o[1], 32, true)).max(0), 32);
        let opcode = format!("{name}.relu.s32");
        cases.push(Elementwise::new(opcode, &[Kind::B32; 2], Kind::B32, oracle).hopper().case());
        for (ty, signed, relu) in [("s16x2", true, false), ("u16x2", false, false), ("s16x2.relu", true, true)] {
            let oracle = move |o: &[u64]| {
                let half = |shift: u32| {
                    let value = f(number(o[0] >> shift, 16, signed), number(o[1] >> shift, 16, signed));
                    wrap(if relu { value.max(0) } else { value }, 16) << shift
                };
                half(0) | half(16)
            };
            let opcode = format!("{name}.{ty}");
            cases.push(Elementwise::new(opcode, &[Kind::B32; 2], Kind::B32, oracle).hopper().case());
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    clamped(&mut cases);
    for (name, bits, signed) in TYPES {
        binary(&mut cases, format!("add.{name}"), bits, signed, |a, b| a + b);
        binary(&mut cases, format!("sub.{name}"), bits, signed, |a, b| a - b);
        binary(&mut cases, format!("mul.lo.{name}"), bits, signed, i128::wrapping_mul);
        binary(&mut cases, format!("mul.hi.{name}"), bits, signed, move |a, b| {
            // The product of two 64-bit numbers fits if one of them is signed. For two unsigned ones it must be
            // computed by halves.
            match a.checked_mul(b) {
                Some(product) => product >> bits,
                None => ((a as u128 * b as u128) >> bits) as i128,
            }
        });
        binary(&mut cases, format!("min.{name}"), bits, signed, i128::min);
        binary(&mut cases, format!("max.{name}"), bits, signed, i128::max);
        let divide = move |a: i128, b: i128| if b == 0 { -1 } else { a / b };
        let remainder = move |a: i128, b: i128| if b == 0 { a } else { a % b };
        // The document leaves the result of a division by zero open, so the divisor is never zero.
        for (opcode, f) in
            [("div", Box::new(divide) as Box<dyn Fn(i128, i128) -> i128 + Send + Sync>), ("rem", Box::new(remainder))]
        {
            if bits == 16 {
                continue;
            }
            let text = format!("{opcode}.{name}");
            cases.push(nonzero_divisor(text, bits, signed, f));
        }
        if bits < 64 {
            wide(&mut cases, name, bits, signed);
        }
        let k = kind(bits);
        for (opcode, low) in [("mad.lo", true), ("mad.hi", false)] {
            let oracle = move |o: &[u64]| {
                let n = |i: usize| number(o[i], bits, signed);
                let (a, b, c) = (n(0), n(1), n(2));
                let product = if low {
                    a.wrapping_mul(b)
                } else {
                    a.checked_mul(b).map_or(((a as u128).wrapping_mul(b as u128) >> bits) as i128, |p| p >> bits)
                };
                wrap(product.wrapping_add(c), bits)
            };
            cases.push(Elementwise::new(format!("{opcode}.{name}"), &[k; 3], k, oracle).case());
        }
        if signed {
            let unary = |f: fn(i128) -> i128| move |o: &[u64]| wrap(f(number(o[0], bits, true)), bits);
            cases.push(Elementwise::new(format!("neg.{name}"), &[k], k, unary(|a| -a)).case());
            cases.push(Elementwise::new(format!("abs.{name}"), &[k], k, unary(i128::abs)).case());
        }
        if bits >= 32 {
            for shift in [false, true] {
                let opcode = format!("bfind{}.{name}", if shift { ".shiftamt" } else { "" });
                cases.push(Elementwise::new(opcode, &[k], Kind::B32, move |o| bfind(o[0], bits, signed, shift)).case());
            }
        }
        if bits <= 32 {
            let oracle = move |o: &[u64]| {
                let n = |i: usize| number(o[i], bits, signed);
                wrap(n(2) + (n(0) - n(1)).abs(), bits)
            };
            cases.push(Elementwise::new(format!("sad.{name}"), &[k; 3], k, oracle).case());
        }
    }
    binary(&mut cases, "add.sat.s32".into(), 32, true, |a, b| clamp(a + b, 32, true));
    binary(&mut cases, "sub.sat.s32".into(), 32, true, |a, b| clamp(a - b, 32, true));
    let hi_sat = |o: &[u64]| {
        let n = |i: usize| number(o[i], 32, true);
        wrap(clamp(((n(0) * n(1)) >> 32) + n(2), 32, true), 32)
    };
    cases.push(Elementwise::new("mad.hi.sat.s32", &[Kind::B32; 3], Kind::B32, hi_sat).case());
    dot_products(&mut cases);
    carries(&mut cases);
    cases
}

fn nonzero_divisor(opcode: String, bits: u32, signed: bool, f: Box<dyn Fn(i128, i128) -> i128 + Send + Sync>) -> Case {
    let oracle = move |o: &[u64]| wrap(f(number(o[0], bits, signed), number(o[1], bits, signed)), bits);
    let mut case = Elementwise::new(opcode, &[kind(bits); 2], kind(bits), oracle).case();
    case.lane = None;
    let inputs = case.inputs;
    let mask = u64::MAX >> (64 - bits);
    case.inputs = Box::new(move |seed| {
        let mut bytes = inputs(seed);
        for row in bytes.chunks_exact_mut(24) {
            let divisor = u64::from_le_bytes(row[16..24].try_into().unwrap_or_default());
            if divisor & mask == 0 {
                row[16] = 7;
            }
        }
        bytes
    });
    case
}

fn wide(cases: &mut Vec<Case>, name: &str, bits: u32, signed: bool) {
    let (k, double) = (kind(bits), if bits == 16 { Kind::B32 } else { Kind::B64 });
    let oracle = move |o: &[u64]| wrap(number(o[0], bits, signed) * number(o[1], bits, signed), 2 * bits);
    cases.push(Elementwise::new(format!("mul.wide.{name}"), &[k; 2], double, oracle).case());
    let oracle = move |o: &[u64]| {
        wrap(number(o[0], bits, signed) * number(o[1], bits, signed) + number(o[2], 2 * bits, signed), 2 * bits)
    };
    cases.push(Elementwise::new(format!("mad.wide.{name}"), &[k, k, double], double, oracle).case());
}

fn dot_products(cases: &mut Vec<Case>) {
    for (a_name, a_signed) in [("s32", true), ("u32", false)] {
        for (b_name, b_signed) in [("s32", true), ("u32", false)] {
            let oracle = move |o: &[u64]| {
                let byte = |x: u64, i: u32, signed| number(x >> (8 * i), 8, signed);
                let sum: i128 = (0..4).map(|i| byte(o[0], i, a_signed) * byte(o[1], i, b_signed)).sum();
                wrap(i128::from(o[2]) + sum, 32)
            };
            cases.push(Elementwise::new(format!("dp4a.{a_name}.{b_name}"), &[Kind::B32; 3], Kind::B32, oracle).case());
        }
    }
}

/// Chains through the carry flag: 64-bit and 96-bit sums and products from 32-bit instructions.
fn carries(cases: &mut Vec<Case>) {
    for (name, first, second, sum) in [
        ("add", "add.cc.u32", "addc.u32", true),
        ("sub", "sub.cc.u32", "subc.u32", false),
        ("add chain", "add.cc.u32", "addc.cc.u32", true),
        ("sub chain", "sub.cc.u32", "subc.cc.u32", false),
    ] {
        // The pair of instructions as one: d = f(a, b) on 64-bit operands.
        let opcode = "mov.b64";
        let text = |d: &str, a: &str, b: &str| {
            format!(
                "    mov.b64 {{%r10, %r11}}, {a};\n    mov.b64 {{%r12, %r13}}, {b};\n    @%p15 {first} %r14, %r10, %r12;\n\
                 \x20   @%p15 {second} %r15, %r11, %r13;\n    @%p15 {opcode} {d}, {{%r14, %r15}};\n"
            )
        };
        let oracle = move |o: &[u64]| if sum { o[0].wrapping_add(o[1]) } else { o[0].wrapping_sub(o[1]) };
        cases.push(sequence(name, &[first, second], &[Kind::B64; 2], &text("%rd0", "%rd1", "%rd2"), oracle));
    }
    // The flag after a subtraction is 1 if there was no borrow, and subtractions read every flag in this way.
    let mixed = "    mov.b64 {%r10, %r11}, %rd1;\n    @%p15 sub.cc.u32 %r12, %r10, %r11;\n    @%p15 addc.u32 %r14, 0, 0;\n\
        \x20   @%p15 add.cc.u32 %r12, %r10, %r11;\n    @%p15 subc.u32 %r15, %r10, %r11;\n    @%p15 mov.b64 %rd0, {%r14, %r15};\n";
    let oracle = |o: &[u64]| {
        let (x, y) = (o[0] & 0xffff_ffff, o[0] >> 32);
        let difference = x.wrapping_sub(y).wrapping_sub(u64::from(x + y <= 0xffff_ffff));
        u64::from(x >= y) | difference << 32
    };
    let covers = ["sub.cc.u32", "addc.u32", "add.cc.u32", "subc.u32"];
    cases.push(sequence("carries and borrows mixed", &covers, &[Kind::B64], mixed, oracle));
    let product = "    mov.b64 {%r10, %r11}, %rd1;\n    mov.b64 {%r12, %r13}, %rd2;\n    @%p15 mul.lo.u32 %r14, %r10, %r12;\n\
        \x20   @%p15 mul.hi.u32 %r15, %r10, %r12;\n    @%p15 mad.lo.cc.u32 %r15, %r10, %r13, %r15;\n\
        \x20   @%p15 madc.hi.u32 %r16, %r10, %r13, 0;\n    @%p15 mad.lo.cc.u32 %r15, %r11, %r12, %r15;\n\
        \x20   @%p15 madc.hi.cc.u32 %r16, %r11, %r12, %r16;\n    @%p15 addc.u32 %r17, 0, 0;\n\
        \x20   @%p15 mad.lo.cc.u32 %r16, %r11, %r13, %r16;\n    @%p15 madc.hi.u32 %r17, %r11, %r13, %r17;\n\
        \x20   @%p15 mov.b64 %rd0, {%r16, %r17};\n";
    let high = |o: &[u64]| ((u128::from(o[0]) * u128::from(o[1])) >> 64) as u64;
    let covers = ["mul.lo.u32", "mul.hi.u32", "mad.lo.cc.u32", "madc.hi.u32", "madc.hi.cc.u32", "addc.u32"];
    cases.push(sequence("product of 64 bits from words", &covers, &[Kind::B64; 2], product, high));
    let low = "    mov.b64 {%r10, %r11}, %rd1;\n    @%p15 add.cc.u32 %r14, %r10, %r10;\n\
        \x20   @%p15 madc.lo.cc.u32 %r15, %r11, 3, %r11;\n    @%p15 madc.lo.u32 %r16, 0, 0, 5;\n\
        \x20   @%p15 mov.b64 %rd0, {%r15, %r16};\n";
    let oracle = |o: &[u64]| {
        let (x, y) = (o[0] & 0xffff_ffff, o[0] >> 32);
        let carry = (2 * x) >> 32;
        let sum = ((y * 3) & 0xffff_ffff) + y + carry;
        (sum & 0xffff_ffff) | (5 + (sum >> 32)) << 32
    };
    cases.push(sequence("mad with carry", &["madc.lo.cc.u32", "madc.lo.u32"], &[Kind::B64], low, oracle));
}

/// A few instructions from `%rd1`, `%rd2` to `%rd0`.
fn sequence(
    name: &str,
    covers: &[&str],
    operands: &[Kind],
    text: &str,
    oracle: impl Fn(&[u64]) -> u64 + Send + Sync + 'static,
) -> Case {
    let mut case = Elementwise::new("mov.b64", operands, Kind::B64, oracle).case();
    case.name = name.into();
    case.lane = None;
    case.covers = covers.iter().map(|s| (*s).to_string()).collect();
    let start = case.module.find("    @%p15 mov.b64").unwrap_or_default();
    let end = case.module[start..].find('\n').map_or(start, |n| start + n + 1);
    case.module.replace_range(start..end, text);
    case
}
