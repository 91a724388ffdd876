//! Tests reads that may leave their tensor in one dimension.
//!
//! Memory is tested by one index, the sum of all dimensions. An index that leaves its dimension can still be a place in
//! the memory: of the next row, or of an element that a cache of a part of the tensor never got. So a read whose index
//! isn't proved to stay in its dimension has a test. If the test fails, the index is one that is outside of any memory.
//!
//! A proof is over the axes of the tensor that reads, under the conditions around the read, and for all sizes. Indices
//! that data give are tested where memory is [flattened](crate::te::loops::lower::passes::flatten), if all of the
//! tensor is there.

use std::collections::HashSet;

use super::Emitter;
use crate::te::arith::{Context, simplify};
use crate::te::expr::expression::{Binary, Expr, Kind};
use crate::te::expr::node::Id;
use crate::te::expr::tensor::{Compute, Tensor};

/// An index outside of every memory.
const OUTSIDE: i64 = i32::MIN as i64;

/// The number of nodes that proofs for one expression meet. All later reads are tested.
const MOST_NODES: usize = 1 << 14;

/// The number of conditions that a proof uses.
const MOST_CONDITIONS: usize = 16;

impl Emitter<'_> {
    /// A stage's expression with a test in each read that may leave its dimension. `x` is in terms of the stage's axes.
    pub(super) fn within_dimensions(&self, index: usize, x: &Expr) -> Expr {
        let Some(compute) = self.stage(index).operation.as_compute() else { return x.clone() };
        let unproved = self.unproved(compute, x);
        if unproved.is_empty() { x.clone() } else { self.tested(&unproved, x) }
    }

    fn tested(&self, unproved: &HashSet<Id>, x: &Expr) -> Expr {
        x.replaced(&mut |read| {
            let Kind::Read(tensor, indices) = read.kind() else { return None };
            if !unproved.contains(&read.id()) {
                return None;
            }
            let mut indices: Vec<Expr> = indices.iter().map(|x| self.tested(unproved, x)).collect();
            for (dimension, extent) in self.dimensions_to_test(tensor, &indices) {
                let index = &indices[dimension];
                let inside = index.greater_equal(0).and(index.less(&extent));
                indices[dimension] = inside.select(index, Expr::wrapped(OUTSIDE, index.dtype()));
            }
            Some(Expr::new(read.dtype(), Kind::Read(tensor.clone(), indices)))
        })
    }

    /// The dimensions of a tensor in which a read is tested if it isn't proved, with their extents.
    fn dimensions_to_test(&self, tensor: &Tensor, indices: &[Expr]) -> Vec<(usize, Expr)> {
        let Ok(producer) = self.schedule.index(tensor) else { return Vec::new() };
        if self.plan.rolling[producer].is_some() || self.stage(producer).operation.as_scan().is_some() {
            return Vec::new();
        }
        let shape = tensor.shape();
        let nest = self.plan.nests[producer].as_ref().zip(self.stage(producer).operation.as_compute());
        let is_part = |d: usize| {
            let axis = nest.and_then(|(nest, compute)| compute.axes.get(d).map(|axis| (nest.domain(*axis), axis)));
            axis.is_some_and(|(kept, axis)| axis.domain().is_some_and(|whole| whole != kept))
        };
        let needs = |d: &usize| is_part(*d) || (shape.len() > 1 && !depends_on_data(&indices[*d]));
        (0..shape.len().min(indices.len())).filter(needs).map(|d| (d, shape[d].clone())).collect()
    }

    /// The reads that aren't proved to stay in their dimensions.
    fn unproved(&self, compute: &Compute, x: &Expr) -> HashSet<Id> {
        let mut context = Context::default();
        for axis in compute.axes.iter().chain(&compute.reduce_axes) {
            if let Some(domain) =
                axis.domain().filter(|domain| ![&domain.min, &domain.extent].into_iter().any(depends_on_data))
            {
                context.push_range(axis.var(), &domain.min, &domain.extent);
            }
        }
        let mut unproved = HashSet::new();
        let mut met = 0;
        // What is at least 0 at a place in the expression, by number.
        let mut known: Vec<Vec<Expr>> = vec![match compute.body.first().map(Expr::kind) {
            Some(Kind::Reduce(reduce, _)) if reduce.source.contains(x) => naturals(&reduce.condition),
            _ => Vec::new(),
        }];
        let mut pending = vec![(x, 0)];
        let mut seen = HashSet::new();
        while let Some((x, place)) = pending.pop() {
            if x.is_met_again() && !seen.insert((x.id(), place)) {
                continue;
            }
            met += 1;
            if let Kind::Read(tensor, indices) = x.kind() {
                let stays = |(d, extent): (usize, Expr)| {
                    let index = &indices[d];
                    [index.clone(), extent - index - 1].iter().all(|x| proves_natural(&context, x, &known[place]))
                };
                if met > MOST_NODES || !self.dimensions_to_test(tensor, indices).into_iter().all(stays) {
                    unproved.insert(x.id());
                }
            }
            let mut under = |x, natural: Vec<Expr>| match natural.is_empty() || met > MOST_NODES {
                true => pending.push((x, place)),
                false => {
                    pending.push((x, known.len()));
                    known.push(with(&known[place], natural));
                }
            };
            match x.kind() {
                Kind::Select(condition, a, b) => {
                    under(condition, Vec::new());
                    under(a, naturals(condition));
                    under(b, opposite(condition));
                }
                Kind::Binary(Binary::And, a, b) => {
                    under(a, Vec::new());
                    under(b, naturals(a));
                }
                _ => x.operands().into_iter().for_each(|x| under(x, Vec::new())),
            }
        }
        unproved
    }
}

fn depends_on_data(x: &Expr) -> bool {
    x.contains(|x| matches!(x.kind(), Kind::Read(..)))
}

fn with(known: &[Expr], more: Vec<Expr>) -> Vec<Expr> {
    let mut all = known.to_vec();
    all.extend(more);
    all.truncate(MOST_CONDITIONS);
    all
}

/// Whether `x >= 0`, as it is or because it is at least as large as something that is.
fn proves_natural(context: &Context, x: &Expr, known: &[Expr]) -> bool {
    context.proves_natural(x) || known.iter().any(|natural| context.proves_natural(&simplify(&(x - natural))))
}

/// What is at least 0 if a condition holds.
fn naturals(condition: &Expr) -> Vec<Expr> {
    let natural = |x: &Expr| match x.kind() {
        Kind::Binary(op, a, b) if a.dtype().is_integer() => match op {
            Binary::Lt => vec![b - a - 1],
            Binary::Le => vec![b - a],
            Binary::Gt => vec![a - b - 1],
            Binary::Ge => vec![a - b],
            Binary::Eq => vec![a - b, b - a],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    condition.conjuncts().into_iter().take(MOST_CONDITIONS).flat_map(natural).collect()
}

/// What is at least 0 if a condition doesn't hold.
fn opposite(condition: &Expr) -> Vec<Expr> {
    match condition.kind() {
        Kind::Binary(op, a, b) if a.dtype().is_integer() => match op {
            Binary::Lt => vec![a - b],
            Binary::Le => vec![a - b - 1],
            Binary::Gt => vec![b - a],
            Binary::Ge => vec![b - a - 1],
            _ => Vec::new(),
        },
        Kind::Binary(Binary::Or, a, b) => with(&opposite(a), opposite(b)),
        Kind::Not(a) => naturals(a),
        Kind::Likely(a) => opposite(a),
        _ => Vec::new(),
    }
}
