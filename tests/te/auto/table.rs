//! Automatic kernels with every element type: operations, casts and every kind of read, in maps, reductions and scans.
//! They run on the CPU and on an emulated GPU, and are compared with the interpreter of the default schedule.

use epilogue::evt::reference::{decode, encode};
use epilogue::expr::Op;
use epilogue::prelude::elementwise;
use epilogue::te::{self, Array, DType, Expr, TeError, Tensor, placeholder_of};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;

/// Elements of a row, and steps of a scan: a sum of this many ones is exact in every type.
const N: usize = 7;
const COLUMNS: usize = 3;

const ALL: [ElementType; 14] = [
    ElementType::F64,
    ElementType::F32,
    ElementType::F16,
    ElementType::BF16,
    ElementType::F8E4M3,
    ElementType::F8E5M2,
    ElementType::I64,
    ElementType::I32,
    ElementType::I16,
    ElementType::I8,
    ElementType::U64,
    ElementType::U32,
    ElementType::U16,
    ElementType::U8,
];

struct Inputs {
    /// Small numbers, positive in `y`.
    x: Tensor,
    y: Tensor,
    /// Indices, and indices that are valid only where `flag` is 1.
    at: Tensor,
    wild: Tensor,
    flag: Tensor,
    /// Truth values.
    truth: Tensor,
}

impl Inputs {
    fn new(element: ElementType) -> Self {
        let index = |name| placeholder_of(ElementType::I32, [N], name);
        Self {
            x: placeholder_of(element, [N, COLUMNS], "x"),
            y: placeholder_of(element, [N, COLUMNS], "y"),
            at: index("at"),
            wild: index("wild"),
            flag: index("flag"),
            truth: placeholder_of(DType::Bool, [N, COLUMNS], "truth"),
        }
    }

    fn all(&self) -> [(&Tensor, Vec<f64>); 6] {
        // Small values, because the largest exact sums of some types are small.
        let values =
            |shift: usize| (0..N * COLUMNS).map(|i| f64::from((i * 5 + shift).is_multiple_of(3) as u8)).collect();
        let flag = |i: usize| i % 3 != 1;
        [
            (&self.x, values(0)),
            (&self.y, (0..N * COLUMNS).map(|i| f64::from(1 + i as u32 % 3)).collect()),
            (&self.at, (0..N).map(|i| ((i * 3 + 1) % N) as f64).collect()),
            (&self.wild, (0..N).map(|i| if flag(i) { ((i * 2) % N) as f64 } else { 1e6 }).collect()),
            (&self.flag, (0..N).map(|i| f64::from(flag(i) as u8)).collect()),
            (&self.truth, (0..N * COLUMNS).map(|i| f64::from((i % 5 != 2) as u8)).collect()),
        ]
    }

    /// `x` at an index from data, under a condition from data, and at its own index.
    fn read(&self, i: te::Axis, j: te::Axis) -> Expr {
        let under = self.flag.at([i]).greater(0).select(self.x.at([self.wild.at([i]), j.into()]), self.x.at([i, j]));
        self.x.at([self.at.at([i]), j.into()]) + under
    }
}

/// A function rounds when it casts; an expression truncates.
#[elementwise]
fn rounds(x: f32) -> f32 {
    (x * 0.7).cast::<i32>() + (x * 1.5).cast::<u8>()
}

type Made = Result<Vec<Tensor>, TeError>;

