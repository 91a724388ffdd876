//! Tensor intrinsics: loops replaced by the user's statements, on every target.

use std::sync::Arc;

use epilogue::ElementType;
use epilogue::te::{
    self, BufferDecl, CallArgument, DeviceFunction, Expr, IntrinBody, Stmt, TeError, Tensor, TensorIntrin,
};
use epilogue_runtime::testing::cases;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// The parts of an intrinsic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// `body` only.
    Whole,
    /// `reset` and `update`.
    Reset,
    /// `body` for the first iteration, and `update`.
    First,
}

const GEMV: &str = "
__device__ void gemv_add(float* c, const float* a, const float* b, int m, int l, int c1, int a1, int b0, int b1) {
  for (int i = 0; i < m; ++i) {
    for (int k = 0; k < l; ++k) {
      c[i * c1] = c[i * c1] + a[k * a1] * b[i * b0 + k * b1];
    }
  }
}
";

/// `c[i] = Σ_k a[k] * b[i, k]` over `m` rows of `l`, for any strides.
fn gemv(m: i32, l: i32, parts: Parts, device: Option<&Arc<DeviceFunction>>) -> Result<TensorIntrin, TeError> {
    let a = te::placeholder([l], "a");
    let b = te::placeholder([m, l], "b");
    let k = te::reduce_axis((0, l), "k");
    let c = te::compute([m], "gemv", |[i]| te::sum(a.at([k]) * b.at((i, k)), [k]))?;
    te::decl_tensor_intrin(&c, &[], |ins, outs| {
        let ([a, b], [c]) = (ins, outs) else { unreachable!("two inputs and one output") };
        let zero = || Stmt::for_range("i", m, |i| c.store([i], 0.0));
        let portable = Stmt::for_range("i", m, |i| {
            Stmt::for_range("k", l, |k| c.store([i], c.load([i]) + a.load([k]) * b.load([i, k])))
        });
        let origin =
            |buffer: &te::Buffer| CallArgument::Pointer(buffer.clone(), vec![Expr::int(0); buffer.shape().len()]);
        let add = match device {
            None => portable,
            Some(function) => {
                let mut arguments = vec![origin(c), origin(a), origin(b)];
                let numbers = [m.into(), l.into(), c.strides()[0].clone(), a.strides()[0].clone()];
                arguments.extend(numbers.into_iter().chain(b.strides().iter().cloned()).map(CallArgument::Value));
                function.call(arguments, portable)
            }
        };
        let whole = Stmt::in_order([zero(), add.clone()]);
        Ok(match parts {
            Parts::Whole => IntrinBody { body: Some(whole), ..IntrinBody::default() },
            Parts::Reset => IntrinBody { body: Some(whole), reset: Some(zero()), update: Some(add) },
            Parts::First => IntrinBody { body: Some(whole), update: Some(add), reset: None },
        })
    })
}

/// A product of matrices, with its innermost loops replaced by an intrinsic.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The columns, and the terms of the sum, that the intrinsic computes at once.
    tile: (i32, i32),
    /// The number of these groups of terms, and of columns.
    count: (i32, i32),
    rows: i32,
    parts: Parts,
    /// Whether CUDA calls the device function.
    device: bool,
    threads: bool,
    /// Whether the operands are copied to shared memory with padded rows, and the result to a thread's private memory.
    shared: bool,
    local: bool,
    symbolic: bool,
}

