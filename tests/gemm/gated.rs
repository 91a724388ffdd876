//! Several accumulators that share A: with B in every form that weights have, and what a run refuses.

use epilogue::gemm::{Builder, Instruction, SplitK, Tile, sm90};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Detector, Options};
use epilogue_runtime::testing;
use half::f16;

/// The first half of a gated feed-forward block, with the sums of its rows.
#[epilogue]
fn swiglu(gate: Accum, up: Accum, bias: RowVector, scale: Scalar) -> (Tensor, ColumnVector) {
    let d = silu(gate + bias) * up * scale;
    let sums = reduction_op(d, Row, Add);
    (d, sums)
}

/// Every accumulator, stored unchanged.
#[epilogue]
fn each(one: Accum, two: Accum, three: Accum) -> (Tensor<f32>, Tensor<f32>, Tensor<f32>) {
    (one, two, three)
}

/// Only one of them: the B's of the others are checked, but not read.
#[epilogue]
fn second(_one: Accum, two: Accum, _three: Accum) -> Tensor<f32> {
    two
}

#[epilogue]
fn plain(accum: Accum) -> Tensor<f32> {
    accum
}

/// Numbers with few bits, so that sums of products are exact in f32; if `special`, with NaN and infinities.
fn matrix(device: &Device, shape: [usize; 2], seed: usize, special: bool) -> Result<DeviceTensor, Error> {
    let value = |i: usize| match i * 7 + seed * 13 {
        x if special && x % 97 == 5 => f16::NAN,
        x if special && x % 97 == 6 => f16::INFINITY,
        x => f16::from_f32(((x % 23) as f32 - 11.0) * 0.0625),
    };
    Ok(device.tensor(&(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>(), shape)?)
}

fn run_swiglu(device: &Device, [m, n, k]: [usize; 3], gate: &DeviceTensor, up: &DeviceTensor) -> Result<(), Error> {
    let x = matrix(device, [m, k], 1, false)?;
    let bias = matrix(device, [1, n], 2, false)?.reshape([n])?;
    let (mut d, mut sums) = (device.zeros::<f16>([m, n])?, device.zeros::<f32>([m])?);
    let gemm = Gemm::plan::<Swiglu>(device, &x, [gate, up])?;
    let arguments = Swiglu { bias: &bias, scale: 0.5, d: &mut d, sums: &mut sums };
    let expected = gemm.reference(&x, [gate, up], arguments)?;
    gemm.run(&x, [gate, up], Swiglu { bias: &bias, scale: 0.5, d: &mut d, sums: &mut sums })?;
    expected.compare("d", &d)?.check()?;
    expected.compare("sums", &sums)?.check()?;
    Ok(())
}

/// Weights as they are in checkpoints: separate, stacked, side by side, with alternating columns; one with NaN and
/// infinities.
fn weights_in_every_form(device: &Device) -> Result<(), Error> {
    for [m, n, k] in [[5, 24, 40], [70, 40, 72], [1, 7, 9]] {
        let apart = [matrix(device, [k, n], 3, false)?, matrix(device, [k, n], 4, true)?];
        run_swiglu(device, [m, n, k], &apart[0], &apart[1])?;
        let stacked = matrix(device, [2 * n, k], 5, false)?; // [gate; up] as a linear layer has it, [2N, K]
        let halves = [stacked.slice(0, 0..n)?.transpose()?, stacked.slice(0, n..2 * n)?.transpose()?];
        run_swiglu(device, [m, n, k], &halves[0], &halves[1])?;
        let beside = matrix(device, [k, 2 * n], 6, false)?;
        run_swiglu(device, [m, n, k], &beside.slice(1, 0..n)?, &beside.slice(1, n..2 * n)?)?;
        let in_turn = matrix(device, [2 * n, k], 7, false)?.reshape([n, 2, k])?;
        let of = |i: usize| in_turn.slice(1, i..i + 1)?.reshape([n, k])?.transpose();
        run_swiglu(device, [m, n, k], &of(0)?, &of(1)?)?;
    }
    Ok(())
}

/// The knobs of a kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Knobs {
    tile: Option<Tile>,
    sm90: Option<sm90::Request>,
    split_k: SplitK,
}

impl Knobs {
    fn on<E>(&self, mut builder: Builder<E>) -> Builder<E> {
        if let Some(tile) = self.tile {
            builder = builder.tile(tile);
        }
        if let Some(request) = self.sm90 {
            builder = builder.sm90(request);
        }
        builder.split_k(self.split_k).ignore_unsupported_knobs()
    }
}

