//! Instructions of a whole warp: shuffles, votes, matches, reductions (PTX ISA 9.7.9.6, 9.7.13).

use ptx_vm::Arch;

use crate::case::{Case, Compare, Extra};
use crate::elementwise::words;
use crate::oracle::bits::{number, wrap};
use crate::template;
use crate::values::Random;

const WARPS: usize = 16;

/// The view that a lane has of its warp: the member mask, and each lane's two operands.
struct Warp {
    mask: u32,
    a: [u64; 32],
    b: [u64; 32],
}

impl Warp {
    fn members(&self) -> impl Iterator<Item = usize> + '_ {
        (0..32).filter(|lane| self.mask >> lane & 1 != 0)
    }
}

/// How operands are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Draw {
    /// Any bits.
    Any,
    /// One of a few values, so that lanes sometimes agree.
    Few,
    /// Sometimes the same value for all members.
    Same,
    /// `b` is the number of a member lane.
    Member,
    /// Like `Any`, with full masks only.
    Full,
}

/// A case whose threads have a row with member mask, `a` and `b` (in `%r3`, `%r1`, `%r2`), and a 16-byte output row.
/// The body's instruction must be guarded by `%p15`, which tells whether the lane is a member. Other lanes give zeros.
fn warp_case(
    opcode: &str,
    target: Arch,
    body: &str,
    draw: Draw,
    oracle: impl Fn(&Warp, usize) -> [u64; 2] + Send + Sync + 'static,
) -> Case {
    let body = format!(
        "    ld.global.u32 %r3, [%rd60];\n    ld.global.u32 %r1, [%rd60+8];\n    ld.global.u32 %r2, [%rd60+16];\n\
         \x20   mov.u32 %r4, %laneid;\n    shr.u32 %r5, %r3, %r4;\n    and.b32 %r5, %r5, 1;\n    setp.ne.u32 %p15, %r5, 0;\n\
         \x20   setp.ne.u32 %p1, %r1, 0;\n    setp.ne.u32 %p0, 0, 0;\n    mov.u32 %r10, 0;\n{body}\
         \x20   st.global.u32 [%rd61], %r10;\n    selp.u32 %r11, 1, 0, %p0;\n    st.global.u32 [%rd61+8], %r11;\n"
    );
    Case {
        name: opcode.into(),
        covers: vec![opcode.into()],
        target,
        module: template::module(target, "", "", 24, 16, &body),
        blocks: 2,
        cluster: 1,
        threads: (32 * WARPS / 2) as u32,
        extra: Extra::None,
        output_bytes: 32 * WARPS * 16,
        compare: Compare::Exact,
        lane: None,
        inputs: Box::new(move |seed| inputs(draw, seed)),
        oracle: Box::new(move |input| {
            let rows: Vec<Vec<u64>> = input.chunks_exact(24).map(words).collect();
            rows.chunks_exact(32)
                .flat_map(|rows| {
                    let warp = Warp {
                        mask: rows[0][0] as u32,
                        a: std::array::from_fn(|lane| rows[lane][1]),
                        b: std::array::from_fn(|lane| rows[lane][2]),
                    };
                    (0..32)
                        .flat_map(|lane| if warp.mask >> lane & 1 != 0 { oracle(&warp, lane) } else { [0; 2] })
                        .collect::<Vec<_>>()
                })
                .flat_map(u64::to_le_bytes)
                .collect()
        }),
    }
}

fn inputs(draw: Draw, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::new();
    for warp in 0..WARPS {
        let mask = match (draw, warp % 4) {
            (Draw::Full, _) | (_, 0) => u32::MAX,
            (_, 1) => 1 << random.below(32),
            (_, 2) => u32::MAX << random.below(32),
            _ => random.bits() as u32 | 1 << random.below(32),
        };
        let members: Vec<u64> = (0..32).filter(|lane| mask >> lane & 1 != 0).collect();
        let (common, agree) = (random.bits() & 0xffff_ffff, random.below(2) == 0);
        for _ in 0..32 {
            let any = random.bits() & 0xffff_ffff;
            let a = match draw {
                Draw::Few => any % 3,
                Draw::Same if agree => common & any.wrapping_neg().max(1) | common,
                _ => any,
            };
            let b =
                if draw == Draw::Member { members[random.below(members.len())] } else { random.bits() & 0xffff_ffff };
            for word in [u64::from(mask), a, b] {
                bytes.extend(word.to_le_bytes());
            }
        }
    }
    bytes
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    shuffles(&mut cases);
    votes(&mut cases);
    tiles(&mut cases);
    matches(&mut cases);
    reductions(&mut cases);
    // The active lanes of a branch that only members take.
    let body = "    @!%p15 bra skip;\n    activemask.b32 %r10;\nskip:\n    bar.warp.sync 0xffffffff;\n";
    let mut case = warp_case("activemask.b32", Arch::Sm80, body, Draw::Any, |warp, _| [warp.mask.into(), 0]);
    case.covers.extend(["bar.warp.sync".into(), "bra".into()]);
    cases.push(case);
    let body = "    @%p15 elect.sync %r10|%p0, %r3;\n";
    cases.push(warp_case("elect.sync", Arch::Sm90a, body, Draw::Any, |warp, lane| {
        let leader = warp.mask.trailing_zeros();
        [leader.into(), u64::from(lane as u32 == leader)]
    }));
    block_reductions(&mut cases);
    cases
}

