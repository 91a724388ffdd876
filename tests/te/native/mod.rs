//! Native code, compared with the interpreter bit for bit.

#![allow(clippy::unwrap_used, reason = "tests")]

mod arguments;
pub(crate) mod both;
mod expressions;
mod schedules;

use both::{agree, input, output};
use epilogue::ElementType;
use epilogue::te::{self, Schedule, TeError, Tensor};
use epilogue_runtime::testing;
use epilogue_testing::tutorial::{cross_thread, row_sums};
use proptest::prelude::*;

/// Numbers of every sign and size, so that another order of summation would show.
fn numbers(len: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| f64::from((random.f32() - 0.5) * 2f32.powi(random.i32(-3..4)))).collect()
}

fn check_rows(s: &Schedule, a: &Tensor, b: &Tensor, n: usize, m: usize) {
    let program = te::lower(s, &[a, b], "main").unwrap();
    agree(&program, &[input(ElementType::F32, &[n, m], &numbers(n * m, 7)), output(ElementType::F32, &[n])]);
}

#[test]
fn plain_row_sums() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let s = te::create_schedule(&[&b]);
    for (n, m) in [(3, 5), (0, 4), (4, 0), (17, 100)] {
        check_rows(&s, &a, &b, n, m);
    }
    Ok(())
}

#[test]
fn reductions_over_threads() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let s = cross_thread(&b, 16, 32)?;
    for (n, m) in [(128, 128), (1, 1), (33, 17), (31, 1), (0, 5), (5, 0), (10, 37), (4000, 9)] {
        check_rows(&s, &a, &b, n, m);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(48)))]

    #[test]
    fn any_loops(
        (n, m) in (0usize..40, 0usize..40),
        rows in 1i32..9, columns in 1i32..9, inner in 1i32..4, parts: bool, unroll: bool,
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
        if unroll && shape != 3 {
            stage.unroll(kii).unwrap();
        }
        check_rows(&s, &a, &b, n, m);
    }

    #[test]
    fn any_threads((n, m) in (0usize..70, 0usize..70), threads in 1i32..40, rows in 1i32..9) {
        let (a, b) = row_sums().unwrap();
        let s = cross_thread(&b, threads, rows).unwrap();
        check_rows(&s, &a, &b, n, m);
    }
}

/// Row sums for a CPU: rows in parallel, each in `lanes` interleaved partial sums, which form a vector.
fn vector_rows(lanes: i32, parallel: bool) -> Result<(Schedule, Tensor, Tensor), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    let (_ko, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, lanes)?;
    let bf = s.rfactor(&b, ki)?;
    let (row, partial) = {
        let compute = s.operation(&b)?.as_compute().expect("B is computed");
        (compute.axes[0], compute.reduce_axes[0])
    };
    let (lane, ko) = {
        let compute = s.operation(&bf)?.as_compute().expect("B.rf is computed");
        (compute.axes[0], compute.reduce_axes[0])
    };
    s.compute_at(&bf, &b, row)?;
    let stage = s.stage(&bf)?;
    stage.reorder(&[ko, lane])?;
    stage.vectorize(lane)?;
    s.stage(&b)?.unroll(partial)?;
    if parallel {
        s.stage(&b)?.parallel(row)?;
    }
    Ok((s, a, b))
}

