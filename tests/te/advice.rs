//! Every refusal of tensor expressions that says what to do, beside that: who follows the advice has what runs.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::slice::from_ref;

use epilogue::te::{self, Axis, DType, Expr, Reducer, TeError, Tensor};
use epilogue::{Device, ElementType};
use epilogue_testing::advice::advised;

fn matrix() -> Tensor {
    te::placeholder([te::var("n"), te::var("m")], "A")
}

/// A tensor whose elements the body computes.
fn of_rows(body: impl FnOnce(Axis) -> Expr) -> Result<Tensor, TeError> {
    te::compute([te::var("rows")], "B", |[i]| body(i))
}

fn sums_of(a: &Tensor) -> Result<Tensor, TeError> {
    let [n, m] = [0, 1].map(|d| a.shape()[d].clone());
    let k = te::reduce_axis((0, m), "k");
    te::compute([n], "sums", |[i]| te::sum(a.at([i, k]), [k]))
}

#[test]
fn types_of_operands() {
    let (a, h) = (matrix(), te::placeholder_of(ElementType::F16, [te::var("n"), te::var("m")], "H"));
    advised(
        of_rows(|i| a.at([i, i]) + h.at([i, i])),
        "convert one with `.cast(…)`",
        of_rows(|i| a.at([i, i]) + h.at([i, i]).cast(DType::F32)),
    );
    let counts = te::placeholder_of(ElementType::I32, [te::var("n")], "counts");
    let large = 5_000_000_000_i64;
    advised(
        of_rows(|i| counts.at([i]) + large),
        "use a wider type, for example `.cast(ElementType::I64)` on the other operand",
        of_rows(|i| counts.at([i]).cast(ElementType::I64) + large),
    );
    let first = |dtype| Expr::constant(0.0, dtype);
    let wide = |reducer: Reducer| {
        let k = te::reduce_axis((0, 8), "k");
        of_rows(|i| reducer.over(a.at([i, k]), [k]))
    };
    advised(
        wide(te::comm_reducer(|x, y| (x + y).cast(ElementType::F16), first, "wide")),
        "convert it with `.cast(…)`",
        wide(te::comm_reducer(|x, y| (x + y).cast(ElementType::F16).cast(DType::F32), first, "wide")),
    );
}

#[test]
fn reductions() {
    let a = matrix();
    let sums = sums_of(&a).unwrap();
    let k = te::reduce_axis((0, 8), "k");
    advised(
        of_rows(|i| te::sum(a.at([i, k]), [k]) + 1.0),
        "compute the reduction first, then use its tensor",
        of_rows(|i| sums.at([i]) + 1.0),
    );
    advised(
        of_rows(|i| te::sum(a.at([i, i]), [i])),
        "make one with `reduce_axis`",
        of_rows(|i| te::sum(a.at([i, k]), [k])),
    );
    let g = te::placeholder([te::var("rows")], "G");
    let weighted = {
        let g = g.clone();
        te::comm_reducer(move |x, y| x + y * g.at([0]), |dtype| Expr::constant(0.0, dtype), "weighted")
    };
    advised(
        of_rows(|i| weighted.over(a.at([i, k]), [k])),
        "put what depends on more into the expression that is reduced",
        of_rows(|i| te::sum(a.at([i, k]) * g.at([0]), [k])),
    );
}

#[test]
fn long_expressions() {
    let terms = |at: &dyn Fn(i64) -> Expr| (0..4096).map(at).collect::<Vec<Expr>>();
    let x = te::placeholder([4096], "x");
    let one_by_one = |terms: Vec<Expr>| terms.into_iter().reduce(|sum, term| sum + term).unwrap();
    let in_pairs = |mut terms: Vec<Expr>| {
        while terms.len() > 1 {
            terms = terms.chunks(2).map(|pair| pair[0].clone() + pair[1].clone()).collect();
        }
        terms.remove(0)
    };
    advised(
        of_rows(|_| one_by_one(terms(&|i| x.at((i,))))),
        "combine long sums in pairs",
        of_rows(|_| in_pairs(terms(&|i| x.at((i,))))),
    );
}

