//! The memory of intermediate tensors: padded rows, double buffers, prefetches. None of them changes the results.

use epilogue::ElementType;
use epilogue::te::{self, TeError};
use epilogue_runtime::testing::cases;
use expect_test::{Expect, expect};
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// How a product of matrices is computed in blocks, with its operands copied to shared memory.
#[derive(Clone, Debug)]
struct Plan {
    /// Rows and columns of a block, and steps of k.
    tile: (i32, i32, i32),
    /// Which operand's copy is double-buffered.
    double: [bool; 2],
    /// Factor, offset and dimension of the copies' padding.
    align: [Option<(i64, i64, usize)>; 2],
    /// How many iterations ahead the operands are fetched.
    prefetch: Option<i32>,
    /// Whether a block's elements are computed by threads.
    threads: bool,
    /// Whether the sum is in registers.
    local: bool,
    unroll: bool,
}

fn product(plan: &Plan, (n, m, l): (usize, usize, usize), constant: bool) -> Result<te::Program, TeError> {
    let size = |name: &str, value: usize| if constant { te::Expr::from(value) } else { te::var(name).into() };
    let (rows, columns, depth) = (size("n", n), size("m", m), size("l", l));
    let a = te::placeholder([rows.clone(), depth.clone()], "A");
    let b = te::placeholder([depth.clone(), columns.clone()], "B");
    let k = te::reduce_axis((0, depth), "k");
    let c = te::compute([rows, columns], "C", |[i, j]| te::sum(a.at((i, k)) * b.at((k, j)), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    let sum = if plan.local { s.cache_write(&c, "local")? } else { c.clone() };
    let copies = [s.cache_read(&a, "shared", &[&sum])?, s.cache_read(&b, "shared", &[&sum])?];
    let axes = s.operation(&c)?.as_compute().expect("a computation").axes.clone();
    let stage = s.stage(&c)?;
    let (io, jo, ii, ji) = stage.tile(axes[0], axes[1], plan.tile.0, plan.tile.1)?;
    stage.bind(io, te::thread_axis("blockIdx.y"))?;
    stage.bind(jo, te::thread_axis("blockIdx.x"))?;
    if plan.threads {
        stage.bind(ii, te::thread_axis("threadIdx.y"))?;
        stage.bind(ji, te::thread_axis("threadIdx.x"))?;
    }
    if plan.local {
        s.compute_at(&sum, &c, if plan.threads { ji } else { jo })?;
    }
    let reduced = s.operation(&sum)?.as_compute().expect("a computation").reduce_axes[0];
    let stage = s.stage(&sum)?;
    let (ko, ki) = stage.split(reduced, plan.tile.2)?;
    if !plan.local {
        stage.reorder(&[ko, ii, ji, ki])?;
    } else if !plan.threads {
        let loops = stage.loops().to_vec();
        stage.reorder(&[ko, loops[0], loops[1], ki])?;
    }
    if plan.unroll {
        stage.unroll(ki)?;
    }
    for (place, copy) in copies.iter().enumerate() {
        s.compute_at(copy, &sum, ko)?;
        let own = [copy.axis(0)?, copy.axis(1)?];
        let stage = s.stage(copy)?;
        if let Some((factor, offset, dimension)) = plan.align[place] {
            stage.storage_align(own[dimension], factor, offset)?;
        }
        if plan.double[place] {
            stage.double_buffer()?;
        }
        let (rows, columns, depth) = plan.tile;
        let elements = depth * if place == 0 { rows } else { columns };
        // An inner loop of constant extent is limited to what was split, which would leave fewer threads.
        let whole = !constant || [(n, rows), (m, columns), (l, depth)].iter().all(|(size, tile)| *size as i32 >= *tile);
        if plan.threads && elements >= columns && whole {
            let fused = stage.fuse(own[0], own[1])?;
            let (y, x) = stage.split(fused, columns)?;
            stage.bind(x, te::thread_axis("threadIdx.x"))?;
            if rows == columns && columns == depth {
                stage.bind(y, te::thread_axis("threadIdx.y"))?;
            }
        }
    }
    let (rows, columns, depth) = plan.tile;
    let bound = plan.threads && rows == columns && columns == depth;
    if let Some(offset) = plan.prefetch.filter(|_| !bound) {
        let outermost = s.stage(&copies[0])?.loops()[0];
        s.stage(&copies[0])?.prefetch(&a, outermost, offset)?;
    }
    te::lower(&s, &[&a, &b, &c], "main")
}

fn plans() -> impl Strategy<Value = Plan> {
    let align = || prop::option::of((1i64..12, 0i64..40, 0usize..2));
    let tile = (1i32..6, 1i32..9, 1i32..6);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<[bool; 2]>());
    (tile, align(), align(), flags, prop::option::of(0i32..3)).prop_map(
        |(tile, first, second, (threads, local, unroll, double), prefetch)| Plan {
            tile,
            double,
            align: [first, second],
            prefetch,
            threads,
            local,
            unroll,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(32)) })]

    #[test]
    fn of_a_product(plan in plans(), (n, m, l) in (0usize..11, 0usize..17, 0usize..14), constant: bool) {
        if lacks_nvrtc("memory::of_a_product") {
            return Ok(());
        }
        let program = product(&plan, (n, m, l), constant && n * m * l > 0).unwrap();
        let operand = |n: usize, m: usize, seed| Numbers::new(ElementType::F32, &[n, m], integers(n * m, seed));
        run(&program, &[operand(n, l, 1), operand(l, m, 2)], &[(ElementType::F32, vec![n, m])]).assert_equal();
    }
}