/// Every operation of two values, every function, every cast, every kind of read.
fn maps(element: ElementType, given: &Inputs) -> Made {
    let mut made = Vec::new();
    let mut add = |name: &str, f: &dyn Fn(Expr, Expr) -> Expr| {
        // Operations without a meaning for the type are refused where they are written.
        let tensor = te::compute([N, COLUMNS], name, |[i, j]| f(given.x.at([i, j]), given.y.at([i, j])));
        made.extend(tensor.ok());
    };
    add("add", &|x, y| x + y);
    add("sub", &|x, y| x - y);
    add("mul", &|x, y| x * y);
    add("div", &|x, y| x / y);
    add("mod", &|x, y| x % y);
    add("least", &|x, y| x.min(y));
    add("greatest", &|x, y| x.max(y));
    add("quotient", &|x, y| (x - 2).trunc_div(y));
    add("rest", &|x, y| (x - 2).trunc_mod(y));
    add("bits", &|x, y| (&x & &y) | (!x ^ y));
    add("shifts", &|x, y| ((&x - 3) >> &y) ^ ((x + 5) << (y * 9 - 9)));
    add("sign", &|x, y| (x - y).sign());
    add("trunc", &|x, y| (x / y).trunc());
    add("finite", &|x, y| (&x / &y).is_finite().and((x / &y).is_nan().or(y.is_infinite())).select(1, 2));
    add("neg", &|x, _| -x);
    add("chosen", &|x, y| x.less(&y).and(y.equal(1)).select(x * 2, y));
    for op in [Op::Exp, Op::Tanh, Op::Sqrt, Op::Rsqrt, Op::Abs, Op::Floor] {
        add(op.symbol(), &|_, y| Expr::apply(op, vec![y]));
    }
    add("power", &|x, y| Expr::apply(Op::Pow, vec![y, x]));
    add("rounds", &|_, y| rounds(y));
    for to in ALL {
        add(&format!("to {to}"), &|x, y| (x + y).cast(to));
    }
    made.push(te::compute([N, COLUMNS], "read", |[i, j]| given.read(i, j))?);
    let truth = |i: te::Axis, j: te::Axis| given.truth.at([i, j]);
    made.push(te::compute([N, COLUMNS], "truth values", |[i, j]| {
        truth(i, j).and(!given.x.at([i, j]).less(given.y.at([i, j])))
    })?);
    made.push(te::compute([N, COLUMNS], "by truth", |[i, j]| {
        truth(i, j).select(given.x.at([i, j]), given.y.at([i, j]))
    })?);
    let own = |i: te::Axis, j: te::Axis| given.x.at([i, j]).greater(Expr::constant(0.0, element.into()));
    made.push(te::compute([N, COLUMNS], "by value", |[i, j]| {
        own(i, j).select(given.y.at([given.at.at([i]), j.into()]), given.x.at([i, j]))
    })?);
    Ok(made)
}

/// Sums, extremes and products of every kind of read.
fn reductions(element: ElementType, given: &Inputs) -> Made {
    let column = |name: &str, f: &dyn Fn(te::Axis, te::Axis) -> Expr| {
        let k = te::reduce_axis((0, N), "k");
        te::compute([COLUMNS], name, |[j]| f(j, k))
    };
    let own = |j: te::Axis, k: te::Axis| given.x.at([k, j]);
    Ok(vec![
        column("sum", &|j, k| te::sum(own(j, k), [k]))?,
        column("largest", &|j, k| te::max(given.y.at([k, j]), [k]))?,
        column("smallest", &|j, k| te::min(given.y.at([k, j]), [k]))?,
        column("product", &|j, k| te::prod(own(j, k), [k]))?,
        column("all", &|j, k| {
            te::all(given.truth.at([k, j]).or(own(j, k).greater(Expr::constant(0.0, element.into()))), [k])
        })?,
        column("any", &|j, k| te::any(own(j, k), [k]))?,
        column("gathered", &|j, k| te::sum(given.x.at([given.at.at([k]), j.into()]), [k]))?,
        column("conditional", &|j, k| {
            let zero = Expr::constant(0.0, element.into());
            te::sum(given.flag.at([k]).greater(0).select(given.x.at([given.wild.at([k]), j.into()]), zero), [k])
        })?,
    ])
}

/// Recurrences that read under conditions on the state, and at indices computed from it.
fn scans(element: ElementType, given: &Inputs) -> Made {
    let state: Vec<Tensor> = ["sum", "reset", "walk"].map(|name| placeholder_of(element, [N, COLUMNS], name)).into();
    let init = [&given.x, &given.x, &given.y].map(|of| te::compute([1, COLUMNS], "init", |[t, j]| of.at([t, j])));
    let init = init.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (zero, one) = (Expr::constant(0.0, element.into()), Expr::constant(1.0, element.into()));
    let update = |s: usize, f: &dyn Fn(te::Axis, te::Axis, Expr) -> Expr| {
        te::compute([N, COLUMNS], "update", |[t, j]| f(t, j, state[s].at([t - 1, j.into()])))
    };
    let update = [
        update(0, &|t, j, before| before + given.x.at([given.at.at([t]), j.into()]).min(one.clone()))?,
        update(1, &|t, j, before| {
            let wild = given.flag.at([t]).greater(0).select(given.x.at([given.wild.at([t]), j.into()]), zero.clone());
            before.greater(zero.clone()).and(given.truth.at([t, j])).select(wild, given.x.at([t, j]))
        })?,
        update(2, &|_, j, before| given.y.at([before.cast(ElementType::I32), j.into()]))?,
    ];
    let given_too = [&given.x, &given.y, &given.at, &given.wild, &given.flag, &given.truth].map(Clone::clone);
    let states = te::scan_all(&init, &update, &state, &given_too)?;
    let after = te::compute([N, COLUMNS], "after", |[t, j]| {
        let inside = states[1].at([t, j]).greater(zero.clone()).and(given.flag.at([t]).greater(0));
        let read = given.y.at([given.wild.at([t]), j.into()]);
        inside.select(read, states[0].at([t, j])) + given.x.at([states[2].at([t, j]).cast(ElementType::I32), j.into()])
    })?;
    Ok(states.into_iter().chain([after]).collect())
}

fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.shape().iter().filter_map(|x| usize::try_from(x.as_int()?).ok()).collect()
}

/// The largest relative error of a function's result in a type.
fn tolerance(name: &str, element: ElementType) -> f64 {
    if !["exp", "tanh", "sqrt", "rsqrt", "power", "div"].contains(&name) {
        return 0.0;
    }
    match element {
        ElementType::F64 => 1e-14,
        ElementType::F32 => 1e-6,
        ElementType::F16 => 1e-3,
        ElementType::BF16 => 8e-3,
        ElementType::F8E4M3 => 0.13,
        ElementType::F8E5M2 => 0.26,
        _ => 0.0,
    }
}

fn check(device: &Device, given: &Inputs, made: &[Tensor], what: &str) -> Result<(), TeError> {
    let outputs: Vec<&Tensor> = made.iter().collect();
    let kernel = te::auto::build(&outputs)?.build(device)?;
    let inputs = given.all();
    let read: Vec<_> = inputs.iter().filter(|(tensor, _)| kernel.inputs().contains(tensor)).collect();

    let order: Vec<&Tensor> = read.iter().map(|(tensor, _)| *tensor).chain(outputs.iter().copied()).collect();
    let program = te::lower(&te::create_schedule(&outputs), &order, "main")?;
    let new = |(tensor, values): &&(&Tensor, Vec<f64>)| Array::new(tensor.dtype(), &shape(tensor), values);
    let mut arrays = read.iter().map(new).collect::<Result<Vec<_>, _>>()?;
    arrays.extend(made.iter().map(|tensor| Array::unwritten(tensor.dtype(), &shape(tensor))));
    let mut bound: Vec<(&Tensor, &mut Array)> = order.iter().copied().zip(&mut arrays).rev().collect();
    program.interpret_bound(&mut bound)?;

    let element = |tensor: &Tensor| tensor.dtype().in_memory();
    let upload = |(tensor, values): &&(&Tensor, Vec<f64>)| -> Result<DeviceTensor, TeError> {
        let mut bytes = encode(element(tensor), values);
        if tensor.dtype() == DType::Bool {
            // True may be any byte but 0.
            bytes.iter_mut().zip([1, 2, 128, 255].into_iter().cycle()).for_each(|(byte, by)| *byte *= by);
        }
        Ok(device.tensor_from_bytes(element(tensor), &bytes, shape(tensor))?)
    };
    let uploaded = read.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    let zeros = |tensor: &&Tensor| Ok(device.zeros_of(element(tensor), shape(tensor))?);
    let mut written = outputs.iter().map(zeros).collect::<Result<Vec<_>, TeError>>()?;
    let mut arguments: Vec<(&Tensor, Argument<'_>)> = Vec::new();
    arguments.extend(outputs.iter().copied().zip(written.iter_mut().map(Argument::from)));
    arguments.extend(read.iter().map(|(tensor, _)| *tensor).zip(uploaded.iter().map(Argument::from)));
    kernel.run_bound(&arguments)?;
    drop(arguments);

    for ((tensor, got), wanted) in outputs.iter().zip(&written).zip(&arrays[read.len()..]) {
        let got = decode(got.element_type(), &got.to_bytes()?);
        let (name, wanted) = (tensor.name(), wanted.values());
        let most = tolerance(&name, element(tensor));
        let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= most * b.abs();
        assert!(got.iter().zip(&wanted).all(same), "{what}, {name} on {device}: {got:?}, not {wanted:?}");
    }
    Ok(())
}

/// Makes the tensors of one kind of kernel.
type Maker = fn(ElementType, &Inputs) -> Made;

fn check_all(device: &Device) {
    for element in ALL {
        let given = Inputs::new(element);
        let kinds: [(&str, Maker); 3] = [("map", maps), ("reduction", reductions), ("scan", scans)];
        for (kind, make) in kinds {
            let what = format!("{kind} of {element}");
            let made = make(element, &given).unwrap_or_else(|error| panic!("{what}: {error}"));
            check(device, &given, &made, &what).unwrap_or_else(|error| panic!("{what} on {device}: {error}"));
        }
    }
}

#[test]
fn on_the_cpu() {
    check_all(&Device::cpu());
}

#[test]
fn on_an_emulated_gpu() {
    if testing::compiler("on_an_emulated_gpu").is_none() {
        return;
    }
    let options = ptx_vm::Options::default().detector(ptx_vm::Detector::On);
    check_all(&Device::emulated_with(Arch::SM_80, options).expect("an emulated device needs nothing"));
}
