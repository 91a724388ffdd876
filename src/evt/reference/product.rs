//! The product A·B on the host, with a bound of the difference to a device's accumulator.

use std::ops::Range;

use epilogue_float_mode::in_default_mode;

use super::element::round;
use super::fp8::{Adder, Fp8Adder, Fp8Sum};
use super::{Array, Extent, Groups, ReferenceError};
use crate::ElementType;
use crate::evt::Types;

/// Rows of A for which each column of B is read once.
const ROWS: usize = 16;

/// An accumulator: `[L, M, N]` values, row-major, and the largest error of a device's for each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// M, N and L.
    pub extent: Extent,
    /// The exact values, rounded to f64 (f64 products are summed in twice f64's precision).
    pub values: Vec<f64>,
    /// The largest absolute errors; infinite if a partial sum may overflow the accumulator.
    pub errors: Vec<f64>,
}

/// How the device multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Multiplication {
    /// With unchanged operands.
    #[default]
    Exact,
    /// f32 operands reduced to TF32's 11 significant bits.
    Tf32,
    /// f32 operands rounded to bf16.
    FastBf16,
    /// FP8 products summed in the tensor cores of sm_90a over all of K; they keep 14 bits of a sum.
    FastFp8,
    /// FP8 products summed by `mma.sync` of a GPU that has it.
    NativeFp8(Fp8Adder),
}

impl Multiplication {
    /// The value of an operand that is multiplied. (How TF32 reduces it differs between GPUs, so that is in the bound
    /// instead.)
    pub(super) fn operand(self, x: f64) -> f64 {
        match self {
            Self::FastBf16 => round(ElementType::BF16, x),
            Self::Exact | Self::Tf32 | Self::FastFp8 | Self::NativeFp8(_) => x,
        }
    }
}

impl Product {
    /// An accumulator without error, for testing only an epilogue.
    #[must_use]
    pub fn exact(extent: Extent, values: Vec<f64>) -> Self {
        let errors = vec![0.0; values.len()];
        Self { extent, values, errors }
    }

    /// The products of groups: of each one's rows of A and its B. Other rows have zeros.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_groups(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        k: usize,
        (a, b): (&Array<'_>, &Array<'_>),
        groups: Groups<'_>,
    ) -> Result<Self, ReferenceError> {
        Self::group_by_group(extent, groups, |batch, first, group, extent| {
            let (own_a, own_b) = (a.from([batch, first, 0]), b.from([group, 0, 0]));
            Self::new(types, multiplication, extent, k, &own_a, &own_b)
        })
    }

    /// The products of groups. `of` gives that of a batch of A, from a row on, and a group's B.
    pub(super) fn group_by_group(
        extent: Extent,
        groups: Groups<'_>,
        of: impl Fn(usize, usize, usize, Extent) -> Result<Self, ReferenceError>,
    ) -> Result<Self, ReferenceError> {
        let l = if groups.of_one_matrix { 1 } else { groups.rows.len() };
        let extent = Extent { l, ..extent };
        let mut this = Self::exact(extent, vec![0.0; extent.len()]);
        for (group, rows) in groups.rows.iter().enumerate() {
            let batch = if groups.of_one_matrix { 0 } else { group };
            let own = of(batch, rows.start, group, Extent { m: rows.len(), l: 1, ..extent })?;
            let start = (batch * extent.m + rows.start) * extent.n;
            this.values[start..start + own.values.len()].copy_from_slice(&own.values);
            this.errors[start..start + own.errors.len()].copy_from_slice(&own.errors);
        }
        Ok(this)
    }

    /// The products of parts of K, of one A (`[M, K]`) and one B (`[K, N]`).
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_depths(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        (a, b): (&Array<'_>, &Array<'_>),
        depths: &[Range<usize>],
    ) -> Result<Self, ReferenceError> {
        let one = Extent { l: 1, ..extent };
        let mut this = Self { extent: Extent { l: depths.len(), ..extent }, values: Vec::new(), errors: Vec::new() };
        for depth in depths {
            let (own_a, own_b) = (a.from([0, 0, depth.start]), b.from([0, depth.start, 0]));
            let own = Self::new(types, multiplication, one, depth.len(), &own_a, &own_b)?;
            this.values.extend(own.values);
            this.errors.extend(own.errors);
        }
        Ok(this)
    }

    /// The product of A (`[L, M, K]`) and B (`[L, K, N]`, rows along K), summed in any order.
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if A or B has no element that the extent needs.
    pub fn new(
        types: Types,
        multiplication: Multiplication,
        extent: Extent,
        k: usize,
        a: &Array<'_>,
        b: &Array<'_>,
    ) -> Result<Self, ReferenceError> {
        Self::row_by_column(extent, k, (a, b), |_, row, column| {
            let mut sum = Sum::of(types, multiplication);
            for (x, y) in row.iter().zip(column) {
                sum.add(multiplication.operand(*x), multiplication.operand(*y));
            }
            Ok((sum.value(), sum.error(types, multiplication, k)))
        })
    }

    /// The values and errors that `of` gives for a place (batch, row, column) with its row of A and its column of B.
    pub(super) fn row_by_column(
        extent: Extent,
        k: usize,
        (a, b): (&Array<'_>, &Array<'_>),
        of: impl Fn([usize; 3], &[f64], &[f64]) -> Result<(f64, f64), ReferenceError>,
    ) -> Result<Self, ReferenceError> {
        in_default_mode(|| Self::row_by_row(extent, k, (a, b), of))
    }

    fn row_by_row(
        extent: Extent,
        k: usize,
        (a, b): (&Array<'_>, &Array<'_>),
        of: impl Fn([usize; 3], &[f64], &[f64]) -> Result<(f64, f64), ReferenceError>,
    ) -> Result<Self, ReferenceError> {
        let mut this = Self { extent, values: Vec::new(), errors: Vec::new() };
        if extent.n == 0 {
            return Ok(this);
        }
        for batch in 0..extent.l {
            for first in (0..extent.m).step_by(ROWS) {
                let rows = first..(first + ROWS).min(extent.m);
                let row = |row| (0..k).map(|depth| a.get("a", [batch, row, depth])).collect::<Result<Vec<_>, _>>();
                let rows = rows.map(|i| Ok((i, row(i)?))).collect::<Result<Vec<_>, _>>()?;
                let mut results = vec![Vec::new(); rows.len()];
                for j in 0..extent.n {
                    let column = (0..k).map(|depth| b.get("b", [batch, depth, j])).collect::<Result<Vec<_>, _>>()?;
                    for ((i, row), results) in rows.iter().zip(&mut results) {
                        results.push(of([batch, *i, j], row, &column)?);
                    }
                }
                for (value, error) in results.into_iter().flatten() {
                    this.values.push(value);
                    this.errors.push(error);
                }
            }
        }
        Ok(this)
    }
}

