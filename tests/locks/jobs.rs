//! Models of `Jobs`, by which work is handed over to the library's threads.

use loom::sync::Condvar;

use super::jobs::Jobs;
use crate::in_every_order;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};

pub(crate) const MODELS: [(&str, fn()); 2] = [
    ("nobody_is_in_a_job_that_has_returned", nobody_is_in_a_job_that_has_returned),
    ("a_thread_comes_whether_it_looks_or_sleeps", a_thread_comes_whether_it_looks_or_sleeps),
];

/// Why a thread is woken up.
#[derive(Clone, Copy, PartialEq)]
enum Call {
    Work,
    End,
}

/// A thread of the library's: its work, and the calls that wake it up.
#[derive(Default)]
struct Worker {
    jobs: Jobs,
    call: Mutex<Option<Call>>,
    called: Condvar,
}

impl Worker {
    fn start() -> (Arc<Self>, JoinHandle<()>) {
        let worker = Arc::new(Self::default());
        let own = Arc::clone(&worker);
        (worker, thread::spawn(move || own.work()))
    }

    fn work(&self) {
        self.jobs.look();
        loop {
            if let Some(job) = self.jobs.join().or_else(|| self.jobs.sleep(0)) {
                job.run(0);
                self.jobs.look();
                continue;
            }
            let mut call = lock(&self.call);
            while call.is_none() {
                call = self.called.wait(call).expect("no panic");
            }
            if call.take() == Some(Call::End) {
                return;
            }
        }
    }

    fn wake(&self, why: Call) {
        *lock(&self.call) = Some(why);
        self.called.notify_one();
    }

    fn end(&self, thread: JoinHandle<()>) {
        self.wake(Call::End);
        thread.join().expect("no panic");
    }
}

fn nobody_is_in_a_job_that_has_returned() {
    in_every_order(|| {
        let (worker, thread) = Worker::start();
        let [entered, left] = [0, 0].map(|none| Arc::new(AtomicUsize::new(none)));
        let work = {
            let (entered, left) = (Arc::clone(&entered), Arc::clone(&left));
            move || {
                entered.fetch_add(1, Ordering::AcqRel);
                left.fetch_add(1, Ordering::AcqRel);
            }
        };
        worker.jobs.together(1, &work, |_| worker.wake(Call::Work));
        let done = left.load(Ordering::Acquire);
        assert_eq!(entered.load(Ordering::Acquire), done);
        worker.end(thread);
        assert_eq!(left.load(Ordering::Acquire), done);
    });
}

fn a_thread_comes_whether_it_looks_or_sleeps() {
    in_every_order(|| {
        let (worker, thread) = Worker::start();
        let here = Arc::new((Mutex::new(0), Condvar::new()));
        let work = {
            let here = Arc::clone(&here);
            move || {
                let (count, changed) = &*here;
                let mut count = lock(count);
                *count += 1;
                changed.notify_all();
                while *count < 2 {
                    count = changed.wait(count).expect("no panic");
                }
            }
        };
        worker.jobs.together(1, &work, |_| worker.wake(Call::Work));
        assert_eq!(*lock(&here.0), 2);
        worker.end(thread);
    });
}
