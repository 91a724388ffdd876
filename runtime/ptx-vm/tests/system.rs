//! System calls of kernels, and the refusal of those that are not supported.

use ptx_vm::{Argument, Launch, LaunchError, Machine, Module, Options};

/// NVRTC 13.5's code for a `printf` and an `assert`, in a kernel with one parameter, the number to print.
const KERNEL: &str = r#".version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 $str[15] = {116, 104, 114, 101, 97, 100, 32, 37, 100, 58, 32, 37, 103, 10, 0};
.global .align 1 .b8 condition[6] = {120, 32, 60, 32, 51};
.global .align 1 .b8 file[5] = {97, 46, 99, 117};
.global .align 1 .b8 function[2] = {107};
.visible .entry k(.param .u32 limit)
{
    .local .align 16 .b8 depot[16];
    .reg .b64 %SP;
    .reg .b64 %SPL;
    .reg .pred %p<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<12>;
    .reg .f64 %fd<4>;
    mov.u64 %SPL, depot;
    cvta.local.u64 %SP, %SPL;
    ld.param.u32 %r4, [limit];
    mov.u32 %r1, %tid.x;
    cvt.rn.f64.u32 %fd1, %r1;
    mul.f64 %fd1, %fd1, 0d3FE0000000000000;
    st.local.u32 [%SPL], %r1;
    st.local.f64 [%SPL+8], %fd1;
    mov.u64 %rd8, $str;
    cvta.global.u64 %rd9, %rd8;
    {
    .param .b64 param0;
    st.param.b64 [param0+0], %rd9;
    .param .b64 param1;
    st.param.b64 [param1+0], %SP;
    .param .b32 retval0;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r2, [retval0+0];
    }
    setp.eq.u32 %p2, %r2, 2;
    @!%p2 trap;
    setp.lt.u32 %p1, %r1, %r4;
    @%p1 bra done;
    mov.u64 %rd1, condition;
    mov.u64 %rd2, file;
    mov.u64 %rd3, function;
    mov.u64 %rd4, 1;
    mov.u32 %r3, 12;
    {
    .param .b64 p0;
    st.param.b64 [p0], %rd1;
    .param .b64 p1;
    st.param.b64 [p1], %rd2;
    .param .b32 p2;
    st.param.b32 [p2], %r3;
    .param .b64 p3;
    st.param.b64 [p3], %rd3;
    .param .b64 p4;
    st.param.b64 [p4], %rd4;
    call.uni __assertfail, (p0, p1, p2, p3, p4);
    }
done:
    ret;
}
"#;

#[test]
fn printed_text_comes_with_the_report() {
    let module = Module::parse(KERNEL).expect("it parses");
    let machine = Machine::new(Options::default().workers(1));
    let launch = Launch::new([1, 1, 1], [3, 1, 1]);
    let report = machine.launch(&module, "k", &launch, &[Argument::U32(9)]).expect("it runs");
    assert_eq!(report.printed, "thread 0: 0\nthread 1: 0.5\nthread 2: 1\n");
}

#[test]
fn a_failed_assertion_is_an_error_that_quotes_it() {
    let module = Module::parse(KERNEL).expect("it parses");
    let machine = Machine::new(Options::default().workers(1));
    let launch = Launch::new([1, 1, 1], [4, 1, 1]);
    let failure = machine.launch(&module, "k", &launch, &[Argument::U32(3)]).expect_err("thread 3 fails");
    assert_eq!(failure.printed.lines().count(), 4);
    let LaunchError::Invalid { site, message } = &failure.error else { panic!("{failure}") };
    assert_eq!(message, "assertion `x < 3` failed in `k` at a.cu:12");
    assert_eq!(site.lane, Some(3));
}

