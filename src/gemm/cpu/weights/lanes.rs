//! The instructions that products with codes take: a vector has a number for each of a panel's 16 columns.

use crate::ElementType;
use crate::gemm::problem::weight_values::PANEL;
use half::{bf16, f16};

/// Vectors of 16 lanes.
///
/// # Safety
/// The CPU must have the instructions; addresses must be those of as many elements as there are lanes.
pub(super) trait Lanes {
    /// f32s.
    type Floats: Copy;
    /// 32 bits of codes, or 32-bit integers.
    type Words: Copy;

    /// The most rows whose sums registers hold.
    const ROWS: usize;

    unsafe fn words(from: *const u8) -> Self::Words;
    unsafe fn no_words() -> Self::Words;
    /// The code of `BITS` bits after `by` bits, plus 2^23.
    unsafe fn number<const BITS: usize>(words: Self::Words, by: usize) -> Self::Floats;
    /// The low halves of bytes, or the high ones.
    unsafe fn halves(words: Self::Words, are_high: bool) -> Self::Words;
    /// Adds the four products of unsigned bytes, of at most `BITS` bits, and the signed bytes of `by`.
    unsafe fn dot<const BITS: usize>(sums: Self::Words, bytes: Self::Words, by: i32) -> Self::Words;
    unsafe fn from_integers(words: Self::Words) -> Self::Floats;

    unsafe fn zero() -> Self::Floats;
    unsafe fn splat(x: f32) -> Self::Floats;
    /// Scales of an element type.
    unsafe fn scales(element: ElementType, from: *const u8) -> Self::Floats;
    /// Unsigned bytes.
    unsafe fn bytes(from: *const u8) -> Self::Floats;
    unsafe fn add(x: Self::Floats, y: Self::Floats) -> Self::Floats;
    unsafe fn sub(x: Self::Floats, y: Self::Floats) -> Self::Floats;
    unsafe fn mul(x: Self::Floats, y: Self::Floats) -> Self::Floats;
    /// `x · y + z`, with one rounding if the CPU can.
    unsafe fn multiply_add(x: Self::Floats, y: Self::Floats, z: Self::Floats) -> Self::Floats;
    unsafe fn store(x: Self::Floats, to: *mut f32);
}

/// 2^23: an f32 from here on has the bits of an integer in its significand.
pub(super) const INTEGERS: f32 = 8_388_608.0;

/// Work that is compiled for every level.
pub(super) trait OnLanes {
    /// # Safety
    /// The CPU must have the instructions, and the conditions of the work. It must be `#[inline(always)]`.
    unsafe fn run<L: Lanes>(self);
}

/// Arrays, for every CPU.
pub(super) struct Portable;

type Each<T> = [T; PANEL];

impl Lanes for Portable {
    type Floats = Each<f32>;
    type Words = Each<u32>;

    const ROWS: usize = 4;

    #[inline(always)]
    unsafe fn words(from: *const u8) -> Each<u32> {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Each<u32>>().read_unaligned() }.map(u32::from_le)
    }

    #[inline(always)]
    unsafe fn no_words() -> Each<u32> {
        [0; PANEL]
    }

    #[inline(always)]
    unsafe fn number<const BITS: usize>(words: Each<u32>, by: usize) -> Each<f32> {
        words.map(|word| f32::from_bits(word >> by & ((1 << BITS) - 1) | INTEGERS.to_bits()))
    }

    #[inline(always)]
    unsafe fn halves(words: Each<u32>, are_high: bool) -> Each<u32> {
        let by = if are_high { 4 } else { 0 };
        words.map(|word| word >> by & 0x0f0f_0f0f)
    }

    #[inline(always)]
    unsafe fn dot<const BITS: usize>(sums: Each<u32>, bytes: Each<u32>, by: i32) -> Each<u32> {
        let by = by.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
        let mut to = sums;
        for (to, bytes) in to.iter_mut().zip(bytes) {
            let products = bytes.to_le_bytes().into_iter().zip(by).map(|(x, y)| i32::from(x) * y);
            *to = to.wrapping_add(products.sum::<i32>().cast_unsigned());
        }
        to
    }

    #[inline(always)]
    unsafe fn from_integers(words: Each<u32>) -> Each<f32> {
        words.map(|word| word.cast_signed() as f32)
    }

    #[inline(always)]
    unsafe fn zero() -> Each<f32> {
        [0.0; PANEL]
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> Each<f32> {
        [x; PANEL]
    }

    #[inline(always)]
    unsafe fn scales(element: ElementType, from: *const u8) -> Each<f32> {
        // SAFETY: the caller's promise.
        unsafe {
            match element {
                ElementType::F16 => from.cast::<Each<f16>>().read_unaligned().map(f32::from),
                ElementType::BF16 => from.cast::<Each<bf16>>().read_unaligned().map(f32::from),
                _ => from.cast::<Each<f32>>().read_unaligned(),
            }
        }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Each<f32> {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Each<u8>>().read_unaligned() }.map(f32::from)
    }

    #[inline(always)]
    unsafe fn add(x: Each<f32>, y: Each<f32>) -> Each<f32> {
        std::array::from_fn(|i| x[i] + y[i])
    }

    #[inline(always)]
    unsafe fn sub(x: Each<f32>, y: Each<f32>) -> Each<f32> {
        std::array::from_fn(|i| x[i] - y[i])
    }

    #[inline(always)]
    unsafe fn mul(x: Each<f32>, y: Each<f32>) -> Each<f32> {
        std::array::from_fn(|i| x[i] * y[i])
    }

    #[inline(always)]
    unsafe fn multiply_add(x: Each<f32>, y: Each<f32>, z: Each<f32>) -> Each<f32> {
        std::array::from_fn(|i| x[i] * y[i] + z[i])
    }

    #[inline(always)]
    unsafe fn store(x: Each<f32>, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Each<f32>>().write_unaligned(x) }
    }
}
