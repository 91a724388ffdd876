//! sm_90: `stmatrix`, `movmatrix`, mbarriers with transactions, bulk copies, clusters (PTX ISA 9.7.9.25, 9.7.13,
//! 9.7.14.5).

use ptx_vm::Arch;

use super::synchronise::{cells, exchange, partner};
use crate::case::{Case, Compare, Extra};
use crate::template;
use crate::values::Random;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![move_matrix()];
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            cases.push(store_matrix(count, transposed));
        }
    }
    bulk(&mut cases);
    clusters(&mut cases);
    cases.push(vector_reduction());
    effects(&mut cases);
    cases
}

/// A case of one warp, with rows of `row` bytes in and `output_row` bytes out.
fn warp(
    opcode: &str,
    target: Arch,
    row: usize,
    output_row: usize,
    body: &str,
    oracle: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static,
) -> Case {
    Case {
        name: opcode.into(),
        covers: vec![opcode.into()],
        target,
        module: template::module(target, "", "", row, output_row, body),
        blocks: 1,
        cluster: 1,
        threads: 32,
        extra: Extra::None,
        output_bytes: 32 * output_row,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let flip = Random::new(seed).bits() as u16;
            (0..(16 * row) as u16).flat_map(|i| (i ^ flip).to_le_bytes()).collect()
        }),
        oracle: Box::new(oracle),
    }
}

fn half(bytes: &[u8], index: usize) -> u64 {
    u64::from(bytes[2 * index]) | u64::from(bytes[2 * index + 1]) << 8
}

fn move_matrix() -> Case {
    let opcode = "movmatrix.sync.aligned.m8n8.trans.b16";
    let body = format!("    ld.global.u32 %r1, [%rd60];\n    {opcode} %r2, %r1;\n    st.global.u32 [%rd61], %r2;\n");
    warp(opcode, Arch::Sm80, 4, 8, &body, |input| {
        // The input is the matrix in row order, two halves for each lane.
        (0..32)
            .flat_map(|lane| {
                let (row, column) = (lane / 4, 2 * (lane % 4));
                let word = half(input, 8 * column + row) | half(input, 8 * (column + 1) + row) << 16;
                word.to_le_bytes()
            })
            .collect()
    })
}

