//! Products whose tiles are left out by positions, on the CPU and in kernels of both families: nothing is multiplied
//! there, and nobody can tell.

use epilogue::evt::Tree;
use epilogue::evt::random::Choices;
use epilogue::gemm::sm90::{Cluster, Request, Schedule, Tile};
use epilogue::gemm::{Arithmetic, Builder, Instruction, Left, Major, OperandLayout, Problem, SplitK, rows};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Module, Options};
use epilogue_runtime::{Output, testing};
use epilogue_testing::case::{Family, Kernel};
use half::f16;

use crate::groups::rough;
use crate::hopper::{BF16, device, planned, tile};

/// Future elements are hidden; sums of rows and columns are of all tiles.
#[epilogue]
fn causal(accum: Accum, c: Tensor, past: DeviceScalar<i32>) -> (Tensor, ColumnVector, RowVector) {
    let d = if column() > row() + integer(past) { -4.0 } else { accum * 2.0 + c };
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Max);
    (d, row_sums, column_sums)
}

/// A band of two products, but for batches that are not long enough.
#[epilogue]
fn band(gate: Accum, up: Accum, length: DeviceScalar<i64>) -> (Tensor, Tensor<bool>) {
    let far = row() - column() > 40 || column() - row() > 40;
    let inside = row() < integer(length) && column() < integer(length);
    let d = if far || !inside { 0.0 } else { relu(gate) * up };
    let seen = !far;
    (d, seen)
}

/// A softmax under a causal mask: both of its reductions are of what is hidden, too.
#[epilogue]
fn attention(accum: Accum, scale: Scalar) -> Tensor<f32> {
    let x = if column() > row() { f32::NEG_INFINITY } else { accum * scale };
    let e = exp(x - reduction_op(x, Row, Max));
    let d = e / reduction_op(e, Row, Add);
    d
}

/// Below the diagonal a tensor is written, elsewhere it stays.
#[epilogue]
fn lower(accum: Accum, c: TensorMut) -> Tensor {
    let c = if column() <= row() { accum } else { c };
    c
}

fn trees() -> [Tree; 4] {
    [Causal::tree(), Band::tree(), Attention::tree(), Lower::tree()]
}

/// Extents with tiles on all sides of the diagonal, and with parts of tiles.
const SHAPES: [(usize, usize, usize, usize); 3] = [(200, 140, 72, 1), (70, 200, 200, 2), (130, 130, 0, 1)];

#[track_caller]
fn check(kernel: &Kernel, name: &str, seed: u32) {
    for (i, (m, n, k, batch)) in SHAPES.into_iter().enumerate() {
        let problem = Problem::new(m, n, k);
        let problem = if batch == 1 { problem } else { problem.batched(batch) };
        let result = kernel.product(problem, &mut Choices::new(&[seed, i as u32, 3, 50, 5, 13]));
        result.unwrap_or_else(|error| panic!("{name}: {problem:?}: {error}"));
    }
}

fn of(tile: Tile, swap_ab: bool, (m, n): (usize, usize), split_k: SplitK) -> Request {
    Request {
        tile: Some(tile),
        swap_ab: Some(swap_ab),
        stages: Some(3),
        cluster: Some(Cluster { m, n }),
        split_k: Some(split_k),
        ..Request::default()
    }
}

/// Tiles of both schedules, in clusters along both extents, with every split of K.
fn requests() -> [Request; 6] {
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    [
        of(tile(64, 64, together), false, (1, 1), SplitK::None),
        Request { pending: Some(0), ..of(tile(64, 64, in_turns), false, (2, 1), SplitK::Serial(2)) },
        of(tile(128, 64, together), true, (1, 2), SplitK::Stream),
        of(tile(128, 64, in_turns), true, (1, 1), SplitK::Parallel(2)),
        of(tile(128, 64, together), false, (2, 2), SplitK::None),
        Request { pending: Some(0), ..of(tile(64, 32, together), true, (1, 1), SplitK::Stream) },
    ]
}

#[test]
fn on_sm_90a() {
    if testing::compiler("masked::on_sm_90a").is_none() {
        return;
    }
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        for (j, tree) in trees().into_iter().enumerate() {
            // The last tile has no room for two accumulators.
            if (i + j) % 2 == 0 && (i, j) != (5, 1) {
                check(&planned(&device, tree, request), &request.to_string(), i as u32);
            }
        }
    }
}

