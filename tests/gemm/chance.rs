//! Random numbers: dropout, its mask again in another product, streams, seeds in memory, on the CPU and on emulated GPUs.

use epilogue::Error;
use epilogue::evt::Node;
use epilogue::evt::random::Choices;
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Problem, SplitK};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::Completion;
use epilogue_runtime::testing;
use epilogue_testing::case::choices;

use crate::hopper::{device, planned, small_tiles};

const M: usize = 70;
const N: usize = 83;

#[elementwise]
fn dropout(x: f32, u: f32, p: f32) -> f32 {
    if u < p { 0.0 } else { x / (1.0 - p) }
}

/// Two streams, and the first again.
#[epilogue]
fn forward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, Tensor<f32>, Tensor<bool>) {
    let u = random(seed);
    let y = dropout(accum, u, p);
    let v = random(seed, 1);
    let same = u == random(seed, 0);
    (y, v, same)
}

/// The mask of the forward pass in another product, and its columns' sums in the same launch.
#[epilogue]
fn backward(accum: Accum, c: Tensor<f32>, p: Scalar, seed: Seed) -> (Tensor, RowVector) {
    let d = dropout(accum + c, random(seed), p);
    let sums = reduction_op(d, Column, Add);
    (d, sums)
}

/// Philox4x32-10, word by word.
fn philox(counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut x = counter;
    for _ in 0..10 {
        let (p, q) = (u64::from(x[0]) * 0xD251_1F53, u64::from(x[2]) * 0xCD9E_8D57);
        x = [(q >> 32) as u32 ^ x[1] ^ key[0], q as u32, (p >> 32) as u32 ^ x[3] ^ key[1], p as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    x
}

fn number(seed: u64, offset: u64, row: usize, column: usize) -> f32 {
    let words = philox(
        [(column / 4) as u32, row as u32, offset as u32, (offset >> 32) as u32],
        [seed as u32, (seed >> 32) as u32],
    );
    (words[column % 4] >> 8) as f32 / 16_777_216.0
}

fn all<T>(f: impl Fn(usize, usize) -> T) -> Vec<T> {
    (0..M * N).map(|i| f(i / N, i % N)).collect()
}

fn on(device: &Device, rows: usize) -> Result<(), Error> {
    let ones = |extents: [usize; 2]| device.tensor(&vec![f16::from_f32(0.125); extents[0] * extents[1]], extents);
    // Products that are all 1, of 64 terms; and of 32 in the second one, with another kernel.
    let (a, b) = (ones([M, 64])?, ones([64, N])?);
    let (mut y, mut v, mut same) =
        (device.zeros::<f16>([M, N])?, device.zeros::<f32>([M, N])?, device.zeros::<bool>([M, N])?);
    let (seed, offset, p) = (0x0123_4567_89ab_cdef, u64::from(u32::MAX), 0.375);
    let given = Seed::with_offset(seed, offset);
    let gemm = Gemm::plan::<Forward>(device, &a, &b)?;
    gemm.run(&a, &b, Forward { p, seed: given, y: &mut y, v: &mut v, same: &mut same })?;
    let kept = |m, n| f16::from_f32(if f64::from(number(seed, offset, m, n)) < p { 0.0 } else { 1.6 });
    assert_eq!(y.to_vec::<f16>()?, all(kept));
    assert_eq!(v.to_vec::<f32>()?, all(|m, n| number(seed, offset + 1, m, n)));
    assert!(same.to_vec::<bool>()?.iter().all(|same| *same));

    let memory = device.tensor(&[seed as i64, offset as i64], [2])?;
    let (a, b) = (ones([rows, 32])?, ones([32, N])?);
    let c = device.tensor(&vec![0.5f32; rows * N], [rows, N])?;
    let (mut d, mut sums) = (device.zeros::<f16>([rows, N])?, device.zeros::<f32>([N])?);
    let gemm = Gemm::plan::<Backward>(device, &a, &b)?;
    gemm.run(&a, &b, Backward { c: &c, p, seed: Seed::in_memory(&memory), d: &mut d, sums: &mut sums })?;
    assert_eq!(d.to_vec::<f16>()?, all(kept)[..rows * N]);
    let column = |n| (0..rows).filter(|m| kept(*m, n) != f16::ZERO).count() as f32 * 1.6;
    for (n, sum) in sums.to_vec::<f32>()?.into_iter().enumerate() {
        assert!((sum - column(n)).abs() < 1e-3, "{n}: {sum} and not {}", column(n));
    }
    // Another seed, with the same kernel.
    gemm.run(&a, &b, Backward { c: &c, p, seed: Seed::new(1), d: &mut d, sums: &mut sums })?;
    assert_ne!(d.to_vec::<f16>()?, all(kept)[..rows * N]);
    Ok(())
}

#[test]
fn numbers_follow_from_the_position_alone() -> Result<(), Error> {
    on(&Device::cpu(), M)?;
    if testing::compiler("chance::numbers_follow_from_the_position_alone").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        // Few rows are computed with A and B swapped.
        for rows in [M, 5] {
            on(&Device::emulated(arch)?, rows)?;
        }
    }
    Ok(())
}

/// Lanes of both orientations, units of both widths, and every split of K.
#[test]
fn on_tiles_of_sm_90a() {
    if testing::compiler("chance::on_tiles_of_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, (request, split_k)) in small_tiles().into_iter().zip(splits).enumerate() {
        let device = device(Completion::Random, i as u64);
        let request = Request { split_k: Some(split_k), ..request };
        for tree in testing::some_of([Forward::tree(), Backward::tree()]) {
            let kernel = planned(&device, tree, request);
            for (problem, seed) in [(Problem::new(75, 69, 130), 1), (Problem::new(33, 64, 70).batched(2), 2)] {
                let result = kernel.product(problem, &mut Choices::new(&choices(seed)));
                result.unwrap_or_else(|error| panic!("{request}: {problem:?}: {error}"));
            }
        }
    }
}

#[test]
fn equal_streams_are_one_value() {
    let tree = Forward::tree();
    let randoms = tree.nodes().iter().filter(|data| matches!(data.node, Node::Random(..))).count();
    assert_eq!(randoms, 3);
    let valid = tree.validate(epilogue::evt::Types::new(ElementType::F32, ElementType::F32)).unwrap();
    let text = valid.to_string();
    assert_eq!(text.matches("random").count(), 2, "{text}");
    assert!(text.contains("random, stream 1") && text.contains("seed"), "{text}");
}

#[test]
fn closures_have_seeds() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (device.full::<f32>([3, 1], 1.0)?, device.full::<f32>([1, 9], 1.0)?);
    let mut d = device.zeros::<f32>([3, 9])?;
    let noisy = epilogue::closure!(|accum, seed: Seed| {
        let d: Tensor<f32> = accum * random(seed, 3);
        d
    });
    let gemm = Gemm::plan_for(&device, &a, &b, &noisy)?;
    gemm.run(&a, &b, noisy.seed(Seed::new(9)).d(&mut d))?;
    let expected: Vec<f32> = (0..27).map(|i| number(9, 3, i / 9, i % 9)).collect();
    assert_eq!(d.to_vec::<f32>()?, expected);
    Ok(())
}

