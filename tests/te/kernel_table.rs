//! Scheduled programs with every element type: each operation, function, cast, reduction and kind of memory gives the
//! interpreter's result on the CPU and on an emulated GPU. Or it is refused where it is written.

use std::sync::Arc;

use epilogue::evt::reference::{decode, encode, round};
use epilogue::expr::{Function, Op};
use epilogue::prelude::{elementwise, f8e4m3, f16, max};
use epilogue::te::{
    self, Array, Binary, DType, Expr, ExpressionError, Kind, Schedule, TeError, Tensor, placeholder_of,
};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType, ops};
use epilogue_runtime::testing;

/// Elements of a row, and rows.
const N: usize = 40;
const COLUMNS: usize = 3;

/// Every type that a tensor may have.
fn types() -> Vec<DType> {
    ElementType::ALL.into_iter().map(DType::from).collect()
}

/// Values of a type that show rounding, wrapping, signs of zeros, NaN and infinities.
fn special(dtype: DType) -> Vec<f64> {
    let all: &[f64] = match dtype {
        DType::Bool => &[0.0, 1.0, 1.0],
        DType::Number(ElementType::I64) => &[0.0, 1.0, -1.0, 7.0, -9e15, 9e15, 12_345_678_901.0, -3.0],
        DType::Number(ElementType::I32) => &[0.0, 1.0, -1.0, 7.0, -2_147_483_648.0, 2_147_483_647.0, 77.0, -1e6],
        DType::Number(ElementType::I16) => &[0.0, 1.0, -1.0, 7.0, -32768.0, 32767.0, 77.0, -5.0],
        DType::Number(ElementType::U64) => {
            &[0.0, 1.0, 9_007_199_254_740_992.0, 7.0, 18_446_744_073_709_549_568.0, 9_223_372_036_854_775_808.0]
        }
        DType::Number(ElementType::U32) => &[0.0, 1.0, 4_294_967_295.0, 7.0, 2_147_483_648.0, 65536.0, 77.0],
        DType::Number(ElementType::U16) => &[0.0, 1.0, 65535.0, 7.0, 32768.0, 32767.0, 77.0],
        DType::Number(ElementType::I8) => &[0.0, 1.0, -1.0, 7.0, -128.0, 127.0, 77.0, -5.0],
        DType::Number(ElementType::U8) => &[0.0, 1.0, 255.0, 7.0, 128.0, 127.0, 77.0],
        DType::Number(_) => &[
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.5,
            -3.5,
            1.0 / 3.0,
            7.0,
            -100.25,
            6e4,
            1e-7,
            -1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            448.0,
            0.1,
            -2.0,
        ],
    };
    let held = |x: &f64| match dtype {
        DType::Number(element) => round(element, *x),
        DType::Bool => *x,
    };
    all.iter().map(held).collect()
}

/// Inputs, and what they hold.
struct Inputs {
    dtype: DType,
    tensors: Vec<(Tensor, Vec<f64>)>,
}

