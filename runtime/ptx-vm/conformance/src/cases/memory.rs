//! Loads, stores, vectors, address spaces, atomics (PTX ISA 9.7.9, 9.7.13).

use ptx_vm::Arch;

use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::template;
use crate::values::Random;

pub(super) const THREADS: usize = 64;

/// A case of one block, whose oracle gets the input rows of all threads, as 8-byte words.
pub(super) fn block(
    name: &str,
    covers: &[&str],
    outside: &str,
    row: usize,
    output_row: usize,
    body: &str,
    oracle: impl Fn(&[Vec<u64>]) -> Vec<u64> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        covers: covers.iter().map(|s| (*s).to_string()).collect(),
        target: Arch::Sm80,
        module: template::module(Arch::Sm80, outside, "", row, output_row, body),
        blocks: 1,
        cluster: 1,
        threads: THREADS as u32,
        extra: Extra::None,
        output_bytes: THREADS * output_row,
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

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for space in ["global", "shared", "local", "generic"] {
        for (width, kind, register, count) in vectors() {
            cases.push(round_trip(space, width, kind, register, count));
        }
    }
    whole_quads(&mut cases);
    extensions(&mut cases);
    qualified(&mut cases);
    atomics(&mut cases);
    cases
}

/// Element bits, type, register prefix, elements.
fn vectors() -> Vec<(usize, &'static str, &'static str, usize)> {
    let mut all = Vec::new();
    for count in [1, 2, 4] {
        for (width, kind, register) in [
            (8, "u8", "%h"),
            (8, "b8", "%h"),
            (16, "u16", "%h"),
            (16, "b16", "%h"),
            (32, "u32", "%r"),
            (32, "s32", "%r"),
            (32, "b32", "%r"),
            (32, "f32", "%f"),
        ] {
            all.push((width, kind, register, count));
        }
        if count < 4 {
            for (kind, register) in [("u64", "%rd"), ("s64", "%rd"), ("b64", "%rd"), ("f64", "%fd")] {
                all.push((64, kind, register, count));
            }
        }
    }
    all
}

/// Loads a vector from global memory, stores it to a space, loads it from there and stores it to the output.
fn round_trip(space: &str, width: usize, kind: &str, register: &str, count: usize) -> Case {
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let list = |from: usize| {
        let names: Vec<String> = (from..from + count).map(|i| format!("{register}{i}")).collect();
        if count == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
    };
    let (first, second) = (list(1), list(11));
    let op = |operation: &str, space: &str| format!("{operation}{space}{vector}.{kind}");
    let dot = |space: &str| if space == "generic" { String::new() } else { format!(".{space}") };
    let there = dot(space);
    let (declare, address) = match space {
        "global" => ("", "    mov.b64 %rd20, %rd61;\n".to_string()),
        "shared" => (
            "    .shared .align 16 .b8 place[2048];\n",
            "    mov.u64 %rd20, place;\n    mul.wide.u32 %rd21, %r391, 32;\n    add.s64 %rd20, %rd20, %rd21;\n"
                .to_string(),
        ),
        "local" => ("    .local .align 16 .b8 place[32];\n", "    mov.u64 %rd20, place;\n".to_string()),
        _ => (
            "    .shared .align 16 .b8 place[2048];\n",
            "    mov.u64 %rd20, place;\n    cvta.shared.u64 %rd20, %rd20;\n    mul.wide.u32 %rd21, %r391, 32;\n\
             \x20   add.s64 %rd20, %rd20, %rd21;\n"
                .to_string(),
        ),
    };
    let body = format!(
        "{declare}{address}    {} {first}, [%rd60];\n    {} [%rd20], {first};\n    {} {second}, [%rd20];\n    {} [%rd61], {second};\n",
        op("ld", ".global"),
        op("st", &there),
        op("ld", &there),
        op("st", ".global"),
    );
    let bytes = width * count / 8;
    let covers = [op("ld", ".global"), op("st", &there), op("ld", &there), op("st", ".global")];
    let covers: Vec<&str> = covers.iter().map(String::as_str).collect();
    block(&format!("{space} {kind} x{count}"), &covers, "", 32, 32, &body, move |rows| {
        rows.iter()
            .flat_map(|row| {
                (0..4).map(|word| match bytes.saturating_sub(8 * word) {
                    0 => 0,
                    rest @ 1..8 => row[word] & (u64::MAX >> (64 - 8 * rest)),
                    _ => row[word],
                })
            })
            .collect()
    })
}

