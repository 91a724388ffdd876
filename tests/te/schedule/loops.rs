//! `fuse` of any number of loops, the empty fuse, splits without predication, and extents of split loops.

use epilogue::ElementType;
use epilogue::te::{self, Array, Axis, AxisKind, LoweringError, ScheduleError, TeError, Tensor};
use epilogue_runtime::testing::cases;
use expect_test::expect;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// `B[i] = Σ_k A[i, k]`
fn row_sums() -> Result<(Tensor, Tensor), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    Ok((a, b))
}

fn sums_agree(s: &te::Schedule, a: &Tensor, b: &Tensor, (n, m): (usize, usize)) -> Result<(), TeError> {
    let program = te::lower(s, &[a, b], "main")?;
    let values = integers(n * m, 4);
    let expected: Vec<f64> = values.chunks(m.max(1)).map(|row| row.iter().sum()).collect();
    let input = Numbers::new(ElementType::F32, &[n, m], values);
    let results = run(&program, &[input], &[(ElementType::F32, vec![n])]);
    results.assert_equal();
    assert_eq!(results.interpreted[0], if m == 0 { vec![0.0; n] } else { expected });
    Ok(())
}

#[test]
fn all_loops_of_a_stage_become_one() -> Result<(), TeError> {
    if lacks_nvrtc("loops::all_loops_of_a_stage_become_one") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder((n, m, 5), "A");
    let b = te::compute((n, m, 5), "B", |[i, j, k]| a.at([i, j, k]) * 3.0)?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let loops = stage.loops().to_vec();
    let fused = stage.fuse_all(&loops)?;
    assert_eq!(fused.name(), "i.j.fused.k.fused");
    let (outer, inner) = stage.split(fused, 32)?;
    stage.bind(outer, te::thread_axis("blockIdx.x"))?;
    stage.bind(inner, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    for (n, m) in [(3, 7), (0, 4), (16, 2)] {
        let input = Numbers::new(ElementType::F32, &[n, m, 5], integers(n * m * 5, 2));
        run(&program, &[input], &[(ElementType::F32, vec![n, m, 5])]).assert_equal();
    }
    Ok(())
}

#[test]
fn a_scalar_is_bound_through_the_empty_fuse() -> Result<(), TeError> {
    if lacks_nvrtc("loops::a_scalar_is_bound_through_the_empty_fuse") {
        return Ok(());
    }
    let m = te::var("m");
    let a = te::placeholder([m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute((), "B", |[]| te::sum(a.at([k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let only = stage.fuse_all(&[])?;
    assert_eq!((only.name(), only.kind()), ("singleton", AxisKind::Data));
    assert_eq!(stage.loops().first(), Some(&only));
    stage.bind(only, te::thread_axis("blockIdx.x"))?;
    stage.bind(k, te::thread_axis("threadIdx.x"))?;
    assert_eq!(
        stage.fuse_all(&[k]),
        Err(ScheduleError::AxisKind {
            primitive: "fuse",
            axis: "k".to_owned(),
            reason: "it is bound to a thread index; split it before that, and take the part that is not bound"
        }
        .into())
    );
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let only = stage.fuse_all(&[])?;
    stage.bind(only, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    let input = Numbers::new(ElementType::F32, &[9], integers(9, 3));
    run(&program, &[input], &[(ElementType::F32, vec![])]).assert_equal();
    Ok(())
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let (_, b) = row_sums()?;
    let (i, k) = (b.axis(0)?, b.reduce_axis(0)?);
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let refused = |result: Result<Axis, TeError>| result.expect_err("a mistake was accepted").to_string();
    let (io, ii) = stage.split(i, 4)?;
    let before = stage.loops().to_vec();
    let message = refused(stage.fuse_all(&[io, ii, ii]));
    expect!["i.inner is not a loop of B; it has been split or fused already, so give a loop that came of that"]
        .assert_eq(&message);
    let message = refused(stage.fuse_all(&[io, k]));
    expect!["i.outer and k can't be fused: only loops that directly follow each other can, so `reorder` them first"]
        .assert_eq(&message);
    assert_eq!(stage.loops(), before, "a refused fuse changes nothing");
    let foreign = te::reduce_axis((0, 3), "z");
    let message = refused(stage.fuse_all(&[foreign]));
    expect!["z is not a loop of B; it is not part of its schedule, whose loops `loops()` gives"].assert_eq(&message);
    let both = stage.fuse(ii, k)?;
    assert_eq!(both.kind(), AxisKind::Reduce);
    let refused = |result: Result<(), TeError>| result.expect_err("a mistake was accepted").to_string();
    let message = refused(stage.bind(both, te::thread_axis("threadIdx.x")));
    expect![
        "`bind` can't take i.inner.k.fused: it is fused of data and reduction axes, so threads would share no one sum"
    ]
    .assert_eq(&message);
    let message = refused(stage.vectorize(both));
    expect!["`vectorize` can't take i.inner.k.fused: its iterations add to one value; use rfactor first"]
        .assert_eq(&message);
    let message = refused(s.rfactor(&b, both).map(|_| ()));
    expect!["B can't be factored over i.inner.k.fused: a loop of it is fused of data and reduction axes; fuse after `rfactor`"]
        .assert_eq(&message);
    Ok(())
}

/// Threads keep the extent that they were given, for any split; other loops are shortened.
#[test]
fn constant_extents_below_the_factor() -> Result<(), TeError> {
    let a = te::placeholder([20, 3], "A");
    let b = te::compute([20, 3], "B", |[i, j]| a.at([i, j]) + 1.0)?;
    let script = |thread: bool, parts: bool| -> Result<String, TeError> {
        let mut s = te::create_schedule(&[&b]);
        let stage = s.stage(&b)?;
        let i = b.axis(0)?;
        let (outer, inner) = if parts { stage.split_parts(i, 32) } else { stage.split(i, 32) }?;
        if thread {
            stage.bind(if parts { outer } else { inner }, te::thread_axis("threadIdx.x"))?;
        }
        Ok(te::lower(&s, &[&a, &b], "main")?.script())
    };
    for parts in [false, true] {
        let threads = script(true, parts)?;
        assert!(threads.contains("T.launch_thread(\"threadIdx.x\", 32)") && threads.contains("< 20"), "{threads}");
        let plain = script(false, parts)?;
        assert!(plain.contains("T.grid(20, 3)") && !plain.contains("if "), "{plain}");
    }
    Ok(())
}

#[test]
fn a_split_without_predication_is_held_to_its_promise() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let split = |by: te::SplitBy| -> Result<te::Program, TeError> {
        let mut s = te::create_schedule(&[&b]);
        s.stage(&b)?.split_by(b.axis(0)?, by, true)?;
        te::lower(&s, &[&a, &b], "main")
    };
    for by in [te::SplitBy::Factor(8.into()), te::SplitBy::Parts(8.into())] {
        let program = split(by)?;
        assert!(!program.script().contains("likely"));
        for (n, kept) in [(16, true), (0, true), (12, false), (7, false)] {
            let values = integers(n * 3, 6);
            let input = Array::new(ElementType::F32, &[n, 3], &values)?;
            let mut arguments = [input, Array::unwritten(ElementType::F32, &[n])];
            let result = program.interpret(&mut arguments);
            assert_eq!(result.is_ok(), kept, "{n}: {result:?}");
            assert!(kept || matches!(result, Err(TeError::Lowering(LoweringError::SplitRemainder { .. }))));
            let mut sums = vec![0f32; n];
            let rows: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            let native = te::native::compile(&program)?;
            let mut arguments =
                [te::native::HostTensor::read(&rows, &[n, 3])?, te::native::HostTensor::write(&mut sums, &[n])?];
            let result = native.run(&mut arguments);
            assert_eq!(result.is_ok(), kept, "{n}: {result:?}");
        }
    }
    // 20 is not a multiple of 8, for any arguments.
    let a = te::placeholder([20], "A");
    let c = te::compute([20], "C", |[i]| a.at([i]) * 2.0)?;
    let mut s = te::create_schedule(&[&c]);
    s.stage(&c)?.split_by(c.axis(0)?, te::SplitBy::Factor(8.into()), true)?;
    let message = te::lower(&s, &[&a, &c], "main").expect_err("20 is not a multiple of 8").to_string();
    expect!["i of C is split without predication, which needs `24 == 20` (its extent is 20); split it with predication, or by what divides it"].assert_eq(&message);
    let mut s = te::create_schedule(&[&c]);
    s.stage(&c)?.split_by(c.axis(0)?, te::SplitBy::Factor(5.into()), true)?;
    assert!(te::lower(&s, &[&a, &c], "main")?.requirements.is_empty());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Loops over data and reduction axes, fused in any way and split again, give the same sums.
    #[test]
    fn fused_and_split_again(
        (n, m) in (0usize..13, 0usize..13),
        (rows, columns, again) in (1i32..6, 1i32..6, 1i32..20),
        order in 0usize..4, threads: bool,
    ) {
        if lacks_nvrtc("loops::fused_and_split_again") {
            return Ok(());
        }
        let (a, b) = row_sums().unwrap();
        let mut s = te::create_schedule(&[&b]);
        let stage = s.stage(&b).unwrap();
        let (i, k) = (b.axis(0).unwrap(), b.reduce_axis(0).unwrap());
        let (io, ii) = stage.split(i, rows).unwrap();
        let (ko, ki) = stage.split(k, columns).unwrap();
        let fused = match order {
            0 => stage.fuse_all(&[ii, ko, ki]).unwrap(),
            1 => stage.fuse(ii, ko).unwrap(),
            2 => {
                stage.reorder(&[ko, ii]).unwrap();
                stage.fuse_all(&[ko, ii]).unwrap()
            }
            _ => stage.fuse(ko, ki).unwrap(),
        };
        stage.split(fused, again).unwrap();
        if threads {
            stage.bind(io, te::thread_axis("blockIdx.x")).unwrap();
        }
        sums_agree(&s, &a, &b, (n, m)).unwrap();
    }
}

#[test]
fn primitives_are_on_record() -> Result<(), TeError> {
    let (a, b) = row_sums()?;
    let mut s = te::create_schedule(&[&b]);
    let (_, ki) = s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    let near = s.cache_read(&a, "shared", &[&b]);
    assert!(near.is_err(), "the loops are split already");
    let partial = s.rfactor(&b, ki)?;
    let i = s.operation(&b)?.axis(0)?;
    let (outer, inner) = s.stage(&b)?.split_parts(i, 4)?;
    s.stage(&b)?.bind(outer, te::thread_axis("blockIdx.x"))?;
    s.compute_at(&partial, &b, inner)?;
    s.stage(&b)?.fuse(inner, outer).expect_err("not in this order");
    assert_eq!(
        s.primitive_record(),
        [
            "s[B].split(k, factor=16)",
            "s.rfactor(B, k.inner, factor_axis=0)",
            "s[B].split(ax0, nparts=4)",
            "s[B].bind(ax0.outer, blockIdx.x)",
            "s[B.rf].compute_at(s[B], ax0.inner)",
        ]
    );
    Ok(())
}

/// One of several threads updates a tuple in shared memory, since all would compute the same. Elements that this thread
/// reads and then writes need no barrier, which the others would never reach.
#[test]
fn one_thread_of_several_updates_a_tuple() -> Result<(), TeError> {
    if lacks_nvrtc("loops::one_thread_of_several_updates_a_tuple") {
        return Ok(());
    }
    let (n, m) = (15, 11);
    let a = te::placeholder_of(ElementType::I32, [n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let pair = te::tuple_reducer(
        |x, y| vec![&x[0] + &y[0], x[1].max(&y[1])],
        |types| vec![te::Expr::constant(0.0, types[0]), te::Expr::constant(types[1].least(), types[1])],
        "pair",
    );
    let t = te::compute_all([n], "T", |[i]| pair.over_all(&[a.at([i, k]), a.at([i, k])], [k]))?;
    let mut s = te::create_schedule(&[&t[0], &t[1]]);
    let partial = s.rfactor(&t[0], k)?;
    let rows = s.operation(&t[0])?.axis(0)?;
    let stage = s.stage(&t[0])?;
    let (block, thread) = stage.split(rows, 4)?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&partial, &t[0], thread)?;
    s.set_scope(&partial, "shared")?;
    let own = s.stage(&partial)?.loops()[1];
    let (_, inner) = s.stage(&partial)?.split(own, 5)?;
    s.stage(&partial)?.bind(inner, te::thread_axis("threadIdx.z"))?;
    let program = te::lower(&s, &[&a, &t[0], &t[1]], "main")?;
    let values = integers((n * m) as usize, 3);
    let rows = values.chunks(m as usize);
    let wanted: [Vec<f64>; 2] = [
        rows.clone().map(|row| row.iter().sum()).collect(),
        rows.map(|row| row.iter().copied().fold(-9.0, f64::max)).collect(),
    ];
    let given = Numbers::new(ElementType::I32, &[n as usize, m as usize], values);
    let results =
        run(&program, &[given], &[(ElementType::I32, vec![n as usize]), (ElementType::I32, vec![n as usize])]);
    results.assert_equal();
    assert_eq!(results.interpreted, wanted);
    Ok(())
}

/// One of several threads updates a tuple of fewer elements than threads: a test leaves one thread.
#[test]
fn one_thread_of_several_has_the_only_element() -> Result<(), TeError> {
    if lacks_nvrtc("loops::one_thread_of_several_has_the_only_element") {
        return Ok(());
    }
    let a = te::placeholder_of(ElementType::I32, [1, 7], "A");
    let k = te::reduce_axis((0, 7), "k");
    let pair = te::tuple_reducer(
        |x, y| vec![&x[0] + &y[0], &x[1] + &y[1]],
        |types| types.iter().map(|dtype| te::Expr::constant(0.0, *dtype)).collect(),
        "pair",
    );
    let t = te::compute_all([1], "T", |[i]| pair.over_all(&[a.at([i, k]), a.at([i, k]) * 2], [k]))?;
    let mut s = te::create_schedule(&[&t[0], &t[1]]);
    let rows = s.operation(&t[0])?.axis(0)?;
    let stage = s.stage(&t[0])?;
    let one = stage.fuse_all(&[])?;
    let (block, thread) = stage.split(one, 4)?;
    stage.reorder(&[block, thread, rows])?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&a, &t[0], &t[1]], "main")?;
    let values = integers(7, 3);
    let sum: f64 = values.iter().sum();
    let given = Numbers::new(ElementType::I32, &[1, 7], values);
    let results = run(&program, &[given], &[(ElementType::I32, vec![1]), (ElementType::I32, vec![1])]);
    results.assert_equal();
    assert_eq!(results.interpreted, [vec![sum], vec![2.0 * sum]]);
    Ok(())
}
