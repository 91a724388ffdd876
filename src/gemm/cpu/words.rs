//! The product of a tile by [words](super::kernel::words): of f32s, bf16s or 8-bit integers, on CPUs with instructions
//! for them.

use std::ops::Range;

use smallvec::SmallVec;

use super::kernel::transpose;
#[cfg(target_arch = "aarch64")]
use super::kernel::words::F32ByNeon;
#[cfg(target_arch = "x86_64")]
use super::kernel::words::{Bf16, F32, F32ByAvx2, SignedByUnsigned, UnsignedBySigned};
use super::kernel::words::{
    Contents, Magnitude, PANEL, PackedFrom, Panels, WordRows, WordRun, Words, block, pack, panel_columns, panel_words,
};
use super::method::{Method, WordType};
use super::patches::by_patches;
use super::product::{KEPT_BYTES, Packed, Product, WordPanels};
use super::taps::Taps;
use super::tile::Tile;
use crate::ElementType;
use crate::exhaustion::grow;
use crate::gemm::problem::WholePanels;

/// An expression with the type of some words, and whether these are integers; `else` for words of other CPUs.
macro_rules! with_words {
    ($words:expr, $W:ident, $are_integers:ident => $do:expr, else $other:expr) => {{
        macro_rules! of {
            ($type:ty, $integers:literal) => {{
                type $W = $type;
                let $are_integers: bool = $integers;
                $do
            }};
        }
        match $words {
            #[cfg(target_arch = "x86_64")]
            WordType::F32 => of!(F32, false),
            #[cfg(target_arch = "x86_64")]
            WordType::F32ByAvx2 => of!(F32ByAvx2, false),
            #[cfg(target_arch = "x86_64")]
            WordType::Bf16 => of!(Bf16, false),
            #[cfg(target_arch = "x86_64")]
            WordType::SignedByUnsigned => of!(SignedByUnsigned, true),
            #[cfg(target_arch = "x86_64")]
            WordType::UnsignedBySigned => of!(UnsignedBySigned, true),
            #[cfg(target_arch = "aarch64")]
            WordType::F32ByNeon => of!(F32ByNeon, false),
            _ => $other,
        }
    }};
}

/// An expression with the type of words of floats; `else` for others.
macro_rules! with_float_words {
    ($words:expr, $W:ident => $do:expr, else $other:expr) => {{
        macro_rules! of {
            ($type:ty) => {{
                type $W = $type;
                $do
            }};
        }
        match $words {
            #[cfg(target_arch = "x86_64")]
            WordType::F32 => of!(F32),
            #[cfg(target_arch = "x86_64")]
            WordType::F32ByAvx2 => of!(F32ByAvx2),
            #[cfg(target_arch = "x86_64")]
            WordType::Bf16 => of!(Bf16),
            #[cfg(target_arch = "aarch64")]
            WordType::F32ByNeon => of!(F32ByNeon),
            _ => $other,
        }
    }};
}

pub(super) use with_words;

/// Elements along K of a panel: those of a tile's rows and columns stay in a core's second-level cache.
pub(super) const DEEP: usize = 512;
/// Words of an operand that a thread keeps for its next tiles.
const KEPT: usize = KEPT_BYTES / size_of::<i32>();
/// Rows whose places need no memory of their own.
const HIGH: usize = 64;

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
        // SAFETY: the CPU multiplies words of this type; the caller's promise.
        unsafe {
            match method {
                Method::Transposed(words) => {
                    with_float_words!(words, W => self.transposed::<W>(tile, depth, memory, to), else false)
                }
                Method::Panels(words) => {
                    with_float_words!(words, W => self.all_panels::<W>(tile, depth, false, memory, to), else false)
                }
                Method::Row | Method::Dots | Method::ByRows | Method::ByColumns => false,
                _ => self.by_other_words(method, tile, &depth, memory, to),
            }
        }
    }

    /// Whether B's integers have A's signedness and must be flipped: the instruction multiplies a signed by an unsigned
    /// integer.
    pub(super) fn is_flipped(&self) -> bool {
        matches!(
            (self.a.element, self.b.element),
            (ElementType::I8, ElementType::I8) | (ElementType::U8, ElementType::U8)
        )
    }

    /// Whether all columns of a tile were packed before the run.
    pub(super) fn is_prepacked(&self, words: WordType, tile: &Tile, depth: &Range<usize>) -> bool {
        fn has<W: Words>(panels: &WholePanels, tile: &Tile, depth: &Range<usize>, flipped: bool) -> bool {
            parts(depth.clone(), DEEP).all(|part| panels.of::<W>(tile, &part, flipped).is_some())
        }
        self.whole_panels.is_some_and(|panels| {
            with_words!(words, W, are_integers => has::<W>(panels, tile, depth, are_integers && self.is_flipped()), else false)
        })
    }

    /// Multiplies over a range of K, one part after another. `false` if a subnormal number may be in it or come of it; then `to`
    /// is unspecified.
    pub(super) unsafe fn all_panels<W: Words>(
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
    pub(super) fn sources(&self, tile: &Tile, k: usize) -> (PackedFrom, PackedFrom) {
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
pub(super) fn parts(depth: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = depth.end;
    depth.step_by(step).map(move |first| first..end.min(first + step))
}

/// Where rows begin.
pub(super) fn rows(of: PackedFrom, count: usize) -> SmallVec<[*const u8; HIGH]> {
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