/// Column sums: `width` columns at a time, in a vector, down all rows.
fn column_sums(width: i32, parallel: bool, rows_outside: bool) -> Result<(Schedule, Tensor, Tensor), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, n), "k");
    let b = te::compute([m], "B", |[j]| te::sum(a.at((k, j)), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, inner) = stage.split(b.axis(0)?, width)?;
    if rows_outside {
        stage.reorder(&[outer, k, inner])?;
    }
    stage.vectorize(inner)?;
    if parallel {
        stage.parallel(outer)?;
    }
    Ok((s, a, b))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(48)))]

    #[test]
    fn rows_in_vectors((n, m) in (0usize..20, 0usize..150), lanes in 1i32..70, parallel: bool) {
        let (s, a, b) = vector_rows(lanes, parallel).unwrap();
        check_rows(&s, &a, &b, n, m);
    }

    #[test]
    fn columns_in_vectors(
        (n, m) in (0usize..20, 0usize..150), width in 1i32..70, parallel: bool, rows_outside: bool,
    ) {
        let (s, a, b) = column_sums(width, parallel, rows_outside).unwrap();
        let program = te::lower(&s, &[&a, &b], "main").unwrap();
        agree(&program, &[input(ElementType::F32, &[n, m], &numbers(n * m, 3)), output(ElementType::F32, &[m])]);
    }

    /// A whole axis in vectors; the remaining elements are computed one by one.
    #[test]
    fn elementwise_in_vectors((n, m) in (0usize..9, 0usize..90), parallel: bool) {
        let (rows, columns) = (te::var("n"), te::var("m"));
        let a = te::placeholder([rows, columns], "A");
        let c = te::placeholder([columns], "C");
        let b = te::compute([rows, columns], "B", |[i, j]| {
            let x = a.at([i, j]) * c.at([j]) + 1;
            te::Expr::from(j).less(7).select(x.clone().max(0.5), x - c.at([j]))
        }).unwrap();
        let mut s = te::create_schedule(&[&b]);
        s.stage(&b).unwrap().vectorize(b.axis(1).unwrap()).unwrap();
        if parallel {
            s.stage(&b).unwrap().parallel(b.axis(0).unwrap()).unwrap();
        }
        let program = te::lower(&s, &[&a, &c, &b], "main").unwrap();
        agree(&program, &[
            input(ElementType::F32, &[n, m], &numbers(n * m, 5)),
            input(ElementType::F32, &[m], &numbers(m, 6)),
            output(ElementType::F32, &[n, m]),
        ]);
    }
}

/// Values of a type, including special ones.
fn values_of(element: ElementType, len: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let one = |random: &mut fastrand::Rng| {
        let x = match random.usize(0..12) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::NAN,
            3 => f64::INFINITY,
            4 => f64::NEG_INFINITY,
            5 => random.f64() * 1e6,
            6 => -random.f64() * 1e-6,
            _ => (random.f64() - 0.5) * 20.0,
        };
        if element.is_float() {
            x
        } else if x.is_finite() {
            x.trunc()
        } else {
            100.0
        }
    };
    let values: Vec<f64> = (0..len).map(|_| one(&mut random)).collect();
    values.into_iter().map(|x| epilogue::evt::reference::round(element, x)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(160)))]

    /// Expressions of all types, in loops and in vectors.
    #[test]
    fn any_expression(seed: u64, (n, m) in (0usize..4, 0usize..45), vectorize: bool, width in 0i32..40) {
        let (rows, columns) = (te::var("n"), te::var("m"));
        // Types of numbers only.
        let elements = &ElementType::ALL[..14];
        let inputs: Vec<Tensor> = elements
            .iter()
            .map(|element| te::placeholder_of(*element, [rows, columns], element.name()))
            .collect();
        let random = fastrand::Rng::with_seed(seed);
        let mut generator = expressions::Generator { random, inputs: &inputs, at: Vec::new(), used: vec![false; 14] };
        let result = generator.dtype();
        let b = te::compute([rows, columns], "B", |[i, j]| {
            generator.at = vec![i.into(), j.into()];
            generator.expression(result, 5)
        }).unwrap();
        let mut s = te::create_schedule(&[&b]);
        let stage = s.stage(&b).unwrap();
        let mut axis = b.axis(1).unwrap();
        if width > 0 {
            axis = stage.split(axis, width).unwrap().1;
        }
        if vectorize {
            stage.vectorize(axis).unwrap();
        }
        let used = generator.used.clone();
        let mut arguments: Vec<&Tensor> = inputs.iter().zip(&used).filter(|(_, used)| **used).map(|(t, _)| t).collect();
        arguments.push(&b);
        let program = te::lower(&s, &arguments, "main").unwrap();
        let mut given: Vec<_> = elements
            .iter()
            .enumerate()
            .filter(|(i, _)| used[*i])
            .map(|(i, element)| input(*element, &[n, m], &values_of(*element, n * m, seed ^ i as u64)))
            .collect();
        given.push(output(result, &[n, m]));
        agree(&program, &given);
    }
}

