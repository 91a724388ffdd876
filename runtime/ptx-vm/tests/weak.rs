//! Litmus tests of the PTX memory model: the values that strong reads may see in weak-memory mode, and those that they
//! may not.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use ptx_vm::{Argument, Completion, Detector, Launch, Machine, Module, Options};

/// How many seeds each test runs. The rarest outcome that a test asks for comes about once in 30.
const SEEDS: u64 = 300;

/// Runs one thread for each text, each in its own block, and gives all outcomes: what the threads left in `%r0` to `%r3`,
/// thread after thread, as digits. `[%x]`, `[%y]` and `[%z]` are words of global memory, at first 0.
fn outcomes(threads: &[&str], weak: bool) -> BTreeSet<String> {
    outcomes_of(threads, weak, 1).0
}

/// Runs the texts with `width` threads for each block, which all run the text. Also gives everything that the race
/// detector found.
fn outcomes_of(threads: &[&str], weak: bool, width: u32) -> (BTreeSet<String>, BTreeSet<String>) {
    // A register that a text leaves alone is not part of the outcome.
    let results: Vec<usize> =
        threads.iter().map(|t| (0..4).filter(|n| t.contains(&format!("%r{n},"))).count()).collect();
    let mut text = String::from(
        ".version 8.6\n.target sm_80\n.address_size 64\n.visible .entry litmus(.param .u64 p) {\n\
         .reg .b32 %r<9>; .reg .b64 %x, %y, %z, %out, %n; .reg .pred %p, %q; .shared .b32 word;\n\
         ld.param.u64 %x, [p]; add.u64 %y, %x, 128; add.u64 %z, %x, 256; add.u64 %out, %x, 512;\n\
         mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;\n\
         mov.u32 %r8, %ctaid.x; mul.wide.u32 %n, %r8, 16; add.u64 %out, %out, %n;\n",
    );
    for (number, body) in threads.iter().enumerate() {
        let lines = body.split(';').map(str::trim).filter(|line| !line.is_empty());
        let body: String =
            lines.map(|line| if line.ends_with(':') { line.into() } else { format!("{line};\n") }).collect();
        let body = body.replace("LABEL", &format!("L{number}"));
        text += &format!("setp.ne.u32 %p, %r8, {number};\n@%p bra T{number};\n{body}bra END;\nT{number}:\n");
    }
    text += "END:\nmov.u32 %r7, %tid.x; setp.eq.u32 %q, %r7, 0;\n\
             @%q st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};\nret;\n}\n";
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let (mut all, mut races) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..SEEDS {
        let options = Options::default().workers(1).seed(seed).completion(Completion::Random).weak_memory(weak);
        let machine = Machine::new(options.detector(Detector::On));
        let buffer = machine.allocate(1024, "memory").unwrap();
        machine.write(buffer, &[0; 1024]).unwrap();
        let launch = Launch::new([threads.len() as u32, 1, 1], [width, 1, 1]);
        let report = machine.launch(&module, "litmus", &launch, &[Argument::Address(buffer)]).unwrap();
        races.extend(report.races.iter().map(ToString::to_string));
        let mut bytes = [0; 1024];
        machine.read(buffer, &mut bytes).unwrap();
        let value = |thread: usize, n: usize| bytes[512 + 16 * thread + 4 * n];
        let digits = results.iter().enumerate().flat_map(|(t, &count)| (0..count).map(move |n| (t, n)));
        all.insert(digits.map(|(t, n)| value(t, n).to_string()).collect::<String>());
    }
    (all, races)
}

#[track_caller]
fn allowed(threads: &[&str], outcome: &str) {
    let seen = outcomes(threads, true);
    assert!(seen.contains(outcome), "{outcome} is allowed; seen: {seen:?}");
}

#[track_caller]
fn forbidden(threads: &[&str], outcome: &str) {
    let seen = outcomes(threads, true);
    assert!(!seen.contains(outcome), "{outcome} is forbidden; seen: {seen:?}");
    assert!(seen.len() > 1, "the test shows nothing: {seen:?}");
}

const SET_X: &str = "st.relaxed.gpu.global.u32 [%x], 1";
const SET_Y: &str = "st.relaxed.gpu.global.u32 [%y], 1";
const X0: &str = "ld.relaxed.gpu.global.u32 %r0, [%x]";
const Y0: &str = "ld.relaxed.gpu.global.u32 %r0, [%y]";
const X1: &str = "ld.relaxed.gpu.global.u32 %r1, [%x]";
const Y1: &str = "ld.relaxed.gpu.global.u32 %r1, [%y]";

