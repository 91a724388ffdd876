//! f32s on AArch64: sixteen words are four vectors of NEON.

use std::arch::aarch64::{float32x4_t, vaddq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};
use std::arch::asm;

use super::super::Matrix;
use super::super::transpose::neon;
use super::pack::{Contents, PackedFrom};
use super::pack_f32::{TransposedSquares, pack_f32};
use super::{LANES, ROWS, TileDot, Words, WordsWork};

/// Lanes of a vector of f32s.
const QUARTER: usize = 4;
/// Vectors of sixteen words.
const VECTORS: usize = LANES / QUARTER;

/// An f32, by NEON.
#[derive(Clone, Copy, Debug)]
pub(in crate::gemm::cpu) struct F32ByNeon;

/// A vector for each four lanes, of what `of` gives for their number.
#[inline(always)]
fn each(mut of: impl FnMut(usize) -> float32x4_t) -> [float32x4_t; VECTORS] {
    [of(0), of(1), of(2), of(3)]
}

impl Words for F32ByNeon {
    type Sum = f32;
    type Vector = [float32x4_t; VECTORS];
    type Sums = [float32x4_t; VECTORS];
    const ELEMENTS: usize = 1;
    const DROPS_SUBNORMALS: bool = false;
    const VECTORS: usize = 1;
    const AMX: Option<TileDot> = None;

    #[target_feature(enable = "neon")]
    unsafe fn compiled_for<W: WordsWork>(work: W) -> W::Output {
        // SAFETY: this is the one place that calls it.
        unsafe { work.run() }
    }

    #[inline(always)]
    unsafe fn pack(from: PackedFrom, extents: [usize; 2], _: bool, to: &mut [i32]) -> Contents {
        // SAFETY: the caller's promise.
        unsafe { pack_f32::<Self>(from, extents, to) }
    }

    #[inline(always)]
    unsafe fn splat(word: i32) -> Self::Vector {
        // SAFETY: every AArch64 CPU has NEON.
        [unsafe { vdupq_n_f32(f32::from_bits(word.cast_unsigned())) }; VECTORS]
    }

