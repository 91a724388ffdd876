//! The product of FP8 operands with a scale for each block, block by block.

use super::element::round;
use super::product::{Multiplication, Product, Sum};
use super::{Array, Extent, Groups, ReferenceError};
use crate::ElementType;
use crate::evt::Types;

/// Elements of a block, of K and of columns.
const BLOCK: usize = 128;

/// The scales of A's blocks, `[L, M, K / 128]`, and of B's, `[L, K / 128, N / 128]`.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// The scales of A.
    pub a: Array<'a>,
    /// The scales of B.
    pub b: Array<'a>,
}

impl Product {
    /// The product of A and B, whose blocks have scales; of each group's rows and its B, if there are groups.
    /// Every block is summed by itself.
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if an operand or its scales have no element that is needed.
    pub fn of_scaled(
        (types, multiplication): (Types, Multiplication),
        extent: Extent,
        k: usize,
        (a, b): (&Array<'_>, &Array<'_>),
        scales: Scales<'_>,
        groups: Option<Groups<'_>>,
    ) -> Result<Self, ReferenceError> {
        let Some(groups) = groups else { return of_matrices((types, multiplication), extent, k, (a, b), scales) };
        Self::group_by_group(extent, groups, |batch, first, group, extent| {
            let own = Scales { a: scales.a.from([batch, first, 0]), b: scales.b.from([group, 0, 0]) };
            of_matrices((types, multiplication), extent, k, (&a.from([batch, first, 0]), &b.from([group, 0, 0])), own)
        })
    }
}

fn of_matrices(
    (types, multiplication): (Types, Multiplication),
    extent: Extent,
    k: usize,
    (a, b): (&Array<'_>, &Array<'_>),
    scales: Scales<'_>,
) -> Result<Product, ReferenceError> {
    Product::row_by_column(extent, k, (a, b), |[batch, i, j], row, column| {
        let mut total = Total::default();
        for (block, (row, column)) in row.chunks(BLOCK).zip(column.chunks(BLOCK)).enumerate() {
            let mut sum = Sum::of(types, multiplication);
            row.iter().zip(column).for_each(|(x, y)| sum.add(*x, *y));
            let of_a = scales.a.get("a_scales", [batch, i, block])?;
            let of_b = scales.b.get("b_scales", [batch, block, j / BLOCK])?;
            // The product of two f32s is exact in f64, and then rounded as every device rounds it.
            total.add(round(ElementType::F32, of_a * of_b), sum, (types, multiplication), row.len());
        }
        Ok((total.value, total.error()))
    })
}

/// The sum of scaled sums, in any order.
#[derive(Default)]
struct Total {
    value: f64,
    /// The sum of the finite blocks' magnitudes.
    magnitude: f64,
    /// The sum of the blocks' own errors, scaled.
    error: f64,
    blocks: f64,
    /// Whether a block may be infinite of either sign, or NaN.
    unknown: bool,
}

impl Total {
    fn add(&mut self, scale: f64, sum: Sum, (types, multiplication): (Types, Multiplication), terms: usize) {
        let (value, is_zero) = (sum.value(), sum.is_zero());
        let error = if is_zero { 0.0 } else { sum.error(types, multiplication, terms) };
        self.blocks += 1.0;
        self.value += scale * value;
        if scale.is_infinite() && !is_zero && value.abs() <= error {
            self.unknown = true;
        } else if scale.is_finite() && value.is_finite() {
            self.magnitude += scale.abs() * (value.abs() + error);
            self.error += scale.abs() * error;
        }
    }

    /// The error bound: one rounding per scaled product and one per addition.
    fn error(&self) -> f64 {
        let unit = f64::from(f32::EPSILON);
        if self.unknown || self.magnitude > f64::from(f32::MAX) {
            return f64::INFINITY;
        }
        // A unit of subnormal numbers is the smallest.
        let least = f64::from(f32::from_bits(1)).min(self.magnitude);
        (self.error + (self.blocks + 1.0) * (unit * self.magnitude + 2.0 * least)) * (1.0 + 1e-9)
    }
}