#[test]
fn store_buffering() {
    let with = |fence: &str| [[SET_X, fence, Y0].join(";"), [SET_Y, fence, X0].join(";")];
    let [a, b] = with("");
    allowed(&[&a, &b], "00");
    let [a, b] = with("fence.acq_rel.gpu");
    allowed(&[&a, &b], "00");
    let [a, b] = with("fence.sc.gpu");
    forbidden(&[&a, &b], "00");
    let [a, b] = with("membar.gl");
    forbidden(&[&a, &b], "00");
}

#[test]
fn store_buffering_is_seen_in_every_run() {
    let swap_x = "atom.relaxed.gpu.global.exch.b32 %r7, [%x], 1";
    for (set_x, ahead, back) in [
        (SET_X, "", ""),
        (SET_X, "fence.acq_rel.gpu", "fence.acq_rel.gpu"),
        (SET_X, "fence.sc.gpu", ""),
        (swap_x, "", ""),
    ] {
        let (a, b) = ([set_x, ahead, Y0].join(";"), [SET_Y, back, X0].join(";"));
        assert_eq!(outcomes(&[&a, &b], true), BTreeSet::from(["00".to_owned()]), "{ahead}");
    }
}

#[test]
fn without_the_mode_loads_see_the_newest_value() {
    let (a, b) = ([SET_X, Y0].join(";"), [SET_Y, X0].join(";"));
    assert!(!outcomes(&[&a, &b], false).contains("00"));
}

#[test]
fn message_passing() {
    let write = |flag: &str| [SET_X, flag].join(";");
    let read = |flag: &str| [flag, X1].join(";");
    let release = "st.release.gpu.global.u32 [%y], 1";
    let acquire = "ld.acquire.gpu.global.u32 %r0, [%y]";
    allowed(&[&write(SET_Y), &read(Y0)], "10");
    allowed(&[&write(release), &read(Y0)], "10");
    allowed(&[&write(SET_Y), &read(acquire)], "10");
    forbidden(&[&write(release), &read(acquire)], "10");
    let fenced = (["fence.acq_rel.gpu", SET_Y].join(";"), [Y0, "fence.acq_rel.gpu"].join(";"));
    forbidden(&[&write(&fenced.0), &read(&fenced.1)], "10");
    let narrow = ["fence.acq_rel.cta", SET_Y].join(";");
    allowed(&[&write(&narrow), &read(acquire)], "10");
}

#[test]
fn message_passing_through_atomics() {
    let write = |flag: &str| [SET_X, flag].join(";");
    let read = ["atom.acquire.gpu.global.add.u32 %r0, [%y], 0", X1].join(";");
    forbidden(&[&write("red.release.gpu.global.add.u32 [%y], 1"), &read], "10");
    allowed(&[&write("red.relaxed.gpu.global.add.u32 [%y], 1"), &read], "10");
}

#[test]
fn a_release_sequence_goes_on_through_the_atomics_of_others() {
    let first = [SET_X, "st.release.gpu.global.u32 [%y], 1"].join(";");
    let second = "atom.relaxed.gpu.global.add.u32 %r0, [%y], 1";
    let third = ["ld.acquire.gpu.global.u32 %r0, [%y]", X1].join(";");
    // The first digit is what the second thread found: 1 if it came after the first.
    forbidden(&[&first, second, &third], "120");
}

#[test]
fn reads_of_one_place_do_not_go_back() {
    let reader = [X0, X1].join(";");
    forbidden(&[SET_X, &reader], "10");
    let twice = [SET_X, "st.relaxed.gpu.global.u32 [%x], 2"].join(";");
    forbidden(&[&twice, &reader], "21");
    allowed(&[&twice, &reader], "12");
}

#[test]
fn a_thread_sees_its_own_writes() {
    let own = [SET_X, X0].join(";");
    let other = "st.relaxed.gpu.global.u32 [%x], 2";
    let seen = outcomes(&[&own, other], true);
    assert!(seen.contains("1") && !seen.contains("0"), "{seen:?}");
}

#[test]
fn two_readers_may_disagree_about_the_order_of_independent_writes() {
    let ahead = |fence: &str| [X0, fence, Y1].join(";");
    let back = |fence: &str| [Y0, fence, X1].join(";");
    allowed(&[SET_X, SET_Y, &ahead(""), &back("")], "1010");
    allowed(&[SET_X, SET_Y, &ahead("fence.acq_rel.gpu"), &back("fence.acq_rel.gpu")], "1010");
    forbidden(&[SET_X, SET_Y, &ahead("fence.sc.gpu"), &back("fence.sc.gpu")], "1010");
}

