//! Logarithms of sums of exponentials in one launch on GPUs: of rows and columns with infinities and NaN, in every kind of tile
//! and split of K.

use epilogue::Argument;
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Arithmetic, Builder, Instruction, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use half::bf16;

use crate::hopper::{device, small_tiles};

/// By the language's reduction, which subtracts no infinity, and by hand.
#[epilogue]
fn rows(accum: Accum, logits: Tensor<f32>) -> (ColumnVector<f32>, ColumnVector<f32>, ColumnVector<f32>) {
    let x = accum + logits;
    let d = reduction_op(x, Row, LogSumExp);
    let most = reduction_op(x, Row, Max);
    let plain = most + log(reduction_op(exp(x - most), Row, Add));
    (d, plain, most)
}

#[epilogue]
fn columns(accum: Accum, logits: Tensor<f32>) -> (RowVector<f32>, RowVector<f32>, RowVector<f32>) {
    let x = accum + logits;
    let d = reduction_op(x, Column, LogSumExp);
    let most = reduction_op(x, Column, Max);
    let plain = most + log(reduction_op(exp(x - most), Column, Add));
    (d, plain, most)
}

/// Lines of magnitudes that differ, some with infinities of both signs and NaN.
fn line(number: usize, length: usize, random: &mut fastrand::Rng) -> Vec<f32> {
    let element = |i: usize, x: f32| match number % 9 {
        0 => f32::NEG_INFINITY,
        1 if i.is_multiple_of(3) => f32::NEG_INFINITY,
        2 if i + 1 == length => f32::INFINITY,
        3 if i == length / 2 => f32::NAN,
        4 => 1e4 * x,
        5 => 100.0 + x,
        6 => -1e30 * x,
        7 if i < 70 => f32::NEG_INFINITY,
        _ => 10.0 * x,
    };
    (0..length).map(|i| element(i, random.f32() - 0.5)).collect()
}

/// The results of `rows` and `columns` for one line, in f64.
fn expected(line: &[f32]) -> [f64; 3] {
    let line: Vec<f64> = line.iter().map(|x| f64::from(*x)).collect();
    let most = line.iter().fold(f64::NEG_INFINITY, |a, x| if *x > a || x.is_nan() { *x } else { a });
    let below = |subtracted: f64| subtracted + line.iter().map(|x| (x - subtracted).exp()).sum::<f64>().ln();
    [below(if most.is_infinite() { 0.0 } else { most }), below(most), most]
}

/// One run of `rows`, or of `columns` with the same lines, with a kernel as `request` says.
fn check(device: &Device, of_rows: bool, (lines, length): (usize, usize), request: impl Fn(Builder) -> Builder) {
    let mut random = fastrand::Rng::with_seed(11);
    let values: Vec<Vec<f32>> = (0..lines).map(|number| line(number, length, &mut random)).collect();
    let (m, n) = if of_rows { (lines, length) } else { (length, lines) };
    let logits: Vec<f32> =
        (0..m * n).map(|i| if of_rows { values[i / n][i % n] } else { values[i % n][i / n] }).collect();
    let logits = device.tensor(&logits, [m, n]).expect("memory");
    let (a, b) = (device.zeros::<bf16>([m, 16]).expect("memory"), device.zeros::<bf16>([16, n]).expect("memory"));
    let mut results = [(); 3].map(|()| device.zeros::<f32>([lines]).expect("memory"));
    let [d, plain, most] = results.each_mut();
    let tree = if of_rows { Rows::tree() } else { Columns::tree() };
    let builder = Builder::<()>::new(device, tree).operands(&a, &b).expect("operands");
    let gemm = request(builder).plan().expect("a plan");
    let choice = gemm.choice().to_string();
    assert!(choice.contains("`d`, `plain`, `most` by the blocks that complete their reductions"), "{choice}");
    assert!(!choice.contains("kept in memory"), "{choice}");
    let arguments = [Argument::Input(&logits), Argument::Output(d), Argument::Output(plain), Argument::Output(most)];
    gemm.run_arguments(&device.default_stream(), &a, &b, &arguments).expect("a run");
    let results = results.map(|result| result.to_vec::<f32>().expect("numbers"));
    for (number, line) in values.iter().enumerate() {
        for (result, want) in results.iter().zip(expected(line)) {
            let got = f64::from(result[number]);
            let near = (got - want).abs() <= 2e-6 * want.abs().max(1.0);
            assert!(got == want || got.is_nan() && want.is_nan() || near, "line {number}: {got}, not {want}: {choice}");
        }
    }
}

#[test]
fn on_sm_80() {
    if testing::compiler("exponentials::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let instruction = Instruction::of(ElementType::BF16, ElementType::BF16, Arithmetic::Exact).expect("an instruction");
    let tiles = Tile::all(instruction);
    let (smallest, next) = (tiles[tiles.len() - 1], tiles[tiles.len() - 3]);
    for (tile, split_k) in [(smallest, SplitK::None), (next, SplitK::Serial(2)), (smallest, SplitK::Stream)] {
        for of_rows in [true, false] {
            for extents in [(40, 300), (9, 1), (70, 64)] {
                check(&device, of_rows, extents, |builder| builder.tile(tile).split_k(split_k));
            }
        }
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("exponentials::on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, tile) in small_tiles().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        for of_rows in [true, false] {
            let request = Request { split_k: Some(splits[(i + usize::from(of_rows)) % 4]), ..tile };
            for extents in [(40, 304), (8, 8), (72, 64)] {
                check(&device, of_rows, extents, |builder| builder.multiprocessors(4).sm90(request));
            }
        }
    }
}
