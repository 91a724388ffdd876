//! Measures how fast kernels are executed with checks off, with memory checks, and with the race detector. The kernels
//! are an f16 GEMM by `mma.sync` and one by `wgmma` with TMA, both of 1024³, and a look-back scan of 2²⁰ floats. Three
//! more give the detector most to do: an f32 GEMM of 512³ through shared memory, saxpy of 2²² floats, and a histogram.
//!
//! The kernels are under `kernels/`: CUDA C++, and the PTX that NVRTC made from it, so that the benchmark needs no
//! compiler.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use ptx_vm::numerics::convert::{f16_to_f32, f32_to_f16};
use ptx_vm::numerics::swizzle::Swizzle;
use ptx_vm::numerics::tensor_map::{Fill, MapElement, TensorMap, Tiled};
use ptx_vm::{Address, Arch, Argument, Detector, Launch, Machine, Module, Options};

const GEMM: &str = include_str!("kernels/gemm.ptx");
const WGMMA: &str = include_str!("kernels/wgmma.ptx");
const SCAN: &str = include_str!("kernels/scan.ptx");
const SGEMM: &str = include_str!("kernels/sgemm.ptx");
const SAXPY: &str = include_str!("kernels/saxpy.ptx");
const HISTOGRAM: &str = include_str!("kernels/histogram.ptx");

/// Extent of the matrices.
const N: u32 = 1024;
/// Length of the scan.
const LENGTH: u32 = 1 << 20;

fn buffer(machine: &Machine, name: &str, bytes: &[u8]) -> Address {
    let address = machine.allocate(bytes.len() as u64, name).unwrap_or_else(|e| panic!("{e}"));
    machine.write(address, bytes).unwrap_or_else(|e| panic!("{e}"));
    address
}

