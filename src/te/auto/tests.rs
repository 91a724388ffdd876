//! Machine code on the CPU gives the bits that steps give, one after the other, in vectors of every width.

mod by_data;
mod chosen_rows;
mod contractions;
mod oracle;
mod rows;

use epilogue_runtime::{Device, DeviceTensor, testing};

use super::cpu::COMPILED;
use crate::expr::Op;
use crate::te::auto;
use crate::te::dtype::DType;
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::define::reducer::{max, min, sum};
use crate::te::expr::expression::{Binary, Expr};
use crate::te::expr::tensor::Tensor;
use crate::te::ops;
use crate::tuning::{MachineCode, Stores, Tuning, Vectors};
use crate::{Argument, ElementType};

/// Values of any type: numbers of moderate size and, for floats, special ones.
fn tensor(device: &Device, random: &mut fastrand::Rng, element: ElementType, shape: &[usize]) -> DeviceTensor {
    let count: usize = shape.iter().product();
    let bytes: Vec<u8> = (0..count)
        .flat_map(|_| {
            let x = match random.u8(..20) {
                0 => [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e30, -1e-40][random.usize(..7)],
                _ => (random.f32() - 0.5) * 12.0,
            };
            match element {
                ElementType::F32 => x.to_le_bytes().to_vec(),
                ElementType::F16 => half::f16::from_f32(x).to_le_bytes().to_vec(),
                ElementType::BF16 => half::bf16::from_f32(x).to_le_bytes().to_vec(),
                // Most rows of these are of numbers only.
                ElementType::F64 if x.abs() > 1e20 || x.is_nan() => {
                    (if random.u8(..) > 0 { 0.25 } else { f64::from(x) }).to_le_bytes().to_vec()
                }
                ElementType::F64 => f64::from(x).to_le_bytes().to_vec(),
                ElementType::I32 => random.i32(-50..50).to_le_bytes().to_vec(),
                ElementType::I64 => (random.i64(..) >> random.u8(..64)).to_le_bytes().to_vec(),
                ElementType::Bool => vec![random.u8(..2)],
                _ => vec![random.u8(..)],
            }
        })
        .collect();
    let mut made = device.zeros_of(element, shape).expect("there is memory");
    made.copy_from_bytes(&bytes).expect("it is as long");
    made
}

/// The stored elements, a number for each; every NaN is the same.
fn stored(tensor: &DeviceTensor) -> Vec<u64> {
    let of = |bits: u64, nan: bool| if nan { u64::MAX } else { bits };
    match tensor.element_type() {
        ElementType::F32 => {
            let all = tensor.to_vec::<f32>().expect("it is read");
            all.into_iter().map(|x| of(u64::from(x.to_bits()), x.is_nan())).collect()
        }
        ElementType::F16 => {
            let all = tensor.to_vec::<half::f16>().expect("it is read");
            all.into_iter().map(|x| of(u64::from(x.to_bits()), x.is_nan())).collect()
        }
        ElementType::BF16 => {
            let all = tensor.to_vec::<half::bf16>().expect("it is read");
            all.into_iter().map(|x| of(u64::from(x.to_bits()), x.is_nan())).collect()
        }
        ElementType::F64 => {
            let all = tensor.to_vec::<f64>().expect("it is read");
            all.into_iter().map(|x| of(x.to_bits(), x.is_nan())).collect()
        }
        ElementType::I64 => tensor.to_vec::<i64>().expect("it is read").into_iter().map(|x| x as u64).collect(),
        ElementType::I32 => tensor.to_vec::<i32>().expect("it is read").into_iter().map(|x| x as u64).collect(),
        ElementType::I8 => tensor.to_vec::<i8>().expect("it is read").into_iter().map(|x| x as u64).collect(),
        _ => tensor.to_vec::<u8>().expect("it is read").into_iter().map(u64::from).collect(),
    }
}

/// By steps, or by machine code for vectors of either width.
fn by_code(code: bool, only_narrow: bool) -> Tuning {
    let tuning = Tuning::new().machine_code(if code { MachineCode::Always } else { MachineCode::Never });
    tuning.vectors(if only_narrow { Vectors::Shortest } else { Vectors::Longest })
}

