//! Values of unwritten shared memory: reading them is allowed, using them is not.

#![allow(clippy::unwrap_used)]

use ptx_vm::{Argument, Launch, LaunchError, Machine, Module, Options};

/// Runs 32 threads with 1024 bytes of shared memory `sm`, where thread t has written word t, and with 32 words of
/// output. Every thread stores `%r1` if `%p9` is set, as it is at first.
fn run(body: &str) -> Result<Vec<u32>, LaunchError> {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {{
        .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .pred %p<10>; .reg .f32 %f<20>; .reg .b16 %h<20>;
        .shared .align 16 .b8 sm[1024];
        mov.u32 %r0, %tid.x; shl.b32 %r30, %r0, 2; mov.u32 %r31, sm; add.u32 %r32, %r31, %r30;
        st.shared.u32 [%r32], %r0; setp.eq.u32 %p9, 0, 0;
        ld.param.u64 %rd38, [out]; mul.wide.u32 %rd39, %r0, 4; add.s64 %rd38, %rd38, %rd39;
        {body}
        @%p9 st.global.u32 [%rd38], %r1;
        ret;
    }}"
    );
    let module = Module::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let machine = Machine::new(Options::default());
    let out = machine.allocate(128, "out").unwrap();
    machine.fill(out, 128, 0).unwrap();
    let launch = Launch::new([1, 1, 1], [32, 1, 1]);
    machine.launch(&module, "k", &launch, &[Argument::Address(out)]).map_err(|failure| failure.error)?;
    let mut bytes = vec![0; 128];
    machine.read(out, &mut bytes).unwrap();
    Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
}

/// The opcode of the read that caused the fault, and its lane.
fn blamed(body: &str) -> (String, Option<u32>) {
    match run(body) {
        Err(LaunchError::Uninitialised { site, .. }) => (site.opcode, site.lane),
        other => panic!("{other:?}\n{body}"),
    }
}

const UNWRITTEN: &str = "ld.shared.u32 %r2, [%r32+128];";

#[test]
fn a_value_that_nothing_uses_is_no_error() {
    let own: Vec<u32> = (0..32).collect();
    assert_eq!(run(&format!("{UNWRITTEN} mov.u32 %r1, %r0;")).unwrap(), own);
    assert_eq!(run(&format!("{UNWRITTEN} add.u32 %r3, %r2, 1; mov.u32 %r2, %r0; mov.u32 %r1, %r2;")).unwrap(), own);
    let compared = "setp.lt.u32 %p1, %r2, %r0; mov.u32 %r1, %r0;";
    assert_eq!(run(&format!("{UNWRITTEN} {compared}")).unwrap(), own);
}

#[test]
fn the_read_is_blamed_wherever_its_value_is_used() {
    for uses in [
        "mov.u32 %r1, %r2;",
        "cvt.rn.f32.u32 %f1, %r2; fma.rn.f32 %f1, %f1, %f1, %f1; mov.b32 %r1, %f1;",
        "add.u32 %r3, %r31, %r2; ld.shared.u32 %r1, [%r3];",
        "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;",
        "st.shared.u32 [%r32+256], %r2; ld.shared.u32 %r1, [%r32+256];",
        "atom.shared.add.u32 %r1, [%r31], %r2;",
        "mov.b32 {%h1, %h2}, %r2; mov.b32 %r1, {%h2, %h2};",
        "{ .reg .b64 %w; cvt.u64.u32 %w, %r2; add.s64 %w, %w, %rd38; mov.u32 %r1, %r0; st.global.u32 [%w], %r1; }",
    ] {
        let (opcode, _) = blamed(&format!("{UNWRITTEN} {uses}"));
        assert!(opcode.starts_with("ld.shared"), "{opcode} for {uses}");
    }
    // The sum of what lane 7 reads: only its own value is undefined.
    let one = "setp.eq.u32 %p1, %r0, 7; mov.u32 %r3, %r32; @%p1 add.u32 %r3, %r3, 128; ld.shared.u32 %r1, [%r3];";
    assert_eq!(blamed(one), ("ld.shared.u32".into(), Some(7)));
    assert_eq!(run(&format!("{one} setp.ne.u32 %p9, %r0, 7;")).unwrap()[6..9], [6, 0, 8]);
}

#[test]
fn a_selection_takes_what_it_chooses() {
    let select = |p: &str| format!("{UNWRITTEN} setp.eq.u32 %p1, %r0, %r0; selp.b32 %r1, {p}, %p1;");
    assert_eq!(run(&select("%r0, %r2")).unwrap()[31], 31);
    blamed(&select("%r2, %r0"));
}

