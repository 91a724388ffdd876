//! A block of the product by Intel's Advanced Matrix Extensions (AMX). Its registers have 16 lines of 16 words; one
//! instruction multiplies two of them, 16 rows of A by 16 columns of B along 16 words of K.
//!
//! B's words are read from their [panels](super::pack) as they lie. A's rows are read in place if a panel's few columns
//! need them once. Otherwise 32 rows at a time are copied to tiles without gaps. Lines are aligned there, and do not
//! displace each other from the first-level cache. If K ends within 16 words, the rest is zeros.
//!
//! # Order of the sums
//! 8-bit integers are summed exactly. For 16 words of bf16s, even and odd places are summed apart, in the order of K,
//! each product added in one rounding. Then both sums are added, and the result is added to the running sum. (Intel 64
//! and IA-32 Architectures Software Developer's Manual, volume 2, `TDPBF16PS`; it takes subnormal numbers for 0, as
//! `vdpbf16ps` does.)

use std::arch::asm;
use std::arch::x86_64::{
    _MM_HINT_T1, _mm_prefetch, _mm512_loadu_si512, _mm512_mask_storeu_epi32, _mm512_maskz_loadu_epi32,
    _mm512_setzero_si512, _mm512_storeu_si512,
};
use std::mem::MaybeUninit;
use std::ops::Range;

use super::avx512::mask;
use super::operands::{Panels, WordRows};
use super::pack::{Magnitude, VECTORS_OF_TILES as WIDE};
use super::pack_avx512::{Least, transpose};
use super::{LANES, TileDot, Words, WordsWork};

/// Lines of a tile: rows of A, words of K of B.
const LINES: usize = 16;
/// Bytes of a line, and of a tile.
const LINE: usize = 4 * LANES;
const TILE: usize = LINES * LINE;
/// Tiles of rows at a time.
const HIGH: usize = 2;
/// Steps of 16 words along K that are copied at a time.
const DEEP: usize = 16;

/// A [`block`](super::block()) with checked extents.
pub(super) struct Block<'a, W: Words> {
    pub(super) dot: TileDot,
    pub(super) columns: usize,
    pub(super) a: &'a [WordRows<'a>],
    pub(super) b: Panels<'a>,
    /// The words along K that A has any of.
    pub(super) words: Range<usize>,
    pub(super) to: *mut W::Sum,
    pub(super) stride: usize,
    pub(super) adds: bool,
}

impl<W: Words> WordsWork for Block<'_, W> {
    type Output = Magnitude;

    #[inline(always)]
    unsafe fn run(self) -> Magnitude {
        let mut memory = MaybeUninit::<Memory>::uninit();
        let memory = memory.as_mut_ptr();
        // SAFETY: the CPU has the registers, by the caller's promise; nothing else uses them meanwhile.
        unsafe {
            configure();
            let mut least = Least::new();
            for first in self.words.clone().step_by(DEEP * LINES) {
                let words = first..self.words.end.min(first + DEEP * LINES);
                let adds = self.adds || first > self.words.start;
                let mut rows = AllRows { of: self.a, row: 0 };
                while let Some(these) = rows.next() {
                    least = self.rows(&these, words.clone(), adds, memory, least);
                }
            }
            release();
            least.magnitude()
        }
    }
}

/// A thread's memory for one block.
#[repr(C, align(64))]
struct Memory {
    /// The tiles of rows of A: of the first step all, then of the next.
    a: [u8; HIGH * DEEP * TILE],
    /// The last words of B, if they are fewer than a tile's.
    last: [u8; WIDE * TILE],
    /// The result, if it isn't whole tiles.
    to: [u8; HIGH * WIDE * TILE],
    /// The words of one row.
    row: [u8; DEEP * LINE],
}

/// At most [`HIGH`] tiles of rows.
struct Lines<'a> {
    rows: [(&'a WordRows<'a>, usize); HIGH * LINES],
    count: usize,
}

/// All rows, of one set after another.
struct AllRows<'a> {
    of: &'a [WordRows<'a>],
    row: usize,
}

