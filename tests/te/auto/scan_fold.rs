//! Reductions over the columns of a scan, in the scan's own kernel: on an emulated GPU with the race detector on, and
//! on the CPU. They are compared with loops over wrapping integers: their bits don't depend on how steps or columns are
//! combined.

use epilogue::te::auto::Order;
use epilogue::te::{self, Axis, Expr, TeError, Tensor, placeholder_of, var};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::testing;
use proptest::prelude::*;

use crate::auto::shared::{emulated, laid_out};
use crate::values::integers_in;

const I32: ElementType = ElementType::I32;

/// The states `[time, kept, reduced]`.
#[derive(Clone, Copy, Debug)]
enum Update {
    /// y = a·y + x
    Linear,
    /// y = y² + x: not linear.
    Square,
}

/// How a step's columns are reduced.
#[derive(Clone, Copy, Debug)]
enum Reducer {
    Sum,
    /// Only the columns whose weight is above 0.
    SumWhere,
    /// The largest and the sum, side by side.
    Two,
    /// The place of the largest, the first of equal ones, and the largest.
    Largest,
    /// (p, q)·(r, s) = (p·r, q·r + s): associative only.
    Affine,
}

#[derive(Clone, Debug)]
struct Case {
    update: Update,
    reducer: Reducer,
    shape: [usize; 3],
    /// The order in memory of the three axes of x and a.
    layout: [usize; 3],
    /// Whether an output is computed from the total and other tensors.
    computed: bool,
    /// Whether the states are an output, too.
    stored: bool,
    reversed: bool,
    order: Order,
    seed: u64,
}

struct Inputs {
    x: Tensor,
    a: Tensor,
    weight: Tensor,
}

/// The outputs, and the inputs that they read.
fn tensors(case: &Case) -> Result<(Vec<Tensor>, Inputs), TeError> {
    let (steps, kept, reduced) = (var("steps"), var("kept"), var("reduced"));
    let shape = [steps, kept, reduced];
    let x = placeholder_of(I32, shape, "X");
    let a = placeholder_of(I32, shape, "A");
    let weight = placeholder_of(I32, [steps, reduced], "W");
    let state = placeholder_of(I32, shape, "state");
    let init = te::compute([Expr::from(1), kept.into(), reduced.into()], "init", |[t, i, n]| x.at([t, i, n]) + 1)?;
    let update = te::compute(shape, "update", |[t, i, n]| {
        let y = state.at([t - 1, i.into(), n.into()]);
        match case.update {
            Update::Linear => a.at([t, i, n]) * y + x.at([t, i, n]),
            Update::Square => &y * &y + x.at([t, i, n]),
        }
    })?;
    let states = te::scan(&init, &update, &state, &[x.clone(), a.clone()])?;
    let n = te::reduce_axis((0, reduced), "n");
    let time = |t: Axis| if case.reversed { steps - 1 - t } else { Expr::from(t) };
    let y = |t: Axis, i: Axis| states.at([time(t), i.into(), n.into()]);
    let w = |t: Axis| weight.at([time(t), n.into()]);
    let mut outputs = te::compute_all([steps, kept], "folded", |[t, i]| match case.reducer {
        Reducer::Sum => vec![te::sum(w(t) * y(t, i), [n])],
        Reducer::SumWhere => vec![te::sum_reducer().over_where(y(t, i), [n], w(t).greater(0))],
        Reducer::Two => te::tuple_reducer(
            |x, y| vec![x[0].clone().max(&y[0]), &x[1] + &y[1]],
            |types| vec![Expr::constant(f64::from(i32::MIN), types[0]), Expr::constant(0.0, types[1])],
            "two",
        )
        .over_all(&[y(t, i), w(t)], [n]),
        Reducer::Largest => te::tuple_reducer(
            |x, y| {
                let same = x[1].clone().equal(&y[1]).and(x[0].clone().less(&y[0]));
                let left = x[1].clone().greater(&y[1]).or(same);
                vec![left.clone().select(&x[0], &y[0]), left.select(&x[1], &y[1])]
            },
            |types| [i32::MAX, i32::MIN].iter().zip(types).map(|(&x, &t)| Expr::constant(f64::from(x), t)).collect(),
            "largest",
        )
        .over_all(&[n.into(), y(t, i)], [n]),
        Reducer::Affine => te::tuple_reducer(
            |x, y| vec![&x[0] * &y[0], &x[1] * &y[0] + &y[1]],
            |types| vec![Expr::constant(1.0, types[0]), Expr::constant(0.0, types[1])],
            "affine",
        )
        .associative_only()
        .over_all(&[y(t, i), w(t)], [n]),
    })?;
    if case.computed {
        let folded = outputs[0].clone();
        let first = te::compute([steps, kept], "computed", |[t, i]| folded.at([t, i]) * 3 + t + i)?;
        outputs[0] = first;
    }
    if case.stored {
        outputs.push(states);
    }
    Ok((outputs, Inputs { x, a, weight }))
}

