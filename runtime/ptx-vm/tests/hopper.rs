//! Small kernels with the features of sm_90, whose complete effect is known: mbarriers, bulk and tensor copies in every
//! completion mode, clusters, and a `wgmma` with known matrices.

#![allow(clippy::unwrap_used)]

use ptx_vm::numerics::convert::f32_to_f16;
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap, Tiled};
use ptx_vm::{Address, Arch, Argument, Completion, Detector, Launch, LaunchError, Machine, Module, Options, Report};

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";
const MODES: [Completion; 3] = [Completion::Eager, Completion::Lazy, Completion::Random];

fn options() -> Options {
    Options::default().arch(Arch::Sm90a)
}

fn buffer(machine: &Machine, words: &[u32], name: &str) -> Address {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let address = machine.allocate(bytes.len() as u64, name).unwrap();
    machine.write(address, &bytes).unwrap();
    address
}

fn words(machine: &Machine, address: Address, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; count * 4];
    machine.read(address, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect()
}

fn launch(machine: &Machine, text: &str, launch: &Launch, arguments: &[Argument<'_>]) -> Result<Report, LaunchError> {
    let module = Module::parse(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e}"));
    machine.launch(&module, "k", launch, arguments).map_err(|failure| failure.error)
}

/// Loads 256 bytes, waits, doubles them, stores them back.
const BULK: &str = ".visible .entry k(.param .u64 in, .param .u64 out) {
    .shared .align 128 .b8 data[256]; .shared .align 8 .b64 full;
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, data; mov.u32 %r2, full;
    setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT;
    mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r2];
    WAIT: bar.sync 0;
    TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra TRY;
    shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r1;
    ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, %r4; st.shared.u32 [%r3], %r4;
    fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END: ret; }";

#[test]
fn bulk_copies_arrive_in_every_completion_mode_without_races() {
    for completion in MODES {
        for seed in 0..4 {
            let machine = Machine::new(options().completion(completion).seed(seed).detector(Detector::On));
            let input: Vec<u32> = (0..64).collect();
            let (from, to) = (buffer(&machine, &input, "in"), buffer(&machine, &[0; 64], "out"));
            let arguments = [Argument::Address(from), Argument::Address(to)];
            let report = launch(&machine, BULK, &Launch::new([1, 1, 1], [64, 1, 1]), &arguments).unwrap();
            assert_eq!(words(&machine, to, 64), (0..64).map(|i| 2 * i).collect::<Vec<_>>(), "{completion:?}");
            assert!(report.races.is_empty(), "{}", report.races[0]);
        }
    }
}

#[test]
fn a_missing_wait_reads_poison_when_copies_are_late_and_is_a_race() {
    let wait = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra TRY;";
    assert!(BULK.contains(wait));
    let text = BULK.replace(wait, "");
    let machine = Machine::new(options().completion(Completion::Lazy).detector(Detector::On));
    let (from, to) = (buffer(&machine, &[5; 64], "in"), buffer(&machine, &[0; 64], "out"));
    let arguments = [Argument::Address(from), Argument::Address(to)];
    let report = launch(&machine, &text, &Launch::new([1, 1, 1], [64, 1, 1]), &arguments).unwrap();
    assert_ne!(words(&machine, to, 64), [10; 64]);
    assert!(!report.races.is_empty());
}

#[test]
fn wrong_counts_are_errors() {
    let text = ".visible .entry k() { .shared .align 8 .b64 b; .reg .b64 %rd<3>; .reg .pred %p<2>;
        mbarrier.init.shared.b64 [b], 2;
        mbarrier.arrive.shared.b64 %rd1, [b], 3; ret; }";
    let error = launch(&Machine::new(options()), text, &Launch::new([1, 1, 1], [1, 1, 1]), &[]).unwrap_err();
    assert!(error.to_string().contains("too many arrivals"), "{error}");
    let text = ".visible .entry k() { .shared .align 8 .b64 b; .reg .pred %p<2>;
        mbarrier.init.shared.b64 [b], 2;
        TRY: mbarrier.try_wait.parity.shared.b64 %p1, [b], 0; @!%p1 bra TRY; ret; }";
    let error = launch(&Machine::new(options()), text, &Launch::new([1, 1, 1], [1, 1, 1]), &[]).unwrap_err();
    assert!(matches!(error, LaunchError::Deadlock { .. }), "{error}");
}

