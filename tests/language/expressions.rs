//! The CUDA C++ of expressions, compiled by NVRTC and executed by the emulated device, against the reference.
//!
//! One thread computes one element: no product, no tiles, only `src/expr/cuda`, `src/device/convert.cuh` and
//! `src/device/math.cuh`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;

use epilogue::evt::random::{self, Choices, Profile};
use epilogue::evt::reference::{self, Argument, Array, Extent, Options, Product};
use epilogue::evt::{BroadcastClass, ParameterClass, TreeBuilder, Types, ValidTree, ValueKind};
use epilogue::expr::cuda::{Functions, element_name, real_name, reference as operand, statements};
use epilogue::expr::{Op, Real};
use epilogue::prelude::elementwise;
use epilogue::{Device, DeviceTensor, ElementType, ops};
use epilogue_runtime::{Arch, KernelArgument, Launch, Source, testing};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const HEADERS: &str = concat!(include_str!("../../src/device/convert.cuh"), include_str!("../../src/device/math.cuh"));

fn source(name: &str, code: &str) -> Source {
    Source::new(format!("{name}.cu"), "kernel", format!("{}\n{code}", HEADERS.replace("#pragma once", "")))
}

/// A kernel that computes every output's value for each of `count` elements, from the values of the leaves.
fn kernel_of(tree: &ValidTree, fast: bool) -> String {
    let mut functions = Functions::new(tree.real(), fast);
    let real = real_name(tree.real());
    let body = statements(tree, |_| true, &mut functions);
    let mut parameters = vec!["int count".to_owned()];
    let mut text = String::new();
    for value in tree.values() {
        let element = match value.kind {
            ValueKind::Accum(_) => tree.types().accumulator,
            ValueKind::Load(p) | ValueKind::Broadcast(p) => tree.parameter(p).element,
            _ => continue,
        };
        parameters.push(format!("const {}* leaf_{}", element_name(element), value.name));
        let _ = writeln!(text, "    const {real} {0} = widen<{real}>(leaf_{0}[i]);", value.name);
    }
    for statement in &body {
        let _ = writeln!(text, "    {statement}");
    }
    for (i, output) in tree.outputs().iter().enumerate() {
        let element = element_name(output.element);
        parameters.push(format!("{element}* out_{i}"));
        let _ =
            writeln!(text, "    out_{i}[i] = narrow<{element}>({});", operand(tree, output.value.index(), tree.real()));
    }
    format!(
        "namespace epilogue {{\n{}\nextern \"C\" __global__ void kernel({}) {{\n    const int i = blockIdx.x * \
         blockDim.x + threadIdx.x;\n    if (i >= count) return;\n{text}}}\n}}\n",
        functions.definitions(),
        parameters.join(", ")
    )
}

/// Runs it, with one array per leaf in the values' order; gives each output's elements.
pub(crate) fn run(device: &Device, tree: &ValidTree, leaves: &[Vec<f64>], count: usize, fast: bool) -> Vec<Vec<f64>> {
    let kernel = device.compile(&source("expression", &kernel_of(tree, fast))).unwrap();
    let of_values = tree.values().iter().filter_map(|value| match value.kind {
        ValueKind::Accum(_) => Some(tree.types().accumulator),
        ValueKind::Load(p) | ValueKind::Broadcast(p) => Some(tree.parameter(p).element),
        _ => None,
    });
    let inputs: Vec<DeviceTensor> = of_values
        .zip(leaves)
        .map(|(element, values)| {
            device.tensor_from_bytes(element, &reference::encode(element, values), [count]).unwrap()
        })
        .collect();
    let outputs: Vec<DeviceTensor> =
        tree.outputs().iter().map(|o| device.zeros_of(o.element, [count]).unwrap()).collect();
    let size = i32::try_from(count).unwrap().to_le_bytes();
    let mut arguments = vec![KernelArgument::Value(&size)];
    arguments.extend(inputs.iter().map(KernelArgument::Input));
    arguments.extend(outputs.iter().map(KernelArgument::Output));
    let launch =
        Launch { grid: [u32::try_from(count.div_ceil(128)).unwrap(), 1, 1], block: [128, 1, 1], ..Launch::default() };
    kernel.launch(&launch, &arguments, &device.default_stream()).unwrap();
    outputs.iter().map(|t| reference::decode(t.element_type(), &t.to_bytes().unwrap())).collect()
}

