//! The kernels to check: a few that together cover everything, or all.

pub(crate) mod operands;

use std::collections::HashSet;
use std::fmt::Debug;

use epilogue::evt::{InTile, Tree, Types};
use epilogue::gemm::sm90::{self, Cluster, Wgmma};
use epilogue::gemm::{
    Formats, Instruction, KernelKey, Machine, Major, OperandLayout, Problem, ReadingShape, Sm80Key, SplitK, SplitKind,
    Tile, is_crowded,
};
use epilogue_runtime::Arch;

use super::epilogues::{
    bias_gelu_residual, causal, everything, plain, quantised_rows, rms_norm, row_reduction, softmax, swiglu,
};
use super::gate::Subject;

use self::operands::{covering_gradients, covering_groups, covering_mixed, covering_patches, covering_scaled};

const LAYOUTS: [(Major, Major); 4] =
    [(Major::K, Major::Mn), (Major::K, Major::K), (Major::Mn, Major::Mn), (Major::Mn, Major::K)];
const CLUSTERS: [Cluster; 5] = [
    Cluster { m: 2, n: 1 },
    Cluster { m: 1, n: 1 },
    Cluster { m: 1, n: 2 },
    Cluster { m: 4, n: 1 },
    Cluster { m: 2, n: 2 },
];

/// The copy widths that an operand of elements of this many bytes can have.
fn widths(size: usize) -> Vec<usize> {
    [16, 8, 4].into_iter().filter(|width| *width > size).chain([size]).collect()
}

/// A kernel for sm_80 and later, as the model chooses it for a light epilogue.
pub(crate) fn sm80(instruction: Instruction, tile: Tile) -> Sm80Key {
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

/// A kernel for sm_90a, as the model completes a request; `None` if there is none, or only one that spills.
fn sm90(tree: &Tree, instruction: Wgmma, majors: (Major, Major), n: usize, request: sm90::Request) -> Option<Subject> {
    sm90_for(tree, instruction, majors, Problem::new(4096, n, 4096), request)
}

/// The same for a product; of groups, M, or K, is what each has.
fn sm90_for(
    tree: &Tree,
    instruction: Wgmma,
    majors: (Major, Major),
    problem: Problem,
    request: sm90::Request,
) -> Option<Subject> {
    let (a, b) = instruction.elements();
    let valid = tree.validate(Types::new(a, b)).ok()?;
    let in_tile = InTile::of(&valid);
    let within =
        if request.cluster.is_some_and(|cluster| cluster.n > 1) { sm90::Within::Cluster } else { sm90::Within::Tile };
    let (valid, lines) = in_tile.as_ref().map_or((&valid, None), |all| (all.tree(), Some((all.lines(), within))));
    let (a, b) = (OperandLayout::packed(majors.0), OperandLayout::packed(majors.1));
    let workload = sm90::Workload { problem, instruction, a, b, fast_fp8: false, tree: valid, lines, needed: 1.0 };
    let candidates = sm90::candidates(&Machine::h100(), &workload, &request, |_| true);
    let best = candidates.first().filter(|best| sm90::has_room(best))?;
    Some(Subject { tree: tree.clone(), key: best.key, arch: Arch::SM_90A })
}

/// Kernels that together have every instruction, tile, layout, copy width, split and kind of epilogue at least once.
pub(crate) fn covering() -> Vec<Subject> {
    let mut set = covering_sm80();
    set.extend(covering_sm90());
    set.extend(covering_swiglu());
    set.extend(covering_groups());
    set.extend(covering_patches());
    set.extend(covering_in_tile());
    set.extend(covering_in_cluster());
    set.extend(covering_scaled());
    set.extend(covering_mixed());
    set.extend(covering_gradients());
    set.extend(covering_masked());
    set
}

fn covering_sm80() -> Vec<Subject> {
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
                ..sm80(instruction, *tile)
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
        let key = sm80(instruction, plain[5 - i % 3]);
        let a = OperandLayout { major: a, copy_bytes: a_widths[(i + 1) % a_widths.len()] };
        let b = OperandLayout { major: b, copy_bytes: b_widths[i / 2 % b_widths.len()] };
        let tree = [everything(), row_reduction()][i % 2].clone();
        set.push((tree, Sm80Key { a, b, split_k: splits[(i + 1) % 4], ..key }));
    }
    // Code for sm_80 is also compiled for later GPUs.
    let arch = |i: usize| if i % 4 == 3 { Arch::SM_90A } else { Arch::SM_80 };
    set.into_iter()
        .enumerate()
        .map(|(i, (tree, key))| Subject { tree, key: KernelKey::Sm80(key), arch: arch(i) })
        .collect()
}

