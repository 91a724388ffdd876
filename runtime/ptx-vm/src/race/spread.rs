//! Reads that groups of a warp's lanes make at equal distances, each remembered as one.
//!
//! Tiles in shared memory are mostly read so: lanes, or groups of lanes that read one place, read neighbouring places,
//! or one element of each neighbouring vector. If the warp knows of every write to the page, the read races with
//! nothing there, and only later writes have to meet it. It is then remembered once, not in each cell.

use super::rules::Judge;
use super::stamp::Stamp;

/// Bytes of a word, the smallest place that is remembered.
pub(super) const WORD: u32 = 4;
/// The words of a page: the bits of a number.
pub(super) const WORDS: u32 = u64::BITS;
/// Reads of one page by one warp that are remembered.
const READS: usize = 16;
/// Actors whose writes to one page are told apart.
const WRITERS: usize = 32;

/// The part in one page of a read that groups of lanes make at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The first byte in the page.
    pub(super) first: u32,
    /// The number of groups.
    pub(super) count: u32,
    /// The bytes that one group reads, at least a word. All of them begin at a multiple of it.
    pub(super) each: u32,
    /// The distance in bytes from one group's place to the next one's, at least what one reads.
    pub(super) stride: u32,
    /// The lanes of the first group. The lanes of the next group are `step` more.
    pub(super) lanes: u32,
    pub(super) step: u32,
}

impl Spread {
    /// The largest distance at which reads are worth being remembered together.
    pub(super) const FARTHEST: u64 = (WORDS * WORD / 4) as u64;

    /// The groups: the first byte in the page, and the lanes.
    pub(super) fn groups(self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.count).map(move |group| (self.first + group * self.stride, self.lanes << (group * self.step)))
    }

    /// The words that they read.
    #[inline]
    fn words(self) -> u64 {
        let (mut words, mut distance, mut groups) = (touched(self.first, self.each), self.stride / WORD, 1);
        while groups < self.count && distance < WORDS {
            words |= words << distance;
            (distance, groups) = (2 * distance, 2 * groups);
        }
        words & touched(self.first, (self.count - 1) * self.stride + self.each)
    }
}

/// The words that these bytes of a page touch.
fn touched(first: u32, length: u32) -> u64 {
    let (start, end) = (first / WORD, (first + length).div_ceil(WORD));
    if start < end { u64::MAX >> (WORDS - (end - start)) << start } else { 0 }
}

/// The words that these bytes of a page fill.
fn filled(first: u32, length: u32) -> u64 {
    let (start, end) = (first.div_ceil(WORD), (first + length) / WORD);
    if start < end { u64::MAX >> (WORDS - (end - start)) << start } else { 0 }
}

/// A read, as far as nothing has overwritten it.
#[derive(Clone, Copy, Debug)]
struct Read {
    stamp: Stamp,
    spread: Spread,
    /// Words that it has read and that were not written since.
    words: u64,
}

/// The reads of one warp in one page.
#[derive(Clone, Debug, Default)]
struct OfWarp {
    reads: Vec<Read>,
    /// The words of all of them.
    words: u64,
}

/// The spread reads of one page.
#[derive(Clone, Debug, Default)]
pub(super) struct Spreads {
    /// By the warp's number in its block.
    warps: Vec<OfWarp>,
    /// The actors that have written to the page, with the clock of each one's last write; the latest one first.
    writers: Vec<Stamp>,
    /// Whether there are more writers.
    crowded: bool,
    /// Warps of the block that know of all writes, a bit for each.
    informed: u32,
}

impl Spreads {
    /// Whether a warp of the block knows of all writes to the page.
    #[inline]
    fn is_informed<J: Judge>(&mut self, warp: u32, judge: &J) -> bool {
        let bit = 1 << (warp % 32);
        if self.informed & bit == 0 {
            if self.crowded || !self.writers.iter().all(|write| judge.sees_at_once(write)) {
                return false;
            }
            // A warp never forgets what it knows.
            self.informed |= bit;
        }
        true
    }

