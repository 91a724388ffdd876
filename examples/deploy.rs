//! Kernels compiled ahead of time: one program makes the file, another runs from it without a compiler.
//!
//! `cargo run --release -p epilogue-examples --features emulated,te --bin deploy -- make kernels.bundle`, then
//! `EPILOGUE_NVRTC=none EPILOGUE_CACHE=off cargo run … --bin deploy -- run kernels.bundle`: the second command shows
//! that nothing is compiled. Without arguments it does both, one after the other.

#![allow(clippy::print_stdout, reason = "an example prints")]

use epilogue::bundle::{Builder, Bundle};
use epilogue::prelude::*;
use epilogue::te;
use indicatif::{ProgressBar, ProgressStyle};

/// The service's computation: a layer, and a softmax over its results.
#[epilogue]
fn layer(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
    let d = gelu(accum + bias);
    d
}

const N: usize = 64;
const K: usize = 32;
/// Requests may have any number of rows; kernels are chosen for these numbers.
const ROWS: [usize; 2] = [1, 48];

fn plan(device: &Device, rows: usize) -> Result<Gemm<Layer>, epilogue::Error> {
    Gemm::builder::<Layer>(device).elements(ElementType::F16, ElementType::F16).problem(rows, N, K).plan()
}

struct Softmax {
    x: te::Tensor,
    y: te::Tensor,
    kernel: te::auto::Kernel,
}

impl Softmax {
    fn new(device: &Device) -> Result<Self, te::TeError> {
        let (rows, columns) = (te::var("rows"), te::var("columns"));
        let x = te::placeholder([rows, columns], "x");
        let y = te::ops::softmax(&x, 1)?;
        Ok(Self { kernel: te::auto::build(&[&y])?.build(device)?, x, y })
    }
}

/// Compiles everything that the service runs, for GPUs that need not be here, and for an emulated one.
fn make(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    // How many kernels there will be, only a bundle that has been made knows: so the bar only counts.
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {msg}")?);
    let shown = bar.clone();
    let builder = Builder::new().on_progress(move |progress| {
        shown.set_message(progress.to_string());
        shown.tick();
    });
    for target in
        [builder.target(GpuModel::A100), builder.target(GpuModel::H200), builder.emulated_target(Arch::SM_80)?]
    {
        let softmax = Softmax::new(&target)?;
        for rows in ROWS {
            plan(&target, rows)?;
            softmax.kernel.prepare(&[(&softmax.x, &[rows, N]), (&softmax.y, &[rows, N])])?;
        }
        bar.suspend(|| println!("{target}: {} kernels in all", builder.len()));
    }
    bar.finish_and_clear();
    builder.write(path)?;
    println!("{path}: {} bytes", std::fs::metadata(path)?.len());
    Ok(())
}

/// The service: it compiles nothing.
fn run(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let bundle = Bundle::open(path)?;
    println!("{bundle:?}");
    // A service uses `Device::best`: the GPU, or the CPU, which needs no kernels.
    let (best, reason) = Device::best_with_reason()?;
    bundle.install(&best)?;
    if let Some(reason) = reason {
        println!("no GPU: {reason}; the CPU would run {}", plan(&best, ROWS[0])?.choice());
    }
    // This shows GPU code without a GPU.
    let device = Device::emulated(Arch::SM_80)?;
    bundle.install(&device)?;

    let softmax = Softmax::new(&device)?;
    for rows in ROWS {
        let gemm = plan(&device, rows)?;
        let (a, b) = (device.full::<f16>([rows, K], f16::ONE)?, device.full::<f16>([K, N], f16::ONE)?);
        let bias = device.tensor(&(0..N).map(|i| i as f32 / N as f32).collect::<Vec<_>>(), [N])?;
        let (mut d, mut p) = (device.zeros::<f32>([rows, N])?, device.zeros::<f32>([rows, N])?);
        gemm.run(&a, &b, Layer { bias: &bias, d: &mut d })?;
        softmax.kernel.run_bound(&[(&softmax.x, (&d).into()), (&softmax.y, (&mut p).into())])?;
        let sum: f32 = p.to_vec::<f32>()?[..N].iter().sum();
        println!("{rows} rows: {}; the first row's probabilities sum to {sum:.6}", gemm.choice());
    }
    // Something that the bundle doesn't have is refused by name.
    let other = Gemm::builder::<Layer>(&device).elements(ElementType::BF16, ElementType::BF16).problem(1, N, K).plan();
    match other {
        Err(error) => println!("bf16: {error}"),
        Ok(_) => return Err("the bundle has no kernel for bf16".into()),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", path] => make(path),
        ["run", path] => run(path),
        [] => {
            let path = std::env::temp_dir().join(format!("epilogue-{}.bundle", std::process::id()));
            let path = path.to_str().ok_or("the folder for temporary files has no name in Unicode")?;
            make(path)?;
            let done = run(path);
            std::fs::remove_file(path)?;
            done
        }
        _ => Err("give `make FILE`, `run FILE`, or nothing".into()),
    }
}
