//! Memory that runs of a kernel need beside their arguments, kept from one run to the next.

use std::sync::Mutex;

use epilogue_runtime::Stream;

use crate::sync::lock;

/// Streams that memory is kept for: a service may make a stream for every request.
const STREAMS: usize = 8;

/// Memory by stream: runs on one stream follow each other, so that they can share it; others wait for nobody. Of the
/// streams used last only; what is dropped is freed after its last use.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<(usize, T)>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes what was put back for a stream, if it suffices. Until it is put back it is the caller's alone: another run
    /// on the stream makes its own meanwhile.
    pub(crate) fn take(&self, stream: &Stream, suffices: impl FnOnce(&T) -> bool) -> Option<T> {
        if stream.is_dry() {
            return None;
        }
        let (mut kept, stream) = (lock(&self.0), key(stream));
        let place = kept.iter().position(|(of, _)| *of == stream)?;
        let (_, memory) = kept.remove(place);
        // What doesn't suffice is freed without the lock.
        drop(kept);
        Some(memory).filter(suffices)
    }

    /// Keeps memory for the next run on a stream. All launches that use it have been given to the stream.
    pub(crate) fn put(&self, stream: &Stream, memory: T) {
        // Of a dry stream's there may be none: what runs can't use it.
        if stream.is_dry() {
            return;
        }
        self.keep(key(stream), memory);
    }

    fn keep(&self, stream: usize, memory: T) {
        let mut kept = lock(&self.0);
        let same = kept.iter().position(|(of, _)| *of == stream);
        let oldest = (kept.len() >= STREAMS).then_some(0);
        let freed = same.or(oldest).map(|place| kept.remove(place));
        kept.push((stream, memory));
        drop(kept);
        drop(freed);
    }
}

fn key(stream: &Stream) -> usize {
    stream.cuda_handle().map_or(0, |handle| handle as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_streams_used_last_is_kept() {
        let pool = Pool::default();
        for stream in 0..100 {
            pool.keep(stream, stream);
            pool.keep(7, 7);
            assert!(lock(&pool.0).len() <= STREAMS);
        }
        let kept: Vec<usize> = lock(&pool.0).iter().map(|(stream, _)| *stream).collect();
        assert_eq!(kept, [93, 94, 95, 96, 97, 98, 99, 7]);
    }
}
