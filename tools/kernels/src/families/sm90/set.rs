//! Kernels of this family to check.

use epilogue::evt::{InTile, Tree, Types};
use epilogue::gemm::sm90::{
    Cluster, Request, Schedule, TensorCores, Tile, Wgmma, Within, Workload, candidates, has_room, supports,
};
use epilogue::gemm::{Major, OperandLayout, Problem, SplitK};

use super::{machine, operands};
use crate::epilogues::{
    bias_gelu_residual, causal, everything, plain, quantised_rows, rms_norm, row_reduction, softmax, swiglu,
};
use crate::gate::Subject;
use crate::set::LAYOUTS;

pub(super) const CLUSTERS: [Cluster; 5] = [
    Cluster { m: 2, n: 1 },
    Cluster { m: 1, n: 1 },
    Cluster { m: 1, n: 2 },
    Cluster { m: 4, n: 1 },
    Cluster { m: 2, n: 2 },
];

/// A kernel as the model completes a request, for 4096 rows and some columns; `None` if there is none, or only one that spills.
fn of_columns(
    cores: TensorCores,
    tree: &Tree,
    instruction: Wgmma,
    majors: (Major, Major),
    n: usize,
    request: Request,
) -> Option<Subject> {
    of_product(cores, tree, instruction, majors, Problem::new(4096, n, 4096), request)
}

/// A kernel as the model completes a request, for a product. Each group has its M, or K.
pub(super) fn of_product(
    cores: TensorCores,
    tree: &Tree,
    instruction: Wgmma,
    majors: (Major, Major),
    problem: Problem,
    request: Request,
) -> Option<Subject> {
    let (a, b) = instruction.elements();
    let valid = tree.validate(Types::new(a, b)).ok()?;
    let in_tile = InTile::of(&valid);
    let within = if request.cluster.is_some_and(|cluster| cluster.n > 1) { Within::Cluster } else { Within::Tile };
    let (valid, lines) = in_tile.as_ref().map_or((&valid, None), |all| (all.tree(), Some((all.lines(), within))));
    let (a, b) = (OperandLayout::packed(majors.0), OperandLayout::packed(majors.1));
    let workload = Workload { problem, cores, instruction, a, b, fast_fp8: false, tree: valid, lines, needed: 1.0 };
    let candidates = candidates(&machine(cores), &workload, &request, |key| supports(key).is_ok());
    let best = candidates.first().filter(|best| has_room(best))?;
    Some(Subject { tree: tree.clone(), key: best.key, arch: cores.arch() })
}

/// Kernels that together have everything at least once.
pub(super) fn covering(cores: TensorCores) -> Vec<Subject> {
    let mut set = every_tile(cores);
    set.extend(two_accumulators(cores));
    set.extend(operands::groups(cores));
    set.extend(operands::depth(cores));
    set.extend(operands::picked(cores));
    set.extend(operands::patches(cores));
    set.extend(in_tile(cores));
    set.extend(in_cluster(cores));
    set.extend(operands::scaled(cores));
    set.extend(operands::mixed(cores));
    set.extend(operands::transposed_patches(cores));
    set.extend(masked(cores));
    set
}

/// Every tile, instruction, layout, split and cluster at least once.
fn every_tile(cores: TensorCores) -> Vec<Subject> {
    let trees = [plain(), bias_gelu_residual(), row_reduction(), everything()];
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Stream, SplitK::Parallel(2), SplitK::Stream];
    let mut set = Vec::new();
    for (i, tile) in Tile::all().iter().filter(|tile| cores.hold(tile)).enumerate() {
        let instruction = [Wgmma::Bf16, Wgmma::F16][i % 2];
        // Rows of 4095 elements don't begin at multiples of 16 bytes, so tensor copies can't reach what the epilogue
        // accesses.
        let n = if i % 6 == 5 { 4095 } else { 4096 };
        let swap_ab = Some(i % 4 == 3 || tile.columns < 64);
        // The largest tiles whose rows are N have no kernels for stream-K.
        let crowded = swap_ab == Some(true) && tile.accumulator_registers() >= 128;
        let split_k = if crowded && splits[i % 5] == SplitK::Stream { SplitK::None } else { splits[i % 5] };
        let clusters = (0..CLUSTERS.len()).map(|c| CLUSTERS[(i + c) % CLUSTERS.len()]);
        set.extend(clusters.into_iter().find_map(|cluster| {
            let request = Request {
                tile: Some(*tile),
                swap_ab,
                cluster: Some(cluster),
                split_k: Some(split_k),
                ..Request::default()
            };
            // With the largest tiles, only light epilogues have room.
            let lighter = (0..4).map(|t| &trees[((i / 2) % 4 + 4 - t) % 4]);
            lighter.into_iter().find_map(|tree| of_columns(cores, tree, instruction, LAYOUTS[i / 4 % 4], n, request))
        }));
    }
    let tiles = [7, 19, 31].map(|i| Tile::all()[i]);
    let others =
        Wgmma::ALL.into_iter().filter(|instruction| instruction.takes_mn_major() == (false, false)).enumerate();
    for (i, instruction) in others.flat_map(|(i, x)| [(i, x), (i + 1, x)]) {
        let request = Request { tile: Some(tiles[i % 3]), cluster: Some(CLUSTERS[i % 3]), ..Default::default() };
        set.extend(of_columns(cores, &trees[(i + 1) % 4], instruction, (Major::K, Major::K), 4096, request));
    }
    set
}

