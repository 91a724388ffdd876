//! Rows of elements in memory, converted from and to the arithmetic type: loads widen; stores round to nearest even,
//! and saturate if the element type has no infinity.

use std::sync::LazyLock;

use half::{bf16, f16};

use super::scalar::Scalar;
use crate::ElementType;
use crate::expr::Real;
use crate::simd::convert::{GROUP, Widen, bf16_from_f32, bf16_to_f32, f16_from_f32, f16_to_f32, to_odd};
use crate::simd::{Float, Vectorised, dispatch};

/// A type of elements in memory, with conversions from and to the arithmetic type.
trait Stored<T>: Copy {
    fn widen(self) -> T;
    fn narrow(x: T) -> Self;

    /// Widens neighbours; `to` has as many.
    ///
    /// # Safety
    /// `FMA` is what [`Vectorised::run`] was given by [`dispatch`].
    #[inline(always)]
    unsafe fn widen_all<const FMA: bool>(from: &[Self], to: &mut [T]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.widen();
        }
    }
}

/// The nearest integer between two limits, ties to even; 0 for NaN. It is compiled to vectors, as `as`, which does the same, is
/// not.
#[inline(always)]
fn nearest(x: f64, least: i32, most: i32) -> i32 {
    let (low, high) = (f64::from(least), f64::from(most));
    let rounded = x.round_ties_even();
    let held = if rounded > low { rounded } else { low };
    let held = if held < high { held } else { high };
    // SAFETY: NaN has become the least; it is an integer between two of that type.
    let held = unsafe { held.to_int_unchecked::<i32>() };
    if x.is_nan() { 0 } else { held }
}

macro_rules! floats {
    ($($stored:ty, $real:ty: $widen:expr, $narrow:expr;)*) => {
        $(impl Stored<$real> for $stored {
            #[inline(always)]
            fn widen(self) -> $real { ($widen)(self) }
            #[inline(always)]
            fn narrow(x: $real) -> Self { ($narrow)(x) }
        })*
    };
}

floats! {
    f32, f32: |x| x, |x| x;
    f64, f32: |x| x as f32, f64::from;
    f32, f64: f64::from, |x| x as f32;
    f64, f64: |x| x, |x| x;
    bf16, f32: bf16_to_f32, bf16_from_f32;
    bf16, f64: bf16::to_f64, |x| bf16_from_f32(to_odd(x));
    f16, f64: |x| f64::from(f16_to_f32(x)), |x| f16_from_f32(to_odd(x));
    E4M3, f32: |x: E4M3| E4M3_VALUES[usize::from(x.0)], |x| E4M3(fp8(f64::from(x), -6, 3, 0x7e, 0x7f));
    E4M3, f64: |x: E4M3| f64::from(E4M3_VALUES[usize::from(x.0)]), |x| E4M3(fp8(x, -6, 3, 0x7e, 0x7f));
    E5M2, f32: |x: E5M2| E5M2_VALUES[usize::from(x.0)], |x| E5M2(fp8(f64::from(x), -14, 2, 0x7b, 0x7f));
    E5M2, f64: |x: E5M2| f64::from(E5M2_VALUES[usize::from(x.0)]), |x| E5M2(fp8(x, -14, 2, 0x7b, 0x7f));
    i64, f32: |x| x as f32, |x: f32| x.round_ties_even() as i64;
    i64, f64: |x| x as f64, |x: f64| x.round_ties_even() as i64;
    i32, f32: |x| x as f32, |x: f32| nearest(x.into(), i32::MIN, i32::MAX);
    i32, f64: f64::from, |x: f64| nearest(x, i32::MIN, i32::MAX);
    i8, f32: f32::from, |x: f32| nearest(x.into(), i8::MIN.into(), i8::MAX.into()) as i8;
    i8, f64: f64::from, |x: f64| nearest(x, i8::MIN.into(), i8::MAX.into()) as i8;
    u8, f32: f32::from, |x: f32| nearest(x.into(), u8::MIN.into(), u8::MAX.into()) as u8;
    u8, f64: f64::from, |x: f64| nearest(x, u8::MIN.into(), u8::MAX.into()) as u8;
    Truth, f32: |x: Truth| f32::from(u8::from(x.0 != 0)), |x: f32| Truth(u8::from(x != 0.0));
    Truth, f64: |x: Truth| f64::from(u8::from(x.0 != 0)), |x: f64| Truth(u8::from(x != 0.0));
}

impl Stored<f32> for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f16_to_f32(self)
    }

    #[inline(always)]
    fn narrow(x: f32) -> Self {
        f16_from_f32(x)
    }

    #[inline(always)]
    unsafe fn widen_all<const FMA: bool>(from: &[Self], to: &mut [f32]) {
        let ((from, last), (to, rest)) = (from.as_chunks::<GROUP>(), to.as_chunks_mut::<GROUP>());
        for (to, from) in to.iter_mut().zip(from) {
            // SAFETY: the caller's promise.
            *to = unsafe { Self::widen_group::<FMA>(from) };
        }
        for (to, from) in rest.iter_mut().zip(last) {
            *to = f16_to_f32(*from);
        }
    }
}

