//! The locks of CPU tensors' memory: many readers or one writer, and no circle of threads that wait for each other.
//!
//! A function that a caller passes, as to `with_bytes`, runs with locks held, and may use any tensor. So a thread that has
//! to wait first asks whether those for whom it would wait wait for it: then it is refused. Threads that need not wait
//! touch the lock only.
//!
//! A reader lets writers go first that wait already, or readers who come one after another would keep them out. It goes in
//! beside them as soon as somebody would otherwise wait for that in a circle.

use std::fmt;
use std::sync::PoisonError;

use smallvec::SmallVec;

use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, lock};

/// How memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostUse {
    Read,
    Write,
}

/// Why memory can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// [`HostLock::end`] was called: others may use the memory now.
    Ended,
    /// The thread would wait for itself.
    Circle,
}

/// Which lock each thread waits for, of all locks that threads may hold at once. It is locked before any of them.
#[derive(Clone)]
pub(crate) struct Waits(Arc<Mutex<Waiting>>);

/// The threads that wait, each with its lock.
type Waiting = Vec<(ThreadId, Arc<Shared>)>;

impl Default for Waits {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }
}

/// A lock of some memory.
pub(crate) struct HostLock {
    shared: Arc<Shared>,
    waits: Waits,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The thread that has ended all use, or waits for the end of it.
    ended_by: Option<ThreadId>,
    held: SmallVec<[(ThreadId, HostUse); 4]>,
    waiting: Vec<Waiter>,
}

#[derive(Clone, Copy)]
struct Waiter {
    thread: ThreadId,
    wants: HostUse,
    /// It need not let writers go first.
    at_once: bool,
    /// It must not wait any more.
    refused: bool,
}

impl State {
    /// Whether those who have the lock keep this use out.
    fn is_held_against(&self, wants: HostUse) -> bool {
        match wants {
            HostUse::Read => self.held.iter().any(|(_, held)| *held == HostUse::Write),
            HostUse::Write => !self.held.is_empty(),
        }
    }

    fn has_waiting_writer(&self) -> bool {
        self.waiting.iter().any(|waiter| waiter.wants == HostUse::Write)
    }

    /// Whether it only waits so that a writer goes first.
    fn gives_way(&self, waiter: &Waiter) -> bool {
        waiter.wants == HostUse::Read && !waiter.at_once && self.has_waiting_writer()
    }

    /// Whether a thread waits, and for others than writers that it lets go first, or for those as well.
    fn is_waiting(&self, thread: ThreadId, also_giving_way: bool) -> bool {
        if let Some(by) = self.ended_by {
            return by == thread && !self.held.is_empty();
        }
        let waits = |waiter: &Waiter| self.is_held_against(waiter.wants) || (also_giving_way && self.gives_way(waiter));
        let waiter = self.waiting.iter().find(|waiter| waiter.thread == thread);
        waiter.is_some_and(|waiter| !waiter.refused && waits(waiter))
    }

    fn waiter(&mut self, thread: ThreadId) -> Option<&mut Waiter> {
        self.waiting.iter_mut().find(|waiter| waiter.thread == thread)
    }

    /// Whether a thread that waits may go on.
    fn decide(&mut self, thread: ThreadId) -> Option<Result<(), Refusal>> {
        let waiter = *self.waiter(thread)?;
        if self.ended_by.is_some() {
            return Some(Err(Refusal::Ended));
        }
        if waiter.refused {
            return Some(Err(Refusal::Circle));
        }
        if self.is_held_against(waiter.wants) || self.gives_way(&waiter) {
            return None;
        }
        self.held.push((thread, waiter.wants));
        Some(Ok(()))
    }
}

/// The use of some memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a HostLock,
    thread: ThreadId,
    held: HostUse,
}

impl HostLock {
    pub(crate) fn new(waits: &Waits) -> Self {
        let shared = Shared { state: Mutex::new(State::default()), changed: Condvar::new() };
        Self { shared: Arc::new(shared), waits: waits.clone() }
    }

