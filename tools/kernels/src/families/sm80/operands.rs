//! Kernels whose operands are read in other ways: groups, picked rows, patches, scaled blocks.

use epilogue::evt::Tree;
use epilogue::gemm::{
    Divided, Formats, Fp8, Instruction, Major, OperandLayout, Pair, PatchKind, PatchShape, ReadingShape, Sm80Key,
    SplitKind, Tile,
};
use epilogue_runtime::Arch;

use super::set::{key, subject};
use crate::epilogues::{bias_gelu_residual, everything, plain, row_reduction, swiglu};
use crate::gate::Subject;

/// Groups of rows and of K.
pub(super) fn groups() -> Vec<Subject> {
    let of = |(i, (tree, divided)): (usize, (Tree, Divided))| {
        let tiles = Tile::all(Instruction::MmaBf16).iter();
        let tile = tiles.filter(|tile| tile.m == 128 && tile.n <= 128).nth(i)?;
        let (a, b) = if divided == Divided::Depth { (Major::Mn, Major::Mn) } else { (Major::K, Major::Mn) };
        let (a, b) = (OperandLayout::packed(a), OperandLayout::packed(b));
        let reading = ReadingShape::Groups(divided);
        Some(subject(tree, Sm80Key { a, b, reading, ..key(Instruction::MmaBf16, *tile) }))
    };
    let rows = [bias_gelu_residual(), row_reduction()].map(|tree| (tree, Divided::Rows));
    rows.into_iter().chain([(plain(), Divided::Depth)]).enumerate().filter_map(of).collect()
}

/// Picked rows: with the most accumulators, in groups with the most row numbers for each thread, and copied one by one.
pub(super) fn picked() -> Vec<Subject> {
    let tiles = Tile::all(Instruction::MmaBf16).iter();
    let of = |(i, tile): (usize, &Tile)| {
        let tree = [bias_gelu_residual(), row_reduction(), everything()][i % 3].clone();
        let copy_bytes = if i == 2 { 2 } else { 16 };
        let reading = if i == 1 { ReadingShape::PickedGroups } else { ReadingShape::Picked };
        let a = OperandLayout { major: Major::K, copy_bytes };
        let b = OperandLayout::packed(Major::K);
        let of_tile = subject(tree, Sm80Key { a, b, reading, ..key(Instruction::MmaBf16, *tile) });
        Subject { arch: if i == 1 { Arch::SM_90A } else { Arch::SM_80 }, ..of_tile }
    };
    let wanted = [(256, 128, 32), (128, 128, 64), (64, 64, 64)];
    let tile = |wanted| tiles.clone().find(|tile| (tile.m, tile.n, tile.k) == wanted);
    wanted.into_iter().filter_map(tile).enumerate().map(of).collect()
}