impl Inputs {
    /// `x`, `y` and `z` form many pairs of values; `by` is never zero; `at` are valid indices, and `wild` are valid
    /// only where `flag` is 1.
    fn new(dtype: DType) -> Self {
        let values = special(dtype);
        let pick = |step: usize, shift: usize| -> Vec<f64> {
            (0..N).map(|i| values[(i * step + i / values.len() + shift) % values.len()]).collect()
        };
        let by = |i: usize| [1.0, 2.0, 3.0, -1.0, 8.0, -3.0, 7.0][i % 7];
        let unsigned = dtype == DType::Bool || dtype.is_unsigned();
        let by = (0..N).map(|i| if unsigned { f64::abs(by(i)) } else { by(i) });
        let by: Vec<f64> = if dtype == DType::Bool { vec![1.0; N] } else { by.collect() };
        let flag = |i: usize| f64::from(u8::from(i % 3 != 1));
        let place = |i: usize| ((i * 7 + 3) % N) as f64;
        let given = |name: &str, values: Vec<f64>| (placeholder_of(dtype, [N], name), values);
        let index = |name: &str, values: Vec<f64>| (placeholder_of(ElementType::I32, [N], name), values);
        // `few` has a column of ones and columns of some ones; the ones of `sparse` are so few that sums of several of
        // its elements are exact in every type.
        let few = |i: usize| i.is_multiple_of(COLUMNS) || (i / COLUMNS + i) % 5 > 1;
        let sparse = |i: usize| i % 17 == 3;
        let matrix = |name: &str, holds: &dyn Fn(usize) -> bool| {
            let values = (0..N * COLUMNS).map(|i| f64::from(u8::from(holds(i)))).collect();
            (placeholder_of(dtype, [N, COLUMNS], name), values)
        };
        let tensors = vec![
            given("x", pick(1, 0)),
            given("y", pick(3, 1)),
            given("z", pick(5, 2)),
            given("by", by),
            index("at", (0..N).map(place).collect()),
            index("wild", (0..N).map(|i| if flag(i) == 1.0 { place(i) } else { -1e6 }).collect()),
            index("flag", (0..N).map(flag).collect()),
            matrix("few", &few),
            matrix("sparse", &sparse),
        ];
        Self { dtype, tensors }
    }

    fn of(&self, name: &str) -> &Tensor {
        &self.tensors.iter().find(|(tensor, _)| tensor.name() == name).expect("an input").0
    }

    /// An element of each of `x`, `y` and `z`.
    fn three(&self, i: te::Axis) -> [Expr; 3] {
        ["x", "y", "z"].map(|name| self.of(name).at([i]))
    }
}

/// The largest difference of a result from the interpreter's: in units of the result's type, and of f32 or f64 of the
/// largest term.
#[derive(Clone, Copy)]
struct Bound {
    units: f64,
    terms: f64,
}

const EXACT: Bound = Bound { units: 0.0, terms: 0.0 };

/// Expressions of one point, named, and how exact they are.
type Values = Vec<(String, Expr, Bound)>;

fn is_mistake(x: &Expr) -> bool {
    match x.kind() {
        Kind::Invalid(
            TeError::Expression(ExpressionError::OperandType { .. })
            | TeError::Expression(ExpressionError::MixedTypes { .. })
            | TeError::Expression(ExpressionError::MixedOperands { .. }),
        ) => true,
        Kind::Invalid(error) => panic!("{error}"),
        _ => false,
    }
}

/// Adds a value. `allowed` says whether its type has the operation; if not, it must be refused where it is written.
fn add(all: &mut Values, name: String, x: Expr, allowed: bool, bound: Bound) {
    assert_eq!(is_mistake(&x), !allowed, "{name}");
    if allowed {
        all.push((name, x, bound));
    }
}

const BINARY: [Binary; 21] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::FloorDiv,
    Binary::FloorMod,
    Binary::Min,
    Binary::Max,
    Binary::Lt,
    Binary::Le,
    Binary::Gt,
    Binary::Ge,
    Binary::Eq,
    Binary::Ne,
    Binary::And,
    Binary::Or,
    Binary::BitAnd,
    Binary::BitOr,
    Binary::BitXor,
    Binary::Shl,
    Binary::Shr,
];

