//! Every misuse of tensor expressions and schedules is a typed error that names the axis or tensor.

#![allow(clippy::unwrap_used, reason = "tests")]

use epilogue::ElementType;
use epilogue::te::{self, Array, Expr, TeError, Tensor};
use expect_test::{Expect, expect};

pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.expect_err("a mistake was accepted").to_string());
}

fn row_sums() -> (Tensor, Tensor) {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k])).unwrap();
    (a, b)
}

#[test]
fn expressions() {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let h = te::placeholder_of(ElementType::F16, [n, m], "H");
    let k = te::reduce_axis((0, m), "k");
    let refuse = |body: &dyn Fn(te::Axis) -> Expr, message: Expect| {
        refused(te::compute([n], "B", |[i]| body(i)), &message);
    };
    refuse(&|i| a.at([i]), expect!["A has 2 dimensions, 1 indices were given; give one for each"]);
    refuse(
        &|i| a.at((i, 0.5)),
        expect!["an index of A has type f32; indices are integers: convert it with `.cast(ElementType::I32)`"],
    );
    refuse(
        &|i| a.at([i, i]) + h.at([i, i]),
        expect!["operands of types f32 and f16 don't mix; convert one with `.cast(…)`"],
    );
    refuse(&|i| te::sum(a.at([i, i]), [i]), expect!["i is not a reduction axis; make one with `reduce_axis`"]);
    refuse(&|i| te::sum(a.at([i, k]), [k, k]), expect!["the axis k is given twice; give it once"]);
    refuse(
        &|i| a.at([i, k]),
        expect![
            "B uses the axis k, which is neither its own nor reduced over; use the axes that its body is given, or reduce over this one"
        ],
    );
    refuse(
        &|i| te::sum(a.at([i, k]), [k]) + 1.0,
        expect!["B uses a reduction inside an expression; compute the reduction first, then use its tensor"],
    );
    refuse(
        &|i| a.at([i, i]).select(1.0, 2.0),
        expect!["`select` takes no operand of type f32; convert it with `.cast(…)`"],
    );
    refused(
        te::compute([n, m], "C", |[i]| a.at([i, i])),
        &expect!["C has 2 dimensions, 1 indices were given; give one for each"],
    );
}

#[test]
fn schedules() -> Result<(), TeError> {
    let (a, b) = row_sums();
    let (i, k) = (b.axis(0)?, b.reduce_axis(0)?);
    let tx = te::thread_axis("threadIdx.x");
    refused(b.axis(1), &expect!["B has 1 data axes, number 1 was asked for; numbers go from -1 to 0"]);
    let mut s = te::create_schedule(&[&b]);
    refused(
        s.stage(&te::placeholder([4], "X")).map(|_| ()),
        &expect![
            "X is not part of this schedule; give a tensor from which its outputs are computed, or make a schedule of X"
        ],
    );
    let stage = s.stage(&b)?;
    refused(stage.split(i, 0), &expect!["a split of i by 0: a factor is a positive integer, or one made of sizes"]);
    refused(
        stage.vectorize(k),
        &expect!["`vectorize` can't take k: its iterations add to one value; use rfactor first"],
    );
    refused(stage.parallel(k), &expect!["`parallel` can't take k: its iterations add to one value; use rfactor first"]);
    refused(
        stage.fuse(k, i),
        &expect!["k and i can't be fused: only loops that directly follow each other can, so `reorder` them first"],
    );
    refused(
        stage.bind(i, te::thread_axis("threadIdx.w")),
        &expect![
            "`threadIdx.w` is not a thread axis; there are blockIdx.x, .y, .z, threadIdx.x, .y, .z, vthread and cthread"
        ],
    );
    let (outer, inner) = stage.split(i, 4)?;
    refused(
        stage.split(i, 4),
        &expect!["i is not a loop of B; it has been split or fused already, so give a loop that came of that"],
    );
    refused(stage.reorder(&[outer, outer]), &expect!["the axis i.outer is given twice; give it once"]);
    stage.bind(inner, tx)?;
    refused(
        stage.split(inner, 2),
        &expect![
            "`split` can't take i.inner: it is bound to a thread index; split it before that, and take the part that is not bound"
        ],
    );
    refused(
        stage.bind(outer, tx),
        &expect![
            "`bind` can't take i.outer: another loop of the stage is bound to this thread index; take another index, or fuse both loops"
        ],
    );
    refused(
        s.set_scope(&b, "registers"),
        &expect!["`registers` is not a memory scope; there are global, shared, warp and local"],
    );
    refused(
        s.compute_inline(&b),
        &expect![
            "B can't be inlined: it is an output, which needs memory; only tensors between inputs and outputs can be"
        ],
    );
    refused(
        s.compute_at(&b, &b, outer),
        &expect![
            "B can't be computed at B: an output is computed whole; only intermediate tensors have a place inside others"
        ],
    );
    refused(
        s.rfactor(&b, outer),
        &expect![
            "B can't be factored over i.outer: only a reduction axis can be factored; `reduce_axis` gives those of the tensor"
        ],
    );
    refused(
        te::lower(&s, &[&b], "main"),
        &expect!["A is an input of the schedule but not among the arguments; add it to them"],
    );
    refused(
        te::lower(&s, &[&a], "main"),
        &expect!["B is an output of the schedule but not among the arguments; add it to them"],
    );
    let positive = te::compute([te::var("n")], "positive", |[i]| i.greater(0))?;
    let program = te::lower(&te::create_schedule(&[&positive]), &[&positive], "main")?;
    refused(
        program.interpret(&mut [Array::unwritten(ElementType::I8, &[3])]),
        &expect!["argument positive: elements of type bool are needed, i8 were given"],
    );
    Ok(())
}

