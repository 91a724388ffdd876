//! Parameters of kernels and functions, calls, generic addresses (PTX ISA 5.1.6, 7.1, 9.7.9.20, 9.7.12.5).

use super::memory::{THREADS, block};
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, register, space_type) in [
        ("b32", "%r", "b32"),
        ("u32", "%r", "u32"),
        ("s32", "%r", "s32"),
        ("f32", "%f", "f32"),
        ("b64", "%rd", "b64"),
        ("u64", "%rd", "u64"),
        ("s64", "%rd", "s64"),
        ("f64", "%fd", "f64"),
        ("u16", "%h", "u16"),
        ("b16", "%h", "b16"),
        ("u8", "%h", "u8"),
    ] {
        cases.push(through_function(name, register, space_type, 1));
        if matches!(name, "f32" | "u32" | "b32") {
            cases.push(through_function(name, register, space_type, 2));
            cases.push(through_function(name, register, space_type, 4));
        }
        if matches!(name, "b64" | "u64" | "s64" | "f64") {
            cases.push(through_function(name, register, space_type, 2));
        }
    }
    signed_parameters(&mut cases);
    generic_addresses(&mut cases);
    generic_atomics(&mut cases);
    cases.push(branch_table());
    cases
}

/// The value is passed to a function, and returned in another order.
fn through_function(name: &str, register: &str, kind: &str, count: usize) -> Case {
    let bytes: usize = match name {
        "u8" => 1,
        "u16" | "b16" => 2,
        "b64" | "u64" | "s64" | "f64" => 8,
        _ => 4,
    };
    let vector = if count == 1 { String::new() } else { format!(".v{count}") };
    let list = |from: usize, reverse: bool| {
        let mut names: Vec<String> = (from..from + count).map(|i| format!("{register}{i}")).collect();
        if reverse {
            names.reverse();
        }
        if count == 1 { names.concat() } else { format!("{{{}}}", names.join(", ")) }
    };
    let (store, load) = (format!("st.param{vector}.{kind}"), format!("ld.param{vector}.{kind}"));
    let size = bytes * count;
    let declare = format!(".param .align {size} .b8");
    let outside = format!(
        ".func ({declare} back[{size}]) turn({declare} there[{size}])\n{{\n    .reg .b16 %h<8>;\n    .reg .b32 %r<8>;\n\
         \x20   .reg .b64 %rd<8>;\n    .reg .f32 %f<8>;\n    .reg .f64 %fd<8>;\n    {load} {}, [there];\n    {store} [back], {};\n\
         \x20   ret;\n}}\n",
        list(1, false),
        list(1, true)
    );
    let body = format!(
        "    ld.global{vector}.{kind} {}, [%rd60];\n    {{\n    {declare} argument[{size}];\n    {declare} result[{size}];\n\
         \x20   {store} [argument], {};\n    call.uni (result), turn, (argument);\n    {load} {}, [result];\n    }}\n\
         \x20   st.global{vector}.{kind} [%rd61], {};\n",
        list(1, false),
        list(1, false),
        list(11, false),
        list(11, false),
    );
    let title = format!("call with {name} x{count}");
    block(&title, &[&store, &load, "call.uni", "ret"], &outside, 16, 16, &body, move |rows| {
        rows.iter()
            .flat_map(|row| {
                let input: Vec<u8> = row.iter().flat_map(|word| word.to_le_bytes()).collect();
                let mut output = [0; 16];
                for (i, element) in input[..size].chunks_exact(bytes).rev().enumerate() {
                    output[i * bytes..(i + 1) * bytes].copy_from_slice(element);
                }
                let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| output[at + i]));
                [word(0), word(8)]
            })
            .collect()
    })
}

/// Narrow parameters are extended according to their type.
fn signed_parameters(cases: &mut Vec<Case>) {
    for (kind, bits) in [("s8", 8), ("s16", 16)] {
        let outside = format!(
            ".func (.param .b32 back) widen(.param .b32 there)\n{{\n    .reg .b32 %r<4>;\n    ld.param.{kind} %r1, [there];\n\
             \x20   st.param.b32 [back], %r1;\n    ret;\n}}\n"
        );
        let body = "    ld.global.u32 %r1, [%rd60];\n    {\n    .param .b32 argument;\n    .param .b32 result;\n\
            \x20   st.param.b32 [argument], %r1;\n    call.uni (result), widen, (argument);\n    ld.param.b32 %r2, [result];\n    }\n\
            \x20   st.global.u32 [%rd61], %r2;\n";
        let opcode = format!("ld.param.{kind}");
        cases.push(block(&opcode, &[&opcode], &outside, 8, 8, body, move |rows| {
            let unused = 64 - bits;
            rows.iter().map(|row| u64::from(((row[0] << unused) as i64 >> unused) as u32)).collect()
        }));
    }
}

