//! Models of `Meeting`, where ranks meet.

use std::time::Duration;

use loom::thread;

use super::meeting::Meeting;
use crate::error::ranks::CommunicatorError;
use crate::in_every_order;
use crate::sync::Arc;

/// In loom no time passes.
const LONG: Duration = Duration::from_secs(3600);

pub(crate) const MODELS: [(&str, fn()); 2] = [
    ("ranks_meet_in_every_round", ranks_meet_in_every_round),
    ("a_rank_that_leaves_keeps_nobody_waiting", a_rank_that_leaves_keeps_nobody_waiting),
];

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
