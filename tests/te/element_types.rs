//! Every type of numbers: numpy's values of each operation, on every device, in every order.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use epilogue::evt::{BroadcastClass, TreeBuilder, Types};
use epilogue::te::auto::Order;
use epilogue::te::{self, DType, Expr, TeError, Tensor};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;

/// Made by `element_types.py` beside it.
const VALUES: &str = include_str!("../golden/operations/element_types.txt");

/// The bits of elements.
type Bits = Vec<u64>;

struct Line {
    operation: &'static str,
    to: ElementType,
    bits: Bits,
}

fn element(name: &str) -> ElementType {
    ElementType::ALL.into_iter().find(|element| element.name() == name).unwrap()
}

/// The lines of each type, in order.
fn lines() -> BTreeMap<ElementType, Vec<Line>> {
    let mut all: BTreeMap<ElementType, Vec<Line>> = BTreeMap::new();
    for line in VALUES.lines() {
        let [of, operation, to, bits]: [&str; 4] = line.split("; ").collect::<Vec<_>>().try_into().unwrap();
        let bits = bits.split(' ').map(|bits| u64::from_str_radix(bits, 16).unwrap()).collect();
        all.entry(element(of)).or_default().push(Line { operation, to: element(to), bits });
    }
    all
}

fn bytes(element: ElementType, bits: &[u64]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes()[..element.size()].to_vec()).collect()
}

fn bits(tensor: &DeviceTensor) -> Bits {
    let of = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    tensor.to_bytes().unwrap().chunks_exact(tensor.element_type().size()).map(of).collect()
}

/// The operands of one type: `x`, `y`, and divisors.
struct Operands {
    tensors: Vec<Tensor>,
    bits: Vec<Bits>,
}

impl Operands {
    fn new(of: ElementType, lines: &[Line], is_empty: bool) -> Self {
        let given: Vec<&Line> = lines.iter().filter(|line| ["x", "y", "d"].contains(&line.operation)).collect();
        let count = if is_empty { 0 } else { given[0].bits.len() };
        let tensors = given.iter().map(|line| te::placeholder_of(of, [te::var("n")], line.operation)).collect();
        Self { tensors, bits: given.iter().map(|line| line.bits[..count].to_vec()).collect() }
    }

