//! The CPU device: a fused bias + GELU + residual epilogue. It is compared with the bare product of the `gemm` crate,
//! and with the product alone. It is also compared with the product followed by one pass over memory per operation
//! (with the same vector code).
//!
//! Before criterion's own measurements it prints ratios of medians of interleaved runs, which noise from other
//! processes affects less than single times: how much the epilogue adds to the bare product, and how much faster the
//! fused product is than the unfused one.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is a program")]

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use epilogue::prelude::*;
use epilogue_benches::median;

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn bias_gelu_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
    let d = gelu(accum + bias) + residual;
    d
}

/// A pass over memory: the accumulator is not used, so nothing is multiplied.
#[epilogue]
fn add_bias(_accum: Accum, x: Tensor, bias: RowVector) -> Tensor {
    let d = x + bias;
    d
}

#[epilogue]
fn apply_gelu(_accum: Accum, x: Tensor) -> Tensor {
    let d = gelu(x);
    d
}

#[epilogue]
fn add_residual(_accum: Accum, x: Tensor, residual: Tensor) -> Tensor {
    let d = x + residual;
    d
}

/// Two accumulators that share A.
#[epilogue]
fn swiglu(gate: Accum, up: Accum) -> Tensor {
    let d = silu(gate) * up;
    d
}

/// The operands of one problem in one element type, and its plans.
struct Bench {
    shape: [usize; 3],
    a: DeviceTensor,
    b: DeviceTensor,
    bias: DeviceTensor,
    residual: DeviceTensor,
    d: DeviceTensor,
    t: DeviceTensor,
    plain: Gemm<Plain>,
    fused: Gemm<BiasGeluResidual>,
    passes: (Gemm<AddBias>, Gemm<ApplyGelu>, Gemm<AddResidual>),
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

impl Bench {
    fn new<T: Element>([m, n, k]: [usize; 3], convert: fn(f32) -> T) -> Outcome<Self> {
        let device = Device::cpu();
        let tensor = |shape: &[usize], scale: f32| {
            let count = shape.iter().product::<usize>();
            let values: Vec<T> = (0..count).map(|i| convert(((i * 37 % 101) as f32 - 50.0) * scale)).collect();
            device.tensor(&values, shape)
        };
        let (a, b) = (tensor(&[m, k], 0.01)?, tensor(&[k, n], 0.01)?);
        let (bias, residual) = (tensor(&[n], 0.02)?, tensor(&[m, n], 0.02)?);
        let (d, t) = (device.zeros::<T>([m, n])?, device.zeros::<T>([m, n])?);
        let plain = Gemm::plan::<Plain>(&device, &a, &b)?;
        let fused = Gemm::plan::<BiasGeluResidual>(&device, &a, &b)?;
        let passes = (
            Gemm::plan::<AddBias>(&device, &a, &b)?,
            Gemm::plan::<ApplyGelu>(&device, &a, &b)?,
            Gemm::plan::<AddResidual>(&device, &a, &b)?,
        );
        Ok(Self { shape: [m, n, k], a, b, bias, residual, d, t, plain, fused, passes })
    }

    /// The product alone, stored in the element type.
    fn plain(&mut self) -> Outcome<()> {
        Ok(self.plain.run(&self.a, &self.b, Plain { d: &mut self.d })?)
    }

    fn fused(&mut self) -> Outcome<()> {
        let arguments = BiasGeluResidual { bias: &self.bias, residual: &self.residual, d: &mut self.d };
        Ok(self.fused.run(&self.a, &self.b, arguments)?)
    }

    fn unfused(&mut self) -> Outcome<()> {
        let Self { a, b, bias, residual, d, t, passes, .. } = self;
        let (a, b) = (&*a, &*b);
        self.plain.run(a, b, Plain { d })?;
        passes.0.run(a, b, AddBias { x: d, bias, d: t })?;
        passes.1.run(a, b, ApplyGelu { x: t, d })?;
        passes.2.run(a, b, AddResidual { x: d, residual, d: t })?;
        Ok(())
    }

    /// The `gemm-f32` crate on all threads. As it wants a result that is contiguous along columns, it computes the transpose.
    #[rustfmt::skip] // the arguments in groups
    fn bare(&mut self) {
        let [m, n, k] = self.shape;
        let (d, a, b) = (self.d.device_address(), self.a.device_address(), self.b.device_address());
        // SAFETY: the tensors are on the CPU, packed, of these shapes and of f32s, and nothing else uses them meanwhile.
        unsafe {
            gemm_f32::gemm::f32::get_gemm_fn()(
                n, m, k,
                d as *mut f32, n as isize, 1, false,
                b as *const f32, n as isize, 1,
                a as *const f32, k as isize, 1,
                0.0, 1.0, false, false, false, gemm_common::Parallelism::Rayon(0),
            );
        }
    }
}

fn milliseconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e3
}

