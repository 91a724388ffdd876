//! Reductions in threads and over threads.

use epilogue::ElementType;
use epilogue::te::{self, DType, Expr, Reducer, Schedule, TeError, Tensor};
use epilogue_runtime::testing::cases;
use epilogue_testing::tutorial::{cross_thread, row_sums};
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

#[test]
fn rows_beyond_the_last_block_are_not_stored() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::rows_beyond_the_last_block_are_not_stored") {
        return Ok(());
    }
    let (a, b) = row_sums()?;
    let program = te::lower(&cross_thread(&b, 16, 32)?, &[&a, &b], "main")?;
    for (n, m) in [(128, 128), (1, 1), (33, 17), (31, 1), (0, 5), (5, 0), (10, 37)] {
        let values = integers(n * m, (n * 1000 + m) as u64);
        let input = Numbers::new(ElementType::F32, &[n, m], values);
        run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
    }
    Ok(())
}

/// How values are combined, and their element types.
#[derive(Clone, Copy, Debug)]
enum Combination {
    Sum(ElementType),
    Product(ElementType),
    Max(ElementType),
    Min(ElementType),
    /// The largest value and its index; the first of equal ones, for any schedule.
    ArgMax,
    /// The product of 2×2 matrices, in which the order matters.
    Matrices,
}

impl Combination {
    fn elements(self) -> Vec<ElementType> {
        match self {
            Self::Sum(element) | Self::Product(element) | Self::Max(element) | Self::Min(element) => vec![element],
            Self::ArgMax => vec![ElementType::I32, ElementType::F32],
            Self::Matrices => vec![ElementType::I32; 4],
        }
    }