/// The outputs' values, from x, a and the weights.
fn expected(case: &Case, x: &[i32], a: &[i32], w: &[i32]) -> Vec<Vec<i32>> {
    let [steps, kept, reduced] = case.shape;
    let mut states = vec![0i32; steps * kept * reduced];
    for at in 0..states.len() {
        states[at] = match at.checked_sub(kept * reduced).map(|before| states[before]) {
            None => x[at].wrapping_add(1),
            Some(y) => match case.update {
                Update::Linear => a[at].wrapping_mul(y).wrapping_add(x[at]),
                Update::Square => y.wrapping_mul(y).wrapping_add(x[at]),
            },
        };
    }
    let values = if matches!(case.reducer, Reducer::Two | Reducer::Largest | Reducer::Affine) { 2 } else { 1 };
    let mut outputs = vec![Vec::new(); values];
    for at in 0..steps * kept {
        let (t, i) = (at / kept, at % kept);
        let scanned = if case.reversed { steps - 1 - t } else { t };
        let y = &states[(scanned * kept + i) * reduced..][..reduced];
        let w = &w[scanned * reduced..][..reduced];
        let both = || y.iter().zip(w);
        let folded = match case.reducer {
            Reducer::Sum => vec![both().fold(0, |sum: i32, (y, w)| sum.wrapping_add(y.wrapping_mul(*w)))],
            Reducer::SumWhere => {
                vec![both().filter(|(_, w)| **w > 0).fold(0, |sum: i32, (y, _)| sum.wrapping_add(*y))]
            }
            Reducer::Two => vec![y.iter().copied().fold(i32::MIN, i32::max), w.iter().sum()],
            Reducer::Largest => {
                let first = |best: (i32, i32), (n, &y): (usize, &i32)| if y > best.1 { (n as i32, y) } else { best };
                let (place, largest) = y.iter().enumerate().fold((i32::MAX, i32::MIN), first);
                vec![place, largest]
            }
            Reducer::Affine => {
                let step = |(p, q): (i32, i32), (y, w): (&i32, &i32)| {
                    (p.wrapping_mul(*y), q.wrapping_mul(*y).wrapping_add(*w))
                };
                let (p, q) = both().fold((1, 0), step);
                vec![p, q]
            }
        };
        for (place, value) in folded.into_iter().enumerate() {
            let more = if place == 0 && case.computed { (t + i) as i32 } else { 0 };
            let value = if place == 0 && case.computed { value.wrapping_mul(3) } else { value };
            outputs[place].push(value.wrapping_add(more));
        }
    }
    if case.stored {
        outputs.push(states);
    }
    outputs
}

