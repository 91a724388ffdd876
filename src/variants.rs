//! The kernels of one plan or expression, each compiled once, by the first run that needs it. Nothing is locked while
//! one is compiled.

use std::collections::HashMap;
use std::hash::Hash;

use crate::sync::{Arc, Mutex, OnceLock, lock};

/// The values that have been made, by key. Making one value locks no others: only threads that want the same one wait.
#[derive(Debug)]
pub(crate) struct Variants<K, V> {
    places: Mutex<HashMap<K, Arc<Place<V>>>>,
}

/// A value, or the place where it will be.
#[derive(Debug)]
struct Place<V> {
    made: OnceLock<Arc<V>>,
    /// Locked while the value is made.
    making: Mutex<()>,
}

impl<K, V> Default for Variants<K, V> {
    fn default() -> Self {
        Self { places: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, V> Variants<K, V> {
    /// The value of a key, if it has been made.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        lock(&self.places).get(key).and_then(|place| place.made.get()).map(Arc::clone)
    }

    /// Adds a value that was made elsewhere.
    pub(crate) fn put(&self, key: K, made: Arc<V>) {
        let place = Place { made: OnceLock::from(made), making: Mutex::new(()) };
        lock(&self.places).insert(key, Arc::new(place));
    }

    /// Any value that has been made and fits.
    pub(crate) fn find(&self, fits: impl Fn(&V) -> bool) -> Option<Arc<V>> {
        lock(&self.places).values().filter_map(|place| place.made.get()).find(|made| fits(made)).map(Arc::clone)
    }

    /// The value of a key. The first caller makes it. Others that ask for it meanwhile wait, and make it themselves if
    /// that failed.
    ///
    /// # Errors
    /// The error of `make`.
    pub(crate) fn get_or_make<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let place = {
            let mut places = lock(&self.places);
            let empty = || Arc::new(Place { made: OnceLock::new(), making: Mutex::new(()) });
            Arc::clone(places.entry(key.clone()).or_insert_with(empty))
        };
        if let Some(made) = place.made.get() {
            return Ok(Arc::clone(made));
        }
        let _making = lock(&place.making);
        if let Some(made) = place.made.get() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        Ok(Arc::clone(place.made.get_or_init(|| made)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// While one value is made, others can be read and made; only callers that want the same one wait.
    #[test]
    fn making_one_holds_nobody_else_up() {
        let variants = Variants::<&str, usize>::default();
        variants.get_or_make(&"there", || Ok::<_, ()>(1)).expect("made");
        let (begun, has_begun) = channel();
        let (end, may_end) = channel::<()>();
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (variants, made) = (&variants, &made);
            let slow = scope.spawn(move || {
                variants.get_or_make(&"slow", || {
                    begun.send(()).expect("somebody listens");
                    may_end.recv_timeout(LONG).expect("it is let go, which only a thread that is not held up can do");
                    made.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(2)
                })
            });
            has_begun.recv_timeout(LONG).expect("it begins");
            let again = scope.spawn(move || {
                variants.get_or_make(&"slow", || {
                    made.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(3)
                })
            });
            let (done, others) = channel();
            scope.spawn(move || {
                let there = variants.get_or_make(&"there", || Err(())).expect("it is there");
                let other = variants.get_or_make(&"other", || Ok::<_, ()>(4)).expect("made");
                let seen = (variants.get(&"slow").is_none(), variants.find(|v| *v > 3).is_some());
                done.send((*there, *other, seen)).expect("somebody listens");
            });
            let others = others.recv_timeout(LONG);
            end.send(()).expect("somebody listens");
            assert_eq!(others, Ok((1, 4, (true, true))), "they don't wait");
            let both = [slow.join(), again.join()].map(|v| *v.expect("no panic").expect("made"));
            assert_eq!((both, made.load(Ordering::Relaxed)), ([2, 2], 1), "made once");
        });
    }

    #[test]
    fn what_failed_is_tried_again() {
        let variants = Variants::<u8, usize>::default();
        assert_eq!(variants.get_or_make(&0, || Err("no memory")), Err("no memory"));
        assert!(variants.get(&0).is_none());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            variants.get_or_make(&0, || -> Result<usize, &str> { panic!("while it is made") })
        }));
        assert!(panicked.is_err());
        assert_eq!(variants.get_or_make(&0, || Ok::<_, &str>(7)), Ok(Arc::new(7)));
    }
}
