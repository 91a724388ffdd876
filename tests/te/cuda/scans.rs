//! Recurrences: a launch for every step, or one for all of them.

use epilogue::ElementType;
use epilogue::te::{self, Schedule, TeError, Tensor};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, device, lacks_nvrtc, run};
use crate::values::integers;

/// `y[t] = 2 y[t - 1] + x[t]` by an intermediate stage: `(X, doubled, init, update, scan)`.
fn recurrence(initial: i32) -> Result<[Tensor; 5], TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((initial, n), "init", |[t, i]| x.at((t, i)))?;
    let doubled = te::compute([m, n], "doubled", |[t, i]| state.at((t - initial, i)) * 2.0)?;
    let update = te::compute([m, n], "update", |[t, i]| doubled.at([t, i]) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    Ok([x, doubled, init, update, scan])
}

fn check(s: &Schedule, x: &Tensor, scan: &Tensor, steps: usize, width: usize) -> Result<(), TeError> {
    let program = te::lower(s, &[x, scan], "main")?;
    let input = Numbers::new(ElementType::F32, &[steps, width], integers(steps * width, 11));
    run(&program, &[input], &[(ElementType::F32, vec![steps, width])]).assert_equal();
    Ok(())
}

/// Binds the columns of a part of the scan.
fn bind_columns(s: &mut Schedule, part: &Tensor, threads: i32) -> Result<te::Axis, TeError> {
    let stage = s.stage(part)?;
    let (outer, inner) = stage.split(part.axis(1)?, threads)?;
    stage.bind(outer, te::thread_axis("blockIdx.x"))?;
    stage.bind(inner, te::thread_axis("threadIdx.x"))?;
    Ok(inner)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(16)) })]

    /// One launch for each step, or one for all: the bits of the sequential recurrence.
    #[test]
    fn of_columns(
        steps in 2usize..9, width in 0usize..70, threads in 1i32..40, initial in 1i32..3,
        one_launch: bool, place in 0usize..3,
    ) {
        if lacks_nvrtc("scans::of_columns") {
            return Ok(());
        }
        let [x, doubled, init, update, scan] = recurrence(initial).unwrap();
        let mut s = te::create_schedule(&[&scan]);
        if one_launch {
            let axes = [te::thread_axis("blockIdx.x"), te::thread_axis("threadIdx.x")];
            s.stage(&scan).unwrap().env_threads(&axes).unwrap();
        }
        bind_columns(&mut s, &init, threads).unwrap();
        let inner = bind_columns(&mut s, &update, threads).unwrap();
        match place {
            0 => s.compute_at(&doubled, &update, inner).unwrap(),
            1 => s.compute_inline(&doubled).unwrap(),
            _ => { bind_columns(&mut s, &doubled, threads).unwrap(); }
        }
        check(&s, &x, &scan, steps.max(initial as usize), width).unwrap();
    }
}

/// TVM's example of two states; one of them reads another column: a launch for every step.
#[test]
fn two_states() -> Result<(), TeError> {
    if lacks_nvrtc("scans::two_states") {
        return Ok(());
    }
    let (m, n, l) = (te::var("m"), te::var("n"), te::var("l"));
    let x = te::placeholder([m, n], "X");
    let (state1, state2) = (te::placeholder([m, n], "s1"), te::placeholder([m, l], "s2"));
    let init1 = te::compute((1, n), "i1", |[_, i]| x.at((0, i)))?;
    let init2 = te::compute((1, l), "i2", |[_, _]| 0.0.into())?;
    let update1 = te::compute([m, n], "u1", |[t, i]| state1.at((t - 1, i)) + x.at([t, i]))?;
    let update2 = te::compute([m, l], "u2", |[t, i]| state2.at((t - 1, i)) + state1.at((t - 1, 0)))?;
    let inits = [init1.clone(), init2.clone()];
    let scans = te::scan_all(&inits, &[update1.clone(), update2.clone()], &[state1, state2], &[])?;
    for threads in [None, Some(8)] {
        let mut s = te::create_schedule(&[&scans[0]]);
        if let Some(threads) = threads {
            for part in [&init1, &init2, &update1, &update2] {
                bind_columns(&mut s, part, threads)?;
            }
        }
        let program = te::lower(&s, &[&x, &scans[0], &scans[1]], "main")?;
        let input = Numbers::new(ElementType::F32, &[6, 19], integers(6 * 19, 2));
        let outputs = [(ElementType::F32, vec![6, 19]), (ElementType::F32, vec![6, 5])];
        run(&program, &[input], &outputs).assert_equal();
    }
    Ok(())
}

/// `y[t, i] = y[t - 1, (i + 1) mod n] + x[t, i]`, scheduled in one launch; if `blocks`, also over blocks.
fn rotated(blocks: bool) -> Result<(Schedule, Tensor, Tensor), TeError> {
    let (m, n) = (te::var("m"), 24);
    let x = te::placeholder((m, n), "X");
    let state = te::placeholder((m, n), "state");
    let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
    let update = te::compute((m, n), "update", |[t, i]| state.at((t - 1, (i + 1) % n)) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, &[])?;
    let mut s = te::create_schedule(&[&scan]);
    let mut axes = vec![te::thread_axis("threadIdx.x")];
    if blocks {
        axes.insert(0, te::thread_axis("blockIdx.x"));
    }
    s.stage(&scan)?.env_threads(&axes)?;
    for part in [&init, &update] {
        if blocks {
            bind_columns(&mut s, part, 8)?;
        } else {
            s.stage(part)?.bind(part.axis(1)?, te::thread_axis("threadIdx.x"))?;
        }
    }
    Ok((s, x, scan))
}

/// Columns that read each other in one launch: the threads of a block wait for each other after every step.
#[test]
fn columns_of_one_block_that_read_each_other() -> Result<(), TeError> {
    if lacks_nvrtc("scans::columns_of_one_block_that_read_each_other") {
        return Ok(());
    }
    let (s, x, scan) = rotated(false)?;
    check(&s, &x, &scan, 7, 24)?;
    let source = te::lower(&s, &[&x, &scan], "main")?.build(device())?.source().to_owned();
    assert_eq!(source.matches("__syncthreads").count(), 2, "{source}");
    Ok(())
}

/// Blocks can't wait for each other: refused when the program is lowered.
#[test]
fn columns_of_several_blocks_that_read_each_other_are_refused() -> Result<(), TeError> {
    if lacks_nvrtc("scans::columns_of_several_blocks_that_read_each_other_are_refused") {
        return Ok(());
    }
    let (s, x, scan) = rotated(true)?;
    let error = te::lower(&s, &[&x, &scan], "main").unwrap_err();
    assert_eq!(
        error.to_string(),
        "blocks of one launch can't wait for each other, but one would use elements of scan that another writes; compute \
         scan in a launch of its own (`compute_root`), or let each block use what it computed itself"
    );
    Ok(())
}
