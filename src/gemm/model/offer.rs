//! A product that is offered to the families: the question of tools that ask the model without a plan.

use crate::evt::ValidTree;
use crate::gemm::problem::{Arithmetic, OperandLayout, Problem};

/// A product with one epilogue, as every family prices it. Later phases, if there are any, are not computed in a tile.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Extents.
    pub problem: Problem,
    /// The layouts of A and B.
    pub layouts: (OperandLayout, OperandLayout),
    /// How exactly it multiplies.
    pub arithmetic: Arithmetic,
    /// The epilogue, with the types of the operands.
    pub tree: &'a ValidTree,
}
