//! Kernels whose operands are read in other ways: groups, picked rows, patches, scaled blocks, weights of 8 bits.

use epilogue::evt::Tree;
use epilogue::gemm::sm90::{self, Cluster, Wgmma};
use epilogue::gemm::{
    Divided, Formats, Fp8, Instruction, KernelKey, Major, OperandLayout, Pair, PatchBoxes, PatchKind, PatchShape,
    Problem, ReadingShape, Sm80Key, SplitK, SplitKind, Tile,
};
use epilogue_runtime::Arch;

use super::{CLUSTERS, sm80, sm90_for};
use crate::epilogues::{bias_gelu_residual, everything, plain, row_reduction, swiglu};
use crate::gate::Subject;

/// Groups of rows and of K.
pub(super) fn covering_groups() -> Vec<Subject> {
    let of = |(i, (tree, divided)): (usize, (Tree, Divided))| {
        let tiles = Tile::all(Instruction::MmaBf16).iter();
        let tile = tiles.filter(|tile| tile.m == 128 && tile.n <= 128).nth(i)?;
        let (a, b) = if divided == Divided::Depth { (Major::Mn, Major::Mn) } else { (Major::K, Major::Mn) };
        let (a, b) = (OperandLayout::packed(a), OperandLayout::packed(b));
        let key = KernelKey::Sm80(Sm80Key {
            a,
            b,
            reading: ReadingShape::Groups(divided),
            ..sm80(Instruction::MmaBf16, *tile)
        });
        Some(Subject { tree, key, arch: Arch::SM_80 })
    };
    let rows = [bias_gelu_residual(), row_reduction()].map(|tree| (tree, Divided::Rows));
    let sm80 = rows.into_iter().chain([(plain(), Divided::Depth)]).enumerate().filter_map(of);
    let sm90 = covering_groups_sm90().into_iter().chain(covering_depth_sm90()).chain(covering_picked_sm90());
    sm80.chain(covering_picked()).chain(sm90).collect()
}

/// Picked rows: with the most accumulators, in groups with the most row numbers for each thread, and copied one by one.
fn covering_picked() -> Vec<Subject> {
    let tiles = Tile::all(Instruction::MmaBf16).iter();
    let of = |(i, tile): (usize, &Tile)| {
        let tree = [bias_gelu_residual(), row_reduction(), everything()][i % 3].clone();
        let copy_bytes = if i == 2 { 2 } else { 16 };
        let reading = if i == 1 { ReadingShape::PickedGroups } else { ReadingShape::Picked };
        let a = OperandLayout { major: Major::K, copy_bytes };
        let b = OperandLayout::packed(Major::K);
        let key = KernelKey::Sm80(Sm80Key { a, b, reading, ..sm80(Instruction::MmaBf16, *tile) });
        Subject { tree, key, arch: if i == 1 { Arch::SM_90A } else { Arch::SM_80 } }
    };
    let wanted = [(256, 128, 32), (128, 128, 64), (64, 64, 64)];
    let tile = |wanted| tiles.clone().find(|tile| (tile.m, tile.n, tile.k) == wanted);
    wanted.into_iter().filter_map(tile).enumerate().map(of).collect()
}

/// Rows that kernels for sm_90a pick: on large tiles of both schedules, with a cluster that shares B and with stream-K, in groups
/// of two accumulators, and as the instruction's columns.
fn covering_picked_sm90() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let kernels = [
        ((128, 256, Cooperative, 2), false, 1, SplitK::None, 32, swiglu()),
        ((256, 128, Cooperative, 2), false, 2, SplitK::None, 1, bias_gelu_residual()),
        ((128, 128, PingPong, 2), false, 1, SplitK::Stream, 1, plain()),
        ((64, 16, Cooperative, 1), true, 1, SplitK::None, 32, everything()),
    ];
    let of = |((rows, columns, schedule, consumers), swap_ab, m, split_k, groups, tree): (_, _, _, _, _, Tree)| {
        let request = sm90::Request {
            tile: Some(sm90::Tile { rows, columns, schedule, consumers }),
            swap_ab: Some(swap_ab),
            cluster: Some(Cluster { m, n: 1 }),
            split_k: Some(split_k),
            ..sm90::Request::default()
        };
        let problem = Problem::new(4096, 4096, 4096).of_picked_rows();
        let problem = if groups > 1 { problem.in_groups(groups) } else { problem };
        sm90_for(&tree, Wgmma::Bf16, (Major::K, Major::K), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}

/// Kernels for sm_80 of patches, on the largest tiles and on small ones, with every width of copies and every way of sharing K,
/// which `of_tf32` is for one with TF32; `of` makes the subjects of each.
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
        let key = |tile: &Tile| Sm80Key { a, split_k, reading, ..sm80(instruction, *tile) };
        tile.map(|tile| of(&key(tile), tree)).unwrap_or_default()
    })
}