impl<'a> AllRows<'a> {
    #[inline(always)]
    fn next(&mut self) -> Option<Lines<'a>> {
        let mut lines = Lines { rows: [(self.of.first()?, 0); HIGH * LINES], count: 0 };
        while lines.count < HIGH * LINES
            && let Some((first, rest)) = self.of.split_first()
        {
            if self.row == first.starts.len() {
                *self = Self { of: rest, row: 0 };
                continue;
            }
            lines.rows[lines.count] = (first, self.row);
            (lines.count, self.row) = (lines.count + 1, self.row + 1);
        }
        (lines.count > 0).then_some(lines)
    }
}

/// Where tiles of A begin, and how many bytes a line, a tile of other rows, and the next step are away.
#[derive(Clone, Copy)]
struct Tiles {
    pointer: *const u8,
    line: isize,
    tile: isize,
    step: isize,
}

impl<W: Words> Block<'_, W> {
    /// These rows' products along these words of K with all columns.
    #[inline(always)]
    unsafe fn rows(
        &self,
        rows: &Lines<'_>,
        words: Range<usize>,
        adds: bool,
        memory: *mut Memory,
        mut least: Least,
    ) -> Least {
        let high = rows.count.div_ceil(LINES);
        let (whole, rest) = (words.len() / LINES, words.len() % LINES);
        // SAFETY: the caller's promise: `a` has the rows and words, `b` whole panels, `to` the rows and columns.
        unsafe {
            let (copied, row) = ((&raw mut (*memory).a).cast::<u8>(), (&raw mut (*memory).row).cast());
            let in_place = if self.columns <= WIDE * LANES { rows.in_place(&words) } else { None };
            let read = words.start..if in_place.is_some() { words.start + whole * LINES } else { words.start };
            if let Some(tiles) = &in_place {
                least = rows.seen::<W>(&read, tiles, least);
            }
            least = rows.copy::<W>(read.end..words.end, copied, row, least);
            let step = (high * TILE).cast_signed();
            let copies = Tiles { pointer: copied, line: LINE as isize, tile: TILE as isize, step };
            let last = if in_place.is_some() { copies } else { copies.after(whole) };
            let a = in_place.unwrap_or(copies);
            for column in (0..self.columns).step_by(WIDE * LANES) {
                let wide = (self.columns - column).div_ceil(LANES).min(WIDE);
                let panel = self.b.words.as_ptr().add(column * self.b.deep + words.start * wide * LANES).cast::<u8>();
                let line = (wide * LINE).cast_signed();
                let b = |pointer| Tiles { pointer, line, tile: LINE as isize, step: LINES as isize * line };
                let part = To { rows, column, wide, adds };
                let kept = (&raw mut (*memory).to).cast();
                let (to, line) = part.begin(self, kept);
                if whole > 0 {
                    multiply(self.dot, [high, wide], whole, (a, b(panel)), (to, line, adds));
                }
                if rest > 0 {
                    let last_of_b = (&raw mut (*memory).last).cast::<u8>();
                    panel.add(whole * TILE * wide).copy_to_nonoverlapping(last_of_b, rest * wide * LINE);
                    last_of_b.add(rest * wide * LINE).write_bytes(0, (LINES - rest) * wide * LINE);
                    multiply(self.dot, [high, wide], 1, (last, b(last_of_b)), (to, line, adds || whole > 0));
                }
                part.end(self, kept, to);
            }
            least
        }
    }
}

impl Tiles {
    fn after(self, steps: usize) -> Self {
        Self { pointer: self.pointer.wrapping_offset(self.step * steps.cast_signed()), ..self }
    }
}