/// Numbers at which rounding or special cases matter: every power of two and its neighbours, ties of every narrower
/// type, special values.
fn interesting(real: Real) -> Vec<f64> {
    let mut numbers = vec![0.0, f64::INFINITY, f64::NAN, 1e300, 5e-324, 448.0, 464.0, 465.0, 57344.0, 61440.0, 65519.9];
    for exponent in -160..140 {
        let power = 2f64.powi(exponent);
        for fraction in [1.0, 1.000_000_06, 1.000_488_281_25, 1.003_906_25, 1.011_718_75, 1.0625, 1.125, 1.187_5, 1.75]
        {
            numbers.push(power * fraction);
        }
    }
    for i in 0..4000 {
        numbers.push(f64::from(i) * 0.0731);
    }
    let negative: Vec<f64> = numbers.iter().map(|x| -x).collect();
    numbers.extend(negative);
    numbers.iter().map(|&x| reference::round(real.element(), x)).collect()
}

const OF_REAL: [(Real, ElementType); 2] = [(Real::F32, ElementType::F32), (Real::F64, ElementType::F64)];

#[test]
fn conversions_are_those_of_the_reference() {
    let Some(_) = testing::compiler("conversions_are_those_of_the_reference") else { return };
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch).unwrap();
        for (real, of_real) in OF_REAL {
            let numbers = interesting(real);
            for element in Real::ELEMENTS.into_iter().filter(|element| *element != ElementType::Bool) {
                let (from, to) = (real_name(real), element_name(element));
                let code = format!(
                    "namespace epilogue {{ extern \"C\" __global__ void kernel(const {from}* x, {to}* y, {from}* z, \
                     int count) {{ const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= count) return; \
                     y[i] = narrow<{to}>(x[i]); z[i] = widen<{from}>(y[i]); }} }}"
                );
                let kernel = device.compile(&source("conversion", &code)).unwrap();
                let count = numbers.len();
                let x = device.tensor_from_bytes(of_real, &reference::encode(of_real, &numbers), [count]).unwrap();
                let (y, z) = (device.zeros_of(element, [count]).unwrap(), device.zeros_of(of_real, [count]).unwrap());
                let size = i32::try_from(count).unwrap().to_le_bytes();
                let arguments = [
                    KernelArgument::Input(&x),
                    KernelArgument::Output(&y),
                    KernelArgument::Output(&z),
                    KernelArgument::Value(&size),
                ];
                let grid = [u32::try_from(count.div_ceil(128)).unwrap(), 1, 1];
                let launch = Launch { grid, block: [128, 1, 1], ..Launch::default() };
                kernel.launch(&launch, &arguments, &device.default_stream()).unwrap();
                let narrow = reference::decode(element, &y.to_bytes().unwrap());
                let wide = reference::decode(of_real, &z.to_bytes().unwrap());
                for ((x, narrow), wide) in numbers.iter().zip(narrow).zip(wide) {
                    let expected = reference::round(element, *x);
                    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                    assert!(same(narrow, expected), "{arch} {real} {x:e} as {element}: {narrow:e}, not {expected:e}");
                    let expected = reference::round(of_real, expected);
                    assert!(same(wide, expected), "{arch} {element} {narrow:e} as {real}: {wide:e}");
                }
            }
        }
    }
}

/// `d = op(accum)` or `op(accum, c)`, `op(accum, c, e)`.
fn single(op: Op, types: Types, output: ElementType) -> ValidTree {
    let mut b = TreeBuilder::new("single", "single.rs");
    let mut operands = vec![b.accum("x")];
    for name in &["y", "z"][..op.arity() - 1] {
        operands.push(b.parameter(name, ParameterClass::Tensor, None));
    }
    let d = b.apply(op, &operands);
    b.output("d", d, BroadcastClass::Tensor, Some(output));
    b.finish().validate(types).unwrap()
}