fn covering_sm90() -> Vec<Subject> {
    let trees = [plain(), bias_gelu_residual(), row_reduction(), everything()];
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Stream, SplitK::Parallel(2), SplitK::Stream];
    let mut set = Vec::new();
    for (i, tile) in sm90::Tile::all().iter().enumerate() {
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
            let request = sm90::Request {
                tile: Some(*tile),
                swap_ab,
                cluster: Some(cluster),
                split_k: Some(split_k),
                ..sm90::Request::default()
            };
            // With the largest tiles, only light epilogues have room.
            let lighter = (0..4).map(|t| &trees[((i / 2) % 4 + 4 - t) % 4]);
            lighter.into_iter().find_map(|tree| sm90(tree, instruction, LAYOUTS[i / 4 % 4], n, request))
        }));
    }
    let tiles = [7, 19, 31].map(|i| sm90::Tile::all()[i]);
    let others =
        Wgmma::ALL.into_iter().filter(|instruction| instruction.takes_mn_major() == (false, false)).enumerate();
    for (i, instruction) in others.flat_map(|(i, x)| [(i, x), (i + 1, x)]) {
        let request = sm90::Request { tile: Some(tiles[i % 3]), cluster: Some(CLUSTERS[i % 3]), ..Default::default() };
        set.extend(sm90(&trees[(i + 1) % 4], instruction, (Major::K, Major::K), 4096, request));
    }
    set
}

/// Epilogues of several phases, all in the tile: the widest tiles of both schedules, one that is swapped, and those for sm_80.
pub(crate) fn covering_in_tile() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let mut set = Vec::new();
    for (rows, columns, schedule) in [(128, 256, Cooperative), (64, 256, PingPong), (128, 128, PingPong)] {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers: 2 });
        let cluster = Some(if rows == 64 { Cluster::NONE } else { Cluster { m: 2, n: 1 } });
        let request = sm90::Request { tile, cluster, ..sm90::Request::default() };
        for tree in [softmax(), rms_norm(), quantised_rows()] {
            set.extend(sm90(&tree, Wgmma::Bf16, (Major::K, Major::K), columns, request));
        }
    }
    for (i, (m, n, k)) in [(128, 256, 64), (128, 128, 32), (32, 128, 64)].into_iter().enumerate() {
        let tree = [softmax(), rms_norm(), quantised_rows()][i].clone();
        let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n, tile.k) == (m, n, k));
        set.extend(tile.map(|tile| {
            let key = Sm80Key { in_tile: true, ..sm80(Instruction::MmaBf16, *tile) };
            Subject { tree, key: KernelKey::Sm80(key), arch: Arch::SM_80 }
        }));
    }
    set
}

/// Epilogues of several phases in the tiles of a cluster, of two, four, eight and sixteen blocks along rows, by both schedules,
/// with every split of K that there is.
pub(crate) fn covering_in_cluster() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
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
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers: 2 });
        let (cluster, split_k) = (Some(Cluster { m, n }), Some(split_k));
        let request = sm90::Request { tile, cluster, split_k, ..sm90::Request::default() };
        set.extend(sm90(&tree, Wgmma::Bf16, (Major::K, Major::K), columns * n, request));
    }
    set
}

/// Two accumulators, in every way in which they can share a tile.
fn covering_swiglu() -> Vec<Subject> {
    let mut set = Vec::new();
    for (i, (m, n)) in [(128, 256), (128, 128), (64, 64)].into_iter().enumerate() {
        let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n) == (m, n));
        let (a, b) = LAYOUTS[i];
        let (a, b) = (OperandLayout::packed(a), OperandLayout::packed(b));
        set.extend(tile.map(|tile| {
            let key = Sm80Key { a, b, accumulators: 2, ..sm80(Instruction::MmaBf16, *tile) };
            Subject { tree: swiglu(), key: KernelKey::Sm80(key), arch: Arch::SM_80 }
        }));
    }
    let two = Cluster { m: 2, n: 1 };
    for (i, (rows, columns, schedule, consumers, swap_ab)) in [
        (128, 256, sm90::Schedule::Cooperative, 2, false),
        (256, 128, sm90::Schedule::Cooperative, 2, false),
        (128, 128, sm90::Schedule::PingPong, 2, false),
        (64, 96, sm90::Schedule::PingPong, 2, false),
        (256, 32, sm90::Schedule::Cooperative, 2, true),
        (128, 16, sm90::Schedule::Cooperative, 1, true),
    ]
    .into_iter()
    .enumerate()
    {
        let tile = sm90::Tile { rows, columns, schedule, consumers };
        let cluster = Some(if i % 2 == 0 { two } else { Cluster::NONE });
        let split_k = [SplitK::None, SplitK::Serial(2), SplitK::Stream, SplitK::Parallel(2)][i % 4];
        let (tile, split_k) = (Some(tile), Some(split_k));
        let request = sm90::Request { tile, swap_ab: Some(swap_ab), cluster, split_k, ..sm90::Request::default() };
        set.extend(sm90(&swiglu(), Wgmma::Bf16, (Major::K, Major::K), 4096, request));
    }
    set
}

