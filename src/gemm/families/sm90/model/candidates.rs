//! The kernels for sm_90a that could compute a product: tiles with their stages, clusters, raster and splits of K, as
//! far as shared memory, operands and a request allow. `cost` says how long each takes.

use super::cost::{clusters_at_once, predict, stream};
use super::workload::Workload;
use crate::evt::WholeLines;
use crate::gemm::families::KernelKey;
use crate::gemm::families::sm90::kernel::reach::{direct_when_packed, in_place, takes_groups, too_narrow};
use crate::gemm::families::sm90::kernel::shared::{SharedMap, Traffic, table_bytes};
use crate::gemm::families::sm90::kernel::{Cluster, Raster, Request, Sm90Key, Staging, Stream, Tile, shared};
use crate::gemm::kernel::loading::takes;
use crate::gemm::kernel::{ReadingShape, SplitK};
use crate::gemm::model::candidate::{Candidate, STREAMED_WAVES};
use crate::gemm::model::machine::Machine;

/// The kernels that take these operands and that `supported` accepts, best first.
#[must_use]
pub fn rank(machine: &Machine, w: &Workload<'_>, supported: impl Fn(&Sm90Key) -> bool) -> Vec<Candidate> {
    candidates(machine, w, &Request::default(), supported)
}

/// [`rank`] for the kernels that satisfy a request.
#[must_use]
pub fn candidates(
    machine: &Machine,
    w: &Workload<'_>,
    request: &Request,
    supported: impl Fn(&Sm90Key) -> bool,
) -> Vec<Candidate> {
    let in_groups = takes_groups(w.problem.reading.grouping(), w.a.major, w.b.major);
    let (a_along_m, b_along_n) = w.instruction.takes_mn_major();
    let has_codes = w.problem.formats.quantization().is_some();
    if !takes(a_along_m, w.a) || !takes(b_along_n, w.b) || !in_groups || has_codes {
        return Vec::new();
    }
    let mut all = Vec::new();
    let packed = direct_of(w);
    let accumulators = w.tree.cost().products();
    for tile in w.cores.tiles(accumulators).filter(|tile| request.tile.is_none_or(|asked| asked == *tile)) {
        for swap_ab in swaps(request) {
            let few_rows = w.problem.m < 64 && w.problem.n >= 64 && w.problem.reading.patches().is_none();
            // What is converted must be the tile's rows.
            let few_rows = few_rows || w.instruction.converts_b();
            let usual = match w.lines {
                Some((lines, _)) => holds_lines(lines, swap_ab),
                None => request.swap_ab.is_some() || swap_ab == few_rows,
            };
            if !usual {
                continue;
            }
            let fit = |cluster| fitted(machine, w, request, (tile, swap_ab, cluster), packed);
            let Some(alone) = fit(Cluster::NONE) else { continue };
            for cluster in clusters(machine, request, &alone.0, w) {
                // What a cluster's blocks exchange takes memory from their stages.
                let own = w.in_cluster().map(|_| fit(cluster));
                let Some((fitted, traffic)) = own.as_ref().map_or(Some(&alone), Option::as_ref) else { continue };
                let raster = request.raster.unwrap_or_else(|| raster(fitted, cluster, w, machine));
                let key = Sm90Key { cluster, raster, ..*fitted };
                if !key.divides_among_cluster() || !w.lines_fit(&key) {
                    continue;
                }
                for split_k in splits(machine, w, request, &key) {
                    let key = Sm90Key { split_k: split_k.into(), ..key };
                    if supported(&key) {
                        all.push(predict(machine, w, &key, split_k, traffic));
                    }
                }
            }
        }
    }
    all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    // A thread without enough registers spills values to memory: such kernels are used only if there are no others.
    let (roomy, crowded): (Vec<_>, Vec<_>) = all.into_iter().partition(has_room);
    let all = if roomy.is_empty() { crowded } else { roomy };
    if request.cluster.is_some() {
        return all;
    }
    // Not every GPU can run the largest clusters, so they are used only if there are no others.
    let (portable, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Candidate::is_portable);
    if portable.is_empty() { others } else { portable }
}

/// The arguments that tensor copies do not reach even where all tensors are packed, and those that are written in place.
fn direct_of(w: &Workload<'_>) -> u64 {
    direct_when_packed(w.tree, &w.problem, w.a.major) | in_place(w.tree, w.problem.reading.divided())
}

