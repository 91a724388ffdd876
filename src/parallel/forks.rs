//! Values that each process has to itself: a child of `fork` makes its own.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How often this process, or one that it comes from, was forked.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// Has forks counted from now on, in children.
#[cfg(all(unix, not(miri)))]
fn count_forks() {
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    static COUNTED: OnceLock<()> = OnceLock::new();
    COUNTED.get_or_init(|| {
        // SAFETY: the function is there as long as the process. It only adds to an atomic, which a child of a process
        // with many threads may. If there is no memory for it, children are as if nobody had counted.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(not(all(unix, not(miri))))]
fn count_forks() {}

/// A value that is made once in each process. No lock is taken in which a thread of a parent could have been.
pub(super) struct OfProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    generation: usize,
    value: OnceLock<T>,
}

impl<T: Send + Sync> OfProcess<T> {
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's value, made by the first caller. A parent's value is never freed: it may have had threads, which
    /// used it.
    pub(super) fn get_or_init(&self, make: impl FnOnce() -> T) -> &'static T {
        let generation = GENERATION.load(Ordering::Relaxed);
        let found = self.0.load(Ordering::Acquire);
        // SAFETY: it is null, or one that was leaked.
        if let Some(made) = unsafe { found.as_ref() }
            && made.generation == generation
        {
            return made.value.get_or_init(make);
        }
        count_forks();
        let new = Box::into_raw(Box::new(Made { generation, value: OnceLock::new() }));
        let placed = match self.0.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(others) => {
                // SAFETY: nobody else has it.
                drop(unsafe { Box::from_raw(new) });
                others
            }
        };
        // SAFETY: it was leaked: only what was never placed is freed.
        unsafe { &*placed }.value.get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_made_once() {
        static VALUE: OfProcess<usize> = OfProcess::new();
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let make = || VALUE.get_or_init(|| MADE.fetch_add(1, Ordering::Relaxed) + 7);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            assert!(threads.into_iter().all(|thread| *thread.join().expect("no panic") == 7));
        });
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }

    /// Children of a process whose other threads multiply all the time: each gets a pool that works, and leaves the CPUs of its
    /// parent's threads as they are.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_child_of_fork_works_with_threads_of_its_own() {
        use std::time::{Duration, Instant};

        use crate::parallel::{for_each, pieces, threads};

        let work = || {
            let sum = AtomicUsize::new(0);
            for_each(pieces(1000, 1), |piece| _ = sum.fetch_add(piece.sum(), Ordering::Relaxed));
            sum.into_inner()
        };
        let (end, count) = (std::sync::atomic::AtomicBool::new(false), threads());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !end.load(Ordering::Relaxed) {
                        assert_eq!(work(), 999 * 1000 / 2);
                    }
                });
            }
            for round in 0..40 {
                // SAFETY: the child calls nothing that takes a lock of the standard library's: what it does is what is tested.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let right = (0..20).all(|_| work() == 999 * 1000 / 2) && threads() == count;
                    // SAFETY: the child ends here, without what the test's process does at its end.
                    unsafe { libc::_exit(if right { 0 } else { 1 }) };
                }
                assert!(child > 0);
                let (begun, mut status) = (Instant::now(), 0);
                // SAFETY: a child of this process, and a place to write to.
                while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
                    if begun.elapsed() > Duration::from_secs(30) {
                        // SAFETY: it is still a child of this process.
                        unsafe { libc::kill(child, libc::SIGKILL) };
                        end.store(true, Ordering::Relaxed);
                        panic!("the child of round {round} hangs");
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                if status != 0 {
                    end.store(true, Ordering::Relaxed);
                    panic!("the child of round {round} ends with {status}");
                }
            }
            end.store(true, Ordering::Relaxed);
        });
    }
}
