//! Transposes a column-major matrix to a row-major one.

use bytemuck::Pod;
#[cfg(target_arch = "x86_64")]
use epilogue_runtime::CpuLevel;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::Matrix;
#[cfg(target_arch = "x86_64")]
use crate::level;

/// Writes the rows × columns elements at `from`, which are column-major, in row-major order.
pub(in crate::gemm::cpu) fn transpose<C: Pod>(from: &[C], rows: usize, columns: usize, to: &mut [C]) {
    let (from, to) = (&from[..rows * columns], &mut to[..rows * columns]);
    let blocks = blocks(from, rows, columns, to);
    for (i, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        let done = if i < blocks.0 { blocks.1 } else { 0 };
        for (j, to) in row.iter_mut().enumerate().skip(done) {
            *to = from[j * rows + i];
        }
    }
}

/// Transposes blocks of 8×8 elements in registers, if the level has them; gives how many rows and columns it has transposed.
#[cfg(target_arch = "x86_64")]
fn blocks<C: Pod>(from: &[C], rows: usize, columns: usize, to: &mut [C]) -> (usize, usize) {
    if size_of::<C>() == size_of::<f32>()
        && level::current() >= CpuLevel::Avx2
        && let (Ok(from), Ok(to)) = (bytemuck::try_cast_slice(from), bytemuck::try_cast_slice_mut(to))
    {
        let whole = (rows / 8 * 8, columns / 8 * 8);
        // SAFETY: the CPU has AVX; both slices have rows × columns elements.
        unsafe { avx::blocks(from, rows, columns, to, whole) };
        return whole;
    }
    (0, 0)
}

/// Transposes blocks of 4×4 elements in registers; gives how many rows and columns it has transposed.
#[cfg(target_arch = "aarch64")]
fn blocks<C: Pod>(from: &[C], rows: usize, columns: usize, to: &mut [C]) -> (usize, usize) {
    if size_of::<C>() == size_of::<f32>()
        && let (Ok(from), Ok(to)) = (bytemuck::try_cast_slice(from), bytemuck::try_cast_slice_mut(to))
    {
        let whole = (rows / 4 * 4, columns / 4 * 4);
        // SAFETY: both slices have rows × columns elements.
        unsafe { neon::blocks(from, rows, columns, to, whole) };
        return whole;
    }
    (0, 0)
}

/// Other CPUs transpose element by element.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const fn blocks<C: Pod>(_: &[C], _: usize, _: usize, _: &mut [C]) -> (usize, usize) {
    (0, 0)
}

#[cfg(target_arch = "aarch64")]
pub(super) mod neon {
    use std::arch::aarch64::{
        vld1q_f32, vreinterpretq_f32_f64, vreinterpretq_f64_f32, vst1q_f32, vtrn1q_f32, vtrn1q_f64, vtrn2q_f32,
        vtrn2q_f64,
    };

    use super::Matrix;

    /// Transposes the first `down` rows and `across` columns.
    ///
    /// # Safety
    /// The slices must have rows × columns elements.
    pub(super) unsafe fn blocks(
        from: &[f32],
        rows: usize,
        columns: usize,
        to: &mut [f32],
        (down, across): (usize, usize),
    ) {
        let from = Matrix { pointer: from.as_ptr(), row: 1, column: rows as isize };
        for i in (0..down).step_by(4) {
            for j in (0..across).step_by(4) {
                // SAFETY: the block lies inside both.
                unsafe { block(from.at(i, j), to.as_mut_ptr().add(i * columns + j), columns) };
            }
        }
    }

    /// Transposes 4×4 elements, of columns that are contiguous, to rows `stride` apart.
    ///
    /// # Safety
    /// There must be 4×4 elements at both places.
    #[inline]
    pub(in super::super) unsafe fn block(from: Matrix<f32>, to: *mut f32, stride: usize) {
        // SAFETY: the caller's promise; every AArch64 CPU has NEON.
        unsafe {
            let [a, b, c, d] = [0, 1, 2, 3].map(|j| vld1q_f32(from.at(0, j).pointer));
            // Pairs of columns, then all four.
            let [even, even_2, odd, odd_2] = [vtrn1q_f32(a, b), vtrn1q_f32(c, d), vtrn2q_f32(a, b), vtrn2q_f32(c, d)]
                .map(|x| vreinterpretq_f64_f32(x));
            let rows =
                [vtrn1q_f64(even, even_2), vtrn1q_f64(odd, odd_2), vtrn2q_f64(even, even_2), vtrn2q_f64(odd, odd_2)];
            for (i, row) in rows.into_iter().enumerate() {
                vst1q_f32(to.add(i * stride), vreinterpretq_f32_f64(row));
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };

    use super::Matrix;

    /// Transposes the first `whole` rows and columns.
    ///
    /// # Safety
    /// The slices must have rows × columns elements.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn blocks(
        from: &[f32],
        rows: usize,
        columns: usize,
        to: &mut [f32],
        (down, across): (usize, usize),
    ) {
        let from = Matrix { pointer: from.as_ptr(), row: 1, column: rows as isize };
        for i in (0..down).step_by(8) {
            for j in (0..across).step_by(8) {
                // SAFETY: the block lies inside both.
                unsafe { block(from.at(i, j), to.as_mut_ptr().add(i * columns + j), columns) };
            }
        }
    }

    /// Transposes 8×8 elements, of columns that are contiguous, to rows `stride` apart.
    ///
    /// # Safety
    /// There must be 8×8 elements at both places.
    #[target_feature(enable = "avx")]
    #[inline]
    pub(in super::super) unsafe fn block(from: Matrix<f32>, to: *mut f32, stride: usize) {
        // SAFETY: the caller's promise.
        let columns: [_; 8] = std::array::from_fn(|j| unsafe { _mm256_loadu_ps(from.at(0, j).pointer) });
        // First pairs of columns, then groups of four, in each half of the vectors; then the halves.
        let pairs: [_; 8] = std::array::from_fn(|i| {
            let (x, y) = (columns[i / 2 * 2], columns[i / 2 * 2 + 1]);
            if i % 2 == 0 { _mm256_unpacklo_ps(x, y) } else { _mm256_unpackhi_ps(x, y) }
        });
        let fours: [_; 8] = std::array::from_fn(|i| {
            let (x, y) = (pairs[i / 4 * 4 + i % 4 / 2], pairs[i / 4 * 4 + i % 4 / 2 + 2]);
            if i % 2 == 0 { _mm256_shuffle_ps::<0x44>(x, y) } else { _mm256_shuffle_ps::<0xee>(x, y) }
        });
        for i in 0..4 {
            // SAFETY: the caller's promise.
            unsafe {
                _mm256_storeu_ps(to.add(i * stride), _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]));
                _mm256_storeu_ps(to.add((i + 4) * stride), _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]));
            }
        }
    }
}
