//! FP8 operands with a scale for each block, made by hand.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::sm90::{Cluster, Request, Schedule};
use epilogue::gemm::{
    Builder, Formats, Fp8, Instruction, KernelKey, Left, Pair, Right, Scaled, SplitK, Tile, rows, scaled, sm90,
};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

use crate::hopper::tile;

/// A bias, a residual, and statistics of every kind.
#[epilogue]
pub(crate) fn layer(
    accum: Accum,
    bias: RowVector<f32>,
    residual: Tensor<f32>,
) -> (Tensor<f32>, ColumnVector, RowVector, DeviceScalar) {
    let d = accum + bias + residual;
    let row_sums = reduction_op(d, Row, Add);
    let column_sums = reduction_op(d, Column, Add);
    let largest = reduction_op(d, All, AbsMax);
    (d, row_sums, column_sums, largest)
}

#[epilogue]
pub(crate) fn plain(accum: Accum) -> Tensor<f32> {
    accum
}

#[epilogue]
fn gated(gate: Accum, up: Accum) -> Tensor<f32> {
    let d = relu(gate) * up;
    d
}

#[epilogue]
fn three(one: Accum, two: Accum, three: Accum) -> Tensor<f32> {
    let d = one - two + three;
    d
}

/// Numbers of few bits, so that sums of a block are exact in every order.
fn operand(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let value = |i: usize| f8e4m3::from_f32((((i + seed * 17) * 7 % 23) as f32 - 11.0) * 0.25);
    Ok(device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)?)
}

/// Powers of two, and some of their neighbours.
fn scales(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let value = |i: usize| {
        let x = [1.0f32, 0.5, 0.011, 2.0, -0.25, 3.7, 0.0, 1e-3][(i * 5 + seed) % 8];
        if i % 11 == 3 { x * 1.000_000_1 } else { x }
    };
    Ok(device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)?)
}

/// A and B, whose rows of K are contiguous in memory, with their scales; for each batch or for all.
pub(crate) struct Operands {
    pub(crate) a: DeviceTensor,
    pub(crate) b: Vec<DeviceTensor>,
    pub(crate) of_a: DeviceTensor,
    pub(crate) of_b: Vec<DeviceTensor>,
}

fn in_front(batch: Option<usize>, matrix: [usize; 2]) -> Vec<usize> {
    batch.into_iter().chain(matrix).collect()
}

impl Operands {
    pub(crate) fn new(
        device: &Device,
        [m, n, k]: [usize; 3],
        (of_a, of_b): (Option<usize>, Option<usize>),
        count: usize,
    ) -> Result<Self, Error> {
        let (blocks_k, blocks_n) = (k.div_ceil(128), n.div_ceil(128));
        let turned = |x: DeviceTensor| if x.rank() == 3 { x.permute(&[0, 2, 1]) } else { x.transpose() };
        let b = (0..count).map(|i| Ok(turned(operand(device, &in_front(of_b, [n, k]), 2 + i)?)?));
        let b_scales = (0..count).map(|i| scales(device, &in_front(of_b, [blocks_k, blocks_n]), 5 + i));
        Ok(Self {
            a: operand(device, &in_front(of_a, [m, k]), 1)?,
            // Every other operand has contiguous rows of M.
            of_a: if k % 2 == 0 {
                turned(scales(device, &in_front(of_a, [blocks_k, m]), 3)?)?
            } else {
                scales(device, &in_front(of_a, [m, blocks_k]), 3)?
            },
            b: b.collect::<Result<_, Error>>()?,
            of_b: b_scales.collect::<Result<_, Error>>()?,
        })
    }

    pub(crate) fn left(&self) -> Scaled<'_> {
        scaled(&self.a, &self.of_a)
    }

    pub(crate) fn right(&self) -> Right<'_> {
        let all: Vec<_> = self.b.iter().zip(&self.of_b).map(|(b, scales)| scaled(b, scales)).collect();
        Right::from(&all[..])
    }
}

