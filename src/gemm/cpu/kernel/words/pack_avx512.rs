//! [Panels](super::pack) of words, by AVX-512.

use std::arch::x86_64::{
    __m512i, _MM_HINT_T1, _mm_maskz_loadu_epi8, _mm_prefetch, _mm256_maskz_loadu_epi16, _mm512_and_si512,
    _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_loadu_si512, _mm512_maskz_loadu_epi8, _mm512_maskz_loadu_epi32,
    _mm512_max_epu16, _mm512_min_epu16, _mm512_or_si512, _mm512_permutex2var_epi64, _mm512_set1_epi8,
    _mm512_set1_epi16, _mm512_set1_epi32, _mm512_setr_epi64, _mm512_setzero_si512, _mm512_shuffle_i32x4,
    _mm512_slli_epi32, _mm512_storeu_si512, _mm512_sub_epi16, _mm512_unpackhi_epi8, _mm512_unpackhi_epi16,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi8, _mm512_unpacklo_epi16, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use super::pack::{Contents, Magnitude, PANEL, PackedFrom, VECTORS, panel_columns};
use super::{Avx512, LANES, Words as _, WordsWork};

/// Bytes that columns which are contiguous along K are fetched ahead: they are more than the CPU follows by itself.
const AHEAD: usize = 8 * 64;

/// The least magnitude in lanes.
#[derive(Clone, Copy)]
pub(super) struct Least(__m512i);

impl Least {
    #[inline(always)]
    pub(super) unsafe fn new() -> Self {
        // SAFETY: the caller's promise: the CPU has the instruction.
        Self(unsafe { _mm512_set1_epi8(-1) })
    }

    /// Takes bf16s into account. 0 becomes the greatest number, because it wraps.
    #[inline(always)]
    pub(super) unsafe fn with(self, x: __m512i) -> Self {
        // SAFETY: as above.
        unsafe {
            let magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
            Self(_mm512_min_epu16(self.0, _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1))))
        }
    }

    #[inline(always)]
    pub(super) unsafe fn magnitude(self) -> Magnitude {
        let mut lanes = [0u16; 2 * LANES];
        // SAFETY: the array has the size of a vector.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), self.0) };
        Magnitude(lanes.into_iter().min().unwrap_or(u16::MAX).saturating_add(1))
    }
}

/// The extremes of the words so far.
#[derive(Clone, Copy)]
struct Seen {
    least: Least,
    /// The greatest magnitude of bf16s, or of the upper halves of f32s.
    greatest: __m512i,
}

impl Seen {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the caller's promise: the CPU has the instruction.
        unsafe { Self { least: Least::new(), greatest: _mm512_setzero_si512() } }
    }

    #[inline(always)]
    unsafe fn with<W: Avx512>(self, x: __m512i) -> Self {
        // SAFETY: as above.
        unsafe {
            let least = if W::DROPS_SUBNORMALS { self.least.with(x) } else { self.least };
            let magnitude = _mm512_and_si512(x, _mm512_set1_epi32(W::UPPER_HALVES));
            Self { least, greatest: _mm512_max_epu16(self.greatest, magnitude) }
        }
    }

    #[inline(always)]
    unsafe fn contents(self) -> Contents {
        const INFINITY: u16 = 0x7f80;
        let mut lanes = [0u16; 2 * LANES];
        // SAFETY: the array has the size of a vector.
        unsafe {
            _mm512_storeu_si512(lanes.as_mut_ptr().cast(), self.greatest);
            Contents { least: self.least.magnitude(), are_finite: lanes.into_iter().all(|lane| lane < INFINITY) }
        }
    }
}

/// [`pack`](super::pack()) by AVX-512's instructions, to exactly as many words.
pub(super) unsafe fn avx512<W: Avx512>(
    from: PackedFrom,
    [depth, columns]: [usize; 2],
    flipped: bool,
    to: &mut [i32],
) -> Contents {
    // SAFETY: the caller's promise.
    unsafe { W::compiled_for(Pack::<W> { from, depth, columns, flipped, to, of: std::marker::PhantomData }) }
}