/// Distance in units of the last place of the type at the exact value.
fn ulps(result: f64, exact: f64, real: Real) -> f64 {
    if result == exact || (result.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    let (bits, smallest) = match real {
        Real::F32 => (23.0, 2f64.powi(-149)),
        Real::F64 => (52.0, 5e-324),
    };
    let unit = (exact.abs().log2().floor().max(-1100.0) - bits).exp2().max(smallest);
    (result - exact).abs() / unit
}

/// The bounds that `epilogue::ops` documents, in ULP.
fn documented(op: Op, real: Real) -> f64 {
    match (op, real) {
        (Op::Log | Op::Log2, Real::F32) => 1.5,
        (Op::Exp | Op::Exp2 | Op::Log1p | Op::Rsqrt | Op::Tanh | Op::Erf | Op::Sin | Op::Cos, _) => 2.5,
        (Op::Log | Op::Log2, _) => 2.5,
        (Op::Pow, _) => 4.5,
        // Exact too, but the reference has only twice the precision, so a value near a tie can become a tie.
        (Op::Fma, _) => 1.0,
        // Correctly rounded.
        _ => 0.500_001,
    }
}

#[test]
fn primitives_keep_their_bounds() {
    let Some(_) = testing::compiler("primitives_keep_their_bounds") else { return };
    let device = Device::emulated(Arch::SM_80).unwrap();
    let unary = Op::ALL.into_iter().filter(|op| op.arity() == 1);
    let binary = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max, Op::Pow];
    for (real, of_real) in OF_REAL {
        let types = Types::new(of_real, of_real);
        let x = interesting(real);
        let shuffled = |step: usize| (0..x.len()).map(|i| x[i * step % x.len()]).collect::<Vec<_>>();
        for op in unary.clone().chain(binary).chain([Op::Fma]) {
            let tree = single(op, types, of_real);
            let leaves = [x.clone(), shuffled(7), shuffled(5)];
            let results = &run(&device, &tree, &leaves[..op.arity()], x.len(), false)[0];
            let extent = Extent { m: 1, n: x.len(), l: 1 };
            let arguments: Vec<Argument<'_>> = leaves[1..op.arity()]
                .iter()
                .map(|v| Argument::Array(Array::packed(v, BroadcastClass::Tensor, extent, false)))
                .collect();
            let exact = Product::exact(extent, x.clone());
            let expected =
                &reference::evaluate(&tree, std::slice::from_ref(&exact), &arguments, Options::default()).unwrap()[0];
            for (i, result) in results.iter().enumerate() {
                let given: Vec<f64> = leaves[..op.arity()].iter().map(|v| v[i]).collect();
                let value = expected.values[i];
                // The stored value is rounded already: half an ULP more.
                let distance = ulps(*result, value, real);
                let subnormal = value.abs() < if real == Real::F32 { 2f64.powi(-126) } else { f64::MIN_POSITIVE };
                // ex2.approx and its like lose precision where the result is subnormal.
                let allowed = if subnormal && op.is_costly() { 4.0 } else { documented(op, real) };
                assert!(distance <= allowed, "{op:?}({given:?}) in {real}: {result:e}, not {value:e}: {distance} ULP");
            }
        }
    }
}

