//! The approximate functions, with the bounds of the document (PTX ISA 9.7.3, 9.7.4).

use crate::case::{Case, Compare};
use crate::elementwise::Elementwise;
use crate::oracle::real::{F16, Mode, Pair, flush};
use crate::values::Kind;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // A relative error of 2^-22 is at most 2 units of the last place; one of 2^-11, 4096 units.
    type Function = fn(f64) -> f64;
    let functions: [(&str, Function, Compare); 7] = [
        ("ex2", f64::exp2, Compare::Near { ulp: 2.0, absolute: 0.0 }),
        ("lg2", f64::log2, Compare::Near { ulp: 2.0, absolute: 2.4e-7 }),
        ("rcp", |x| 1.0 / x, Compare::Near { ulp: 1.0, absolute: 0.0 }),
        ("rsqrt", |x| 1.0 / x.sqrt(), Compare::Near { ulp: 2.0, absolute: 0.0 }),
        ("sqrt", f64::sqrt, Compare::Near { ulp: 2.0, absolute: 0.0 }),
        ("sin", f64::sin, Compare::Near { ulp: 0.0, absolute: 6.8e-7 }),
        ("cos", f64::cos, Compare::Near { ulp: 0.0, absolute: 6.8e-7 }),
    ];
    for (name, f, compare) in functions {
        for ftz in [false, true] {
            let oracle = move |o: &[u64]| {
                let x = f32::from_bits(o[0] as u32);
                let x = if ftz { flush(x) } else { x };
                let result = if x == 0.0 && name == "lg2" { f32::NEG_INFINITY } else { f(x.into()) as f32 };
                (if ftz { flush(result) } else { result }).to_bits().into()
            };
            let opcode = format!("{name}.approx{}.f32", if ftz { ".ftz" } else { "" });
            let case = Elementwise::new(opcode, &[Kind::F32], Kind::F32, oracle).compare(compare).case();
            cases.push(if matches!(name, "sin" | "cos") { in_one_period(case) } else { case });
        }
    }
    let tanh = |o: &[u64]| (f64::from(f32::from_bits(o[0] as u32)).tanh() as f32).to_bits().into();
    let case = Elementwise::new("tanh.approx.f32", &[Kind::F32], Kind::F32, tanh);
    cases.push(case.compare(Compare::Near { ulp: 8192.0, absolute: 0.0 }).case());
    quotients(&mut cases);
    doubles(&mut cases);
    double_root(&mut cases);
    halves(&mut cases);
    cases
}

/// The bound of sine and cosine holds in [-π, π], so other finite arguments are reduced to this range.
fn in_one_period(mut case: Case) -> Case {
    let inputs = case.inputs;
    case.inputs = Box::new(move |seed| {
        let mut bytes = inputs(seed);
        for row in bytes.chunks_exact_mut(16) {
            let x = f32::from_le_bytes([row[8], row[9], row[10], row[11]]);
            if x.is_finite() && x.abs() > 3.0 {
                row[8..12].copy_from_slice(&(x % 3.0).to_le_bytes());
            }
        }
        bytes
    });
    case
}

fn quotients(cases: &mut Vec<Case>) {
    for ftz in [false, true] {
        let name = if ftz { ".ftz" } else { "" };
        for (kind, full) in [("full", true), ("approx", false)] {
            let oracle = move |o: &[u64]| {
                let number = |bits: u64| {
                    let x = f32::from_bits(bits as u32);
                    if ftz { flush(x) } else { x }
                };
                let (a, b) = (number(o[0]), number(o[1]));
                let huge = !full && b.is_finite() && b.abs() > 2f32.powi(126);
                let quotient = if !huge {
                    (f64::from(a) / f64::from(b)) as f32
                } else if a.is_infinite() || a.is_nan() {
                    f32::NAN
                } else {
                    0f32.copysign(a) * b.signum()
                };
                (if ftz { flush(quotient) } else { quotient }).to_bits().into()
            };
            let opcode = format!("div.{kind}{name}.f32");
            let case = Elementwise::new(opcode, &[Kind::F32; 2], Kind::F32, oracle);
            cases.push(case.compare(Compare::Near { ulp: 2.0, absolute: 0.0 }).case());
        }
    }
}

/// Only the upper halves of operand and result count (PTX ISA 9.7.3.14, 9.7.3.18): 20 bits of mantissa.
fn doubles(cases: &mut Vec<Case>) {
    for (opcode, f) in
        [("rcp.approx.ftz.f64", (|x| 1.0 / x) as fn(f64) -> f64), ("rsqrt.approx.ftz.f64", |x| 1.0 / x.sqrt())]
    {
        let oracle = move |o: &[u64]| {
            let x = f64::from_bits(o[0] & !0xffff_ffff);
            let x = if x.abs() < f64::MIN_POSITIVE { 0f64.copysign(x) } else { x };
            let result = f(x);
            (if result.abs() < f64::MIN_POSITIVE { 0f64.copysign(result) } else { result }).to_bits()
        };
        let case = Elementwise::new(opcode, &[Kind::F64], Kind::F64, oracle);
        cases.push(case.compare(Compare::NearDouble { relative: 2f64.powi(-19) }).case());
    }
}

/// `rsqrt.approx.f64` takes subnormals.
fn double_root(cases: &mut Vec<Case>) {
    let oracle = |o: &[u64]| (1.0 / f64::from_bits(o[0]).sqrt()).to_bits();
    let case = Elementwise::new("rsqrt.approx.f64", &[Kind::F64], Kind::F64, oracle);
    cases.push(case.compare(Compare::NearDouble { relative: 2f64.powi(-19) }).case());
}

fn halves(cases: &mut Vec<Case>) {
    // 2^-9.9 relative, 2^-10.987 absolute: a few units of the last place.
    for (name, f) in [("ex2", f64::exp2 as fn(f64) -> f64), ("tanh", f64::tanh)] {
        let oracle = move |o: &[u64]| F16.round(Pair::of(f(F16.value(o[0]))), Mode::Rn);
        let case = Elementwise::new(format!("{name}.approx.f16"), &[Kind::F16], Kind::F16, oracle);
        cases.push(case.compare(Compare::NearHalf { ulp: 3 }).case());
    }
}
