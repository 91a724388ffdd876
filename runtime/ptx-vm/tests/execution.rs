//! Small kernels whose complete effect is known: control flow, memory spaces, barriers, communicating blocks, and every
//! kind of error with which a launch can end.

#![allow(clippy::unwrap_used)]

use ptx_vm::{
    Address, Arch, Argument, Completion, Detector, Launch, LaunchError, Machine, MemorySpace, Module, Options,
};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A machine, a module and an output buffer of 32-bit words.
struct Run {
    machine: Machine,
    module: Module,
    out: Address,
    words: usize,
}

impl Run {
    fn new(options: Options, text: &str, words: usize) -> Self {
        let module = Module::parse(&format!("{HEAD}{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let machine = Machine::new(options);
        let out = machine.allocate(words as u64 * 4, "out").unwrap();
        machine.fill(out, words as u64 * 4, 0).unwrap();
        Self { machine, module, out, words }
    }

    fn launch(&self, launch: &Launch, more: &[Argument<'_>]) -> Result<Vec<u32>, LaunchError> {
        let mut arguments = vec![Argument::Address(self.out)];
        arguments.extend_from_slice(more);
        self.machine.launch(&self.module, "k", launch, &arguments).map_err(|failure| failure.error)?;
        let mut bytes = vec![0; self.words * 4];
        self.machine.read(self.out, &mut bytes).unwrap();
        Ok(bytes.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect())
    }
}

/// A kernel `k(out, …)` whose body stores `%r1` at `out[tid]`.
fn per_thread(declarations: &str, body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{
            .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .pred %p<20>; .reg .f32 %f<20>; .reg .b16 %rs<20>;
            {declarations}
            mov.u32 %r0, %tid.x;
            {body}
            ld.param.u64 %rd38, [out];
            mul.wide.u32 %rd39, %r0, 4;
            add.s64 %rd38, %rd38, %rd39;
            st.global.u32 [%rd38], %r1;
            ret;
        }}"
    )
}

fn threads(n: u32) -> Launch {
    Launch::new([1, 1, 1], [n, 1, 1])
}

fn check(declarations: &str, body: &str, n: u32, expected: impl Fn(u32) -> u32) {
    let run = Run::new(Options::default(), &per_thread(declarations, body), n as usize);
    let values = run.launch(&threads(n), &[]).unwrap_or_else(|e| panic!("{e}\n{body}"));
    assert_eq!(values, (0..n).map(expected).collect::<Vec<_>>(), "{body}");
}

#[test]
fn a_kernel_without_instructions_ends() {
    let run = Run::new(Options::default(), ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; }", 1);
    assert_eq!(run.launch(&threads(64), &[]).unwrap(), [0]);
}

fn fails(options: Options, body: &str, n: u32) -> LaunchError {
    let run = Run::new(options, &per_thread(".shared .align 16 .b8 sm[256];", body), n as usize);
    run.launch(&threads(n), &[]).expect_err(body)
}

#[test]
fn diverged_lanes_reconverge_and_keep_their_own_values() {
    check(
        "",
        "and.b32 %r2, %r0, 3;
         setp.eq.s32 %p1, %r2, 0; @%p1 bra ZERO;
         setp.eq.s32 %p2, %r2, 1; @%p2 bra ONE;
         mov.u32 %r1, 30; bra END;
         ONE: mov.u32 %r1, 20; bra END;
         ZERO: mov.u32 %r1, 10;
         END: bar.warp.sync 0xffffffff; add.s32 %r1, %r1, %r0;",
        48,
        |t| [10, 20, 30, 30][t as usize % 4] + t,
    );
}

#[test]
fn loops_with_different_trip_counts_end() {
    check(
        "",
        "mov.u32 %r1, 0; mov.u32 %r2, 0;
         LOOP: setp.ge.u32 %p1, %r2, %r0; @%p1 bra DONE;
         add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1; bra LOOP;
         DONE:",
        64,
        |t| t * t.saturating_sub(1) / 2,
    );
}

#[test]
fn a_spin_lock_between_lanes_of_one_warp_makes_progress() {
    // The lane that holds the lock stands at a higher program counter than those that spin.
    check(
        ".shared .align 4 .b32 lock; .shared .align 4 .b32 total;",
        "mov.u32 %r3, 0;
         setp.ne.s32 %p1, %r0, 0; @%p1 bra READY;
         st.shared.u32 [lock], %r3; st.shared.u32 [total], %r3;
         READY: bar.sync 0;
         SPIN: atom.shared.cas.b32 %r2, [lock], 0, 1;
         setp.ne.s32 %p2, %r2, 0; @%p2 bra SPIN;
         ld.shared.u32 %r4, [total]; add.u32 %r4, %r4, %r0; st.shared.u32 [total], %r4;
         membar.cta; atom.shared.exch.b32 %r5, [lock], 0;
         bar.sync 0;
         ld.shared.u32 %r1, [total];",
        64,
        |_| 64 * 63 / 2,
    );
}

#[test]
fn indexed_branches_go_where_the_table_says() {
    check(
        "",
        "and.b32 %r2, %r0, 3;
         TABLE: .branchtargets A, B, C, D;
         brx.idx %r2, TABLE;
         A: mov.u32 %r1, 1; bra.uni END;
         B: mov.u32 %r1, 2; bra.uni END;
         C: mov.u32 %r1, 3; bra.uni END;
         D: mov.u32 %r1, 4;
         END:",
        32,
        |t| t % 4 + 1,
    );
}

#[test]
fn calls_pass_parameters_by_value_and_return_them() {
    let text = format!(
        ".func (.param .b32 result) scale(.param .b32 x, .param .align 8 .b8 pair[16]) {{
            .reg .b32 %r<6>; .reg .pred %p<2>;
            ld.param.u32 %r1, [x];
            ld.param.v2.u32 {{%r2, %r3}}, [pair+8];
            mad.lo.u32 %r4, %r1, %r2, %r3;
            setp.lt.u32 %p1, %r1, 16; @%p1 bra LOW;
            add.u32 %r4, %r4, 1000;
            LOW: st.param.b32 [result+0], %r4;
            ret;
        }}
        {}",
        per_thread(
            "",
            "{ .param .b32 p0; st.param.b32 [p0+0], %r0;
               .param .align 8 .b8 p1[16]; st.param.v2.b32 [p1+8], {7, 5};
               .param .b32 r0;
               call.uni (r0), scale, (p0, p1);
               ld.param.b32 %r1, [r0+0]; }"
        )
    );
    let run = Run::new(Options::default(), &text, 32);
    let expected: Vec<u32> = (0..32).map(|t| t * 7 + 5 + if t < 16 { 0 } else { 1000 }).collect();
    assert_eq!(run.launch(&threads(32), &[]).unwrap(), expected);
}

