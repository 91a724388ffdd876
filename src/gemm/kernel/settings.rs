//! The settings of a plan beside its product and epilogue.

use crate::gemm::problem::{Arithmetic, OperandLayout};

/// The settings of a plan beside its product and epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The layouts of A and B in memory.
    pub(crate) layouts: (OperandLayout, OperandLayout),
    /// How the product is computed.
    pub(crate) arithmetic: Arithmetic,
    /// Settings of all its kernels.
    pub(crate) switches: Switches,
}

/// Settings of a plan that hold for all its kernels, and that the model does not choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// Whether approximate instructions are allowed for outputs of any type.
    pub(crate) fast_math: bool,
    /// Whether a kernel may begin before the one before it has ended.
    pub(crate) dependent_launch: bool,
}
