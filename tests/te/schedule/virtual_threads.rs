//! Virtual threads: interleaved statements, memory of each virtual thread, shared memory.

use epilogue::ElementType;
use epilogue::te::{self, Axis, TeError, Tensor};
use epilogue_runtime::testing::cases;
use expect_test::expect;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// A matrix product with operands in shared memory, a tile of it in registers, and virtual threads over both
/// dimensions: the schedule of TVM's tutorial.
#[derive(Clone, Copy, Debug)]
struct Product {
    threads: (i32, i32),
    virtual_threads: (i32, i32),
    own: (i32, i32),
    depth: i32,
    /// Whether the virtual threads, too, share the loads to shared memory.
    shared_loads: bool,
    /// Whether the loaded tiles are double-buffered, with padded rows.
    double_buffer: bool,
}

fn product(plan: Product, (m, n, l): (usize, usize, usize)) -> Result<te::Program, TeError> {
    let a = te::placeholder((l as i32, m as i32), "A");
    let b = te::placeholder((l as i32, n as i32), "B");
    let k = te::reduce_axis((0, l as i32), "k");
    let c = te::compute((m as i32, n as i32), "C", |[i, j]| te::sum(a.at([k, i]) * b.at([k, j]), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    let (aa, bb) = (s.cache_read(&a, "shared", &[&c])?, s.cache_read(&b, "shared", &[&c])?);
    let (al, bl) = (s.cache_read(&aa, "local", &[&c])?, s.cache_read(&bb, "local", &[&c])?);
    let cl = s.cache_write(&c, "local")?;
    let compute = s.operation(&c)?.as_compute().expect("a computation");
    let (i, j) = (compute.axes[0], compute.axes[1]);
    let [ty, tx, vy, vx] = ["threadIdx.y", "threadIdx.x", "vthread", "vthread"].map(te::thread_axis);
    let stage = s.stage(&c)?;
    let tile = |threads: i32, virtual_threads: i32, own: i32| threads * virtual_threads * own;
    let (by, yi) = stage.split(i, tile(plan.threads.0, plan.virtual_threads.0, plan.own.0))?;
    let (bx, xi) = stage.split(j, tile(plan.threads.1, plan.virtual_threads.1, plan.own.1))?;
    let (yv, yi) = stage.split_parts(yi, plan.virtual_threads.0)?;
    let (xv, xi) = stage.split_parts(xi, plan.virtual_threads.1)?;
    let (yt, yi) = stage.split_parts(yi, plan.threads.0)?;
    let (xt, xi) = stage.split_parts(xi, plan.threads.1)?;
    stage.reorder(&[by, bx, yv, xv, yt, xt, yi, xi])?;
    for (axis, thread) in [(by, te::thread_axis("blockIdx.y")), (bx, te::thread_axis("blockIdx.x"))] {
        stage.bind(axis, thread)?;
    }
    for (axis, thread) in [(yv, vy), (xv, vx), (yt, ty), (xt, tx)] {
        stage.bind(axis, thread)?;
    }
    s.compute_at(&cl, &c, xt)?;
    let reduced = s.operation(&cl)?.as_compute().expect("a computation").reduce_axes[0];
    let axes = s.operation(&cl)?.as_compute().expect("a computation").axes.clone();
    let stage = s.stage(&cl)?;
    let (ko, ki) = stage.split(reduced, plan.depth)?;
    stage.reorder(&[ko, ki, axes[0], axes[1]])?;
    s.compute_at(&aa, &cl, ko)?;
    s.compute_at(&bb, &cl, ko)?;
    s.compute_at(&al, &cl, ki)?;
    s.compute_at(&bl, &cl, ki)?;
    for (tensor, v) in [(&aa, vy), (&bb, vx)] {
        let stage = s.stage(tensor)?;
        if plan.double_buffer {
            let rows = stage.loops()[0];
            stage.storage_align(rows, 4, 1)?;
            stage.double_buffer()?;
        }
        let loops: Vec<Axis> = stage.loops().to_vec();
        let mut fused = stage.fuse_all(&loops)?;
        if plan.shared_loads {
            let count = if v == vy { plan.virtual_threads.0 } else { plan.virtual_threads.1 };
            let (outer, inner) = stage.split_parts(fused, count)?;
            stage.bind(outer, v)?;
            fused = inner;
        }
        let (outer, rest) = stage.split_parts(fused, plan.threads.0)?;
        let (inner, _) = stage.split_parts(rest, plan.threads.1)?;
        stage.bind(outer, ty)?;
        stage.bind(inner, tx)?;
    }
    te::lower(&s, &[&a, &b, &c], "main")
}

fn plans() -> impl Strategy<Value = Product> {
    let pair = |most: i32| (1..=most, 1..=most);
    (pair(4), pair(3), pair(2), 1i32..5, any::<bool>(), any::<bool>()).prop_map(
        |(threads, virtual_threads, own, depth, shared_loads, double_buffer)| Product {
            threads,
            virtual_threads,
            own,
            depth,
            shared_loads,
            double_buffer,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(20)) })]

    #[test]
    fn of_a_product(plan in plans(), (m, n, l) in (1usize..20, 1usize..20, 1usize..9)) {
        if lacks_nvrtc("virtual_threads::of_a_product") {
            return Ok(());
        }
        let program = product(plan, (m, n, l)).unwrap();
        let a = Numbers::new(ElementType::F32, &[l, m], integers(l * m, 3));
        let b = Numbers::new(ElementType::F32, &[l, n], integers(l * n, 4));
        let expected: Vec<f64> = (0..m * n)
            .map(|e| (0..l).map(|k| a.values[k * m + e / n] * b.values[k * n + e % n]).sum())
            .collect();
        let results = run(&program, &[a, b], &[(ElementType::F32, vec![m, n])]);
        results.assert_equal();
        prop_assert_eq!(&results.interpreted[0], &expected);
    }

    /// Symbolic sizes with tails; few and many virtual threads; with and without a stage of each virtual thread.
    #[test]
    fn of_an_elementwise_stage((n, m) in (0usize..40, 0usize..12), count in 1i32..20, threads in 1i32..9, own: bool) {
        if lacks_nvrtc("virtual_threads::of_an_elementwise_stage") {
            return Ok(());
        }
        let (rows, columns) = (te::var("n"), te::var("m"));
        let a = te::placeholder([rows, columns], "A");
        let b = te::compute([rows, columns], "B", |[i, j]| a.at([i, j]) * 2.0).unwrap();
        let c = te::compute([rows, columns], "C", |[i, j]| b.at([i, j]) + 1.0).unwrap();
        let mut s = te::create_schedule(&[&c]);
        let stage = s.stage(&c).unwrap();
        let (block, rest) = stage.split(c.axis(0).unwrap(), count * threads).unwrap();
        let (v, thread) = stage.split(rest, threads).unwrap();
        stage.bind(block, te::thread_axis("blockIdx.x")).unwrap();
        stage.bind(v, te::thread_axis("vthread")).unwrap();
        stage.bind(thread, te::thread_axis("threadIdx.x")).unwrap();
        if own {
            s.compute_at(&b, &c, c.axis(1).unwrap()).unwrap();
        } else {
            s.compute_inline(&b).unwrap();
        }
        let program = te::lower(&s, &[&a, &c], "main").unwrap();
        let input = Numbers::new(ElementType::F32, &[n, m], integers(n * m, 5));
        run(&program, &[input], &[(ElementType::F32, vec![n, m])]).assert_equal();
    }

    /// A reduction over threads for each virtual thread.
    #[test]
    fn of_a_reduction_over_threads((n, m) in (0usize..20, 0usize..9), count in 1i32..4) {
        if lacks_nvrtc("virtual_threads::of_a_reduction_over_threads") {
            return Ok(());
        }
        let (rows, a, b) = sums(m as i32).unwrap();
        prop_assert_eq!(rows.name(), "n");
        let mut s = te::create_schedule(&[&b]);
        let (ko, ki) = s.stage(&b).unwrap().split(b.reduce_axis(0).unwrap(), 4).unwrap();
        let _ = ko;
        let partial = s.rfactor(&b, ki).unwrap();
        let compute = s.operation(&b).unwrap().as_compute().unwrap();
        let (i, k) = (compute.axes[0], compute.reduce_axes[0]);
        let stage = s.stage(&b).unwrap();
        let (block, v) = stage.split(i, count).unwrap();
        stage.bind(block, te::thread_axis("blockIdx.x")).unwrap();
        stage.bind(v, te::thread_axis("vthread")).unwrap();
        stage.bind(k, te::thread_axis("threadIdx.x")).unwrap();
        s.compute_at(&partial, &b, k).unwrap();
        let program = te::lower(&s, &[&a, &b], "main").unwrap();
        let input = Numbers::new(ElementType::F32, &[n, m], integers(n * m, 5));
        run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
    }
}

