//! Pragmas: unrolling with TVM's rules, skipped regions, and those of parallel loops.

use epilogue::ElementType;
use epilogue::te::{self, Array, Schedule, TeError, Tensor, UnrollConfig};
use epilogue_runtime::testing::cases;
use expect_test::expect;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

fn doubled(n: i32) -> Result<(Tensor, Tensor), TeError> {
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) * 2.0)?;
    Ok((a, b))
}

fn body(s: &Schedule, tensors: &[&Tensor]) -> Result<String, TeError> {
    let script = te::lower(s, tensors, "main")?.script();
    let from = script.find("T.func_attr").and_then(|at| script[at..].find('\n').map(|end| at + end + 1));
    let lines = script[from.unwrap_or_default()..].lines();
    // Without the function's own indentation, as `expect!` has its text.
    Ok(lines.map(|line| format!("{}\n", line.strip_prefix("        ").unwrap_or(line))).collect())
}

#[test]
fn loops_of_few_steps_are_written_out() -> Result<(), TeError> {
    let (a, b) = doubled(64)?;
    let mut s = te::create_schedule(&[&b]);
    let (outer, inner) = s.stage(&b)?.split(b.axis(0)?, 4)?;
    s.stage(&b)?.pragma(outer, "auto_unroll_max_step", 16)?;
    expect![[r#"
                for i_outer in range(16):
                    B_1 = T.Buffer((64,), data=B.data)
                    A_1 = T.Buffer((64,), data=A.data)
                    cse_var_1: T.int32 = i_outer * 4
                    B_1[cse_var_1] = A_1[cse_var_1] * T.float32(2.0)
                    cse_var_2: T.int32 = i_outer * 4 + 1
                    B_1[cse_var_2] = A_1[cse_var_2] * T.float32(2.0)
                    cse_var_3: T.int32 = i_outer * 4 + 2
                    B_1[cse_var_3] = A_1[cse_var_3] * T.float32(2.0)
                    cse_var_4: T.int32 = i_outer * 4 + 3
                    B_1[cse_var_4] = A_1[cse_var_4] * T.float32(2.0)
    "#]]
    .assert_eq(&body(&s, &[&a, &b])?);
    // Marked only.
    s.stage(&b)?.pragma(outer, "unroll_explicit", false)?;
    expect![[r#"
                for i_outer in range(16):
                    for i_inner in T.unroll(4):
                        B_1 = T.Buffer((64,), data=B.data)
                        A_1 = T.Buffer((64,), data=A.data)
                        cse_var_1: T.int32 = i_outer * 4 + i_inner
                        B_1[cse_var_1] = A_1[cse_var_1] * T.float32(2.0)
    "#]]
    .assert_eq(&body(&s, &[&a, &b])?);
    // Too many steps.
    s.stage(&b)?.pragma(outer, "auto_unroll_max_step", 3)?;
    expect![[r#"
                for i_outer, i_inner in T.grid(16, 4):
                    B_1 = T.Buffer((64,), data=B.data)
                    A_1 = T.Buffer((64,), data=A.data)
                    cse_var_1: T.int32 = i_outer * 4 + i_inner
                    B_1[cse_var_1] = A_1[cse_var_1] * T.float32(2.0)
    "#]]
    .assert_eq(&body(&s, &[&a, &b])?);
    // A marked loop is unrolled if unrolling is explicit.
    s.stage(&b)?.pragma(outer, "unroll_explicit", true)?;
    s.stage(&b)?.unroll(inner)?;
    expect![[r#"
                for i_outer in range(16):
                    B_1 = T.Buffer((64,), data=B.data)
                    A_1 = T.Buffer((64,), data=A.data)
                    cse_var_1: T.int32 = i_outer * 4
                    B_1[cse_var_1] = A_1[cse_var_1] * T.float32(2.0)
                    cse_var_2: T.int32 = i_outer * 4 + 1
                    B_1[cse_var_2] = A_1[cse_var_2] * T.float32(2.0)
                    cse_var_3: T.int32 = i_outer * 4 + 2
                    B_1[cse_var_3] = A_1[cse_var_3] * T.float32(2.0)
                    cse_var_4: T.int32 = i_outer * 4 + 3
                    B_1[cse_var_4] = A_1[cse_var_4] * T.float32(2.0)
    "#]]
    .assert_eq(&body(&s, &[&a, &b])?);
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
    let most = |auto_max_step| UnrollConfig { auto_max_step, ..UnrollConfig::default() };
    assert_eq!(program.unrolled(&most(63))?, program);
    assert_eq!(program.unrolled(&most(64))?.script().matches(" * T.float32").count(), 64);
    Ok(())
}

#[test]
fn parallel_regions() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) * 2.0)?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (xo, xi) = stage.split(b.axis(0)?, 4)?;
    let (xo1, xo2) = stage.split(xo, 13)?;
    stage.parallel(xo2)?;
    stage.pragma(xo1, "parallel_launch_point", ())?;
    stage.pragma(xo2, "parallel_stride_pattern", ())?;
    stage.pragma(xo2, "parallel_barrier_when_finish", ())?;
    stage.vectorize(xi)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    expect![[r#"
                n = T.int32()
                A_1 = T.match_buffer(A, (n,), strides=("stride",), buffer_type="auto")
                B_1 = T.match_buffer(B, (n,), strides=("stride",), buffer_type="auto")
                T.attr(T.iter_var(i_outer_outer, None, "DataPar", ""), "pragma_parallel_launch_point", 1)
                for i_outer_outer in range(((n + 3) // 4 + 12) // 13):
                    T.attr(T.iter_var(i_outer_inner, None, "DataPar", ""), "pragma_parallel_stride_pattern", 1)
                    T.attr(T.iter_var(i_outer_inner, None, "DataPar", ""), "pragma_parallel_barrier_when_finish", 1)
                    for i_outer_inner in T.parallel(13):
                        for i_inner in T.vectorized(4):
                            if T.likely(i_outer_outer * 52 + i_outer_inner * 4 + i_inner < n):
                                if T.likely(i_outer_outer * 13 + i_outer_inner < (n + 3) // 4):
                                    B_2 = T.Buffer((B_1.strides[0] * n,), data=B_1.data, buffer_type="auto")
                                    A_2 = T.Buffer((A_1.strides[0] * n,), data=A_1.data, buffer_type="auto")
                                    cse_var_1: T.int32 = i_outer_outer * 52 + i_outer_inner * 4 + i_inner
                                    B_2[cse_var_1 * B_1.strides[0]] = A_2[cse_var_1 * A_1.strides[0]] * T.float32(2.0)
    "#]]
    .assert_eq(&body(&s, &[&a, &b])?);
    if !lacks_nvrtc("pragmas::parallel_regions") {
        for n in [0, 3, 104, 107] {
            let input = Numbers::new(ElementType::F32, &[n], integers(n, 3));
            run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
        }
    }
    Ok(())
}

#[test]
fn a_skipped_region_is_not_computed() -> Result<(), TeError> {
    let (a, b) = doubled(4)?;
    let c = te::compute([4], "C", |[i]| a.at([i]) + 1.0)?;
    let mut s = te::create_schedule(&[&b, &c]);
    s.stage(&b)?.pragma(b.axis(0)?, "debug_skip_region", ())?;
    let program = te::lower(&s, &[&a, &b, &c], "main")?;
    let mut arguments = [
        Array::new(ElementType::F32, &[4], &[1.0, 2.0, 3.0, 4.0])?,
        Array::unwritten(ElementType::F32, &[4]),
        Array::unwritten(ElementType::F32, &[4]),
    ];
    program.interpret(&mut arguments)?;
    assert!(arguments[1].values().iter().all(|x| x.is_nan()));
    assert_eq!(arguments[2].values(), [2.0, 3.0, 4.0, 5.0]);
    Ok(())
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) * 2.0)?;
    let i = b.axis(0)?;
    let said = |key: &str, value: te::PragmaValue| -> Result<String, TeError> {
        let mut s = te::create_schedule(&[&b]);
        let result = s.stage(&b)?.pragma(i, key, value).and_then(|()| te::lower(&s, &[&a, &b], "main").map(|_| ()));
        Ok(result.expect_err("a mistake was accepted").to_string())
    };
    expect!["the pragma `import_c`: `import_c` brings code of another language, which not every target could run; write an elementwise function with a CUDA body, or tensor expressions"].assert_eq(&said("import_c", "int x;".into())?);
    expect!["the pragma `import_llvm`: `import_llvm` brings code of another language, which not every target could run; write an elementwise function with a CUDA body, or tensor expressions"].assert_eq(&said("import_llvm", ().into())?);
    expect!["the pragma `tensor_core`: there are auto_unroll_max_step, unroll_explicit, debug_skip_region, parallel_launch_point, parallel_stride_pattern and parallel_barrier_when_finish"].assert_eq(&said("tensor_core", ().into())?);
    expect!["the pragma `auto_unroll_max_step`: the value -1 was given; it takes a number of steps, 0 or more"]
        .assert_eq(&said("auto_unroll_max_step", (-1).into())?);
    expect!["the pragma `unroll_explicit`: the value 2 was given; it takes 0 or 1"]
        .assert_eq(&said("unroll_explicit", 2.into())?);
    expect!["the pragma `parallel_stride_pattern`: at i: no threads are launched around it; put `parallel_launch_point` at a loop outside"].assert_eq(&said("parallel_stride_pattern", ().into())?);
    expect!["the pragma `parallel_barrier_when_finish`: at i: there are no threads to wait for; put `parallel_launch_point` at a loop outside"].assert_eq(&said("parallel_barrier_when_finish", ().into())?);
    let mut s = te::create_schedule(&[&b]);
    let (outer, inner) = s.stage(&b)?.split(i, 4)?;
    s.stage(&b)?.parallel(outer)?;
    s.stage(&b)?.pragma(inner, "parallel_barrier_when_finish", ())?;
    let refused = |s: &Schedule| te::lower(s, &[&a, &b], "main").expect_err("a mistake was accepted").to_string();
    expect!["the pragma `parallel_barrier_when_finish`: at i.inner: inside a parallel loop threads do different iterations; put it outside of that loop"].assert_eq(&refused(&s));
    // A marked loop whose extent is not known.
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.unroll(i)?;
    s.stage(&b)?.pragma(i, "unroll_explicit", true)?;
    expect!["the loop over i (extent n) can't be unrolled: only a constant number of iterations can be written out; split the loop by a constant"].assert_eq(&refused(&s));
    Ok(())
}

/// An index expression that a store repeats gets a name. It may be negative, so its test stays.
#[test]
fn a_shared_index_may_be_negative() -> Result<(), TeError> {
    let a = te::placeholder([6], "A");
    let b = te::compute([8], "B", |[i]| {
        let at = i - 1;
        at.greater_equal(0).and(at.less(6)).select(a.at([at]), 0.0)
    })?;
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
    assert!(program.script().contains("cse_var_1 >= 0"));
    let given: Vec<f64> = (1..7).map(f64::from).collect();
    for config in [UnrollConfig::default(), UnrollConfig { explicit: false, ..UnrollConfig::default() }] {
        let mut arrays = [Array::new(ElementType::F32, &[6], &given)?, Array::unwritten(ElementType::F32, &[8])];
        program.unrolled(&config)?.interpret(&mut arrays)?;
        assert_eq!(arrays[1].values(), [&[0.0], &given[..], &[0.0]].concat());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(16)) })]

    /// Unrolling never changes the results: with tails, with reductions, with a stage computed inside.
    #[test]
    fn unrolled_programs_compute_the_same(
        (n, m) in (0usize..9, 0usize..9), (rows, columns) in (1i32..5, 1i32..5),
        steps in 0i64..60, explicit: bool, marked: bool, inside: bool, threads: bool,
    ) {
        if lacks_nvrtc("pragmas::unrolled_programs_compute_the_same") {
            return Ok(());
        }
        let (nv, mv) = (te::var("n"), te::var("m"));
        let a = te::placeholder([nv, mv], "A");
        let p = te::compute([nv, mv], "P", |[i, j]| a.at([i, j]) * 3.0).unwrap();
        let k = te::reduce_axis((0, mv), "k");
        let b = te::compute([nv], "B", |[i]| te::sum(p.at([i, k]), [k])).unwrap();
        let mut s = te::create_schedule(&[&b]);
        let stage = s.stage(&b).unwrap();
        let (io, ii) = stage.split(b.axis(0).unwrap(), rows).unwrap();
        let (_, ki) = stage.split(k, columns).unwrap();
        if threads {
            stage.bind(io, te::thread_axis("blockIdx.x")).unwrap();
        }
        if marked {
            stage.unroll(ki).unwrap();
        }
        stage.pragma(io, "auto_unroll_max_step", steps).unwrap();
        stage.pragma(io, "unroll_explicit", explicit).unwrap();
        if inside {
            s.compute_at(&p, &b, ii).unwrap();
            let loops = s.stage(&p).unwrap().loops().to_vec();
            s.stage(&p).unwrap().pragma(loops[1], "auto_unroll_max_step", 8).unwrap();
        } else {
            s.compute_inline(&p).unwrap();
        }
        // In a thread's own memory an extent must be constant; elsewhere it can be any.
        let input = Numbers::new(ElementType::F32, &[n, m], integers(n * m, 5));
        let program = te::lower(&s, &[&a, &b], "main").unwrap();
        if inside {
            let mut arguments =
                [Array::new(ElementType::F32, &[n, m], &input.values).unwrap(), Array::unwritten(ElementType::F32, &[n])];
            program.interpret(&mut arguments).unwrap();
            let plain = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main").unwrap();
            let mut expected =
                [Array::new(ElementType::F32, &[n, m], &input.values).unwrap(), Array::unwritten(ElementType::F32, &[n])];
            plain.interpret(&mut expected).unwrap();
            prop_assert_eq!(arguments[1].values(), expected[1].values());
        } else {
            run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
        }
    }
}
