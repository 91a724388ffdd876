//! f32s on a CPU with AVX2 and fused multiply-add, without AVX-512: sixteen words are two vectors.

use std::arch::x86_64::{
    __m256, __m256i, _mm256_add_ps, _mm256_cmpgt_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps,
    _mm256_maskstore_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::super::Matrix;
use super::super::transpose::avx::block as transpose;
use super::pack::{Contents, Magnitude, PackedFrom};
use super::{LANES, Words, WordsWork, amx};

/// Lanes of a vector of f32s.
const HALF: usize = LANES / 2;

/// An f32, by AVX2.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct F32ByAvx2;

impl Words for F32ByAvx2 {
    type Sum = f32;
    type Vector = [__m256; 2];
    type Sums = [__m256; 2];
    const ELEMENTS: usize = 1;
    const DROPS_SUBNORMALS: bool = false;
    const VECTORS: usize = 1;
    const AMX: Option<amx::Dot> = None;

    #[target_feature(enable = "avx2,fma")]
    unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output {
        // SAFETY: this is the one place that calls it.
        unsafe { work.run() }
    }

    #[inline(always)]
    unsafe fn pack(from: PackedFrom, [depth, columns]: [usize; 2], _: bool, to: &mut [i32]) -> Contents {
        // SAFETY: the caller's promise.
        unsafe { Self::compiled_for(Pack { from, depth, columns, to: bytemuck::cast_slice_mut(to) }) }
    }

    #[inline(always)]
    unsafe fn splat(word: i32) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        [unsafe { _mm256_set1_ps(f32::from_bits(word.cast_unsigned())) }; 2]
    }

    #[inline(always)]
    unsafe fn load(at: *const i32) -> [__m256; 2] {
        let at: *const f32 = at.cast();
        // SAFETY: the caller's promise.
        unsafe { [_mm256_loadu_ps(at), _mm256_loadu_ps(at.add(HALF))] }
    }

    #[inline(always)]
    unsafe fn zero() -> [__m256; 2] {
        // SAFETY: the caller's promise.
        [unsafe { _mm256_setzero_ps() }; 2]
    }

    #[inline(always)]
    unsafe fn dot(sums: [__m256; 2], a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_fmadd_ps(a[0], b[0], sums[0]), _mm256_fmadd_ps(a[1], b[1], sums[1])] }
    }

    #[inline(always)]
    unsafe fn add(x: [__m256; 2], y: [__m256; 2]) -> [__m256; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_add_ps(x[0], y[0]), _mm256_add_ps(x[1], y[1])] }
    }

    #[inline(always)]
    unsafe fn load_sums(at: *const f32, count: usize) -> [__m256; 2] {
        // SAFETY: the caller's promise: there are as many.
        unsafe {
            if count >= LANES {
                return Self::load(at.cast());
            }
            let [low, high] = masks(count);
            [_mm256_maskload_ps(at, low), _mm256_maskload_ps(at.wrapping_add(HALF), high)]
        }
    }

    #[inline(always)]
    unsafe fn store_sums(to: *mut f32, sums: [__m256; 2], count: usize) {
        // SAFETY: the caller's promise: there is room for as many.
        unsafe {
            if count >= LANES {
                _mm256_storeu_ps(to, sums[0]);
                _mm256_storeu_ps(to.add(HALF), sums[1]);
                return;
            }
            let [low, high] = masks(count);
            _mm256_maskstore_ps(to, low, sums[0]);
            _mm256_maskstore_ps(to.wrapping_add(HALF), high, sums[1]);
        }
    }
}

/// The first lanes of two vectors, fewer than all.
#[inline(always)]
unsafe fn masks(count: usize) -> [__m256i; 2] {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        let count = _mm256_set1_epi32(count as i32);
        [
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
        ]
    }
}

/// Writes [panels](super::pack), of one vector each.
struct Pack<'a> {
    from: PackedFrom,
    depth: usize,
    columns: usize,
    to: &'a mut [f32],
}

impl WordsWork for Pack<'_> {
    type Output = Contents;

    #[inline(always)]
    unsafe fn run(mut self) -> Contents {
        // In the order of memory: words of some rows, or of some columns, at a time.
        let by_rows = self.is_by_rows();
        let (rows, panels) = (self.depth.div_ceil(HALF), self.columns.div_ceil(LANES));
        let (outer, inner) = if by_rows { (rows, panels) } else { (panels, rows) };
        let mut greatest = 0;
        for i in 0..outer {
            for j in 0..inner {
                let (row, panel) = if by_rows { (i, j) } else { (j, i) };
                // SAFETY: the caller's promise.
                greatest = greatest.max(unsafe { self.cell(row * HALF, panel * LANES) });
            }
        }
        Contents { least: Magnitude::NONE, are_finite: greatest < f32::INFINITY.to_bits() }
    }
}

impl Pack<'_> {
    /// Whether words of neighbouring columns are neighbours in memory.
    #[inline(always)]
    const fn is_by_rows(&self) -> bool {
        self.from.across == size_of::<f32>() as isize
    }

    /// Writes at most eight words of sixteen columns, and 0 for columns that there aren't; gives the greatest magnitude's bits.
    #[inline(always)]
    unsafe fn cell(&mut self, k: usize, column: usize) -> u32 {
        let by_rows = self.is_by_rows();
        let Self { from, depth, columns, .. } = *self;
        let (deep, wide) = ((depth - k).min(HALF), (columns - column).min(LANES));
        let to = &mut self.to[column * depth + k * LANES..][..deep * LANES];
        // SAFETY: the caller's promise: there are these elements.
        unsafe {
            if by_rows {
                for (i, to) in to.chunks_exact_mut(LANES).enumerate() {
                    let row = from.at(k + i, column);
                    if wide == LANES {
                        row.copy_to_nonoverlapping(to.as_mut_ptr().cast(), size_of::<f32>() * LANES);
                    } else {
                        row.copy_to_nonoverlapping(to.as_mut_ptr().cast(), size_of::<f32>() * wide);
                        to[wide..].fill(0.0);
                    }
                }
            } else if from.along == size_of::<f32>() as isize && [deep, wide] == [HALF, LANES] {
                let across = from.across / size_of::<f32>() as isize;
                for half in [0, HALF] {
                    let pointer = from.at(k, column + half).cast();
                    transpose(Matrix { pointer, row: 1, column: across }, to.as_mut_ptr().add(half), LANES);
                }
            } else {
                for (i, to) in to.chunks_exact_mut(LANES).enumerate() {
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = if j < wide { from.at(k + i, column + j).cast::<f32>().read_unaligned() } else { 0.0 };
                    }
                }
            }
        }
        to.iter().fold(0, |greatest, x| greatest.max(x.abs().to_bits()))
    }
}
