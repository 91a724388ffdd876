//! Epilogues that are computed from their own reductions, with all phases in the tile: where lines lie whole in one, and what
//! happens if they don't.

use std::ops::RangeFrom;

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::{InTile, Tree, Types, WholeLines};
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{Arithmetic, Builder, Error, Finish, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel, choices};
use half::bf16;

use crate::hopper::{BF16, device, tile};
use crate::phases;

/// Along columns, with what rows and the whole matrix are only reduced to.
#[epilogue]
pub(crate) fn column_softmax(
    accum: Accum,
    mask: Tensor,
    weight: ColumnVector,
) -> (Tensor, RowVector, ColumnVector, DeviceScalar, RowVector) {
    let x = accum + mask;
    let e = exp(x - reduction_op(x, Column, Max)) * abs(weight);
    let total = reduction_op(e, Column, Add) + 0.5;
    let d = e / total;
    let rows = reduction_op(e, Row, Max);
    let largest = reduction_op(d, All, AbsMax);
    let squares = reduction_op(d, Column, SumSquares);
    (d, total, rows, largest, squares)
}

/// Two accumulators that a later phase needs both; and random numbers, the same in every phase.
#[epilogue]
fn gated_norm(gate: Accum, up: Accum, seed: Seed, weight: RowVector) -> (Tensor, Tensor<f32>, ColumnVector) {
    let kept = if random(seed) < 0.25 { 0.0 } else { up };
    let norm = rsqrt(reduction_op(kept, Row, SumSquares) / real(columns()) + 0.01);
    let scaled = kept * norm;
    let most = reduction_op(abs(scaled + gate), Row, Max);
    let d = (scaled * weight + gate) / (most + 1.0);
    let e = gate - scaled;
    (d, e, norm)
}

/// Truth values and integers that cross phases, an index that is used, bits, and an accumulator that is stored exactly.
#[epilogue]
fn winners(accum: Accum, open: Bits) -> (Tensor, Tensor<i32>, Bits, ColumnVector<i64>, Tensor<f32>) {
    let x = if open { accum } else { -1.0 };
    let index = reduction_op(x, Row, ArgMax);
    let best = column() == index;
    let d = if best { x } else { 0.0 };
    let place = if open && best { row() } else { -column() };
    let top = best || x > reduction_op(x, Row, Min) + 3.0;
    let first = index + 1;
    let all = accum;
    (d, place, top, first, all)
}

/// The mean and the largest distance to it, as one running result of the user's.
#[reducer]
mod range {
    const IDENTITY: (f32, f32) = (f32::INFINITY, f32::NEG_INFINITY);

    fn lift(x: f32) -> (f32, f32) {
        (x, x)
    }

    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (min(a.0, b.0), max(a.1, b.1))
    }

    fn finish(s: (f32, f32)) -> f32 {
        s.1 - s.0
    }
}

#[epilogue]
fn scaled_by_range(accum: Accum, c: TensorMut, gain: Scalar) -> (Tensor, Tensor, ColumnVector) {
    let before = c;
    let c = accum + before;
    let width = reduction_op(c, Row, range);
    let d = before * gain / (width + 1.0);
    (c, d, width)
}

pub(crate) fn of_rows() -> Vec<Tree> {
    let own = [GatedNorm::tree(), Winners::tree(), ScaledByRange::tree()];
    phases::of_rows().into_iter().chain(own).collect()
}

#[track_caller]
pub(crate) fn check(kernel: &Kernel, name: &str, seed: u32, shapes: &[(usize, usize, usize, usize)]) {
    // The first once more: nothing is left behind by earlier launches.
    for (i, &(m, n, k, batch)) in shapes.iter().enumerate().chain(shapes.iter().enumerate().take(1)) {
        let problem = Problem::new(m, n, k);
        let problem = if batch == 1 { problem } else { problem.batched(batch) };
        let result = kernel.product(problem, &mut Choices::new(&[seed, i as u32, 7, 77, 5, 13]));
        result.unwrap_or_else(|error| panic!("{name}: {problem:?}: {error}"));
    }
}

fn request(columns: usize, schedule: Schedule, swap_ab: bool) -> Request {
    let rows = if schedule == Schedule::PingPong || columns < 64 { 64 } else { 128 };
    let cluster = Some(Cluster::NONE);
    Request { tile: Some(tile(rows, columns, schedule)), swap_ab: Some(swap_ab), cluster, ..Request::default() }
}