/// 128-bit registers: loaded, split, put together in the opposite order, and stored (sm_70 and later).
fn whole_quads(cases: &mut Vec<Case>) {
    for (space, address) in [("global", "%rd61"), ("shared", "%rd20"), ("local", "%rd22")] {
        let body = format!(
            "    .reg .b128 %q<4>;\n    .shared .align 16 .b8 place[2048];\n    .local .align 16 .b8 own[16];\n\
             \x20   mov.u64 %rd20, place;\n    mul.wide.u32 %rd21, %r391, 16;\n    add.s64 %rd20, %rd20, %rd21;\n    mov.u64 %rd22, own;\n\
             \x20   ld.global.b128 %q1, [%rd60];\n    mov.b128 {{%rd1, %rd2}}, %q1;\n    mov.b128 %q2, {{%rd2, %rd1}};\n\
             \x20   mov.b128 %q3, %q2;\n    st.{space}.b128 [{address}], %q3;\n    ld.{space}.b128 %q0, [{address}];\n\
             \x20   st.global.b128 [%rd61], %q0;\n"
        );
        let (load, store) = (format!("ld.{space}.b128"), format!("st.{space}.b128"));
        let covers = ["mov.b128", "ld.global.b128", "st.global.b128", &load, &store];
        let mut case = block(&format!("128 bits through {space} memory"), &covers, "", 16, 16, &body, |rows| {
            rows.iter().flat_map(|row| [row[1], row[0]]).collect()
        });
        case.module = case.module.replacen(".version 7.8", ".version 8.3", 1);
        cases.push(case);
    }
    // Discarded memory may hold anything; what is stored afterwards must be there.
    let body = "    ld.global.v2.u64 {%rd1, %rd2}, [%rd60];\n    and.b32 %r1, %r391, 7;\n    setp.eq.u32 %p1, %r1, 0;\n\
        \x20   @%p1 discard.global.L2 [%rd61], 128;\n    bar.sync 0;\n    st.global.v2.u64 [%rd61], {%rd1, %rd2};\n";
    cases.push(block("discard", &["discard.global.L2"], "", 16, 16, body, <[Vec<u64>]>::concat));
}

/// Narrow loads extend to wide registers.
fn extensions(cases: &mut Vec<Case>) {
    for (kind, bits, signed) in [
        ("u8", 8, false),
        ("s8", 8, true),
        ("u16", 16, false),
        ("s16", 16, true),
        ("u32", 32, false),
        ("s32", 32, true),
    ] {
        for space in ["global", "shared"] {
            let opcode = format!("ld.{space}.{kind}");
            let load = if space == "global" {
                format!("    {opcode} %rd1, [%rd60+3];\n").replace("+3", if bits == 8 { "+3" } else { "+4" })
            } else {
                format!(
                    "    .shared .align 8 .b8 place[512];\n    mov.u64 %rd20, place;\n    mul.wide.u32 %rd21, %r391, 8;\n\
                     \x20   add.s64 %rd20, %rd20, %rd21;\n    ld.global.u64 %rd2, [%rd60];\n    st.shared.u64 [%rd20], %rd2;\n\
                     \x20   {opcode} %rd1, [%rd20+{}];\n",
                    if bits == 8 { 3 } else { 4 }
                )
            };
            let body = format!("{load}    st.global.u64 [%rd61], %rd1;\n");
            let shift = if bits == 8 { 24 } else { 32 };
            cases.push(block(&format!("{opcode} into 64 bits"), &[&opcode], "", 8, 8, &body, move |rows| {
                rows.iter()
                    .map(|row| {
                        let unused = 64 - bits;
                        let value = row[0] >> shift << unused;
                        if signed { (value as i64 >> unused) as u64 } else { value >> unused }
                    })
                    .collect()
            }));
        }
    }
}

