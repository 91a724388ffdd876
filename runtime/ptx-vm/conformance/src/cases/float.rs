//! `.f32` and `.f64` arithmetic in every rounding mode (PTX ISA 9.7.3).

use crate::case::{Case, Compare};
use crate::elementwise::Elementwise;
use crate::oracle::real::{self, Mode, flush, saturate};
use crate::values::Kind;

const MODES: [(&str, Mode); 4] = [("rn", Mode::Rn), ("rz", Mode::Rz), ("rm", Mode::Rm), ("rp", Mode::Rp)];

type Function = fn(&[f32], Mode) -> f32;

fn f32_case(opcode: String, arity: usize, f: impl Fn(&[f32]) -> f32 + Send + Sync + 'static) -> Case {
    let oracle = move |o: &[u64]| {
        let x: Vec<f32> = o.iter().map(|bits| f32::from_bits(*bits as u32)).collect();
        f(&x).to_bits().into()
    };
    Elementwise::new(opcode, &vec![Kind::F32; arity], Kind::F32, oracle).compare(Compare::Float(32)).case()
}

fn f64_case(opcode: &str, arity: usize, f: impl Fn(&[f64]) -> f64 + Send + Sync + 'static) -> Case {
    let oracle = move |o: &[u64]| {
        let x: Vec<f64> = o.iter().map(|bits| f64::from_bits(*bits)).collect();
        f(&x).to_bits()
    };
    Elementwise::new(opcode, &vec![Kind::F64; arity], Kind::F64, oracle).compare(Compare::Float(64)).case()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let operations: [(&str, usize, bool, Function); 7] = [
        ("add", 2, true, |x, m| real::add(x[0], x[1], m)),
        ("sub", 2, true, |x, m| real::add(x[0], -x[1], m)),
        ("mul", 2, true, |x, m| real::mul(x[0], x[1], m)),
        ("fma", 3, true, |x, m| real::fma(x[0], x[1], x[2], m)),
        ("div", 2, false, |x, m| real::div(x[0], x[1], m)),
        ("rcp", 1, false, |x, m| real::div(1.0, x[0], m)),
        ("sqrt", 1, false, |x, m| real::sqrt(x[0], m)),
    ];
    for (name, arity, can_saturate, f) in operations {
        for (rounding, mode) in MODES {
            for ftz in [false, true] {
                for sat in [false, true] {
                    if sat && !can_saturate {
                        continue;
                    }
                    let text = format!("{name}.{rounding}{}{}.f32", suffix(ftz, ".ftz"), suffix(sat, ".sat"));
                    cases.push(f32_case(text, arity, modified(f, mode, ftz, sat)));
                }
            }
        }
        // Without a rounding mode it rounds to nearest.
        if can_saturate && name != "fma" {
            for (modifiers, ftz, sat) in [("", false, false), (".ftz", true, false), (".sat", false, true)] {
                cases.push(f32_case(format!("{name}{modifiers}.f32"), arity, modified(f, Mode::Rn, ftz, sat)));
            }
        }
    }
    signs_and_extrema(&mut cases);
    doubles(&mut cases);
    cases
}

fn suffix(on: bool, text: &str) -> &str {
    if on { text } else { "" }
}

fn modified(f: Function, mode: Mode, ftz: bool, sat: bool) -> impl Fn(&[f32]) -> f32 + Send + Sync {
    move |x: &[f32]| {
        let x: Vec<f32> = x.iter().map(|x| if ftz { flush(*x) } else { *x }).collect();
        let result = f(&x, mode);
        let result = if ftz { flush(result) } else { result };
        if sat { saturate(result) } else { result }
    }
}

/// `min` and `max` of two numbers with −0 < +0, NaN ignored or kept.
fn extremum(a: f32, b: f32, greater: bool, nan: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return if nan || (a.is_nan() && b.is_nan()) {
            f32::NAN
        } else if a.is_nan() {
            b
        } else {
            a
        };
    }
    let mut ordered = [a, b];
    ordered.sort_by(f32::total_cmp);
    ordered[usize::from(greater)]
}

