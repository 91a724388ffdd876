//! Reducing and multicast bulk copies, `st.async`, `red.async` (PTX ISA 9.7.9.12, 9.7.9.25.4, 9.7.13.8).

use ptx_vm::Arch;

use super::synchronise::cells;
use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::oracle::real::{BF16, F16, Mode, Pair};
use crate::oracle::reduce::{bits, reduce};
use crate::template;
use crate::values::Random;

const THREADS: usize = 128;
/// Number of bytes of a thread's cell.
const CELL: usize = 16;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (operation, types) in [
        ("add", &["u32", "s32", "u64", "f32", "f64", "f16", "bf16"][..]),
        ("min", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
        ("max", &["u32", "s32", "u64", "s64", "f16", "bf16"]),
        ("inc", &["u32"]),
        ("dec", &["u32"]),
        ("and", &["b32", "b64"]),
        ("or", &["b32", "b64"]),
        ("xor", &["b32", "b64"]),
    ] {
        for ty in types {
            cases.push(reduce_global(operation, ty));
        }
    }
    for (operation, types) in [
        ("add", &["u32", "s32", "u64"][..]),
        ("min", &["u32", "s32"]),
        ("max", &["u32", "s32"]),
        ("inc", &["u32"]),
        ("dec", &["u32"]),
        ("and", &["b32"]),
        ("or", &["b32"]),
        ("xor", &["b32"]),
    ] {
        for ty in types {
            cases.push(reduce_shared(operation, ty));
            cases.push(asynchronous_reduction(operation, ty));
        }
    }
    for ty in ["b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"] {
        for count in [1, 2, 4] {
            // A vector has at most 16 bytes.
            if count * bits(ty) <= 128 {
                cases.push(asynchronous_store(ty, count as usize));
            }
        }
    }
    cases.push(multicast());
    cases
}

/// Bits of an element: floats whose sums and order are exactly defined, integers of any size, small counters.
pub(super) fn element(ty: &str, operation: &str, random: &mut Random) -> u64 {
    let quarters = (random.bits() % 2000) as f64 / 4.0 - 249.875;
    match ty {
        "f16" => F16.round(Pair::of(quarters), Mode::Rn),
        "bf16" => BF16.round(Pair::of(quarters), Mode::Rn),
        "f32" => u64::from(((quarters * 1.1) as f32).to_bits()),
        "f64" => (quarters * 1.1).to_bits(),
        _ if matches!(operation, "inc" | "dec") => random.bits() % 6,
        _ => random.bits() & (u64::MAX >> (64 - bits(ty))),
    }
}

/// A case whose threads have two cells of elements each (old values and operands), and one cell of results.
fn reduction(
    name: &str,
    covers: &[&str],
    operation: &'static str,
    ty: &'static str,
    body: &str,
    blocks: u32,
    partner: usize,
) -> Case {
    let row = 2 * CELL;
    Case {
        name: name.into(),
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target: Arch::Sm90a,
        module: template::module(Arch::Sm90a, "", "", row, CELL, body),
        blocks,
        cluster: blocks,
        threads: THREADS as u32,
        extra: Extra::None,
        output_bytes: blocks as usize * THREADS * CELL,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| {
            let mut random = Random::new(seed);
            let bytes = bits(ty) as usize / 8;
            (0..blocks as usize * THREADS * row / bytes)
                .flat_map(|_| element(ty, operation, &mut random).to_le_bytes()[..bytes].to_vec())
                .collect()
        }),
        oracle: Box::new(move |input| {
            let bytes = bits(ty) as usize / 8;
            let number = |at: usize| input[at..at + bytes].iter().rev().fold(0, |v, b| v << 8 | u64::from(*b));
            (0..blocks as usize * THREADS)
                .flat_map(|thread| {
                    (0..CELL / bytes)
                        .flat_map(move |n| {
                            let old = number(thread * row + n * bytes);
                            let operand = number((thread ^ partner) * row + CELL + n * bytes);
                            // Sums of f32 must not be subnormal here.
                            reduce(operation, ty, old, operand, false).to_le_bytes()[..bytes].to_vec()
                        })
                        .collect::<Vec<u8>>()
                })
                .collect()
        }),
    }
}

