//! Sums of products over labelled axes: the form of every matrix product and of `einsum`.
//!
//! A step is one sum over the product of two factors. Both have each axis that it sums, so a step is a product of
//! matrices with axes for rows, columns, sums and batches. For this, an axis that only one factor has is summed
//! before; and more than two factors are multiplied from left to right, one after the other. An axis is summed as soon
//! as no later factor has it. Results between the steps keep the type of the sums.

use super::wide;
use crate::te::dtype::DType;
use crate::te::error::{ExpressionError, TeError};
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::compute_over;
use crate::te::expr::define::reducer::sum_reducer;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;

/// The axes of a contraction, each known by its place here.
#[derive(Default)]
pub(super) struct Labels {
    names: Vec<String>,
    extents: Vec<Expr>,
}

impl Labels {
    /// A new axis, with its place.
    pub(super) fn add(&mut self, name: impl Into<String>, extent: Expr) -> usize {
        self.names.push(name.into());
        self.extents.push(extent);
        self.names.len() - 1
    }

    /// The extent of an axis.
    pub(super) fn extent(&self, label: usize) -> &Expr {
        &self.extents[label]
    }

    /// An axis that is broadcast gets the first extent other than 1.
    pub(super) fn widen(&mut self, label: usize, extent: &Expr) {
        if self.extents[label].as_int() == Some(1) {
            self.extents[label] = extent.clone();
        }
    }
}

/// A tensor with the label of each of its dimensions.
pub(super) struct Factor {
    pub(super) tensor: Tensor,
    pub(super) labels: Vec<usize>,
}

impl Factor {
    /// Its labels, each once, in order of first use.
    fn distinct(&self) -> Vec<usize> {
        let mut distinct = Vec::new();
        for label in &self.labels {
            if !distinct.contains(label) {
                distinct.push(*label);
            }
        }
        distinct
    }

    /// The element at these indices of the axes. A dimension of 1 is read at 0, so that it is broadcast.
    fn at(&self, index: impl Fn(usize) -> Expr) -> Expr {
        let shape = self.tensor.shape();
        let place = |(label, extent): (&usize, &Expr)| match extent.as_int() {
            Some(1) => Expr::int(0),
            _ => index(*label),
        };
        self.tensor.at(self.labels.iter().zip(&shape).map(place).collect::<Vec<Expr>>())
    }
}

/// The types of a sum of products.
pub(super) struct Types {
    /// The type of the sum.
    pub(super) sum: DType,
    /// The type of the result.
    pub(super) result: DType,
}

impl Types {
    /// # Errors
    /// [`ExpressionError::MixedTypes`] for factors that are computed in different types.
    pub(super) fn of<'a>(factors: impl IntoIterator<Item = &'a Tensor>) -> Result<Self, TeError> {
        let mut types = factors.into_iter().map(Tensor::dtype);
        let first = types.next().unwrap_or(DType::F32);
        let sum = wide(first);
        let mut result = if first.is_float() { first } else { sum };
        for other in types {
            if wide(other) != sum {
                return Err(ExpressionError::MixedTypes { left: first, right: other }.into());
            }
            if other != first {
                result = sum;
            }
        }
        Ok(Self { sum, result })
    }
}

/// The sum of the products of all factors over each axis that `output` lacks, in the type of sums.
pub(super) fn contract(
    name: &str,
    factors: Vec<Factor>,
    output: &[usize],
    labels: &Labels,
    sum: DType,
) -> Result<Tensor, TeError> {
    let several = factors.len() > 1;
    let uses: Vec<Vec<usize>> = factors.iter().map(Factor::distinct).collect();
    let mut product: Option<Factor> = None;
    for (place, factor) in factors.into_iter().enumerate() {
        let later = |label: &usize| output.contains(label) || uses[place + 1..].iter().any(|used| used.contains(label));
        let before = product.as_ref().map(Factor::distinct).unwrap_or_default();
        let factor =
            if several { shared(factor, |label| before.contains(label) || later(label), labels, sum)? } else { factor };
        let is_last = place + 1 == uses.len();
        if product.is_none() && !is_last {
            product = Some(factor);
            continue;
        }
        let step: Vec<&Factor> = product.iter().chain([&factor]).collect();
        let kept =
            if is_last { output.to_vec() } else { axes_of(&step).into_iter().filter(|label| later(label)).collect() };
        let tensor = summed(name, &step, &kept, labels, sum)?;
        product = Some(Factor { tensor, labels: kept });
    }
    match product {
        Some(product) => Ok(product.tensor),
        None => Err(ExpressionError::EmptyBody { tensor: name.to_owned() }.into()),
    }
}

/// The factor, summed over its axes that nothing else needs.
fn shared(factor: Factor, needed: impl Fn(&usize) -> bool, labels: &Labels, sum: DType) -> Result<Factor, TeError> {
    let distinct = factor.distinct();
    if distinct.iter().all(&needed) {
        return Ok(factor);
    }
    let kept: Vec<usize> = distinct.into_iter().filter(needed).collect();
    Ok(Factor { tensor: summed("sum", &[&factor], &kept, labels, sum)?, labels: kept })
}

/// The axes of all factors, each once.
fn axes_of(factors: &[&Factor]) -> Vec<usize> {
    let mut all = Vec::new();
    for label in factors.iter().flat_map(|factor| factor.distinct()) {
        if !all.contains(&label) {
            all.push(label);
        }
    }
    all
}

/// One step: the sum of the factors' product over the axes that are not kept.
fn summed(name: &str, factors: &[&Factor], kept: &[usize], labels: &Labels, sum: DType) -> Result<Tensor, TeError> {
    let gone: Vec<usize> = axes_of(factors).into_iter().filter(|label| !kept.contains(label)).collect();
    let axis = |label: &usize| reduce_axis((0, labels.extents[*label].clone()), &labels.names[*label]);
    let reduced: Vec<Axis> = gone.iter().map(axis).collect();
    let shape: Vec<Expr> = kept.iter().map(|label| labels.extents[*label].clone()).collect();
    let mut made = compute_over(shape, name, |outer| {
        let axes = || kept.iter().zip(outer).chain(gone.iter().zip(&reduced));
        let index =
            |label| axes().find(|(axis, _)| **axis == label).map_or_else(|| Expr::int(0), |(_, axis)| (*axis).into());
        let product = factors.iter().map(|factor| factor.at(index).cast(sum)).reduce(|a, b| a * b);
        let product = product.unwrap_or_else(|| Expr::constant(1.0, sum));
        vec![if reduced.is_empty() { product } else { sum_reducer().over(product, &reduced) }]
    })?;
    Ok(made.swap_remove(0))
}