fn check(device: &Device, case: &Case) -> Result<String, TeError> {
    let [steps, kept, reduced] = case.shape;
    let (tensors, inputs) = tensors(case)?;
    let kernel = te::auto::scan_all(&tensors.iter().collect::<Vec<_>>())?.order(case.order).build(device)?;
    let count = steps * kept * reduced;
    let (x, a, w) = (
        integers_in::<i32>(count, case.seed, -5..=5),
        integers_in::<i32>(count, case.seed ^ 1, -5..=5),
        integers_in::<i32>(steps * reduced, case.seed ^ 2, -5..=5),
    );
    let given = [
        (&inputs.x, laid_out(device, &x, I32, &case.shape, &case.layout, 0)?),
        (&inputs.a, laid_out(device, &a, I32, &case.shape, &case.layout, 0)?),
        (&inputs.weight, laid_out(device, &w, I32, &[steps, reduced], &[0, 1], 0)?),
    ];
    let shape_of = |tensor: &Tensor| if tensor.rank() == 3 { case.shape.to_vec() } else { vec![steps, kept] };
    let mut outputs = Vec::new();
    for tensor in &tensors {
        let shape = shape_of(tensor);
        let layout: Vec<usize> = (0..shape.len()).collect();
        outputs.push(laid_out(device, &vec![-77; shape.iter().product()], I32, &shape, &layout, 0)?);
    }
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for parameter in &kernel.parameters()[..kernel.parameters().len() - tensors.len()] {
        let (_, tensor) = given.iter().find(|(tensor, _)| *tensor == parameter).expect("an input");
        arguments.push(tensor.into());
    }
    arguments.extend(outputs.iter_mut().map(Argument::from));
    // Again: the second run uses what the first has left.
    kernel.run(&arguments)?;
    kernel.run(&arguments)?;
    drop(arguments);
    for (place, wanted) in expected(case, &x, &a, &w).iter().enumerate() {
        let got = outputs[place].to_vec::<i32>()?;
        let wrong = got.iter().zip(wanted).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "output {place} of {case:?}: {}\n{}", kernel.choice(), kernel.source());
    }
    Ok(kernel.choice())
}

fn cases() -> impl Strategy<Value = Case> {
    let steps = prop_oneof![1 => Just(1usize), 4 => 2usize..30, 3 => 30usize..300];
    let kept = prop_oneof![1 => Just(0usize), 3 => Just(1), 4 => 2usize..20];
    let reduced = prop_oneof![1 => Just(0usize), 2 => Just(1), 4 => 2usize..20, 1 => Just(32), 2 => 33usize..70, 1 => 250usize..330];
    let layouts = vec![[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1]];
    let order = proptest::sample::select(vec![Order::Device, Order::Device, Order::Shape, Order::Exact]);
    let reducer = proptest::sample::select(vec![
        Reducer::Sum,
        Reducer::SumWhere,
        Reducer::Two,
        Reducer::Largest,
        Reducer::Affine,
    ]);
    let update = proptest::sample::select(vec![Update::Linear, Update::Linear, Update::Square]);
    let what = (update, reducer, proptest::sample::select(layouts), order);
    (what, (steps, kept, reduced), any::<[bool; 3]>(), any::<u64>()).prop_map(
        |((update, reducer, layout, order), (steps, kept, reduced), [computed, stored, reversed], seed)| Case {
            update,
            reducer,
            shape: [steps, kept, reduced],
            layout,
            computed,
            stored,
            reversed,
            order,
            seed,
        },
    )
}

#[test]
fn columns_folded_in_any_shape_and_layout() {
    if testing::compiler("columns_folded_in_any_shape_and_layout").is_none() {
        return;
    }
    let device = emulated(Arch::SM_80);
    let config = ProptestConfig { cases: testing::cases(30), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{case:?}: {error}");
        }
    });
}

#[test]
fn columns_folded_in_any_shape_and_layout_on_the_cpu() {
    let device = Device::cpu();
    let config = ProptestConfig { cases: testing::cases(200), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{case:?}: {error}");
        }
    });
}

/// Sequentially, by a block's tiles, by tiles that blocks share, and by lanes that have several columns each.
#[test]
fn every_walk_folds() -> Result<(), TeError> {
    if testing::compiler("every_walk_folds").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    let case = |shape, layout, order| Case {
        update: Update::Linear,
        reducer: Reducer::Affine,
        shape,
        layout,
        computed: false,
        stored: false,
        reversed: false,
        order,
        seed: 3,
    };
    for (shape, layout, order, wanted) in [
        ([60, 3, 16], [0, 1, 2], Order::Exact, "in order"),
        ([40, 3, 50], [0, 1, 2], Order::Device, "more than 32 columns"),
        ([100, 4, 5], [1, 2, 0], Order::Device, "one after the other in a block"),
        ([8000, 1, 3], [1, 2, 0], Order::Device, "shared by all blocks"),
        ([4000, 2, 16], [0, 1, 2], Order::Device, "shared by all blocks"),
    ] {
        let choice = check(&device, &case(shape, layout, order))?;
        assert!(choice.contains(wanted) && choice.contains("folded to one"), "{shape:?}: {choice}");
    }
    Ok(())
}