/// Patches of images.
pub(super) fn covering_patches() -> Vec<Subject> {
    let of = |key: &Sm80Key, tree| {
        let key = KernelKey::Sm80(Sm80Key { b: OperandLayout::packed(Major::K), ..*key });
        vec![Subject { tree, key, arch: Arch::SM_80 }]
    };
    with_patches(SplitKind::None, of).chain(covering_patches_sm90()).collect()
}

/// Patches that tensor copies load, of one to three axes: on the largest tiles of both schedules and on small ones, with
/// clusters that share them and every way of sharing K.
fn covering_patches_sm90() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let (bf16, tf32) = (Wgmma::Bf16, Wgmma::Tf32);
    let cluster = |m, n| Cluster { m, n };
    let kernels = [
        (bf16, (128, 256, Cooperative, 2), 2, cluster(2, 1), SplitK::None, bias_gelu_residual()),
        (bf16, (256, 128, Cooperative, 2), 2, cluster(1, 2), SplitK::None, bias_gelu_residual()),
        (bf16, (128, 128, PingPong, 2), 2, cluster(1, 1), SplitK::None, row_reduction()),
        (bf16, (128, 192, PingPong, 2), 3, cluster(1, 1), SplitK::None, bias_gelu_residual()),
        (bf16, (64, 64, Cooperative, 1), 3, cluster(1, 2), SplitK::Parallel(2), everything()),
        (bf16, (128, 128, Cooperative, 2), 1, cluster(1, 2), SplitK::Stream, row_reduction()),
        (tf32, (128, 64, Cooperative, 2), 1, cluster(1, 1), SplitK::Serial(2), plain()),
    ];
    let of = |(i, (instruction, (rows, columns, schedule, consumers), axes, cluster, split_k, tree))| {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let boxes = PatchBoxes { axes, taps: 9, channels: 256 };
        let problem = Problem::new(65536, 4096, 9 * 256).of_patches(65536 * 256).in_boxes(boxes);
        let b = if i % 3 == 1 { Major::Mn } else { Major::K };
        sm90_for(&tree, instruction, (Major::K, b), problem, request)
    };
    kernels.into_iter().enumerate().filter_map(of).collect()
}

/// FP8 with scales of blocks: on the tiles with the most accumulators of both families, of which a second set is summed, with
/// narrow copies, every way of sharing K, groups, and two accumulators; and, on sm_90a, with rows that are N.
pub(super) fn covering_scaled() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
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
            let key = Sm80Key { a, b, split_k, accumulators, formats: Formats::SCALED, ..sm80(instruction, *tile) };
            let tree =
                if accumulators == 2 { swiglu() } else { [bias_gelu_residual(), row_reduction()][i % 2].clone() };
            Subject { tree, key: KernelKey::Sm80(key), arch: if i == 1 { Arch::SM_90A } else { Arch::SM_80 } }
        }));
    }
    let product = Problem::new(4096, 4096, 4096).of_scaled_operands();
    for (i, (rows, columns, schedule, consumers, swap_ab, split_k)) in [
        (128, 128, Cooperative, 2, false, SplitK::None),
        (64, 128, PingPong, 2, false, SplitK::None),
        (256, 64, Cooperative, 2, false, SplitK::Serial(2)),
        (128, 64, PingPong, 2, false, SplitK::Stream),
        (64, 64, PingPong, 2, true, SplitK::Parallel(2)),
        (64, 16, Cooperative, 1, true, SplitK::Stream),
    ]
    .into_iter()
    .enumerate()
    {
        let cluster = Some(if i % 2 == 0 { Cluster { m: 2, n: 1 } } else { Cluster::NONE });
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, swap_ab: Some(swap_ab), cluster, ..sm90::Request::default() };
        let split = sm90::Request { split_k: Some(split_k), ..request };
        let (instruction, along_k) = (Wgmma::Fp8(pair), (Major::K, Major::K));
        let trees = [bias_gelu_residual(), row_reduction(), plain(), everything()];
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        set.extend(lighter.into_iter().find_map(|tree| sm90_for(tree, instruction, along_k, product, split)));
        if i < 2 {
            set.extend(sm90_for(&swiglu(), instruction, along_k, product, request));
            set.extend(sm90_for(&row_reduction(), instruction, along_k, product.in_groups(32), request));
        }
    }
    set
}