#[test]
fn causality_goes_through_a_third_thread() {
    let middle = |read: &str, write: &str| [read, write].join(";");
    let last = |flag: &str| [flag, X1].join(";");
    let (acquire_x, release_y) = ("ld.acquire.gpu.global.u32 %r0, [%x]", "st.release.gpu.global.u32 [%y], 1");
    let set = "st.release.gpu.global.u32 [%x], 1";
    let acquire_y = "ld.acquire.gpu.global.u32 %r0, [%y]";
    forbidden(&[set, &middle(acquire_x, release_y), &last(acquire_y)], "110");
    allowed(&[SET_X, &middle(X0, SET_Y), &last(Y0)], "110");
}

#[test]
fn atomics_lose_no_update() {
    let add = "atom.relaxed.gpu.global.add.u32 %r0, [%x], 1";
    let seen = outcomes(&[add, add, add], true);
    let sorted = |outcome: &String| {
        let mut digits: Vec<char> = outcome.chars().collect();
        digits.sort_unstable();
        digits.into_iter().collect::<String>()
    };
    assert!(seen.iter().map(sorted).all(|digits| digits == "012"), "{seen:?}");
}

#[test]
fn the_halves_of_a_vector_are_read_one_by_one() {
    let write = "mov.u32 %r4, 1;st.relaxed.gpu.global.v2.u32 [%x], {%r4, %r4}";
    let read = "ld.relaxed.gpu.global.v2.u32 {%r0, %r1}, [%x];mov.u32 %r0, %r0;mov.u32 %r1, %r1";
    allowed(&[write, read], "01");
    let whole = ["mov.u64 %n, 0x100000001", "st.relaxed.gpu.global.u64 [%x], %n"].join(";");
    let read = "ld.relaxed.gpu.global.u64 %n, [%x];mov.b64 {%r0, %r1}, %n;mov.u32 %r0, %r0;mov.u32 %r1, %r1";
    forbidden(&[&whole, read], "01");
}

#[test]
fn loads_do_not_see_the_future() {
    // Load buffering: the model allows 11, this mode does not show it.
    let (a, b) = ([Y0, SET_X].join(";"), [X0, SET_Y].join(";"));
    forbidden(&[&a, &b], "11");
}

#[test]
fn a_barrier_passes_on_what_another_warp_has_acquired() {
    // Warp 0 acquires, warp 1 reads after the barrier.
    let write = "mov.u32 %r7, %tid.x;setp.eq.u32 %q, %r7, 0;\
                 @%q st.relaxed.gpu.global.u32 [%x], 1;@%q st.release.gpu.global.u32 [%y], 1";
    let read = "mov.u32 %r7, %tid.x;setp.lt.u32 %q, %r7, 32;\
                @%q ld.acquire.gpu.global.u32 %r2, [%y];@%q st.shared.u32 [word], %r2;bar.sync 0;\
                ld.shared.u32 %r0, [word];ld.relaxed.gpu.global.u32 %r1, [%x];\
                bar.sync 0;@!%q st.shared.u32 [word], %r1;bar.sync 0;ld.shared.u32 %r1, [word];mov.u32 %r2, 0";
    let (seen, races) = outcomes_of(&[write, read], true, 64);
    assert!(seen.contains("000") && !seen.contains("100"), "{seen:?}");
    assert!(races.is_empty(), "{races:?}");
}

#[test]
fn waits_end_and_what_they_wait_for_is_there() {
    // As in a scan that looks back: a flag's second value is released after its first.
    let write = "st.global.u32 [%x], 1;st.release.gpu.global.u32 [%y], 1;\
                 st.global.u32 [%z], 1;st.release.gpu.global.u32 [%y], 2";
    let read = "LABEL:;ld.acquire.gpu.global.u32 %r0, [%y];setp.eq.u32 %p, %r0, 0;@%p bra LABEL;\
                ld.global.u32 %r1, [%x]";
    let (seen, races) = outcomes_of(&[write, read], true, 1);
    assert!(seen.contains("11") && seen.contains("21"), "{seen:?}");
    assert!(races.is_empty(), "{races:?}");
}

#[test]
fn volatile_flags_without_a_fence_let_old_data_through() {
    let write = "st.volatile.global.u32 [%x], 1;st.volatile.global.u32 [%y], 1";
    let read = "LABEL:;ld.volatile.global.u32 %r0, [%y];setp.eq.u32 %p, %r0, 0;@%p bra LABEL;\
                ld.volatile.global.u32 %r1, [%x]";
    allowed(&[write, read], "10");
    let write = write.replace("1;st", "1;membar.gl;st");
    let read = read.replace("@%p bra LABEL;", "@%p bra LABEL;membar.gl;");
    let seen = outcomes(&[&write, &read], true);
    assert_eq!(seen, BTreeSet::from(["11".to_owned()]));
}
