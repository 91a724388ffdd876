//! The library's own pool of threads for computations.
//!
//! A thread that waits for work in a pool meanwhile runs other jobs of that pool. Suppose that a product waited, with
//! its tensors locked, in a pool that also runs users' jobs: one of them could run on the same thread and wait for the
//! same locks, forever. So the library's work runs in its own pool, whose jobs take no locks; and a thread that waits
//! for it runs no jobs.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The pool; `None` if the system gives no threads: then the caller does the work.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || ThreadPoolBuilder::new().thread_name(|i| format!("epilogue-{i}")).build().ok();
    POOL.get_or_init(build).as_ref()
}

/// The number of threads that can share work: those of the pool that the caller runs in, or of the library's.
pub(crate) fn threads() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => pool().map_or(1, ThreadPool::current_num_threads),
    }
}

/// Runs work that uses several threads: its parallel iterators run on the library's threads. The caller may hold locks;
/// the work must not take any.
///
/// In a pool of one thread the work stays on that thread, since whoever runs the library in such a pool wants no
/// others.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let Some(pool) = pool() else { return work() };
    if is_inside(pool) {
        return work();
    }
    match rayon::current_thread_index() {
        // Outside of any pool, a waiting thread runs no jobs.
        None => pool.install(work),
        // There are no other threads to wait for.
        Some(_) if rayon::current_num_threads() == 1 => work(),
        // A thread of a pool would run jobs of that pool while it waits, so a separate thread waits for it.
        Some(_) => std::thread::scope(|scope| {
            let outcome = scope.spawn(|| pool.install(work)).join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

/// Runs the same work on up to so many threads at once, until all have returned. One of them is the caller's, so that work
/// begins while the others wake up. The caller may hold locks, and `work` must not take them.
pub(crate) fn together(threads: usize, work: impl Fn() + Sync) {
    let Some(pool) = pool().filter(|_| threads > 1) else { return work() };
    let all = || {
        pool.in_place_scope(|scope| {
            (1..threads).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    };
    match rayon::current_thread_index() {
        Some(_) if is_inside(pool) => all(),
        None => all(),
        // As in [`run`].
        Some(_) if rayon::current_num_threads() == 1 => work(),
        Some(_) => std::thread::scope(|scope| {
            let outcome = scope.spawn(all).join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }),
    }
}

/// Whether the caller is one of the pool's threads.
fn is_inside(pool: &ThreadPool) -> bool {
    pool.current_thread_index().is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use rayon::prelude::*;

    use super::*;

    #[test]
    fn work_runs_on_threads_of_the_librarys_own() {
        let inside = || (0..64).into_par_iter().map(|_| std::thread::current().name().map(str::to_owned)).collect();
        let own = |names: Vec<Option<String>>| names.iter().flatten().all(|name| name.starts_with("epilogue-"));
        assert!(own(run(inside)), "from a thread of no pool");
        let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        assert!(own(pool.install(|| run(inside))), "from another pool");
        assert!(own(run(|| run(inside))), "from its own");
    }

    #[test]
    fn a_panic_arrives() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        let panicked = pool.install(|| std::panic::catch_unwind(|| run(|| panic!("as it was said"))));
        assert_eq!(panicked.expect_err("it panics").downcast_ref(), Some(&"as it was said"));
    }

    #[test]
    fn the_caller_is_one_of_those_who_work_together() {
        let seen = Mutex::new(HashSet::new());
        let count = threads().min(3);
        // Nobody passes before all are there.
        let barrier = Barrier::new(count);
        together(count, || {
            barrier.wait();
            seen.lock().expect("no panic").insert(std::thread::current().id());
        });
        let seen = seen.into_inner().expect("no panic");
        assert!(seen.len() == count && seen.contains(&std::thread::current().id()));
    }

    #[test]
    fn threads_of_another_pool_wait_without_working_together() {
        let foreign = ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        let work = || assert!(rayon::current_thread_index().is_none() || pool().is_some_and(is_inside));
        foreign.install(|| together(2, work));
    }
}
