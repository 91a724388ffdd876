//! Combines lanes with each other.

use super::fold_memory::{BLOCK, Combine, Combined, by_combine};
use super::registers::{Registers, by_class};
use crate::lane::{Class, Register};
use crate::simd::{Vectorised, dispatch};

/// Combines lanes with other lanes, one to one.
pub(in crate::te::auto) fn fold_block<T: Combined>(op: Combine, lanes: &mut [T], with: &[T]) {
    by_combine!(op, T, f => dispatch(FoldPairs { lanes, with, f }));
}

struct FoldPairs<'a, T, F> {
    lanes: &'a mut [T],
    with: &'a [T],
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorised for FoldPairs<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (lane, x) in self.lanes.iter_mut().zip(self.with) {
            *lane = (self.f)(*lane, *x);
        }
    }
}

/// Combines every `width` lanes to one, neighbours first, and leaves the results in the first lanes. `width` must be a
/// power of two.
pub(in crate::te::auto) fn fold_lanes<T: Combined>(op: Combine, lanes: &mut [T], width: usize) {
    by_combine!(op, T, f => dispatch(FoldLanes { lanes, width, f }));
}

struct FoldLanes<'a, T, F> {
    lanes: &'a mut [T],
    width: usize,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Vectorised for FoldLanes<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { lanes, width, f } = self;
        let Some(first) = lanes.first().copied() else { return };
        let (mut lanes, mut width) = (lanes, width);
        while width > BLOCK {
            (lanes, width) = (halved(lanes, &f), width / 2);
        }
        let mut half = [first; BLOCK / 2];
        for number in 0..lanes.len().div_ceil(BLOCK) {
            let block = &mut lanes[number * BLOCK..];
            let (mut count, mut left) = (block.len().min(BLOCK), width);
            // One level of all trees at once: neighbours stay neighbours, whichever tree they belong to.
            while left > 1 {
                (count, left) = (count / 2, left / 2);
                for (half, [a, b]) in half[..count].iter_mut().zip(block.as_chunks::<2>().0) {
                    *half = f(*a, *b);
                }
                block[..count].copy_from_slice(&half[..count]);
            }
            lanes.copy_within(number * BLOCK..number * BLOCK + count, number * (BLOCK / width));
        }
    }
}

/// One level of a tree whose number of lanes is not constant: combines neighbours in place. Gives the first half of the
/// lanes, which holds the results.
#[inline(always)]
fn halved<'a, T: Copy>(lanes: &'a mut [T], f: &impl Fn(T, T) -> T) -> &'a mut [T] {
    let count = lanes.len() / 2;
    for i in 0..count {
        lanes[i] = f(lanes[2 * i], lanes[2 * i + 1]);
    }
    &mut lanes[..count]
}

impl Registers {
    /// Combines one register with another, lane by lane.
    pub(in crate::te::auto) fn combine(&mut self, op: Combine, to: Register, from: Register, count: usize) {
        by_class!(to.class, T => {
            self.write::<T>(to, |all, lanes| fold_block(op, &mut lanes[..count], &all.get::<T>(from)[..count]));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_fold_as_a_tree_of_neighbours() {
        let mut lanes: Vec<f32> = (0..24).map(|i| (i as f32).sqrt() * 0.1).collect();
        let tree = |x: &[f32]| ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
        let want: Vec<f32> = lanes.chunks_exact(8).map(tree).collect();
        fold_lanes(Combine::Add, &mut lanes, 8);
        assert_eq!(lanes[..3], want);
        for (count, width) in [(0, 8), (2048, 2048), (4096, 1024), (1600, 64), (512, 512), (520, 8), (700, 1)] {
            let all: Vec<i64> = (0..count).map(|i| i * i % 101).collect();
            let want: Vec<i64> = all.chunks(width).map(|own| own.iter().sum()).collect();
            let mut got = all;
            fold_lanes(Combine::Add, &mut got, width);
            assert_eq!(got[..want.len()], want, "{count} lanes by {width}");
        }
    }
}