    fn reducer(self) -> Reducer {
        match self {
            Self::Sum(_) => te::sum_reducer(),
            Self::Product(_) => te::comm_reducer(|x, y| x * y, |dtype| Expr::constant(1.0, dtype), "prod"),
            Self::Max(_) => te::max_reducer(),
            Self::Min(_) => te::min_reducer(),
            Self::ArgMax => te::tuple_reducer(
                |x, y| {
                    let equal = x[1].clone().equal(&y[1]).and(x[0].clone().less(&y[0]));
                    let left = x[1].clone().greater(&y[1]).or(equal);
                    vec![left.clone().select(&x[0], &y[0]), left.select(&x[1], &y[1])]
                },
                |types| vec![Expr::constant(2_147_483_647.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
                "argmax",
            ),
            Self::Matrices => te::tuple_reducer(
                |x, y| {
                    let entry = |i: usize, j: usize| x[2 * i].clone() * &y[j] + x[2 * i + 1].clone() * &y[2 + j];
                    vec![entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
                },
                |types| [1.0, 0.0, 0.0, 1.0].iter().zip(types).map(|(x, t)| Expr::constant(*x, *t)).collect(),
                "matrices",
            )
            .associative_only(),
        }
    }

    /// The reduced values at `(i, k)`.
    fn source(self, a: &Tensor, i: te::Axis, k: te::Axis) -> Vec<Expr> {
        match self {
            Self::ArgMax => vec![k.into(), a.at([i, k])],
            Self::Matrices => vec![a.at([i, k]), Expr::from(1), Expr::from(1), Expr::from(0)],
            _ => vec![a.at([i, k])],
        }
    }

    fn input(self) -> ElementType {
        match self {
            Self::ArgMax => ElementType::F32,
            _ => self.elements()[0],
        }
    }
}

fn combination() -> impl Strategy<Value = Combination> {
    use ElementType::{BF16, F16, F32, F64, I8, I32, I64, U8};
    prop_oneof![
        prop::sample::select(vec![F32, F64, F16, I32, I64, I8, U8]).prop_map(Combination::Sum),
        prop::sample::select(vec![I32, I64, I8]).prop_map(Combination::Product),
        prop::sample::select(vec![F32, F64, F16, BF16, I32, I8]).prop_map(Combination::Max),
        prop::sample::select(vec![F32, F64, I64, U8]).prop_map(Combination::Min),
        Just(Combination::ArgMax),
        Just(Combination::Matrices),
    ]
}

/// A reduction of rows over threads, `threads` along one index and `rows` along another.
fn over_threads(
    outputs: &[Tensor],
    threads: i32,
    rows: i32,
    (reduced, kept): (&str, &str),
    contiguous: bool,
    factors: bool,
) -> Result<Schedule, TeError> {
    let b = &outputs[0];
    let mut s = te::create_schedule(&[b]);
    let k = b.reduce_axis(0)?;
    // `contiguous`: each thread has a run of neighbours, which keeps the order.
    let factored = if contiguous { s.stage(b)?.split_parts(k, threads)?.0 } else { s.stage(b)?.split(k, threads)?.1 };
    if !factors {
        let stage = s.stage(b)?;
        let (outer, inner) = stage.split(b.axis(0)?, rows)?;
        stage.bind(outer, te::thread_axis("blockIdx.x"))?;
        stage.bind(inner, te::thread_axis(kept))?;
        stage.bind(factored, te::thread_axis(reduced))?;
        return Ok(s);
    }
    let partial = s.rfactor(b, factored)?;
    let operation = s.operation(b)?;
    let (axis, over) = (operation.axis(0)?, operation.reduce_axis(0)?);
    let (outer, inner) = s.stage(b)?.split(axis, rows)?;
    s.stage(b)?.bind(outer, te::thread_axis("blockIdx.x"))?;
    s.stage(b)?.bind(inner, te::thread_axis(kept))?;
    s.stage(b)?.bind(over, te::thread_axis(reduced))?;
    s.compute_at(&partial, b, over)?;
    Ok(s)
}

fn check_over_threads(
    combination: Combination,
    (n, m): (usize, usize),
    threads: i32,
    rows: i32,
    indices: (&str, &str),
    contiguous: bool,
    factors: bool,
) -> Result<(), TeError> {
    let (rows_of_a, columns) = (te::var("n"), te::var("m"));
    let a = te::placeholder_of(combination.input(), [rows_of_a, columns], "A");
    let k = te::reduce_axis((0, columns), "k");
    let outputs =
        te::compute_all([rows_of_a], "B", |[i]| combination.reducer().over_all(&combination.source(&a, i, k), [k]))?;
    let contiguous = contiguous || matches!(combination, Combination::Matrices);
    let s = over_threads(&outputs, threads, rows, indices, contiguous, factors)?;
    let arguments: Vec<&Tensor> = std::iter::once(&a).chain(&outputs).collect();
    let program = te::lower(&s, &arguments, "main")?;
    let values = integers(n * m, (n * 1000 + m) as u64);
    let values = values.into_iter().map(|x| if combination.input() == ElementType::U8 { x.abs() } else { x });
    let input = Numbers::new(combination.input(), &[n, m], values.collect());
    let outputs: Vec<_> = combination.elements().into_iter().map(|element| (element, vec![n])).collect();
    run(&program, &[input], &outputs).assert_equal();
    Ok(())
}

/// A case that TVM's own tests leave out because it is known to be wrong: the maximum of 10 rows of 37, with 4 rows per
/// block.
#[test]
fn maxima_of_a_warp_with_several_rows_to_a_block() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::maxima_of_a_warp_with_several_rows_to_a_block") {
        return Ok(());
    }
    let maximum = Combination::Max(ElementType::F32);
    check_over_threads(maximum, (10, 37), 32, 4, ("threadIdx.x", "threadIdx.y"), true, true)?;
    check_over_threads(maximum, (10, 37), 32, 4, ("threadIdx.x", "threadIdx.y"), false, true)
}

/// Shuffles from lanes outside of the group would give a wrong product or maximum, while zeros would not show in a sum.
#[test]
fn groups_of_any_size_up_to_a_block() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::groups_of_any_size_up_to_a_block") {
        return Ok(());
    }
    for threads in [1, 2, 3, 7, 31, 33, 64, 96, 100, 512, 1024] {
        let product = Combination::Product(ElementType::I32);
        check_over_threads(product, (3, 70), threads, 1, ("threadIdx.x", "threadIdx.y"), true, true)?;
    }
    Ok(())
}

#[test]
fn a_block_of_more_threads_than_there_are_is_refused() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::a_block_of_more_threads_than_there_are_is_refused") {
        return Ok(());
    }
    let sum = Combination::Sum(ElementType::F32);
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let outputs = te::compute_all([n], "B", |[i]| sum.reducer().over_all(&sum.source(&a, i, k), [k]))?;
    let s = over_threads(&outputs, 64, 17, ("threadIdx.x", "threadIdx.y"), true, true)?;
    let error = te::lower(&s, &[&a, &outputs[0]], "main")?.build(crate::case::device()).unwrap_err();
    assert_eq!(error.to_string(), "a block of 1088 threads (the most is 1024) is not supported by CUDA");
    Ok(())
}

