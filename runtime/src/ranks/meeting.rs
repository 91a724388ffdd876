//! Where the threads of one process meet: each brings something, and gets what all have brought.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::error::ranks::CommunicatorError;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The meeting point of a number of ranks. No lock is held while a rank waits but the meeting's own.
pub(crate) struct Meeting<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The values that ranks have brought in this round.
    brought: Vec<Option<T>>,
    /// The values of all ranks, until each has taken them.
    complete: Option<Arc<Vec<T>>>,
    taken: Vec<bool>,
    /// Ranks that will not come any more.
    gone: Vec<bool>,
    /// Why nobody can meet any more.
    broken: Option<CommunicatorError>,
}

impl<T> Meeting<T> {
    pub(crate) fn new(ranks: usize) -> Self {
        let brought = (0..ranks).map(|_| None).collect();
        let state = State { brought, complete: None, taken: vec![true; ranks], gone: vec![false; ranks], broken: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` gives something, or somebody can't come.
    fn wait<'a, R>(
        &self,
        mut state: MutexGuard<'a, State<T>>,
        deadline: (Instant, Duration),
        mut ready: impl FnMut(&mut State<T>) -> Option<R>,
    ) -> Result<(MutexGuard<'a, State<T>>, R), CommunicatorError> {
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok((state, found));
            }
            if let Some(broken) = &state.broken {
                return Err(broken.clone());
            }
            // A rank that has gone after it has brought its part is not missed.
            let missed = |rank: &usize| state.gone[*rank] && state.complete.is_none() && state.brought[*rank].is_none();
            if let Some(rank) = (0..state.gone.len()).find(missed) {
                let error = CommunicatorError::Gone { rank };
                state.broken = Some(error.clone());
                self.changed.notify_all();
                return Err(error);
            }
            let left = deadline.0.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let late = (0..state.brought.len()).filter(|&rank| state.brought[rank].is_none()).collect();
                let error = CommunicatorError::Timeout { seconds: deadline.1.as_secs(), late };
                state.broken = Some(error.clone());
                self.changed.notify_all();
                return Err(error);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Brings a rank's part, and waits for those of all others, which come by rank.
    ///
    /// # Errors
    /// [`CommunicatorError::Gone`], [`CommunicatorError::Timeout`]: then on every rank, now and later.
    pub(crate) fn exchange(&self, rank: usize, part: T, timeout: Duration) -> Result<Arc<Vec<T>>, CommunicatorError> {
        let deadline = (Instant::now() + timeout, timeout);
        // All have taken what the round before gave.
        let (mut state, ()) = self.wait(self.lock(), deadline, |state| state.complete.is_none().then_some(()))?;
        if let Some(broken) = &state.broken {
            return Err(broken.clone());
        }
        state.brought[rank] = Some(part);
        if state.brought.iter().all(Option::is_some) {
            let all = state.brought.iter_mut().filter_map(Option::take).collect();
            state.complete = Some(Arc::new(all));
            state.taken.fill(false);
            self.changed.notify_all();
        }
        let (mut state, all) =
            self.wait(state, deadline, |state| state.complete.as_ref().filter(|_| !state.taken[rank]).map(Arc::clone))?;
        state.taken[rank] = true;
        if state.taken.iter().all(|taken| *taken) {
            state.complete = None;
            self.changed.notify_all();
        }
        Ok(all)
    }

    /// The rank will not come any more.
    pub(crate) fn leave(&self, rank: usize) {
        self.lock().gone[rank] = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn everyone_gets_what_all_bring_in_every_round() {
        let meeting = Meeting::new(4);
        std::thread::scope(|scope| {
            for rank in 0..4 {
                let meeting = &meeting;
                scope.spawn(move || {
                    for round in 0..500 {
                        let all = meeting.exchange(rank, (rank, round), LONG).expect("all come");
                        assert_eq!(*all, [(0, round), (1, round), (2, round), (3, round)]);
                    }
                });
            }
        });
    }

    #[test]
    fn who_is_late_or_gone_is_named_to_all_and_at_every_later_call() {
        let meeting = Meeting::new(3);
        let short = Duration::from_millis(30);
        let late = CommunicatorError::Timeout { seconds: 0, late: vec![1, 2] };
        assert_eq!(meeting.exchange(0, (), short).unwrap_err(), late);
        assert_eq!(meeting.exchange(2, (), LONG).unwrap_err(), late, "at once");

        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| meeting.exchange(0, (), LONG));
            meeting.leave(1);
            assert_eq!(waits.join().expect("no panic").unwrap_err(), CommunicatorError::Gone { rank: 1 });
        });
    }

    #[test]
    fn who_leaves_after_its_part_is_not_missed() {
        let meeting = Meeting::new(2);
        std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                let all = meeting.exchange(1, 11, LONG);
                meeting.leave(1);
                all
            });
            assert_eq!(*meeting.exchange(0, 10, LONG).expect("both come"), [10, 11]);
            assert_eq!(*one.join().expect("no panic").expect("both come"), [10, 11]);
        });
        assert!(meeting.exchange(0, 10, LONG).is_err());
    }
}
