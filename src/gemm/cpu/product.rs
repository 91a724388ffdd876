//! The product of one tile: with the `gemm` crate's parts, or with code of our own ([`kernel`](super::kernel)) for few
//! rows and by words. A table chooses ([`Method`]).
//!
//! f64 operands are multiplied in place. f32s, bf16s and 8-bit integers are multiplied by [words](super::words) on CPUs
//! that can (f32s only if that is faster), and else in place. Others are widened, panel by panel, to the type that the
//! product is computed in: f64 if one operand is f64, else f32. Products of 8-bit integers are exact: a panel is so
//! shallow that f32 holds every partial sum, and the panels' sums are added in f64.

use std::ops::Range;

use super::element::{Arithmetic, View};
use super::kernel::{self, General, Matrix, Written, dots, general, row, transpose};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use super::method::WordType;
use super::method::{Cpu, Method, MethodCase, MethodLayout};
use super::patches::gather;
use super::tile::{Extents, Tile};
use super::weights::memory::WeightMemory;
use super::weights::view::WeightView;
use crate::ElementType;
use crate::exhaustion::{grow, resize};
use crate::gemm::problem::WholePanels;
use crate::gemm::problem::patches::Patches;
use crate::simd::lines::Lines;

/// Depth of a widened panel. (The `gemm` crate splits K into parts of about this size itself.)
pub(super) const PANEL: usize = 1024;

/// Bytes of an operand that a thread keeps packed for its next tiles.
pub(super) const KEPT_BYTES: usize = 4 << 20;

/// Columns and rows of B that are widened at a time for few rows of A: they stay in a core's caches.
const FEW_COLUMNS: usize = 24;
const FEW_DEPTH: usize = 32;

/// The type that products are accumulated in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulation {
    F32,
    F64,
    /// In f32 for this many terms, which is exact; then in f64.
    Integers(usize),
}

impl Accumulation {
    /// How operands of these types are multiplied; `None` if they can't be.
    pub(super) fn of(a: ElementType, b: ElementType) -> Option<Self> {
        use ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, U8};
        match (a, b) {
            // 2^24 divided by the largest product's magnitude: 2^14, 255·128 < 2^15, 255² < 2^16.
            (I8, I8) => Some(Self::Integers(1024)),
            (I8, U8) | (U8, I8) => Some(Self::Integers(512)),
            (U8, U8) => Some(Self::Integers(256)),
            (F64, F64 | F32 | BF16 | F16 | F8E4M3 | F8E5M2 | I8 | U8)
            | (F32 | BF16 | F16 | F8E4M3 | F8E5M2 | I8 | U8, F64) => Some(Self::F64),
            (F32 | BF16 | F16 | F8E4M3 | F8E5M2, F32 | BF16 | F16 | F8E4M3 | F8E5M2 | I8 | U8)
            | (I8 | U8, F32 | BF16 | F16 | F8E4M3 | F8E5M2) => Some(Self::F32),
            _ => None,
        }
    }
}

/// A type that the `gemm` crate multiplies.
pub(super) trait Multiplied: Arithmetic + General {
    const ELEMENT: ElementType;
}

impl Multiplied for f32 {
    const ELEMENT: ElementType = ElementType::F32;
}

impl Multiplied for f64 {
    const ELEMENT: ElementType = ElementType::F64;
}

/// The scales of blocks: of A `[L, M, K / 128]`, of B `[L, K / 128, N / 128]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockScales {
    pub(super) a: View,
    pub(super) b: View,
}

/// The format of the operands, with the memory that it reads beside elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum ProductFormat {
    /// Nothing.
    Plain,
    /// The scales of the operands' blocks, which are of FP8.
    Scaled(BlockScales),
    /// Codes in place of B's elements.
    Weights(WeightView),
}

/// The operands, and how they are multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<'a> {
    pub(super) extents: Extents,
    /// Strides: batch, M, K; patches have that of the batch only.
    pub(super) a: View,
    pub(super) patches: Option<&'a Patches>,
    /// Strides: batch, K, N. Nothing reads it if B has codes.
    pub(super) b: View,
    /// B's panels, if they were packed before the run.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "others have none")
    )]
    pub(super) whole_panels: Option<&'a WholePanels>,
    pub(super) format: ProductFormat,
    pub(super) accumulation: Accumulation,
    /// The part of K of every batch; without it all of K.
    pub(super) depths: Option<&'a [Range<usize>]>,
}

