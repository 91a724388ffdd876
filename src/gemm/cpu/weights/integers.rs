//! Products of rows that were rounded to 8 bits: codes are multiplied as integers, a step of K at a time.
//!
//! A step is at most a block of A and a group of weights. Its sum is exact, below 2^24, and so is the part of the zero
//! point: `scale · scale of the block · (Σ a · code - zero point · Σ a)`.

use super::lanes::{Lanes, OnLanes};
use super::level::{Level, at};
use super::rows::IntegerRows;
use super::view::{Panel, WeightView, pieces, runs, write};
use crate::gemm::cpu::tile::Tile;
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

    /// A tile of rows of integers.
    ///
    /// # Safety
    /// The CPU must have the level; the weights' memory must live, and no thread may write it.
    pub(super) unsafe fn integers(&self, level: Level, tile: &Tile, rows: &IntegerRows, to: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { at(level, Integers { weights: self, tile, rows, to }) }
    }
}

struct Integers<'a> {
    weights: &'a WeightView,
    tile: &'a Tile,
    rows: &'a IntegerRows,
    to: &'a mut [f32],
}

impl OnLanes for Integers<'_> {
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

/// Some rows from one on: codes, scales of blocks, and sums of steps.
#[derive(Clone, Copy)]
struct From {
    codes: *const i8,
    scales: *const f32,
    sums: *const f32,
    strides: [usize; 3],
}

impl Integers<'_> {
    #[inline(always)]
    unsafe fn all<L: Lanes, const BITS: usize>(self) {
        let Self { weights, tile, rows, to } = self;
        let mut sums = [[0.0; PANEL]; 8];
        let [codes, scales, steps] = rows.strides;
        // The rows of a run stay in the nearest cache, and the tile's codes in the next.
        for run in runs(tile.rows.len(), L::ROWS) {
            let (first, count) = (run.start, run.len());
            let from = From {
                codes: rows.codes[first * codes..].as_ptr(),
                scales: rows.scales[first * scales..].as_ptr(),
                sums: rows.sums[first * steps..].as_ptr(),
                strides: rows.strides,
            };
            for (number, in_panel, column) in pieces(&tile.columns) {
                let panel = weights.panel(tile.batch, number);
                // SAFETY: the caller's promise; there are as many rows.
                unsafe {
                    match count {
                        8 => weights.integer_sum::<L, BITS, 8>(&panel, from, &mut sums),
                        4 => weights.integer_sum::<L, BITS, 4>(&panel, from, &mut sums),
                        2 => weights.integer_sum::<L, BITS, 2>(&panel, from, &mut sums),
                        _ => weights.integer_sum::<L, BITS, 1>(&panel, from, &mut sums),
                    }
                }
                write(&sums[..count], first, (&in_panel, column), tile.columns.len(), to);
            }
        }
    }
}

impl WeightView {
    /// The products of a panel and some rows.
    #[inline(always)]
    unsafe fn integer_sum<L: Lanes, const BITS: usize, const ROWS: usize>(
        &self,
        panel: &Panel,
        from: From,
        to: &mut [[f32; PANEL]; 8],
    ) {
        let codes = if BITS == 4 { CodeType::Uint4 } else { CodeType::Uint8 };
        let (of_word, of_group, words) = (codes_of_word(codes), self.words_of_group(), self.words());
        let step = self.step();
        let (of_step, steps_of_block) = (step / of_word, ACTIVATION_BLOCK / step);
        let scale_size = self.quantization.scales.size();
        let [row_codes, row_scales, row_sums] = from.strides;
        // SAFETY: the caller's promise: a panel has these words and groups, and a row has codes for all words.
        unsafe {
            let mut totals = [L::zero(); ROWS];
            let mut zero = L::splat(-self.zero_point());
            for (group, first) in (0..words).step_by(of_group.max(1)).enumerate() {
                if let Some(zero_points) = panel.zero_points {
                    zero = L::sub(L::zero(), L::bytes(zero_points.add(group * PANEL)));
                }
                let scale = L::scales(self.quantization.scales, panel.scales.add(group * PANEL * scale_size));
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
