//! Kernels whose operands are read in other ways: groups, picked rows, patches, scaled blocks, weights of 8 bits.

use epilogue::evt::Tree;
use epilogue::gemm::sm90::{Cluster, Request, Schedule, TensorCores, Tile, Wgmma};
use epilogue::gemm::{Fp8, Major, Pair, PatchBoxes, Problem, SplitK};

use super::set::{CLUSTERS, of_product};
use crate::epilogues::{bias_gelu_residual, everything, plain, row_reduction, swiglu};
use crate::gate::Subject;

/// Groups of rows on the largest tiles of both schedules and on small ones, swapped too, with and without clusters.
pub(super) fn groups(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
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
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, swap_ab: Some(swap_ab), cluster, ..Request::default() };
        let trees = [bias_gelu_residual(), row_reduction(), plain(), everything()];
        let problem = Problem::new(4096, 4096, 4096).in_groups(32);
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        set.extend(
            lighter
                .into_iter()
                .find_map(|tree| of_product(cores, tree, Wgmma::Bf16, (Major::K, Major::K), problem, request)),
        );
        // Two accumulators.
        if i < 2 || i == 3 {
            set.extend(of_product(cores, &swiglu(), Wgmma::Bf16, (Major::K, Major::K), problem, request));
        }
    }
    set
}

/// Groups of K on the largest tiles of both schedules and on small ones, swapped too, with and without clusters.
pub(super) fn depth(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let kernels = [
        (128, 256, Cooperative, 2, false, Cluster { m: 2, n: 1 }, bias_gelu_residual()),
        (256, 192, Cooperative, 2, false, Cluster::NONE, plain()),
        (128, 192, PingPong, 2, false, Cluster::NONE, plain()),
        (128, 128, PingPong, 2, false, Cluster { m: 2, n: 1 }, row_reduction()),
        (128, 64, Cooperative, 2, true, Cluster::NONE, everything()),
        (128, 256, Cooperative, 2, false, Cluster { m: 2, n: 1 }, swiglu()),
    ];
    let of = |(rows, columns, schedule, consumers, swap_ab, cluster, tree)| {
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, swap_ab: Some(swap_ab), cluster: Some(cluster), ..Default::default() };
        let problem = Problem::new(4096, 4096, 2048).in_depth_groups(32);
        of_product(cores, &tree, Wgmma::Bf16, (Major::Mn, Major::Mn), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}

/// Rows that kernels for sm_90a pick, on large tiles of both schedules. There are clusters that share B, stream-K, groups of
/// two accumulators, and picked rows as the instruction's columns.
pub(super) fn picked(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let kernels = [
        ((128, 256, Cooperative, 2), false, 1, SplitK::None, 32, swiglu()),
        ((256, 128, Cooperative, 2), false, 2, SplitK::None, 1, bias_gelu_residual()),
        ((128, 128, PingPong, 2), false, 1, SplitK::Stream, 1, plain()),
        ((64, 16, Cooperative, 1), true, 1, SplitK::None, 32, everything()),
    ];
    let of = |((rows, columns, schedule, consumers), swap_ab, m, split_k, groups, tree): (_, _, _, _, _, Tree)| {
        let request = Request {
            tile: Some(Tile { rows, columns, schedule, consumers }),
            swap_ab: Some(swap_ab),
            cluster: Some(Cluster { m, n: 1 }),
            split_k: Some(split_k),
            ..Request::default()
        };
        let problem = Problem::new(4096, 4096, 4096).of_picked_rows();
        let problem = if groups > 1 { problem.in_groups(groups) } else { problem };
        of_product(cores, &tree, Wgmma::Bf16, (Major::K, Major::K), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}

/// Patches that tensor copies load, of one to three axes: on the largest tiles of both schedules and on small ones, with
/// clusters that share them and every way of sharing K.
pub(super) fn patches(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
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
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let boxes = PatchBoxes { axes, taps: 9, channels: 256 };
        let problem = Problem::new(65536, 4096, 9 * 256).of_patches(65536 * 256).in_boxes(boxes);
        let b = if i % 3 == 1 { Major::Mn } else { Major::K };
        of_product(cores, &tree, instruction, (Major::K, b), problem, request)
    };
    kernels.into_iter().enumerate().filter_map(of).collect()
}

/// Transposed patches that tensor copies load, of one to three axes. Tiles have the most boxes of them, in both schedules,
/// with clusters that share them and every way of sharing K.
pub(super) fn transposed_patches(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let kernels = [
        ((256, 128, Cooperative, 2), 3, Cluster::NONE, SplitK::None, bias_gelu_residual()),
        ((128, 256, Cooperative, 2), 2, Cluster { m: 2, n: 1 }, SplitK::Serial(2), plain()),
        ((128, 128, PingPong, 2), 2, Cluster { m: 1, n: 2 }, SplitK::Stream, row_reduction()),
        ((64, 128, Cooperative, 1), 1, Cluster::NONE, SplitK::Parallel(2), everything()),
    ];
    let of = |((rows, columns, schedule, consumers), axes, cluster, split_k, tree): (_, _, _, _, Tree)| {
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let boxes = PatchBoxes { axes, taps: 9, channels: 256 };
        let problem = Problem::new(9 * 256, 4096, 65536).of_patches(65536 * 256).in_boxes(boxes);
        of_product(cores, &tree, Wgmma::Bf16, (Major::Mn, Major::Mn), problem, request)
    };
    kernels.into_iter().filter_map(of).collect()
}

/// FP8 with scales of blocks, whose sums are added to a second set: on the tiles with the most accumulators, with every way of
/// sharing K, groups, two accumulators, and rows that are N.
pub(super) fn scaled(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let pair = Pair { a: Fp8::E4M3, b: Fp8::E4M3 };
    let mut set = Vec::new();
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
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, swap_ab: Some(swap_ab), cluster, ..Request::default() };
        let split = Request { split_k: Some(split_k), ..request };
        let (instruction, along_k) = (Wgmma::Fp8(pair), (Major::K, Major::K));
        let trees = [bias_gelu_residual(), row_reduction(), plain(), everything()];
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        set.extend(lighter.into_iter().find_map(|tree| of_product(cores, tree, instruction, along_k, product, split)));
        if i < 2 {
            set.extend(of_product(cores, &swiglu(), instruction, along_k, product, request));
            set.extend(of_product(cores, &row_reduction(), instruction, along_k, product.in_groups(32), request));
        }
    }
    set
}