/// A thread's panels.
#[derive(Debug, Default)]
pub(super) struct Panels {
    pub(super) narrow: PanelPair<f32>,
    wide: PanelPair<f64>,
    /// The products of a tile that are not accumulated in the arithmetic type.
    pub(super) narrow_tile: Vec<f32>,
    /// The sums of a block of a tile, if blocks have scales.
    pub(super) block: Vec<f32>,
    /// Rows of A, and unpacked weights, if B has codes.
    weights: WeightMemory,
    accumulators: Vec<OfAccumulator>,
}

/// A thread's memory for each accumulator.
#[derive(Debug, Default)]
struct OfAccumulator {
    /// Panels of its own B: each B stays packed for the next tiles, too.
    words: WordPanels,
    wide_tile: Vec<f64>,
}

impl Panels {
    /// The tile's exact sums of an accumulator, if integers were multiplied; unspecified otherwise.
    pub(super) fn sums(&self, accumulator: usize) -> &[f64] {
        self.accumulators.get(accumulator).map_or(&[], |of| &of.wide_tile)
    }

    /// Forgets what has been packed: B may have changed since.
    pub(super) fn forget(&mut self) {
        self.accumulators.iter_mut().for_each(|of| of.words.forget());
    }
}

impl WordPanels {
    /// Forgets what has been packed.
    pub(super) fn forget(&mut self) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        self.packed.clear();
    }
}

/// Panels of words, for the CPUs that multiply words.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, reason = "others don't"))]
#[derive(Debug, Default)]
pub(super) struct WordPanels {
    pub(super) a: Lines<i32>,
    pub(super) b: Lines<i32>,
    /// Pieces that are packed in `b`, and facts about their elements, by the number of the piece.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(super) packed: Vec<Option<(Packed, kernel::words::Contents)>>,
    /// How pieces lie in `b`.
    pub(super) layout: [usize; 4],
    /// The last word of each row of A, if K ends within it.
    pub(super) last: Vec<i32>,
    /// A tile's sums of integers.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "others multiply them as f32s"))]
    pub(super) sums: Vec<i32>,
    /// The sums of a tile's transpose, of whatever type.
    pub(super) turned: Lines<i32>,
}

/// The source of a packed panel of B.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) address: usize,
    pub(super) strides: [isize; 2],
    pub(super) extents: [usize; 2],
    pub(super) flipped: bool,
}

#[derive(Debug, Default)]
pub(super) struct PanelPair<C> {
    a: Vec<C>,
    b: Vec<C>,
    /// A tile's products in column-major order.
    columns: Vec<C>,
}