/// Columns that fill a warp and a part of another: its lanes exchange values at two places of the code.
#[test]
fn the_largest_of_more_columns_than_a_warp_has_lanes() -> Result<(), TeError> {
    if testing::compiler("the_largest_of_more_columns_than_a_warp_has_lanes").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    for reduced in [32, 33, 48, 63, 64, 65] {
        let case = Case {
            update: Update::Linear,
            reducer: Reducer::Largest,
            shape: [20, 3, reduced],
            layout: [0, 1, 2],
            computed: false,
            stored: false,
            reversed: false,
            order: Order::Device,
            seed: 5,
        };
        check(&device, &case)?;
    }
    Ok(())
}

/// The bits of rounded sums: the same tree of columns on every device in the order of the shape.
#[test]
fn the_order_of_the_shape_gives_folds_the_same_bits_everywhere() -> Result<(), TeError> {
    if testing::compiler("the_order_of_the_shape_gives_folds_the_same_bits_everywhere").is_none() {
        return Ok(());
    }
    let (steps, kept, reduced) = (var("steps"), var("kept"), var("reduced"));
    let x = te::placeholder([steps, kept, reduced], "X");
    let state = te::placeholder([steps, kept, reduced], "state");
    let init = te::compute([Expr::from(1), kept.into(), reduced.into()], "init", |[t, i, n]| x.at([t, i, n]))?;
    let update = te::compute([steps, kept, reduced], "update", |[t, i, n]| {
        state.at([t - 1, i.into(), n.into()]) * 0.9 + x.at([t, i, n])
    })?;
    let states = te::scan(&init, &update, &state, &[])?;
    let n = te::reduce_axis((0, reduced), "n");
    let total = te::compute([steps, kept], "total", |[t, i]| te::sum(states.at([t, i, n]), [n]))?;
    for shape in [[5usize, 2, 1], [9, 3, 7], [20, 2, 32], [6, 1, 100]] {
        let mut random = fastrand::Rng::with_seed(shape[2] as u64);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| random.f32() - 0.3).collect();
        for order in [Order::Shape, Order::Exact] {
            let mut results: Vec<Vec<u32>> = Vec::new();
            for device in [Device::cpu(), emulated(Arch::SM_80)] {
                let kernel = te::auto::scan(&total)?.order(order).build(&device)?;
                let input = device.tensor(&values, shape)?;
                let mut output = device.zeros::<f32>([shape[0], shape[1]])?;
                kernel.run(&[(&input).into(), (&mut output).into()])?;
                results.push(output.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect());
            }
            assert_eq!(results[0], results[1], "{shape:?} {order:?}");
        }
    }
    Ok(())
}