#[test]
fn recursion_and_unknown_functions_are_refused() {
    let text = format!("{HEAD}.func f() {{ call.uni f, (); ret; }} .entry k() {{ call.uni f, (); ret; }}");
    assert!(Module::parse(&text).err().unwrap().to_string().contains("calls itself"));
    let text = format!("{HEAD}.extern .func g(); .entry k() {{ call.uni g, (); ret; }}");
    assert!(Module::parse(&text).is_err());
}

#[test]
fn local_memory_is_private_and_generic_addresses_reach_it() {
    check(
        ".local .align 8 .b8 depot[64];",
        "mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1;
         and.b32 %r2, %r0, 7; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd2, %rd3;
         mul.lo.u32 %r3, %r0, 3; st.u32 [%rd4], %r3;
         add.u64 %rd5, %rd1, %rd3; ld.local.u32 %r1, [%rd5];",
        40,
        |t| t * 3,
    );
}

#[test]
fn narrow_loads_extend_by_their_sign() {
    check(
        ".shared .align 8 .b8 bytes[64];",
        "mov.u32 %r2, bytes; add.u32 %r3, %r2, %r0;
         sub.u32 %r4, %r0, 16; cvt.u16.u32 %rs1, %r4; st.shared.u8 [%r3], %rs1;
         ld.shared.s8 %r5, [%r3]; ld.shared.u8 %rd1, [%r3]; cvt.u32.u64 %r6, %rd1;
         ld.shared.s8 %rs2, [%r3]; cvt.s32.s16 %r7, %rs2;
         add.u32 %r1, %r5, %r6; add.u32 %r1, %r1, %r7;",
        32,
        |t| {
            let byte = (t.wrapping_sub(16)) as u8;
            (i32::from(byte as i8) * 2 + i32::from(byte)) as u32
        },
    );
}

