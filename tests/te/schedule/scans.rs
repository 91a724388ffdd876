//! Scans combined with other stages: consumers of a scan, caches of its state, slices of it computed inside a consumer.

use epilogue::ElementType;
use epilogue::te::{self, ScanError, TeError, Tensor};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

struct Recurrence {
    x: Tensor,
    init: Tensor,
    state: Tensor,
    between: Tensor,
    update: Tensor,
    scan: Tensor,
    doubled: Tensor,
}

/// `S[t, i] = 2 S[t - 1, i] + X[t, i]`, or of `S[t - 1, n - 1 - i]`; then `D = 2 S + 1`.
fn recurrence(m: i32, n: i32, mirrored: bool) -> Result<Recurrence, TeError> {
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute([1, n], "init", |[_, i]| x.at((0, i)))?;
    let between = te::compute([m, n], "between", |[t, i]| {
        let column = if mirrored { n - 1 - i } else { i + 0 };
        state.at((t - 1, column)) * 2.0
    })?;
    let update = te::compute([m, n], "update", |[t, i]| between.at([t, i]) + x.at([t, i]))?;
    let scan = te::scan(&init, &update, &state, std::slice::from_ref(&x))?;
    let doubled = te::compute([m, n], "D", |[t, i]| scan.at([t, i]) * 2.0 + 1.0)?;
    Ok(Recurrence { x, init, state, between, update, scan, doubled })
}

fn expected(x: &[f64], m: usize, n: usize, mirrored: bool) -> Vec<f64> {
    let mut state = x.to_vec();
    for t in 1..m {
        for i in 0..n {
            let from = if mirrored { n - 1 - i } else { i };
            state[t * n + i] = state[(t - 1) * n + from] * 2.0 + x[t * n + i];
        }
    }
    state.into_iter().map(|s| s * 2.0 + 1.0).collect()
}

