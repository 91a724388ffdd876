//! Products of words (VNNI groups): 32 bits that hold an f32, two bf16s or four 8-bit integers, neighbours along K. A
//! CPU with AVX-512's dot products (`vdpbf16ps`, `vpdpbusd`) multiplies and adds a word in one instruction, without
//! widening. A CPU with AVX2 multiplies words of f32s only.
//!
//! - [`block`]: a tile, from B's words in [panels](pack): vectors of sixteen columns, one word of K after another.
//! - [`amx`]: a tile on CPUs with matrix registers, from panels that suit them.
//! - [`avx2`]: words and their panels on CPUs without AVX-512.
//! - [`few`]: few rows of A, if B is contiguous along N; B's rows are read in place.
//! - [`dots`]: few rows of A, if B is contiguous along K, as dot products.
//! - [`widened`]: few rows by a B that is widened in registers: along N, also of f32s; along K, as dot products, on CPUs
//!   that cannot multiply its words.
//!
//! # Prefetching
//! With few rows, B comes from memory faster than it is multiplied. So words further on are prefetched, into the
//! second-level cache: a CPU waits for only a few lines on their way to the first level. (Zen 4, one core, 3072 columns
//! of 768 bf16s from memory by one row: 0.19 ms in place of 0.39, by 8 rows 0.31 in place of 0.46.)
//!
//! # Order of the sums
//! Integers are summed exactly, in 32 bits. f32s, and types that are widened to them, are summed by fused multiply-add
//! in the order of K. Words of bf16s are multiplied exactly and summed in f32 in the order of K, rounded to nearest at
//! least once for each word. ([`dots`] and [`widened`] sum in a vector's lanes, which are then added; [`amx`] sums in
//! parts of sixteen words, even and odd places apart.)
//!
//! `vdpbf16ps` and `tdpbf16ps` take subnormal numbers for 0, and make 0 of subnormal results. They are used only if no
//! subnormal number can occur. Let `e` be the sum of the operands' least exponents. Every product of two bf16s, and
//! every sum of products, is a multiple of 2^(e - 14). If that is at least 2^-126, no result is subnormal.
//! [`Magnitude`] tells, and the caller multiplies other operands by another method. (Intel 64 and IA-32 Architectures
//! Software Developer's Manual, volume 2, `VDPBF16PS`.)

mod amx;
mod avx2;
mod block;
mod dots;
mod few;
mod operands;
mod pack;
mod steps;
#[cfg(test)]
mod tests;
mod vector;
mod widened;

use std::arch::x86_64::{
    __m512, __m512bh, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps,
    _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_setzero_si512,
};
use std::mem::transmute;

use epilogue_runtime::CpuLevel;

use crate::{ElementType, level};

pub(in crate::gemm::cpu) use self::avx2::F32ByAvx2;
pub(in crate::gemm::cpu) use self::block::block;
pub(in crate::gemm::cpu) use self::dots::dots;
pub(in crate::gemm::cpu) use self::few::{few, few_rows};
pub(in crate::gemm::cpu) use self::operands::{Of, Panels, ROWS, WordRows, WordRun};
pub(in crate::gemm::cpu) use self::pack::{
    Contents, Magnitude, PANEL, PackedFrom, magnitude, pack, panel_columns, panel_words,
};
pub(in crate::gemm::cpu) use self::widened::{
    AlongK, AlongN, fewest_widened_columns, most_widened_dots, most_widened_rows, widened,
};

/// Lanes of a vector: columns, or words along K.
pub(super) const LANES: usize = 16;

/// Whether words of f32s are multiplied by AVX-512.
pub(in crate::gemm::cpu) fn multiplies_f32() -> bool {
    level::current() >= CpuLevel::Avx512
}

/// Whether words of f32s are multiplied by AVX2, and bf16s and f16s widened in registers.
pub(in crate::gemm::cpu) fn has_avx2() -> bool {
    level::current() >= CpuLevel::Avx2
}

/// Whether words of bf16s are multiplied.
pub(in crate::gemm::cpu) fn multiplies_bf16() -> bool {
    level::current() >= CpuLevel::Avx512Bf16
}

/// Whether words of 8-bit integers are multiplied. (All ways give the same sums, so there is no level for it.)
pub(in crate::gemm::cpu) fn multiplies_integers() -> bool {
    level::current() >= CpuLevel::Avx512 && is_x86_feature_detected!("avx512vnni")
}