struct Pack<'a, W> {
    from: PackedFrom,
    depth: usize,
    columns: usize,
    flipped: bool,
    to: &'a mut [i32],
    of: std::marker::PhantomData<W>,
}

impl<W: Avx512> WordsWork for Pack<'_, W> {
    type Output = Contents;

    #[inline(always)]
    unsafe fn run(self) -> Contents {
        let words = self.depth.div_ceil(W::ELEMENTS);
        let to = self.to.as_mut_ptr();
        let most = panel_columns::<W>() / LANES;
        // Where a vector of a word begins, of the `vectors` from column `first` on; and the vectors of its panel.
        let place = |first: usize, vectors: usize, word: usize, vector: usize| {
            let before = vector / most * most;
            let of_panel = most.min(vectors - before);
            (to.wrapping_add(first * words + (before * words + word * of_panel + vector - before) * LANES), of_panel)
        };
        // Elements are read as they lie: along K, or row by row.
        let by_rows = self.from.along != Self::BYTES as isize;
        let are_rows = by_rows && self.from.across == Self::BYTES as isize;
        let (whole_words, whole_columns) =
            if are_rows { (self.depth / W::ELEMENTS, self.columns / PANEL * PANEL) } else { (0, 0) };
        // SAFETY: `to` has room for all panels; the caller's promise for what is read.
        unsafe {
            let flip = _mm512_set1_epi8(if self.flipped { i8::MIN } else { 0 });
            let mut seen = Seen::new();
            for word in 0..whole_words {
                for first in (0..whole_columns).step_by(PANEL) {
                    for (vector, x) in self.word_of_rows(word * W::ELEMENTS, first).into_iter().enumerate() {
                        seen = seen.with::<W>(x);
                        _mm512_storeu_si512(place(first, VECTORS, word, vector).0.cast(), _mm512_xor_si512(x, flip));
                    }
                }
            }
            for first in (0..self.columns).step_by(PANEL) {
                let done = if first < whole_columns { whole_words } else { 0 };
                let cells = if done < words { done / LANES..words.div_ceil(LANES) } else { 0..0 };
                let vectors = (self.columns - first).div_ceil(LANES).min(VECTORS);
                let (outer, inner) = if by_rows { (cells, 0..vectors) } else { (0..vectors, cells) };
                for i in outer {
                    for j in inner.clone() {
                        let (word, vector) = if by_rows { (i * LANES, j) } else { (j * LANES, i) };
                        let column = first + vector * LANES;
                        let to = place(first, vectors, word, vector);
                        // Loops over a cell have constant ends, so it stays in registers.
                        let is_whole = (word + LANES) * W::ELEMENTS <= self.depth && column + LANES <= self.columns;
                        seen = if is_whole {
                            self.cell::<true>(word, column, to, flip, seen)
                        } else {
                            self.cell::<false>(word, column, to, flip, seen)
                        };
                    }
                }
            }
            seen.contents()
        }
    }
}

