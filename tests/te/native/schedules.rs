//! Random schedules of a few computations: the interpreter and native code agree on whatever lowering gives.

use epilogue::ElementType;
use epilogue::te::{self, Axis, AxisKind, Expr, Schedule, TeError, Tensor};
use epilogue_runtime::testing;
use proptest::prelude::*;

use super::both::{Given, agree, input, output};
use super::numbers;

/// A chain of stages, its inputs and outputs, and their values for given sizes.
struct Case {
    tensors: Vec<Tensor>,
    /// The stages that a schedule may change, consumers last.
    stages: Vec<Tensor>,
    given: Vec<Given>,
}

fn case(kind: usize, n: usize, m: usize) -> Result<Case, TeError> {
    let (rows, columns) = (te::var("n"), te::var("m"));
    let a = te::placeholder([rows, columns], "A");
    let matrix = || input(ElementType::F32, &[n, m], &numbers(n * m, 11));
    match kind {
        // Sums of squares, and values computed from them.
        0 => {
            let p = te::compute([rows, columns], "P", |[i, j]| a.at([i, j]) * a.at([i, j]))?;
            let k = te::reduce_axis((0, columns), "k");
            let b = te::compute([rows], "B", |[i]| te::sum(p.at([i, k]), [k]))?;
            let d = te::compute([rows, columns], "D", |[i, j]| a.at([i, j]) - b.at([i]))?;
            let given = vec![matrix(), output(ElementType::F32, &[n, m])];
            Ok(Case { tensors: vec![a, d.clone()], stages: vec![p, b, d], given })
        }
        // A stencil of a stencil, its edges selected.
        1 => {
            let p = te::compute([rows, columns], "P", |[i, j]| {
                let left = Expr::from(j).greater(0).select(a.at((i, j - 1)), 0.0);
                left + a.at([i, j])
            })?;
            let d = te::compute([rows, columns], "D", |[i, j]| {
                let up = Expr::from(i).greater(0).select(p.at((i - 1, j)), 1.0);
                up * p.at([i, j])
            })?;
            let given = vec![matrix(), output(ElementType::F32, &[n, m])];
            Ok(Case { tensors: vec![a, d.clone()], stages: vec![p, d], given })
        }
        // A matrix product with its transpose, in f64.
        2 => {
            let w = te::compute([rows, columns], "W", |[i, j]| a.at([i, j]).cast(ElementType::F64))?;
            let k = te::reduce_axis((0, columns), "k");
            let c = te::compute([rows, rows], "C", |[i, j]| te::sum(w.at([i, k]) * w.at([j, k]), [k]))?;
            let given = vec![matrix(), output(ElementType::F64, &[n, n])];
            Ok(Case { tensors: vec![a, c.clone()], stages: vec![w, c], given })
        }
        // The index of each row's largest value, and that value.
        3 => {
            let argmax = te::tuple_reducer(
                |x, y| {
                    let first = x[1].clone().greater_equal(&y[1]);
                    vec![first.clone().select(&x[0], &y[0]), first.select(&x[1], &y[1])]
                },
                |types| vec![Expr::constant(-1.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
                "argmax",
            );
            let k = te::reduce_axis((0, columns), "k");
            let both = te::compute_all([rows], "argmax", |[i]| argmax.over_all(&[k.into(), a.at([i, k])], [k]))?;
            let given = vec![matrix(), output(ElementType::I32, &[n]), output(ElementType::F32, &[n])];
            let stages = vec![both[0].clone()];
            Ok(Case { tensors: vec![a, both[0].clone(), both[1].clone()], stages, given })
        }
        // Half-precision column maxima under a condition.
        _ => {
            let h = te::compute([rows, columns], "H", |[i, j]| a.at([i, j]).cast(ElementType::F16))?;
            let k = te::reduce_axis((0, rows), "k");
            let b = te::compute([columns], "B", |[j]| {
                te::max_reducer().over_where(h.at((k, j)), [k], Expr::from(k).not_equal(1))
            })?;
            let given = vec![matrix(), output(ElementType::F16, &[m])];
            Ok(Case { tensors: vec![a, b.clone()], stages: vec![h, b], given })
        }
    }
}

/// Applies random primitives; those that are refused are skipped.
fn schedule(case: &Case, random: &mut fastrand::Rng) -> Schedule {
    let last = case.stages.last().expect("a case has stages");
    let mut s = te::create_schedule(&[last]);
    if random.usize(0..4) == 0 {
        let _ = s.cache_write(last, if random.bool() { "local" } else { "global" });
    }
    for tensor in &case.stages {
        for _ in 0..random.usize(0..4) {
            change(&mut s, tensor, random);
        }
        for _ in 0..random.usize(0..3) {
            mark(&mut s, tensor, random);
        }
    }
    for (place, tensor) in case.stages.iter().enumerate().rev().skip(1) {
        match random.usize(0..3) {
            0 => {
                let _ = s.compute_inline(tensor);
            }
            1 => {
                let consumer = &case.stages[random.usize(place + 1..case.stages.len())];
                if let Some(axis) = any_loop(&mut s, consumer, random) {
                    let _ = s.compute_at(tensor, consumer, axis);
                }
            }
            _ => {}
        }
    }
    s
}

fn any_loop(s: &mut Schedule, tensor: &Tensor, random: &mut fastrand::Rng) -> Option<Axis> {
    let loops = s.stage(tensor).ok()?.loops();
    (!loops.is_empty()).then(|| loops[random.usize(0..loops.len())])
}

fn change(s: &mut Schedule, tensor: &Tensor, random: &mut fastrand::Rng) {
    let Some(axis) = any_loop(s, tensor, random) else { return };
    if axis.kind() == AxisKind::Reduce && random.usize(0..3) == 0 {
        let _ = s.rfactor(tensor, axis);
        return;
    }
    let Ok(stage) = s.stage(tensor) else { return };
    match random.usize(0..4) {
        0 | 1 => {
            let _ = stage.split(axis, random.i32(1..20));
        }
        2 => {
            let _ = stage.split_parts(axis, random.i32(1..6));
        }
        _ => {
            let mut order = stage.loops().to_vec();
            random.shuffle(&mut order);
            let _ = stage.reorder(&order);
        }
    }
}

fn mark(s: &mut Schedule, tensor: &Tensor, random: &mut fastrand::Rng) {
    let Some(axis) = any_loop(s, tensor, random) else { return };
    let Ok(stage) = s.stage(tensor) else { return };
    let _ = match random.usize(0..3) {
        0 => stage.vectorize(axis),
        1 => stage.parallel(axis),
        _ => stage.unroll(axis),
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::cases(240)))]

    #[test]
    fn any_schedule(kind in 0usize..5, (n, m) in (0usize..12, 0usize..40), seed: u64) {
        let case = case(kind, n, m).unwrap();
        let s = schedule(&case, &mut fastrand::Rng::with_seed(seed));
        let arguments: Vec<&Tensor> = case.tensors.iter().collect();
        // Programs that lowering refuses are not tested here.
        let Ok(program) = te::lower(&s, &arguments, "main") else { return Ok(()) };
        agree(&program, &case.given);
    }
}

