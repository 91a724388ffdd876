//! Automatic scans on an emulated GPU, with the race detector on, compared with recurrences run step by step.

use epilogue::te::auto::Order;
use epilogue::te::{self, Expr, TeError, Tensor, placeholder_of, var};
use epilogue::{Arch, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing;
use proptest::prelude::*;

use crate::auto::shared::{emulated, laid_out, order as order_in_memory};
use crate::values::integers_in;

/// Recurrences over wrapping integers, whose bits don't depend on how steps are composed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sum,
    Product,
    Largest,
    /// y = a·y + x
    Linear,
    /// y[t] = y[t-1] − 2·y[t-2] + x
    Order2,
    /// s += x; r += s·a
    SumOfSums,
    /// Restarts where a is 0.
    Reset,
    /// y = y² + x: not linear.
    Square,
}

const KINDS: [Kind; 8] =
    [Kind::Sum, Kind::Product, Kind::Largest, Kind::Linear, Kind::Order2, Kind::SumOfSums, Kind::Reset, Kind::Square];

impl Kind {
    fn states(self) -> usize {
        if matches!(self, Self::SumOfSums) { 2 } else { 1 }
    }

    fn given(self) -> usize {
        if matches!(self, Self::Order2) { 2 } else { 1 }
    }

    fn is_linear(self) -> bool {
        !matches!(self, Self::Square)
    }

    /// The new states, from those of the last two steps.
    fn update(self, back: [&[Expr]; 2], x: &Expr, a: &Expr) -> Vec<Expr> {
        let y = back[0][0].clone();
        match self {
            Self::Sum => vec![y + x],
            Self::Product => vec![y * x],
            Self::Largest => vec![y.max(x)],
            Self::Linear => vec![a * y + x],
            Self::Order2 => vec![y - 2 * back[1][0].clone() + x],
            Self::SumOfSums => vec![&y + x, back[0][1].clone() + y * a],
            Self::Reset => vec![a.clone().equal(0).select(x, y + x)],
            Self::Square => vec![&y * &y + x],
        }
    }

    fn step(self, back: [[i32; 2]; 2], x: i32, a: i32) -> [i32; 2] {
        let y = back[0][0];
        match self {
            Self::Sum => [y.wrapping_add(x), 0],
            Self::Product => [y.wrapping_mul(x), 0],
            Self::Largest => [y.max(x), 0],
            Self::Linear => [a.wrapping_mul(y).wrapping_add(x), 0],
            Self::Order2 => [y.wrapping_sub(back[1][0].wrapping_mul(2)).wrapping_add(x), 0],
            Self::SumOfSums => [y.wrapping_add(x), back[0][1].wrapping_add(y.wrapping_mul(a))],
            Self::Reset => [if a == 0 { x } else { y.wrapping_add(x) }, 0],
            Self::Square => [y.wrapping_mul(y).wrapping_add(x), 0],
        }
    }
}

/// A scan of x and a, `[time, columns]` each.
fn recurrence(kind: Kind) -> Result<Vec<Tensor>, TeError> {
    let (m, n) = (var("m"), var("n"));
    let element = ElementType::I32;
    let x = placeholder_of(element, [m, n], "X");
    let a = placeholder_of(element, [m, n], "A");
    let states: Vec<Tensor> = (0..kind.states()).map(|s| placeholder_of(element, [m, n], ["y", "z"][s])).collect();
    let init = te::compute_all([Expr::from(kind.given()), n.into()], "init", |[t, i]| {
        (0..kind.states()).map(|s| x.at([Expr::from(t), i.into()]) + s).collect()
    })?;
    let update = te::compute_all([m, n], "update", |[t, i]| {
        let read = |lag: i32| -> Vec<Expr> {
            if lag as usize > kind.given() {
                return vec![Expr::int(0); kind.states()];
            }
            states.iter().map(|s| s.at([t - lag, i.into()])).collect()
        };
        kind.update([&read(1), &read(2)], &x.at([t, i]), &a.at([t, i]))
    })?;
    te::scan_all(&init, &update, &states, &[x, a])
}

/// The states of all steps, `[time][column]`.
fn expected(kind: Kind, x: &[i32], a: &[i32], steps: usize, columns: usize) -> Vec<Vec<i32>> {
    let mut states = vec![vec![0; steps * columns]; kind.states()];
    for column in 0..columns {
        let mut back = [[0; 2]; 2];
        for t in 0..steps {
            let at = t * columns + column;
            let new = if t < kind.given() { [x[at], x[at].wrapping_add(1)] } else { kind.step(back, x[at], a[at]) };
            back = [new, back[0]];
            for (state, values) in states.iter_mut().enumerate() {
                values[at] = new[state];
            }
        }
    }
    states
}

