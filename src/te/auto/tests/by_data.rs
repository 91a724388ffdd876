//! Random programs in which data choose what is read: totals as indices, in conditions and as extents, tables of indices,
//! and scans that read by what they have computed. The CPU gives what plain loops in f64 give, in every order, by steps and
//! by machine code.

use epilogue_runtime::{Device, DeviceTensor, testing};

use super::by_code;
use super::oracle::Oracle;
use crate::te::auto::{self, Order};
use crate::te::dtype::DType;
use crate::te::error::{RunError, TeError};
use crate::te::expr::axis::{Axis, reduce_axis};
use crate::te::expr::define::compute::{compute_over, placeholder_of};
use crate::te::expr::define::reducer::{Reducer, comm_reducer, max_reducer, min_reducer, sum_reducer};
use crate::te::expr::define::scan::scan;
use crate::te::expr::expression::Expr;
use crate::te::expr::tensor::Tensor;
use crate::te::expr::var::Var;
use crate::te::ops;
use crate::{Argument, ElementType};

const I32: ElementType = ElementType::I32;

/// An input and its elements, which are small whole numbers.
struct Input {
    tensor: Tensor,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// A program that is being drawn.
struct Draw<'a> {
    random: &'a mut fastrand::Rng,
    inputs: Vec<Input>,
    /// Tables by one and by two indices, and a table of indices.
    table: Tensor,
    wide: Tensor,
    next: Tensor,
    /// The entries of the tables.
    entries: i64,
}

/// The values that an expression may use at its place.
#[derive(Clone, Default)]
struct Place {
    /// Integers of any size: axes, and totals that are integers.
    integers: Vec<Expr>,
    /// Numbers.
    numbers: Vec<Expr>,
}

impl<'a> Draw<'a> {
    fn new(random: &'a mut fastrand::Rng) -> Self {
        let (entries, columns) = (random.i64(1..9), random.i64(1..6));
        let mut made = Self {
            random,
            inputs: Vec::new(),
            table: placeholder_of(ElementType::F32, [entries], "table"),
            wide: placeholder_of(ElementType::F32, [entries, columns], "wide"),
            next: placeholder_of(I32, [entries], "next"),
            entries,
        };
        let (one, two) = (vec![entries as usize], vec![entries as usize, columns as usize]);
        made.add(made.table.clone(), one.clone(), -4..=4);
        made.add(made.wide.clone(), two, -4..=4);
        made.add(made.next.clone(), one, -2..=9);
        made
    }

    fn add(&mut self, tensor: Tensor, shape: Vec<usize>, range: std::ops::RangeInclusive<i64>) {
        let count = shape.iter().product();
        let values = (0..count).map(|_| self.random.i64(range.clone()) as f64).collect();
        self.inputs.push(Input { tensor, shape, values });
    }

    fn input(&mut self, element: ElementType, shape: &[(Expr, usize)], name: &str) -> Tensor {
        let extents: Vec<Expr> = shape.iter().map(|(extent, _)| extent.clone()).collect();
        let tensor = placeholder_of(element, extents, name);
        self.add(tensor.clone(), shape.iter().map(|(_, given)| *given).collect(), -4..=4);
        tensor
    }

    /// An integer at a place: any.
    fn integer(&mut self, place: &Place, depth: u32) -> Expr {
        let choice = self.random.usize(..if depth == 0 { 3 } else { 9 });
        let some = |random: &mut fastrand::Rng| match place.integers.len() {
            0 => Expr::int(random.i64(-2..5)),
            count => place.integers[random.usize(..count)].clone(),
        };
        match choice {
            0..3 => some(self.random),
            3 => some(self.random) + self.random.i64(-3..4),
            4 => self.integer(place, depth - 1) + some(self.random),
            5 => some(self.random) - self.integer(place, depth - 1),
            6 => {
                let at = self.index(place, depth - 1, &Expr::int(self.entries));
                self.next.at([at])
            }
            7 => self.integer(place, depth - 1).floor_div(self.random.i64(1..4)),
            // A division by data, which is not done where it has no value.
            _ => {
                let by = self.integer(place, depth - 1);
                let value = self.integer(place, depth - 1);
                by.not_equal(0).select(value.floor_mod(by), some(self.random))
            }
        }
    }