#[test]
fn scans() {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let state = te::placeholder([m, n], "state");
    let init = |steps: i64| te::compute((steps, n), "init", |[t, i]| x.at((t, i))).unwrap();
    let scan = |steps: i64, update: &dyn Fn(Axis, Axis) -> Expr| {
        let update = te::compute([m, n], "update", |[t, i]| update(t, i))?;
        te::scan(&init(steps), &update, &state, from_ref(&x))
    };
    advised(
        scan(1, &|t, i| state.at((t, i)) + x.at((t, i))),
        "an update may read the state at earlier steps only, `t - 1` or before",
        scan(1, &|t, i| state.at((t - 1, i)) + x.at((t, i))),
    );
    let two_back = |t: Axis, i: Axis| state.at((t - 2, i)) + x.at((t, i));
    advised(scan(1, &two_back), "give 2 initial steps", scan(2, &two_back));
    advised(
        scan(1, &two_back),
        "or read it inside a `select` that asks for the step",
        scan(1, &|t, i| Expr::from(t).greater(1).select(state.at((t - 2, i)), 0.0) + x.at((t, i))),
    );
}

#[test]
fn parts_of_a_scan() {
    let (m, n) = (te::var("m"), te::var("n"));
    let x = te::placeholder([m, n], "X");
    let sums = |first: Option<&Tensor>, state: &Tensor, updated: Option<&Tensor>| {
        let init = te::compute((1, n), "init", |[t, i]| x.at((t, i)).cast(state.dtype()))?;
        let update = te::compute([m, n], "update", |[t, i]| {
            if state.rank() == 2 { state.at((t - 1, i)) + x.at((t, i)).cast(state.dtype()) } else { x.at((t, i)) }
        })?;
        te::scan(first.unwrap_or(&init), updated.unwrap_or(&update), state, from_ref(&x))
    };
    let (state, f64) = (te::placeholder([m, n], "state"), DType::from(ElementType::F64));
    let (given, flat) = (te::placeholder((1, n), "given"), te::placeholder([m], "flat"));
    let copied = te::compute((1, n), "copied", |[t, i]| given.at((t, i))).unwrap();
    let done = te::compute([m, n], "done", |[t, i]| x.at((t, i))).unwrap();
    advised(sums(Some(&given), &state, None), "copy it by `te::compute`", sums(Some(&copied), &state, None));
    advised(sums(None, &done, None), "make it by `te::placeholder`", sums(None, &state, None));
    let wide = te::placeholder_of(f64, [m, n], "wide");
    let widened = te::compute((1, n), "widened", |[t, i]| given.at((t, i)).cast(f64)).unwrap();
    advised(sums(Some(&copied), &wide, None), "convert it by `.cast(f64)`", sums(Some(&widened), &wide, None));
    advised(sums(None, &flat, None), "give it as many, with the steps first", sums(None, &state, None));
    let all = |states: &[Tensor]| te::scan_all(from_ref(&copied), from_ref(&done), states, from_ref(&x));
    advised(all(&[]), "give one of each", all(from_ref(&state)));
}

/// A change of a schedule, with two of its loops.
type Then<'a> = dyn Fn(&mut te::Schedule, [Axis; 2]) -> Result<(), TeError> + 'a;