/// Runs it by steps, by machine code of either width, and past the caches, twice each, the second time on other memory. Gives
/// how many loops were compiled for the longest vectors.
fn check(
    what: &str,
    outputs: &[&Tensor],
    shapes: &[(&Tensor, Vec<usize>)],
    results: &[Vec<usize>],
    seed: u64,
) -> usize {
    let mut before = COMPILED.get();
    let device = Device::cpu();
    let mut runs: Vec<Vec<Vec<u64>>> = Vec::new();
    for (forced, only_narrow, far) in
        [(false, false, false), (true, true, false), (true, false, true), (true, false, false)]
    {
        before = COMPILED.get();
        let stores = if far { Stores::PastCaches } else { Stores::BySize };
        let made = auto::build(outputs).expect("it has a schedule").tuning(by_code(forced, only_narrow).stores(stores));
        let kernel = made.build(&device).expect("it builds");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..2 {
            let inputs: Vec<DeviceTensor> = shapes
                .iter()
                .map(|(tensor, shape)| {
                    let DType::Number(element) = tensor.dtype() else { panic!("all are numbers") };
                    self::tensor(&device, &mut random, element, shape)
                })
                .collect();
            let mut written: Vec<DeviceTensor> = outputs
                .iter()
                .zip(results)
                .map(|(output, shape)| {
                    let element = match output.dtype() {
                        DType::Number(element) => element,
                        DType::Bool => ElementType::Bool,
                    };
                    device.zeros_of(element, shape.as_slice()).expect("there is memory")
                })
                .collect();
            let mut arguments: Vec<(&Tensor, Argument<'_>)> = Vec::new();
            for ((tensor, _), input) in shapes.iter().zip(&inputs) {
                if kernel.inputs().contains(tensor) {
                    arguments.push((*tensor, input.into()));
                }
            }
            for (output, written) in outputs.iter().zip(&mut written) {
                arguments.push((*output, written.into()));
            }
            kernel.run_bound(&arguments).expect("it runs");
            drop(arguments);
            runs.push(written.iter().map(stored).collect());
        }
    }
    for machine in [2, 4, 6] {
        assert_eq!(runs[0], runs[machine], "{what}");
        assert_eq!(runs[1], runs[machine + 1], "{what}, other memory");
    }
    COMPILED.get() - before
}

/// Whether this CPU has the instructions.
fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn extent(x: usize) -> Expr {
    Expr::int(x as i64)
}

fn matrix(element: ElementType, rows: usize, columns: usize) -> Tensor {
    placeholder_of(element, [extent(rows), extent(columns)], "A")
}

#[test]
fn normalisations_have_the_same_bits() {
    let all: [ElementType; 3] = [ElementType::F32, ElementType::F16, ElementType::BF16];
    for (number, (rows, columns)) in
        [(13, 1024), (70, 100), (9, 517), (200, 33), (3, 40), (1, 2000)].into_iter().enumerate()
    {
        let element = all[number % 3];
        let a = matrix(element, rows, columns);
        let (weight, bias) =
            (placeholder_of(element, [extent(columns)], "W"), placeholder_of(ElementType::F32, [extent(columns)], "B"));
        let shape = vec![rows, columns];
        let given = [(&a, shape.clone()), (&weight, vec![columns]), (&bias, vec![columns])];
        for (name, output) in [
            ("softmax along rows", ops::softmax(&a, 1)),
            ("softmax along columns", ops::softmax(&a, 0)),
            ("log_softmax", ops::log_softmax(&a, 1)),
            ("layer_norm", ops::layer_norm(&a, [1], Some(&weight), Some(&bias), 1e-5)),
            ("rms_norm", ops::rms_norm(&a, [1], None, 1e-5)),
        ] {
            let output = output.expect("it is well formed");
            let compiled = check(
                &format!("{name} of {rows} x {columns} {element}"),
                &[&output],
                &given,
                std::slice::from_ref(&shape),
                number as u64,
            );
            // A few elements, or many short rows far apart in memory, may be computed by steps.
            let is_large = rows > 1 && columns >= 100;
            assert!(
                !has_vectors() || !is_large || compiled > 0,
                "{name} of {rows} x {columns} {element} is machine code"
            );
        }
    }
}

/// Random expressions of elements and axes.
struct Expressions<'a> {
    random: &'a mut fastrand::Rng,
    floats: Vec<Expr>,
    integers: Vec<Expr>,
}

