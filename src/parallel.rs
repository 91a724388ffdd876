//! The library's own threads for computations.
//!
//! While a thread waits in a rayon pool, it runs other jobs of that pool. Tensors of the CPU are locked while work
//! runs. If a product waited in a pool that also runs users' jobs, the waiting thread could run one of them. The job
//! could wait for the product's locks, forever. So the library's work runs on its own threads, whose jobs take no
//! locks; and a thread that waits for them runs nothing else.
//!
//! A caller waits only for threads that have joined its work. It does not wait for one that is still waking up, which
//! takes 50 µs on a virtual machine.
//!
//! A child of `fork` has none of its parent's threads, and gets its own at its first work. (Tensors and plans that another
//! thread used at that moment stay locked in the child: it makes its own.)
//!
//! - [`forks`]: what each process has to itself.
//! - [`jobs`]: how work is handed over.
//! - [`cpus`]: where threads run.
//! - [`workers`]: the threads.

mod cpus;
mod forks;
mod jobs;
mod patience;
mod workers;

use std::convert::Infallible;
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use self::forks::OfProcess;
use self::workers::{Workers, is_worker};
use crate::level;
use crate::sync::lock;

/// How many pieces of work there are for each thread, so that a late one finds less to do.
const PIECES: usize = 8;

/// The threads, and how many there are: one less than the CPU has for this process (or than `RAYON_NUM_THREADS` says), since
/// the caller is one of those who work: with another one, which looks for work and finds none, one of them would wait for a
/// core every now and then.
fn workers() -> (&'static Workers, usize) {
    static OF_PROCESS: OfProcess<(&'static Workers, usize)> = OfProcess::new();
    *OF_PROCESS.get_or_init(|| Workers::start(wanted_threads() - 1))
}

/// At least one. It is found out once: in a child of `fork`, another thread of the parent's may have left the environment
/// locked.
fn wanted_threads() -> usize {
    static WANTED: OnceLock<usize> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let said = std::env::var("RAYON_NUM_THREADS").ok().and_then(|number| number.parse().ok());
        let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
        said.filter(|threads| *threads > 0).unwrap_or_else(available)
    })
}

/// The number of threads that can share work: those of the pool of rayon's that the caller runs in, or the caller and the
/// library's.
pub(crate) fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { workers().1 + 1 }
}

/// Cuts `0..count` into pieces for the threads, of at least this many numbers each.
pub(crate) fn pieces(count: usize, least: usize) -> impl ExactSizeIterator<Item = Range<usize>> + Send {
    let length = count.div_ceil(threads() * PIECES).max(least).max(1);
    (0..count.div_ceil(length)).map(move |piece| piece * length..((piece + 1) * length).min(count))
}

