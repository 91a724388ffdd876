//! Products of rows that were rounded to 8 bits: codes are multiplied as integers, a step of K at a time.
//!
//! A step is at most a block of A and a group of weights. Its sum is exact, below 2^24, and so is the part of the zero
//! point: `scale · scale of the block · (Σ a · code - zero point · Σ a)`.

use super::lanes::Lanes;
use super::row_products::{PanelRows, Sums};
use super::rows::IntegerRows;
use super::view::{Panel, WeightView};
use crate::gemm::problem::CodeType;
use crate::gemm::problem::quantization::{ACTIVATION_BLOCK, STEP};
use crate::gemm::problem::weight_values::{PANEL, WORDS, codes_of_word};

impl WeightView {
    /// Codes along K of a step.
    pub(super) fn step(&self) -> usize {
        let is_one = self.quantization.groups_of(self.extents.k) <= 1;
        let divides = self.quantization.group_of(self.extents.k).is_multiple_of(ACTIVATION_BLOCK);
        if is_one || divides { ACTIVATION_BLOCK } else { STEP }
    }
}

/// Some rows from one on: codes, scales of blocks, and sums of steps.
#[derive(Clone, Copy)]
pub(super) struct From {
    codes: *const i8,
    scales: *const f32,
    sums: *const f32,
    strides: [usize; 3],
}

impl PanelRows for IntegerRows {
    type From = From;

    fn from(&self, row: usize) -> From {
        let [codes, scales, steps] = self.strides;
        From {
            codes: self.codes[row * codes..].as_ptr(),
            scales: self.scales[row * scales..].as_ptr(),
            sums: self.sums[row * steps..].as_ptr(),
            strides: self.strides,
        }
    }

    #[inline(always)]
    unsafe fn sum<L: Lanes, const BITS: usize, const ROWS: usize>(
        weights: &WeightView,
        panel: &Panel,
        from: From,
        to: &mut Sums,
    ) {
        let codes = if BITS == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let (of_word, of_group, words) = (codes_of_word(codes), weights.words_of_group(), weights.words());
        let step = weights.step();
        let (of_step, steps_of_block) = (step / of_word, ACTIVATION_BLOCK / step);
        let scale_size = weights.quantization.scales.size();
        let [row_codes, row_scales, row_sums] = from.strides;
        // SAFETY: the caller's promise: a panel has these words and groups, and a row has codes for all words.
        unsafe {
            let mut totals = [L::zero(); ROWS];
            let mut zero = L::splat(-weights.zero_point());
            for (group, first) in (0..words).step_by(of_group.max(1)).enumerate() {
                if let Some(zero_points) = panel.zero_points {
                    zero = L::sub(L::zero(), L::bytes(zero_points.add(group * PANEL)));
                }
                let scale = L::scales(weights.quantization.scales, panel.scales.add(group * PANEL * scale_size));
                let after = words.min(first + of_group);
                for start in (first..after).step_by(of_step) {
                    let mut sums = [L::no_words(); ROWS];
                    for word in start..after.min(start + of_step) {
                        let given = L::words(panel.codes.add(word * WORDS));
                        let a = from.codes.add(word * of_word);
                        if BITS == 4 {
                            let (low, high) = (L::halves(given, false), L::halves(given, true));
                            for (row, sum) in sums.iter_mut().enumerate() {
                                let a = a.add(row * row_codes).cast::<i32>();
                                *sum = L::dot::<BITS>(*sum, low, a.read_unaligned());
                                *sum = L::dot::<BITS>(*sum, high, a.add(1).read_unaligned());
                            }
                        } else {
                            for (row, sum) in sums.iter_mut().enumerate() {
                                let a = a.add(row * row_codes).cast::<i32>();
                                *sum = L::dot::<BITS>(*sum, given, a.read_unaligned());
                            }
                        }
                    }
                    let number = start / of_step;
                    for (row, (total, sum)) in totals.iter_mut().zip(sums).enumerate() {
                        let of_a = *from.scales.add(row * row_scales + number / steps_of_block);
                        let sum_of_a = L::splat(*from.sums.add(row * row_sums + number));
                        let difference = L::multiply_add(zero, sum_of_a, L::from_integers(sum));
                        *total = L::multiply_add(L::mul(scale, L::splat(of_a)), difference, *total);
                    }
                }
            }
            for (to, total) in to.iter_mut().zip(totals) {
                L::store(total, to.as_mut_ptr());
            }
        }
    }
}
