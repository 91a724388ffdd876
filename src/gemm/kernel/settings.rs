//! What a plan is told beside its product and epilogue.

use crate::gemm::problem::{Arithmetic, OperandLayout};

/// What a plan was told beside its product and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How A and B lie in memory.
    pub(crate) layouts: (OperandLayout, OperandLayout),
    /// How the product is computed.
    pub(crate) arithmetic: Arithmetic,
    /// What it wants of every kernel.
    pub(crate) switches: Switches,
}

/// What a plan wants of every kernel, and the model has no say in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Whether approximate instructions may be used whatever the outputs' types.
    pub(crate) fast_math: bool,
    /// Whether a kernel may begin before the one before it has ended.
    pub(crate) dependent_launch: bool,
}