#[test]
fn vectors_keep_their_order() {
    check(
        ".shared .align 16 .b8 sm[1024];",
        "shl.b32 %r2, %r0, 4; mov.u32 %r3, sm; add.u32 %r3, %r3, %r2;
         add.u32 %r4, %r0, 1; add.u32 %r5, %r0, 2; add.u32 %r6, %r0, 3;
         st.shared.v4.b32 [%r3], {%r0, %r4, %r5, %r6};
         ld.shared.v2.b64 {%rd1, %rd2}, [%r3];
         mov.b64 {%r7, %r8}, %rd2; mov.b64 %rd3, {%r8, %r7}; cvt.u32.u64 %r1, %rd3;",
        32,
        |t| t + 3,
    );
}

#[test]
fn shuffles_votes_and_reductions_follow_the_document() {
    check("", "shfl.sync.bfly.b32 %r1, %r0, 5, 31, -1;", 32, |t| t ^ 5);
    check(
        "",
        "shfl.sync.up.b32 %r1|%p1, %r0, 3, 0, -1; @!%p1 mov.u32 %r1, 99;",
        32,
        |t| if t < 3 { 99 } else { t - 3 },
    );
    check("", "shfl.sync.down.b32 %r1, %r0, 4, 31, -1;", 32, |t| if t + 4 < 32 { t + 4 } else { t });
    // Segments of 8 lanes: (32 - 8) << 8, and a clamp of 31.
    check("", "shfl.sync.idx.b32 %r1, %r0, 2, 0x181f, -1;", 32, |t| t / 8 * 8 + 2);
    check("", "setp.gt.u32 %p1, %r0, 29; vote.sync.ballot.b32 %r1, %p1, -1;", 32, |_| 0xc000_0000);
    check("", "redux.sync.add.u32 %r1, %r0, -1;", 32, |_| 496);
    check("", "and.b32 %r2, %r0, 1; match.any.sync.b32 %r1, %r2, -1;", 32, |t| {
        if t % 2 == 0 { 0x5555_5555 } else { 0xaaaa_aaaa }
    });
    check("", "setp.lt.u32 %p1, %r0, 4; mov.u32 %r1, 7; @%p1 activemask.b32 %r1;", 32, |t| if t < 4 { 15 } else { 7 });
    check("", "setp.lt.u32 %p1, %r0, 40; bar.red.popc.u32 %r1, 0, %p1;", 64, |_| 40);
    check("", "setp.lt.u32 %p1, %r0, 40; bar.red.or.pred %p2, 0, !%p1; selp.u32 %r1, 5, 6, %p2;", 64, |_| 5);
}