/// Every accumulator of one B has the same bits as the product alone, at any index. So has the only one that is read.
/// (With stream-K the tiles are cut differently than for the product alone: there the accumulators have the same bits
/// as each other.)
fn the_same_b_gives_the_same_bits(device: &Device, [m, n, k]: [usize; 3], knobs: Knobs) -> Result<(), Error> {
    let value = |i: usize| (i as f32 * 0.618_034).fract() - 0.5;
    let rough = |shape: [usize; 2]| {
        let values: Vec<f16> = (0..shape[0] * shape[1]).map(|i| f16::from_f32(value(i))).collect();
        device.tensor(&values, shape)
    };
    let (a, b, zeros) = (rough([m, k])?, rough([n, k])?.transpose()?, device.zeros::<f16>([n, k])?.transpose()?);
    let mut d = [(); 5].map(|()| device.full::<f32>([m, n], 7.0)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let [alone, one, two, three, live] = &mut d[..] else { return Ok(()) };
    let one_accumulator = Knobs { sm90: knobs.sm90.map(|_| sm90::Request::default()), ..knobs };
    let gemm = one_accumulator.on(Gemm::builder::<Plain>(device).operands(&a, &b)?).plan()?;
    gemm.run(&a, &b, Plain { accum: alone })?;
    let all = [&b, &b, &b];
    let gemm = one_accumulator.on(Gemm::builder::<Second>(device).operands(&a, all)?).plan()?;
    gemm.run(&a, [&zeros, &b, &zeros], Second { two: live })?;
    let gemm = knobs.on(Gemm::builder::<Each>(device).operands(&a, all)?).plan()?;
    gemm.run(&a, all, Each { one, two, three })?;
    let bits = d.iter().map(DeviceTensor::to_vec::<f32>).collect::<Result<Vec<_>, _>>()?;
    let first = if knobs.split_k == SplitK::Stream { 1 } else { 0 };
    for (which, other) in bits[..if first == 1 { 4 } else { 5 }].iter().enumerate().skip(first + 1) {
        let same = bits[first].iter().zip(other).all(|(x, y)| x.to_bits() == y.to_bits());
        assert!(same, "{which} on {device} with {knobs:?}: {}", gemm.choice());
    }
    let near = bits[0].iter().zip(&bits[1]).all(|(x, y)| (x - y).abs() < 1e-3);
    assert!(near, "{knobs:?}: {}", gemm.choice());
    Ok(())
}

#[test]
fn on_the_cpu() {
    let device = Device::cpu();
    weights_in_every_form(&device).unwrap();
    the_same_b_gives_the_same_bits(&device, [67, 72, 328], Knobs::default()).unwrap();
}

const SPLITS: [SplitK; 4] = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];

fn emulated(test: &str, arch: Arch) -> Option<Device> {
    testing::compiler(test)?;
    Some(Device::emulated_with(arch, Options::default().detector(Detector::On)).expect("a device"))
}

#[test]
fn on_sm_80() {
    let Some(device) = emulated("on_sm_80", Arch::SM_80) else { return };
    weights_in_every_form(&device).unwrap();
    let tile = Tile::all(Instruction::MmaF16).iter().find(|tile| (tile.m, tile.n) == (64, 64)).copied();
    for split_k in SPLITS {
        the_same_b_gives_the_same_bits(&device, [67, 40, 328], Knobs { tile, split_k, ..Knobs::default() }).unwrap();
    }
}

#[test]
fn on_sm_90a() {
    let Some(device) = emulated("on_sm_90a", Arch::SM_90A) else { return };
    let tile = |rows, columns, schedule| {
        sm90::Tile::of(3).find(|t| (t.rows, t.columns, t.schedule) == (rows, columns, schedule)).unwrap()
    };
    let cluster = |m, n| Some(sm90::Cluster { m, n });
    for (i, (swap_ab, tile, cluster)) in [
        (false, tile(128, 96, sm90::Schedule::Cooperative), cluster(2, 1)),
        (false, tile(64, 192, sm90::Schedule::PingPong), cluster(1, 2)),
        (true, tile(192, 16, sm90::Schedule::Cooperative), cluster(1, 1)),
        (true, tile(192, 16, sm90::Schedule::Cooperative), cluster(2, 1)),
    ]
    .into_iter()
    .enumerate()
    {
        let request = sm90::Request { tile: Some(tile), swap_ab: Some(swap_ab), cluster, ..sm90::Request::default() };
        let knobs = Knobs { sm90: Some(request), split_k: SPLITS[i], ..Knobs::default() };
        let extents = if swap_ab { [19, 136, 328] } else { [131, 72, 328] };
        the_same_b_gives_the_same_bits(&device, extents, knobs).unwrap();
    }
    weights_in_every_form(&device).unwrap();
}