/// The first 8 rows of A are ones; the others were never written. B and C are defined.
const PRODUCT: &str = "
    mov.b32 %r10, 0x3c003c00;
    ld.shared.u32 %r11, [%r32+128];
    mov.f32 %f1, 0f00000000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r10, %r11, %r10, %r11}, {%r10, %r10},
        {%f1, %f1, %f1, %f1};";

#[test]
fn products_keep_rows_and_columns_apart() {
    assert_eq!(run(&format!("{PRODUCT} mov.b32 %r1, %f3;")).unwrap(), [16f32.to_bits(); 32]);
    blamed(&format!("{PRODUCT} mov.b32 %r1, %f4;"));
    // Column 3 of B is undefined: lane 12 holds some of it. D's lanes with column 3 have it in their odd registers.
    let column = "mov.b32 %r10, 0x3c003c00; mov.f32 %f1, 0f00000000; setp.eq.u32 %p1, %r0, 12; mov.u32 %r11, %r10;
        @%p1 ld.shared.u32 %r11, [%r32+128];
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r10, %r10, %r10, %r10}, {%r11, %r10},
            {%f1, %f1, %f1, %f1};";
    assert_eq!(run(&format!("{column} mov.b32 %r1, %f4;")).unwrap(), [16f32.to_bits(); 32]);
    blamed(&format!("{column} mov.b32 %r1, %f5;"));
    let others = "and.b32 %r5, %r0, 3; setp.ne.u32 %p9, %r5, 1; mov.b32 %r1, %f5;";
    assert_eq!(run(&format!("{column} {others}")).unwrap()[2], 16f32.to_bits());
}

#[test]
fn matrices_are_undefined_by_rows() {
    // Rows of 16 bytes: the first 8 hold the threads' words, the next 8 nothing.
    let load = |trans: &str| {
        format!(
            "shl.b32 %r3, %r0, 4; and.b32 %r3, %r3, 255; add.u32 %r3, %r31, %r3;
             ldmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 {{%r4, %r5}}, [%r3];"
        )
    };
    for trans in ["", ".trans"] {
        assert!(run(&format!("{} mov.u32 %r1, %r4;", load(trans))).is_ok());
        let (opcode, lane) = blamed(&format!("{} mov.u32 %r1, %r5;", load(trans)));
        assert!(opcode.starts_with("ldmatrix") && lane == Some(8), "{opcode} {lane:?}");
    }
}

/// The lane in which a register was not written, if that is the error.
fn unwritten(body: &str) -> Option<u32> {
    match run(body) {
        Err(LaunchError::Invalid { site, message })
            if message.contains("no instruction of this thread has written") =>
        {
            site.lane
        }
        other => panic!("{other:?}\n{body}"),
    }
}

#[test]
fn registers_that_were_never_written_may_be_copied_but_not_used() {
    let own: Vec<u32> = (0..32).collect();
    let some = "setp.ge.u32 %p1, %r0, 5; @%p1 mov.u32 %r5, %r0;";
    assert_eq!(unwritten(&format!("{some} mov.u32 %r1, %r5;")), Some(0));
    assert_eq!(run(&format!("{some} add.u32 %r6, %r5, 1; mov.u32 %r1, %r0;")).unwrap(), own);
    assert_eq!(run(&format!("{some} selp.b32 %r1, %r5, %r0, %p1;")).unwrap(), own);
    assert_eq!(unwritten(&format!("{some} selp.b32 %r1, %r0, %r5, %p1;")), Some(0));
    assert_eq!(run(&format!("{some} mov.u32 %r1, %r5; @!%p1 mov.u32 %r1, %r0;")).unwrap(), own);
    assert_eq!(run(&format!("{some} mov.u32 %r1, %r5; @!%p1 exit;")).unwrap()[..7], [0, 0, 0, 0, 0, 5, 6]);
    // Compilers select by masks.
    let masked = "selp.b32 %r7, -1, 0, %p1; and.b32 %r1, %r7, %r5; setp.lt.u32 %p2, %r0, 5; @%p2 mov.u32 %r1, %r0;";
    assert_eq!(run(&format!("{some} {masked}")).unwrap(), own);
    let twice = "cvt.u64.u32 %rd1, %r5; selp.b64 %rd2, 0, -1, %p1; or.b64 %rd3, %rd1, %rd2; cvt.u32.u64 %r6, %rd3;
        selp.b32 %r7, 1, 0, %p1; mul.lo.s32 %r8, %r5, %r7; mad.lo.s32 %r1, %r8, 1, %r7; sub.u32 %r1, %r1, %r7; max.u32 %r6, %r6, %r1;
        @!%p1 mov.u32 %r1, %r0;";
    assert_eq!(run(&format!("{some} {twice}")).unwrap(), own);
    assert_eq!(unwritten(&format!("{some} and.b32 %r1, %r5, 255;")), Some(0));
    // Half of a register may be anything.
    assert_eq!(run("mov.b32 {%h1, %h3}, %r0; mov.b32 %r1, {%h1, %h2}; and.b32 %r1, %r1, 65535;").unwrap(), own);
    assert_eq!(unwritten("mov.b32 %r1, {%h1, %h2};"), Some(0));
    // Compilers pack bytes of a structure, gaps included.
    assert_eq!(run("prmt.b32 %r1, %r0, %r2, 0x5410; and.b32 %r1, %r1, 65535;").unwrap(), own);
    assert_eq!(unwritten("prmt.b32 %r1, %r2, %r2, 0x3340;"), Some(0));
}