fn planned(device: &Device, tree: Tree, (m, n): (usize, usize), request: Request) -> Kernel {
    let name = tree.name();
    let builder = Builder::new(device, tree).problem(m, n, 64).multiprocessors(4).sm90(request).finish(Finish::Tile);
    let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
    let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"));
    assert!(kernel.gemm().later_sources().next().is_none(), "{name}: one launch");
    kernel
}

/// Rows in the tiles of both schedules, with every split of K: as wide as the tile, less wide, empty, of many tiles of M.
#[test]
fn rows_on_sm_90a() {
    if testing::compiler("in_tile::rows_on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, tree) in of_rows().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let (columns, schedule) =
            [(64, Schedule::PingPong), (32, Schedule::Cooperative), (96, Schedule::Cooperative)][i % 3];
        // Two accumulators share the tile's columns.
        let (columns, most) = if tree.accumulators().len() > 1 { (128, 64) } else { (columns, columns) };
        let request = Request { split_k: Some(splits[i % 4]), ..request(columns, schedule, false) };
        let kernel = planned(&device, tree.clone(), (64, most), request);
        let shapes = [(150, most, 200, 1), (33, most - 7, 65, 2), (1, 3, 0, 3), (65, 1, 64, 1), (130, 0, 9, 1)];
        check(&kernel, tree.name(), i as u32, &shapes);
    }
}

/// Columns are the rows of kernels whose tile's rows are N.
#[test]
fn columns_on_sm_90a() {
    if testing::compiler("in_tile::columns_on_sm_90a").is_none() {
        return;
    }
    for (i, (columns, schedule)) in [(64, Schedule::PingPong), (16, Schedule::Cooperative)].into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i], i as u64);
        let split_k = Some([SplitK::Stream, SplitK::Parallel(2)][i]);
        let request = Request { split_k, ..request(columns, schedule, true) };
        let kernel = planned(&device, ColumnSoftmax::tree(), (columns, 64), request);
        let shapes = [(columns, 150, 200, 1), (columns - 7, 33, 65, 2), (3, 1, 0, 3), (0, 65, 9, 1)];
        check(&kernel, "column_softmax", i as u32, &shapes);
    }
}

/// Large tiles, whose sweeps make several rounds over the registers.
#[test]
fn rounds_on_sm_90a() {
    if testing::compiler("in_tile::rounds_on_sm_90a").is_none() {
        return;
    }
    for (i, (columns, schedule)) in [(256, Schedule::Cooperative), (256, Schedule::PingPong)].into_iter().enumerate() {
        let device = device(Completion::Random, i as u64);
        let tree = [phases::Softmax::tree(), phases::LayerNorm::tree()][i].clone();
        let kernel = planned(&device, tree.clone(), (64, 256), request(columns, schedule, false));
        check(&kernel, tree.name(), i as u32, &[(70, 256, 64, 1), (5, 250, 65, 1)]);
    }
}

/// Rows, columns and everything in the tiles of kernels for sm_80, also of one epilogue.
#[test]
fn on_sm_80() {
    if testing::compiler("in_tile::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let family = Family { hopper: false, ..BF16 };
    let instruction = Instruction::of(ElementType::BF16, ElementType::BF16, Arithmetic::Exact).expect("an instruction");
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    let wide = *Tile::all(instruction).iter().find(|tile| (tile.m, tile.n) == (32, 128)).expect("a tile");
    let square = *Tile::all(instruction).iter().find(|tile| (tile.m, tile.n) == (64, 64)).expect("a tile");
    let others = [ColumnSoftmax::tree(), phases::Crossed::tree()];
    for (i, tree) in of_rows().into_iter().chain(others).enumerate() {
        let valid = tree.validate(Types::new(ElementType::BF16, ElementType::BF16)).expect("a valid tree");
        let lines = InTile::of(&valid).expect("a way").lines();
        let tile = if i % 2 == 0 && !lines.columns { wide } else { square };
        let (m, n) = (tile.m, tile.n / tree.accumulators().len());
        let builder = Builder::new(&device, tree.clone()).problem(m, n, 64).finish(Finish::Tile);
        let builder = builder.tile(tile).split_k(splits[i % splits.len()]);
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::Mn));
        let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", tree.name()));
        let rows = if lines.columns { m } else { 150 };
        let columns = if lines.rows { n } else { 150 };
        let shapes =
            [(rows, columns, 200, 1), (rows - 7, columns - 7, 65, 2), (1, 3, 0, 3), (0, 5, 9, 1), (5, 0, 9, 1)];
        check(&kernel, tree.name(), i as u32, &shapes);
    }
}