/// Operators, casts, choices and reads: what every device computes exactly.
fn exact(given: &Inputs, i: te::Axis) -> Values {
    let (mut all, dtype) = (Values::new(), given.dtype);
    let [x, y, z] = given.three(i);
    for op in BINARY {
        let allowed = match op {
            Binary::Div => dtype.is_float(),
            Binary::FloorDiv | Binary::FloorMod => dtype.is_integer(),
            Binary::And | Binary::Or => dtype == DType::Bool,
            _ if op.is_bitwise() => dtype.is_integer(),
            _ => op.is_truth() || dtype != DType::Bool,
        };
        let right = if dtype.is_integer() && !op.is_truth() { given.of("by").at([i]) } else { y.clone() };
        add(&mut all, format!("{op:?}"), Expr::binary(op, x.clone(), right), allowed, EXACT);
    }
    for op in [Op::Neg, Op::Abs, Op::Floor, Op::Ceil, Op::Round, Op::Sqrt, Op::Recip] {
        let allowed = dtype.is_float() || op == Op::Neg && dtype.is_integer();
        add(&mut all, op.symbol().to_owned(), Expr::apply(op, vec![x.clone()]), allowed, EXACT);
    }
    add(&mut all, "fma".into(), Expr::apply(Op::Fma, vec![x.clone(), y.clone(), z.clone()]), dtype.is_float(), EXACT);
    if dtype.is_integer() {
        let by = given.of("by").at([i]);
        add(&mut all, "trunc_div".into(), x.trunc_div(&by), true, EXACT);
        add(&mut all, "trunc_mod".into(), x.trunc_mod(&by), true, EXACT);
        add(&mut all, "bits of two".into(), (&x ^ &y) | !(&x & &z), true, EXACT);
        add(&mut all, "shift by any".into(), (&x << &y) ^ (&x >> &z), true, EXACT);
    }
    if dtype != DType::Bool {
        for (name, x) in [
            ("trunc", x.trunc()),
            ("sign", x.sign()),
            ("is_nan", x.is_nan()),
            ("is_finite", x.is_finite()),
            ("is_infinite", x.is_infinite()),
        ] {
            add(&mut all, name.into(), x, true, EXACT);
        }
    }
    let condition = x.less(&y).or(!z.equal(&y));
    add(&mut all, "not".into(), !condition.clone(), true, EXACT);
    add(&mut all, "select".into(), condition.select(&x, &y), true, EXACT);
    add(&mut all, "select op".into(), Expr::apply(Op::Select, vec![condition, y, z]), true, EXACT);
    for to in types() {
        add(&mut all, format!("to {to}"), x.cast(to), true, EXACT);
        add(&mut all, format!("to {to} and back"), x.cast(to).cast(dtype), true, EXACT);
    }
    add(&mut all, "gathered".into(), given.of("x").at([given.of("at").at([i])]), true, EXACT);
    let wild = given.of("y").at([given.of("wild").at([i])]);
    add(&mut all, "conditional".into(), given.of("flag").at([i]).greater(0).select(wild, &x), true, EXACT);
    all
}

/// Rounds in several ways, as a function does.
#[elementwise]
fn rounds(x: f32, y: f32) -> f32 {
    let a = x.cast::<i32>() + (x * 0.1).cast::<f16>();
    let b = if x > y && !(y == 0.0) || y < -1.0 { y.cast::<u8>() } else { y.cast::<f8e4m3>() };
    max(a, b) * 0.3
}

/// The library's functions, with the terms of their errors, in rounding units of f32 or f64.
fn functions() -> Vec<(&'static Function, f64)> {
    let costly = [
        (ops::exp::function(), 2.0),
        (ops::exp2::function(), 2.0),
        (ops::log::function(), 1.0),
        (ops::log2::function(), 1.0),
        (ops::log1p::function(), 2.0),
        (ops::rsqrt::function(), 2.0),
        (ops::tanh::function(), 2.0),
        (ops::erf::function(), 2.0),
        (ops::sin::function(), 2.0),
        (ops::cos::function(), 2.0),
        (ops::pow::function(), 4.0),
        (ops::tan::function(), 5.0),
        (ops::atan2::function(), 3.0),
    ];
    let made = [
        ops::relu::function(),
        ops::relu_grad::function(),
        ops::leaky_relu::function(),
        ops::leaky_relu_grad::function(),
        ops::clamp::function(),
        ops::square::function(),
        ops::sigmoid::function(),
        ops::sigmoid_grad::function(),
        ops::tanh_grad::function(),
        ops::silu::function(),
        ops::silu_grad::function(),
        ops::gelu::function(),
        ops::gelu_grad::function(),
        ops::gelu_tanh::function(),
        ops::gelu_tanh_grad::function(),
        ops::softplus::function(),
        ops::softplus_grad::function(),
        ops::hardswish::function(),
        ops::hardswish_grad::function(),
        ops::exp_grad::function(),
        ops::erf_grad::function(),
        ops::sin_grad::function(),
        ops::cos_grad::function(),
        ops::abs_grad::function(),
        rounds::function(),
    ];
    costly.into_iter().chain(made.map(|function| (function, 8.0))).collect()
}