impl<W: Avx512> Pack<'_, W> {
    const BYTES: usize = 4 / W::ELEMENTS;

    /// Writes sixteen words of sixteen columns, a vector for each word, at this many vectors' distance; 0 for what there isn't.
    #[inline(always)]
    unsafe fn cell<const WHOLE: bool>(
        &self,
        word: usize,
        column: usize,
        (to, apart): (*mut i32, usize),
        flip: __m512i,
        mut seen: Seen,
    ) -> Seen {
        let k = word * W::ELEMENTS;
        let whole = [LANES * W::ELEMENTS, LANES];
        let [deep, wide] =
            if WHOLE { whole } else { [(self.depth - k).min(whole[0]), (self.columns - column).min(LANES)] };
        // SAFETY: the caller's promise.
        unsafe {
            let cell = if self.from.along == Self::BYTES as isize {
                self.of_columns(k, column, deep, wide)
            } else if self.from.across == Self::BYTES as isize {
                self.of_rows(k, column, deep, wide)
            } else {
                self.of_elements(k, column, deep, wide)
            };
            let count = deep.div_ceil(W::ELEMENTS);
            for (i, x) in cell.into_iter().enumerate() {
                if WHOLE || i < count {
                    seen = seen.with::<W>(x);
                    _mm512_storeu_si512(to.add(i * apart * LANES).cast(), _mm512_xor_si512(x, flip));
                }
            }
            seen
        }
    }

    /// Words of columns that are contiguous along K.
    #[inline(always)]
    unsafe fn of_columns(&self, k: usize, column: usize, deep: usize, wide: usize) -> [__m512i; LANES] {
        let mask = u64::MAX >> (64 - deep * Self::BYTES);
        // SAFETY: only elements that there are are read.
        unsafe {
            let mut columns = [_mm512_setzero_si512(); LANES];
            for (j, to) in columns.iter_mut().enumerate() {
                // A missing column is replaced by the last one, and nothing is read.
                let at = self.from.at(k, column + j.min(wide - 1));
                _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast());
                *to = _mm512_maskz_loadu_epi8(if j < wide { mask } else { 0 }, at.cast());
            }
            transpose(columns)
        }
    }

    /// A word of [`PANEL`] columns, of rows that are contiguous along N.
    #[inline(always)]
    unsafe fn word_of_rows(&self, k: usize, column: usize) -> [__m512i; VECTORS] {
        // SAFETY: the caller's promise: there are these elements.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); VECTORS];
            for (i, row) in rows.iter_mut().enumerate() {
                // As many vectors of a row as its elements have bytes.
                let (part, vector) = (i / Self::BYTES, i % Self::BYTES);
                *row = _mm512_loadu_si512(self.from.at(k + part, column).wrapping_add(vector * 4 * LANES).cast());
            }
            match W::ELEMENTS {
                1 => rows,
                2 => pairs_of(rows),
                _ => fours_of(rows),
            }
        }
    }

    /// Words of rows that are contiguous along N.
    #[inline(always)]
    unsafe fn of_rows(&self, k: usize, column: usize, deep: usize, wide: usize) -> [__m512i; LANES] {
        let mask = u16::MAX >> (LANES - wide);
        // SAFETY: only elements that there are are read.
        unsafe {
            let mut cell = [_mm512_setzero_si512(); LANES];
            for (i, word) in cell.iter_mut().enumerate() {
                for part in (0..W::ELEMENTS).take_while(|part| i * W::ELEMENTS + part < deep) {
                    let at = self.from.at(k + i * W::ELEMENTS + part, column);
                    let row = match W::ELEMENTS {
                        1 => _mm512_maskz_loadu_epi32(mask, at.cast()),
                        2 => _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at.cast())),
                        _ => _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, at.cast())),
                    };
                    let row = match part * 8 * Self::BYTES {
                        0 => row,
                        8 => _mm512_slli_epi32::<8>(row),
                        16 => _mm512_slli_epi32::<16>(row),
                        _ => _mm512_slli_epi32::<24>(row),
                    };
                    *word = _mm512_or_si512(*word, row);
                }
            }
            cell
        }
    }

    /// Words of elements anywhere.
    #[inline(always)]
    unsafe fn of_elements(&self, k: usize, column: usize, deep: usize, wide: usize) -> [__m512i; LANES] {
        let mut words = [[0u8; 4 * LANES]; LANES];
        for (i, word) in words.iter_mut().enumerate() {
            for part in (0..W::ELEMENTS).take_while(|part| i * W::ELEMENTS + part < deep) {
                for j in 0..wide {
                    let at = self.from.at(k + i * W::ELEMENTS + part, column + j);
                    let to = &mut word[4 * j + part * Self::BYTES..][..Self::BYTES];
                    // SAFETY: the caller's promise; the destination has the element's bytes.
                    unsafe { std::ptr::copy_nonoverlapping(at, to.as_mut_ptr(), Self::BYTES) };
                }
            }
        }
        // SAFETY: each line has the size of a vector.
        unsafe {
            let mut cell = [_mm512_setzero_si512(); LANES];
            for (to, from) in cell.iter_mut().zip(&words) {
                *to = _mm512_loadu_si512(from.as_ptr().cast());
            }
            cell
        }
    }
}