    /// The tensor that a line has; `None` of the operands themselves.
    fn result(&self, line: &Line) -> Result<Option<Tensor>, TeError> {
        let n = self.tensors[0].shape()[0].clone();
        let pointwise = |f: &dyn Fn(Expr, Expr, Expr) -> Expr| {
            te::compute([n.clone()], line.operation, |[i]| {
                let at = |place: usize| self.tensors[place.min(self.tensors.len() - 1)].at([i]);
                f(at(0), at(1), at(2))
            })
            .map(Some)
        };
        let k = te::reduce_axis((0, n.clone()), "k");
        let total = |f: &dyn Fn(Expr) -> Expr| {
            te::compute((), line.operation, |[]| f(self.tensors[0].at([k]).cast(line.to))).map(Some)
        };
        match line.operation {
            "x" | "y" | "d" => Ok(None),
            "add" => pointwise(&|x, y, _| x + y),
            "sub" => pointwise(&|x, y, _| x - y),
            "mul" => pointwise(&|x, y, _| x * y),
            "and" => pointwise(&|x, y, _| x & y),
            "or" => pointwise(&|x, y, _| x | y),
            "xor" => pointwise(&|x, y, _| x ^ y),
            "not" => pointwise(&|x, _, _| !x),
            "shl" => pointwise(&|x, y, _| x << y),
            "shr" => pointwise(&|x, y, _| x >> y),
            "floor_div" => pointwise(&|x, _, d| x.floor_div(d)),
            "floor_mod" => pointwise(&|x, _, d| x.floor_mod(d)),
            "trunc_div" => pointwise(&|x, _, d| x.trunc_div(d)),
            "trunc_mod" => pointwise(&|x, _, d| x.trunc_mod(d)),
            "min" => pointwise(&|x, y, _| x.min(y)),
            "max" => pointwise(&|x, y, _| x.max(y)),
            "sign" => pointwise(&|x, _, _| x.sign()),
            "lt" => pointwise(&|x, y, _| x.less(y)),
            "le" => pointwise(&|x, y, _| x.less_equal(y)),
            "gt" => pointwise(&|x, y, _| x.greater(y)),
            "ge" => pointwise(&|x, y, _| x.greater_equal(y)),
            "eq" => pointwise(&|x, y, _| x.equal(y)),
            "ne" => pointwise(&|x, y, _| x.not_equal(y)),
            "to" => pointwise(&|x, _, _| x.cast(line.to)),
            "trunc" => pointwise(&|x, _, _| x.trunc()),
            "is_nan" => pointwise(&|x, _, _| x.is_nan()),
            "is_infinite" => pointwise(&|x, _, _| x.is_infinite()),
            "is_finite" => pointwise(&|x, _, _| x.is_finite()),
            "tan" => pointwise(&|x, _, _| x.tan()),
            "atan2" => pointwise(&|x, y, _| y.atan2(x)),
            "sum" => te::ops::sum_as(&self.tensors[0], 0, line.to).map(Some),
            "least" => total(&|x| te::min(x, [k])),
            "greatest" => total(&|x| te::max(x, [k])),
            "parity" => {
                let zero = |of: DType| Expr::constant(0.0, of);
                let parity = te::comm_reducer(|x, y| x ^ y, zero, "parity");
                total(&|x| parity.over(x, [k]))
            }
            "cumsum" => {
                let state = te::placeholder_of(line.to, [n.clone()], "state");
                let x = &self.tensors[0];
                let init = te::compute([1], "init", |[t]| x.at([t]).cast(line.to))?;
                let update = te::compute([n.clone()], "update", |[t]| state.at([t - 1]) + x.at([t]).cast(line.to))?;
                te::scan(&init, &update, &state, std::slice::from_ref(x)).map(Some)
            }
            other => panic!("{other}"),
        }
    }

    /// The elements that an operation gives of no elements; `None` if it needs one.
    fn of_none(line: &Line) -> Option<Bits> {
        match line.operation {
            "sum" | "parity" => Some(vec![0]),
            "least" | "greatest" | "cumsum" => None,
            _ => Some(Vec::new()),
        }
    }

    fn uploaded(&self, device: &Device, result: &Tensor) -> Vec<(&Tensor, DeviceTensor)> {
        let reads = te::auto::build(&[result]).unwrap().parameters().to_vec();
        let of = self.tensors.iter().zip(&self.bits).filter(|(tensor, _)| reads.contains(tensor));
        of.map(|(tensor, bits)| {
            let element = tensor.dtype().in_memory();
            (tensor, device.tensor_from_bytes(element, &bytes(element, bits), [bits.len()]).unwrap())
        })
        .collect()
    }
}

/// The largest difference of a tangent or angle, in units of its last place.
const MOST_UNITS: f64 = 5.0;

/// The value of a float's bits.
fn value(of: ElementType, bits: u64) -> f64 {
    epilogue::evt::reference::decode(of, &bytes(of, &[bits]))[0]
}

/// A tangent or angle, to within some units of the type's last place, of a result of 16 bits one more.
fn is_near(of: ElementType, got: u64, wanted: f64) -> bool {
    let (got, nearest) = (value(of, got), epilogue::evt::reference::round(of, wanted));
    let (stored, lowest) = match of {
        ElementType::F64 => (52, -1022),
        ElementType::F32 => (23, -126),
        _ => (10, -14),
    };
    let exponent = if wanted == 0.0 { lowest } else { (wanted.abs().log2().floor() as i32).max(lowest) };
    let units = if of == ElementType::F16 { 1.0 } else { MOST_UNITS };
    got.to_bits() == nearest.to_bits()
        || got.is_nan() && nearest.is_nan()
        || wanted != 0.0 && nearest.is_finite() && (got - wanted).abs() <= units * 2f64.powi(exponent - stored)
}