    /// Waits until the memory may be used so. A thread may read what it reads already.
    pub(crate) fn hold(&self, wants: HostUse) -> Result<Held<'_>, Refusal> {
        let thread = thread::current().id();
        let mut state = self.state();
        if state.ended_by.is_some() {
            return Err(Refusal::Ended);
        }
        let gives_way = wants == HostUse::Read && state.has_waiting_writer();
        if gives_way || state.is_held_against(wants) {
            drop(state);
            self.wait(thread, wants)?;
        } else {
            state.held.push((thread, wants));
        }
        Ok(Held { lock: self, thread, held: wants })
    }

    /// Ends all use of the memory: refuses later uses, and waits until other threads' are over. (The caller's own use can
    /// only be one that is leaked, or that promises to use no address after this.)
    pub(crate) fn end(&self) {
        let thread = thread::current().id();
        let mut waits = lock(&self.waits.0);
        let mut state = self.state();
        state.ended_by = Some(thread);
        state.held.retain(|(holder, _)| *holder != thread);
        self.shared.changed.notify_all();
        drop(state);
        let_readers_in(&waits);
        // This can't be refused, so others are that would wait for this thread.
        while let Some((of, waiter)) = circle(&waits, thread, &self.shared, false) {
            if let Some(waiter) = lock(&of.state).waiter(waiter) {
                waiter.refused = true;
            }
            of.changed.notify_all();
        }
        waits.push((thread, Arc::clone(&self.shared)));
        drop(waits);
        let mut state = self.state();
        while !state.held.is_empty() {
            state = wait(&self.shared.changed, state);
        }
        drop(state);
        self.waits_no_more(thread);
    }

    /// Waits until the memory may be used so, unless somebody who has it waits for this thread.
    fn wait(&self, thread: ThreadId, wants: HostUse) -> Result<(), Refusal> {
        let mut waits = lock(&self.waits.0);
        let mut at_once = false;
        if circle(&waits, thread, &self.shared, true).is_some() {
            at_once = wants == HostUse::Read && !self.state().is_held_against(wants);
            if !at_once {
                if circle(&waits, thread, &self.shared, false).is_some() {
                    return Err(Refusal::Circle);
                }
                let_readers_in(&waits);
            }
        }
        waits.push((thread, Arc::clone(&self.shared)));
        let mut state = self.state();
        state.waiting.push(Waiter { thread, wants, at_once, refused: false });
        drop(waits);
        let decided = loop {
            if let Some(decided) = state.decide(thread) {
                break decided;
            }
            state = wait(&self.shared.changed, state);
        };
        state.waiting.retain(|waiter| waiter.thread != thread);
        // Readers may have let it go first.
        self.shared.changed.notify_all();
        drop(state);
        self.waits_no_more(thread);
        decided
    }

    fn waits_no_more(&self, thread: ThreadId) {
        lock(&self.waits.0).retain(|(waiter, _)| *waiter != thread);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }
}

/// The thread that would wait for itself if it waited for this lock, and the lock that it would wait for: one of its
/// own, perhaps this one. With or without the waiting of readers that let writers go first.
fn circle(
    waits: &[(ThreadId, Arc<Shared>)],
    thread: ThreadId,
    start: &Arc<Shared>,
    also_giving_way: bool,
) -> Option<(Arc<Shared>, ThreadId)> {
    let mut seen = vec![(Arc::clone(start), thread)];
    let mut next = 0;
    while let Some((of, waiter)) = seen.get(next).cloned() {
        next += 1;
        let holders: SmallVec<[ThreadId; 4]> = lock(&of.state).held.iter().map(|(holder, _)| *holder).collect();
        if holders.contains(&thread) {
            return Some((of, waiter));
        }
        for (waiter, of) in waits.iter().filter(|(waiter, _)| holders.contains(waiter)) {
            let is_new = !seen.iter().any(|(seen, _)| Arc::ptr_eq(seen, of));
            if is_new && lock(&of.state).is_waiting(*waiter, also_giving_way) {
                seen.push((Arc::clone(of), *waiter));
            }
        }
    }
    None
}

/// Lets all readers go on that only let writers go first.
fn let_readers_in(waits: &[(ThreadId, Arc<Shared>)]) {
    for (thread, of) in waits {
        if let Some(waiter) = lock(&of.state).waiter(*thread) {
            waiter.at_once = true;
        }
        of.changed.notify_all();
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        let own = state.held.iter().position(|held| *held == (self.thread, self.held));
        // (After `end` there may be none.)
        if let Some(own) = own {
            state.held.swap_remove(own);
        }
        if !state.waiting.is_empty() || state.ended_by.is_some() {
            self.lock.shared.changed.notify_all();
        }
    }
}

