//! How work is handed over: a caller opens a job, threads that look for work join it, and the caller closes it when its
//! own part is done. A thread that comes late finds the job closed, so nobody waits for it.
//!
//! Every thread in a job does the same work: each takes pieces until none is left.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::parallel::patience::look;
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering, lock};

/// `inside` counts `THREAD` per joined thread, plus `SLEEPS` while the caller is parked.
const THREAD: usize = 2;
const SLEEPS: usize = 1;

/// Work for several threads.
pub(super) struct Job {
    work: &'static (dyn Fn() + Sync),
    /// [`THREAD`] for each that is in it, without the caller, and perhaps [`SLEEPS`].
    inside: AtomicUsize,
    /// The number of the last one that has left.
    last: AtomicUsize,
    caller: Thread,
    /// The panic of one of them.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Job {
    /// Does this work on a thread that has joined, whose number it is, and leaves.
    pub(super) fn run(&self, number: usize) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(self.work)) {
            *lock(&self.panic) = Some(panic);
        }
        self.last.store(number, Ordering::Relaxed);
        if self.inside.fetch_sub(THREAD, Ordering::AcqRel) == THREAD + SLEEPS {
            self.caller.unpark();
        }
    }

    /// Waits until everybody has left; gives the number of the thread that has woken the caller up, if it slept. Nobody may join any
    /// more.
    fn wait(&self) -> Option<usize> {
        let have_left = || (self.inside.load(Ordering::Acquire) < THREAD).then_some(());
        if look(have_left).is_some() {
            return None;
        }
        self.inside.fetch_add(SLEEPS, Ordering::AcqRel);
        while have_left().is_none() {
            thread::park();
        }
        Some(self.last.load(Ordering::Relaxed))
    }
}

/// The jobs that want more threads, and the threads that have none.
#[derive(Default)]
pub(super) struct Jobs {
    state: Mutex<State>,
    /// How many more threads all jobs want; changed with `state` locked.
    wanted: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The oldest first, each with how many more threads it wants.
    open: Vec<(Arc<Job>, usize)>,
    /// How many threads look for work.
    looking: usize,
    /// The numbers of those that sleep.
    asleep: Vec<usize>,
}

impl Jobs {
    /// Does work on the caller's thread and on up to this many others, until all of them have returned. `wake` is called for
    /// each thread that has to be woken up, with its number. Gives the number of the one that has woken the caller up, if it slept.
    pub(super) fn together(&self, others: usize, work: &(dyn Fn() + Sync), wake: impl FnMut(usize)) -> Option<usize> {
        // SAFETY: whoever calls it is in the job; nobody joins it after `close`, and nobody is in it after `wait`, which is
        // called whether the work panics or not.
        let work = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) };
        let (inside, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let job = Arc::new(Job { work, inside, last, caller: thread::current(), panic: Mutex::new(None) });
        self.open(&job, others).into_iter().for_each(wake);
        let own = catch_unwind(AssertUnwindSafe(work));
        self.close(&job);
        let woken_by = job.wait();
        let panic = lock(&job.panic).take();
        if let Some(panic) = own.err().or(panic) {
            std::panic::resume_unwind(panic);
        }
        woken_by
    }

    /// Lets threads join. Gives the numbers of the threads that have to be woken up.
    fn open(&self, job: &Arc<Job>, others: usize) -> Vec<usize> {
        let mut state = lock(&self.state);
        state.open.push((Arc::clone(job), others));
        let wanted = self.wanted.fetch_add(others, Ordering::Release) + others;
        let missing = wanted.saturating_sub(state.looking).min(state.asleep.len());
        state.looking += missing;
        let rest = state.asleep.len() - missing;
        state.asleep.split_off(rest)
    }

    /// Lets nobody join any more.
    fn close(&self, job: &Arc<Job>) {
        let mut state = lock(&self.state);
        let at = state.open.iter().position(|(open, _)| Arc::ptr_eq(open, job));
        if let Some((_, others)) = at.map(|at| state.open.remove(at)) {
            self.wanted.fetch_sub(others, Ordering::Release);
        }
    }

    /// The thread has no work.
    pub(super) fn look(&self) {
        lock(&self.state).looking += 1;
    }

    /// Joins a job that wants more threads, if there is one. For a thread that looks for work.
    pub(super) fn join(&self) -> Option<Arc<Job>> {
        if self.wanted.load(Ordering::Acquire) == 0 { None } else { self.joined(&mut lock(&self.state)) }
    }

    fn joined(&self, state: &mut State) -> Option<Arc<Job>> {
        let (job, others) = state.open.first_mut()?;
        let job = Arc::clone(job);
        // (It closes with `state` locked.)
        job.inside.fetch_add(THREAD, Ordering::Relaxed);
        *others -= 1;
        if *others == 0 {
            state.open.remove(0);
        }
        self.wanted.fetch_sub(1, Ordering::Release);
        state.looking -= 1;
        Some(job)
    }

    /// Lets a thread that looks for work sleep, or gives it a job. It must sleep until it is woken up for this number; then it
    /// looks for work again.
    pub(super) fn sleep(&self, number: usize) -> Option<Arc<Job>> {
        let mut state = lock(&self.state);
        let job = self.joined(&mut state);
        if job.is_none() {
            state.looking -= 1;
            state.asleep.push(number);
        }
        job
    }
}
