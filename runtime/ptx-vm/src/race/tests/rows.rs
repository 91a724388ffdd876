//! Compares two orders of the same accesses. Accesses of neighbouring lanes to neighbouring elements are judged as one;
//! in the opposite order of lanes they are not.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    /// `count` lanes of a warp from `lane` on access as many elements of `1 << shift` bytes from number `place` on.
    Access {
        writes: bool,
        warp: u32,
        lane: u32,
        count: u32,
        shift: u32,
        place: u64,
    },
    WarpSync {
        warp: u32,
        lanes: u32,
    },
    Barrier,
}

const WARPS: u32 = 3;

fn event() -> impl Strategy<Value = Event> {
    // Usually all lanes access the same rows, as in most kernels.
    let lanes = prop_oneof![4 => Just((0, 32)), 1 => Just((0, 16)), 1 => Just((16, 16)), 2 => (0u32..32, 1u32..33)];
    let place = prop_oneof![3 => (0u64..4).prop_map(|row| row * 32), 1 => 0u64..160];
    let shift = prop_oneof![4 => Just(2), 1 => 0u32..5];
    let access =
        (any::<bool>(), 0..WARPS, lanes, shift, place).prop_map(|(writes, warp, (lane, count), shift, place)| {
            Event::Access { writes, warp, lane, count: count.min(32 - lane), shift, place }
        });
    let sync = (0..WARPS, prop_oneof![Just(ALL), any::<u32>()]);
    let sync = sync.prop_map(|(warp, lanes)| Event::WarpSync { warp, lanes: lanes | 1 });
    prop_oneof![6 => access, 1 => sync, 1 => Just(Event::Barrier)]
}

/// Plays the events; in the mirror, lane 31 has the place of lane 0. Gives what was found, without the lanes.
fn found(events: &[Event], mirrored: bool) -> Vec<(u32, u32, Hazard, RaceCause)> {
    let turned = |lanes: u32| if mirrored { lanes.reverse_bits() } else { lanes };
    let mut play = Play::new(1, 1, WARPS * 32);
    for event in events {
        match *event {
            Event::Access { writes, warp, lane, count, shift, place } => {
                let lanes = (u32::MAX >> (32 - count)) << lane;
                let at = play.at(0, warp, turned(lanes));
                let mut addresses: [u64; 32] = std::array::from_fn(|l| {
                    (1 << 20) - 512 + ((place + l as u64) << shift) - (u64::from(lane) << shift)
                });
                if mirrored {
                    addresses.reverse();
                }
                let kind = if writes { Kind::Write } else { Kind::Read };
                play.access_by(0, at, &plain(Space::Global, kind, &addresses, 1 << shift));
            }
            Event::WarpSync { warp, lanes } => {
                let at = play.at(0, warp, turned(lanes));
                play.c().warp_sync(at);
            }
            Event::Barrier => play.barrier(0, 0..WARPS),
        }
    }
    let site = |party: &Party| party.site.as_ref().map_or(0, |site| site.pc);
    let findings = play.end();
    let mut found: Vec<_> = findings
        .iter()
        .map(|finding| match finding {
            Finding::Race(race) => (site(&race.first), site(&race.second), race.hazard, race.cause),
            Finding::Fault { .. } => panic!("unexpected: {finding}"),
        })
        .collect();
    found.sort_by_key(|found| format!("{found:?}"));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_judged_as_their_lanes(events in proptest::collection::vec(event(), 2..12)) {
        prop_assert_eq!(found(&events, false), found(&events, true));
    }
}

