//! The threads that do jobs.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Thread};

use epilogue_float_mode::in_default_mode;

use super::cpus::Placed;
use super::jobs::Jobs;
use super::patience::look;

thread_local! {
    /// Whether the thread is one of them.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Whether the caller is one of the threads that do jobs.
pub(super) fn is_worker() -> bool {
    IS_WORKER.get()
}

/// Threads that live as long as the process.
pub(super) struct Workers {
    jobs: Jobs,
    beds: Vec<Bed>,
}

/// Where a thread sleeps.
#[derive(Default)]
struct Bed {
    called: AtomicBool,
    /// Set by the thread before it sleeps for the first time.
    sleeper: OnceLock<(Thread, Option<Placed>)>,
}

impl Workers {
    /// Starts up to this many threads; gives them and their number, which is as many as the system gives.
    pub(super) fn start(count: usize) -> (&'static Self, usize) {
        let beds = (0..count).map(|_| Bed::default()).collect();
        let workers: &'static Self = Box::leak(Box::new(Self { jobs: Jobs::default(), beds }));
        let start = |number: usize| {
            // Whoever starts the threads would else give them its floating-point mode, for ever.
            let work = move || in_default_mode(|| workers.work(number));
            Builder::new().name(format!("epilogue-{number}")).spawn(work).is_ok()
        };
        (workers, (0..count).take_while(|number| start(*number)).count())
    }

    /// Does work on the caller's thread and on up to this many others, until all of them have returned.
    pub(super) fn together(&self, others: usize, work: &(dyn Fn() + Sync)) {
        if let Some(number) = self.jobs.together(others, work, |number| self.wake(number)) {
            // The caller may be on the CPU of the one that has woken it up, which looks for its next work there.
            self.keep_off_this_cpu(number);
        }
    }

    fn wake(&self, number: usize) {
        self.keep_off_this_cpu(number);
        let bed = &self.beds[number];
        let Some((thread, _)) = bed.sleeper.get() else { return };
        bed.called.store(true, Ordering::Release);
        thread.unpark();
    }

    fn keep_off_this_cpu(&self, number: usize) {
        if let Some((_, Some(placed))) = self.beds[number].sleeper.get() {
            placed.keep_off_this_cpu();
        }
    }

    /// The loop of a thread, all its life.
    fn work(&self, number: usize) {
        IS_WORKER.set(true);
        let bed = &self.beds[number];
        bed.sleeper.get_or_init(|| (std::thread::current(), Placed::this()));
        self.jobs.look();
        loop {
            if let Some(job) = look(|| self.jobs.join()).or_else(|| self.jobs.sleep(number)) {
                job.run(number);
                self.jobs.look();
                continue;
            }
            while !bed.called.swap(false, Ordering::Acquire) {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::sync::Barrier;

    use epilogue_float_mode::testing::{Strange, in_strange_mode};

    use super::*;
    use crate::sync::{Mutex, lock};

    /// A thread of the system's has the mode of the one that started it.
    #[test]
    fn threads_compute_in_the_default_mode_whoever_starts_them() {
        for strange in Strange::ALL {
            let (workers, count) = in_strange_mode(*strange, || Workers::start(1));
            let (barrier, quotients) = (Barrier::new(count + 1), Mutex::new(Vec::new()));
            let work = || {
                barrier.wait();
                let number = black_box(f32::from_bits(3)) / black_box(2.0);
                if is_worker() {
                    lock(&quotients).push(number.to_bits());
                }
            };
            in_strange_mode(*strange, || workers.together(count, &work));
            assert_eq!(*lock(&quotients), vec![2; count], "{strange:?}");
        }
    }
}
