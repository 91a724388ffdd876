//! Memory that runs of a kernel need beside their arguments, kept from one run to the next.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use epilogue_runtime::Stream;

/// Memory by stream: runs on one stream follow each other, so that they can share it; others wait for nobody.
#[derive(Debug)]
pub(super) struct Pool<T>(Mutex<HashMap<usize, T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes what was put back for a stream, if it suffices. Until it is put back it is the caller's alone: another run
    /// on the stream makes its own meanwhile.
    pub(super) fn take(&self, stream: &Stream, suffices: impl FnOnce(&T) -> bool) -> Option<T> {
        lock(&self.0).remove(&key(stream)).filter(suffices)
    }

    /// Keeps memory for the next run on a stream. All launches that use it have been given to the stream.
    pub(super) fn put(&self, stream: &Stream, memory: T) {
        lock(&self.0).insert(key(stream), memory);
    }
}

fn key(stream: &Stream) -> usize {
    stream.cuda_handle().map_or(0, |handle| handle as usize)
}

/// A panic elsewhere leaves nothing half done behind these locks.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
