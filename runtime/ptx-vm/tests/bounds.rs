//! Accesses that leave their variable: an index that runs over into the next variable in shared or local memory; a
//! pointer to a local variable of a function that has returned.

#![allow(clippy::unwrap_used)]

use ptx_vm::{Argument, Launch, LaunchError, Machine, Module, Options};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn launch(text: &str, shared_bytes: u32, checks: bool) -> Result<u32, LaunchError> {
    let module = Module::parse(&format!("{HEADER}{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let machine = Machine::new(Options::default().memory_checks(checks));
    let out = machine.allocate(4, "out").unwrap();
    machine.fill(out, 4, 0).unwrap();
    let launch = Launch::new([1, 1, 1], [32, 1, 1]).shared_bytes(shared_bytes);
    machine.launch(&module, "k", &launch, &[Argument::Address(out)]).map_err(|failure| failure.error)?;
    let mut bytes = [0; 4];
    machine.read(out, &mut bytes).unwrap();
    Ok(u32::from_le_bytes(bytes))
}

/// A kernel with two shared arrays of 33 and of 32 words, dynamic shared memory, and word `%r0 = tid` written in each
/// array. The first lane stores `%r1`.
fn arrays(body: &str) -> String {
    format!(
        ".extern .shared .align 16 .b8 dynamic[];
        .visible .entry k(.param .u64 out) {{
        .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<4>; .reg .f32 %f<4>;
        .shared .align 4 .b8 first[132]; .shared .align 4 .b8 second[128];
        mov.u32 %r0, %tid.x; shl.b32 %r2, %r0, 2;
        mov.u32 %r3, first; add.u32 %r3, %r3, %r2; mov.u32 %r4, second; add.u32 %r4, %r4, %r2;
        mov.u32 %r5, dynamic; add.u32 %r5, %r5, %r2;
        st.shared.u32 [%r3], %r0; st.shared.u32 [%r4], %r0; st.shared.u32 [%r3+4], %r0; mov.u32 %r1, 7;
        {body}
        ld.param.u64 %rd1, [out]; setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%rd1], %r1; ret; }}"
    )
}

#[track_caller]
fn refused(body: &str, words: &str) {
    let error = launch(&arrays(body), 256, true).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn an_index_that_runs_over_is_found_at_the_write() {
    assert_eq!(launch(&arrays("st.shared.u32 [%r5+128], %r0;"), 256, true).unwrap(), 7);
    refused("st.shared.u32 [%r3+8], %r0;", "0 bytes past the end of shared variable `first` of 132 bytes");
    refused("st.shared.u32 [%r4+4], %r0;", "0 bytes past the end of shared variable `second` of 128 bytes");
    refused("atom.shared.add.u32 %r6, [%r4+4], 1;", "past the end of shared variable `second`");
    refused("st.shared.u32 [%r5+-4], %r0;", "past the end of shared variable `second`");
    refused("ld.param.u64 %rd2, [out]; cp.async.ca.shared.global [%r4+4], [%rd2], 4;", "`second`");
}

#[test]
fn what_is_read_there_is_found_where_it_is_used() {
    let read = "ld.shared.u32 %r6, [%r4+4];";
    assert_eq!(launch(&arrays(read), 256, true).unwrap(), 7, "fetched and not used");
    // Only the last lane reads too far.
    let sum = format!(
        "{read} setp.eq.u32 %p2, %r0, 31; @!%p2 mov.u32 %r6, 5; ld.param.u64 %rd1, [out]; red.global.add.u32 [%rd1], %r6;"
    );
    refused(&sum, "0 bytes past the end of shared variable `second` of 128 bytes");
}

#[test]
fn without_checks_nothing_is_found() {
    assert_eq!(launch(&arrays("st.shared.u32 [%r3+8], %r0;"), 256, false).unwrap(), 7);
}

#[test]
fn gaps_change_neither_limits_nor_sizes() {
    let text = arrays("mov.u32 %r1, %total_smem_size;");
    assert_eq!(launch(&text, 256, true).unwrap(), 272 + 256);
    let module = Module::parse(&format!("{HEADER}{text}")).unwrap();
    assert_eq!(module.kernel("k").unwrap().static_shared_bytes(), 260);
    // As much as an SM has, with two variables.
    let large = ".visible .entry k(.param .u64 out) { .shared .b8 a[83000]; .shared .b8 b[83912]; .reg .b32 %r1;
                 mov.u32 %r1, b; st.shared.u8 [%r1+83911], %r1; ret; }";
    assert_eq!(launch(large, 0, true).unwrap(), 0);
}

/// A kernel that calls `keep`, which gives a pointer to its local variable or stores through its argument.
fn frames(body: &str) -> String {
    format!(
        ".func (.param .b64 result) keep(.param .b64 to) {{
        .local .align 8 .b8 mine[16]; .reg .b64 %a<4>; .reg .b32 %v;
        mov.u64 %a1, mine; cvta.local.u64 %a1, %a1; mov.u32 %v, 11; st.u32 [%a1], %v;
        ld.param.u64 %a2, [to]; st.u32 [%a2], %v; st.param.b64 [result], %a1; ret; }}
        .visible .entry k(.param .u64 out) {{
        .local .align 8 .b8 outer[16]; .reg .b64 %rd<9>; .reg .b32 %r<4>;
        mov.u64 %rd1, outer; cvta.local.u64 %rd1, %rd1;
        {{ .param .b64 argument; .param .b64 returned;
        st.param.b64 [argument], %rd1; call (returned), keep, (argument); ld.param.b64 %rd2, [returned]; }}
        {body}
        ld.param.u64 %rd3, [out]; st.global.u32 [%rd3], %r1; ret; }}"
    )
}