/// Each lane's registers are written to tiles in shared memory, whose bytes are the output.
fn store_matrix(count: usize, transposed: bool) -> Case {
    let opcode = format!("stmatrix.sync.aligned.m8n8.x{count}{}.shared.b16", if transposed { ".trans" } else { "" });
    let registers: Vec<String> = (0..count).map(|i| format!("%r{}", 4 + i)).collect();
    let body = format!(
        "    .shared .align 16 .b8 tile[512];\n    mov.u32 %r1, tile;\n    shl.b32 %r2, %r391, 4;\n    add.s32 %r3, %r1, %r2;\n\
         \x20   ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd60];\n    mov.u32 %r8, 0;\n\
         \x20   st.shared.v4.u32 [%r3], {{%r8, %r8, %r8, %r8}};\n    bar.sync 0;\n    {opcode} [%r3], {{{}}};\n    bar.sync 0;\n\
         \x20   ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r3];\n    st.global.v4.u32 [%rd61], {{%r4, %r5, %r6, %r7}};\n",
        registers.join(", ")
    );
    warp(&opcode, Arch::Sm90a, 16, 16, &body, move |input| {
        let mut bytes = vec![0; 512];
        for lane in 0..32 {
            for tile in 0..count {
                for part in 0..2 {
                    let (row, column) = (lane / 4, 2 * (lane % 4) + part);
                    let (row, column) = if transposed { (column, row) } else { (row, column) };
                    let value = half(input, 8 * lane + 2 * tile + part) as u16;
                    let at = 128 * tile + 16 * row + 2 * column;
                    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        bytes
    })
}

/// Text: a barrier in `%rd30` for one arrival, and `%p1` true in thread 0.
pub(super) const BARRIER: &str = "    .shared .align 8 .b64 barrier;\n    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
    \x20   @%p1 mbarrier.init.shared::cta.b64 [%rd30], 1;\n    @%p1 fence.mbarrier_init.release.cluster;\n    bar.sync 0;\n";

/// Text: every thread waits for phase 0.
pub(super) const WAIT: &str =
    "again:\n    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%rd30], 0;\n    @!%p2 bra again;\n";

fn bulk(cases: &mut Vec<Case>) {
    let load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    let body = format!(
        "{}{BARRIER}    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], 2048;\n\
         \x20   @%p1 {load} [%rd22], [%rd58], 2048, [%rd30];\n{WAIT}    ld.shared.v2.u64 {{%rd1, %rd2}}, [%rd21];\n\
         \x20   st.global.v2.u64 [%rd61], {{%rd1, %rd2}};\n",
        cells(16)
    );
    let covers = [
        load,
        "mbarrier.init.shared::cta.b64",
        "fence.mbarrier_init.release.cluster",
        "mbarrier.arrive.expect_tx.shared::cta.b64",
        "mbarrier.try_wait.parity.shared::cta.b64",
        "ld.shared.v2.u64",
        "st.global.v2.u64",
    ];
    cases.push(exchange("bulk load", &covers, Arch::Sm90a, 16, &body, partner));
    let store = "cp.async.bulk.global.shared::cta.bulk_group";
    let body = format!(
        "{}    ld.global.v2.u64 {{%rd1, %rd2}}, [%rd60];\n    st.shared.v2.u64 [%rd21], {{%rd1, %rd2}};\n\
         \x20   fence.proxy.async.shared::cta;\n    bar.sync 0;\n    setp.eq.u32 %p1, %r391, 0;\n    @!%p1 bra done;\n\
         \x20   {store} [%rd59], [%rd22], 2048;\n    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group.read 0;\n\
         \x20   cp.async.bulk.wait_group 0;\ndone:\n",
        cells(16)
    );
    let covers = [
        store,
        "st.shared.v2.u64",
        "fence.proxy.async.shared::cta",
        "cp.async.bulk.commit_group",
        "cp.async.bulk.wait_group",
        "cp.async.bulk.wait_group.read",
    ];
    cases.push(exchange("bulk store", &covers, Arch::Sm90a, 16, &body, partner));
    // Within the block; its thread waits for the phase that its arrival was of.
    let copy = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes";
    let body = format!(
        "{}{BARRIER}    .shared .align 128 .b8 target[2048];\n    mov.u64 %rd32, target;\n\
         \x20   ld.global.v2.u64 {{%rd1, %rd2}}, [%rd60];\n    st.shared.v2.u64 [%rd20], {{%rd1, %rd2}};\n\
         \x20   fence.proxy.async.shared::cta;\n    bar.sync 0;\n    @!%p1 bra met;\n\
         \x20   mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%rd30], 2048;\n\
         \x20   {copy} [%rd32], [%rd22], 2048, [%rd30];\nagain:\n\
         \x20   mbarrier.try_wait.shared::cta.b64 %p2, [%rd30], %rd31;\n    @!%p2 bra again;\nmet:\n    bar.sync 0;\n\
         \x20   sub.u64 %rd33, %rd21, %rd22;\n    add.u64 %rd33, %rd33, %rd32;\n\
         \x20   ld.shared.v2.u64 {{%rd1, %rd2}}, [%rd33];\n    st.global.v2.u64 [%rd61], {{%rd1, %rd2}};\n",
        cells(16)
    );
    let covers = [copy, "mbarrier.try_wait.shared::cta.b64"];
    cases.push(exchange("bulk copy in a block", &covers, Arch::Sm90a, 16, &body, partner));
    // Transactions without a copy, and arrivals of several threads over two phases.
    let body = format!(
        "{}    .shared .align 8 .b64 barrier;\n    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   @%p1 mbarrier.init.shared::cta.b64 [%rd30], 128;\n    bar.sync 0;\n    ld.global.u64 %rd1, [%rd60];\n\
         \x20   st.shared.u64 [%rd20], %rd1;\n    mbarrier.arrive.shared::cta.b64 %rd31, [%rd30];\n{WAIT}\
         \x20   ld.shared.u64 %rd2, [%rd21];\n    mbarrier.arrive.shared::cta.b64 %rd31, [%rd30];\nonce:\n\
         \x20   mbarrier.try_wait.parity.shared::cta.b64 %p2, [%rd30], 1;\n    @!%p2 bra once;\n    st.global.u64 [%rd61], %rd2;\n",
        cells(8)
    );
    let covers = ["mbarrier.arrive.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"];
    cases.push(exchange("mbarrier phases", &covers, Arch::Sm90a, 8, &body, partner));
    // Arrivals that copies make when they are done.
    let arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64";
    let body = format!(
        "{}    .shared .align 8 .b64 barrier;\n    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   @%p1 mbarrier.init.shared::cta.b64 [%rd30], 128;\n    bar.sync 0;\n\
         \x20   cp.async.ca.shared.global [%rd20], [%rd60], 8;\n    {arrive} [%rd30];\n{WAIT}\
         \x20   ld.shared.u64 %rd2, [%rd21];\n    st.global.u64 [%rd61], %rd2;\n",
        cells(8)
    );
    cases.push(exchange("arrival of copies", &[arrive], Arch::Sm90a, 8, &body, partner));
    // The second arrival's state says what the first one left.
    let body = format!(
        "{}    .shared .align 8 .b64 barrier;\n    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   @%p1 mbarrier.init.shared::cta.b64 [%rd30], 4096;\n    bar.sync 0;\n    ld.global.u64 %rd1, [%rd60];\n\
         \x20   mov.u64 %rd5, 0;\n    @!%p1 bra done;\n    cvt.u32.u64 %r1, %rd1;\n    and.b32 %r1, %r1, 1023;\n\
         \x20   add.u32 %r1, %r1, 1;\n    mbarrier.arrive.shared::cta.b64 %rd31, [%rd30], %r1;\n\
         \x20   mbarrier.arrive.shared::cta.b64 %rd32, [%rd30];\n    mbarrier.pending_count.b64 %r2, %rd32;\n\
         \x20   cvt.u64.u32 %rd5, %r2;\ndone:\n    st.global.u64 [%rd61], %rd5;\n",
        cells(8)
    );
    let left = |rows: &[Vec<u64>]| {
        let first = 4096 - (rows[0][0] % 1024 + 1);
        (0..rows.len()).map(|thread| if thread == 0 { first } else { 0 }).collect()
    };
    cases.push(exchange("pending arrivals", &["mbarrier.pending_count.b64"], Arch::Sm90a, 8, &body, left));
}

fn clusters(cases: &mut Vec<Case>) {
    // Two blocks read each other's shared memory. The first barrier doesn't order memory.
    let body = format!(
        "{}    barrier.cluster.arrive.relaxed.aligned;\n    barrier.cluster.wait.aligned;\n\
         \x20   ld.global.u64 %rd1, [%rd60];\n    st.shared.u64 [%rd20], %rd1;\n    barrier.cluster.arrive.aligned;\n\
         \x20   barrier.cluster.wait.aligned;\n    mov.u32 %r1, %cluster_ctarank;\n    xor.b32 %r1, %r1, 1;\n\
         \x20   mapa.shared::cluster.u64 %rd2, %rd21, %r1;\n    ld.shared::cluster.u64 %rd3, [%rd2];\n\
         \x20   barrier.cluster.arrive.release.aligned;\n    barrier.cluster.wait.acquire.aligned;\n    st.global.u64 [%rd61], %rd3;\n",
        cells(8)
    );
    let covers = [
        "barrier.cluster.arrive.relaxed.aligned",
        "barrier.cluster.arrive.aligned",
        "barrier.cluster.wait.aligned",
        "barrier.cluster.arrive.release.aligned",
        "barrier.cluster.wait.acquire.aligned",
        "mapa.shared::cluster.u64",
        "ld.shared::cluster.u64",
    ];
    let mut case = exchange("distributed shared memory", &covers, Arch::Sm90a, 8, &body, |rows| {
        (0..rows.len()).map(|i| rows[i ^ 128 ^ 37][0]).collect()
    });
    two_blocks(&mut case);
    cases.push(case);
    // The arrival releases what was written before. Without a scope it only counts, and the cluster's barrier orders
    // the memory.
    let scoped = ["mbarrier.arrive.release.cluster", "mbarrier.try_wait.parity.acquire.cluster"];
    cases.push(remote_arrival("remote arrival", scoped, true));
    let plain = ["mbarrier.arrive", "mbarrier.try_wait.parity"];
    cases.push(remote_arrival("remote arrival without a scope", plain, false));
}

/// Block 1 writes to block 0 and arrives at its barrier, and vice versa. The data is read after the wait, or after the
/// cluster's barrier.
fn remote_arrival(name: &str, [arrive, wait]: [&str; 2], hands_over: bool) -> Case {
    let read = "    ld.shared.u64 %rd3, [%rd21];\n";
    let (before, after) = if hands_over { (read, "") } else { ("", read) };
    let body = format!(
        "{}    .shared .align 8 .b64 barrier;\n    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   @%p1 mbarrier.init.shared::cta.b64 [%rd30], 128;\n    @%p1 fence.mbarrier_init.release.cluster;\n\
         \x20   barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n    mov.u32 %r1, %cluster_ctarank;\n\
         \x20   xor.b32 %r1, %r1, 1;\n    cvt.u32.u64 %r2, %rd20;\n    cvt.u32.u64 %r3, %rd30;\n    mapa.shared::cluster.u32 %r4, %r2, %r1;\n\
         \x20   mapa.shared::cluster.u32 %r5, %r3, %r1;\n    ld.global.u64 %rd1, [%rd60];\n    st.shared::cluster.u64 [%r4], %rd1;\n\
         \x20   {arrive}.shared::cluster.b64 _, [%r5];\nagain:\n\
         \x20   {wait}.shared::cta.b64 %p2, [%rd30], 0;\n    @!%p2 bra again;\n\
         {before}    barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n{after}\
         \x20   st.global.u64 [%rd61], %rd3;\n",
        cells(8)
    );
    let (arrive, wait) = (format!("{arrive}.shared::cluster.b64"), format!("{wait}.shared::cta.b64"));
    let covers = ["mapa.shared::cluster.u32", "st.shared::cluster.u64", &arrive, &wait];
    let mut case =
        exchange(name, &covers, Arch::Sm90a, 8, &body, |rows| (0..rows.len()).map(|i| rows[i ^ 128 ^ 37][0]).collect());
    two_blocks(&mut case);
    case
}

/// Twice the threads, in two blocks of one cluster.
pub(super) fn two_blocks(case: &mut Case) {
    (case.blocks, case.cluster) = (2, 2);
    case.output_bytes *= 2;
    let one = std::mem::replace(&mut case.inputs, Box::new(|_| Vec::new()));
    case.inputs = Box::new(move |seed| [one(seed), one(seed ^ 0x5555)].concat());
}

/// Every thread adds the same four pairs, ones and twos, to the first output cells.
fn vector_reduction() -> Case {
    let opcode = "red.global.add.noftz.v4.f16x2";
    let body = format!(
        "    mov.u32 %r1, 0x40003c00;\n    mov.u32 %r2, 0x3c004000;\n    bar.sync 0;\n\
         \x20   {opcode} [%rd59], {{%r1, %r2, %r1, %r2}};\n"
    );
    exchange(opcode, &[opcode], Arch::Sm90a, 16, &body, |rows| {
        // 128 and 256 in f16.
        let mut cells = vec![0; 2 * rows.len()];
        cells[..2].fill(0x5800_5c00_5c00_5800);
        cells
    })
}

/// Instructions without a result: the values around them must not change.
fn effects(cases: &mut Vec<Case>) {
    for (opcode, text) in [
        ("griddepcontrol.wait", "    griddepcontrol.wait;\n"),
        ("griddepcontrol.launch_dependents", "    griddepcontrol.launch_dependents;\n"),
        ("nanosleep.u32", "    nanosleep.u32 20;\n"),
        ("fence.proxy.async", "    fence.proxy.async;\n"),
        ("fence.proxy.async.global", "    fence.proxy.async.global;\n"),
        ("fence.acq_rel.cluster", "    fence.acq_rel.cluster;\n"),
        ("setmaxnreg.dec.sync.aligned.u32", "    setmaxnreg.dec.sync.aligned.u32 40;\n"),
        (
            "setmaxnreg.inc.sync.aligned.u32",
            "    setmaxnreg.dec.sync.aligned.u32 40;\n    setmaxnreg.inc.sync.aligned.u32 64;\n",
        ),
        ("prefetch.global.L2", "    prefetch.global.L2 [%rd60];\n"),
    ] {
        let body = format!("    ld.global.u64 %rd1, [%rd60];\n{text}    st.global.u64 [%rd61], %rd1;\n");
        let mut case = exchange(opcode, &[opcode], Arch::Sm90a, 8, &body, <[Vec<u64>]>::concat);
        if opcode.starts_with("setmaxnreg") {
            case.module = case.module.replace(")\n{", ")\n.maxntid 128, 1, 1\n{");
        }
        cases.push(case);
    }
}
