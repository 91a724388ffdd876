//! Reductions beyond sums and extremes, on every device, tile and split of K.

use epilogue::evt::Tree;
use epilogue::evt::random::Choices;
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Arithmetic, Builder, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};

use crate::hopper::{BF16, device, planned, small_tiles};

#[epilogue]
fn layer_norm(accum: Accum, weight: RowVector, epsilon: Scalar) -> (Tensor, ColumnVector, ColumnVector) {
    let mean = reduction_op(accum, Row, Mean);
    let variance = reduction_op(accum, Row, Variance);
    let d = (accum - mean) * rsqrt(variance + epsilon) * weight;
    (d, mean, variance)
}

/// Nothing of M×N.
#[epilogue]
fn cross_entropy(accum: Accum, labels: ColumnVector<i64>) -> (ColumnVector, ColumnVector<bool>) {
    let picked = reduction_op(if column() == integer(labels) { accum } else { 0.0 }, Row, Add);
    let loss = reduction_op(accum, Row, LogSumExp) - picked;
    let learned = !reduction_op(accum > picked, Row, Any);
    (loss, learned)
}

/// Along columns and over everything, also of all batches.
#[epilogue]
fn statistics(
    accum: Accum,
    mask: Tensor<bool>,
) -> (RowVector, RowVector, RowVector<bool>, DeviceScalar, DeviceScalar<bool>, RowVector<f16>) {
    let x = if mask { accum } else { 0.5 };
    let mean = reduction_op(x, Column, Mean);
    let spread = reduction_op(x, (Column, Batch), Variance);
    let small = reduction_op(x < 3.0, Column, All);
    let log_sum = reduction_op(x, All, LogSumExp);
    let any = reduction_op(mask && accum > 2.0, (All, Batch), Any);
    let rounded = mean;
    (mean, spread, small, log_sum, any, rounded)
}

/// Where elements are, and what is there.
#[epilogue]
fn places(
    accum: Accum,
    bias: RowVector<f32>,
) -> (ColumnVector<i64>, ColumnVector, RowVector<i32>, DeviceScalar<i64>, DeviceScalar<i32>, RowVector<i64>) {
    let x = (accum + bias).cast::<f8e4m3>();
    let most = reduction_op(x, Row, ArgMax);
    let largest = reduction_op(x, Row, Max);
    let least = reduction_op(x, Column, ArgMin);
    let place = reduction_op(x, All, ArgMax);
    let lowest = reduction_op(accum, All, ArgMin);
    let by_column = reduction_op(sqrt(x), Column, ArgMax);
    (most, largest, least, place, lowest, by_column)
}

/// One-hot rows: an index that is used.
#[epilogue]
fn one_hot(accum: Accum) -> (Tensor, ColumnVector<i32>, Tensor<bool>) {
    let index = reduction_op(accum, Row, ArgMax);
    let top = column() == index;
    let d = if top { accum } else { 0.0 };
    let last = index + 1;
    let first = row() == reduction_op(accum, Column, ArgMin);
    (d, last, first)
}

/// The length of a vector.
#[reducer]
mod norm {
    const IDENTITY: f32 = 0.0;

    fn lift(x: f32) -> f32 {
        x * x
    }

    fn combine(a: f32, b: f32) -> f32 {
        a + b
    }

    fn finish(s: f32) -> f32 {
        sqrt(s)
    }
}

/// How far apart the greatest and the least are: nothing rounds before the end.
#[reducer]
mod spread {
    const IDENTITY: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    fn lift(x: f32) -> (f32, f32) {
        (x, x)
    }

    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        (a.0.max(b.0), a.1.min(b.1))
    }

    fn finish(s: (f32, f32)) -> f32 {
        s.0 - s.1
    }
}

/// In one pass, what `LogSumExp` computes in two.
#[reducer]
mod log_sum {
    const IDENTITY: (f32, f32) = (f32::NEG_INFINITY, 0.0);

    fn lift(x: f32) -> (f32, f32) {
        (x, 1.0)
    }

    fn combine(a: (f32, f32), b: (f32, f32)) -> (f32, f32) {
        let most = max(a.0, b.0);
        let c = if abs(most) < f32::INFINITY { most } else { 0.0 };
        (most, a.1 * exp(a.0 - c) + b.1 * exp(b.0 - c))
    }

    fn finish((most, sum): (f32, f32)) -> f32 {
        let c = if abs(most) < f32::INFINITY { most } else { 0.0 };
        c + log(sum)
    }
}

