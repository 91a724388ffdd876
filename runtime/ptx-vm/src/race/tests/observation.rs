//! Any number of readers before a write, and writes that are ordered because their words were observed.

use super::*;

const DATA: u64 = 0x1000;
const COUNT: u64 = 0x2000;

/// How a block reads the data.
#[derive(Clone, Copy, Debug)]
enum Reads {
    Plainly,
    Rows,
    Bytes,
    Vector,
    Strongly,
    Copy,
    Bulk,
}

fn read(play: &mut Play, block: usize, how: Reads) {
    let at = play.at(0, 0, 1);
    let addresses = [DATA; 32];
    match how {
        Reads::Plainly => play.global(block, Kind::Read, Order::Weak, Scope::Gpu, 1, DATA),
        Reads::Strongly => play.global(block, Kind::Read, Order::Relaxed, Scope::Gpu, 1, DATA),
        Reads::Bytes => play.access_by(block, at, &plain(Space::Global, Kind::Read, &[DATA + 2; 32], 1)),
        Reads::Vector => play.access_by(block, at, &plain(Space::Global, Kind::Read, &addresses, 16)),
        Reads::Rows => {
            let row = std::array::from_fn(|lane| DATA + 4 * lane as u64);
            play.access_by(block, At { lanes: ALL, ..at }, &plain(Space::Global, Kind::Read, &row, 4));
            let at = play.at(0, 0, ALL);
            play.clusters[block].warp_sync(at);
        }
        Reads::Copy => {
            let copy = CopyAsync { destinations: &[0; 32], sources: &addresses, size: 16, read: &[16; 32] };
            play.clusters[block].copy_async(at, &copy);
            play.clusters[block].copy_commit(at);
            play.clusters[block].copy_wait(at, 0);
        }
        Reads::Bulk => {
            let ranges = [DATA..DATA + 64];
            let reads = Footprint { space: Space::Global, ranges: &ranges };
            play.clusters[block].bulk(at, &Bulk { reads, writes: &[], reduces: false, generic: false, map: None });
            play.clusters[block].bulk_commit(at);
            play.clusters[block].bulk_wait(at, 0, true);
        }
    }
}