/// Kernels of patches, on the largest tiles and on small ones, with every width of copies and every way of sharing K. `of` makes
/// the subjects of each; `of_tf32` is the way for one with TF32.
fn with_patches(of_tf32: SplitKind, of: impl Fn(&Sm80Key, Tree) -> Vec<Subject>) -> impl Iterator<Item = Subject> {
    let int8 = Instruction::ALL.into_iter().find(|instruction| matches!(instruction, Instruction::MmaInt8(_)));
    let (bf16, f16) = (Instruction::MmaBf16, Instruction::MmaF16);
    let kernels = [
        (bf16, (256, 128), 16, SplitKind::None, bias_gelu_residual()),
        (bf16, (128, 256), 16, SplitKind::None, bias_gelu_residual()),
        (f16, (128, 128), 16, SplitKind::Stream, row_reduction()),
        (bf16, (128, 64), 16, SplitKind::Serial, everything()),
        (bf16, (64, 64), 16, SplitKind::Parallel, row_reduction()),
        (bf16, (128, 64), 8, SplitKind::None, bias_gelu_residual()),
        (bf16, (64, 64), 4, SplitKind::None, bias_gelu_residual()),
        (bf16, (64, 64), 2, SplitKind::None, bias_gelu_residual()),
        (Instruction::MmaTf32, (128, 128), 16, of_tf32, bias_gelu_residual()),
        (Instruction::MmaTf32, (64, 64), 4, SplitKind::None, plain()),
        (Instruction::FmaF32, (64, 64), 4, SplitKind::None, plain()),
        (Instruction::MmaF64, (64, 64), 16, SplitKind::None, plain()),
    ];
    let bytes = int8.map(|int8| (int8, (128, 128), 16, SplitKind::None, plain()));
    kernels.into_iter().chain(bytes).flat_map(move |(instruction, (m, n), copy_bytes, split_k, tree)| {
        let tile = Tile::all(instruction).iter().find(|tile| (tile.m, tile.n) == (m, n));
        let a = OperandLayout { major: Major::K, copy_bytes };
        let reading = ReadingShape::Patches(PatchShape { kind: PatchKind::Row, axes: 3 });
        let read = |tile: &Tile| Sm80Key { a, split_k, reading, ..key(instruction, *tile) };
        tile.map(|tile| of(&read(tile), tree)).unwrap_or_default()
    })
}

/// Patches of images.
pub(super) fn patches() -> Vec<Subject> {
    let of = |key: &Sm80Key, tree| vec![subject(tree, Sm80Key { b: OperandLayout::packed(Major::K), ..*key })];
    with_patches(SplitKind::None, of).collect()
}

/// Gradients of convolutions: patches with zeros between their elements, and patches as columns.
pub(super) fn gradients() -> Vec<Subject> {
    let of = |key: &Sm80Key, tree: Tree| {
        let of_major = |major| {
            let (a, b) = (OperandLayout { major, ..key.a }, OperandLayout::packed(Major::Mn));
            let kind = if major == Major::K { PatchKind::Dilated } else { PatchKind::Transposed };
            let reading = ReadingShape::Patches(PatchShape { kind, axes: 3 });
            subject(tree.clone(), Sm80Key { a, b, reading, ..*key })
        };
        [Major::K, Major::Mn].map(of_major).to_vec()
    };
    with_patches(SplitKind::Stream, of).collect()
}

/// FP8 with scales of blocks: on the tiles with the most accumulators, with narrow copies, every way of sharing K, and two
/// accumulators. The sums of a block are added to a second set.
pub(super) fn scaled() -> Vec<Subject> {
    let pair = Pair { a: Fp8::E4M3, b: Fp8::E4M3 };
    let (instruction, mut set) = (Instruction::MmaFp8(pair), Vec::new());
    for (i, ((m, n), layouts, copy_bytes, split_k, accumulators)) in [
        ((128, 64), (Major::K, Major::K), 16, SplitKind::None, 1),
        ((64, 128), (Major::K, Major::Mn), 16, SplitKind::Parallel, 1),
        ((64, 64), (Major::Mn, Major::K), 16, SplitKind::Stream, 1),
        ((64, 64), (Major::K, Major::K), 1, SplitKind::Serial, 1),
        ((128, 64), (Major::K, Major::K), 16, SplitKind::None, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let is_it = |tile: &&Tile| (tile.m, tile.n) == (m, n) && tile.takes_scales(accumulators);
        set.extend(Tile::all(instruction).iter().find(is_it).map(|tile| {
            let [a, b] = [layouts.0, layouts.1].map(|major| OperandLayout { major, copy_bytes });
            let of_tile = Sm80Key { a, b, split_k, accumulators, formats: Formats::SCALED, ..key(instruction, *tile) };
            let tree =
                if accumulators == 2 { swiglu() } else { [bias_gelu_residual(), row_reduction()][i % 2].clone() };
            Subject { arch: if i == 1 { Arch::SM_90A } else { Arch::SM_80 }, ..subject(tree, of_tile) }
        }));
    }
    set
}
