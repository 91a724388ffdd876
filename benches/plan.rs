//! The time to make a plan: one that was made before, only the choice, with a kernel from the disk cache or a bundle,
//! and with NVRTC.
//!
//! `cargo bench --bench plan`. Needs NVRTC (`cargo xtask tools`), no GPU.
#![allow(missing_docs, clippy::print_stderr, reason = "a benchmark is a program")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use epilogue::prelude::*;
use epilogue_runtime::{Compiler, Output};

/// The whole residual branch of a transformer's block.
#[epilogue]
fn bias_gelu_residual(accum: Accum, bias: RowVector, residual: Tensor) -> Tensor {
    let d = gelu(accum + bias) + residual;
    d
}

fn plans(criterion: &mut Criterion) {
    let builder = |device: &Device| {
        Gemm::builder::<BiasGeluResidual>(device).problem(4096, 4096, 4096).elements(ElementType::F16, ElementType::F16)
    };
    let Ok(device) = Device::emulated(Arch::SM_80) else {
        return eprintln!("no NVRTC: run `cargo xtask tools` first");
    };
    let Ok(hopper) = Device::emulated(Arch::SM_90A) else { return eprintln!("no emulated device for sm_90a") };
    for (arch, device) in [(Arch::SM_80, &device), (Arch::SM_90A, &hopper)] {
        let name = format!("choose a kernel for {arch}");
        criterion.bench_function(&name, |b| b.iter(|| black_box(builder(device).choose().map(drop)).is_ok()));
    }

    let Ok(gemm) = builder(&device).plan() else { return eprintln!("the plan failed") };
    criterion
        .bench_function("the same plan again", |b| b.iter(|| black_box(builder(&device).plan().map(drop)).is_ok()));
    let bundler = epilogue::bundle::Builder::new();
    let made = bundler.emulated_target(Arch::SM_80).map(|target| builder(&target).plan().map(drop));
    let bundle = epilogue::bundle::Bundle::from_bytes(bundler.to_bytes());
    let (Ok(Ok(())), Ok(bundle)) = (made, bundle) else { return eprintln!("no bundle") };
    criterion.bench_function("a plan from a bundle, on a new device", |b| {
        let device = || {
            let device = Device::emulated(Arch::SM_80).expect("there was one");
            bundle.install(&device).expect("it is for this device");
            device
        };
        b.iter_with_setup(device, |device| black_box(builder(&device).plan().map(drop)).is_ok());
    });
    let Some(source) = gemm.kernel_source().cloned() else { return eprintln!("no kernel") };
    let Ok(compiler) = Compiler::find() else { return eprintln!("no NVRTC") };
    for arch in [Arch::SM_80, Arch::SM_90A] {
        if let Err(error) = compiler.compile(&source, arch, Output::Cubin) {
            return eprintln!("{error}");
        }
        criterion.bench_function(&format!("a cubin for {arch} from the disk cache"), |b| {
            b.iter(|| black_box(compiler.compile(&source, arch, Output::Cubin)).is_ok());
        });
        let uncached = compiler.clone().with_cache(None);
        criterion.bench_function(&format!("NVRTC, a cubin for {arch}"), |b| {
            b.iter(|| black_box(uncached.compile(&source, arch, Output::Cubin)).is_ok());
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = plans
}
criterion_main!(benches);