impl Lines<'_> {
    /// The tiles in place, if these rows fill them, are equally far apart, and have their words one after another.
    #[inline(always)]
    fn in_place(&self, words: &Range<usize>) -> Option<Tiles> {
        let (of, row) = self.rows[0];
        let (offset, 4) = (of.offset(words)?, of.word) else { return None };
        let starts = of.starts.get(row..row + self.count)?;
        let line = starts.get(1)?.addr().wrapping_sub(starts[0].addr()).cast_signed();
        let are_even = starts.windows(2).all(|two| two[0].wrapping_offset(line) == two[1]);
        let pointer = starts[0].wrapping_offset(offset);
        (self.count.is_multiple_of(LINES) && are_even).then_some(Tiles {
            pointer,
            line,
            tile: line * LINES as isize,
            step: LINE as isize,
        })
    }

    /// Takes these words of lines in tiles into account, and prefetches the words after them.
    #[inline(always)]
    unsafe fn seen<W: Words>(&self, words: &Range<usize>, tiles: &Tiles, mut least: Least) -> Least {
        let next = tiles.tile * self.count.div_ceil(LINES).cast_signed();
        for i in 0..self.count {
            let from = tiles.pointer.wrapping_offset(i.cast_signed() * tiles.line);
            for step in 0..words.len() / LINES {
                let at = from.wrapping_add(step * LINE);
                // SAFETY: the caller's promise: there are these words; what is fetched may be at any address.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T1>(at.wrapping_offset(next).cast());
                    if W::DROPS_SUBNORMALS {
                        least = least.with(_mm512_loadu_si512(at.cast()));
                    }
                }
            }
        }
        least
    }

    /// Writes these words of all rows to tiles, and zeros for missing words.
    #[inline(always)]
    unsafe fn copy<W: Words>(&self, words: Range<usize>, to: *mut u8, row: *mut i32, mut least: Least) -> Least {
        let high = self.count.div_ceil(LINES);
        let steps = words.len().div_ceil(LINES);
        // SAFETY: the caller's promise: there are these words, and memory for them.
        unsafe {
            for tile in 0..high {
                let lines = tile * LINES..self.count.min((tile + 1) * LINES);
                let to = to.add(tile * TILE);
                if let Some((from, word)) = self.across(&lines, &words) {
                    for step in 0..steps {
                        let wide = (words.len() - step * LINES).min(LINES);
                        let mut cell = [_mm512_setzero_si512(); LINES];
                        for (i, to) in cell.iter_mut().enumerate().take(wide) {
                            let at = from.wrapping_offset((step * LINES + i).cast_signed() * word);
                            *to = _mm512_maskz_loadu_epi32(mask(lines.len()), at.cast());
                        }
                        for (i, x) in transpose(cell).into_iter().enumerate() {
                            _mm512_storeu_si512(to.add(step * high * TILE + i * LINE).cast(), x);
                        }
                    }
                    continue;
                }
                for (i, line) in lines.enumerate() {
                    let (from, to) = (self.along(line, &words, row), to.add(i * LINE));
                    let mut take = |step: usize, x| {
                        if W::DROPS_SUBNORMALS {
                            least = least.with(x);
                        }
                        _mm512_storeu_si512(to.add(step * high * TILE).cast(), x);
                    };
                    for step in 0..words.len() / LINES {
                        take(step, _mm512_loadu_si512(from.add(step * LINE).cast()));
                    }
                    if !words.len().is_multiple_of(LINES) {
                        let rest = mask(words.len() % LINES);
                        take(steps - 1, _mm512_maskz_loadu_epi32(rest, from.add((steps - 1) * LINE).cast()));
                    }
                }
            }
        }
        least
    }

    /// If these lines follow each other in memory, word by word: where the first of these words of the first one is, and how many
    /// bytes the next word is from it.
    fn across(&self, lines: &Range<usize>, words: &Range<usize>) -> Option<(*const u8, isize)> {
        let (of, row) = self.rows[lines.start];
        let offset = of.offset(words).filter(|_| of.word != 4)?;
        let starts = of.starts.get(row..row + lines.len())?;
        let follow = starts.windows(2).all(|two| two[0].wrapping_add(4) == two[1]);
        follow.then(|| (starts[0].wrapping_offset(offset), of.word))
    }

    /// These words of a line: where they lie, if they do so one after another; else gathered in `row`.
    #[inline(always)]
    unsafe fn along(&self, line: usize, words: &Range<usize>, row: *mut i32) -> *const u8 {
        let (of, number) = self.rows[line];
        let start = of.starts[number];
        if let (Some(offset), 4) = (of.offset(words), of.word) {
            return start.wrapping_offset(offset);
        }
        // SAFETY: the caller's promise: the line has its runs' words, and `row` has room for all of `words`.
        unsafe {
            row.write_bytes(0, words.len());
            for run in of.runs {
                let common = run.first.max(words.start)..(run.first + run.length).min(words.end);
                if !run.of.has(number) || common.is_empty() {
                    continue;
                }
                let from = start.wrapping_offset(run.offset + (common.start - run.first).cast_signed() * of.word);
                let to = row.add(common.start - words.start);
                if of.word == 4 {
                    from.copy_to_nonoverlapping(to.cast(), 4 * common.len());
                    continue;
                }
                for i in 0..common.len() {
                    let word = from.wrapping_offset(i.cast_signed() * of.word).cast::<i32>().read_unaligned();
                    to.add(i).write(word);
                }
            }
            row.cast_const().cast()
        }
    }
}

