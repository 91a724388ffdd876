//! A persistent product of sm_100a with its roles: one thread loads tiles, one issues products, four warps load the sums
//! from tensor memory while the next tile is multiplied. Known matrices in every completion mode; mutants; refusals.

#![allow(clippy::unwrap_used)]

use ptx_vm::mutate::{Operator, mutations};
use ptx_vm::numerics::convert::f32_to_f16;
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::{
    Address, Arch, Argument, Arithmetic, Completion, Detector, Generation, Launch, LaunchFailure, Machine, Module,
    Options, Report,
};

const MODES: [Completion; 3] = [Completion::Eager, Completion::Lazy, Completion::Random];
const HEAD: &str = ".version 8.6\n.target sm_100a\n.address_size 64\n";
/// Rows of A.
const M: usize = 128;
/// Elements of a row of a tile: 128 bytes.
const BK: usize = 64;

/// The kernel for `n` columns. It multiplies the same matrices `tiles` times, with two stages of shared memory and one
/// accumulator. Mbarriers: full at 0 and 8, empty at 16 and 24, sums ready at 32, sums taken at 40.
fn kernel(n: usize) -> String {
    let (a_bytes, b_bytes) = (M * 128, n * 128);
    let stage = a_bytes + b_bytes;
    let columns = n.next_power_of_two().max(32);
    let descriptor = 64u64 << 32 | 1 << 46 | 2 << 61;
    let instruction = 1 << 4 | (n / 8) << 17 | (M / 16) << 24;
    let products: String = (0..BK / 16)
        .map(|step| {
            let sum = if step == 0 { "%p3" } else { "%p4" };
            format!(
                "tcgen05.mma.cta_group::1.kind::f16 [%r6], %rd10, %rd11, {instruction}, {sum};\n\
                 add.u64 %rd10, %rd10, 2;\nadd.u64 %rd11, %rd11, 2;\n"
            )
        })
        .collect();
    let registers: Vec<String> = (0..16).map(|i| format!("%r{}", 40 + i)).collect();
    let stores: String =
        registers.iter().enumerate().map(|(i, r)| format!("st.global.b32 [%rd5+{}], {r};\n", 4 * i)).collect();
    format!(
        "{HEAD}.extern .shared .align 1024 .b8 smem[];
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd, .param .u32 pk, .param .u32 pt)
{{
.reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<16>;
ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pd];
ld.param.u32 %r1, [pk]; ld.param.u32 %r2, [pt];
mov.u32 %r0, %tid.x; shr.u32 %r3, %r0, 5; and.b32 %r4, %r0, 31;
mov.u32 %r5, smem; add.u32 %r7, %r5, {bars}; mul.lo.u32 %r8, %r1, %r2;
setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r7], 1; mbarrier.init.shared::cta.b64 [%r7+8], 1;
mbarrier.init.shared::cta.b64 [%r7+16], 1; mbarrier.init.shared::cta.b64 [%r7+24], 1;
mbarrier.init.shared::cta.b64 [%r7+32], 1; mbarrier.init.shared::cta.b64 [%r7+40], 128;
fence.mbarrier_init.release.cluster;
READY:
setp.ne.u32 %p2, %r3, 1; @%p2 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7+48], {columns};
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
ALLOCATED:
bar.sync 0;
ld.shared.u32 %r6, [%r7+48];
mov.u32 %r10, 0;
setp.ge.u32 %p1, %r3, 4; @%p1 bra TAKE;
setp.ne.u32 %p1, %r4, 0; @%p1 bra END;
setp.eq.u32 %p1, %r3, 1; @%p1 bra MULTIPLY;
setp.ne.u32 %p1, %r3, 0; @%p1 bra END;
LOAD:
and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1; xor.b32 %r12, %r12, 1;
shl.b32 %r13, %r11, 3; add.u32 %r13, %r13, %r7;
EMPTY: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r13+16], %r12; @!%p5 bra EMPTY;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {stage};
mad.lo.u32 %r14, %r11, {stage}, %r5; rem.u32 %r15, %r10, %r1;
mul.wide.u32 %rd6, %r15, {a_bytes}; add.u64 %rd6, %rd6, %rd1;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd6], {a_bytes}, [%r13];
mul.wide.u32 %rd6, %r15, {b_bytes}; add.u64 %rd6, %rd6, %rd2; add.u32 %r14, %r14, {a_bytes};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd6], {b_bytes}, [%r13];
add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, %r8; @%p1 bra LOAD;
bra END;
MULTIPLY:
mov.u32 %r20, 0; setp.eq.u32 %p4, 0, 0;
NEXT:
and.b32 %r21, %r20, 1; xor.b32 %r21, %r21, 1;
TAKEN: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r7+40], %r21; @!%p5 bra TAKEN;
mov.u32 %r22, 0;
STEP:
and.b32 %r11, %r10, 1; shr.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1;
shl.b32 %r13, %r11, 3; add.u32 %r13, %r13, %r7;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r13], %r12; @!%p5 bra FULL;
tcgen05.fence::after_thread_sync;
mad.lo.u32 %r14, %r11, {stage}, %r5; cvt.u64.u32 %rd10, %r14; shr.u64 %rd10, %rd10, 4;
or.b64 %rd10, %rd10, {descriptor}; add.u64 %rd11, %rd10, {b_offset};
setp.ne.u32 %p3, %r22, 0;
{products}tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13+16];
add.u32 %r10, %r10, 1; add.u32 %r22, %r22, 1; setp.lt.u32 %p1, %r22, %r1; @%p1 bra STEP;
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7+32];
add.u32 %r20, %r20, 1; setp.lt.u32 %p1, %r20, %r2; @%p1 bra NEXT;
bra END;
TAKE:
add.u32 %r20, %r3, -4; shl.b32 %r21, %r20, 21; add.u32 %r6, %r6, %r21;
shl.b32 %r20, %r20, 5; add.u32 %r20, %r20, %r4;
mul.wide.u32 %rd5, %r20, {row}; add.u64 %rd3, %rd3, %rd5;
AGAIN:
and.b32 %r21, %r10, 1;
SUMS: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r7+32], %r21; @!%p5 bra SUMS;
tcgen05.fence::after_thread_sync;
mov.u32 %r22, 0; mov.b64 %rd5, %rd3;
CHUNK:
add.u32 %r23, %r6, %r22;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{registers}}}, [%r23];
tcgen05.wait::ld.sync.aligned;
{stores}add.u64 %rd5, %rd5, 64; add.u32 %r22, %r22, 16; setp.lt.u32 %p1, %r22, {n}; @%p1 bra CHUNK;
tcgen05.fence::before_thread_sync;
mbarrier.arrive.shared::cta.b64 _, [%r7+40];
add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, %r2; @%p1 bra AGAIN;
END:
bar.sync 0;
@%p2 bra FREED;
ld.shared.u32 %r6, [%r7+48];
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, {columns};
FREED:
ret;
}}
",
        bars = 2 * stage,
        b_offset = a_bytes / 16,
        row = 4 * n,
        registers = registers.join(", "),
    )
}