/// Whether the results of [`layer`] lie in the reference's bounds.
fn check_layer(
    device: &Device,
    extents @ [m, n, _]: [usize; 3],
    batches: (Option<usize>, Option<usize>),
    tuned: impl Fn(Builder<Layer>) -> Builder<Layer>,
) -> Result<(), Error> {
    let operands = Operands::new(device, extents, batches, 1)?;
    let batch = batches.0.or(batches.1);
    let per_batch = |shape: &[usize]| batch.into_iter().chain(shape.iter().copied()).collect::<Vec<_>>();
    let (bias, residual) = (scales(device, &[n], 1)?, scales(device, &per_batch(&[m, n]), 2)?);
    let gemm = tuned(Gemm::builder::<Layer>(device).operands(operands.left(), operands.right())?).plan()?;
    let mut d = device.full::<f32>(per_batch(&[m, n]), 77.0)?;
    let mut vectors = [device.full::<f32>(per_batch(&[m]), 77.0)?, device.full::<f32>(per_batch(&[n]), 77.0)?];
    let mut largest = device.full::<f32>(per_batch(&[]), 77.0)?;
    let [row_sums, column_sums] = &mut vectors;
    let (bias, residual) = (&bias, &residual);
    macro_rules! arguments {
        () => {
            Layer { bias, residual, d: &mut d, row_sums, column_sums, largest: &mut largest }
        };
    }
    let expected = gemm.reference(operands.left(), operands.right(), arguments!())?;
    gemm.run(operands.left(), operands.right(), arguments!())?;
    let results = [("d", &d), ("row_sums", &vectors[0]), ("column_sums", &vectors[1]), ("largest", &largest)];
    for (name, tensor) in results {
        if let Err(error) = expected.compare(name, tensor)?.check() {
            panic!("{extents:?} {batches:?} on {device}: {error}\n{}", gemm.choice());
        }
    }
    Ok(())
}

/// M, N and K with every kind of remainder, shorter than a block and of several.
const EXTENTS: [[usize; 3]; 8] = [
    [33, 40, 200],
    [1, 129, 128],
    [70, 7, 513],
    [5, 300, 127],
    [130, 24, 256],
    [64, 128, 384],
    [3, 16, 0],
    [2, 1, 1000],
];

/// By a plain loop over f64, with numbers for which all is exact but the last rounding of every block.
#[test]
fn the_product_is_that_of_scaled_blocks() -> Result<(), Error> {
    let device = Device::cpu();
    for [m, n, k] in EXTENTS {
        let operands = Operands::new(&device, [m, n, k], (None, None), 1)?;
        let mut d = device.zeros::<f32>([m, n])?;
        let gemm = Gemm::plan::<Plain>(&device, operands.left(), operands.right())?;
        gemm.run(operands.left(), operands.right(), Plain { accum: &mut d })?;
        let numbers = |x: &DeviceTensor| -> Result<Vec<f64>, Error> {
            Ok(x.to_vec::<f8e4m3>()?.iter().map(|x| f64::from(x.to_f32())).collect())
        };
        let (a, b) = (numbers(&operands.a)?, numbers(&operands.b[0])?);
        let (of_a, of_b) = (operands.of_a.to_vec::<f32>()?, operands.of_b[0].to_vec::<f32>()?);
        let (blocks, blocks_n) = (k.div_ceil(128), n.div_ceil(128));
        let expected = |i: usize, j: usize| {
            (0..blocks).fold(0f32, |sum, block| {
                let depth = block * 128..k.min(block * 128 + 128);
                let part: f64 = depth.map(|p| a[i * k + p] * b[p * n + j]).sum();
                let scale = of_a[i * blocks + block] * of_b[block * blocks_n + j / 128];
                scale.mul_add(part as f32, sum)
            })
        };
        for (place, given) in d.to_vec::<f32>()?.into_iter().enumerate() {
            let expected = expected(place / n, place % n);
            let close = (given - expected).abs() <= expected.abs() * 1e-6 + 1e-6;
            assert!(close, "{m}x{n}x{k}: element {place} is {given}, not {expected}");
        }
    }
    Ok(())
}

#[test]
fn on_the_cpu() -> Result<(), Error> {
    for extents in EXTENTS {
        for batches in [(None, None), (Some(2), None), (None, Some(3)), (Some(2), Some(2))] {
            check_layer(&Device::cpu(), extents, batches, |builder| builder)?;
        }
    }
    Ok(())
}

