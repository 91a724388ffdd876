//! [Panels](super::pack) of f32s, of one vector each.

use std::marker::PhantomData;

use super::super::Matrix;
use super::pack::{Contents, Magnitude, PackedFrom};
use super::{LANES, Words, WordsWork};

/// Words of a panel at a time.
const DEEP: usize = 8;

/// Words of f32s whose panels are made of squares that are transposed in registers.
pub(super) trait TransposedSquares: Words<Sum = f32> {
    /// Rows and columns of a square, which divide [`DEEP`] and [`LANES`].
    const SIDE: usize;

    /// Transposes a square of columns that are contiguous, to rows [`LANES`] apart.
    ///
    /// # Safety
    /// The square must be there, and room for it; it is called by the words' own work.
    unsafe fn square(from: Matrix<f32>, to: *mut f32);
}

/// Writes panels of f32s to exactly as many words; gives facts about them.
///
/// # Safety
/// The conditions of [`pack`](super::pack()).
pub(super) unsafe fn pack_f32<W: TransposedSquares>(
    from: PackedFrom,
    [depth, columns]: [usize; 2],
    to: &mut [i32],
) -> Contents {
    let to = bytemuck::cast_slice_mut(to);
    // SAFETY: the caller's promise.
    unsafe { W::compiled_for(Pack::<W> { from, depth, columns, to, of: PhantomData }) }
}

/// Writes [panels](super::pack), of one vector each.
struct Pack<'a, W> {
    from: PackedFrom,
    depth: usize,
    columns: usize,
    to: &'a mut [f32],
    of: PhantomData<W>,
}

impl<W: TransposedSquares> WordsWork for Pack<'_, W> {
    type Output = Contents;

    #[inline(always)]
    unsafe fn run(mut self) -> Contents {
        // In the order of memory: words of some rows, or of some columns, at a time.
        let by_rows = self.is_by_rows();
        let (rows, panels) = (self.depth.div_ceil(DEEP), self.columns.div_ceil(LANES));
        let (outer, inner) = if by_rows { (rows, panels) } else { (panels, rows) };
        let mut greatest = 0;
        for i in 0..outer {
            for j in 0..inner {
                let (row, panel) = if by_rows { (i, j) } else { (j, i) };
                // SAFETY: the caller's promise.
                greatest = greatest.max(unsafe { self.cell(row * DEEP, panel * LANES) });
            }
        }
        Contents { least: Magnitude::NONE, are_finite: greatest < f32::INFINITY.to_bits() }
    }
}

impl<W: TransposedSquares> Pack<'_, W> {
    /// Whether words of neighbouring columns are neighbours in memory.
    #[inline(always)]
    const fn is_by_rows(&self) -> bool {
        self.from.across == size_of::<f32>() as isize
    }

    /// Writes at most eight words of sixteen columns, and 0 for columns that there aren't; gives the greatest magnitude's bits.
    #[inline(always)]
    unsafe fn cell(&mut self, k: usize, column: usize) -> u32 {
        let by_rows = self.is_by_rows();
        let Self { from, depth, columns, .. } = *self;
        let (deep, wide) = ((depth - k).min(DEEP), (columns - column).min(LANES));
        let to = &mut self.to[column * depth + k * LANES..][..deep * LANES];
        // SAFETY: the caller's promise: there are these elements.
        unsafe {
            if by_rows {
                for (i, to) in to.chunks_exact_mut(LANES).enumerate() {
                    let row = from.at(k + i, column);
                    if wide == LANES {
                        row.copy_to_nonoverlapping(to.as_mut_ptr().cast(), size_of::<f32>() * LANES);
                    } else {
                        row.copy_to_nonoverlapping(to.as_mut_ptr().cast(), size_of::<f32>() * wide);
                        to[wide..].fill(0.0);
                    }
                }
            } else if from.along == size_of::<f32>() as isize && [deep, wide] == [DEEP, LANES] {
                let across = from.across / size_of::<f32>() as isize;
                for i in (0..DEEP).step_by(W::SIDE) {
                    for j in (0..LANES).step_by(W::SIDE) {
                        let pointer = from.at(k + i, column + j).cast();
                        W::square(Matrix { pointer, row: 1, column: across }, to.as_mut_ptr().add(i * LANES + j));
                    }
                }
            } else {
                for (i, to) in to.chunks_exact_mut(LANES).enumerate() {
                    for (j, to) in to.iter_mut().enumerate() {
                        *to = if j < wide { from.at(k + i, column + j).cast::<f32>().read_unaligned() } else { 0.0 };
                    }
                }
            }
        }
        to.iter().fold(0, |greatest, x| greatest.max(x.abs().to_bits()))
    }
}