/// A sum over two axes, both bound to threads.
#[test]
fn two_reduction_axes_over_two_thread_indices() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::two_reduction_axes_over_two_thread_indices") {
        return Ok(());
    }
    for (x, y, order) in [(4, 8, false), (5, 7, true), (32, 4, false), (3, 40, true)] {
        let n = te::var("n");
        let a = te::placeholder((n, x, y), "A");
        let (j, k) = (te::reduce_axis((0, x), "j"), te::reduce_axis((0, y), "k"));
        let b = te::compute([n], "B", |[i]| te::sum(a.at((i, j, k)), [j, k]))?;
        let mut s = te::create_schedule(&[&b]);
        let (first, second) = if order { ("threadIdx.y", "threadIdx.x") } else { ("threadIdx.x", "threadIdx.z") };
        let stage = s.stage(&b)?;
        stage.bind(b.axis(0)?, te::thread_axis("blockIdx.y"))?;
        stage.bind(j, te::thread_axis(first))?;
        stage.bind(k, te::thread_axis(second))?;
        let program = te::lower(&s, &[&a, &b], "main")?;
        let shape = [6, x as usize, y as usize];
        let input = Numbers::new(ElementType::F32, &shape, integers(shape.iter().product(), 9));
        run(&program, &[input], &[(ElementType::F32, vec![6])]).assert_equal();
    }
    Ok(())
}

/// A condition on elements: rows and columns that it leaves out give the identity.
#[test]
fn a_sum_where_a_condition_holds() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::a_sum_where_a_condition_holds") {
        return Ok(());
    }
    for threads in [16, 24] {
        let (n, m) = (te::var("n"), te::var("m"));
        let a = te::placeholder([n, m], "A");
        let r = te::placeholder_of(DType::I32, [n], "R");
        let k = te::reduce_axis((0, m), "k");
        let b = te::compute([n], "B", |[i]| te::sum_reducer().over_where(a.at([i, k]), [k], r.at([i]).equal(1)))?;
        let s = over_threads(std::slice::from_ref(&b), threads, 4, ("threadIdx.y", "threadIdx.x"), false, true)?;
        let program = te::lower(&s, &[&a, &r, &b], "main")?;
        let a = Numbers::new(ElementType::F32, &[10, 99], integers(990, 4));
        let r = Numbers::new(ElementType::I32, &[10], (0..10).map(|i| f64::from(i > 1)).collect());
        run(&program, &[a, r], &[(ElementType::F32, vec![10])]).assert_equal();
    }
    Ok(())
}

/// A condition that is itself computed, and inlined: rows from 2 on are reduced, with one thread for each.
#[test]
fn an_inlined_condition() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::an_inlined_condition") {
        return Ok(());
    }
    for combination in [Combination::Sum(ElementType::F32), Combination::Min(ElementType::F32)] {
        let (n, m) = (te::var("n"), te::var("m"));
        let a = te::placeholder([n, m], "A");
        let r = te::compute([n], "R", |[i]| Expr::from(i).greater(1).select(1, 0))?;
        let k = te::reduce_axis((0, m), "k");
        let condition = |i: te::Axis| r.at([i]).equal(1);
        let b = te::compute([n], "B", |[i]| combination.reducer().over_where(a.at([i, k]), [k], condition(i)))?;
        let mut s = te::create_schedule(&[&b]);
        s.compute_inline(&r)?;
        let (outer, inner) = s.stage(&b)?.split(b.axis(0)?, 48)?;
        s.stage(&b)?.bind(outer, te::thread_axis("blockIdx.x"))?;
        s.stage(&b)?.bind(inner, te::thread_axis("threadIdx.x"))?;
        let program = te::lower(&s, &[&a, &b], "main")?;
        let input = Numbers::new(ElementType::F32, &[102, 12], integers(102 * 12, 7));
        run(&program, &[input], &[(ElementType::F32, vec![102])]).assert_equal();
    }
    Ok(())
}