fn check(of: ElementType, line: &Line, wanted: &[u64], got: &DeviceTensor, what: &str) {
    let got = bits(got);
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (place, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let same = match line.operation {
            "tan" | "atan2" => is_near(of, *got, f64::from_bits(*wanted)),
            _ if line.to.is_float() => {
                got == wanted || value(line.to, *got).is_nan() && value(line.to, *wanted).is_nan()
            }
            _ => got == wanted,
        };
        assert!(same, "{what}[{place}]: {got:x}, not {wanted:x}");
    }
}

/// One operation on a device: an automatic kernel in some orders, and the default schedule.
fn run(device: &Device, of: ElementType, given: &Operands, line: &Line, orders: &[Order], scheduled: bool) {
    let Some(result) = given.result(line).unwrap_or_else(|error| panic!("{} of {of}: {error}", line.operation)) else {
        return;
    };
    let wanted = if given.bits[0].is_empty() { Operands::of_none(line) } else { Some(line.bits.clone()) };
    let Some(wanted) = wanted else { return };
    let shape: Vec<usize> = if result.rank() == 0 { Vec::new() } else { vec![given.bits[0].len()] };
    let inputs = given.uploaded(device, &result);
    let what = |how: &str| format!("{} of {of} to {} on {device}, {how}", line.operation, line.to);
    let memory = || device.zeros_of(result.dtype().in_memory(), &shape).unwrap();
    for order in orders {
        let what = what(&format!("{order:?}"));
        let kernel = te::auto::build(&[&result]).and_then(|automatic| automatic.order(*order).build(device));
        let kernel = kernel.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut made = memory();
        let mut arguments: Vec<(&Tensor, Argument<'_>)> =
            inputs.iter().map(|(tensor, given)| (*tensor, Argument::from(given))).collect();
        arguments.push((&result, (&mut made).into()));
        kernel.run_bound(&arguments).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(arguments);
        check(of, line, &wanted, &made, &what);
    }
    if scheduled {
        let what = what("scheduled");
        let order: Vec<&Tensor> = inputs.iter().map(|(tensor, _)| *tensor).chain([&result]).collect();
        let program = te::lower(&te::create_schedule(&[&result]), &order, "main").unwrap();
        let kernel = program.build(device).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut made = memory();
        let mut arguments: Vec<Argument<'_>> = inputs.iter().map(|(_, given)| Argument::from(given)).collect();
        arguments.push((&mut made).into());
        kernel.run(&arguments).unwrap_or_else(|error| panic!("{what}: {error}"));
        drop(arguments);
        check(of, line, &wanted, &made, &what);
    }
}

/// The refusal of an expression of these types.
fn refusal(x: Expr) -> String {
    te::compute([4], "y", |[_]| x).map(|_| ()).expect_err("a mistake was accepted").to_string()
}

#[test]
fn other_operands_are_refused() {
    let of = |element| te::placeholder_of(element, [4], "x").at([1]);
    let refused = |x: Expr, why: &str| assert_eq!(refusal(x), why);
    refused(of(ElementType::F32) & 1.0, "`BitAnd` takes no operand of type f32; convert it with `.cast(…)`");
    refused(of(ElementType::F32) << 1.0, "`Shl` takes no operand of type f32; convert it with `.cast(…)`");
    refused(of(ElementType::F32).trunc_div(2.0), "`FloorDiv` takes no operand of type f32; convert it with `.cast(…)`");
    refused(!of(ElementType::F32), "`not` takes no operand of type f32; convert it with `.cast(…)`");
    refused(of(ElementType::U16).tan(), "`tan` takes no operand of type u16; convert it with `.cast(…)`");
    for (element, literal) in [(ElementType::U64, -1i64), (ElementType::U32, 1 << 32), (ElementType::I16, 1 << 15)] {
        let x = of(element) + literal;
        assert!(
            refusal(x).contains(&format!("{literal} is not a value of type {element}")),
            "{}",
            refusal(of(element) + literal)
        );
    }
    let large = of(ElementType::U64) + u64::MAX;
    assert!(te::compute([4], "y", |[_]| large).is_ok());
    assert!(te::ops::sum_as(&te::placeholder([4], "x"), 0, DType::Bool).is_err());
}

/// Epilogues and products have fewer types: what they lack is refused before anything is planned.
#[test]
fn epilogues_refuse_the_types_that_they_lack() {
    let tree = |element| {
        let mut builder = TreeBuilder::new("f", file!());
        let accumulator = builder.accum("accum");
        builder.output("d", accumulator, BroadcastClass::Tensor, element);
        builder.finish()
    };
    let refused = |element, of| tree(element).validate(Types::new(of, of)).expect_err("a mistake").to_string();
    for element in [ElementType::I16, ElementType::U16, ElementType::U32, ElementType::U64] {
        let output = refused(Some(element), ElementType::F32);
        assert!(output.contains(&format!("`d` is {element}, and epilogues take f64, f32, bf16,")), "{output}");
        let operands = refused(None, element);
        assert!(operands.contains("operands of products are f64, f32, bf16,"), "{operands}");
    }
}

/// A divisor of 0 that is data ends the run with an error, on every device and in every type.
#[test]
fn a_divisor_of_zero_is_reported() {
    let emulated = testing::compiler("a_divisor_of_zero_is_reported").map(|_| Device::emulated(Arch::SM_80).unwrap());
    for device in [Some(Device::cpu()), emulated].into_iter().flatten() {
        for of in [ElementType::U64, ElementType::U32, ElementType::I16] {
            let x = te::placeholder_of(of, [2], "x");
            for (name, by) in [("down", Expr::floor_div as fn(&Expr, Expr) -> Expr), ("cut", Expr::trunc_mod)] {
                let y = te::compute([2], name, |[i]| by(&Expr::constant(7.0, of.into()), x.at([i]))).unwrap();
                let given = device.tensor_from_bytes(of, &bytes(of, &[3, 0]), [2]).unwrap();
                let mut made = device.zeros_of(of, [2]).unwrap();
                let kernel = te::auto::build(&[&y]).unwrap().build(&device).unwrap();
                let ran = kernel.run_bound(&[(&x, (&given).into()), (&y, (&mut made).into())]);
                // A GPU reports it where the result is read.
                let failed = ran
                    .map_err(|error| error.to_string())
                    .and_then(|()| made.to_bytes().map(drop).map_err(|error| error.to_string()));
                assert!(failed.as_ref().is_err_and(|error| error.contains("zero")), "{name} of {of}: {failed:?}");
            }
        }
    }
}

const ORDERS: [Order; 3] = [Order::Device, Order::Shape, Order::Exact];

#[test]
fn operations_of_every_type_are_numpys_on_the_cpu() {
    let cpu = Device::cpu();
    for (of, lines) in lines() {
        for is_empty in [false, true] {
            let given = Operands::new(of, &lines, is_empty);
            lines.iter().for_each(|line| run(&cpu, of, &given, line, &ORDERS, !is_empty));
        }
    }
}

/// A sample on both emulated devices, with the race detector: another one at each seed.
#[test]
fn operations_of_every_type_are_numpys_on_emulated_gpus() {
    if testing::compiler("operations_of_every_type_are_numpys_on_emulated_gpus").is_none() {
        return;
    }
    let mut random = fastrand::Rng::new();
    let every = if testing::cases(1) > 1 { 1 } else { 8 };
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On);
        let device = Device::emulated_with(arch, options).unwrap();
        for (of, lines) in lines() {
            let given = Operands::new(of, &lines, false);
            for line in &lines {
                if !["tan", "atan2"].contains(&line.operation) && random.u32(..every) > 0 {
                    continue;
                }
                let order = ORDERS[random.usize(..3)];
                run(&device, of, &given, line, &[order], false);
            }
        }
    }
}
