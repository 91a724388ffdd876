//! How fast kernels are executed: a tiled f16 GEMM with `cp.async`, `ldmatrix` and `mma.sync`, with checks off, with
//! memory checks, and with the race detector. The kernel is written here so that the benchmark needs no compiler.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ptx_vm::numerics::convert::{f16_to_f32, f32_to_f16};
use ptx_vm::{Address, Argument, Detector, Launch, Machine, Module, Options};
use std::fmt::Write as _;

/// Bytes of a tile row in shared memory: 32 halves and padding against bank conflicts.
const ROW: usize = 80;
/// Bytes of a stage of one operand.
const STAGE: usize = 64 * ROW;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` for blocks of 64×64×32, 128 threads, two stages.
fn gemm() -> String {
    let mut body = String::new();
    let mut line = |text: &str| body.push_str(&format!("    {text}\n"));
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        line(&format!("ld.param.u64 %rd{n}, [{name}];"));
    }
    line("ld.param.u32 %n, [n]; ld.param.u32 %k, [k];");
    line("mov.u32 %t, %tid.x; mov.u32 %sm, tiles; mov.u32 %m0, %ctaid.y; shl.b32 %m0, %m0, 6;");
    line("mov.u32 %n0, %ctaid.x; shl.b32 %n0, %n0, 6; and.b32 %l, %t, 31; shr.u32 %w, %t, 5;");
    line("and.b32 %wm, %w, 1; shl.b32 %wm, %wm, 5; shr.u32 %wn, %w, 1; shl.b32 %wn, %wn, 5;");
    // Where this thread copies from and to, for two chunks of A and of B.
    for i in 0..2 {
        line(&format!("add.u32 %x, %t, {}; shr.u32 %row, %x, 2; and.b32 %col, %x, 3; shl.b32 %col, %col, 4;", i * 128));
        line(&format!("mad.lo.u32 %to{i}, %row, {ROW}, %col; add.u32 %to{i}, %to{i}, %sm;"));
        for (operand, origin) in [(0, "%m0"), (1, "%n0")] {
            line(&format!(
                "add.u32 %y, %row, {origin}; mul.lo.u32 %y, %y, %k; shl.b32 %y, %y, 1; add.u32 %y, %y, %col;"
            ));
            line(&format!("cvt.u64.u32 %wide, %y; add.u64 %from{operand}{i}, %rd{operand}, %wide;"));
        }
    }
    // Where its lanes read fragments.
    line("and.b32 %x, %l, 15; add.u32 %x, %x, %wm; shr.u32 %y, %l, 4; shl.b32 %y, %y, 4;");
    line(&format!("mad.lo.u32 %fa, %x, {ROW}, %y; add.u32 %fa, %fa, %sm;"));
    line("and.b32 %x, %l, 7; shr.u32 %y, %l, 4; shl.b32 %y, %y, 3; add.u32 %x, %x, %y; add.u32 %x, %x, %wn;");
    line("shr.u32 %y, %l, 3; and.b32 %y, %y, 1; shl.b32 %y, %y, 4;");
    line(&format!("mad.lo.u32 %fb, %x, {ROW}, %y; add.u32 %fb, %fb, %sm; add.u32 %fb, %fb, {};", 2 * STAGE));
    for r in 0..32 {
        line(&format!("mov.f32 %acc{r}, 0f00000000;"));
    }
    let copies = |line: &mut dyn FnMut(&str)| {
        for i in 0..2 {
            for operand in 0..2 {
                line(&format!("add.u32 %x, %to{i}, %stage; add.u32 %x, %x, {};", operand * 2 * STAGE));
                line(&format!("cp.async.cg.shared.global [%x], [%from{operand}{i}], 16;"));
                line(&format!("add.u64 %from{operand}{i}, %from{operand}{i}, 64;"));
            }
        }
        line("cp.async.commit_group;");
    };
    line("mov.u32 %stage, 0; mov.u32 %kt, 0; shr.u32 %tiles, %k, 5;");
    copies(&mut line);
    line("LOOP: add.u32 %kt, %kt, 1; setp.ge.u32 %last, %kt, %tiles; @%last bra TAIL;");
    line(&format!("xor.b32 %stage, %stage, {STAGE};"));
    copies(&mut line);
    line("cp.async.wait_group 1; bra READY;");
    line(&format!("TAIL: xor.b32 %stage, %stage, {STAGE}; cp.async.wait_group 0;"));
    line(&format!("READY: bar.sync 0; xor.b32 %read, %stage, {STAGE};"));
    for kk in [0, 32] {
        line("add.u32 %x, %fa, %read; add.u32 %y, %fb, %read;");
        for (i, name, base) in [(0, "a", "%x"), (1, "a", "%x"), (0, "b", "%y"), (1, "b", "%y")] {
            let registers: Vec<_> = (0..4).map(|r| format!("%{name}{}", i * 4 + r)).collect();
            let offset = i * 16 * ROW + kk;
            line(&format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}}}, [{base}+{offset}];", registers.join(", ")));
        }
        for i in 0..2 {
            for j in 0..4 {
                let d: Vec<_> = (0..4).map(|r| format!("%acc{}", (i * 4 + j) * 4 + r)).collect();
                let a: Vec<_> = (0..4).map(|r| format!("%a{}", i * 4 + r)).collect();
                let (d, a, b) = (d.join(", "), a.join(", "), j * 2);
                line(&format!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d}}}, {{{a}}}, {{%b{b}, %b{}}}, {{{d}}};",
                    b + 1
                ));
            }
        }
    }
    line("bar.sync 0; @!%last bra LOOP;");
    line("shr.u32 %x, %l, 2; add.u32 %x, %x, %m0; add.u32 %x, %x, %wm;");
    line("and.b32 %y, %l, 3; shl.b32 %y, %y, 1; add.u32 %y, %y, %n0; add.u32 %y, %y, %wn;");
    for i in 0..2 {
        for h in 0..2 {
            line(&format!("add.u32 %row, %x, {}; mad.lo.u32 %row, %row, %n, %y;", i * 16 + h * 8));
            line("mul.wide.u32 %wide, %row, 4; add.u64 %wide, %wide, %rd2;");
            for j in 0..4 {
                let r = (i * 4 + j) * 4 + h * 2;
                line(&format!("st.global.v2.f32 [%wide+{}], {{%acc{r}, %acc{}}};", j * 32, r + 1));
            }
        }
    }
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    let _ = write!(
        text,
        ".visible .entry gemm(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n, .param .u32 k) {{
    .shared .align 16 .b8 tiles[{}];
    .reg .b32 %n, %k, %t, %sm, %m0, %n0, %l, %w, %wm, %wn, %x, %y, %row, %col, %fa, %fb, %stage, %kt, %tiles, %read;
    .reg .b32 %to<2>, %a<8>, %b<8>; .reg .b64 %rd<3>, %from0<2>, %from1<2>, %wide; .reg .f32 %acc<32>; .reg .pred %last;
{body}    ret;
}}",
        4 * STAGE
    );
    text
}

struct Problem {
    module: Module,
    machine: Machine,
    a: Address,
    b: Address,
    c: Address,
    n: u32,
}

impl Problem {
    fn new(n: u32) -> Self {
        let module = Module::parse(&gemm()).unwrap_or_else(|e| panic!("{e}"));
        let machine = Machine::new(Options::default());
        let bytes = u64::from(n * n);
        let buffer = |name, size| machine.allocate(size, name).unwrap_or_else(|e| panic!("{e}"));
        let (a, b, c) = (buffer("A", bytes * 2), buffer("B", bytes * 2), buffer("C", bytes * 4));
        for (address, seed) in [(a, 1), (b, 2)] {
            let values: Vec<u8> = (0..n * n).flat_map(|i| f32_to_f16(value(i, seed)).to_le_bytes()).collect();
            machine.write(address, &values).unwrap_or_else(|e| panic!("{e}"));
        }
        Self { module, machine, a, b, c, n }
    }

    fn run(&self, options: Options) {
        let launch = Launch::new([self.n / 64, self.n / 64, 1], [128, 1, 1]).options(options);
        let arguments = [
            Argument::Address(self.a),
            Argument::Address(self.b),
            Argument::Address(self.c),
            Argument::U32(self.n),
            Argument::U32(self.n),
        ];
        let report = self.machine.launch(&self.module, "gemm", &launch, &arguments).unwrap_or_else(|e| panic!("{e}"));
        assert!(report.races.is_empty(), "{}", report.races[0]);
    }

    /// A few elements against a plain sum.
    fn check(&self) {
        let half = |i, seed| f16_to_f32(f32_to_f16(value(i, seed)));
        for (row, column) in [(0, 0), (1, 0), (0, 1), (17, 40), (63, 63), (self.n - 1, self.n - 2)] {
            let expected: f32 = (0..self.n).map(|k| half(row * self.n + k, 1) * half(column * self.n + k, 2)).sum();
            let mut bytes = [0; 4];
            let at = Address(self.c.0 + u64::from(row * self.n + column) * 4);
            self.machine.read(at, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
            let found = f32::from_le_bytes(bytes);
            assert!((found - expected).abs() < 1e-2, "C[{row}, {column}] is {found}, not {expected}");
        }
    }
}

/// A number in [-1, 1) from an index.
fn value(index: u32, seed: u32) -> f32 {
    let mixed = index.wrapping_mul(0x9e37_79b1).wrapping_add(seed.wrapping_mul(0x85eb_ca6b));
    ((mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

fn benchmark(criterion: &mut Criterion) {
    let n = 512;
    let problem = Problem::new(n);
    problem.run(Options::default());
    problem.check();
    let mut group = criterion.benchmark_group("gemm_mma_sync_512");
    group.sample_size(10);
    group.throughput(Throughput::Elements(2 * u64::from(n).pow(3)));
    let off = Options::default().memory_checks(false);
    group.bench_function("checks_off", |b| b.iter(|| problem.run(off.clone())));
    group.bench_function("memory_checks", |b| b.iter(|| problem.run(Options::default())));
    let detector = Options::default().detector(Detector::On);
    group.bench_function("detector", |b| b.iter(|| problem.run(detector.clone())));
    group.finish();
    criterion.bench_function("parse_gemm", |b| {
        let text = gemm();
        b.iter(|| Module::parse(&text).map(|m| m.kernels().count()));
    });
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
