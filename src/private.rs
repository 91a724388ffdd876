//! Items that the macros' expansion calls. They are not part of the public interface.

use crate::{ElementType, EpilogueElement};

/// The larger of two call depths. The depth of an `#[elementwise]` function is one more than that of its deepest
/// callee, evaluated at compile time. So a function that calls itself, even through others, is a compile error, not a
/// deadlock at run time.
#[must_use]
pub const fn deeper(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}

/// `x.cast::<T>()` on the host: rounds to `T` and back, integers and narrow floats saturating.
#[must_use]
pub fn cast<T: EpilogueElement>(x: f32) -> f32 {
    round(T::ELEMENT, x)
}

/// `reduction_op(x, axis, Any)` and `All`, for one element.
#[must_use]
pub const fn reduction_of_truths(x: bool) -> bool {
    x
}

/// `reduction_op(x, axis, ArgMax)` and `ArgMin`, for one element.
#[must_use]
pub const fn reduction_to_index(_x: f32) -> i64 {
    0
}

/// `reduction_op(x, axis, own)`, for one element; the function gives the reducer.
#[must_use]
pub fn reduction_by(x: f32, _reducer: fn() -> &'static crate::evt::Reducer) -> f32 {
    x
}

/// The parts of `#[epilogue(backward(…))]`, by names, and the place of that word.
#[derive(Debug)]
pub struct BackwardOf {
    /// The output whose gradient is the accumulator.
    pub through: &'static str,
    /// Outputs whose gradients are parameters.
    pub given: &'static [&'static str],
    /// Outputs that are read.
    pub saved: &'static [&'static str],
    /// Parameters whose gradients are results.
    pub gradients: &'static [&'static str],
    /// Parameters whose gradients are summed over the batch.
    pub gradients_of_all: &'static [&'static str],
    /// Line and column, from 1.
    pub place: (u32, u32),
}

/// The tree of a backward pass, or one whose validation says why there is none.
#[must_use]
pub fn backward(forward: &crate::evt::Tree, of: &BackwardOf) -> crate::evt::Tree {
    let mut backward = crate::evt::derive::Backward::of(forward, of.through).all_parameters();
    backward = of.given.iter().fold(backward, |backward, name| backward.given(name));
    backward = of.saved.iter().fold(backward, |backward, name| backward.saved(name));
    backward = of.gradients.iter().fold(backward, |backward, name| backward.gradient(name));
    backward = of.gradients_of_all.iter().fold(backward, |backward, name| backward.gradient_of_all(name));
    let (line, column) = of.place;
    backward.tree_or_refusal(crate::evt::Site { line, column })
}

/// Rounds to an element type, ties to even, and back.
#[expect(clippy::cast_possible_truncation)]
fn round(to: ElementType, x: f32) -> f32 {
    match to {
        ElementType::F16 => half::f16::from_f32(x).to_f32(),
        ElementType::BF16 => half::bf16::from_f32(x).to_f32(),
        ElementType::F8E4M3 => narrow(x, 3, -6, 448.0),
        ElementType::F8E5M2 => narrow(x, 2, -14, 57344.0),
        // `as` saturates and makes NaN 0 (Rust reference, "Numeric cast").
        ElementType::I64 => x.round_ties_even() as i64 as f32,
        ElementType::I32 => x.round_ties_even() as i32 as f32,
        ElementType::I8 => f32::from(x.round_ties_even() as i8),
        ElementType::U8 => f32::from(x.round_ties_even() as u8),
        // `ElementType` may grow; types wider than f32 keep the value.
        _ => x,
    }
}

/// Rounds to a float of `mantissa` bits whose smallest normal exponent is `lowest`; beyond `largest` it saturates.
fn narrow(x: f32, mantissa: i32, lowest: i32, largest: f32) -> f32 {
    if x == 0.0 || x.is_nan() {
        return x;
    }
    let exponent = libm::ilogb(f64::from(x)).max(lowest);
    let unit = libm::exp2(f64::from(exponent - mantissa));
    #[expect(clippy::cast_possible_truncation)]
    let rounded = ((f64::from(x) / unit).round_ties_even() * unit) as f32;
    rounded.clamp(-largest, largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_round_to_nearest_even_and_saturate() {
        assert_eq!(cast::<half::f16>(1.0 + 1.0 / 2048.0), 1.0);
        assert_eq!(cast::<half::f16>(1.0 + 3.0 / 2048.0), 1.0 + 4.0 / 2048.0);
        assert_eq!(cast::<half::bf16>(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(cast::<i8>(2.5), 2.0);
        assert_eq!(cast::<i8>(-1e9), -128.0);
        assert_eq!(cast::<u8>(-3.0), 0.0);
        assert_eq!(cast::<u8>(f32::NAN), 0.0);
        assert_eq!(cast::<f32>(0.1), 0.1);
        assert_eq!(cast::<f64>(0.1), 0.1);
    }

    #[test]
    fn eight_bit_floats() {
        // E4M3: steps of 1/8 from 1, of 32 from 256; the smallest subnormal is 2^-9.
        assert_eq!(round(ElementType::F8E4M3, 1.0625), 1.0);
        assert_eq!(round(ElementType::F8E4M3, 1.1875), 1.25);
        assert_eq!(round(ElementType::F8E4M3, 1e9), 448.0);
        assert_eq!(round(ElementType::F8E4M3, 0.003), 1.0 / 512.0 * 2.0);
        assert_eq!(round(ElementType::F8E5M2, 1.125), 1.0);
        assert_eq!(round(ElementType::F8E5M2, -70000.0), -57344.0);
        assert!(round(ElementType::F8E5M2, f32::NAN).is_nan());
    }
}