impl Product<'_> {
    /// The part of K of a tile's batch.
    pub(super) fn depth(&self, tile: &Tile) -> Range<usize> {
        self.depths.map_or(0..self.extents.k, |depths| depths[tile.batch].clone())
    }

    /// Writes the tile's values of accumulator `accumulator` to `to`, row by row.
    ///
    /// # Safety
    /// The views must reach every element of the tile's rows of A and columns of B, and no thread may write them
    /// meanwhile.
    pub(super) unsafe fn tile<T: Arithmetic>(
        &self,
        accumulator: usize,
        tile: &Tile,
        panels: &mut Panels,
        to: &mut [T],
    ) {
        let length = tile.rows.len() * tile.columns.len();
        let to = &mut to[..length];
        if let ProductFormat::Scaled(scales) = &self.format {
            // SAFETY: the caller's promise.
            return unsafe { self.by_blocks(scales, tile, panels, to) };
        }
        let Panels { narrow, wide, narrow_tile, accumulators, weights: memory, .. } = panels;
        accumulators.resize_with(accumulators.len().max(accumulator + 1), OfAccumulator::default);
        let OfAccumulator { words, wide_tile } = &mut accumulators[accumulator];
        if let ProductFormat::Weights(weights) = &self.format {
            let memory = (memory, words, narrow);
            // SAFETY: the caller's promise.
            return accumulated(to, narrow_tile, |to| unsafe { self.by_weights(weights, tile, memory, to) });
        }
        match self.accumulation {
            Accumulation::F32 => {
                // SAFETY: the caller's promise.
                accumulated(to, narrow_tile, |to| unsafe { self.floats(tile, self.depth(tile), words, narrow, to) });
            }
            Accumulation::F64 => {
                // SAFETY: the caller's promise.
                let multiply = |to: &mut [f64]| unsafe { self.multiply(tile, self.depth(tile), wide, to, PANEL) };
                accumulated(to, wide_tile, multiply);
            }
            Accumulation::Integers(exact) => {
                wide_tile.clear();
                resize(wide_tile, length, 0.0);
                let all = self.depth(tile);
                // SAFETY: the caller's promise.
                if unsafe { !self.integers_by_words(tile, all.clone(), words, wide_tile) } {
                    resize(narrow_tile, length, 0.0);
                    for first in all.clone().step_by(exact) {
                        let depth = first..all.end.min(first + exact);
                        // SAFETY: the caller's promise.
                        unsafe { self.multiply(tile, depth, narrow, narrow_tile, exact) };
                        wide_tile.iter_mut().zip(&*narrow_tile).for_each(|(sum, &part)| *sum += f64::from(part));
                    }
                }
                to.iter_mut().zip(wide_tile).for_each(|(to, &mut x)| *to = T::from_f64(x));
            }
        }
    }

    /// Multiplies over a range of K, accumulated in f32.
    ///
    /// # Safety
    /// The conditions of [`tile`](Self::tile).
    pub(super) unsafe fn floats(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        words: &mut WordPanels,
        panels: &mut PanelPair<f32>,
        to: &mut [f32],
    ) {
        let mut case = self.case(tile, &depth);
        // SAFETY: the caller's promise.
        while unsafe { !self.by_words(Method::of(&case, &Cpu::this()), tile, depth.clone(), words, to) } {
            if case.words.take().is_none() {
                // SAFETY: the caller's promise.
                return unsafe { self.multiply(tile, depth, panels, to, PANEL) };
            }
        }
    }

    /// The case of a tile of floats or integers.
    pub(super) fn case(&self, tile: &Tile, depth: &Range<usize>) -> MethodCase {
        let words = Cpu::this().words(self.a.element, self.b.element).filter(|_| !self.has_columns());
        let layout = |element, [along_k, across]: [isize; 2]| MethodLayout {
            element,
            along_k: along_k == 1,
            across: across == 1,
        };
        let ([_, down, a_along], [_, b_along, across]) = (self.a.strides, self.b.strides);
        let a_strides = if self.patches.is_some() { [0, 0] } else { [a_along, down] };
        MethodCase {
            rows: tile.rows.len(),
            columns: tile.columns.len(),
            a: layout(self.a.element, a_strides),
            b: layout(self.b.element, [b_along, across]),
            has_patches: self.patches.is_some(),
            words,
            is_prepacked: words.is_some_and(|words| self.is_prepacked(words, tile, depth)),
            is_alone: tile.is_alone,
            general: self.general::<f32>(tile),
        }
    }

    /// The method without words.
    fn general<C: Multiplied>(&self, tile: &Tile) -> Method {
        // A patch's elements are copied one after another.
        let (a_along_k, _) =
            self.patches.map_or_else(|| along::<C>(&self.a), |of| (!of.are_columns(), of.are_columns()));
        let (b_across, b_along_k) = along::<C>(&self.b);
        Method::general(tile.rows.len(), self.is_in_place::<C>(), a_along_k, b_along_k, b_across)
    }

    /// Multiplies over a range of K, in panels if an operand has to be widened.
    ///
    /// # Safety
    /// The conditions of [`tile`](Self::tile).
    pub(super) unsafe fn multiply<C: Multiplied>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        panels: &mut PanelPair<C>,
        to: &mut [C],
        panel: usize,
    ) {
        if to.is_empty() {
            return;
        }
        let (m, n) = (tile.rows.len(), tile.columns.len());
        // SAFETY: the caller's promise.
        unsafe {
            match self.general::<C>(tile) {
                Method::Row => self.row(tile, depth, panels, to),
                Method::Dots => self.dots(tile, depth, panels, to),
                Method::ByColumns => {
                    let mut columns = std::mem::take(&mut panels.columns);
                    grow(&mut columns, to.len(), C::ZERO);
                    self.panels(tile, depth, panels, &mut columns[..to.len()], [1, m as isize], panel);
                    transpose(&columns, m, n, to);
                    panels.columns = columns;
                }
                _ => self.panels(tile, depth, panels, to, [n as isize, 1], panel),
            }
        }
    }

    /// Multiplies with the `gemm` crate; `row` and `column` are the strides of `to`.
    unsafe fn panels<C: Multiplied>(
        &self,
        tile: &Tile,
        depth: Range<usize>,
        panels: &mut PanelPair<C>,
        to: &mut [C],
        [row, column]: [isize; 2],
        panel: usize,
    ) {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let step = if self.is_in_place::<C>() { depth.len().max(1) } else { panel };
        let mut first = depth.start;
        loop {
            let k = step.min(depth.end - first);
            // SAFETY: the caller's promise.
            let (a, b) = unsafe {
                (
                    self.widened_a(tile, first, [m, k], &mut panels.a),
                    widened(&self.b, self.b_from(tile, first, 0), [k, n], &mut panels.b),
                )
            };
            let continues = first > depth.start;
            let to = Written { pointer: to.as_mut_ptr(), row, column, continues };
            // SAFETY: `a` has m×k elements, `b` k×n, `to` m×n, which the slices' lengths and the caller's promise say.
            unsafe { general(kernel::Extents { rows: m, columns: n, depth: k }, a, b, to) };
            first += k;
            if first >= depth.end {
                return;
            }
        }
    }

    /// Multiplies one row; B is contiguous along N.
    unsafe fn row<C: Multiplied>(&self, tile: &Tile, depth: Range<usize>, panels: &mut PanelPair<C>, to: &mut [C]) {
        to.fill(C::ZERO);
        let columns = tile.columns.len();
        let step = if self.b.element == C::ELEMENT { PANEL } else { FEW_DEPTH };
        for first in depth.clone().step_by(step) {
            let k = step.min(depth.end - first);
            let extents = kernel::Extents { rows: 1, columns, depth: k };
            // SAFETY: the caller's promise.
            unsafe {
                let a = self.widened_a(tile, first, [1, k], &mut panels.a);
                let b = widened(&self.b, self.b_from(tile, first, 0), [k, columns], &mut panels.b);
                row(extents, a, b, to);
            }
        }
    }

    /// Multiplies few rows; both operands are contiguous along K.
    unsafe fn dots<C: Multiplied>(&self, tile: &Tile, depth: Range<usize>, panels: &mut PanelPair<C>, to: &mut [C]) {
        to.fill(C::ZERO);
        let (rows, stride) = (tile.rows.len(), tile.columns.len());
        let group = if self.b.element == C::ELEMENT { stride.max(1) } else { FEW_COLUMNS };
        for first in depth.clone().step_by(PANEL) {
            let k = PANEL.min(depth.end - first);
            // SAFETY: the caller's promise.
            let a = unsafe { self.widened_a(tile, first, [rows, k], &mut panels.a) };
            for j in (0..stride).step_by(group) {
                let columns = group.min(stride - j);
                let extents = kernel::Extents { rows, columns, depth: k };
                // SAFETY: the caller's promise.
                unsafe {
                    let b = widened(&self.b, self.b_from(tile, first, j), [k, columns], &mut panels.b);
                    dots(extents, a, b, &mut to[j..], stride);
                }
            }
        }
    }

    /// Whether patches are columns: words are packed along K, and these lie across it.
    fn has_columns(&self) -> bool {
        self.patches.is_some_and(Patches::are_columns)
    }

    /// Whether both operands are multiplied in place.
    fn is_in_place<C: Multiplied>(&self) -> bool {
        self.a.element == C::ELEMENT && self.b.element == C::ELEMENT && self.patches.is_none()
    }

    /// The tile's rows of A from index `k` on, in place or in `panel`.
    unsafe fn widened_a<C: Multiplied>(
        &self,
        tile: &Tile,
        k: usize,
        [rows, depth]: [usize; 2],
        panel: &mut Vec<C>,
    ) -> Matrix<C> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.patches {
                None => widened(&self.a, self.a_from(tile, k), [rows, depth], panel),
                Some(patches) => {
                    let (of_rows, of_depth) = (tile.rows.start..tile.rows.start + rows, k..k + depth);
                    grow(panel, rows * depth, C::ZERO);
                    let (to, images) = (&mut panel[..rows * depth], self.images(tile));
                    if patches.are_columns() {
                        gather(patches, &images, of_depth, of_rows, to);
                        Matrix { pointer: panel.as_ptr(), row: 1, column: rows as isize }
                    } else {
                        gather(patches, &images, of_rows, of_depth, to);
                        Matrix { pointer: panel.as_ptr(), row: depth as isize, column: 1 }
                    }
                }
            }
        }
    }

    /// The images of whose patches A is made, from the channels of the tile's group on.
    pub(super) fn images(&self, tile: &Tile) -> View {
        View { pointer: self.a.at(tile.batch, 0, 0), ..self.a }
    }

    /// The address of the tile's first row of A, from index `k` on.
    pub(super) fn a_from(&self, tile: &Tile, k: usize) -> *const u8 {
        self.a.at(tile.batch, tile.rows.start, k)
    }

    /// The address of a column of the tile in B, from index `k` on.
    pub(super) fn b_from(&self, tile: &Tile, k: usize, column: usize) -> *const u8 {
        self.b.at(tile.batch, k, tile.columns.start + column)
    }
}

