//! The names of kernels, which profilers list.

use crate::evt::ValidTree;
use crate::evt::reference::Multiplication;
use crate::expr::identifier::sanitize;
use crate::gemm::families::KernelKey;

/// A kernel's symbol: the epilogue's name, the operands' type (both, if they differ), and the tile's rows and columns,
/// as in `bias_gelu_bf16_128x256`.
///
/// The suffix keeps the name different from all names of CUDA and C++. Kernels that differ in anything else have the
/// same symbol: each is alone in its module.
pub(crate) fn symbol(tree: &ValidTree, key: &KernelKey) -> String {
    let types = tree.types();
    let operands = match key.multiplication() {
        Multiplication::Tf32 => "tf32".to_owned(),
        Multiplication::FastBf16 => "fast_bf16".to_owned(),
        Multiplication::Exact | Multiplication::FastFp8 | Multiplication::NativeFp8(_) => match types.a == types.b {
            true => types.a.to_string(),
            false => format!("{}_{}", types.a, types.b),
        },
    };
    let (rows, columns) = key.tile();
    sanitize(&format!("{}_{operands}_{rows}x{columns}", tree.name()))
}

/// The symbol of a later phase's kernel: the epilogue's name, which phase, the type of A, as in `softmax_phase_1_bf16`.
pub(crate) fn later_symbol(tree: &ValidTree, phase: usize) -> String {
    sanitize(&format!("{}_phase_{phase}_{}", tree.name(), tree.types().a))
}
