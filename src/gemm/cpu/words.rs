//! The product of a tile by [words](super::kernel::words): of f32s, bf16s or 8-bit integers, on CPUs with instructions
//! for them.

use std::ops::Range;

use half::{bf16, f16};
use smallvec::SmallVec;

use super::kernel::words::{
    AlongK, AlongN, Avx512, Bf16, Contents, F32, F32ByAvx2, Magnitude, PANEL, PackedFrom, Panels, SignedByUnsigned,
    UnsignedBySigned, WordRows, WordRun, Words, WordsWork, block, dots, few, few_rows, fewest_widened_columns,
    has_avx2, magnitude, most_widened_dots, most_widened_rows, multiplies_bf16, multiplies_f32, multiplies_integers,
    pack, panel_columns, panel_words, widened,
};
use super::kernel::{Matrix, transpose};
use super::method::{Cpu, FEW, Method, WidenedOperand, WordType};
use super::patches::{by_patches, sum_of_patch};
use super::product::{KEPT_BYTES, Packed, Product, WordPanels};
use super::taps::Taps;
use super::tile::Tile;
use crate::ElementType;
use crate::exhaustion::{grow, resize};
use crate::gemm::problem::WholePanels;
use crate::lane::element::Loaded as _;

/// Elements along K of a panel: those of a tile's rows and columns stay in a core's second-level cache.
pub(super) const DEEP: usize = 512;
/// Words of an operand that a thread keeps for its next tiles.
const KEPT: usize = KEPT_BYTES / size_of::<i32>();
/// Rows whose places need no memory of their own.
const HIGH: usize = 64;
/// The most rows of bf16s for which dot products are faster where a CPU multiplies tiles: 4×3072×768 bf16s take 0.29 ms as dot
/// products and 0.42 by tiles, 8×3072×768 0.51 and 0.42 (one core of a Xeon with AMX).
const FEW_BESIDE_TILES: usize = 5;
/// Elements of f32 rows that are multiplied at a time as dot products: they, and those of as many columns, stay in a first-level cache
/// of 32 KiB.
const NEAR_DOTS: usize = 384 * FEW;
/// Elements along K whose products fit in 32 bits: half of 2^31 / (255 · 128).
const EXACT: usize = 1 << 15;