fn signs_and_extrema(cases: &mut Vec<Case>) {
    for ftz in [false, true] {
        let name = suffix(ftz, ".ftz");
        let input = move |x: f32| if ftz { flush(x) } else { x };
        cases.push(f32_case(format!("neg{name}.f32"), 1, move |x| -input(x[0])));
        cases.push(f32_case(format!("abs{name}.f32"), 1, move |x| input(x[0]).abs()));
        for (operation, greater) in [("min", false), ("max", true)] {
            for nan in [false, true] {
                let opcode = format!("{operation}{name}{}.f32", suffix(nan, ".NaN"));
                cases.push(f32_case(opcode, 2, move |x| extremum(input(x[0]), input(x[1]), greater, nan)));
            }
        }
    }
    // The sign of the first operand, the magnitude of the second (PTX ISA 9.7.3.6).
    cases.push(f32_case("copysign.f32".into(), 2, |x| x[1].copysign(x[0])));
    cases.push(f64_case("copysign.f64", 2, |x| x[1].copysign(x[0])));
}

fn doubles(cases: &mut Vec<Case>) {
    for (opcode, arity, f) in [
        ("add.f64", 2, (|x| x[0] + x[1]) as fn(&[f64]) -> f64),
        ("add.rn.f64", 2, |x| x[0] + x[1]),
        ("sub.f64", 2, |x| x[0] - x[1]),
        ("sub.rn.f64", 2, |x| x[0] - x[1]),
        ("mul.f64", 2, |x| x[0] * x[1]),
        ("mul.rn.f64", 2, |x| x[0] * x[1]),
        ("fma.rn.f64", 3, |x| x[0].mul_add(x[1], x[2])),
        ("div.rn.f64", 2, |x| x[0] / x[1]),
        ("rcp.rn.f64", 1, |x| 1.0 / x[0]),
        ("sqrt.rn.f64", 1, |x| x[0].sqrt()),
        ("neg.f64", 1, |x| -x[0]),
        ("abs.f64", 1, |x| x[0].abs()),
        ("min.f64", 2, |x| {
            if x[0].is_nan() {
                x[1]
            } else if x[1].is_nan() || x[0].total_cmp(&x[1]).is_lt() {
                x[0]
            } else {
                x[1]
            }
        }),
        ("max.f64", 2, |x| {
            if x[0].is_nan() {
                x[1]
            } else if x[1].is_nan() || x[0].total_cmp(&x[1]).is_gt() {
                x[0]
            } else {
                x[1]
            }
        }),
    ] {
        cases.push(f64_case(opcode, arity, f));
    }
    // Directed sums through the error term of the nearest one.
    for (rounding, mode) in &MODES[1..] {
        let mode = *mode;
        cases.push(f64_case(&format!("add.{rounding}.f64"), 2, move |x| {
            let nearest = x[0] + x[1];
            if !x[0].is_finite() || !x[1].is_finite() {
                return nearest;
            }
            if nearest == 0.0 && x[0] == -x[1] && !(x[0] == 0.0 && x[0].is_sign_negative() == x[1].is_sign_negative()) {
                return if mode == Mode::Rm { -0.0 } else { 0.0 };
            }
            let error = if nearest.is_infinite() {
                -nearest.signum()
            } else {
                let t = nearest - x[0];
                (x[0] - (nearest - t)) + (x[1] - t)
            };
            match mode {
                Mode::Rp if error > 0.0 => nearest.next_up(),
                Mode::Rm if error < 0.0 => nearest.next_down(),
                Mode::Rz if nearest > 0.0 && error < 0.0 => nearest.next_down(),
                Mode::Rz if nearest < 0.0 && error > 0.0 => nearest.next_up(),
                _ => nearest,
            }
        }));
    }
}
