//! Several reductions in one kernel: on an emulated GPU with the race detector on, and on the CPU.

use epilogue::te::auto::{Automatic, Order};
use epilogue::te::{self, Axis, Expr, TeError, Tensor, placeholder_of, var};
use epilogue::{Arch, Argument, Device, ElementType};
use epilogue_runtime::testing;
use proptest::prelude::*;

use crate::auto::shared::{emulated, laid_out, order as order_in_memory};
use crate::values::integers_in;

/// A computation on a matrix's rows; every result is an integer.
#[derive(Clone, Copy, Debug)]
enum Chain {
    /// The largest and the least: one pass, two outputs.
    Ends,
    /// How many elements are the largest: two passes.
    CountLargest,
    /// The difference of every element from its row's least, times how many are above the row's first: two independent
    /// passes, and every element again.
    Scaled,
    /// The sum; the sum of squares, from it; the largest value computed from both; and every element, from all of
    /// these: three passes.
    Three,
    /// An output computed from a total, and one computed from all elements, through stages in between.
    Stages,
    /// A sum from an initial value, then a sum of only some elements.
    Conditions,
    /// The index of the largest element, and the largest of the others: a condition on a tuple's result.
    Second,
}

const CHAINS: [Chain; 7] =
    [Chain::Ends, Chain::CountLargest, Chain::Scaled, Chain::Three, Chain::Stages, Chain::Conditions, Chain::Second];

/// A matrix whose rows are reduced over the axes `k` (and, for rank 3, `l`).
pub(crate) struct Rows {
    pub(crate) a: Tensor,
    /// Extents of the rows' elements.
    inner: Vec<te::Var>,
    pub(crate) n: te::Var,
}

impl Rows {
    pub(crate) fn new(element: ElementType, rank: usize) -> Self {
        let n = var("n");
        let inner: Vec<te::Var> = ["m", "l"][..rank - 1].iter().map(|name| var(name)).collect();
        let shape: Vec<Expr> = std::iter::once(n).chain(inner.iter().copied()).map(Expr::from).collect();
        Self { a: placeholder_of(element, shape, "A"), inner, n }
    }

    pub(crate) fn element(&self, i: Axis, inner: &[Axis]) -> Expr {
        let at: Vec<Expr> = std::iter::once(i).chain(inner.iter().copied()).map(Expr::from).collect();
        self.a.at(at).cast(ElementType::F32)
    }

    pub(crate) fn reduced(
        &self,
        name: &str,
        reduce: impl FnOnce(Expr, &[Axis]) -> Expr,
        of: impl FnOnce(Expr, Axis) -> Expr,
    ) -> Result<Tensor, TeError> {
        let axes: Vec<Axis> = self.inner.iter().map(|extent| te::reduce_axis((0, *extent), extent.name())).collect();
        te::compute([self.n], name, |[i]| reduce(of(self.element(i, &axes), i), &axes))
    }

    pub(crate) fn points(&self, name: &str, of: impl FnOnce(Expr, Axis, &[Expr]) -> Expr) -> Result<Tensor, TeError> {
        let mut made = te::compute_over(self.a.shape(), name, |axes| {
            let at: Vec<Expr> = axes.iter().map(|axis| Expr::from(*axis)).collect();
            vec![of(self.element(axes[0], &axes[1..]), axes[0], &at)]
        })?;
        Ok(made.swap_remove(0))
    }
}

fn count(condition: &Expr) -> Expr {
    condition.select(Expr::constant(1.0, te::DType::F32), 0.0)
}