/// The notes' C program: 16 partial sums of each of 100 rows of 256, added up in order.
#[test]
fn the_notes_program() -> Result<(), TeError> {
    const N: usize = 100;
    const M: usize = 256;
    const K: usize = 16;
    let a: Vec<f32> = numbers(N * M, 4).into_iter().map(|x| x as f32).collect();
    let mut partial = [[0.0f32; N]; K];
    for (k_inner, sums) in partial.iter_mut().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            for k_outer in 0..M.div_ceil(K) {
                *sum += a[i * M + k_outer * K + k_inner];
            }
        }
    }
    let expected: Vec<f64> = (0..N).map(|i| f64::from((0..K).fold(0.0, |sum, k| sum + partial[k][i]))).collect();
    let (x, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    let (_ko, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    s.rfactor(&b, ki)?;
    let program = te::lower(&s, &[&x, &b], "main")?;
    let values: Vec<f64> = a.iter().map(|x| f64::from(*x)).collect();
    let result = agree(&program, &[input(ElementType::F32, &[N, M], &values), output(ElementType::F32, &[N])]);
    assert_eq!(result[1], expected);
    Ok(())
}

/// Threads that copy a tile to shared memory and then read what others copied.
#[test]
fn tiles_in_shared_memory() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let b = te::compute([m, n], "B", |[i, j]| a.at([j, i]) * 2)?;
    let mut s = te::create_schedule(&[&b]);
    let tile = s.cache_read(&a, "shared", &[&b])?;
    let (x, y) = (te::thread_axis("threadIdx.x"), te::thread_axis("threadIdx.y"));
    let stage = s.stage(&b)?;
    let (io, jo, ii, ji) = stage.tile(b.axis(0)?, b.axis(1)?, 8, 4)?;
    stage.bind(io, te::thread_axis("blockIdx.y"))?;
    stage.bind(jo, te::thread_axis("blockIdx.x"))?;
    stage.bind(ii, y)?;
    stage.bind(ji, x)?;
    s.compute_at(&tile, &b, jo)?;
    let loops = s.stage(&tile)?.loops().to_vec();
    s.stage(&tile)?.bind(loops[0], x)?;
    s.stage(&tile)?.bind(loops[1], y)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    for (n, m) in [(16, 16), (5, 9), (1, 1), (0, 3), (13, 21)] {
        let values = numbers(n * m, 8);
        agree(&program, &[input(ElementType::F32, &[n, m], &values), output(ElementType::F32, &[m, n])]);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(32)))]

    /// A recurrence over time, with its columns in threads, in vectors or neither.
    #[test]
    fn scans((steps, width) in (1usize..9, 0usize..40), by in 1i32..40, how in 0usize..4) {
        let (m, n) = (te::var("m"), te::var("n"));
        let x = te::placeholder([m, n], "X");
        let state = te::placeholder([m, n], "state");
        let init = te::compute((1, n), "init", |[_, i]| x.at((0, i))).unwrap();
        let half = te::compute([m, n], "half", |[t, i]| state.at((t - 1, i)) * 0.5).unwrap();
        let update = te::compute([m, n], "update", |[t, i]| half.at([t, i]) + x.at([t, i])).unwrap();
        let scan = te::scan(&init, &update, &state, &[]).unwrap();
        let mut s = te::create_schedule(&[&scan]);
        let (block, thread) = (te::thread_axis("blockIdx.x"), te::thread_axis("threadIdx.x"));
        for part in [&init, &update] {
            let stage = s.stage(part).unwrap();
            let (outer, inner) = stage.split(part.axis(1).unwrap(), by).unwrap();
            match how {
                0 => {}
                1 => {
                    stage.parallel(outer).unwrap();
                    stage.vectorize(inner).unwrap();
                }
                _ => {
                    stage.bind(outer, block).unwrap();
                    stage.bind(inner, thread).unwrap();
                }
            }
            if part == &update {
                s.compute_at(&half, &update, if how == 1 { outer } else { inner }).unwrap();
            }
        }
        if how == 3 {
            s.stage(&scan).unwrap().env_threads(&[block, thread]).unwrap();
        }
        let program = te::lower(&s, &[&x, &scan], "main").unwrap();
        let values = numbers(steps * width, 9);
        agree(&program, &[
            input(ElementType::F32, &[steps, width], &values),
            output(ElementType::F32, &[steps, width]),
        ]);
    }
}