fn print_ratios(name: &str, bench: &mut Bench, has_bare: bool) -> Outcome<()> {
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..21 {
        times[0].push(if has_bare { milliseconds(|| bench.bare()) } else { 0.0 });
        times[1].push(milliseconds(|| black_box(bench.plain()).unwrap_or(())));
        times[2].push(milliseconds(|| black_box(bench.fused()).unwrap_or(())));
        times[3].push(milliseconds(|| black_box(bench.unfused()).unwrap_or(())));
    }
    let [bare, plain, fused, unfused] = times.map(median);
    let against_bare =
        if has_bare { format!("bare {bare:.2} ms, fused / bare {:.3}; ", fused / bare) } else { String::new() };
    println!(
        "{name}: {against_bare}product alone {plain:.2} ms, fused {fused:.2} ms, unfused {unfused:.2} ms, \
         fused / product alone {:.3}, unfused / fused {:.2}",
        fused / plain,
        unfused / fused
    );
    Ok(())
}

/// SwiGLU over two halves of a weight, against the product with all of it, which stores twice as much.
fn print_gated([m, n, k]: [usize; 3]) -> Outcome<()> {
    let device = Device::cpu();
    let values = |count: usize, scale: f32| -> Vec<f32> {
        (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.02 * scale).collect()
    };
    // Weights are so large that the results are as large as what they are made of: that is what activations see.
    let weights = values(2 * n * k, 1.0 / (k as f32).sqrt());
    let (a, b) = (device.tensor(&values(m * k, 1.0), [m, k])?, device.tensor(&weights, [2 * n, k])?.transpose()?);
    let (gate, up) = (b.slice(1, 0..n)?, b.slice(1, n..2 * n)?);
    let (mut d, mut wide) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, 2 * n])?);
    let plain = Gemm::plan::<Plain>(&device, &a, &b)?;
    let fused = Gemm::plan::<Swiglu>(&device, &a, [&gate, &up])?;
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..21 {
        let start = Instant::now();
        plain.run(&a, &b, Plain { d: &mut wide })?;
        times[0].push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        fused.run(&a, [&gate, &up], Swiglu { d: &mut d })?;
        times[1].push(start.elapsed().as_secs_f64() * 1e3);
    }
    let [plain, fused] = times.map(median);
    println!(
        "{m}x{n}x{k} SwiGLU {fused:.2} ms, product of {} columns {plain:.2} ms, SwiGLU / product {:.3}",
        2 * n,
        fused / plain
    );
    Ok(())
}

fn run(criterion: &mut Criterion) -> Outcome<()> {
    for shape in [[1024, 1024, 1024], [64, 4096, 1024], [1, 4096, 1024]] {
        print_gated(shape)?;
    }
    let mut group = criterion.benchmark_group("cpu");
    group.sample_size(20);
    for shape in [[1024, 1024, 1024], [4096, 4096, 64]] {
        let [m, n, k] = shape;
        let benches = [
            ("f32", true, Bench::new(shape, |x| x)?),
            ("f16", false, Bench::new(shape, f16::from_f32)?),
            ("bf16", false, Bench::new(shape, bf16::from_f32)?),
        ];
        for (element, has_bare, mut bench) in benches {
            let name = format!("{m}x{n}x{k} {element}");
            // Errors are found here, before anything is measured.
            bench.fused()?;
            bench.unfused()?;
            print_ratios(&name, &mut bench, has_bare)?;
            if has_bare {
                group.bench_function(BenchmarkId::new("bare gemm crate", &name), |b| b.iter(|| bench.bare()));
            }
            group.bench_function(BenchmarkId::new("product alone", &name), |b| b.iter(|| bench.plain()));
            group.bench_function(BenchmarkId::new("fused", &name), |b| b.iter(|| bench.fused()));
            group.bench_function(BenchmarkId::new("unfused", &name), |b| b.iter(|| bench.unfused()));
        }
    }
    group.finish();
    Ok(())
}

fn cpu(criterion: &mut Criterion) {
    if let Err(error) = run(criterion) {
        println!("the CPU benchmarks could not run: {error}");
        std::process::exit(1);
    }
}

criterion_group!(benches, cpu);
criterion_main!(benches);