/// Since sm_70 the lanes of a mask need not meet at one instruction.
#[test]
fn lanes_meet_at_two_places_if_qualifiers_and_mask_are_the_same() {
    let sides =
        |low: &str, high: &str| format!("setp.lt.u32 %p1, %r0, 16; @!%p1 bra HIGH; {low} bra BOTH; HIGH: {high} BOTH:");
    let shuffles = |modes: [&str; 2], operands: [&str; 2]| {
        let side = |n: usize| format!("shfl.sync.{}.b32 %r1, %r0, {};", modes[n], operands[n]);
        sides(&side(0), &side(1))
    };
    // Each lane has its own operands, and its own registers for them and for the result.
    check("", &shuffles(["bfly"; 2], ["16, 31, -1"; 2]), 32, |t| t ^ 16);
    check("", &shuffles(["idx"; 2], ["31, 31, -1", "0, 31, -1"]), 32, |t| if t < 16 { 31 } else { 0 });
    let votes = sides(
        "setp.eq.u32 %p2, %r0, 3; vote.sync.ballot.b32 %r1, !%p2, -1;",
        "setp.eq.u32 %p3, %r0, 20; vote.sync.ballot.b32 %r1, %p3, -1;",
    );
    check("", &votes, 32, |_| 0xffff & !8 | 1 << 20);
    let any = sides(
        "setp.eq.u32 %p2, %r0, 99; vote.sync.any.pred %p4, %p2, -1;",
        "setp.eq.u32 %p3, %r0, 20; vote.sync.any.pred %p4, %p3, -1;",
    );
    check("", &format!("{any} selp.u32 %r1, 1, 0, %p4;"), 32, |_| 1);
    let sums = sides("redux.sync.add.u32 %r1, %r0, -1;", "mov.u32 %r4, 100; redux.sync.add.u32 %r1, %r4, -1;");
    check("", &sums, 32, |_| 15 * 8 + 1600);
    let matches = sides(
        "mov.u64 %rd1, 7; match.any.sync.b64 %r1, %rd1, -1;",
        "setp.eq.u32 %p2, %r0, 16; mov.u64 %rd4, 0x700000007; @%p2 mov.u64 %rd4, 7; match.any.sync.b64 %r1, %rd4, -1;",
    );
    check("", &matches, 32, |t| if t <= 16 { 0x1_ffff } else { 0xfffe_0000 });
    // Two masks, each at two places, while lanes 8 to 15 have a predicate in the place of a branch.
    let tiles = "and.b32 %r2, %r0, 8; setp.eq.u32 %p1, %r2, 0; setp.lt.u32 %p2, %r0, 16;
        selp.b32 %r3, 0xffff, 0xffff0000, %p2;
        @%p1 shfl.sync.bfly.b32 %r1, %r0, 8, 31, %r3;
        @!%p1 shfl.sync.bfly.b32 %r1, %r0, 8, 31, %r3;";
    check("", tiles, 32, |t| t ^ 8);
    // A function that is called on both sides.
    let text = format!(
        ".func (.param .b32 back) swap(.param .b32 x) {{
            .reg .b32 %v<3>; ld.param.u32 %v1, [x]; shfl.sync.bfly.b32 %v2, %v1, 16, 31, -1;
            st.param.b32 [back], %v2; ret;
        }} {}",
        per_thread(
            "",
            &sides(
                "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), swap, (a); ld.param.b32 %r1, [b]; }",
                "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), swap, (a); ld.param.b32 %r1, [b]; }",
            )
        )
    );
    let values = Run::new(Options::default(), &text, 32).launch(&threads(32), &[]).unwrap();
    assert_eq!(values, (0..32).map(|t| t ^ 16).collect::<Vec<u32>>());
}

#[test]
fn lanes_at_two_places_are_told_of_if_they_do_not_meet() {
    let sides =
        |low: &str, high: &str| format!("setp.lt.u32 %p1, %r0, 16; @!%p1 bra HIGH; {low} bra BOTH; HIGH: {high} BOTH:");
    for body in [
        sides("shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;", "shfl.sync.down.b32 %r1, %r0, 16, 31, -1;"),
        sides("shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;", "shfl.sync.bfly.b32 %r1, %r0, 16, 31, 0xffff0001;"),
        sides(
            "setp.eq.u32 %p2, 0, 0; vote.sync.any.pred %p3, %p2, -1; mov.u32 %r1, 0;",
            "bar.warp.sync -1; mov.u32 %r1, 0;",
        ),
        sides("bar.sync 0; mov.u32 %r1, 0;", "bar.sync 0; mov.u32 %r1, 0;"),
    ] {
        let error = fails(Options::default(), &body, 32).to_string();
        assert!(error.contains("wait for lanes that never come"), "{error}\n{body}");
    }
}

