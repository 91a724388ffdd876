//! The kernels to check: a few that together cover everything, or all.

use std::collections::HashSet;
use std::fmt::Debug;

use epilogue::evt::{InTile, Tree, Types};
use epilogue::gemm::sm90::{self, Cluster, Wgmma};
use epilogue::gemm::{
    Divided, Fp8, Instruction, KernelKey, Machine, Major, OperandLayout, Pair, PatchBoxes, Problem, Sm80Key, SplitK,
    SplitKind, Tile, is_crowded,
};
use epilogue_runtime::Arch;

use super::epilogues::{
    bias_gelu_residual, everything, plain, quantised_rows, rms_norm, row_reduction, softmax, swiglu,
};
use super::gate::Subject;

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
        divided: Divided::Nothing,
        patches: false,
        input_dilated: false,
        picked: false,
        in_tile: false,
        scaled: false,
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
    let workload = sm90::Workload { problem, instruction, a, b, fast_fp8: false, tree: valid, lines };
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

/// Groups of rows and of K.
fn covering_groups() -> Vec<Subject> {
    let of = |(i, (tree, divided)): (usize, (Tree, Divided))| {
        let tiles = Tile::all(Instruction::MmaBf16).iter();
        let tile = tiles.filter(|tile| tile.m == 128 && tile.n <= 128).nth(i)?;
        let (a, b) = if divided == Divided::Depth { (Major::Mn, Major::Mn) } else { (Major::K, Major::Mn) };
        let (a, b) = (OperandLayout::packed(a), OperandLayout::packed(b));
        let key = KernelKey::Sm80(Sm80Key { a, b, divided, ..sm80(Instruction::MmaBf16, *tile) });
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
        let divided = if i == 1 { Divided::Rows } else { Divided::Nothing };
        let a = OperandLayout { major: Major::K, copy_bytes };
        let b = OperandLayout::packed(Major::K);
        let key = KernelKey::Sm80(Sm80Key { a, b, divided, picked: true, ..sm80(Instruction::MmaBf16, *tile) });
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
        let key = |tile: &Tile| Sm80Key { a, split_k, patches: true, ..sm80(instruction, *tile) };
        tile.map(|tile| of(&key(tile), tree)).unwrap_or_default()
    })
}

/// Patches of images.
fn covering_patches() -> Vec<Subject> {
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
fn covering_scaled() -> Vec<Subject> {
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
            let key = Sm80Key { a, b, split_k, accumulators, scaled: true, ..sm80(instruction, *tile) };
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
fn covering_mixed() -> Vec<Subject> {
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

/// Gradients of convolutions: patches with zeros between their elements, and patches as columns.
fn covering_gradients() -> Vec<Subject> {
    let of = |key: &Sm80Key, tree: Tree| {
        let of_major = |major| {
            let (a, b) = (OperandLayout { major, ..key.a }, OperandLayout::packed(Major::Mn));
            let key = KernelKey::Sm80(Sm80Key { a, b, input_dilated: major == Major::K, ..*key });
            Subject { tree: tree.clone(), key, arch: Arch::SM_80 }
        };
        [Major::K, Major::Mn].map(of_major).to_vec()
    };
    with_patches(SplitKind::Stream, of).collect()
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

/// Epilogues of several phases in the tiles of a cluster, of two, four and eight blocks along rows, by both schedules, with every
/// split of K that there is.
pub(crate) fn covering_in_cluster() -> Vec<Subject> {
    use sm90::Schedule::{Cooperative, PingPong};
    let mut set = Vec::new();
    for (rows, columns, schedule, (m, n), split_k) in [
        (128, 256, Cooperative, (1, 4), SplitK::None),
        (128, 256, Cooperative, (1, 8), SplitK::Serial(2)),
        (128, 256, Cooperative, (2, 2), SplitK::Stream),
        (64, 256, PingPong, (1, 4), SplitK::None),
        (128, 128, PingPong, (1, 8), SplitK::Stream),
    ] {
        let tile = Some(sm90::Tile { rows, columns, schedule, consumers: 2 });
        let (cluster, split_k) = (Some(Cluster { m, n }), Some(split_k));
        let request = sm90::Request { tile, cluster, split_k, ..sm90::Request::default() };
        for tree in [softmax(), rms_norm(), quantised_rows()] {
            set.extend(sm90(&tree, Wgmma::Bf16, (Major::K, Major::K), columns * n, request));
        }
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
