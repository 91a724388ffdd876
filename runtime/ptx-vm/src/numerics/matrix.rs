//! Fast matrix products: chains of `f32` fused multiply-adds over small matrices, compiled for the host's processor.
//!
//! The order of every chain is fixed (increasing `k`, beginning with the accumulator), so results are the same with and
//! without SIMD. The portable code is the definition. `x86` has the m16n8k16 product of halves in AVX2, where a GEMM
//! spends most of its time.

use super::convert::{Bf16Type, F16Type, Half};
use super::float::canonical_f32;
use super::fragment::{Lanes, c_element};

/// Sixteen rows of A as numbers. Elements of a row beyond the product's `k` are ignored.
pub(super) type Left = [[f32; 32]; 16];

/// Adds products to the fragments of `f32` accumulators. Block `j` of `k` rows of `right` holds eight columns of B, and
/// registers `4j` to `4j + 3` are their accumulators. `k` is at most 32. An incomplete last block is ignored.
#[inline]
pub(super) fn multiply_blocks(left: &Left, right: &[[f32; 8]], k: usize, registers: &mut [Lanes]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the features.
        unsafe { x86::multiply_blocks(left, right, k, registers) };
        return;
    }
    multiply_blocks_portable(left, right, k, registers);
}

fn multiply_blocks_portable(left: &Left, right: &[[f32; 8]], k: usize, registers: &mut [Lanes]) {
    for (right, registers) in right.chunks_exact(k.max(1)).zip(registers.chunks_exact_mut(4)) {
        let mut sums = [[0f32; 8]; 16];
        for (register, lanes) in registers.iter().enumerate() {
            for (lane, bits) in lanes.iter().enumerate() {
                let at = c_element(lane, register);
                sums[at.row][at.column] = f32::from_bits(*bits);
            }
        }
        multiply_16x8(left, right, &mut sums);
        for (register, lanes) in registers.iter_mut().enumerate() {
            for (lane, bits) in lanes.iter_mut().enumerate() {
                let at = c_element(lane, register);
                *bits = canonical_f32(sums[at.row][at.column]).to_bits();
            }
        }
    }
}

/// The definition: chains over increasing `k`.
fn multiply_16x8(left: &Left, right: &[[f32; 8]], accumulator: &mut [[f32; 8]; 16]) {
    for (row, sums) in left.iter().zip(accumulator) {
        for (x, y) in row.iter().zip(right) {
            for (sum, y) in sums.iter_mut().zip(y) {
                *sum = x.mul_add(*y, *sum);
            }
        }
    }
}

/// The product of one `mma.sync.m16n8k16` of halves into `f32`, from registers to registers.
#[inline]
pub(super) fn m16n8k16_half(bf16: bool, a: [&Lanes; 4], b: [&Lanes; 2], c: [&Lanes; 4]) -> [Lanes; 4] {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        // SAFETY: the processor has the features.
        return unsafe { if bf16 { x86::m16n8k16::<true>(a, b, c) } else { x86::m16n8k16::<false>(a, b, c) } };
    }
    if bf16 { m16n8k16_portable::<Bf16Type>(a, b, c) } else { m16n8k16_portable::<F16Type>(a, b, c) }
}