#[test]
fn the_lanes_of_a_row_that_race_are_named() {
    // Warp 1 writes what the upper half of warp 0 wrote.
    let mut play = Play::new(1, 1, 64);
    let row = |base: u64| std::array::from_fn(|lane| base + 4 * lane as u64);
    let at = play.at(0, 0, ALL);
    play.access_by(0, at, &plain(Space::Global, Kind::Write, &row(4096), 4));
    let at = play.at(0, 1, ALL);
    play.access_by(0, at, &plain(Space::Global, Kind::Write, &row(4096 + 64), 4));
    let findings = play.end();
    let [Finding::Race(race)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((race.first.lanes, race.second.lanes, race.address), (1 << 16, 1, 4096 + 64));
}

#[test]
fn lanes_that_read_one_place_are_judged_as_one() {
    // Lane 3 writes a word that every other lane reads; only the others need a bar.warp.sync.
    let mut play = Play::new(1, 1, 32);
    let address = [shared_address(0, 64); 32];
    let at = play.at(0, 0, 1 << 3);
    play.access_by(0, at, &plain(Space::Shared, Kind::Write, &address, 4));
    let at = play.at(0, 0, 0xffff);
    play.access_by(0, at, &plain(Space::Shared, Kind::Read, &address, 4));
    let findings = play.end();
    let [Finding::Race(race)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((race.cause, race.second.lanes), (RaceCause::UnorderedLanes, 0xfff7));
}

/// One instruction's atomic on one word, in a loop.
fn atomic(play: &mut Play, warp: u32, lanes: u32) {
    let at = At { rank: 0, warp, lanes, pc: 1000 };
    let address = [shared_address(0, 64); 32];
    let access = Access { order: Order::Relaxed, scope: Scope::Gpu, ..plain(Space::Shared, Kind::Atomic, &address, 4) };
    play.access_by(0, at, &access);
}

fn read_by_warp_1(play: &mut Play) {
    let at = play.at(0, 1, 1);
    play.access_by(0, at, &plain(Space::Shared, Kind::Read, &[shared_address(0, 64); 32], 4));
}

#[test]
fn atomics_in_a_loop_are_remembered_as_one_until_something_is_passed_on() {
    // The accesses of both lanes before the barrier are known after it.
    let mut play = Play::new(1, 1, 64);
    atomic(&mut play, 0, 1);
    atomic(&mut play, 0, 2);
    play.barrier(0, 0..2);
    read_by_warp_1(&mut play);
    assert_eq!(play.causes(), []);
    // Lane 1 comes after the barrier.
    let mut play = Play::new(1, 1, 64);
    atomic(&mut play, 0, 1);
    play.barrier(0, 0..2);
    atomic(&mut play, 0, 2);
    read_by_warp_1(&mut play);
    let findings = play.end();
    let [Finding::Race(race)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((race.cause, race.first.lanes), (RaceCause::Unordered, 2));
}

/// Lanes of a block's warps that read shared memory in groups at equal distances, and words that they write.
#[derive(Clone, Debug)]
enum Step {
    Read { warp: u32, place: u32, size: u32, stride: u32, group: u32, interleaved: bool },
    Write { warp: u32, place: u32, lanes: u32, size: u32 },
    WarpSync { warp: u32 },
    Barrier,
}

fn step() -> impl Strategy<Value = Step> {
    let read = (0..WARPS, 0u32..96, 2u32..5, 1u32..5, 0u32..5, any::<bool>()).prop_map(
        |(warp, place, size, times, group, interleaved)| {
            let size = 1 << size;
            Step::Read { warp, place: place * 16, size, stride: size * times, group, interleaved }
        },
    );
    let lanes = prop_oneof![Just(ALL), Just(1), any::<u32>().prop_map(|lanes| lanes | 2)];
    let write = (0..WARPS, 0u32..1600, lanes, 0u32..5).prop_map(|(warp, place, lanes, size)| {
        let size = 1 << size;
        Step::Write { warp, place: place & !(size - 1), lanes, size }
    });
    prop_oneof![6 => read, 4 => write, 1 => (0..WARPS).prop_map(|warp| Step::WarpSync { warp }), 3 => Just(Step::Barrier)]
}

/// Plays the steps. If `split`, each read is two: of the lanes of either parity, which are never taken together.
fn conflicts(steps: &[Step], split: bool) -> Vec<(usize, usize, Hazard, RaceCause)> {
    let mut play = Play::new(1, 1, WARPS * 32);
    // The accesses of the lanes in each step: their addresses and the size.
    let mut accessed = vec![([0u64; 32], 0u32); steps.len()];
    for (number, step) in steps.iter().enumerate() {
        let mut access = |warp, kind, lanes, addresses: &[u64; 32], size| {
            let at = At { rank: 0, warp, lanes, pc: number as u32 };
            accessed[number] = (*addresses, size);
            play.access_by(0, at, &plain(Space::Shared, kind, addresses, size));
        };
        match *step {
            Step::Read { warp, place, size, stride, group, interleaved } => {
                let number = |lane: u32| if interleaved { lane % (32 >> group) } else { lane >> group };
                let addresses = std::array::from_fn(|lane| shared_address(0, place + number(lane as u32) * stride));
                let halves = [0x5555_5555, 0xaaaa_aaaa];
                let lanes = if split { &halves[..] } else { &[ALL] };
                lanes.iter().for_each(|&lanes| access(warp, Kind::Read, lanes, &addresses, size));
            }
            Step::Write { warp, place, lanes, size } => {
                let addresses = std::array::from_fn(|lane| shared_address(0, place + lane as u32 * size));
                access(warp, Kind::Write, lanes, &addresses, size);
            }
            Step::WarpSync { warp } => {
                let at = play.at(0, warp, ALL);
                play.c().warp_sync(at);
            }
            Step::Barrier => play.barrier(0, 0..WARPS),
        }
    }
    let site = |party: &Party| party.site.as_ref().map_or(0, |site| site.pc as usize);
    // A lane that accesses the word of a race is named. (Others may be, of accesses between the same barriers.)
    let are_there = |party: &Party, address: u64| {
        let (addresses, size) = accessed[site(party)];
        let word = address & !3;
        let touches = |lane: &usize| addresses[*lane] < word + 4 && addresses[*lane] + u64::from(size) > word;
        (0..32).filter(|lane| party.lanes >> lane & 1 == 1).any(|lane| touches(&lane))
    };
    let of = |finding: &Finding| match finding {
        Finding::Race(race) => {
            assert!(are_there(&race.first, race.address) && are_there(&race.second, race.address), "{finding}");
            (site(&race.first), site(&race.second), race.hazard, race.cause)
        }
        Finding::Fault { .. } => panic!("unexpected: {finding}"),
    };
    let mut found: Vec<_> = play.end().iter().map(of).collect();
    found.sort_by_key(|found| format!("{found:?}"));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn reads_that_are_remembered_together_are_judged_as_their_lanes(steps in proptest::collection::vec(step(), 2..24)) {
        let (together, apart) = (conflicts(&steps, false), conflicts(&steps, true));
        // An earlier read that a write has partly replaced may be named, too, but no conflict is lost.
        for conflict in &apart {
            prop_assert!(together.contains(conflict), "{conflict:?} of {apart:?} is not in {together:?}");
        }
        // A read that a later one stands for may be named, too, but only beside a race that is found anyhow.
        prop_assert_eq!(together.is_empty(), apart.is_empty(), "{:?} and {:?}", together, apart);
    }
}

#[test]
fn a_read_after_many_writers_meets_each_of_them() {
    // All 32 warps of a block write words of a page and meet at a barrier; then a warp of another block writes one, too.
    let mut play = Play::new(1, 2, 1024);
    play.cluster_barrier();
    let write = |play: &mut Play, rank: u32, warp: u32, word: u32| {
        let at = play.at(rank, warp, 1);
        let address = [shared_address(0, 4 * word); 32];
        play.access_by(0, at, &plain(Space::Shared, Kind::Write, &address, 4));
    };
    (0..32).for_each(|warp| write(&mut play, 0, warp, warp));
    play.barrier(0, 0..32);
    write(&mut play, 1, 0, 40);
    let at = play.at(0, 0, ALL);
    let row = std::array::from_fn(|lane| shared_address(0, 128 + 4 * lane as u32));
    play.access_by(0, at, &plain(Space::Shared, Kind::Read, &row, 4));
    let findings = play.end();
    let [Finding::Race(race)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((race.second.lanes, race.address), (1 << 8, shared_address(0, 160)));
}
