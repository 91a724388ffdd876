//! `cvt` (PTX ISA 9.7.9.21).

use crate::case::{Case, Compare};
use crate::elementwise::Elementwise;
use crate::oracle::bits::{clamp, number, wrap};
use crate::oracle::real::{self, BF16, E4M3, E5M2, F16, Mode, Pair, TF32, Table, flush, saturate};
use crate::values::Kind;

const DIRECTIONS: [(&str, Mode); 4] = [("n", Mode::Rn), ("z", Mode::Rz), ("m", Mode::Rm), ("p", Mode::Rp)];

type TableOf = fn() -> &'static Table;

const INTEGERS: [(&str, u32, bool); 8] = [
    ("u8", 8, false),
    ("s8", 8, true),
    ("u16", 16, false),
    ("s16", 16, true),
    ("u32", 32, false),
    ("s32", 32, true),
    ("u64", 64, false),
    ("s64", 64, true),
];

fn kind(bits: u32) -> Kind {
    match bits {
        8 => Kind::B8,
        16 => Kind::B16,
        32 => Kind::B32,
        _ => Kind::B64,
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    integers(&mut cases);
    to_integers(&mut cases);
    from_integers(&mut cases);
    between_floats(&mut cases);
    integral(&mut cases);
    narrow(&mut cases);
    fp8(&mut cases);
    cases
}

fn integers(cases: &mut Vec<Case>) {
    for (to, to_bits, to_signed) in INTEGERS {
        for (from, from_bits, from_signed) in INTEGERS {
            for sat in [false, true] {
                // If the target holds every number of the source, PTX has no `.sat`.
                let fits = |value: i128| clamp(value, to_bits, to_signed) == value;
                let whole =
                    fits(clamp(i128::MIN, from_bits, from_signed)) && fits(clamp(i128::MAX, from_bits, from_signed));
                if to == from || (sat && (to_bits == 8 || whole)) {
                    continue;
                }
                // The destination register holds the result, extended according to its type.
                let register = to_bits.max(16);
                let oracle = move |o: &[u64]| {
                    let value = number(o[0], from_bits, from_signed);
                    let value = if sat { clamp(value, to_bits, to_signed) } else { value };
                    wrap(number(wrap(value, to_bits), to_bits, to_signed), register)
                };
                let opcode = format!("cvt{}.{to}.{from}", if sat { ".sat" } else { "" });
                cases.push(Elementwise::new(opcode, &[kind(from_bits)], kind(register), oracle).case());
            }
        }
    }
}

fn to_integers(cases: &mut Vec<Case>) {
    for (direction, mode) in DIRECTIONS {
        for (to, to_bits, to_signed) in &INTEGERS[2..] {
            let (to_bits, to_signed) = (*to_bits, *to_signed);
            let convert = move |x: f64, double: bool| {
                if x.is_nan() {
                    return if double || to_bits == 64 { 1 << (to_bits - 1) } else { 0 };
                }
                // A cast to i128 saturates; the limits of every type are far inside.
                wrap(clamp(real::integral(x, mode) as i128, to_bits, to_signed), to_bits)
            };
            let k = kind(to_bits);
            let name = |from: &str| format!("cvt.r{direction}i.{to}.{from}");
            let from_half = move |o: &[u64]| convert(F16.value(o[0]), false);
            cases.push(Elementwise::new(name("f16"), &[Kind::F16], k, from_half).case());
            let from_single = move |o: &[u64]| convert(single(o[0]).into(), false);
            cases.push(Elementwise::new(name("f32"), &[Kind::F32], k, from_single).case());
            let from_double = move |o: &[u64]| convert(f64::from_bits(o[0]), true);
            cases.push(Elementwise::new(name("f64"), &[Kind::F64], k, from_double).case());
        }
    }
    let flushed = |o: &[u64]| wrap(clamp(flush(single(o[0])).ceil() as i128, 32, true), 32);
    cases.push(Elementwise::new("cvt.rpi.ftz.s32.f32", &[Kind::F32], Kind::B32, flushed).case());
}

/// An integer rounded to `f32`.
fn integer_to_f32(value: i128, mode: Mode) -> f32 {
    let nearest = value as f32;
    // Every finite f32 here is at most 2^64.
    real::direct(nearest, value.cmp(&(nearest as i128)), mode)
}

fn integer_to_f64(value: i128, mode: Mode) -> f64 {
    let nearest = value as f64;
    let order = value.cmp(&(nearest as i128));
    match (order, mode) {
        (std::cmp::Ordering::Greater, Mode::Rp) => nearest.next_up(),
        (std::cmp::Ordering::Less, Mode::Rm) => nearest.next_down(),
        (std::cmp::Ordering::Less, Mode::Rz) if nearest > 0.0 => nearest.next_down(),
        (std::cmp::Ordering::Greater, Mode::Rz) if nearest < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

fn from_integers(cases: &mut Vec<Case>) {
    for (direction, mode) in DIRECTIONS {
        for (from, bits, signed) in &INTEGERS[2..] {
            let (bits, signed) = (*bits, *signed);
            let name = |to: &str| format!("cvt.r{direction}.{to}.{from}");
            let half = move |o: &[u64]| {
                // A 64-bit integer as an exact pair of numbers.
                let value = number(o[0], bits, signed);
                let high = (value >> 32 << 32) as f64;
                let low = (value - (value >> 32 << 32)) as f64;
                F16.round(Pair::sum(high, low), mode)
            };
            cases.push(Elementwise::new(name("f16"), &[kind(bits)], Kind::F16, half).case());
            let to_single = move |o: &[u64]| integer_to_f32(number(o[0], bits, signed), mode).to_bits().into();
            cases.push(Elementwise::new(name("f32"), &[kind(bits)], Kind::F32, to_single).case());
            let to_double = move |o: &[u64]| integer_to_f64(number(o[0], bits, signed), mode).to_bits();
            cases.push(Elementwise::new(name("f64"), &[kind(bits)], Kind::F64, to_double).case());
        }
    }
}

fn between_floats(cases: &mut Vec<Case>) {
    for ftz in [false, true] {
        let name = if ftz { ".ftz" } else { "" };
        let input = move |bits: u64| if ftz { flush(single(bits)) } else { single(bits) };
        let widen = move |o: &[u64]| f64::from(input(o[0])).to_bits();
        let case = Elementwise::new(format!("cvt{name}.f64.f32"), &[Kind::F32], Kind::F64, widen);
        cases.push(case.compare(Compare::Float(64)).case());
        for (direction, mode) in DIRECTIONS {
            let narrow = move |o: &[u64]| {
                let result = real::to_f32(Pair::of(f64::from_bits(o[0])), mode);
                (if ftz { flush(result) } else { result }).to_bits().into()
            };
            let opcode = format!("cvt.r{direction}{name}.f32.f64");
            cases.push(Elementwise::new(opcode, &[Kind::F64], Kind::F32, narrow).compare(Compare::Float(32)).case());
        }
        let clamp = move |o: &[u64]| saturate(input(o[0])).to_bits().into();
        cases.push(Elementwise::new(format!("cvt{name}.sat.f32.f32"), &[Kind::F32], Kind::F32, clamp).case());
    }
    let half = |o: &[u64]| (F16.value(o[0]) as f32).to_bits().into();
    cases.push(Elementwise::new("cvt.f32.f16", &[Kind::F16], Kind::F32, half).compare(Compare::Float(32)).case());
    let half = |o: &[u64]| F16.value(o[0]).to_bits();
    cases.push(Elementwise::new("cvt.f64.f16", &[Kind::F16], Kind::F64, half).compare(Compare::Float(64)).case());
    let brain = |o: &[u64]| (BF16.value(o[0]) as f32).to_bits().into();
    let case = Elementwise::new("cvt.f32.bf16", &[Kind::Bf16], Kind::F32, brain).compare(Compare::Float(32));
    cases.push(case.hopper().case());
    let double = |o: &[u64]| F16.round(Pair::of(f64::from_bits(o[0])), Mode::Rn);
    cases.push(Elementwise::new("cvt.rn.f16.f64", &[Kind::F64], Kind::F16, double).case());
}

fn integral(cases: &mut Vec<Case>) {
    for (direction, mode) in DIRECTIONS {
        let f = move |o: &[u64]| (real::integral(single(o[0]).into(), mode) as f32).to_bits().into();
        let case = Elementwise::new(format!("cvt.r{direction}i.f32.f32"), &[Kind::F32], Kind::F32, f);
        cases.push(case.compare(Compare::Float(32)).case());
        let f = move |o: &[u64]| real::integral(f64::from_bits(o[0]), mode).to_bits();
        let case = Elementwise::new(format!("cvt.r{direction}i.f64.f64"), &[Kind::F64], Kind::F64, f);
        cases.push(case.compare(Compare::Float(64)).case());
    }
}

/// Applies `.relu` to a code.
fn relu(table: &Table, code: u64) -> u64 {
    if table.value(code) <= 0.0 { 0 } else { code }
}

fn narrow(cases: &mut Vec<Case>) {
    let formats: [(&str, TableOf, Kind, Kind); 2] =
        [("f16", || &F16, Kind::F16, Kind::F16x2), ("bf16", || &BF16, Kind::Bf16, Kind::Bf16x2)];
    for (name, table, scalar, pair) in formats {
        for (direction, mode) in &DIRECTIONS[..2] {
            let mode = *mode;
            for with_relu in [false, true] {
                let one = move |bits: u64| {
                    let code = table().round(Pair::of(single(bits).into()), mode);
                    if with_relu { relu(table(), code) } else { code }
                };
                let modifier = if with_relu { ".relu" } else { "" };
                let opcode = format!("cvt.r{direction}{modifier}.{name}.f32");
                cases.push(Elementwise::new(opcode, &[Kind::F32], scalar, move |o| one(o[0])).case());
                let opcode = format!("cvt.r{direction}{modifier}.{name}x2.f32");
                let both = move |o: &[u64]| one(o[0]) << 16 | one(o[1]);
                cases.push(Elementwise::new(opcode, &[Kind::F32; 2], pair, both).case());
            }
        }
    }
    for (direction, mode) in &DIRECTIONS[2..] {
        let mode = *mode;
        let f = move |o: &[u64]| F16.round(Pair::of(single(o[0]).into()), mode);
        cases.push(Elementwise::new(format!("cvt.r{direction}.f16.f32"), &[Kind::F32], Kind::F16, f).case());
    }
    // The low 13 bits of a tf32 register, and the bits of a NaN, have no meaning and are not compared.
    let tf32 = |o: &[u64]| TF32.round(Pair::of(single(o[0]).into()), Mode::Rna) << 13;
    let case = Elementwise::new("cvt.rna.tf32.f32", &[Kind::F32], Kind::B32, tf32);
    cases.push(case.compare(Compare::Float(32)).case());
}

fn fp8(cases: &mut Vec<Case>) {
    let formats: [(&str, TableOf); 2] = [("e4m3", || &E4M3), ("e5m2", || &E5M2)];
    for (name, table) in formats {
        for with_relu in [false, true] {
            let modifier = if with_relu { ".relu" } else { "" };
            let finish = move |code: u64| if with_relu { relu(table(), code) } else { code };
            let one = move |x: f64| finish(table().round_finite(Pair::of(x), Mode::Rn));
            let from_singles = move |o: &[u64]| one(single(o[0]).into()) << 8 | one(single(o[1]).into());
            let opcode = format!("cvt.rn.satfinite{modifier}.{name}x2.f32");
            cases.push(Elementwise::new(opcode, &[Kind::F32; 2], Kind::Fp8x2, from_singles).hopper().case());
            let from_halves = move |o: &[u64]| one(F16.value(o[0] >> 16)) << 8 | one(F16.value(o[0] & 0xffff));
            let opcode = format!("cvt.rn.satfinite{modifier}.{name}x2.f16x2");
            cases.push(Elementwise::new(opcode, &[Kind::F16x2], Kind::Fp8x2, from_halves).hopper().case());
            let widen = move |o: &[u64]| {
                let half = |code: u64| {
                    let half = F16.round(Pair::of(table().value(code)), Mode::Rn);
                    if with_relu { relu(&F16, half) } else { half }
                };
                half(o[0] >> 8 & 0xff) << 16 | half(o[0] & 0xff)
            };
            let opcode = format!("cvt.rn{modifier}.f16x2.{name}x2");
            cases.push(Elementwise::new(opcode, &[Kind::Fp8x2], Kind::F16x2, widen).hopper().case());
        }
    }
}
