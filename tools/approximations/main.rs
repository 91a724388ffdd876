//! Tries the short formulas of `src/device/math.cuh` on every f32: `cargo xtask approximations`.
//!
//! The formulas are computed here as on a GPU, step by step in f32. For an approximate instruction, both ends of the
//! range that PTX ISA allows are tried. Coefficients are read from the header, so there is only one list of them. The
//! errors that are printed, and the bounds they must keep, are those on which `src/evt/reference` relies. Negative
//! numbers need no trial, because the formulas copy the sign.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use rayon::prelude::*;

const HEADER: &str = include_str!("../../src/device/math.cuh");

/// The error of `ex2.approx.ftz.f32` by PTX ISA, 2 units of the last place, and of `rcp.approx.ftz.f32`, 1.
const EX2: i32 = 2;
const RCP: i32 = 1;

/// The bounds of a function's errors: the relative one, and an absolute one added to it.
const RELATIVE: f64 = 1.0 / 65_536.0;
const ABSOLUTE: f64 = 1.0 / 2_097_152.0;

/// `x` in f32, moved by `units` units of its last place.
fn moved(x: f64, units: i32) -> f32 {
    let nearest = x as f32;
    if nearest == 0.0 || nearest.is_infinite() || nearest < f32::MIN_POSITIVE {
        // Subnormal results are flushed.
        return if nearest.is_infinite() { nearest } else { 0.0 };
    }
    f32::from_bits(nearest.to_bits().wrapping_add_signed(units))
}

/// The numbers in a function's body in the header, in order.
fn numbers(function: &str) -> Vec<f32> {
    let start =
        HEADER.find(&format!("float {function}(float x) {{\n    float ")).expect("the function is in the header");
    let body = &HEADER[start..][..HEADER[start..].find("\n}").expect("its end")];
    let words = body.split(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    words.filter_map(number).collect()
}

/// `-0x1.8p+3f` or `3.9f`.
fn number(word: &str) -> Option<f32> {
    let word = word.strip_suffix('f')?;
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => {
            let (mantissa, exponent) = hex.split_once('p')?;
            let (whole, fraction) = mantissa.split_once('.')?;
            let bits = u64::from_str_radix(&format!("{whole}{fraction}"), 16).ok()? as f64;
            bits * 2f64.powi(exponent.trim_start_matches('+').parse::<i32>().ok()? - 4 * fraction.len() as i32)
        }
        None => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value } as f32)
}

/// `erf` of a positive number, with an exponential that is wrong by the given number of units.
fn erf(c: &[f32], x: f32, [ex2, _]: [i32; 2]) -> f32 {
    let z = x.min(c[0]);
    let p = c[2..7].iter().fold(c[1], |p, c| p.mul_add(z, *c));
    c[7] - moved(libm::exp2(f64::from(p * z)), ex2)
}

/// `tanh` of a positive number, with instructions that are wrong by the given numbers of units.
fn tanh(c: &[f32], x: f32, [ex2, rcp]: [i32; 2]) -> f32 {
    let sum = c[0] + moved(libm::exp2(f64::from(x * c[1])), ex2);
    c[2].mul_add(moved(1.0 / f64::from(sum), rcp), c[3])
}

/// Over all positive f32: the largest relative error beyond the absolute one, and the largest error.
fn worst(f: impl Fn(f32, [i32; 2]) -> f32 + Sync, exact: fn(f64) -> f64) -> (f64, f64) {
    let errors = |bits: u32| {
        let x = f32::from_bits(bits);
        let right = exact(f64::from(x));
        let error = [[-EX2, -RCP], [-EX2, RCP], [EX2, -RCP], [EX2, RCP]]
            .map(|off| (f64::from(f(x, off)) - right).abs())
            .into_iter()
            .fold(0.0, f64::max);
        (((error - ABSOLUTE) / right).max(0.0), error)
    };
    let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
    // Beyond 40, both functions give the same as at 40: 1.
    (1..=40f32.to_bits()).into_par_iter().map(errors).reduce(|| (0.0, 0.0), larger)
}

/// Prints a function's errors; gives whether they are within the bounds.
fn report(name: &str, (relative, absolute): (f64, f64)) -> bool {
    println!("{name}: relative error 2^{:.2} beside 2^-21; absolute error 2^{:.2}", relative.log2(), absolute.log2());
    relative <= RELATIVE
}

fn main() -> ExitCode {
    let of_erf = numbers("erf");
    let of_tanh = numbers("tanh");
    // erf: the bound of z, the coefficients from the highest, 1; tanh: 1, 2 / ln 2, -2, 1.
    if (of_erf.len(), of_tanh.len()) != (8, 4) {
        eprintln!("math.cuh has other formulas than this program: {of_erf:?}, {of_tanh:?}");
        return ExitCode::FAILURE;
    }
    let good = [
        report("erf", worst(|x, off| erf(&of_erf, x, off), libm::erf)),
        report("tanh", worst(|x, off| tanh(&of_tanh, x, off), libm::tanh)),
    ];
    if good.iter().all(|good| *good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
