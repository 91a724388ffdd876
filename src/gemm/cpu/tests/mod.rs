//! The CPU device, compared with direct evaluation in f64.

mod exponentials;
mod locks;
mod machine;
mod orders;
mod property;
mod words;

use epilogue_runtime::{Device, DeviceTensor};
use half::{bf16, f16};

use super::{Activations, Error, Operands, Programs, TileShape, choose_tile, execute};
use crate::evt::{
    Axis, BroadcastClass, Form, ParameterClass, Phases, Prices, ReduceOp, Reduction, Tree, TreeBuilder, Types,
};
use crate::expr::Op;
use crate::{Argument, Element, ElementType};

impl<'a> Operands<'a> {
    /// Matrices as they are.
    pub(super) fn of(a: &'a DeviceTensor, b: &'a [&'a DeviceTensor]) -> Self {
        Self { a, patches: None, b, panels: &[], scales: None, weights: &[], activations: Activations::Exact }
    }
}

/// Small integers and halves, so that products and sums are exact in f32.
fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| (((i * 7 + seed * 13) % 23) as f32 - 11.0) * 0.5).collect()
}

fn tensor<T: Element>(values: &[f32], shape: &[usize], convert: impl Fn(f32) -> T) -> DeviceTensor {
    let values: Vec<T> = values.iter().map(|&x| convert(x)).collect();
    Device::cpu().tensor(&values, shape).unwrap()
}

fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let at = |i: usize, j: usize| (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j])).sum();
    (0..m * n).map(|e| at(e / n, e % n)).collect()
}

const SUM_OF_ROWS: Reduction = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };

/// `d = alpha * accum + bias + beta * c`, with a reduction of `d`.
fn linear(reduction: Reduction, class: BroadcastClass) -> Tree {
    let mut b = TreeBuilder::new("linear", file!());
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, Some(ElementType::F32));
    let bias = b.parameter("bias", ParameterClass::RowVector, Some(ElementType::F16));
    let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
    let beta = b.parameter("beta", ParameterClass::Scalar, None);
    let scaled = b.apply(Op::Mul, &[alpha, accum]);
    let biased = b.apply(Op::Add, &[scaled, bias]);
    let residual = b.apply(Op::Mul, &[beta, c]);
    let d = b.apply(Op::Add, &[biased, residual]);
    let r = b.reduce(reduction, d);
    b.output("d", d, BroadcastClass::Tensor, Some(ElementType::F32));
    b.output("r", r, class, None);
    b.finish()
}

struct Linear {
    d: Vec<f32>,
    r: Vec<f32>,
}

/// Runs [`linear`] on operands made by `convert`; gives the results and the expected results.
fn run_linear<T: Element>(
    [m, n, k]: [usize; 3],
    reduction: Reduction,
    r_shape: &[usize],
    tile: Option<TileShape>,
    beta: f64,
    convert: impl Fn(f32) -> T,
) -> Result<(Linear, Vec<f64>), Error> {
    let (a, b, c, bias) = (values(m * k, 1), values(k * n, 2), values(m * n, 3), values(n, 4));
    let tree = linear(reduction, reduction.axis.result_class()).validate(Types::new(T::TYPE, T::TYPE)).unwrap();
    let device = Device::cpu();
    let (at, bt) = (tensor(&a, &[m, k], &convert), tensor(&b, &[k, n], &convert));
    let c_given: Vec<f32> = if beta == 0.0 { vec![f32::NAN; m * n] } else { c.clone() };
    let (ct, biast) = (tensor(&c_given, &[m, n], |x| x), tensor(&bias, &[n], f16::from_f32));
    let (mut d, mut r) = (device.full::<f32>([m, n], f32::NAN)?, device.full::<f32>(r_shape, f32::NAN)?);
    let arguments = [
        Argument::Input(&ct),
        Argument::Input(&biast),
        Argument::Scalar(0.5),
        Argument::Scalar(beta),
        Argument::Output(&mut d),
        Argument::Output(&mut r),
    ];
    execute(
        &Programs::default(),
        &Phases::of(tree.clone(), Prices::CPU),
        Operands::of(&at, &[&bt]),
        None,
        &arguments,
        tile.unwrap_or_else(|| choose_tile((T::TYPE, T::TYPE), [m, n, k], 1, 1, 0)),
    )?;
    let mut want = product(&a, &b, [m, n, k]);
    for (e, x) in want.iter_mut().enumerate() {
        *x = 0.5 * *x + f64::from(bias[e % n]) + beta * f64::from(c[e]);
    }
    Ok((Linear { d: d.to_vec().unwrap(), r: r.to_vec().unwrap() }, want))
}

#[test]
fn every_shape_and_element_type() {
    for shape in
        [[1, 1, 1], [1, 7, 3], [5, 1, 2], [3, 4, 0], [0, 5, 2], [5, 0, 2], [37, 41, 29], [131, 263, 17], [2, 1031, 5]]
    {
        let [m, n, _] = shape;
        for beta in [0.0, -1.5] {
            let check = |(got, want): (Linear, Vec<f64>)| {
                let d: Vec<f64> = got.d.iter().map(|&x| x.into()).collect();
                assert_eq!(d, want, "{shape:?}");
                let sums: Vec<f64> = (0..m).map(|i| want[i * n..(i + 1) * n].iter().sum()).collect();
                let r: Vec<f64> = got.r.iter().map(|&x| x.into()).collect();
                assert_eq!(r, sums, "{shape:?}");
            };
            check(run_linear(shape, SUM_OF_ROWS, &[m], None, beta, |x| x).unwrap());
            check(run_linear(shape, SUM_OF_ROWS, &[m], None, beta, f16::from_f32).unwrap());
            check(run_linear(shape, SUM_OF_ROWS, &[m], None, beta, bf16::from_f32).unwrap());
        }
    }
}

