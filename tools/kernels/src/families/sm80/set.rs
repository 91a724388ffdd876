//! Kernels of this family to check.

use epilogue::evt::Tree;
use epilogue::gemm::{
    Formats, Instruction, KernelKey, Major, OperandLayout, ReadingShape, Sm80Key, SplitKind, Tile, is_crowded,
};
use epilogue_runtime::Arch;

use super::operands;
use crate::epilogues::{
    bias_gelu_residual, causal, everything, plain, quantised_rows, rms_norm, row_reduction, softmax, swiglu,
};
use crate::gate::Subject;
use crate::set::LAYOUTS;

/// The copy widths that an operand of elements of this many bytes can have.
fn widths(size: usize) -> Vec<usize> {
    [16, 8, 4].into_iter().filter(|width| *width > size).chain([size]).collect()
}

/// A kernel for sm_80 and later, as the model chooses it for a light epilogue.
pub(super) fn key(instruction: Instruction, tile: Tile) -> Sm80Key {
    let accumulator = instruction.accumulator();
    Sm80Key {
        instruction,
        tile,
        split_k: SplitKind::None,
        a: OperandLayout::packed(Major::K),
        b: OperandLayout::packed(Major::Mn),
        vector: 16 / accumulator.size(),
        epilogue_passes: tile.epilogue_passes(accumulator, tile.stages * tile.stage_bytes(instruction)),
        accumulators: 1,
        reading: ReadingShape::Rows,
        formats: Formats::PLAIN,
        in_tile: false,
        fast_math: false,
    }
}

/// A kernel to check, compiled for the oldest architecture.
pub(super) const fn subject(tree: Tree, key: Sm80Key) -> Subject {
    Subject { tree, key: KernelKey::Sm80(key), arch: Arch::SM_80 }
}

/// Kernels that together have everything at least once.
pub(super) fn covering() -> Vec<Subject> {
    let mut set = every_instruction();
    set.extend(two_accumulators());
    set.extend(operands::groups());
    set.extend(operands::picked());
    set.extend(operands::patches());
    set.extend(in_tile());
    set.extend(operands::scaled());
    set.extend(native());
    set.extend(operands::gradients());
    set.extend(masked());
    set
}

/// Every instruction, tile, layout, copy width and split at least once.
fn every_instruction() -> Vec<Subject> {
    let mut set = Vec::new();
    let splits = [SplitKind::None, SplitKind::Serial, SplitKind::Parallel, SplitKind::Stream];
    // Instructions whose kernels have the same tiles share them.
    let halves = [Instruction::MmaF16, Instruction::MmaBf16];
    let words = [Instruction::MmaTf32, Instruction::MmaFastBf16];
    let is_mixed = |x: &Instruction| matches!(x, Instruction::MmaMixed(_));
    let mixed: Vec<_> = Instruction::ALL.into_iter().filter(is_mixed).collect();
    let (bytes, others): (Vec<_>, Vec<_>) = Instruction::ALL.into_iter().partition(|x| x.sizes() == (1, 1));
    let alone = others.iter().filter(|x| !halves.contains(x) && !words.contains(x) && !is_mixed(x));
    let alone = alone.map(std::slice::from_ref);
    for group in [&halves[..], &bytes, &words, &mixed].into_iter().chain(alone) {
        for (i, tile) in Tile::all(group[0]).iter().enumerate() {
            let tree = [row_reduction(), everything(), plain(), bias_gelu_residual()][i % 4].clone();
            let of = |instruction, (a, b)| Sm80Key {
                a: OperandLayout::packed(a),
                b: OperandLayout::packed(b),
                ..key(instruction, *tile)
            };
            // The largest tiles with deep k-tiles are only for operands that are contiguous along K, and not for
            // every instruction.
            let turn = (0..group.len()).map(|j| group[(i / 2 + j) % group.len()]);
            let keys = turn.flat_map(|instruction| [LAYOUTS[i % 4], (Major::K, Major::K)].map(|m| of(instruction, m)));
            set.extend(keys.into_iter().find(|key| !is_crowded(&KernelKey::Sm80(*key))).map(|key| (tree, key)));
        }
    }
    let unmixed = others.iter().filter(|x| !is_mixed(x));
    let layouts = unmixed.flat_map(|x| (0..4).map(move |i| (x, i))).chain(bytes.iter().chain(&mixed).zip(0..));
    for (&instruction, i) in layouts {
        let (of_a, of_b) = instruction.sizes();
        let (a_widths, b_widths) = (widths(of_a), widths(of_b));
        let (a, b) = LAYOUTS[i % 4];
        let tiles = Tile::all(instruction);
        let deeper = |tile: &Tile| tiles.iter().any(|t| (t.m, t.n) == (tile.m, tile.n) && t.k < tile.k);
        let plain: Vec<Tile> = tiles.iter().filter(|tile| !deeper(tile)).copied().collect();
        let of_plain = key(instruction, plain[5 - i % 3]);
        let a = OperandLayout { major: a, copy_bytes: a_widths[(i + 1) % a_widths.len()] };
        let b = OperandLayout { major: b, copy_bytes: b_widths[i / 2 % b_widths.len()] };
        let tree = [everything(), row_reduction()][i % 2].clone();
        set.push((tree, Sm80Key { a, b, split_k: splits[(i + 1) % 4], ..of_plain }));
    }
    // Code for sm_80 is also compiled for later GPUs.
    let arch = |i: usize| if i % 4 == 3 { Arch::SM_90A } else { Arch::SM_80 };
    set.into_iter().enumerate().map(|(i, (tree, key))| Subject { arch: arch(i), ..subject(tree, key) }).collect()
}

