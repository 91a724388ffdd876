//! The compiled loops of a reduction, and how neighbouring outputs are divided into strips.

use std::ops::Range;

use super::point_loop::PointLoop;
use super::walk::Walk;
use crate::lane::Register;

/// The loops of a reduction that have been compiled.
#[derive(Debug, Default)]
pub(in crate::te::auto::cpu) struct MachineLoops {
    /// Combines points of an output, whose lanes share them.
    pub(in crate::te::auto::cpu) add: Option<PointLoop>,
    /// Computes the outputs of points, along the same loops.
    pub(in crate::te::auto::cpu) apply: Option<PointLoop>,
    /// Both, if lanes are outputs.
    pub(in crate::te::auto::cpu) columns: Option<Columns>,
}

/// The outputs of a strip are a multiple of those in a cache line.
const LINE: i64 = 16;
/// The fewest outputs of a strip: narrower ones would read memory in pieces that are too small.
pub(in crate::te::auto::cpu) const NARROW: i64 = 128;

/// How outputs are divided into strips of neighbours: each line of them, along the last of the loops, begins with a new one.
#[derive(Clone, Copy, Debug)]
pub(in crate::te::auto::cpu) struct Strips {
    pub(in crate::te::auto::cpu) line: i64,
    pub(in crate::te::auto::cpu) width: i64,
}

/// Neighbouring outputs: the first, and how many.
pub(in crate::te::auto::cpu) type Strip = (i64, usize);

/// A reduction of neighbouring outputs, compiled for strips of two widths.
#[derive(Debug)]
pub(in crate::te::auto::cpu) struct Columns {
    pub(in crate::te::auto::cpu) strips: Strips,
    pub(in crate::te::auto::cpu) add: Walks,
    pub(in crate::te::auto::cpu) apply: Option<Walks>,
    /// The registers whose lanes a strip has in memory. Values that all elements of an output share come first, then
    /// the state's.
    pub(in crate::te::auto::cpu) registers: Vec<Register>,
    /// The words of 32 bits of a lane.
    pub(in crate::te::auto::cpu) words: usize,
    /// The number of shared values.
    pub(in crate::te::auto::cpu) invariant: usize,
}

/// The code for the strips of a line, and for the last one if that is narrower.
#[derive(Debug)]
pub(in crate::te::auto::cpu) struct Walks {
    whole: Walk,
    last: Option<Walk>,
}

impl Strips {
    /// The strips of some outputs. The last one is whole, or ends with its line.
    pub(in crate::te::auto::cpu) fn of(self, outputs: Range<i64>) -> impl Iterator<Item = Strip> {
        let mut first = outputs.start;
        std::iter::from_fn(move || {
            let in_line = first % self.line;
            let count = (self.width - in_line % self.width).min(self.line - in_line).min(outputs.end - first);
            first += count;
            (count > 0).then_some((first - count, count as usize))
        })
    }

    /// The number of strips of `outputs` outputs, in whole lines.
    pub(in crate::te::auto::cpu) const fn count(self, outputs: i64) -> i64 {
        outputs / self.line * ((self.line + self.width - 1) / self.width)
    }

    /// Strips of about the same width, at most `width` outputs. (There must be some.)
    pub(in crate::te::auto::cpu) fn at_most(line: i64, width: i64) -> Self {
        let pieces = (line + width - 1) / width;
        let even = (line + pieces - 1) / pieces;
        Self { line, width: ((even + LINE - 1) / LINE * LINE).min(line) }
    }
}

impl Walks {
    pub(in crate::te::auto::cpu) fn of(strips: Strips, walk: impl Fn(usize) -> Option<Walk>) -> Option<Self> {
        let last = match strips.line % strips.width {
            0 => None,
            rest => Some(walk(rest as usize)?),
        };
        Some(Self { whole: walk(strips.width as usize)?, last })
    }

    pub(in crate::te::auto::cpu) fn of_strip(&self, strips: Strips, count: usize) -> &Walk {
        if count as i64 == strips.width { &self.whole } else { self.last.as_ref().unwrap_or(&self.whole) }
    }
}

impl Columns {
    /// The words of a register's lanes in memory.
    pub(in crate::te::auto::cpu) const fn of_register(&self) -> usize {
        self.words * self.strips.width as usize
    }

    /// The words of the lanes in memory of a strip's invariant registers, and of its state.
    pub(in crate::te::auto::cpu) fn lanes(&self) -> [usize; 2] {
        [self.invariant, self.registers.len() - self.invariant].map(|count| count * self.of_register())
    }
}
