//! The oracle: the correct outputs of an epilogue, computed on the host in higher precision than any device's.
//!
//! For every output element the reference gives the value and the [`Bounds`] for the results of all correct devices.
//! The value is computed in f64, or in twice f64's precision if the epilogue computes in f64. It shares no code with
//! the emitters or the CPU device: neither functions nor rounding.

mod bounds;
mod cell;
mod chance;
mod collect;
mod convolution;
mod double_double;
mod element;
mod evaluate;
mod extreme;
mod fp8;
mod integer;
mod orders;
mod pair;
mod product;
mod quantized;
mod scaled;
mod wide;

pub use bounds::Bounds;
pub use convolution::Convolution;
pub use element::{has_padding, unpack};
pub use evaluate::{evaluate, evaluate_grouped};
pub use fp8::Fp8Adder;
pub use product::{Multiplication, Product};
pub use quantized::{Activations, Weights};
pub use scaled::Scales;

use std::ops::Range;

use epilogue_float_mode::in_default_mode;

use crate::ElementType;
use crate::evt::BroadcastClass;

/// Rounds to the nearest value of an element type, ties to even. 8-bit floats and integers saturate, also infinities; a
/// NaN becomes 0 as an integer.
///
/// `i64` is exact only up to 2^53, since values are given as f64.
#[must_use]
pub fn round(element: ElementType, x: f64) -> f64 {
    in_default_mode(|| element::round(element, x))
}

/// The bytes of values, each rounded to the element type first.
#[must_use]
pub fn encode(element: ElementType, values: &[f64]) -> Vec<u8> {
    in_default_mode(|| element::encode(element, values))
}

/// The values of bytes. `i64` beyond 2^53 is rounded to f64.
#[must_use]
pub fn decode(element: ElementType, bytes: &[u8]) -> Vec<f64> {
    in_default_mode(|| element::decode(element, bytes))
}

/// The extents of the product: L times M×N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// Batches.
    pub l: usize,
}

impl Extent {
    /// Number of elements.
    #[must_use]
    pub const fn len(self) -> usize {
        self.m * self.n * self.l
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The rows of every batch that exist, where a batch is a group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups<'a> {
    /// Rows of each batch; they don't overlap.
    pub rows: &'a [Range<usize>],
    /// Whether they are rows of one matrix, so that M×N values and column vectors have no batches.
    pub of_one_matrix: bool,
}

impl Groups<'_> {
    /// Whether values of this class have no batches.
    const fn share(&self, class: BroadcastClass) -> bool {
        self.of_one_matrix && matches!(class, BroadcastClass::Tensor | BroadcastClass::ColumnVector)
    }

    /// Whether a group has a row of the batch, or of the one matrix.
    fn have(&self, batch: usize, row: usize) -> bool {
        let mut groups = self.rows.iter().enumerate().filter(|(of, _)| self.of_one_matrix || *of == batch);
        groups.any(|(_, rows)| rows.contains(&row))
    }
}

/// Values with strides, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// The exact values of the elements.
    pub values: &'a [f64],
    /// The index of the first element.
    pub offset: usize,
    /// Strides of the batch, row and column axes; 0 repeats the elements along an axis.
    pub strides: [isize; 3],
}

impl<'a> Array<'a> {
    /// Packed values of a class, with a leading batch axis or shared by all batches.
    #[must_use]
    pub fn packed(values: &'a [f64], class: BroadcastClass, extent: Extent, batched: bool) -> Self {
        let signed = |x: usize| isize::try_from(x).unwrap_or(isize::MAX);
        let (size, row, column) = match class {
            BroadcastClass::Scalar => (1, 0, 0),
            BroadcastClass::RowVector => (extent.n, 0, 1),
            BroadcastClass::ColumnVector => (extent.m, 1, 0),
            BroadcastClass::Tensor => (extent.m * extent.n, signed(extent.n), 1),
        };
        Self { values, offset: 0, strides: [if batched { signed(size) } else { 0 }, row, column] }
    }

    /// The array that begins at a batch, row and column.
    fn from(&self, index: [usize; 3]) -> Self {
        let places = index.into_iter().zip(self.strides);
        let steps = places.map(|(i, stride)| i.saturating_mul(usize::try_from(stride).unwrap_or(0)));
        Self { offset: self.offset + steps.sum::<usize>(), ..*self }
    }

