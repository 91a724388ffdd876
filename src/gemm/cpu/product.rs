//! The product of one tile, by the [`gemm`] crate.
//!
//! f32 and f64 operands are multiplied where they lie. Others are widened, panel by panel, to the type that the product
//! is computed in: f64 next to an f64, else f32. Products of 8-bit integers are exact: f32 holds every partial sum of
//! as many of them as a panel is deep, and the panels' sums are added in f64.

use ::gemm::{Parallelism, gemm};

use super::element::{Arithmetic, View};
use super::tile::{Extents, Tile};
use crate::ElementType;

/// Depth of a widened panel. (The `gemm` crate splits K in about as large parts itself.)
const PANEL: usize = 1024;

/// The type that products are accumulated in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accumulation {
    F32,
    F64,
    /// In f32, exactly, for this many terms; then in f64.
    Integers(usize),
}

impl Accumulation {
    /// How operands of these types are multiplied; `None` when they can't be.
    pub(super) fn of(a: ElementType, b: ElementType) -> Option<Self> {
        use ElementType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, U8};
        match (a, b) {
            // 2^24 over the largest product's magnitude: 2^14, 255·128 < 2^15, 255² < 2^16.
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

/// What the `gemm` crate multiplies.
trait Multiplied: Arithmetic {
    const ELEMENT: ElementType;
}

impl Multiplied for f32 {
    const ELEMENT: ElementType = ElementType::F32;
}

impl Multiplied for f64 {
    const ELEMENT: ElementType = ElementType::F64;
}

/// The operands and how they are multiplied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) extents: Extents,
    /// Strides: batch, M, K.
    pub(super) a: View,
    /// Strides: batch, K, N.
    pub(super) b: View,
    pub(super) accumulation: Accumulation,
}

/// A thread's panels.
#[derive(Default)]
pub(super) struct Panels {
    narrow: PanelPair<f32>,
    wide: PanelPair<f64>,
    /// Products of a tile that are not accumulated in the arithmetic type.
    narrow_tile: Vec<f32>,
    wide_tile: Vec<f64>,
}

impl Panels {
    /// The tile's sums where integers were multiplied, which are exact; what they mean elsewhere is not said.
    pub(super) fn sums(&self) -> &[f64] {
        &self.wide_tile
    }
}

#[derive(Default)]
struct PanelPair<C> {
    a: Vec<C>,
    b: Vec<C>,
}

/// A matrix where the `gemm` crate can read it.
struct Matrix<C> {
    pointer: *const C,
    row: isize,
    column: isize,
}

impl Product {
    /// Writes the tile's accumulators to `to`, row by row.
    ///
    /// # Safety
    /// The views must reach every element of the tile's rows of A and columns of B, and nobody may write them
    /// meanwhile.
    pub(super) unsafe fn tile<T: Arithmetic>(&self, tile: &Tile, panels: &mut Panels, to: &mut [T]) {
        let Panels { narrow, wide, narrow_tile, wide_tile } = panels;
        let length = tile.rows.len() * tile.columns.len();
        let to = &mut to[..length];
        match self.accumulation {
            Accumulation::F32 => {
                // SAFETY: the caller's promise.
                unsafe { self.whole::<T, f32>(tile, narrow, narrow_tile, to) };
            }
            Accumulation::F64 => {
                // SAFETY: the caller's promise.
                unsafe { self.whole::<T, f64>(tile, wide, wide_tile, to) };
            }
            Accumulation::Integers(exact) => {
                wide_tile.clear();
                wide_tile.resize(length, 0.0);
                narrow_tile.resize(length, 0.0);
                for first in (0..self.extents.k).step_by(exact) {
                    let depth = first..self.extents.k.min(first + exact);
                    // SAFETY: the caller's promise.
                    unsafe { self.multiply(tile, depth, narrow, narrow_tile, exact) };
                    wide_tile.iter_mut().zip(&*narrow_tile).for_each(|(sum, &part)| *sum += f64::from(part));
                }
                to.iter_mut().zip(wide_tile).for_each(|(to, &mut x)| *to = T::from_f64(x));
            }
        }
    }

    /// Multiplies over all of K, in place where the arithmetic type is the one that is accumulated in.
    unsafe fn whole<T: Arithmetic, C: Multiplied>(
        &self,
        tile: &Tile,
        panels: &mut PanelPair<C>,
        sums: &mut Vec<C>,
        to: &mut [T],
    ) {
        let depth = 0..self.extents.k;
        if size_of::<T>() == size_of::<C>()
            && let Ok(to) = bytemuck::try_cast_slice_mut(&mut *to)
        {
            // SAFETY: the caller's promise.
            return unsafe { self.multiply(tile, depth, panels, to, PANEL) };
        }
        sums.resize(to.len(), C::ZERO);
        // SAFETY: the caller's promise.
        unsafe { self.multiply(tile, depth, panels, sums, PANEL) };
        to.iter_mut().zip(sums).for_each(|(to, x)| *to = T::from_f64(x.to_f64()));
    }

    /// Multiplies over a range of K, in panels where an operand has to be widened.
    unsafe fn multiply<C: Multiplied>(
        &self,
        tile: &Tile,
        depth: std::ops::Range<usize>,
        panels: &mut PanelPair<C>,
        to: &mut [C],
        panel: usize,
    ) {
        let (m, n) = (tile.rows.len(), tile.columns.len());
        let in_place = self.a.element == C::ELEMENT && self.b.element == C::ELEMENT;
        let step = if in_place { depth.len().max(1) } else { panel };
        let mut first = depth.start;
        loop {
            let k = step.min(depth.end - first);
            let (i, j) = (tile.rows.start, tile.columns.start);
            // SAFETY: the caller's promise.
            let (a, b) = unsafe {
                (
                    widened(&self.a, self.a.at(tile.batch, i, first), [m, k], &mut panels.a),
                    widened(&self.b, self.b.at(tile.batch, first, j), [k, n], &mut panels.b),
                )
            };
            let continues = first > depth.start;
            // SAFETY: `a` has m×k elements, `b` k×n, `to` m×n, which the slices' lengths and the caller's promise say;
            // C is the element type that the pointers point to.
            unsafe {
                gemm(
                    m,
                    n,
                    k,
                    to.as_mut_ptr(),
                    1,
                    n as isize,
                    continues,
                    a.pointer,
                    a.column,
                    a.row,
                    b.pointer,
                    b.column,
                    b.row,
                    C::ONE,
                    C::ONE,
                    false,
                    false,
                    false,
                    Parallelism::None,
                );
            }
            first += k;
            if first >= depth.end {
                return;
            }
        }
    }
}

/// The rows×columns matrix at `from`: in place if it has type C, else widened into `panel`, along the axis that is
/// contiguous in memory.
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
    panel.resize(panel.len().max(rows * columns), C::ZERO);
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
