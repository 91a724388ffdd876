//! Reductions that one kernel can't compute together: over different axes, or of each other's results at other indices.
//! On an emulated GPU with the race detector on, and on the CPU, compared with the interpreter of the default schedule.

use epilogue::te::auto::Order;
use epilogue::te::{self, Array, Expr, TeError, Tensor, var};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;
use half::f16;
use proptest::prelude::*;

use crate::auto::shared::emulated;
use crate::values::integers_in;

const KINDS: usize = 11;

/// Outputs computed from a matrix `[n, m]` (for some, a square one), whose elements are small integers, so that all
/// results are exact.
fn outputs(kind: usize, a: &Tensor, square: &Tensor) -> Result<Vec<Tensor>, TeError> {
    let shape = a.shape();
    let (n, m) = (shape[0].clone(), shape[1].clone());
    let f32 = ElementType::F32;
    let at = |i: Expr, j: Expr| a.at([i, j]).cast(f32);
    let (k, r) = (te::reduce_axis((0, m.clone()), "k"), te::reduce_axis((0, n.clone()), "r"));
    let rows = te::compute([n.clone()], "rows", |[i]| te::sum(at(i.into(), k.into()), [k]))?;
    let columns = te::compute([m.clone()], "columns", |[j]| te::max(at(r.into(), j.into()), [r]))?;
    Ok(match kind {
        0 => vec![rows, columns],
        // Every element, with its row's and its column's result.
        1 => vec![te::compute([n, m], "out", |[i, j]| at(i.into(), j.into()) - rows.at([i]) * 2 + columns.at([j]))?],
        // A reduction of a reduction, to one element.
        2 => {
            let last = te::reduce_axis((0, m), "last");
            vec![te::compute((), "total", |[]| te::sum(columns.at([last]).max(-3.0), [last]))?]
        }
        // Reads the columns' results at the reduced index.
        3 => {
            let c = te::reduce_axis((0, m), "c");
            vec![te::compute([n], "apart", |[i]| te::sum(at(i.into(), c.into()) - columns.at([c]), [c]))?, columns]
        }
        // These axes, with results read at other indices.
        4 => {
            let n = square.shape()[0].clone();
            let (k, l) = (te::reduce_axis((0, n.clone()), "k"), te::reduce_axis((0, n.clone()), "l"));
            let once = te::compute([n.clone()], "once", |[i]| te::sum(square.at([i, k]).cast(f32), [k]))?;
            vec![te::compute([n], "twice", |[i]| te::sum(square.at([i, l]).cast(f32) * once.at([l]).min(9.0), [l]))?]
        }
        // A tuple: for each column, the least of the rows' largest elements that are in it.
        5 => {
            let argmax = te::tuple_reducer(
                |x, y| {
                    let same = x[1].equal(&y[1]).and(x[0].less(&y[0]));
                    let left = x[1].greater(&y[1]).or(same);
                    vec![left.select(&x[0], &y[0]), left.select(&x[1], &y[1])]
                },
                |types| vec![Expr::constant(-1.0, types[0]), Expr::constant(types[1].least(), types[1])],
                "argmax",
            );
            let c = te::reduce_axis((0, m.clone()), "c");
            let best = te::compute_all([n], "best", |[i]| argmax.over_all(&[c.into(), at(i.into(), c.into())], [c]))?;
            let won = |j: te::Axis| best[0].at([r]).equal(j).select(best[1].at([r]), 100.0);
            vec![te::compute([m], "won", |[j]| te::min(won(j), [r]))?, best[0].clone(), best[1].clone()]
        }
        // Three levels, and outputs that read all of them.
        6 => {
            let c = te::reduce_axis((0, m.clone()), "c");
            let q = te::reduce_axis((0, n.clone()), "q");
            let apart =
                te::compute([n.clone()], "apart", |[i]| te::max(columns.at([c]) - at(i.into(), c.into()), [c]))?;
            let least = te::compute([m], "least", |[j]| te::min(at(q.into(), j.into()) + apart.at([q]), [q]))?;
            let both = te::compute([n], "both", |[i]| apart.at([i]) * 2 + rows.at([i]))?;
            vec![both, least, columns]
        }
        // An output that reads results of two shapes, and one that reads none.
        7 => {
            let (i, j) = (te::reduce_axis((0, n.clone()), "i"), te::reduce_axis((0, m.clone()), "j"));
            let all = te::compute((), "all", |[]| te::sum(at(i.into(), j.into()), [i, j]))?;
            let share = te::compute([n.clone()], "share", |[i]| rows.at([i]) * 4 - all.at(()))?;
            let plain = te::compute([n, m], "plain", |[i, j]| at(i.into(), j.into()) * 3)?;
            vec![share, plain]
        }
        // Two chains of two passes each.
        8 => {
            let (c, q) = (te::reduce_axis((0, m.clone()), "c"), te::reduce_axis((0, n.clone()), "q"));
            let above = |x: Expr| x.greater(0.0).select(Expr::constant(1.0, te::DType::F32), 0.0);
            let wide = te::compute([n], "wide", |[i]| te::sum(above(at(i.into(), c.into()) - rows.at([i])), [c]))?;
            let high = te::compute([m], "high", |[j]| te::sum(above(columns.at([j]) - at(q.into(), j.into())), [q]))?;
            vec![wide, high]
        }
        // One set of axes, whose results are read at other indices by expressions of every element.
        9 => {
            let back = n.clone() - 1;
            let out = te::compute([n, m], "out", |[i, j]| at(i.into(), j.into()) + rows.at([back.clone() - i]))?;
            vec![out]
        }
        // In a small type: values kept between kernels are not rounded to it.
        _ => {
            let small =
                te::compute([shape[0].clone()], "small", |[i]| te::sum(a.at([i, k]).cast(ElementType::F16), [k]))?;
            vec![te::compute([m], "of small", |[j]| te::sum(small.at([r]).cast(f32) + at(r.into(), j.into()), [r]))?]
        }
    })
}