    /// Remembers a plain read by a warp of the block; false if it must be judged group by group.
    #[inline]
    pub(super) fn read<J: Judge>(&mut self, spread: Spread, warp: u32, now: &Stamp, judge: &J) -> bool {
        if !self.is_informed(warp, judge) {
            return false;
        }
        if self.warps.len() <= warp as usize {
            self.warps.resize_with(warp as usize + 1, OfWarp::default);
        }
        let OfWarp { reads, words } = &mut self.warps[warp as usize];
        let read = Read { stamp: *now, spread, words: spread.words() };
        let is_full = reads.len() >= READS;
        // The later read of the same lanes replaces their earlier one.
        match reads.iter_mut().find(|earlier| earlier.spread == spread) {
            Some(earlier) => *earlier = read,
            None if is_full => return false,
            None => reads.push(read),
        }
        *words |= read.words;
        true
    }

    /// Judges a write of bytes of the page by the reads, and notes it. `page` is the page's address.
    #[inline]
    pub(super) fn write<J: Judge>(&mut self, page: u64, first: u32, length: u32, now: &Stamp, judge: &mut J) {
        self.informed = 0;
        match self.writers.first_mut() {
            Some(last) if last.actor == now.actor => last.clock = last.clock.max(now.clock),
            _ => self.note_writer(now),
        }
        // As in cells, a weak write takes the place of what was before it.
        let (met, replaced) = (touched(first, length), if now.is_strong() { 0 } else { filled(first, length) });
        for warp in self.warps.iter_mut().filter(|warp| warp.words & met != 0) {
            for read in warp.reads.iter_mut().filter(|read| read.words & met != 0) {
                if !judge.sees_at_once(&read.stamp) {
                    judge_groups(read, page, first..first + length, now, judge);
                }
                read.words &= !replaced;
            }
            warp.words &= !replaced;
            warp.reads.retain(|read| read.words != 0);
        }
    }

    /// Makes a writer the first one.
    fn note_writer(&mut self, now: &Stamp) {
        let known = self.writers.iter().position(|write| write.actor == now.actor);
        match known {
            Some(index) => {
                self.writers.swap(0, index);
                self.writers[0].clock = self.writers[0].clock.max(now.clock);
            }
            None if self.writers.len() >= WRITERS => self.crowded = true,
            None => {
                self.writers.push(*now);
                let index = self.writers.len() - 1;
                self.writers.swap(0, index);
            }
        }
    }

    /// Forgets reads of a page that is overwritten as a whole.
    pub(super) fn overwritten(&mut self, now: &Stamp) {
        *self = Self { writers: vec![*now], ..Self::default() };
    }
}

/// Judges a write of some bytes by the groups of a read that have read them.
#[cold]
fn judge_groups<J: Judge>(read: &Read, page: u64, written: std::ops::Range<u32>, now: &Stamp, judge: &mut J) {
    for (start, lanes) in read.spread.groups() {
        let (from, to) = (start.max(written.start), (start + read.spread.each).min(written.end));
        let earlier = read.stamp.by(lanes);
        if from < to && read.words & touched(from, to - from) != 0 && !judge.sees(&earlier, now) {
            judge.race(&earlier, now, page + u64::from(from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_touched_and_filled() {
        assert_eq!((touched(0, 256), filled(0, 256)), (u64::MAX, u64::MAX));
        assert_eq!((touched(252, 4), filled(252, 4)), (1 << 63, 1 << 63));
        assert_eq!((touched(3, 2), filled(3, 2)), (0b11, 0));
        assert_eq!((touched(2, 8), filled(2, 8)), (0b111, 0b10));
    }

    #[test]
    fn the_words_of_a_spread_are_those_of_its_groups() {
        for (first, count, each, stride) in
            [(0, 32, 4, 4), (0, 16, 16, 16), (4, 16, 4, 16), (240, 1, 16, 16), (8, 5, 8, 40)]
        {
            let spread = Spread { first, count, each, stride, lanes: 1, step: 1 };
            let expected = spread.groups().fold(0, |words, (start, _)| words | touched(start, each));
            assert_eq!(spread.words(), expected, "{spread:?}");
        }
    }
}
