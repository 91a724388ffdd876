//! Scans whose columns read each other's state, and reductions over ranges that depend on an output's index: on the CPU
//! and on an emulated GPU, compared with the interpreter of the default schedule or with plain loops.

use epilogue::expr::Op;
use epilogue::te::auto::Order;
use epilogue::te::{self, Array, DType, Expr, TeError, Tensor, placeholder_of, reduce_axis, var};
use epilogue::{Arch, Argument, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;
use proptest::prelude::*;

use crate::auto::shared::emulated;
use crate::values::integers_in;

const I32: ElementType = ElementType::I32;

const KINDS: usize = 7;

/// A recurrence of `[steps, n]` and, in some kinds, `[steps, m]`, over wrapping integers: the bits don't depend on the
/// order of sums.
fn cell(kind: usize) -> Result<Vec<Tensor>, TeError> {
    let (steps, n, m) = (var("steps"), var("n"), var("m"));
    let x = placeholder_of(I32, [steps, n], "X");
    let weights = placeholder_of(I32, [n, n], "W");
    let state = placeholder_of(I32, [steps, n], "y");
    let given = if kind == 3 { 2 } else { 1 };
    let init = te::compute([Expr::from(given), n.into()], "init", |[t, i]| x.at([t, i]) + i)?;
    let k = reduce_axis((0, n), "k");
    let one = |update: Tensor| te::scan(&init, &update, &state, &[]).map(|made| vec![made]);
    match kind {
        // A product of the state and a matrix, as a separate stage.
        0 => {
            let product = te::compute([steps, n], "product", |[t, i]| {
                te::sum(state.at([t - 1, k.into()]) * weights.at([k, i]), [k])
            })?;
            one(te::compute([steps, n], "update", |[t, i]| product.at([t, i]).max(x.at([t, i])) - i)?)
        }
        // Two states of two widths, each a reduction of the other.
        1 => {
            let other = placeholder_of(I32, [steps, m], "z");
            let wide = placeholder_of(I32, [n, m], "V");
            let first = te::compute([Expr::from(1), m.into()], "first", |[_, j]| wide.at([Expr::from(0), j.into()]))?;
            let (j, i) = (reduce_axis((0, m), "j"), reduce_axis((0, n), "i"));
            let from_z = te::compute([steps, n], "from z", |[t, c]| {
                te::sum(other.at([t - 1, j.into()]) * wide.at([c, j]), [j])
            })?;
            let y = te::compute([steps, n], "new y", |[t, c]| from_z.at([t, c]) + x.at([t, c]))?;
            let z =
                te::compute([steps, m], "new z", |[t, c]| te::max(state.at([t - 1, i.into()]) - wide.at([i, c]), [i]))?;
            te::scan_all(&[init, first], &[y, z], &[state, other], &[])
        }
        // It reads another column.
        2 => one(te::compute([steps, n], "update", |[t, i]| state.at([t - 1, n - 1 - i]) * 3 + x.at([t, i]))?),
        // It reads several steps, in a reduction.
        3 => {
            let lag = reduce_axis((1, 3), "lag");
            one(te::compute([steps, n], "update", |[t, i]| te::sum(state.at([t - lag, n - 1 - i]) * lag, [lag]))?)
        }
        // It reads columns given by data; and a reduction that doesn't depend on the state, for every step.
        4 => {
            let to = placeholder_of(I32, [n], "to");
            let total = te::compute([steps], "total", |[t]| te::sum(x.at([t, k]), [k]))?;
            one(te::compute([steps, n], "update", |[t, i]| {
                state.at([(t - 1), to.at([i]) % n]) + total.at([t]) * x.at([t, i])
            })?)
        }
        // Outputs computed from the states.
        5 => {
            let scan = one(te::compute([steps, n], "update", |[t, i]| state.at([t - 1, n - 1 - i]) + x.at([t, i]))?)?;
            let sums = te::compute([steps], "sums", |[t]| te::sum(scan[0].at([t, k]), [k]))?;
            let turned = te::compute([n, steps], "turned", |[i, t]| scan[0].at([t, i]) - sums.at([t]))?;
            Ok(vec![sums, turned])
        }
        // Two stages; one of them is read a step later.
        _ => {
            let product =
                te::compute([steps, n], "product", |[t, i]| te::sum(state.at([t, k]) * weights.at([k, i]), [k]))?;
            let plus = te::compute([steps, n], "plus", |[t, i]| product.at([t - 1, i.into()]) + x.at([t, i]))?;
            one(te::compute([steps, n], "update", |[t, i]| plus.at([t, i]) - plus.at([t.into(), n - 1 - i]) * 2)?)
        }
    }
}

fn check(device: &Device, kind: usize, sizes: [usize; 3], order: Order, seed: u64) -> Result<(), TeError> {
    let made = cell(kind)?;
    let outputs: Vec<&Tensor> = made.iter().collect();
    let kernel = te::auto::build(&outputs)?.order(order).build(device)?;
    let extent = |x: &Expr| match x.as_var().map(te::Var::name) {
        Some("steps") => sizes[0],
        Some("n") => sizes[1],
        _ => sizes[2],
    };
    let shape = |tensor: &Tensor| -> Vec<usize> { tensor.shape().iter().map(extent).collect() };
    let given =
        |tensor: &Tensor| integers_in::<i32>(shape(tensor).iter().product(), seed ^ tensor.name().len() as u64, 0..=6);
    let inputs = kernel.inputs();
    let parameters: Vec<&Tensor> = inputs.iter().chain(&made).collect();
    let program = te::lower(&te::create_schedule(&outputs), &parameters, "main")?;
    let values = |tensor: &Tensor| given(tensor).into_iter().map(f64::from).collect::<Vec<_>>();
    let mut arrays = inputs.iter().map(|t| Array::new(I32, &shape(t), &values(t))).collect::<Result<Vec<_>, _>>()?;
    arrays.extend(made.iter().map(|t| Array::unwritten(I32, &shape(t))));
    program.interpret(&mut arrays)?;

    let read = inputs.iter().map(|t| Ok(device.tensor(&given(t), shape(t))?)).collect::<Result<Vec<_>, TeError>>()?;
    let mut written = made.iter().map(|t| Ok(device.zeros::<i32>(shape(t))?)).collect::<Result<Vec<_>, TeError>>()?;
    let mut arguments: Vec<(&Tensor, Argument<'_>)> = inputs.iter().zip(read.iter().map(Argument::from)).collect();
    arguments.extend(made.iter().zip(written.iter_mut().map(Argument::from)));
    // Again: the second run uses what the first has left.
    kernel.run_bound(&arguments)?;
    kernel.run_bound(&arguments)?;
    drop(arguments);
    for ((tensor, got), wanted) in made.iter().zip(&written).zip(&arrays[inputs.len()..]) {
        let got: Vec<f64> = got.to_vec::<i32>()?.into_iter().map(f64::from).collect();
        let what = || format!("kind {kind}, {sizes:?}, {order:?} on {device}: {}", kernel.choice());
        assert_eq!(got, wanted.values(), "{} of {}", tensor.name(), what());
    }
    Ok(())
}

fn check_all(device: &Device, cases: u32, most: usize) {
    let config =
        ProptestConfig { cases: testing::cases(cases), failure_persistence: None, ..ProptestConfig::default() };
    let extent = || prop_oneof![1 => Just(1usize), 5 => 2..most];
    let orders = proptest::sample::select(vec![Order::Device, Order::Shape, Order::Exact]);
    proptest!(config, |(kind in 0..KINDS, steps in 2..8usize, n in extent(), m in extent(), order in orders, seed: u64)| {
        if let Err(error) = check(device, kind, [steps, n, m], order, seed) {
            panic!("kind {kind}, {steps} steps of {n} and {m}: {error}");
        }
    });
}

#[test]
fn cells_on_the_cpu() {
    for kind in 0..KINDS {
        check(&Device::cpu(), kind, [4, 3, 2], Order::Device, 1).unwrap_or_else(|error| panic!("kind {kind}: {error}"));
    }
    check_all(&Device::cpu(), 150, 40);
}

#[test]
fn cells_on_an_emulated_gpu() {
    if testing::compiler("cells_on_an_emulated_gpu").is_none() {
        return;
    }
    for kind in 0..KINDS {
        check(&emulated(Arch::SM_80), kind, [4, 5, 3], Order::Device, 2)
            .unwrap_or_else(|error| panic!("kind {kind}: {error}"));
    }
    check_all(&emulated(Arch::SM_80), 8, 20);
}

/// An LSTM with its matrix, in f32, compared with plain loops in f64.
#[test]
fn an_lstm() -> Result<(), TeError> {
    const STEPS: usize = 6;
    const BATCH: usize = 2;
    const HIDDEN: usize = 5;
    let shape = [STEPS, BATCH, HIDDEN];
    let x = te::placeholder([STEPS, BATCH, 4 * HIDDEN], "x");
    let w = te::placeholder([HIDDEN, 4 * HIDDEN], "w");
    let (h, c) = (te::placeholder(shape, "h"), te::placeholder(shape, "c"));
    let zero = || Expr::constant(0.0, DType::F32);
    let init = te::compute_all([1, BATCH, HIDDEN], "init", |[_, _, _]| vec![zero(), zero()])?;
    let k = reduce_axis((0, HIDDEN), "k");
    let gates = te::compute([STEPS, BATCH, 4 * HIDDEN], "gates", |[t, b, g]| {
        te::sum(h.at([t - 1, b.into(), k.into()]) * w.at([k, g]), [k])
    })?;
    let update = te::compute_all(shape, "cell", |[t, b, j]| {
        let at = |gate: usize| [Expr::from(t), b.into(), j + Expr::from(gate * HIDDEN)];
        let gate = |number: usize| gates.at(at(number)) + x.at(at(number));
        let tanh = |x: Expr| Expr::apply(Op::Tanh, vec![x]);
        let sigmoid = |x: Expr| Expr::from(1.0f32) / (Expr::apply(Op::Exp, vec![-x]) + 1.0f32);
        let new = sigmoid(gate(1)) * c.at([t - 1, b.into(), j.into()]) + sigmoid(gate(0)) * tanh(gate(2));
        vec![sigmoid(gate(3)) * tanh(new.clone()), new]
    })?;
    let states = te::scan_all(&init, &update, &[h, c], &[])?;
    let values = |len: usize, seed: u64| -> Vec<f32> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| random.f32() - 0.5).collect()
    };
    let (xs, ws) = (values(STEPS * BATCH * 4 * HIDDEN, 1), values(HIDDEN * 4 * HIDDEN, 2));
    let (mut hs, mut cs) = (vec![0f64; STEPS * BATCH * HIDDEN], vec![0f64; STEPS * BATCH * HIDDEN]);
    let at = |t: usize, b: usize, j: usize| (t * BATCH + b) * HIDDEN + j;
    for t in 1..STEPS {
        for (b, j) in (0..BATCH).flat_map(|b| (0..HIDDEN).map(move |j| (b, j))) {
            let gate = |number: usize| -> f64 {
                let column = number * HIDDEN + j;
                let sum: f64 = (0..HIDDEN).map(|k| hs[at(t - 1, b, k)] * f64::from(ws[k * 4 * HIDDEN + column])).sum();
                sum + f64::from(xs[(t * BATCH + b) * 4 * HIDDEN + column])
            };
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let new = sigmoid(gate(1)) * cs[at(t - 1, b, j)] + sigmoid(gate(0)) * gate(2).tanh();
            cs[at(t, b, j)] = new;
            hs[at(t, b, j)] = sigmoid(gate(3)) * new.tanh();
        }
    }
    let devices = [Some(Device::cpu()), testing::compiler("an_lstm").map(|_| emulated(Arch::SM_80))];
    for device in devices.iter().flatten() {
        let kernel = te::auto::scan_all(&states.iter().collect::<Vec<_>>())?.build(device)?;
        let (x_values, w_values) =
            (device.tensor(&xs, [STEPS, BATCH, 4 * HIDDEN])?, device.tensor(&ws, [HIDDEN, 4 * HIDDEN])?);
        let (mut h, mut c) = (device.zeros::<f32>(shape)?, device.zeros::<f32>(shape)?);
        kernel.run_bound(&[
            (&x, (&x_values).into()),
            (&w, (&w_values).into()),
            (&states[0], (&mut h).into()),
            (&states[1], (&mut c).into()),
        ])?;
        for (got, wanted) in [(&h, &hs), (&c, &cs)] {
            let got = got.to_vec::<f32>()?;
            let near = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-5;
            assert!(got.iter().zip(wanted).all(near), "on {device}: {got:?}, not {wanted:?}: {}", kernel.choice());
        }
    }
    Ok(())
}

