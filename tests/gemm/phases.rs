//! Epilogues that are computed from their own reductions: as people write them, on every device, tile and split of K.

use epilogue::evt::random::Choices;
use epilogue::evt::{Axis, BroadcastClass, Form, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder};
use epilogue::expr::Op;
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Arithmetic, Builder, Error, Finish, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};

use crate::hopper::{BF16, device, small_tiles};

#[epilogue]
pub(crate) fn softmax(accum: Accum, mask: Tensor, scale: Scalar) -> (Tensor, ColumnVector) {
    let x = scale * accum + mask;
    let e = exp(x - reduction_op(x, Row, Max));
    let sum = reduction_op(e, Row, Add);
    let d = e / sum;
    (d, sum)
}

#[epilogue]
pub(crate) fn log_softmax(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
    let x = accum + bias;
    let shifted = x - reduction_op(x, Row, Max);
    let d = shifted - log(reduction_op(exp(shifted), Row, Add));
    d
}

#[epilogue]
fn rms_norm(accum: Accum, residual: TensorMut, weight: RowVector, epsilon: Scalar) -> (Tensor, Tensor) {
    residual += accum;
    let mean = reduction_op(residual, Row, SumSquares) / real(columns());
    let d = residual * rsqrt(mean + epsilon) * weight;
    (residual, d)
}

#[epilogue]
pub(crate) fn layer_norm(accum: Accum, weight: RowVector, shift: RowVector, epsilon: Scalar) -> (Tensor, ColumnVector) {
    let mean = reduction_op(accum, Row, Add) / real(columns());
    let centred = accum - mean;
    let variance = reduction_op(centred, Row, SumSquares) / real(columns());
    let d = centred * rsqrt(variance + epsilon) * weight + shift;
    (d, mean)
}

#[epilogue]
fn unit(accum: Accum) -> Tensor {
    let d = accum * rsqrt(reduction_op(accum, Row, SumSquares).max(1e-3));
    d
}

#[epilogue]
fn quantised(accum: Accum, gain: ColumnVector) -> (Tensor<f8e4m3>, ColumnVector, ColumnVector<f16>) {
    let x = accum * gain;
    let scale = max(reduction_op(x, Row, AbsMax) / 448.0, 0.000001);
    let q = x / scale;
    let rounded = scale;
    (q, scale, rounded)
}

/// Nothing of M×N.
#[epilogue]
fn cross_entropy(accum: Accum, labels: ColumnVector<i64>) -> (ColumnVector, ColumnVector) {
    let largest = reduction_op(accum, Row, Max);
    let sum = reduction_op(exp(accum - largest), Row, Add);
    let picked = reduction_op(if column() == integer(labels) { accum } else { 0.0 }, Row, Add);
    let log_sum_exp = largest + log(sum);
    let loss = log_sum_exp - picked;
    (loss, log_sum_exp)
}

/// Row scales of a product and of the next one: vectors only, of both kinds of argument.
#[epilogue]
pub(crate) fn factor(
    accum: Accum,
    before: ColumnVector<f16>,
    limit: DeviceScalar,
    beta: Scalar,
) -> (Tensor, ColumnVector, ColumnVector<bf16>) {
    let d = accum + 1.0;
    let mean = reduction_op(d, Row, SumSquares) / real(columns());
    let scale = rsqrt(mean + 0.01) + beta * before;
    let norm = if row() > 3 && mean > limit { scale.min(limit) } else { mean * real(row() - rows()) };
    (d, scale, norm)
}

/// Statistics of columns, and of the whole.
#[epilogue]
fn statistics(accum: Accum, running: RowVector<f32>, momentum: Scalar) -> (Tensor, RowVector, RowVector<f32>) {
    let d = relu(accum);
    let mean = reduction_op(d, Column, Add) / real(rows());
    let updated = running + momentum * (mean - running);
    (d, mean, updated)
}

#[epilogue]
fn overall(accum: Accum, gain: DeviceScalar) -> (Tensor, DeviceScalar) {
    let scale = gain * reduction_op(accum, All, AbsMax) / 448.0;
    let d = accum;
    (d, scale)
}

/// Running mean and variance of columns, over all batches, and the columns normalised by them.
#[epilogue]
pub(crate) fn batch_norm(
    accum: Accum,
    before: RowVector<f32>,
    momentum: Scalar,
) -> (Tensor, RowVector<f32>, RowVector<f32>) {
    let count = real(rows());
    let mean = reduction_op(accum, (Column, Batch), Add) / count;
    let centred = accum - mean;
    let variance = reduction_op(centred, (Column, Batch), SumSquares) / count;
    let running = before + momentum * (mean - before);
    let d = if variance > 0.5 { centred * rsqrt(variance) } else { centred };
    (d, running, variance)
}

/// Reductions along different axes, of each other; truth values and integers that cross phases; two accumulators.
#[epilogue]
pub(crate) fn crossed(gate: Accum, up: Accum, mask: Tensor<bool>) -> (Tensor, Tensor<i32>, DeviceScalar, Tensor<bool>) {
    let open = gate > 0.0 || mask;
    let x = if open { up } else { gate };
    let columns = reduction_op(x, Column, Max);
    let y = x - columns;
    let rows = reduction_op(y, Row, Min);
    let all = reduction_op(y - rows, All, AbsMax);
    let most = all + 1.0;
    let d = if open { y / most } else { rows };
    let place = if open && y > rows { row() } else { -column() };
    let last = y / most > 0.5 && open;
    (d, place, most, last)
}

/// Trees that reduce rows alone, with M×N values in their later phases.
pub(crate) fn of_rows() -> [Tree; 6] {
    [Softmax::tree(), LogSoftmax::tree(), RmsNorm::tree(), LayerNorm::tree(), Unit::tree(), Quantised::tree()]
}

