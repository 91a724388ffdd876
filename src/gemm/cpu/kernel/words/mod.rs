//! Products of words (VNNI groups): 32 bits that hold an f32, two bf16s or four 8-bit integers, neighbours along K. A
//! CPU with AVX-512's dot products (`vdpbf16ps`, `vpdpbusd`) multiplies and adds a word in one instruction, without
//! widening. CPUs with AVX2 or NEON multiply words of f32s only.
//!
//! - [`block`]: a tile, from B's words in [panels](pack): vectors of sixteen columns, one word of K after another.
//! - `amx`: a tile on CPUs with matrix registers, from panels that suit them.
//! - `avx2`, `neon`: words of f32s on other CPUs; `pack_f32` makes their panels.
//! - `few`: few rows of A, if B is contiguous along N; B's rows are read in place.
//! - `dots`: few rows of A, if B is contiguous along K, as dot products.
//! - `widened`: few rows by a B that is widened in registers: along N, also of f32s; along K, as dot products, on CPUs
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
//! least once for each word. (`dots` and `widened` sum in a vector's lanes, which are then added; `amx` sums in
//! parts of sixteen words, even and odd places apart.)
//!
//! `vdpbf16ps` and `tdpbf16ps` take subnormal numbers for 0, and make 0 of subnormal results. They are used only if no
//! subnormal number can occur. Let `e` be the sum of the operands' least exponents. Every product of two bf16s, and
//! every sum of products, is a multiple of 2^(e - 14). If that is at least 2^-126, no result is subnormal.
//! [`Magnitude`] tells, and the caller multiplies other operands by another method. (Intel 64 and IA-32 Architectures
//! Software Developer's Manual, volume 2, `VDPBF16PS`.)

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "other CPUs have no tiles and no integers"))]

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
#[cfg(target_arch = "x86_64")]
mod dots;
#[cfg(target_arch = "x86_64")]
mod few;
#[cfg(target_arch = "aarch64")]
mod neon;
mod operands;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pack_avx512;
mod pack_f32;
#[cfg(target_arch = "x86_64")]
mod steps;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
mod widened;

#[cfg(target_arch = "x86_64")]
use epilogue_runtime::CpuLevel;

#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::avx2::F32ByAvx2;
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::avx512::{Avx512, Bf16, F32, SignedByUnsigned, UnsignedBySigned};
pub(in crate::gemm::cpu) use self::block::block;
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::dots::dots;
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::few::{few, few_rows};
#[cfg(target_arch = "aarch64")]
pub(in crate::gemm::cpu) use self::neon::F32ByNeon;
pub(in crate::gemm::cpu) use self::operands::{Of, Panels, ROWS, WordRows, WordRun};
pub(in crate::gemm::cpu) use self::pack::{Contents, Magnitude, PANEL, PackedFrom, pack, panel_columns, panel_words};
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::pack_avx512::magnitude;
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) use self::widened::{
    AlongK, AlongN, fewest_widened_columns, most_widened_dots, most_widened_rows, widened,
};
#[cfg(target_arch = "x86_64")]
use crate::{ElementType, level};

/// Lanes of a vector: columns, or words along K.
pub(super) const LANES: usize = 16;

/// Whether words of f32s are multiplied by AVX-512.
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) fn multiplies_f32() -> bool {
    level::current() >= CpuLevel::Avx512
}

/// Whether words of f32s are multiplied by AVX2, and bf16s and f16s widened in registers.
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) fn has_avx2() -> bool {
    level::current() >= CpuLevel::Avx2
}

/// Whether words of bf16s are multiplied.
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) fn multiplies_bf16() -> bool {
    level::current() >= CpuLevel::Avx512Bf16
}

/// Whether words of 8-bit integers are multiplied. (All ways give the same sums, so there is no level for it.)
#[cfg(target_arch = "x86_64")]
pub(in crate::gemm::cpu) fn multiplies_integers() -> bool {
    level::current() >= CpuLevel::Avx512 && is_x86_feature_detected!("avx512vnni")
}

/// Whether elements of these types are multiplied in registers for matrices.
#[cfg(target_arch = "x86_64")]
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
    const AMX: Option<TileDot>;

    /// [`AMX`](Self::AMX), if the level has it.
    fn tiles() -> Option<TileDot> {
        #[cfg(target_arch = "x86_64")]
        return Self::AMX.filter(|_| level::current() >= CpuLevel::Amx);
        #[cfg(not(target_arch = "x86_64"))]
        None
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

    /// The least magnitude of `length` elements of each row, from `offset` bytes after its start, if subnormal numbers count
    /// as 0.
    unsafe fn magnitude(_starts: &[*const u8], _offset: isize, _length: usize) -> Magnitude {
        Magnitude::NONE
    }

    /// Adds products of the first of `length` words that follow each other in memory, with whole panels of one vector: a
    /// loop of its own, if these words have one. Gives the number of words that have been added.
    #[inline(always)]
    unsafe fn add_run<const HIGH: usize, const WIDE: usize, const OF: usize>(
        _sums: &mut [[Self::Sums; WIDE]; HIGH],
        _starts: &[*const u8; HIGH],
        _offset: isize,
        _b: *const i32,
        _length: usize,
    ) -> usize {
        0
    }
}

/// An instruction that multiplies two tiles of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gemm::cpu) enum TileDot {
    Bf16,
    SignedByUnsigned,
    UnsignedBySigned,
}