/// Loads and stores with cache and memory-order qualifiers, constants and initialised variables.
fn qualified(cases: &mut Vec<Case>) {
    for load in [
        "ld.global.nc.u32",
        "ld.global.nc.s32",
        "ld.global.nc.b32",
        "ld.global.ca.u32",
        "ld.global.cg.u32",
        "ld.volatile.global.u32",
        "ld.relaxed.gpu.global.u32",
        "ld.acquire.gpu.global.u32",
        "ld.acquire.cta.global.u32",
        "ld.acquire.sys.global.u32",
    ] {
        let body = format!("    {load} %r1, [%rd60+4];\n    st.global.u32 [%rd61], %r1;\n");
        cases.push(block(load, &[load], "", 8, 8, &body, |rows| rows.iter().map(|r| r[0] >> 32).collect()));
    }
    for (load, register) in [
        ("u64", "%rd1"),
        ("s64", "%rd1"),
        ("b64", "%rd1"),
        ("f64", "%fd1"),
        ("f32", "%f1"),
        ("u16", "%h1"),
        ("u8", "%h1"),
    ] {
        let opcode = format!("ld.global.nc.{load}");
        let body = format!("    {opcode} {register}, [%rd60];\n    st.global.{load} [%rd61], {register};\n");
        let mask = match load {
            "u8" => 0xff,
            "u16" => 0xffff,
            "f32" => 0xffff_ffff,
            _ => u64::MAX,
        };
        cases.push(block(&opcode, &[&opcode], "", 8, 8, &body, move |rows| rows.iter().map(|r| r[0] & mask).collect()));
    }
    for store in [
        "st.global.cs.u32",
        "st.global.wb.u32",
        "st.volatile.global.u32",
        "st.relaxed.gpu.global.u32",
        "st.release.gpu.global.u32",
        "st.release.sys.global.u32",
    ] {
        let body = format!("    ld.global.u32 %r1, [%rd60];\n    {store} [%rd61+4], %r1;\n");
        cases.push(block(store, &[store], "", 8, 8, &body, |rows| rows.iter().map(|r| r[0] << 32).collect()));
    }
    // Each thread has its own cell of shared memory.
    let body = "    .shared .align 4 .b32 cells[64];\n    mov.u64 %rd20, cells;\n    mul.wide.u32 %rd21, %r391, 4;\n\
        \x20   add.s64 %rd20, %rd20, %rd21;\n    ld.global.u32 %r1, [%rd60];\n    st.volatile.shared.u32 [%rd20], %r1;\n\
        \x20   ld.volatile.shared.u32 %r2, [%rd20];\n    st.global.u32 [%rd61], %r2;\n";
    let covers = ["ld.volatile.shared.u32", "st.volatile.shared.u32"];
    cases.push(block("volatile shared memory", &covers, "", 8, 8, body, |rows| {
        rows.iter().map(|r| r[0] & 0xffff_ffff).collect()
    }));
    for (load, register, words) in [
        ("ld.global.nc.v4.u32", "%r", 2),
        ("ld.global.nc.v4.s32", "%r", 2),
        ("ld.global.nc.v2.s32", "%r", 1),
        ("ld.global.nc.v4.b32", "%r", 2),
        ("ld.global.nc.v2.b64", "%rd", 2),
        ("ld.global.nc.v2.u32", "%r", 1),
        ("ld.global.nc.v2.u64", "%rd", 2),
        ("ld.global.nc.v2.f64", "%fd", 2),
        ("ld.global.nc.v4.f32", "%f", 2),
        ("ld.global.nc.v2.f32", "%f", 1),
    ] {
        let count = if load.contains("v4") { 4 } else { 2 };
        let list = (1..=count).map(|i| format!("{register}{i}")).collect::<Vec<_>>().join(", ");
        let store = load.replace("ld", "st").replace(".nc", "");
        let body = format!("    {load} {{{list}}}, [%rd60];\n    {store} [%rd61], {{{list}}};\n");
        cases.push(block(load, &[load, &store], "", 16, 16, &body, move |rows| {
            rows.iter().flat_map(|r| [r[0], if words == 2 { r[1] } else { 0 }]).collect()
        }));
    }
    let variables = ".const .align 4 .u32 table[4] = {10, 20, 30, 40};\n.global .align 8 .u64 cell = 77;\n\
                     .global .align 1 .b8 text[3] = {1, 2, 3};\n";
    let body = "    and.b32 %r1, %r391, 3;\n    mul.wide.u32 %rd1, %r1, 4;\n    mov.u64 %rd2, table;\n    add.s64 %rd2, %rd2, %rd1;\n\
        \x20   ld.const.u32 %r2, [%rd2];\n    ld.global.u64 %rd3, [cell];\n    ld.global.u8 %rd4, [text+2];\n\
        \x20   cvt.u64.u32 %rd5, %r2;\n    add.s64 %rd5, %rd5, %rd3;\n    add.s64 %rd5, %rd5, %rd4;\n    st.global.u64 [%rd61], %rd5;\n";
    cases.push(block(
        "initialised variables",
        &["ld.const.u32", "ld.global.u64", "ld.global.u8"],
        variables,
        8,
        8,
        body,
        |rows| (0..rows.len() as u64).map(|i| 10 * (i % 4 + 1) + 77 + 3).collect(),
    ));
}