#[test]
fn undefined_predicates_count_where_they_decide() {
    let own: Vec<u32> = (0..32).collect();
    let compared = "mov.u32 %r1, %r0; setp.lt.u32 %p1, %r0, 16; @%p1 mov.u32 %r5, %r0; setp.gt.u32 %p2, %r5, 100;";
    // `x < 16 && value > 100`, whose second side is evaluated anyway.
    let branch = "@%p3 bra OUT; bra END; OUT: mov.u32 %r1, 0; END:";
    assert_eq!(run(&format!("{compared} and.pred %p3, %p1, %p2; {branch}")).unwrap(), own);
    assert_eq!(
        run(&format!(
            "{compared} not.pred %p4, %p1; or.pred %p3, %p4, %p2; not.pred %p3, %p3; and.pred %p3, %p3, %p4; {branch}"
        ))
        .unwrap(),
        own
    );
    assert_eq!(unwritten(&format!("{compared} or.pred %p3, %p1, %p2; {branch}")), Some(16));
    assert_eq!(unwritten(&format!("{compared} mov.pred %p3, %p2; {branch}")), Some(16));
    assert_eq!(unwritten(&format!("{compared} @%p2 st.shared.u32 [%r31], %r0;")), Some(16));
    assert_eq!(unwritten(&format!("{compared} selp.b32 %r1, 1, 2, %p2;")), Some(16));
    assert_eq!(unwritten(&format!("{compared} @%p2 mov.u32 %r1, 7;")), Some(16));
    // A value from unwritten shared memory decides as little.
    let (opcode, lane) = blamed(&format!("{UNWRITTEN} mov.u32 %r1, %r0; setp.lt.u32 %p3, %r2, 9; {branch}"));
    assert_eq!((opcode.as_str(), lane), ("ld.shared.u32", Some(0)));
}

#[test]
fn local_memory_is_undefined_until_it_is_written() {
    let own: Vec<u32> = (0..32).collect();
    let local = ".local .align 8 .b8 mine[32]; mov.u64 %rd1, mine;";
    let whole = "st.local.u32 [%rd1+8], %r0; ld.local.v4.u32 {%r4, %r5, %r1, %r6}, [%rd1];";
    assert_eq!(
        run(&format!(
            "{local} {}",
            whole.replace("v4", "v2").replace("%r4, %r5, %r1, %r6", "%r1, %r6").replace("[%rd1];", "[%rd1+8];")
        ))
        .unwrap(),
        own
    );
    for uses in ["mov.u32 %r1, %r6;", "setp.eq.u32 %p9, %r6, 0;"] {
        let read = "st.local.u32 [%rd1+8], %r0; ld.local.v2.u32 {%r1, %r6}, [%rd1+8];";
        let (opcode, lane) = blamed(&format!("{local} {read} {uses}"));
        assert_eq!((opcode.as_str(), lane), ("ld.local.v2.u32", Some(0)));
    }
    // The gap after a field may be copied with it, and an undefined value may be stored.
    let gap = "st.local.u32 [%rd1+8], %r0; ld.local.u64 %rd2, [%rd1+8]; cvt.u32.u64 %r1, %rd2;";
    assert_eq!(run(&format!("{local} {gap}")).unwrap(), own);
    let stored = "st.local.u32 [%rd1], %r0; st.local.u32 [%rd1], %r7; ld.local.u32 %r1, [%rd1];";
    assert_eq!(blamed(&format!("{local} {stored}")).0, "ld.local.u32");
}