impl Expressions<'_> {
    fn one(&mut self) -> Expr {
        self.floats[self.random.usize(..self.floats.len())].clone()
    }

    fn integer(&mut self) -> Expr {
        self.integers[self.random.usize(..self.integers.len())].clone()
    }

    fn truth(&mut self) -> Expr {
        let (a, b, i, j) = (self.one(), self.one(), self.integer(), self.integer());
        match self.random.u8(..6) {
            0 => a.less(b),
            1 => a.greater_equal(b),
            2 => a.equal(b).or(i.less(j)),
            3 => i.less_equal(j).and(a.not_equal(b)),
            4 => !i.equal(j),
            _ => i.cast(DType::Bool),
        }
    }

    fn grow(&mut self) {
        const UNARY: [Op; 20] = [
            Op::Neg,
            Op::Abs,
            Op::Exp,
            Op::Exp2,
            Op::Log,
            Op::Log2,
            Op::Log1p,
            Op::Sqrt,
            Op::Rsqrt,
            Op::Recip,
            Op::Tanh,
            Op::Erf,
            Op::Floor,
            Op::Ceil,
            Op::Round,
            Op::Neg,
            Op::Abs,
            Op::Tanh,
            Op::Exp,
            Op::Sqrt,
        ];
        const BINARY: [Op; 6] = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max];
        const INTEGER: [Binary; 5] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Min, Binary::Max];
        const TYPES: [ElementType; 6] =
            [ElementType::F16, ElementType::BF16, ElementType::I32, ElementType::I8, ElementType::U8, ElementType::F32];
        let (a, b, c) = (self.one(), self.one(), self.one());
        let (i, j) = (self.integer(), self.integer());
        let condition = self.truth();
        match self.random.u8(..9) {
            0 => self.floats.push(Expr::apply(UNARY[self.random.usize(..UNARY.len())], vec![a])),
            1..=3 => self.floats.push(Expr::apply(BINARY[self.random.usize(..BINARY.len())], vec![a, b])),
            4 => self.floats.push(Expr::apply(Op::Fma, vec![a, b, c])),
            5 => self.floats.push(condition.select(a, b)),
            6 => {
                let to = DType::from(TYPES[self.random.usize(..TYPES.len())]);
                self.floats.push(a.cast(to).cast(DType::F32));
            }
            7 => self.integers.push(Expr::binary(INTEGER[self.random.usize(..INTEGER.len())], i, j)),
            _ => self.integers.push(condition.select(i, j)),
        }
    }
}

const ELEMENTS: [ElementType; 6] =
    [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I32, ElementType::I8, ElementType::U8];

fn expressions<'a>(random: &'a mut fastrand::Rng, inputs: &[Tensor], at: &[Expr]) -> Expressions<'a> {
    let mut all = Expressions { random, floats: vec![Expr::constant(0.75, DType::F32)], integers: vec![Expr::int(3)] };
    for input in inputs {
        // A tensor of one axis takes the last index alone.
        let rank = input.shape().len();
        let mut at = at[at.len() - rank..].to_vec();
        if input.name().starts_with('T') {
            at.reverse();
        }
        let x = input.at(at.as_slice());
        match input.dtype() {
            DType::Number(ElementType::I32 | ElementType::I8 | ElementType::U8) => {
                all.integers.push(x.cast(DType::from(ElementType::I32)));
            }
            _ => all.floats.push(x.cast(DType::F32)),
        }
    }
    all.floats.push(all.integers[all.integers.len() - 1].cast(DType::F32));
    all.integers.extend(at.iter().cloned());
    for _ in 0..all.random.usize(1..25) {
        all.grow();
    }
    all
}

