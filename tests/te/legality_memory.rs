//! Misuse of the memory of one thread is a typed error that names the tensor.

use epilogue::te::{self, TeError};
use expect_test::expect;

use crate::legality::refused;

#[test]
fn memory_of_one_thread() -> Result<(), TeError> {
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    let b = te::compute([n], "B", |[i]| a.at([i]) + 1.0)?;
    let c = te::compute([n], "C", |[i]| b.at([i]) * 2.0)?;
    for (scope, thread, message) in [
        (
            "local",
            "threadIdx.x",
            expect![
                "B is in local memory, of which every thread has its own, but its loop i is bound to threadIdx.x: no thread would see what another computed; put it in shared memory (`set_scope`), or don't bind the loop"
            ],
        ),
        (
            "shared",
            "blockIdx.y",
            expect![
                "B is in shared memory, of which every block has its own, but its loop i is bound to blockIdx.y: no block would see what another computed; put it in global memory (`set_scope`), or don't bind the loop"
            ],
        ),
    ] {
        let mut s = te::create_schedule(&[&c]);
        s.set_scope(&b, scope)?;
        s.stage(&b)?.bind(b.axis(0)?, te::thread_axis(thread))?;
        refused(te::lower(&s, &[&a, &c], "main"), &message);
    }
    // Each thread has a row, so it can't take part in the sums of the others' rows.
    let rows = te::placeholder((n, 32), "R");
    let k = te::reduce_axis((0, 32), "k");
    let total = te::compute([n], "T", |[i]| te::sum(rows.at([i, k]), [k]))?;
    let half = te::compute([n], "H", |[i]| total.at([i]) * 0.5)?;
    let mut s = te::create_schedule(&[&half]);
    let (_, row) = s.stage(&half)?.split(half.axis(0)?, 32)?;
    s.stage(&half)?.bind(row, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&total, &half, row)?;
    s.stage(&total)?.bind(k, te::thread_axis("threadIdx.x"))?;
    refused(
        te::lower(&s, &[&rows, &half], "main"),
        &expect![
            "T is in local memory, of which every thread has its own, but its loop k is bound to threadIdx.x: no thread would see what another computed; put it in shared memory (`set_scope`), or don't bind the loop"
        ],
    );
    // Every thread that takes part in a sum gets it; but those of the next launch did not take part.
    let k = te::reduce_axis((0, 32), "k");
    let total = te::compute([1], "T", |[i]| te::sum(rows.at([i, k]), [k]))?;
    let less = te::compute([n], "L", |[i]| a.at([i]) - total.at([0]))?;
    let mut s = te::create_schedule(&[&less]);
    let (tile, each) = s.stage(&less)?.split(less.axis(0)?, 32)?;
    s.stage(&less)?.bind(each, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&total, &less, tile)?;
    s.stage(&total)?.bind(k, te::thread_axis("threadIdx.z"))?;
    te::lower(&s, &[&rows, &a, &less], "main")?;
    s.set_scope(&total, "local")?;
    refused(
        te::lower(&s, &[&rows, &a, &less], "main"),
        &expect![
            "T is in local memory, of which every thread has its own, but its loop k is bound to threadIdx.z: no thread would see what another computed; put it in global memory (`set_scope`), or don't bind the loop"
        ],
    );
    s.stage(&less)?.bind(tile, te::thread_axis("blockIdx.x"))?;
    te::lower(&s, &[&rows, &a, &less], "main")?;
    // A sum is initialised before its loop.
    let k = te::reduce_axis((0, n), "k");
    let d = te::compute([n], "D", |[i]| te::sum_reducer().over_from(a.at([k]), [k], b.at([i])))?;
    let mut s = te::create_schedule(&[&d]);
    s.compute_at(&b, &d, d.reduce_axis(0)?)?;
    refused(
        te::lower(&s, &[&a, &d], "main"),
        &expect![
            "B can't be computed at D: the reduction starts from it, before that loop; compute it at a loop further outside"
        ],
    );
    s.compute_at(&b, &d, d.axis(0)?)?;
    te::lower(&s, &[&a, &d], "main")?;
    // Also if it is read under a condition, in a cache with more elements than the tensor.
    let mut s = te::create_schedule(&[&d]);
    s.stage(&d)?.split(d.axis(0)?, 4)?;
    let cache = s.cache_write(&d, "local")?;
    let inner = s.stage(&cache)?.loops()[2];
    s.compute_at(&b, &cache, inner)?;
    refused(
        te::lower(&s, &[&a, &d], "main"),
        &expect![
            "B can't be computed at D.local: the reduction starts from it, before that loop; compute it at a loop further outside"
        ],
    );
    Ok(())
}
