//! The CPU device: epilogues that are computed from their own reductions, against the product alone followed by a kernel of
//! tensor expressions over what it stored; and a causal mask by positions against one in memory.
//!
//! It prints ratios of medians of interleaved runs. The products are short, so that what follows them counts.
//! `cargo bench --bench phases -- [words]` runs those whose lines have all of the words.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is a program")]

use std::time::Instant;

use epilogue::DeviceTensor;
use epilogue::prelude::*;
use epilogue::te;
use epilogue_benches::median;

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

/// Future elements are hidden, and not multiplied if a tile has nothing else.
#[epilogue]
fn causal(accum: Accum) -> Tensor {
    let d = if column() > row() { f32::NEG_INFINITY } else { accum };
    d
}

/// Future elements are hidden by a mask in memory.
#[epilogue]
fn masked(accum: Accum, hidden: Tensor<bool>) -> Tensor {
    let d = if hidden { f32::NEG_INFINITY } else { accum };
    d
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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
    // One result in one launch, and by the product and a kernel that reads the stored product.
    let mut against = |name: &str,
                       fused: &mut dyn FnMut() -> Outcome<()>,
                       after: &te::Tensor,
                       scale: Option<(&te::Tensor, &DeviceTensor)>,
                       result: &mut DeviceTensor|
     -> Outcome<()> {
        let title = format!("{m}x{n}x{k} {element} {name}");
        if !std::env::args().skip(1).filter(|word| !word.starts_with('-')).all(|word| title.contains(&word)) {
            return Ok(());
        }
        let kernel = te::auto::build(&[after])?.build(&device)?;
        let [fused, apart] = race(fused, || {
            product.run(&a, &b, Plain { d: &mut t })?;
            let mut bound = vec![(&x, (&t).into())];
            bound.extend(scale.map(|(tensor, memory)| (tensor, memory.into())));
            bound.push((after, (&mut *result).into()));
            Ok(kernel.run_bound(&bound)?)
        })?;
        println!("{title}: fused {fused:.2} ms, apart {apart:.2} ms, apart / fused {:.2}", apart / fused);
        Ok(())
    };

    let fused = Gemm::plan::<Softmax>(&device, &a, &b)?;
    let run = &mut || Ok(fused.run(&a, &b, Softmax { d: &mut d })?);
    against("softmax", run, &te::ops::softmax(&x, 1)?, None, &mut u)?;

    let fused = Gemm::plan::<RmsNorm>(&device, &a, &b)?;
    let run = &mut || Ok(fused.run(&a, &b, RmsNorm { weight: &weight, d: &mut d })?);
    let scale = te::placeholder_of(T::TYPE, [columns], "scale");
    let after = te::ops::rms_norm(&x, 1, Some(&scale), 1e-5)?;
    against("RMSNorm", run, &after, Some((&scale, &weight)), &mut u)?;

    let fused = Gemm::plan::<LogSumExp>(&device, &a, &b)?;
    let run = &mut || Ok(fused.run(&a, &b, LogSumExp { d: &mut v })?);
    against("log-sum-exp", run, &te::ops::logsumexp(&x, 1)?, None, &mut w)?;
    Ok(())
}

/// A causal mask by positions beside one in memory.
fn print_causal([m, n, k]: [usize; 3]) -> Outcome<()> {
    let title = format!("{m}x{n}x{k} f32 causal");
    if !std::env::args().skip(1).filter(|word| !word.starts_with('-')).all(|word| title.contains(&word)) {
        return Ok(());
    }
    let device = Device::cpu();
    let values = |count: usize| (0..count).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.01).collect::<Vec<f32>>();
    let (a, b) = (device.tensor(&values(m * k), [m, k])?, device.tensor(&values(k * n), [k, n])?);
    let hidden = device.tensor(&(0..m * n).map(|i| i % n > i / n).collect::<Vec<_>>(), [m, n])?;
    let (mut d, mut t) = (device.zeros::<f32>([m, n])?, device.zeros::<f32>([m, n])?);
    let (by_positions, by_mask) = (Gemm::plan::<Causal>(&device, &a, &b)?, Gemm::plan::<Masked>(&device, &a, &b)?);
    let [positions, mask] = race(
        || Ok(by_positions.run(&a, &b, Causal { d: &mut d })?),
        || Ok(by_mask.run(&a, &b, Masked { hidden: &hidden, d: &mut t })?),
    )?;
    println!(
        "{title}: by positions {positions:.2} ms, by a mask {mask:.2} ms, mask / positions {:.2}",
        mask / positions
    );
    Ok(())
}

fn main() -> Outcome<()> {
    for shape in [[1024, 1024, 64], [4096, 4096, 64], [2048, 2048, 512]] {
        print_causal(shape)?;
    }
    for shape in [[1024, 1024, 64], [4096, 4096, 64], [2048, 16384, 64], [256, 32000, 64], [4096, 768, 256]] {
        print("f32", shape, |x| x)?;
        print("bf16", shape, bf16::from_f32)?;
    }
    Ok(())
}
