//! The names of kernels, which profilers list.

use crate::evt::ValidTree;
use crate::evt::reference::Multiplication;
use crate::expr::identifier::sanitize;
use crate::gemm::kernel::KernelKey;

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
        Multiplication::Exact | Multiplication::FastFp8 if types.a == types.b => types.a.to_string(),
        Multiplication::Exact | Multiplication::FastFp8 => format!("{}_{}", types.a, types.b),
    };
    let (rows, columns) = key.tile();
    sanitize(&format!("{}_{operands}_{rows}x{columns}", tree.name()))
}

/// The symbol of a later phase's kernel: the epilogue's name, which phase, the type of A, as in `softmax_phase_1_bf16`.
pub(crate) fn later_symbol(tree: &ValidTree, phase: usize) -> String {
    sanitize(&format!("{}_phase_{phase}_{}", tree.name(), tree.types().a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType::{self, BF16, F8E4M3, F8E5M2, F32};
    use crate::evt::{BroadcastClass, TreeBuilder, Types};
    use crate::gemm::families::sm80::kernel::{Instruction, Sm80Key, Tile};
    use crate::gemm::kernel::SplitKind;
    use crate::gemm::problem::{Arithmetic, Divided, Major, OperandLayout};

    fn called(name: &'static str, a: ElementType, b: ElementType, arithmetic: Arithmetic) -> String {
        let mut builder = TreeBuilder::new(name, "names.rs");
        let accum = builder.accum("accum");
        builder.output("d", accum, BroadcastClass::Tensor, None);
        let tree = builder.finish().validate(Types::new(a, b)).expect("a valid tree");
        let instruction = Instruction::of(a, b, arithmetic).expect("an instruction");
        let tiles = Tile::all(instruction);
        let tile = *tiles.iter().find(|tile| tile.m < 256).expect("a smaller tile");
        let key = Sm80Key {
            instruction,
            tile,
            split_k: SplitKind::None,
            a: OperandLayout::packed(Major::K),
            b: OperandLayout::packed(Major::K),
            vector: 1,
            epilogue_passes: 1,
            accumulators: 1,
            divided: Divided::Nothing,
            patches: false,
            input_dilated: false,
            picked: false,
            in_tile: false,
            scaled: false,
            fast_math: false,
        };
        symbol(&tree, &KernelKey::Sm80(key))
    }

    #[test]
    fn kernels_are_called_after_their_epilogue() {
        assert_eq!(called("bias_gelu", BF16, BF16, Arithmetic::Exact), "bias_gelu_bf16_128x256");
        assert_eq!(called("scaled", F8E4M3, F8E5M2, Arithmetic::Exact), "scaled_f8e4m3_f8e5m2_128x256");
        assert_eq!(called("plain", F32, F32, Arithmetic::Tf32), "plain_tf32_128x256");
        assert_eq!(called("plain", F32, F32, Arithmetic::FastBf16), "plain_fast_bf16_128x256");
        assert_eq!(called("plain", F32, F32, Arithmetic::Exact), "plain_f32_128x128");
    }

    /// Names that C++ does not allow, and names that C++ and CUDA define.
    #[test]
    fn every_name_gives_an_identifier() {
        for (name, expected) in [
            ("r#struct", "struct_bf16_128x256"),
            ("größe", "gruf6udfe_bf16_128x256"),
            ("__global__", "global_bf16_128x256"),
            ("2d", "v2d_bf16_128x256"),
            ("tanh", "tanh_bf16_128x256"),
            ("NULL", "NULL_bf16_128x256"),
        ] {
            assert_eq!(called(name, BF16, BF16, Arithmetic::Exact), expected);
        }
    }
}
