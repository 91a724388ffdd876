//! Accuracy of the vector functions against f64, over f32s of every magnitude.

use super::{apply, fma_by_f64};
use crate::expr::Op;
use crate::level::at_every_level;

/// The error of `got` in units in the last place of an f32 near `want`; infinite if only one is NaN, or if infinities
/// or the sign of zero differ.
fn ulp(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == rounded {
        let signs_differ = want == 0.0 && got.is_sign_negative() != want.is_sign_negative();
        return if signs_differ { f64::INFINITY } else { half_ulp_or_less(got, want) };
    }
    // After the largest f32, infinity is the next value.
    let wide = |x: f32| if x.is_infinite() { 2f64.powi(128).copysign(x.into()) } else { f64::from(x) };
    if got.is_infinite() && rounded.is_finite() && wide(got) - want.abs() > 2f64.powi(105) {
        return f64::INFINITY;
    }
    (wide(got) - want).abs() / unit(want)
}

fn half_ulp_or_less(got: f32, want: f64) -> f64 {
    if got.is_infinite() { 0.0 } else { (f64::from(got) - want).abs() / unit(want) }
}

fn unit(want: f64) -> f64 {
    let exponent = if want == 0.0 { -126 } else { (want.abs().log2().floor() as i32).clamp(-126, 127) };
    2f64.powi(exponent - 23)
}

/// One f32 in `step`, of all signs and magnitudes, and the special values.
fn samples(step: usize) -> Vec<f32> {
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    special.into_iter().chain((0..=u32::MAX).step_by(step).map(f32::from_bits)).collect()
}

/// A function, what it should give, and the bound in ULP.
type Case = (Op, fn(f64) -> f64, f64);

const CASES: [Case; 17] = [
    (Op::Exp, libm::exp, 1.0),
    (Op::Exp2, libm::exp2, 1.0),
    (Op::Log, libm::log, 1.0),
    (Op::Log2, libm::log2, 0.51),
    (Op::Log1p, libm::log1p, 1.0),
    (Op::Tanh, libm::tanh, 1.5),
    (Op::Erf, libm::erf, 1.5),
    (Op::Sin, libm::sin, 0.51),
    (Op::Cos, libm::cos, 0.51),
    (Op::Rsqrt, |x| 1.0 / x.sqrt(), 0.51),
    (Op::Recip, |x| 1.0 / x, 0.5),
    (Op::Sqrt, f64::sqrt, 0.5),
    (Op::Floor, f64::floor, 0.0),
    (Op::Ceil, f64::ceil, 0.0),
    (Op::Round, f64::round, 0.0),
    (Op::Neg, |x| -x, 0.0),
    (Op::Abs, f64::abs, 0.0),
];

#[test]
fn functions_of_one_argument_keep_their_bounds() {
    let x = samples(20_011);
    let mut y = vec![0.0; x.len()];
    for (op, exact, bound) in CASES {
        apply(op, &mut y, [&x; 3]);
        for (&x, &y) in x.iter().zip(&y) {
            let error = ulp(y, exact(x.into()));
            assert!(error <= bound, "{op:?}({x:e}) = {y:e}: {error} ULP");
        }
    }
}

/// On a CPU without fused multiply-add, too.
#[test]
fn functions_have_the_same_bits_at_every_level() {
    let x = samples(200_003);
    let wide: Vec<f64> = x.iter().map(|x| f64::from(*x) * 1.000_000_3).collect();
    for (op, ..) in CASES {
        let levels = at_every_level(|| {
            let (mut y, mut z) = (vec![0f32; x.len()], vec![0f64; x.len()]);
            apply(op, &mut y, [&x; 3]);
            apply(op, &mut z, [&wide; 3]);
            // The bits of a NaN are nobody's promise.
            let bits = y.iter().map(|y| if y.is_nan() { 0 } else { y.to_bits() });
            let wide_bits = z.iter().map(|z| if z.is_nan() { 0 } else { z.to_bits() });
            (bits.collect::<Vec<u32>>(), wide_bits.collect::<Vec<u64>>())
        });
        assert!(levels.iter().all(|level| *level == levels[0]), "{op:?}");
    }
}

