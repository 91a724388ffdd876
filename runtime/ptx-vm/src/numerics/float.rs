//! `.f32` and `.f64` arithmetic (PTX ISA 9.7.3).
//!
//! Round-to-nearest forms are native operations and branch-free, for loops over 32 lanes; the directed modes go through
//! [`exact`]. A NaN result of an `.f32` instruction is `0x7fffffff`, as on sm_80 and sm_90 (the document leaves it
//! open). `.f64` NaN payloads are those of the processor.
//!
//! The const parameter `FLUSH` is `.ftz`: subnormal inputs and results become zeros of the same sign. Whether a result
//! is subnormal is decided after rounding. `SATURATE` is `.sat`: clamp to `[0, 1]`, NaN to +0.

use super::exact;
use super::format::{F32, F64, Format, Rounding};

/// The NaN that `.f32` instructions generate.
pub const NAN_F32: f32 = f32::from_bits(0x7fff_ffff);

/// Replaces a subnormal by a zero of the same sign.
#[inline(always)]
pub fn flush_f32(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Replaces any NaN by the one that PTX instructions generate.
#[inline(always)]
pub fn canonical_f32(x: f32) -> f32 {
    // On integers, because the optimiser may remove a floating-point selection between two NaN.
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff_ffff } else { bits })
}

/// `.sat`.
#[inline(always)]
pub fn saturate_f32(x: f32) -> f32 {
    // Both comparisons are false for NaN, and the first is false for -0.
    let positive = if x > 0.0 { x } else { 0.0 };
    if positive < 1.0 { positive } else { 1.0 }
}

#[inline(always)]
fn input<const FLUSH: bool>(x: f32) -> f32 {
    if FLUSH { flush_f32(x) } else { x }
}

#[inline(always)]
fn output<const FLUSH: bool, const SATURATE: bool>(x: f32) -> f32 {
    let x = if FLUSH { flush_f32(x) } else { x };
    if SATURATE { saturate_f32(x) } else { canonical_f32(x) }
}

/// `add.rn{.ftz}{.sat}.f32`. A subtraction is an addition of `-b`.
#[inline(always)]
pub fn add_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {
    output::<FLUSH, SATURATE>(input::<FLUSH>(a) + input::<FLUSH>(b))
}

/// `sub.rn{.ftz}{.sat}.f32`.
#[inline(always)]
pub fn sub_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {
    output::<FLUSH, SATURATE>(input::<FLUSH>(a) - input::<FLUSH>(b))
}

/// `mul.rn{.ftz}{.sat}.f32`.
#[inline(always)]
pub fn mul_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32) -> f32 {
    output::<FLUSH, SATURATE>(input::<FLUSH>(a) * input::<FLUSH>(b))
}

/// `fma.rn{.ftz}{.sat}.f32`. It is fast only inside a function that is compiled for a processor with FMA instructions.
#[inline(always)]
pub fn fma_f32<const FLUSH: bool, const SATURATE: bool>(a: f32, b: f32, c: f32) -> f32 {
    output::<FLUSH, SATURATE>(input::<FLUSH>(a).mul_add(input::<FLUSH>(b), input::<FLUSH>(c)))
}

/// `div.rn{.ftz}.f32`.
#[inline(always)]
pub fn div_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {
    output::<FLUSH, false>(input::<FLUSH>(a) / input::<FLUSH>(b))
}

/// `sqrt.rn{.ftz}.f32`.
#[inline(always)]
pub fn sqrt_f32<const FLUSH: bool>(a: f32) -> f32 {
    output::<FLUSH, false>(input::<FLUSH>(a).sqrt())
}

/// The modifiers of an `.f32` instruction, if they are not known at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FloatMode {
    /// `.rn`, `.rz`, `.rm` or `.rp`.
    pub rounding: Rounding,
    /// `.ftz`.
    pub flush: bool,
    /// `.sat`.
    pub saturate: bool,
}

impl FloatMode {
    fn apply(self, operation: impl Fn([u64; 3]) -> u64, operands: [f32; 3]) -> f32 {
        let operands = if self.flush { operands.map(flush_f32) } else { operands };
        let result = f32::from_bits(operation(operands.map(|x| x.to_bits().into())) as u32);
        let result = if self.flush { flush_f32(result) } else { result };
        if self.saturate { saturate_f32(result) } else { result }
    }

    /// `add{.rnd}{.ftz}{.sat}.f32`.
    pub fn add(self, a: f32, b: f32) -> f32 {
        self.apply(|[a, b, _]| exact::add(F32, a, b, self.rounding), [a, b, 0.0])
    }

    /// `sub{.rnd}{.ftz}{.sat}.f32`.
    pub fn sub(self, a: f32, b: f32) -> f32 {
        // NaN stays NaN under negation, so the change of sign is exact for every operand.
        self.add(a, -b)
    }