fn shuffles(cases: &mut Vec<Case>) {
    for mode in ["up", "down", "bfly", "idx"] {
        // The clamp operand: segments of 32, 16, 8 lanes, bounds as CUDA sets them, and one in the middle.
        for clamp in [if mode == "up" { 0u32 } else { 0x1f }, 0x1000 | if mode == "up" { 0 } else { 0x1f }, 0x180f] {
            let opcode = format!("shfl.sync.{mode}.b32");
            let body = format!("    @%p15 {opcode} %r10|%p0, %r1, %r2, {clamp}, %r3;\n");
            let mut case = warp_case(&opcode, Arch::Sm80, &body, Draw::Full, move |warp, lane| {
                let (b, c) = ((warp.b[lane] & 0x1f) as i32, (clamp & 0x1f) as i32);
                let segment = (clamp >> 8 & 0x1f) as i32;
                let lane = lane as i32;
                let last = (lane & segment) | (c & !segment);
                let source = match mode {
                    "up" => lane - b,
                    "down" => lane + b,
                    "bfly" => lane ^ b,
                    _ => (lane & segment) | (b & !segment),
                };
                let inside = if mode == "up" { source >= last } else { source <= last };
                let source = if inside { source } else { lane };
                [warp.a[source as usize], inside.into()]
            });
            case.name = format!("{opcode} clamp {clamp:#x}");
            cases.push(case);
        }
    }
    let body = "    @%p15 shfl.sync.idx.b32 %r10, %r1, %r2, 31, %r3;\n";
    let mut case =
        warp_case("shfl.sync.idx.b32", Arch::Sm80, body, Draw::Member, |warp, lane| [warp.a[warp.b[lane] as usize], 0]);
    case.name = "shfl.sync.idx.b32 of members".into();
    cases.push(case);
}

/// Each tile of eight lanes has its own member mask, as in cooperative groups: one instruction, four groups.
fn tiles(cases: &mut Vec<Case>) {
    const MASK: &str = "    and.b32 %r6, %r4, 24;\n    mov.u32 %r7, 255;\n    shl.b32 %r7, %r7, %r6;\n\
        \x20   and.b32 %r7, %r7, %r3;\n";
    type Oracle = fn(&Warp, usize) -> [u64; 2];
    let forms: [(&str, &str, Oracle); 6] = [
        ("shfl.sync.bfly.b32", "%r10, %r1, 5, 31, %r7", |warp, lane| [warp.a[lane ^ 5], 0]),
        ("vote.sync.ballot.b32", "%r10, %p1, %r7", |warp, lane| [tile(warp, lane, |l| warp.a[l] != 0), 0]),
        ("vote.sync.any.pred", "%p0, %p1, %r7", |warp, lane| [0, (tile(warp, lane, |l| warp.a[l] != 0) != 0).into()]),
        ("match.any.sync.b32", "%r10, %r1, %r7", |warp, lane| [tile(warp, lane, |l| warp.a[l] == warp.a[lane]), 0]),
        ("redux.sync.xor.b32", "%r10, %r1, %r7", |warp, lane| {
            [warp.members().filter(|l| l / 8 == lane / 8).fold(0, |x, l| x ^ warp.a[l]), 0]
        }),
        ("bar.warp.sync", "%r7", |_, _| [0; 2]),
    ];
    for (opcode, operands, oracle) in forms {
        let body = format!("{MASK}    @%p15 {opcode} {operands};\n");
        // A lane that is not a member contributes nothing.
        let draw = if opcode.starts_with("shfl") { Draw::Full } else { Draw::Few };
        let mut case = warp_case(opcode, Arch::Sm80, &body, draw, oracle);
        case.name = format!("{opcode} of tiles");
        cases.push(case);
    }
}

/// The members of a lane's tile for which `holds` is true.
fn tile(warp: &Warp, lane: usize, holds: impl Fn(usize) -> bool) -> u64 {
    warp.members().filter(|l| l / 8 == lane / 8 && holds(*l)).fold(0, |mask, l| mask | 1 << l)
}