    /// An index from 0 to before an extent, which is at least 1.
    fn index(&mut self, place: &Place, depth: u32, extent: &Expr) -> Expr {
        let any = self.integer(place, depth);
        match self.random.bool() {
            true => any.floor_mod(extent),
            false => any.max(0).min(extent - 1),
        }
    }

    /// An element of a tensor by integers: at indices that are inside, or under a test whether they are.
    fn element(&mut self, place: &Place, depth: u32, tensor: &Tensor, before: &[Expr]) -> Expr {
        let shape = tensor.shape();
        let mut indices = before.to_vec();
        let mut test = Expr::truth(true);
        for extent in &shape[before.len()..] {
            if self.random.u8(..3) > 0 {
                let index = self.index(place, depth, extent);
                indices.push(index);
                continue;
            }
            let index = self.integer(place, depth);
            test = test.and(index.greater_equal(0).and(index.less(extent)));
            indices.push(index);
        }
        let element = tensor.at(indices);
        if test.as_int() == Some(1) {
            return element;
        }
        let otherwise = Expr::constant(f64::from(self.random.i8(-3..4)), element.dtype());
        if self.random.bool() { test.select(element, otherwise) } else { (!test).select(otherwise, element) }
    }

    /// A number at a place.
    fn number(&mut self, place: &Place, depth: u32) -> Expr {
        let choice = self.random.usize(..if depth == 0 { 2 } else { 9 });
        let some = |random: &mut fastrand::Rng| match place.numbers.len() {
            0 => Expr::constant(f64::from(random.i8(-3..4)), DType::F32),
            count => place.numbers[random.usize(..count)].clone(),
        };
        match choice {
            0 | 1 => some(self.random),
            2 => self.integer(place, depth - 1).max(-9).min(9).cast(DType::F32),
            3 | 4 => self.element(place, depth - 1, &self.table.clone(), &[]),
            5 => self.element(place, depth - 1, &self.wide.clone(), &[]),
            6 => self.number(place, depth - 1) + some(self.random),
            7 => self.number(place, depth - 1).max(some(self.random)),
            _ => {
                let (a, b) = (self.integer(place, depth - 1), self.integer(place, depth - 1));
                let (then, otherwise) = (self.number(place, depth - 1), some(self.random));
                a.less(b).select(then, otherwise)
            }
        }
    }
}

/// A size that is a variable or a constant.
fn size(random: &mut fastrand::Rng, name: &str, among: &[usize]) -> (Expr, usize) {
    let given = among[random.usize(..among.len())];
    let extent = if random.bool() { Var::new(name, DType::I32).into() } else { Expr::int(given as i64) };
    (extent, given)
}

/// A program: its outputs, and what plain loops need to know.
struct Program {
    inputs: Vec<Input>,
    outputs: Vec<Tensor>,
    states: Vec<(Tensor, Tensor)>,
}

/// A reducer whose combination is no operation of its own: `a + b + 1`.
fn counting() -> Reducer {
    comm_reducer(|a, b| a + b + 1, |dtype| Expr::constant(-1.0, dtype), "counting")
}

/// A total, without the extremes that one over nothing may have: nothing can be added to them.
fn bounded(total: &Tensor, at: &Expr) -> Expr {
    total.at([at]).max(-99).min(99)
}

fn axes(all: &[Axis]) -> Vec<Expr> {
    all.iter().map(|axis| Expr::from(*axis)).collect()
}