/// Approximate instructions and short formulas, and functions made from them: one in 130,987 of all f32, within the
/// reference's bounds for results of 11 bits, of 8 bits, and for fast mathematics. `cargo xtask approximations` tries
/// every f32.
#[test]
fn approximate_functions_keep_their_bounds() {
    let Some(_) = testing::compiler("approximate_functions_keep_their_bounds") else { return };
    let device = Device::emulated(Arch::SM_90A).unwrap();
    let x: Vec<f64> = (0..=u32::MAX).step_by(130_987).map(|bits| f64::from(f32::from_bits(bits))).collect();
    let extent = Extent { m: 1, n: x.len(), l: 1 };
    let types = Types::new(ElementType::F32, ElementType::F32);
    let primitives = [Op::Exp, Op::Exp2, Op::Log, Op::Log2, Op::Log1p, Op::Sqrt, Op::Recip, Op::Tanh, Op::Erf];
    let made = [
        ops::gelu::function(),
        ops::gelu_grad::function(),
        ops::gelu_tanh::function(),
        ops::gelu_tanh_grad::function(),
        ops::sigmoid::function(),
        ops::sigmoid_grad::function(),
        ops::silu::function(),
        ops::silu_grad::function(),
        ops::tanh_grad::function(),
        ops::erf_grad::function(),
        ops::softplus::function(),
    ];
    for (output, fast) in [(ElementType::F16, false), (ElementType::BF16, false), (ElementType::F32, true)] {
        let mut b = TreeBuilder::new("approximate", "approximate.rs");
        let accum = b.accum("x");
        let names: Vec<String> =
            primitives.iter().map(|op| format!("{op:?}")).chain(made.iter().map(|f| f.name().to_owned())).collect();
        for (i, op) in primitives.iter().enumerate() {
            let d = b.apply(*op, &[accum]);
            b.output(Box::leak(format!("d{i}").into_boxed_str()), d, BroadcastClass::Tensor, Some(output));
        }
        for (i, function) in made.iter().enumerate() {
            let d = b.call(function, &[accum]);
            b.output(Box::leak(format!("e{i}").into_boxed_str()), d, BroadcastClass::Tensor, Some(output));
        }
        let tree = b.finish().validate(types).unwrap();
        let text = kernel_of(&tree, fast);
        assert!(text.contains("approx"), "{text}");
        let results = run(&device, &tree, std::slice::from_ref(&x), x.len(), fast);
        let options = Options { fast_math: fast, ..Options::default() };
        let expected = reference::evaluate(&tree, &[Product::exact(extent, x.clone())], &[], options).unwrap();
        for ((name, results), expected) in names.iter().zip(results).zip(expected) {
            for ((x, result), bounds) in x.iter().zip(results).zip(&expected.bounds) {
                assert!(bounds.admit(result), "{name}({x:e}) as {output}: {result:e}, not {bounds:?}");
            }
        }
    }
}

/// A Rust function for the host, with CUDA for the device.
#[elementwise(cuda = "const real r = x > 0 ? x : 0; return r * r;")]
fn squared_relu(x: f32) -> f32 {
    let r = x.max(0.0);
    r * r
}

mod other {
    use epilogue::prelude::*;

    /// Another function of the same name, in plain Rust.
    #[elementwise]
    pub(crate) fn squared_relu(x: f32) -> f32 {
        let double = if x > 1.0 { x } else { 0.0 };
        double * squared_relu_half(x)
    }

    #[elementwise]
    fn squared_relu_half(x: f32) -> f32 {
        0.5 * x
    }
}

#[test]
fn functions_of_users_run_also_hand_written_ones() {
    let Some(_) = testing::compiler("functions_of_users_run_also_hand_written_ones") else { return };
    assert_eq!((squared_relu(-3.0), squared_relu(3.0), other::squared_relu(3.0)), (0.0, 9.0, 4.5));
    let device = Device::emulated(Arch::SM_90A).unwrap();
    for (real, element) in OF_REAL {
        let mut b = TreeBuilder::new("users", "users.rs");
        let x = b.accum("squared_relu");
        let (mine, others) = (b.call(squared_relu::function(), &[x]), b.call(other::squared_relu::function(), &[x]));
        b.name(others, "ops");
        let d = b.apply(Op::Sub, &[mine, others]);
        b.output("d", d, BroadcastClass::Tensor, None);
        let tree = b.finish().validate(Types::new(element, element)).unwrap();
        let x = interesting(real);
        let extent = Extent { m: 1, n: x.len(), l: 1 };
        let results = run(&device, &tree, std::slice::from_ref(&x), x.len(), false);
        let expected =
            reference::evaluate(&tree, &[Product::exact(extent, x.clone())], &[], Options::default()).unwrap();
        for i in (0..x.len()).filter(|&i| !x[i].is_nan()) {
            // A NaN gives 0 in the hand-written body, which is its author's choice.
            assert!(expected[0].bounds[i].admit(results[0][i]), "{real} {:e}: {:e}", x[i], results[0][i]);
        }
        assert!(kernel_of(&tree, false).contains("ops::squared_relu_2("));
    }
}