/// All threads of a block work on one cell. Compared are the final cell and, if it is the same in every order, what
/// they read.
fn atomics(cases: &mut Vec<Case>) {
    type Fold = fn(u64, u64) -> u64;
    type AnyFold = Box<dyn Fn(u64, u64) -> u64 + Send + Sync>;
    let s32 = |f: fn(i32, i32) -> i32| move |a: u64, b: u64| u64::from(f(a as u32 as i32, b as u32 as i32) as u32);
    let folds: Vec<(&str, u64, AnyFold)> = vec![
        ("add.u32", 0, Box::new(|a, b| (a + b) & 0xffff_ffff)),
        ("add.s32", 0, Box::new(|a, b| (a + b) & 0xffff_ffff)),
        ("add.u64", 0, Box::new(u64::wrapping_add as Fold)),
        ("and.b32", 0xffff_ffff, Box::new(|a, b| a & b)),
        ("or.b32", 0, Box::new(|a, b| a | b)),
        ("xor.b32", 0, Box::new(|a, b| a ^ b)),
        ("min.u32", 0xffff_ffff, Box::new(u64::min as Fold)),
        ("max.u32", 0, Box::new(u64::max as Fold)),
        ("min.s32", 0x7fff_ffff, Box::new(s32(i32::min))),
        ("max.s32", 0x8000_0000, Box::new(s32(i32::max))),
        ("min.u64", u64::MAX, Box::new(u64::min as Fold)),
        ("max.u64", 0, Box::new(u64::max as Fold)),
        ("inc.u32", 5, Box::new(|a, b| if a >= b { 0 } else { a + 1 })),
    ];
    for (operation, start, fold) in folds {
        let wide = operation.ends_with("64");
        let (register, bits, mask) = if wide { ("%rd", 64, u64::MAX) } else { ("%r", 32, 0xffff_ffff) };
        // The bound of `inc` must be the same for all threads; otherwise the result depends on their order.
        let bound = if operation.starts_with("inc") { 100 } else { mask };
        let fold = std::sync::Arc::new(fold);
        for space in ["global", "shared"] {
            for reduction in [false, true] {
                if reduction && operation.starts_with("inc") && space == "shared" {
                    continue;
                }
                let opcode = format!("{}.{space}.{operation}", if reduction { "red" } else { "atom" });
                let address = if space == "shared" { "%rd20" } else { "%rd59" };
                let declare =
                    if space == "shared" { "    .shared .align 8 .b64 cell;\n    mov.u64 %rd20, cell;\n" } else { "" };
                let apply = if reduction {
                    format!("    {opcode} [{address}], {register}1;\n")
                } else {
                    format!("    {opcode} {register}2, [{address}], {register}1;\n")
                };
                let narrow = if wide { "    mov.b64 %rd1, %rd10;\n" } else { "    cvt.u32.u64 %r1, %rd10;\n" };
                let body = format!(
                    "{declare}    ld.global.u64 %rd10, [%rd60];\n    and.b64 %rd10, %rd10, {bound};\n{narrow}\
                     \x20   setp.eq.u32 %p1, %r391, 0;\n    mov.u64 %rd11, {start};\n    @%p1 st.{space}.u64 [{address}], %rd11;\n\
                     \x20   bar.sync 0;\n{apply}    bar.sync 0;\n    ld.{space}.b{bits} {register}3, [{address}];\n    bar.sync 0;\n{}",
                    if wide {
                        "    st.global.u64 [%rd61], %rd3;\n".to_string()
                    } else {
                        "    cvt.u64.u32 %rd12, %r3;\n    st.global.u64 [%rd61], %rd12;\n".to_string()
                    },
                );
                let fold = fold.clone();
                let inc = operation.starts_with("inc");
                cases.push(block(&opcode, &[&opcode], "", 8, 8, &body, move |rows| {
                    let last = rows.iter().fold(start, |cell, row| {
                        let operand = row[0] & bound;
                        fold(cell, if inc { rows[0][0] & bound } else { operand })
                    });
                    vec![last; rows.len()]
                }));
                if inc {
                    let case = cases.last_mut();
                    if let Some(case) = case {
                        case.inputs = Box::new(|seed| {
                            let bound = 3 + seed % 50;
                            (0..THREADS).flat_map(|_| (bound & 100).to_le_bytes()).collect()
                        });
                    }
                }
            }
        }
    }
    exchanges(cases);
    float_atomics(cases);
}