/// Calls of functions that devices implement themselves.
fn calls(given: &Inputs, i: te::Axis) -> Values {
    let mut all = Values::new();
    let operands = given.three(i);
    for (function, units) in functions() {
        let operands = operands[..function.parameters().len()].to_vec();
        // Terms that are added and cancel may be as large as 1 or the operand.
        let bound = Bound { units: 1.0, terms: units };
        let called = Expr::call(function, operands);
        add(&mut all, function.name().to_owned(), called, given.dtype.is_float(), bound);
    }
    all
}

/// Reductions over rows: of each kind, in the type and of truth values.
fn reductions(given: &Inputs) -> Result<Vec<Tensor>, TeError> {
    let (few, dtype) = (given.of("few"), given.dtype);
    let k = || te::reduce_axis((0, N), "k");
    let column = |name: &str, f: &dyn Fn(Expr, te::Axis) -> Expr| {
        let k = k();
        let given = if name == "sum" { given.of("sparse") } else { few };
        te::compute([COLUMNS], name, |[j]| f(given.at([Expr::from(k), j.into()]), k))
    };
    let mut made = vec![column("all", &|x, k| te::all(x, [k])), column("any", &|x, k| te::any(x, [k]))];
    let numbers = [
        column("sum", &|x, k| te::sum(x, [k])),
        column("prod", &|x, k| te::prod(x, [k])),
        column("max", &|x, k| te::max(x, [k])),
        column("min", &|x, k| te::min(x, [k])),
    ];
    if dtype == DType::Bool {
        assert!(
            numbers
                .iter()
                .all(|refused| matches!(refused, Err(TeError::Expression(ExpressionError::OperandType { .. }))))
        );
    } else {
        made.extend(numbers);
    }
    let axis = k();
    let first = te::tuple_reducer(
        |x, y| {
            let left = x[1].clone().greater(&y[1]).or(x[1].clone().equal(&y[1]).and(x[0].clone().less(&y[0])));
            vec![left.clone().select(&x[0], &y[0]), left.select(&x[1], &y[1])]
        },
        |types| vec![Expr::int(i64::from(i32::MAX)), Expr::constant(types[1].least(), types[1])],
        "first",
    );
    let pair = te::compute_all([COLUMNS], "first", |[j]| {
        first.over_all(&[axis.into(), few.at([Expr::from(axis), j.into()])], [axis])
    })?;
    made.extend(pair.into_iter().map(Ok));
    made.into_iter().collect()
}

fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().iter().filter_map(|x| usize::try_from(x.as_int()?).ok()).collect()
}

fn emulated() -> Option<Device> {
    testing::compiler("the table of kernels")?;
    let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On);
    Some(Device::emulated_with(Arch::SM_80, options).expect("an emulated device needs nothing"))
}

fn devices() -> Vec<Device> {
    std::iter::once(Device::cpu()).chain(emulated()).collect()
}

/// The bytes of values in memory. True may be any byte but 0.
fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = encode(dtype.in_memory(), values);
    if dtype == DType::Bool {
        let others = [1, 2, 128, 255];
        bytes.iter_mut().enumerate().for_each(|(i, byte)| *byte *= others[i % others.len()]);
    }
    bytes
}

/// The difference between neighbours in a type near a value.
fn unit(dtype: DType, x: f64) -> f64 {
    let (stored, lowest) = match dtype {
        DType::Number(ElementType::F64) => (52, -1022),
        DType::Number(ElementType::F32) => (23, -126),
        DType::Number(ElementType::F16) => (10, -14),
        DType::Number(ElementType::BF16) => (7, -126),
        DType::Number(ElementType::F8E4M3) => (3, -6),
        DType::Number(ElementType::F8E5M2) => (2, -14),
        _ => return 0.0,
    };
    let exponent = if x == 0.0 { lowest } else { (x.abs().log2().floor() as i32).max(lowest) };
    2f64.powi(exponent - stored)
}

