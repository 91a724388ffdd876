//! Truth values with eight columns in a byte: written by one product and read by another, on the CPU and on emulated GPUs.

use epilogue::Error;
use epilogue::evt::random::Choices;
use epilogue::gemm::sm90::{Request, Staging};
use epilogue::gemm::{Arithmetic, Builder, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel, choices};

use crate::hopper::{device, planned, small_tiles};

const N: usize = 83;
const BYTES: usize = N.div_ceil(8);

/// ReLU and dropout, and where both let a value pass.
#[epilogue]
fn forward(accum: Accum, p: Scalar, seed: Seed) -> (Tensor, Bits) {
    let keep = accum > 0.0 && random(seed) >= p;
    let y = if keep { accum } else { 0.0 };
    (y, keep)
}

/// The gradient where a mask lets it pass, its columns' sums, and the other elements' mask.
#[epilogue]
fn backward(accum: Accum, keep: Bits, beta: Scalar, c: Tensor<f32>) -> (Tensor<f32>, Bits, RowVector) {
    let d = if keep { accum + beta * c } else { 0.0 };
    let other = !keep;
    let sums = reduction_op(d, Column, Add);
    (d, other, sums)
}

/// A mask is read in the second phase, and written in it.
#[epilogue]
fn in_phases(accum: Accum, keep: Bits) -> (Tensor<f32>, Bits) {
    let largest = reduction_op(accum, Row, Max);
    let d = if keep { accum - largest } else { 0.0 };
    let at = accum == largest;
    (d, at)
}

fn is_set(bytes: &[u8], m: usize, n: usize) -> bool {
    bytes[m * BYTES + n / 8] >> (n % 8) & 1 == 1
}

fn on(device: &Device, m: usize) -> Result<(), Error> {
    // Products of k = 16 equal terms, of every sign.
    let sign = |i: usize, n: usize| if (i * i + 3 * n) % 5 < 2 { -1.0 } else { 1.0 };
    let rows: Vec<f16> = (0..m).flat_map(|i| [f16::from_f32(sign(i, 1)); 16]).collect();
    let columns: Vec<f16> = (0..16 * N).map(|i| f16::from_f32(sign(2, i % N))).collect();
    let (a, b) = (device.tensor(&rows, [m, 16])?, device.tensor(&columns, [16, N])?);
    let product = |i: usize, n: usize| 16.0 * sign(i, 1) * sign(2, n);

    let mut y = device.zeros::<f16>([m, N])?;
    // A window of a larger tensor: rows begin anywhere.
    let whole = device.full::<u8>([m, BYTES + 3], 0xff)?;
    let mut keep = whole.slice(1, 1..1 + BYTES)?;
    let gemm = Gemm::plan::<Forward>(device, &a, &b)?;
    gemm.run(&a, &b, Forward { p: 0.0, seed: Seed::new(1), y: &mut y, keep: &mut keep })?;
    let bytes = keep.to_vec::<u8>()?;
    for (i, n) in (0..m * N).map(|i| (i / N, i % N)) {
        assert_eq!(is_set(&bytes, i, n), product(i, n) > 0.0, "{i}, {n}");
    }
    assert!((0..m).all(|i| bytes[i * BYTES + BYTES - 1] >> (N % 8) == 0), "bits beyond the last column are 0");
    let all = whole.to_vec::<u8>()?;
    assert!((0..m).all(|i| all[i * (BYTES + 3)] == 0xff && all[(i + 1) * (BYTES + 3) - 2..(i + 1) * (BYTES + 3)] == [0xff; 2]));

    // With bits beyond the last column that are not 0.
    let marked: Vec<u8> =
        bytes.iter().enumerate().map(|(i, x)| if (i + 1) % BYTES == 0 { x | 0xf8 } else { *x }).collect();
    let keep = device.tensor(&marked, [m, BYTES])?;
    let c = device.full::<f32>([m, N], f32::NAN)?;
    let (mut d, mut other) = (device.zeros::<f32>([m, N])?, device.zeros::<u8>([m, BYTES])?);
    let mut sums = device.zeros::<f32>([N])?;
    let gemm = Gemm::plan::<Backward>(device, &a, &b)?;
    let run = Backward { keep: &keep, beta: 0.0, c: &c, d: &mut d, other: &mut other, sums: &mut sums };
    gemm.run(&a, &b, run)?;
    let expected = |i: usize, n: usize| if product(i, n) > 0.0 { 16.0 } else { 0.0 };
    assert_eq!(d.to_vec::<f32>()?, (0..m * N).map(|i| expected(i / N, i % N)).collect::<Vec<_>>());
    let others = other.to_vec::<u8>()?;
    assert!((0..m * N).all(|i| is_set(&others, i / N, i % N) != is_set(&bytes, i / N, i % N)));
    assert!((0..m).all(|i| others[i * BYTES + BYTES - 1] >> (N % 8) == 0));
    assert_eq!(sums.to_vec::<f32>()?, (0..N).map(|n| (0..m).map(|i| expected(i, n)).sum()).collect::<Vec<f32>>());

    let (mut d, mut at) = (device.zeros::<f32>([m, N])?, device.zeros::<u8>([m, BYTES])?);
    let gemm = Gemm::plan::<InPhases>(device, &a, &b)?;
    gemm.run(&a, &b, InPhases { keep: &keep, d: &mut d, at: &mut at })?;
    // Every row has both signs.
    assert_eq!(at.to_vec::<u8>()?, bytes);
    assert!(d.to_vec::<f32>()?.iter().all(|d| *d == 0.0));
    Ok(())
}