/// Whether elements of these types are multiplied in registers for matrices.
pub(in crate::gemm::cpu) fn multiplies_matrices(a: ElementType, b: ElementType) -> bool {
    use ElementType::{BF16, I8, U8};
    level::current() >= CpuLevel::Amx && matches!((a, b), (BF16, BF16) | (I8 | U8, I8 | U8))
}

/// Work whose loops are compiled for the CPUs that multiply some words.
pub(in crate::gemm::cpu) trait WordsWork {
    /// The result of the work.
    type Output;

    /// Does the work. It must be `#[inline(always)]`, and so must be all functions that it calls.
    ///
    /// # Safety
    /// It is called by [`Words::compiled_for`] only.
    unsafe fn run(self) -> Self::Output;
}

/// How words are multiplied, sixteen at a time.
///
/// # Safety
/// The functions need a CPU that multiplies these words; all but the first are inlined into its work.
pub(in crate::gemm::cpu) trait Words: Copy {
    /// A sum.
    type Sum: bytemuck::Pod + std::ops::AddAssign + std::fmt::Debug;
    /// A vector of words.
    type Vector: Copy;
    /// A vector of sums.
    type Sums: Copy;
    /// Elements of a word.
    const ELEMENTS: usize;
    /// Whether subnormal numbers count as 0, so that the least [`Magnitude`] must be known.
    const DROPS_SUBNORMALS: bool;
    /// Vectors of a panel that is not the last, if tiles don't multiply it: with [`ROWS`] rows, their sums nearly fill the registers.
    const VECTORS: usize;
    /// The instruction that multiplies tiles of these words.
    const AMX: Option<amx::Dot>;

    /// [`AMX`](Self::AMX), if the level has it.
    fn tiles() -> Option<amx::Dot> {
        Self::AMX.filter(|_| level::current() >= CpuLevel::Amx)
    }

    /// Does work that is compiled for a CPU that multiplies these words.
    unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output;
    /// See [`pack()`].
    unsafe fn pack(from: PackedFrom, extents: [usize; 2], flipped: bool, to: &mut [i32]) -> Contents;
    /// One word in all lanes.
    unsafe fn splat(word: i32) -> Self::Vector;
    unsafe fn load(at: *const i32) -> Self::Vector;
    /// No terms.
    unsafe fn zero() -> Self::Sums;
    /// `sums`, and in each lane the products of the elements of `a`'s word and of `b`'s.
    unsafe fn dot(sums: Self::Sums, a: Self::Vector, b: Self::Vector) -> Self::Sums;
    unsafe fn add(x: Self::Sums, y: Self::Sums) -> Self::Sums;
    /// The first sums, at most `count`; 0 for the others.
    unsafe fn load_sums(at: *const Self::Sum, count: usize) -> Self::Sums;
    /// Stores the first sums, at most `count`.
    unsafe fn store_sums(to: *mut Self::Sum, sums: Self::Sums, count: usize);
}

/// Words that AVX-512 multiplies.
///
/// # Safety
/// As for [`Words`].
pub(in crate::gemm::cpu) trait Avx512: Words<Vector = __m512i> {
    /// The bits of a word that are a bf16, or the upper half of an f32, without their signs; none if it is of other elements.
    const UPPER_HALVES: i32;

    /// The sums as bits.
    fn bits(x: Self::Sums) -> __m512i;
    /// The sums with these bits.
    fn of_bits(x: __m512i) -> Self::Sums;
}

/// The first lanes: at least one, at most `count`.
#[inline(always)]
fn mask(count: usize) -> u16 {
    u16::MAX >> (LANES - count.min(LANES))
}

/// An f32.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct F32;

/// Two bf16s.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct Bf16;

/// Four 8-bit integers: A's are signed and B's are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct SignedByUnsigned;

/// Four 8-bit integers: B's are signed and A's are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct UnsignedBySigned;