impl Product<'_> {
    /// Multiplies floats over a range of K. `false` if the method is another, or if a number that it takes for 0 may be in it or
    /// come of it; then `to` is unspecified.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`]; the method must have been chosen for the tile and this CPU.
    pub(super) unsafe fn by_words(
        &self,
        method: Method,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f32],
    ) -> bool {
        // SAFETY: the CPU multiplies words of this type, or has the instructions to widen; the caller's promise.
        unsafe {
            match method {
                Method::WordDots(WordType::F32) => self.dots_of_f32s(tile, depth, to),
                Method::WordDots(_) | Method::PairedRows => return self.dots_of_bf16s(method, tile, &depth, to),
                Method::Transposed(WordType::F32) => return self.transposed::<F32>(tile, depth, memory, to),
                Method::Transposed(WordType::F32ByAvx2) => {
                    return self.transposed::<F32ByAvx2>(tile, depth, memory, to);
                }
                Method::Transposed(_) => return self.transposed::<Bf16>(tile, depth, memory, to),
                Method::Panels(WordType::F32) => return self.all_panels::<F32>(tile, depth, false, memory, to),
                Method::Panels(WordType::F32ByAvx2) => {
                    return self.all_panels::<F32ByAvx2>(tile, depth, false, memory, to);
                }
                Method::Panels(_) => return self.all_panels::<Bf16>(tile, depth, false, memory, to),
                Method::WidenedRows => self.widened_rows(tile, &depth, memory, to),
                Method::WidenedDots(widened) => self.widened_dots(widened, tile, &depth, memory, to),
                Method::Row | Method::Dots | Method::ByRows | Method::ByColumns => return false,
            }
        }
        true
    }

    unsafe fn dots_of_f32s(&self, tile: &Tile, depth: Range<usize>, to: &mut [f32]) {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        to.fill(0.0);
        // Parts are nearly of the same length.
        let times = (m * depth.len()).div_ceil(NEAR_DOTS).max(1);
        for part in parts(depth.clone(), depth.len().div_ceil(times).next_multiple_of(PANEL).max(PANEL)) {
            // SAFETY: the caller's promise.
            unsafe { dots::<F32>([m, n, part.len()], self.sources(tile, part.start), false, to, n) };
        }
    }

    unsafe fn dots_of_bf16s(&self, method: Method, tile: &Tile, depth: &Range<usize>, to: &mut [f32]) -> bool {
        let (extents, (a, b)) = ([tile.rows.len(), tile.columns.len(), depth.len()], self.sources(tile, depth.start));
        let [m, n, k] = extents;
        to.fill(0.0);
        // SAFETY: the caller's promise.
        unsafe {
            let of_a = magnitude(&rows(a, m), 0, k);
            let of_b = match method {
                Method::PairedRows => few(extents, (a, b), to, n),
                _ => dots::<Bf16>(extents, (a, b), false, to, n),
            };
            of_a.has_normal_products(of_b)
        }
    }

    unsafe fn widened_rows(&self, tile: &Tile, depth: &Range<usize>, memory: &mut WordPanels, to: &mut [f32]) {
        let extents = [tile.rows.len(), tile.columns.len(), depth.len()];
        let (a, b) = self.sources(tile, depth.start);
        let multiply = match self.b.element {
            ElementType::F32 => widened::<f32, AlongN>,
            ElementType::BF16 => widened::<bf16, AlongN>,
            _ => widened::<f16, AlongN>,
        };
        // SAFETY: the caller's promise.
        unsafe {
            let rows = if (self.a.element, a.along, a.across % 4) == (ElementType::F32, 4, 0) {
                Matrix { pointer: a.pointer.cast(), row: a.across / 4, column: 1 }
            } else {
                as_f32s(a, self.a.element, [extents[0], extents[2]], memory)
            };
            multiply(extents, (rows, b), to, [extents[1], 1]);
        }
    }

    unsafe fn widened_dots(
        &self,
        operand: WidenedOperand,
        tile: &Tile,
        depth: &Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f32],
    ) {
        let [m, n, k] = [tile.rows.len(), tile.columns.len(), depth.len()];
        let (a, b) = self.sources(tile, depth.start);
        // For each operand: its type, how many rows or columns it has, and their distance in the product.
        let [of_a, of_b] = [(a, self.a.element, m, n), (b, self.b.element, n, 1)];
        let [(few, element, rows, down), (many, of_many, columns, across)] =
            if operand == WidenedOperand::B { [of_a, of_b] } else { [of_b, of_a] };
        let multiply = if of_many == ElementType::BF16 { widened::<bf16, AlongK> } else { widened::<f16, AlongK> };
        // SAFETY: the caller's promise.
        unsafe {
            let few = as_f32s(few, element, [rows, k], memory);
            multiply([rows, columns, k], (few, many), to, [down, across]);
        }
    }

    /// Adds products of 8-bit integers, over a range of K, to the exact sums `to`. `false` if this CPU has no
    /// instructions for it; then nothing has been added.
    ///
    /// # Safety
    /// The conditions of [`Product::tile`].
    pub(super) unsafe fn integers_by_words(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f64],
    ) -> bool {
        for depth in parts(depth, EXACT) {
            let method = Method::of(&self.case(tile, &depth), &Cpu::this());
            // SAFETY: the CPU multiplies words of this type; the caller's promise.
            unsafe {
                match method {
                    Method::WordDots(WordType::SignedByUnsigned) | Method::Panels(WordType::SignedByUnsigned) => {
                        self.exact_by_words::<SignedByUnsigned>(method, tile, depth, -128, memory, to);
                    }
                    Method::WordDots(_) | Method::Panels(_) => {
                        self.exact_by_words::<UnsignedBySigned>(method, tile, depth, 128, memory, to);
                    }
                    _ => return false,
                }
            }
        }
        true
    }

    /// Whether B's integers have A's signedness and must be flipped: the instruction multiplies a signed by an unsigned
    /// integer.
    fn is_flipped(&self) -> bool {
        matches!(
            (self.a.element, self.b.element),
            (ElementType::I8, ElementType::I8) | (ElementType::U8, ElementType::U8)
        )
    }

    /// Adds products of integers that 32 bits hold. If B's are flipped, each of them is off by 128: A's sums times
    /// `correction` are added.
    unsafe fn exact_by_words<W: Avx512<Sum = i32>>(
        &self,
        method: Method,
        tile: &Tile,
        depth: Range<usize>,
        correction: i64,
        memory: &mut WordPanels,
        to: &mut [f64],
    ) {
        let (m, n, flipped) = (tile.rows.len(), tile.columns.len(), self.is_flipped());
        let mut sums = std::mem::take(&mut memory.sums);
        resize(&mut sums, to.len(), 0);
        // SAFETY: the caller's promise.
        unsafe {
            if matches!(method, Method::WordDots(_)) {
                sums.fill(0);
                dots::<W>([m, n, depth.len()], self.sources(tile, depth.start), flipped, &mut sums, n);
            } else {
                self.all_panels::<W>(tile, depth.clone(), flipped, memory, &mut sums);
            }
            for (i, (to, sums)) in to.chunks_exact_mut(n.max(1)).zip(sums.chunks_exact(n.max(1))).enumerate() {
                let off = if flipped { correction * self.sum_of_row(tile, i, depth.clone()) } else { 0 };
                W::compiled_for(Exact { sums, off, to });
            }
        }
        memory.sums = sums;
    }

    /// The sum of integers of a row of A's.
    unsafe fn sum_of_row(&self, tile: &Tile, row: usize, depth: Range<usize>) -> i64 {
        if let Some(patches) = self.patches {
            // SAFETY: the caller's promise.
            return unsafe { sum_of_patch(patches, &self.images(tile), tile.rows.start + row, depth) };
        }
        let [_, down, along] = self.a.strides;
        let from = self.a_from(tile, depth.start).wrapping_offset(row as isize * down);
        let signed = self.a.element == ElementType::I8;
        let number = |byte: u8| if signed { i32::from(byte as i8) } else { i32::from(byte) };
        // At most 2^15 of them.
        i64::from(if along == 1 {
            // SAFETY: the caller's promise.
            let row = unsafe { std::slice::from_raw_parts(from, depth.len()) };
            row.iter().map(|byte| number(*byte)).sum::<i32>()
        } else {
            // SAFETY: the caller's promise.
            (0..depth.len()).map(|k| number(unsafe { from.wrapping_offset(k as isize * along).read() })).sum()
        })
    }

    /// Whether all columns of a tile were packed before the run.
    pub(super) fn is_prepacked(&self, words: WordType, tile: &Tile, depth: &Range<usize>) -> bool {
        fn has<W: Words>(panels: &WholePanels, tile: &Tile, depth: &Range<usize>, flipped: bool) -> bool {
            parts(depth.clone(), DEEP).all(|part| panels.of::<W>(tile, &part, flipped).is_some())
        }
        self.whole_panels.is_some_and(|panels| match words {
            WordType::F32 => has::<F32>(panels, tile, depth, false),
            WordType::F32ByAvx2 => has::<F32ByAvx2>(panels, tile, depth, false),
            WordType::Bf16 => has::<Bf16>(panels, tile, depth, false),
            WordType::SignedByUnsigned => has::<SignedByUnsigned>(panels, tile, depth, self.is_flipped()),
            WordType::UnsignedBySigned => has::<UnsignedBySigned>(panels, tile, depth, self.is_flipped()),
        })
    }

    /// Multiplies over a range of K, one part after another. `false` if a subnormal number may be in it or come of it; then `to`
    /// is unspecified.
    unsafe fn all_panels<W: Words>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        flipped: bool,
        memory: &mut WordPanels,
        to: &mut [W::Sum],
    ) -> bool {
        if depth.is_empty() {
            to.fill(bytemuck::Zeroable::zeroed());
        }
        let start = depth.start;
        let taps = self.patches.and_then(|patches| Taps::of::<W>(patches, &self.images(tile), tile.rows.clone()));
        parts(depth, DEEP).all(|part| {
            let adds = part.start > start;
            // SAFETY: the caller's promise.
            unsafe { self.panels_of_words::<W>((tile, taps.as_ref()), part, flipped, memory, (to, adds)) }
        })
    }

    /// Sums as [`all_panels`](Self::all_panels) computes them, for a B that is contiguous along K and stays in place:
    /// the GEMM's transpose, with A in panels.
    unsafe fn transposed<W: Words>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        memory: &mut WordPanels,
        to: &mut [W::Sum],
    ) -> bool {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let mut turned = std::mem::take(&mut memory.turned);
        turned.grow(to.len());
        let sums: &mut [W::Sum] = bytemuck::cast_slice_mut(&mut turned[..to.len()]);
        if depth.is_empty() {
            sums.fill(bytemuck::Zeroable::zeroed());
        }
        let is_done = parts(depth.clone(), DEEP).enumerate().all(|(number, part)| {
            let (a, b) = self.sources(tile, part.start);
            let (k, depth) = (part.len(), depth.len());
            let piece = Piece { of_a: true, part: number, first: 0, depth, columns: m };
            // SAFETY: the caller's promise.
            unsafe {
                let (at, Contents { least, .. }) = packed::<W>(a, [k, m], piece, false, memory);
                let panels = Panels { words: &memory.b[at..], deep: k.div_ceil(W::ELEMENTS) };
                let of_b = in_place::<W>(b, [n, m, k], panels, &mut memory.last, (&mut *sums, m, number > 0));
                !W::DROPS_SUBNORMALS || of_b.has_normal_products(least)
            }
        });
        if is_done {
            transpose(sums, m, n, to);
        }
        memory.turned = turned;
        is_done
    }

    /// The products of at most [`DEEP`] elements along K; where `adds`, added. `false` if a subnormal number may be in them or
    /// come of them; then `to` is unspecified.
    unsafe fn panels_of_words<W: Words>(
        &self,
        (tile, taps): (&Tile, Option<&Taps>),
        depth: Range<usize>,
        flipped: bool,
        memory: &mut WordPanels,
        (to, adds): (&mut [W::Sum], bool),
    ) -> bool {
        let (m, n, k) = (tile.rows.len(), tile.columns.len(), depth.len());
        let (a, from) = self.sources(tile, depth.start);
        let words = k.div_ceil(W::ELEMENTS);
        let is_in_place = a.along == (4 / W::ELEMENTS) as isize;
        let kept = self.whole_panels.and_then(|panels| panels.of::<W>(tile, &depth, flipped));
        let (of_b, contents) = match kept {
            Some(kept) => kept,
            None => {
                let (all, columns) = (self.depth(tile), self.extents.n);
                let part = (depth.start - all.start) / DEEP;
                let piece = Piece { of_a: false, part, first: tile.columns.start, depth: all.len(), columns };
                // SAFETY: the caller's promise.
                let (at, contents) = unsafe { packed::<W>(from, [k, n], piece, flipped, memory) };
                (&memory.b[at..], contents)
            }
        };
        let of_a = &mut memory.a;
        if let Some(patches) = self.patches {
            let (all_rows, images, of_b) = ((tile.rows.clone(), depth), self.images(tile), (of_b, contents));
            // SAFETY: the caller's promise.
            return unsafe { by_patches::<W>((patches, taps), &images, all_rows, of_b, of_a, (to, n, adds)) };
        }
        // SAFETY: the caller's promise.
        unsafe {
            let b = Panels { words: of_b, deep: words };
            let are_normal = |least: Magnitude| !W::DROPS_SUBNORMALS || least.has_normal_products(contents.least);
            if is_in_place {
                return are_normal(in_place::<W>(a, [m, n, k], b, &mut memory.last, (to, n, adds)));
            }
            of_a.grow(panel_words(m, words));
            if !are_normal(pack::<W>(a, k, m, false, of_a).least) {
                return false;
            }
            for first in (0..m).step_by(panel_columns::<W>()) {
                let high = panel_columns::<W>().min(m - first);
                let panel = &of_a[panel_words(first, words)..][..panel_words(high, words)];
                let starts = rows(PackedFrom { pointer: panel.as_ptr().cast(), along: 0, across: 4 }, high);
                let runs = [WordRun::of(words)];
                let rows = WordRows::all(&starts, &runs, (panel_words(high, 1) * 4) as isize);
                block::<W>(n, &[rows], b, (&mut to[first * n..], n, adds));
            }
        }
        true
    }

    /// The tile's rows of A and columns of B, from index `k` on.
    fn sources(&self, tile: &Tile, k: usize) -> (PackedFrom, PackedFrom) {
        let source = |pointer: *const u8, along: isize, across: isize, element: ElementType| {
            let size = element.size() as isize;
            PackedFrom { pointer, along: along * size, across: across * size }
        };
        let ([_, a_down, a_along], [_, b_along, b_across]) = (self.a.strides, self.b.strides);
        (
            source(self.a_from(tile, k), a_along, a_down, self.a.element),
            source(self.b_from(tile, k, 0), b_along, b_across, self.b.element),
        )
    }
}

