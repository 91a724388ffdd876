//! Rows of A for products with codes: as f32s, and as 8-bit integers with a scale for each block.

use crate::ElementType;
use crate::exhaustion::{grow, resize};
use crate::gemm::problem::quantization::{ACTIVATION_BLOCK, STEP};
use crate::lane::element::Loaded as _;
use crate::simd::{Vectorised, dispatch};

/// Rows of f32s, each filled up with zeros to whole blocks.
#[derive(Debug, Default)]
pub(super) struct FloatRows {
    numbers: Vec<f32>,
    rows: usize,
    /// From one row to the next.
    stride: usize,
}

impl FloatRows {
    /// Reads rows: from an address, of an element type; `down` in bytes, and `along` in elements.
    ///
    /// # Safety
    /// They must be readable, aligned, and written by no thread meanwhile.
    pub(super) unsafe fn load(
        &mut self,
        (from, element): (*const u8, ElementType),
        [down, along]: [isize; 2],
        [rows, depth]: [usize; 2],
    ) {
        let stride = depth.next_multiple_of(ACTIVATION_BLOCK);
        (self.rows, self.stride) = (rows, stride);
        grow(&mut self.numbers, rows * stride, 0.0);
        for (i, row) in self.numbers[..rows * stride].chunks_exact_mut(stride.max(1)).enumerate() {
            let (numbers, rest) = row.split_at_mut(depth);
            // SAFETY: the caller's promise.
            unsafe { f32::load(element, from.wrapping_offset(i as isize * down), along, numbers) };
            rest.fill(0.0);
        }
    }

    /// Whether every number is nearer to 0 than `limit`.
    pub(super) fn are_all_below(&self, limit: f32) -> bool {
        dispatch(Largest { numbers: self.all() }) < limit.to_bits()
    }

    /// A row, whose block after the last element is 0.
    pub(super) fn row(&self, number: usize) -> &[f32] {
        &self.all()[number * self.stride..][..self.stride]
    }

    pub(super) const fn stride(&self) -> usize {
        self.stride
    }

    fn all(&self) -> &[f32] {
        &self.numbers[..self.rows * self.stride]
    }
}

/// Rows of 8-bit integers.
#[derive(Debug, Default)]
pub(super) struct IntegerRows {
    pub(super) codes: Vec<i8>,
    /// The scale of each block of [`ACTIVATION_BLOCK`].
    pub(super) scales: Vec<f32>,
    /// The sum of the codes of each step.
    pub(super) sums: Vec<f32>,
    /// Codes, scales and sums of a row.
    pub(super) strides: [usize; 3],
}

impl IntegerRows {
    /// Quantises rows, and sums steps of [`STEP`] or [`ACTIVATION_BLOCK`] codes.
    pub(super) fn quantise(&mut self, from: &FloatRows, rows: usize, step: usize) {
        debug_assert!(step == STEP || step == ACTIVATION_BLOCK);
        let depth = from.stride();
        self.strides = [depth, depth / ACTIVATION_BLOCK, depth / step];
        let [_, blocks, steps] = self.strides;
        resize(&mut self.codes, rows * depth, 0);
        resize(&mut self.scales, rows * blocks, 0.0);
        resize(&mut self.sums, rows * steps, 0.0);
        for row in 0..rows {
            dispatch(Quantise {
                from: from.row(row).as_chunks().0,
                step,
                codes: self.codes[row * depth..][..depth].as_chunks_mut().0,
                scales: &mut self.scales[row * blocks..][..blocks],
                sums: &mut self.sums[row * steps..][..steps],
            });
        }
    }
}

/// The bits of the largest magnitude; those of a NaN are larger than all.
struct Largest<'a> {
    numbers: &'a [f32],
}

impl Vectorised for Largest<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u32 {
        self.numbers.iter().fold(0, |largest, x| largest.max(x.to_bits() & i32::MAX as u32))
    }
}

struct Quantise<'a> {
    from: &'a [[f32; ACTIVATION_BLOCK]],
    step: usize,
    codes: &'a mut [[i8; ACTIVATION_BLOCK]],
    scales: &'a mut [f32],
    sums: &'a mut [f32],
}

/// Blocks whose elements are all smaller have codes of 0: 127 divided by them may be infinite.
const SMALL: f32 = f32::from_bits((127 - 119) << 23);

/// The code of 0 plus this many has its bits in the lowest byte.
const ROUND: f32 = 12_582_912.0;

impl Vectorised for Quantise<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Self { from, step, codes, scales, sums } = self;
        let per_block = ACTIVATION_BLOCK / step;
        for (i, (block, codes)) in from.iter().zip(codes).enumerate() {
            let largest = f32::from_bits(block.iter().fold(0, |x, y| x.max(y.to_bits() & i32::MAX as u32)));
            let (scale, factor) = if !largest.is_finite() {
                (f32::NAN, 0.0)
            } else if largest < SMALL {
                (0.0, 0.0)
            } else {
                (largest / 127.0, 127.0 / largest)
            };
            for (code, x) in codes.iter_mut().zip(block) {
                // (Of a block that isn't finite, any code times the scale is NaN.)
                *code = (x * factor + ROUND).to_bits() as i8;
            }
            scales[i] = scale;
            for (sum, codes) in sums[i * per_block..][..per_block].iter_mut().zip(codes.chunks_exact(step)) {
                *sum = codes.iter().map(|code| i32::from(*code)).sum::<i32>() as f32;
            }
        }
    }
}