/// A thread that first reduces its own loop gets elements that are not neighbours.
#[test]
fn a_reducer_that_needs_its_order_keeps_it_over_threads() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let last = te::comm_reducer(|_, y| y, |dtype| Expr::constant(0.0, dtype), "last").associative_only();
    let b = te::compute([n], "B", |[i]| last.over(a.at([i, k]), [k]))?;
    for (outer_is_thread, fits) in [(true, true), (false, false)] {
        let mut s = te::create_schedule(&[&b]);
        let (outer, inner) = s.stage(&b)?.split_parts(k, 16)?;
        s.stage(&b)?.bind(if outer_is_thread { outer } else { inner }, te::thread_axis("threadIdx.x"))?;
        let lowered = te::lower(&s, &[&a, &b], "main");
        assert_eq!(lowered.is_ok(), fits, "{lowered:?}");
        if !fits {
            let message = expect!["B: its reducer is not commutative, and the loops would change the order"];
            refused(lowered, &message);
        }
    }
    Ok(())
}

#[test]
fn reducers_use_their_operands_only() {
    let (n, m) = (te::var("n"), te::var("m"));
    let (a, g) = (te::placeholder([n, m], "A"), te::placeholder([n], "G"));
    let k = te::reduce_axis((0, m), "k");
    let zero = |dtype| Expr::constant(0.0, dtype);
    let refuse = |body: &dyn Fn(te::Axis) -> Expr, message: Expect| {
        refused(te::compute([n], "B", |[i]| body(i)), &message);
    };
    let scaled = |i: te::Axis| {
        let g = g.clone();
        te::comm_reducer(move |x, y| x + y * g.at([i]), zero, "scaled").over(a.at([i, k]), [k])
    };
    refuse(
        &scaled,
        expect![
            "the combination of the reducer `scaled` reads G; it is made of its two operands, numbers and sizes only: put what depends on more into the expression that is reduced"
        ],
    );
    let placed = |i: te::Axis| {
        te::comm_reducer(move |x, y| x + y + i.cast(te::DType::F32), zero, "placed").over(a.at([i, k]), [k])
    };
    refuse(
        &placed,
        expect![
            "the combination of the reducer `placed` uses i, which has no value there; it is made of its two operands, numbers and sizes only: put what depends on more into the expression that is reduced"
        ],
    );
    let started = |i: te::Axis| {
        let g = g.clone();
        te::comm_reducer(|x, y| x + y, move |_| g.at([i]), "started").over(a.at([i, k]), [k])
    };
    refuse(
        &started,
        expect![
            "the identity of the reducer `started` reads G; it is made of numbers and sizes only: put what depends on more into the expression that is reduced"
        ],
    );
    let hidden = |i: te::Axis| {
        te::comm_reducer(|x, y| x.clone().less(&y).select(x % 2, y), zero, "hidden").over(a.at([i, k]), [k])
    };
    refuse(&hidden, expect!["`FloorMod` takes no operand of type f32; convert it with `.cast(…)`"]);
}