/// Weights of 8 bits on sm_90a, each type as each of 16 bits: on the tiles with the most accumulators and with the most rows of
/// a warpgroup, which are converted, of both schedules; with clusters, activations that are contiguous along M, every way of
/// sharing K, groups, and several accumulators.
pub(super) fn covering_mixed() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let instructions: Vec<_> = Wgmma::ALL.into_iter().filter(|instruction| instruction.converts_b()).collect();
    let trees = [bias_gelu_residual(), row_reduction(), plain(), everything()];
    let mut set = Vec::new();
    for (i, (rows, columns, schedule, consumers, split_k)) in [
        (128, 256, Cooperative, 2, SplitK::None),
        (256, 128, Cooperative, 2, SplitK::None),
        (128, 128, PingPong, 2, SplitK::None),
        (128, 96, PingPong, 2, SplitK::Parallel(2)),
        (64, 256, PingPong, 2, SplitK::Serial(2)),
        (192, 192, Cooperative, 3, SplitK::None),
        (64, 64, Cooperative, 1, SplitK::Stream),
        (256, 96, Cooperative, 2, SplitK::Stream),
        (128, 16, Cooperative, 2, SplitK::Parallel(2)),
        (128, 64, PingPong, 2, SplitK::Stream),
        (64, 8, Cooperative, 1, SplitK::None),
        (128, 128, Cooperative, 2, SplitK::Serial(2)),
    ]
    .into_iter()
    .enumerate()
    {
        let cluster =
            if i % 2 == 0 || columns < 64 { Cluster::NONE } else { [Cluster { m: 1, n: 2 }, CLUSTERS[1]][i / 2 % 2] };
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let a = if i % 4 == 2 { Major::Mn } else { Major::K };
        let product = Problem::new(4096, 4096, 4096);
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        let of = |tree| sm90_for(tree, instructions[i % instructions.len()], (a, Major::K), product, request);
        set.extend(lighter.into_iter().find_map(of));
    }
    for (i, (rows, columns, consumers, groups)) in
        [(256, 32, 2, 1), (128, 64, 1, 1), (256, 32, 1, 1), (64, 32, 1, 32), (128, 64, 2, 32)].into_iter().enumerate()
    {
        let tile = Some(sm90::Tile { rows, columns, schedule: Cooperative, consumers });
        let request = sm90::Request { tile, cluster: Some(Cluster::NONE), ..Default::default() };
        let product = Problem::new(4096, 4096, 4096);
        let (tree, product) =
            if groups == 1 { (swiglu(), product) } else { (trees[i % 4].clone(), product.in_groups(groups)) };
        set.extend(sm90_for(&tree, instructions[(2 * i + 1) % 8], (Major::K, Major::K), product, request));
    }
    set
}

