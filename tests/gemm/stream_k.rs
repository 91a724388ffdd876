//! Stream-K on the emulated device: results are correct for every shape, every run gives the same bits, and the
//! workspace ends as it began.

use epilogue::evt::random::{self, Choices};
use epilogue::evt::reference;
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{Arithmetic, Builder, Error, Instruction, Knob, Major, Problem, SplitK, Tile};
use epilogue::{Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};

use crate::hopper::{BF16, plain, tile, tree};

fn device(completion: Completion, seed: u64, detector: Detector) -> Device {
    // Every fourth device has weak memory: blocks add up what others have left, and wait for their flags.
    let options = Options::default().detector(detector).completion(completion).seed(seed).weak_memory(seed % 4 == 1);
    Device::emulated_with(Arch::SM_90A, options).expect("an emulated device")
}

fn request(rows: usize, columns: usize, schedule: Schedule, cluster: (usize, usize), swap_ab: bool) -> Request {
    Request {
        tile: Some(tile(rows, columns, schedule)),
        stages: Some(3),
        cluster: Some(Cluster { m: cluster.0, n: cluster.1 }),
        swap_ab: Some(swap_ab),
        split_k: Some(SplitK::Stream),
        ..Request::default()
    }
}

/// One plan runs product after product, from no K at all to more than three times its stages, on one workspace: with
/// full and partial waves, and with tiles cut among two blocks and among many.
#[test]
fn products_of_every_kind_one_after_the_other() {
    const NAME: &str = "stream_k::products_of_every_kind_one_after_the_other";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let kernels = [
        (request(64, 64, together, (1, 1), false), 5),
        (request(64, 32, together, (2, 1), false), 6),
        (request(128, 64, together, (1, 2), true), 7),
        (request(64, 64, in_turns, (1, 1), true), 4),
        (request(64, 64, in_turns, (2, 1), false), 6),
        (request(64, 16, together, (1, 1), true), 9),
    ];
    let shapes = [(150, 129, 1), (64, 64, 2), (65, 200, 1), (320, 64, 1), (33, 17, 3)];
    for (i, (request, multiprocessors)) in kernels.into_iter().enumerate() {
        let completion = [Completion::Random, Completion::Lazy, Completion::Eager][i % 3];
        let device = device(completion, i as u64, Detector::On);
        let builder = Builder::new(&device, tree()).problem(64, 64, 64).sm90(request);
        let kernel = Kernel::planned(builder.multiprocessors(multiprocessors), &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{request}: {error}"));
        // Blocks of 64 along K; 0 to more than 3 times 3 stages.
        for (j, k) in [640, 0, 64, 65, 128, 190, 192, 449, 577, 100].into_iter().enumerate() {
            let (m, n, batch) = shapes[(i + j) % shapes.len()];
            let problem = Problem::new(m, n, k);
            let problem = if batch == 1 { problem } else { problem.batched(batch) };
            let result = kernel.product(problem, &mut Choices::new(&[i as u32, j as u32, 9]));
            result.unwrap_or_else(|error| panic!("{request}: {problem:?}: {error}"));
        }
    }
}

/// A product has the same bits for every order of blocks, copies and turns, and however often the plan has run before.
/// Its sums are rounded, so another order would show.
#[test]
fn the_same_bits_at_every_run() {
    const NAME: &str = "stream_k::the_same_bits_at_every_run";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let (m, n, k) = (150, 70, 1000);
    let value = |seed, count| random::values(&mut Choices::new(&[seed, 3]), ElementType::F16, count);
    let place = |device: &Device, shape: [usize; 2], values: &[f64]| -> DeviceTensor {
        let bytes = reference::encode(ElementType::F16, values);
        device.tensor_from_bytes(ElementType::F16, &bytes, shape).expect("a tensor")
    };
    for request in
        [request(64, 32, Schedule::Cooperative, (1, 1), false), request(64, 64, Schedule::PingPong, (1, 2), false)]
    {
        let mut first: Option<Vec<u8>> = None;
        for seed in 0..4 {
            let completion = [Completion::Random, Completion::Eager][seed as usize % 2];
            let device = device(completion, seed, Detector::Off);
            let builder = Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16);
            let k_major = epilogue::gemm::OperandLayout::packed(Major::K);
            let builder = builder.problem(m, n, k).layouts(k_major, k_major).multiprocessors(8).sm90(request);
            let gemm = builder.plan().expect("a plan");
            let a = place(&device, [m, k], &value(1, m * k));
            let b = place(&device, [n, k], &value(2, n * k)).transpose().expect("a view");
            for _ in 0..3 {
                let mut d = place(&device, [m, n], &vec![9.0; m * n]);
                let stream = device.default_stream();
                gemm.run_arguments(&stream, &a, &b, &[Argument::Output(&mut d)]).expect("it runs");
                let bytes = d.to_bytes().expect("bytes");
                assert_eq!(first.get_or_insert_with(|| bytes.clone()), &bytes, "seed {seed}: {request}");
            }
        }
    }
}