/// Exchange and compare-and-swap on each thread's own cell, whose old value is known; by generic addresses, and with an order,
/// too.
fn exchanges(cases: &mut Vec<Case>) {
    let forms =
        [(32, "%r", "global."), (64, "%rd", "global."), (32, "%r", ""), (64, "%rd", ""), (32, "%r", "relaxed.")];
    for (bits, register, space) in forms {
        let mask = u64::MAX >> (64 - bits);
        let opcode = format!("atom.{space}exch.b{bits}");
        let body = format!(
            "    ld.global.b{bits} {register}1, [%rd60];\n    ld.global.b{bits} {register}2, [%rd60+8];\n\
             \x20   st.global.b{bits} [%rd61], {register}1;\n    {opcode} {register}3, [%rd61], {register}2;\n\
             \x20   st.global.b{bits} [%rd61+8], {register}3;\n"
        );
        cases.push(block(&opcode, &[&opcode], "", 16, 16, &body, move |rows| {
            rows.iter().flat_map(|r| [r[1] & mask, r[0] & mask]).collect()
        }));
        let opcode = format!("atom.{space}cas.b{bits}");
        let body = format!(
            "    ld.global.b{bits} {register}1, [%rd60];\n    ld.global.b{bits} {register}2, [%rd60+8];\n\
             \x20   st.global.b{bits} [%rd61], {register}1;\n    and.b32 %r20, %r391, 1;\n    setp.eq.u32 %p1, %r20, 0;\n\
             \x20   selp.b{bits} {register}4, {register}1, {register}2, %p1;\n\
             \x20   {opcode} {register}3, [%rd61], {register}4, {register}2;\n    st.global.b{bits} [%rd61+8], {register}3;\n"
        );
        cases.push(block(&opcode, &[&opcode], "", 16, 16, &body, move |rows| {
            rows.iter()
                .enumerate()
                .flat_map(|(i, r)| {
                    let (old, new) = (r[0] & mask, r[1] & mask);
                    let expected = if i % 2 == 0 { old } else { new };
                    [if expected == old { new } else { old }, old]
                })
                .collect()
        }));
    }
}

/// Sums of small integers, exact in any order.
fn float_atomics(cases: &mut Vec<Case>) {
    for (kind, bits, register) in [("f32", 32, "%f"), ("f64", 64, "%fd")] {
        for operation in ["atom", "red"] {
            let opcode = format!("{operation}.global.add.{kind}");
            let apply = if operation == "red" {
                format!("    {opcode} [%rd59], {register}1;\n")
            } else {
                format!("    {opcode} {register}2, [%rd59], {register}1;\n")
            };
            let body = format!(
                "    ld.global.u64 %rd1, [%rd60];\n    and.b64 %rd1, %rd1, 255;\n    cvt.rn.{kind}.u64 {register}1, %rd1;\n\
                 \x20   bar.sync 0;\n{apply}    bar.sync 0;\n    ld.global.b{bits} %rd2, [%rd59];\n    bar.sync 0;\n    st.global.u64 [%rd61], %rd2;\n"
            );
            // The first cell starts as zero, because nothing has written the output yet.
            let body = format!(
                "    mov.u64 %rd3, 0;\n    setp.eq.u32 %p1, %r391, 0;\n    @%p1 st.global.u64 [%rd59], %rd3;\n{body}"
            );
            cases.push(block(&opcode, &[&opcode], "", 8, 8, &body, move |rows| {
                let sum: u64 = rows.iter().map(|r| r[0] & 255).sum();
                let bits = if bits == 32 { u64::from((sum as f32).to_bits()) } else { (sum as f64).to_bits() };
                vec![bits; rows.len()]
            }));
        }
    }
}