#[test]
fn loops_and_places() -> Result<(), TeError> {
    let a = matrix();
    let (b, thread) = (sums_of(&a)?, te::thread_axis("threadIdx.x"));
    let c = te::compute(b.shape(), "C", |[i]| b.at([i]) + 1.0)?;
    let rows = c.axis(0)?;
    let scheduled = |then: &Then<'_>| {
        let mut s = te::create_schedule(&[&c]);
        let (outer, inner) = s.stage(&c)?.split(rows, 8)?;
        then(&mut s, [outer, inner])?;
        te::lower(&s, &[&a, &c], "main")
    };
    advised(
        scheduled(&|s, _| s.stage(&c)?.unroll(rows)),
        "give a loop that came of that",
        scheduled(&|s, [_, inner]| s.stage(&c)?.unroll(inner)),
    );
    advised(
        scheduled(&|s, _| s.stage(&c)?.unroll(b.axis(0)?)),
        "whose loops `loops()` gives",
        scheduled(&|s, _| {
            let last = s.stage(&c)?.loops()[1];
            s.stage(&c)?.unroll(last)
        }),
    );
    advised(
        scheduled(&|s, [outer, inner]| s.stage(&c)?.fuse(inner, outer).map(|_| ())),
        "so `reorder` them first",
        scheduled(&|s, [outer, inner]| {
            s.stage(&c)?.reorder(&[inner, outer])?;
            s.stage(&c)?.fuse(inner, outer).map(|_| ())
        }),
    );
    advised(
        scheduled(&|s, _| s.compute_inline(&b)),
        "place it by `compute_at`",
        scheduled(&|s, [outer, _]| s.compute_at(&b, &c, outer)),
    );
    advised(
        scheduled(&|s, [outer, _]| {
            s.stage(&c)?.bind(outer, thread)?;
            s.stage(&c)?.unroll(outer)
        }),
        "split it before that, and take the part that is not bound",
        scheduled(&|s, [outer, inner]| {
            s.stage(&c)?.bind(outer, thread)?;
            s.stage(&c)?.unroll(inner)
        }),
    );
    advised(
        scheduled(&|s, [outer, inner]| {
            s.stage(&c)?.bind(outer, thread)?;
            s.stage(&c)?.bind(inner, thread)
        }),
        "take another index",
        scheduled(&|s, [outer, inner]| {
            s.stage(&c)?.bind(outer, thread)?;
            s.stage(&c)?.bind(inner, te::thread_axis("threadIdx.y"))
        }),
    );
    let other = te::compute(b.shape(), "other", |[i]| c.at([i]) + 1.0)?;
    advised(
        scheduled(&|s, _| s.stage(&other).map(|_| ())),
        "give a tensor from which its outputs are computed",
        scheduled(&|s, _| s.stage(&b).map(|_| ())),
    );
    advised(
        scheduled(&|s, [_, inner]| s.rfactor(&c, inner).map(|_| ())),
        "`split` divides its loops",
        scheduled(&|s, [_, inner]| s.stage(&c)?.split(inner, 2).map(|_| ())),
    );
    advised(
        scheduled(&|s, _| s.rfactor(&b, b.axis(0)?).map(|_| ())),
        "`reduce_axis` gives those of the tensor",
        scheduled(&|s, _| s.rfactor(&b, b.reduce_axis(0)?).map(|_| ())),
    );
    Ok(())
}

/// Several automatic kernels do what one can't.
#[test]
fn automatic_kernels_of_one_kind() -> Result<(), TeError> {
    let a = matrix();
    let sums = sums_of(&a)?;
    let plain = te::compute(a.shape(), "plain", |[i, j]| a.at([i, j]) * 2.0)?;
    let built = |outputs: &[&Tensor]| te::auto::build(outputs).map(|_| ());
    advised(built(&[]), "give the tensors to be computed", built(&[&plain]));
    advised(built(&[&a]), "give what is computed from it", built(&[&plain]));
    advised(built(&[&plain, &plain]), "give it once", built(&[&plain]));
    advised(te::auto::reduce(&plain).map(|_| ()), "`te::auto::build` takes it", built(&[&plain]));
    advised(te::auto::map(&sums).map(|_| ()), "`te::auto::build` takes it", built(&[&sums]));
    Ok(())
}

#[test]
fn schedules() -> Result<(), TeError> {
    let (a, i) = (matrix(), te::thread_axis("threadIdx.x"));
    let b = sums_of(&a)?;
    let k = b.reduce_axis(0)?;
    let vectors = |first_rfactor: bool| {
        let mut s = te::create_schedule(&[&b]);
        let (_, inner) = s.stage(&b)?.split(k, 4)?;
        if !first_rfactor {
            return s.stage(&b)?.vectorize(inner).map(|()| s);
        }
        let partial = s.rfactor(&b, inner)?;
        s.stage(&partial)?.vectorize(partial.axis(0)?)?;
        Ok(s)
    };
    let s = advised(vectors(false), "use rfactor first", vectors(true));
    te::lower(&s, &[&a, &b], "main")?;

    let bound = |cache_first: bool| {
        let mut s = te::create_schedule(&[&b]);
        if cache_first {
            s.cache_write(&b, "local")?;
        }
        let rows = s.stage(&b)?.loops()[0];
        s.stage(&b)?.bind(rows, i)?;
        if !cache_first {
            s.cache_write(&b, "local")?;
        }
        Ok::<_, TeError>(s)
    };
    advised(bound(false), "make the cache first, and schedule that", bound(true));

    let factored = |at_first: bool| {
        let mut s = te::create_schedule(&[&b]);
        let (_, inner) = s.stage(&b)?.split(k, 16)?;
        if at_first {
            let partial = s.rfactor(&b, inner)?;
            s.stage(&partial)?.bind(partial.axis(0)?, i)?;
        } else {
            s.stage(&b)?.bind(inner, i)?;
            s.rfactor(&b, inner)?;
        }
        Ok::<_, TeError>(s)
    };
    advised(factored(false), "factor it first, and bind the loops of the two stages that this makes", factored(true));
    Ok(())
}