    #[inline(always)]
    unsafe fn load(at: *const i32) -> Self::Vector {
        // SAFETY: the caller's promise.
        each(|i| unsafe { vld1q_f32(at.cast::<f32>().add(i * QUARTER)) })
    }

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: every AArch64 CPU has NEON.
        [unsafe { vdupq_n_f32(0.0) }; VECTORS]
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, a: Self::Vector, b: Self::Vector) -> Self::Sums {
        // SAFETY: every AArch64 CPU has NEON.
        each(|i| unsafe { vfmaq_f32(sums[i], a[i], b[i]) })
    }

    #[inline(always)]
    unsafe fn add(x: Self::Sums, y: Self::Sums) -> Self::Sums {
        // SAFETY: every AArch64 CPU has NEON.
        each(|i| unsafe { vaddq_f32(x[i], y[i]) })
    }

    #[inline(always)]
    unsafe fn load_sums(at: *const f32, count: usize) -> Self::Sums {
        // SAFETY: the caller's promise: there are as many.
        unsafe {
            if count >= LANES {
                return Self::load(at.cast());
            }
            let mut all = [0f32; LANES];
            at.copy_to_nonoverlapping(all.as_mut_ptr(), count);
            Self::load(all.as_ptr().cast())
        }
    }

    #[inline(always)]
    unsafe fn store_sums(to: *mut f32, sums: Self::Sums, count: usize) {
        let store = |to: *mut f32| {
            for (i, sums) in sums.into_iter().enumerate() {
                // SAFETY: there is room for a vector's sums.
                unsafe { vst1q_f32(to.add(i * QUARTER), sums) };
            }
        };
        if count >= LANES {
            return store(to);
        }
        let mut all = [0f32; LANES];
        store(all.as_mut_ptr());
        // SAFETY: the caller's promise: there is room for as many.
        unsafe { to.copy_from_nonoverlapping(all.as_ptr(), count) };
    }

    /// Six rows, four words at a time: 96 multiply-adds in 113 instructions. The sums of a panel take 24 registers, and four
    /// words of each row one. B's words take the last two, eight columns at a time. (A compiler moves loads ahead, and then
    /// spills.)
    #[inline(always)]
    unsafe fn add_run<const HIGH: usize, const WIDE: usize, const OF: usize>(
        sums: &mut [[Self::Sums; WIDE]; HIGH],
        starts: &[*const u8; HIGH],
        offset: isize,
        b: *const i32,
        length: usize,
    ) -> usize {
        let times = length / QUARTER;
        if (HIGH, WIDE, OF) != (ROWS, 1, 1) || times == 0 {
            return 0;
        }
        // SAFETY: the caller's promise: the rows have as many words, and the panel has theirs. The registers hold all sums.
        unsafe {
            asm!(
                "2:",
                "ldr q0, [{row0}], #16",
                "ldr q1, [{row1}], #16",
                "ldr q2, [{row2}], #16",
                "ldr q3, [{row3}], #16",
                "ldr q4, [{row4}], #16",
                "ldr q5, [{row5}], #16",
                "ldp q6, q7, [{b}, #0]",
                "fmla v8.4s, v6.4s, v0.s[0]", "fmla v9.4s, v7.4s, v0.s[0]",
                "fmla v12.4s, v6.4s, v1.s[0]", "fmla v13.4s, v7.4s, v1.s[0]",
                "fmla v16.4s, v6.4s, v2.s[0]", "fmla v17.4s, v7.4s, v2.s[0]",
                "fmla v20.4s, v6.4s, v3.s[0]", "fmla v21.4s, v7.4s, v3.s[0]",
                "fmla v24.4s, v6.4s, v4.s[0]", "fmla v25.4s, v7.4s, v4.s[0]",
                "fmla v28.4s, v6.4s, v5.s[0]", "fmla v29.4s, v7.4s, v5.s[0]",
                "ldp q6, q7, [{b}, #32]",
                "fmla v10.4s, v6.4s, v0.s[0]", "fmla v11.4s, v7.4s, v0.s[0]",
                "fmla v14.4s, v6.4s, v1.s[0]", "fmla v15.4s, v7.4s, v1.s[0]",
                "fmla v18.4s, v6.4s, v2.s[0]", "fmla v19.4s, v7.4s, v2.s[0]",
                "fmla v22.4s, v6.4s, v3.s[0]", "fmla v23.4s, v7.4s, v3.s[0]",
                "fmla v26.4s, v6.4s, v4.s[0]", "fmla v27.4s, v7.4s, v4.s[0]",
                "fmla v30.4s, v6.4s, v5.s[0]", "fmla v31.4s, v7.4s, v5.s[0]",
                "ldp q6, q7, [{b}, #64]",
                "fmla v8.4s, v6.4s, v0.s[1]", "fmla v9.4s, v7.4s, v0.s[1]",
                "fmla v12.4s, v6.4s, v1.s[1]", "fmla v13.4s, v7.4s, v1.s[1]",
                "fmla v16.4s, v6.4s, v2.s[1]", "fmla v17.4s, v7.4s, v2.s[1]",
                "fmla v20.4s, v6.4s, v3.s[1]", "fmla v21.4s, v7.4s, v3.s[1]",
                "fmla v24.4s, v6.4s, v4.s[1]", "fmla v25.4s, v7.4s, v4.s[1]",
                "fmla v28.4s, v6.4s, v5.s[1]", "fmla v29.4s, v7.4s, v5.s[1]",
                "ldp q6, q7, [{b}, #96]",
                "fmla v10.4s, v6.4s, v0.s[1]", "fmla v11.4s, v7.4s, v0.s[1]",
                "fmla v14.4s, v6.4s, v1.s[1]", "fmla v15.4s, v7.4s, v1.s[1]",
                "fmla v18.4s, v6.4s, v2.s[1]", "fmla v19.4s, v7.4s, v2.s[1]",
                "fmla v22.4s, v6.4s, v3.s[1]", "fmla v23.4s, v7.4s, v3.s[1]",
                "fmla v26.4s, v6.4s, v4.s[1]", "fmla v27.4s, v7.4s, v4.s[1]",
                "fmla v30.4s, v6.4s, v5.s[1]", "fmla v31.4s, v7.4s, v5.s[1]",
                "ldp q6, q7, [{b}, #128]",
                "fmla v8.4s, v6.4s, v0.s[2]", "fmla v9.4s, v7.4s, v0.s[2]",
                "fmla v12.4s, v6.4s, v1.s[2]", "fmla v13.4s, v7.4s, v1.s[2]",
                "fmla v16.4s, v6.4s, v2.s[2]", "fmla v17.4s, v7.4s, v2.s[2]",
                "fmla v20.4s, v6.4s, v3.s[2]", "fmla v21.4s, v7.4s, v3.s[2]",
                "fmla v24.4s, v6.4s, v4.s[2]", "fmla v25.4s, v7.4s, v4.s[2]",
                "fmla v28.4s, v6.4s, v5.s[2]", "fmla v29.4s, v7.4s, v5.s[2]",
                "ldp q6, q7, [{b}, #160]",
                "fmla v10.4s, v6.4s, v0.s[2]", "fmla v11.4s, v7.4s, v0.s[2]",
                "fmla v14.4s, v6.4s, v1.s[2]", "fmla v15.4s, v7.4s, v1.s[2]",
                "fmla v18.4s, v6.4s, v2.s[2]", "fmla v19.4s, v7.4s, v2.s[2]",
                "fmla v22.4s, v6.4s, v3.s[2]", "fmla v23.4s, v7.4s, v3.s[2]",
                "fmla v26.4s, v6.4s, v4.s[2]", "fmla v27.4s, v7.4s, v4.s[2]",
                "fmla v30.4s, v6.4s, v5.s[2]", "fmla v31.4s, v7.4s, v5.s[2]",
                "ldp q6, q7, [{b}, #192]",
                "fmla v8.4s, v6.4s, v0.s[3]", "fmla v9.4s, v7.4s, v0.s[3]",
                "fmla v12.4s, v6.4s, v1.s[3]", "fmla v13.4s, v7.4s, v1.s[3]",
                "fmla v16.4s, v6.4s, v2.s[3]", "fmla v17.4s, v7.4s, v2.s[3]",
                "fmla v20.4s, v6.4s, v3.s[3]", "fmla v21.4s, v7.4s, v3.s[3]",
                "fmla v24.4s, v6.4s, v4.s[3]", "fmla v25.4s, v7.4s, v4.s[3]",
                "fmla v28.4s, v6.4s, v5.s[3]", "fmla v29.4s, v7.4s, v5.s[3]",
                "ldp q6, q7, [{b}, #224]",
                "fmla v10.4s, v6.4s, v0.s[3]", "fmla v11.4s, v7.4s, v0.s[3]",
                "fmla v14.4s, v6.4s, v1.s[3]", "fmla v15.4s, v7.4s, v1.s[3]",
                "fmla v18.4s, v6.4s, v2.s[3]", "fmla v19.4s, v7.4s, v2.s[3]",
                "fmla v22.4s, v6.4s, v3.s[3]", "fmla v23.4s, v7.4s, v3.s[3]",
                "fmla v26.4s, v6.4s, v4.s[3]", "fmla v27.4s, v7.4s, v4.s[3]",
                "fmla v30.4s, v6.4s, v5.s[3]", "fmla v31.4s, v7.4s, v5.s[3]",
                "add {b}, {b}, #256",
                "subs {times}, {times}, #1",
                "b.ne 2b",
                row0 = inout(reg) starts[0].wrapping_offset(offset) => _,
                row1 = inout(reg) starts[1].wrapping_offset(offset) => _,
                row2 = inout(reg) starts[2].wrapping_offset(offset) => _,
                row3 = inout(reg) starts[3].wrapping_offset(offset) => _,
                row4 = inout(reg) starts[4].wrapping_offset(offset) => _,
                row5 = inout(reg) starts[5].wrapping_offset(offset) => _,
                b = inout(reg) b => _,
                times = inout(reg) times => _,
                inout("v8") sums[0][0][0], inout("v9") sums[0][0][1], inout("v10") sums[0][0][2], inout("v11") sums[0][0][3],
                inout("v12") sums[1][0][0], inout("v13") sums[1][0][1], inout("v14") sums[1][0][2], inout("v15") sums[1][0][3],
                inout("v16") sums[2][0][0], inout("v17") sums[2][0][1], inout("v18") sums[2][0][2], inout("v19") sums[2][0][3],
                inout("v20") sums[3][0][0], inout("v21") sums[3][0][1], inout("v22") sums[3][0][2], inout("v23") sums[3][0][3],
                inout("v24") sums[4][0][0], inout("v25") sums[4][0][1], inout("v26") sums[4][0][2], inout("v27") sums[4][0][3],
                inout("v28") sums[5][0][0], inout("v29") sums[5][0][1], inout("v30") sums[5][0][2], inout("v31") sums[5][0][3],
                out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                out("v4") _, out("v5") _, out("v6") _, out("v7") _,
                options(nostack, readonly),
            );
        }
        times * QUARTER
    }
}