/// A compensated sum of products (Ogita, Rump and Oishi 2005, "Dot2").
#[derive(Default)]
pub(super) struct Sum {
    high: f64,
    low: f64,
    magnitude: f64,
    alignment: f64,
    fp8: Option<Fp8Sum>,
}

impl Sum {
    pub(super) fn of(types: Types, multiplication: Multiplication) -> Self {
        let adder = match multiplication {
            Multiplication::FastFp8 => Adder::HOPPER,
            Multiplication::NativeFp8(native) => Adder::of(native),
            Multiplication::Exact | Multiplication::Tf32 | Multiplication::FastBf16 => Adder::PROMOTED_HOPPER,
        };
        Self { fp8: Fp8Sum::of(types.a, types.b, adder), ..Self::default() }
    }

    #[inline]
    pub(super) fn add(&mut self, x: f64, y: f64) {
        if let Some(fp8) = &mut self.fp8 {
            fp8.add(x, y);
        }
        let product = x * y;
        let product_error = if product.is_finite() { libm::fma(x, y, -product) } else { 0.0 };
        let sum = self.high + product;
        let virtual_product = sum - self.high;
        let sum_error = (self.high - (sum - virtual_product)) + (product - virtual_product);
        self.high = sum;
        if sum.is_finite() {
            self.low += product_error + sum_error;
        }
        if product.is_finite() {
            self.magnitude += product.abs();
            // A tensor core aligns the products of a group to the largest exponent among them. A zero operand counts
            // with the smallest exponent of f32 (as in ptx-vm's model of the published measurements). So 0 · 3e38 takes
            // bits from its neighbours just as a product of 3.5 would.
            if x == 0.0 || y == 0.0 {
                self.alignment += x.abs().max(y.abs()) * f64::from(f32::MIN_POSITIVE);
            }
        }
    }

    /// Whether it is 0 on every device, since every product is.
    pub(super) fn is_zero(&self) -> bool {
        self.high == 0.0 && self.magnitude == 0.0
    }

    pub(super) fn value(&self) -> f64 {
        if self.high.is_finite() { self.high + self.low } else { self.high }
    }

    /// Every product and every partial sum errs by at most a unit; tensor cores truncate, so a unit is a whole ULP.
    pub(super) fn error(self, types: Types, multiplication: Multiplication, k: usize) -> f64 {
        let (unit, largest) = match types.accumulator {
            ElementType::F64 => (f64::EPSILON, f64::MAX),
            ElementType::I32 => return 0.0,
            // f32: validation allows no other types.
            _ => (f64::from(f32::EPSILON), f64::from(f32::MAX)),
        };
        if self.magnitude > largest {
            return f64::INFINITY;
        }
        #[expect(clippy::cast_precision_loss)]
        let terms = k as f64 + 8.0;
        let operands = match multiplication {
            Multiplication::Exact
            | Multiplication::FastBf16
            | Multiplication::FastFp8
            | Multiplication::NativeFp8(_) => 0.0,
            // Truncation changes each operand by up to 2^-10.
            Multiplication::Tf32 => 2.001 / 1024.0,
        };
        let alignment = if types.accumulator == ElementType::F64 { 0.0 } else { self.alignment * terms * unit };
        self.magnitude * (terms * unit + operands)
            + alignment
            + terms * f64::from(f32::MIN_POSITIVE).min(self.magnitude)
            // Slightly more, for the rounding of the f32 sums and of this bound.
            + self.fp8.map_or(0.0, |fp8| fp8.error() * (1.0 + terms * unit + 1e-9))
    }
}
