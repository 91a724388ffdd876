//! Sums of exponentials in one pass: where there are some, and that they are what loops give.

use epilogue_runtime::Device;

use super::super::{Operands, Order, Programs, TileShape, execute_in};
use crate::evt::{
    Axis, BroadcastClass, Composed, ComposedOp, Form, ParameterClass, Phases, Prices, ReduceOp, Reduction, TreeBuilder,
    Types, ValidTree,
};
use crate::expr::Op;
use crate::tuning::{MachineCode, Tuning, Vectors};
use crate::{Argument, ElementType};

/// By machine code, or by steps.
fn by(machine: bool) -> Tuning {
    Tuning::new().machine_code(if machine { MachineCode::Always } else { MachineCode::Never })
}

const OF_ROWS: Reduction = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Max, form: Form::Complete };

/// `m = max x; d = m + log(sum exp(x - m))` of `x = accum + logits`, or the language's `LogSumExp`; with the exponentials,
/// or their sums, if asked for.
fn loss(types: Types, composed: bool, keeps: Option<BroadcastClass>) -> ValidTree {
    let mut b = TreeBuilder::new("loss", file!());
    let (accum, logits) = (b.accum("accum"), b.parameter("logits", ParameterClass::Tensor, None));
    let x = b.apply(Op::Add, &[accum, logits]);
    let m = b.reduce(OF_ROWS, x);
    let shifted = b.apply(Op::Sub, &[x, m]);
    let e = b.apply(Op::Exp, &[shifted]);
    let d = if composed {
        b.compose(Composed { axis: Axis::Row, batch: false, op: ComposedOp::LogSumExp }, x)
    } else {
        let s = b.reduce(Reduction { op: ReduceOp::Add, ..OF_ROWS }, e);
        let logarithm = b.apply(Op::Log, &[s]);
        b.apply(Op::Add, &[m, logarithm])
    };
    b.output("d", d, BroadcastClass::ColumnVector, None);
    b.output("m", m, BroadcastClass::ColumnVector, None);
    if let Some(class) = keeps {
        let of_row = b.reduce(Reduction { op: ReduceOp::Mul, ..OF_ROWS }, e);
        b.output("kept", if class == BroadcastClass::Tensor { e } else { of_row }, class, None);
    }
    b.finish().validate(types).expect("a valid tree")
}

const F32: Types = Types::new(ElementType::F32, ElementType::F32);

#[test]
fn nothing_is_kept_where_nothing_else_needs_it() {
    for composed in [false, true] {
        let phases = Phases::of(loss(F32, composed, None), Prices::CPU);
        assert_eq!((phases.kept_bytes(), phases.parts.len()), (0, 2), "composed: {composed}");
        for class in [BroadcastClass::Tensor, BroadcastClass::ColumnVector] {
            let phases = Phases::of(loss(F32, composed, Some(class)), Prices::CPU);
            assert_eq!(phases.kept_bytes(), 4, "composed: {composed}, with a {class:?}");
        }
        assert_eq!(Phases::of(loss(F32, composed, None), Prices::GPU).kept_bytes(), 0);
    }
}

/// Rows of magnitudes that differ, some with infinities of both signs and NaN.
fn logits(m: usize, n: usize) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(5);
    let element = |(row, column): (usize, usize), x: f64| match row % 9 {
        0 => f64::NEG_INFINITY,
        1 if column % 3 == 0 => f64::NEG_INFINITY,
        2 if column + 1 == n => f64::INFINITY,
        3 if column == n / 2 => f64::NAN,
        4 => 1e4 * x,
        5 => 100.0 + x,
        6 => -1e30 * x,
        7 if column < 70 => f64::NEG_INFINITY,
        _ => 10.0 * x,
    };
    (0..m * n).map(|i| element((i / n, i % n), f64::from((random.f64() - 0.5) as f32))).collect()
}

