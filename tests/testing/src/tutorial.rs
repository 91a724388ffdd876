//! The programs of the reduction tutorial that several test programs run on their targets.

use epilogue::te::{self, Schedule, TeError, Tensor};

/// Row sums of an n×m matrix: `(A, B)`.
pub fn row_sums() -> Result<(Tensor, Tensor), TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder([n, m], "A");
    let k = te::reduce_axis((0, m), "k");
    let b = te::compute([n], "B", |[i]| te::sum(a.at([i, k]), [k]))?;
    Ok((a, b))
}

/// rfactor, then a reduction over `threads` threads, `rows` rows a block: the tutorial's last schedule.
pub fn cross_thread(b: &Tensor, threads: i32, rows: i32) -> Result<Schedule, TeError> {
    let mut s = te::create_schedule(&[b]);
    let (_ko, ki) = s.stage(b)?.split(b.reduce_axis(0)?, threads)?;
    let bf = s.rfactor(b, ki)?;
    let (axis, reduced) = {
        let compute = s.operation(b)?.as_compute().expect("B is computed");
        (compute.axes[0], compute.reduce_axes[0])
    };
    let (xo, xi) = s.stage(b)?.split(axis, rows)?;
    let tx = te::thread_axis("threadIdx.x");
    s.stage(b)?.bind(xo, te::thread_axis("blockIdx.x"))?;
    s.stage(b)?.bind(xi, te::thread_axis("threadIdx.y"))?;
    s.stage(b)?.bind(reduced, tx)?;
    s.compute_at(&bf, b, reduced)?;
    s.stage(b)?.set_store_predicate(tx.var().equal(0))?;
    Ok(s)
}