fn device(arch: Arch, completion: Completion, seed: u64) -> Result<Device, Error> {
    let options = Options::default().detector(Detector::On).completion(completion).seed(seed);
    Ok(Device::emulated_with(arch, options)?)
}

/// The tiles for sm_80 that take scales.
fn tiles() -> Vec<Tile> {
    let pair = Pair { a: Fp8::E4M3, b: Fp8::E4M3 };
    Tile::all(Instruction::MmaFp8(pair)).iter().filter(|tile| tile.takes_scales(1)).copied().collect()
}

const SPLITS: [SplitK; 4] = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
const COMPLETIONS: [Completion; 3] = [Completion::Lazy, Completion::Random, Completion::Eager];

/// With the race detector: every tile for sm_80, every way of sharing K, copies of every width (by K).
#[test]
fn on_sm_80() -> Result<(), Error> {
    if testing::compiler("scaled::on_sm_80").is_none() {
        return Ok(());
    }
    let tiles = tiles();
    assert_eq!(tiles.len(), 6);
    for (i, tile) in tiles.into_iter().enumerate() {
        let device = device(if i % 3 == 2 { Arch::SM_90A } else { Arch::SM_80 }, COMPLETIONS[i % 3], i as u64)?;
        let batches = [(None, None), (Some(2), None), (None, Some(2))][i % 3];
        let tuned = |builder: Builder<Layer>| {
            builder.tile(tile).split_k(SPLITS[i % 4]).multiprocessors(4).ignore_unsupported_knobs()
        };
        for extents in [EXTENTS[i], EXTENTS[(i + 3) % 8]] {
            check_layer(&device, extents, batches, tuned)?;
        }
    }
    Ok(())
}

fn request(rows: usize, columns: usize, schedule: Schedule, swap_ab: bool) -> Request {
    Request { tile: Some(tile(rows, columns, schedule)), swap_ab: Some(swap_ab), ..Request::default() }
}

/// With the race detector: tiles of both schedules, with rows that are M and N, in clusters, every way of sharing K.
#[test]
fn on_sm_90a() -> Result<(), Error> {
    if testing::compiler("scaled::on_sm_90a").is_none() {
        return Ok(());
    }
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    let requests = [
        request(64, 64, in_turns, false),
        request(128, 64, together, false),
        request(64, 16, together, true),
        request(128, 128, together, false),
        request(64, 64, in_turns, true),
        request(128, 32, together, true),
        request(256, 64, together, false),
        request(64, 8, together, false),
    ];
    for (i, asked) in requests.into_iter().enumerate() {
        let device = device(Arch::SM_90A, COMPLETIONS[i % 3], i as u64)?;
        let batches = [(None, None), (Some(2), None), (None, Some(2))][i % 3];
        let cluster = if i % 2 == 1 && i < 7 { Cluster { m: 2, n: 1 } } else { Cluster::NONE };
        let asked = Request { cluster: Some(cluster), stages: Some(2 + i % 3), ..asked };
        let tuned = |builder: Builder<Layer>| {
            let blocks = 2 * cluster.blocks();
            builder.sm90(asked).split_k(SPLITS[i % 4]).multiprocessors(blocks).dependent_launch(i % 2 == 0)
        };
        for extents in [EXTENTS[i], EXTENTS[(i + 4) % 8]] {
            check_layer(&device, extents, batches, tuned)?;
        }
    }
    Ok(())
}