/// FP8 by instructions that only some GPUs have: every way of adding on tiles of three sizes, with pairs of types, layouts and
/// ways of sharing K in turn.
fn native() -> Vec<Subject> {
    let splits = [SplitKind::None, SplitKind::Serial, SplitKind::Parallel, SplitKind::Stream];
    let all: Vec<Instruction> = Instruction::native().collect();
    let mut set = Vec::new();
    for of_adder in all.chunks(4) {
        let tiles = Tile::all(of_adder[0]);
        for (i, tile) in [tiles[0], tiles[tiles.len() / 2], tiles[tiles.len() - 1]].iter().enumerate() {
            let tree = [bias_gelu_residual(), row_reduction(), plain(), everything()][i % 4].clone();
            let instruction = of_adder[i % of_adder.len()];
            let of = |(a, b), split_k| Sm80Key {
                a: OperandLayout::packed(a),
                b: OperandLayout::packed(b),
                split_k,
                ..key(instruction, *tile)
            };
            let along = (Major::K, Major::K);
            let keys =
                [of(LAYOUTS[i % 4], splits[i / 2 % 4]), of(along, splits[i / 2 % 4]), of(along, SplitKind::None)];
            let chosen = keys.into_iter().find(|key| !is_crowded(&KernelKey::Sm80(*key)));
            let arch = match instruction {
                Instruction::MmaNativeFp8(native) => native.arch(),
                _ => Arch::SM_80,
            };
            set.extend(chosen.map(|key| Subject { arch, ..subject(tree, key) }));
        }
    }
    set
}

/// Epilogues of several phases, all in the tile.
pub(super) fn in_tile() -> Vec<Subject> {
    let trees = [softmax(), rms_norm(), quantised_rows()];
    let of = |(tree, (m, n, k)): (Tree, (usize, usize, usize))| {
        let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n, tile.k) == (m, n, k))?;
        Some(subject(tree, Sm80Key { in_tile: true, ..key(Instruction::MmaBf16, *tile) }))
    };
    trees.into_iter().zip([(128, 256, 64), (128, 128, 32), (32, 128, 64)]).filter_map(of).collect()
}

/// Two accumulators, on tiles of every size.
fn two_accumulators() -> Vec<Subject> {
    let of = |(i, (m, n)): (usize, (usize, usize))| {
        let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n) == (m, n))?;
        let (a, b) = LAYOUTS[i];
        let (a, b) = (OperandLayout::packed(a), OperandLayout::packed(b));
        Some(subject(swiglu(), Sm80Key { a, b, accumulators: 2, ..key(Instruction::MmaBf16, *tile) }))
    };
    [(128, 256), (128, 128), (64, 64)].into_iter().enumerate().filter_map(of).collect()
}

/// A product whose positions leave tiles out.
fn masked() -> Option<Subject> {
    let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n, tile.k) == (128, 256, 64))?;
    Some(subject(causal(), Sm80Key { b: OperandLayout::packed(Major::K), ..key(Instruction::MmaBf16, *tile) }))
}

/// Every kernel that can be chosen for an epilogue, except for the number of splits. They are compiled for sm_80 or for sm_90a:
/// for which of the two is chance, but the same each time.
pub(super) fn all(tree: &Tree) -> Vec<Subject> {
    let (mut set, mut chance) = (Vec::new(), fastrand::Rng::with_seed(0));
    for instruction in Instruction::ALL {
        for tile in Tile::all(instruction) {
            for (a, b) in LAYOUTS {
                for a_bytes in widths(instruction.sizes().0) {
                    for b_bytes in widths(instruction.sizes().1) {
                        for split_k in [SplitKind::None, SplitKind::Serial, SplitKind::Parallel, SplitKind::Stream] {
                            let a = OperandLayout { major: a, copy_bytes: a_bytes };
                            let b = OperandLayout { major: b, copy_bytes: b_bytes };
                            let key = KernelKey::Sm80(Sm80Key { a, b, split_k, ..key(instruction, *tile) });
                            // Kernels for operands of two types differ from others only in one word.
                            let (one, two) = instruction.elements();
                            let known = one != two && (a_bytes, b_bytes) != (16, 16);
                            if !known && !is_crowded(&key) {
                                let arch = if chance.bool() { Arch::SM_80 } else { Arch::SM_90A };
                                set.push(Subject { tree: tree.clone(), key, arch });
                            }
                        }
                    }
                }
            }
        }
    }
    set
}