/// Outputs that one kernel can't compute from a scan's states: several kernels in a row.
#[test]
fn what_is_made_of_whole_scans() -> Result<(), TeError> {
    let (m, n) = (var("m"), var("n"));
    let x = placeholder_of(I32, [m, n], "X");
    let scan = te::ops::cumsum(&x, 0)?;
    let k = te::reduce_axis((0, n), "k");
    let t = te::reduce_axis((0, m), "t");
    let total = te::compute([m], "total", |[t]| te::sum(scan.at([t, k]), [k]))?;
    // Over time; from an initial value; of totals at other steps; of a scan and of another tensor; of elements at other
    // indices.
    let last = te::compute([n], "last", |[i]| te::max(scan.at([t, i]), [t]))?;
    let from = te::compute([m], "from", |[t]| te::sum_reducer().over_from(scan.at([t, k]), [k], 7))?;
    let early = te::compute([m], "early", |[t]| total.at([m - 1 - t]) * 2)?;
    let apart = te::compute([m, n], "apart", |[t, i]| scan.at([t, i]) - last.at([i]) + x.at([m - 1 - t, i.into()]))?;
    let turned = te::compute([n, m], "turned", |[i, t]| scan.at([t, i]))?;
    let (steps, width) = (37usize, 300usize);
    let values = integers_in::<i32>(steps * width, 1, -5..=5);
    let mut states = values.clone();
    (width..states.len()).for_each(|at| states[at] += states[at - width]);
    let at = |t: usize, i: usize| states[t * width + i];
    let totals: Vec<i32> = (0..steps).map(|t| (0..width).map(|i| at(t, i)).sum()).collect();
    let lasts: Vec<i32> = (0..width).map(|i| (0..steps).map(|t| at(t, i)).max().unwrap_or(0)).collect();
    let points =
        |f: &dyn Fn(usize, usize) -> i32| -> Vec<i32> { (0..steps * width).map(|p| f(p / width, p % width)).collect() };
    let wanted = [
        (&total, totals.clone(), vec![steps]),
        (&last, lasts.clone(), vec![width]),
        (&from, totals.iter().map(|x| x + 7).collect(), vec![steps]),
        (&early, totals.iter().rev().map(|x| x * 2).collect(), vec![steps]),
        (&apart, points(&|t, i| at(t, i) - lasts[i] + values[(steps - 1 - t) * width + i]), vec![steps, width]),
        (&turned, (0..steps * width).map(|p| at(p % steps, p / steps)).collect(), vec![width, steps]),
        (&scan, states.clone(), vec![steps, width]),
    ];
    let compiler = testing::compiler("what_is_made_of_whole_scans").is_some();
    let devices = [Some(Device::cpu()), compiler.then(|| emulated(Arch::SM_80))];
    for device in devices.iter().flatten() {
        // Each alone, and all together.
        for chosen in (0..wanted.len()).map(|place| place..place + 1).chain(std::iter::once(0..wanted.len())) {
            let wanted = &wanted[chosen];
            let outputs: Vec<&Tensor> = wanted.iter().map(|(tensor, ..)| *tensor).collect();
            for order in [Order::Device, Order::Exact] {
                let kernel = te::auto::scan_all(&outputs)?.order(order).build(device)?;
                let input = device.tensor(&values, [steps, width])?;
                let made = wanted.iter().map(|(_, _, shape)| Ok(device.zeros::<i32>(shape)?));
                let mut made = made.collect::<Result<Vec<_>, TeError>>()?;
                let mut arguments = vec![Argument::from(&input)];
                arguments.extend(made.iter_mut().map(Argument::from));
                kernel.run(&arguments)?;
                kernel.run(&arguments)?;
                drop(arguments);
                for ((tensor, wanted, _), got) in wanted.iter().zip(&made) {
                    assert_eq!(&got.to_vec::<i32>()?, wanted, "{} on {device}: {}", tensor.name(), kernel.choice());
                }
            }
        }
    }
    Ok(())
}

/// Columns that read each other's state run step by step, for any outputs.
#[test]
fn columns_that_read_each_other() -> Result<(), TeError> {
    let (m, n) = (var("m"), var("n"));
    let (x, state) = (te::placeholder([m, n], "X"), te::placeholder([m, n], "state"));
    let init = te::compute([Expr::from(1), n.into()], "init", |[t, i]| x.at([t, i]))?;
    let update = te::compute([m, n], "update", |[t, i]| state.at([t - 1, n - 1 - i]) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, &[])?;
    let t = te::reduce_axis((0, m), "t");
    let last = te::compute([n], "last", |[i]| te::max(scan.at([t, i]), [t]))?;
    let device = Device::cpu();
    let kernel = te::auto::scan_all(&[&scan, &last])?.build(&device)?;
    let input = device.tensor(&[1f32, 2.0, 10.0, 20.0, 5.0, 7.0], [3, 2])?;
    let (mut states, mut most) = (device.zeros::<f32>([3, 2])?, device.zeros::<f32>([2])?);
    kernel.run_bound(&[(&x, (&input).into()), (&scan, (&mut states).into()), (&last, (&mut most).into())])?;
    assert_eq!(states.to_vec::<f32>()?, [1.0, 2.0, 12.0, 21.0, 26.0, 19.0]);
    assert_eq!(most.to_vec::<f32>()?, [26.0, 21.0]);
    assert!(kernel.choice().contains("2 steps, one after the other, of "), "{}", kernel.choice());
    Ok(())
}