#[test]
fn a_deadlock_says_who_waits_for_what() {
    // Both warps are given a stage that lacks an arrival and 64 bytes; lane 3 of warp 1 waits for another mbarrier.
    let text = ".visible .entry k(.param .u64 in) {
        .shared .align 128 .b8 data[256]; .shared .align 8 .b8 full[16];
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;
        ld.param.u64 %rd1, [in]; mov.u32 %r0, %tid.x; mov.u32 %r1, data; mov.u32 %r2, full; add.u32 %r3, %r2, 8;
        setp.ne.u32 %p1, %r0, 0; @%p1 bra WAIT;
        mbarrier.init.shared::cta.b64 [%r2], 2; mbarrier.init.shared::cta.b64 [%r3], 1;
        fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 320;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 256, [%r2];
        WAIT: bar.sync 0; setp.eq.u32 %p3, %r0, 35; selp.u32 %r2, %r3, %r2, %p3;
        TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra TRY;
        ret; }";
    for completion in MODES {
        let machine = Machine::new(options().completion(completion).detector(Detector::On));
        let from = buffer(&machine, &[5; 64], "in");
        let module = Module::parse(&format!("{HEAD}{text}")).unwrap();
        let shape = Launch::new([1, 1, 1], [64, 1, 1]);
        let failure = machine.launch(&module, "k", &shape, &[Argument::Address(from)]).unwrap_err();
        let LaunchError::Deadlock { waiting } = &failure.error else { panic!("{failure}") };
        let lanes: Vec<_> = waiting.iter().map(|w| (w.site.warp, w.lanes, w.site.line)).collect();
        assert!(lanes.contains(&(0, u32::MAX, 14)), "{lanes:x?}");
        let text = failure.to_string();
        let full = "waits for the phase of parity 0 of the mbarrier at shared+0x180 (full+0x0), which lacks 1 of 2 \
                    arrivals and 64 bytes of expected transactions (`mbarrier.try_wait.parity.shared::cta.b64` at PTX \
                    line 14, kernel `k`, block (0, 0, 0), warp 0)";
        assert!(text.contains(full), "{text}");
        let other = "the mbarrier at shared+0x188 (full+0x8), which lacks 1 of 1 arrivals";
        assert!(text.contains(other), "{text}");
        // The fastest of several, since this computer may be busy.
        let fastest = (0..8).map(|_| {
            let started = std::time::Instant::now();
            assert!(machine.launch(&module, "k", &shape, &[Argument::Address(from)]).is_err());
            started.elapsed()
        });
        assert!(fastest.min() < Some(std::time::Duration::from_millis(300)), "nobody outside is waited for");
    }
}

#[test]
fn what_was_found_before_an_error_is_reported_with_it() {
    let text = ".visible .entry k() { .shared .align 8 .b8 s[128]; .reg .b32 %r<9>; .reg .b64 %rd<3>;
        mov.u32 %r0, %tid.x; mov.u32 %r2, s; and.b32 %r3, %r0, 15; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r2;
        st.shared.u32 [%r3], %r0; bar.sync 0; bar.sync 1, 96; ret; }";
    let module = Module::parse(&format!("{HEAD}{text}")).unwrap();
    let machine = Machine::new(options().detector(Detector::On));
    let failure = machine.launch(&module, "k", &Launch::new([1, 1, 1], [64, 1, 1]), &[]).unwrap_err();
    assert!(matches!(failure.error, LaunchError::Deadlock { .. }), "{failure}");
    assert!(!failure.races.is_empty());
    let text = failure.to_string();
    assert!(text.contains("waits at barrier 1, where 64 of 96 threads have arrived"), "{text}");
    assert!(text.contains("before that, the race detector found:\nrace, write after write"), "{text}");
}

#[test]
fn clusters_write_each_others_shared_memory() {
    let text = ".visible .entry k(.param .u64 out) { .shared .align 4 .b32 slot;
        .reg .b32 %r<9>; .reg .b64 %rd<5>;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %clusterid.x;
        add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mov.u32 %r5, slot;
        mapa.shared::cluster.u32 %r6, %r5, %r4;
        mad.lo.u32 %r7, %r3, 100, %r1; st.shared::cluster.u32 [%r6], %r7;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        ld.shared.u32 %r8, [slot];
        ld.param.u64 %rd1, [out]; mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd2, %r4, 4; add.u64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], %r8; ret; }";
    let machine = Machine::new(options().detector(Detector::On));
    let out = buffer(&machine, &[0; 8], "out");
    let shape = Launch::new([8, 1, 1], [1, 1, 1]).cluster([4, 1, 1]);
    let report = launch(&machine, text, &shape, &[Argument::Address(out)]).unwrap();
    assert_eq!(words(&machine, out, 8), [3, 0, 1, 2, 103, 100, 101, 102]);
    assert!(report.races.is_empty(), "{}", report.races[0]);
}