#[test]
fn the_model_streams_a_partial_wave_and_says_so() {
    let device = device(Completion::Eager, 0, Detector::Off);
    let builder = || Builder::<()>::new(&device, plain()).elements(ElementType::BF16, ElementType::BF16);
    // 168 tiles on 132 multiprocessors: two waves; the second one is nearly empty.
    let asked = |split_k| {
        let whole = Request { split_k: Some(split_k), ..request(128, 256, Schedule::Cooperative, (1, 1), false) };
        let choice = builder().problem(1792, 3072, 16384).sm90(whole).choose().expect("a kernel");
        choice.kernel().expect("a kernel").clone()
    };
    let (streamed, whole) = (asked(SplitK::Stream), asked(SplitK::None));
    assert!(streamed.microseconds < 0.75 * whole.microseconds, "{streamed}\n{whole}");
    assert!(streamed.to_string().contains("stream-K, which cuts the tiles of the last, partial wave along K"));
    assert!(streamed.to_string().contains("168 blocks in 1.27 waves"), "{streamed}");
    let choice = builder().problem(1792, 3072, 16384).choose().expect("a kernel");
    assert!(choice.candidates().iter().any(|c| c.split_k == SplitK::Stream));
    // Full waves are not cut.
    let choice = builder().problem(8192, 8192, 512).choose().expect("a kernel");
    assert!(choice.candidates().iter().all(|c| c.split_k != SplitK::Stream || c.waves.fract() != 0.0));
}

/// A kernel for sm_80 runs product after product, with fewer blocks than tiles or more: with operands copied by large
/// and by single elements, and with sums of every type.
#[test]
fn products_on_sm_80_one_after_the_other() {
    const NAME: &str = "stream_k::products_on_sm_80_one_after_the_other";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let shapes = [(150, 129, 1), (64, 64, 2), (65, 200, 1), (33, 17, 3)];
    for (i, (element, multiprocessors)) in
        [(ElementType::F16, 3), (ElementType::F64, 7), (ElementType::I8, 4), (ElementType::F32, 200)]
            .into_iter()
            .enumerate()
    {
        let completion = [Completion::Random, Completion::Lazy, Completion::Eager][i % 3];
        let device = device(completion, i as u64, Detector::On);
        let family =
            Family { elements: (element, element), arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
        let tiles = Tile::all(Instruction::of(element, element, family.arithmetic).expect("an instruction"));
        // The second smallest tile, which has more than one warp in both directions.
        let builder = Builder::new(&device, tree()).problem(64, 64, 64).tile(tiles[tiles.len() - 2]);
        let builder = builder.split_k(SplitK::Stream).multiprocessors(multiprocessors);
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::Mn)).expect("a plan");
        // From no K at all to many blocks of it per tile.
        for (j, k) in [640, 0, 64, 65, 190, 449].into_iter().enumerate() {
            let (m, n, batch) = shapes[(i + j) % shapes.len()];
            let problem = Problem::new(m, n, k);
            let problem = if batch == 1 { problem } else { problem.batched(batch) };
            let result = kernel.product(problem, &mut Choices::new(&[i as u32, j as u32, 9]));
            result.unwrap_or_else(|error| panic!("{element}: {problem:?}: {error}"));
        }
    }
}