#[test]
fn on_sm_80_and_on_the_cpu() {
    let splits = [SplitK::None, SplitK::Serial(3), SplitK::Parallel(2), SplitK::Stream];
    let emulated = testing::compiler("masked::on_sm_80_and_on_the_cpu").is_some();
    for (i, (element, split_k)) in
        [ElementType::F16, ElementType::F64, ElementType::I8, ElementType::BF16].into_iter().zip(splits).enumerate()
    {
        let family =
            Family { elements: (element, element), arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
        let layout = (Major::K, [Major::K, Major::Mn][i % 2]);
        for tree in trees().into_iter().skip(i % 2).step_by(2) {
            let cpu = Builder::new(&Device::cpu(), tree.clone()).problem(64, 64, 64);
            check(&Kernel::planned(cpu, &family, layout).expect("a plan"), "the CPU", i as u32);
            if !emulated {
                continue;
            }
            let options = Options::default().detector(Detector::On).completion(Completion::Lazy).seed(i as u64);
            let device = Device::emulated_with(Arch::SM_80, options).expect("an emulated device");
            let tiles = epilogue::gemm::Tile::all(
                Instruction::of(element, element, Arithmetic::Exact).expect("an instruction"),
            );
            let several = tree.accumulators().len() > 1;
            let builder = Builder::new(&device, tree).problem(64, 64, 64).split_k(split_k);
            let builder = if several { builder } else { builder.tile(tiles[tiles.len() - 1 - i % 2]) };
            let kernel = Kernel::planned(builder, &family, layout).expect("a plan");
            check(&kernel, &format!("{element} {split_k:?}"), i as u32);
        }
    }
}

/// Groups of rows, rows that the kernel picks, weights of 8 bits, and FP8 whose sums are promoted: other producers and consumers.
#[test]
fn by_other_ways_through_a_product() -> Result<(), Error> {
    if testing::compiler("masked::by_other_ways_through_a_product").is_none() {
        return Ok(());
    }
    for (i, arch) in [Arch::SM_90A, Arch::SM_80].into_iter().enumerate() {
        let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(i as u64);
        let device = Device::emulated_with(arch, options)?;
        let (m, n, k) = (260, 136, 72);
        let (a, b) = (rough(&device, &[m, k], 1)?, rough(&device, &[3, k, n], 2)?);
        let offsets = device.tensor(&[0i32, 100, 100, m as i32], [4])?;
        let grouped = rows(&a).in_groups(&offsets);
        let index = device.tensor(&(0..m).map(|row| (row * 7 % m) as i32).collect::<Vec<_>>(), [m])?;
        let one = b.slice(0, 0..1)?.reshape([k, n])?;
        of_lower(&device, grouped, &b, [m, n])?;
        of_lower(&device, rows(&a).picked(&index).into(), &one, [m, n])?;
        let bytes: Vec<i8> = (0..n * k).map(|i| (i * 7 % 15) as i8 - 7).collect();
        of_lower(&device, (&a).into(), &device.tensor(&bytes, [n, k])?.transpose()?, [m, n])?;
    }
    let fp8 = Family { elements: (ElementType::F8E4M3, ElementType::F8E4M3), ..BF16 };
    for (i, request) in requests().into_iter().take(2).enumerate() {
        let device = device(Completion::Lazy, i as u64);
        let builder = Builder::new(&device, Causal::tree()).problem(64, 64, 64).multiprocessors(4);
        let builder = builder.sm90(Request { pending: None, ..request });
        let kernel = Kernel::planned(builder, &fp8, (Major::K, Major::K)).unwrap_or_else(|error| panic!("{error}"));
        check(&kernel, "FP8", i as u32);
    }
    Ok(())
}

/// A product that writes below the diagonal only.
fn of_lower(device: &Device, a: Left<'_>, b: &DeviceTensor, shape: [usize; 2]) -> Result<(), Error> {
    let mut c = device.full::<f16>(shape, f16::from_f32(3.0))?;
    let gemm = Gemm::builder::<Lower>(device).operands(a, b)?.multiprocessors(4).ignore_unsupported_knobs().plan()?;
    let reference = gemm.reference(a, b, Lower { c: &mut c })?;
    gemm.run(a, b, Lower { c: &mut c })?;
    device.check()?;
    reference.compare("c", &c)?.check()?;
    Ok(())
}

#[test]
fn a_choice_says_how_much_is_left_out() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    let of = |tree: Tree, m: usize| {
        let builder = Builder::<()>::new(&device, tree).elements(ElementType::BF16, ElementType::BF16);
        builder.problem(m, 4096, 128).choose()
    };
    let half = of(Lower::tree(), 4096)?.to_string();
    assert!(half.contains("; positions leave 48 % of the product out"), "{half}");
    // The content of memory isn't known yet.
    let unknown = of(Causal::tree(), 4096)?.to_string();
    assert!(!unknown.contains("positions leave"), "{unknown}");
    let time = |choice: &epilogue::gemm::Choice| choice.kernel().map_or(0.0, |kernel| kernel.microseconds);
    assert!(time(&of(Lower::tree(), 4096)?) < time(&of(Causal::tree(), 4096)?));
    Ok(())
}