#[test]
fn a_mask_of_one_product_is_anothers() -> Result<(), Error> {
    for m in [1, 5, 70, 300] {
        on(&Device::cpu(), m)?;
    }
    if testing::compiler("bits::a_mask_of_one_product_is_anothers").is_none() {
        return Ok(());
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        // Few rows are computed with A and B swapped.
        for m in [70, 5] {
            on(&Device::emulated(arch)?, m)?;
        }
    }
    Ok(())
}

/// Lanes of both orientations, units of both widths, every split of K; placements that begin anywhere; with the race
/// detector, for which two writers of one byte are a race.
#[test]
fn on_tiles_of_sm_90a() {
    if testing::compiler("bits::on_tiles_of_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, (request, split_k)) in small_tiles().into_iter().zip(splits).enumerate() {
        // Units of 8 columns, and of 16.
        let staging = (i < 2).then_some(Staging { step: 8, output_stages: 1, input_stages: 1 });
        let request = Request { split_k: Some(split_k), staging, ..request };
        let kernel = planned(&device(Completion::Random, i as u64), Backward::tree(), request);
        for (problem, seed) in [(Problem::new(75, 69, 130), 1), (Problem::new(33, 64, 70).batched(2), 2)] {
            let result = kernel.product(problem, &mut Choices::new(&choices(seed)));
            result.unwrap_or_else(|error| panic!("{request}: {problem:?}: {error}"));
        }
    }
}

/// One, two and four columns for each lane.
#[test]
fn on_tiles_of_sm_80() {
    if testing::compiler("bits::on_tiles_of_sm_80").is_none() {
        return;
    }
    for element in [ElementType::F16, ElementType::F64] {
        let options = Options::default().detector(Detector::On).completion(Completion::Random);
        let device = Device::emulated_with(Arch::SM_80, options).expect("an emulated device");
        let elements = (element, element);
        let instruction = Instruction::of(element, element, Arithmetic::Exact).expect("an instruction");
        let tiles = Tile::all(instruction);
        let family = Family { elements, arithmetic: Arithmetic::Exact, hopper: false, repacked: false };
        let builder = Builder::new(&device, Backward::tree()).problem(64, 64, 64);
        let builder = builder.tile(tiles[tiles.len() - 1]).split_k(SplitK::Serial(2));
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::K)).expect("a kernel");
        for (problem, seed) in [(Problem::new(45, 69, 40), 1), (Problem::new(33, 64, 40).batched(2), 2)] {
            kernel
                .product(problem, &mut Choices::new(&choices(seed)))
                .unwrap_or_else(|error| panic!("{element}: {error}"));
        }
    }
}

#[test]
fn bits_of_another_shape_are_refused() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b, c) = (device.zeros::<f32>([2, 3])?, device.zeros::<f32>([3, 20])?, device.zeros::<f32>([2, 20])?);
    let gemm = Gemm::plan::<Backward>(&device, &a, &b)?;
    let (mut d, mut sums) = (device.zeros::<f32>([2, 20])?, device.zeros::<f32>([20])?);
    let (good, wide, truths) =
        (device.zeros::<u8>([2, 3])?, device.zeros::<u8>([2, 20])?, device.zeros::<bool>([2, 20])?);
    let mut refused = |keep: &DeviceTensor, other: &mut DeviceTensor| {
        let run = Backward { keep, beta: 0.0, c: &c, d: &mut d, other, sums: &mut sums };
        gemm.run(&a, &b, run).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&wide, &mut good.clone()),
        "`keep` holds 8 columns a byte: [2, 3] is needed for N = 20, [2, 20] given; `Tensor<bool>` has one byte each"
    );
    assert_eq!(
        refused(&truths, &mut good.clone()),
        "argument `keep` holds bool; `backward` has u8 there (`Bits` are u8 of shape [M, ceil(N / 8)]; write \
         `Tensor<bool>` for a byte each)"
    );
    assert_eq!(
        refused(&good, &mut wide.clone()),
        "`other` holds 8 columns a byte: [2, 3] is needed for N = 20, [2, 20] given; `Tensor<bool>` has one byte each"
    );
    assert!(refused(&good, &mut good.clone()).contains("output `other` overlaps `keep`"));
    let mut repeated = device.zeros::<u8>([1, 3])?.broadcast_to([2, 3])?;
    assert!(refused(&good, &mut repeated).contains("reaches some element by two indices"));
    Ok(())
}