/// Runs a schedule of a recurrence everywhere, on `m` steps of `n` columns.
fn assert_right(s: &te::Schedule, r: &Recurrence, [m, n]: [i32; 2], mirrored: bool, what: &str) -> Result<(), TeError> {
    let program = te::lower(s, &[&r.x, &r.doubled], "main")?;
    let shape = [m as usize, n as usize];
    let values = integers(shape[0] * shape[1], 5);
    let wanted = expected(&values, shape[0], shape[1], mirrored);
    let input = Numbers::new(ElementType::F32, &shape, values);
    let results = run(&program, &[input], &[(ElementType::F32, shape.to_vec())]);
    results.assert_equal();
    assert_eq!(results.interpreted[0], wanted, "{what}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Alone, or inside a loop over tiles of columns, where it computes only what the tile reads, if possible.
    #[test]
    fn beside_other_stages(
        (m, n) in (1i32..7, 1i32..12), tile in 1i32..5, mirrored: bool, inside: bool, block: bool, place in 0usize..3,
    ) {
        if lacks_nvrtc("scans::beside_other_stages") {
            return Ok(());
        }
        let r = recurrence(m, n, mirrored).unwrap();
        let mut s = te::create_schedule(&[&r.doubled]);
        let (t, i) = (r.doubled.axis(0).unwrap(), r.doubled.axis(1).unwrap());
        let stage = s.stage(&r.doubled).unwrap();
        let (io, ii) = stage.split(i, tile).unwrap();
        stage.reorder(&[io, t, ii]).unwrap();
        if block {
            stage.bind(io, te::thread_axis("blockIdx.x")).unwrap();
        }
        if inside {
            s.compute_at(&r.scan, &r.doubled, io).unwrap();
        }
        match place {
            0 => {}
            1 => s.compute_inline(&r.between).unwrap(),
            _ => s.compute_at(&r.between, &r.update, r.update.axis(1).unwrap()).unwrap(),
        }
        assert_right(&s, &r, [m, n], mirrored, "").unwrap();
    }
}

/// The memory of a slice has only the slice's size.
#[test]
fn a_slice_has_the_memory_of_a_slice() -> Result<(), TeError> {
    let length = |mirrored: bool| -> Result<String, TeError> {
        let r = recurrence(6, 32, mirrored)?;
        let mut s = te::create_schedule(&[&r.doubled]);
        let stage = s.stage(&r.doubled)?;
        let (io, ii) = stage.split(r.doubled.axis(1)?, 8)?;
        stage.reorder(&[io, r.doubled.axis(0)?, ii])?;
        s.compute_at(&r.scan, &r.doubled, io)?;
        s.compute_inline(&r.between)?;
        let script = te::lower(&s, &[&r.x, &r.doubled], "main")?.script();
        let line = script.lines().find(|line| line.contains("scan = T.allocate")).unwrap_or(&script);
        Ok(line.trim().to_owned())
    };
    assert_eq!(length(false)?, "scan = T.allocate([48], \"float32\", \"global\")");
    assert_eq!(length(true)?, "scan = T.allocate([192], \"float32\", \"global\")");
    Ok(())
}

/// A cache of the state is filled in every step.
#[test]
fn a_cache_of_the_state() -> Result<(), TeError> {
    if lacks_nvrtc("scans::a_cache_of_the_state") {
        return Ok(());
    }
    for inner in [false, true] {
        let r = recurrence(5, 9, false)?;
        let mut s = te::create_schedule(&[&r.doubled]);
        let near = s.cache_read(&r.state, "global", &[&r.between])?;
        if inner {
            s.compute_at(&near, &r.update, r.update.axis(1)?)?;
            s.compute_at(&r.between, &r.update, r.update.axis(1)?)?;
        }
        assert_right(&s, &r, [5, 9], false, "")?;
    }
    Ok(())
}

/// The threads around a scan share memory for what it starts from, and need different parts of it.
#[test]
fn a_cache_of_what_a_scan_starts_from() -> Result<(), TeError> {
    if lacks_nvrtc("scans::a_cache_of_what_a_scan_starts_from") {
        return Ok(());
    }
    for scope in ["local", "warp", "shared", "global"] {
        for thread in ["threadIdx.y", "vthread", "blockIdx.x"] {
            let r = recurrence(5, 8, false)?;
            let mut s = te::create_schedule(&[&r.doubled]);
            let near = s.cache_read(&r.x, scope, &[&r.init])?;
            let stage = s.stage(&r.doubled)?;
            let (outer, inner) = stage.split(r.doubled.axis(1)?, 4)?;
            stage.reorder(&[outer, r.doubled.axis(0)?, inner])?;
            stage.bind(outer, te::thread_axis(thread))?;
            s.compute_at(&r.scan, &r.doubled, outer)?;
            s.compute_at(&near, &r.init, r.init.axis(1)?)?;
            match assert_right(&s, &r, [5, 8], false, &format!("{scope}, {thread}")) {
                Err(TeError::Lowering(te::LoweringError::AcrossBlocks { .. })) => {
                    assert_eq!((scope, thread), ("global", "blockIdx.x"));
                }
                done => done?,
            }
        }
    }
    Ok(())
}

/// A tile of the input inside the scan's own loops, which may be split.
#[test]
fn stages_in_the_loop_over_time() -> Result<(), TeError> {
    if lacks_nvrtc("scans::stages_in_the_loop_over_time") {
        return Ok(());
    }
    let (m, n) = (6, 5);
    for (split, outermost, threads) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
        let r = recurrence(m, n, true)?;
        let mut s = te::create_schedule(&[&r.doubled]);
        let tile = s.cache_read(&r.x, if threads { "shared" } else { "local" }, &[&r.update])?;
        let mut loops = s.stage(&r.scan)?.loops().to_vec();
        if split {
            let (outer, inner) = s.stage(&r.scan)?.split(loops[0], 2)?;
            loops = vec![outer, inner];
        }
        if threads {
            let thread = te::thread_axis("threadIdx.x");
            s.stage(&r.scan)?.env_threads(&[thread])?;
            s.set_scope(&r.between, "shared")?;
            for (part, axis) in [(&r.update, r.update.axis(1)?), (&r.between, r.between.axis(1)?)] {
                s.stage(part)?.bind(axis, thread)?;
            }
        }
        s.compute_at(&tile, &r.scan, loops[if outermost { 0 } else { loops.len() - 1 }])?;
        assert_right(&s, &r, [m, n], true, &format!("{split} {outermost} {threads}"))?;
    }
    Ok(())
}