/// Whether products of this kernel are right.
fn is_right(device: &Device, gemm: &Gemm<Causal>) -> Result<bool, Error> {
    for (m, n, k) in [(200, 264, 72), (130, 400, 200)] {
        let (a, c) = (rough(device, &[m, k], 1)?, rough(device, &[m, n], 3)?);
        let b = rough(device, &[n, k], 2)?.transpose()?;
        let past = device.tensor(&[7i32], [1])?.reshape([])?;
        let mut d = device.full::<f16>([m, n], f16::ONE)?;
        let (mut row_sums, mut column_sums) = (device.zeros::<f32>([m])?, device.zeros::<f32>([n])?);
        let expected = {
            let (d, row_sums, column_sums) = (&mut d, &mut row_sums, &mut column_sums);
            gemm.reference(&a, &b, Causal { c: &c, past: &past, d, row_sums, column_sums })?
        };
        let (to, of_rows, of_columns) = (&mut d, &mut row_sums, &mut column_sums);
        gemm.run(&a, &b, Causal { c: &c, past: &past, d: to, row_sums: of_rows, column_sums: of_columns })?;
        device.check()?;
        if expected.compare("d", &d)?.check().is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A kernel whose text has a mistake: a tile too many is left out, or one that a part of the kernel multiplies and another
/// doesn't. The last of each family says that tiles are left out at all.
#[test]
fn mistakes_are_found() -> Result<(), Error> {
    let Some(compiler) = testing::compiler("masked::mistakes_are_found") else { return Ok(()) };
    let of_both = [
        ("", ""),
        ("m + rows < end_m ? m + rows : end_m", "m + 1"),
        ("Rectangle{m, last_m - 1, n, last_n - 1, batch}", "Rectangle{m, m, n, last_n - 1, batch}"),
        ("Rectangle{m, last_m - 1, n, last_n - 1, batch}", "Rectangle{m, last_m - 1, n + 64, last_n - 1, batch}"),
    ];
    let of_sm80 = [("needed ? part.k_end : part.k_begin", "needed ? part.k_begin : part.k_end"), SKIPPED_ON_SM80];
    let of_sm90 = [
        ("as_needed<Config>(work, parameters, cluster.rank)", "work"),
        ("as_needed<Config>(unit, parameters, cluster.rank)", "unit"),
        ("static_cast<int>(rank % Config::CLUSTER_M) * Config::TILE_M", "0"),
        ("Config::CLUSTER_M * Config::TILE_M, Config::CLUSTER_N", "Config::TILE_M, Config::CLUSTER_N"),
        ("FROM_ZEROS || kt != 0", "kt != 0 && false"),
        ("                set_zero(acc);\n", ""),
        ("loaded && (!FROM_ZEROS || k_tiles > 0)", "loaded"),
        ("if constexpr (Config::PENDING == 0) last_begun();", ""),
        (
            "                    __syncwarp();\n                    if constexpr (Config::PENDING",
            "if constexpr (Config::PENDING",
        ),
        SKIPPED_ON_SM90,
    ];
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let own: &[(&str, &str)] = if arch == Arch::SM_80 { &of_sm80 } else { &of_sm90 };
        for (i, (of, into)) in of_both.iter().chain(own).enumerate() {
            let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(i as u64);
            let device = Device::emulated_with(arch, options)?;
            let builder = Gemm::builder::<Causal>(&device).elements(ElementType::F16, ElementType::F16);
            let along_k = OperandLayout::packed(Major::K);
            let builder = builder.problem(200, 264, 72).layouts(along_k, along_k);
            let builder = match arch {
                Arch::SM_90A => {
                    // Both ways to wait for products.
                    let schedule = if of.contains("PENDING") { Schedule::PingPong } else { Schedule::Cooperative };
                    builder.multiprocessors(4).sm90(of_cluster(schedule))
                }
                _ => builder.split_k(SplitK::None),
            };
            let gemm = builder.plan()?;
            let (Some(kernel), Some(source)) = (gemm.kernel(), gemm.kernel_source()) else { panic!("a kernel") };
            let mut source = source.clone();
            assert!(of.is_empty() || source.code.contains(of), "{of}");
            if !of.is_empty() {
                source.code = source.code.replacen(of, into, 1);
            }
            let ptx = compiler.compile(&source, arch, Output::Ptx)?.ptx;
            device.substitute(kernel.name(), Some(Module::parse(&ptx).expect("PTX")))?;
            let right = is_right(&device, &gemm);
            assert_eq!(matches!(right, Ok(true)), of.is_empty(), "{of} -> {into}: {right:?}");
        }
    }
    Ok(())
}

/// A tile that is left out reads where nothing is.
const SKIPPED_ON_SM80: (&str, &str) =
    ("needed ? part.k_end : part.k_begin", "needed ? part.k_end : *static_cast<const volatile int*>(nullptr)");
const SKIPPED_ON_SM90: (&str, &str) =
    ("            work.k_tiles = 0;", "            work.k_tiles = *static_cast<const volatile int*>(nullptr);");

/// Tiles in clusters, some of whose blocks have tiles that need their product beside others that don't.
fn of_cluster(schedule: Schedule) -> Request {
    let pending = (schedule == Schedule::PingPong).then_some(0);
    Request { pending, ..of(tile(64, 64, schedule), false, (2, 1), SplitK::None) }
}