/// Rows of elements as f32s, in memory for them.
///
/// # Safety
/// There must be these rows of `k` elements, which nobody writes meanwhile.
unsafe fn as_f32s(of: PackedFrom, element: ElementType, [rows, k]: [usize; 2], memory: &mut WordPanels) -> Matrix<f32> {
    memory.a.grow(rows * k);
    let to: &mut [f32] = bytemuck::cast_slice_mut(&mut memory.a[..rows * k]);
    for (i, to) in to.chunks_exact_mut(k.max(1)).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { f32::load(element, of.at(0, i), of.along / element.size() as isize, to) };
    }
    Matrix { pointer: to.as_ptr(), row: k as isize, column: 1 }
}

impl Cpu {
    /// This CPU at the thread's level.
    pub(super) fn this() -> Self {
        let has_avx2 = has_avx2();
        Self {
            f32s: if multiplies_f32() { Some(WordType::F32) } else { has_avx2.then_some(WordType::F32ByAvx2) },
            bf16s: multiplies_bf16(),
            integers: multiplies_integers(),
            most_dots_of_bf16s: if Bf16::tiles().is_some() { FEW_BESIDE_TILES } else { FEW },
            most_paired_rows: few_rows(),
            most_widened_f32s: if has_avx2 { most_widened_rows(true) } else { 0 },
            most_widened_halves: if has_avx2 { most_widened_rows(false) } else { 0 },
            fewest_widened_columns: fewest_widened_columns(),
            most_widened_dots: if has_avx2 { most_widened_dots() } else { 0 },
        }
    }
}