fn inputs(random: &mut fastrand::Rng, shape: &[usize]) -> Vec<(Tensor, Vec<usize>)> {
    (0..random.usize(1..4))
        .map(|number| {
            let element = if number == 0 { ElementType::F32 } else { ELEMENTS[random.usize(..ELEMENTS.len())] };
            let from = if number == 0 || random.bool() { 0 } else { shape.len() - 1 };
            let mut own = shape[from..].to_vec();
            let transposed = number > 0 && random.u8(..4) == 0;
            if transposed {
                own.reverse();
            }
            let extents: Vec<Expr> = own.iter().copied().map(extent).collect();
            let name = if transposed { "T" } else { "A" };
            (placeholder_of(element, extents, &format!("{name}{number}")), own)
        })
        .collect()
}

/// The number of random maps, and of random reductions.
fn drawn() -> u64 {
    testing::cases(60).into()
}

#[test]
fn random_maps_have_the_same_bits() {
    let mut compiled = 0;
    for seed in 0..drawn() {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = [random.usize(1..20), random.usize(1..90)];
        let given = inputs(&mut random, &shape);
        let tensors: Vec<Tensor> = given.iter().map(|(tensor, _)| tensor.clone()).collect();
        let extents = shape.map(extent);
        let output = compute_over(extents.as_slice(), "C", |axes: &[Axis]| {
            let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
            let all = expressions(&mut random, &tensors, &at);
            let to = [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F32][all.random.usize(..4)];
            let last = all.floats[all.floats.len() - 1].clone();
            vec![last.cast(DType::from(to))]
        })
        .expect("it is well formed")
        .swap_remove(0);
        let given: Vec<(&Tensor, Vec<usize>)> = given.iter().map(|(tensor, shape)| (tensor, shape.clone())).collect();
        compiled += check(&format!("map {seed} of {shape:?}"), &[&output], &given, &[shape.to_vec()], seed);
    }
    assert!(!has_vectors() || compiled >= drawn() as usize / 2, "{compiled} loops of {} maps", drawn());
}

#[test]
fn random_reductions_have_the_same_bits() {
    let mut compiled = 0;
    for seed in 0..drawn() {
        let mut random = fastrand::Rng::with_seed(1000 + seed);
        let shape = [random.usize(1..90), random.usize(1..90)];
        let given = inputs(&mut random, &shape);
        let tensors: Vec<Tensor> = given.iter().map(|(tensor, _)| tensor.clone()).collect();
        let reduced = random.usize(..2);
        let extents = [extent(shape[1 - reduced])];
        let k = reduce_axis((Expr::int(0), extent(shape[reduced])), "k");
        let output = compute_over(extents.as_slice(), "C", |axes: &[Axis]| {
            let mut at = vec![Expr::from(axes[0])];
            at.insert(reduced, Expr::from(k));
            let all = expressions(&mut random, &tensors, &at);
            let last = all.floats[all.floats.len() - 1].clone();
            vec![match all.random.u8(..3) {
                0 => sum(last, [k]),
                1 => max(last, [k]),
                _ => min(last, [k]),
            }]
        })
        .expect("it is well formed")
        .swap_remove(0);
        let given: Vec<(&Tensor, Vec<usize>)> = given.iter().map(|(tensor, shape)| (tensor, shape.clone())).collect();
        compiled +=
            check(&format!("reduction {seed} of {shape:?}"), &[&output], &given, &[vec![shape[1 - reduced]]], seed);
    }
    assert!(!has_vectors() || compiled >= drawn() as usize / 4, "{compiled} loops of {} reductions", drawn());
}

