//! Recurrent cells whose steps run in one launch on a GPU: random ones compared with the interpreter of the default
//! schedule, gated ones with plain loops, and the conditions for one launch.

use epilogue::expr::Op;
use epilogue::te::auto::{Kernel, Order};
use epilogue::te::{self, Array, Axis, DType, Expr, TeError, Tensor, Var, placeholder_of, reduce_axis, var};
use epilogue::{Arch, Argument, Device, Element, ElementType};
use epilogue_runtime::testing;
use half::{bf16, f16};
use proptest::prelude::*;

use crate::auto::shared::emulated;
use crate::values::integers_in;

const I32: ElementType = ElementType::I32;

fn devices(test: &str) -> Vec<Device> {
    match testing::compiler(test) {
        Some(_) => vec![Device::cpu(), emulated(Arch::SM_80), emulated(Arch::SM_90A)],
        None => vec![Device::cpu()],
    }
}

/// The number of terms that a random cell's update can add.
const TERMS: usize = 12;

/// Sizes of a random cell.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    steps: usize,
    /// Dimensions of the batch.
    batch: [usize; 2],
    rank: usize,
    n: usize,
    m: usize,
}

/// A cell over wrapping integers, whose sums are the same in any order: a state y of `[steps, batch…, n]`, and with
/// some terms a second one, z, of `[steps, batch…, m]`.
struct Cell {
    states: Vec<Tensor>,
    sizes: Vec<(Var, usize)>,
}

/// Indices: a step, those of the batch, then others.
fn at(t: impl Into<Expr>, batch: &[Axis], rest: &[Expr]) -> Vec<Expr> {
    std::iter::once(t.into()).chain(batch.iter().map(|axis| Expr::from(*axis))).chain(rest.iter().cloned()).collect()
}

fn cell(terms: u32, given: i64, sizes: Sizes) -> Result<Cell, TeError> {
    match sizes.rank {
        0 => cell_of::<2>(terms, given, sizes),
        1 => cell_of::<3>(terms, given, sizes),
        _ => cell_of::<4>(terms, given, sizes),
    }
}