#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    steps: usize,
    columns: usize,
    time_inner: bool,
    gap: usize,
    order: Order,
    seed: u64,
}

fn check(device: &Device, case: &Case) -> Result<String, TeError> {
    let Case { kind, steps, columns, time_inner, gap, order, seed } = *case;
    let scan = recurrence(kind)?;
    let automatic = te::auto::scan_all(&scan.iter().collect::<Vec<_>>())?.order(order);
    assert_eq!(automatic.is_parallel_in_time(), kind.is_linear() && order == Order::Device, "{kind:?}");
    let kernel = automatic.build(device)?;
    let x = integers_in::<i32>(steps * columns, seed, -9..=9);
    let a = integers_in::<i32>(steps * columns, seed ^ 1, -2..=2);
    let (x_device, a_device) = (
        laid_out(device, &x, ElementType::I32, &[steps, columns], &order_in_memory(2, time_inner), gap)?,
        laid_out(device, &a, ElementType::I32, &[steps, columns], &order_in_memory(2, time_inner), gap)?,
    );
    let mut outputs = Vec::new();
    for _ in 0..kind.states() {
        outputs.push(laid_out(
            device,
            &vec![-77; steps * columns],
            ElementType::I32,
            &[steps, columns],
            &order_in_memory(2, time_inner),
            gap,
        )?);
    }
    let mut arguments: Vec<epilogue::Argument<'_>> = Vec::new();
    for parameter in kernel.parameters() {
        match parameter.name().as_str() {
            "X" => arguments.push((&x_device).into()),
            "A" => arguments.push((&a_device).into()),
            _ => {}
        }
    }
    arguments.extend(outputs.iter_mut().map(epilogue::Argument::from));
    // Again: the second launch uses flags and claims as the first has left them.
    kernel.run(&arguments)?;
    kernel.run(&arguments)?;
    drop(arguments);
    for (state, wanted) in expected(kind, &x, &a, steps, columns).iter().enumerate() {
        let got = outputs[state].to_vec::<i32>()?;
        let wrong = got.iter().zip(wanted).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{case:?}, state {state}: {}\n{}", kernel.choice(), kernel.source());
    }
    Ok(kernel.choice())
}

fn cases() -> impl Strategy<Value = Case> {
    let steps = prop_oneof![1 => Just(2usize), 4 => 2usize..40, 4 => 40usize..700];
    let columns = prop_oneof![1 => Just(0usize), 3 => Just(1), 4 => 2usize..70];
    let order = proptest::sample::select(vec![Order::Device, Order::Device, Order::Shape, Order::Exact]);
    let kind = proptest::sample::select(KINDS.to_vec());
    (kind, steps, columns, any::<bool>(), 0usize..3, order, any::<u64>()).prop_map(
        |(kind, steps, columns, time_inner, gap, order, seed)| Case {
            kind,
            steps,
            columns,
            time_inner,
            gap,
            order,
            seed,
        },
    )
}

#[test]
fn recurrences_of_any_shape_and_layout() {
    if testing::compiler("recurrences_of_any_shape_and_layout").is_none() {
        return;
    }
    let device = emulated(Arch::SM_80);
    let config = ProptestConfig { cases: testing::cases(24), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{error}");
        }
    });
}

#[test]
fn recurrences_of_any_shape_and_layout_on_the_cpu() {
    let device = Device::cpu();
    let config = ProptestConfig { cases: testing::cases(200), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        if let Err(error) = check(&device, &case) {
            panic!("{error}");
        }
    });
}

/// Steps of few long columns are composed if the update is linear: sums of neighbours in groups, all else in stretches.
/// Updates that are not linear, and steps with a fixed order, run step by step.
#[test]
fn stretches_of_long_columns_on_the_cpu() -> Result<(), TeError> {
    for kind in KINDS {
        for (steps, columns, time_inner, order) in [
            (5_000, 1, true, Order::Device),
            (1_026, 3, false, Order::Device),
            (2_047, 2, true, Order::Device),
            (2_047, 2, true, Order::Shape),
            (5_000, 1, true, Order::Exact),
        ] {
            let case = Case { kind, steps, columns, time_inner, gap: 0, order, seed: 5 };
            let choice = check(&Device::cpu(), &case)?;
            let composed = kind.is_linear() && order == Order::Device;
            let in_groups = composed && matches!(kind, Kind::Sum) && time_inner;
            assert_eq!(choice.contains("groups of 16 neighbours"), in_groups, "{case:?}: {choice}");
            assert_eq!(choice.contains("stretches"), composed && !in_groups, "{case:?}: {choice}");
            assert_eq!(choice.contains("step by step"), !composed, "{case:?}: {choice}");
        }
    }
    Ok(())
}