impl fmt::Debug for HostLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostLock")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn locks() -> [HostLock; 2] {
        let waits = Waits::default();
        [HostLock::new(&waits), HostLock::new(&waits)]
    }

    /// Runs it on another thread; fails if it doesn't end.
    fn ends<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
        let (done, result) = channel();
        thread::spawn(move || done.send(work()));
        result.recv_timeout(LONG).expect("it ends")
    }

    /// Waits until this many threads wait for the lock.
    fn until_waiting(lock: &HostLock, count: usize) {
        while lock.state().waiting.len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_thread_never_waits_for_itself() {
        ends(|| {
            let [lock, other] = locks();
            let read = lock.hold(HostUse::Read).expect("it is free");
            let again = lock.hold(HostUse::Read).expect("it reads already");
            assert_eq!(lock.hold(HostUse::Write).err(), Some(Refusal::Circle));
            assert!(other.hold(HostUse::Write).is_ok(), "another one is free");
            drop(read);
            assert_eq!(lock.hold(HostUse::Write).err(), Some(Refusal::Circle), "it still reads");
            drop(again);
            let _write = lock.hold(HostUse::Write).expect("it is free");
            assert_eq!(lock.hold(HostUse::Read).err(), Some(Refusal::Circle));
            assert_eq!(lock.hold(HostUse::Write).err(), Some(Refusal::Circle));
        });
    }

    #[test]
    fn of_two_threads_that_would_wait_for_each_other_one_is_refused() {
        ends(|| {
            let (locks, both) = (locks(), Barrier::new(2));
            let refused = thread::scope(|scope| {
                let each = |own: usize, wants: HostUse| {
                    let (locks, both) = (&locks, &both);
                    scope.spawn(move || {
                        let _own = locks[own].hold(HostUse::Write).expect("it is free");
                        both.wait();
                        locks[1 - own].hold(wants).err()
                    })
                };
                [each(0, HostUse::Read), each(1, HostUse::Write)].map(|thread| thread.join().expect("no panic"))
            });
            assert!(matches!(refused, [Some(Refusal::Circle), None] | [None, Some(Refusal::Circle)]), "{refused:?}");
        });
    }

    /// A writer waits: a reader that reads already goes in at once, another one comes after the writer.
    #[test]
    fn readers_let_a_writer_go_first_but_nobody_waits_for_that_in_a_circle() {
        ends(|| {
            let [lock, _] = locks();
            let order = Mutex::new(Vec::new());
            thread::scope(|scope| {
                let read = lock.hold(HostUse::Read).expect("it is free");
                let note = |name, wants| {
                    let _held = lock.hold(wants).expect("nobody waits in a circle");
                    order.lock().expect("no panic").push(name);
                };
                scope.spawn(move || note("writer", HostUse::Write));
                until_waiting(&lock, 1);
                scope.spawn(move || note("reader", HostUse::Read));
                until_waiting(&lock, 2);
                note("inner reader", HostUse::Read);
                drop(read);
            });
            assert_eq!(*order.lock().expect("no panic"), ["inner reader", "writer", "reader"]);
        });
    }

    /// The reader lets the writer go first, and the writer waits for this thread. Then this thread wants the lock that
    /// the reader has.
    #[test]
    fn a_reader_that_lets_a_writer_go_first_goes_on_when_it_is_waited_for() {
        ends(|| {
            let [a, b] = locks();
            thread::scope(|scope| {
                let (a, b) = (&a, &b);
                let read = b.hold(HostUse::Read).expect("it is free");
                scope.spawn(move || b.hold(HostUse::Write).map(drop).expect("it comes last"));
                until_waiting(b, 1);
                let reader = scope.spawn(move || {
                    let _a = a.hold(HostUse::Read).expect("it is free");
                    b.hold(HostUse::Read).map(drop)
                });
                until_waiting(b, 2);
                a.hold(HostUse::Write).map(drop).expect("the reader has gone on");
                reader.join().expect("no panic").expect("it has read");
                drop(read);
            });
        });
    }

    #[test]
    fn the_end_waits_for_other_threads_and_refuses_all_who_come_later() {
        ends(|| {
            let [lock, other] = locks();
            thread::scope(|scope| {
                let (begun, has_begun) = channel();
                let (lock, other) = (&lock, &other);
                let _other = other.hold(HostUse::Write).expect("it is free");
                let reader = scope.spawn(move || {
                    let _read = lock.hold(HostUse::Read).expect("it is free");
                    begun.send(()).expect("somebody listens");
                    // The one who ends the lock has this one.
                    other.hold(HostUse::Read).err()
                });
                has_begun.recv_timeout(LONG).expect("it begins");
                until_waiting(other, 1);
                let late = scope.spawn(move || lock.hold(HostUse::Write).err());
                until_waiting(lock, 1);
                lock.end();
                assert_eq!(reader.join().expect("no panic"), Some(Refusal::Circle));
                assert_eq!(late.join().expect("no panic"), Some(Refusal::Ended));
                assert_eq!(lock.hold(HostUse::Read).err(), Some(Refusal::Ended));
            });
        });
    }
}