/// A barrier without `.aligned` may be reached at several places (PTX ISA 9.7.13.1).
#[test]
fn lanes_arrive_at_an_unaligned_barrier_at_two_places() {
    let arrive = |id: u32| format!("barrier.sync {id}, 64;");
    let body = |low: u32, high: u32| {
        format!(
            "shl.b32 %r2, %r0, 2; mov.u32 %r3, sm; add.u32 %r2, %r3, %r2; st.shared.u32 [%r2], %r0;
             and.b32 %r4, %r0, 16; setp.eq.u32 %p1, %r4, 0; @!%p1 bra HIGH; {} bra BOTH; HIGH: {} BOTH:
             xor.b32 %r2, %r2, 128; ld.shared.u32 %r1, [%r2];",
            arrive(low),
            arrive(high)
        )
    };
    check(".shared .align 256 .b8 sm[256];", &body(1, 1), 64, |t| t ^ 32);
    let error = fails(Options::default(), &body(1, 2), 64).to_string();
    assert!(error.contains("differs between the lanes"), "{error}");
}

#[test]
fn named_barriers_let_producers_go_on() {
    // Warp 0 produces and does not wait; warp 1 consumes.
    check(
        ".shared .align 4 .b8 sm[128];",
        "and.b32 %r2, %r0, 31; shl.b32 %r3, %r2, 2; mov.u32 %r4, sm; add.u32 %r4, %r4, %r3;
         mov.u32 %r1, 1;
         setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUME;
         mul.lo.u32 %r5, %r2, 10; st.shared.u32 [%r4], %r5;
         bar.arrive 3, 64; bra END;
         CONSUME: bar.sync 3, 64; ld.shared.u32 %r1, [%r4];
         END:",
        64,
        |t| if t < 32 { 1 } else { (t - 32) * 10 },
    );
}

#[test]
fn copies_are_visible_after_the_wait_in_every_completion_mode() {
    let text = ".visible .entry k(.param .u64 out, .param .u64 in) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
        .shared .align 16 .b8 sm[512];
        ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];
        mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, sm; add.u32 %r2, %r2, %r1;
        cvt.u64.u32 %rd3, %r1; add.u64 %rd4, %rd2, %rd3; add.u64 %rd5, %rd1, %rd3;
        setp.lt.u32 %p1, %r0, 20; selp.u32 %r3, 4, 0, %p1;
        cp.async.ca.shared.global [%r2], [%rd4], 4, %r3;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd5], %r4;
        ret; }";
    for completion in [Completion::Eager, Completion::Lazy, Completion::Random] {
        let run = Run::new(Options::default().completion(completion), text, 32);
        // Only 20 words exist: what is not read may lie outside.
        let input = run.machine.allocate(80, "in").unwrap();
        let bytes: Vec<u8> = (100..120u32).flat_map(u32::to_le_bytes).collect();
        run.machine.write(input, &bytes).unwrap();
        let expected: Vec<u32> = (0..32).map(|t| if t < 20 { 100 + t } else { 0 }).collect();
        assert_eq!(run.launch(&threads(32), &[Argument::Address(input)]).unwrap(), expected);
    }
}

#[test]
fn unfinished_copies_hold_poison() {
    let text = ".visible .entry k(.param .u64 out) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 16 .b8 sm[128];
        ld.param.u64 %rd1, [out];
        cp.async.ca.shared.global [sm], [%rd1], 4; cp.async.commit_group;
        ld.shared.u32 %r1, [sm]; st.global.u32 [%rd1], %r1; ret; }";
    let eager = Run::new(Options::default(), text, 1);
    assert_eq!(eager.launch(&threads(1), &[]).unwrap(), [0]);
    let lazy = Run::new(Options::default().completion(Completion::Lazy), text, 1);
    assert_eq!(lazy.launch(&threads(1), &[]).unwrap(), [u32::MAX]);
}