/// The first and one past the last of the columns that row `i` of `n` takes, of `m`.
type Ragged = (&'static str, fn(te::Axis, te::Var, te::Var) -> (Expr, Expr), fn(i64, i64, i64) -> (i64, i64));

const RAGGED: [Ragged; 6] = [
    ("to the diagonal", |i, _, _| (Expr::from(0), i + 1), |i, _, _| (0, i + 1)),
    ("from the diagonal", |i, n, _| (i.into(), n.into()), |i, n, _| (i, n)),
    ("a window", |i, n, _| (i.into(), (i + 3).min(n)), |i, n, _| (i, (i + 3).min(n))),
    ("two at a time", |i, _, _| (Expr::from(0), (i + 1) / 2), |i, _, _| (0, (i + 1) / 2)),
    ("by rest", |i, _, _| (Expr::from(0), i % 3), |i, _, _| (0, i % 3)),
    ("nothing at last", |i, n, _| (Expr::from(0), n - 1 - i), |i, n, _| (0, n - 1 - i)),
];

#[test]
fn ragged_reductions() -> Result<(), TeError> {
    let devices = [Some(Device::cpu()), testing::compiler("ragged_reductions").map(|_| emulated(Arch::SM_80))];
    for device in devices.iter().flatten() {
        for (name, range, plain) in RAGGED {
            let (n, m) = (var("n"), var("m"));
            let a = placeholder_of(I32, [n, m], "A");
            let sums = te::compute([n], "sums", |[i]| {
                let k = reduce_axis(range(i, n, m), "k");
                te::sum(a.at([i, k]) * (k + 1), [k])
            })?;
            let largest = te::compute([n], "largest", |[i]| {
                let k = reduce_axis(range(i, n, m), "k");
                te::max(a.at([i, k]) - k, [k])
            })?;
            let both = te::compute([n, m], "both", |[i, j]| a.at([i, j]) * 2 - sums.at([i]))?;
            let kernel = te::auto::build(&[&sums, &largest, &both])?.build(device)?;
            for size in [1usize, 2, 5, 40] {
                let values = integers_in::<i32>(size * size, 7, 0..=6);
                let input = device.tensor(&values, [size, size])?;
                let zeros = |shape: &[usize]| -> Result<DeviceTensor, TeError> { Ok(device.zeros::<i32>(shape)?) };
                let (mut s, mut l, mut b) = (zeros(&[size])?, zeros(&[size])?, zeros(&[size, size])?);
                kernel.run_bound(&[
                    (&a, (&input).into()),
                    (&sums, (&mut s).into()),
                    (&largest, (&mut l).into()),
                    (&both, (&mut b).into()),
                ])?;
                let at = |i: usize, k: i64| values[i * size + k as usize];
                let row = |i: usize| {
                    let (first, end) = plain(i as i64, size as i64, size as i64);
                    first..end
                };
                let wanted: Vec<i32> = (0..size).map(|i| row(i).map(|k| at(i, k) * (k as i32 + 1)).sum()).collect();
                let most = |i: usize| row(i).map(|k| at(i, k) - k as i32).max().unwrap_or(i32::MIN);
                assert_eq!(s.to_vec::<i32>()?, wanted, "{name}, {size} on {device}: {}", kernel.choice());
                assert_eq!(l.to_vec::<i32>()?, (0..size).map(most).collect::<Vec<_>>(), "{name}, {size} on {device}");
                let points = |p: usize| values[p] * 2 - wanted[p / size];
                assert_eq!(b.to_vec::<i32>()?, (0..size * size).map(points).collect::<Vec<_>>(), "{name} on {device}");
            }
        }
    }
    Ok(())
}