/// Totals of rows, and outputs of rows and of points. Each total may read at indices from earlier totals.
fn rows(random: &mut fastrand::Rng) -> Result<Program, TeError> {
    let n = size(random, "n", &[1, 2, 3, 5, 17, 70]);
    let m = size(random, "m", &[1, 2, 5, 16, 33, 130]);
    let mut draw = Draw::new(random);
    let is_down = draw.random.u8(..3) == 0;
    let element = [ElementType::F32, ElementType::F32, ElementType::F16, I32, ElementType::I8][draw.random.usize(..5)];
    let shape = if is_down { [m.clone(), n.clone()] } else { [n.clone(), m.clone()] };
    let x = draw.input(element, &shape, "x");
    let first = draw.input(I32, std::slice::from_ref(&n), "first");
    let x_at = |i: &Expr, k: &Expr| if is_down { x.at([k, i]) } else { x.at([i, k]) };
    let mut totals: Vec<Tensor> = Vec::new();
    for number in 0..draw.random.usize(1..4) {
        let known = totals.clone();
        if draw.random.u8(..3) == 0 {
            let dimension = if is_down { 0 } else { 1 };
            totals.push(if draw.random.bool() { ops::argmax(&x, dimension)? } else { ops::argmin(&x, dimension)? });
            continue;
        }
        let made = compute_over(vec![n.0.clone()], &format!("total{number}"), |all| {
            let i = Expr::from(all[0]);
            let mut outer = Place { integers: vec![i.clone()], numbers: Vec::new() };
            outer.integers.extend(known.iter().map(|total| bounded(total, &i)));
            // An extent that data give, up to the row's.
            let extent = match draw.random.u8(..4) {
                0 => draw.integer(&outer, 1).max(0).min(&m.0),
                _ => m.0.clone(),
            };
            let k = reduce_axis((0, extent), "k");
            let mut place = outer.clone();
            place.integers.push(k.into());
            let own = if draw.random.bool() {
                x_at(&i, &k.into())
            } else {
                let at = draw.index(&place, 2, &m.0);
                x_at(&i, &at)
            };
            place.integers.push(own.cast(I32));
            let source = draw.integer(&place, 2).max(-20).min(20);
            let condition = (draw.random.u8(..3) == 0).then(|| {
                let (a, b) = (draw.integer(&place, 1), draw.integer(&outer, 1));
                a.less_equal(b)
            });
            let init = if draw.random.u8(..4) == 0 { vec![first.at([i])] } else { Vec::new() };
            let reducer = match draw.random.u8(..4) {
                0 => sum_reducer(),
                1 => max_reducer(),
                2 => min_reducer(),
                _ => counting(),
            };
            reducer.build(&[source], &[k], condition, init)
        })?;
        let copy = compute_over(vec![n.0.clone()], "copy", |all| vec![bounded(&made[0], &axes(all)[0])])?;
        totals.push(if draw.random.bool() { copy[0].clone() } else { made[0].clone() });
    }
    let mut outputs = Vec::new();
    for number in 0..draw.random.usize(1..4) {
        let of_points = draw.random.bool();
        let shape = match (of_points, is_down) {
            (false, _) => vec![n.0.clone()],
            (true, false) => vec![n.0.clone(), m.0.clone()],
            (true, true) => vec![m.0.clone(), n.0.clone()],
        };
        let made = compute_over(shape, &format!("output{number}"), |all| {
            let all = axes(all);
            let (i, k) =
                if of_points && is_down { (all[1].clone(), all.first()) } else { (all[0].clone(), all.get(1)) };
            let mut place = Place { integers: vec![i.clone()], numbers: Vec::new() };
            place.integers.extend(totals.iter().map(|total| bounded(total, &i)));
            if let Some(k) = k {
                place.integers.push(k.clone());
                place.numbers.push(x_at(&i, k).cast(DType::F32));
            }
            let at = draw.index(&place, 1, &m.0);
            place.numbers.push(x_at(&i, &at).cast(DType::F32));
            // A total is always used, so that the output belongs to its kernel.
            let own = bounded(&totals[draw.random.usize(..totals.len())], &i);
            vec![draw.number(&place, 3) + own.cast(DType::F32)]
        })?;
        outputs.push(made[0].clone());
    }
    if draw.random.u8(..4) == 0 {
        outputs.push(totals[0].clone());
    }
    let inputs = std::mem::take(&mut draw.inputs);
    Ok(Program { inputs, outputs, states: Vec::new() })
}

