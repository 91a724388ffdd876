//! Correctly rounded sum, product, fused multiply-add, quotient and square root in every rounding mode.
//!
//! These work on [`Exact`] numbers of formats up to binary64 and keep a sticky bit far below the last place. So one
//! [`Format::encode`] afterwards is a single rounding. They are slow but obvious. Round-to-nearest `f32` and `f64` use
//! the processor instead (see `float`), and are tested against these.

use super::format::{Exact, Format, Rounding, Value};

/// The position of an operand's leading one before an addition. The widest operand is a 106-bit product, so at least 20
/// zero bits are below it. If cancellation is large (exponents differ by at most one), no bit is lost. If bits are
/// lost, the sticky bit is more than 60 places below the result's last place.
const NORMAL_POSITION: u32 = 125;

/// The sum of two numbers. A sum that is exactly zero has the sign that IEEE 754 §6.3 demands for the rounding mode.
pub fn add_exact(a: Exact, b: Exact, rounding: Rounding) -> Exact {
    if a.is_zero() && b.is_zero() {
        let negative = if a.negative == b.negative { a.negative } else { rounding == Rounding::Down };
        return Exact::zero(negative);
    }
    if a.is_zero() {
        return b;
    }
    if b.is_zero() {
        return a;
    }
    let (mut high, mut low) = (a.normalised(NORMAL_POSITION), b.normalised(NORMAL_POSITION));
    if low.exponent > high.exponent {
        (high, low) = (low, high);
    }
    let shift = (high.exponent - low.exponent) as u32;
    let aligned =
        if shift > 127 { 1 } else { (low.mantissa >> shift) | u128::from(low.mantissa & ((1u128 << shift) - 1) != 0) };
    if high.negative == low.negative {
        return Exact { mantissa: high.mantissa + aligned, ..high };
    }
    match high.mantissa.cmp(&aligned) {
        std::cmp::Ordering::Equal => Exact::zero(rounding == Rounding::Down),
        std::cmp::Ordering::Greater => Exact { mantissa: high.mantissa - aligned, ..high },
        std::cmp::Ordering::Less => {
            Exact { mantissa: aligned - high.mantissa, negative: low.negative, exponent: high.exponent }
        }
    }
}

/// The exact product of two numbers of at most 64 significant bits each.
pub fn multiply_exact(a: Exact, b: Exact) -> Exact {
    Exact { negative: a.negative != b.negative, mantissa: a.mantissa * b.mantissa, exponent: a.exponent + b.exponent }
}

/// `a + b` in a format, rounded once.
pub fn add(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {
    format.encode_value(add_values(format.decode(a), format.decode(b), rounding), rounding)
}

fn add_values(a: Value, b: Value, rounding: Rounding) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(x), Value::Infinite(y)) if x != y => Value::Nan,
        (Value::Infinite(x), _) | (_, Value::Infinite(x)) => Value::Infinite(x),
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(add_exact(x, y, rounding)),
    }
}

fn multiply_values(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(x), Value::Infinite(y)) => Value::Infinite(x != y),
        (Value::Infinite(x), Value::Finite(y)) | (Value::Finite(y), Value::Infinite(x)) => {
            if y.is_zero() {
                Value::Nan
            } else {
                Value::Infinite(x != y.negative)
            }
        }
        (Value::Finite(x), Value::Finite(y)) => Value::Finite(multiply_exact(x, y)),
    }
}

