//! The locks with which threads wait for each other; `tests/locks` has loom's in their place.

use std::sync::PoisonError;

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use std::thread;

/// The library's data is consistent even if a thread has panicked while it held one of these locks.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