/// Whether the tile's rows are N: as asked, or each.
fn swaps(request: &Request) -> impl Iterator<Item = bool> {
    let asked = request.swap_ab;
    [false, true].into_iter().filter(move |swap_ab| asked.is_none_or(|asked| asked == *swap_ab))
}

/// Whether the tile that was asked for has room for the epilogue, but does not divide among the cluster that was.
pub(crate) fn is_not_divided(machine: &Machine, w: &Workload<'_>, request: &Request) -> bool {
    let (Some(tile), Some(cluster)) = (request.tile, request.cluster) else { return false };
    let (packed, swaps) = (direct_of(w), swaps(request));
    let mut keys =
        swaps.filter_map(|swap_ab| fitted(machine, w, request, (tile, swap_ab, Cluster::NONE), packed)).peekable();
    keys.peek().is_some() && keys.all(|(key, _)| !Sm90Key { cluster, ..key }.divides_among_cluster())
}

/// Whether whole lines lie in the registers of a few lanes: lines of MMA columns do.
const fn holds_lines(lines: WholeLines, swap_ab: bool) -> bool {
    if swap_ab { lines.columns && !lines.rows } else { lines.rows && !lines.columns }
}

/// Whether a kernel's consumers have enough registers for the epilogue beside the accumulators, by the estimate.
#[must_use]
pub fn has_room(candidate: &Candidate) -> bool {
    let KernelKey::Sm90(key) = &candidate.key else { return true };
    candidate.registers <= key.registers().map_or(255, |(_, consumer)| consumer)
}

/// The kernel on a tile with as many stages as fit in shared memory, and what passes through it. The arguments in
/// `packed`, and those for which its steps are too narrow, are not copied by boxes.
fn fitted(
    machine: &Machine,
    w: &Workload<'_>,
    request: &Request,
    (tile, swap_ab, cluster): (Tile, bool, Cluster),
    packed: u64,
) -> Option<(Sm90Key, Traffic)> {
    let promoted = !w.fast_fp8 && w.cores.promotes(w.instruction);
    let key = Sm90Key {
        cores: w.cores,
        instruction: w.instruction,
        tile,
        swap_ab,
        accumulators: w.tree.cost().products(),
        stages: 2,
        cluster,
        raster: Raster { group: 8, along_n: false },
        split_k: SplitK::None.into(),
        a: w.a.major,
        b: w.b.major,
        staging: Staging { step: 8, output_stages: 1, input_stages: 1 },
        direct: packed,
        pending: request.pending.unwrap_or(usize::from(!promoted)),
        hints: request.hints.unwrap_or_default(),
        promoted,
        dependent_launch: false,
        reading: ReadingShape::of(w.problem.reading, w.a.major, w.problem.boxed().map_or(0, |boxes| boxes.axes)),
        formats: w.problem.formats,
        in_tile: w.lines.is_some(),
        fast_math: false,
    };
    if !key.holds_accumulators() {
        return None;
    }
    let table = table_bytes(key.reading.divided(), w.problem.batch);
    let available = machine.shared_per_block.min(shared::MAX_SHARED_BYTES).checked_sub(table)?;
    let in_steps_of = |step: usize| {
        let direct = packed | too_narrow(w.tree, step, swap_ab);
        (Sm90Key { direct, ..key }, Traffic::of(w.tree, direct))
    };
    if let Some(staging) = request.staging {
        let (key, traffic) = in_steps_of(staging.step);
        let (a, b) = key.stage_bytes();
        let bare = SharedMap::of(&Sm90Key { stages: 0, staging, ..key }, &traffic).bytes();
        let most = available.checked_sub(bare)? / (a + b);
        let stages = request.stages.unwrap_or_else(|| most.min(wanted_stages(&key)));
        let usable = (2..=most.min(shared::MAX_STAGES)).contains(&stages)
            && key.result_tile().1.is_multiple_of(staging.step.max(1));
        return usable.then_some((Sm90Key { stages, staging, ..key }, traffic));
    }
    let fit_from = |least: usize| {
        let (key, traffic) = in_steps_of(least);
        let fitted = shared::fit(&key, &traffic, request.stages.unwrap_or(wanted_stages(&key)), least, available)?;
        request.stages.is_none_or(|asked| asked == fitted.stages).then_some((fitted, traffic))
    };
    // Wider steps allow arguments to be copied for which the narrowest steps are too narrow.
    let wide = if in_steps_of(8).0.direct == packed { None } else { fit_from(16) };
    wide.or_else(|| fit_from(8))
}