/// Taps of a filter: an update that sums over the steps before, itself or in a stage of its own.
#[test]
fn an_update_that_sums_over_steps() -> Result<(), TeError> {
    if lacks_nvrtc("scans::an_update_that_sums_over_steps") {
        return Ok(());
    }
    let (m, n) = (te::var("m"), te::var("n"));
    for between in [false, true] {
        let x = te::placeholder([m, n], "X");
        let taps = te::placeholder([4], "taps");
        let state = te::placeholder([m, n], "state");
        let init = te::compute((3, n), "init", |[t, i]| x.at([t, i]))?;
        let r = te::reduce_axis((1, 4), "r");
        let sum = te::compute([m, n], "sum", |[t, i]| te::sum(state.at((t - r, i)) * taps.at([r]), [r]))?;
        let plus = te::compute([m, n], "plus", |[t, i]| sum.at([t, i]) + x.at([t, i]))?;
        let update = if between { &plus } else { &sum };
        let scan = te::scan(&init, update, &state, &[])?;
        let program = te::lower(&te::create_schedule(&[&scan]), &[&x, &taps, &scan], "main")?;
        let (steps, columns) = (9, 4);
        let values = integers(steps * columns, 8);
        let weights = [7.0, 1.0, -2.0, 1.0];
        let mut wanted = values.clone();
        for at in 3 * columns..steps * columns {
            let taps: f64 = (1..4).map(|r| weights[r] * wanted[at - r * columns]).sum();
            wanted[at] = taps + if between { values[at] } else { 0.0 };
        }
        let shape = vec![steps, columns];
        let given =
            [Numbers::new(ElementType::F32, &shape, values), Numbers::new(ElementType::F32, &[4], weights.to_vec())];
        let results = run(&program, &given, &[(ElementType::F32, shape.clone())]);
        results.assert_equal();
        assert_eq!(results.interpreted[0], wanted);
    }
    // The taps begin at the current step.
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((3, n), "init", |[t, i]| x.at([t, i]))?;
    let r = te::reduce_axis((0, 4), "r");
    let sum = te::compute([m, n], "sum", |[t, i]| te::sum(state.at((t - r, i)), [r]))?;
    assert!(matches!(te::scan(&init, &sum, &state, &[]), Err(TeError::Scan(ScanError::Read { .. }))));
    Ok(())
}

/// A slice per thread is not possible if the threads share a stage of its body.
#[test]
fn a_slice_whose_body_threads_share() -> Result<(), TeError> {
    if lacks_nvrtc("scans::a_slice_whose_body_threads_share") {
        return Ok(());
    }
    let (m, n) = (4, 5);
    for scope in ["warp", "shared", "local"] {
        let r = recurrence(m, n, false)?;
        let mut s = te::create_schedule(&[&r.doubled]);
        s.set_scope(&r.between, scope)?;
        let stage = s.stage(&r.doubled)?;
        stage.reorder(&[r.doubled.axis(1)?, r.doubled.axis(0)?])?;
        stage.bind(r.doubled.axis(1)?, te::thread_axis("threadIdx.x"))?;
        s.compute_at(&r.scan, &r.doubled, r.doubled.axis(1)?)?;
        assert_right(&s, &r, [m, n], false, scope)?;
    }
    Ok(())
}
