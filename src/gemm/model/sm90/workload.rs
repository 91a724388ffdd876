//! What a kernel for sm_90a is chosen for.

use crate::evt::ValidTree;
use crate::gemm::kernel::sm90::Wgmma;
use crate::gemm::problem::{OperandLayout, Problem};

/// What a kernel is chosen for.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// Extents.
    pub problem: Problem,
    /// The instruction that multiplies.
    pub instruction: Wgmma,
    /// The layout of A.
    pub a: OperandLayout,
    /// The layout of B.
    pub b: OperandLayout,
    /// Whether FP8 products are summed in the tensor cores over all of K.
    pub fast_fp8: bool,
    /// The epilogue.
    pub tree: &'a ValidTree,
}