macro_rules! words {
    ($($words:ident: $elements:literal elements, sums $sum:ident in $sums:ident by $zero:ident and $add:ident, $features:literal,
        drops subnormals: $drops:literal, upper halves: $upper_halves:literal, tiles: $amx:expr,
        bits: |$x:ident| $bits:expr, $of_bits:expr,
        |$to:ident, $a:ident, $b:ident| $dot:expr;)*) => {$(
        impl Words for $words {
            type Sum = $sum;
            type Vector = __m512i;
            type Sums = $sums;
            const ELEMENTS: usize = $elements;
            const DROPS_SUBNORMALS: bool = $drops;
            const VECTORS: usize = pack::VECTORS;
            const AMX: Option<amx::Dot> = $amx;

            #[target_feature(enable = $features)]
            unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output {
                // SAFETY: this is the one place that calls it.
                unsafe { work.run() }
            }

            #[inline(always)]
            unsafe fn pack(from: PackedFrom, extents: [usize; 2], flipped: bool, to: &mut [i32]) -> Contents {
                // SAFETY: the caller's promise.
                unsafe { pack::avx512::<Self>(from, extents, flipped, to) }
            }

            #[inline(always)]
            unsafe fn splat(word: i32) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { _mm512_set1_epi32(word) }
            }

            #[inline(always)]
            unsafe fn load(at: *const i32) -> __m512i {
                // SAFETY: the caller's promise.
                unsafe { _mm512_loadu_si512(at.cast()) }
            }

            #[inline(always)]
            unsafe fn zero() -> $sums {
                // SAFETY: the caller's promise.
                unsafe { $zero() }
            }

            #[inline(always)]
            unsafe fn dot($to: $sums, $a: __m512i, $b: __m512i) -> $sums {
                // SAFETY: the caller's promise; the types are all 512 bits, and all their values are allowed.
                unsafe { $dot }
            }

            #[inline(always)]
            unsafe fn add(x: $sums, y: $sums) -> $sums {
                // SAFETY: the caller's promise.
                unsafe { $add(x, y) }
            }

            #[inline(always)]
            unsafe fn load_sums(at: *const Self::Sum, count: usize) -> Self::Sums {
                // SAFETY: the caller's promise: there are as many.
                Self::of_bits(unsafe { _mm512_maskz_loadu_epi32(mask(count), at.cast()) })
            }

            #[inline(always)]
            unsafe fn store_sums(to: *mut Self::Sum, sums: Self::Sums, count: usize) {
                // SAFETY: the caller's promise: there is room for as many.
                unsafe { _mm512_mask_storeu_epi32(to.cast(), mask(count), Self::bits(sums)) };
            }
        }

        impl Avx512 for $words {
            const UPPER_HALVES: i32 = $upper_halves;

            #[inline(always)]
            fn bits($x: $sums) -> __m512i {
                $bits
            }

            #[inline(always)]
            fn of_bits($x: __m512i) -> $sums {
                $of_bits
            }
        }
    )*};
}

/// The bits of f32s.
#[inline(always)]
fn bits_of(x: __m512) -> __m512i {
    // SAFETY: both types are 512 bits, and all their values are allowed.
    unsafe { transmute(x) }
}

#[inline(always)]
fn floats_of(x: __m512i) -> __m512 {
    // SAFETY: both types are 512 bits, and all their values are allowed.
    unsafe { transmute(x) }
}

words! {
    F32: 1 elements, sums f32 in __m512 by _mm512_setzero_ps and _mm512_add_ps, "avx512f,avx512bw,avx512vl",
        drops subnormals: false, upper halves: 0x7fff_0000, tiles: None,
        bits: |x| bits_of(x), floats_of(x),
        |sums, a, b| _mm512_fmadd_ps(floats_of(a), floats_of(b), sums);
    Bf16: 2 elements, sums f32 in __m512 by _mm512_setzero_ps and _mm512_add_ps, "avx512f,avx512bw,avx512vl,avx512bf16",
        drops subnormals: true, upper halves: 0x7fff_7fff, tiles: Some(amx::Dot::Bf16),
        bits: |x| bits_of(x), floats_of(x),
        |sums, a, b| _mm512_dpbf16_ps(sums, transmute::<__m512i, __m512bh>(a), transmute::<__m512i, __m512bh>(b));
    SignedByUnsigned: 4 elements, sums i32 in __m512i by _mm512_setzero_si512 and _mm512_add_epi32,
        "avx512f,avx512bw,avx512vl,avx512vnni",
        drops subnormals: false, upper halves: 0, tiles: Some(amx::Dot::SignedByUnsigned),
        bits: |x| x, x,
        |sums, a, b| _mm512_dpbusd_epi32(sums, b, a);
    UnsignedBySigned: 4 elements, sums i32 in __m512i by _mm512_setzero_si512 and _mm512_add_epi32,
        "avx512f,avx512bw,avx512vl,avx512vnni",
        drops subnormals: false, upper halves: 0, tiles: Some(amx::Dot::UnsignedBySigned),
        bits: |x| x, x,
        |sums, a, b| _mm512_dpbusd_epi32(sums, a, b);
}