/// The number of stages worth having: 192 KiB in all, which is the size of the largest tiles' four stages.
fn wanted_stages(key: &Sm90Key) -> usize {
    let (a, b) = key.stage_bytes();
    (192 * 1024 / (a + b)).clamp(2, shared::MAX_STAGES)
}

/// The clusters that a kernel could have. Whether one is worth its start is for the times to say, in a single wave, too:
/// there every k-tile passes through the L2 as it does in the first of many. (NVIDIA's nvMatmulHeuristics takes
/// clusters of two for 1024³ and 2048³, of 128 blocks each; DeepGEMM's rule takes none in a single wave.)
fn clusters(machine: &Machine, request: &Request, key: &Sm90Key, w: &Workload<'_>) -> Vec<Cluster> {
    if let Some(cluster) = request.cluster {
        return vec![cluster];
    }
    let (tile_m, tile_n) = key.product_tile();
    let (tiles_m, tiles_n) = (w.problem.m.div_ceil(tile_m).max(1), w.problem.n.div_ceil(tile_n).max(1));
    // A cluster that reaches beyond the last tile, on an axis of few tiles, loads much that is not used.
    let worthwhile = |c: &Cluster| {
        let padded = tiles_m.next_multiple_of(c.m) as u128 * tiles_n.next_multiple_of(c.n) as u128;
        padded * 8 <= tiles_m as u128 * tiles_n as u128 * 9
    };
    if w.in_cluster().is_some() {
        // Along lines so many blocks as a line has tiles, or the next more; a tile's rows are rarely shared by 3 or 12.
        let tiles = if key.swap_ab { tiles_m } else { tiles_n };
        let all = [(1, 2), (1, 3), (1, 4), (1, 8), (1, 12), (1, 16), (2, 2), (2, 3), (2, 4)];
        let oriented = |(across, along)| match key.swap_ab {
            true => Cluster { m: along, n: across },
            false => Cluster { m: across, n: along },
        };
        let enough = |(across, along): &(usize, usize)| {
            let close = tiles <= *along && *along < 2 * tiles && across * along <= machine.multiprocessors;
            close && (*across == 1 || worthwhile(&oriented((*across, 1))))
        };
        return all.into_iter().filter(enough).map(oriented).collect();
    }
    let all = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4)].map(|(m, n)| Cluster { m, n });
    all.into_iter().filter(|c| *c == Cluster::NONE || worthwhile(c)).collect()
}

/// Groups along the axis with the shorter tile side. Their size makes a wave of blocks cover about a square.
#[expect(clippy::cast_precision_loss, reason = "a model's numbers")]
fn raster(key: &Sm90Key, cluster: Cluster, w: &Workload<'_>, machine: &Machine) -> Raster {
    let (tile_m, tile_n) = key.product_tile();
    let (rows, columns) = (tile_m * cluster.m, tile_n * cluster.n);
    let wave = machine.multiprocessors.div_ceil(cluster.blocks());
    let traffic = |grouped: usize, walked: usize, group: usize, along: usize| {
        let group = group.min(along.div_ceil(grouped).max(1));
        (group * grouped) as f64 + wave.div_ceil(group) as f64 * walked as f64
    };
    let mut best = (f64::INFINITY, Raster { group: 8, along_n: false });
    for along_n in [false, true] {
        for group in [4, 8, 16] {
            let bytes = if along_n {
                traffic(columns, rows, group, w.problem.n)
            } else {
                traffic(rows, columns, group, w.problem.m)
            };
            if bytes < best.0 {
                best = (bytes, Raster { group, along_n });
            }
        }
    }
    best.1
}

