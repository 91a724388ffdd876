//! Backward passes that `#[epilogue(backward)]` makes: on every device against the reference, and against differences of the
//! forward pass.

use epilogue::evt::Tree;
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Builder, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};
use half::bf16;

use crate::hopper::{BF16, device, planned, small_tiles};

#[elementwise]
fn dropout(x: f32, u: f32, p: f32) -> f32 {
    if u < p { 0.0 } else { x / (1.0 - p) }
}

/// Bias, GELU, dropout and a residual; of four gradients, two are asked for.
#[epilogue(backward(saved(z), gradients(bias)))]
fn layer(accum: Accum, bias: RowVector, residual: Tensor, p: Scalar, seed: Seed) -> (Tensor, Tensor) {
    let z = accum + bias;
    let y = dropout(gelu(z), random(seed), p) + residual;
    (y, z)
}

/// A norm of rows, through a reduction; another output with a gradient of its own.
#[epilogue(backward(through = y, given(energy), saved(x), gradients(weight), gradients_of_all(shift), name = NormGradients))]
fn norm(accum: Accum, weight: RowVector, shift: ColumnVector) -> (Tensor, Tensor, ColumnVector) {
    let x = accum;
    let energy = reduction_op(x, Row, SumSquares);
    let y = x * rsqrt(energy / real(columns()) + 0.5) * weight + shift;
    (y, x, energy)
}

/// Two accumulators, with all that follows from the function alone.
#[epilogue(backward)]
fn gated(gate: Accum, up: Accum) -> (Tensor, Tensor, Tensor) {
    let g = gate;
    let u = up;
    let h = silu(g) * u;
    (h, g, u)
}

fn trees() -> [Tree; 3] {
    [LayerBackward::tree(), NormGradients::tree(), GatedBackward::tree()]
}

#[track_caller]
fn check(kernel: &Kernel, name: &str, seed: u32, shapes: &[(usize, usize, usize, usize)]) {
    for (i, &(m, n, k, batch)) in shapes.iter().enumerate() {
        let problem = Problem::new(m, n, k);
        let problem = if batch == 1 { problem } else { problem.batched(batch) };
        let result = kernel.product(problem, &mut epilogue::evt::random::Choices::new(&[seed, i as u32, 3, 71, 9, 13]));
        result.unwrap_or_else(|error| panic!("{name}: {problem:?}: {error}"));
    }
}

const SHAPES: [(usize, usize, usize, usize); 3] = [(70, 92, 65, 1), (33, 129, 40, 2), (1, 3, 0, 3)];

#[test]
fn on_the_cpu() {
    for (i, tree) in trees().into_iter().enumerate() {
        let builder = Builder::new(&Device::cpu(), tree.clone()).problem(64, 64, 64);
        let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::Mn)).expect("a plan");
        check(&kernel, tree.name(), i as u32, &SHAPES);
    }
}

#[test]
fn on_sm_80() {
    if testing::compiler("backward::on_sm_80").is_none() {
        return;
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On)).expect("a device");
    let family = Family { hopper: false, ..BF16 };
    let arithmetic = epilogue::gemm::Arithmetic::Exact;
    let instruction = Instruction::of(ElementType::BF16, ElementType::BF16, arithmetic).expect("an instruction");
    for (i, tree) in trees().into_iter().enumerate() {
        let smallest = *Tile::all(instruction).last().expect("a tile");
        let split = [SplitK::Serial(2), SplitK::Stream, SplitK::None][i];
        let builder = Builder::new(&device, tree.clone()).problem(64, 64, 64).tile(smallest).split_k(split);
        let kernel = Kernel::planned(builder, &family, (Major::K, Major::Mn));
        let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", tree.name()));
        check(&kernel, tree.name(), i as u32, &SHAPES[1..2]);
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("backward::on_sm_90a").is_none() {
        return;
    }
    for (i, tree) in trees().into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let split_k = Some([SplitK::None, SplitK::Parallel(2), SplitK::Stream][i]);
        let kernel = planned(&device, tree.clone(), Request { split_k, ..small_tiles()[i % 4] });
        check(&kernel, tree.name(), i as u32, &SHAPES[1..2]);
    }
}

const M: usize = 5;
const N: usize = 6;

/// Numbers of both signs, away from 0.
fn numbers(count: usize, seed: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 37 + seed * 53) % 101) as f64 / 60.0 - 0.83).collect()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn moved(x: &[f64], along: &[f64], h: f64) -> Vec<f64> {
    x.iter().zip(along).map(|(x, v)| x + h * v).collect()
}