/// Words of 64 columns, of two rows of 64 elements of 16 bits: two vectors each.
#[inline(always)]
unsafe fn pairs_of([even, even_2, odd, odd_2]: [__m512i; VECTORS]) -> [__m512i; VECTORS] {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        // The first four of every eight columns, and the last four.
        let (low, high) = (_mm512_unpacklo_epi16(even, odd), _mm512_unpackhi_epi16(even, odd));
        let (low_2, high_2) = (_mm512_unpacklo_epi16(even_2, odd_2), _mm512_unpackhi_epi16(even_2, odd_2));
        let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        let last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        [
            _mm512_permutex2var_epi64(low, first, high),
            _mm512_permutex2var_epi64(low, last, high),
            _mm512_permutex2var_epi64(low_2, first, high_2),
            _mm512_permutex2var_epi64(low_2, last, high_2),
        ]
    }
}

/// Words of 64 columns, of four rows of 64 elements of 8 bits.
#[inline(always)]
unsafe fn fours_of([a, b, c, d]: [__m512i; VECTORS]) -> [__m512i; VECTORS] {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        let (low, high) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
        let (low_2, high_2) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
        // The first four of every 16 columns, and so on.
        quarters([
            _mm512_unpacklo_epi16(low, low_2),
            _mm512_unpackhi_epi16(low, low_2),
            _mm512_unpacklo_epi16(high, high_2),
            _mm512_unpackhi_epi16(high, high_2),
        ])
    }
}

/// Quarter `j` of vector `i` is quarter `i` of vector `j`.
#[inline(always)]
unsafe fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: the caller's promise: the CPU has the instruction.
    unsafe {
        let (low, high) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
        let (low_2, high_2) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
        [
            _mm512_shuffle_i32x4::<0x88>(low, low_2),
            _mm512_shuffle_i32x4::<0xdd>(low, low_2),
            _mm512_shuffle_i32x4::<0x88>(high, high_2),
            _mm512_shuffle_i32x4::<0xdd>(high, high_2),
        ]
    }
}

/// Lane `j` of vector `i` is lane `i` of vector `j`.
#[inline(always)]
pub(super) unsafe fn transpose(x: [__m512i; LANES]) -> [__m512i; LANES] {
    // SAFETY: the caller's promise: the CPU has the instructions.
    unsafe {
        let zero = _mm512_setzero_si512();
        // Pairs, then groups of four, of neighbouring vectors, in each quarter of the lanes.
        let (mut pairs, mut fours, mut to) = ([zero; LANES], [zero; LANES], [zero; LANES]);
        for i in (0..LANES).step_by(2) {
            pairs[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
            pairs[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
        }
        for i in (0..LANES).step_by(4) {
            fours[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
            fours[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
            fours[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
            fours[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
        }
        // Quarters of lanes change places.
        for i in 0..4 {
            [to[i], to[4 + i], to[8 + i], to[12 + i]] = quarters([fours[i], fours[4 + i], fours[8 + i], fours[12 + i]]);
        }
        to
    }
}

/// The least magnitude of `length` bf16s of each row, from `offset` bytes after its start.
///
/// # Safety
/// As for [`pack`](super::pack()), of words of bf16s.
pub(in crate::gemm::cpu) unsafe fn magnitude(starts: &[*const u8], offset: isize, length: usize) -> Magnitude {
    // SAFETY: the caller's promise.
    unsafe { super::Bf16::compiled_for(Scan { starts, offset, length }) }
}

struct Scan<'a> {
    starts: &'a [*const u8],
    offset: isize,
    length: usize,
}

impl WordsWork for Scan<'_> {
    type Output = Magnitude;

    #[inline(always)]
    unsafe fn run(self) -> Magnitude {
        const STEP: usize = 2 * LANES;
        // SAFETY: only elements that there are are read.
        unsafe {
            let mut least = Least::new();
            for start in self.starts {
                for k in (0..self.length).step_by(STEP) {
                    let mask = u64::MAX >> (64 - 2 * (self.length - k).min(STEP));
                    let at = start.wrapping_offset(self.offset).wrapping_add(2 * k);
                    least = least.with(_mm512_maskz_loadu_epi8(mask, at.cast()));
                }
            }
            least.magnitude()
        }
    }
}
