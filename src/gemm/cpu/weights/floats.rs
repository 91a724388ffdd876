//! Products of few rows of f32s: codes become numbers in registers, once for all rows of a run.
//!
//! A group is summed without its scale: `scale · Σ a · (code - zero point)`.

use super::lanes::{INTEGERS, Lanes};
use super::row_products::{PanelRows, Sums};
use super::rows::FloatRows;
use super::view::{Panel, WeightView};
use crate::gemm::problem::CodeType;
use crate::gemm::problem::weight_values::{PANEL, WORDS, codes_of_word, place_in_word};

/// Sums that a row's products are added to in turn, so that an addition needn't wait for the last one.
const CHAINS: usize = 4;

impl PanelRows for FloatRows {
    /// The first of a row, and how many numbers there are from one row to the next.
    type From = (*const f32, usize);

    fn from(&self, row: usize) -> Self::From {
        (self.row(row).as_ptr(), self.stride())
    }

    #[inline(always)]
    unsafe fn sum<L: Lanes, const BITS: usize, const ROWS: usize>(
        weights: &WeightView,
        panel: &Panel,
        (a, stride): Self::From,
        to: &mut Sums,
    ) {
        let codes = if BITS == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let (of_word, of_group, words) = (codes_of_word(codes), weights.words_of_group(), weights.words());
        let chains = (CHAINS / ROWS).max(1);
        let scale_size = weights.quantization.scales.size();
        // SAFETY: the caller's promise: a panel has these words and groups, and a row as many numbers.
        unsafe {
            let mut totals = [L::zero(); ROWS];
            let mut zero = L::splat(weights.zero_point() + INTEGERS);
            for (group, first) in (0..words).step_by(of_group.max(1)).enumerate() {
                if let Some(zero_points) = panel.zero_points {
                    zero = L::add(L::bytes(zero_points.add(group * PANEL)), L::splat(INTEGERS));
                }
                let mut sums = [[L::zero(); CHAINS]; ROWS];
                for word in first..words.min(first + of_group) {
                    let given = L::words(panel.codes.add(word * WORDS));
                    let a = a.add(word * of_word);
                    for number in 0..of_word {
                        let (byte, bit) = place_in_word(codes, number);
                        let code = L::sub(L::number::<BITS>(given, 8 * byte + bit), zero);
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let sum = &mut sums[number % chains];
                            *sum = L::multiply_add(L::splat(*a.add(row * stride + number)), code, *sum);
                        }
                    }
                }
                let scale = L::scales(weights.quantization.scales, panel.scales.add(group * PANEL * scale_size));
                for (total, sums) in totals.iter_mut().zip(sums) {
                    let sum = match chains {
                        4 => L::add(L::add(sums[0], sums[1]), L::add(sums[2], sums[3])),
                        2 => L::add(sums[0], sums[1]),
                        _ => sums[0],
                    };
                    *total = L::multiply_add(scale, sum, *total);
                }
            }
            for (to, total) in to.iter_mut().zip(totals) {
                L::store(total, to.as_mut_ptr());
            }
        }
    }
}
