//! The locks of `src/sync.rs` and `runtime/src/sync.rs`, from loom, which runs a model in every order of its threads'
//! steps.

use std::fmt;
use std::sync::PoisonError;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;

pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use loom::thread;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The standard library's promise about its `OnceLock`, which loom lacks: a thread that sees that it is set, sees the
/// value.
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    setting: Mutex<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, under the lock and before `is_set`; it is read after `is_set`.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicBool::new(false), setting: Mutex::new(()), value: UnsafeCell::new(None) }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it is written no more. (loom fails if a writing is not over.)
        self.value.with(|value| unsafe { (*value).as_ref() })
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let setting = lock(&self.setting);
        if !self.is_set.load(Ordering::Relaxed) {
            let made = make();
            // SAFETY: nobody reads it yet, and the lock keeps other writers out.
            self.value.with_mut(|value| unsafe { *value = Some(made) });
            self.is_set.store(true, Ordering::Release);
        }
        drop(setting);
        match self.get() {
            Some(value) => value,
            None => unreachable!("it is set"),
        }
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        Self { is_set: AtomicBool::new(true), setting: Mutex::new(()), value: UnsafeCell::new(Some(value)) }
    }
}

impl<T> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceLock")
    }
}