/// Sums that start from a number, or from a tensor's elements.
#[test]
fn initial_values() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::initial_values") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let (a, start) = (te::placeholder([n, m], "A"), te::placeholder([n], "I"));
    let k = te::reduce_axis((0, m), "k");
    let ten = te::compute([n], "B", |[i]| te::sum_reducer().over_from(a.at([i, k]), [k], 10.0))?;
    let given = te::compute([n], "C", |[i]| te::sum_reducer().over_from(a.at([i, k]), [k], start.at([i])))?;
    let mut s = te::create_schedule(&[&ten, &given]);
    for (tensor, threads) in [(&ten, 8), (&given, 5)] {
        let (outer, inner) = s.stage(tensor)?.split(tensor.axis(0)?, threads)?;
        s.stage(tensor)?.bind(outer, te::thread_axis("blockIdx.x"))?;
        s.stage(tensor)?.bind(inner, te::thread_axis("threadIdx.x"))?;
    }
    let program = te::lower(&s, &[&a, &start, &ten, &given], "main")?;
    let inputs = [
        Numbers::new(ElementType::F32, &[13, 21], integers(13 * 21, 1)),
        Numbers::new(ElementType::F32, &[13], integers(13, 2)),
    ];
    run(&program, &inputs, &[(ElementType::F32, vec![13]), (ElementType::F32, vec![13])]).assert_equal();
    Ok(())
}

/// A factored sum with a condition on the row, with 16 threads for each of 10 rows.
#[test]
fn a_factored_sum_where_a_condition_holds() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::a_factored_sum_where_a_condition_holds") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let sum = te::sum_reducer();
    let b = te::compute([n], "B", |[i]| sum.over_where(a.at([i, k]), [k], Expr::from(i).greater(1)))?;
    let s = over_threads(std::slice::from_ref(&b), 16, 16, ("threadIdx.y", "threadIdx.x"), true, true)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    let input = Numbers::new(ElementType::F32, &[10, 1027], integers(10 * 1027, 3));
    run(&program, &[input], &[(ElementType::F32, vec![10])]).assert_equal();
    Ok(())
}

/// As in TVM's tests: one part of the reduction's loop is bound to threads; the other stays a loop, in which a part of
/// the input is copied to shared memory.
#[test]
fn each_thread_reduces_its_loop_first() -> Result<(), TeError> {
    if lacks_nvrtc("reductions::each_thread_reduces_its_loop_first") {
        return Ok(());
    }
    for (n, m, cached) in [(5usize, 70usize, true), (5, 70, false), (3, 16, true), (2, 0, false), (1, 1, true)] {
        let (rows, columns) = (te::var("n"), te::var("m"));
        let a = te::placeholder([rows, columns], "A");
        let k = te::reduce_axis((0, columns), "k");
        let b = te::compute([rows], "B", |[i]| te::max(a.at([i, k]), [k]))?;
        let mut s = te::create_schedule(&[&b]);
        let near = if cached { Some(s.cache_read(&a, "shared", &[&b])?) } else { None };
        let stage = s.stage(&b)?;
        let (outer, inner) = stage.split(b.reduce_axis(0)?, 16)?;
        stage.bind(b.axis(0)?, te::thread_axis("blockIdx.x"))?;
        stage.bind(inner, te::thread_axis("threadIdx.x"))?;
        if let Some(near) = near {
            s.compute_at(&near, &b, outer)?;
            let column = near.axis(1)?;
            s.stage(&near)?.bind(column, te::thread_axis("threadIdx.x"))?;
        }
        let program = te::lower(&s, &[&a, &b], "main")?;
        let input = Numbers::new(ElementType::F32, &[n, m], integers(n * m, 5));
        run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Any reducer, shape of a block and matrix: the results of the interpreter, without a race.
    #[test]
    fn over_threads_of_any_shape(
        combination in combination(),
        (n, m) in (0usize..40, 0usize..140),
        threads in prop_oneof![1i32..40, Just(16), Just(32), Just(64), Just(96)],
        rows in 1i32..9,
        indices in prop::sample::select(vec![
            ("threadIdx.x", "threadIdx.y"), ("threadIdx.y", "threadIdx.x"), ("threadIdx.z", "threadIdx.x"),
            ("threadIdx.x", "threadIdx.z"), ("threadIdx.y", "threadIdx.z"),
        ]),
        contiguous: bool,
        factors: bool,
    ) {
        if lacks_nvrtc("reductions::over_threads_of_any_shape") {
            return Ok(());
        }
        prop_assume!(indices.0 != "threadIdx.z" || threads <= 64);
        check_over_threads(combination, (n, m), threads, rows, indices, contiguous, factors).unwrap();
    }
}