/// Epilogues of several phases, all in the tile: the widest tiles of both schedules, and narrower ones.
pub(super) fn in_tile(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let mut set = Vec::new();
    for (rows, columns, schedule) in [(128, 256, Cooperative), (64, 256, PingPong), (128, 128, PingPong)] {
        let tile = Some(Tile { rows, columns, schedule, consumers: 2 });
        let cluster = Some(if rows == 64 { Cluster::NONE } else { Cluster { m: 2, n: 1 } });
        let request = Request { tile, cluster, ..Request::default() };
        for tree in [softmax(), rms_norm(), quantised_rows()] {
            set.extend(of_columns(cores, &tree, Wgmma::Bf16, (Major::K, Major::K), columns, request));
        }
    }
    set
}

/// Epilogues of several phases in the tiles of a cluster, of 2, 4, 8 and 16 blocks along rows. Both schedules are there, with
/// every split of K.
pub(super) fn in_cluster(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let mut set = Vec::new();
    let trees = [softmax(), rms_norm(), quantised_rows()].into_iter().cycle();
    let shapes = [
        (128, 256, Cooperative, (1, 4), SplitK::None),
        (128, 256, Cooperative, (1, 8), SplitK::Serial(2)),
        (128, 256, Cooperative, (2, 2), SplitK::Stream),
        (64, 256, PingPong, (1, 4), SplitK::None),
        (128, 128, PingPong, (1, 8), SplitK::Stream),
        (128, 256, Cooperative, (1, 16), SplitK::None),
    ];
    for ((rows, columns, schedule, (m, n), split_k), tree) in shapes.into_iter().zip(trees) {
        let tile = Some(Tile { rows, columns, schedule, consumers: 2 });
        let (cluster, split_k) = (Some(Cluster { m, n }), Some(split_k));
        let request = Request { tile, cluster, split_k, ..Request::default() };
        set.extend(of_columns(cores, &tree, Wgmma::Bf16, (Major::K, Major::K), columns * n, request));
    }
    set
}

/// Two accumulators, in every way in which they can share a tile.
fn two_accumulators(cores: TensorCores) -> Vec<Subject> {
    let mut set = Vec::new();
    let two = Cluster { m: 2, n: 1 };
    for (i, (rows, columns, schedule, consumers, swap_ab)) in [
        (128, 256, Schedule::Cooperative, 2, false),
        (256, 128, Schedule::Cooperative, 2, false),
        (128, 128, Schedule::PingPong, 2, false),
        (64, 96, Schedule::PingPong, 2, false),
        (256, 32, Schedule::Cooperative, 2, true),
        (128, 16, Schedule::Cooperative, 1, true),
    ]
    .into_iter()
    .enumerate()
    {
        let tile = Tile { rows, columns, schedule, consumers };
        let cluster = Some(if i % 2 == 0 { two } else { Cluster::NONE });
        let split_k = [SplitK::None, SplitK::Serial(2), SplitK::Stream, SplitK::Parallel(2)][i % 4];
        let (tile, split_k) = (Some(tile), Some(split_k));
        let request = Request { tile, swap_ab: Some(swap_ab), cluster, split_k, ..Request::default() };
        set.extend(of_columns(cores, &swiglu(), Wgmma::Bf16, (Major::K, Major::K), 4096, request));
    }
    set
}

/// Products whose positions leave tiles out.
fn masked(cores: TensorCores) -> Vec<Subject> {
    use Schedule::{Cooperative, PingPong};
    let of = |(rows, columns, schedule, split_k)| {
        let tile = Some(Tile { rows, columns, schedule, consumers: 2 });
        let (cluster, split_k) = (Some(Cluster { m: 2, n: 1 }), Some(split_k));
        let request = Request { tile, cluster, split_k, ..Request::default() };
        of_columns(cores, &causal(), Wgmma::Bf16, (Major::K, Major::K), 4096, request)
    };
    let requests = [
        (128, 256, Cooperative, SplitK::None),
        (128, 128, PingPong, SplitK::Stream),
        (128, 128, PingPong, SplitK::None),
    ];
    requests.into_iter().filter_map(of).collect()
}

/// Every kernel that can be chosen for an epilogue, except for the number of splits and the raster.
pub(super) fn all(cores: TensorCores, tree: &Tree) -> Vec<Subject> {
    let mut set = Vec::new();
    for instruction in Wgmma::ALL {
        for tile in Tile::all() {
            for majors in LAYOUTS {
                for (swap_ab, cluster) in [false, true].into_iter().flat_map(|s| CLUSTERS.map(|c| (s, c))) {
                    for split_k in [SplitK::None, SplitK::Serial(2), SplitK::Parallel(2), SplitK::Stream] {
                        let request = Request {
                            tile: Some(*tile),
                            swap_ab: Some(swap_ab),
                            cluster: Some(cluster),
                            split_k: Some(split_k),
                            ..Request::default()
                        };
                        set.extend(of_columns(cores, tree, instruction, majors, 4096, request));
                    }
                }
            }
        }
    }
    set
}