/// A truth value's byte. Any byte but 0 is read as true, which is 1 in registers.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

/// An OCP FP8 E4M3 byte.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct E4M3(pub(crate) u8);

/// An OCP FP8 E5M2 byte.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(crate) struct E5M2(pub(crate) u8);

macro_rules! eight_bit_floats {
    ($($name:ident $values:ident),*) => {$(
        impl $name {
            /// The nearest one, ties to even; at most the largest finite one.
            pub(crate) fn of(x: f32) -> Self {
                Self::narrow(x)
            }
        }

        impl Widen<f32> for $name {
            fn widen(self) -> f32 {
                $values[usize::from(self.0)]
            }

            unsafe fn widen_row<const FMA: bool, const WIDTH: usize>(row: &[Self; WIDTH]) -> [f32; WIDTH] {
                row.map(Widen::widen)
            }
        }
    )*};
}

eight_bit_floats!(E4M3 E4M3_VALUES, E5M2 E5M2_VALUES);

static E4M3_VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|code| {
        let (exponent, mantissa) = ((code >> 3) & 15, (code & 7) as f32);
        let magnitude = match (exponent, code & 7) {
            (15, 7) => f32::NAN,
            (0, _) => mantissa * 2f32.powi(-9),
            _ => (8.0 + mantissa) * 2f32.powi(exponent as i32 - 10),
        };
        if code < 128 { magnitude } else { -magnitude }
    })
});

static E5M2_VALUES: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|code| f16::from_bits((code as u16) << 8).to_f32()));

/// The 8-bit float nearest to `x`, ties to even, at most `largest` in magnitude. It has `mantissa` bits after the
/// leading one, and is subnormal below `2^least`.
#[inline(always)]
fn fp8(x: f64, least: i64, mantissa: i64, largest: u8, nan: u8) -> u8 {
    let bits = x.to_bits();
    // Anything above 2^64 is far above the largest value.
    let exponent = (((bits >> 52) & 0x7ff) as i64 - 1023).clamp(least, 64);
    // Neighbours differ by 2^(exponent - mantissa); the code counts them from 0.
    let scale = f64::from_bits(((mantissa - exponent + 1023) as u64) << 52);
    let steps = (x.abs() * scale).round_ties_even().min(1e9);
    let magnitude = ((steps as i64) + ((exponent - least) << mantissa)).min(i64::from(largest)) as u8;
    let magnitude = if x.is_nan() { nan } else { magnitude };
    magnitude | ((bits >> 56) as u8 & 0x80)
}

// The macro below has a wildcard arm, so this makes sure that it has an arm for every element type of epilogues.
const _: () = assert!(Real::ELEMENTS.len() == 11, "a new element type needs an arm in `with_stored`");

/// Evaluates `$call` with `$stored` as the Rust type of `$element`.
macro_rules! with_stored {
    ($element:expr, $stored:ident => $call:expr) => {
        with_stored!($element, $stored => $call;
            F64 f64, F32 f32, BF16 bf16, F16 f16, F8E4M3 E4M3, F8E5M2 E5M2, I64 i64, I32 i32, I8 i8, U8 u8, Bool Truth)
    };
    ($element:expr, $stored:ident => $call:expr; $($name:ident $type:ident),*) => {
        match $element {
            $(ElementType::$name => {
                type $stored = $type;
                $call
            })*
            _ => debug_assert!(false, "{:?} has no arm", $element),
        }
    };
}

struct Load<'a, S, T> {
    from: *const S,
    stride: isize,
    to: &'a mut [T],
}

impl<S: Stored<T>, T: Float> Vectorised for Load<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        if self.stride == 1 {
            // SAFETY: `load` was promised that as many elements as `to` has can be read.
            let from = unsafe { std::slice::from_raw_parts(self.from, self.to.len()) };
            // SAFETY: `FMA` is what this function was given.
            unsafe { S::widen_all::<FMA>(from, self.to) };
        } else {
            for (i, to) in self.to.iter_mut().enumerate() {
                // SAFETY: as above, `stride` apart.
                *to = unsafe { self.from.offset(i as isize * self.stride).read() }.widen();
            }
        }
    }
}

struct Store<'a, S, T> {
    from: &'a [T],
    to: *mut S,
    stride: isize,
}