/// Threads of one launch write sums that threads of the next launch in the same block read.
#[test]
fn a_total_that_other_threads_of_the_block_read() -> Result<(), TeError> {
    let (n, k) = (40usize, te::reduce_axis((0, 12), "k"));
    let (a, b) = (te::placeholder([n], "A"), te::placeholder([12], "B"));
    let total = te::compute([1], "T", |[_]| te::sum(b.at([k]), [k]))?;
    let less = te::compute([n], "L", |[i]| a.at([i]) - total.at([0]))?;
    let mut s = te::create_schedule(&[&less]);
    let (block, thread) = s.stage(&less)?.split(less.axis(0)?, 16)?;
    s.stage(&less)?.bind(block, te::thread_axis("blockIdx.x"))?;
    s.stage(&less)?.bind(thread, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&total, &less, block)?;
    let (_, part) = s.stage(&total)?.split(k, 5)?;
    s.stage(&total)?.bind(part, te::thread_axis("threadIdx.z"))?;
    s.set_scope(&total, "local")?;
    let given = [
        input(ElementType::F32, &[n], &numbers(n, 3)),
        input(ElementType::F32, &[12], &numbers(12, 5)),
        output(ElementType::F32, &[n]),
    ];
    agree(&te::lower(&s, &[&a, &b, &less], "main")?, &given);
    Ok(())
}
