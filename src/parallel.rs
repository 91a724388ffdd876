//! The threads that the library computes on: a pool of its own.
//!
//! Whoever waits for work in a pool is given other jobs of that pool meanwhile. If a product held its tensors' locks while
//! it waited in a pool that users have jobs in too, one of those jobs could be put on top of it and wait for the same
//! locks, forever. So the library's work runs in a pool that nobody else reaches, whose jobs take no locks; and who waits
//! for it waits without taking jobs.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// The pool; `None` where the system gives no threads, and then the caller does the work.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let build = || ThreadPoolBuilder::new().thread_name(|i| format!("epilogue-{i}")).build().ok();
    POOL.get_or_init(build).as_ref()
}

/// Threads that work may be shared among: those of the pool that the caller runs in, or of the library's.
pub(crate) fn threads() -> usize {
    match rayon::current_thread_index() {
        Some(_) => rayon::current_num_threads(),
        None => pool().map_or(1, ThreadPool::current_num_threads),
    }
}

/// Runs work that hands parts of itself to other threads: its parallel iterators run on the library's threads. The caller
/// may hold locks, and must not take any inside.
///
/// In a pool of one thread it stays on that thread: whoever runs the library in such a pool wants no others.
pub(crate) fn run<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let Some(pool) = pool() else { return work() };
    if pool.current_thread_index().is_some() {
        return work();
    }
    match rayon::current_thread_index() {
        // Outside of any pool, waiting is only waiting.
        None => pool.install(work),
        // There is nobody to wait for.
        Some(_) if rayon::current_num_threads() == 1 => work(),
        // A pool's thread would take that pool's jobs while it waits; a thread of no pool waits in its place.
        Some(_) => std::thread::scope(|scope| {
            let outcome = scope.spawn(|| pool.install(work)).join();
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

#[cfg(test)]
mod tests {
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
}