fn m16n8k16_portable<T: Half>(a: [&Lanes; 4], b: [&Lanes; 2], c: [&Lanes; 4]) -> [Lanes; 4] {
    let half = |lanes: &Lanes, row: usize, column: usize| {
        T::widen((lanes[4 * row + column / 2] >> (16 * (column % 2))) as u16)
    };
    let mut left = [[0f32; 32]; 16];
    let mut right = [[0f32; 8]; 16];
    for k in 0..16 {
        for (row, values) in left.iter_mut().enumerate() {
            values[k] = half(a[row / 8 + 2 * (k / 8)], row % 8, k % 8);
        }
        for (column, value) in right[k].iter_mut().enumerate() {
            *value = half(b[k / 8], column, k % 8);
        }
    }
    let mut result = c.map(|lanes| *lanes);
    multiply_blocks_portable(&left, &right, 16, &mut result);
    result
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Lanes, Left};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_blocks(left: &Left, right: &[[f32; 8]], k: usize, registers: &mut [Lanes]) {
        for (right, registers) in right.chunks_exact(k.clamp(1, 32)).zip(registers.chunks_exact_mut(4)) {
            for (rows, registers) in left.chunks_exact(8).zip(registers.chunks_exact_mut(2)) {
                let mut sums = load_sums(&registers[0], &registers[1]);
                for (k, column) in right.iter().enumerate() {
                    // SAFETY: the array holds eight numbers.
                    let column = unsafe { _mm256_loadu_ps(column.as_ptr()) };
                    for (sum, row) in sums.iter_mut().zip(rows) {
                        *sum = _mm256_fmadd_ps(_mm256_broadcast_ss(&row[k & 31]), column, *sum);
                    }
                }
                let (even, odd) = registers.split_at_mut(1);
                store_sums(sums, &mut even[0], &mut odd[0]);
            }
        }
    }

    /// Eight rows of accumulators, eight columns each, from the registers of even and of odd columns.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_sums(even: &Lanes, odd: &Lanes) -> [__m256; 8] {
        let mut sums = [_mm256_setzero_ps(); 8];
        for pair in 0..4 {
            let even = _mm256_castsi256_ps(words(even, 8 * pair));
            let odd = _mm256_castsi256_ps(words(odd, 8 * pair));
            let (low, high) = (_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd));
            sums[2 * pair] = _mm256_permute2f128_ps::<0x20>(low, high);
            sums[2 * pair + 1] = _mm256_permute2f128_ps::<0x31>(low, high);
        }
        sums
    }

    /// The inverse of [`load_sums`]. NaN become canonical.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn store_sums(sums: [__m256; 8], even: &mut Lanes, odd: &mut Lanes) {
        for pair in 0..4 {
            let (first, second) = (canonical(sums[2 * pair]), canonical(sums[2 * pair + 1]));
            let low = _mm256_permute2f128_ps::<0x20>(first, second);
            let high = _mm256_permute2f128_ps::<0x31>(first, second);
            let (even, odd) = (&mut even[8 * pair..8 * pair + 8], &mut odd[8 * pair..8 * pair + 8]);
            // SAFETY: the slices hold eight words, 32 bytes, each.
            unsafe {
                _mm256_storeu_ps(even.as_mut_ptr().cast(), _mm256_shuffle_ps::<0x88>(low, high));
                _mm256_storeu_ps(odd.as_mut_ptr().cast(), _mm256_shuffle_ps::<0xdd>(low, high));
            }
        }
    }

    /// Loads eight words of a register.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn words(lanes: &Lanes, first: usize) -> __m256i {
        let chunk: &[u32] = &lanes[first..first + 8];
        // SAFETY: the slice holds eight words, 32 bytes.
        unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) }
    }

    /// Eight consecutive halves, as numbers.
    #[target_feature(enable = "avx2,f16c")]
    #[inline]
    fn widen<const BF16: bool>(halves: __m128i) -> __m256 {
        if BF16 {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
        } else {
            _mm256_cvtph_ps(halves)
        }
    }

    /// Transposes 8×8 halves: row `n` of B's fragment holds eight consecutive `k` of column `n`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn transpose(rows: [__m128i; 8]) -> [__m128i; 8] {
        let mut pairs = [_mm_setzero_si128(); 8];
        for i in 0..4 {
            pairs[2 * i] = _mm_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
        }
        let mut quads = [_mm_setzero_si128(); 8];
        for half in 0..2 {
            for side in 0..2 {
                let (x, y) = (pairs[4 * half + side], pairs[4 * half + side + 2]);
                quads[4 * half + 2 * side] = _mm_unpacklo_epi32(x, y);
                quads[4 * half + 2 * side + 1] = _mm_unpackhi_epi32(x, y);
            }
        }
        let mut columns = [_mm_setzero_si128(); 8];
        for i in 0..4 {
            columns[2 * i] = _mm_unpacklo_epi64(quads[i], quads[4 + i]);
            columns[2 * i + 1] = _mm_unpackhi_epi64(quads[i], quads[4 + i]);
        }
        columns
    }

    /// Replaces NaN by the one that PTX instructions generate.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn canonical(x: __m256) -> __m256 {
        let nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
        _mm256_blendv_ps(x, nan, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn m16n8k16<const BF16: bool>(a: [&Lanes; 4], b: [&Lanes; 2], c: [&Lanes; 4]) -> [Lanes; 4] {
        // B as 16 vectors of eight columns.
        let mut right = [_mm256_setzero_ps(); 16];
        for (block, lanes) in b.iter().enumerate() {
            let mut rows = [_mm_setzero_si128(); 8];
            for pair in 0..4 {
                let both = words(lanes, 8 * pair);
                rows[2 * pair] = _mm256_castsi256_si128(both);
                rows[2 * pair + 1] = _mm256_extracti128_si256::<1>(both);
            }
            for (k, column) in transpose(rows).into_iter().enumerate() {
                right[8 * block + k] = widen::<BF16>(column);
            }
        }
        let mut result = [[0u32; 32]; 4];
        for side in 0..2 {
            // Eight rows of A, widened into memory so that single elements can be broadcast from there.
            let mut left = [[0f32; 16]; 8];
            for block in 0..2 {
                let lanes = a[side + 2 * block];
                for pair in 0..4 {
                    let both = words(lanes, 8 * pair);
                    let low = widen::<BF16>(_mm256_castsi256_si128(both));
                    let high = widen::<BF16>(_mm256_extracti128_si256::<1>(both));
                    for (row, x) in [(2 * pair, low), (2 * pair + 1, high)] {
                        let target = &mut left[row][8 * block..8 * block + 8];
                        // SAFETY: the slice holds eight numbers.
                        unsafe { _mm256_storeu_ps(target.as_mut_ptr(), x) };
                    }
                }
            }
            // Registers 2·side and 2·side + 1 hold the even and odd columns of a row.
            let mut sums = load_sums(c[2 * side], c[2 * side + 1]);
            for k in 0..16 {
                for row in 0..8 {
                    sums[row] = _mm256_fmadd_ps(_mm256_broadcast_ss(&left[row][k]), right[k], sums[row]);
                }
            }
            let (even, odd) = result[2 * side..2 * side + 2].split_at_mut(1);
            store_sums(sums, &mut even[0], &mut odd[0]);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Blocks of columns, for any number of products.
        #[test]
        fn simd_blocks_are_the_portable_ones(seed in any::<u64>(), k in 1usize..=32, blocks in 1usize..4) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut next = || random.u32(..);
            let left: Left = std::array::from_fn(|_| std::array::from_fn(|_| f32::from_bits(next())));
            let right: Vec<[f32; 8]> =
                (0..k * blocks).map(|_| std::array::from_fn(|_| f32::from_bits(next()))).collect();
            let mut found: Vec<Lanes> = (0..4 * blocks).map(|_| std::array::from_fn(|_| next())).collect();
            let mut expected = found.clone();
            multiply_blocks(&left, &right, k, &mut found);
            multiply_blocks_portable(&left, &right, k, &mut expected);
            prop_assert_eq!(found, expected);
        }

        /// The SIMD product is the portable one, bit for bit, for any bits.
        #[test]
        fn simd_is_the_portable_product(seed in any::<u64>(), tame in any::<bool>(), bf16 in any::<bool>()) {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut next = || {
                let bits = random.u32(..);
                // Tame halves are finite; wild ones include infinities and NaN.
                if tame { bits & 0xbfff_bfff } else { bits }
            };
            let mut register = || -> Lanes { std::array::from_fn(|_| next()) };
            let a: [Lanes; 4] = std::array::from_fn(|_| register());
            let b: [Lanes; 2] = std::array::from_fn(|_| register());
            let c: [Lanes; 4] = std::array::from_fn(|_| register());
            let found = m16n8k16_half(bf16, a.each_ref(), b.each_ref(), c.each_ref());
            let expected = if bf16 {
                m16n8k16_portable::<Bf16Type>(a.each_ref(), b.each_ref(), c.each_ref())
            } else {
                m16n8k16_portable::<F16Type>(a.each_ref(), b.each_ref(), c.each_ref())
            };
            prop_assert_eq!(found, expected);
        }
    }
}