/// Tiles of `rows` rows, K-major with the swizzle of 128 bytes, one after another.
fn arranged(rows: usize, tiles: usize, value: impl Fn(usize, usize) -> f32) -> Vec<u8> {
    let mut bytes = vec![0; rows * 128 * tiles];
    for row in 0..rows {
        for k in 0..tiles * BK {
            let plain = (row * 128 + k % BK * 2) as u32;
            let at = k / BK * rows * 128 + Swizzle::Bytes128.apply(plain) as usize;
            bytes[at..at + 2].copy_from_slice(&f32_to_f16(value(row, k)).to_le_bytes());
        }
    }
    bytes
}

fn a(row: usize, k: usize) -> f32 {
    ((3 * row + 5 * k) % 7) as f32 - 3.0
}

fn b(column: usize, k: usize) -> f32 {
    ((2 * column + 3 * k) % 5) as f32 - 2.0
}

/// Runs a text of [`kernel`]; gives the report and D.
fn run(
    text: &str,
    n: usize,
    k_tiles: usize,
    tiles: u32,
    options: Options,
) -> Result<(Report, Vec<f32>), LaunchFailure> {
    let machine = Machine::new(options.arch(Arch::Sm100a).workers(1));
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let buffer = |bytes: &[u8], name: &str| -> Address {
        let address = machine.allocate(bytes.len() as u64, name).unwrap();
        machine.write(address, bytes).unwrap();
        address
    };
    let (from_a, from_b) = (buffer(&arranged(M, k_tiles, a), "a"), buffer(&arranged(n, k_tiles, b), "b"));
    let to = buffer(&vec![0; M * n * 4], "d");
    let launch = Launch::new([1, 1, 1], [256, 1, 1]).shared_bytes((2 * (M + n) * 128 + 64) as u32);
    let arguments = [
        Argument::Address(from_a),
        Argument::Address(from_b),
        Argument::Address(to),
        Argument::U32(k_tiles as u32),
        Argument::U32(tiles),
    ];
    let report = machine.launch(&module, "k", &launch, &arguments)?;
    let mut bytes = vec![0; M * n * 4];
    machine.read(to, &mut bytes).unwrap();
    Ok((report, bytes.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()))
}

