//! Tries the short formulas of `src/device/math.cuh` on every f32: `cargo xtask approximations`.
//!
//! The formulas are computed here as on a GPU, step by step in f32. For an approximate instruction, both ends of the
//! range that PTX ISA allows are tried. Coefficients are read from the header, so there is only one list of them. The
//! errors that are printed, and the bounds they must keep, are those on which `src/evt/reference` relies. For `erf` and
//! `tanh` negative numbers need no trial, because the formulas copy the sign. `erf_beside_one` and `tanh_beside_one` are tried
//! where `erf` and `tanh` call them, and nearer 0.
//!
//! GELU is not a formula of the header, but what is made of one; its error is printed as users see it. Names of functions as
//! arguments leave out the others: all take some minutes.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

use std::process::ExitCode;

use rayon::prelude::*;

const HEADER: &str = include_str!("../../src/device/math.cuh");

/// The error of `ex2.approx.ftz.f32` by PTX ISA, 2 units of the last place, and of `rcp.approx.ftz.f32`, 1. That of
/// `lg2.approx.ftz.f32` is absolute for arguments between 1/2 and 2, and relative elsewhere.
const EX2: i32 = 2;
const RCP: i32 = 1;
const LG2: f64 = 1.0 / 4_194_304.0;

/// The bounds of functions' errors: of those that are relative near 0, too, the relative one; beside one the relative one,
/// and an absolute one added to it.
const NEAR_0: f64 = 1.0 / 46_340.0;
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