/// The maximum of a row, and `LogSumExp` or what is written by hand, in f64.
fn expected(row: &[f64], composed: bool) -> (f64, f64) {
    let greatest = row.iter().fold(f64::NEG_INFINITY, |a, x| if *x > a || x.is_nan() { *x } else { a });
    let subtracted = if composed && greatest.is_infinite() { 0.0 } else { greatest };
    let sum: f64 = row.iter().map(|x| (x - subtracted).exp()).sum();
    (greatest, subtracted + sum.ln())
}

/// The results in two tilings: by steps, and by machine code of both widths, panel by panel and part by part.
fn results<T: crate::Element + bytemuck::Pod>(
    types: Types,
    composed: bool,
    logits: &[T],
    n: usize,
) -> Vec<Vec<Vec<T>>> {
    let device = Device::cpu();
    let m = logits.len() / n.max(1);
    let m = if n == 0 { 3 } else { m };
    let phases = Phases::of(loss(types, composed, None), Prices::CPU);
    let (a, b) = (device.zeros::<T>([m, 1]).expect("memory"), device.zeros::<T>([1, n]).expect("memory"));
    let logits = device.tensor(logits, [m, n]).expect("memory");
    let mut all = Vec::new();
    for tile in [TileShape { m: 32, n: 64 }, TileShape { m: 7, n: 512 }] {
        let mut of_tile = Vec::new();
        let ways = [
            (false, false, Order::Parts),
            (true, false, Order::Parts),
            (true, true, Order::Parts),
            (false, false, Order::Panels),
            (true, false, Order::Panels),
        ];
        for (machine, narrow, order) in ways {
            let [mut d, mut greatest] = [(); 2].map(|()| device.zeros::<T>([m]).expect("memory"));
            let arguments = [Argument::Input(&logits), Argument::Output(&mut d), Argument::Output(&mut greatest)];
            let vectors = if narrow { Vectors::Shortest } else { Vectors::Longest };
            let (programs, right) = (Programs::new(by(machine).vectors(vectors)), [&b]);
            let operands = Operands::of(&a, &right);
            execute_in(&programs, &phases, operands, None, &arguments, tile, Some(order)).expect("a run");
            of_tile.push([d, greatest].map(|result| result.to_vec::<T>().expect("numbers")).concat());
        }
        all.push(of_tile);
    }
    all
}

#[test]
fn sums_are_those_of_loops() {
    let m = 40;
    for n in [0, 1, 5, 31, 32, 33, 64, 100, 600, 1300] {
        let wide = logits(m, n);
        let narrow: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
        for composed in [false, true] {
            let of_f32s = results::<f32>(F32, composed, &narrow, n);
            let of_f64s = results::<f64>(Types::new(ElementType::F64, ElementType::F64), composed, &wide, n);
            for of_tile in &of_f32s {
                let bits = |values: &Vec<f32>| {
                    values.iter().map(|x| if x.is_nan() { 0 } else { x.to_bits() }).collect::<Vec<_>>()
                };
                for (way, run) in of_tile.iter().enumerate() {
                    assert_eq!(bits(&of_tile[0]), bits(run), "{n} columns, way {way}, composed: {composed}");
                }
            }
            let of_f32s = of_f32s.iter().flatten().map(|run| run.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>());
            let of_f64s = of_f64s.into_iter().flatten();
            for (run, bound) in of_f32s.map(|run| (run, 1e-6)).chain(of_f64s.map(|run| (run, 1e-14))) {
                let rows = run.len() / 2;
                for row in 0..rows {
                    // In the precision of the operands.
                    let of = |x: &f64| if bound > 1e-10 { f64::from(*x as f32) } else { *x };
                    let elements: Vec<f64> = wide[row * n..(row + 1) * n].iter().map(of).collect();
                    let (greatest, loss) = expected(&elements, composed);
                    let near = |got: f64, want: f64| {
                        got == want
                            || (got.is_nan() && want.is_nan())
                            || (got - want).abs() <= bound * want.abs().max(1.0)
                    };
                    assert!(
                        near(run[rows + row], greatest),
                        "{n}: greatest of row {row}: {}, not {greatest}",
                        run[rows + row]
                    );
                    assert!(near(run[row], loss), "{n}: row {row}: {:e}, not {loss:e}; composed: {composed}", run[row]);
                }
            }
        }
    }
}