/// Adds integers, each and a number of the whole row, to exact sums.
struct Exact<'a> {
    sums: &'a [i32],
    off: i64,
    to: &'a mut [f64],
}

impl WordsWork for Exact<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run(self) {
        // All are integers below 2^53.
        let off = self.off as f64;
        self.to.iter_mut().zip(self.sums).for_each(|(to, &sum)| *to += f64::from(sum) + off);
    }
}

/// The piece of an operand that is in panels: a part of K, for some columns (for A: rows).
#[derive(Clone, Copy)]
struct Piece {
    of_a: bool,
    /// The number of the part of K.
    part: usize,
    first: usize,
    /// The extents of the operand.
    depth: usize,
    columns: usize,
}

impl Piece {
    /// For a piece of `n` columns: its number, the start of its words, and the layout of all pieces. Pieces lie as in
    /// the whole operand if that is small enough to be kept. Otherwise parts of K follow each other for the same
    /// columns, as many as there is room for.
    fn place<W: Words>(self, n: usize) -> (usize, usize, [usize; 4]) {
        let Self { of_a, part, first, depth, columns } = self;
        let deep = DEEP.min(depth).div_ceil(W::ELEMENTS);
        let of_all = panel_words(columns, deep);
        if first.is_multiple_of(PANEL) && of_all.saturating_mul(depth.div_ceil(DEEP)) <= KEPT {
            let number = part * columns.div_ceil(PANEL) + first / PANEL;
            return (number, part * of_all + panel_words(first, deep), [usize::from(of_a), depth, columns, 0]);
        }
        let size = panel_words(n, deep);
        let number = part % (KEPT / size.max(1)).max(1);
        (number, number * size, [usize::from(of_a), depth, columns, n])
    }
}