#[test]
fn tensor_copies_fill_and_clip_at_the_border_and_reach_every_block_of_a_multicast() {
    let text = ".visible .entry k(.param .align 64 .b8 source[128], .param .align 64 .b8 target[128]) {
        .shared .align 1024 .b8 tile[256]; .shared .align 8 .b64 full;
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .reg .b16 %rs<2>;
        mov.u32 %r1, tile; mov.u32 %r2, full; mov.u32 %r3, %cluster_ctarank;
        mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, target; cvta.param.u64 %rd2, %rd2;
        mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
        setp.ne.u32 %p1, %r3, 0; @%p1 bra TRY; mov.u16 %rs1, 3;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
            [%r1], [%rd1, {-2, 3}], [%r2], %rs1;
        TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra TRY;
        fence.proxy.async.shared::cta; shl.b32 %r4, %r3, 3;
        cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r4, 6}], [%r1];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }";
    // 12 columns and 9 rows of words; boxes of 8 by 8.
    let map = |address: Address, swizzle| {
        let tiled = Tiled {
            element: MapElement::U32,
            address: address.0,
            sizes: &[12, 9],
            strides: &[48],
            box_sizes: &[8, 8],
            element_strides: &[1, 1],
            swizzle,
            fill: Fill::Zero,
        };
        TensorMap::encode(&tiled).unwrap()
    };
    for completion in MODES {
        for swizzle in [Swizzle::None, Swizzle::Bytes32] {
            let machine = Machine::new(options().completion(completion).detector(Detector::On));
            let source: Vec<u32> = (0..108).map(|i| i + 1).collect();
            let (from, to) = (buffer(&machine, &source, "in"), buffer(&machine, &[7777; 108], "out"));
            let (a, b) = (map(from, swizzle), map(to, swizzle));
            let shape = Launch::new([2, 1, 1], [1, 1, 1]).cluster([2, 1, 1]);
            let report = launch(&machine, text, &shape, &[Argument::Bytes(&a), Argument::Bytes(&b)]).unwrap();
            assert!(report.races.is_empty(), "{}", report.races[0]);
            let expected: Vec<u32> = (0..108u32)
                .map(|i| {
                    let (row, column) = (i / 12, i % 12);
                    if row < 6 {
                        return 7777;
                    }
                    // Box row y holds source row y + 3, box column x source column x - 2.
                    let (y, x) = (row - 6 + 3, (column % 8).checked_sub(2));
                    x.map_or(0, |x| y * 12 + x + 1)
                })
                .collect();
            assert_eq!(words(&machine, to, 108), expected, "{completion:?} {swizzle:?}");
        }
    }
}

#[test]
fn wgmma_multiplies_what_its_descriptors_describe() {
    // A (64 by 16) and B (8 by 16), K-major without swizzle: cores of 8 rows by 16 bytes, K next, then rows.
    let text = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out) {
        .shared .align 128 .b8 sa[2048]; .shared .align 128 .b8 sb[256];
        .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<5>; .reg .pred %p<2>;
        ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [out];
        mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 4; mov.u32 %r2, sa; add.u32 %r3, %r2, %r1; cvt.u64.u32 %rd4, %r1;
        add.u64 %rd5, %rd1, %rd4; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5]; st.shared.v4.u32 [%r3], {%r4, %r5, %r6, %r7};
        setp.ge.u32 %p1, %r0, 16; mov.u32 %r8, sb; @%p1 bra READY;
        add.u32 %r9, %r8, %r1; add.u64 %rd6, %rd2, %rd4;
        ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd6]; st.shared.v4.u32 [%r9], {%r4, %r5, %r6, %r7};
        READY: fence.proxy.async.shared::cta; bar.sync 0;
        shr.u32 %r10, %r2, 4; cvt.u64.u32 %rd7, %r10; or.b64 %rd7, %rd7, 0x1000080000;
        shr.u32 %r11, %r8, 4; cvt.u64.u32 %rd8, %r11; or.b64 %rd8, %rd8, 0x1000080000;
        mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd7, %rd8, 1, 1, -1, 0, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        mul.wide.u32 %rd9, %r0, 16; add.u64 %rd9, %rd9, %rd3; st.global.v4.f32 [%rd9], {%f1, %f2, %f3, %f4};
        ret; }";
    let a = |row: usize, k: usize| ((row * 5 + k * 3) % 11) as f32 - 5.0;
    let b = |column: usize, k: usize| ((column * 7 + k) % 9) as f32 - 4.0;
    for completion in MODES {
        let machine = Machine::new(options().completion(completion).detector(Detector::On));
        multiply_and_check(&machine, text, &a, &b);
    }
    // Without the wait, late products leave poison.
    let early = text.replace("wgmma.wait_group.sync.aligned 0;", "");
    let machine = Machine::new(options().completion(Completion::Lazy));
    let result =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| multiply_and_check(&machine, &early, &a, &b)));
    assert!(result.is_err());
}