/// A product that is its left operand.
struct Identity {
    device: Device,
    b: DeviceTensor,
}

impl Identity {
    fn new() -> Self {
        let device = Device::cpu();
        let one: Vec<f64> = (0..N * N).map(|i| f64::from(u8::from(i % (N + 1) == 0))).collect();
        let b = device.tensor(&one, [N, N]).expect("a tensor");
        Self { device, b }
    }

    fn tensor(&self, values: &[f64], shape: &[usize]) -> DeviceTensor {
        self.device.tensor(values, shape).expect("a tensor")
    }

    fn zeros(&self, shape: &[usize]) -> DeviceTensor {
        self.device.zeros::<f64>(shape).expect("a tensor")
    }
}

#[track_caller]
fn near(derived: f64, difference: f64) {
    assert!((derived - difference).abs() < 1e-6 * (1.0 + difference.abs()), "{derived} is not {difference}");
}

#[test]
fn a_layer_against_differences() {
    let one = Identity::new();
    let (x, bias, residual) = (numbers(M * N, 1), numbers(N, 2), numbers(M * N, 3));
    let (weights, of_x, of_bias) = (numbers(M * N, 4), numbers(M * N, 5), numbers(N, 6));
    let forward = Gemm::plan::<Layer>(&one.device, &one.zeros(&[M, N]), &one.b).expect("a plan");
    let residual = one.tensor(&residual, &[M, N]);
    let run = |h: f64| {
        let (mut y, mut z) = (one.zeros(&[M, N]), one.zeros(&[M, N]));
        let (x, bias) = (one.tensor(&moved(&x, &of_x, h), &[M, N]), one.tensor(&moved(&bias, &of_bias, h), &[N]));
        let layer = Layer { bias: &bias, residual: &residual, p: 0.3, seed: Seed::new(5), y: &mut y, z: &mut z };
        forward.run(&x, &one.b, layer).expect("a run");
        (dot(&y.to_vec::<f64>().expect("numbers"), &weights), z)
    };
    let h = 1e-5;
    let difference = (run(h).0 - run(-h).0) / (2.0 * h);
    let (z, d_y) = (run(0.0).1, one.tensor(&weights, &[M, N]));
    let backward = Gemm::plan::<LayerBackward>(&one.device, &d_y, &one.b).expect("a plan");
    let (mut d_accum, mut d_bias) = (one.zeros(&[M, N]), one.zeros(&[N]));
    let layer = LayerBackward {
        bias: &one.zeros(&[N]),
        residual: &residual,
        p: 0.3,
        seed: Seed::new(5),
        z: &z,
        d_accum: &mut d_accum,
        d_bias: &mut d_bias,
    };
    backward.run(&d_y, &one.b, layer).expect("a run");
    let derived = dot(&d_accum.to_vec::<f64>().expect("numbers"), &of_x)
        + dot(&d_bias.to_vec::<f64>().expect("numbers"), &of_bias);
    near(derived, difference);
}

#[test]
fn a_norm_against_differences() {
    let one = Identity::new();
    let (x, weight, shift) = (numbers(M * N, 7), numbers(N, 8), numbers(M, 9));
    let (weights, of_energy) = (numbers(M * N, 1), numbers(M, 2));
    let (of_x, of_weight, of_shift) = (numbers(M * N, 3), numbers(N, 4), numbers(M, 5));
    let forward = Gemm::plan::<Norm>(&one.device, &one.zeros(&[M, N]), &one.b).expect("a plan");
    let run = |h: f64| {
        let (mut y, mut kept, mut energy) = (one.zeros(&[M, N]), one.zeros(&[M, N]), one.zeros(&[M]));
        let (weight, shift) =
            (one.tensor(&moved(&weight, &of_weight, h), &[N]), one.tensor(&moved(&shift, &of_shift, h), &[M]));
        let x = one.tensor(&moved(&x, &of_x, h), &[M, N]);
        let norm = Norm { weight: &weight, shift: &shift, y: &mut y, x: &mut kept, energy: &mut energy };
        forward.run(&x, &one.b, norm).expect("a run");
        dot(&y.to_vec::<f64>().expect("numbers"), &weights) + dot(&energy.to_vec::<f64>().expect("numbers"), &of_energy)
    };
    let h = 1e-5;
    let difference = (run(h) - run(-h)) / (2.0 * h);
    let d_y = one.tensor(&weights, &[M, N]);
    let backward = Gemm::plan::<NormGradients>(&one.device, &d_y, &one.b).expect("a plan");
    let (mut d_accum, mut d_weight, mut d_shift) = (one.zeros(&[M, N]), one.zeros(&[N]), one.zeros(&[M]));
    let norm = NormGradients {
        weight: &one.tensor(&weight, &[N]),
        shift: &one.tensor(&shift, &[M]),
        x: &one.tensor(&x, &[M, N]),
        d_energy: &one.tensor(&of_energy, &[M]),
        d_accum: &mut d_accum,
        d_weight: &mut d_weight,
        d_shift: &mut d_shift,
    };
    backward.run(&d_y, &one.b, norm).expect("a run");
    let derived = dot(&d_accum.to_vec::<f64>().expect("numbers"), &of_x)
        + dot(&d_weight.to_vec::<f64>().expect("numbers"), &of_weight)
        + dot(&d_shift.to_vec::<f64>().expect("numbers"), &of_shift);
    near(derived, difference);
}