/// Data that one block computes and another would use.
#[test]
fn launches() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) + 1)?;
    let c = te::compute([n], "C", |[i]| b.at([i]) * 2)?;
    let lowered = |scope: &str| {
        let mut s = te::create_schedule(&[&c]);
        let (outer, inner) = s.stage(&c)?.split(c.axis(0)?, 32)?;
        s.stage(&c)?.bind(outer, te::thread_axis("blockIdx.x"))?;
        s.stage(&c)?.bind(inner, te::thread_axis("threadIdx.x"))?;
        s.compute_at(&b, &c, outer)?;
        s.set_scope(&b, scope)?;
        let own = s.stage(&b)?.loops()[0];
        s.stage(&b)?.bind(own, te::thread_axis("threadIdx.x"))?;
        te::lower(&s, &[&a, &c], "main")
    };
    advised(lowered("local"), "put it in shared memory", lowered("shared"));
    Ok(())
}

#[test]
fn automatic_kernels() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let (n, m) = (te::var("n"), te::var("m"));
    let x = te::placeholder([m, n], "X");
    let flags = |dtype: DType| {
        let state = te::placeholder_of(dtype, [m, n], "any");
        let now = |t: Axis, i: Axis| x.at((t, i)).greater(0.0).cast(dtype);
        let init = te::compute((1, n), "init", |[t, i]| now(t, i))?;
        let either = |t: Axis, i: Axis| {
            let (before, now) = (state.at((t - 1, i)), now(t, i));
            if dtype == DType::Bool { before.or(now) } else { before.max(now) }
        };
        let update = te::compute([m, n], "update", |[t, i]| either(t, i))?;
        let scan = te::scan(&init, &update, &state, from_ref(&x))?;
        te::auto::build(&[&scan])?.build(&device)
    };
    advised(flags(DType::Bool), "cast it to u8", flags(DType::from(ElementType::U8)));

    let a = matrix();
    let sums = sums_of(&a)?;
    let kernel = te::auto::build(&[&sums])?.build(&device)?;
    let (matrix, mut out) = (device.full::<f32>([2, 3], 2.0)?, device.zeros::<f32>([2])?);
    advised(
        kernel.run_bound(&[(&a, (&matrix).into()), (&sums, (&out).into())]),
        "it is written; give `&mut tensor`",
        kernel.run_bound(&[(&a, (&matrix).into()), (&sums, (&mut out).into())]),
    );
    assert_eq!(out.to_vec::<f32>()?, [6.0, 6.0]);
    advised(
        kernel.run_bound(&[(&a, (&mut matrix.clone()).into()), (&sums, (&mut out).into())]),
        "it is read; give `&tensor`",
        kernel.run_bound(&[(&a, (&matrix).into()), (&sums, (&mut out).into())]),
    );
    Ok(())
}

#[test]
fn operands_indices_and_axes() {
    let (a, k) = (matrix(), te::reduce_axis((0, 8), "k"));
    let counts = te::placeholder_of(ElementType::I32, [te::var("n")], "counts");
    advised(
        of_rows(|i| counts.at([i]).exp()),
        "convert it with `.cast(…)`",
        of_rows(|i| counts.at([i]).cast(DType::F32).exp()),
    );
    let half = |_: Axis| Expr::from(0.5);
    advised(
        of_rows(|i| a.at((i, half(i)))),
        "convert it with `.cast(ElementType::I32)`",
        of_rows(|i| a.at((i, half(i).cast(ElementType::I32)))),
    );
    let fma = |operands: &[f64]| {
        let operands: Vec<Expr> = operands.iter().map(|x| Expr::from(*x)).collect();
        of_rows(|_| Expr::apply(epilogue::expr::Op::Fma, operands))
    };
    advised(fma(&[1.0, 2.0]), "give as many as it takes", fma(&[1.0, 2.0, 3.0]));
    advised(of_rows(|i| a.at([i])), "give one for each", of_rows(|i| a.at([i, i])));
    advised(
        of_rows(|i| a.at([i, k])),
        "use the axes that its body is given, or reduce over this one",
        of_rows(|i| te::sum(a.at([i, k]), [k])),
    );
    advised(of_rows(|i| te::sum(a.at([i, k]), [k, k])), "give it once", of_rows(|i| te::sum(a.at([i, k]), [k])));
    let from = |init: Vec<Expr>| of_rows(|i| te::sum_reducer().build(&[a.at([i, k])], &[k], None, init).remove(0));
    advised(from(vec![1.0.into(), 2.0.into()]), "give one for each value that is reduced", from(vec![1.0.into()]));
    let more = te::compute([te::var("n")], "more", |[i]| a.at([i, i]) + 1).unwrap();
    advised(
        of_rows(|i| te::sum_reducer().over_from(a.at([i, k]), [k], a.at([i, i]) + 1)),
        "compute it as a tensor, and give its element",
        of_rows(|i| te::sum_reducer().over_from(a.at([i, k]), [k], more.at([i]))),
    );
    advised(te::ops::sum(&a, 2), "numbers go from -2 to 1", te::ops::sum(&a, -2));
    let sums = sums_of(&a).unwrap();
    let lowered = |arguments: &[&Tensor]| te::lower(&te::create_schedule(&[&sums]), arguments, "main");
    advised(lowered(&[&sums]), "add it to them", lowered(&[&a, &sums]));
}