#[test]
fn blocks_that_wait_for_later_blocks_all_become_resident() {
    // Every block counts itself in and waits for all: a grid barrier, with one worker.
    let text = ".visible .entry k(.param .u64 out) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %nctaid.x;
        atom.global.add.u32 %r2, [%rd1], 1;
        SPIN: ld.acquire.gpu.global.u32 %r3, [%rd1];
        setp.lt.u32 %p1, %r3, %r1; @%p1 bra SPIN;
        mov.u32 %r4, %ctaid.x; add.u32 %r5, %r4, 1; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd3, %rd1, %rd2;
        st.global.u32 [%rd3], %r3; ret; }";
    for workers in [1, 2] {
        let run = Run::new(Options::default().workers(workers), text, 21);
        assert_eq!(run.launch(&Launch::new([20, 1, 1], [1, 1, 1]), &[]).unwrap(), [20; 21]);
    }
}

#[test]
fn waiting_for_what_never_comes_is_a_deadlock() {
    let text = ".visible .entry k(.param .u64 out) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;
        ld.param.u64 %rd1, [out];
        SPIN: ld.acquire.gpu.global.u32 %r3, [%rd1];
        setp.eq.u32 %p1, %r3, 0; @%p1 bra SPIN; ret; }";
    let run = Run::new(Options::default(), text, 1);
    let error = run.launch(&Launch::new([3, 1, 1], [32, 1, 1]), &[]).unwrap_err();
    let LaunchError::Deadlock { waiting } = &error else { panic!("{error}") };
    assert!(waiting[0].site.line > 0);
    let polls =
        "polls global 0x700000000000 (out+0x0), which nobody changes (`ld.acquire.gpu.global.u32` at PTX line 7,";
    assert!(error.to_string().contains(polls), "{error}");
    let error = fails(Options::default(), "setp.ge.u32 %p1, %r0, 32; @%p1 bar.sync 1, 96; mov.u32 %r1, 0;", 64);
    assert!(error.to_string().contains("barrier 1, where 32 of 96"), "{error}");
}

#[test]
fn aligned_barriers_in_divergent_code_are_found() {
    let error = fails(Options::default(), "setp.lt.u32 %p1, %r0, 7; @%p1 bar.sync 0; mov.u32 %r1, 0;", 32);
    assert!(error.to_string().contains("divergent"), "{error}");
    let error = fails(Options::default(), "setp.lt.u32 %p1, %r0, 7; @%p1 shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;", 32);
    assert!(matches!(error, LaunchError::Invalid { .. }), "{error}");
}

