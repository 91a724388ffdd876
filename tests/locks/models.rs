//! Models of the library's own waiting, which loom runs in every order of the threads' steps, and with every value that an
//! atomic may be read as: `Variants`, of which each kernel is made once, and `Meeting`, where ranks meet. Files are the
//! library's; `sync` has loom's locks in place of the standard library's.
//!
//! Not modelled are the threads that the library computes on, whose hand-over is rayon's, and `Pool`, which is one lock and
//! no waiting.

#![allow(clippy::print_stdout, reason = "there is no harness")]

mod sync;

#[path = "../../src/variants.rs"]
#[allow(dead_code, unused_imports, clippy::map_clone, reason = "models use some of it, and its tests are left out")]
mod variants;

#[path = "../../runtime/src/communicator/meeting.rs"]
#[allow(dead_code, unused_imports, clippy::map_clone, reason = "models use some of it, and its tests are left out")]
mod meeting;

/// What `meeting` needs of the library's errors.
mod communicator_error {
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum CommunicatorError {
        Gone { rank: usize },
        Timeout { seconds: u64, late: Vec<usize> },
    }
}

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use communicator_error::CommunicatorError;
use loom::thread;
use meeting::Meeting;
use sync::Arc;
use variants::Variants;

/// In loom no time passes.
const LONG: Duration = Duration::from_secs(3600);

fn main() {
    let models: [(&str, fn()); 6] = [
        ("two_that_want_one_kernel_get_the_same_made_once", two_that_want_one_kernel_get_the_same_made_once),
        ("what_one_fails_to_make_another_makes", what_one_fails_to_make_another_makes),
        ("kernels_of_others_are_made_beside", kernels_of_others_are_made_beside),
        ("what_was_made_elsewhere_is_taken_or_made", what_was_made_elsewhere_is_taken_or_made),
        ("ranks_meet_in_every_round", ranks_meet_in_every_round),
        ("a_rank_that_leaves_keeps_nobody_waiting", a_rank_that_leaves_keeps_nobody_waiting),
    ];
    for (name, model) in models {
        let begin = Instant::now();
        model();
        println!("{name}: {:.2} s", begin.elapsed().as_secs_f64());
    }
}

/// Runs a model in every order with at most three preemptions, which find nearly all that more would.
fn in_every_order(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

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

fn ranks_meet_in_every_round() {
    in_every_order(|| {
        let meeting = Arc::new(Meeting::new(2));
        let rounds = |meeting: &Meeting<usize>, rank: usize| {
            for round in 0..2 {
                let all = meeting.exchange(rank, 10 * round + rank, LONG).expect("both come");
                assert_eq!(*all, [10 * round, 10 * round + 1]);
            }
            meeting.leave(rank);
        };
        let other = {
            let meeting = Arc::clone(&meeting);
            thread::spawn(move || rounds(&meeting, 1))
        };
        rounds(&meeting, 0);
        other.join().expect("no panic");
    });
}

fn a_rank_that_leaves_keeps_nobody_waiting() {
    in_every_order(|| {
        let meeting = Arc::new(Meeting::new(2));
        let other = {
            let meeting = Arc::clone(&meeting);
            thread::spawn(move || {
                let one = meeting.exchange(1, 1, LONG);
                meeting.leave(1);
                one.expect("both come").len()
            })
        };
        assert_eq!(meeting.exchange(0, 0, LONG).expect("both come").len(), 2);
        assert_eq!(meeting.exchange(0, 0, LONG).map(drop), Err(CommunicatorError::Gone { rank: 1 }));
        assert_eq!(other.join().expect("no panic"), 2);
    });
}