    fn get(&self, name: &'static str, index: [usize; 3]) -> Result<f64, ReferenceError> {
        let mut place = isize::try_from(self.offset).ok();
        for (i, stride) in index.into_iter().zip(self.strides) {
            place = isize::try_from(i).ok().and_then(|i| i.checked_mul(stride)).and_then(|o| place?.checked_add(o));
        }
        let element = place.and_then(|p| usize::try_from(p).ok()).and_then(|p| self.values.get(p));
        element.copied().ok_or(ReferenceError::Element { name, index })
    }
}

/// The argument of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A host scalar.
    Scalar(f64),
    /// The seed and the offset of random numbers.
    Seed(u64, u64),
    /// Elements in memory.
    Array(Array<'a>),
}

/// How the device computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// The kernel's tile `(m, n)`: needed if the epilogue has per-tile partials.
    pub tile: Option<(usize, usize)>,
    /// Whether approximate instructions are allowed for outputs of any type.
    pub fast_math: bool,
}

/// One output.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name.
    pub name: &'static str,
    /// Its shape. L comes first, even if it is 1 (as for the rows of one matrix that groups share), unless the batch was
    /// reduced: `[L, M, N]`, `[L, M]`, `[L, N]`, `[L]`;
    /// for partials `[L, ceil(N / tile_n), M]` and `[L, ceil(M / tile_m), N]`.
    pub shape: Vec<usize>,
    /// Whether devices have eight columns of it in a byte; here there is a value for each element, 0 or 1.
    pub packed: bool,
    /// The values that should be stored, row-major.
    pub values: Vec<f64>,
    /// The bounds of each element, after rounding to the element type.
    pub bounds: Vec<Bounds>,
}

impl Output {
    /// The first wrong element of a device's result, with the result and the bounds.
    #[must_use]
    pub fn first_wrong(&self, results: &[f64]) -> Option<Wrong> {
        let wrong = |(place, (&result, bounds)): (usize, (&f64, &Bounds))| {
            (!bounds.admit(result)).then(|| Wrong { place, result, value: self.values[place], bounds: *bounds })
        };
        if results.len() != self.values.len() {
            let place = results.len().min(self.values.len());
            return Some(Wrong { place, result: f64::NAN, value: f64::NAN, bounds: Bounds::exact(0.0) });
        }
        in_default_mode(|| results.iter().zip(&self.bounds).enumerate().find_map(wrong))
    }
}

/// A wrong element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wrong {
    /// Its index among the output's elements. If the numbers of elements differ, the first index that only one of the
    /// two has.
    pub place: usize,
    /// The device's result.
    pub result: f64,
    /// The exact result.
    pub value: f64,
    /// The allowed results.
    pub bounds: Bounds,
}

/// Missing or wrong arguments of the reference.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum ReferenceError {
    /// The number of arguments is not the number of parameters.
    #[error("{given} arguments for {needed} parameters; give one for each, in the order of declaration")]
    Arguments {
        /// Arguments given.
        given: usize,
        /// Parameters.
        needed: usize,
    },
    /// A host scalar for a parameter in memory, or an array for a host scalar.
    #[error(
        "the argument `{name}` is of the wrong kind; host scalars are `Argument::Scalar`, seeds `Argument::Seed`, all others arrays"
    )]
    Kind {
        /// The parameter.
        name: &'static str,
    },
    /// An array that is too small.
    #[error("`{name}` has no element at batch {}, row {}, column {}", .index[0], .index[1], .index[2])]
    Element {
        /// The argument.
        name: &'static str,
        /// Batch, row and column.
        index: [usize; 3],
    },
    /// The number of products is not the number of accumulators.
    #[error("{given} products for {needed} accumulators; give one for each, all of one extent")]
    Products {
        /// Products given.
        given: usize,
        /// Accumulators of the tree.
        needed: usize,
    },
    /// The number of values of an accumulator is not that of the extent's elements.
    #[error("{given} accumulators for {needed} elements")]
    Accumulator {
        /// Values given.
        given: usize,
        /// L·M·N.
        needed: usize,
    },
    /// Per-tile partials, but no tile.
    #[error("`{name}` holds one partial per tile; give the kernel's tile shape, each side at least 1")]
    Tile {
        /// The output.
        name: &'static str,
    },
}

epilogue_runtime::message::debug!(ReferenceError);