    /// `mul{.rnd}{.ftz}{.sat}.f32`.
    pub fn mul(self, a: f32, b: f32) -> f32 {
        self.apply(|[a, b, _]| exact::multiply(F32, a, b, self.rounding), [a, b, 0.0])
    }

    /// `fma{.rnd}{.ftz}{.sat}.f32`.
    pub fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        self.apply(|[a, b, c]| exact::fma(F32, a, b, c, self.rounding), [a, b, c])
    }

    /// `div{.rnd}{.ftz}.f32`.
    pub fn div(self, a: f32, b: f32) -> f32 {
        self.apply(|[a, b, _]| exact::divide(F32, a, b, self.rounding), [a, b, 0.0])
    }

    /// `rcp{.rnd}{.ftz}.f32`.
    pub fn rcp(self, a: f32) -> f32 {
        self.div(1.0, a)
    }

    /// `sqrt{.rnd}{.ftz}.f32`.
    pub fn sqrt(self, a: f32) -> f32 {
        self.apply(|[a, _, _]| exact::sqrt(F32, a, self.rounding), [a, 0.0, 0.0])
    }
}

/// `.f64` arithmetic in a given rounding mode; `.rn` is native.
pub mod double {
    use super::{F64, Rounding, exact};

    fn directed(result: u64) -> f64 {
        f64::from_bits(result)
    }

    /// `add{.rnd}.f64`.
    pub fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a + b,
            _ => directed(exact::add(F64, a.to_bits(), b.to_bits(), rounding)),
        }
    }

    /// `sub{.rnd}.f64`.
    pub fn sub(a: f64, b: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a - b,
            _ => add(a, -b, rounding),
        }
    }

    /// `mul{.rnd}.f64`.
    pub fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a * b,
            _ => directed(exact::multiply(F64, a.to_bits(), b.to_bits(), rounding)),
        }
    }

    /// `fma{.rnd}.f64`.
    #[inline(always)]
    pub fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a.mul_add(b, c),
            _ => directed(exact::fma(F64, a.to_bits(), b.to_bits(), c.to_bits(), rounding)),
        }
    }

    /// `div{.rnd}.f64`.
    pub fn div(a: f64, b: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a / b,
            _ => directed(exact::divide(F64, a.to_bits(), b.to_bits(), rounding)),
        }
    }

    /// `sqrt{.rnd}.f64`.
    pub fn sqrt(a: f64, rounding: Rounding) -> f64 {
        match rounding {
            Rounding::NearestEven => a.sqrt(),
            _ => directed(exact::sqrt(F64, a.to_bits(), rounding)),
        }
    }
}

/// The modifiers of `min` and `max` (PTX ISA 9.7.3.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MinMax {
    /// `.ftz`.
    pub flush: bool,
    /// `.NaN`: the result is NaN if either input is. Without it, a NaN input is ignored.
    pub nan: bool,
    /// `.xorsign.abs`: compares and returns magnitudes; the sign is the exclusive or of the signs.
    pub xorsign_abs: bool,
}

/// The smaller of two numbers of a format, given and returned as bits; −0 is below +0.
pub fn min_bits(format: Format, a: u64, b: u64, mode: MinMax) -> u64 {
    extremum(format, a, b, mode, false)
}

/// The larger of two numbers of a format, given and returned as bits; −0 is below +0.
pub fn max_bits(format: Format, a: u64, b: u64, mode: MinMax) -> u64 {
    extremum(format, a, b, mode, true)
}

#[inline(always)]
fn extremum(format: Format, a: u64, b: u64, mode: MinMax, greater: bool) -> u64 {
    let magnitude = format.sign_bit() - 1;
    let sign = (a ^ b) & format.sign_bit();
    let prepare = |x: u64| {
        let x = if mode.flush { format.flushed(x) } else { x };
        if mode.xorsign_abs { x & magnitude } else { x }
    };
    let (a, b) = (prepare(a), prepare(b));
    let (a_nan, b_nan) = (format.is_nan(a), format.is_nan(b));
    let chosen = match (a_nan, b_nan) {
        (true, true) => return format.canonical_nan(),
        (true, false) | (false, true) if mode.nan => return format.canonical_nan(),
        (true, false) => b,
        (false, true) => a,
        // Sign and magnitude as an integer with the same order as the numbers.
        (false, false) => {
            let order = |x: u64| {
                let m = (x & magnitude) as i64;
                if x & format.sign_bit() != 0 { -1 - m } else { m }
            };
            if (order(a) > order(b)) == greater { a } else { b }
        }
    };
    if mode.xorsign_abs { chosen | sign } else { chosen }
}

/// `min{.ftz}.f32` without `.NaN`; branch-free.
#[inline(always)]
pub fn min_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {
    let (a, b) = (input::<FLUSH>(a), input::<FLUSH>(b));
    // Equal numbers are identical, or two zeros: the sign bit decides.
    let equal = f32::from_bits(a.to_bits() | b.to_bits());
    let ordered = if a < b { a } else { b };
    let chosen = if a == b { equal } else { ordered };
    let ignoring_b = if b.is_nan() { a } else { chosen };
    canonical_f32(if a.is_nan() { b } else { ignoring_b })
}

