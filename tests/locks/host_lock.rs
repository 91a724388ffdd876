//! Models of `HostLock`, which keeps a tensor's memory for many readers or one writer.

use loom::thread;

use super::host_lock::{HostLock, HostUse, Refusal, Waits};
use crate::in_every_order;
use crate::sync::{Arc, AtomicUsize, Ordering};

pub(crate) const MODELS: [(&str, fn()); 5] = [
    ("a_writer_is_alone", a_writer_is_alone),
    ("of_two_that_would_wait_for_each_other_one_is_refused", of_two_that_would_wait_for_each_other_one_is_refused),
    ("readers_that_let_a_writer_go_first_hold_nobody_up", readers_that_let_a_writer_go_first_hold_nobody_up),
    ("a_refused_writer_keeps_no_reader_out", a_refused_writer_keeps_no_reader_out),
    ("the_end_comes_after_all_use", the_end_comes_after_all_use),
];

fn locks() -> Arc<[HostLock; 2]> {
    let waits = Waits::default();
    Arc::new([HostLock::new(&waits), HostLock::new(&waits)])
}

/// A writer sees nobody else: the number is even but in the middle of a writing.
fn a_writer_is_alone() {
    in_every_order(|| {
        let (locks, number) = (locks(), Arc::new(AtomicUsize::new(0)));
        let write = |locks: &[HostLock; 2], number: &AtomicUsize| {
            let _held = locks[0].hold(HostUse::Write).expect("nobody waits in a circle");
            let before = number.load(Ordering::Relaxed);
            assert_eq!(before % 2, 0);
            number.store(before + 1, Ordering::Relaxed);
            number.store(before + 2, Ordering::Relaxed);
        };
        let read = |locks: &[HostLock; 2], number: &AtomicUsize| {
            let _held = locks[0].hold(HostUse::Read).expect("nobody waits in a circle");
            assert_eq!(number.load(Ordering::Relaxed) % 2, 0);
        };
        let others = [0, 1].map(|other| {
            let (locks, number) = (Arc::clone(&locks), Arc::clone(&number));
            thread::spawn(move || if other == 0 { write(&locks, &number) } else { read(&locks, &number) })
        });
        write(&locks, &number);
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(number.load(Ordering::Relaxed), 4);
    });
}

fn of_two_that_would_wait_for_each_other_one_is_refused() {
    in_every_order(|| {
        let locks = locks();
        let each = |locks: &[HostLock; 2], own: usize| {
            let Ok(_own) = locks[own].hold(HostUse::Read) else { return 0 };
            assert_eq!(locks[own].hold(HostUse::Write).err(), Some(Refusal::Circle), "it reads itself");
            match locks[1 - own].hold(HostUse::Write) {
                Ok(_both) => 0,
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Circle);
                    1
                }
            }
        };
        let other = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || each(&locks, 1))
        };
        let refused = each(&locks, 0) + other.join().expect("no panic");
        assert_eq!(refused.min(1), refused, "the other one goes on");
    });
}

/// A reader has one lock and reads another, for which a writer waits; the one that has that reads, or writes, the first.
fn readers_that_let_a_writer_go_first_hold_nobody_up() {
    in_every_order(|| {
        let locks = locks();
        let writer = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || locks[1].hold(HostUse::Write).map(drop))
        };
        let reader = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                let _own = locks[0].hold(HostUse::Read)?;
                locks[1].hold(HostUse::Read).map(drop)
            })
        };
        let own = locks[1].hold(HostUse::Read).expect("nobody waits in a circle");
        let inner = [locks[1].hold(HostUse::Read).map(drop), locks[0].hold(HostUse::Write).map(drop)];
        drop(own);
        let all = [writer.join().expect("no panic"), reader.join().expect("no panic"), inner[0], inner[1]];
        assert_eq!(all, [Ok(()); 4]);
    });
}

/// A reader lets a writer go first, which is refused because the thread that it waits for ends the memory that it reads.
fn a_refused_writer_keeps_no_reader_out() {
    in_every_order(|| {
        let locks = locks();
        let writer = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                let Ok(_own) = locks[0].hold(HostUse::Read) else { return };
                assert_ne!(locks[1].hold(HostUse::Write).err(), Some(Refusal::Ended));
            })
        };
        let own = locks[1].hold(HostUse::Read).expect("nobody waits in a circle");
        let reader = {
            let locks = Arc::clone(&locks);
            thread::spawn(move || locks[1].hold(HostUse::Read).map(drop))
        };
        locks[0].end();
        assert_eq!(reader.join().expect("no panic"), Ok(()));
        drop(own);
        writer.join().expect("no panic");
    });
}

/// Whoever uses the memory has returned when it ends, or is refused; one who would wait for the thread that ends it is, too.
fn the_end_comes_after_all_use() {
    in_every_order(|| {
        let (locks, uses) = (locks(), Arc::new(AtomicUsize::new(0)));
        let _own = locks[1].hold(HostUse::Write).expect("it is free");
        let user = {
            let (locks, uses) = (Arc::clone(&locks), Arc::clone(&uses));
            thread::spawn(move || {
                let Ok(held) = locks[0].hold(HostUse::Read) else { return };
                uses.fetch_add(1, Ordering::Relaxed);
                // The one who ends all use has it.
                assert_eq!(locks[1].hold(HostUse::Read).err(), Some(Refusal::Circle));
                uses.fetch_sub(1, Ordering::Relaxed);
                drop(held);
            })
        };
        locks[0].end();
        assert_eq!(uses.load(Ordering::Relaxed), 0);
        assert_eq!(locks[0].hold(HostUse::Read).err(), Some(Refusal::Ended));
        user.join().expect("no panic");
    });
}