/// Scans of integers that read by their states, by what their columns are reduced to, or by both; and what is computed of a
/// step's columns.
fn steps(random: &mut fastrand::Rng) -> Result<Program, TeError> {
    let steps = size(random, "steps", &[2, 3, 7, 20]);
    let width = size(random, "width", &[1, 2, 5, 16, 40]);
    let mut draw = Draw::new(random);
    let x = draw.input(I32, &[steps.clone(), width.clone()], "x");
    let shape = vec![steps.0.clone(), width.0.clone()];
    let state = placeholder_of(I32, shape.clone(), "state");
    let given = draw.random.i64(1..3).min(steps.1 as i64);
    let init = compute_over(vec![Expr::int(given), width.0.clone()], "init", |all| vec![x.at(axes(all))])?;
    let j = reduce_axis((0, width.0.clone()), "j");
    let feeds_back = draw.random.bool();
    let chosen = compute_over(vec![steps.0.clone()], "chosen", |all| {
        let before = state.at([Expr::from(all[0]) - 1, j.into()]);
        vec![match draw.random.u8(..3) {
            0 => sum_reducer().over(&before, [j]),
            1 => max_reducer().over(&before * 8 + j, [j]),
            _ => min_reducer().over(&before, [j]),
        }]
    })?;
    let lag = draw.random.i64(1..=given);
    let update = compute_over(shape, "update", |all| {
        let (t, j) = (Expr::from(all[0]), Expr::from(all[1]));
        let own = state.at([&t - lag, j.clone()]);
        let mut place =
            Place { integers: vec![own.clone(), j.clone(), x.at([t.clone(), j.clone()])], numbers: Vec::new() };
        if feeds_back {
            place.integers.push(chosen[0].at([t.clone()]));
            let at = draw.index(&place, 1, &width.0);
            place.integers.push(state.at([&t - 1, at]));
        }
        let next = draw.integer(&place, 3);
        let read = draw.element(&place, 2, &draw.next.clone(), &[]);
        vec![match draw.random.u8(..3) {
            0 => own + x.at([t, j]),
            1 => (next + read).floor_mod(7),
            _ => (own + read).max(-9).min(9),
        }]
    })?;
    let all = scan(&init[0], &update[0], &state, &[])?;
    let mut outputs = Vec::new();
    if draw.random.bool() {
        outputs.push(all.clone());
    }
    let mut totals: Vec<Tensor> = Vec::new();
    for number in 0..draw.random.usize(1..3) {
        let source = |t: &Axis| all.at([Expr::from(*t), j.into()]);
        totals.push(if draw.random.bool() {
            ops::argmax(&all, 1)?
        } else {
            let made = compute_over(vec![steps.0.clone()], &format!("of_step{number}"), |axes| {
                vec![[sum_reducer(), max_reducer(), counting()][draw.random.usize(..3)].over(source(&axes[0]), [j])]
            })?;
            made[0].clone()
        });
    }
    for number in 0..draw.random.usize(1..3) {
        let is_reduced = draw.random.u8(..3) > 0;
        let shape = if is_reduced { vec![steps.0.clone()] } else { vec![steps.0.clone(), width.0.clone()] };
        let made = compute_over(shape, &format!("output{number}"), |own| {
            let own = axes(own);
            let t = own[0].clone();
            let mut place = Place { integers: vec![t.clone()], numbers: Vec::new() };
            let first = if is_reduced {
                place.integers.extend(totals.iter().map(|total| bounded(total, &t)));
                let at = draw.index(&place, 1, &width.0);
                place.numbers.push(x.at([t.clone(), at]).cast(DType::F32));
                totals[0].at([t])
            } else {
                place.integers.push(all.at(own.clone()));
                all.at(own)
            };
            vec![draw.number(&place, 3) + first.max(-99).min(99).cast(DType::F32)]
        })?;
        outputs.push(made[0].clone());
    }
    let inputs = std::mem::take(&mut draw.inputs);
    Ok(Program { inputs, outputs, states: vec![(state, all)] })
}