fn script(program: &te::Program, expected: &Expect) {
    expected.assert_eq(&program.script());
}

/// While a block's threads use one half, they fill the other: one barrier per iteration.
#[test]
fn two_halves_and_padded_rows() -> Result<(), TeError> {
    let plan = Plan {
        tile: (4, 4, 4),
        double: [true, true],
        align: [Some((8, 1, 0)), None],
        prefetch: None,
        threads: true,
        local: true,
        unroll: false,
    };
    let program = product(&plan, (8, 8, 16), true)?;
    script(
        &program,
        &expect![[r##"
            # from tvm.script import ir as I
            # from tvm.script import tir as T

            @I.ir_module
            class Module:
                @T.prim_func
                def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((8, 8), "float32")):
                    T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                    blockIdx_y = T.launch_thread("blockIdx.y", 2)
                    C_local = T.allocate([1], "float32", "local")
                    A_shared = T.allocate([72], "float32", "shared")
                    B_shared = T.allocate([32], "float32", "shared")
                    blockIdx_x = T.launch_thread("blockIdx.x", 2)
                    threadIdx_y = T.launch_thread("threadIdx.y", 4)
                    threadIdx_x = T.launch_thread("threadIdx.x", 4)
                    C_local_1 = T.Buffer((1,), data=C_local, scope="local")
                    C_local_1[0] = T.float32(0.0)
                    A_shared_1 = T.Buffer((72,), data=A_shared, scope="shared")
                    A_1 = T.Buffer((128,), data=A.data)
                    A_shared_1[threadIdx_y * 9 + threadIdx_x] = A_1[blockIdx_y * 64 + threadIdx_y * 16 + threadIdx_x]
                    T.tvm_storage_sync("shared")
                    B_shared_1 = T.Buffer((32,), data=B_shared, scope="shared")
                    B_1 = T.Buffer((128,), data=B.data)
                    B_shared_1[threadIdx_y * 4 + threadIdx_x] = B_1[threadIdx_y * 8 + blockIdx_x * 4 + threadIdx_x]
                    T.tvm_storage_sync("shared")
                    for k_outer in range(4):
                        if T.likely(k_outer + 1 < 4):
                            T.attr(B_shared, "double_buffer_write", 1)
                            B_shared_1[(k_outer + 1) % 2 * 16 + threadIdx_y * 4 + threadIdx_x] = B_1[k_outer * 32 + threadIdx_y * 8 + blockIdx_x * 4 + threadIdx_x + 32]
                        if T.likely(k_outer + 1 < 4):
                            T.attr(A_shared, "double_buffer_write", 1)
                            A_shared_1[(k_outer + 1) % 2 * 36 + threadIdx_y * 9 + threadIdx_x] = A_1[blockIdx_y * 64 + threadIdx_y * 16 + k_outer * 4 + threadIdx_x + 4]
                        for k_inner in range(4):
                            cse_var_1: T.int32 = k_outer % 2
                            C_local_1[0] = C_local_1[0] + A_shared_1[cse_var_1 * 36 + threadIdx_y * 9 + k_inner] * B_shared_1[cse_var_1 * 16 + k_inner * 4 + threadIdx_x]
                        T.tvm_storage_sync("shared")
                    C_1 = T.Buffer((64,), data=C.data)
                    C_1[blockIdx_y * 32 + threadIdx_y * 8 + blockIdx_x * 4 + threadIdx_x] = C_local_1[0]
        "##]],
    );
    Ok(())
}

#[test]
fn prefetches() -> Result<(), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let b = te::compute([n, m], "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let mut s = te::create_schedule(&[&b]);
    let i = b.axis(0)?;
    s.stage(&b)?.prefetch(&a, i, 1)?;
    let program = te::lower(&s, &[&a, &b], "main")?;
    script(
        &program,
        &expect![[r##"
            # from tvm.script import ir as I
            # from tvm.script import tir as T

            @I.ir_module
            class Module:
                @T.prim_func
                def main(A: T.handle, B: T.handle):
                    T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                    n, m = T.int32(), T.int32()
                    A_1 = T.match_buffer(A, (n, m), strides=("stride", "stride"), buffer_type="auto")
                    B_1 = T.match_buffer(B, (n, m), strides=("stride", "stride"), buffer_type="auto")
                    for i in range(n):
                        A_2 = T.Buffer((A_1.strides[0] * n,), data=A_1.data, buffer_type="auto")
                        if T.likely(i < n - 1):
                            for prefetch_1 in range((m + 15) // 16):
                                T.prefetch(T.address_of(A_2[(i + 1) * A_1.strides[0] + prefetch_1 * 16 * A_1.strides[1]]), 0, 3, 1)
                        for j in range(m):
                            B_2 = T.Buffer((B_1.strides[0] * n,), data=B_1.data, buffer_type="auto")
                            B_2[i * B_1.strides[0] + j * B_1.strides[1]] = A_2[i * A_1.strides[0] + j * A_1.strides[1]] + T.float32(1.0)
        "##]],
    );
    Ok(())
}

fn refused<T: std::fmt::Debug>(result: Result<T, TeError>, message: &Expect) {
    message.assert_eq(&result.expect_err("a mistake was accepted").to_string());
}

#[test]
fn what_memory_refuses() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder((n, 8), "A");
    let b = te::compute((n, 8), "B", |[i, j]| a.at((i, j)) + 1.0)?;
    let c = te::compute((n, 8), "C", |[i, j]| b.at((i, j)) * 2.0)?;
    let d = te::compute((n, 8), "D", |[i, j]| c.at((i, j)) + b.at((i, j)))?;
    let fresh = || te::create_schedule(&[&d]);
    let mut s = fresh();
    refused(
        s.stage(&d)?.storage_align(d.axis(0)?, 8, 1),
        &expect![
            "`storage_align` on D: it is an output, whose memory is the caller's; use it on an intermediate tensor"
        ],
    );
    refused(
        s.stage(&d)?.double_buffer(),
        &expect![
            "`double_buffer` on D: it is an output, whose memory is the caller's; use it on an intermediate tensor"
        ],
    );
    refused(
        s.stage(&a)?.double_buffer(),
        &expect!["`double_buffer` on A: it is not a computation; use it on an intermediate tensor that is computed"],
    );
    refused(
        s.stage(&b)?.storage_align(d.axis(0)?, 8, 1),
        &expect![
            "`storage_align` on B: i is not a dimension of it; give one of its own data axes, as `tensor.axis(0)`, not a part of one"
        ],
    );
    refused(
        s.stage(&b)?.storage_align(b.axis(0)?, 0, 1),
        &expect!["`storage_align` on B: the factor 0 was given; a stride is aligned to 1 element or more"],
    );
    refused(
        s.stage(&d)?.prefetch(&a, d.axis(0)?, 1),
        &expect!["`prefetch` on D: it doesn't read A; prefetch a tensor that it reads"],
    );
    refused(
        s.stage(&d)?.prefetch(&b, d.axis(0)?, -1),
        &expect!["`prefetch` on D: the offset -1 was given; it is a number of iterations, 0 or more"],
    );
    refused(
        s.stage(&d)?.prefetch(&b, b.axis(0)?, 1),
        &expect!["i is not a loop of D; it is not part of its schedule, whose loops `loops()` gives"],
    );
    s.stage(&b)?.double_buffer()?;
    refused(
        te::lower(&s, &[&a, &d], "main"),
        &expect![
            "`double_buffer` on B: it is computed in no loop of its consumer; place it with `compute_at` in a loop that runs in order and more than once"
        ],
    );

    // C is computed from B, in the same iteration.
    let mut s = fresh();
    s.compute_at(&b, &d, d.axis(0)?)?;
    s.compute_at(&c, &d, d.axis(0)?)?;
    s.stage(&c)?.double_buffer()?;
    refused(
        te::lower(&s, &[&a, &d], "main"),
        &expect![
            "`double_buffer` on C: it reads B, which the same iteration of i computes: the next iteration's B is not there yet; compute B inside its loops, or outside this one"
        ],
    );

    let mut s = fresh();
    s.compute_inline(&c)?;
    s.compute_at(&b, &d, d.axis(0)?)?;
    s.stage(&b)?.double_buffer()?;
    s.stage(&d)?.parallel(d.axis(0)?)?;
    refused(
        te::lower(&s, &[&a, &d], "main"),
        &expect!["`double_buffer` on B: the loop over i around it does not run in order"],
    );
    Ok(())
}