/// `a · b` in a format, rounded once.
pub fn multiply(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {
    format.encode_value(multiply_values(format.decode(a), format.decode(b)), rounding)
}

/// `a · b + c` in a format, rounded once.
pub fn fma(format: Format, a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
    let product = multiply_values(format.decode(a), format.decode(b));
    format.encode_value(add_values(product, format.decode(c), rounding), rounding)
}

/// `a / b` in a format, rounded once.
pub fn divide(format: Format, a: u64, b: u64, rounding: Rounding) -> u64 {
    let value = match (format.decode(a), format.decode(b)) {
        (Value::Nan, _) | (_, Value::Nan) | (Value::Infinite(_), Value::Infinite(_)) => Value::Nan,
        (Value::Infinite(x), Value::Finite(y)) => Value::Infinite(x != y.negative),
        (Value::Finite(x), Value::Infinite(y)) => Value::Finite(Exact::zero(x.negative != y)),
        (Value::Finite(x), Value::Finite(y)) => match (x.is_zero(), y.is_zero()) {
            (true, true) => Value::Nan,
            (false, true) => Value::Infinite(x.negative != y.negative),
            _ => Value::Finite(divide_exact(x, y)),
        },
    };
    format.encode_value(value, rounding)
}

/// The quotient with at least 70 significant bits and a sticky bit; `b` is not zero.
fn divide_exact(a: Exact, b: Exact) -> Exact {
    let (a, b) = (a.normalised(126), b.normalised(54));
    let (quotient, remainder) = (a.mantissa / b.mantissa, a.mantissa % b.mantissa);
    Exact {
        negative: a.negative != b.negative,
        mantissa: quotient | u128::from(remainder != 0),
        exponent: a.exponent - b.exponent,
    }
}

/// The square root in a format, rounded once. The root of −0 is −0; that of any other negative number is NaN.
pub fn sqrt(format: Format, a: u64, rounding: Rounding) -> u64 {
    let value = match format.decode(a) {
        Value::Finite(x) if x.is_zero() => Value::Finite(x),
        Value::Finite(x) if !x.negative => {
            let x = x.normalised(125);
            // The radicand needs an even exponent; bit 126 is free for the shift.
            let odd = x.exponent.rem_euclid(2);
            let (radicand, exponent) = (x.mantissa << odd, x.exponent - odd);
            let root = radicand.isqrt();
            Value::Finite(Exact {
                negative: false,
                mantissa: root << 1 | u128::from(root * root != radicand),
                exponent: exponent / 2 - 1,
            })
        }
        Value::Infinite(false) => Value::Infinite(false),
        _ => Value::Nan,
    };
    format.encode_value(value, rounding)
}

#[cfg(test)]
mod tests {
    use super::super::format::{F32, F64};
    use super::*;
    use proptest::prelude::*;

    /// Random bits, and bits whose exponents lie close together so that cancellation and carries happen.
    fn interesting_f64() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<u64>().prop_map(f64::from_bits),
            (any::<u64>(), 1020u64..1028).prop_map(|(m, e)| f64::from_bits((m & 0x800f_ffff_ffff_ffff) | e << 52)),
            (any::<u64>(), 0u64..3).prop_map(|(m, e)| f64::from_bits((m & 0x800f_ffff_ffff_ffff) | e << 52)),
            (0i32..64, any::<bool>()).prop_map(|(k, n)| if n { -(2f64.powi(k)) } else { 2f64.powi(-k) }),
        ]
    }

    fn interesting_f32() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<u32>().prop_map(f32::from_bits),
            (any::<u32>(), 124u32..131).prop_map(|(m, e)| f32::from_bits((m & 0x807f_ffff) | e << 23)),
            (any::<u32>(), 0u32..3).prop_map(|(m, e)| f32::from_bits((m & 0x807f_ffff) | e << 23)),
        ]
    }

    fn same64(ours: u64, native: f64) -> Result<(), TestCaseError> {
        if native.is_nan() {
            prop_assert_eq!(ours, F64.canonical_nan());
        } else {
            prop_assert_eq!(ours, native.to_bits(), "{} against {}", f64::from_bits(ours), native);
        }
        Ok(())
    }

    fn same32(ours: u64, native: f32) -> Result<(), TestCaseError> {
        if native.is_nan() {
            prop_assert_eq!(ours, F32.canonical_nan());
        } else {
            prop_assert_eq!(ours, u64::from(native.to_bits()), "{} against {}", f32::from_bits(ours as u32), native);
        }
        Ok(())
    }

    const RN: Rounding = Rounding::NearestEven;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn f64_agrees_with_the_processor(a in interesting_f64(), b in interesting_f64(), c in interesting_f64()) {
            let (x, y, z) = (a.to_bits(), b.to_bits(), c.to_bits());
            same64(add(F64, x, y, RN), a + b)?;
            same64(multiply(F64, x, y, RN), a * b)?;
            same64(fma(F64, x, y, z, RN), a.mul_add(b, c))?;
            same64(divide(F64, x, y, RN), a / b)?;
            same64(sqrt(F64, x, RN), a.sqrt())?;
        }

        #[test]
        fn f32_agrees_with_the_processor(a in interesting_f32(), b in interesting_f32(), c in interesting_f32()) {
            let (x, y, z) = (a.to_bits().into(), b.to_bits().into(), c.to_bits().into());
            same32(add(F32, x, y, RN), a + b)?;
            same32(multiply(F32, x, y, RN), a * b)?;
            same32(fma(F32, x, y, z, RN), a.mul_add(b, c))?;
            same32(divide(F32, x, y, RN), a / b)?;
            same32(sqrt(F32, x, RN), a.sqrt())?;
        }

        /// The directed results enclose the nearest one and are at most one unit apart.
        #[test]
        fn directed_results_are_neighbours(a in interesting_f32(), b in interesting_f32(), c in interesting_f32()) {
            let (x, y, z) = (a.to_bits().into(), b.to_bits().into(), c.to_bits().into());
            for operation in 0..4 {
                let at = |rounding| f32::from_bits(match operation {
                    0 => add(F32, x, y, rounding),
                    1 => fma(F32, x, y, z, rounding),
                    2 => divide(F32, x, y, rounding),
                    _ => sqrt(F32, x, rounding),
                } as u32);
                let (down, up, nearest, zero) = (at(Rounding::Down), at(Rounding::Up), at(RN), at(Rounding::TowardZero));
                if nearest.is_nan() {
                    prop_assert!(down.is_nan() && up.is_nan() && zero.is_nan());
                    continue;
                }
                prop_assert!(down <= nearest && nearest <= up);
                prop_assert!(up == down || up == down.next_up());
                prop_assert!(zero.abs() == down.abs().min(up.abs()));
            }
        }
    }

    #[test]
    fn zero_signs() {
        let (plus, minus) = (0u64, F32.sign_bit());
        for rounding in Rounding::ALL {
            let expected = if rounding == Rounding::Down { minus } else { plus };
            assert_eq!(add(F32, plus, minus, rounding), expected);
            assert_eq!(add(F32, minus, minus, rounding), minus);
            let one = u64::from(1f32.to_bits());
            assert_eq!(fma(F32, one, one, u64::from((-1f32).to_bits()), rounding), expected);
        }
    }
}
