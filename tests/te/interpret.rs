//! Lowered programs, run by the interpreter, compared with sums and recurrences computed directly.

use crate::values::integers;
use epilogue::ElementType;
use epilogue::te::{self, Array, Expr, Schedule, TeError, Tensor};
use epilogue_runtime::testing;
use epilogue_testing::tutorial::{cross_thread, row_sums};
use proptest::prelude::*;

/// Runs a schedule of row sums on an n×m matrix and compares.
fn check_rows(s: &Schedule, a: &Tensor, b: &Tensor, n: usize, m: usize) -> Result<(), TeError> {
    let values = integers(n * m, (n * 1000 + m) as u64);
    let mut arguments = [Array::new(ElementType::F32, &[n, m], &values)?, Array::unwritten(ElementType::F32, &[n])];
    te::lower(s, &[a, b], "main")?.interpret(&mut arguments)?;
    let expected: Vec<f64> = (0..n).map(|i| values[i * m..(i + 1) * m].iter().sum()).collect();
    assert!(arguments[1].is_complete());
    assert_eq!(arguments[1].values(), expected, "{n} x {m}");
    Ok(())
}

/// The axis decides what is a thread, not the name.
#[test]
fn any_axis_may_be_called_as_a_thread() -> Result<(), TeError> {
    let (n, m) = (3, 5);
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "threadIdx.x");
    let body = |[i]: [te::Axis; 1]| vec![te::sum(a.at([i, k]), [k])];
    let b = te::compute_named([n], "B", ["blockIdx.x"], body)?.swap_remove(0);
    let mut s = te::create_schedule(&[&b]);
    let shared = s.cache_read(&a, "shared", &[&b])?;
    s.compute_at(&shared, &b, b.axis(0)?)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    assert!(!program.script().contains("sync"), "a barrier without threads");
    check_rows(&s, &a, &b, 3, 5)
}

#[test]
fn rows_beyond_the_last_block_are_not_stored() -> Result<(), TeError> {
    // The tutorial's own kernel writes out of bounds when n is not a multiple of 32.
    let (a, b) = row_sums()?;
    let s = cross_thread(&b, 16, 32)?;
    for (n, m) in [(128, 128), (1, 1), (33, 17), (31, 1), (0, 5), (5, 0), (10, 37)] {
        check_rows(&s, &a, &b, n, m)?;
    }
    Ok(())
}

/// A reduction whose loop is bound to zero threads: its result is stored nevertheless.
#[test]
fn a_reduction_over_no_threads() -> Result<(), TeError> {
    let i32 = ElementType::I32;
    for (symbolic, rows_in_threads) in [(false, false), (false, true), (true, false), (true, true)] {
        let extent = |name: &str, size: usize| if symbolic { te::var(name).into() } else { Expr::from(size) };
        for (n, m) in [(3usize, 0usize), (0, 0), (3, 2)] {
            let (rows, columns) = (extent("n", n), extent("m", m));
            let a = te::placeholder_of(i32, [rows.clone(), columns.clone()], "A");
            let k = te::reduce_axis((0, columns), "k");
            let largest = te::compute([rows.clone()], "largest", |[i]| te::max(a.at([i, k]), [k]))?;
            let total = te::compute([rows], "total", |[i]| te::sum(a.at([i, k]), [k]))?;
            let mut s = te::create_schedule(&[&largest, &total]);
            for tensor in [&largest, &total] {
                let stage = s.stage(tensor)?;
                let (outer, inner) = stage.split(tensor.axis(0)?, 2)?;
                if rows_in_threads {
                    stage.bind(outer, te::thread_axis("blockIdx.x"))?;
                    stage.bind(inner, te::thread_axis("threadIdx.y"))?;
                }
                stage.bind(tensor.reduce_axis(0)?, te::thread_axis("threadIdx.x"))?;
            }
            let program = te::lower(&s, &[&a, &largest, &total], "main")?;
            let values = integers(n * m, 1);
            let mut arguments =
                [Array::new(i32, &[n, m], &values)?, Array::unwritten(i32, &[n]), Array::unwritten(i32, &[n])];
            program.interpret(&mut arguments)?;
            let row = |i: usize| &values[i * m..(i + 1) * m];
            let largest: Vec<f64> = (0..n).map(|i| row(i).iter().copied().fold(-2_147_483_648.0, f64::max)).collect();
            let totals: Vec<f64> = (0..n).map(|i| row(i).iter().sum::<f64>()).collect();
            assert_eq!((arguments[1].values(), arguments[2].values()), (largest, totals), "{symbolic} {n} x {m}");
        }
    }
    Ok(())
}

