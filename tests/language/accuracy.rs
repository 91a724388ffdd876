//! Results of 16 bits on GPUs, for every f16 and bf16 there is.
//!
//! Each must be the exact one rounded to its type, but for a little more: what the approximate functions may be wrong by,
//! and what is lost where a formula's terms cancel. That is at most four times the result itself, so nothing large comes
//! where the exact result is all but 0.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use epilogue::evt::reference::{decode, round};
use epilogue::evt::{BroadcastClass, TreeBuilder, Types, ValidTree};
use epilogue::expr::Function;
use epilogue::ops::{erf, tanh};
use epilogue::prelude::elementwise;
use epilogue::{Device, ElementType, ops};
use epilogue_runtime::{Arch, testing};

use crate::expressions::run;

/// A function, the exact one, and the largest error of the formula at an operand where its terms cancel or overflow.
struct Tried {
    function: &'static Function,
    exact: fn(f64) -> f64,
    error: fn(f64) -> f64,
}

/// As users write it: NaN at −∞.
#[elementwise]
fn own_gelu(x: f32) -> f32 {
    x * (1.0 + erf(x))
}

#[elementwise]
fn own_gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + tanh(x))
}

#[elementwise]
fn own_tail(x: f32) -> f32 {
    let half = 0.5 * x;
    half - tanh(x) * half
}

/// At −∞ the limit of `x * f(x)`.
fn times(x: f64, f: f64) -> f64 {
    if x.is_infinite() && f == 0.0 { 0.0 } else { x * f }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// `2 u`, and its slope.
fn twice_inner(x: f64) -> (f64, f64) {
    let c = 2.0 * (2.0 / PI).sqrt();
    (c * (x + 0.044715 * x * x * x), c * (1.0 + 0.134145 * x * x))
}

/// If an exponential of f32 overflows, its reciprocal is 0.
fn overflow(x: f64) -> f64 {
    (2.0 + x.abs().min(200.0)) * 2f64.powi(-127)
}

fn tried() -> Vec<Tried> {
    let of = |function, exact, error| Tried { function, exact, error };
    vec![
        of(
            ops::gelu::function(),
            |x| times(x, 0.5 * libm::erfc(-x * FRAC_1_SQRT_2)),
            |x| if x < 0.0 { -x * 2f64.powi(-25) } else { 0.0 },
        ),
        of(ops::gelu_tanh::function(), |x| times(x, sigmoid(twice_inner(x).0)), overflow),
        of(ops::silu::function(), |x| times(x, sigmoid(x)), overflow),
        of(own_gelu::function(), |x| x * libm::erfc(-x), |x| if x < 0.0 { -x * 2f64.powi(-24) } else { 0.0 }),
        of(own_gelu_tanh::function(), |x| x * sigmoid(2.0 * x), |x| if x < 0.0 { -x * 2f64.powi(-22) } else { 0.0 }),
        of(own_tail::function(), |x| x * sigmoid(-2.0 * x), |x| if x > 0.0 { x * 2f64.powi(-22) } else { 0.0 }),
        of(
            ops::gelu_grad::function(),
            |x| {
                let x = x.clamp(-1e3, 1e3);
                0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + x * libm::exp(-0.5 * x * x) / (2.0 * PI).sqrt()
            },
            // Its zero is near -0.75.
            |x| if x.abs() < 1.5 { 2f64.powi(-18) } else { 2f64.powi(-24) },
        ),
        of(
            ops::gelu_tanh_grad::function(),
            |x| {
                let (z, slope) = twice_inner(x.clamp(-1e3, 1e3));
                sigmoid(z) + x.clamp(-1e3, 1e3) * sigmoid(z) * sigmoid(-z) * slope
            },
            |x| if x.abs() < 1.5 { 2f64.powi(-20) } else { overflow(64.0 * x) },
        ),
        of(
            ops::silu_grad::function(),
            |x| {
                let x = x.clamp(-1e3, 1e3);
                sigmoid(x) * (1.0 + x * sigmoid(-x))
            },
            |x| if x.abs() < 3.0 { 2f64.powi(-20) } else { overflow(x) },
        ),
        of(ops::sigmoid::function(), sigmoid, overflow),
        of(ops::sigmoid_grad::function(), |x| sigmoid(x) * sigmoid(-x), overflow),
        of(tanh::function(), libm::tanh, |_| 0.0),
        of(ops::tanh_grad::function(), |x| 4.0 * sigmoid(2.0 * x) * sigmoid(-2.0 * x), |_| 2f64.powi(-21)),
        of(erf::function(), libm::erf, |_| 0.0),
        of(ops::erf_grad::function(), |x| 2.0 / PI.sqrt() * libm::exp(-x * x), |_| 2f64.powi(-148)),
        of(ops::exp::function(), libm::exp, |_| 2f64.powi(-148)),
        of(ops::exp2::function(), libm::exp2, |_| 2f64.powi(-148)),
        of(ops::softplus::function(), |x| if x > 40.0 { x } else { libm::log1p(libm::exp(x)) }, |_| 2f64.powi(-148)),
        of(ops::hardswish::function(), |x| times(x, (x + 3.0).clamp(0.0, 6.0) / 6.0), |_| 0.0),
        of(ops::log1p::function(), libm::log1p, |_| 0.0),
        of(ops::recip::function(), |x| 1.0 / x, |_| 0.0),
    ]
}

/// Half a unit in the last place, and the largest number, of a type.
fn rounding(element: ElementType, exact: f64) -> (f64, f64) {
    let (bits, least, largest) = match element {
        ElementType::F16 => (11, -14, 65504.0),
        _ => (8, -126, f64::from(f32::from_bits(0x7f7f_0000))),
    };
    let exponent = if exact == 0.0 { least } else { (exact.abs().log2().floor() as i32).max(least) };
    (2f64.powi(exponent - bits), largest)
}

fn tree(functions: &[Tried], element: ElementType) -> ValidTree {
    let mut b = TreeBuilder::new("every", "every.rs");
    let x = b.accum("x");
    for (i, tried) in functions.iter().enumerate() {
        let d = b.call(tried.function, &[x]);
        b.output(Box::leak(format!("d{i}").into_boxed_str()), d, BroadcastClass::Tensor, Some(element));
    }
    b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).unwrap()
}