/// Packs a piece of an operand with `n` columns and `k` elements along K. Gives the start of its panels in the memory,
/// and facts about them. A piece that is still there from an earlier tile is not packed again.
///
/// # Safety
/// The conditions of [`pack`].
unsafe fn packed<W: Words>(
    from: PackedFrom,
    [k, n]: [usize; 2],
    piece: Piece,
    flipped: bool,
    memory: &mut WordPanels,
) -> (usize, Contents) {
    let (number, start, layout) = piece.place::<W>(n);
    let of = Packed { address: from.pointer.addr(), strides: [from.along, from.across], extents: [k, n], flipped };
    if memory.layout != layout {
        memory.packed.clear();
        memory.layout = layout;
    }
    grow(&mut memory.packed, number + 1, None);
    let contents = match memory.packed[number] {
        Some((known, contents)) if known == of => contents,
        _ => {
            let deep = DEEP.min(piece.depth).div_ceil(W::ELEMENTS);
            memory.b.grow(start + panel_words(n, deep));
            // SAFETY: the caller's promise.
            let contents = unsafe { pack::<W>(from, k, n, flipped, &mut memory.b[start..]) };
            memory.packed[number] = Some((of, contents));
            contents
        }
    };
    (start, contents)
}

/// Multiplies rows that are contiguous along K, where they lie, by panels: a block of `to`. Gives what [`block`] does.
///
/// # Safety
/// `of` must have these rows of `k` elements, and nobody writes them meanwhile. The CPU must multiply words of this
/// type.
unsafe fn in_place<W: Words>(
    of: PackedFrom,
    [m, n, k]: [usize; 3],
    panels: Panels<'_>,
    last: &mut Vec<i32>,
    (to, stride, adds): (&mut [W::Sum], usize, bool),
) -> Magnitude {
    let whole = k / W::ELEMENTS;
    let mut least = Magnitude::NONE;
    // SAFETY: the caller's promise.
    unsafe {
        if whole > 0 {
            let starts = rows(of, m);
            let runs = [WordRun::of(whole)];
            let rows = WordRows { are_far: true, ..WordRows::all(&starts, &runs, 4) };
            least = block::<W>(n, &[rows], panels, (&mut *to, stride, adds));
        }
        if whole * W::ELEMENTS < k {
            last.clear();
            last.extend((0..m).map(|i| last_word(of, i, whole * W::ELEMENTS..k, 4 / W::ELEMENTS)));
            let starts = rows(PackedFrom { pointer: last.as_ptr().cast(), along: 0, across: 4 }, m);
            let runs = [WordRun { first: whole, ..WordRun::of(1) }];
            least =
                least.min(block::<W>(n, &[WordRows::all(&starts, &runs, 4)], panels, (to, stride, adds || whole > 0)));
        }
    }
    least
}

/// A range of K in parts of this many elements; the last may have fewer.
fn parts(depth: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = depth.end;
    depth.step_by(step).map(move |first| first..end.min(first + step))
}

/// Where rows begin.
fn rows(of: PackedFrom, count: usize) -> SmallVec<[*const u8; HIGH]> {
    (0..count).map(|row| of.at(0, row)).collect()
}

/// A row's last word, with 0 for what there isn't.
unsafe fn last_word(a: PackedFrom, row: usize, depth: Range<usize>, bytes: usize) -> i32 {
    let mut word = [0; 4];
    for (k, to) in depth.zip(word.chunks_exact_mut(bytes)) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(a.at(k, row), to.as_mut_ptr(), bytes) };
    }
    i32::from_le_bytes(word)
}