/// Columns of the result.
struct To<'a> {
    rows: &'a Lines<'a>,
    column: usize,
    /// Their vectors.
    wide: usize,
    adds: bool,
}

impl To<'_> {
    /// Where tiles of sums begin, and how many bytes are from one line to the next: in the result, if they are whole, else in
    /// `memory`.
    #[inline(always)]
    unsafe fn begin<W: Words>(&self, block: &Block<'_, W>, memory: *mut u8) -> (*mut u8, isize) {
        let Self { rows, column, wide, adds } = *self;
        let (of, row) = rows.rows[0];
        let is_one = of.places.is_none() && row + rows.count <= of.starts.len();
        let is_whole = rows.count.is_multiple_of(LINES) && block.columns - column >= wide * LANES;
        if is_one && is_whole {
            // SAFETY: the caller's promise: the result has these rows and columns.
            return (unsafe { block.to.add(row * block.stride + column).cast() }, 4 * block.stride.cast_signed());
        }
        if adds {
            // SAFETY: as above, and the memory has room for all tiles.
            unsafe {
                self.each(block, memory, |result, memory, mask| {
                    _mm512_storeu_si512(memory.cast(), _mm512_maskz_loadu_epi32(mask, result.cast()));
                });
            }
        }
        (memory, (wide * LINE).cast_signed())
    }

    /// Brings sums from the memory that [`begin`](Self::begin) gave to the result.
    #[inline(always)]
    unsafe fn end<W: Words>(&self, block: &Block<'_, W>, memory: *mut u8, to: *mut u8) {
        if to == memory {
            // SAFETY: as above.
            unsafe {
                self.each(block, memory, |result, memory, mask| {
                    _mm512_mask_storeu_epi32(result.cast(), mask, _mm512_loadu_si512(memory.cast()));
                });
            }
        }
    }

    /// Calls `each` for every vector of the result, with its memory and the lanes that there are.
    #[inline(always)]
    unsafe fn each<W: Words>(&self, block: &Block<'_, W>, memory: *mut u8, each: impl Fn(*mut W::Sum, *mut u8, u16)) {
        let Self { rows, column, wide, .. } = *self;
        for (i, (of, row)) in rows.rows.iter().enumerate().take(rows.count) {
            let place = of.places.map_or(*row, |places| places[*row]);
            for j in 0..wide {
                let first = column + j * LANES;
                // SAFETY: the caller's promise.
                let (result, memory) =
                    unsafe { (block.to.add(place * block.stride + first), memory.add((i * wide + j) * LINE)) };
                each(result, memory, mask(block.columns - first));
            }
        }
    }
}

/// All registers are whole tiles.
#[inline(always)]
unsafe fn configure() {
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start: u8,
        reserved: [u8; 14],
        bytes: [u16; 16],
        lines: [u8; 16],
    }
    static WHOLE: Configuration = Configuration {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        lines: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };
    // SAFETY: the CPU has the instruction, which reads these 64 bytes.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly, preserves_flags)) };
}