/// Scales that are 0, infinite, NaN or subnormal, and operands that are, too: as the reference says, which leaves no block out.
fn special(device: &Device, tuned: impl Fn(Builder<Plain>) -> Builder<Plain>) -> Result<(), Error> {
    let (m, n, k) = (9, 140, 300);
    let e5m2 = |shape: &[usize], seed: usize| {
        let value = |i: usize| match (i * 7 + seed) % 1009 {
            3 => f8e5m2::from_f32(f32::NAN),
            5 => f8e5m2::from_bits(0x7c),
            7 => f8e5m2::from_bits(0xfc),
            x => f8e5m2::from_f32((x % 9) as f32 - 4.0),
        };
        device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)
    };
    let zeros = device.zeros::<f8e5m2>([m, k])?;
    let least = f32::from_bits(1);
    let list = [0.0, f32::INFINITY, 1.0, f32::NAN, 1e-40, f32::NEG_INFINITY, least, 3e38, -1e-30, 1e-20];
    let scales = |shape: [usize; 2], step: usize| {
        let value = |i: usize| list[i * step % list.len()];
        device.tensor(&(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>(), shape)
    };
    let (a, b) = (e5m2(&[m, k], 1)?, e5m2(&[n, k], 2)?.transpose()?);
    let clean = device.full([k, n], f8e5m2::from_f32(1.5))?;
    for (a, b) in [(&a, &b), (&zeros, &clean), (&zeros, &b), (&a, &clean)] {
        for step in [1, 3, 7] {
            let (of_a, of_b) = (scales([m, 3], step)?, scales([3, 2], step + 2)?);
            let (left, right) = (scaled(a, &of_a), scaled(b, &of_b));
            let gemm = tuned(Gemm::builder::<Plain>(device).operands(left, right)?).plan()?;
            let mut d = device.full::<f32>([m, n], 77.0)?;
            let expected = gemm.reference(left, right, Plain { accum: &mut d })?;
            gemm.run(left, right, Plain { accum: &mut d })?;
            expected.compare("accum", &d)?.check()?;
        }
    }
    // 0 · infinity, in a block of nothing but zeros; and an infinite block.
    let (of_a, of_b) = (device.full::<f32>([m, 3], f32::INFINITY)?, device.full::<f32>([3, 2], 1.0)?);
    let (left, mut d) = (scaled(&zeros, &of_a), device.zeros::<f32>([m, n])?);
    let right = scaled(&clean, &of_b);
    tuned(Gemm::builder::<Plain>(device).operands(left, right)?).plan()?.run(left, right, Plain { accum: &mut d })?;
    assert!(d.to_vec::<f32>()?.iter().all(|x| x.is_nan()));
    // A number that is smaller than every normal number is not 0.
    let (ones, of_a) = (device.full([m, k], f8e5m2::from_f32(1.0))?, device.full::<f32>([m, 3], 1e-40)?);
    let left = scaled(&ones, &of_a);
    tuned(Gemm::builder::<Plain>(device).operands(left, right)?).plan()?.run(left, right, Plain { accum: &mut d })?;
    let expected = 1e-40f32 * 192.0 + 1e-40f32 * 192.0 + 1e-40f32 * 66.0;
    assert!(d.to_vec::<f32>()?.iter().all(|x| (x - expected).abs() <= 4.0 * least));
    Ok(())
}

#[test]
fn special_scales_are_multiplied_like_any_others() -> Result<(), Error> {
    special(&Device::cpu(), |builder| builder)?;
    if testing::compiler("scaled::special_scales").is_none() {
        return Ok(());
    }
    special(&device(Arch::SM_80, Completion::Random, 1)?, |builder| builder)?;
    let hopper = device(Arch::SM_90A, Completion::Lazy, 1)?;
    special(&hopper, |builder| builder.sm90(request(128, 64, Schedule::Cooperative, false)))?;
    special(&hopper, |builder| builder.sm90(request(64, 16, Schedule::Cooperative, true)))
}