/// Runs a schedule on every device, and compares. `bounds` are those of the outputs.
fn check(what: &str, given: &Inputs, s: &Schedule, outputs: &[Tensor], bounds: &[Bound]) -> Result<(), TeError> {
    let read: Vec<&(Tensor, Vec<f64>)> =
        given.tensors.iter().filter(|(tensor, _)| s.operation(tensor).is_ok()).collect();
    let order: Vec<&Tensor> = read.iter().map(|(tensor, _)| tensor).chain(outputs).collect();
    let program = te::lower(s, &order, "main")?;
    let array = |(tensor, values): &&(Tensor, Vec<f64>)| Array::new(tensor.dtype(), &shape(tensor), values);
    let mut arrays = read.iter().map(array).collect::<Result<Vec<_>, _>>()?;
    arrays.extend(outputs.iter().map(|tensor| Array::unwritten(tensor.dtype(), &shape(tensor))));
    program.interpret(&mut arrays)?;
    for device in devices() {
        let kernel = program.build(&device)?;
        let upload = |(tensor, values): &&(Tensor, Vec<f64>)| -> Result<DeviceTensor, TeError> {
            let element = tensor.dtype().in_memory();
            Ok(device.tensor_from_bytes(element, &bytes(tensor.dtype(), values), shape(tensor))?)
        };
        let inputs = read.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
        let zeros = |tensor: &Tensor| Ok(device.zeros_of(tensor.dtype().in_memory(), shape(tensor))?);
        let mut made = outputs.iter().map(zeros).collect::<Result<Vec<_>, TeError>>()?;
        let mut arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::from).collect();
        arguments.extend(made.iter_mut().map(Argument::from));
        kernel.run(&arguments)?;
        drop(arguments);
        for (place, (tensor, got)) in outputs.iter().zip(&made).enumerate() {
            let got = decode(got.element_type(), &got.to_bytes()?);
            let wanted = arrays[read.len() + place].values();
            // Native code uses the interpreter's functions.
            let bound = if device == Device::cpu() { EXACT } else { bounds[place] };
            for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
                let dtype = tensor.dtype();
                let real = if dtype == DType::from(ElementType::F64) { dtype } else { DType::F32 };
                let most = bound.units * unit(dtype, *wanted) + bound.terms * unit(real, wanted.abs().max(64.0));
                let same = got.to_bits() == wanted.to_bits()
                    || got.is_nan() && wanted.is_nan()
                    || wanted.is_finite() && bound.units > 0.0 && (got - wanted).abs() <= most;
                let name = tensor.name();
                assert!(same, "{what}, {name}[{i}] on {device}: {got}, not {wanted}, of {:?}", of(given, i));
            }
        }
    }
    Ok(())
}

/// The inputs at an index, for messages.
fn of(given: &Inputs, i: usize) -> Vec<f64> {
    given.tensors[..4].iter().map(|(_, values)| values[i]).collect()
}

/// How the points of a map are computed.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Threads,
    /// Threads that each compute several points as a vector.
    Lanes,
    Serial,
}

fn mapped(given: &Inputs, values: fn(&Inputs, te::Axis) -> Values, how: How, what: &str) -> Result<(), TeError> {
    let (mut names, mut bounds) = (Vec::new(), Vec::new());
    let mut bodies = |i: te::Axis| {
        let all = values(given, i);
        names = all.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
        bounds = all.iter().map(|(.., bound)| *bound).collect::<Vec<_>>();
        all.into_iter().map(|(_, x, _)| x).collect::<Vec<Expr>>()
    };
    if bodies(te::reduce_axis((0, N), "none")).is_empty() {
        return Ok(());
    }
    let made = te::compute_all([N], "made", |[i]| bodies(i))?;
    let mut s = te::create_schedule(&[&made[0]]);
    let stage = s.stage(&made[0])?;
    if how != How::Serial {
        let (block, mut inner) = stage.split(made[0].axis(0)?, 16)?;
        stage.bind(block, te::thread_axis("blockIdx.x"))?;
        if how == How::Lanes {
            let (outer, lanes) = stage.split(inner, 4)?;
            stage.vectorize(lanes)?;
            inner = outer;
        }
        stage.bind(inner, te::thread_axis("threadIdx.x"))?;
    }
    check(&format!("{what} of {}: {names:?}", given.dtype), given, &s, &made, &bounds)
}