fn check(device: &Device, kind: usize, sizes: [usize; 2], half: bool, order: Order, seed: u64) -> Result<(), TeError> {
    let element = if half { ElementType::F16 } else { ElementType::F32 };
    let [n, m] = sizes;
    let a = te::placeholder_of(element, [var("n"), var("m")], "A");
    let s = var("s");
    let square = te::placeholder_of(element, [s, s], "S");
    let made = outputs(kind, &a, &square)?;
    let all: Vec<&Tensor> = made.iter().collect();
    let kernel = te::auto::reduce_all(&all)?.order(order).build(device)?;
    let shape_of = |t: &Tensor| -> Vec<usize> {
        let size = |x: &Expr| match x.as_var().map(te::Var::name) {
            Some("n") | Some("s") => n,
            _ => m,
        };
        t.shape().iter().map(size).collect()
    };
    let inputs = &kernel.parameters()[..kernel.parameters().len() - made.len()];
    let given = |t: &Tensor| integers_in::<f64>(shape_of(t).iter().product(), seed ^ t.rank() as u64, -4..=4);
    let program = te::lower(&te::create_schedule(&all), &inputs.iter().chain(&made).collect::<Vec<_>>(), "main")?;
    let mut arrays =
        inputs.iter().map(|t| Array::new(t.dtype(), &shape_of(t), &given(t))).collect::<Result<Vec<_>, _>>()?;
    arrays.extend(made.iter().map(|t| Array::unwritten(t.dtype(), &shape_of(t))));
    program.interpret(&mut arrays)?;

    let upload = |t: &Tensor| -> Result<DeviceTensor, TeError> {
        let (values, shape) = (given(t), shape_of(t));
        Ok(if half {
            device.tensor(&values.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>(), shape)?
        } else {
            device.tensor(&values.iter().map(|x| *x as f32).collect::<Vec<_>>(), shape)?
        })
    };
    let read = inputs.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    let mut written = Vec::new();
    for t in &made {
        let te::DType::Number(element) = t.dtype() else { panic!("truth values") };
        written.push(device.zeros_of(element, shape_of(t))?);
    }
    let mut arguments: Vec<Argument<'_>> = read.iter().map(Argument::from).collect();
    arguments.extend(written.iter_mut().map(Argument::from));
    // Again: the second run uses what the first has left.
    kernel.run(&arguments)?;
    kernel.run(&arguments)?;
    drop(arguments);
    for (place, tensor) in written.iter().enumerate() {
        let got: Vec<f64> = match tensor.element_type() {
            ElementType::I32 => tensor.to_vec::<i32>()?.into_iter().map(f64::from).collect(),
            _ => tensor.to_vec::<f32>()?.into_iter().map(f64::from).collect(),
        };
        let what = || format!("kind {kind}, {n} x {m}, {order:?}, on {device}: {}", kernel.choice());
        assert_eq!(got, arrays[inputs.len() + place].values(), "{} of {}", made[place].name(), what());
    }
    Ok(())
}

fn check_all(device: &Device, cases: u32, most: usize) {
    let config =
        ProptestConfig { cases: testing::cases(cases), failure_persistence: None, ..ProptestConfig::default() };
    let extent = || prop_oneof![1 => Just(0usize), 2 => Just(1), 9 => 2..most];
    let orders = proptest::sample::select(vec![Order::Device, Order::Shape, Order::Exact]);
    proptest!(config, |(kind in 0..KINDS, n in extent(), m in extent(), half: bool, order in orders, seed: u64)| {
        if let Err(error) = check(device, kind, [n, m], half, order, seed) {
            panic!("kind {kind}, {n} x {m}: {error}");
        }
    });
}

#[test]
fn on_the_cpu() {
    check_all(&Device::cpu(), 400, 90);
}

#[test]
fn on_an_emulated_gpu() {
    if testing::compiler("on_an_emulated_gpu").is_none() {
        return;
    }
    check_all(&emulated(Arch::SM_80), 24, 50);
}

/// The description of the kernel, and what is still refused.
#[test]
fn choices_and_refusals() -> Result<(), TeError> {
    let a = te::placeholder([var("n"), var("m")], "A");
    let square = te::placeholder([4, 4], "S");
    let both = outputs(0, &a, &square)?;
    let device = Device::cpu();
    let kernel = te::auto::reduce_all(&both.iter().collect::<Vec<_>>())?.build(&device)?;
    assert_eq!(kernel.parameters().iter().map(Tensor::name).collect::<Vec<_>>(), ["A", "rows", "columns"]);
    let input = device.tensor(&[1f32, 2.0, 3.0, 4.0], [2, 2])?;
    let (mut rows, mut columns) = (device.zeros::<f32>([2])?, device.zeros::<f32>([2])?);
    kernel.run(&[(&input).into(), (&mut rows).into(), (&mut columns).into()])?;
    assert!(kernel.choice().starts_with("2 kernels: "), "{}", kernel.choice());
    assert_eq!((rows.to_vec::<f32>()?, columns.to_vec::<f32>()?), (vec![3.0, 7.0], vec![3.0, 4.0]));
    let plain = te::compute([3], "plain", |[i]| square.at([i, i]))?;
    let error = te::auto::reduce(&plain).expect_err("no reduction").to_string();
    expect_test::expect![
        "plain, which is not a reduction and reads none (`te::auto::build` takes it), is not supported by te::auto"
    ]
    .assert_eq(&error);
    Ok(())
}
