//! Products by words in the ways that only x86-64 has: dot products, rows and columns that are widened in registers, and
//! 8-bit integers.

use std::ops::Range;

use half::{bf16, f16};

use super::kernel::Matrix;
use super::kernel::words::{
    AlongK, AlongN, Avx512, Bf16, F32, PANEL, PackedFrom, SignedByUnsigned, UnsignedBySigned, Words as _, WordsWork,
    dots, few, few_rows, fewest_widened_columns, has_avx2, magnitude, most_widened_dots, most_widened_rows,
    multiplies_bf16, multiplies_f32, multiplies_integers, widened,
};
use super::method::{Cpu, FEW, Method, WidenedOperand, WordType};
use super::patches::sum_of_patch;
use super::product::{Product, WordPanels};
use super::tile::Tile;
use super::words::{parts, rows};
use crate::ElementType;
use crate::exhaustion::resize;
use crate::lane::element::Loaded as _;

/// The most rows of bf16s for which dot products are faster where a CPU multiplies tiles: 4×3072×768 bf16s take 0.29 ms as dot
/// products and 0.42 by tiles, 8×3072×768 0.51 and 0.42 (one core of a Xeon with AMX).
const FEW_BESIDE_TILES: usize = 5;
/// Elements of f32 rows that are multiplied at a time as dot products: they, and those of as many columns, stay in a first-level cache
/// of 32 KiB.
const NEAR_DOTS: usize = 384 * FEW;
/// Elements along K whose products fit in 32 bits: half of 2^31 / (255 · 128).
const EXACT: usize = 1 << 15;

impl Product<'_> {
    /// Multiplies by the methods that no other CPU has, as [`by_words`](Self::by_words) does.
    ///
    /// # Safety
    /// The conditions of [`by_words`](Self::by_words).
    pub(super) unsafe fn by_other_words(
        &self,
        method: Method,
        tile: &Tile,
        depth: &Range<usize>,
        memory: &mut WordPanels,
        to: &mut [f32],
    ) -> bool {
        // SAFETY: the CPU multiplies words of this type, or has the instructions to widen; the caller's promise.
        unsafe {
            match method {
                Method::WordDots(WordType::F32) => self.dots_of_f32s(tile, depth.clone(), to),
                Method::WordDots(_) | Method::PairedRows => return self.dots_of_bf16s(method, tile, depth, to),
                Method::WidenedRows => self.widened_rows(tile, depth, memory, to),
                Method::WidenedDots(widened) => self.widened_dots(widened, tile, depth, memory, to),
                _ => return false,
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