/// The variance in one pass, by Chan's formula: how many, their mean, and the sum of the squares of the differences to it.
#[reducer]
mod variance {
    type State = (f32, f32, f32);
    const IDENTITY: State = (0.0, 0.0, 0.0);

    fn lift(x: f32) -> State {
        (1.0, x, 0.0)
    }

    fn combine(a: State, b: State) -> State {
        let n = a.0 + b.0;
        let share = if n > 0.0 { b.0 / n } else { 0.0 };
        let d = b.1 - a.1;
        (n, a.1 + d * share, a.2 + b.2 + d * d * a.0 * share)
    }

    fn finish(s: State) -> f32 {
        s.2 / s.0
    }
}

/// Own reducers along every axis, of all batches, returned and used.
#[epilogue]
fn own(
    accum: Accum,
    bias: RowVector<f32>,
) -> (Tensor, ColumnVector, ColumnVector<f16>, RowVector, RowVector, DeviceScalar, DeviceScalar) {
    let length = reduction_op(accum, Row, norm);
    let d = accum / (length + 1.0) + bias;
    let apart = reduction_op(accum, Row, spread);
    let of_columns = reduction_op(accum * 0.125, Column, log_sum);
    let of_batches = reduction_op(accum, (Column, Batch), norm);
    let all = reduction_op(accum, All, spread);
    let of_everything = reduction_op(accum, (All, Batch), log_sum);
    (d, length, apart, of_columns, of_batches, all, of_everything)
}

/// Three numbers at once, and a tail that is computed of them.
#[epilogue]
fn own_variance(accum: Accum, epsilon: Scalar) -> (ColumnVector, ColumnVector, RowVector) {
    let spread = reduction_op(accum * 0.5, Row, variance);
    let inverse = rsqrt(spread + epsilon);
    let of_columns = reduction_op(accum, Column, variance);
    (spread, inverse, of_columns)
}

const SHAPES: [(usize, usize, usize, usize); 4] =
    [(150, 172, 200, 1), (33, 129, 65, 2), (1, 3, 0, 3), (64, 17, 321, 1)];

fn trees() -> [Tree; 7] {
    [
        LayerNorm::tree(),
        CrossEntropy::tree(),
        Places::tree(),
        OneHot::tree(),
        Statistics::tree(),
        Own::tree(),
        OwnVariance::tree(),
    ]
}

#[track_caller]
fn check(kernel: &Kernel, name: &str, seed: u32, shapes: &[(usize, usize, usize, usize)]) {
    for (i, &(m, n, k, batch)) in shapes.iter().enumerate() {
        let problem = Problem::new(m, n, k);
        let problem = if batch == 1 { problem } else { problem.batched(batch) };
        let result = kernel.product(problem, &mut Choices::new(&[seed, i as u32, 7, 77, 5, 13]));
        result.unwrap_or_else(|error| panic!("{name}: {problem:?}: {error}"));
    }
}

#[test]
fn on_the_cpu() {
    for (i, tree) in trees().into_iter().enumerate() {
        for tile in [None, Some((32, 64))] {
            let builder = Builder::new(&Device::cpu(), tree.clone()).problem(64, 64, 64);
            let tile = tile.map(|(m, n)| Tile { m, n, k: 1, warp_m: 1, warp_n: 1, stages: 1 });
            let builder = tile.into_iter().fold(builder, Builder::tile);
            let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::Mn)).expect("a plan");
            check(&kernel, tree.name(), i as u32, &SHAPES);
        }
    }
}

#[test]
fn on_sm_80() {
    if testing::compiler("reducers::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let family = Family { hopper: false, ..BF16 };
    let instruction = Instruction::of(ElementType::BF16, ElementType::BF16, Arithmetic::Exact).expect("an instruction");
    let splits = [SplitK::Serial(2), SplitK::Stream, SplitK::Parallel(3)];
    for (i, tree) in trees().into_iter().enumerate() {
        let smallest = *Tile::all(instruction).last().expect("a tile");
        let builder = Builder::new(&device, tree.clone()).problem(64, 64, 64);
        let builder = builder.tile(smallest).split_k(splits[i % splits.len()]);
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::Mn));
        let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", tree.name()));
        check(&kernel, tree.name(), i as u32, &SHAPES[1..][..2]);
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("reducers::on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::Parallel(3), SplitK::None, SplitK::Stream, SplitK::Serial(2)];
    for (i, tree) in trees().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let kernel = planned(&device, tree.clone(), Request { split_k: Some(splits[i % 4]), ..small_tiles()[i % 4] });
        check(&kernel, tree.name(), i as u32, &SHAPES[1..][..2]);
    }
}
