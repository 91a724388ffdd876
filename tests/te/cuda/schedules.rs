//! Intermediate tensors in every memory, and stages of one launch with different bindings.

use epilogue::ElementType;
use epilogue::te::{self, Expr, TeError, Tensor};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// Where the intermediate tensor is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Inline,
    Root,
    /// Inside a block, in shared memory, with the given number of threads; 0 for one thread.
    Shared(i32),
    /// Inside a thread.
    Local,
}

/// How the stencil `C[i, j] = Σ_d B[i, j + d]`, `B = 2 A + 1`, is computed.
#[derive(Clone, Copy, Debug)]
struct Plan {
    place: Place,
    tile: (i32, i32),
    /// Whether A is first copied to shared memory, and with how many threads.
    cache_read: Option<i32>,
    /// Sums in a register, and copies the sum out.
    cache_write: bool,
    vectorize: bool,
    swap: bool,
}

fn stencil(plan: Plan, (n, m): (usize, usize)) -> Result<(), TeError> {
    let (rows, columns) = (te::var("n"), te::var("m"));
    let a = te::placeholder((rows, columns + 2), "A");
    let b = te::compute((rows, columns + 2), "B", |[i, j]| a.at([i, j]) * 2.0 + 1.0)?;
    let d = te::reduce_axis((0, 3), "d");
    let c = te::compute((rows, columns), "C", |[i, j]| te::sum(b.at((i, j + d)), [d]))?;
    let mut s = te::create_schedule(&[&c]);
    let copy = plan.cache_read.map(|_| s.cache_read(&a, "shared", &[&b])).transpose()?;
    let sum = if plan.cache_write { s.cache_write(&c, "local")? } else { c.clone() };
    let (i, j) = (c.axis(0)?, c.axis(1)?);
    let stage = s.stage(&c)?;
    let (io, jo, ii, ji) = stage.tile(i, j, plan.tile.0, plan.tile.1)?;
    let (x, y) = if plan.swap { ("threadIdx.y", "threadIdx.x") } else { ("threadIdx.x", "threadIdx.y") };
    stage.bind(io, te::thread_axis("blockIdx.y"))?;
    stage.bind(jo, te::thread_axis("blockIdx.x"))?;
    stage.bind(ii, te::thread_axis(y))?;
    let mut innermost = ji;
    if plan.vectorize {
        let (thread, lane) = stage.split(ji, 4)?;
        stage.bind(thread, te::thread_axis(x))?;
        innermost = thread;
        if plan.cache_write {
            stage.vectorize(lane)?;
        } else {
            stage.unroll(lane)?;
        }
    } else {
        stage.bind(ji, te::thread_axis(x))?;
    }
    if plan.cache_write {
        s.compute_at(&sum, &c, innermost)?;
    }
    let share = |s: &mut te::Schedule, tensor: &Tensor, threads: i32| -> Result<(), TeError> {
        s.compute_at(tensor, &c, jo)?;
        s.set_scope(tensor, "shared")?;
        if threads > 0 {
            let stage = s.stage(tensor)?;
            let axes: Vec<te::Axis> = stage.loops().to_vec();
            let fused = stage.fuse(axes[0], axes[1])?;
            let (_, inner) = stage.split(fused, threads)?;
            stage.bind(inner, te::thread_axis(x))?;
        }
        Ok(())
    };
    if let (Some(copy), Some(threads)) = (&copy, plan.cache_read) {
        share(&mut s, copy, threads)?;
    }
    match plan.place {
        Place::Inline => s.compute_inline(&b)?,
        // A tensor in shared memory is in the same launch as its reader.
        Place::Root if copy.is_some() => share(&mut s, &b, 0)?,
        Place::Root => {
            let stage = s.stage(&b)?;
            let loops = stage.loops().to_vec();
            stage.bind(loops[0], te::thread_axis("blockIdx.x"))?;
        }
        Place::Shared(threads) => share(&mut s, &b, threads)?,
        Place::Local if plan.cache_write => s.compute_inline(&b)?,
        Place::Local => s.compute_at(&b, &c, innermost)?,
    }
    let program = te::lower(&s, &[&a, &c], "main")?;
    let input = Numbers::new(ElementType::F32, &[n, m + 2], integers(n * (m + 2), 3));
    run(&program, &[input], &[(ElementType::F32, vec![n, m])]).assert_equal();
    Ok(())
}