#[test]
fn fused_multiply_add_by_f64_is_rounded_once() {
    let mut random = fastrand::Rng::with_seed(7);
    let special = samples(u32::MAX as usize);
    let check = |a: f32, b: f32, c: f32| {
        let (got, want) = (fma_by_f64(a, b, c), a.mul_add(b, c));
        let same = (got.is_nan() && want.is_nan()) || got.to_bits() == want.to_bits();
        assert!(same, "{a:e} · {b:e} + {c:e} = {got:e}, not {want:e}");
    };
    for &a in &special {
        for &b in &special {
            special.iter().for_each(|&c| check(a, b, c));
        }
    }
    for _ in 0..300_000 {
        let [a, b, c] = [(); 3].map(|()| f32::from_bits(random.u32(..)));
        check(a, b, c);
        // Numbers of one magnitude, some of few bits: sums cancel, and halves between two f32s are met.
        let few = |x: f32, zeros: u32| f32::from_bits(x.to_bits() >> zeros << zeros);
        let near = |x: f32| f32::from_bits((x.to_bits() & 0x80ff_ffff) | 0x3f00_0000);
        let [a, b, c] = [few(near(a), random.u32(..23)), few(near(b), random.u32(..23)), near(c)];
        check(a, b, c);
        check(a, b, -(a * b));
        // A sum that a tiny addend takes off a half.
        let tiny = [f32::MIN_POSITIVE, 1e-45, 2f32.powi(-random.i32(20..60))][random.usize(..3)];
        let b = 1.0 + f32::EPSILON * f32::from(random.u8(..8));
        check(a, b, if random.bool() { tiny } else { -tiny });
        // Results below the normal numbers.
        check(a * 2f32.powi(-70), b * 2f32.powi(-random.i32(50..75)), c * 2f32.powi(-random.i32(120..127)));
    }
}

#[test]
fn power_keeps_its_bound_and_special_cases() {
    let special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let mut pairs: Vec<(f32, f32)> = special.iter().flat_map(|&x| special.iter().map(move |&y| (x, y))).collect();
    // A base of any magnitude, with an exponent for which the result is in range or just beyond.
    for (i, x) in samples(200_003).into_iter().enumerate() {
        let largest = 130.0 / x.abs().log2().abs().max(1e-6);
        pairs.push((x, largest * ((i % 201) as f32 / 100.0 - 1.0)));
        pairs.push((x, (i % 9) as f32 - 4.0));
    }
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    let mut z = vec![0.0; x.len()];
    apply(Op::Pow, &mut z, [&x, &y, &y]);
    for ((&x, &y), &z) in x.iter().zip(&y).zip(&z) {
        let error = ulp(z, libm::pow(x.into(), y.into()));
        assert!(error <= 0.6, "{x:e}^{y:e} = {z:e}: {error} ULP");
    }
}

#[test]
fn least_and_greatest_pass_nan_and_order_zeros() {
    let x = [1.0f32, f32::NAN, 2.0, 0.0, -0.0, f32::NEG_INFINITY];
    let y = [2.0f32, 1.0, f32::NAN, -0.0, 0.0, f32::INFINITY];
    let mut z = [0.0f32; 6];
    apply(Op::Min, &mut z, [&x, &y, &y]);
    assert!(z[0] == 1.0 && z[1].is_nan() && z[2].is_nan() && z[5] == f32::NEG_INFINITY);
    assert!(z[3].is_sign_negative() && z[4].is_sign_negative());
    apply(Op::Max, &mut z, [&x, &y, &y]);
    assert!(z[0] == 2.0 && z[1].is_nan() && z[2].is_nan() && z[5] == f32::INFINITY);
    assert!(z[3].is_sign_positive() && z[4].is_sign_positive());
}

/// A function, and [`libm`]'s.
type WideCase = (Op, fn(f64) -> f64);

#[test]
fn functions_in_f64_are_within_two_units_of_libm() {
    // libm itself is within 1 ULP; its error is added to the bound.
    let cases: [WideCase; 7] = [
        (Op::Exp, libm::exp),
        (Op::Exp2, libm::exp2),
        (Op::Log, libm::log),
        (Op::Log2, libm::log2),
        (Op::Tanh, libm::tanh),
        (Op::Sin, libm::sin),
        (Op::Cos, libm::cos),
    ];
    let special = [0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE, 5e-324];
    let step = 0x0003_1415_9265_3589u64;
    let x: Vec<f64> = special
        .into_iter()
        .chain((0..=u64::MAX / step).map(|i| f64::from_bits(i * step)))
        .chain((0..20_000u32).map(|i| (f64::from(i) - 10_000.0) * 0.000_712_345))
        .chain((0..20_000u32).map(|i| (f64::from(i) - 10_000.0) * 0.071_234_5))
        .collect();
    let mut y = vec![0.0; x.len()];
    for (op, exact) in cases {
        apply(op, &mut y, [&x; 3]);
        for (&x, &y) in x.iter().zip(&y) {
            let want = exact(x);
            let steps = |got: f64| {
                let same = (got.is_nan() && want.is_nan()) || got.to_bits() == want.to_bits();
                if same { 0 } else { got.to_bits().abs_diff(want.to_bits()) }
            };
            assert!(steps(y) <= 3, "{op:?}({x:e}) = {y:e}, not {want:e}");
        }
    }
}