/// Weights of 8 bits on sm_90a, each type as each of 16 bits: on the tiles with the most accumulators and with the most rows of
/// a warpgroup, which are converted, of both schedules; with clusters, activations that are contiguous along M, every way of
/// sharing K, groups, and several accumulators.
pub(super) fn mixed(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
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
        let tile = Some(Tile { rows, columns, schedule, consumers });
        let request = Request { tile, cluster: Some(cluster), split_k: Some(split_k), ..Default::default() };
        let a = if i % 4 == 2 { Major::Mn } else { Major::K };
        let product = Problem::new(4096, 4096, 4096);
        let lighter = (0..4).map(|t| &trees[(i + 4 - t) % 4]);
        let of = |tree| of_product(cores, tree, instructions[i % instructions.len()], (a, Major::K), product, request);
        set.extend(lighter.into_iter().find_map(of));
    }
    for (i, (rows, columns, consumers, groups)) in
        [(256, 32, 2, 1), (128, 64, 1, 1), (256, 32, 1, 1), (64, 32, 1, 32), (128, 64, 2, 32)].into_iter().enumerate()
    {
        let tile = Some(Tile { rows, columns, schedule: Cooperative, consumers });
        let request = Request { tile, cluster: Some(Cluster::NONE), ..Default::default() };
        let product = Problem::new(4096, 4096, 4096);
        let (tree, product) =
            if groups == 1 { (swiglu(), product) } else { (trees[i % 4].clone(), product.in_groups(groups)) };
        set.extend(of_product(cores, &tree, instructions[(2 * i + 1) % 8], (Major::K, Major::K), product, request));
    }
    set
}