#[test]
fn what_is_exact() -> Result<(), TeError> {
    for dtype in types() {
        let given = Inputs::new(dtype);
        for how in [How::Threads, How::Lanes] {
            mapped(&given, exact, how, "operations")?;
        }
    }
    Ok(())
}

#[test]
fn functions_of_devices() -> Result<(), TeError> {
    for dtype in types() {
        mapped(&Inputs::new(dtype), calls, How::Threads, "functions")?;
    }
    Ok(())
}

/// In loops and in vectors of a CPU, without threads: the same bits as the interpreter.
#[test]
fn in_loops_and_vectors() -> Result<(), TeError> {
    for dtype in types() {
        let given = Inputs::new(dtype);
        for values in [exact, calls] {
            mapped(&given, values, How::Serial, "loops")?;
        }
        mapped(&given, calls, How::Lanes, "vectors")?;
    }
    Ok(())
}

#[test]
fn reductions_of_rows() -> Result<(), TeError> {
    for dtype in types() {
        let given = Inputs::new(dtype);
        for over_threads in [false, true] {
            let made = reductions(&given)?;
            // The results of one operation are neighbours.
            let roots: Vec<&Tensor> = made.iter().filter(|tensor| tensor.value() == 0).collect();
            for root in roots {
                let own: Vec<Tensor> =
                    made.iter().filter(|tensor| Arc::ptr_eq(tensor.operation(), root.operation())).cloned().collect();
                let mut s = te::create_schedule(&[root]);
                let stage = s.stage(root)?;
                stage.bind(root.axis(0)?, te::thread_axis("blockIdx.x"))?;
                if over_threads {
                    let (_, inner) = stage.split(root.reduce_axis(0)?, 32)?;
                    stage.bind(inner, te::thread_axis("threadIdx.x"))?;
                }
                let what = format!("reduction of {dtype}, over threads: {over_threads}");
                check(&what, &given, &s, &own, &vec![EXACT; own.len()])?;
            }
        }
    }
    Ok(())
}

/// Intermediate tensors, and copies of inputs, in each kind of memory.
#[test]
fn kinds_of_memory() -> Result<(), TeError> {
    for dtype in types() {
        let given = Inputs::new(dtype);
        for scope in ["global", "shared", "local"] {
            let (x, y) = (given.of("x"), given.of("y"));
            let chosen = te::compute([N], "chosen", |[i]| x.at([i]).equal(y.at([i])).select(x.at([i]), y.at([i])))?;
            let truths = te::compute([N], "truths", |[i]| chosen.at([i]).not_equal(x.at([i])))?;
            let made = te::compute([N], "made", |[i]| truths.at([i]).select(chosen.at([i]), x.at([i])))?;
            let mut s = te::create_schedule(&[&made]);
            let copy = if scope == "global" { None } else { Some(s.cache_read(y, scope, &[&chosen])?) };
            let (block, thread) = s.stage(&made)?.split(made.axis(0)?, 8)?;
            s.stage(&made)?.bind(block, te::thread_axis("blockIdx.x"))?;
            s.stage(&made)?.bind(thread, te::thread_axis("threadIdx.x"))?;
            for tensor in [Some(&truths), Some(&chosen), copy.as_ref()].into_iter().flatten() {
                if scope == "global" {
                    let axis = tensor.axis(0)?;
                    s.stage(tensor)?.bind(axis, te::thread_axis("threadIdx.x"))?;
                    continue;
                }
                s.set_scope(tensor, scope)?;
                s.compute_at(tensor, &made, if scope == "shared" { block } else { thread })?;
                if scope == "shared" {
                    let axis = tensor.axis(0)?;
                    s.stage(tensor)?.bind(axis, te::thread_axis("threadIdx.x"))?;
                }
            }
            check(&format!("{scope} memory of {dtype}"), &given, &s, &[made], &[EXACT])?;
        }
    }
    Ok(())
}