fn tensors(chain: Chain, rows: &Rows) -> Result<Vec<Tensor>, TeError> {
    let largest = rows.reduced("largest", |x, axes| te::max(x, axes), |x, _| x)?;
    let least = rows.reduced("least", |x, axes| te::min(x, axes), |x, _| x)?;
    let sum = rows.reduced("sum", |x, axes| te::sum(x, axes), |x, _| x)?;
    Ok(match chain {
        Chain::Ends => vec![largest, least],
        Chain::CountLargest => {
            vec![rows.reduced("count", |x, axes| te::sum(x, axes), |x, i| count(&x.equal(largest.at([i]))))?]
        }
        Chain::Scaled => {
            let positive = rows.reduced("positive", |x, axes| te::sum(x, axes), |x, _| count(&x.greater(0.0)))?;
            vec![rows.points("scaled", |x, i, _| (x - least.at([i])) * positive.at([i]))?]
        }
        Chain::Three => {
            let apart = |x: Expr, i: Axis| x - sum.at([i]).min(3.0).max(-3.0);
            let squares =
                rows.reduced("squares", |x, axes| te::sum(x, axes), |x, i| apart(x.clone(), i) * apart(x, i))?;
            let top = rows.reduced("top", |x, axes| te::max(x, axes), |x, i| x - squares.at([i]).max(sum.at([i])))?;
            let all = rows.points("all", |x, i, _| x + top.at([i]))?;
            vec![all, top, sum]
        }
        Chain::Stages => {
            let twice = te::compute([rows.n], "twice", |[i]| sum.at([i]) * 2.0)?;
            let centred = rows.points("centred", |x, i, _| x - twice.at([i]))?;
            let above = rows.reduced("above", |x, axes| te::sum(x, axes), |x, i| count(&x.greater(twice.at([i]))))?;
            let out = rows.points("out", |_, i, at| centred.at(at.to_vec()) + above.at([i]))?;
            vec![twice, out]
        }
        Chain::Conditions => {
            let from = rows.reduced("from", |x, axes| te::sum_reducer().over_from(x, axes, 5.0), |x, _| x)?;
            let some = rows.reduced(
                "some",
                |x, axes| te::sum_reducer().over_where(x.clone(), axes, x.greater(-8.0)),
                |x, i| x - from.at([i]),
            )?;
            let all = rows.points("all", |x, i, _| x * 2.0 + some.at([i]))?;
            vec![some, from, all]
        }
        Chain::Second => vec![second(rows)?],
    })
}