/// Every block writes its number, all blocks meet, and every block reads its neighbour's number. This is the barrier of
/// cooperative groups: the top bit of its counter flips when the last block arrives.
const GRID_BARRIER: &str = r".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 cells)
{
    .reg .pred %p<4>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [cells];
    mov.u32 %r1, %envreg2;
    mov.u32 %r2, %envreg1;
    cvt.u64.u32 %rd2, %r1;
    cvt.u64.u32 %rd3, %r2;
    bfi.b64 %rd4, %rd3, %rd2, 32, 32;
    setp.ne.s64 %p1, %rd4, 0;
    @%p1 bra there;
    trap;
there:
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %nctaid.x;
    mul.wide.u32 %rd5, %r3, 4;
    add.s64 %rd5, %rd1, %rd5;
    st.global.u32 [%rd5], %r3;
    sub.u32 %r5, 0x80000001, %r4;
    setp.eq.u32 %p2, %r3, 0;
    selp.b32 %r6, %r5, 1, %p2;
    atom.add.release.gpu.u32 %r7, [%rd4+4], %r6;
again:
    ld.acquire.gpu.u32 %r8, [%rd4+4];
    xor.b32 %r9, %r8, %r7;
    setp.gt.s32 %p3, %r9, -1;
    @%p3 bra again;
    add.u32 %r10, %r3, 1;
    rem.u32 %r10, %r10, %r4;
    mul.wide.u32 %rd6, %r10, 4;
    add.s64 %rd6, %rd1, %rd6;
    ld.global.u32 %r11, [%rd6];
    mul.wide.u32 %rd7, %r4, 4;
    add.s64 %rd7, %rd7, %rd5;
    st.global.u32 [%rd7], %r11;
    ret;
}
";

#[test]
fn blocks_of_a_cooperative_launch_meet() {
    let module = Module::parse(GRID_BARRIER).expect("it parses");
    for workers in [1, 2] {
        let options = Options::default().workers(workers).resident_blocks(2).detector(ptx_vm::Detector::On);
        let machine = Machine::new(options);
        let cells = machine.allocate(2 * 37 * 4, "cells").expect("memory");
        let launch = Launch::new([37, 1, 1], [1, 1, 1]);
        let arguments = [Argument::Address(cells)];
        let failure = machine.launch(&module, "k", &launch, &arguments).expect_err("not cooperative");
        assert!(matches!(failure.error, LaunchError::Trap { .. }), "{failure}");
        let report = machine.launch(&module, "k", &launch.cooperative(true), &arguments).expect("cooperative");
        assert!(report.races.is_empty(), "{}", report.races[0]);
        let mut bytes = [0; 37 * 4];
        machine.read(ptx_vm::Address(cells.0 + 37 * 4), &mut bytes).expect("written");
        let found: Vec<u32> = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        assert_eq!(found, (0..37).map(|i| (i + 1) % 37).collect::<Vec<_>>());
    }
}

fn refusal(declarations: &str, body: &str) -> String {
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n{declarations}\n.entry k(.param .u64 p) {{\n    .reg .b32 %r<9>;\n    \
         .reg .b64 %rd<9>;\n    .reg .f32 %f<9>;\n{body}\n    ret;\n}}\n"
    );
    Module::parse(&text).err().map_or_else(String::new, |error| error.to_string())
}

/// Refusals tell what was refused, where, and what to do.
#[test]
fn what_is_missing_is_named() {
    let libdevice = refusal(
        ".extern .func (.param .b32 r) __nv_expf (.param .b32 x);",
        "{ .param .b32 x; .param .b32 r; st.param.f32 [x], %f1; call.uni (r), __nv_expf, (x); }",
    );
    assert!(
        libdevice.contains("line 9") && libdevice.contains("`__nv_expf`") && libdevice.contains("libdevice"),
        "{libdevice}"
    );
    let malloc = refusal(
        ".extern .func (.param .b64 r) malloc (.param .b64 x);",
        "{ .param .b64 x; .param .b64 r; st.param.b64 [x], %rd1; call.uni (r), malloc, (x); }",
    );
    assert!(malloc.contains("`malloc`") && malloc.contains("buffer"), "{malloc}");
    let texture = refusal("", "    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];");
    assert!(texture.contains("line 9") && texture.contains("textures are not supported"), "{texture}");
    let pointer = refusal("", "    call (), %rd1, (), proto;\nproto: .callprototype ()_ ();");
    assert!(pointer.contains("pointers are not supported"), "{pointer}");
    for (opcode, reason) in [
        ("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sparse products"),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", "4-bit"),
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", "`mma.sync`"),
    ] {
        let product = refusal("", &format!("    {opcode} %r1, %r2, %r3, %r4;"));
        assert!(product.contains(opcode) && product.contains(reason), "{product}");
    }
    let register = refusal("", "    mov.u32 %r1, %envreg3;");
    assert!(register.contains("`%envreg3` is not supported"), "{register}");
    let wide = refusal("", "    .reg .b128 %q1;\n    add.s64 %rd1, %q1, %rd2;");
    assert!(wide.contains("`%q1` has 128 bits"), "{wide}");
    let strong = refusal("", "    .reg .b128 %q1;\n    ld.relaxed.gpu.global.b128 %q1, [%rd1];");
    assert!(strong.contains("128 bits are supported as one weak access"), "{strong}");
}