#[test]
fn results_of_16_bits_are_right_for_every_number() {
    let Some(_) = testing::compiler("results_of_16_bits_are_right_for_every_number") else { return };
    let functions = tried();
    for element in [ElementType::F16, ElementType::BF16] {
        let every: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let x = decode(element, &every);
        // The approximate functions' own error.
        let relative = if element == ElementType::F16 { 2f64.powi(-14) } else { 2f64.powf(-10.9) };
        let tree = tree(&functions, element);
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let device = Device::emulated(arch).unwrap();
            let results = run(&device, &tree, std::slice::from_ref(&x), x.len(), false);
            let mut wrong = Vec::new();
            for (tried, results) in functions.iter().zip(&results) {
                let name = tried.function.name();
                for (x, result) in x.iter().zip(results) {
                    let exact = (tried.exact)(*x);
                    let (half, largest) = rounding(element, exact);
                    let error = (tried.error)(*x).min(4.0 * exact.abs()) + relative * exact.abs();
                    let good = if exact.is_nan() || exact.is_infinite() || result.is_infinite() {
                        (exact.is_nan() && result.is_nan())
                            || round(element, exact) == *result
                            || (result.is_infinite() && exact.abs() >= largest && exact * result > 0.0)
                    } else {
                        (result - exact).abs() <= half + error
                    };
                    if !good {
                        let units = (result - exact).abs() / (2.0 * half);
                        wrong.push(format!(
                            "{name}({x:e}) as {element} on {arch}: {result:e}, not {exact:e}, {units} ULP"
                        ));
                    }
                }
            }
            let shown: Vec<&str> = wrong.iter().step_by(wrong.len().div_ceil(40).max(1)).map(String::as_str).collect();
            assert!(wrong.is_empty(), "{} wrong results, as\n{}", wrong.len(), shown.join("\n"));
        }
    }
}