#[test]
fn blocks_share_long_columns() -> Result<(), TeError> {
    if testing::compiler("blocks_share_long_columns").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    for (kind, steps, columns, time_inner) in [
        // More than a batch of tiles, of 32 and of 16.
        (Kind::Sum, 150_000, 1, true),
        (Kind::Linear, 30_000, 2, false),
        (Kind::Order2, 20_000, 1, true),
        (Kind::SumOfSums, 5_000, 40, false),
    ] {
        let case = Case { kind, steps, columns, time_inner, gap: 0, order: Order::Device, seed: 5 };
        let choice = check(&device, &case)?;
        assert!(choice.contains("shared by all blocks"), "{choice}");
    }
    Ok(())
}

/// Values that a step does not read can't affect it: neither values before a reset, nor, in a comb filter, the steps
/// between. Not even an infinity from overflow, or a NaN, does.
#[test]
fn what_is_not_read_does_not_spoil() -> Result<(), TeError> {
    const NAN: f32 = f32::NAN;
    type Update = fn(&dyn Fn(i32) -> Expr, &Expr, &Expr) -> Expr;
    type Step = fn([f32; 2], f32, f32) -> f32;
    /// The name, the number of given steps, the update from the states `back` steps ago, x and a flag, and the same in
    /// f32.
    const CASES: [(&str, usize, Update, Step); 5] = [
        ("sums", 1, |y, x, f| f.greater(0.0).select(x, y(1) + x), |y, x, f| if f > 0.0 { x } else { y[0] + x }),
        ("products", 1, |y, x, f| f.less(1.0).select(x * y(1), x), |y, x, f| if f < 1.0 { x * y[0] } else { x }),
        (
            "largest",
            1,
            |y, x, f| f.greater(0.0).select(x, y(1).max(x)),
            |y, x, f| {
                if f > 0.0 || x.is_nan() || x > y[0] { x } else { y[0] }
            },
        ),
        ("scaled", 1, |y, x, f| f.greater(0.0).select(x, -y(1) / 2.0), |y, x, f| if f > 0.0 { x } else { -y[0] / 2.0 }),
        ("comb", 2, |y, x, _| x - y(2), |y, x, _| x - y[1]),
    ];
    let devices = if testing::compiler("what_is_not_read_does_not_spoil").is_some() {
        vec![Device::cpu(), emulated(Arch::SM_80)]
    } else {
        vec![Device::cpu()]
    };
    let (steps, columns) = (1500, 2);
    let mut random = fastrand::Rng::with_seed(5);
    // Powers of two, whose sums and products are exact until they overflow.
    let flags: Vec<f32> = (0..steps * columns).map(|_| f32::from(random.u8(..) < 3)).collect();
    for special in [4.0, NAN, f32::INFINITY] {
        let x: Vec<f32> = (0..steps * columns).map(|i| if i % 211 == 7 { special } else { 4.0 }).collect();
        for (name, given, update, step) in CASES {
            let (m, n) = (var("m"), var("n"));
            let [tx, tf, state] = ["X", "F", "y"].map(|name| te::placeholder([m, n], name));
            let init = te::compute([Expr::from(given), n.into()], "init", |[t, i]| tx.at([t, i]))?;
            let new = te::compute([m, n], "new", |[t, i]| {
                update(&|back| state.at([t - back, i.into()]), &tx.at([t, i]), &tf.at([t, i]))
            })?;
            let scan = te::scan(&init, &new, &state, &[])?;
            let mut wanted = x.clone();
            for at in given * columns..wanted.len() {
                let back = [wanted[at - columns], *wanted.get(at.wrapping_sub(2 * columns)).unwrap_or(&0.0)];
                wanted[at] = step(back, x[at], flags[at]);
            }
            for device in &devices {
                let automatic = te::auto::scan(&scan)?;
                assert!(automatic.is_parallel_in_time(), "{name}");
                let kernel = automatic.build(device)?;
                let (dx, df) = (device.tensor(&x, [steps, columns])?, device.tensor(&flags, [steps, columns])?);
                let mut y = device.zeros::<f32>([steps, columns])?;
                let mut arguments: Vec<epilogue::Argument<'_>> = Vec::new();
                for parameter in &kernel.parameters()[..kernel.parameters().len() - 1] {
                    arguments.push(if *parameter == tx { (&dx).into() } else { (&df).into() });
                }
                arguments.push((&mut y).into());
                kernel.run(&arguments)?;
                drop(arguments);
                let got = y.to_vec::<f32>()?;
                let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-5 * b.abs();
                let wrong = got.iter().zip(&wanted).position(|pair| !same(pair));
                assert_eq!(
                    wrong,
                    None,
                    "{name} of {special} on {device}: {:?} {}",
                    wrong.map(|i| got[i]),
                    kernel.choice()
                );
            }
        }
    }
    Ok(())
}