/// Transposed patches that tensor copies load, of one to three axes: with the most boxes of them in a tile, on tiles of both
/// schedules, with clusters that share them and every way of sharing K.
pub(crate) fn covering_transposed_patches_sm90() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let kernels = [
        ((256, 128, Cooperative, 2), 3, Cluster::NONE, SplitK::None, bias_gelu_residual()),
        ((128, 256, Cooperative, 2), 2, Cluster { m: 2, n: 1 }, SplitK::Serial(2), plain()),
        ((128, 128, PingPong, 2), 2, Cluster { m: 1, n: 2 }, SplitK::Stream, row_reduction()),
        ((64, 128, Cooperative, 1), 1, Cluster::NONE, SplitK::Parallel(2), everything()),
    ];
    let of = |((rows, columns, schedule, consumers), axes, cluster, split_k, tree): (_, _, _, _, Tree)| {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let boxes = PatchBoxes { axes, taps: 9, channels: 256 };
        let problem = Problem::new(9 * 256, 4096, 65536).of_patches(65536 * 256).in_boxes(boxes);
        sm90_for(&tree, Wgmma::Bf16, (Major::Mn, Major::Mn), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}

/// Gradients of convolutions: patches with zeros between their elements, and patches as columns.
pub(super) fn covering_gradients() -> Vec<Subject> {
    let of = |key: &Sm80Key, tree: Tree| {
        let of_major = |major| {
            let (a, b) = (OperandLayout { major, ..key.a }, OperandLayout::packed(Major::Mn));
            let kind = if major == Major::K { PatchKind::Dilated } else { PatchKind::Transposed };
            let reading = ReadingShape::Patches(PatchShape { kind, axes: 3 });
            let key = KernelKey::Sm80(Sm80Key { a, b, reading, ..*key });
            Subject { tree: tree.clone(), key, arch: Arch::SM_80 }
        };
        [Major::K, Major::Mn].map(of_major).to_vec()
    };
    with_patches(SplitKind::Stream, of).chain(covering_transposed_patches_sm90()).collect()
}

/// Groups of rows on the largest tiles of both schedules and on small ones, swapped too, with and without clusters.
fn covering_groups_sm90() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let mut set = Vec::new();
    for (i, (rows, columns, schedule, consumers, swap_ab)) in [
        (128, 256, Cooperative, 2, false),
        (256, 128, Cooperative, 2, false),
        (128, 192, PingPong, 2, false),
        (128, 128, PingPong, 2, false),
        (64, 256, Cooperative, 1, false),
        (64, 16, Cooperative, 1, true),
        (128, 64, Cooperative, 2, true),
    ]
    .into_iter()
    .enumerate()
    {
        let cluster = Some(if i % 2 == 0 { Cluster { m: 2, n: 1 } } else { Cluster::NONE });
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, swap_ab: Some(swap_ab), cluster, ..sm90::Request::default() };
        let trees = [bias_gelu_residual(), row_reduction(), plain(), everything()];
        let problem = Problem::new(4096, 4096, 4096).in_groups(32);
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        set.extend(
            lighter.into_iter().find_map(|tree| sm90_for(tree, Wgmma::Bf16, (Major::K, Major::K), problem, request)),
        );
        // Two accumulators.
        if i < 2 || i == 3 {
            set.extend(sm90_for(&swiglu(), Wgmma::Bf16, (Major::K, Major::K), problem, request));
        }
    }
    set
}

/// Groups of K on the largest tiles of both schedules and on small ones, swapped too, with and without clusters.
pub(crate) fn covering_depth_sm90() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let kernels = [
        (128, 256, Cooperative, 2, false, Cluster { m: 2, n: 1 }, bias_gelu_residual()),
        (256, 192, Cooperative, 2, false, Cluster::NONE, plain()),
        (128, 192, PingPong, 2, false, Cluster::NONE, plain()),
        (128, 128, PingPong, 2, false, Cluster { m: 2, n: 1 }, row_reduction()),
        (128, 64, Cooperative, 2, true, Cluster::NONE, everything()),
        (128, 256, Cooperative, 2, false, Cluster { m: 2, n: 1 }, swiglu()),
    ];
    let of = |(rows, columns, schedule, consumers, swap_ab, cluster, tree)| {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers });
        let request = sm90::Request { tile, swap_ab: Some(swap_ab), cluster: Some(cluster), ..Default::default() };
        let problem = Problem::new(4096, 4096, 2048).in_depth_groups(32);
        sm90_for(&tree, Wgmma::Bf16, (Major::Mn, Major::Mn), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}