const SHAPES: [(usize, usize, usize, usize); 4] =
    [(150, 172, 200, 1), (33, 129, 65, 2), (1, 3, 0, 3), (64, 17, 321, 1)];

fn trees() -> [Tree; 12] {
    [
        Softmax::tree(),
        LogSoftmax::tree(),
        RmsNorm::tree(),
        LayerNorm::tree(),
        Unit::tree(),
        Quantised::tree(),
        CrossEntropy::tree(),
        Factor::tree(),
        Statistics::tree(),
        Overall::tree(),
        BatchNorm::tree(),
        Crossed::tree(),
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

/// With later phases in launches of their own, if there are any.
fn in_launches(builder: Builder) -> Builder {
    let asked = builder.clone().finish(Finish::SecondLaunch);
    let needs_none = matches!(
        asked.clone().elements(ElementType::BF16, ElementType::BF16).choose(),
        Err(Error::NothingToFinish { .. })
    );
    if needs_none { builder } else { asked }
}

#[test]
fn on_the_cpu() {
    for (i, tree) in trees().into_iter().enumerate() {
        // Tiles of the plan's choice, and small ones: a row has several of these.
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
    if testing::compiler("phases::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let family = Family { hopper: false, ..BF16 };
    let instruction = Instruction::of(ElementType::BF16, ElementType::BF16, Arithmetic::Exact).expect("an instruction");
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, tree) in trees().into_iter().enumerate() {
        let smallest = *Tile::all(instruction).last().expect("a tile");
        let builder = Builder::new(&device, tree.clone()).problem(64, 64, 64);
        let builder = in_launches(builder.tile(smallest).split_k(splits[i % splits.len()]));
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::Mn));
        let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", tree.name()));
        check(&kernel, tree.name(), i as u32, &SHAPES[i % 2..][..3]);
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("phases::on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, tree) in trees().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let mut request = Request { split_k: Some(splits[i / 2 % 4]), ..small_tiles()[i % 4] };
        if tree.accumulators().len() > 1 {
            (request.tile, request.swap_ab) = (None, None);
        }
        let builder = Builder::new(&device, tree.clone()).problem(64, 64, 64).multiprocessors(4).sm90(request);
        let kernel = Kernel::planned(in_launches(builder), &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{}: {request}: {error}", tree.name()));
        check(&kernel, tree.name(), i as u32, &SHAPES[i % 2..][..3]);
    }
}

/// `choice()` says that there are more launches, and why.
#[test]
fn the_choice_says_why_there_are_more_launches() {
    let device = Device::emulated(Arch::SM_80).expect("a device");
    let choice = |tree: Tree| {
        let builder = Builder::<()>::new(&device, tree).elements(ElementType::BF16, ElementType::BF16);
        builder.problem(4096, 4096, 4096).choose().expect("a choice").to_string()
    };
    let softmax = choice(Softmax::tree());
    assert!(
        softmax.contains("; then a second launch, because `reduction_op(x, Row, Max)`, `sum` are complete when all tiles are done; `x` kept"),
        "{softmax}"
    );
    let norm = choice(LayerNorm::tree());
    assert!(norm.contains("; then 2 more launches, because `"), "{norm}");
    let unit = choice(Unit::tree());
    assert!(unit.contains("; then a second launch, because "), "{unit}");
    let loss = choice(CrossEntropy::tree());
    assert!(loss.ends_with("; `loss`, `log_sum_exp` by the blocks that complete their reductions"), "{loss}");
    let factor = choice(Factor::tree());
    assert!(factor.ends_with("; `scale`, `norm` by the blocks that complete their reductions"), "{factor}");
}

/// A launch after the product's may take more arguments than that: it is said when it is planned, before any run.
#[test]
fn a_later_launch_has_a_limit_of_arguments() {
    if testing::compiler("phases::a_later_launch_has_a_limit_of_arguments").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).expect("a device");
    let plan = |tensors: usize| {
        let mut b = TreeBuilder::new("sum", file!());
        let accum = b.accum("accum");
        let reduction = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Max, form: Form::Complete };
        let mut x = b.reduce(reduction, accum);
        for i in 0..tensors {
            let tensor = b.parameter(String::leak(format!("t{i}")), ParameterClass::Tensor, None);
            x = b.apply(Op::Add, &[x, tensor]);
        }
        b.output("d", x, BroadcastClass::Tensor, None);
        let builder = Builder::<()>::new(&device, b.finish()).elements(ElementType::BF16, ElementType::BF16);
        builder.problem(64, 64, 64).plan()
    };
    assert!(plan(2).is_ok());
    // A tensor's view has 40 bytes, and a kernel may take 4096.
    let refused = plan(110).expect_err("it is refused").to_string();
    assert!(refused.contains("4096"), "{refused}");
}

/// The bits are the same, run after run and on any number of threads: by panels and part after part.
#[test]
fn results_are_the_same_at_every_run() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let (m, n, k) = (300, 700, 40);
    let numbers =
        |count: usize, step: usize| (0..count).map(|i| ((i * step) % 23) as f32 / 8.0 - 1.3).collect::<Vec<_>>();
    let (a, b) = (device.tensor(&numbers(m * k, 7), [m, k])?, device.tensor(&numbers(k * n, 11), [k, n])?);
    let mask = device.zeros::<f32>([m, n])?;
    let gemm = Gemm::plan::<Softmax>(&device, &a, &b)?;
    let mut results = Vec::new();
    for _ in 0..3 {
        let (mut d, mut sum) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m])?);
        gemm.run(&a, &b, Softmax { mask: &mask, scale: 0.3, d: &mut d, sum: &mut sum })?;
        results.push((d.to_bytes()?, sum.to_bytes()?));
    }
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}