#[test]
fn a_factored_sum_agrees_with_the_plain_one_at_100_by_256_16_ways() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    let (_ko, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    s.rfactor(&b, ki)?;
    check_rows(&s, &a, &b, 100, 256)
}

#[test]
fn argmax_takes_the_first_of_equals() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let argmax = te::tuple_reducer(
        |x, y| {
            let first = x[1].clone().greater_equal(&y[1]);
            vec![first.clone().select(&x[0], &y[0]), first.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(-1.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
        "argmax",
    );
    let both = te::compute_all([n], "argmax", |[i]| argmax.over_all(&[k.into(), a.at([i, k])], [k]))?;
    let s = te::create_schedule(&[&both[0]]);
    let mut arguments = [
        Array::new(ElementType::F32, &[2, 4], &[1.0, 7.0, 7.0, 2.0, -1.0, -5.0, -3.0, -1.0])?,
        Array::unwritten(ElementType::I32, &[2]),
        Array::unwritten(ElementType::F32, &[2]),
    ];
    te::lower(&s, &[&a, &both[0], &both[1]], "main")?.interpret(&mut arguments)?;
    assert_eq!(arguments[1].values(), [1.0, 0.0]);
    assert_eq!(arguments[2].values(), [7.0, -1.0]);
    Ok(())
}

#[test]
fn two_states_read_each_other_one_step_back() -> Result<(), TeError> {
    let (m, n, l) = (te::var("m"), te::var("n"), te::var("l"));
    let x = te::placeholder([m, n], "X");
    let state1 = te::placeholder([m, n], "s1");
    let state2 = te::placeholder([m, l], "s2");
    let init1 = te::compute((1, n), "i1", |[_, i]| x.at((0, i)))?;
    let init2 = te::compute((1, l), "i2", |[_, _]| 0.0.into())?;
    let update1 = te::compute([m, n], "u1", |[t, i]| state1.at((t - 1, i)) + x.at([t, i]))?;
    let update2 = te::compute([m, l], "u2", |[t, i]| state2.at((t - 1, i)) + state1.at((t - 1, 0)))?;
    let scans = te::scan_all(&[init1, init2], &[update1, update2], &[state1, state2], &[])?;
    let s = te::create_schedule(&[&scans[0]]);
    let (steps, width) = (7, 3);
    let values = integers(steps * width, 5);
    let mut arguments = [
        Array::new(ElementType::F32, &[steps, width], &values)?,
        Array::unwritten(ElementType::F32, &[steps, width]),
        Array::unwritten(ElementType::F32, &[steps, 2]),
    ];
    te::lower(&s, &[&x, &scans[0], &scans[1]], "main")?.interpret(&mut arguments)?;
    let mut sums = vec![0.0; width];
    let mut total = 0.0;
    for t in 0..steps {
        for i in 0..2 {
            assert_eq!(arguments[2].values()[t * 2 + i], total, "step {t}");
        }
        for i in 0..width {
            sums[i] += values[t * width + i];
            assert_eq!(arguments[1].values()[t * width + i], sums[i], "step {t}");
        }
        total += sums[0];
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(200)))]

    /// Splits, fusions and orders of loops never change a sum.
    #[test]
    fn any_loops_give_the_same_sums(
        (n, m) in (0usize..40, 0usize..40),
        rows in 1i32..9, columns in 1i32..9, inner in 1i32..4, parts: bool,
        shape in 0usize..5,
    ) {
        let (a, b) = row_sums().unwrap();
        let mut s = te::create_schedule(&[&b]);
        let stage = s.stage(&b).unwrap();
        let (i, k) = (b.axis(0).unwrap(), b.reduce_axis(0).unwrap());
        let (xo, xi) = stage.split(i, rows).unwrap();
        let (ko, ki) = if parts { stage.split_parts(k, columns) } else { stage.split(k, columns) }.unwrap();
        let (kio, kii) = stage.split(ki, inner).unwrap();
        match shape {
            0 => {}
            1 => stage.reorder(&[ko, xo, kio, xi, kii]).unwrap(),
            2 => { stage.fuse(xo, xi).unwrap(); }
            3 => { stage.fuse(kio, kii).unwrap(); }
            _ => stage.reorder(&[xi, kii, kio, ko]).unwrap(),
        }
        check_rows(&s, &a, &b, n, m).unwrap();
    }

    /// Reductions over threads store every row once, and only rows that exist.
    #[test]
    fn cross_thread_reductions_give_the_same_sums((n, m) in (0usize..70, 0usize..70), threads in 1i32..40, rows in 1i32..9) {
        let (a, b) = row_sums().unwrap();
        let s = cross_thread(&b, threads, rows).unwrap();
        check_rows(&s, &a, &b, n, m).unwrap();
    }

    /// A cumulative sum in threads equals the sequential one.
    #[test]
    fn scans_in_threads((steps, width) in (1usize..12, 0usize..20), threads in 1i32..9) {
        let (m, n) = (te::var("m"), te::var("n"));
        let x = te::placeholder([m, n], "X");
        let state = te::placeholder([m, n], "state");
        let init = te::compute((1, n), "init", |[_, i]| x.at((0, i))).unwrap();
        let doubled = te::compute([m, n], "doubled", |[t, i]| state.at((t - 1, i)) * 2).unwrap();
        let update = te::compute([m, n], "update", |[t, i]| doubled.at([t, i]) + x.at([t, i])).unwrap();
        let scan = te::scan(&init, &update, &state, &[]).unwrap();
        let mut s = te::create_schedule(&[&scan]);
        let (block, thread) = (te::thread_axis("blockIdx.x"), te::thread_axis("threadIdx.x"));
        for part in [&init, &update] {
            let (xo, xi) = s.stage(part).unwrap().split(part.axis(1).unwrap(), threads).unwrap();
            s.stage(part).unwrap().bind(xo, block).unwrap();
            s.stage(part).unwrap().bind(xi, thread).unwrap();
            if part == &update {
                s.compute_at(&doubled, &update, xi).unwrap();
            }
        }
        let values = integers(steps * width, 3);
        let mut arguments = [
            Array::new(ElementType::F64, &[steps, width], &values).unwrap(),
            Array::unwritten(ElementType::F64, &[steps, width]),
        ];
        // The tensors are f32: f64 arguments are refused, and nothing is run.
        let program = te::lower(&s, &[&x, &scan], "main").unwrap();
        prop_assert!(program.interpret(&mut arguments).is_err());
        let mut arguments = [
            Array::new(ElementType::F32, &[steps, width], &values).unwrap(),
            Array::unwritten(ElementType::F32, &[steps, width]),
        ];
        program.interpret(&mut arguments).unwrap();
        let result = arguments[1].values();
        for i in 0..width {
            let mut y = values[i];
            prop_assert_eq!(result[i], y);
            for t in 1..steps {
                y = 2.0 * y + values[t * width + i];
                prop_assert_eq!(result[t * width + i], y);
            }
        }
    }
}