/// Scales of 1 give the bits of the product without, by kernels of the same tile that promote every 128 of K.
#[test]
fn scales_of_one_change_no_bit() -> Result<(), Error> {
    if testing::compiler("scaled::scales_of_one_change_no_bit").is_none() {
        return Ok(());
    }
    let rough = |device: &Device, shape: [usize; 2], seed: usize| {
        let value = |i: usize| f8e4m3::from_f32((((i + seed * 977) as f32 * 0.618_034).fract() - 0.5) * 4.0);
        device.tensor(&(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>(), shape)
    };
    let device = device(Arch::SM_90A, Completion::Random, 3)?;
    let (m, n, k) = (70, 150, 700);
    let (a, b) = (rough(&device, [m, k], 1)?, rough(&device, [n, k], 2)?.transpose()?);
    let (of_a, of_b) = (device.full::<f32>([m, 6], 1.0)?, device.full::<f32>([6, 2], 1.0)?);
    let requests = [
        (request(64, 64, Schedule::PingPong, false), SplitK::None),
        (request(128, 128, Schedule::Cooperative, false), SplitK::Parallel(2)),
        (request(64, 32, Schedule::Cooperative, true), SplitK::Stream),
    ];
    for (request, split_k) in requests {
        let request = Request { cluster: Some(Cluster::NONE), ..request };
        let run = |left: Left<'_>, right: Right<'_>| -> Result<_, Error> {
            let builder = Gemm::builder::<Plain>(&device).operands(left, right.clone())?;
            let gemm = builder.sm90(request).split_k(split_k).multiprocessors(4).plan()?;
            let mut d = device.zeros::<f32>([m, n])?;
            gemm.run(left, right, Plain { accum: &mut d })?;
            let KernelKey::Sm90(key) = gemm.choice().kernel().expect("a kernel").key else { panic!("{request}") };
            assert!(key.promoted && Some(key.tile) == request.tile);
            Ok((d.to_bytes()?, sm90::Sm90Key { formats: Formats::PLAIN, ..key }))
        };
        let with = run(scaled(&a, &of_a).into(), scaled(&b, &of_b).into())?;
        let without = run((&a).into(), (&b).into())?;
        assert!(with.0 == without.0, "{request}");
    }
    Ok(())
}

/// Two accumulators, and three (of four parts of a tile for sm_80).
fn several(device: &Device, tuned: &dyn Fn(usize) -> Option<Request>) -> Result<(), Error> {
    let tune = |count: usize| tuned(count);
    for extents @ [m, n, _] in [[40, 70, 200], [3, 130, 300]] {
        let mut d = device.zeros::<f32>([m, n])?;
        let operands = Operands::new(device, extents, (None, None), 2)?;
        let builder = Gemm::builder::<Gated>(device).operands(operands.left(), operands.right())?;
        let gemm = tune(2).map_or_else(|| builder.clone(), |request| builder.clone().sm90(request)).plan()?;
        let expected = gemm.reference(operands.left(), operands.right(), Gated { d: &mut d })?;
        gemm.run(operands.left(), operands.right(), Gated { d: &mut d })?;
        expected.compare("d", &d)?.check()?;
        let operands = Operands::new(device, extents, (None, None), 3)?;
        let builder = Gemm::builder::<Three>(device).operands(operands.left(), operands.right())?;
        let gemm = tune(3).map_or_else(|| builder.clone(), |request| builder.clone().sm90(request)).plan()?;
        let expected = gemm.reference(operands.left(), operands.right(), Three { d: &mut d })?;
        gemm.run(operands.left(), operands.right(), Three { d: &mut d })?;
        expected.compare("d", &d)?.check()?;
    }
    Ok(())
}

#[test]
fn of_several_accumulators() -> Result<(), Error> {
    several(&Device::cpu(), &|_| None)?;
    if testing::compiler("scaled::of_several_accumulators").is_none() {
        return Ok(());
    }
    several(&device(Arch::SM_80, Completion::Lazy, 2)?, &|_| None)?;
    let hopper = device(Arch::SM_90A, Completion::Random, 2)?;
    let side_by_side = |count| request(128, if count == 2 { 64 } else { 96 }, Schedule::Cooperative, false);
    several(&hopper, &|count| Some(side_by_side(count)))?;
    let in_turn = |count: usize| {
        let tile = sm90::Tile { rows: 64 * count, columns: 16, schedule: Schedule::Cooperative, consumers: 1 };
        Request { tile: Some(tile), swap_ab: Some(true), ..Request::default() }
    };
    several(&hopper, &|count| Some(in_turn(count)))
}

/// Groups of rows, each with its B and its scales: as a run for each group, and as the reference says.
fn groups(device: &Device, tuned: impl Fn(Builder<Plain>) -> Builder<Plain>) -> Result<(), Error> {
    let (t, n, k) = (90, 140, 300);
    let operands = Operands::new(device, [t, n, k], (None, Some(4)), 1)?;
    let (bounds, right) = ([3i32, 40, 40, 41, 88], operands.right());
    let (offsets, ends) = (device.tensor(&bounds, [5])?, device.tensor(&[20i32, 20, 63, 90], [4])?);
    let own = rows(&operands.a).scaled(&operands.of_a);
    for left in [own.in_groups(&offsets), own.in_groups_to(&ends)] {
        let mut d = device.full::<f32>([t, n], 77.0)?;
        let gemm = tuned(Gemm::builder::<Plain>(device).operands(left, right.clone())?).plan()?;
        let expected = gemm.reference(left, right.clone(), Plain { accum: &mut d })?;
        gemm.run(left, right.clone(), Plain { accum: &mut d })?;
        let results = d.to_vec::<f32>()?;
        let exact = expected.outputs()[0].first_wrong(&results.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());
        // Rows of no group are as they were, which the reference has as 0.
        assert!(exact.is_none_or(|wrong| wrong.result == 77.0), "{exact:?}");
    }
    // A matrix of its own for each group.
    let operands = Operands::new(device, [33, n, k], (Some(3), Some(3)), 1)?;
    let counts = device.tensor(&[33i32, 0, 7], [3])?;
    let left = rows(&operands.a).scaled(&operands.of_a).in_groups_of(&counts);
    let (mut d, mut alone) = (device.full::<f32>([3, 33, n], 77.0)?, device.full::<f32>([33, n], 77.0)?);
    let gemm = tuned(Gemm::builder::<Plain>(device).operands(left, operands.right())?).plan()?;
    gemm.run(left, operands.right(), Plain { accum: &mut d })?;
    let results = d.to_vec::<f32>()?;
    for (group, count) in [33, 0, 7].into_iter().enumerate() {
        let part = |x: &DeviceTensor| -> Result<DeviceTensor, Error> {
            let shape = x.shape()[1..].to_vec();
            Ok(x.slice(0, group..group + 1)?.contiguous()?.reshape(shape)?)
        };
        let (a, of_a) = (part(&operands.a)?, part(&operands.of_a)?);
        let (b, of_b) = (part(&operands.b[0])?, part(&operands.of_b[0])?);
        let (left, right) = (scaled(&a, &of_a), scaled(&b, &of_b));
        let gemm = Gemm::plan::<Plain>(device, left, right)?;
        gemm.reference(left, right, Plain { accum: &mut alone })?;
        gemm.run(left, right, Plain { accum: &mut alone })?;
        let expected = gemm.reference(left, right, Plain { accum: &mut alone })?;
        let own = &results[group * 33 * n..][..count * n];
        assert!(
            own.iter().zip(&expected.outputs()[0].bounds).all(|(x, bounds)| bounds.admit(f64::from(*x))),
            "{group}"
        );
        assert!(results[group * 33 * n..][count * n..33 * n].iter().all(|x| *x == 77.0), "{group}");
    }
    device.check()?;
    Ok(())
}

#[test]
fn in_groups_of_rows() -> Result<(), Error> {
    groups(&Device::cpu(), |builder| builder)?;
    if testing::compiler("scaled::in_groups_of_rows").is_none() {
        return Ok(());
    }
    groups(&device(Arch::SM_80, Completion::Random, 4)?, |builder| builder)?;
    let hopper = device(Arch::SM_90A, Completion::Lazy, 4)?;
    groups(&hopper, |builder| builder.sm90(request(64, 64, Schedule::PingPong, false)).multiprocessors(4))?;
    groups(&hopper, |builder| builder.sm90(request(64, 32, Schedule::Cooperative, true)).multiprocessors(4))
}

/// Tiles that have no kernel are refused with what they lack; the choice is a kernel of the device's own family.
#[test]
fn kernels_are_of_the_device_s_own_family() -> Result<(), Error> {
    let fp8 = |device: &Device| {
        let along_k = epilogue::gemm::OperandLayout::packed(epilogue::gemm::Major::K);
        let builder = Gemm::builder::<Plain>(device).elements(ElementType::F8E4M3, ElementType::F8E4M3);
        builder.problem(4096, 7168, 2048).layouts(along_k, along_k).block_scales()
    };
    let hopper = Device::emulated(Arch::SM_90A)?;
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let choice = fp8(&Device::emulated(arch)?).choose()?;
        let kernel = choice.kernel().expect("a kernel");
        assert!(kernel.key.family() == arch && kernel.key.to_string().ends_with(", block scales"), "{kernel}");
    }
    let few = fp8(&hopper).problem(16, 7168, 2048).choose()?;
    assert!(matches!(few.kernel().expect("a kernel").key, KernelKey::Sm90(key) if key.swap_ab), "{few}");
    let text = |request| fp8(&hopper).sm90(request).choose().expect_err("no such kernel").to_string();
    let wide = text(request(64, 96, Schedule::PingPong, false));
    assert!(wide.ends_with("ask for a tile that gives each accumulator 8, 16, 32, 64 or 128 columns"), "{wide}");
    let deep = text(request(64, 128, Schedule::PingPong, true));
    assert!(deep.ends_with("at most 64 columns: ask for fewer, or for rows that are M"), "{deep}");
    let pair = Pair { a: Fp8::E4M3, b: Fp8::E4M3 };
    let large = Tile::all(Instruction::MmaFp8(pair))[0];
    let refused = fp8(&Device::emulated(Arch::SM_80)?).tile(large).choose().expect_err("no such kernel").to_string();
    assert!(refused.contains("takes no block scales of 1 accumulators: those with k-tiles of 128"), "{refused}");
    Ok(())
}