fn votes(cases: &mut Vec<Case>) {
    type Vote = fn(&[bool]) -> bool;
    let modes: [(&str, Vote); 3] =
        [("any", |v| v.contains(&true)), ("all", |v| !v.contains(&false)), ("uni", |v| v.iter().all(|x| *x == v[0]))];
    for (mode, f) in modes {
        let opcode = format!("vote.sync.{mode}.pred");
        for draw in [Draw::Few, Draw::Any] {
            let mut case = warp_case(
                &opcode,
                Arch::Sm80,
                &format!("    @%p15 {opcode} %p0, %p1, %r3;\n"),
                draw,
                move |warp, _| [0, f(&warp.members().map(|lane| warp.a[lane] != 0).collect::<Vec<_>>()).into()],
            );
            case.name = format!("{opcode} {}", if draw == Draw::Few { "mixed" } else { "nonzero" });
            cases.push(case);
        }
    }
    let opcode = "vote.sync.ballot.b32";
    cases.push(warp_case(
        opcode,
        Arch::Sm80,
        &format!("    @%p15 {opcode} %r10, %p1, %r3;\n"),
        Draw::Few,
        |warp, _| [warp.members().filter(|lane| warp.a[*lane] != 0).fold(0, |m, lane| m | 1 << lane), 0],
    ));
}

fn matches(cases: &mut Vec<Case>) {
    let opcode = "match.any.sync.b32";
    cases.push(warp_case(
        opcode,
        Arch::Sm80,
        &format!("    @%p15 {opcode} %r10, %r1, %r3;\n"),
        Draw::Few,
        |warp, lane| {
            [warp.members().filter(|other| warp.a[*other] == warp.a[lane]).fold(0, |m, lane| m | 1 << lane), 0]
        },
    ));
    let opcode = "match.all.sync.b32";
    let body = format!("    @%p15 {opcode} %r10|%p0, %r1, %r3;\n");
    cases.push(warp_case(opcode, Arch::Sm80, &body, Draw::Same, |warp, lane| {
        let same = warp.members().all(|other| warp.a[other] == warp.a[lane]);
        [if same { warp.mask.into() } else { 0 }, same.into()]
    }));
    let opcode = "match.any.sync.b64";
    let body = format!("    mov.b64 %rd1, {{%r1, %r1}};\n    @%p15 {opcode} %r10, %rd1, %r3;\n");
    cases.push(warp_case(opcode, Arch::Sm80, &body, Draw::Few, |warp, lane| {
        [warp.members().filter(|other| warp.a[*other] == warp.a[lane]).fold(0, |m, lane| m | 1 << lane), 0]
    }));
}

fn reductions(cases: &mut Vec<Case>) {
    type Fold = fn(i128, i128) -> i128;
    let folds: [(&str, bool, Fold); 9] = [
        ("add.u32", false, |a, b| a + b),
        ("add.s32", true, |a, b| a + b),
        ("min.u32", false, i128::min),
        ("min.s32", true, i128::min),
        ("max.u32", false, i128::max),
        ("max.s32", true, i128::max),
        ("and.b32", false, |a, b| a & b),
        ("or.b32", false, |a, b| a | b),
        ("xor.b32", false, |a, b| a ^ b),
    ];
    for (name, signed, fold) in folds {
        let opcode = format!("redux.sync.{name}");
        let body = format!("    @%p15 {opcode} %r10, %r1, %r3;\n");
        cases.push(warp_case(&opcode, Arch::Sm80, &body, Draw::Any, move |warp, _| {
            let total = warp.members().map(|lane| number(warp.a[lane], 32, signed)).reduce(fold);
            [wrap(total.unwrap_or_default(), 32), 0]
        }));
    }
}

/// `bar.red` over a block of 256 threads: predicates of all.
fn block_reductions(cases: &mut Vec<Case>) {
    for (opcode, text) in [
        ("bar.red.popc.u32", "    bar.red.popc.u32 %r10, 1, %p1;\n"),
        ("bar.red.and.pred", "    bar.red.and.pred %p0, 1, %p1;\n"),
        ("bar.red.or.pred", "    bar.red.or.pred %p0, 1, %p1;\n"),
    ] {
        let mut case = warp_case(opcode, Arch::Sm80, text, Draw::Few, |_, _| [0; 2]);
        case.oracle = Box::new(move |input| {
            let rows: Vec<Vec<u64>> = input.chunks_exact(24).map(words).collect();
            rows.chunks_exact(16 * WARPS)
                .flat_map(|block| {
                    let count = block.iter().filter(|row| row[1] != 0).count() as u64;
                    let result = match opcode {
                        "bar.red.popc.u32" => [count, 0],
                        "bar.red.and.pred" => [0, u64::from(count == block.len() as u64)],
                        _ => [0, u64::from(count != 0)],
                    };
                    std::iter::repeat_n(result, block.len()).flatten()
                })
                .flat_map(u64::to_le_bytes)
                .collect()
        });
        cases.push(case);
    }
}
