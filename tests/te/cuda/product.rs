//! A product of matrices with all elements of a GPU schedule: blocks, virtual threads, tiles in shared memory that all
//! threads fetch as vectors, in double buffers, and sums in registers.

use epilogue::ElementType;
use epilogue::te::{self, Schedule, TeError, Tensor};

use crate::case::{Numbers, lacks_nvrtc, run};
use crate::values::integers;

/// Threads along each axis of a block.
const THREADS: i32 = 4;

#[derive(Clone, Copy)]
struct Plan {
    virtual_threads: bool,
    double_buffer: bool,
    /// Elements that a thread fetches at once.
    vector: i32,
    /// Steps of K between two fetches.
    depth: i32,
}

fn product(plan: Plan) -> Result<(Schedule, [Tensor; 3]), TeError> {
    let (n, m, l) = (te::var("n"), te::var("m"), te::var("l"));
    let (a, b) = (te::placeholder([l, n], "A"), te::placeholder([l, m], "B"));
    let k = te::reduce_axis((0, l), "k");
    let c = te::compute([m, n], "C", |[y, x]| te::sum(a.at([k, x]) * b.at([k, y]), [k]))?;
    let mut s = te::create_schedule(&[&c]);
    let aa = s.cache_read(&a, "shared", &[&c])?;
    let al = s.cache_read(&aa, "local", &[&c])?;
    let bb = s.cache_read(&b, "shared", &[&c])?;
    let bl = s.cache_read(&bb, "local", &[&c])?;
    let cc = s.cache_write(&c, "local")?;

    let (tx, ty) = (te::thread_axis("threadIdx.x"), te::thread_axis("threadIdx.y"));
    let stage = s.stage(&c)?;
    let (by, bx, yi, xi) = stage.tile(c.axis(0)?, c.axis(1)?, 4 * THREADS, 4 * THREADS)?;
    stage.bind(by, te::thread_axis("blockIdx.y"))?;
    stage.bind(bx, te::thread_axis("blockIdx.x"))?;
    let (yz, yi) = stage.split_parts(yi, 2)?;
    let (yt, yi) = stage.split_parts(yi, THREADS)?;
    let (xz, xi) = stage.split_parts(xi, 2)?;
    let (xt, xi) = stage.split_parts(xi, THREADS)?;
    stage.reorder(&[yz, xz, yt, xt, yi, xi])?;
    if plan.virtual_threads {
        stage.bind(yz, te::thread_axis("vthread"))?;
        stage.bind(xz, te::thread_axis("vthread"))?;
    }
    stage.bind(yt, ty)?;
    stage.bind(xt, tx)?;
    s.compute_at(&cc, &c, xt)?;
    let stage = s.stage(&cc)?;
    let (ko, ki) = stage.split(k, plan.depth)?;
    stage.reorder(&[ko, ki, cc.axis(0)?, cc.axis(1)?])?;
    stage.unroll(ki)?;
    for (shared, local) in [(&aa, &al), (&bb, &bl)] {
        s.compute_at(shared, &cc, ko)?;
        s.compute_at(local, &cc, ki)?;
        let stage = s.stage(shared)?;
        let (outer, _) = stage.split_parts(shared.axis(0)?, THREADS)?;
        let (_, along) = stage.split(shared.axis(1)?, THREADS * plan.vector)?;
        let (inner, lane) = stage.split_parts(along, THREADS)?;
        stage.bind(outer, ty)?;
        stage.bind(inner, tx)?;
        if plan.vector > 1 {
            stage.vectorize(lane)?;
        }
        if plan.double_buffer {
            stage.double_buffer()?;
        }
    }
    Ok((s, [a, b, c]))
}

#[test]
fn with_everything() -> Result<(), TeError> {
    if lacks_nvrtc("with_everything") {
        return Ok(());
    }
    for (virtual_threads, double_buffer, vector, depth) in
        [(false, false, 1, 3), (true, false, 1, 8), (false, true, 2, 4), (true, true, 4, 8), (true, true, 4, 5)]
    {
        let (s, [a, b, c]) = product(Plan { virtual_threads, double_buffer, vector, depth })?;
        let program = te::lower(&s, &[&a, &b, &c], "main")?;
        for (n, m, l) in [(16, 32, 16), (13, 9, 7), (1, 17, 1), (20, 3, 0)] {
            let input =
                |columns: usize, seed| Numbers::new(ElementType::F32, &[l, columns], integers(l * columns, seed));
            let (x, w) = (input(n, 7), input(m, 8));
            let value = |y: usize, i: usize| (0..l).map(|k| x.values[k * n + i] * w.values[k * m + y]).sum::<f64>();
            let expected: Vec<f64> = (0..m * n).map(|at| value(at / n, at % n)).collect();
            let results = run(&program, &[x, w], &[(ElementType::F32, vec![m, n])]);
            results.assert_equal();
            assert_eq!(results.interpreted[0], expected, "{}", program.script());
        }
    }
    Ok(())
}