#[test]
fn integers_that_do_not_fit() {
    let n = te::var("n");
    let (a, bytes) = (te::placeholder_of(ElementType::I32, [n], "A"), te::placeholder_of(ElementType::U8, [n], "U"));
    let big = 5_000_000_000_i64;
    let refuse = |body: &dyn Fn(te::Axis) -> Expr, message: Expect| {
        refused(te::compute([n], "B", |[i]| body(i)), &message);
    };
    assert_eq!((Expr::from(big).dtype(), Expr::from(big).as_int()), (te::DType::I64, Some(big)));
    assert_eq!(Expr::from(7_i64).dtype(), te::DType::I32);
    assert_eq!((a.at([0]).cast(te::DType::I64) + big).dtype(), te::DType::I64);
    refuse(
        &|i| a.at([i]) + big,
        expect![
            "5000000000 is not a value of type i32, which holds whole numbers from -2147483648 to 2147483647; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    refuse(
        &|i| bytes.at([i]) - 256_usize,
        expect![
            "256 is not a value of type u8, which holds whole numbers from 0 to 255; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    refuse(
        &|i| bytes.at([i]).less(-1).select(1, 0),
        expect![
            "-1 is not a value of type u8, which holds whole numbers from 0 to 255; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    refuse(
        &|i| i + u64::MAX,
        expect![
            "18446744073709551615 is not a value of type i32, which holds whole numbers from -2147483648 to 2147483647; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    refuse(
        &|_| Expr::from(2_000_000_000) + 2_000_000_000,
        expect![
            "2000000000 + 2000000000 is not a value of type i32, which holds whole numbers from -2147483648 to 2147483647; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    refuse(
        &|i| a.at([i]) * Expr::constant(0.5, te::DType::I32),
        expect![
            "0.5 is not a value of type i32, which holds whole numbers from -2147483648 to 2147483647; use a wider type, for example `.cast(ElementType::I64)` on the other operand"
        ],
    );
    let long = te::placeholder([big], "long");
    refused(
        te::compute([n], "B", |[i]| long.at([i])),
        &expect![
            "dimension 0 of long has the extent T.int64(5000000000) of type i64; an extent is an i32 from 0 to 2147483647"
        ],
    );
    refused(
        te::compute([big], "B", |[i]| i.cast(te::DType::F32)),
        &expect![
            "dimension 0 of B has the extent T.int64(5000000000) of type i64; an extent is an i32 from 0 to 2147483647"
        ],
    );
    let far = te::reduce_axis((2_147_483_000, 2_147_483_700_i64), "far");
    assert!(te::compute([n], "B", |[i]| te::sum(a.at([i]), [far])).is_err());
}

#[test]
fn factoring() -> Result<(), TeError> {
    let (_, b) = row_sums();
    let mut s = te::create_schedule(&[&b]);
    let (outer, inner) = s.stage(&b)?.split(b.reduce_axis(0)?, 16)?;
    s.stage(&b)?.bind(inner, te::thread_axis("threadIdx.x"))?;
    refused(
        s.rfactor(&b, inner),
        &expect![
            "B can't be factored over k.inner: it is bound to a thread index; factor it first, and bind the loops of the two stages that this makes"
        ],
    );
    refused(
        s.rfactor(&b, outer),
        &expect![
            "B can't be factored over k.outer: another reduction loop is bound to a thread index; factor first, and bind the loops of the two stages that this makes"
        ],
    );
    // It is the only loop. The rest reduces over nothing, but is still a reduction.
    let mut s = te::create_schedule(&[&b]);
    let partial = s.rfactor(&b, b.reduce_axis(0)?)?;
    refused(
        s.compute_inline(&partial),
        &expect![
            "B.rf can't be inlined: it is a reduction, which would be repeated at every read; place it by `compute_at`"
        ],
    );
    s.auto_inline_injective();
    assert!(!matches!(s.stage(&partial)?.place(), te::Attach::Inline));
    Ok(())
}

#[test]
fn places_in_inlined_stages() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) + 1)?;
    let c = te::compute([n], "C", |[i]| b.at([i]) * 2)?;
    let d = te::compute([n], "D", |[i]| c.at([i]) - 1)?;
    let mut s = te::create_schedule(&[&d]);
    s.compute_at(&b, &c, c.axis(0)?)?;
    refused(
        s.compute_inline(&c),
        &expect!["C can't be inlined: other stages are computed inside its loops; compute them elsewhere first"],
    );
    s.auto_inline_injective();
    assert!(matches!(s.stage(&c)?.place(), te::Attach::Root));
    s.compute_root(&b)?;
    s.compute_inline(&c)?;
    refused(
        s.compute_at(&b, &c, c.axis(0)?),
        &expect![
            "B can't be computed at C: that stage is inlined, so that it has no loops; take the stage that reads it"
        ],
    );
    te::lower(&s, &[&a, &d], "main").map(|_| ())
}

#[test]
fn scans() -> Result<(), TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
    let update = |body: &dyn Fn(te::Axis, te::Axis) -> Expr| te::compute([m, n], "update", |[t, i]| body(t, i));
    let scan = |update: &Tensor| te::scan(&init, update, &state, std::slice::from_ref(&x));
    refused(
        scan(&update(&|t, i| state.at([t, i]) + x.at([t, i]))?),
        &expect![
            "update reads state at step i, which is t + 0; an update may read the state at earlier steps only, `t - 1` or before"
        ],
    );
    refused(
        scan(&update(&|t, i| state.at((t + 2, i)))?),
        &expect![
            "update reads state at step i + 2, which is t + 2; an update may read the state at earlier steps only, `t - 1` or before"
        ],
    );
    refused(
        scan(&update(&|_, i| state.at((0, i)))?),
        &expect!["update reads state at step 0; an update may read the state at earlier steps only, `t - 1` or before"],
    );
    // Through a stage between: s1[t + 1] reads the state at t.
    let s1 = te::compute([m, n], "s1", |[t, i]| state.at((t - 1, i)) * 2)?;
    refused(
        scan(&update(&|t, i| s1.at((t + 1, i)))?),
        &expect![
            "s1 reads state at step i - 1, which is t + 0; an update may read the state at earlier steps only, `t - 1` or before"
        ],
    );
    let wide = te::compute((1, m), "wide", |[_, i]| x.at((0, i)))?;
    let good = update(&|t, i| s1.at([t, i]) + x.at([t, i]))?;
    refused(te::scan(&wide, &good, &state, &[]), &expect!["dimension 1 of the init wide is m; it must be n"]);
    refused(
        te::scan_all(std::slice::from_ref(&init), std::slice::from_ref(&good), &[], &[]),
        &expect!["a scan takes as many inits and updates as states; given were 1, 1 and 0; give one of each"],
    );
    let result = scan(&good)?;
    let mut s = te::create_schedule(&[&result]);
    refused(
        s.stage(&good)?.split(good.axis(0)?, 2),
        &expect!["`split` can't take i: it is a scan update's time; schedule the scan's own axis instead"],
    );
    // Otherwise the scan and what is inside it would depend on each other.
    let after = te::compute([m, n], "after", |[t, i]| result.at([t, i]) + 1)?;
    let mut within = te::create_schedule(&[&after]);
    for part in [&init, &good] {
        refused(
            within.compute_at(&result, part, part.axis(1)?),
            &match part.name().as_str() {
                "init" => expect!["scan can't be computed at init: it would be computed inside itself"],
                _ => expect!["scan can't be computed at update: it would be computed inside itself"],
            },
        );
    }
    s.stage(&result)?.split(result.scan_axis()?, 2)?;
    refused(
        s.stage(&result)?.env_threads(&[te::thread_axis("warp")]),
        &expect!["`warp` is not a thread axis; there are blockIdx.x, .y, .z, threadIdx.x, .y, .z, vthread and cthread"],
    );
    Ok(())
}

#[test]
fn runs() -> Result<(), TeError> {
    let (a, b) = row_sums();
    let program = te::lower(&te::create_schedule(&[&b]), &[&a, &b], "main")?;
    let input = || Array::new(ElementType::F32, &[2, 3], &[1.0; 6]).unwrap();
    let output = |n: usize| Array::unwritten(ElementType::F32, &[n]);
    refused(program.interpret(&mut [input()]), &expect!["1 argument was given; needed are 2: A, B"]);
    refused(
        program.interpret(&mut [input(), output(3)]),
        &expect!["argument B: dimension 0 is n, which is 2 here; 3 was given"],
    );
    refused(
        program.interpret(&mut [input(), Array::unwritten(ElementType::F64, &[2])]),
        &expect!["argument B: elements of type f32 are needed, f64 were given"],
    );
    refused(
        Array::new(ElementType::F32, &[2], &[1.0]),
        &expect!["argument array: the shape [2] holds 2 elements, 1 were given"],
    );
    // A sum over nothing is the identity.
    let mut arguments = [Array::new(ElementType::F32, &[2, 0], &[])?, output(2)];
    program.interpret(&mut arguments)?;
    assert_eq!(arguments[1].values(), [0.0, 0.0]);
    // A read out of bounds is found.
    let n = te::var("n");
    let x = te::placeholder([n], "X");
    let shifted = te::compute([n], "Y", |[i]| x.at([i + 1]))?;
    let program = te::lower(&te::create_schedule(&[&shifted]), &[&x, &shifted], "main")?;
    let mut arguments = [Array::new(ElementType::F32, &[2], &[1.0, 2.0])?, output(2)];
    refused(program.interpret(&mut arguments), &expect!["X[(i + 1) * stride] is element 2 of 2"]);
    Ok(())
}

#[test]
fn extents_and_factors() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    refused(
        te::compute([-3], "B", |[i]| a.at([i])),
        &expect!["dimension 0 of B has the extent -3; an extent is an i32 from 0 to 2147483647"],
    );
    refused(
        te::compute([Expr::from(2.5)], "B", |[i]| a.at([i])),
        &expect![
            "dimension 0 of B has the extent T.float32(2.5) of type f32; an extent is an i32 from 0 to 2147483647"
        ],
    );
    let wrong = te::placeholder([Expr::from(n), Expr::from(2.5)], "W");
    refused(
        te::compute([n], "B", |[i]| wrong.at((i, 0))),
        &expect![
            "dimension 1 of W has the extent T.float32(2.5) of type f32; an extent is an i32 from 0 to 2147483647"
        ],
    );
    let k = te::reduce_axis((5, 2), "k");
    refused(
        te::compute([n], "B", |[i]| te::sum(a.at([i + k]), [k])),
        &expect!["the axis k has the extent -3; an extent is an i32 from 0 to 2147483647"],
    );
    let (a, b) = row_sums();
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (i, k) = (b.axis(0)?, b.reduce_axis(0)?);
    refused(
        stage.split(i, 2.5),
        &expect!["a split of i by T.float32(2.5): a factor is a positive integer, or one made of sizes"],
    );
    refused(stage.split(i, k), &expect!["a split of i by k: a factor is a positive integer, or one made of sizes"]);
    // A refused call changes nothing.
    refused(
        stage.tile(i, k, 2, 0).map(|_| ()),
        &expect!["a split of k by 0: a factor is a positive integer, or one made of sizes"],
    );
    assert_eq!(stage.loops(), [i, k]);
    stage.split(i, n)?;
    refused(
        s.set_scope(&b, "shared"),
        &expect![
            "`set_scope` on B: its memory is the caller's, which is global; make a cache of it (`cache_read`, `cache_write`)"
        ],
    );
    refused(
        s.set_scope(&a, "local"),
        &expect![
            "`set_scope` on A: its memory is the caller's, which is global; make a cache of it (`cache_read`, `cache_write`)"
        ],
    );
    s.set_scope(&b, "global")
}