/// Runs the product on images of the matrices and compares every element.
fn multiply_and_check(machine: &Machine, text: &str, a: &dyn Fn(usize, usize) -> f32, b: &dyn Fn(usize, usize) -> f32) {
    let image = |rows: usize, value: &dyn Fn(usize, usize) -> f32| -> Vec<u32> {
        let mut halves = vec![0u16; rows * 16];
        for row in 0..rows {
            for k in 0..16 {
                halves[row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8] = f32_to_f16(value(row, k));
            }
        }
        halves.chunks_exact(2).map(|h| u32::from(h[0]) | u32::from(h[1]) << 16).collect()
    };
    let (from_a, from_b) = (buffer(machine, &image(64, a), "a"), buffer(machine, &image(8, b), "b"));
    let out = buffer(machine, &[0; 512], "out");
    let arguments = [Argument::Address(from_a), Argument::Address(from_b), Argument::Address(out)];
    let report = launch(machine, text, &Launch::new([1, 1, 1], [128, 1, 1]), &arguments).unwrap();
    assert!(report.races.is_empty(), "{}", report.races[0]);
    for (i, bits) in words(machine, out, 512).into_iter().enumerate() {
        let (thread, register) = (i / 4, i % 4);
        let row = thread / 32 * 16 + thread % 32 / 4 + 8 * (register / 2);
        let column = 2 * (thread % 4) + register % 2;
        let expected = 1.0 - (0..16).map(|k| a(row, k) * b(column, k)).sum::<f32>();
        assert_eq!(f32::from_bits(bits), expected, "row {row}, column {column}");
    }
}

/// While others run, a warp that was suspended looks at its mbarrier, and is not run to be suspended again.
#[test]
fn warps_that_wait_for_an_mbarrier_take_few_turns() {
    const MEETINGS: u64 = 1000;
    // Warps 0 and 1 meet again and again; then one of them arrives, for which the other six wait.
    let text = format!(
        ".visible .entry k() {{ .shared .align 8 .b64 b; .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<4>;
        mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra BEGIN; mbarrier.init.shared.b64 [b], 1;
        BEGIN: bar.sync 0; setp.ge.u32 %p1, %r0, 64; @%p1 bra TRY; mov.u32 %r1, 0;
        MEET: bar.sync 1, 64; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, {MEETINGS}; @%p1 bra MEET;
        setp.ne.u32 %p1, %r0, 0; @%p1 bra END; mbarrier.arrive.shared.b64 %rd1, [b]; bra END;
        TRY: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @!%p2 bra TRY;
        END: ret; }}"
    );
    let machine = Machine::new(options().statistics(true));
    let report = launch(&machine, &text, &Launch::new([1, 1, 1], [256, 1, 1]), &[]).unwrap();
    let (_, tries) = report.statistics.by_opcode.iter().find(|(opcode, _)| opcode.contains("try_wait")).unwrap();
    assert!((6..6 * MEETINGS / 10).contains(tries), "{tries}");
}

/// The code after a wait that ended without success may be the code that others need.
#[test]
fn a_wait_ends_while_others_run() {
    // Warps 0 and 1 meet until the third has tried three times; then one of them arrives.
    let text = ".visible .entry k() { .shared .align 8 .b64 b; .shared .align 4 .b32 tries;
        .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .pred %p<4>;
        mov.u32 %r0, %tid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra BEGIN;
        mbarrier.init.shared.b64 [b], 1; st.shared.u32 [tries], 0;
        BEGIN: bar.sync 0; setp.ge.u32 %p1, %r0, 64; @%p1 bra TRY;
        MEET: bar.sync 1, 64; ld.volatile.shared.u32 %r2, [tries]; setp.lt.u32 %p1, %r2, 96; @%p1 bra MEET;
        setp.ne.u32 %p1, %r0, 0; @%p1 bra END; mbarrier.arrive.shared.b64 %rd1, [b]; bra END;
        TRY: mbarrier.try_wait.parity.shared.b64 %p2, [b], 0; @%p2 bra END;
        atom.shared.add.u32 %r3, [tries], 1; bra TRY;
        END: ret; }";
    for completion in MODES {
        let machine = Machine::new(options().completion(completion).instruction_limit(1 << 16));
        launch(&machine, text, &Launch::new([1, 1, 1], [96, 1, 1]), &[]).unwrap();
    }
}
