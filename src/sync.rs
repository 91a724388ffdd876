//! Locks that a panic elsewhere doesn't close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing is half done where a thread that held one of the library's locks has panicked.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