impl<S: Stored<T>, T: Float> Vectorised for Store<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        if self.stride == 1 {
            // SAFETY: `store` was promised that as many elements as `from` has can be written, by this thread alone.
            let to = unsafe { std::slice::from_raw_parts_mut(self.to, self.from.len()) };
            for (to, &from) in to.iter_mut().zip(self.from) {
                *to = S::narrow(from);
            }
        } else {
            for (i, &from) in self.from.iter().enumerate() {
                // SAFETY: as above, `stride` apart.
                unsafe { self.to.offset(i as isize * self.stride).write(S::narrow(from)) };
            }
        }
    }
}

struct Round<'a, S, T> {
    to: &'a mut [T],
    x: &'a [T],
    as_if: std::marker::PhantomData<S>,
}

impl<S: Stored<T>, T: Float> Vectorised for Round<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (to, &x) in self.to.iter_mut().zip(self.x) {
            *to = S::narrow(x).widen();
        }
    }
}

/// A type of lanes that element types can be loaded into and stored from.
pub(crate) trait Loaded: Sized {
    /// Reads `to.len()` elements at the given stride.
    ///
    /// # Safety
    /// They must be readable, aligned, and written by no thread meanwhile.
    unsafe fn load(element: ElementType, from: *const u8, stride: isize, to: &mut [Self]);

    /// Writes elements at the given stride.
    ///
    /// # Safety
    /// They must be writable, aligned, and used by no other thread meanwhile.
    unsafe fn store(element: ElementType, from: &[Self], to: *mut u8, stride: isize);
}

/// An arithmetic type. Every element type can be loaded into it and stored from it.
pub(crate) trait Arithmetic: Float + Scalar + Loaded {
    /// Its own element type.
    const OWN: ElementType;

    /// Rounds to an element type and back.
    fn round_to(element: ElementType, to: &mut [Self], x: &[Self]);
}

/// The float of 8 or 16 bits that is nearest to `x`, ties to even.
pub(super) fn narrow_float(element: ElementType, x: f64) -> f32 {
    let mut nearest = x as f32;
    with_stored!(element, S => nearest = Stored::<f32>::widen(<S as Stored<f64>>::narrow(x)));
    nearest
}

macro_rules! arithmetic {
    ($($real:ty: $element:ident)*) => {$(
        impl Loaded for $real {
            unsafe fn load(element: ElementType, from: *const u8, stride: isize, to: &mut [Self]) {
                with_stored!(element, S => dispatch(Load { from: from.cast::<S>(), stride, to }));
            }

            unsafe fn store(element: ElementType, from: &[Self], to: *mut u8, stride: isize) {
                with_stored!(element, S => dispatch(Store { from, to: to.cast::<S>(), stride }));
            }
        }

        impl Arithmetic for $real {
            const OWN: ElementType = ElementType::$element;

            fn round_to(element: ElementType, to: &mut [Self], x: &[Self]) {
                with_stored!(element, S => dispatch(Round::<S, Self> { to, x, as_if: std::marker::PhantomData }));
            }
        }
    )*};
}

arithmetic!(f32: F32 f64: F64);