/// The facts that another program needs for the launch.
#[test]
fn scales_are_named_in_the_launch() -> Result<(), Error> {
    if testing::compiler("scaled::scales_are_named_in_the_launch").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch)?;
        let operands = Operands::new(&device, [64, 256, 384], (None, Some(2)), 2)?;
        let mut d = device.zeros::<f32>([2, 64, 256])?;
        let gemm = Gemm::plan::<Gated>(&device, operands.left(), operands.right())?;
        let launch = gemm.describe_launch(operands.left(), operands.right(), &[Argument::Output(&mut d)])?;
        let value = |name: &str| launch.fields.iter().find(|field| field.name == name).map(|field| field.value);
        assert_eq!(value("a_scales.pointer"), Some(FieldValue::Address(Memory::ScalesOfA, 0)));
        assert_eq!(value("b1_scales.pointer"), Some(FieldValue::Address(Memory::ScalesOfB(1), 0)));
        // A's scales are [64, 3] with contiguous rows of M, those of a B [2, 3, 2].
        let strides = ["a_scales.outer_stride", "a_scales.k_stride", "a_scales.batch_stride"].map(value);
        assert_eq!(strides, [1, 64, 0].map(|stride| Some(FieldValue::Integer(stride))));
        let strides = ["b_scales.outer_stride", "b_scales.k_stride", "b_scales.batch_stride"].map(value);
        assert_eq!(strides, [1, 2, 6].map(|stride| Some(FieldValue::Integer(stride))));
    }
    Ok(())
}

