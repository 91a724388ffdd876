//! Memory that runs of a kernel need beside their arguments, kept from one run to the next.

use std::sync::Mutex;

use epilogue_runtime::Stream;

use crate::sync::lock;

/// Streams that memory is kept for: a service may make a stream for every request.
const STREAMS: usize = 8;

/// Memory by stream. Runs on one stream follow each other, so they can share it; runs on different streams need not
/// wait for each other. Only the streams used last have any; what is dropped is freed after its last use.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<(usize, T)>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes the memory that was kept for a stream, if it suffices. Until it is put back, only the caller has it:
    /// another run on the stream makes new memory meanwhile.
    pub(crate) fn take(&self, stream: &Stream, suffices: impl FnOnce(&T) -> bool) -> Option<T> {
        if stream.is_dry() {
            return None;
        }
        let (mut kept, stream) = (lock(&self.0), key(stream));
        let place = kept.iter().position(|(of, _)| *of == stream)?;
        let (_, memory) = kept.remove(place);
        // Memory that doesn't suffice is freed after the lock is released.
        drop(kept);
        Some(memory).filter(suffices)
    }

    /// Keeps memory for the next run on a stream. All launches that use it must have been submitted to the stream.
    pub(crate) fn put(&self, stream: &Stream, memory: T) {
        // The memory for a dry stream may not exist, so no real run can use it.
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