/// Products of which positions leave tiles out.
fn covering_masked() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let tile = Tile::all(Instruction::MmaBf16).iter().find(|tile| (tile.m, tile.n, tile.k) == (128, 256, 64));
    let of_sm80 = tile.map(|tile| {
        let key = Sm80Key { b: OperandLayout::packed(Major::K), ..sm80(Instruction::MmaBf16, *tile) };
        Subject { tree: causal(), key: KernelKey::Sm80(key), arch: Arch::SM_80 }
    });
    let of_sm90 = |(rows, columns, schedule, split_k)| {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers: 2 });
        let (cluster, split_k) = (Some(Cluster { m: 2, n: 1 }), Some(split_k));
        let request = sm90::Request { tile, cluster, split_k, ..sm90::Request::default() };
        sm90(&causal(), Wgmma::Bf16, (Major::K, Major::K), 4096, request)
    };
    let requests = [
        (128, 256, Cooperative, SplitK::None),
        (128, 128, PingPong, SplitK::Stream),
        (128, 128, PingPong, SplitK::None),
    ];
    of_sm80.into_iter().chain(requests.into_iter().filter_map(of_sm90)).collect()
}

/// Every kernel that can be chosen for an epilogue, except for the number of splits and, on sm_90a, the raster. Those for
/// sm_80 and later are compiled for sm_80 or for sm_90a: for which of the two is chance, but the same each time.
pub(crate) fn all() -> Vec<Subject> {
    let tree = bias_gelu_residual();
    let (mut set, mut chance) = (Vec::new(), fastrand::Rng::with_seed(0));
    for instruction in Instruction::ALL {
        for tile in Tile::all(instruction) {
            for (a, b) in LAYOUTS {
                for a_bytes in widths(instruction.sizes().0) {
                    for b_bytes in widths(instruction.sizes().1) {
                        for split_k in [SplitKind::None, SplitKind::Serial, SplitKind::Parallel, SplitKind::Stream] {
                            let a = OperandLayout { major: a, copy_bytes: a_bytes };
                            let b = OperandLayout { major: b, copy_bytes: b_bytes };
                            let key = KernelKey::Sm80(Sm80Key { a, b, split_k, ..sm80(instruction, *tile) });
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
    for instruction in Wgmma::ALL {
        for tile in sm90::Tile::all() {
            for majors in LAYOUTS {
                for (swap_ab, cluster) in [false, true].into_iter().flat_map(|s| CLUSTERS.map(|c| (s, c))) {
                    for split_k in [SplitK::None, SplitK::Serial(2), SplitK::Parallel(2), SplitK::Stream] {
                        let request = sm90::Request {
                            tile: Some(*tile),
                            swap_ab: Some(swap_ab),
                            cluster: Some(cluster),
                            split_k: Some(split_k),
                            ..sm90::Request::default()
                        };
                        set.extend(sm90(&tree, instruction, majors, 4096, request));
                    }
                }
            }
        }
    }
    set
}

/// Those of all kernels that have three choices together which no kernel before has.
pub(crate) fn threes() -> Vec<Subject> {
    let mut set = all();
    scatter(&mut set);
    let mut seen = HashSet::new();
    set.retain(|subject| {
        let choices = choices(subject);
        let mut new = false;
        for (i, one) in choices.iter().enumerate() {
            for (j, two) in choices.iter().enumerate().skip(i + 1) {
                for (k, three) in choices.iter().enumerate().skip(j + 1) {
                    new |= seen.insert(([i, j, k], [one.clone(), two.clone(), three.clone()]));
                }
            }
        }
        new
    });
    set
}

/// What distinguishes a kernel from others, as words in the same order for all kernels of a family.
fn choices(subject: &Subject) -> Vec<String> {
    fn word(choice: impl Debug) -> String {
        format!("{choice:?}")
    }
    match &subject.key {
        KernelKey::Sm80(key) => vec![
            word(key.instruction),
            word(key.tile),
            word(key.a.major),
            word(key.b.major),
            word(key.a.copy_bytes),
            word(key.b.copy_bytes),
            word(key.split_k),
            word(subject.arch),
        ],
        KernelKey::Sm90(key) => vec![
            word(key.instruction),
            word(key.tile),
            word(key.a),
            word(key.b),
            word(key.swap_ab),
            word(key.cluster),
            word(key.split_k),
        ],
    }
}

/// Puts kernels in an order in which neighbours have nothing to do with each other: the same one each time.
pub(crate) fn scatter(set: &mut [Subject]) {
    fastrand::Rng::with_seed(0).shuffle(set);
}