/// Where elements are combined in parts, points are computed in parts, too: each once, and all of them.
#[test]
fn points_of_outputs_that_are_cut_into_parts() {
    let device = Device::cpu();
    for (shape, axis) in [([4099, 96], 0), ([2, 270_001], 1)] {
        let a = placeholder_of(ElementType::F32, shape.map(extent), "A");
        let output = ops::softmax(&a, axis).expect("it has such an axis");
        let given: Vec<f32> = (0..shape[0] * shape[1]).map(|i| (i * 7919 % 1009) as f32 / 100.0).collect();
        let x = device.tensor(&given, shape).expect("there is memory");
        let mut results = [false, true].map(|forced| {
            let made = auto::build(&[&output]).expect("it is a chain").tuning(by_code(forced, false));
            let kernel = made.build(&device).expect("it has code");
            let mut y = device.full::<f32>(shape, f32::NAN).expect("there is memory");
            kernel.run_bound(&[(&a, (&x).into()), (&output, (&mut y).into())]).expect("it runs");
            assert!(kernel.choice().contains("parts per output"), "{}", kernel.choice());
            y.to_vec::<f32>().expect("it is read")
        });
        let apart = if axis == 0 { shape[1] } else { 1 };
        for first in 0..shape[1 - axis] {
            let first = if axis == 0 { first } else { first * shape[1] };
            let places = (0..shape[axis]).map(|k| first + k * apart);
            let total: f64 = places.clone().map(|at| f64::from(given[at]).exp()).sum();
            for at in places {
                let wanted = f64::from(given[at]).exp() / total;
                for result in &mut results {
                    let got = f64::from(std::mem::replace(&mut result[at], f32::NAN));
                    assert!((got - wanted).abs() <= 1e-5 * wanted, "{got} instead of {wanted}");
                }
            }
        }
        assert!(results.concat().iter().all(|x| x.is_nan()), "every element is looked at");
    }
}

/// Rows that are one after the other take the same code, wherever they and what they share lie.
#[test]
fn rows_of_two_loops_have_the_same_bits() {
    let shape = [5, 7, 40];
    let extents = shape.map(extent);
    let a = placeholder_of(ElementType::F32, extents.as_slice(), "A");
    let scale = placeholder_of(ElementType::F32, [extent(7)], "S");
    let k = reduce_axis((Expr::int(0), extent(40)), "k");
    let output = compute_over([extent(5), extent(7)].as_slice(), "C", |axes: &[Axis]| {
        let (i, j) = (Expr::from(axes[0]), Expr::from(axes[1]));
        let x = Expr::apply(Op::Tanh, vec![a.at([i.clone(), j.clone(), Expr::from(k)])]) * scale.at([j.clone()]);
        let place = i * 3 + j * 2;
        vec![sum(x + place.cast(DType::F32), [k])]
    })
    .expect("it is well formed")
    .swap_remove(0);
    let given = [(&a, shape.to_vec()), (&scale, vec![7])];
    let compiled = check("rows of two loops", &[&output], &given, &[vec![5, 7]], 5);
    assert!(!has_vectors() || compiled > 0);
}

#[test]
fn code_is_compiled_when_runs_have_had_enough_points() {
    if !has_vectors() {
        return;
    }
    let device = Device::cpu();
    let a = matrix(ElementType::F32, 64, 64);
    let map = compute_over([extent(64), extent(64)].as_slice(), "exp", |axes: &[Axis]| {
        let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
        vec![Expr::apply(Op::Exp, vec![a.at(at.as_slice())])]
    });
    for output in [ops::softmax(&a, 1).expect("it is a float"), map.expect("it is well formed").swap_remove(0)] {
        let kernel = auto::build(&[&output]).expect("it has a schedule").build(&device).expect("it builds");
        let given = tensor(&device, &mut fastrand::Rng::with_seed(9), ElementType::F32, &[64, 64]);
        let mut first = None;
        // The code pays from 2^16 points on: at the sixteenth run of 2^12.
        for run in 1..=18 {
            let before = COMPILED.get();
            let mut written = device.zeros::<f32>([64, 64]).expect("there is memory");
            kernel.run_bound(&[(&a, (&given).into()), (&output, (&mut written).into())]).expect("it runs");
            assert_eq!(COMPILED.get() > before, run == 16, "run {run} of {}", output.name());
            let result = stored(&written);
            assert_eq!(*first.get_or_insert_with(|| result.clone()), result, "run {run} of {}", output.name());
        }
    }
}

#[test]
fn gpus_refuse_a_tuning() {
    let a = matrix(ElementType::F32, 8, 8);
    let output = ops::softmax(&a, 1).expect("it is a float");
    let device = Device::emulated(epilogue_runtime::Arch::SM_80).expect("a device");
    let of = |tuning| auto::build(&[&output]).expect("it has a schedule").tuning(tuning).build(&device);
    let refused = of(by_code(true, false)).expect_err("it is no CPU").to_string();
    assert!(refused.contains("a tuning on a GPU"), "{refused}");
    assert!(of(Tuning::new()).is_ok());
}