/// Wrong B's: each is refused with what was given, what is allowed and what to do, and nothing is written.
#[test]
fn wrong_operands_are_refused() {
    let device = Device::cpu();
    let (m, n, k) = (3, 4, 5);
    let x = device.full::<f16>([m, k], f16::ONE).unwrap();
    let b = device.full::<f16>([k, n], f16::ONE).unwrap();
    let bias = device.zeros::<f16>([n]).unwrap();
    let gemm = Gemm::plan::<Swiglu>(&device, &x, [&b, &b]).unwrap();
    let of = |shape: &[usize]| device.zeros::<f16>(shape).unwrap();
    let other = device.zeros::<f32>([k, n]).unwrap();
    let (wide, along_k) = (of(&[k, n + 1]), of(&[n, k]).transpose().unwrap());
    let (two, three, none) = (of(&[2, k, n]), of(&[3, k, n]), Vec::<&DeviceTensor>::new());
    let cases: [(&[&DeviceTensor], &str); 8] = [
        (
            &none,
            "0 B for the 2 accumulators of `swiglu`: give one for each of gate, up, in this order, as in `[&gate, &up]`",
        ),
        (
            &[&b],
            "1 B for the 2 accumulators of `swiglu`: give one for each of gate, up, in this order, as in `[&gate, &up]`",
        ),
        (
            &[&b, &b, &b],
            "3 B for the 2 accumulators of `swiglu`: give one for each of gate, up, in this order, as in `[&gate, &up]`",
        ),
        (&[&b, &other], "B holds f32; this GEMM was planned for f16"),
        (
            &[&b, &wide],
            "B number 2 has shape [5, 5] and the first [5, 4]: all B of a product have the same K and N; for others use a \
             product each, or one of a B that holds all columns",
        ),
        (
            &[&b, &along_k],
            "B number 2 is contiguous along K and B number 1 along N: all B of a product lie in the same order; copy one of \
             them",
        ),
        (&[&two, &three], "B number 2 has 3 batches and those before it 2: give all the same number, or no batch axis"),
        (&[&two, &b], "argument `d` has shape [3, 4]; needed is [2, 3, 4]"),
    ];
    for (given, expected) in cases {
        let (mut d, mut sums) = (device.full::<f16>([m, n], f16::ONE).unwrap(), device.zeros::<f32>([m]).unwrap());
        let arguments = Swiglu { bias: &bias, scale: 1.0, d: &mut d, sums: &mut sums };
        let refused = gemm.run(&x, given, arguments).unwrap_err().to_string();
        assert_eq!(refused, expected);
        assert_eq!(d.to_vec::<f16>().unwrap(), [f16::ONE; 12], "nothing is written");
    }
    let planned = |given: &[&DeviceTensor]| Gemm::plan::<Swiglu>(&device, &x, given).unwrap_err();
    assert!(matches!(planned(&[&b]), Error::RightCount { given: 1, .. }));
    assert!(matches!(planned(&[&b, &other]), Error::RightElements { place: 2, .. }));
    let twice = Gemm::plan::<Plain>(&device, &x, [&b, &b]).unwrap_err().to_string();
    assert_eq!(
        twice,
        "2 B for the 1 accumulator of `plain`: give one for each of accum, in this order, as in `[&accum]`"
    );
    // An output that is one of the B.
    let mut d = b.clone();
    let mut sums = device.zeros::<f32>([k]).unwrap();
    let a = device.zeros::<f16>([k, k]).unwrap();
    let gemm = Gemm::plan::<Swiglu>(&device, &a, [&b, &b]).unwrap();
    let second = device.zeros::<f16>([k, n]).unwrap();
    let arguments = Swiglu { bias: &bias, scale: 1.0, d: &mut d, sums: &mut sums };
    let aliased = gemm.run(&a, [&second, &b], arguments).unwrap_err();
    assert!(matches!(aliased, Error::OutputAliasesInput { output: "d", input: "B", .. }), "{aliased}");
}