/// A size that no argument gives: the tensor that should, and how.
#[test]
fn sizes_that_arguments_do_not_give() -> Result<(), TeError> {
    let device = Device::cpu();
    let (n, m) = (te::var("n"), te::var("m"));
    let given = device.full::<f32>([2, 6], 1.0)?;
    let run = |x: &Tensor, half: Expr, more: Option<&Tensor>| {
        let k = te::reduce_axis((0, half), "k");
        let sums = te::compute([n], "sums", |[i]| {
            let also = more.map_or_else(|| Expr::from(0.0), |more| more.at([k]) * 0.0);
            te::sum(x.at([i, k]) + also, [k])
        })?;
        let mut made = device.zeros::<f32>([2])?;
        let three = device.full::<f32>([3], 1.0)?;
        let kernel = te::auto::build(&[&sums])?.build(&device)?;
        match more {
            Some(more) => {
                kernel.run_bound(&[(x, (&given).into()), (more, (&three).into()), (&sums, (&mut made).into())])?;
            }
            None => kernel.run_bound(&[(x, (&given).into()), (&sums, (&mut made).into())])?,
        }
        Ok::<_, TeError>(made.to_vec::<f32>()?)
    };
    let (doubled, whole) = (te::placeholder((n, m * 2), "x"), te::placeholder([n, m], "x"));
    let message = "the size m can't be found from the arguments: dimension 1 of x is m * 2, and only an extent that is a \
                   variable by itself gives one; make this extent a variable (`te::var`), and write m as an expression of it";
    let sums = advised(run(&doubled, m.into(), None), message, run(&whole, m / 2, None));
    assert_eq!(sums, [3.0, 3.0]);
    let other = te::placeholder([n, te::var("width")], "x");
    let message = "the size m can't be found from the arguments: neither x nor sums has such an extent; read a tensor that \
                   has it, or use a number";
    let table = te::placeholder([m], "table");
    let sums = advised(run(&other, m.into(), None), message, run(&other, m.into(), Some(&table)));
    assert_eq!(sums, [3.0, 3.0]);
    assert_eq!(run(&other, 3.into(), None)?, [3.0, 3.0]);

    let k = te::reduce_axis((0, m), "k");
    let totals = te::compute([n], "totals", |[i]| te::sum(other.at([i, k]), [k]))?;
    let run = |with: &[&Tensor]| {
        let arguments = [with, &[&other, &totals]].concat();
        let kernel = te::lower(&te::create_schedule(&[&totals]), &arguments, "main")?.build(&device)?;
        let (three, mut made) = (device.full::<f32>([3], 1.0)?, device.zeros::<f32>([2])?);
        let mut all: Vec<(&Tensor, epilogue::Argument<'_>)> = with.iter().map(|x| (*x, (&three).into())).collect();
        all.extend([(&other, (&given).into()), (&totals, (&mut made).into())]);
        kernel.run_bound(&all)?;
        drop(all);
        Ok::<_, TeError>(made.to_vec::<f32>()?)
    };
    let message = "the size m can't be found from the arguments: neither x nor totals has such an extent; give `lower` a \
                   placeholder that has it, which nothing needs to read";
    if cfg!(feature = "native") {
        assert_eq!(advised(run(&[]), message, run(&[&table])), [3.0, 3.0]);
    }
    Ok(())
}
