//! One GEMM with a fused epilogue on the best device, checked against the f64 reference.
//!
//! `cargo run --release -p epilogue-examples [--features cuda] [-- M N K]`

#![allow(clippy::print_stdout)]

use epilogue::prelude::*;

/// D = alpha * A·B + tanh(beta * C), and the sum of every row of D.
#[epilogue]
fn row_reduction(accum: Accum, c: Tensor, alpha: Scalar, beta: Scalar) -> (Tensor, ColumnVector) {
    let d = alpha * accum + tanh(beta * c);
    let reduction = reduction_op(d, Row, Add);
    (d, reduction)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [m, n, k] = shape()?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut normal = |len: usize, scale: f64| -> Vec<f16> {
        (0..len).map(|_| f16::from_f64(scale * gaussian(&mut random))).collect()
    };
    // Entries of A·B are then standard normal.
    let (a_host, b_host, c_host) =
        (normal(m * k, 1.0), normal(k * n, 1.0 / (k.max(1) as f64).sqrt()), normal(m * n, 1.0));

    let (device, reason) = Device::best_with_reason()?;
    println!("device: {device}");
    if let Some(reason) = reason {
        println!("(no GPU: {reason})");
    }
    let a = device.tensor(&a_host, [m, k])?;
    let b = device.tensor(&b_host, [k, n])?;
    let c = device.tensor(&c_host, [m, n])?;
    let mut d = device.zeros::<f16>([m, n])?;
    let mut reduction = device.zeros::<f32>([m])?;

    let gemm = Gemm::plan::<RowReduction>(&device, &a, &b)?;
    println!("\n{}", gemm.tree());
    println!("choice: {}", gemm.choice());

    gemm.run(&a, &b, RowReduction { alpha: 1.0, beta: 0.5, c: &c, d: &mut d, reduction: &mut reduction })?;

    let start = std::time::Instant::now();
    gemm.run(&a, &b, RowReduction { alpha: 1.0, beta: 0.5, c: &c, d: &mut d, reduction: &mut reduction })?;
    device.default_stream().synchronize()?;
    let seconds = start.elapsed().as_secs_f64();
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    println!("{m} x {n} x {k}: {:.3} ms, {:.1} GFLOP/s", seconds * 1e3, flops / seconds / 1e9);

    let expected =
        gemm.reference(&a, &b, RowReduction { alpha: 1.0, beta: 0.5, c: &c, d: &mut d, reduction: &mut reduction })?;
    for (name, actual) in [("d", &d), ("reduction", &reduction)] {
        println!("{}", expected.compare(name, actual)?.check()?);
    }
    Ok(())
}

/// M, N and K from the command line, 512 each if none are given.
fn shape() -> Result<[usize; 3], Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => Ok([512; 3]),
        [m, n, k] => Ok([extent(m)?, extent(n)?, extent(k)?]),
        _ => Err("usage: quickstart [M N K]".into()),
    }
}

fn extent(text: &str) -> Result<usize, String> {
    let limit = 1 << 16;
    match text.parse() {
        Ok(extent) if extent <= limit => Ok(extent),
        _ => Err(format!("M, N and K are numbers up to {limit}; {text} was given")),
    }
}

/// A standard normal number (Box and Muller).
fn gaussian(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}
