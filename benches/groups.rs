//! The CPU device: a product with groups of rows, against one run for each group.
//!
//! It prints ratios of medians of runs in turns, beside the time of one dense product of all rows.

#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark is a program")]

use std::time::Instant;

use epilogue::DeviceTensor;
use epilogue::gemm::rows;
use epilogue::prelude::*;
use epilogue_benches::median;

#[epilogue]
fn layer(accum: Accum, bias: RowVector) -> Tensor {
    let d = relu(accum + bias);
    d
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A product of its own, with what a group has.
struct Part {
    gemm: Gemm<Layer>,
    a: DeviceTensor,
    b: DeviceTensor,
    bias: DeviceTensor,
    d: DeviceTensor,
}

impl Part {
    fn new(device: &Device, a: DeviceTensor, b: DeviceTensor, bias: DeviceTensor, d: DeviceTensor) -> Outcome<Self> {
        Ok(Self { gemm: Gemm::plan::<Layer>(device, &a, &b)?, a, b, bias, d })
    }

    fn run(&mut self) -> Outcome<()> {
        let Self { gemm, a, b, bias, d } = self;
        Ok(gemm.run(&*a, &*b, Layer { bias, d })?)
    }
}

/// Milliseconds.
fn time(run: &mut dyn FnMut() -> Outcome<()>) -> Outcome<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Groups of these numbers of rows.
fn measure(device: &Device, counts: &[usize], [n, k]: [usize; 2]) -> Outcome<()> {
    let (groups, all) = (counts.len(), counts.iter().sum());
    let mut offsets = vec![0];
    counts.iter().for_each(|count| offsets.push(offsets[offsets.len() - 1] + count));
    let bounds: Vec<i32> = offsets.iter().map(|offset| i32::try_from(*offset)).collect::<Result<_, _>>()?;
    let bounds = device.tensor(&bounds, [bounds.len()])?;
    let (a, b) = (device.full::<f32>([all, k], 0.5)?, device.full::<f32>([groups, k, n], 0.25)?);
    let (bias, mut d) = (device.full::<f32>([groups, n], 0.125)?, device.zeros::<f32>([all, n])?);
    let of_group = |g: usize| -> Outcome<(DeviceTensor, DeviceTensor)> {
        let (b, bias) = (b.slice(0, g..g + 1)?.reshape([k, n])?, bias.slice(0, g..g + 1)?.reshape([n])?);
        Ok((b, bias))
    };
    let mut parts = Vec::new();
    for (g, own) in offsets.windows(2).enumerate() {
        let ((b, bias), own) = (of_group(g)?, own[0]..own[1]);
        parts.push(Part::new(device, a.slice(0, own.clone())?, b, bias, d.slice(0, own)?)?);
    }
    let (first, first_bias) = of_group(0)?;
    let mut dense = Part::new(device, a.clone(), first, first_bias, device.zeros::<f32>([all, n])?)?;
    let left = rows(&a).in_groups(&bounds);
    let gemm = Gemm::plan::<Layer>(device, left, &b)?;
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..15 {
        times[0].push(time(&mut || Ok(gemm.run(left, &b, Layer { bias: &bias, d: &mut d })?))?);
        times[1].push(time(&mut || parts.iter_mut().try_for_each(Part::run))?);
        times[2].push(time(&mut || dense.run())?);
    }
    let [grouped, each, dense] = times.map(median);
    let most = counts.iter().max().copied().unwrap_or(0);
    println!(
        "{groups} groups of up to {most} rows, N {n}, K {k}: {grouped:.3} ms, {:.3} of a run for each, {:.3} of the dense \
         product of all rows by one B",
        grouped / each,
        grouped / dense
    );
    Ok(())
}

fn main() -> Outcome<()> {
    let device = Device::cpu();
    let skewed = |groups: usize, rows: usize| -> Vec<usize> { (0..groups).map(|g| g % 5 * rows / 2).collect() };
    measure(&device, &[512; 8], [512, 512])?;
    measure(&device, &skewed(64, 32), [512, 512])?;
    measure(&device, &[4; 64], [1024, 1024])?;
    measure(&device, &[1; 384], [512, 512])
}