/// Does tasks on several threads, the caller's among them: each takes the next one when it has done one. The caller may
/// hold locks, and tasks must not take them.
///
/// `state` makes what a thread keeps from one of its tasks to the next. Once a task has failed, no other begins; the
/// failure of the first that failed, in the order of the tasks, is returned.
pub(crate) fn try_for_each<T, S, E: Send>(
    tasks: impl ExactSizeIterator<Item = T> + Send,
    state: impl Fn() -> S + Sync,
    task: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let workers = threads().min(tasks.len());
    let left = Mutex::new(Some(tasks.enumerate()));
    let failure: Mutex<Option<(usize, E)>> = Mutex::new(None);
    together(workers, || {
        let mut kept = None;
        loop {
            let Some((number, next)) = lock(&left).as_mut().and_then(Iterator::next) else { break };
            if let Err(error) = task(kept.get_or_insert_with(&state), next) {
                *lock(&left) = None;
                let mut failure = lock(&failure);
                if failure.as_ref().is_none_or(|(first, _)| number < *first) {
                    *failure = Some((number, error));
                }
            }
        }
    });
    let failure = lock(&failure).take();
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

/// Does tasks as [`try_for_each`] does, and returns their results in the order of the tasks.
pub(crate) fn try_map<T, R: Send, E: Send>(
    tasks: impl ExactSizeIterator<Item = T> + Send,
    task: impl Fn(T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let results = Mutex::new(Vec::with_capacity(tasks.len()));
    let one = |(number, next)| {
        let result = task(next)?;
        lock(&results).push((number, result));
        Ok(())
    };
    try_for_each(tasks.enumerate(), || (), |(), next| one(next))?;
    let mut results = std::mem::take(&mut *lock(&results));
    results.sort_unstable_by_key(|(number, _)| *number);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Does tasks as [`try_for_each`] does; they can't fail.
pub(crate) fn for_each<T>(tasks: impl ExactSizeIterator<Item = T> + Send, task: impl Fn(T) + Sync) {
    let all = try_for_each(
        tasks,
        || (),
        |(), next| {
            task(next);
            Ok::<(), Infallible>(())
        },
    );
    match all {
        Ok(()) => {}
    }
}

/// Runs the work on up to this many threads at once, until all have returned. One of them is the caller's, so that work
/// begins while the others wake up; one that comes when the caller has nothing left to do is not waited for. The caller
/// may hold locks; `work` must not take them. `work` may wait only for things that its other threads do before they
/// return.
///
/// In a pool of rayon's with one thread the work stays on that thread, since whoever runs the library there wants no others.
pub(crate) fn together(threads: usize, work: impl Fn() + Sync) {
    let alone = rayon::current_thread_index().is_some() && rayon::current_num_threads() == 1;
    // The library's threads don't wait for each other.
    if threads <= 1 || alone || is_worker() {
        return work();
    }
    match workers() {
        (_, 0) => work(),
        (workers, _) => {
            let level = level::current();
            workers.together(threads - 1, &|| level::within(level, &work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use epilogue_runtime::{CpuLevel, Device};

    use super::*;

    #[test]
    fn every_task_is_done_once_by_the_caller_or_threads_of_the_librarys_own() {
        let caller = std::thread::current().id();
        let of = |_: Range<usize>| {
            let thread = std::thread::current();
            Ok::<_, ()>(thread.id() == caller || thread.name().is_some_and(|name| name.starts_with("epilogue-")))
        };
        assert_eq!(try_map(pieces(64, 1), of), Ok(vec![true; pieces(64, 1).len()]));
        let done: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        for least in [0, 1, 7, 300, 5000] {
            for_each(pieces(done.len(), least), |piece| {
                done[piece].iter().for_each(|times| _ = times.fetch_add(1, Ordering::Relaxed));
            });
        }
        assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 5));
        for_each(pieces(0, 1), |_| panic!("there is nothing to do"));
    }

    #[test]
    fn threads_run_at_the_level_of_the_one_whose_job_they_do() {
        let outside = level::current();
        for level in CpuLevel::available() {
            let device = Device::cpu_with(*level).expect("it is available");
            let seen = Mutex::new(Vec::new());
            level::on(&device, || {
                for_each(0..200, |_| {
                    std::thread::sleep(std::time::Duration::from_micros(20));
                    lock(&seen).push(level::current());
                });
            });
            let seen = seen.into_inner().expect("no panic");
            assert!(seen.len() == 200 && seen.iter().all(|seen| seen == level), "{level:?}: {seen:?}");
            let panicked = std::panic::catch_unwind(|| level::within(*level, || panic!("as it was said")));
            assert!(panicked.is_err() && level::current() == outside);
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_tasks() {
        let squares: Result<Vec<usize>, ()> = try_map(0..1000, |i| Ok(i * i));
        assert_eq!(squares, Ok((0..1000).map(|i| i * i).collect()));
        // Also inside of each other.
        let sums = try_map(0..10, |i| Ok::<_, ()>(try_map(0..i, Ok::<usize, ()>)?.iter().sum::<usize>()));
        assert_eq!(sums, Ok((0..10).map(|i: usize| i * i.saturating_sub(1) / 2).collect()));
    }

    #[test]
    fn the_first_failure_is_returned_and_nothing_begins_after_it() {
        let begun = AtomicUsize::new(0);
        let run = |_: &mut (), i: usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if i >= 20 { Err(i) } else { Ok(()) }
        };
        assert_eq!(try_for_each(0..100_000, || (), run), Err(20));
        assert!(begun.into_inner() <= 20 + threads());
    }

    #[test]
    fn a_panic_arrives() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        for task in [0, 99] {
            let run = || for_each(0..100, |i| assert!(i != task, "as it was said"));
            let panicked = pool.install(|| std::panic::catch_unwind(run));
            assert_eq!(panicked.expect_err("it panics").downcast_ref(), Some(&"as it was said"));
        }
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
    fn a_thread_of_another_pool_runs_no_jobs_of_that_pool_meanwhile() {
        let foreign = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        let other = AtomicUsize::new(0);
        foreign.install(|| {
            rayon::scope(|scope| {
                // Both threads have work, and each a job that waits.
                for _ in 0..2 {
                    scope.spawn(|_| _ = other.fetch_add(1, Ordering::Relaxed));
                }
                let before = Mutex::new(HashSet::new());
                together(threads(), || _ = lock(&before).insert(std::thread::current().id()));
                assert!(lock(&before).contains(&std::thread::current().id()), "the caller works, too");
            });
        });
        assert_eq!(other.into_inner(), 2);
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
        let here = || (threads(), std::thread::current().id());
        alone.install(|| {
            let (count, caller) = here();
            assert_eq!(count, 1);
            together(8, || assert_eq!(here().1, caller));
        });
    }

    #[test]
    fn late_threads_are_not_waited_for_and_many_callers_share_them() {
        let sums: Vec<usize> = std::thread::scope(|scope| {
            let caller = |of: usize| {
                let mut sum = 0;
                for round in 0..300 {
                    let left = AtomicUsize::new(of + round % 7);
                    let done = AtomicUsize::new(0);
                    together(threads() + 2, || {
                        while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                    sum += done.into_inner();
                }
                sum
            };
            let callers: Vec<_> = (0..4).map(|of| scope.spawn(move || caller(of))).collect();
            callers.into_iter().map(|caller| caller.join().expect("no panic")).collect()
        });
        let want = |of: usize| (0..300).map(|round| of + round % 7).sum::<usize>();
        assert_eq!(sums, (0..4).map(want).collect::<Vec<_>>());
    }
}
