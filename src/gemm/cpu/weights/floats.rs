//! Products of few rows of f32s: codes become numbers in registers, once for all rows of a run.
//!
//! A group is summed without its scale: `scale · Σ a · (code - zero point)`.

use super::lanes::{INTEGERS, Lanes, OnLanes};
use super::level::{Level, at};
use super::rows::FloatRows;
use super::view::{Panel, WeightView, pieces, runs, write};
use crate::gemm::cpu::tile::Tile;
use crate::gemm::problem::CodeType;
use crate::gemm::problem::weight_values::{PANEL, WORDS, codes_of_word, place_in_word};

impl WeightView {
    /// A tile of few rows.
    ///
    /// # Safety
    /// The CPU must have the level; the weights' memory must live, and no thread may write it.
    pub(super) unsafe fn floats(&self, level: Level, tile: &Tile, rows: &FloatRows, to: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { at(level, Floats { weights: self, tile, rows, to }) }
    }
}

struct Floats<'a> {
    weights: &'a WeightView,
    tile: &'a Tile,
    rows: &'a FloatRows,
    to: &'a mut [f32],
}

impl OnLanes for Floats<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.weights.quantization.codes.bits() {
                4 => self.all::<L, 4>(),
                _ => self.all::<L, 8>(),
            }
        }
    }
}

impl Floats<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, const BITS: usize>(self) {
        let Self { weights, tile, rows, to } = self;
        let mut sums = [[0.0; PANEL]; 8];
        for run in runs(tile.rows.len(), L::ROWS) {
            let (first, count) = (run.start, run.len());
            let a = rows.row(first).as_ptr();
            for (number, in_panel, column) in pieces(&tile.columns) {
                let panel = weights.panel(tile.batch, number);
                // SAFETY: the caller's promise; there are as many rows.
                unsafe {
                    match count {
                        8 => weights.sum::<L, BITS, 8>(&panel, (a, rows.stride()), &mut sums),
                        4 => weights.sum::<L, BITS, 4>(&panel, (a, rows.stride()), &mut sums),
                        2 => weights.sum::<L, BITS, 2>(&panel, (a, rows.stride()), &mut sums),
                        _ => weights.sum::<L, BITS, 1>(&panel, (a, rows.stride()), &mut sums),
                    }
                }
                write(&sums[..count], first, (&in_panel, column), tile.columns.len(), to);
            }
        }
    }
}

/// Sums that a row's products are added to in turn, so that an addition needn't wait for the last one.
const CHAINS: usize = 4;

impl WeightView {
    /// The products of a panel and some rows.
    #[inline(always)]
    unsafe fn sum<L: Lanes, const BITS: usize, const ROWS: usize>(
        &self,
        panel: &Panel,
        (a, stride): (*const f32, usize),
        to: &mut [[f32; PANEL]; 8],
    ) {
        let codes = if BITS == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let (of_word, of_group, words) = (codes_of_word(codes), self.words_of_group(), self.words());
        let chains = (CHAINS / ROWS).max(1);
        let scale_size = self.quantization.scales.size();
        // SAFETY: the caller's promise: a panel has these words and groups, and a row as many numbers.
        unsafe {
            let mut totals = [L::zero(); ROWS];
            let mut zero = L::splat(self.zero_point() + INTEGERS);
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
                let scale = L::scales(self.quantization.scales, panel.scales.add(group * PANEL * scale_size));
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