#[test]
fn a_pointer_may_not_outlive_its_frame() {
    assert_eq!(launch(&frames("ld.u32 %r1, [%rd1];"), 0, true).unwrap(), 11);
    for access in ["ld.u32 %r1, [%rd2];", "mov.u32 %r1, 3; st.u32 [%rd2], %r1;"] {
        let error = launch(&frames(access), 0, true).unwrap_err();
        assert!(error.to_string().contains("a function that has returned"), "{error}");
    }
}

#[test]
fn a_function_that_is_called_again_has_its_variables_again() {
    let text = frames("ld.u32 %r1, [%rd1];")
        .replace("{ .param .b64 argument;", "mov.u32 %r3, 0; again: { .param .b64 argument;");
    let text = text.replace(
        "ld.param.b64 %rd2, [returned]; }",
        "ld.param.b64 %rd2, [returned]; } add.u32 %r3, %r3, 1; .reg .pred %q; setp.lt.u32 %q, %r3, 3; @%q bra again;",
    );
    assert_eq!(launch(&text, 0, true).unwrap(), 11);
}

/// A kernel with two local arrays of 16 bytes with 1 to 4 and 5 to 8, at `%rd1` and `%rd2`. It gives `%r1`.
fn local_arrays(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{
        .local .align 16 .b8 first[16]; .local .align 16 .b8 second[16]; .reg .b64 %rd<9>; .reg .b32 %r<9>;
        mov.u64 %rd1, first; mov.u64 %rd4, %rd1; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, second; cvta.local.u64 %rd2, %rd2;
        st.v4.u32 [%rd1], {{1, 2, 3, 4}}; st.v4.u32 [%rd2], {{5, 6, 7, 8}};
        mov.u32 %r1, 9; {body}
        ld.param.u64 %rd3, [out]; st.global.u32 [%rd3], %r1; ret; }}"
    )
}

#[test]
fn an_index_that_runs_over_a_local_array_is_found() {
    assert_eq!(launch(&local_arrays("ld.u32 %r1, [%rd1+12];"), 0, true).unwrap(), 4);
    for (body, words) in [
        ("st.u32 [%rd1+16], %r1;", "0 bytes past the end of local variable `first` of 16 bytes"),
        ("st.u32 [%rd2+-4], %r1;", "past the end of local variable `first`"),
        ("st.u32 [%rd2+20], %r1;", "4 bytes past the end of local variable `second` of 16 bytes"),
        ("ld.u32 %r1, [%rd1+20];", "4 bytes past the end of local variable `first` of 16 bytes, read here and used"),
        ("ld.local.u32 %r1, [%rd4+1024];", "a thread has 32 bytes of local memory"),
    ] {
        let error = launch(&local_arrays(body), 0, true).unwrap_err();
        assert!(error.to_string().contains(words), "{body}: {error}");
        let unchecked = launch(&local_arrays(body), 0, false);
        assert_eq!(unchecked.is_ok(), !words.starts_with("a thread"), "{body}");
    }
    // An element that is fetched and not used is not a mistake.
    assert_eq!(launch(&local_arrays("ld.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1+16];"), 0, true).unwrap(), 9);
}