fn plans() -> impl Strategy<Value = Plan> {
    let place = prop_oneof![
        Just(Place::Inline),
        Just(Place::Root),
        prop::sample::select(vec![0, 1, 8, 24]).prop_map(Place::Shared),
        Just(Place::Local),
    ];
    let cache_read = prop_oneof![Just(None), prop::sample::select(vec![0, 5, 16]).prop_map(Some)];
    (place, (1i32..6, 1i32..13), cache_read, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(place, tile, cache_read, cache_write, vectorize, swap)| Plan {
            place,
            tile,
            cache_read,
            cache_write,
            vectorize,
            swap,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(32)) })]

    #[test]
    fn of_a_stencil(plan in plans(), (n, m) in (0usize..14, 0usize..30)) {
        if lacks_nvrtc("schedules::of_a_stencil") {
            return Ok(());
        }
        stencil(plan, (n, m)).unwrap();
    }
}

/// Rows are summed into shared memory, then every thread of the block reads all sums: a barrier is needed in between,
/// and another one before the next round overwrites them.
#[test]
fn shared_memory_that_is_used_again_in_a_loop() -> Result<(), TeError> {
    if lacks_nvrtc("schedules::shared_memory_that_is_used_again_in_a_loop") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let b = te::compute([n, m], "B", |[i, j]| a.at([i, j]) * 3.0)?;
    let k = te::reduce_axis((0, 8), "k");
    let c = te::compute([n, m], "C", |[i, j]| te::sum(b.at((i, (j / 8) * 8 + k)), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    let stage = s.stage(&c)?;
    let (jo, ji) = stage.split(c.axis(1)?, 8)?;
    stage.bind(c.axis(0)?, te::thread_axis("blockIdx.x"))?;
    stage.bind(ji, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&b, &c, jo)?;
    s.set_scope(&b, "shared")?;
    let loops = s.stage(&b)?.loops().to_vec();
    s.stage(&b)?.bind(loops[1], te::thread_axis("threadIdx.x"))?;
    let program = te::lower(&s, &[&a, &c], "main")?;
    let input = Numbers::new(ElementType::F32, &[3, 32], integers(96, 8));
    run(&program, &[input], &[(ElementType::F32, vec![3, 32])]).assert_equal();
    let script = program.script();
    assert_eq!(script.matches("tvm_storage_sync").count(), 2, "{script}");
    Ok(())
}

/// A convolution as in TVM's tutorial, with its filter in shared memory.
#[test]
fn a_convolution() -> Result<(), TeError> {
    if lacks_nvrtc("schedules::a_convolution") {
        return Ok(());
    }
    let n = te::var("n");
    let input = te::placeholder([n, n], "Input");
    let filter = te::placeholder([3, 3], "Filter");
    let (di, dj) = (te::reduce_axis((0, 3), "di"), te::reduce_axis((0, 3), "dj"));
    let output = te::compute([n - 2, n - 2], "Output", |[i, j]| {
        te::sum(input.at([i + di, j + dj]) * filter.at([di, dj]), [di, dj])
    })?;
    let mut s = te::create_schedule(&[&output]);
    let near = s.cache_read(&filter, "shared", &[&output])?;
    let stage = s.stage(&output)?;
    let (io, jo, ii, ji) = stage.tile(output.axis(0)?, output.axis(1)?, 4, 16)?;
    stage.bind(io, te::thread_axis("blockIdx.y"))?;
    stage.bind(jo, te::thread_axis("blockIdx.x"))?;
    stage.bind(ii, te::thread_axis("threadIdx.y"))?;
    stage.bind(ji, te::thread_axis("threadIdx.x"))?;
    stage.unroll(di)?;
    stage.unroll(dj)?;
    s.compute_at(&near, &output, jo)?;
    let program = te::lower(&s, &[&input, &filter, &output], "convolution")?;
    for n in [3, 17, 40] {
        let numbers = Numbers::new(ElementType::F32, &[n, n], integers(n * n, 5));
        let weights = Numbers::new(ElementType::F32, &[3, 3], integers(9, 6));
        run(&program, &[numbers, weights], &[(ElementType::F32, vec![n - 2, n - 2])]).assert_equal();
    }
    Ok(())
}

/// Nothing is bound to a thread: one launch of one thread, as the schedule says.
#[test]
fn the_default_schedule_runs_in_one_thread() -> Result<(), TeError> {
    if lacks_nvrtc("schedules::the_default_schedule_runs_in_one_thread") {
        return Ok(());
    }
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    let c = te::compute([n], "C", |[i]| b.at([i]) + Expr::from(i).cast(te::DType::F32))?;
    let s = te::create_schedule(&[&c]);
    let program = te::lower(&s, &[&a, &c], "main")?;
    let input = Numbers::new(ElementType::F32, &[9, 11], integers(99, 1));
    run(&program, &[input], &[(ElementType::F32, vec![9])]).assert_equal();
    Ok(())
}