/// The states have `N` dimensions.
fn cell_of<const N: usize>(terms: u32, given: i64, sizes: Sizes) -> Result<Cell, TeError> {
    let has = |term: usize| terms >> term & 1 == 1;
    let (steps, n, m) = (var("steps"), var("n"), var("m"));
    let batch: Vec<Var> = [var("b"), var("c")].into_iter().take(sizes.rank).collect();
    let shape = |first: Expr, last: Expr| -> Vec<Expr> {
        std::iter::once(first).chain(batch.iter().map(|size| Expr::from(*size))).chain([last]).collect()
    };
    let over = |size: Var| shape(steps.into(), size.into());
    let rank = batch.len();
    let compute = |size: Var, name: &str, value: &dyn Fn(Axis, &[Axis], Axis) -> Expr| {
        te::compute(over(size), name, |axes: [Axis; N]| value(axes[0], &axes[1..=rank], axes[rank + 1]))
    };
    let x = placeholder_of(I32, over(n), "X");
    let w = placeholder_of(I32, [n, n], "W");
    let v = placeholder_of(I32, [n, m], "V");
    let to = placeholder_of(I32, [n], "to");
    let (y, z) = (placeholder_of(I32, over(n), "y"), placeholder_of(I32, over(m), "z"));
    let axis = |size: Var| reduce_axis((0, size), "k");
    let before = |tensor: &Tensor, t: Axis, batch: &[Axis], k: Expr| tensor.at(at(t - 1, batch, &[k]));
    let mut stages: Vec<Tensor> = Vec::new();
    if has(0) {
        let k = axis(n);
        stages.push(compute(n, "product", &|t, b, i| te::sum(before(&y, t, b, k.into()) * w.at([k, i]), [k]))?);
    }
    if has(1) {
        let k = axis(n);
        stages.push(compute(n, "turned", &|t, b, i| te::sum(before(&y, t, b, k.into()) * w.at([i, k]), [k]))?);
    }
    if has(2) {
        // A value inside a reduction that is computed from two columns.
        let reset = compute(n, "reset", &|t, b, i| {
            before(&y, t, b, i.into()).max(2) * before(&y, t, b, n - 1 - i) + x.at(at(t, b, &[i.into()]))
        })?;
        let k = axis(n);
        stages.push(compute(n, "gated", &|t, b, i| te::sum(reset.at(at(t, b, &[k.into()])) * w.at([k, i]), [k]))?);
    }
    if has(3) {
        let k = axis(m);
        stages.push(compute(n, "from z", &|t, b, i| te::sum(before(&z, t, b, k.into()) * v.at([i, k]), [k]))?);
    }
    if has(4) {
        // Ranges that depend on the column.
        stages.push(compute(n, "ragged", &|t, b, i| {
            let k = reduce_axis((0, i + 1), "k");
            te::max(before(&y, t, b, k.into()) - k, [k])
        })?);
    }
    if has(5) {
        // It reads only the inputs, with rows.
        let k = axis(n);
        stages.push(compute(n, "projected", &|t, b, i| te::sum(x.at(at(t, b, &[k.into()])) * w.at([k, i]), [k]))?);
    }
    if has(6) {
        // Two reductions in a row.
        let (k, l) = (axis(n), axis(n));
        let sums = te::compute(shape(steps.into(), 1.into()), "sums", |axes: [Axis; N]| {
            te::sum(before(&y, axes[0], &axes[1..=rank], k.into()), [k])
        })?;
        stages.push(compute(n, "centred", &|t, b, i| {
            let apart = before(&y, t, b, l.into()) * 3 - sums.at(at(t, b, &[0.into()]));
            te::sum(apart * w.at([l, i]), [l])
        })?);
    }
    let total = {
        // It depends only on the step: the same for the whole batch.
        let k = axis(n);
        let first: Vec<Expr> = batch.iter().map(|_| 0.into()).collect();
        let own = |t: Axis| at(t, &[], &[first.clone(), vec![k.into()]].concat());
        te::compute([steps], "total", |[t]| te::sum(x.at(own(t)), [k]))?
    };
    let lags = reduce_axis((1, Expr::from(given)), "lag");
    let back = compute(n, "back", &|t, b, i| te::sum(y.at(at(t - lags, b, &[n - 1 - i])) * lags, [lags]))?;
    let update = compute(n, "new y", &|t, b, i| {
        let mut sum = x.at(at(t, b, &[i.into()]));
        for stage in &stages {
            sum = sum * 3 + stage.at(at(t, b, &[i.into()]));
        }
        if has(7) {
            sum = sum + before(&y, t, b, n - 1 - i) * 5;
        }
        if has(8) {
            sum = sum - before(&y, t, b, to.at([i]) % n);
        }
        if has(9) {
            sum = sum + total.at([t]) * t;
        }
        if has(10) {
            sum = sum * 2 + back.at(at(t, b, &[i.into()]));
        }
        if has(11) {
            sum = sum + y.at(at(t - given, b, &[(i + 1) % n]));
        }
        sum
    })?;
    let first = |size: Var, from: &Tensor| {
        te::compute(shape(given.into(), size.into()), "init", |axes: [Axis; N]| {
            let place = at(axes[0], &axes[1..=rank], &[axes[rank + 1] % n]);
            from.at(place) + axes[rank + 1]
        })
    };
    let states = if has(3) {
        let k = axis(n);
        let other = compute(m, "new z", &|t, b, j| te::max(before(&y, t, b, k.into()) - v.at([k, j]) * j, [k]))?;
        te::scan_all(&[first(n, &x)?, first(m, &x)?], &[update, other], &[y, z], &[])?
    } else {
        vec![te::scan(&first(n, &x)?, &update, &y, &[])?]
    };
    let known = [(steps, sizes.steps), (n, sizes.n), (m, sizes.m)];
    let of_batch = batch.iter().copied().zip(sizes.batch);
    Ok(Cell { states, sizes: known.into_iter().chain(of_batch).collect() })
}

/// The values of the inputs, and of the states.
type Interpreted = (Vec<Vec<i32>>, Vec<Vec<f64>>);

impl Cell {
    fn shape(&self, tensor: &Tensor) -> Vec<usize> {
        let extent = |x: &Expr| {
            let size = x.as_var().and_then(|var| self.sizes.iter().find(|(size, _)| *size == var));
            size.map(|(_, extent)| *extent).expect("all extents are sizes")
        };
        tensor.shape().iter().map(extent).collect()
    }