#[test]
fn accesses_outside_name_the_line_the_lane_and_the_buffer() {
    let error = fails(
        Options::default(),
        "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 8; add.u64 %rd1, %rd1, %rd2;\nld.global.u32 %r1, [%rd1];",
        32,
    );
    let LaunchError::OutOfBounds { site, space: MemorySpace::Global, nearest, bytes: 4, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((site.lane, site.opcode.as_str(), site.warp), (Some(16), "ld.global.u32", 0));
    assert_eq!(nearest, "0 bytes past the end of buffer `out` of 128 bytes");
    let error = fails(Options::default(), "mov.u32 %r2, sm; st.shared.u32 [%r2+256], %r0;", 1);
    assert!(matches!(error, LaunchError::OutOfBounds { space: MemorySpace::Shared, .. }), "{error}");
    let error = fails(Options::default(), "mov.u32 %r2, sm; st.shared.u32 [%r2+2], %r0;", 1);
    assert!(matches!(error, LaunchError::Misaligned { alignment: 4, .. }), "{error}");
}

#[test]
fn bytes_never_written_are_not_read_unnoticed() {
    let body = "mov.u32 %r2, sm; ld.shared.u32 %r1, [%r2+8];";
    let error = fails(Options::default(), body, 1);
    assert!(matches!(error, LaunchError::Uninitialised { space: MemorySpace::Shared, address: 8, .. }), "{error}");
    let run = Run::new(Options::default().memory_checks(false), &per_thread(".shared .align 16 .b8 sm[256];", body), 1);
    assert_eq!(run.launch(&threads(1), &[]).unwrap(), [u32::MAX]);
    let text = per_thread(
        "",
        "ld.param.u64 %rd1, [out]; mul.wide.u32 %rd2, %r0, 4; add.u64 %rd1, %rd1, %rd2; ld.global.u32 %r1, [%rd1];",
    );
    let module = Module::parse(&format!("{HEAD}{text}")).unwrap();
    let machine = Machine::new(Options::default());
    let out = machine.allocate(128, "fresh").unwrap();
    machine.fill(out, 100, 1).unwrap();
    let error = machine.launch(&module, "k", &threads(32), &[Argument::Address(out)]).unwrap_err().error;
    let LaunchError::Uninitialised { site, buffer, .. } = &error else { panic!("{error}") };
    assert_eq!((site.lane, buffer.as_str()), (Some(25), "byte 100 of `fresh`"));
}

#[test]
fn module_variables_are_initialised_once_and_keep_their_values() {
    let text = ".const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
        .global .align 4 .u32 counter = 7;
        .global .align 8 .u64 pointer = generic(counter);
        .visible .entry k(.param .u64 out) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [out];
        ld.global.u64 %rd2, [pointer]; atom.add.u32 %r1, [%rd2], 1;
        ld.const.u32 %r2, [table+12]; add.u32 %r3, %r1, %r2;
        st.global.u32 [%rd1], %r3; ret; }";
    let run = Run::new(Options::default(), text, 1);
    assert_eq!(run.launch(&threads(1), &[]).unwrap(), [11]);
    assert_eq!(run.launch(&threads(1), &[]).unwrap(), [12]);
    let (address, size) = run.machine.variable(&run.module, "counter").unwrap();
    let mut bytes = [0; 4];
    run.machine.read(address, &mut bytes).unwrap();
    assert_eq!((u32::from_le_bytes(bytes), size), (9, 4));
}

#[test]
fn atomics_count_every_lane_of_every_block() {
    let text = ".visible .entry k(.param .u64 out) {
        .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
        atom.global.add.u32 %r2, [%rd1], 1;
        red.global.max.s32 [%rd1+4], %r1;
        red.global.add.f32 [%rd1+8], 0f3F800000;
        atom.global.inc.u32 %r3, [%rd1+12], 9;
        ret; }";
    let run = Run::new(Options::default(), text, 4);
    let values = run.launch(&Launch::new([50, 1, 1], [40, 1, 1]), &[]).unwrap();
    assert_eq!(values, [2000, 39, 2000f32.to_bits(), 0]);
}

#[test]
fn malformed_launches_are_refused() {
    let run = Run::new(Options::default(), &per_thread("", "mov.u32 %r1, 0;"), 1);
    for launch in [
        threads(0),
        threads(1025),
        Launch::new([0, 1, 1], [1, 1, 1]),
        threads(1).shared_bytes(1 << 20),
        Launch::new([2, 1, 1], [1, 1, 1]).cluster([2, 1, 1]),
    ] {
        assert!(matches!(run.launch(&launch, &[]), Err(LaunchError::BadLaunch { .. })), "{launch:?}");
    }
    assert!(matches!(run.launch(&threads(1), &[Argument::U32(1)]), Err(LaunchError::BadLaunch { .. })));
    let hopper = Module::parse(".version 8.0\n.target sm_90a\n.address_size 64\n.entry k() { ret; }").unwrap();
    assert!(run.machine.launch(&hopper, "k", &threads(1), &[]).is_err());
    assert!(Machine::new(Options::default().arch(Arch::Sm90a)).launch(&hopper, "k", &threads(1), &[]).is_ok());
    let hopper_launch = |options: Options, blocks: u32, allowed: bool| {
        let shape = Launch::new([blocks, 1, 1], [1, 1, 1]).cluster([blocks, 1, 1]).non_portable_cluster(allowed);
        Machine::new(options.arch(Arch::Sm90a)).launch(&hopper, "k", &shape, &[]).map_err(|failure| failure.to_string())
    };
    let roomy = Options::default;
    assert!(hopper_launch(roomy(), 8, false).is_ok() && hopper_launch(roomy(), 16, true).is_ok());
    assert!(hopper_launch(roomy(), 17, true).unwrap_err().contains("hold at most 16"));
    assert!(hopper_launch(roomy(), 9, false).unwrap_err().contains("more than 8 must be allowed"));
    let small = || Options::default().largest_cluster(8);
    assert!(hopper_launch(small(), 8, true).is_ok());
    assert!(hopper_launch(small(), 16, true).unwrap_err().contains("this machine has room for 8"));
    let error = run.machine.launch(&hopper, "no", &threads(1), &[]).unwrap_err().error;
    assert!(matches!(error, LaunchError::UnknownKernel { .. }), "{error}");
}