/// Old values in the output, operands in shared memory.
fn reduce_global(operation: &'static str, ty: &'static str) -> Case {
    let noftz = if operation == "add" && bits(ty) == 16 { ".noftz" } else { "" };
    let opcode = format!("cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{ty}");
    let body = format!(
        "{}    ld.global.v2.u64 {{%rd1, %rd2}}, [%rd60];\n    st.global.v2.u64 [%rd61], {{%rd1, %rd2}};\n\
         \x20   ld.global.v2.u64 {{%rd1, %rd2}}, [%rd60+16];\n    st.shared.v2.u64 [%rd20], {{%rd1, %rd2}};\n\
         \x20   fence.proxy.async;\n    bar.sync 0;\n    setp.eq.u32 %p1, %r391, 0;\n    @!%p1 bra done;\n\
         \x20   {opcode} [%rd59], [%rd22], {};\n    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\ndone:\n",
        cells(CELL),
        THREADS * CELL,
    );
    reduction(&opcode, &[&opcode], operation, ty, &body, 1, 0)
}

/// Text for two blocks of a cluster. `target` has this thread's cell in `%r3`, its block's start in `%r4`, and the
/// peer's in `%r5`. A barrier for one arrival is in `%r6`, the peer's, which expects `bytes`, in `%r7`. `%p1` is true
/// in thread 0. The targets hold the old values.
fn peers(bytes: usize, initialise: &str) -> String {
    format!(
        "    .shared .align 128 .b8 target[{}];\n    .shared .align 8 .b64 barrier;\n    mov.u32 %r4, target;\n\
         \x20   shl.b32 %r3, %r391, 4;\n    add.u32 %r3, %r3, %r4;\n    mov.u32 %r6, barrier;\n    mov.u32 %r1, %cluster_ctarank;\n\
         \x20   xor.b32 %r1, %r1, 1;\n    mapa.shared::cluster.u32 %r5, %r4, %r1;\n    mapa.shared::cluster.u32 %r7, %r6, %r1;\n\
         \x20   setp.eq.u32 %p1, %r391, 0;\n    @%p1 mbarrier.init.shared::cta.b64 [%r6], 1;\n\
         \x20   @%p1 fence.mbarrier_init.release.cluster;\n{initialise}\
         \x20   @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 %rd31, [%r6], {bytes};\n    barrier.cluster.arrive.aligned;\n\
         \x20   barrier.cluster.wait.aligned;\n",
        THREADS * CELL
    )
}

/// Text: writes the old values to the targets.
const OLD: &str = "    ld.global.v2.u64 {%rd1, %rd2}, [%rd60];\n    st.shared.v2.u64 [%r3], {%rd1, %rd2};\n    fence.proxy.async.shared::cta;\n";

/// Text: all threads wait for the block's barrier, store their own cells, and wait for the peer before they end.
const COLLECT: &str = "again:\n    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r6], 0;\n\
    \x20   @!%p2 bra again;\n    ld.shared.v2.u64 {%rd1, %rd2}, [%r3];\n    st.global.v2.u64 [%rd61], {%rd1, %rd2};\n\
    \x20   barrier.cluster.arrive.aligned;\n    barrier.cluster.wait.aligned;\n";

/// Combines the operands of one block with the old values of the other.
fn reduce_shared(operation: &'static str, ty: &'static str) -> Case {
    let opcode =
        format!("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{operation}.{ty}");
    let bytes = THREADS * CELL;
    let body = format!(
        "{}{}    ld.global.v2.u64 {{%rd1, %rd2}}, [%rd60+16];\n    st.shared.v2.u64 [%rd20], {{%rd1, %rd2}};\n\
         \x20   fence.proxy.async.shared::cta;\n    bar.sync 0;\n    cvt.u32.u64 %r8, %rd22;\n\
         \x20   @%p1 {opcode} [%r5], [%r8], {bytes}, [%r7];\n{COLLECT}",
        cells(CELL),
        peers(bytes, OLD),
    );
    reduction(&opcode, &[&opcode], operation, ty, &body, 2, THREADS)
}

