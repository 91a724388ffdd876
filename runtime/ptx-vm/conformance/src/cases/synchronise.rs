//! Barriers, fences, and asynchronous copies of sm_80 (PTX ISA 9.7.9.25, 9.7.13).
//!
//! The oracle is always the same: what the threads pass to each other arrives.

use ptx_vm::Arch;

use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::template;
use crate::values::Random;

const THREADS: usize = 128;

/// A case of one block of 128 threads with rows of `row` bytes in and out.
pub(super) fn exchange(
    name: &str,
    covers: &[&str],
    target: Arch,
    row: usize,
    body: &str,
    oracle: impl Fn(&[Vec<u64>]) -> Vec<u64> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target,
        module: template::module(target, "", "", row, row, body),
        blocks: 1,
        cluster: 1,
        threads: THREADS as u32,
        extra: Extra::None,
        output_bytes: THREADS * row,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let mut random = Random::new(seed);
            (0..THREADS * row / 8).flat_map(|_| random.bits().to_le_bytes()).collect()
        }),
        oracle: Box::new(move |input| {
            let rows: Vec<Vec<u64>> = input.chunks_exact(row).map(words).collect();
            oracle(&rows).into_iter().flat_map(u64::to_le_bytes).collect()
        }),
    }
}

/// Text: puts this thread's cell of `cells` into `%rd20`, and its partner's (thread number XOR 37) into `%rd21`.
pub(super) fn cells(bytes: usize) -> String {
    format!(
        "    .shared .align 128 .b8 cells[{}];\n    mov.u64 %rd22, cells;\n    mul.wide.u32 %rd20, %r391, {bytes};\n\
         \x20   add.s64 %rd20, %rd22, %rd20;\n    xor.b32 %r20, %r391, 37;\n    mul.wide.u32 %rd21, %r20, {bytes};\n\
         \x20   add.s64 %rd21, %rd22, %rd21;\n",
        THREADS * bytes
    )
}

/// Each thread gets its partner's row.
pub(super) fn partner(rows: &[Vec<u64>]) -> Vec<u64> {
    (0..rows.len()).flat_map(|i| rows[i ^ 37].clone()).collect()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for barrier in
        ["bar.sync 0", "bar.sync 3, 128", "barrier.sync 2", "barrier.sync.aligned 4, 128", "barrier.cta.sync.aligned 1"]
    {
        let body = format!(
            "{}    ld.global.u64 %rd1, [%rd60];\n    st.shared.u64 [%rd20], %rd1;\n    {barrier};\n\
             \x20   ld.shared.u64 %rd2, [%rd21];\n    st.global.u64 [%rd61], %rd2;\n",
            cells(8)
        );
        let opcode = barrier.split(' ').next().unwrap_or_default();
        cases.push(exchange(barrier, &[opcode], Arch::Sm80, 8, &body, partner));
    }
    producer_and_consumer(&mut cases);
    for fence in [
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.cta",
        "fence.acq_rel.gpu",
        "fence.sc.gpu",
        "fence.acq_rel.sys",
    ] {
        let body = format!(
            "{}    ld.global.u64 %rd1, [%rd60];\n    st.shared.u64 [%rd20], %rd1;\n    {fence};\n    bar.sync 0;\n\
             \x20   ld.shared.u64 %rd2, [%rd21];\n    st.global.u64 [%rd61], %rd2;\n",
            cells(8)
        );
        cases.push(exchange(fence, &[fence], Arch::Sm80, 8, &body, partner));
    }
    copies(&mut cases);
    cases.push(mbarrier_of_ampere());
    cases
}

/// Half of the block arrives, the other half waits.
fn producer_and_consumer(cases: &mut Vec<Case>) {
    let body = format!(
        "{}    setp.lt.u32 %p1, %r391, 64;\n    ld.global.u64 %rd1, [%rd60];\n    @%p1 bra produce;\n    bar.sync 5, 128;\n\
         \x20   add.s64 %rd3, %rd20, -512;\n    ld.shared.u64 %rd2, [%rd3];\n    st.global.u64 [%rd61], %rd2;\n    bra.uni done;\n\
         produce:\n    st.shared.u64 [%rd20], %rd1;\n    bar.arrive 5, 128;\n    st.global.u64 [%rd61], %rd1;\ndone:\n",
        cells(8)
    );
    cases.push(exchange("bar.arrive", &["bar.arrive", "bar.sync", "bra", "bra.uni"], Arch::Sm80, 8, &body, |rows| {
        (0..rows.len()).map(|i| rows[i % 64][0]).collect()
    }));
}