/// On sm_80, too, every order of blocks gives the same bits.
#[test]
fn the_same_bits_at_every_run_on_sm_80() {
    const NAME: &str = "stream_k::the_same_bits_at_every_run_on_sm_80";
    if testing::compiler(NAME).is_none() {
        return;
    }
    let (m, n, k) = (150, 70, 1000);
    let tile = Tile::all(Instruction::MmaF16).iter().find(|tile| (tile.m, tile.n) == (64, 32)).expect("a tile");
    let value = |seed, count| random::values(&mut Choices::new(&[seed, 3]), ElementType::F16, count);
    let place = |device: &Device, shape: [usize; 2], values: &[f64]| -> DeviceTensor {
        let bytes = reference::encode(ElementType::F16, values);
        device.tensor_from_bytes(ElementType::F16, &bytes, shape).expect("a tensor")
    };
    let mut first: Option<Vec<u8>> = None;
    for seed in 0..4 {
        let completion = [Completion::Random, Completion::Eager][seed as usize % 2];
        let device = device(completion, seed, Detector::Off);
        let builder = Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16);
        let builder = builder.problem(m, n, k).tile(*tile).split_k(SplitK::Stream).multiprocessors(7);
        let gemm = builder.plan().expect("a plan");
        let (a, b) = (place(&device, [m, k], &value(1, m * k)), place(&device, [k, n], &value(2, n * k)));
        for _ in 0..3 {
            let mut d = place(&device, [m, n], &vec![9.0; m * n]);
            let stream = device.default_stream();
            gemm.run_arguments(&stream, &a, &b, &[Argument::Output(&mut d)]).expect("it runs");
            let bytes = d.to_bytes().expect("bytes");
            assert_eq!(first.get_or_insert_with(|| bytes.clone()), &bytes, "seed {seed}");
        }
    }
}

#[test]
fn the_model_streams_on_sm_80_where_a_wave_is_partial() {
    let device = Device::emulated(Arch::SM_80).expect("an emulated device");
    let builder = || Builder::<()>::new(&device, plain()).elements(ElementType::F16, ElementType::F16);
    // 120 tiles of 256 by 128 on 108 multiprocessors.
    let largest = Tile::all(Instruction::MmaF16)[0];
    let asked = |split_k| {
        let choice = builder().problem(3072, 1280, 8192).tile(largest).split_k(split_k).choose().expect("a kernel");
        choice.kernel().expect("a kernel").clone()
    };
    let (streamed, whole) = (asked(SplitK::Stream), asked(SplitK::None));
    assert!(streamed.microseconds < 0.75 * whole.microseconds, "{streamed}\n{whole}");
    assert!(streamed.to_string().contains("stream-K, which cuts the tiles of the last, partial wave along K"));
    assert!(streamed.to_string().contains("120 blocks in 1.11 waves"), "{streamed}");
    let chosen = builder().problem(3072, 1280, 8192).choose().expect("a kernel");
    assert_eq!(chosen.kernel().expect("a kernel").split_k, SplitK::Stream, "{chosen}");
    // Full waves are not cut.
    let choice = builder().problem(108 * 256, 1024, 2048).choose().expect("a kernel");
    assert!(choice.candidates().iter().all(|c| c.split_k != SplitK::Stream || c.waves.fract() != 0.0));
}

#[test]
fn the_cpu_refuses_it() {
    let builder = Builder::<()>::new(&Device::cpu(), plain()).elements(ElementType::F16, ElementType::F16);
    let builder = builder.problem(64, 64, 64).split_k(SplitK::Stream);
    let refused = builder.choose().expect_err("it has none");
    assert!(matches!(refused, Error::NoKnob { knob: Knob::StreamK, .. }), "{refused:?}");
    assert!(builder.ignore_unsupported_knobs().choose().is_ok());
}