/// The numbers in the body of one of `approx11`'s functions, in order.
fn numbers(function: &str) -> Vec<f32> {
    let (_, header) = HEADER.split_once("namespace approx11 {").expect("the namespace is in the header");
    let (_, body) = header.split_once(&format!("float {function}(float x) {{")).expect("the function is in the header");
    let (body, _) = body.split_once("}\n").expect("its end");
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

/// `log1p`, with a logarithm that is wrong by a part of what it may be.
fn log1p(c: &[f32], x: f32, lg2: f64) -> f32 {
    let p = c[0].mul_add(x, c[1]).mul_add(x, c[2]);
    let sum = c[3] + x;
    let log2 = libm::log2(f64::from(sum));
    let error = if sum > 0.5 && sum < 2.0 { LG2 } else { LG2 * log2.abs() };
    if x.abs() < c[4] { x * p } else { (log2 + lg2 * error) as f32 * c[5] }
}

/// The function from `near_0` on, and below that its first term.
fn with_first_term(near_0: &[f32], x: f32, beside_one: impl FnOnce() -> f32) -> f32 {
    let (bound, factor) = (near_0[near_0.len() - 1], if near_0.len() > 1 { near_0[0] } else { 1.0 });
    if x < bound { x * factor } else { beside_one() }
}

/// `e^x`, with a power that is wrong by the given number of units.
fn exp(c: &[f32], x: f32, ex2: i32) -> f32 {
    let root = moved(libm::exp2(f64::from(x * c[0])), ex2);
    root * root
}

/// `1 / (1 + y)`, with a reciprocal that is wrong by the given number of units.
fn recip_of_sum(y: f32, rcp: i32) -> f32 {
    let scale = 2f32.powi(-64);
    moved(1.0 / f64::from(y.mul_add(scale, scale)), rcp) * scale
}

/// GELU, as `ops::gelu` makes it of `erf`, with an exponential that is wrong by the given number of units.
fn gelu(c: &[f32], x: f32, ex2: i32) -> f32 {
    let (half, z) = (0.5 * x, x * std::f32::consts::FRAC_1_SQRT_2);
    half.mul_add(erf(c, z.abs(), [ex2, 0]).copysign(z), half)
}

/// The largest error over all f32 from `-low` to `high`, relative to what `to` makes of a number and its exact result.
fn worst_signed(
    f: impl Fn(f32, i32) -> f32 + Sync,
    exact: fn(f64) -> f64,
    to: fn(f64, f64) -> f64,
    [low, high]: [f32; 2],
) -> f64 {
    let errors = |x: f32| {
        let right = exact(f64::from(x));
        let error = [-1, 1].map(|off| (f64::from(f(x, off)) - right).abs()).into_iter().fold(0.0, f64::max);
        error / to(f64::from(x), right)
    };
    let positive = (1..=high.to_bits()).into_par_iter().map(|bits| errors(f32::from_bits(bits)));
    let negative = (1..=low.to_bits()).into_par_iter().map(|bits| errors(-f32::from_bits(bits)));
    positive.chain(negative).reduce(|| 0.0, f64::max)
}

/// Over all positive f32: the largest relative error beyond an absolute one, and the largest error.
fn worst(f: impl Fn(f32, [i32; 2]) -> f32 + Sync, exact: fn(f64) -> f64, beyond: f64) -> (f64, f64) {
    let errors = |bits: u32| {
        let x = f32::from_bits(bits);
        let right = exact(f64::from(x));
        let error = [[-EX2, -RCP], [-EX2, RCP], [EX2, -RCP], [EX2, RCP]]
            .map(|off| (f64::from(f(x, off)) - right).abs())
            .into_iter()
            .fold(0.0, f64::max);
        // A subnormal result has an ULP of its own.
        (((error - beyond) / right.max(f64::from(f32::MIN_POSITIVE))).max(0.0), error)
    };
    let larger = |a: (f64, f64), b: (f64, f64)| (a.0.max(b.0), a.1.max(b.1));
    // Beyond 40, both functions give the same as at 40: 1.
    (1..=40f32.to_bits()).into_par_iter().map(errors).reduce(|| (0.0, 0.0), larger)
}

/// Prints a function's errors; gives whether they are within the bounds.
fn report(name: &str, (relative, absolute): (f64, f64), bound: f64) -> bool {
    println!("{name}: relative error 2^{:.2}; absolute error 2^{:.2}", relative.log2(), absolute.log2());
    relative <= bound
}

/// Prints a function's error relative to something; gives whether it is within a bound.
fn report_relative(name: &str, what: &str, error: f64, bound: f64) -> bool {
    println!("{name}: error 2^{:.2} of {what}", error.log2());
    error <= bound
}

fn main() -> ExitCode {
    let [of_erf, of_tanh, of_log1p, of_exp] = ["erf_beside_one", "tanh_beside_one", "log1p", "exp"].map(numbers);
    let [near_erf, near_tanh] = ["erf", "tanh"].map(numbers);
    // erf: the bound of z, the coefficients from the highest, 1; tanh: 1, 2 / ln 2, -2, 1; log1p: three coefficients, 1, the
    // bound of the series, ln 2; exp: 1 / (2 ln 2). Near 0: of erf the factor, and the bound.
    let all = [&of_erf, &of_tanh, &of_log1p, &of_exp, &near_erf, &near_tanh];
    if all.map(Vec::len) != [8, 4, 6, 1, 2, 1] {
        eprintln!("math.cuh has other formulas than this program: {all:?}");
        return ExitCode::FAILURE;
    }
    let below_one = f32::from_bits(1f32.to_bits() - 1);
    let all: [(&str, &dyn Fn() -> bool); 8] = [
        ("erf", &|| {
            let f = |x: f32, off| with_first_term(&near_erf, x, || erf(&of_erf, x, off));
            report("erf", worst(f, libm::erf, 0.0), NEAR_0)
        }),
        ("erf_beside_one", &|| {
            report("erf_beside_one", worst(|x, off| erf(&of_erf, x, off), libm::erf, ABSOLUTE), RELATIVE)
        }),
        ("tanh", &|| {
            let f = |x: f32, off| with_first_term(&near_tanh, x, || tanh(&of_tanh, x, off));
            report("tanh", worst(f, libm::tanh, 0.0), NEAR_0)
        }),
        ("tanh_beside_one", &|| {
            report("tanh_beside_one", worst(|x, off| tanh(&of_tanh, x, off), libm::tanh, ABSOLUTE), RELATIVE)
        }),
        ("exp", &|| {
            let to = |_: f64, right: f64| right.max(f64::from(f32::MIN_POSITIVE));
            let error = worst_signed(|x, off| exp(&of_exp, x, off * EX2), libm::exp, to, [104.0, 88.7]);
            report_relative("exp", "the result", error, RELATIVE)
        }),
        ("recip_of_sum", &|| {
            let f = |y: f32, [_, rcp]: [i32; 2]| recip_of_sum(y, rcp);
            // Beyond 40 nothing but the exponent changes.
            report("recip_of_sum", worst(f, |y| 1.0 / (1.0 + y), 0.0), RELATIVE)
        }),
        ("log1p", &|| {
            let f = |x: f32, off: i32| log1p(&of_log1p, x, off.into());
            // A subnormal result has an ULP of its own.
            let to = |_: f64, right: f64| right.abs().max(f64::from(f32::MIN_POSITIVE));
            let error = worst_signed(f, libm::log1p, to, [below_one, f32::MAX]);
            report_relative("log1p", "the result", error, RELATIVE)
        }),
        ("gelu", &|| {
            let f = |x: f32, off: i32| gelu(&of_erf, x, off * EX2);
            let exact = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
            let to = |x: f64, _: f64| x.abs().max(f64::from(f32::MIN_POSITIVE));
            // Further out erf is ±1 here as there, so the error is a part of x that is known.
            report_relative("gelu", "x", worst_signed(f, exact, to, [40.0; 2]), RELATIVE)
        }),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let chosen = all.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name));
    let good: Vec<bool> = chosen.map(|(_, check)| check()).collect();
    if !good.is_empty() && good.iter().all(|good| *good) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
