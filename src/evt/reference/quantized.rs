//! The product of A and quantised weights: by the weights' values, or group by group of integers.

use super::element::round;
use super::product::{Multiplication, Product, Sum};
use super::{Array, Extent, Groups, ReferenceError};
use crate::ElementType;
use crate::evt::Types;

/// Elements of A along K that share a scale, if A is quantised.
const BLOCK: usize = 32;

/// Blocks of A whose elements are all smaller count as zeros: 2^-119.
const SMALL: f64 = 1.0 / (1u128 << 119) as f64;

/// Quantised weights.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a> {
    /// Codes less their zero points, `[L, K, N]`.
    pub steps: Array<'a>,
    /// Scales, `[L, ceil(K / group), N]`.
    pub scales: Array<'a>,
    /// Codes along K that share a scale.
    pub group: usize,
}

/// How A is multiplied with quantised weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activations {
    /// By its values.
    Exact,
    /// Rounded to 8 bits, with a scale for each 32 elements along K.
    Int8,
}

impl Product {
    /// The product of A and quantised weights; of each group's rows and its B, if there are groups.
    ///
    /// # Errors
    /// [`ReferenceError::Element`] if A or the weights have no element that is needed.
    pub fn of_weights(
        types: Types,
        activations: Activations,
        extent: Extent,
        k: usize,
        a: &Array<'_>,
        weights: Weights<'_>,
        groups: Option<Groups<'_>>,
    ) -> Result<Self, ReferenceError> {
        let of_matrices = |extent, a: &Array<'_>, weights: Weights<'_>| match activations {
            Activations::Exact => exact(types, extent, k, a, weights),
            Activations::Int8 => by_integers(extent, k, a, weights),
        };
        let Some(groups) = groups else { return of_matrices(extent, a, weights) };
        Self::group_by_group(extent, groups, |batch, first, group, extent| {
            let (steps, scales) = (weights.steps.from([group, 0, 0]), weights.scales.from([group, 0, 0]));
            of_matrices(extent, &a.from([batch, first, 0]), Weights { steps, scales, ..weights })
        })
    }
}

/// A device may round a weight once, to A's type.
fn exact(
    types: Types,
    extent: Extent,
    k: usize,
    a: &Array<'_>,
    weights: Weights<'_>,
) -> Result<Product, ReferenceError> {
    Product::row_by_column(extent, k, (a, &weights.steps), |[batch, _, j], row, column| {
        let (mut sum, mut rounding) = (Sum::of(types, Multiplication::Exact), 0.0);
        for (group, (row, column)) in row.chunks(weights.group).zip(column.chunks(weights.group)).enumerate() {
            let scale = weights.scales.get("b_scales", [batch, group, j])?;
            for (x, step) in row.iter().zip(column) {
                // An f32 times an integer of 9 bits is exact in f64.
                let weight = scale * step;
                sum.add(*x, weight);
                let rounded = round(types.a, weight);
                if weight.is_finite() && x.is_finite() && *x != 0.0 {
                    rounding += (x * (rounded - weight)).abs();
                } else if weight.is_finite() && !rounded.is_finite() {
                    // Zero times a weight that a device may round to infinity.
                    rounding = f64::INFINITY;
                }
            }
        }
        // Rounded weights are larger by a little.
        Ok((sum.value(), (sum.error(types, Multiplication::Exact, k) + rounding) * (1.0 + 1.0 / 64.0)))
    })
}

/// A row's codes with the scales of its blocks, as every device rounds them.
fn quantised(row: &[f64]) -> Vec<(Vec<f64>, f64)> {
    let f32 = |x| round(ElementType::F32, x);
    let block = |block: &[f64]| {
        if block.iter().any(|x| !x.is_finite()) {
            return (vec![0.0; block.len()], f64::NAN);
        }
        let largest = block.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        if largest < SMALL {
            return (vec![0.0; block.len()], 0.0);
        }
        let factor = f32(127.0 / largest);
        (block.iter().map(|x| f32(x * factor).round_ties_even()).collect(), f32(largest / 127.0))
    };
    row.chunks(BLOCK).map(block).collect()
}

/// Sums of steps, each within a block of A and a group of weights, in any order.
fn by_integers(extent: Extent, k: usize, a: &Array<'_>, weights: Weights<'_>) -> Result<Product, ReferenceError> {
    Product::row_by_column(extent, k, (a, &weights.steps), |[batch, _, j], row, column| {
        let (mut value, mut magnitude, mut steps) = (0.0, 0.0, 0.0);
        for (number, (codes, scale_of_a)) in quantised(row).iter().enumerate() {
            let first = number * BLOCK;
            let mut at = first;
            while at < first + codes.len() {
                let group = at / weights.group;
                let end = ((group + 1) * weights.group).min(first + codes.len());
                let products = codes[at - first..end - first].iter().zip(&column[at..end]);
                let sum: f64 = products.map(|(code, step)| code * step).sum();
                let scale = weights.scales.get("b_scales", [batch, group, j])?;
                let both = round(ElementType::F32, scale * scale_of_a);
                value += both * sum;
                if (both * sum).is_finite() {
                    magnitude += (both * sum).abs();
                }
                steps += 1.0;
                at = end;
            }
        }
        if magnitude > f64::from(f32::MAX) {
            return Ok((value, f64::INFINITY));
        }
        // A rounding of each product, and one of each sum; subnormal ones are off by the least f32.
        let least = f64::from(f32::from_bits(1)).min(magnitude);
        Ok((value, (steps + 2.0) * (f64::from(f32::EPSILON) * magnitude + 2.0 * least) * (1.0 + 1e-9)))
    })
}