#[test]
fn unknown_instructions_modifiers_and_types_are_named_with_their_line() {
    for (statement, named) in [
        ("frob.b32 %r1, %r2;", "frob.b32"),
        ("add.frob.s32 %r1, %r2, %r3;", "`.frob`"),
        ("add.s8 %r1, %r2, %r3;", "add.s8"),
        ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32 {%r1}, {%r2}, {%r3}, {%r1};", "m16n8k256"),
        ("add.s32 %r1, %r2;", "add.s32"),
        ("add.s32 %r1, %nope, %r3;", "%nope"),
        ("add.s64 %r1, %r2, %r3;", "32 bits"),
        ("bra NOWHERE;", "NOWHERE"),
    ] {
        let text = format!("{HEAD}.entry k() {{\n.reg .b32 %r<5>;\n{statement}\nret; }}");
        let error = Module::parse(&text).err().unwrap_or_else(|| panic!("{statement}")).to_string();
        assert!(error.contains("line 6") && error.contains(named), "{statement}: {error}");
    }
}

#[test]
fn statistics_count_instructions_bytes_and_conflicts() {
    let text = per_thread(
        ".shared .align 16 .b8 sm[8192];",
        "shl.b32 %r2, %r0, 7; mov.u32 %r3, sm; add.u32 %r3, %r3, %r2;
         st.shared.u32 [%r3], %r0; ld.shared.u32 %r1, [%r3];",
    );
    let run = Run::new(Options::default().statistics(true), &text, 32);
    let report = run.machine.launch(&run.module, "k", &threads(32), &[Argument::Address(run.out)]).unwrap();
    let s = report.statistics;
    assert_eq!(s.by_opcode["ld.shared.u32"], 1);
    assert_eq!((s.bytes_read[&MemorySpace::Shared], s.bytes_written[&MemorySpace::Global]), (128, 128));
    assert_eq!(s.bank_conflicts, 62);
}

#[test]
fn the_detector_reports_a_missing_barrier_and_nothing_else() {
    let kernel = |barrier: &str| {
        per_thread(
            ".shared .align 16 .b8 sm[256];",
            &format!(
                "shl.b32 %r2, %r0, 2; mov.u32 %r3, sm; add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r0;
                 {barrier}
                 xor.b32 %r5, %r2, 128; add.u32 %r5, %r3, %r5; ld.shared.u32 %r1, [%r5];"
            ),
        )
    };
    for (barrier, races) in [("bar.sync 0;", false), ("bar.warp.sync -1;", true)] {
        let options = Options::default().detector(Detector::On).memory_checks(false);
        let run = Run::new(options, &kernel(barrier), 64);
        let report = run.machine.launch(&run.module, "k", &threads(64), &[Argument::Address(run.out)]).unwrap();
        assert_eq!(!report.races.is_empty(), races, "{barrier} {:?}", report.races);
    }
}