/// Scores with two results of each row that say no element type; the gradient of the shift is one of theirs.
#[epilogue(backward(through = y, given(log_sum, loss, total), saved(z), gradients(shift)))]
fn scores(accum: Accum, shift: ColumnVector) -> (Tensor, Tensor, ColumnVector, ColumnVector, DeviceScalar) {
    let z = accum;
    let log_sum = reduction_op(z, Row, LogSumExp);
    let loss = log_sum - reduction_op(z, Row, Add) + shift;
    let total = reduction_op(z * z, All, Add);
    let y = z * 0.5;
    (y, z, log_sum, loss, total)
}

/// A vector that is computed from no reduction has A's type, and so has its gradient.
#[epilogue(backward(through = y, given(doubled, rounded), saved(z), gradients(v, w)))]
fn vectors(accum: Accum, v: ColumnVector, w: RowVector<f16>) -> (Tensor, Tensor, ColumnVector, RowVector<bf16>) {
    let z = accum;
    let y = z * v * w;
    let doubled = v * 2.0;
    let rounded = w * 3.0;
    (y, z, doubled, rounded)
}

/// The types of operands with which results of reductions have another type than A.
const NARROW: [ElementType; 3] = [ElementType::BF16, ElementType::F16, ElementType::F8E4M3];

/// The element types of a tree's parameters and results, by name.
fn elements(tree: &Tree, a: ElementType) -> Vec<(&'static str, ElementType)> {
    let valid = tree.validate(epilogue::evt::Types::new(a, a)).expect("a valid tree");
    let parameters = valid.parameters().iter().map(|parameter| (parameter.name, parameter.element));
    parameters.chain(valid.outputs().iter().map(|output| (output.name, output.element))).collect()
}

#[test]
fn a_given_gradient_has_the_type_that_its_output_is_stored_in() {
    use ElementType::{BF16, F16, F32, F64};
    let of_scores = |a, real| {
        let parameters = [("shift", a), ("z", a), ("d_log_sum", real), ("d_loss", real), ("d_total", real)];
        [&parameters[..], &[("d_accum", a), ("d_shift", real)]].concat()
    };
    let of_vectors = |a, real| {
        let parameters = [("v", a), ("w", F16), ("z", a), ("d_doubled", a), ("d_rounded", BF16)];
        [&parameters[..], &[("d_accum", a), ("d_v", real), ("d_w", F16)]].concat()
    };
    for (a, real) in NARROW.map(|a| (a, F32)).into_iter().chain([(F32, F32), (F64, F64)]) {
        assert_eq!(elements(&ScoresBackward::tree(), a), of_scores(a, real));
        assert_eq!(elements(&VectorsBackward::tree(), a), of_vectors(a, real));
    }
}

#[test]
fn gradients_of_losses_with_narrow_operands() {
    let compiler = testing::compiler("backward::gradients_of_losses_with_narrow_operands").is_some();
    for (i, a) in NARROW.into_iter().enumerate() {
        // The other emulated GPU has no instruction of FP8.
        let hopper = a == ElementType::F8E4M3;
        let arch = if hopper { Arch::SM_90A } else { Arch::SM_80 };
        let emulated = || Device::emulated_with(arch, Options::default().detector(Detector::On)).expect("a device");
        let family = Family { elements: (a, a), hopper, ..BF16 };
        for device in [Some(Device::cpu()), compiler.then(emulated)].into_iter().flatten() {
            for tree in [ScoresBackward::tree(), VectorsBackward::tree()] {
                let builder = Builder::new(&device, tree.clone()).problem(64, 64, 64);
                let kernel = Kernel::planned(builder, &family, (Major::K, Major::K));
                let kernel = kernel.unwrap_or_else(|error| panic!("{a}, {}: {error}", tree.name()));
                check(&kernel, tree.name(), i as u32, &SHAPES[1..]);
            }
        }
    }
}