fn on(device: &Device, input: &Input) -> DeviceTensor {
    let DType::Number(element) = input.tensor.dtype() else { panic!("inputs are numbers") };
    let bytes: Vec<u8> = input
        .values
        .iter()
        .flat_map(|x| match element {
            ElementType::F32 => (*x as f32).to_le_bytes().to_vec(),
            ElementType::F16 => half::f16::from_f64(*x).to_le_bytes().to_vec(),
            ElementType::I8 => (*x as i8).to_le_bytes().to_vec(),
            _ => (*x as i32).to_le_bytes().to_vec(),
        })
        .collect();
    device.tensor_from_bytes(element, &bytes, &input.shape).expect("there is memory")
}

fn numbers(tensor: &DeviceTensor) -> Vec<f64> {
    match tensor.element_type() {
        I32 => tensor.to_vec::<i32>().expect("it is read").into_iter().map(f64::from).collect(),
        _ => tensor.to_vec::<f32>().expect("it is read").into_iter().map(f64::from).collect(),
    }
}

/// Compares a program with plain loops, in every order, by steps and by machine code, twice each. Gives whether it has a
/// schedule.
fn check(program: &Program, what: &str) -> bool {
    let mut oracle = Oracle::default();
    program.inputs.iter().for_each(|input| oracle.input(&input.tensor, &input.shape, &input.values));
    program.states.iter().for_each(|(state, scan)| oracle.state(state, scan));
    let wanted: Vec<_> = program.outputs.iter().map(|output| oracle.all(output)).collect();
    assert!(wanted.iter().all(Result::is_ok), "{what}: it reads outside");
    let device = Device::cpu();
    let outputs: Vec<&Tensor> = program.outputs.iter().collect();
    for order in [Order::Device, Order::Shape, Order::Exact] {
        for forced in [false, true] {
            let made = match auto::build(&outputs) {
                Ok(made) => made,
                Err(TeError::Lowering(_)) => return false,
                Err(error) => panic!("{what}: {error}"),
            };
            let kernel = made.order(order).tuning(by_code(forced, false)).build(&device).expect("it builds");
            for _ in 0..2 {
                let inputs: Vec<DeviceTensor> = program.inputs.iter().map(|input| on(&device, input)).collect();
                let mut written: Vec<DeviceTensor> = outputs
                    .iter()
                    .map(|output| {
                        let element = if output.dtype() == DType::I32 { I32 } else { ElementType::F32 };
                        device.zeros_of(element, oracle.shape(output)).expect("there is memory")
                    })
                    .collect();
                let mut arguments: Vec<(&Tensor, Argument<'_>)> = Vec::new();
                for (input, given) in program.inputs.iter().zip(&inputs) {
                    if kernel.inputs().contains(&input.tensor) {
                        arguments.push((&input.tensor, given.into()));
                    }
                }
                for (output, written) in outputs.iter().zip(&mut written) {
                    arguments.push((*output, written.into()));
                }
                let ran = kernel.run_bound(&arguments);
                drop(arguments);
                let how = || format!("{what}, {order:?}, machine code: {forced}, {}", kernel.choice());
                match ran {
                    // Nothing that is read has this size.
                    Err(TeError::Run(RunError::UnknownSize { .. })) => {
                        return false;
                    }
                    other => other.unwrap_or_else(|error| panic!("{}: {error}", how())),
                }
                for (place, (written, wanted)) in written.iter().zip(&wanted).enumerate() {
                    assert_eq!(Ok(numbers(written)), *wanted, "output {place} of {}", how());
                }
            }
        }
    }
    true
}

fn try_seeds(count: u64, draw: fn(&mut fastrand::Rng) -> Result<Program, TeError>) {
    let base: u64 = std::env::var("EPILOGUE_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let mut scheduled = 0;
    for seed in base..base + count {
        let program = draw(&mut fastrand::Rng::with_seed(seed)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        scheduled += u64::from(check(&program, &format!("seed {seed}")));
    }
    assert!(scheduled * 2 > count, "{scheduled} of {count} have a schedule");
}

#[test]
fn rows_that_data_choose() {
    try_seeds(u64::from(testing::cases(60)), rows);
}

#[test]
fn steps_that_data_choose() {
    try_seeds(u64::from(testing::cases(40)), steps);
}
