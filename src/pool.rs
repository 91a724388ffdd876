//! Memory that runs of a kernel need beside their arguments, kept from one run to the next. Nothing is locked during a
//! run.

use std::sync::{Arc, Mutex};

use epilogue_runtime::{Stream, StreamKey};

use crate::sync::lock;

/// Streams that memory is kept for: a service may make a stream for every request.
const STREAMS: usize = 8;

/// Memory by stream. Runs on one stream follow each other, so they can share it; runs on different streams need not
/// wait for each other. Only the streams used last have any; what is dropped is freed after its last use.
///
/// A graph has memory to itself. One of this library's keeps it; what runs use that others capture stays here.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<(StreamKey, Arc<T>)>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes what was put back for a stream, if it suffices. Until it is put back it is the caller's alone: another run
    /// on the stream makes its own meanwhile. (Not where others capture the stream: there one run follows the other.)
    pub(crate) fn take(&self, stream: &Stream, suffices: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        if stream.is_dry() {
            return None;
        }
        self.find(&stream.key().ok()?, suffices)
    }

    fn find(&self, stream: &StreamKey, suffices: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut kept = lock(&self.0);
        if !stream.is_of_others() {
            let place = kept.iter().position(|(of, _)| of == stream)?;
            let (_, memory) = kept.remove(place);
            // Memory that doesn't suffice is freed without the lock.
            drop(kept);
            return Some(memory).filter(|memory| suffices(memory));
        }
        // The first run that is captured takes what runs before it had: it allocates nothing.
        for of in [stream, &stream.outside()] {
            if let Some((of, memory)) = kept.iter_mut().find(|(is, memory)| is == of && suffices(memory)) {
                *of = stream.clone();
                return Some(Arc::clone(memory));
            }
        }
        None
    }

    /// Keeps memory for the next run on a stream. All launches that use it must have been submitted to the stream.
    pub(crate) fn put(&self, stream: &Stream, memory: Arc<T>) {
        // The memory for a dry stream may not exist, so no real run can use it.
        if stream.is_dry() {
            return;
        }
        // A driver that can't tell a stream's state does nothing else any more.
        if let Ok(stream) = stream.key() {
            self.keep(stream, memory);
        }
    }

    fn keep(&self, stream: StreamKey, memory: Arc<T>) {
        let mut kept = lock(&self.0);
        let frees = |of: &StreamKey| !of.is_of_others() && (*of == stream || of.is_over());
        let (mut freed, stay): (Vec<_>, Vec<_>) = kept.drain(..).partition(|(of, _)| frees(of));
        *kept = stay;
        if !stream.is_of_others() {
            let of_streams = kept.iter().filter(|(of, _)| !of.is_of_others());
            if of_streams.count() >= STREAMS
                && let Some(oldest) = kept.iter().position(|(of, _)| !of.is_of_others())
            {
                freed.push(kept.remove(oldest));
            }
        }
        if !kept.iter().any(|(_, other)| Arc::ptr_eq(other, &memory)) {
            kept.push((stream, memory));
        }
        // Without the lock.
        drop(kept);
        drop(freed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of streams of a GPU, whether others capture them or not.
    fn stream(number: usize) -> StreamKey {
        StreamKey::of_cuda(number, None)
    }

    fn captured(number: usize, capture: u64) -> StreamKey {
        StreamKey::of_cuda(number, Some(capture))
    }

    #[test]
    fn memory_of_the_streams_used_last_is_kept() {
        let pool = Pool::default();
        for number in 0..100 {
            pool.keep(stream(number), Arc::new(number));
            pool.keep(stream(7), Arc::new(7));
            assert!(lock(&pool.0).len() <= STREAMS);
        }
        let kept: Vec<usize> = lock(&pool.0).iter().map(|(_, number)| **number).collect();
        assert_eq!(kept, [93, 94, 95, 96, 97, 98, 99, 7]);
    }

    /// Memory that a graph of others' uses is never freed nor given to anybody else: the first run in it has the memory
    /// that was there.
    #[test]
    fn memory_that_others_capture_stays_theirs() {
        let pool = Pool::default();
        pool.keep(stream(1), Arc::new(10));
        let warm = pool.find(&captured(1, 5), |x| *x == 10).expect("what the run before had");
        pool.keep(captured(1, 5), Arc::clone(&warm));
        assert_eq!(lock(&pool.0).len(), 1, "it is the same");
        assert!(pool.find(&stream(1), |_| true).is_none() && pool.find(&captured(1, 6), |_| true).is_none());
        // A larger one in the same capture is there beside it, and so is the first.
        assert!(pool.find(&captured(1, 5), |x| *x >= 20).is_none());
        pool.keep(captured(1, 5), Arc::new(20));
        assert_eq!(pool.find(&captured(1, 5), |x| *x >= 20).as_deref(), Some(&20));
        assert_eq!(pool.find(&captured(1, 5), |x| *x < 20).as_deref(), Some(&10));
        for number in 0..100 {
            pool.keep(stream(number), Arc::new(number));
        }
        assert_eq!(lock(&pool.0).len(), STREAMS + 2);
        assert!(pool.find(&captured(1, 5), |x| *x == 10).is_some());
    }

    /// A graph of this library's has memory to itself, which is forgotten here when it has been captured.
    #[test]
    fn memory_of_a_graph_is_forgotten_when_it_is_captured() {
        let device = epilogue_runtime::Device::emulated(epilogue_runtime::Arch::SM_80).expect("a device");
        let (pool, outside) = (Pool::default(), device.default_stream());
        pool.put(&outside, Arc::new(1));
        let graph = device.capture(|stream| {
            assert!(pool.take(stream, |_| true).is_none(), "what others may use");
            pool.put(stream, Arc::new(2));
            assert_eq!(pool.take(stream, |_| true).as_deref(), Some(&2));
            pool.put(stream, Arc::new(2));
            Ok::<_, epilogue_runtime::Error>(())
        });
        assert!(graph.expect("a graph").is_empty());
        assert_eq!(pool.take(&outside, |_| true).as_deref(), Some(&1));
        pool.put(&outside, Arc::new(3));
        assert_eq!(lock(&pool.0).len(), 1);
    }
}