#[test]
fn seeds_of_another_shape_are_refused() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b, c) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3, 4])?, device.zeros::<f32>([2, 4])?);
    let gemm = Gemm::plan::<Backward>(&device, &a, &b)?;
    let (mut d, mut sums) = (device.zeros::<f32>([2, 4])?, device.zeros::<f32>([4])?);
    let (three, real) = (device.zeros::<i64>([3])?, device.zeros::<f32>([2])?);
    for (seed, given) in [(&three, "i64 of shape [3]"), (&real, "f32 of shape [2]")] {
        let run = Backward { c: &c, p: 0.5, seed: seed.into(), d: &mut d, sums: &mut sums };
        let error = gemm.run(&a, &b, run).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("`seed` is a seed, and {given} was given: give an i64 tensor of shape [2], or `Seed::new(7)`")
        );
    }
    Ok(())
}

/// A seed in memory belongs to each launch of a graph: the next one draws other numbers after the seed has changed, with
/// the kernel of the first, and without one recorded anew.
#[test]
fn a_graph_reads_the_seed_at_each_launch() -> Result<(), Error> {
    if testing::compiler("chance::a_graph_reads_the_seed_at_each_launch").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let ones = |extents: [usize; 2]| device.tensor(&vec![f16::ONE; extents[0] * extents[1]], extents);
    let (a, b) = (ones([M, 64])?, ones([64, N])?);
    let mut seed = device.tensor(&[5_i64, 0], [2])?;
    let (mut y, mut v, mut same) =
        (device.zeros::<f16>([M, N])?, device.zeros::<f32>([M, N])?, device.zeros::<bool>([M, N])?);
    let gemm = Gemm::plan::<Forward>(&device, &a, &b)?;
    let graph = device.capture(|stream| {
        let seed = Seed::in_memory(&seed);
        gemm.run_on(stream, &a, &b, Forward { p: 0.5, seed, y: &mut y, v: &mut v, same: &mut same })
    })?;
    let stream = device.new_stream()?;
    for step in [0_i64, 2, -1] {
        seed.copy_from_bytes(&[5, step].map(i64::to_le_bytes).concat())?;
        graph.launch(&stream)?;
        stream.synchronize()?;
        let offset = step.cast_unsigned().wrapping_add(1);
        assert_eq!(v.to_vec::<f32>()?, all(|m, n| number(5, offset, m, n)), "{step}");
    }
    Ok(())
}

/// Rows of a batch have numbers of their own, up to 2^32 rows; more are refused before anything is read.
#[test]
fn rows_are_counted_through_the_batch() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let (batches, rows, columns) = (3, 5, 6);
    let (a, b) = (device.full::<f32>([batches, rows, 1], 1.0)?, device.full::<f32>([1, columns], 1.0)?);
    let shape = [batches, rows, columns];
    let (mut y, mut v, mut same) =
        (device.zeros::<f32>(shape)?, device.zeros::<f32>(shape)?, device.zeros::<bool>(shape)?);
    let gemm = Gemm::plan::<Forward>(&device, &a, &b)?;
    gemm.run(&a, &b, Forward { p: 0.5, seed: Seed::new(3), y: &mut y, v: &mut v, same: &mut same })?;
    let expected: Vec<f32> = (0..batches * rows * columns).map(|i| number(3, 1, i / columns, i % columns)).collect();
    assert_eq!(v.to_vec::<f32>()?, expected);

    let many = 70_000;
    let of = |element, shape: &[usize]| device.without_memory(element, shape);
    let (a, b) = (of(ElementType::F32, &[many, many, 1])?, of(ElementType::F32, &[1, 1])?);
    let shape = [many, many, 1];
    let (mut y, mut v, mut same) =
        (of(ElementType::F32, &shape)?, of(ElementType::F32, &shape)?, of(ElementType::Bool, &shape)?);
    let run = Forward { p: 0.5, seed: Seed::new(3), y: &mut y, v: &mut v, same: &mut same };
    let error = gemm.run(&a, &b, run).unwrap_err().to_string();
    let expected = "`random` tells 2^32 rows apart, and the 70000 batches of 70000 have more: run fewer batches at a time, \
                    each with an offset of its own";
    assert_eq!(error, expected);
    Ok(())
}