/// Addresses of every space are converted to generic ones, and read.
fn generic_addresses(cases: &mut Vec<Case>) {
    let table = ".const .align 8 .u64 table[2] = {11, 22};\n.const .align 4 .f32 halves[2] = {0f3F000000, 0f3F800000};\n\
                 .global .align 8 .u64 cell = 33;\n";
    let body = "    .shared .align 8 .b8 place[1024];\n    .local .align 8 .b8 own[8];\n    mul.wide.u32 %rd20, %r391, 8;\n\
        \x20   ld.global.u64 %rd1, [%rd60];\n    mov.u64 %rd2, table;\n    cvta.const.u64 %rd3, %rd2;\n    ld.u64 %rd4, [%rd3+8];\n\
        \x20   mov.u64 %rd2, cell;\n    cvta.global.u64 %rd3, %rd2;\n    ld.u64 %rd5, [%rd3];\n    mov.u64 %rd2, place;\n\
        \x20   add.s64 %rd2, %rd2, %rd20;\n    cvta.shared.u64 %rd3, %rd2;\n    st.u64 [%rd3], %rd1;\n    ld.shared.u64 %rd6, [%rd2];\n\
        \x20   cvta.to.shared.u64 %rd8, %rd3;\n    ld.shared.u64 %rd9, [%rd8];\n    mov.u64 %rd2, own;\n    cvta.local.u64 %rd3, %rd2;\n\
        \x20   st.u64 [%rd3], %rd9;\n    ld.local.u64 %rd7, [%rd2];\n    add.s64 %rd4, %rd4, %rd5;\n    add.s64 %rd4, %rd4, %rd6;\n\
        \x20   add.s64 %rd4, %rd4, %rd7;\n    ld.const.f32 %f1, [halves+4];\n    cvt.rzi.u64.f32 %rd10, %f1;\n    add.s64 %rd4, %rd4, %rd10;\n\
        \x20   st.global.u64 [%rd61], %rd4;\n";
    let covers = [
        "cvta.const.u64",
        "cvta.global.u64",
        "cvta.shared.u64",
        "cvta.to.shared.u64",
        "cvta.local.u64",
        "ld.const.f32",
        "ld.u64",
        "st.u64",
    ];
    cases.push(block("generic addresses", &covers, table, 8, 8, body, |rows| {
        rows.iter().map(|row| row[0].wrapping_mul(2).wrapping_add(22 + 33 + 1)).collect()
    }));
    for kind in ["s8", "s16"] {
        let opcode = format!("ld.{kind}");
        let bits = if kind == "s8" { 8 } else { 16 };
        let body = format!("    {opcode} %r1, [%rd60];\n    st.global.u32 [%rd61], %r1;\n");
        cases.push(block(&opcode, &[&opcode], "", 8, 8, &body, move |rows| {
            let unused = 64 - bits;
            rows.iter().map(|row| u64::from(((row[0] << unused) as i64 >> unused) as u32)).collect()
        }));
    }
}

/// Sums over all threads by generic atomics, with and without order and scope.
fn generic_atomics(cases: &mut Vec<Case>) {
    for (opcode, wide) in [
        ("atom.add.u32", false),
        ("atom.add.u64", true),
        ("atom.max.u32", false),
        ("atom.max.u64", true),
        ("red.add.u32", false),
        ("atom.relaxed.gpu.global.add.u32", false),
        ("atom.acq_rel.gpu.global.add.u32", false),
        ("atom.acquire.cta.global.add.u32", false),
        // The order of modifiers that NVRTC writes.
        ("atom.add.acq_rel.gpu.global.u32", false),
        ("atom.add.relaxed.gpu.global.u32", false),
        ("red.relaxed.gpu.global.add.u32", false),
        ("red.release.gpu.global.add.u32", false),
    ] {
        let (register, bits, mask) = if wide { ("%rd", 64, u64::MAX) } else { ("%r", 32, 0xffff_ffff) };
        let result = if opcode.starts_with("red") { String::new() } else { format!("{register}2, ") };
        let body = format!(
            "    mov.u64 %rd3, 0;\n    setp.eq.u32 %p1, %r391, 0;\n    @%p1 st.global.u64 [%rd59], %rd3;\n\
             \x20   ld.global.b{bits} {register}1, [%rd60];\n    bar.sync 0;\n    {opcode} {result}[%rd59], {register}1;\n    bar.sync 0;\n\
             \x20   ld.global.b{bits} {register}4, [%rd59];\n    bar.sync 0;\n    st.global.b{bits} [%rd61], {register}4;\n"
        );
        let max = opcode.contains("max");
        cases.push(block(opcode, &[opcode], "", 8, 8, &body, move |rows| {
            let values = rows.iter().map(|row| row[0] & mask);
            let total = if max { values.max().unwrap_or_default() } else { values.fold(0, u64::wrapping_add) & mask };
            vec![total; rows.len()]
        }));
    }
    let opcode = "atom.add.f64";
    let body = format!(
        "    mov.u64 %rd3, 0;\n    setp.eq.u32 %p1, %r391, 0;\n    @%p1 st.global.u64 [%rd59], %rd3;\n    ld.global.u8 %rd1, [%rd60];\n\
         \x20   cvt.rn.f64.u64 %fd1, %rd1;\n    bar.sync 0;\n    {opcode} %fd2, [%rd59], %fd1;\n    bar.sync 0;\n\
         \x20   ld.global.f64 %fd3, [%rd59];\n    bar.sync 0;\n    st.global.f64 [%rd61], %fd3;\n"
    );
    cases.push(block(opcode, &[opcode], "", 8, 8, &body, |rows| {
        let sum: u64 = rows.iter().map(|row| row[0] & 255).sum();
        vec![(sum as f64).to_bits(); rows.len()]
    }));
}

/// Every thread jumps according to its number.
fn branch_table() -> Case {
    let body = "    and.b32 %r1, %r391, 3;\n    mov.u64 %rd1, 0;\ntargets: .branchtargets zero, one, two, three;\n\
        \x20   brx.idx %r1, targets;\nzero:\n    add.s64 %rd1, %rd1, 100;\none:\n    add.s64 %rd1, %rd1, 10;\n    bra.uni joined;\n\
        two:\n    mov.u64 %rd1, 7;\n    bra.uni joined;\nthree:\n    mov.u64 %rd1, 9;\njoined:\n    st.global.u64 [%rd61], %rd1;\n";
    block("brx.idx", &["brx.idx"], "", 8, 8, body, |rows| {
        (0..rows.len().min(THREADS)).map(|i| [110, 10, 7, 9][i % 4]).collect()
    })
}
