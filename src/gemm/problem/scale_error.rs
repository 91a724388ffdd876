//! Why a product cannot have block scales.

use crate::ElementType;

/// Why a product has no scales of blocks. Nothing has been written when a run returns one.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// One operand alone has scales.
    #[error(
        "{with} has block scales, and {without} has none: give both, as `scaled(&a, &a_scales)` and `scaled(&b, &b_scales)`; a \
         scale for each row or column alone is a vector of the epilogue"
    )]
    One {
        /// `A` or `B`.
        with: &'static str,
        /// The other.
        without: &'static str,
    },
    /// Scales of another element type.
    #[error("the block scales of {operand} hold {given}; needed is f32")]
    Element {
        /// `A` or `B`.
        operand: &'static str,
        /// Their element type.
        given: ElementType,
    },
    /// Scales of another shape.
    #[error(
        "the block scales of {operand} have shape {given:?}; needed is {needed:?} for {operand} of shape {of:?}: one for each {}",
        if *operand == "A" { "row and 128 of K" } else { "128 of K and 128 columns" }
    )]
    Shape {
        /// `A` or `B`.
        operand: &'static str,
        /// Their shape.
        given: Vec<usize>,
        /// The shape that they must have.
        needed: Vec<usize>,
        /// The operand's.
        of: Vec<usize>,
    },
    /// Operands of other types.
    #[error(
        "block scales are for FP8, and A holds {a} and B {b}: give both f8e4m3 or f8e5m2; a scale for each row or column alone is \
         a vector of the epilogue"
    )]
    Operands {
        /// A's element type.
        a: ElementType,
        /// B's.
        b: ElementType,
    },
    /// An arithmetic that sums over all blocks.
    #[error("fast FP8 sums over all of K, and block scales need the sum of each 128: leave `.arithmetic(…)` out")]
    Arithmetic,
    /// A product that has no scales.
    #[error(
        "there are no block scales of a product with {what}: multiply without them, or give a matrix with its rows in order"
    )]
    With {
        /// The property that excludes block scales.
        what: &'static str,
    },
    /// A run of a plan for other operands.
    #[error(
        "the operands have {}, and this GEMM was planned for operands with {}: plan it for such operands",
        planned_for(*.given),
        planned_for(!*.given)
    )]
    Other {
        /// Whether the run's have scales.
        given: bool,
    },
}

epilogue_runtime::message::debug!(ScaleError);

const fn planned_for(scaled: bool) -> &'static str {
    if scaled { "block scales" } else { "no block scales" }
}