#[test]
fn arguments() -> Result<(), TeError> {
    let (a, b) = row_sums();
    let s = te::create_schedule(&[&b]);
    refused(te::lower(&s, &[&a, &a, &b], "main"), &expect!["argument A: it is given twice among the arguments"]);
    // An input that nothing reads may be given, and its extents are sizes.
    let unread = te::placeholder([te::var("p")], "unread");
    let program = te::lower(&s, &[&a, &unread, &b], "main")?;
    let array = |shape: &[usize]| Array::new(ElementType::F32, shape, &vec![1.0; shape.iter().product()]);
    let mut arguments = [array(&[2, 3])?, array(&[7])?, Array::unwritten(ElementType::F32, &[2])];
    program.interpret(&mut arguments)?;
    assert_eq!(arguments[2].values(), [3.0, 3.0]);
    let other = te::compute([te::var("q")], "other", |[_]| 1.0.into())?;
    refused(
        te::lower(&s, &[&a, &other, &b], "main"),
        &expect![
            "other is not part of this schedule; give a tensor from which its outputs are computed, or make a schedule of other"
        ],
    );
    Ok(())
}

#[test]
fn what_a_scan_keeps_to_itself() -> Result<(), TeError> {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = te::compute((1, n), "init", |[_, i]| x.at((0, i)))?;
    let update = |body: &dyn Fn(te::Axis, te::Axis) -> Expr| te::compute([m, n], "update", |[t, i]| body(t, i));
    let far = |t: te::Axis, i: te::Axis| state.at((t - 3, i));
    refused(
        te::scan(&init, &update(&far)?, &state, &[]),
        &expect![
            "update reads state at step i - 3, 3 steps back, of which the init gives 1; give 3 initial steps, or read it inside a `select` that asks for the step"
        ],
    );
    te::scan(&init, &update(&|t, i| t.greater_equal(3).select(far(t, i), 0.0))?, &state, &[])?;
    let none = te::compute((0, n), "none", |[_, i]| x.at((0, i)))?;
    let good = update(&|t, i| state.at((t - 1, i)) + x.at([t, i]))?;
    refused(te::scan(&none, &good, &state, &[]), &expect!["dimension 0 of the init none is 0; it must be 1 or more"]);
    let scan = te::scan(&init, &good, &state, &[])?;
    refused(
        te::lower(&te::create_schedule(&[&scan]), &[&x, &state, &scan], "main"),
        &expect!["argument scan: it lies in the memory of state, which is among the arguments, too"],
    );
    let again = te::scan(&init, &good, &state, &[])?;
    refused(
        te::lower(&te::create_schedule(&[&scan, &again]), &[&x, &scan, &again], "main"),
        &expect!["init belongs to two scans; every scan needs an init, an update and a state of its own"],
    );
    for inside in [&state, &good] {
        let outside = te::compute([m, n], "outside", |[t, i]| inside.at([t, i]) + scan.at([t, i]))?;
        refused(
            te::lower(&te::create_schedule(&[&outside]), &[&x, &outside], "main"),
            &expect![
                "outside reads a state or an update of scan and is not a part of its update; read the scan's result instead"
            ],
        );
    }
    Ok(())
}

/// A scan of no steps computes nothing; a scan with fewer steps than are given is refused.
#[test]
fn scans_of_few_steps() -> Result<(), TeError> {
    let m = te::var("m");
    let x = te::placeholder([m], "X");
    let state = te::placeholder([m], "state");
    let init = te::compute((2,), "init", |[t]| x.at([t]))?;
    let update = te::compute([m], "update", |[t]| state.at([t - 2]) + x.at([t]))?;
    let scan = te::scan(&init, &update, &state, &[])?;
    let program = te::lower(&te::create_schedule(&[&scan]), &[&x, &scan], "main")?;
    let run = |steps: usize| {
        let values: Vec<f64> = (0..steps).map(|t| t as f64).collect();
        let mut arguments =
            [Array::new(ElementType::F32, &[steps], &values)?, Array::unwritten(ElementType::F32, &[steps])];
        program.interpret(&mut arguments)?;
        Ok(arguments[1].values())
    };
    assert_eq!((run(0)?, run(2)?, run(5)?), (vec![], vec![0.0, 1.0], vec![0.0, 1.0, 2.0, 4.0, 6.0]));
    refused(run(1), &expect!["dimension 0 of the state state is m; it must be 2 or more"]);
    Ok(())
}