/// Rows without anything in one tile have something in others.
#[test]
fn tiles_without_numbers_count_nothing() {
    let mut elements = vec![f32::NEG_INFINITY; 3 * 200];
    (elements[150], elements[200 + 3], elements[400 + 199]) = (2.0, -3.0, 1e30);
    for composed in [false, true] {
        for run in results::<f32>(F32, composed, &elements, 200).into_iter().flatten() {
            assert_eq!(run, [2.0, -3.0, 1e30, 2.0, -3.0, 1e30], "composed: {composed}");
        }
    }
}

/// The maximum is wanted three times: by the sum, for the loss, and of each tile.
#[test]
fn maxima_of_tiles_are_there_too() {
    let (m, n, tile) = (40, 200, TileShape { m: 32, n: 64 });
    let mut b = TreeBuilder::new("loss", file!());
    let (accum, given) = (b.accum("accum"), b.parameter("logits", ParameterClass::Tensor, None));
    let x = b.apply(Op::Add, &[accum, given]);
    let d = b.compose(Composed { axis: Axis::Row, batch: false, op: ComposedOp::LogSumExp }, x);
    let of_tiles = b.reduce(Reduction { form: Form::Partial, ..OF_ROWS }, x);
    b.output("d", d, BroadcastClass::ColumnVector, None);
    b.output("of_tiles", of_tiles, BroadcastClass::ColumnVector, None);
    let phases = Phases::of(b.finish().validate(F32).expect("a valid tree"), Prices::CPU);
    assert_eq!(phases.kept_bytes(), 0);
    let device = Device::cpu();
    let (a, b) = (device.zeros::<f32>([m, 1]).expect("memory"), device.zeros::<f32>([1, n]).expect("memory"));
    let elements: Vec<f32> = logits(m, n).iter().map(|x| *x as f32).collect();
    let logits = device.tensor(&elements, [m, n]).expect("memory");
    for machine in [false, true] {
        let mut d = device.zeros::<f32>([m]).expect("memory");
        let mut of_tiles = device.zeros::<f32>([n.div_ceil(tile.n), m]).expect("memory");
        let arguments = [Argument::Input(&logits), Argument::Output(&mut d), Argument::Output(&mut of_tiles)];
        let (programs, right) = (Programs::new(by(machine)), [&b]);
        let operands = Operands::of(&a, &right);
        execute_in(&programs, &phases, operands, None, &arguments, tile, None).expect("a run");
        for (row, got) in d.to_vec::<f32>().expect("numbers").into_iter().enumerate() {
            let elements: Vec<f64> = elements[row * n..][..n].iter().map(|x| f64::from(*x)).collect();
            let (got, (_, want)) = (f64::from(got), expected(&elements, true));
            let same = got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= 1e-6 * want.abs().max(1.0);
            assert!(same, "row {row}: {got}, not {want}; code: {machine}");
        }
        let of_tiles = of_tiles.to_vec::<f32>().expect("numbers");
        for (i, got) in of_tiles.iter().enumerate() {
            let (part, row) = (i / m, i % m);
            let columns = part * tile.n..n.min((part + 1) * tile.n);
            let elements: Vec<f64> = elements[row * n..][columns].iter().map(|x| f64::from(*x)).collect();
            let (want, _) = expected(&elements, true);
            let got = f64::from(*got);
            assert!(
                got == want || got.is_nan() && want.is_nan(),
                "row {row}, part {part}: {got}, not {want}; code: {machine}"
            );
        }
    }
}
