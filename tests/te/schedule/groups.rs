//! Groups of stages, normal form, and inlining of all stages of a kind.

use epilogue::ElementType;
use epilogue::te::{self, Attach, Schedule, TeError, Tensor};
use expect_test::expect;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// `B = 2 A`, `C = B + 1`, `D = C²`, `E[i] = Σ_j D[i, j]`
fn chain() -> Result<[Tensor; 5], TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let b = te::compute([n, m], "B", |[i, j]| a.at([i, j]) * 2.0)?;
    let c = te::compute([n, m], "C", |[i, j]| b.at([i, j]) + 1.0)?;
    let d = te::compute([n, m], "D", |[i, j]| c.at([i, j]) * c.at([i, j]))?;
    let k = te::reduce_axis((0, m), "k");
    let e = te::compute([n], "E", |[i]| te::sum(d.at([i, k]), [k]))?;
    Ok([a, b, c, d, e])
}

fn agrees(s: &Schedule, a: &Tensor, e: &Tensor) -> Result<String, TeError> {
    let program = te::lower(s, &[a, e], "main")?;
    let values = integers(6 * 5, 2);
    let expected: Vec<f64> =
        values.chunks(5).map(|row| row.iter().map(|x| (2.0 * x + 1.0) * (2.0 * x + 1.0)).sum()).collect();
    let results = run(&program, &[Numbers::new(ElementType::F32, &[6, 5], values)], &[(ElementType::F32, vec![6])]);
    results.assert_equal();
    assert_eq!(results.interpreted[0], expected);
    Ok(program.script())
}

fn message<T: std::fmt::Debug>(result: Result<T, TeError>) -> String {
    result.expect_err("a mistake was accepted").to_string()
}

#[test]
fn a_group_is_placed_as_a_whole() -> Result<(), TeError> {
    if lacks_nvrtc("groups::a_group_is_placed_as_a_whole") {
        return Ok(());
    }
    let [a, b, c, d, e] = chain()?;
    let mut s = te::create_schedule(&[&e]);
    let group = s.create_group(&[&d], &[&a], false)?;
    let stage = s.stage(&e)?;
    stage.bind(e.axis(0)?, te::thread_axis("blockIdx.x"))?;
    s.group_compute_at(group, &e, e.axis(0)?)?;
    // Inside the group, stages are placed as usual.
    s.compute_at(&b, &c, c.axis(1)?)?;
    let program = te::lower(&s, &[&a, &e], "main")?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.handle, E: T.handle):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                n, m = T.int32(), T.int32()
                A_1 = T.match_buffer(A, (n, m), strides=("stride", "stride"), buffer_type="auto")
                E_1 = T.match_buffer(E, (n,), strides=("stride",), buffer_type="auto")
                blockIdx_x = T.launch_thread("blockIdx.x", n)
                C = T.allocate([m], "float32", "shared")
                D = T.allocate([m], "float32", "shared")
                B = T.allocate([1], "float32", "shared")
                C_1 = T.Buffer((m,), data=C, scope="shared")
                for j in range(m):
                    B_1 = T.Buffer((1,), data=B, scope="shared")
                    A_2 = T.Buffer((A_1.strides[0] * n,), data=A_1.data, buffer_type="auto")
                    B_1[0] = A_2[blockIdx_x * A_1.strides[0] + j * A_1.strides[1]] * T.float32(2.0)
                    C_1[j] = B_1[0] + T.float32(1.0)
                D_1 = T.Buffer((m,), data=D, scope="shared")
                for j in range(m):
                    D_1[j] = C_1[j] * C_1[j]
                E_2 = T.Buffer((E_1.strides[0] * n,), data=E_1.data, buffer_type="auto")
                E_2[blockIdx_x * E_1.strides[0]] = T.float32(0.0)
                for k in range(m):
                    E_2[blockIdx_x * E_1.strides[0]] = E_2[blockIdx_x * E_1.strides[0]] + D_1[k]
    "##]]
    .assert_eq(&program.script());
    assert!(matches!(s.normalize()?.stage(&d)?.place(), Attach::At(..)));
    let mut s = te::create_schedule(&[&e]);
    let group = s.create_group(&[&d], &[&b], true)?;
    s.group_compute_at(group, &e, e.axis(0)?)?;
    agrees(&s, &a, &e)?;
    s.group_compute_root(group)?;
    agrees(&s, &a, &e)?;
    Ok(())
}