fn splits(machine: &Machine, w: &Workload<'_>, request: &Request, key: &Sm90Key) -> Vec<SplitK> {
    if let Some(split_k) = request.split_k {
        return vec![split_k];
    }
    if key.reading.divided().is_some() {
        return vec![SplitK::None];
    }
    let units = w.units(key, 1);
    let blocks = units.count() * key.cluster.blocks() as u128;
    let k_tiles = w.problem.k.div_ceil(w.instruction.tile_k());
    let mut all = vec![SplitK::None];
    for n in [2, 3, 4, 6, 8, 12, 16, 24, 32] {
        if blocks * (n as u128 - 1) < machine.multiprocessors as u128 && k_tiles >= 8 * n {
            all.extend([SplitK::Serial(n), SplitK::Parallel(n)]);
        }
    }
    let at_once = clusters_at_once(machine, key.cluster);
    let few = units.count() < STREAMED_WAVES * at_once as u128;
    let worthwhile = |s: &Stream| s.streamed > 0 && s.streamed * k_tiles / s.clusters >= 8;
    if few && stream(&units, at_once, k_tiles).is_some_and(|s| worthwhile(&s)) {
        all.push(SplitK::Stream);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::ElementType;
    use crate::evt::random::{self, Choices, Profile};
    use crate::evt::{BroadcastClass, Tree, TreeBuilder, Types, ValidTree};
    use crate::gemm::families::sm90::kernel::{TensorCores, Wgmma};
    use crate::gemm::model::candidate::Bound;
    use crate::gemm::problem::{Arithmetic, Major, OperandLayout, Problem};

    fn plain() -> Tree {
        let mut b = TreeBuilder::new("plain", file!());
        let accum = b.accum("accum");
        b.output("d", accum, BroadcastClass::Tensor, None);
        b.finish()
    }

    fn valid(element: ElementType) -> ValidTree {
        plain().validate(Types::new(element, element)).expect("a valid tree")
    }

    fn ranked(machine: &Machine, problem: Problem, request: &Request) -> Vec<Candidate> {
        let tree = valid(ElementType::BF16);
        let (a, b) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
        let workload = Workload {
            problem,
            cores: TensorCores::Wgmma,
            instruction: Wgmma::Bf16,
            a,
            b,
            fast_fp8: false,
            tree: &tree,
            lines: None,
            needed: 1.0,
        };
        candidates(machine, &workload, request, |_| true)
    }

    fn best(problem: Problem) -> (Sm90Key, Candidate) {
        let candidate = ranked(&Machine::h200(), problem, &Request::default()).remove(0);
        let KernelKey::Sm90(key) = candidate.key else { panic!("of another family: {candidate}") };
        (key, candidate)
    }

    #[test]
    fn a_large_square_takes_a_large_tile_in_clusters() {
        let (key, candidate) = best(Problem::new(8192, 8192, 8192));
        assert!(key.tile.rows * key.tile.columns >= 128 * 256, "{candidate}");
        assert!(key.cluster.blocks() == 2 && key.stages >= 3 && !key.swap_ab, "{candidate}");
        assert_eq!(candidate.split_k, SplitK::None);
        // 788 TFLOP/s have been measured for another library; 989 is the data sheet's number.
        let tera = 2.0 * 8192f64.powi(3) / candidate.microseconds * 1e-6;
        assert!((700.0..950.0).contains(&tera), "{tera}");
        let (_, small) = best(Problem::new(1024, 1024, 1024));
        assert!((3.0..8.0).contains(&small.microseconds), "6.1 us have been measured: {small}");
    }

    #[test]
    fn few_rows_become_the_instructions_columns() {
        for m in [1, 16, 40] {
            let (key, candidate) = best(Problem::new(m, 4096, 4096));
            assert!(key.swap_ab && key.tile.columns <= 64, "{candidate}");
            assert_eq!(candidate.bound, Bound::Memory, "{candidate}");
        }
        let (key, candidate) = best(Problem::new(256, 4096, 4096));
        assert!(!key.swap_ab, "{candidate}");
    }

    #[test]
    fn few_tiles_and_a_long_k_are_split() {
        let (_, candidate) = best(Problem::new(128, 128, 16384));
        assert!(candidate.split_k == SplitK::Stream || candidate.split_k.splits() >= 4, "{candidate}");
    }

    #[test]
    fn a_group_of_multiprocessors_runs_one_large_cluster() {
        let at_once = |m, n| clusters_at_once(&Machine::h100(), Cluster { m, n });
        let all =
            [at_once(1, 1), at_once(1, 2), at_once(2, 2), at_once(8, 1), at_once(1, 12), at_once(1, 16), at_once(2, 8)];
        assert_eq!(all, [132, 66, 30, 15, 7, 7, 7]);
        assert_eq!(clusters_at_once(&Machine { multiprocessors: 16, ..Machine::h100() }, Cluster { m: 1, n: 16 }), 1);
    }

    /// Whatever is ranked fits in shared memory, divides among its cluster and satisfies the request.
    #[test]
    fn candidates_are_what_was_asked_for() {
        let problem = Problem::new(512, 768, 1024);
        let machine = Machine::h100();
        let mut tiles = BTreeSet::new();
        for tile in Tile::all() {
            for swap_ab in [false, true] {
                let request = Request { tile: Some(*tile), swap_ab: Some(swap_ab), ..Request::default() };
                for candidate in ranked(&machine, problem, &request) {
                    let KernelKey::Sm90(key) = candidate.key else { panic!("of the other family") };
                    assert!(key.tile == *tile && key.swap_ab == swap_ab && key.divides_among_cluster());
                    assert!(candidate.shared_bytes <= machine.shared_per_block, "{candidate}");
                    tiles.insert((key.tile, swap_ab));
                }
            }
        }
        assert_eq!(tiles.len(), 2 * Tile::all().len(), "every tile has a kernel");
        let cluster = Cluster { m: 2, n: 2 };
        let request = Request { cluster: Some(cluster), stages: Some(3), ..Request::default() };
        let all = ranked(&machine, problem, &request);
        assert!(!all.is_empty());
        let as_asked = |c: &Candidate| matches!(c.key, KernelKey::Sm90(k) if k.cluster == cluster && k.stages == 3);
        assert!(all.iter().all(as_asked));
        let impossible = Request { stages: Some(16), tile: Some(Tile::all()[0]), ..Request::default() };
        assert!(ranked(&machine, problem, &impossible).is_empty());
    }

    proptest! {
        /// A row of a box has at least 16 bytes, even with the narrow steps that are chosen when memory is short.
        #[test]
        fn nothing_narrow_is_copied(
            choices in prop::collection::vec(any::<u32>(), 120),
            tile in prop::sample::select(Tile::all()),
            swap_ab in prop::option::of(any::<bool>()),
            stages in prop::option::of(2..12usize),
            staging in prop::option::of(prop::sample::select(&[8usize, 16, 32, 64][..])),
            n in 1..300usize,
        ) {
            let tree = random::tree(&mut Choices::new(&choices), Profile::default());
            let tree = tree.validate(Types::new(ElementType::I8, ElementType::I8)).expect("a valid tree");
            let staging = staging.map(|step| Staging { step, output_stages: 1, input_stages: 1 });
            let request = Request { tile: Some(tile), swap_ab, stages, staging, ..Request::default() };
            let instruction = Wgmma::of(ElementType::I8, ElementType::I8, Arithmetic::Exact).expect("an instruction");
            let (a, b) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::K));
            let problem = Problem::new(256, n, 256);
            let workload = Workload { problem, cores: TensorCores::Wgmma, instruction, a, b, fast_fp8: false, tree: &tree, lines: None, needed: 1.0 };
            for candidate in candidates(&Machine::h100(), &workload, &request, |_| true) {
                let KernelKey::Sm90(key) = candidate.key else { panic!("of the other family") };
                let traffic = Traffic::of(&tree, key.direct);
                for (_, element) in traffic.inputs.iter().chain(&traffic.outputs) {
                    let (_, columns) = shared::epilogue_box(&key, *element);
                    prop_assert!(columns * element.size() >= 16, "{element} in {}", candidate);
                }
            }
        }
    }

    #[test]
    fn operands_out_of_reach_have_no_kernel() {
        let tree = valid(ElementType::BF16);
        let packed = OperandLayout::packed(Major::K);
        let narrow = OperandLayout { copy_bytes: 8, ..packed };
        let problem = Problem::new(256, 256, 256);
        let workload = Workload {
            problem,
            cores: TensorCores::Wgmma,
            instruction: Wgmma::Bf16,
            a: narrow,
            b: packed,
            fast_fp8: false,
            tree: &tree,
            lines: None,
            needed: 1.0,
        };
        assert!(rank(&Machine::h100(), &workload, |_| true).is_empty());
        let mn = OperandLayout::packed(Major::Mn);
        let tree = valid(ElementType::F8E4M3);
        let fp8 = Wgmma::of(ElementType::F8E4M3, ElementType::F8E4M3, Arithmetic::Exact).expect("an instruction");
        let workload = Workload {
            problem,
            cores: TensorCores::Wgmma,
            instruction: fp8,
            a: packed,
            b: mn,
            fast_fp8: false,
            tree: &tree,
            lines: None,
            needed: 1.0,
        };
        assert!(rank(&Machine::h100(), &workload, |_| true).is_empty());
        assert!(!rank(&Machine::h100(), &Workload { b: packed, ..workload }, |_| true).is_empty());
    }
}