fn sums(m: i32) -> Result<(te::Var, Tensor, Tensor), TeError> {
    let n = te::var("n");
    let a = te::placeholder((n, m), "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    Ok((n, a, b))
}

#[test]
fn mistakes() -> Result<(), TeError> {
    let (_, a, b) = sums(8)?;
    let refused = |result: Result<te::Program, TeError>| result.expect_err("a mistake was accepted").to_string();
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.bind(b.axis(0)?, te::thread_axis("vthread"))?;
    expect![
        "i of B (extent n): a loop bound to a virtual thread needs a constant extent; split it by a constant first"
    ]
    .assert_eq(&refused(te::lower(&s, &[&a, &b], "main")));
    let mut s = te::create_schedule(&[&b]);
    s.stage(&b)?.bind(b.reduce_axis(0)?, te::thread_axis("vthread"))?;
    expect!["B: virtual threads can't be reduced over; bind the reduction axis to threadIdx"]
        .assert_eq(&refused(te::lower(&s, &[&a, &b], "main")));
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, inner) = stage.split(b.axis(0)?, 4)?;
    let v = te::thread_axis("vthread");
    stage.bind(inner, v)?;
    let message = stage.bind(outer, v).expect_err("bound twice").to_string();
    expect!["`bind` can't take i.outer: another loop of the stage is bound to this thread index; take another index, or fuse both loops"].assert_eq(&message);
    let c = te::compute([1], "C", |[i]| a.at((i, 0)) * 2.0)?;
    let d = te::compute([1], "D", |[i]| c.at([0]) - c.at([i]))?;
    let mut s = te::create_schedule(&[&d]);
    let (outer, _) = s.stage(&d)?.split_parts(d.axis(0)?, 4)?;
    s.stage(&d)?.bind(outer, v)?;
    s.compute_at(&c, &d, outer)?;
    expect![
        "vthread: memory of a stage inside would have another extent for each virtual thread; compute the stage outside, \
         or bind the loop to threads"
    ]
    .assert_eq(&refused(te::lower(&s, &[&a, &d], "main")));
    Ok(())
}