impl TransposedSquares for F32ByNeon {
    const SIDE: usize = QUARTER;

    #[inline(always)]
    unsafe fn square(from: Matrix<f32>, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { neon::block(from, to, LANES) };
    }
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::testing;
    use proptest::prelude::*;

    use super::super::{Panels, WordRows, WordRun, block, pack, panel_words};
    use super::*;

    /// A small integer for each place of a matrix; sums of their products are exact.
    fn value(i: usize, j: usize, seed: usize) -> f32 {
        ((i * 7 + j * 13 + i * j % 5 + seed) % 17) as f32 - 8.0
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

        /// Every number of rows, columns and words; rows in place, which the loop of its own multiplies, and in panels; a B that
        /// is contiguous along K, along N, and with gaps.
        #[test]
        fn f32s_are_multiplied(
            rows in 1usize..20, columns in 1usize..70, depth in 0usize..60,
            (along, across) in prop_oneof![Just((1, 61)), Just((73, 1)), Just((150, 2))],
            (in_place, adds) in any::<(bool, bool)>(), seed in 0usize..100,
        ) {
            let mut b = vec![f32::NAN; 61 * 73 * 3];
            for k in 0..depth {
                for j in 0..columns {
                    b[k * along + j * across] = value(k, j, seed);
                }
            }
            let from = PackedFrom { pointer: b.as_ptr().cast(), along: 4 * along.cast_signed(), across: 4 * across.cast_signed() };
            let mut words = vec![0i32; panel_words(columns, depth)];
            // SAFETY: `b` has these elements; every AArch64 CPU has NEON.
            let contents = unsafe { pack::<F32ByNeon>(from, depth, columns, false, &mut words) };
            prop_assert!(contents.are_finite);
            // Word by word in panels, row by row in place.
            let (row, word) = if in_place { (depth, 1) } else { (1, rows) };
            let mut a = vec![0f32; rows * depth];
            for i in 0..rows {
                for k in 0..depth {
                    a[i * row + k * word] = value(i, k, seed + 1);
                }
            }
            let starts: Vec<*const u8> = (0..rows).map(|i| a.as_ptr().wrapping_add(i * row).cast()).collect();
            let (runs, before) = ([WordRun::of(depth)], if adds { 3.0 } else { 0.0 });
            let mut to = vec![3f32; rows * columns];
            let rows_of_a = WordRows::all(&starts, &runs, 4 * word.cast_signed());
            // SAFETY: `a` has the words; every AArch64 CPU has NEON.
            unsafe { block::<F32ByNeon>(columns, &[rows_of_a], Panels { words: &words, deep: depth }, (&mut to, columns, adds)) };
            for (at, x) in to.into_iter().enumerate() {
                let wanted: f32 = (0..depth).map(|k| value(at / columns, k, seed + 1) * value(k, at % columns, seed)).sum();
                prop_assert_eq!(x, wanted + before, "row {} of {}, column {}", at / columns, rows, at % columns);
            }
        }
    }
}