/// Other CPUs have no instructions for words.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Product<'_> {
    unsafe fn by_words(&self, _: Method, _: &Tile, _: Range<usize>, _: &mut WordPanels, _: &mut [f32]) -> bool {
        false
    }

    unsafe fn integers_by_words(&self, _: &Tile, _: Range<usize>, _: &mut WordPanels, _: &mut [f64]) -> bool {
        false
    }

    fn is_prepacked(&self, _: WordType, _: &Tile, _: &Range<usize>) -> bool {
        false
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Cpu {
    fn this() -> Self {
        Self::default()
    }
}

/// Multiplies into `to`, by way of `sums` if products are accumulated in another type.
fn accumulated<T: Arithmetic, C: Multiplied>(to: &mut [T], sums: &mut Vec<C>, multiply: impl FnOnce(&mut [C])) {
    if size_of::<T>() == size_of::<C>()
        && let Ok(to) = bytemuck::try_cast_slice_mut(&mut *to)
    {
        return multiply(to);
    }
    resize(sums, to.len(), C::ZERO);
    multiply(sums);
    to.iter_mut().zip(sums).for_each(|(to, x)| *to = T::from_f64(x.to_f64()));
}

/// Whether an operand is contiguous along its last axis, and whether along the one before; of the widened copy, if
/// there is one.
fn along<C: Multiplied>(view: &View) -> (bool, bool) {
    let [_, row, column] = view.strides;
    let copied_by_columns = row == 1 && column != 1;
    if view.element == C::ELEMENT { (column == 1, row == 1) } else { (!copied_by_columns, copied_by_columns) }
}

/// The rows×columns matrix at `from`: in place if it has type C, else widened into `panel`, in the same order as in
/// memory.
unsafe fn widened<C: Multiplied>(
    view: &View,
    from: *const u8,
    [rows, columns]: [usize; 2],
    panel: &mut Vec<C>,
) -> Matrix<C> {
    let [_, row, column] = view.strides;
    if view.element == C::ELEMENT {
        return Matrix { pointer: from.cast::<C>(), row, column };
    }
    grow(panel, rows * columns, C::ZERO);
    let size = view.element.size() as isize;
    let by_columns = row == 1 && column != 1;
    let (outer, inner) = if by_columns { (columns, rows) } else { (rows, columns) };
    let (outer_stride, inner_stride) = if by_columns { (column, row) } else { (row, column) };
    if inner > 0 {
        for (i, line) in panel[..rows * columns].chunks_exact_mut(inner).take(outer).enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                C::load(view.element, from.wrapping_offset(i as isize * outer_stride * size), inner_stride, line);
            };
        }
    }
    let pointer = panel.as_ptr();
    if by_columns {
        Matrix { pointer, row: 1, column: rows as isize }
    } else {
        Matrix { pointer, row: columns as isize, column: 1 }
    }
}
