//! `cache_write` for all tensors of a computation, and with loops that were scheduled before as the cache's layout.

use epilogue::ElementType;
use epilogue::te::{self, Array, Expr, TeError, Tensor};
use epilogue_runtime::testing::cases;
use expect_test::expect;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

fn message<T: std::fmt::Debug>(result: Result<T, TeError>) -> String {
    result.expect_err("a mistake was accepted").to_string()
}

fn shape(tensor: &Tensor) -> String {
    format!("{:?}", tensor.shape().iter().map(|x| x.as_int().unwrap_or(-1)).collect::<Vec<_>>())
}

/// The four cases of TVM's own tests of a new layout.
#[test]
fn loops_scheduled_before_are_the_layout() -> Result<(), TeError> {
    if lacks_nvrtc("cache_write::loops_scheduled_before_are_the_layout") {
        return Ok(());
    }
    let (m, n) = (te::var("m"), te::var("n"));
    // Reordered.
    let a = te::placeholder([m, n], "A");
    let b = te::placeholder([m, n], "B");
    let c = te::compute([m, n], "C", |[i, j]| a.at([i, j]) * b.at([i, j]))?;
    let mut s = te::create_schedule(&[&c]);
    s.stage(&c)?.reorder(&[c.axis(1)?, c.axis(0)?])?;
    let cc = s.cache_write(&c, "global")?;
    assert_eq!(cc.axis(0)?.name(), "j.c");
    let program = te::lower(&s, &[&a, &b, &c], "main")?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.handle, B: T.handle, C: T.handle):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                m, n = T.int32(), T.int32()
                A_1 = T.match_buffer(A, (m, n), strides=("stride", "stride"), buffer_type="auto")
                B_1 = T.match_buffer(B, (m, n), strides=("stride", "stride"), buffer_type="auto")
                C_1 = T.match_buffer(C, (m, n), strides=("stride", "stride"), buffer_type="auto")
                C_global = T.allocate([n * m], "float32", "global")
                C_global_1 = T.Buffer((n * m,), data=C_global)
                for j_c, i_c in T.grid(n, m):
                    A_2 = T.Buffer((A_1.strides[0] * m,), data=A_1.data, buffer_type="auto")
                    B_2 = T.Buffer((B_1.strides[0] * m,), data=B_1.data, buffer_type="auto")
                    C_global_1[j_c * m + i_c] = A_2[i_c * A_1.strides[0] + j_c * A_1.strides[1]] * B_2[i_c * B_1.strides[0] + j_c * B_1.strides[1]]
                for i, j in T.grid(m, n):
                    C_2 = T.Buffer((C_1.strides[0] * m,), data=C_1.data, buffer_type="auto")
                    C_2[i * C_1.strides[0] + j * C_1.strides[1]] = C_global_1[j * m + i]
    "##]].assert_eq(&program.script());
    let inputs = [1, 2].map(|seed| Numbers::new(ElementType::F32, &[5, 3], integers(15, seed)));
    run(&program, &inputs, &[(ElementType::F32, vec![5, 3])]).assert_equal();
    // Split and reordered.
    let a = te::placeholder((m * 4, n), "A");
    let c = te::compute((m * 4, n), "C", |[i, j]| a.at([i, j]) * 2.0)?;
    let mut s = te::create_schedule(&[&c]);
    let (xo, xi) = s.stage(&c)?.split(c.axis(0)?, 4)?;
    s.stage(&c)?.reorder(&[xo, c.axis(1)?, xi])?;
    let cc = s.cache_write(&c, "global")?;
    assert_eq!(shape(&cc), "[-1, -1, 4]");
    let program = te::lower(&s, &[&a, &c], "main")?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.handle, C: T.handle):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                m, n = T.int32(), T.int32()
                A_1 = T.match_buffer(A, (m * 4, n), strides=("stride", "stride"), buffer_type="auto")
                C_1 = T.match_buffer(C, (m * 4, n), strides=("stride", "stride"), buffer_type="auto")
                C_global = T.allocate([m * n * 4], "float32", "global")
                C_global_1 = T.Buffer((m * n * 4,), data=C_global)
                for i_outer_c, j_c, i_inner_c in T.grid(m, n, 4):
                    A_2 = T.Buffer((A_1.strides[0] * (m * 4),), data=A_1.data, buffer_type="auto")
                    C_global_1[i_outer_c * (n * 4) + j_c * 4 + i_inner_c] = A_2[(i_outer_c * 4 + i_inner_c) * A_1.strides[0] + j_c * A_1.strides[1]] * T.float32(2.0)
                for i, j in T.grid(m * 4, n):
                    C_2 = T.Buffer((C_1.strides[0] * (m * 4),), data=C_1.data, buffer_type="auto")
                    C_2[i * C_1.strides[0] + j * C_1.strides[1]] = C_global_1[i // 4 * (n * 4) + j * 4 + i % 4]
    "##]].assert_eq(&program.script());
    // A reduction.
    let a = te::placeholder((12, n), "A");
    let b = te::placeholder((12, n), "B");
    let k = te::reduce_axis((0, n), "k");
    let c = te::compute([12], "C", |[i]| te::sum(a.at([i, k]) * b.at([i, k]), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    s.stage(&c)?.split(c.axis(0)?, 4)?;
    let cc = s.cache_write(&c, "global")?;
    // The reduction axis is the cache's now.
    s.stage(&cc)?.split(k, 2)?;
    let program = te::lower(&s, &[&a, &b, &c], "main")?;
    let (rows, columns) = (12, 5);
    let values = [3, 4].map(|seed| integers(rows * columns, seed));
    let mut arguments: Vec<Array> = Vec::new();
    for values in &values {
        arguments.push(Array::new(ElementType::F32, &[rows, columns], values)?);
    }
    arguments.push(Array::unwritten(ElementType::F32, &[rows]));
    program.interpret(&mut arguments)?;
    let dot = |i: usize| (0..columns).map(|k| values[0][i * columns + k] * values[1][i * columns + k]).sum();
    assert_eq!(arguments[2].values(), (0..rows).map(dot).collect::<Vec<f64>>());
    Ok(())
}

#[test]
fn all_tensors_of_a_computation() -> Result<(), TeError> {
    if lacks_nvrtc("cache_write::all_tensors_of_a_computation") {
        return Ok(());
    }
    let (m, n) = (te::var("m"), te::var("n"));
    let a = te::placeholder([m, n], "A");
    let b = te::placeholder([m, n], "B");
    let both = te::compute_all([m, n], "C", |[i, j]| vec![a.at([i, j]) + 1.0, b.at([i, j]) * 0.5])?;
    let mut s = te::create_schedule(&[&both[0], &both[1]]);
    s.stage(&both[0])?.reorder(&[both[0].axis(1)?, both[0].axis(0)?])?;
    expect!["no cache of C.v0 can be made: it is one of several tensors computed together; give all of them"]
        .assert_eq(&message(s.cache_write(&both[0], "local")));
    expect!["no cache of C.v0 can be made: the tensors given with it are not those of one computation, each once"]
        .assert_eq(&message(s.cache_write_all(&[&both[0], &both[0]], "local")));
    let caches = s.cache_write_all(&[&both[1], &both[0]], "local")?;
    assert_eq!([caches[0].value(), caches[1].value()], [1, 0]);
    let stage = s.stage(&both[0])?;
    let (i, j) = (both[0].axis(0)?, both[0].axis(1)?);
    stage.bind(i, te::thread_axis("blockIdx.x"))?;
    stage.bind(j, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&caches[0], &both[0], j)?;
    let program = te::lower(&s, &[&a, &b, &both[0], &both[1]], "main")?;
    let inputs = [1, 2].map(|seed| Numbers::new(ElementType::F32, &[4, 7], integers(28, seed)));
    let output = (ElementType::F32, vec![4, 7]);
    run(&program, &inputs, &[output.clone(), output]).assert_equal();
    Ok(())
}

#[test]
fn an_argmax() -> Result<(), TeError> {
    let argmax = te::tuple_reducer(
        |x, y| {
            let first = x[1].clone().greater_equal(&y[1]);
            vec![first.clone().select(&x[0], &y[0]), first.select(&x[1], &y[1])]
        },
        |types| vec![Expr::constant(-1.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
        "argmax",
    );
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let both = te::compute_all([n], "best", |[i]| argmax.over_all(&[k.into(), a.at([i, k])], [k]))?;
    let mut s = te::create_schedule(&[&both[0], &both[1]]);
    s.stage(&both[0])?.split(both[0].axis(0)?, 4)?;
    s.cache_write_all(&[&both[0], &both[1]], "global")?;
    let program = te::lower(&s, &[&a, &both[0], &both[1]], "main")?;
    let input = Array::new(ElementType::F32, &[3, 3], &[1.0, 5.0, 2.0, 9.0, -1.0, 3.0, 0.0, 0.0, 7.0])?;
    let mut arguments = [input, Array::unwritten(ElementType::I32, &[3]), Array::unwritten(ElementType::F32, &[3])];
    program.interpret(&mut arguments)?;
    assert_eq!(arguments[1].values(), [1.0, 0.0, 2.0]);
    assert_eq!(arguments[2].values(), [5.0, 9.0, 7.0]);
    Ok(())
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    let mut s = te::create_schedule(&[&b]);
    expect!["no cache of A can be made: it is not computed"].assert_eq(&message(s.cache_write(&a, "local")));
    expect!["`register` is not a memory scope; there are global, shared, warp and local"]
        .assert_eq(&message(s.cache_write(&b, "register")));
    expect!["no cache of an empty list can be made: give all tensors of one computation"]
        .assert_eq(&message(s.cache_write_all(&[], "local")));
    s.stage(&b)?.split(k, 4)?;
    expect!["no cache of B can be made: only data axes can be laid out anew; split and fuse the cache's reduction axes instead"].assert_eq(&message(s.cache_write(&b, "local")));
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.bind(b.axis(0)?, te::thread_axis("threadIdx.x"))?;
    expect![
        "no cache of B can be made: its loops are bound or marked already; make the cache first, and schedule that"
    ]
    .assert_eq(&message(s.cache_write(&b, "local")));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    /// Any splits, fusion and order of a sum's or a product's loops before the cache is created, with tails.
    #[test]
    fn any_layout(
        (n, m, l) in (0usize..9, 0usize..9, 0usize..5),
        (rows, columns) in (1i32..6, 1i32..6),
        fuse: bool, swap: bool, sum: bool, block: bool,
    ) {
        if lacks_nvrtc("cache_write::any_layout") {
            return Ok(());
        }
        let (nv, mv, lv) = (te::var("n"), te::var("m"), te::var("l"));
        let a = te::placeholder([nv, mv, lv], "A");
        let k = te::reduce_axis((0, lv), "k");
        let c = te::compute([nv, mv], "C", |[i, j]| {
            if sum { te::sum(a.at([i, j, k]) * 3.0, [k]) } else { (i * 10 + j).cast(te::DType::F32) }
        }).unwrap();
        let mut s = te::create_schedule(&[&c]);
        let stage = s.stage(&c).unwrap();
        let (i, j) = (c.axis(0).unwrap(), c.axis(1).unwrap());
        let (io, jo, ii, ji) = stage.tile(i, j, rows, columns).unwrap();
        if swap {
            stage.reorder(&[jo, io, ji, ii]).unwrap();
        }
        if fuse {
            let pair = if swap { [jo, io] } else { [io, jo] };
            stage.fuse_all(&pair).unwrap();
        }
        let cache = s.cache_write(&c, "global").unwrap();
        if block {
            let outer = s.stage(&cache).unwrap().loops()[0];
            s.stage(&cache).unwrap().bind(outer, te::thread_axis("blockIdx.x")).unwrap();
            s.stage(&c).unwrap().bind(i, te::thread_axis("blockIdx.x")).unwrap();
        }
        let mut given: Vec<Numbers> = Vec::new();
        let mut arguments = Vec::new();
        // Without a sum, there is no input to take its sizes from, only its output.
        if sum {
            arguments.push(&a);
            given.push(Numbers::new(ElementType::F32, &[n, m, l], integers(n * m * l, 7)));
        }
        arguments.push(&c);
        let program = te::lower(&s, &arguments, "main").unwrap();
        let results = run(&program, &given, &[(ElementType::F32, vec![n, m])]);
        results.assert_equal();
        let expected = |e: usize| if sum {
            given[0].values[e * l..(e + 1) * l].iter().map(|x| x * 3.0).sum()
        } else {
            (e / m * 10 + e % m) as f64
        };
        prop_assert_eq!(&results.interpreted[0], &(0..n * m).map(expected).collect::<Vec<f64>>());
    }
}

/// If a layout has more elements than the tensor, the initial value of a reduction is not read outside of the tensor.
#[test]
fn a_start_is_read_inside_only() -> Result<(), TeError> {
    if lacks_nvrtc("cache_write::a_start_is_read_inside_only") {
        return Ok(());
    }
    let (n, m) = (5, 3);
    let [a, first] = [vec![n, m], vec![n]].map(|shape| te::placeholder_of(ElementType::I32, shape, "x"));
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum_reducer().over_from(a.at([i, k]), [k], first.at([i])))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    stage.split(b.axis(0)?, 4)?;
    s.cache_write(&b, "local")?;
    let program = te::lower(&s, &[&a, &first, &b], "main")?;
    let (values, starts) = (integers((n * m) as usize, 1), integers(n as usize, 2));
    let sums = values.chunks(m as usize).zip(&starts).map(|(row, start)| row.iter().sum::<f64>() + start);
    let wanted: Vec<f64> = sums.collect();
    let given = [
        Numbers::new(ElementType::I32, &[n as usize, m as usize], values),
        Numbers::new(ElementType::I32, &[n as usize], starts),
    ];
    let results = run(&program, &given, &[(ElementType::I32, vec![n as usize])]);
    results.assert_equal();
    assert_eq!(results.interpreted, [wanted]);
    Ok(())
}