/// Loads that all virtual threads need are done once, and each one's sum is in its own memory.
#[test]
fn the_program_of_a_small_product() -> Result<(), TeError> {
    let plan = Product {
        threads: (1, 4),
        virtual_threads: (2, 1),
        own: (1, 1),
        depth: 2,
        shared_loads: false,
        double_buffer: false,
    };
    let program = product(plan, (4, 8, 4))?;
    expect![[r##"
        # from tvm.script import ir as I
        # from tvm.script import tir as T

        @I.ir_module
        class Module:
            @T.prim_func
            def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
                T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
                blockIdx_y = T.launch_thread("blockIdx.y", 2)
                C_local = T.allocate([2], "float32", "local")
                A_shared = T.allocate([4], "float32", "shared")
                B_shared = T.allocate([8], "float32", "shared")
                A_shared_local = T.allocate([2], "float32", "local")
                B_shared_local = T.allocate([1], "float32", "local")
                blockIdx_x = T.launch_thread("blockIdx.x", 2)
                threadIdx_y = T.launch_thread("threadIdx.y", 1)
                threadIdx_x = T.launch_thread("threadIdx.x", 4)
                C_local_1 = T.Buffer((2,), data=C_local, scope="local")
                C_local_1[0] = T.float32(0.0)
                C_local_1[1] = T.float32(0.0)
                for k_outer in range(2):
                    A_shared_1 = T.Buffer((4,), data=A_shared, scope="shared")
                    if T.likely(k_outer * 2 + threadIdx_y * 2 + threadIdx_x // 2 >= 0):
                        if T.likely(k_outer * 2 + threadIdx_y * 2 + threadIdx_x // 2 < 4):
                            if T.likely(blockIdx_y * 2 + threadIdx_x % 2 < 4):
                                A_1 = T.Buffer((16,), data=A.data)
                                A_shared_1[threadIdx_y * 4 + threadIdx_x // 2 * 2 + threadIdx_x % 2] = A_1[k_outer * 8 + threadIdx_y * 8 + threadIdx_x // 2 * 4 + blockIdx_y * 2 + threadIdx_x % 2]
                    B_shared_1 = T.Buffer((8,), data=B_shared, scope="shared")
                    for ax0_ax1_fused_inner_inner in range(2):
                        if T.likely(k_outer * 2 + threadIdx_y * 2 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) // 4 >= 0):
                            if T.likely(k_outer * 2 + threadIdx_y * 2 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) // 4 < 4):
                                if T.likely(blockIdx_x * 4 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) % 4 < 8):
                                    B_1 = T.Buffer((32,), data=B.data)
                                    B_shared_1[threadIdx_y * 8 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) // 4 * 4 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) % 4] = B_1[k_outer * 16 + threadIdx_y * 16 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) // 4 * 8 + blockIdx_x * 4 + (threadIdx_x * 2 + ax0_ax1_fused_inner_inner) % 4]
                    T.tvm_storage_sync("shared")
                    for k_inner in range(2):
                        A_shared_local_1 = T.Buffer((2,), data=A_shared_local, scope="local")
                        A_shared_local_1[0] = A_shared_1[k_inner * 2 + threadIdx_y]
                        A_shared_local_1[1] = A_shared_1[k_inner * 2 + threadIdx_y + 1]
                        B_shared_local_1 = T.Buffer((1,), data=B_shared_local, scope="local")
                        B_shared_local_1[0] = B_shared_1[k_inner * 4 + threadIdx_x]
                        C_local_1[0] = C_local_1[0] + A_shared_local_1[0] * B_shared_local_1[0]
                        C_local_1[1] = C_local_1[1] + A_shared_local_1[1] * B_shared_local_1[0]
                    T.tvm_storage_sync("shared")
                C_1 = T.Buffer((32,), data=C.data)
                C_1[blockIdx_y * 16 + threadIdx_y * 8 + blockIdx_x * 4 + threadIdx_x] = C_local_1[0]
                C_1[blockIdx_y * 16 + threadIdx_y * 8 + blockIdx_x * 4 + threadIdx_x + 8] = C_local_1[1]
    "##]].assert_eq(&program.script());
    Ok(())
}