#[test]
fn groups_in_groups() -> Result<(), TeError> {
    let [a, b, c, d, e] = chain()?;
    let mut s = te::create_schedule(&[&e]);
    let inner = s.create_group(&[&c], &[&b], true)?;
    let outer = s.create_group(&[&d], &[&b], true)?;
    s.group_compute_at(inner, &d, d.axis(0)?)?;
    s.group_compute_at(outer, &e, e.axis(0)?)?;
    let mut normal = s.normalize()?;
    let mut at = |tensor: &Tensor| match normal.stage(tensor).map(|stage| stage.place().clone()) {
        Ok(Attach::At(operation, _)) => operation.name().to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!((at(&b).as_str(), at(&d).as_str()), ("D", "E"));
    agrees(&s, &a, &e)?;
    // A part of a group that was created before.
    let [_, b, c, d, e] = chain()?;
    let mut s = te::create_schedule(&[&e]);
    s.create_group(&[&c], &[&b], true)?;
    expect!["the group of B, C: the new group would hold a part of it only; take all of it, or none"]
        .assert_eq(&message(s.create_group(&[&d], &[&c], true)));
    Ok(())
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let [a, b, c, d, e] = chain()?;
    let mut s = te::create_schedule(&[&e]);
    expect!["A: none of it is computed from the given inputs"].assert_eq(&message(s.create_group(&[&a], &[&b], false)));
    let group = s.create_group(&[&d], &[&b], false)?;
    expect!["the group of C, D can't be computed at D: it would be computed inside itself"]
        .assert_eq(&message(s.group_compute_at(group, &d, d.axis(0)?)));
    expect!["C can't be computed at E: it belongs to a group and can only be computed at another stage of it"]
        .assert_eq(&message(s.compute_at(&c, &e, e.axis(0)?)));
    expect!["i is not a loop of E; it is not part of its schedule, whose loops `loops()` gives"]
        .assert_eq(&message(s.group_compute_at(group, &e, d.axis(0)?)));
    s.group_compute_at(group, &e, e.axis(0)?)?;
    let all = s.create_group(&[&e], &[&b], true)?;
    let f = te::compute([3], "F", |[i]| e.at([i]))?;
    expect![
        "F is not part of this schedule; give a tensor from which its outputs are computed, or make a schedule of F"
    ]
    .assert_eq(&message(s.group_compute_at(all, &f, f.axis(0)?)));
    Ok(())
}

/// A stage that was placed at a loop stays there when the loop is split or fused.
#[test]
fn places_follow_loops() -> Result<(), TeError> {
    if lacks_nvrtc("groups::places_follow_loops") {
        return Ok(());
    }
    let [a, b, c, d, e] = chain()?;
    let mut s = te::create_schedule(&[&e]);
    let (i, j) = (d.axis(0)?, d.axis(1)?);
    s.compute_inline(&b)?;
    s.compute_at(&c, &d, j)?;
    let stage = s.stage(&d)?;
    let (_, inner) = stage.split(j, 2)?;
    agrees(&s, &a, &e)?;
    let mut s = te::create_schedule(&[&e]);
    s.compute_inline(&b)?;
    s.compute_at(&c, &d, j)?;
    s.stage(&d)?.fuse(i, j)?;
    agrees(&s, &a, &e)?;
    assert_eq!(inner.name(), "j.inner");
    Ok(())
}

#[test]
fn stages_of_a_kind_are_inlined() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n, n], "A");
    let v = te::placeholder([n], "V");
    let elem_wise = te::compute([n, n], "elem_wise", |[i, j]| a.at([i, j]) + 1.0)?;
    let broadcast = te::compute([n, n], "broadcast", |[i, j]| elem_wise.at([i, j]) * v.at([j]))?;
    let transposed = te::compute([n, n], "transposed", |[i, j]| broadcast.at([j, i]))?;
    let k = te::reduce_axis((0, n), "k");
    let sums = te::compute([n], "sums", |[i]| te::sum(transposed.at([i, k]), [k]))?;
    let out = te::compute([n], "out", |[i]| sums.at([i]) * 2.0)?;
    let inlined = |f: fn(&mut Schedule)| -> Result<Vec<String>, TeError> {
        let mut s = te::create_schedule(&[&out]);
        f(&mut s);
        let all = [&elem_wise, &broadcast, &transposed, &sums, &out];
        let mut names = Vec::new();
        for tensor in all {
            if matches!(s.stage(tensor)?.place(), Attach::Inline) {
                names.push(tensor.name());
            }
        }
        te::lower(&s, &[&a, &v, &out], "main")?;
        Ok(names)
    };
    assert_eq!(inlined(Schedule::auto_inline_elem_wise)?, ["elem_wise"]);
    assert_eq!(inlined(Schedule::auto_inline_broadcast)?, ["elem_wise", "broadcast"]);
    assert_eq!(inlined(Schedule::auto_inline_injective)?, ["elem_wise", "broadcast", "transposed"]);
    let mut s = te::create_schedule(&[&out]);
    s.stage(&transposed)?.split(transposed.axis(0)?, 4)?;
    s.auto_inline_injective();
    assert!(!matches!(s.stage(&transposed)?.place(), Attach::Inline), "it was scheduled");
    Ok(())
}
