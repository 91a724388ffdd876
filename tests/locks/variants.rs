//! Models of `Variants`, which makes each kernel once.

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use super::variants::Variants;
use crate::in_every_order;
use crate::sync::Arc;

pub(crate) const MODELS: [(&str, fn()); 4] = [
    ("two_that_want_one_kernel_get_the_same_made_once", two_that_want_one_kernel_get_the_same_made_once),
    ("what_one_fails_to_make_another_makes", what_one_fails_to_make_another_makes),
    ("kernels_of_others_are_made_beside", kernels_of_others_are_made_beside),
    ("what_was_made_elsewhere_is_taken_or_made", what_was_made_elsewhere_is_taken_or_made),
];

fn two_that_want_one_kernel_get_the_same_made_once() {
    in_every_order(|| {
        let variants = Arc::new(Variants::<u8, usize>::default());
        let made = std::sync::Arc::new(AtomicUsize::new(0));
        let make = |variants: &Variants<u8, usize>, made: &AtomicUsize| {
            let made = || Ok::<_, ()>(10 + made.fetch_add(1, Ordering::Relaxed));
            *variants.get_or_make(&1, made).expect("made")
        };
        let other = {
            let (variants, made) = (Arc::clone(&variants), std::sync::Arc::clone(&made));
            thread::spawn(move || make(&variants, &made))
        };
        let seen = variants.get(&1).map(|value| *value);
        let mine = make(&variants, &made);
        assert_eq!((mine, other.join().expect("no panic")), (10, 10));
        assert!(seen.is_none_or(|value| value == 10));
        assert_eq!(made.load(Ordering::Relaxed), 1);
    });
}

fn what_one_fails_to_make_another_makes() {
    in_every_order(|| {
        let variants = Arc::new(Variants::<u8, usize>::default());
        let other = {
            let variants = Arc::clone(&variants);
            thread::spawn(move || variants.get_or_make(&1, || Err("no memory")).map(|value| *value))
        };
        let mine = variants.get_or_make(&1, || Ok::<_, &str>(7)).map(|value| *value);
        assert_eq!(mine, Ok(7));
        // It failed, or found what this thread has made.
        assert!(matches!(other.join().expect("no panic"), Err("no memory") | Ok(7)));
        assert_eq!(variants.get(&1).map(|value| *value), Some(7));
    });
}

fn kernels_of_others_are_made_beside() {
    in_every_order(|| {
        let variants = Arc::new(Variants::<u8, usize>::default());
        let other = {
            let variants = Arc::clone(&variants);
            thread::spawn(move || *variants.get_or_make(&2, || Ok::<_, ()>(2)).expect("made"))
        };
        // While one is made, the other is.
        let mine = variants.get_or_make(&1, || {
            let two = *variants.get_or_make(&2, || Ok::<_, ()>(2))?;
            Ok::<_, ()>(two - 1)
        });
        assert_eq!((*mine.expect("made"), other.join().expect("no panic")), (1, 2));
    });
}

fn what_was_made_elsewhere_is_taken_or_made() {
    in_every_order(|| {
        let variants = Arc::new(Variants::<u8, usize>::default());
        let other = {
            let variants = Arc::clone(&variants);
            thread::spawn(move || variants.put(1, Arc::new(5)))
        };
        let mine = *variants.get_or_make(&1, || Ok::<_, ()>(6)).expect("made");
        other.join().expect("no panic");
        assert!([5, 6].contains(&mine));
        // Later ones get what was put there.
        assert_eq!(variants.get(&1).map(|value| *value), Some(5));
    });
}