/// Random epilogues of several phases that may all be computed in a tile: with their seeds, and the lines that must lie
/// in it.
pub(crate) fn random_trees(seeds: RangeFrom<u32>) -> impl Iterator<Item = (u32, Tree, WholeLines)> {
    let profile =
        Profile { phases: true, chance: true, bits: true, batch: false, accumulators: 2, ..Profile::default() };
    seeds.filter_map(move |seed| {
        let tree = random::tree(&mut Choices::new(&choices(seed)), profile);
        let lines = InTile::of(&tree.validate(Types::new(ElementType::BF16, ElementType::BF16)).ok()?)?.lines();
        Some((seed, tree, lines))
    })
}

/// Random epilogues of several phases, on tiles of both families.
#[test]
fn random_epilogues() {
    if testing::compiler("in_tile::random_epilogues").is_none() {
        return;
    }
    let options = || Options::default().detector(Detector::On).completion(Completion::Random);
    let mut done = 0;
    for (seed, tree, lines) in random_trees(1..) {
        if done == testing::cases(10) {
            break;
        }
        let hopper = done % 2 == 0 && lines != WholeLines { rows: true, columns: true };
        let arch = if hopper { Arch::SM_90A } else { Arch::SM_80 };
        let device = Device::emulated_with(arch, options().seed(u64::from(seed))).expect("a device");
        let builder = Builder::new(&device, tree.clone()).problem(32, 32, 64).finish(Finish::Tile);
        let kernel = match Kernel::planned(builder, &Family { hopper, ..BF16 }, (Major::K, Major::K)) {
            Ok(kernel) => kernel,
            // There is no launch to save.
            Err(error) if error.contains("has none that a launch of its own") => continue,
            Err(error) => panic!("seed {seed}: {error}"),
        };
        done += 1;
        let (tile_m, tile_n) = kernel.gemm().choice().tile();
        let (m, n) = (if lines.columns { tile_m } else { 70 }, if lines.rows { tile_n } else { 70 });
        for (i, (m, n, k)) in [(m, n, 70), (m.min(9), n.min(5), 129)].into_iter().enumerate() {
            let result = kernel.product(Problem::new(m, n, k), &mut Choices::new(&[seed, i as u32, 3, 11, 2, 6, 1]));
            result.unwrap_or_else(|error| panic!("seed {seed}: {m}x{n}x{k}: {error}"));
        }
    }
}

/// A run whose rows are wider than the planned tile goes on in launches, unless the tile was asked for.
#[test]
fn rows_beyond_the_tile() {
    if testing::compiler("in_tile::rows_beyond_the_tile").is_none() {
        return;
    }
    let device = device(Completion::Random, 3);
    let builder = || {
        let builder = Builder::new(&device, phases::Softmax::tree()).problem(64, 32, 64).multiprocessors(4);
        builder.sm90(request(32, Schedule::Cooperative, false))
    };
    let kernel = Kernel::planned(builder(), &BF16, (Major::K, Major::K)).expect("a plan");
    assert!(kernel.gemm().choice().kernel().is_some_and(|kernel| kernel.key.in_tile()), "{}", kernel.gemm().choice());
    check(&kernel, "softmax", 1, &[(40, 32, 64, 1), (40, 33, 64, 1), (3, 150, 65, 2), (40, 31, 64, 1)]);

    let asked = Kernel::planned(builder().finish(Finish::Tile), &BF16, (Major::K, Major::K)).expect("a plan");
    let problem = Problem::new(40, 33, 64);
    let refused = asked.product(problem, &mut Choices::new(&[1, 2, 3])).expect_err("it is refused");
    assert!(
        refused.contains(
            "`softmax` was planned to be computed in one tile of 64x32, where a product of 40x33 has no whole rows: plan \
             for these extents, or leave `.finish(…)` out"
        ),
        "{refused}"
    );
}