/// The gradient of each row's loss is the softmax less 1, in f32 until it is stored.
#[test]
fn a_loss_of_bf16_against_plain_loops() {
    let device = Device::cpu();
    let values: Vec<bf16> = numbers(M * N, 3).iter().map(|x| bf16::from_f64(x * 4.0)).collect();
    let z = device.tensor(&values, [M, N]).expect("a tensor");
    let zeros = |shape: &[usize]| device.zeros_of(ElementType::BF16, shape).expect("a tensor");
    let of_loss: Vec<f32> = numbers(M, 4).iter().map(|x| *x as f32 + 1e-4).collect();
    let d_loss = device.tensor(&of_loss, [M]).expect("a tensor");
    let nothing = device.zeros::<f32>([M]).expect("a tensor");
    let (d_y, b, shift) = (zeros(&[M, 2]), zeros(&[2, N]), zeros(&[M]));
    let mut d_accum = zeros(&[M, N]);
    let mut d_shift = device.zeros::<f32>([M]).expect("a tensor");
    let backward = Gemm::plan::<ScoresBackward>(&device, &d_y, &b).expect("a plan");
    let mut run = |d_loss: &DeviceTensor| {
        let arguments = ScoresBackward {
            shift: &shift,
            z: &z,
            d_log_sum: &nothing,
            d_loss,
            d_total: &device.zeros::<f32>([]).expect("a tensor"),
            d_accum: &mut d_accum,
            d_shift: &mut d_shift,
        };
        backward.run(&d_y, &b, arguments)
    };
    let error = run(&zeros(&[M])).expect_err("it is f32").to_string();
    assert!(error.contains("`d_loss` holds bf16; `scores_backward` has f32 there"), "{error}");
    run(&d_loss).expect("a run");
    assert_eq!(d_shift.to_vec::<f32>().expect("numbers"), of_loss, "nothing rounds it to bf16");
    let z: Vec<f64> = values.iter().map(|x| x.to_f64()).collect();
    let derived: Vec<f64> = d_accum.to_vec::<bf16>().expect("numbers").iter().map(|x| x.to_f64()).collect();
    for (i, row) in z.chunks(N).enumerate() {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        for (j, x) in row.iter().enumerate() {
            let expected = f64::from(of_loss[i]) * (x.exp() / sum - 1.0);
            let error = (derived[i * N + j] - expected).abs();
            assert!(error <= expected.abs() / 250.0, "{i}, {j}: {} is not {expected}", derived[i * N + j]);
        }
    }
}

#[epilogue(backward)]
fn of_products(accum: Accum) -> (Tensor, Tensor) {
    let z = accum;
    let y = z / reduction_op(z, Row, Mul);
    (y, z)
}

#[epilogue(backward)]
fn not_saved(accum: Accum, bias: RowVector) -> Tensor {
    let y = gelu(accum + bias);
    y
}

#[epilogue(backward(gradients(weight)))]
fn no_influence(accum: Accum, weight: RowVector) -> (Tensor, Tensor) {
    let z = accum;
    let y = if z > weight { z } else { 0.0 };
    (y, z)
}

/// The line of this file that first has a text.
fn line_of(text: &str) -> usize {
    include_str!("backward.rs").lines().position(|line| line.contains(text)).expect("a line") + 1
}

#[track_caller]
fn says(error: &epilogue::Error, line: usize, expected: &str) {
    let error = error.to_string();
    let place = format!("backward.rs:{line}:");
    assert!(error.contains(&place) && error.contains(expected), "{error} is not at {place}");
}

/// A value without a derivative is reported where a plan is made, with its place in the source.
#[test]
fn what_has_no_derivative_is_refused() {
    let one = Identity::new();
    let error = Gemm::plan::<OfProductsBackward>(&one.device, &one.b, &one.b).expect_err("no derivative");
    says(&error, line_of("reduction_op(z, Row, Mul)"), "has no derivative here: of positive values use");
    let error = Gemm::plan::<NotSavedBackward>(&one.device, &one.b, &one.b).expect_err("no derivative");
    says(&error, line_of("fn not_saved("), "a derivative needs the accumulator `accum`: return it");
    let error = Gemm::plan::<NoInfluenceBackward>(&one.device, &one.b, &one.b).expect_err("no derivative");
    says(&error, line_of("(backward(gradients(weight)))"), "no derivative leads from the outputs with one to `weight`");
}