/// A scale for each row and each column is a vector of the epilogue, of FP8 and of 8-bit integers.
fn vectors<T: Element>(device: &Device, value: impl Fn(f32) -> T) -> Result<(), Error> {
    #[epilogue]
    fn dequantize(accum: Accum, of_row: ColumnVector<f32>, of_column: RowVector<f32>) -> Tensor<f32> {
        let d = accum * of_row * of_column;
        d
    }
    let (m, n, k) = (33, 70, 200);
    let operand = |shape: [usize; 2], seed: usize| {
        let values: Vec<T> = (0..shape[0] * shape[1]).map(|i| value(((i * 7 + seed) % 19) as f32 - 9.0)).collect();
        device.tensor(&values, shape)
    };
    let (a, b) = (operand([m, k], 1)?, operand([n, k], 2)?.transpose()?);
    let (of_row, of_column) = (scales(device, &[m], 1)?, scales(device, &[n], 2)?);
    let (of_row, of_column) = (&of_row, &of_column);
    let mut d = device.zeros::<f32>([m, n])?;
    let gemm = Gemm::plan::<Dequantize>(device, &a, &b)?;
    let expected = gemm.reference(&a, &b, Dequantize { of_row, of_column, d: &mut d })?;
    gemm.run(&a, &b, Dequantize { of_row, of_column, d: &mut d })?;
    expected.compare("d", &d)?.check()?;
    Ok(())
}

#[test]
fn scales_of_rows_and_columns_are_vectors() -> Result<(), Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler("scaled::scales_of_rows_and_columns_are_vectors").is_some() {
        devices.push(device(Arch::SM_80, Completion::Lazy, 5)?);
        devices.push(device(Arch::SM_90A, Completion::Lazy, 5)?);
    }
    for device in devices {
        vectors(&device, f8e4m3::from_f32)?;
        vectors(&device, |x| x as i8)?;
    }
    Ok(())
}
