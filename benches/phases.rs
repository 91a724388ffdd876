//! The CPU device: epilogues that are computed from their own reductions, against the product alone followed by a kernel of
//! tensor expressions over what it stored.
//!
//! It prints ratios of medians of interleaved runs. The products are short, so that what follows them counts.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is a program")]

use std::time::Instant;

use epilogue::prelude::*;
use epilogue::te;

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

#[epilogue]
fn softmax(accum: Accum) -> Tensor {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let d = e * recip(reduction_op(e, Row, Add));
    d
}

#[epilogue]
fn rms_norm(accum: Accum, weight: RowVector) -> Tensor {
    let mean = reduction_op(accum, Row, SumSquares) / real(columns());
    let d = accum * rsqrt(mean + 1e-5) * weight;
    d
}

#[epilogue]
fn log_sum_exp(accum: Accum) -> ColumnVector {
    let largest = reduction_op(accum, Row, Max);
    let d = largest + log(reduction_op(exp(accum - largest), Row, Add));
    d
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Medians of both, run in turns.
fn race(mut first: impl FnMut() -> Outcome<()>, mut second: impl FnMut() -> Outcome<()>) -> Outcome<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        for (contender, times) in
            [&mut first as &mut dyn FnMut() -> Outcome<()>, &mut second].into_iter().zip(&mut times)
        {
            let start = Instant::now();
            contender()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times.map(median))
}

fn print<T: Element>(element: &str, [m, n, k]: [usize; 3], convert: fn(f32) -> T) -> Outcome<()> {
    let device = Device::cpu();
    let values = |count: usize| (0..count).map(|i| convert(((i * 37 % 101) as f32 - 50.0) * 0.01)).collect::<Vec<T>>();
    let (a, b) = (device.tensor(&values(m * k), [m, k])?, device.tensor(&values(k * n), [k, n])?);
    let weight = device.tensor(&values(n), [n])?;
    let (mut d, mut t, mut u) = (device.zeros::<T>([m, n])?, device.zeros::<T>([m, n])?, device.zeros::<T>([m, n])?);
    let (mut v, mut w) = (device.zeros::<T>([m])?, device.zeros::<T>([m])?);
    let product = Gemm::plan::<Plain>(&device, &a, &b)?;
    let columns = te::var("n");
    let x = te::placeholder_of(T::TYPE, [te::var("m"), columns], "x");
    let line = |name: &str, [fused, apart]: [f64; 2]| {
        println!(
            "{m}x{n}x{k} {element} {name}: fused {fused:.2} ms, apart {apart:.2} ms, apart / fused {:.2}",
            apart / fused
        );
    };

    let fused = Gemm::plan::<Softmax>(&device, &a, &b)?;
    let after = te::ops::softmax(&x, 1)?;
    let kernel = te::auto::build(&[&after])?.build(&device)?;
    let times = race(
        || Ok(fused.run(&a, &b, Softmax { d: &mut d })?),
        || {
            product.run(&a, &b, Plain { d: &mut t })?;
            Ok(kernel.run_bound(&[(&x, (&t).into()), (&after, (&mut u).into())])?)
        },
    )?;
    line("softmax", times);

    let fused = Gemm::plan::<RmsNorm>(&device, &a, &b)?;
    let scale = te::placeholder_of(T::TYPE, [columns], "scale");
    let after = te::ops::rms_norm(&x, 1, Some(&scale), 1e-5)?;
    let kernel = te::auto::build(&[&after])?.build(&device)?;
    let times = race(
        || Ok(fused.run(&a, &b, RmsNorm { weight: &weight, d: &mut d })?),
        || {
            product.run(&a, &b, Plain { d: &mut t })?;
            Ok(kernel.run_bound(&[(&x, (&t).into()), (&scale, (&weight).into()), (&after, (&mut u).into())])?)
        },
    )?;
    line("RMSNorm", times);

    let fused = Gemm::plan::<LogSumExp>(&device, &a, &b)?;
    let after = te::ops::logsumexp(&x, 1)?;
    let kernel = te::auto::build(&[&after])?.build(&device)?;
    let times = race(
        || Ok(fused.run(&a, &b, LogSumExp { d: &mut v })?),
        || {
            product.run(&a, &b, Plain { d: &mut t })?;
            Ok(kernel.run_bound(&[(&x, (&t).into()), (&after, (&mut w).into())])?)
        },
    )?;
    line("log-sum-exp", times);
    Ok(())
}

fn main() -> Outcome<()> {
    for shape in [[1024, 1024, 64], [4096, 4096, 64], [2048, 16384, 64], [256, 32000, 64], [4096, 768, 256]] {
        print("f32", shape, |x| x)?;
        print("bf16", shape, bf16::from_f32)?;
    }
    Ok(())
}