fn copies(cases: &mut Vec<Case>) {
    for (opcode, bytes) in [
        ("cp.async.ca.shared.global", 4),
        ("cp.async.ca.shared.global", 8),
        ("cp.async.ca.shared.global", 16),
        ("cp.async.cg.shared.global", 16),
        ("cp.async.cg.shared.global.L2::128B", 16),
    ] {
        // With a source size, only the first bytes are copied, and the rest are zeros.
        for partial in [false, true] {
            for wait in ["cp.async.wait_group 0", "cp.async.wait_all"] {
                let size = if partial { format!("{bytes}, %r1") } else { bytes.to_string() };
                let commit = if wait.ends_with('0') { "    cp.async.commit_group;\n" } else { "" };
                let body = format!(
                    "{}    and.b32 %r1, %r391, {};\n    {opcode} [%rd20], [%rd60], {size};\n{commit}    {wait};\n    bar.sync 0;\n\
                     \x20   ld.shared.u64 %rd2, [%rd21];\n    ld.shared.u64 %rd3, [%rd21+8];\n    st.global.u64 [%rd61], %rd2;\n\
                     \x20   st.global.u64 [%rd61+8], %rd3;\n",
                    cells(16),
                    bytes - 1,
                );
                // Cells that the copy does not write hold zeros.
                let body = body.replacen(
                    "    and.b32 %r1",
                    "    mov.u64 %rd9, 0;\n    st.shared.u64 [%rd20], %rd9;\n    st.shared.u64 [%rd20+8], %rd9;\n    bar.sync 0;\n    and.b32 %r1",
                    1,
                );
                let name = format!("{opcode} {bytes}{} {wait}", if partial { " partial" } else { "" });
                let mut covers = vec![opcode, wait.split(' ').next().unwrap_or_default()];
                if !commit.is_empty() {
                    covers.push("cp.async.commit_group");
                }
                cases.push(exchange(&name, &covers, Arch::Sm80, 16, &body, move |rows| {
                    (0..rows.len())
                        .flat_map(|i| {
                            let source = i ^ 37;
                            let kept = if partial { source as u64 & (bytes - 1) } else { bytes };
                            [0, 8].map(|at| match kept.saturating_sub(at) {
                                0 => 0,
                                rest @ 1..8 => rows[source][at as usize / 8] & (u64::MAX >> (64 - 8 * rest)),
                                _ => rows[source][at as usize / 8],
                            })
                        })
                        .collect()
                }));
            }
        }
    }
    // Groups complete in order: after wait_group 1 the first of two has completed.
    let body = format!(
        "{}    cp.async.ca.shared.global [%rd20], [%rd60], 8;\n    cp.async.commit_group;\n\
         \x20   cp.async.ca.shared.global [%rd20+8], [%rd60+8], 8;\n    cp.async.commit_group;\n    cp.async.wait_group 1;\n\
         \x20   ld.shared.u64 %rd2, [%rd20];\n    st.global.u64 [%rd61], %rd2;\n    cp.async.wait_group 0;\n\
         \x20   ld.shared.u64 %rd3, [%rd20+8];\n    st.global.u64 [%rd61+8], %rd3;\n",
        cells(16)
    );
    let covers = ["cp.async.wait_group", "cp.async.commit_group"];
    cases.push(exchange("cp.async groups in order", &covers, Arch::Sm80, 16, &body, <[Vec<u64>]>::concat));
}

fn mbarrier_of_ampere() -> Case {
    let body = format!(
        "    .shared .align 8 .b64 barrier;\n{}    mov.u64 %rd30, barrier;\n    setp.eq.u32 %p1, %r391, 0;\n\
         \x20   @%p1 mbarrier.init.shared.b64 [%rd30], 128;\n    bar.sync 0;\n    ld.global.u64 %rd1, [%rd60];\n\
         \x20   st.shared.u64 [%rd20], %rd1;\n    mbarrier.arrive.shared.b64 %rd31, [%rd30];\nagain:\n\
         \x20   mbarrier.test_wait.shared.b64 %p2, [%rd30], %rd31;\n    @!%p2 bra again;\n    ld.shared.u64 %rd2, [%rd21];\n\
         \x20   st.global.u64 [%rd61], %rd2;\n    bar.sync 0;\n    @%p1 mbarrier.inval.shared.b64 [%rd30];\n",
        cells(8)
    );
    let covers = [
        "mbarrier.init.shared.b64",
        "mbarrier.arrive.shared.b64",
        "mbarrier.test_wait.shared.b64",
        "mbarrier.inval.shared.b64",
    ];
    exchange("mbarrier of sm_80", &covers, Arch::Sm80, 8, &body, partner)
}
