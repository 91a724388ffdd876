//! The kernels for sm_90a on the emulated device, knob by knob, with the race detector on.

use epilogue::evt::random::Choices;
use epilogue::evt::{Axis, BroadcastClass, Form, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::sm90::{Cluster, Hint, Hints, Raster, Request, Schedule, Staging, Tile, Traffic};
use epilogue::gemm::{Arithmetic, Builder, Error, KernelKey, Major, Problem, SplitK};
use epilogue::{Argument, Device, ElementType, ops};
use epilogue_runtime::ptx_vm::{Completion, Detector, Module, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};

pub(crate) const BF16: Family = Family {
    elements: (ElementType::BF16, ElementType::BF16),
    arithmetic: Arithmetic::Exact,
    hopper: true,
    repacked: false,
};

/// `relu(accum + bias) + c`, with the sums of its rows: a staged vector, a tensor in and one out, a reduction.
pub(crate) fn tree() -> Tree {
    let mut b = TreeBuilder::new("layer", file!());
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let x = b.apply(Op::Add, &[accum, bias]);
    let zero = b.literal(0.0);
    let x = b.apply(Op::Max, &[x, zero]);
    let d = b.apply(Op::Add, &[x, c]);
    b.output("d", d, BroadcastClass::Tensor, None);
    let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let sums = b.reduce(sum, d);
    b.output("sums", sums, BroadcastClass::ColumnVector, Some(ElementType::F32));
    b.finish()
}

/// `accum`, as it is.
pub(crate) fn plain() -> Tree {
    let mut b = TreeBuilder::new("plain", file!());
    let accum = b.accum("accum");
    b.output("d", accum, BroadcastClass::Tensor, None);
    b.finish()
}

pub(crate) fn tile(rows: usize, columns: usize, schedule: Schedule) -> Tile {
    let find = |t: &&Tile| (t.rows, t.columns, t.schedule) == (rows, columns, schedule);
    *Tile::all().iter().find(find).expect("a tile")
}

/// Kernels of a tile, without clusters.
pub(crate) fn alone(rows: usize, columns: usize, schedule: Schedule) -> Request {
    Request { tile: Some(tile(rows, columns, schedule)), cluster: Some(Cluster::NONE), ..Request::default() }
}

pub(crate) fn device(completion: Completion, seed: u64) -> Device {
    let options = Options::default().detector(Detector::On).completion(completion).seed(seed);
    Device::emulated_with(Arch::SM_90A, options).expect("an emulated device")
}

/// Small tiles of both schedules, with A and B swapped and not.
pub(crate) fn small_tiles() -> [Request; 4] {
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let tiles =
        [(64, 64, in_turns, false), (64, 32, together, true), (128, 64, together, false), (64, 64, in_turns, true)];
    tiles.map(|(rows, columns, schedule, swap_ab)| Request {
        tile: Some(tile(rows, columns, schedule)),
        swap_ab: Some(swap_ab),
        cluster: Some(Cluster::NONE),
        ..Request::default()
    })
}

/// The kernel for a tree on a GPU of four multiprocessors.
pub(crate) fn planned(device: &Device, tree: Tree, request: Request) -> Kernel {
    let name = tree.name();
    let builder = Builder::new(device, tree).problem(64, 64, 64).multiprocessors(4).sm90(request);
    let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
    kernel.unwrap_or_else(|error| panic!("{name}: {request}: {error}"))
}

fn builder(device: &Device, request: Request) -> Builder {
    Builder::new(device, tree()).problem(64, 64, 64).multiprocessors(4).sm90(request)
}

/// Small kernels with every knob turned: exactly what was asked for runs, and its results are correct.
#[test]
fn every_knob_is_obeyed_and_right() {
    const NAME: &str = "hopper::every_knob_is_obeyed_and_right";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let small = Request { tile: Some(tile(64, 64, Schedule::Cooperative)), stages: Some(3), ..Request::default() };
    let ping_pong = Request { tile: Some(tile(64, 64, Schedule::PingPong)), ..small };
    let cached = Hints { a: Hint::First, b: Hint::Last, outputs: Hint::First };
    let staging = Staging { step: 16, output_stages: 3, input_stages: 3 };
    let requests = [
        Request { pending: Some(0), ..small },
        Request { pending: Some(0), swap_ab: Some(true), ..ping_pong },
        Request { hints: Some(cached), cluster: Some(Cluster { m: 2, n: 1 }), ..small },
        Request { hints: Some(Hints { a: Hint::Last, ..cached }), swap_ab: Some(true), ..small },
        Request { raster: Some(Raster { group: 1024, along_n: true }), ..ping_pong },
        Request { staging: Some(staging), ..small },
        Request { cluster: Some(Cluster { m: 2, n: 4 }), split_k: Some(SplitK::Parallel(2)), ..small },
    ];
    for (i, request) in requests.into_iter().enumerate() {
        let device = device([Completion::Lazy, Completion::Random][i % 2], i as u64);
        let builder = builder(&device, request).dependent_launch(i % 2 == 1);
        // A cluster divides rows among its blocks, but no box of 64.
        let b_major = if request.cluster.is_some() { Major::K } else { Major::Mn };
        let kernel =
            Kernel::planned(builder, &BF16, (Major::K, b_major)).unwrap_or_else(|error| panic!("{request}: {error}"));
        let chosen = kernel.gemm().choice().kernel().expect("a kernel").clone();
        let KernelKey::Sm90(key) = chosen.key else { panic!("{request}: of the other family") };
        assert!(request.tile.is_none_or(|x| x == key.tile) && request.stages.is_none_or(|x| x == key.stages));
        assert!(request.pending.unwrap_or(1) == key.pending && request.hints.unwrap_or_default() == key.hints);
        assert!(request.raster.is_none_or(|x| x == key.raster) && request.staging.is_none_or(|x| x == key.staging));
        assert_eq!(request.split_k.unwrap_or_default(), chosen.split_k, "{request}");
        assert!(request.cluster.is_none_or(|x| x == key.cluster), "{request}");
        assert_eq!(key.dependent_launch, i % 2 == 1);
        let mut choices = [i as u32 + 1, 77, 5];
        for extents in [(150, 72, 200), (64, 130, 0), (1, 3, 65)] {
            choices[1] += 1;
            let problem = Problem::new(extents.0, extents.1, extents.2);
            kernel.product(problem, &mut Choices::new(&choices)).unwrap_or_else(|error| panic!("{request}: {error}"));
        }
    }
}

/// Six functions for every element, of one accumulator or the difference of two, a tensor in and one out, and
/// reductions along each axis.
fn heavy(accumulators: usize) -> Tree {
    let mut b = TreeBuilder::new("heavy", file!());
    let mut accum = b.accum("accum");
    if accumulators == 2 {
        let other = b.accum("other");
        accum = b.apply(Op::Sub, &[accum, other]);
    }
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let scale = b.parameter("scale", ParameterClass::ColumnVector, None);
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let x = b.apply(Op::Add, &[accum, bias]);
    let mut x = b.apply(Op::Mul, &[x, scale]);
    for function in [ops::tanh::function(), ops::erf::function(), ops::sigmoid::function()] {
        let y = b.call(function, &[x]);
        let z = b.call(function, &[c]);
        let y = b.apply(Op::Add, &[y, z]);
        x = b.apply(Op::Sub, &[x, y]);
    }
    b.output("d", x, BroadcastClass::Tensor, None);
    let reduction = |axis, op| Reduction { axis, batch: false, op, form: Form::Complete };
    let sums = b.reduce(reduction(Axis::Row, ReduceOp::Add), x);
    b.output("sums", sums, BroadcastClass::ColumnVector, None);
    let most = b.reduce(reduction(Axis::Column, ReduceOp::Max), x);
    b.output("most", most, BroadcastClass::RowVector, None);
    let amax = b.reduce(reduction(Axis::All, ReduceOp::AbsMax), x);
    b.output("amax", amax, BroadcastClass::Scalar, None);
    b.finish()
}

/// Heavy epilogues on tiles with many accumulators per thread: their code is a loop over groups of columns.
#[test]
fn the_code_of_heavy_epilogues_is_gone_through_several_times() {
    const NAME: &str = "hopper::the_code_of_heavy_epilogues_is_gone_through_several_times";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    for (i, (rows, columns, schedule, swap_ab, accumulators)) in [
        (128, 160, in_turns, false, 1),
        (128, 128, together, true, 1),
        (256, 96, together, false, 1),
        (256, 128, together, false, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let request = Request {
            tile: Some(tile(rows, columns, schedule)),
            swap_ab: Some(swap_ab),
            staging: Some(Staging { step: 32, output_stages: 1 + i % 2, input_stages: 2 - i % 2 }),
            ..Request::default()
        };
        let builder =
            Builder::<()>::new(&device, heavy(accumulators)).problem(64, 64, 64).multiprocessors(1).sm90(request);
        let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{request}: {error}"));
        let gemm = kernel.gemm();
        let KernelKey::Sm90(key) = gemm.choice().kernel().expect("a kernel").key else { panic!("of the other family") };
        let rounds = key.epilogue_rounds(gemm.tree().cost(), &Traffic::of(gemm.tree(), key.direct));
        assert!(rounds > 1, "{request}: {rounds}");
        for (j, (m, n, k)) in [(rows + 33, columns + 40, 65), (5, 8, 0)].into_iter().enumerate() {
            let result = kernel.product(Problem::new(m, n, k), &mut Choices::new(&[i as u32, j as u32, 4]));
            result.unwrap_or_else(|error| panic!("{request}: {m}x{n}x{k}: {error}"));
        }
    }
}

/// One plan of each kind runs product after product on one workspace: with every number of k-tiles from none to three
/// times the stages, whole and with a remainder. The number of tiles is no multiple of the cluster's, or of those that
/// a block takes.
#[test]
fn products_one_after_the_other() {
    const NAME: &str = "hopper::products_one_after_the_other";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let request = |rows, columns, schedule, (m, n), split_k| Request {
        tile: Some(tile(rows, columns, schedule)),
        stages: Some(2),
        cluster: Some(Cluster { m, n }),
        split_k: Some(split_k),
        ..Request::default()
    };
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let kernels = [
        (request(64, 64, in_turns, (1, 1), SplitK::None), 1),
        (request(64, 64, in_turns, (2, 1), SplitK::Serial(2)), 4),
        (request(64, 96, in_turns, (1, 1), SplitK::Parallel(3)), 2),
        (request(128, 64, together, (1, 2), SplitK::Serial(3)), 2),
        (request(64, 64, together, (2, 2), SplitK::Parallel(2)), 4),
        (request(192, 128, together, (1, 1), SplitK::None), 1),
        (request(64, 32, together, (4, 1), SplitK::None), 4),
    ];
    let shapes = [(150, 129), (33, 17), (65, 300), (320, 64), (200, 200)];
    for (i, (request, multiprocessors)) in kernels.into_iter().enumerate() {
        let completion = [Completion::Random, Completion::Lazy, Completion::Eager][i % 3];
        let device = device(completion, 31 * i as u64);
        let builder = builder(&device, request).multiprocessors(multiprocessors);
        let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{request}: {error}"));
        for blocks in 0..=6 {
            let (m, n) = shapes[(i + blocks) % shapes.len()];
            let k = (64 * blocks).saturating_sub([0, 1, 31, 63][(i + blocks) % 4]);
            let problem = Problem::new(m, n, k);
            let result = kernel.product(problem, &mut Choices::new(&[i as u32, blocks as u32, 4]));
            result.unwrap_or_else(|error| panic!("{request}: {problem:?}: {error}"));
        }
    }
}

#[test]
fn what_no_kernel_can_be_is_refused_with_its_reason() {
    let device = device(Completion::Eager, 0);
    let error = |element, request| {
        let builder = builder(&device, request).elements(element, element);
        let k_major = epilogue::gemm::OperandLayout::packed(Major::K);
        let refused = builder.layouts(k_major, k_major).choose().expect_err("no such kernel");
        assert!(matches!(refused, Error::NoKernel { .. } | Error::Knob { .. }), "{refused:?}");
        refused.to_string()
    };
    let large = Request { tile: Some(tile(256, 128, Schedule::Cooperative)), ..Request::default() };
    let text = error(ElementType::F16, Request { stages: Some(9), ..large });
    assert_eq!(
        text,
        "no kernel with 256x128 by 2 warpgroups, 9 stages can run this epilogue: shared memory has no room for so \
         many stages beside the tile and the epilogue: ask for fewer"
    );
    let narrow = Request { tile: Some(tile(64, 8, Schedule::Cooperative)), ..Request::default() };
    let text = error(ElementType::F16, Request { cluster: Some(Cluster { m: 2, n: 1 }), ..narrow });
    assert!(text.contains("the tile does not divide among the cluster"), "{text}");
    let staging = Staging { step: 64, output_stages: 1, input_stages: 1 };
    let text = error(ElementType::F16, Request { staging: Some(staging), ..narrow });
    assert_eq!(text, "the staging's step is 64 columns; it must be one that divides the tile's 8 columns");
    let text = error(ElementType::F8E4M3, Request { pending: Some(1), ..Request::default() });
    assert!(text.contains("ask for 0 pending stages"), "{text}");
    let text = error(ElementType::F16, Request { pending: Some(7), ..large });
    assert_eq!(text, "the number of stages whose products are pending is 7; it must be 0 or 1");
}

/// Knobs that all kernels have don't exclude the better family.
#[test]
fn a_split_alone_leaves_the_choice_among_both_families() {
    let device = device(Completion::Eager, 0);
    let builder = Builder::<()>::new(&device, plain()).elements(ElementType::BF16, ElementType::BF16);
    let choice = builder.problem(256, 256, 16384).split_k(SplitK::Serial(4)).choose().expect("a kernel");
    let chosen = choice.kernel().expect("a kernel");
    assert!(matches!(chosen.key, KernelKey::Sm90(_)) && chosen.split_k == SplitK::Serial(4), "{chosen}");
}

/// D = A · B, then E = D · W + D. The second begins before the first has ended, and nothing of D is read too early.
/// Without its wait the second would read too early, and the detector reports it.
#[test]
fn dependent_launches_wait_for_what_they_read() {
    const NAME: &str = "hopper::dependent_launches_wait_for_what_they_read";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let mut b = TreeBuilder::new("residual", file!());
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let sum = b.apply(Op::Add, &[accum, c]);
    b.output("d", sum, BroadcastClass::Tensor, None);
    let residual = b.finish();
    let request = Request { tile: Some(tile(64, 64, Schedule::Cooperative)), ..Request::default() };
    for completion in [Completion::Eager, Completion::Lazy, Completion::Random] {
        let device = device(completion, 5);
        let plan = |tree: &Tree, split_k| {
            let builder = Builder::<()>::new(&device, tree.clone()).elements(ElementType::F16, ElementType::F16);
            let builder = builder.problem(80, 80, 80).sm90(request).split_k(split_k).dependent_launch(true);
            builder.plan().expect("a plan")
        };
        let (first, second) = (plan(&plain(), SplitK::Parallel(2)), plan(&residual, SplitK::Serial(2)));
        let small = |i: usize, of: usize| f32::from(i16::try_from(i % of).unwrap_or(0)) / 8.0;
        let host: Vec<f32> = (0..80 * 80).map(|i| small(i * 7, 5)).collect();
        let identity: Vec<f32> = (0..80 * 80).map(|i| if i / 80 == i % 80 { 1.0 } else { 0.0 }).collect();
        let half = |values: &[f32]| {
            let bytes = epilogue::evt::reference::encode(
                ElementType::F16,
                &values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>(),
            );
            device.tensor_from_bytes(ElementType::F16, &bytes, [80, 80]).expect("a tensor")
        };
        let (a, w) = (half(&host), half(&identity));
        let (mut d, mut e) = (half(&[7.0; 80 * 80]), half(&[7.0; 80 * 80]));
        let stream = device.default_stream();
        for _ in 0..3 {
            first.run_arguments(&stream, &a, &w, &[Argument::Output(&mut d)]).expect("it runs");
            let arguments = [Argument::Input(&d), Argument::Output(&mut e)];
            second.run_arguments(&stream, &d, &w, &arguments).expect("it runs");
        }
        // A · I = A, and A · I + A = 2A: all of them are exact in f16.
        let read = |t: &epilogue::DeviceTensor| {
            epilogue::evt::reference::decode(ElementType::F16, &t.to_bytes().expect("bytes"))
        };
        let doubled: Vec<f64> = host.iter().map(|x| 2.0 * f64::from(*x)).collect();
        assert_eq!(read(&e), doubled);

        let kernel = second.kernel().expect("a kernel");
        let ptx = kernel.ptx().replace("griddepcontrol.wait;", "");
        assert_ne!(ptx, kernel.ptx());
        first.run_arguments(&stream, &a, &w, &[Argument::Output(&mut d)]).expect("it runs");
        device.substitute(kernel.name(), Some(Module::parse(&ptx).expect("PTX"))).expect("emulated");
        let arguments = [Argument::Input(&d), Argument::Output(&mut e)];
        let early = second.run_arguments(&stream, &d, &w, &arguments).expect_err("it reads too early").to_string();
        assert!(early.contains("griddepcontrol.wait has not been executed"), "{early}");
    }
}