/// The index of the first largest element plus the largest of the others.
fn second(rows: &Rows) -> Result<Tensor, TeError> {
    let reduced = || -> Vec<Axis> { rows.inner.iter().map(|m| te::reduce_axis((0, *m), m.name())).collect() };
    let place = |axes: &[Axis]| {
        let pairs = axes.iter().zip(&rows.inner);
        pairs.fold(Expr::int(0), |place, (axis, extent)| place * *extent + *axis)
    };
    let argmax = te::tuple_reducer(
        |x, y| {
            let same = x[1].equal(&y[1]).and(x[0].less(&y[0]));
            let left = x[1].greater(&y[1]).or(same);
            vec![left.select(&x[0], &y[0]), left.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(2147483647.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
        "argmax",
    );
    let axes = reduced();
    let best =
        te::compute_all([rows.n], "best", |[i]| argmax.over_all(&[place(&axes), rows.element(i, &axes)], &axes))?;
    let axes = reduced();
    let others = te::compute([rows.n], "others", |[i]| {
        let other = place(&axes).not_equal(best[0].at([i]));
        te::max_reducer().over_where(rows.element(i, &axes), &axes, other)
    })?;
    te::compute([rows.n], "second", |[i]| best[0].at([i]).cast(ElementType::F32) + others.at([i]))
}

/// The chain's result for one row: every output's values.
fn expected(chain: Chain, row: &[f32]) -> Vec<Vec<f32>> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = row.iter().copied().fold(f32::INFINITY, f32::min);
    let sum: f32 = row.iter().sum();
    match chain {
        Chain::Ends => vec![vec![largest], vec![least]],
        Chain::CountLargest => vec![vec![row.iter().filter(|x| **x == largest).count() as f32]],
        Chain::Scaled => {
            let positive = row.iter().filter(|x| **x > 0.0).count() as f32;
            vec![row.iter().map(|x| (x - least) * positive).collect()]
        }
        Chain::Three => {
            let apart = |x: f32| x - sum.clamp(-3.0, 3.0);
            let squares: f32 = row.iter().map(|x| apart(*x) * apart(*x)).sum();
            let top = row.iter().map(|x| x - squares.max(sum)).fold(f32::NEG_INFINITY, f32::max);
            vec![row.iter().map(|x| x + top).collect(), vec![top], vec![sum]]
        }
        Chain::Stages => {
            let above = row.iter().filter(|x| **x > sum * 2.0).count() as f32;
            vec![vec![sum * 2.0], row.iter().map(|x| x - sum * 2.0 + above).collect()]
        }
        Chain::Conditions => {
            let from = sum + 5.0;
            let some: f32 = row.iter().map(|x| x - from).filter(|x| *x > -8.0).sum();
            vec![vec![some], vec![from], row.iter().map(|x| x * 2.0 + some).collect()]
        }
        Chain::Second => {
            let best = row.iter().position(|x| *x == largest);
            let others = row.iter().enumerate().filter(|(at, _)| Some(*at) != best).map(|(_, x)| *x);
            vec![vec![best.map_or(2147483647.0, |at| at as f32) + others.fold(f32::NEG_INFINITY, f32::max)]]
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    chain: Chain,
    element: ElementType,
    /// The matrix: rows, then the elements' extents.
    shape: Vec<usize>,
    /// Whether neighbours in memory belong to different rows.
    turned: bool,
    gap: usize,
    order: Order,
    seed: u64,
}

fn cases(most: usize) -> impl Strategy<Value = Case> {
    // Sums of longer rows would not be exact.
    let extent = |most: usize| prop_oneof![1 => Just(0usize), 3 => Just(1), 8 => 2usize..40, 4 => 40..most];
    let shape = prop_oneof![3 => [0usize..40, 1..2], 1 => [0usize..12, 2..3]].prop_flat_map(move |[rows, rank]| {
        let most = if rank == 1 { most } else { 100 };
        proptest::collection::vec(extent(most), rank).prop_map(move |inner| [vec![rows], inner].concat())
    });
    let elements = vec![ElementType::F32, ElementType::F16, ElementType::F64];
    let order = proptest::sample::select(vec![Order::Device, Order::Device, Order::Shape, Order::Exact]);
    let what = (proptest::sample::select(CHAINS.to_vec()), proptest::sample::select(elements));
    (what, shape, any::<bool>(), 0usize..3, order, any::<u64>()).prop_map(
        |((chain, element), shape, turned, gap, order, seed)| Case { chain, element, shape, turned, gap, order, seed },
    )
}

fn check(device: &Device, case: &Case) -> Result<String, TeError> {
    let Case { chain, element, ref shape, turned, gap, order, seed } = *case;
    let rows = Rows::new(element, shape.len());
    let tensors = tensors(chain, &rows)?;
    let kernel = te::auto::reduce_all(&tensors.iter().collect::<Vec<_>>())?.order(order).build(device)?;
    let values = integers_in::<f32>(shape.iter().product(), seed, -4..=4);
    let a = laid_out(device, &values, element, shape, &order_in_memory(shape.len(), turned), gap)?;
    let shape_of = |tensor: &Tensor| if tensor.rank() == 1 { vec![shape[0]] } else { shape.clone() };
    let mut outputs = Vec::new();
    for tensor in &tensors {
        let nothing = vec![-77.0; shape_of(tensor).iter().product()];
        outputs.push(laid_out(
            device,
            &nothing,
            ElementType::F32,
            &shape_of(tensor),
            &order_in_memory(tensor.rank(), turned && tensor.rank() > 1),
            gap,
        )?);
    }
    let mut arguments = vec![Argument::from(&a)];
    arguments.extend(outputs.iter_mut().map(Argument::from));
    // Again: the second run uses what the first has left.
    kernel.run(&arguments)?;
    kernel.run(&arguments)?;
    drop(arguments);
    let width: usize = shape[1..].iter().product();
    for (place, output) in outputs.iter().enumerate() {
        let row = |i: usize| expected(chain, &values[i * width..(i + 1) * width]).swap_remove(place);
        let wanted: Vec<f32> = (0..shape[0]).flat_map(row).collect();
        assert_eq!(
            output.to_vec::<f32>()?,
            wanted,
            "output {place} of {case:?}: {}\n{}",
            kernel.choice(),
            kernel.source()
        );
    }
    Ok(kernel.choice())
}

#[test]
fn chains_of_any_shape_and_layout() {
    if testing::compiler("chains_of_any_shape_and_layout").is_none() {
        return;
    }
    let device = emulated(Arch::SM_80);
    let config = ProptestConfig { cases: testing::cases(30), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases(300))| {
        if let Err(error) = check(&device, &case) {
            panic!("{case:?}: {error}");
        }
    });
}

#[test]
fn chains_of_any_shape_and_layout_on_the_cpu() {
    let device = Device::cpu();
    let config = ProptestConfig { cases: testing::cases(200), failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases(2000))| {
        if let Err(error) = check(&device, &case) {
            panic!("{case:?}: {error}");
        }
    });
}

/// Rows of any length: in registers, read again, and, for a few long rows, one kernel after another.
#[test]
fn rows_of_every_length() -> Result<(), TeError> {
    if testing::compiler("rows_of_every_length").is_none() {
        return Ok(());
    }
    let device = emulated(Arch::SM_80);
    for (shape, turned, wanted) in [
        (vec![3, 8], false, "in registers"),
        (vec![5, 2048], false, "in registers"),
        (vec![2, 777], false, "in registers"),
        (vec![40, 6], true, "in registers"),
        (vec![2, 40_000], false, "rows"),
        (vec![64, 700], true, "columns"),
        (vec![1, 140_000], false, "kernels"),
    ] {
        let (element, order) = (ElementType::F32, Order::Device);
        let case = Case { chain: Chain::Three, element, shape, turned, gap: 0, order, seed: 3 };
        let choice = check(&device, &case)?;
        assert!(choice.contains(wanted), "{case:?}: {choice}");
        if wanted == "rows" {
            assert!(!choice.contains("registers"), "{choice}");
        }
    }
    Ok(())
}

/// One reduction tree on every device, also in passes: the bits of a mean and a variance that a user writes as stages.
#[test]
fn the_order_of_the_shape_gives_passes_the_same_bits_everywhere() -> Result<(), TeError> {
    if testing::compiler("the_order_of_the_shape_gives_passes_the_same_bits_everywhere").is_none() {
        return Ok(());
    }
    let rows = Rows::new(ElementType::F32, 2);
    let m = Expr::from(rows.inner[0]).cast(ElementType::F32);
    let sum = rows.reduced("sum", |x, axes| te::sum(x, axes), |x, _| x)?;
    let mean = te::compute([rows.n], "mean", |[i]| sum.at([i]) / m.clone())?;
    let apart = |x: Expr, i: Axis| x - mean.at([i]);
    let squares = rows.reduced("squares", |x, axes| te::sum(x, axes), |x, i| apart(x.clone(), i) * apart(x, i))?;
    let normal = rows.points("normal", |x, i, _| apart(x, i) / (squares.at([i]) / m.clone() + 1e-5))?;
    for (n, m) in [(1usize, 1usize), (3, 7), (2, 1000), (70, 33), (1, 5000)] {
        let mut random = fastrand::Rng::with_seed(m as u64);
        let values: Vec<f32> = (0..n * m).map(|_| random.f32() - 0.3).collect();
        let mut results: Vec<[Vec<u32>; 2]> = Vec::new();
        for (device, turned) in [
            (Device::cpu(), false),
            (Device::cpu(), true),
            (emulated(Arch::SM_80), false),
            (emulated(Arch::SM_80), true),
        ] {
            let kernel = te::auto::reduce_all(&[&squares, &normal])?.order(Order::Shape).build(&device)?;
            let a = laid_out(&device, &values, ElementType::F32, &[n, m], &order_in_memory(2, turned), 0)?;
            let (mut s, mut y) = (device.zeros::<f32>([n])?, device.zeros::<f32>([n, m])?);
            kernel.run(&[(&a).into(), (&mut s).into(), (&mut y).into()])?;
            let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect();
            results.push([bits(s.to_vec()?), bits(y.to_vec()?)]);
        }
        for other in &results[1..] {
            assert_eq!(&results[0], other, "{n} x {m}");
        }
    }
    Ok(())
}

/// Runs that share a kernel don't share the memory between its passes.
#[test]
fn runs_at_once_do_not_meet() -> Result<(), TeError> {
    let rows = Rows::new(ElementType::F32, 2);
    let device = Device::cpu();
    let tensors = tensors(Chain::CountLargest, &rows)?;
    let automatic: Automatic = te::auto::reduce(&tensors[0])?;
    let kernel = automatic.build(&device)?;
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (kernel, device) = (&kernel, &device);
            scope.spawn(move || {
                for round in 0..20u64 {
                    let (n, m) = (5 + thread as usize, 300 + round as usize);
                    let values = integers_in::<f32>(n * m, thread * 100 + round, -4..=4);
                    let a = device.tensor(&values, [n, m]).expect("memory");
                    let mut count = device.zeros::<f32>([n]).expect("memory");
                    kernel.run(&[(&a).into(), (&mut count).into()]).expect("a run");
                    let wanted: Vec<f32> =
                        values.chunks(m).flat_map(|row| expected(Chain::CountLargest, row).concat()).collect();
                    assert_eq!(count.to_vec::<f32>().expect("values"), wanted);
                }
            });
        }
    });
    Ok(())
}