fn product(plan: &Plan) -> Result<te::Program, TeError> {
    let (n, m, l) = (plan.rows, plan.tile.0 * plan.count.1, plan.tile.1 * plan.count.0);
    let rows: Expr = if plan.symbolic { te::var("n").into() } else { n.into() };
    let a = te::placeholder((rows.clone(), l), "A");
    let b = te::placeholder((m, l), "B");
    let k = te::reduce_axis((0, l), "k");
    let c = te::compute((rows, m), "C", |[i, j]| te::sum(a.at((i, k)) * b.at((j, k)), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    let sum = if plan.local { s.cache_write(&c, "local")? } else { c.clone() };
    let copy = if plan.shared { Some(s.cache_read(&b, "shared", &[&sum])?) } else { None };
    let axes = s.operation(&c)?.as_compute().expect("a computation").axes.clone();
    if plan.local {
        let stage = s.stage(&c)?;
        let (jo, _) = stage.split(axes[1], plan.tile.0)?;
        if plan.threads {
            stage.bind(axes[0], te::thread_axis("blockIdx.x"))?;
            stage.bind(jo, te::thread_axis("threadIdx.x"))?;
        }
        s.compute_at(&sum, &c, jo)?;
    }
    let compute = s.operation(&sum)?.as_compute().expect("a computation");
    let (axes, reduced) = (compute.axes.clone(), compute.reduce_axes[0]);
    let stage = s.stage(&sum)?;
    let (jo, ji) = stage.split(axes[1], plan.tile.0)?;
    let (ko, ki) = stage.split(reduced, plan.tile.1)?;
    if plan.parts == Parts::Whole {
        stage.reorder(&[jo, ji, ko, ki])?;
    } else {
        stage.reorder(&[jo, ko, ji, ki])?;
    }
    if plan.threads && !plan.local {
        stage.bind(axes[0], te::thread_axis("blockIdx.x"))?;
        stage.bind(jo, te::thread_axis("threadIdx.x"))?;
    }
    let function = DeviceFunction::new("gemv_add", GEMV);
    let width = if plan.parts == Parts::Whole { l } else { plan.tile.1 };
    let intrin = gemv(plan.tile.0, width, plan.parts, plan.device.then_some(&function))?;
    stage.tensorize(ji, &intrin)?;
    if let Some(copy) = copy {
        s.compute_at(&copy, &sum, if plan.parts == Parts::Whole { jo } else { ko })?;
        s.stage(&copy)?.storage_align(copy.axis(0)?, 4, 1)?;
    }
    te::lower(&s, &[&a, &b, &c], "main")
}

fn plans() -> impl Strategy<Value = Plan> {
    let parts = prop::sample::select(vec![Parts::Whole, Parts::Reset, Parts::First]);
    ((1i32..5, 1i32..5), (1i32..4, 1i32..4), 1i32..4, parts, any::<[bool; 5]>()).prop_map(
        |(tile, count, rows, parts, [device, threads, shared, local, symbolic])| Plan {
            tile,
            count,
            rows,
            parts,
            device,
            threads,
            shared,
            local,
            symbolic,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    #[test]
    fn of_a_product(plan in plans()) {
        if lacks_nvrtc("tensorize::of_a_product") {
            return Ok(());
        }
        let program = product(&plan).unwrap();
        let [n, m, l] = [plan.rows, plan.tile.0 * plan.count.1, plan.tile.1 * plan.count.0].map(|x| x as usize);
        let (a, b) = (integers(n * l, 1), integers(m * l, 2));
        let expected: Vec<f64> =
            (0..n * m).map(|at| (0..l).map(|k| a[at / m * l + k] * b[at % m * l + k]).sum()).collect();
        let operands = [Numbers::new(ElementType::F32, &[n, l], a), Numbers::new(ElementType::F32, &[m, l], b)];
        let results = run(&program, &operands, &[(ElementType::F32, vec![n, m])]);
        prop_assert_eq!(&results.interpreted[0], &expected);
        results.assert_equal();
    }
}

#[test]
fn texts() -> Result<(), TeError> {
    let plan = Plan {
        tile: (2, 4),
        count: (3, 2),
        rows: 5,
        parts: Parts::Reset,
        device: true,
        threads: false,
        shared: false,
        local: false,
        symbolic: false,
    };
    let program = product(&plan)?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((5, 12), "float32"), B: T.Buffer((4, 12), "float32"), C: T.Buffer((5, 4), "float32")):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                for i, j_outer in T.grid(5, 2):
                    C_1 = T.Buffer((20,), data=C.data)
                    for i_1 in range(2):
                        C_1[i * 4 + j_outer * 2 + i_1] = T.float32(0.0)
                    for k_outer in range(3):
                        A_1 = T.Buffer((60,), data=A.data)
                        B_1 = T.Buffer((48,), data=B.data)
                        T.call_extern("int32", "gemv_add", T.address_of(C_1[i * 4 + j_outer * 2]), T.address_of(A_1[i * 12 + k_outer * 4]), T.address_of(B_1[j_outer * 24 + k_outer * 4]), 2, 4, 1, 1, 12, 1)
    "##]].assert_eq(&program.script());
    Ok(())
}

/// `B[i, j] = f(A[i, j])`, four elements at once.
fn elementwise(f: impl Fn(Expr) -> Expr, declare: impl Fn(BufferDecl) -> BufferDecl) -> Result<TensorIntrin, TeError> {
    let a = te::placeholder([4], "a");
    let b = te::compute([4], "vector", |[i]| f(a.at([i])))?;
    te::decl_tensor_intrin(&b, &[declare(te::decl_buffer(&a, "a"))], |ins, outs| {
        let body = Stmt::for_range("i", 4, |i| outs[0].store([i], f(ins[0].load([i]))));
        Ok(IntrinBody { body: Some(body), ..IntrinBody::default() })
    })
}

/// Lowers `B[i, j] = A[i, j] + 1` of 8 columns with an intrinsic for four.
fn four(
    intrin: &TensorIntrin,
    prepare: impl FnOnce(&mut te::Schedule, &Tensor) -> Result<te::Axis, TeError>,
) -> Result<te::Program, TeError> {
    let n = te::var("n");
    let a = te::placeholder((n, 8), "A");
    let b = te::compute((n, 8), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let mut s = te::create_schedule(&[&b]);
    let axis = prepare(&mut s, &b)?;
    s.stage(&b)?.tensorize(axis, intrin)?;
    te::lower(&s, &[&a, &b], "main")
}

fn refused<T: std::fmt::Debug>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.expect_err("a mistake was accepted").to_string());
}

#[test]
fn what_tensorize_refuses() -> Result<(), TeError> {
    let inner = |s: &mut te::Schedule, b: &Tensor| Ok(s.stage(b)?.split(b.axis(1)?, 4)?.1);
    let add = |x: Expr| x + 1.0;
    let plain = elementwise(add, |decl| decl)?;
    four(&plain, inner)?;
    refused(
        four(&elementwise(|x| x * 2.0, |decl| decl)?, inner),
        &expect![
            "the intrinsic vector: it computes a[i] * T.float32(2) where the loops compute A[i, j_outer * 4 + i] + T.float32(1) (on B, from the loop j.inner inward)"
        ],
    );
    refused(
        four(&elementwise(|x| x + 2.0, |decl| decl)?, inner),
        &expect![
            "the intrinsic vector: it computes T.float32(2) where the loops compute T.float32(1) (on B, from the loop j.inner inward)"
        ],
    );
    refused(
        four(&elementwise(add, |decl| decl.strides([1]))?, inner),
        &expect![
            "the intrinsic vector: stride 0 of its a is 1, that of A is stride; declare the stride as a variable, or copy A (`cache_read`, `cache_write`)"
        ],
    );
    refused(
        four(&elementwise(add, |decl| decl.offset_factor(8))?, inner),
        &expect![
            "the intrinsic vector: its a begins at a multiple of 8 elements, the part of A at i * stride + j_outer * 4 * stride"
        ],
    );
    refused(
        four(&elementwise(add, |decl| decl.scope("shared").expect("a scope"))?, inner),
        &expect!["the intrinsic vector: its a is in shared memory, A in global; set the scope of A"],
    );
    refused(
        four(&plain, |s, b| Ok(s.stage(b)?.split(b.axis(1)?, 2)?.1)),
        &expect![
            "the intrinsic vector: its axis i has 4 values, j runs over 2 inside (on B, from the loop j.inner inward)"
        ],
    );
    refused(
        four(&plain, |s, b| Ok(s.stage(b)?.split(b.axis(1)?, 3)?.1)),
        &expect![
            "the intrinsic vector: its axis i has 4 values, j runs over 3 inside (on B, from the loop j.inner inward)"
        ],
    );
    refused(
        four(&plain, |_, b| b.axis(0)),
        &expect![
            "the intrinsic vector: it has no axis for i, which runs over n values inside; split it and tensorize inside (on B, from the loop i inward)"
        ],
    );
    refused(
        four(&plain, |s, b| {
            let stage = s.stage(b)?;
            let (outer, inner) = stage.split(b.axis(1)?, 2)?;
            stage.reorder(&[inner, outer])?;
            Ok(outer)
        }),
        &expect![
            "the intrinsic vector: from the loop j.outer inward, j doesn't run over neighbouring values one by one; split j, and put the inner loops of the splits inside"
        ],
    );
    refused(
        four(&plain, |s, b| {
            let stage = s.stage(b)?;
            let (_, inner) = stage.split(b.axis(1)?, 4)?;
            stage.bind(inner, te::thread_axis("threadIdx.x"))?;
            Ok(inner)
        }),
        &expect!["`tensorize` can't take j.inner: it is bound to a thread index"],
    );
    // Rows in groups of four: the number of rows need not be a multiple.
    let a = te::placeholder([te::var("n")], "A");
    let n = a.shape().swap_remove(0);
    let b = te::compute([n], "B", |[i]| a.at([i]) + 1.0)?;
    let mut s = te::create_schedule(&[&b]);
    let (_, inner) = s.stage(&b)?.split(b.axis(0)?, 4)?;
    s.stage(&b)?.tensorize(inner, &plain)?;
    refused(
        te::lower(&s, &[&a, &b], "main"),
        &expect![
            "the intrinsic vector: the test i_outer * 4 + i_inner < n depends on a loop inside it; split by what divides the extent, so that no test is needed there"
        ],
    );
    Ok(())
}

#[test]
fn what_reductions_refuse() -> Result<(), TeError> {
    let (n, l) = (te::var("n"), te::var("l"));
    let a = te::placeholder([n, l], "A");
    let b = te::placeholder([n, l], "B");
    let k = te::reduce_axis((0, l), "k");
    let c = te::compute([n], "C", |[i]| te::sum(a.at((i, k)) * b.at((i, k)), [k]))?;
    let step = |parts| gemv(1, 1, parts, None);
    let mut s = te::create_schedule(&[&c]);
    let axis = c.reduce_axis(0)?;
    let (_, ki) = s.stage(&c)?.split(axis, 1)?;
    s.stage(&c)?.tensorize(ki, &step(Parts::Reset)?)?;
    te::lower(&s, &[&a, &b, &c], "main")?;
    s.stage(&c)?.tensorize(ki, &step(Parts::First)?)?;
    refused(
        te::lower(&s, &[&a, &b, &c], "main"),
        &expect!["the intrinsic gemv: it has no `reset`, and the reduction around it may be over nothing; give one"],
    );
    s.stage(&c)?.tensorize(ki, &step(Parts::Whole)?)?;
    refused(
        te::lower(&s, &[&a, &b, &c], "main"),
        &expect!["the intrinsic gemv: it has no `update`, which is needed where loops of the reduction are around it"],
    );
    refused(
        s.stage(&c)?.tensorize(ki, &elementwise(|x| x, |decl| decl)?),
        &expect!["the intrinsic vector: it is none, C is a reduction"],
    );
    s.stage(&c)?.bind(ki, te::thread_axis("threadIdx.x"))?;
    refused(
        s.stage(&c)?.tensorize(ki, &step(Parts::Reset)?),
        &expect!["`tensorize` can't take k.inner: it is bound to a thread index"],
    );
    Ok(())
}

#[test]
fn what_declarations_refuse() -> Result<(), TeError> {
    let a = te::placeholder([4], "a");
    let other = te::placeholder([4], "other");
    let b = te::compute([4], "b", |[i]| a.at([i]) + 1.0)?;
    let declare = |tensor: &Tensor, binds: &[BufferDecl], body: &dyn Fn(&[te::Buffer], &[te::Buffer]) -> Stmt| {
        te::decl_tensor_intrin(tensor, binds, |ins, outs| {
            Ok(IntrinBody { body: Some(body(ins, outs)), ..IntrinBody::default() })
        })
    };
    let copy = |ins: &[te::Buffer], outs: &[te::Buffer]| outs[0].store([0], ins[0].load([0]));
    declare(&b, &[], &copy)?;
    refused(
        declare(&a, &[], &copy),
        &expect!["the intrinsic a: it is not a computation; an intrinsic computes a tensor expression"],
    );
    refused(
        declare(&b, &[te::decl_buffer(&other, "o")], &copy),
        &expect!["the intrinsic b: the declared other is neither its output nor read by it"],
    );
    refused(
        declare(&b, &[te::decl_buffer(&a, "a").strides([1, 1])], &copy),
        &expect!["the intrinsic b: 2 strides were declared for a, which has 1 dimensions"],
    );
    refused(
        declare(&b, &[te::decl_buffer(&a, "a").offset_factor(0)], &copy),
        &expect!["the intrinsic b: a can't begin at a multiple of 0 elements"],
    );
    refused(
        declare(&b, &[], &|ins, _| ins[0].store([0], 1.0)),
        &expect!["the intrinsic b: it stores to a, which is none of its outputs or own memory"],
    );
    refused(
        declare(&b, &[], &|_, outs| outs[0].store([0, 1], 1.0)),
        &expect!["b has 1 dimensions, 2 indices were given; give one for each"],
    );
    refused(
        declare(&b, &[], &|ins, outs| outs[0].store([0], ins[0].load([0.5]))),
        &expect!["an index of a has type f32; indices are integers: convert it with `.cast(ElementType::I32)`"],
    );
    refused(
        declare(&b, &[], &|_, outs| outs[0].store([0], a.at([0]))),
        &expect!["the intrinsic b: it reads the tensor a; load from the buffers that `implement` is given"],
    );
    refused(
        declare(&b, &[], &|_, outs| outs[0].store([te::var("z")], 0.0)),
        &expect!["the intrinsic b: it uses z, which is not a loop of its own and in no shape or stride of its tensors"],
    );
    refused(
        declare(&b, &[], &|_, _| Stmt::Barrier),
        &expect!["the intrinsic b: it holds threads or a barrier; an intrinsic is what one thread does"],
    );
    refused(
        te::decl_tensor_intrin(&b, &[], |_, _| Ok(IntrinBody::default())),
        &expect!["the intrinsic b: it has no implementation; give `body`, or `reset` and `update`"],
    );
    refused(
        te::decl_buffer(&a, "a").scope("near"),
        &expect!["`near` is not a memory scope; there are global, shared, warp and local"],
    );
    Ok(())
}

/// Indices with quotients and remainders match, too: TVM's own test of an operation as one call.
#[test]
fn a_gather_in_one_intrinsic() -> Result<(), TeError> {
    if lacks_nvrtc("tensorize::a_gather_in_one_intrinsic") {
        return Ok(());
    }
    let gathered = |x: &Tensor, name: &str| te::compute([9, 9], name, |[i, j]| x.at((j / 3 + i % 3, j % 3 + i / 3)));
    let x = te::placeholder([5, 5], "x");
    let y = gathered(&x, "gather")?;
    let intrin = te::decl_tensor_intrin(&y, &[te::decl_buffer(&x, "x").offset_factor(2)], |ins, outs| {
        let body = Stmt::for_range("i", 9, |i| {
            Stmt::for_range("j", 9, |j| outs[0].store([i, j], ins[0].load([j / 3 + i % 3, j % 3 + i / 3])))
        });
        Ok(IntrinBody { body: Some(body), ..IntrinBody::default() })
    })?;
    let a = te::placeholder([5, 5], "A");
    let b = gathered(&a, "B")?;
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.tensorize(b.axis(0)?, &intrin)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    let values = integers(25, 3);
    let input = Numbers::new(ElementType::F32, &[5, 5], values.clone());
    let results = run(&program, &[input], &[(ElementType::F32, vec![9, 9])]);
    let expected: Vec<f64> = (0..81)
        .map(|at| {
            let (i, j) = (at / 9, at % 9);
            values[(j / 3 + i % 3) * 5 + j % 3 + i / 3]
        })
        .collect();
    assert_eq!(results.interpreted[0], expected);
    results.assert_equal();
    Ok(())
}

/// A matrix of four rows by four columns in a tensor of three dimensions, with the actual strides and offset as
/// numbers.
#[test]
fn parts_of_larger_tensors() -> Result<(), TeError> {
    if lacks_nvrtc("tensorize::parts_of_larger_tensors") {
        return Ok(());
    }
    let (x, y) = (te::placeholder([4, 4], "x"), te::placeholder([4], "y"));
    let z = te::compute([4, 4], "tile", |[i, j]| x.at((j, i)) * y.at([j]))?;
    let (first, second, offset) = (te::var("s0"), te::var("s1"), te::var("offset"));
    let declared = te::decl_buffer(&x, "x").strides([first, second]).element_offset(offset);
    let intrin = te::decl_tensor_intrin(&z, &[declared], |ins, outs| {
        let body = Stmt::for_range("i", 4, |i| {
            Stmt::for_range("j", 4, |j| {
                // The index of the part's first element is known; it is subtracted again.
                let place = (offset + first * 3 + second).cast(ElementType::F32);
                outs[0].store([i, j], ins[0].load([j, i]) * ins[1].load([j]) + &place - &place)
            })
        });
        Ok(IntrinBody { body: Some(body), ..IntrinBody::default() })
    })?;
    for threads in [false, true] {
        let n = te::var("n");
        let a = te::placeholder((n, 8, 8), "A");
        let b = te::placeholder((n, 8), "B");
        let c = te::compute((n, 8, 8), "C", |[l, i, j]| a.at((l, j, i)) * b.at((l, j)))?;
        let mut s = te::create_schedule(&[&c]);
        let stage = s.stage(&c)?;
        let (io, jo, ii, _) = stage.tile(c.axis(1)?, c.axis(2)?, 4, 4)?;
        if threads {
            stage.bind(c.axis(0)?, te::thread_axis("blockIdx.x"))?;
            stage.bind(io, te::thread_axis("threadIdx.y"))?;
            stage.bind(jo, te::thread_axis("threadIdx.x"))?;
        }
        stage.tensorize(ii, &intrin)?;
        let program = te::lower(&s, &[&a, &b, &c], "main")?;
        let (left, right) = (integers(3 * 64, 1), integers(3 * 8, 2));
        let expected: Vec<f64> =
            (0..192).map(|at| left[at / 64 * 64 + at % 8 * 8 + at / 8 % 8] * right[at / 64 * 8 + at % 8]).collect();
        let inputs = [Numbers::new(ElementType::F32, &[3, 8, 8], left), Numbers::new(ElementType::F32, &[3, 8], right)];
        let results = run(&program, &inputs, &[(ElementType::F32, vec![3, 8, 8])]);
        assert_eq!(results.interpreted[0], expected);
        results.assert_equal();
    }
    Ok(())
}

/// The index of the largest element, and the element: a reduction of two values, four columns at a time.
#[test]
fn a_reduction_of_two_values() -> Result<(), TeError> {
    if lacks_nvrtc("tensorize::a_reduction_of_two_values") {
        return Ok(());
    }
    let reducer = || {
        te::tuple_reducer(
            |x, y| {
                let first = x[1].greater_equal(&y[1]);
                vec![first.select(&x[0], &y[0]), first.select(&x[1], &y[1])]
            },
            |types| vec![Expr::constant(-1.0, types[0]), Expr::constant(f64::NEG_INFINITY, types[1])],
            "argmax",
        )
    };
    let argmax = |place: &dyn Fn(Expr) -> Expr, a: &dyn Fn(Expr) -> Expr, k: te::Axis| {
        reducer().over_all(&[place(k.into()), a(k.into())], [k])
    };
    // The intrinsic reads the indices, too, because a part of a row doesn't know where it begins.
    let (x, p) = (te::placeholder([4], "x"), te::placeholder_of(ElementType::I32, [4], "p"));
    let k = te::reduce_axis((0, 4), "k");
    let small = te::compute_all([1], "largest", |[_]| argmax(&|k| p.at([k]), &|k| x.at([k]), k))?;
    let intrin = te::decl_tensor_intrin(&small[0], &[], |ins, outs| {
        let ([p, x], [place, value]) = (ins, outs) else { unreachable!("two inputs and two outputs") };
        let reset = Stmt::in_order([place.store([0], -1), value.store([0], f64::NEG_INFINITY)]);
        let update = Stmt::for_range("k", 4, |k| {
            Stmt::when(
                x.load([k]).greater(value.load([0])),
                Stmt::in_order([place.store([0], p.load([k])), value.store([0], x.load([k]))]),
            )
        });
        Ok(IntrinBody { body: None, reset: Some(reset), update: Some(update) })
    })?;
    let n = te::var("n");
    let a = te::placeholder((n, 12), "A");
    let places = te::placeholder_of(ElementType::I32, [12], "P");
    let k = te::reduce_axis((0, 12), "k");
    let both = te::compute_all([n], "B", |[i]| argmax(&|k| places.at([k]), &|k| a.at((i, k)), k))?;
    let mut s = te::create_schedule(&[&both[0]]);
    let stage = s.stage(&both[0])?;
    let (_, ki) = stage.split(k, 4)?;
    stage.tensorize(ki, &intrin)?;
    let program = te::lower(&s, &[&places, &a, &both[0], &both[1]], "main")?;
    let values = integers(5 * 12, 4);
    let inputs = [
        Numbers::new(ElementType::I32, &[12], (0..12).map(f64::from).collect()),
        Numbers::new(ElementType::F32, &[5, 12], values.clone()),
    ];
    let results = run(&program, &inputs, &[(ElementType::I32, vec![5]), (ElementType::F32, vec![5])]);
    for (row, (place, value)) in results.interpreted[0].iter().zip(&results.interpreted[1]).enumerate() {
        let own = &values[row * 12..(row + 1) * 12];
        let largest = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!((*value, own[*place as usize]), (largest, largest));
        assert!(own[..*place as usize].iter().all(|x| *x < largest));
    }
    results.assert_equal();
    Ok(())
}