/// Integers. Values beyond the range of an element type are stored as its nearest value.
impl Loaded for i64 {
    unsafe fn load(element: ElementType, from: *const u8, stride: isize, to: &mut [Self]) {
        unsafe fn each<S: Copy + Into<i64>>(from: *const u8, stride: isize, to: &mut [i64]) {
            for (i, to) in to.iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *to = unsafe { from.cast::<S>().offset(i as isize * stride).read() }.into();
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                ElementType::I64 => each::<i64>(from, stride, to),
                ElementType::I32 => each::<i32>(from, stride, to),
                ElementType::I8 => each::<i8>(from, stride, to),
                ElementType::U8 => each::<u8>(from, stride, to),
                _ => debug_assert!(false, "{element:?} holds no integers"),
            }
        }
    }

    unsafe fn store(element: ElementType, from: &[Self], to: *mut u8, stride: isize) {
        unsafe fn each<S>(from: &[i64], to: *mut u8, stride: isize, narrow: impl Fn(i64) -> S) {
            for (i, &from) in from.iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { to.cast::<S>().offset(i as isize * stride).write(narrow(from)) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                ElementType::I64 => each(from, to, stride, |x| x),
                ElementType::I32 => each(from, to, stride, |x| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
                ElementType::I8 => each(from, to, stride, |x| x.clamp(i8::MIN.into(), i8::MAX.into()) as i8),
                ElementType::U8 => each(from, to, stride, |x| x.clamp(0, u8::MAX.into()) as u8),
                _ => debug_assert!(false, "{element:?} holds no integers"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored<T: Arithmetic>(element: ElementType, x: T) -> u64 {
        let mut bits = 0u64;
        // SAFETY: no element is larger than a u64.
        unsafe { T::store(element, &[x], (&raw mut bits).cast(), 1) };
        u64::from_le(bits)
    }

    fn loaded<T: Arithmetic>(element: ElementType, bits: u64) -> T {
        let mut x = [T::ZERO];
        // SAFETY: no element is larger than a u64.
        unsafe { T::load(element, (&raw const bits).cast(), 1, &mut x) };
        x[0]
    }

    /// The non-negative finite values of an 8-bit float, in order of their codes.
    fn ladder(element: ElementType) -> Vec<f64> {
        (0..128u64).map(|code| loaded::<f64>(element, code)).take_while(|x| x.is_finite()).collect()
    }

    #[test]
    fn narrow_floats_round_to_the_nearest_and_ties_to_even() {
        for (element, largest) in [(ElementType::F8E4M3, 448.0), (ElementType::F8E5M2, 57344.0)] {
            let ladder = ladder(element);
            assert_eq!(ladder.last(), Some(&largest));
            for (code, pair) in ladder.windows(2).enumerate() {
                let (low, high, middle) = (code as u64, code as u64 + 1, f64::midpoint(pair[0], pair[1]));
                let even = if low % 2 == 0 { low } else { high };
                let near = middle * 1e-6;
                for (x, want) in
                    [(pair[0], low), (middle - near, low), (middle, even), (middle + near, high), (pair[1], high)]
                {
                    assert_eq!(stored(element, x), want, "{x}");
                    assert_eq!(stored(element, -x), want | 0x80, "-{x}");
                    assert_eq!(stored(element, x as f32), want, "{x}");
                }
            }
            for x in [largest * 1.2, 1e30, f64::INFINITY] {
                assert_eq!(loaded::<f64>(element, stored(element, x)), largest);
                assert_eq!(loaded::<f64>(element, stored(element, -x)), -largest);
            }
            assert!(loaded::<f32>(element, stored(element, f32::NAN)).is_nan());
            assert_eq!(stored(element, 1e-40), 0);
        }
    }

    #[test]
    fn halves_round_once_from_both_types() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let x = f32::from_bits(bits);
            let (got, want) = (stored(ElementType::BF16, x) as u16, bf16::from_f32(x));
            assert!(got == want.to_bits() || (x.is_nan() && bf16::from_bits(got).is_nan()), "{x:e}");
            let (got, want) = (stored(ElementType::F16, x) as u16, f16::from_f32(x));
            assert!(got == want.to_bits() || (x.is_nan() && f16::from_bits(got).is_nan()), "{x:e}");
            // Close to the middle between two neighbours: rounding to f32 first would make it a tie.
            let x = f64::from(x);
            for x in [x * (1.0 + 1e-15), x * (1.0 - 1e-15), x] {
                let near = f16::from_f64(x);
                let got = f16::from_bits(stored(ElementType::F16, x) as u16);
                let neighbours = [near.to_bits().wrapping_sub(1), near.to_bits(), near.to_bits().wrapping_add(1)];
                let distance = |h: f16| (h.to_f64() - x).abs();
                if x.abs() < 65504.0 {
                    let least = neighbours.map(|b| distance(f16::from_bits(b))).into_iter().fold(f64::MAX, f64::min);
                    assert_eq!(distance(got), least, "{x:e}");
                }
            }
        }
    }

    #[test]
    fn every_half_widens() {
        for bits in 0..=u16::MAX {
            let (got, want) = (loaded::<f32>(ElementType::F16, bits.into()), f16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:#x}");
            let (got, want) = (loaded::<f32>(ElementType::BF16, bits.into()), bf16::from_bits(bits).to_f32());
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn integers_round_to_even_and_saturate() {
        for (x, want) in [(2.5, 2), (3.5, 4), (-0.5, 0), (127.4, 127), (1e9, 127), (f64::NAN, 0)] {
            assert_eq!(stored(ElementType::I8, x), want);
            assert_eq!(stored(ElementType::I8, x as f32), want);
        }
        assert_eq!(stored(ElementType::I8, f64::NEG_INFINITY) as u8 as i8, -128);
        assert_eq!(stored(ElementType::U8, -3.0f32), 0);
        assert_eq!(stored(ElementType::U8, 300.0f32), 255);
        assert_eq!(stored(ElementType::I32, 1e20f32) as i32, i32::MAX);
        assert_eq!(stored(ElementType::I64, -1e30f64) as i64, i64::MIN);
    }

    #[test]
    fn a_cast_is_a_store_and_a_load() {
        for element in Real::ELEMENTS {
            for x in [0.0f32, -0.0, 1.3, -77.7, 1e6, 1e-6, 3e38, f32::INFINITY, f32::NEG_INFINITY] {
                let mut rounded = [0.0];
                f32::round_to(element, &mut rounded, &[x]);
                assert_eq!(rounded[0].to_bits(), loaded::<f32>(element, stored(element, x)).to_bits(), "{element} {x}");
            }
        }
    }
}