fn expected(n: usize, k: usize) -> Vec<f32> {
    (0..M * n).map(|i| (0..k).map(|k| a(i / n, k) * b(i % n, k)).sum()).collect()
}

#[test]
fn a_pipelined_product_is_right_in_every_completion_mode_without_a_finding() {
    let text = kernel(48);
    for completion in MODES {
        for (seed, weak) in [(0, false), (1, true)] {
            let options = Options::default().completion(completion).seed(seed).weak_memory(weak).detector(Detector::On);
            let (report, d) = run(&text, 48, 3, 3, options).unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(report.races, [], "{completion:?}");
            assert_eq!(d, expected(48, 3 * BK), "{completion:?}");
        }
    }
}

/// The size that kernels use, with the detector: 128 × 256 × 512; and 128 × 256 × 64 by the bit model.
#[test]
fn a_whole_tile_of_128_by_256_is_exact() {
    let exact = Arithmetic::Exact(Generation::Blackwell);
    for (k_tiles, arithmetic) in [(8, Arithmetic::Fast), (1, exact)] {
        let options = Options::default().detector(Detector::On).arithmetic(arithmetic);
        let (report, d) = run(&kernel(256), 256, k_tiles, 1, options).unwrap();
        assert_eq!(report.races, []);
        assert_eq!(d, expected(256, k_tiles * BK));
    }
}

/// Each fence, wait and commit of `tcgen05` is needed, and one without it is found.
#[test]
fn mutants_of_fences_waits_and_commits_are_found() {
    let text = kernel(16);
    let mut count = 0;
    let operators = [Operator::DropFence, Operator::DropWait, Operator::DropCommit, Operator::Early];
    for mutation in mutations(&text).filter(|m| operators.contains(&m.operator) && m.description.contains("tcgen05")) {
        count += 1;
        let mutant = mutation.apply(&text);
        let found = [(Completion::Eager, 0), (Completion::Random, 1), (Completion::Random, 2)].iter().any(
            |&(completion, seed)| {
                let options = Options::default().completion(completion).seed(seed).detector(Detector::On);
                run(&mutant, 16, 3, 3, options).map_or(true, |(report, _)| !report.races.is_empty())
            },
        );
        assert!(found, "{}", mutation.description);
    }
    assert!(count >= 8, "{count}");
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let refusal = |instruction: &str| {
        let text = format!(
            "{HEAD}.visible .entry k() {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<2>;\n{instruction}\nret; }}"
        );
        // The only kernel is refused, and so the module.
        let error = Module::parse(&text).err().unwrap_or_else(|| panic!("`{instruction}` is accepted"));
        error.to_string()
    };
    let mma = "[%r1], %rd1, %rd2, %r2, %p1;";
    for (instruction, words) in [
        ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], 32;", "pairs of blocks"),
        (&format!("tcgen05.mma.cta_group::2.kind::f16 {mma}"), "pairs of blocks"),
        (&format!("tcgen05.mma.ws.cta_group::1.kind::f16 {mma}"), "leave out `.ws`"),
        (&format!("tcgen05.mma.sp.cta_group::1.kind::f16 {mma}"), "expand A"),
        (&format!("tcgen05.mma.cta_group::1.kind::f16.collector::a::use {mma}"), "collector buffer"),
        (
            "tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3, %r4, %r5, %r6}, %p1;",
            "disable-output-lane",
        ),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1, 3;", "scale-input-d"),
        ("tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%r1], %rd1, %rd2, %r2, [%r3], [%r4], %p1;", "block scales"),
        ("tcgen05.shift.cta_group::1.down [%r1];", "one lane down"),
        ("tcgen05.cp.cta_group::1.4x256b [%r1], %rd1;", "`.128x256b`"),
        ("tcgen05.cp.cta_group::1.128x128b.b8x16.b4x16_p64 [%r1], %rd1;", "decompression"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.pack::16b.b32 {%r1}, [%r2];", "packing"),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r1}, [%r2];", "at most 128"),
    ] {
        let message = refusal(instruction);
        assert!(message.contains(words), "{instruction}: {message}");
    }
}

#[test]
fn other_machines_have_no_tensor_memory() {
    let text = "tcgen05.fence::before_thread_sync; ret; }";
    let module =
        Module::parse(&format!(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() {{ {text}"));
    let machine = Machine::new(Options::default().arch(Arch::Sm90a));
    let error =
        machine.launch(&module.unwrap(), "k", &Launch::new([1, 1, 1], [32, 1, 1]), &[]).unwrap_err().to_string();
    assert!(error.contains("sm_90a has no `tcgen05`") && error.contains("sm_100a"), "{error}");
}