    /// The states from the interpreter, and its inputs.
    fn interpreted(&self, inputs: &[Tensor], seed: u64) -> Result<Interpreted, TeError> {
        let outputs: Vec<&Tensor> = self.states.iter().collect();
        let parameters: Vec<&Tensor> = inputs.iter().chain(&self.states).collect();
        let program = te::lower(&te::create_schedule(&outputs), &parameters, "main")?;
        let given: Vec<Vec<i32>> = (inputs.iter().enumerate())
            .map(|(number, tensor)| {
                integers_in::<i32>(self.shape(tensor).iter().product(), seed ^ number as u64, 0..=6)
            })
            .collect();
        let values = |of: &[i32]| of.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let mut arrays = (inputs.iter().zip(&given))
            .map(|(tensor, of)| Array::new(I32, &self.shape(tensor), &values(of)))
            .collect::<Result<Vec<_>, _>>()?;
        arrays.extend(self.states.iter().map(|state| Array::unwritten(I32, &self.shape(state))));
        program.interpret(&mut arrays)?;
        Ok((given, arrays[inputs.len()..].iter().map(|array| array.values().to_vec()).collect()))
    }

    fn check(&self, device: &Device, order: Order, seed: u64) -> Result<Kernel, TeError> {
        let outputs: Vec<&Tensor> = self.states.iter().collect();
        let kernel = te::auto::build(&outputs)?.order(order).build(device)?;
        let inputs = kernel.inputs();
        let (given, wanted) = self.interpreted(inputs, seed)?;
        let read = (inputs.iter().zip(&given))
            .map(|(tensor, of)| Ok(device.tensor(of, self.shape(tensor))?))
            .collect::<Result<Vec<_>, TeError>>()?;
        let mut written = (self.states.iter())
            .map(|state| Ok(device.zeros::<i32>(self.shape(state))?))
            .collect::<Result<Vec<_>, TeError>>()?;
        let mut arguments: Vec<(&Tensor, Argument<'_>)> = inputs.iter().zip(read.iter().map(Argument::from)).collect();
        arguments.extend(self.states.iter().zip(written.iter_mut().map(Argument::from)));
        kernel.run_bound(&arguments)?;
        kernel.run_bound(&arguments)?;
        drop(arguments);
        for ((state, got), wanted) in self.states.iter().zip(&written).zip(&wanted) {
            let got: Vec<f64> = got.to_vec::<i32>()?.into_iter().map(f64::from).collect();
            assert!(got == *wanted, "{} on {device}: {got:?}, not {wanted:?}: {}", state.name(), kernel.choice());
        }
        Ok(kernel)
    }
}

fn random_cells(device: &Device, cases: u32, most: usize) {
    let config =
        ProptestConfig { cases: testing::cases(cases), failure_persistence: None, ..ProptestConfig::default() };
    let extent = || prop_oneof![1 => Just(1usize), 5 => 2..most];
    let orders = proptest::sample::select(vec![Order::Device, Order::Device, Order::Shape, Order::Exact]);
    let sizes = (0..5usize, [extent(), extent()], 0..=2usize, extent(), extent());
    proptest!(config, |(terms in 0..1u32 << TERMS, given in 1..3i64, sizes in sizes, order in orders, seed: u64)| {
        let (more, batch, rank, n, m) = sizes;
        let sizes = Sizes { steps: given as usize + more, batch, rank, n, m };
        // Otherwise columns would be independent.
        let terms = if terms & 0b1111_0111 == 0 { terms | 1 << 7 } else { terms };
        let made = cell(terms, given, sizes).and_then(|cell| cell.check(device, order, seed).map(|_| ()));
        if let Err(error) = made {
            panic!("terms {terms:b}, {given} given of {sizes:?}: {error}");
        }
    });
}

#[test]
fn random_cells_on_the_cpu() {
    random_cells(&Device::cpu(), 60, 9);
}

#[test]
fn random_cells_on_an_emulated_gpu() {
    for device in &devices("random_cells_on_an_emulated_gpu")[1..] {
        random_cells(device, 8, 12);
    }
}

#[test]
fn every_term_is_one_launch() -> Result<(), TeError> {
    let sizes = Sizes { steps: 4, batch: [3, 2], rank: 1, n: 5, m: 4 };
    for device in &devices("every_term_is_one_launch")[1..] {
        for term in (0..TERMS).filter(|term| ![5, 9].contains(term)) {
            for (order, given) in [(Order::Device, 2), (Order::Exact, 3)] {
                let kernel = cell(1 << term | 1 << 7, given, Sizes { steps: given as usize + 3, ..sizes })?.check(
                    device,
                    order,
                    7 + term as u64,
                )?;
                assert!(kernel.choice().contains("3 steps in one launch"), "term {term}: {}", kernel.choice());
            }
        }
        // Terms that don't depend on the states, with rows and without.
        let kernel = cell(1 << 5 | 1 << 9 | 1 << 7, 1, sizes)?.check(device, Order::Device, 3)?;
        assert!(kernel.choice().contains("in one launch: 1 rows in a block"), "{}", kernel.choice());
        let blocks = kernel.choice().contains("; 3 blocks of");
        assert!(blocks, "{}", kernel.choice());
    }
    Ok(())
}

/// Rows of a batch share a block if there are more rows than multiprocessors; the last block has fewer.
#[test]
fn rows_share_blocks() -> Result<(), TeError> {
    for device in &devices("rows_share_blocks")[1..] {
        let multiprocessors = device.properties().multiprocessors as usize;
        for (batch, rows) in [(multiprocessors + 1, 2), (multiprocessors * 3 - 1, 4), (multiprocessors * 9, 8)] {
            let sizes = Sizes { steps: 3, batch: [batch, 1], rank: 1, n: 3, m: 2 };
            let kernel = cell(0b10_1000_1001, 1, sizes)?.check(device, Order::Device, 5)?;
            assert!(kernel.choice().contains(&format!("{rows} rows in a block")), "{}", kernel.choice());
        }
    }
    Ok(())
}

#[test]
fn more_columns_than_threads_and_than_shared_memory_holds() -> Result<(), TeError> {
    let sizes = |n: usize| Sizes { steps: 3, batch: [1, 1], rank: 0, n, m: 1 };
    for device in &devices("more_columns_than_threads_and_than_shared_memory_holds")[1..] {
        let kernel = cell(1 << 7, 1, sizes(1100))?.check(device, Order::Device, 1)?;
        assert!(kernel.choice().contains("in one launch"), "{}", kernel.choice());
        assert!(kernel.choice().contains("1 blocks of 1024 threads"), "{}", kernel.choice());
        let kernel = cell(1 << 7, 1, sizes(40_000))?.check(device, Order::Device, 1)?;
        assert!(kernel.choice().contains("2 steps, one after the other (a row takes"), "{}", kernel.choice());
    }
    // Enough columns to keep a whole GPU busy: a step of 4 million products.
    if let Some(device) = devices("a large matrix").get(1) {
        let (n, state) = (2048usize, placeholder_of(I32, [2, 2048], "y"));
        let w = placeholder_of(I32, [n, n], "W");
        let k = reduce_axis((0, n), "k");
        let init = te::compute([1, n], "init", |[_, i]| w.at([Expr::from(0), i.into()]))?;
        let update = te::compute([2, n], "update", |[t, i]| te::sum(state.at([t - 1, k.into()]) * w.at([k, i]), [k]))?;
        let scan = te::scan(&init, &update, &state, &[])?;
        let kernel = te::auto::scan(&scan)?.build(device)?;
        let (ws, mut ys) = (device.zeros::<i32>([n, n])?, device.zeros::<i32>([2, n])?);
        kernel.run(&[(&ws).into(), (&mut ys).into()])?;
        assert!(kernel.choice().contains("are enough work for the whole device"), "{}", kernel.choice());
    }
    Ok(())
}

#[test]
fn few_steps_and_no_batch() -> Result<(), TeError> {
    for device in devices("few_steps_and_no_batch") {
        // Given steps only; a batch of none.
        for (steps, batch) in [(2, 3), (3, 0), (2, 0)] {
            let sizes = Sizes { steps, batch: [batch, 1], rank: 1, n: 4, m: 3 };
            cell(0b1101, 2, sizes)?.check(&device, Order::Device, 1)?;
        }
        // No steps at all, and fewer than are given.
        let made = cell(1, 2, Sizes { steps: 0, batch: [3, 1], rank: 1, n: 4, m: 3 })?;
        let kernel = te::auto::scan(&made.states[0])?.build(&device)?;
        for (steps, fails) in [(0, false), (1, true)] {
            let (x, w) = (device.zeros::<i32>([steps, 3, 4])?, device.zeros::<i32>([4, 4])?);
            let mut y = device.zeros::<i32>([steps, 3, 4])?;
            let arguments: Vec<(&Tensor, Argument<'_>)> = (kernel.inputs().iter())
                .map(|tensor| (tensor, Argument::from(if tensor.name() == "X" { &x } else { &w })))
                .chain([(&made.states[0], Argument::from(&mut y))])
                .collect();
            assert_eq!(kernel.run_bound(&arguments).is_err(), fails, "{steps} steps on {device}");
        }
    }
    Ok(())
}

/// A gated recurrent unit with some type of state, and its values from plain loops, which round the state in the same
/// way.
fn gru<T: Element + Into<f64> + Copy>(device: &Device, order: Order, round: fn(f64) -> T) -> Result<String, TeError> {
    const STEPS: usize = 5;
    const BATCH: usize = 3;
    const HIDDEN: usize = 12;
    let shape = [STEPS, BATCH, HIDDEN];
    let x = te::placeholder([STEPS, BATCH, 3 * HIDDEN], "x");
    let (u, v) = (placeholder_of(T::TYPE, [HIDDEN, 2 * HIDDEN], "u"), placeholder_of(T::TYPE, [HIDDEN, HIDDEN], "v"));
    let h = placeholder_of(T::TYPE, shape, "h");
    let wide = |x: Expr| x.cast(DType::F32);
    let init = te::compute([1, BATCH, HIDDEN], "init", |[_, _, _]| Expr::constant(0.0, DType::F32).cast(h.dtype()))?;
    let (k, l) = (reduce_axis((0, HIDDEN), "k"), reduce_axis((0, HIDDEN), "l"));
    let sigmoid = |x: Expr| Expr::from(1.0f32) / (Expr::apply(Op::Exp, vec![-x]) + 1.0f32);
    let gates = te::compute([STEPS, BATCH, 2 * HIDDEN], "gates", |[t, b, g]| {
        te::sum(wide(h.at([t - 1, b.into(), k.into()])) * wide(u.at([k, g])), [k])
    })?;
    let gate = |t: Axis, b: Axis, column: Expr| {
        sigmoid(gates.at([t.into(), b.into(), column.clone()]) + x.at([t.into(), b.into(), column]))
    };
    let reset =
        te::compute(shape, "reset", |[t, b, j]| gate(t, b, j.into()) * wide(h.at([t - 1, b.into(), j.into()])))?;
    let candidate =
        te::compute(shape, "candidate", |[t, b, j]| te::sum(reset.at([t, b, l]) * wide(v.at([l, j])), [l]))?;
    let update = te::compute(shape, "new h", |[t, b, j]| {
        let new = Expr::apply(Op::Tanh, vec![candidate.at([t, b, j]) + x.at([t.into(), b.into(), j + 2 * HIDDEN])]);
        let keep = gate(t, b, j + HIDDEN);
        let old = wide(h.at([t - 1, b.into(), j.into()]));
        (keep.clone() * old + (Expr::from(1.0f32) - keep) * new).cast(h.dtype())
    })?;
    let states = te::scan(&init, &update, &h, &[])?;

    let mut random = fastrand::Rng::with_seed(3);
    let xs: Vec<f32> = (0..STEPS * BATCH * 3 * HIDDEN).map(|_| random.f32() - 0.5).collect();
    let mut matrix = |len: usize| -> Vec<T> { (0..len).map(|_| round(random.f64() - 0.5)).collect() };
    let (us, vs) = (matrix(HIDDEN * 2 * HIDDEN), matrix(HIDDEN * HIDDEN));
    let mut wanted = vec![0f64; STEPS * BATCH * HIDDEN];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for t in 1..STEPS {
        for b in 0..BATCH {
            let row = |t: usize, j: usize| (t * BATCH + b) * HIDDEN + j;
            let old: Vec<f64> = (0..HIDDEN).map(|j| wanted[row(t - 1, j)]).collect();
            let input = |column: usize| f64::from(xs[(t * BATCH + b) * 3 * HIDDEN + column]);
            let gate = |column: usize| {
                let sum: f64 = (0..HIDDEN).map(|k| old[k] * us[k * 2 * HIDDEN + column].into()).sum();
                sigmoid(sum + input(column))
            };
            let reset: Vec<f64> = (0..HIDDEN).map(|j| gate(j) * old[j]).collect();
            for j in 0..HIDDEN {
                let sum: f64 = (0..HIDDEN).map(|l| reset[l] * vs[l * HIDDEN + j].into()).sum();
                let (new, keep) = ((sum + input(j + 2 * HIDDEN)).tanh(), gate(j + HIDDEN));
                wanted[row(t, j)] = round(keep * old[j] + (1.0 - keep) * new).into();
            }
        }
    }
    let kernel = te::auto::build(&[&states])?.order(order).build(device)?;
    let x_values = device.tensor(&xs, [STEPS, BATCH, 3 * HIDDEN])?;
    let (u_values, v_values) = (device.tensor(&us, [HIDDEN, 2 * HIDDEN])?, device.tensor(&vs, [HIDDEN, HIDDEN])?);
    let mut got = device.zeros::<T>(shape)?;
    kernel.run_bound(&[
        (&x, (&x_values).into()),
        (&u, (&u_values).into()),
        (&v, (&v_values).into()),
        (&states, (&mut got).into()),
    ])?;
    // A sum near the middle between two values of the type may be rounded either way.
    let near = if T::TYPE.size() == 2 { 2e-2 } else { 1e-5 };
    let got: Vec<f64> = got.to_vec::<T>()?.into_iter().map(Into::into).collect();
    assert!(got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < near), "on {device}: {got:?}, not {wanted:?}");
    Ok(kernel.choice())
}

#[test]
fn gated_units_of_every_float() -> Result<(), TeError> {
    for device in devices("gated_units_of_every_float") {
        for order in [Order::Device, Order::Exact, Order::Shape] {
            let all = [
                gru::<f32>(&device, order, |x| x as f32)?,
                gru::<f16>(&device, order, f16::from_f64)?,
                gru::<bf16>(&device, order, bf16::from_f64)?,
            ];
            if device.arch().is_some() {
                let one = order != Order::Shape;
                assert!(all.iter().all(|choice| choice.contains("4 steps in one launch") == one), "{all:?}");
            }
        }
    }
    Ok(())
}

/// Sequential sums have only one order: the bits of the default schedule.
#[test]
fn exact_sums_are_the_interpreters() -> Result<(), TeError> {
    const SHAPE: [usize; 3] = [5, 2, 7];
    let (h, w) = (te::placeholder(SHAPE, "h"), te::placeholder([7, 7], "w"));
    let init = te::compute([1, 2, 7], "init", |[_, b, j]| w.at([b, j]))?;
    let k = reduce_axis((0, 7), "k");
    let product =
        te::compute(SHAPE, "product", |[t, b, j]| te::sum(h.at([t - 1, b.into(), k.into()]) * w.at([k, j]), [k]))?;
    let update =
        te::compute(SHAPE, "update", |[t, b, j]| product.at([t, b, j]) - product.at([t.into(), b.into(), 6 - j]))?;
    let states = te::scan(&init, &update, &h, &[])?;
    let mut random = fastrand::Rng::with_seed(9);
    let ws: Vec<f32> = (0..49).map(|_| random.f32() - 0.5).collect();
    let program = te::lower(&te::create_schedule(&[&states]), &[&w, &states], "main")?;
    let values: Vec<f64> = ws.iter().map(|x| f64::from(*x)).collect();
    let mut arrays = [Array::new(ElementType::F32, &[7, 7], &values)?, Array::unwritten(ElementType::F32, &SHAPE)];
    program.interpret(&mut arrays)?;
    for device in devices("exact_sums_are_the_interpreters") {
        let kernel = te::auto::scan(&states)?.order(Order::Exact).build(&device)?;
        let (ws, mut hs) = (device.tensor(&ws, [7, 7])?, device.zeros::<f32>(SHAPE)?);
        kernel.run(&[(&ws).into(), (&mut hs).into()])?;
        let got: Vec<f64> = hs.to_vec::<f32>()?.into_iter().map(f64::from).collect();
        assert_eq!(got, arrays[1].values(), "on {device}: {}", kernel.choice());
    }
    Ok(())
}