/// Blocks read, count that they have, and may end. Then another block waits for all and writes. `late` counts before it
/// reads. Gives the blocks whose reads are findings.
fn write_over(readers: usize, late: Option<usize>, how: Reads, end: bool) -> Vec<usize> {
    let mut play = Play::new(readers as u32 + 1, 1, 32);
    for block in 0..readers {
        let count = |play: &mut Play| play.global(block, Kind::Reduction, Order::Release, Scope::Gpu, 1, COUNT);
        if late == Some(block) {
            count(&mut play);
        }
        read(&mut play, block, how);
        if late != Some(block) {
            count(&mut play);
        }
        if end {
            play.clusters[block] = play.detector.cluster(readers as u32);
        }
    }
    play.global(readers, Kind::Read, Order::Acquire, Scope::Gpu, 1, COUNT);
    play.global(readers, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
    let block = |finding: &Finding| match finding {
        Finding::Race(race) => {
            assert_eq!(race.hazard, Hazard::WriteAfterRead);
            race.first.block.expect("a block")[0] as usize
        }
        Finding::Fault { .. } => panic!("unexpected: {finding}"),
    };
    play.end().iter().map(block).collect()
}

#[test]
fn a_write_over_the_reads_of_many_blocks_meets_the_one_that_is_not_ordered() {
    for readers in [3, 8, 64, 1024] {
        for end in [false, true] {
            assert_eq!(write_over(readers, None, Reads::Plainly, end), []);
            for late in [0, 1, readers / 2, readers - 2, readers - 1] {
                assert_eq!(write_over(readers, Some(late), Reads::Plainly, end), [late], "{readers} {late}");
            }
        }
    }
}

#[test]
fn reads_of_every_kind_are_remembered() {
    for how in [Reads::Rows, Reads::Bytes, Reads::Vector, Reads::Strongly, Reads::Copy, Reads::Bulk] {
        for late in [0, 5, 8] {
            assert_eq!(write_over(9, Some(late), how, true), [late], "{how:?} {late}");
        }
        assert_eq!(write_over(9, None, how, true), [], "{how:?}");
    }
}

#[test]
fn a_block_that_has_ended_without_a_release_stands_for_all_readers() {
    let mut play = Play::new(64, 1, 32);
    for block in 0..63 {
        read(&mut play, block, Reads::Plainly);
        // The first block ends later.
        if block != 0 {
            play.clusters[block] = play.detector.cluster(63);
        }
    }
    play.global(0, Kind::Atomic, Order::Release, Scope::Gpu, 1, COUNT);
    play.global(63, Kind::Read, Order::Acquire, Scope::Gpu, 1, COUNT);
    play.global(63, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
    assert!(play.causes().iter().all(|&cause| cause == RaceCause::Unordered));
}

#[test]
fn readers_of_launches_that_may_still_run_are_all_remembered() {
    for waits in [true, false] {
        let history = Arc::default();
        let overlapping = |clusters| LaunchShape { overlaps_previous: true, ..shape(clusters, 1, 32) };
        for _ in 0..3 {
            let mut play = Play::of(overlapping(20), &history);
            (0..20).for_each(|block| play.global(block, Kind::Read, Order::Weak, Scope::Gpu, 1, DATA));
            let at = play.at(0, 0, 1);
            play.c().dependency_wait(at);
            assert_eq!(play.causes(), []);
        }
        let mut play = Play::of(overlapping(1), &history);
        let at = play.at(0, 0, 1);
        if waits {
            play.c().dependency_wait(at);
        }
        play.global(0, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
        let expected: &[_] = if waits { &[] } else { &[RaceCause::PreviousKernel] };
        let mut causes = play.causes();
        causes.dedup();
        assert_eq!(causes, expected);
    }
}

/// The action of a block on one word.
#[derive(Clone, Copy, Debug)]
enum Act {
    Atom(usize),
    Red(usize),
    Poll(usize),
    Store(usize),
    /// The last arriver resets the word.
    Reset(usize),
    Load(usize),
}

fn word(acts: &[Act]) -> Vec<RaceCause> {
    let mut play = Play::new(4, 1, 32);
    for act in acts {
        let (block, kind, order) = match *act {
            Act::Atom(block) => (block, Kind::Atomic, Order::Relaxed),
            Act::Red(block) => (block, Kind::Reduction, Order::Relaxed),
            Act::Poll(block) => (block, Kind::Read, Order::Relaxed),
            Act::Store(block) => (block, Kind::Write, Order::Relaxed),
            Act::Reset(block) => (block, Kind::Write, Order::Weak),
            Act::Load(block) => (block, Kind::Read, Order::Weak),
        };
        play.global(block, kind, order, Scope::Gpu, 1, DATA);
    }
    let mut causes = play.causes();
    causes.dedup();
    causes
}

#[test]
fn a_plain_access_comes_after_the_writes_of_its_word_that_were_observed() {
    use Act::{Atom, Load, Poll, Red, Reset, Store};
    for acts in [
        &[Atom(0), Atom(1), Atom(2), Reset(2)][..],
        &[Atom(0), Atom(1), Atom(2), Load(2), Reset(2)],
        &[Red(0), Atom(1), Red(2), Poll(3), Reset(3)],
        &[Red(0), Red(1), Atom(2), Reset(2)],
        &[Store(0), Atom(1), Atom(2), Reset(2)],
        &[Store(0), Poll(1), Load(1), Reset(1)],
    ] {
        assert_eq!(word(acts), [], "{acts:?}");
    }
    for acts in [
        // Somebody comes later.
        &[Atom(0), Atom(1), Atom(2), Reset(1)][..],
        &[Atom(0), Atom(1), Red(2), Load(1)],
        &[Red(0), Poll(3), Red(1), Reset(3)],
        &[Atom(0), Atom(1), Reset(1), Atom(2)],
        // A store replaces what nobody has observed then.
        &[Red(0), Store(1), Atom(2), Reset(2)],
        &[Store(0), Store(1), Poll(2), Reset(2)],
        // Only accesses that read observe, and only the reader's own thread knows it.
        &[Red(0), Red(1), Reset(1)],
        &[Atom(0), Atom(1), Reset(2)],
        &[Store(0), Poll(1), Reset(2)],
        // A plain read observes nothing.
        &[Red(0), Load(1), Reset(1)],
    ] {
        assert_eq!(word(acts), [RaceCause::Unordered], "{acts:?}");
    }
}

#[test]
fn an_observed_word_acquires_no_other() {
    let mut play = Play::new(2, 1, 32);
    play.global(0, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
    play.global(0, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, COUNT);
    play.global(1, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, COUNT);
    play.global(1, Kind::Write, Order::Weak, Scope::Gpu, 1, COUNT);
    play.global(1, Kind::Read, Order::Weak, Scope::Gpu, 1, DATA);
    let findings = play.end();
    let [Finding::Race(race)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((race.address, race.cause), (DATA, RaceCause::Unordered));
}

#[test]
fn atomics_at_scopes_that_do_not_include_each_other_are_not_observed() {
    let mut play = Play::new(2, 1, 32);
    play.global(0, Kind::Atomic, Order::Relaxed, Scope::Block, 1, DATA);
    play.global(1, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, DATA);
    play.global(1, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
    let mut causes = play.causes();
    causes.sort();
    assert_eq!(causes, [RaceCause::Unordered, RaceCause::NarrowScope]);
}

/// Two workers may perform atomics in the other order than they announce them.
#[test]
fn atomics_that_are_performed_side_by_side_may_have_either_order() {
    for last in [0, 1] {
        let mut play = Play::new(3, 1, 32);
        play.global(2, Kind::Atomic, Order::Relaxed, Scope::Gpu, 1, DATA);
        let addresses = [DATA; 32];
        let atomic =
            Access { order: Order::Relaxed, scope: Scope::Gpu, ..plain(Space::Global, Kind::Atomic, &addresses, 4) };
        let ats = [play.at(0, 0, 1), play.at(0, 0, 1)];
        (0..2).for_each(|block| play.clusters[block].access(ats[block], &atomic));
        (0..2).for_each(|block| play.clusters[block].observed(ats[block], &atomic));
        play.global(last, Kind::Write, Order::Weak, Scope::Gpu, 1, DATA);
        assert_eq!(play.causes(), [], "{last}");
    }
}

#[test]
fn lanes_of_one_atomic_observe_each_other_in_turn() {
    for (lane, expected) in [(31, &[][..]), (7, &[RaceCause::UnorderedLanes])] {
        let mut play = Play::new(1, 1, 32);
        let addresses = [shared_address(0, 64); 32];
        let at = play.at(0, 0, ALL);
        let atomic =
            Access { order: Order::Relaxed, scope: Scope::Gpu, ..plain(Space::Shared, Kind::Atomic, &addresses, 4) };
        play.access_by(0, at, &atomic);
        let at = play.at(0, 0, 1 << lane);
        play.access_by(0, at, &plain(Space::Shared, Kind::Write, &addresses, 4));
        assert_eq!(play.causes(), expected);
    }
}