/// Sums and linear recurrences of floats have the bits of the loop if they run step by step. If steps are composed,
/// they have nearly its values; with any number of threads, and wherever their memory begins.
#[test]
fn scans_straight_from_memory_are_the_same_on_any_number_of_threads() -> Result<(), TeError> {
    let device = Device::cpu();
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    for (rows, columns) in
        [(1, 1), (0, 3), (3, 0), (2, 5), (5, 1), (7, 513), (1, 1024), (3, 1027), (40, 1500), (2000, 3), (1, 70_001)]
    {
        for (dimension, linear) in [(0, false), (1, false), (0, true)] {
            let mut random = fastrand::Rng::with_seed(7);
            let mut values = || (0..rows * columns).map(|_| random.f32() - 0.5).collect::<Vec<f32>>();
            let (xs, gains) = (values(), values());
            let extents = [rows as i32, columns as i32];
            let (x, a) = (te::placeholder(extents, "x"), te::placeholder(extents, "a"));
            let scan = if linear { te::ops::linear_recurrence(&a, &x)? } else { te::ops::cumsum(&x, dimension)? };
            let mut want = xs.clone();
            for i in 0..want.len() {
                let back = if dimension == 0 { columns } else { 1 };
                if if dimension == 0 { i >= columns } else { i % columns > 0 } {
                    want[i] = if linear { gains[i] * want[i - back] + xs[i] } else { want[i - back] + xs[i] };
                }
            }
            let kernel = te::auto::build(&[&scan])?.build(&device)?;
            let (given, gain) = (device.tensor(&xs, [rows, columns])?, device.tensor(&gains, [rows, columns])?);
            let run = |given: &DeviceTensor, gain: &DeviceTensor, result: &mut DeviceTensor| {
                let arguments = [(&a, gain.into()), (&x, given.into()), (&scan, result.into())];
                let skipped = usize::from(!linear);
                kernel.run_bound(&arguments[skipped..])
            };
            // Different memory each time: what the first run compiled is applied to it.
            let mut results = Vec::new();
            for pool in [None, Some(&alone), None] {
                let mut result = device.full::<f32>([rows, columns], f32::NAN)?;
                match pool {
                    Some(pool) => pool.install(|| run(&given, &gain, &mut result))?,
                    None => run(&given, &gain, &mut result)?,
                }
                results.push(result.to_vec::<f32>()?);
            }
            // Behind some elements of each row, with some more after them.
            let moved = |values: &[f32], before: usize| -> Result<DeviceTensor, TeError> {
                let all = device.full::<f32>([rows, columns + 9], f32::NAN)?;
                let mut part = all.slice(1, before..before + columns)?;
                part.copy_from(values)?;
                Ok(part)
            };
            let mut result = moved(&xs, 5)?;
            run(&moved(&xs, 1)?, &moved(&gains, 3)?, &mut result)?;
            results.push(result.to_vec::<f32>()?);
            for other in &results[1..] {
                assert_eq!(results[0], *other, "{rows} x {columns} along {dimension}");
            }
            let (in_order, in_groups) = {
                let choice = kernel.choice();
                (choice.contains("step by step"), choice.contains("groups of 16 neighbours"))
            };
            assert_eq!(in_groups, dimension == 1 && columns >= 16, "{rows} x {columns}: {}", kernel.choice());
            for (got, want) in results[0].iter().zip(&want) {
                let near = !in_order && (got - want).abs() <= 1e-4 * want.abs().max(10.0);
                assert!(near || got == want, "{rows} x {columns} along {dimension}: {got} for {want}");
            }
        }
    }
    Ok(())
}