/// Each thread's first operand goes to its cell in the other block.
fn asynchronous_reduction(operation: &'static str, ty: &'static str) -> Case {
    let opcode = format!("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{ty}");
    let wide = bits(ty) == 64;
    let (register, load) = if wide { ("%rd1", "u64") } else { ("%r9", "u32") };
    let bytes = bits(ty) as usize / 8;
    let body = format!(
        "{}    sub.u32 %r8, %r3, %r4;\n    add.u32 %r8, %r8, %r5;\n    ld.global.{load} {register}, [%rd60+16];\n\
         \x20   {opcode} [%r8], {register}, [%r7];\n{COLLECT}",
        peers(THREADS * bytes, OLD),
    );
    let mut case = reduction(&opcode, &[&opcode], operation, ty, &body, 2, THREADS);
    case.oracle = Box::new(move |input| {
        let rows: Vec<Vec<u64>> = input.chunks_exact(2 * CELL).map(words).collect();
        let low = u64::MAX >> (64 - bits(ty));
        (0..rows.len())
            .flat_map(|i| {
                let new = reduce(operation, ty, rows[i][0] & low, rows[i ^ THREADS][2] & low, false);
                [rows[i][0] & !low | new, rows[i][1]]
            })
            .flat_map(u64::to_le_bytes)
            .collect()
    });
    case
}

/// Each thread's operands go to its cell in the other block.
fn asynchronous_store(ty: &'static str, count: usize) -> Case {
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let opcode = format!("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.{ty}");
    let register = match ty {
        "f32" => "%f",
        "f64" => "%fd",
        _ if bits(ty) == 64 => "%rd",
        _ => "%r",
    };
    let names: Vec<String> = (0..count).map(|i| format!("{register}{}", 10 + i)).collect();
    let list = if count == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) };
    let bytes = count * bits(ty) as usize / 8;
    let body = format!(
        "{}    sub.u32 %r8, %r3, %r4;\n    add.u32 %r8, %r8, %r5;\n    ld.global{vector}.{ty} {list}, [%rd60+16];\n\
         \x20   {opcode} [%r8], {list}, [%r7];\n{COLLECT}",
        peers(THREADS * bytes, OLD),
    );
    let mut case = reduction(&opcode, &[&opcode], "and", "b64", &body, 2, THREADS);
    case.oracle = Box::new(move |input| {
        (0..input.len() / (2 * CELL))
            .flat_map(|i| {
                let mut cell = input[2 * CELL * i..2 * CELL * i + CELL].to_vec();
                let other = 2 * CELL * (i ^ THREADS) + CELL;
                cell[..bytes].copy_from_slice(&input[other..other + bytes]);
                cell
            })
            .collect()
    });
    case
}

/// Each block loads half of the operands of its own into both blocks.
fn multicast() -> Case {
    let opcode = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";
    let half = THREADS * CELL / 2;
    let body = format!(
        "{}    mov.u32 %r8, %cluster_ctarank;\n    mul.wide.u32 %rd3, %r8, {half};\n    add.s64 %rd4, %rd58, %rd3;\n\
         \x20   mul.lo.u32 %r9, %r8, {half};\n    add.u32 %r9, %r9, %r4;\n    mov.u16 %h1, 3;\n\
         \x20   @%p1 {opcode} [%r9], [%rd4], {half}, [%r6], %h1;\n{COLLECT}",
        peers(2 * half, ""),
    );
    let mut case = reduction(opcode, &[opcode], "and", "b64", &body, 2, THREADS);
    case.oracle = Box::new(move |input| [&input[..2 * half], &input[..2 * half]].concat());
    case
}