/// `max{.ftz}.f32` without `.NaN`; branch-free.
#[inline(always)]
pub fn max_f32<const FLUSH: bool>(a: f32, b: f32) -> f32 {
    let (a, b) = (input::<FLUSH>(a), input::<FLUSH>(b));
    let equal = f32::from_bits(a.to_bits() & b.to_bits());
    let ordered = if a > b { a } else { b };
    let chosen = if a == b { equal } else { ordered };
    let ignoring_b = if b.is_nan() { a } else { chosen };
    canonical_f32(if a.is_nan() { b } else { ignoring_b })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn f32s() -> impl Strategy<Value = f32> {
        prop_oneof![
            any::<u32>().prop_map(f32::from_bits),
            (any::<u32>(), 0u32..4).prop_map(|(m, e)| f32::from_bits((m & 0x807f_ffff) | e << 23)),
            (any::<u32>(), 60u32..68).prop_map(|(m, e)| f32::from_bits((m & 0x807f_ffff) | e << 23)),
            proptest::sample::select(vec![0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
        ]
    }

    const MODE: FloatMode = FloatMode { rounding: Rounding::NearestEven, flush: false, saturate: false };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn fast_forms_are_the_exact_ones(a in f32s(), b in f32s(), c in f32s()) {
            let flush = FloatMode { flush: true, ..MODE };
            let both = FloatMode { flush: true, saturate: true, ..MODE };
            let same = |x: f32, y: f32| x.to_bits() == y.to_bits();
            prop_assert!(same(add_f32::<false, false>(a, b), MODE.add(a, b)));
            prop_assert!(same(sub_f32::<true, false>(a, b), flush.sub(a, b)));
            prop_assert!(same(mul_f32::<true, false>(a, b), flush.mul(a, b)));
            prop_assert!(same(fma_f32::<false, false>(a, b, c), MODE.fma(a, b, c)));
            prop_assert!(same(fma_f32::<true, true>(a, b, c), both.fma(a, b, c)));
            prop_assert!(same(div_f32::<false>(a, b), MODE.div(a, b)));
            prop_assert!(same(sqrt_f32::<true>(a), flush.sqrt(a)));
        }

        #[test]
        fn fast_extrema_are_the_general_ones(a in f32s(), b in f32s()) {
            let bits = |x: f32| u64::from(x.to_bits());
            for (x, y) in [(a, b), (b, a), (a, a), (a, -a)] {
                let plain = MinMax::default();
                let flush = MinMax { flush: true, ..plain };
                prop_assert_eq!(bits(min_f32::<false>(x, y)), min_bits(F32, bits(x), bits(y), plain));
                prop_assert_eq!(bits(max_f32::<false>(x, y)), max_bits(F32, bits(x), bits(y), plain));
                prop_assert_eq!(bits(min_f32::<true>(x, y)), min_bits(F32, bits(x), bits(y), flush));
                prop_assert_eq!(bits(max_f32::<true>(x, y)), max_bits(F32, bits(x), bits(y), flush));
            }
        }
    }

    #[test]
    fn extrema_modifiers() {
        let bits = |x: f32| u64::from(x.to_bits());
        let plain = MinMax::default();
        assert_eq!(min_bits(F32, bits(0.0), bits(-0.0), plain), bits(-0.0));
        assert_eq!(max_bits(F32, bits(-0.0), bits(0.0), plain), 0);
        assert_eq!(max_bits(F32, bits(f32::NAN), bits(-2.0), plain), bits(-2.0));
        assert_eq!(max_bits(F32, bits(1.0), bits(f32::NAN), MinMax { nan: true, ..plain }), 0x7fff_ffff);
        let xorsign = MinMax { xorsign_abs: true, ..plain };
        assert_eq!(min_bits(F32, bits(-3.0), bits(2.0), xorsign), bits(-2.0));
        assert_eq!(max_bits(F32, bits(-3.0), bits(-2.0), xorsign), bits(3.0));
    }

    #[test]
    fn directed_doubles() {
        let third = double::div(1.0, 3.0, Rounding::Up);
        assert_eq!(third, double::div(1.0, 3.0, Rounding::Down).next_up());
        assert_eq!(double::add(1.0, 1e-300, Rounding::Up), 1f64.next_up());
        assert_eq!(double::sub(1.0, 1e-300, Rounding::TowardZero), 1f64.next_down());
        assert_eq!(double::mul(f64::MAX, 2.0, Rounding::TowardZero), f64::MAX);
        assert_eq!(double::sqrt(2.0, Rounding::Up), double::sqrt(2.0, Rounding::Down).next_up());
    }
}