/// Random trees through the printer, NVRTC and the emulated device, against the reference's bounds.
#[test]
fn random_expressions_run() {
    let Some(_) = testing::compiler("random_expressions_run") else { return };
    let device = Device::emulated(Arch::SM_80).unwrap();
    let config = ProptestConfig { cases: testing::cases(40), max_shrink_iters: 200, ..ProptestConfig::default() };
    let numbers = || prop::collection::vec(any::<u32>(), 0..200);
    let elements = prop::sample::select(vec![ElementType::F16, ElementType::BF16, ElementType::F32, ElementType::F64]);
    let outcome = TestRunner::new(config).run(&(numbers(), numbers(), elements), |(shape, data, element)| {
        let profile = Profile { reductions: false, typed: false, operations: 24, ..Profile::default() };
        let tree = random::tree(&mut Choices::new(&shape), profile).validate(Types::new(element, element)).unwrap();
        let mut data = Choices::new(&data);
        let extent = Extent { m: 1, n: 96, l: 1 };
        let scalar = data.pick(&[1.5, 0.0, -2.0, 0.1]);
        let mut arguments_of: Vec<Vec<f64>> = Vec::new();
        for p in tree.parameters() {
            let values = random::values(&mut data, p.element, extent.n);
            let first = if p.class == ParameterClass::Scalar { scalar } else { values[0] };
            let constant = matches!(p.class.broadcast_class(), BroadcastClass::Scalar | BroadcastClass::ColumnVector);
            let first = reference::round(p.element, first);
            arguments_of.push(if constant { vec![first; extent.n] } else { values });
        }
        let accums: Vec<Vec<f64>> =
            tree.accumulators().iter().map(|_| random::values(&mut data, tree.types().accumulator, extent.n)).collect();
        let leaves: Vec<Vec<f64>> = tree
            .values()
            .iter()
            .filter_map(|v| match v.kind {
                ValueKind::Accum(i) => Some(accums[i].clone()),
                ValueKind::Load(p) | ValueKind::Broadcast(p) => Some(arguments_of[p.index()].clone()),
                _ => None,
            })
            .collect();
        let fast = data.once_in(4);
        let results = run(&device, &tree, &leaves, extent.n, fast);
        let arguments: Vec<Argument<'_>> = tree
            .parameters()
            .iter()
            .zip(&arguments_of)
            .map(|(p, values)| match p.class {
                ParameterClass::Scalar => Argument::Scalar(values[0]),
                _ => Argument::Array(Array::packed(values, p.class.broadcast_class(), extent, false)),
            })
            .collect();
        let options = Options { fast_math: fast, ..Options::default() };
        let products: Vec<Product> = accums.into_iter().map(|accum| Product::exact(extent, accum)).collect();
        let expected = reference::evaluate(&tree, &products, &arguments, options).unwrap();
        for (expected, mut results) in expected.into_iter().zip(results) {
            // A kernel repeats the elements of vectors and scalars.
            results.truncate(expected.values.len());
            if let Some(wrong) = expected.first_wrong(&results) {
                let place = wrong.place;
                let leaves: Vec<f64> = leaves.iter().map(|l| l[place]).collect();
                prop_assert!(
                    false,
                    "{} at {place}: {wrong:?}\nleaves {leaves:?}\n{tree}\n{}",
                    expected.name,
                    kernel_of(&tree, fast)
                );
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
