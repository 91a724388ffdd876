//! Loading of operands by TMA: what an instruction takes, and how a kernel loads.

use super::shape::ReadingShape;
use crate::gemm::problem::{Major, OperandLayout};

/// The operands of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multiplied {
    /// Bytes of an element of A, and of one of B.
    pub(crate) sizes: (usize, usize),
    /// Whether the instruction takes A along M, and B along N.
    pub(crate) mn_major: (bool, bool),
}

/// How a kernel loads its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loading {
    /// The operands of its instruction.
    pub(crate) multiplied: Multiplied,
    /// Which index of A and of B is contiguous.
    pub(crate) majors: (Major, Major),
    /// How it reads A; patches in whole boxes.
    pub(crate) reading: ReadingShape,
}

/// Whether tensor copies and the instruction take this operand; `mn_major`: whether the instruction takes it along M or N.
#[must_use]
pub(crate) const fn takes(mn_major: bool, operand: OperandLayout) -> bool {
    operand.copy_bytes == 16 && (matches!(operand.major, Major::K) || mn_major)
}

/// Whether a kernel for operands of this major loads the operand without a copy before.
#[must_use]
pub(crate) fn loads(mn_major: bool, operand: OperandLayout, major: Major) -> bool {
    takes(mn_major, operand) && operand.major == major
}