fn floats(machine: &Machine, address: Address, count: u32) -> Vec<f32> {
    let mut bytes = vec![0; count as usize * 4];
    machine.read(address, &mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

fn module(ptx: &str) -> Module {
    Module::parse(ptx).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a kernel, which must be correct.
fn run(machine: &Machine, module: &Module, kernel: &str, launch: &Launch, arguments: &[Argument<'_>]) {
    let report = machine.launch(module, kernel, launch, arguments).unwrap_or_else(|e| panic!("{e}"));
    assert!(report.races.is_empty(), "{}", report.races[0]);
}

/// A number in [-1, 1) from an index.
fn value(index: u32, seed: u32) -> f32 {
    let mixed = index.wrapping_mul(0x9e37_79b1).wrapping_add(seed.wrapping_mul(0x85eb_ca6b));
    ((mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// The operands of a matrix product on one machine.
struct Product {
    machine: Machine,
    a: Address,
    b: Address,
    c: Address,
}

impl Product {
    fn new(arch: Arch) -> Self {
        let machine = Machine::new(Options::default().arch(arch));
        let halves = |seed| (0..N * N).flat_map(|i| f32_to_f16(value(i, seed)).to_le_bytes()).collect::<Vec<_>>();
        let (a, b) = (buffer(&machine, "A", &halves(1)), buffer(&machine, "B", &halves(2)));
        let c = buffer(&machine, "C", &vec![0; (N * N * 4) as usize]);
        Self { machine, a, b, c }
    }

    /// Compares a few elements with a plain sum.
    fn check(&self) {
        let half = |i, seed| f16_to_f32(f32_to_f16(value(i, seed)));
        let c = floats(&self.machine, self.c, N * N);
        for (row, column) in [(0, 0), (1, 0), (0, 1), (17, 40), (63, 63), (N - 1, N - 2)] {
            let expected: f32 = (0..N).map(|k| half(row * N + k, 1) * half(column * N + k, 2)).sum();
            let found = c[(row * N + column) as usize];
            assert!((found - expected).abs() < 1e-2, "C[{row}, {column}] is {found}, not {expected}");
        }
    }

    /// The map of boxes of 64×64 elements with rows swizzled over 128 bytes.
    fn map(&self, matrix: Address) -> [u8; 128] {
        let tiled = Tiled {
            element: MapElement::F16,
            address: matrix.0,
            sizes: &[N.into(), N.into()],
            strides: &[u64::from(N) * 2],
            box_sizes: &[64, 64],
            element_strides: &[1, 1],
            swizzle: Swizzle::Bytes128,
            fill: Fill::Zero,
        };
        TensorMap::encode(&tiled).unwrap_or_else(|e| panic!("{e}"))
    }
}

/// Measures a launch with checks off, with memory checks, and also with the detector.
fn levels(group: &mut BenchmarkGroup<'_, WallTime>, arch: Arch, launch: &Launch, run: &dyn Fn(&Launch)) {
    let checked = Options::default().arch(arch);
    let levels = [
        ("checks_off", checked.clone().memory_checks(false)),
        ("memory_checks", checked.clone()),
        ("detector", checked.detector(Detector::On)),
    ];
    group.sample_size(10);
    for (name, options) in levels {
        let launch = launch.clone().options(options);
        group.bench_function(name, |b| b.iter(|| run(&launch)));
    }
}

fn gemm(criterion: &mut Criterion) {
    let (module, product) = (module(GEMM), Product::new(Arch::Sm80));
    let [a, b, c] = [product.a, product.b, product.c].map(Argument::Address);
    let n = Argument::U32(N);
    let launch = Launch::new([N / 64, N / 64, 1], [128, 1, 1]);
    let once = |launch: &Launch| run(&product.machine, &module, "gemm", launch, &[a, b, c, n, n, n]);
    once(&launch);
    product.check();
    let mut group = criterion.benchmark_group("gemm_mma_sync_1024");
    group.throughput(Throughput::Elements(2 * u64::from(N).pow(3)));
    levels(&mut group, Arch::Sm80, &launch, &once);
    group.finish();
}

fn wgmma(criterion: &mut Criterion) {
    let (module, product) = (module(WGMMA), Product::new(Arch::Sm90a));
    let (a, b) = (product.map(product.a), product.map(product.b));
    let (c, n) = (Argument::Address(product.c), Argument::U32(N));
    let launch = Launch::new([N / 64, N / 64, 1], [160, 1, 1]).shared_bytes(3 * 2 * 64 * 128);
    let once = |launch: &Launch| {
        run(&product.machine, &module, "wgmma", launch, &[Argument::Bytes(&a), Argument::Bytes(&b), c, n, n]);
    };
    once(&launch);
    product.check();
    let mut group = criterion.benchmark_group("gemm_wgmma_1024");
    group.throughput(Throughput::Elements(2 * u64::from(N).pow(3)));
    levels(&mut group, Arch::Sm90a, &launch, &once);
    group.finish();
}

fn scan(criterion: &mut Criterion) {
    let (module, machine) = (module(SCAN), Machine::new(Options::default()));
    // Small integers, whose sums are exact in every order.
    let values: Vec<f32> = (0..LENGTH).map(|i| (value(i, 3) * 8.0).trunc()).collect();
    let input = buffer(&machine, "in", &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    let output = buffer(&machine, "out", &vec![0; LENGTH as usize * 4]);
    let blocks = LENGTH / 256;
    let flag_bytes = vec![0; blocks as usize * 4];
    let [flags, sums, prefixes] = ["flags", "sums", "prefixes"].map(|name| buffer(&machine, name, &flag_bytes));
    let arguments = [input, output, flags, sums, prefixes].map(Argument::Address);
    let launch = Launch::new([blocks, 1, 1], [256, 1, 1]);
    let once = |launch: &Launch| {
        machine.write(flags, &flag_bytes).unwrap_or_else(|e| panic!("{e}"));
        run(&machine, &module, "scan", launch, &[&arguments[..], &[Argument::U32(LENGTH)]].concat());
    };
    once(&launch);
    let mut sum = 0.0;
    for (i, (found, x)) in floats(&machine, output, LENGTH).iter().zip(&values).enumerate() {
        sum += x;
        assert!(*found == sum, "element {i} is {found}, not {sum}");
    }
    let mut group = criterion.benchmark_group("look_back_scan_2_20");
    group.throughput(Throughput::Elements(LENGTH.into()));
    levels(&mut group, Arch::Sm80, &launch, &once);
    group.finish();
}

/// Runs a kernel of sm_80 on one machine at every level, and then checks what it has left.
fn plain(
    criterion: &mut Criterion,
    (name, ptx, kernel): (&str, &str, &str),
    elements: u64,
    (machine, launch, arguments): (&Machine, &Launch, &[Argument<'_>]),
    check: &dyn Fn(),
) {
    let module = module(ptx);
    let once = |launch: &Launch| run(machine, &module, kernel, launch, arguments);
    once(launch);
    check();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(elements));
    levels(&mut group, Arch::Sm80, launch, &once);
    group.finish();
}

fn bytes_of(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

fn sgemm(criterion: &mut Criterion) {
    const N: u32 = 512;
    let machine = Machine::new(Options::default());
    let [a, b] =
        [("A", 1), ("B", 2)].map(|(name, seed)| buffer(&machine, name, &bytes_of((0..N * N).map(|i| value(i, seed)))));
    let c = buffer(&machine, "C", &vec![0; (N * N * 4) as usize]);
    let arguments = [Argument::Address(a), Argument::Address(b), Argument::Address(c), Argument::U32(N)];
    let launch = Launch::new([N / 64, N / 64, 1], [256, 1, 1]);
    let check = || {
        let found = floats(&machine, c, N * N);
        for (row, column) in [(0, 0), (1, 70), (N - 1, N - 2)] {
            let expected: f32 = (0..N).map(|k| value(row * N + k, 1) * value(k * N + column, 2)).sum();
            let found = found[(row * N + column) as usize];
            assert!((found - expected).abs() < 1e-3, "C[{row}, {column}] is {found}, not {expected}");
        }
    };
    let kernel = ("sgemm_512", SGEMM, "sgemm");
    plain(criterion, kernel, 2 * u64::from(N).pow(3), (&machine, &launch, &arguments), &check);
}

fn saxpy(criterion: &mut Criterion) {
    const COUNT: u32 = 1 << 22;
    let machine = Machine::new(Options::default());
    let [x, y] =
        [("x", 1), ("y", 2)].map(|(name, seed)| buffer(&machine, name, &bytes_of((0..COUNT).map(|i| value(i, seed)))));
    let arguments = [Argument::Address(x), Argument::Address(y), Argument::F32(0.5), Argument::U32(COUNT)];
    let launch = Launch::new([COUNT / 256, 1, 1], [256, 1, 1]);
    let check = || {
        let found = floats(&machine, y, COUNT);
        for i in [0, 31, COUNT - 1] {
            assert!((found[i as usize] - 0.5 * value(i, 1) - value(i, 2)).abs() < 1e-5, "y[{i}]");
        }
    };
    plain(criterion, ("saxpy_2_22", SAXPY, "saxpy"), COUNT.into(), (&machine, &launch, &arguments), &check);
}

fn histogram(criterion: &mut Criterion) {
    const COUNT: u32 = 1 << 22;
    let machine = Machine::new(Options::default());
    let values: Vec<u8> = (0..COUNT).map(|i| (value(i, 4) * 128.0 + 128.0) as u8).collect();
    let (bytes, counts) = (buffer(&machine, "bytes", &values), buffer(&machine, "counts", &[0; 1024]));
    let arguments = [Argument::Address(bytes), Argument::Address(counts), Argument::U32(COUNT)];
    let launch = Launch::new([64, 1, 1], [256, 1, 1]);
    let check = || {
        let mut found = [0; 4];
        machine.read(Address(counts.0 + 4 * 77), &mut found).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(u32::from_le_bytes(found) as usize, values.iter().filter(|&&v| v == 77).count());
    };
    let kernel = ("histogram_2_22", HISTOGRAM, "histogram");
    plain(criterion, kernel, COUNT.into(), (&machine, &launch, &arguments), &check);
}

fn parse(criterion: &mut Criterion) {
    criterion.bench_function("parse_gemm", |b| b.iter(|| Module::parse(GEMM).map(|m| m.kernels().count())));
}

criterion_group!(benches, gemm, wgmma, scan, sgemm, saxpy, histogram, parse);
criterion_main!(benches);
