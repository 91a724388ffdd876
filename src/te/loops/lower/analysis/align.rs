//! Strides of memory with padded rows.

use crate::te::arith::simplify;
use crate::te::expr::expression::Expr;
use crate::te::loops::schedule::properties::Alignment;

/// Row-major strides of `shape`. Each aligned stride is the smallest that is `offset` more than a multiple of its
/// factor.
pub(crate) fn aligned_strides(shape: &[Expr], alignments: &[Alignment]) -> Vec<Expr> {
    let mut strides = vec![Expr::int(1); shape.len()];
    let mut dense = Expr::int(1);
    for d in (0..shape.len()).rev() {
        if let Some(Alignment { factor, offset, .. }) = alignments.iter().find(|a| a.dimension == d) {
            let beyond = (factor + offset - dense.clone().floor_mod(*factor)).floor_mod(*factor);
            dense = simplify(&(dense + beyond));
        }
        strides[d] = dense.clone();
        dense = simplify(&(dense * &shape[d]));
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Congruent, not below the dense stride, and the least such.
        #[test]
        fn strides_are_the_least_that_are_congruent(
            shape in prop::collection::vec(1i64..9, 1..5),
            factors in prop::collection::vec((0usize..4, 1i64..17, 0i64..17), 0..4),
        ) {
            let mut alignments: Vec<Alignment> = Vec::new();
            for (dimension, factor, offset) in factors {
                if dimension < shape.len() && !alignments.iter().any(|a| a.dimension == dimension) {
                    alignments.push(Alignment { dimension, factor, offset: offset % factor });
                }
            }
            let extents: Vec<Expr> = shape.iter().map(|n| Expr::int(*n)).collect();
            let strides = aligned_strides(&extents, &alignments);
            let mut dense = 1;
            for d in (0..shape.len()).rev() {
                let stride = strides[d].as_int().unwrap();
                let aligned = alignments.iter().find(|a| a.dimension == d);
                let least = (dense..).find(|s| aligned.is_none_or(|a| s % a.factor == a.offset)).unwrap();
                prop_assert_eq!(stride, least);
                dense = stride * shape[d];
            }
        }
    }
}