/// Gives the registers back: a system needn't keep them for the thread then.
#[inline(always)]
unsafe fn release() {
    // SAFETY: the CPU has the instruction.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// Multiplies tiles of rows by tiles of columns, along `steps` of 16 words. The products are stored as tiles of `to`,
/// or added if `adds`. Its lines are that many bytes apart.
#[inline(always)]
unsafe fn multiply(dot: TileDot, shape: [usize; 2], steps: usize, (a, b): (Tiles, Tiles), to: (*mut u8, isize, bool)) {
    // SAFETY: the caller's promise: tiles may be read and written there.
    unsafe {
        match dot {
            TileDot::Bf16 => bf16s(shape, steps, a, b, to),
            TileDot::SignedByUnsigned => signed_by_unsigned(shape, steps, a, b, to),
            TileDot::UnsignedBySigned => unsigned_by_signed(shape, steps, a, b, to),
        }
    }
}

/// Multiplies: of the first row of tiles and of the one below, the registers of sums and how many bytes each is from the
/// first; and what a step does.
macro_rules! tiles {
    (
        ($a:ident, $b:ident, $steps:ident, $to:ident, $line:ident, $adds:ident),
        [$($sum:literal $at:literal),*],
        [$($sum_below:literal $at_below:literal),*],
        { $($step:tt)* }
    ) => {
        asm!(
            "mov {below}, {line}",
            "shl {below}, 4",
            "add {below}, {to}",
            "test {adds}, {adds}",
            "jz 2f",
            $(concat!("tileloadd tmm", $sum, ", [{to} + {line} + ", $at, "]"),)*
            $(concat!("tileloadd tmm", $sum_below, ", [{below} + {line} + ", $at_below, "]"),)*
            "jmp 3f",
            "2:",
            $(concat!("tilezero tmm", $sum),)*
            $(concat!("tilezero tmm", $sum_below),)*
            "3:",
            "lea {below}, [{a} + {a_tile}]",
            "4:",
            $($step)*
            "add {a}, {a_step}",
            "add {below}, {a_step}",
            "add {b}, {b_step}",
            "dec {steps}",
            "jnz 4b",
            "mov {below}, {line}",
            "shl {below}, 4",
            "add {below}, {to}",
            $(concat!("tilestored [{to} + {line} + ", $at, "], tmm", $sum),)*
            $(concat!("tilestored [{below} + {line} + ", $at_below, "], tmm", $sum_below),)*
            a = inout(reg) $a.pointer => _,
            b = inout(reg) $b.pointer => _,
            below = out(reg) _,
            steps = inout(reg) $steps => _,
            to = in(reg) $to,
            line = in(reg) $line,
            adds = in(reg) usize::from($adds),
            a_line = in(reg) $a.line,
            a_tile = in(reg) $a.tile,
            a_step = in(reg) $a.step,
            b_line = in(reg) $b.line,
            b_step = in(reg) $b.step,
            options(nostack),
        )
    };
}

/// A function that multiplies by an instruction.
macro_rules! multiplies {
    ($($name:ident: $dot:literal;)*) => {
        $(#[inline(never)]
        unsafe fn $name(
            [high, wide]: [usize; 2],
            steps: usize,
            a: Tiles,
            b: Tiles,
            (to, line, adds): (*mut u8, isize, bool),
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                match (high, wide) {
                    (2, 2) => tiles!((a, b, steps, to, line, adds), ["0" "0", "1" "64"], ["2" "0", "3" "64"], {
                        "tileloadd tmm4, [{a} + {a_line}]",
                        "tileloaddt1 tmm6, [{b} + {b_line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloaddt1 tmm7, [{b} + {b_line} + 64]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                        "tileloadd tmm5, [{below} + {a_line}]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                        concat!($dot, " tmm3, tmm5, tmm7"),
                    }),
                    (2, _) => tiles!((a, b, steps, to, line, adds), ["0" "0"], ["2" "0"], {
                        "tileloadd tmm4, [{a} + {a_line}]",
                        "tileloaddt1 tmm6, [{b} + {b_line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloadd tmm5, [{below} + {a_line}]",
                        concat!($dot, " tmm2, tmm5, tmm6"),
                    }),
                    (_, 2) => tiles!((a, b, steps, to, line, adds), ["0" "0", "1" "64"], [], {
                        "tileloadd tmm4, [{a} + {a_line}]",
                        "tileloaddt1 tmm6, [{b} + {b_line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                        "tileloaddt1 tmm7, [{b} + {b_line} + 64]",
                        concat!($dot, " tmm1, tmm4, tmm7"),
                    }),
                    _ => tiles!((a, b, steps, to, line, adds), ["0" "0"], [], {
                        "tileloadd tmm4, [{a} + {a_line}]",
                        "tileloaddt1 tmm6, [{b} + {b_line}]",
                        concat!($dot, " tmm0, tmm4, tmm6"),
                    }),
                }
            }
        })*
    };
}

multiplies! {
    bf16s: "tdpbf16ps";
    signed_by_unsigned: "tdpbsud";
    unsigned_by_signed: "tdpbusd";
}