/// `y[t, i] = x[t, i] + Σ_k y[t - 1, k]`, with the sum factored over `place` of its partial sums' dimensions.
#[test]
fn a_factored_sum_inside_a_scan() -> Result<(), TeError> {
    for (place, steps) in [(0, 5), (1, 5), (2, 5), (0, 2), (1, 2)] {
        let n = te::var("n");
        let m = if steps == 2 { Expr::int(2) } else { te::var("m").into() };
        let x = te::placeholder((&m, n), "X");
        let state = te::placeholder((&m, n), "state");
        let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
        let k = te::reduce_axis((0, n), "k");
        let sum = te::compute((&m, n), "sum", |[t, _]| te::sum(state.at((t - 1, k)), [k]))?;
        let update = te::compute((&m, n), "update", |[t, i]| sum.at([t, i]) + x.at([t, i]))?;
        let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
        let mut s = te::create_schedule(&[&scan]);
        let (_, ki) = s.stage(&sum)?.split(k, 4)?;
        s.rfactor_at(&sum, ki, place)?;
        let program = te::lower(&s, &[&x, &scan], "main")?;
        let width = 7;
        let values = integers(steps * width, 3);
        let mut expected = values.clone();
        for t in 1..steps {
            let total: f64 = expected[(t - 1) * width..][..width].iter().sum();
            expected[t * width..][..width].iter_mut().for_each(|y| *y += total);
        }
        let shape = [steps, width];
        let mut arguments =
            [Array::new(ElementType::F32, &shape, &values)?, Array::unwritten(ElementType::F32, &shape)];
        program.interpret(&mut arguments)?;
        assert_eq!(arguments[1].values(), expected, "at {place}");
    }
    Ok(())
}