#[test]
fn column_and_whole_reductions_and_partials() {
    let shape @ [m, n, _] = [131, 263, 9];
    let reduction = |axis, op, form| Reduction { axis, batch: false, op, form };
    let run = |r: Reduction, shape_of_r: &[usize], tile| run_linear(shape, r, shape_of_r, tile, 1.0, |x| x).unwrap();

    let (got, want) = run(reduction(Axis::Column, ReduceOp::Max, Form::Complete), &[n], None);
    for j in 0..n {
        let most = (0..m).map(|i| want[i * n + j]).fold(f64::MIN, f64::max);
        assert_eq!(f64::from(got.r[j]), most);
    }
    let (got, want) = run(reduction(Axis::All, ReduceOp::SumSquares, Form::Complete), &[], None);
    assert_eq!(got.r[0], want.iter().map(|x| x * x).sum::<f64>() as f32);

    let tile = TileShape { m: 48, n: 96 };
    let (got, want) = run(reduction(Axis::Row, ReduceOp::Add, Form::Partial), &[3, m], Some(tile));
    for (group, columns) in [0..96, 96..192, 192..n].into_iter().enumerate() {
        for i in 0..m {
            let sum: f64 = want[i * n..][columns.clone()].iter().sum();
            assert_eq!(f64::from(got.r[group * m + i]), sum);
        }
    }
    let (got, want) = run(reduction(Axis::Column, ReduceOp::Min, Form::Partial), &[3, n], Some(tile));
    for (group, rows) in [0..48, 48..96, 96..m].into_iter().enumerate() {
        for j in 0..n {
            let least = rows.clone().map(|i| want[i * n + j]).fold(f64::MAX, f64::min);
            assert_eq!(f64::from(got.r[group * n + j]), least);
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let shape = [517, 300, 77];
    // Values whose sums round, so that another order would give other bits.
    let roughen = |x: f32| x * 0.123_456_7 + 1e-3;
    let reduction = Reduction { axis: Axis::All, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let tile = Some(choose_tile((ElementType::F32, ElementType::F32), shape, 1, 1, 0));
        pool.install(|| run_linear(shape, reduction, &[], tile, 1.0, roughen)).unwrap().0
    };
    let (one, three) = (run(1), run(3));
    assert_eq!(one.r[0].to_bits(), three.r[0].to_bits());
    assert!(one.d.iter().zip(&three.d).all(|(x, y)| x.to_bits() == y.to_bits()));
}

#[test]
fn sums_of_integer_products_are_exact() {
    // Long enough that a single sum in f32 would round.
    let [m, n, k] = [3, 2, 4099];
    let a: Vec<i8> = (0..m * k).map(|i| if i % 5 == 0 { -128 } else { 127 - (i % 3) as i8 }).collect();
    let b: Vec<i8> = (0..k * n).map(|i| 127 - (i % 4) as i8).collect();
    let mut builder = TreeBuilder::new("integers", file!());
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, Some(ElementType::F32));
    let tree = builder.finish().validate(Types::new(ElementType::I8, ElementType::I8)).unwrap();
    let device = Device::cpu();
    let mut d = device.zeros::<f32>([m, n]).unwrap();
    let (at, bt) = (device.tensor(&a, [m, k]).unwrap(), device.tensor(&b, [k, n]).unwrap());
    execute(
        &Programs::default(),
        &Phases::of(tree.clone(), Prices::CPU),
        Operands::of(&at, &[&bt]),
        None,
        &[Argument::Output(&mut d)],
        choose_tile((ElementType::I8, ElementType::I8), [m, n, k], 1, 1, 0),
    )
    .unwrap();
    let sum = |i: usize, j: usize| (0..k).map(|p| i32::from(a[i * k + p]) * i32::from(b[p * n + j])).sum::<i32>();
    let want: Vec<f32> = (0..m * n).map(|e| sum(e / n, e % n) as f32).collect();
    assert_eq!(d.to_vec::<f32>().unwrap(), want);
}

#[test]
fn operands_without_a_product_are_refused() {
    let device = Device::cpu();
    let (a, b) = (device.zeros::<i32>([2, 2]).unwrap(), device.zeros::<i32>([2, 2]).unwrap());
    let mut builder = TreeBuilder::new("integers", file!());
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, Some(ElementType::F32));
    let tree = builder.finish().validate(Types::new(ElementType::I32, ElementType::I32)).unwrap();
    let mut d = device.full::<f32>([2, 2], 7.0).unwrap();
    let refused = execute(
        &Programs::default(),
        &Phases::of(tree.clone(), Prices::CPU),
        Operands::of(&a, &[&b]),
        None,
        &[Argument::Output(&mut d)],
        choose_tile((ElementType::I32, ElementType::I32), [2; 3], 1, 1, 0),
    );
    assert!(matches!(refused, Err(Error::OperandTypes { a: ElementType::I32, b: ElementType::I32, .. })));
    assert_eq!(d.to_vec::<f32>().unwrap(), [7.0; 4]);
}