/// The bits are the same in any schedule of threads and copies, with a K that is shared.
#[test]
fn results_are_the_same_at_every_run() -> Result<(), Box<dyn std::error::Error>> {
    if testing::compiler("in_tile::results_are_the_same_at_every_run").is_none() {
        return Ok(());
    }
    let (m, n, k) = (150, 90, 200);
    let numbers = |count: usize, step: usize| -> Vec<bf16> {
        (0..count).map(|i| bf16::from_f32(((i * step) % 23) as f32 / 8.0 - 1.3)).collect()
    };
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let mut results = Vec::new();
        for seed in 0..3 {
            let options = Options::default().completion(Completion::Random).seed(seed);
            let device = Device::emulated_with(arch, options)?;
            let (a, b) = (device.tensor(&numbers(m * k, 7), [m, k])?, device.tensor(&numbers(k * n, 11), [k, n])?);
            let mask = device.zeros::<bf16>([m, n])?;
            let builder = Gemm::builder::<phases::Softmax>(&device).operands(&a, &b)?.finish(Finish::Tile);
            let gemm = builder.split_k(SplitK::Stream).plan()?;
            let (mut d, mut sum) = (device.zeros::<bf16>([m, n])?, device.zeros::<f32>([m])?);
            gemm.run(&a, &b, phases::Softmax { mask: &mask, scale: 0.3, d: &mut d, sum: &mut sum })?;
            results.push((d.to_bytes()?, sum.to_bytes()?));
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{arch}");
    }
    Ok(())
}

#[test]
fn what_can_t_be_in_a_tile_is_refused() {
    let refused = |arch: Arch, tree: Tree, (m, n): (usize, usize), finish: Finish| {
        let device = Device::emulated(arch).expect("a device");
        let builder = Builder::<()>::new(&device, tree).elements(ElementType::BF16, ElementType::BF16);
        match builder.problem(m, n, 64).finish(finish).choose() {
            Err(error @ (Error::NotInTile { .. } | Error::NothingToFinish { .. })) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let tree = phases::Softmax::tree;
    assert_eq!(
        refused(Arch::SM_90A, tree(), (4096, 8192), Finish::Tile),
        "`softmax` can't be computed in one tile: rows of 8192 columns are wider than a tile of 256; leave `.finish(…)` \
         out, or ask for `Finish::SecondLaunch`"
    );
    let on_sm_80 = refused(Arch::SM_80, tree(), (4096, 300), Finish::Tile);
    assert!(on_sm_80.contains("rows of 300 columns are wider than a tile of 256"), "{on_sm_80}");
    let columns = refused(Arch::SM_90A, ColumnSoftmax::tree(), (300, 64), Finish::Tile);
    assert!(columns.contains("columns of 300 rows are longer than a tile of 256"), "{columns}");
    let batches = refused(Arch::SM_90A, phases::BatchNorm::tree(), (64, 64), Finish::Tile);
    assert!(batches.contains("it reduces over batches"), "{batches}");
    for finish in [Finish::Tile, Finish::SecondLaunch] {
        let nothing = refused(Arch::SM_90A, phases::Factor::tree(), (64, 64), finish);
        assert!(
            nothing.starts_with("`.finish(…)` says where later phases are computed, and `factor` has none"),
            "{nothing}"
        );
    }
    let cpu = Builder::<()>::new(&Device::cpu(), tree()).elements(ElementType::F32, ElementType::F32);
    let cpu = cpu.problem(4, 4, 4).finish(Finish::Tile).choose().expect_err("it is refused").to_string();
    assert!(cpu.starts_with("`.finish(…)` has no effect on the CPU"), "{cpu}");
}

/// `choice()` says where phases are computed, and what the other way would take.
#[test]
fn the_choice_says_why() {
    let choice = |arch: Arch, n: usize| {
        let device = Device::emulated(arch).expect("a device");
        let builder = Builder::<()>::new(&device, phases::Softmax::tree());
        builder
            .elements(ElementType::BF16, ElementType::BF16)
            .problem(65536, n, 64)
            .choose()
            .expect("a choice")
            .to_string()
    };
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let narrow = choice(arch, 128);
        assert!(narrow.contains(", all phases in the tile"), "{narrow}");
        assert!(
            narrow.contains("; its 3 phases follow one another in the tile, where its lines are whole; ")
                && narrow.contains("; with launches of their own, about "),
            "{narrow}"
        );
        let wide = choice(arch, 8192);
        let on_sm_80 = "; not in one tile: rows of 8192 columns are wider than a tile of 256";
        assert!(wide.contains(on_sm_80), "{wide}");
    }
}
