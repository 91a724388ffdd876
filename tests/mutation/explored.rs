//! The kernels of every family in several schedules each: copies complete at once, as late as possible and at random;
//! warps take turns at random; strong reads see older values. Whatever the race detector finds is wrong, and so is a
//! wrong result.

use epilogue::gemm::{Finish, depth, rows, scaled, sm90};
use epilogue::prelude::*;
use epilogue::{DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Options, explore};
use epilogue_runtime::{Arch, testing};
use half::f16;

use crate::trial::INSTRUCTIONS;

/// The schedules of each kernel: one of each kind.
const SCHEDULES: u32 = 4;

/// Rough numbers, so that sums depend on their order.
pub(crate) fn rough(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let value = |i: usize| f16::from_f32(((i + seed * 977) as f32 * 0.618_034).fract() - 0.5);
    Ok(device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)?)
}

#[epilogue]
fn expert(accum: Accum, bias: RowVector) -> (Tensor, RowVector) {
    let d = relu(accum + bias);
    let sums = reduction_op(d, Column, Add);
    (d, sums)
}

/// Three groups of rows, one of them empty, and rows of none.
fn groups_of_rows(device: &Device) -> Result<(), Error> {
    let (a, b, bias) = (rough(device, &[90, 40], 1)?, rough(device, &[3, 40, 24], 2)?, rough(device, &[3, 24], 3)?);
    let ends = device.tensor(&[5i32, 5, 88], [3])?;
    let left = rows(&a).in_groups_to(&ends);
    let gemm = Gemm::plan::<Expert>(device, left, &b)?;
    let (mut d, mut sums) = (device.zeros::<f16>([90, 24])?, device.zeros::<f32>([3, 24])?);
    let expected = gemm.reference(left, &b, Expert { bias: &bias, d: &mut d, sums: &mut sums })?;
    gemm.run(left, &b, Expert { bias: &bias, d: &mut d, sums: &mut sums })?;
    expected.compare("d", &d)?.check()?;
    expected.compare("sums", &sums)?.check()?;
    Ok(())
}

#[epilogue]
fn gradient(accum: Accum) -> Tensor<f32> {
    let dw = 0.5 * accum;
    dw
}

fn groups_of_k(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[100, 40], 1)?.transpose()?, rough(device, &[100, 24], 2)?);
    let ends = device.tensor(&[33i32, 33, 98], [3])?;
    let left = depth(&a).in_groups_to(&ends);
    let gemm = Gemm::plan::<Gradient>(device, left, &b)?;
    let mut dw = device.zeros::<f32>([3, 40, 24])?;
    let expected = gemm.reference(left, &b, Gradient { dw: &mut dw })?;
    gemm.run(left, &b, Gradient { dw: &mut dw })?;
    expected.compare("dw", &dw)?.check()?;
    Ok(())
}

#[epilogue]
fn softmax(accum: Accum) -> (Tensor, ColumnVector) {
    let e = exp(accum - reduction_op(accum, Row, Max));
    let sum = reduction_op(e, Row, Add);
    let d = e / sum;
    (d, sum)
}

/// An epilogue of several phases, in launches that overlap.
fn phases(device: &Device) -> Result<(), Error> {
    let (a, b) = (rough(device, &[70, 72], 1)?, rough(device, &[72, 136], 2)?);
    let builder = Gemm::builder::<Softmax>(device).operands(&a, &b)?;
    let gemm = builder.finish(Finish::SecondLaunch).plan()?;
    let (mut d, mut sum) = (device.zeros::<f16>([70, 136])?, device.zeros::<f32>([70])?);
    let expected = gemm.reference(&a, &b, Softmax { d: &mut d, sum: &mut sum })?;
    gemm.run(&a, &b, Softmax { d: &mut d, sum: &mut sum })?;
    expected.compare("d", &d)?.check()?;
    expected.compare("sum", &sum)?.check()?;
    Ok(())
}

#[epilogue]
fn layer(accum: Accum, bias: RowVector<f32>) -> Tensor<f32> {
    let d = accum + bias;
    d
}

/// FP8 with a scale for each block, by the device's own family.
fn block_scales(device: &Device) -> Result<(), Error> {
    let (m, n, k) = (40, 140, 400);
    let fp8 = |shape: [usize; 2], seed: usize| {
        let value = |i: usize| f8e4m3::from_f32(((i + seed * 977) as f32 * 0.618_034).fract() - 0.5);
        device.tensor(&(0..shape[0] * shape[1]).map(value).collect::<Vec<_>>(), shape)
    };
    let numbers = |shape: &[usize]| {
        let value = |i: usize| ((i * 7 + 3) as f32 * 0.618_034).fract();
        device.tensor(&(0..shape.iter().product()).map(value).collect::<Vec<_>>(), shape)
    };
    let (a, b) = (fp8([m, k], 1)?, fp8([n, k], 2)?.transpose()?);
    let (of_a, of_b, bias) = (numbers(&[m, 4])?, numbers(&[4, 2])?, numbers(&[n])?);
    let (left, right) = (scaled(&a, &of_a), scaled(&b, &of_b));
    let builder = Gemm::builder::<Layer>(device).operands(left, right)?;
    let on_sm90 = device.arch() == Some(Arch::SM_90A);
    let gemm = if on_sm90 { builder.sm90(sm90::Request::default()) } else { builder }.plan()?;
    let mut d = device.zeros::<f32>([m, n])?;
    let expected = gemm.reference(left, right, Layer { bias: &bias, d: &mut d })?;
    gemm.run(left, right, Layer { bias: &bias, d: &mut d })?;
    expected.compare("d", &d)?.check()?;
    Ok(())
}

/// The copy of a transposed view.
fn copies(device: &Device) -> Result<(), Error> {
    let (m, n) = (70, 45);
    let values: Vec<i32> = (0..(m * n) as i32).collect();
    let found = device.tensor(&values, [m, n])?.transpose()?.contiguous()?.to_vec::<i32>()?;
    let expected: Vec<i32> = (0..n).flat_map(|j| (0..m).map(move |i| (i * n + j) as i32)).collect();
    assert!(found == expected, "a copy on {device}");
    Ok(())
}

/// Runs a kernel and compares.
type Trial<'t> = Box<dyn Fn(&Device) -> Result<(), String> + Sync + 't>;

/// A family, and what runs its kernel and compares.
type Family = (&'static str, fn(&Device) -> Result<(), Error>);

/// The families that have no mutants.
const OTHERS: [Family; 5] = [
    ("groups of rows", groups_of_rows),
    ("groups of K", groups_of_k),
    ("block scales", block_scales),
    ("phases", phases),
    ("copies", copies),
];

/// The first mistake in any of the schedules.
fn wrong(name: &str, arch: Arch, seed: u64, trial: &Trial<'_>) -> Option<String> {
    // Each kernel has seeds of its own.
    let options = Options::default().instruction_limit(INSTRUCTIONS).seed(seed * u64::from(SCHEDULES));
    let exploration = explore(SCHEDULES, &options, |options| {
        let device = Device::emulated_with(arch, options.clone());
        let tried = device.map_err(|error| error.to_string()).and_then(|device| trial(&device));
        tried.err().into_iter().collect()
    });
    let (error, schedule) = exploration.first?;
    Some(format!("{name}: {} of {SCHEDULES} schedules, one of them {schedule:?}: {error}", exploration.found[&error]))
}

#[test]
fn every_kernel_family_is_right_in_every_schedule() {
    if testing::compiler("every_kernel_family_is_right_in_every_schedule").is_none() {
        return;
    }
    let subjects = crate::subjects();
    let mut trials: Vec<(String, Arch, Trial<'_>)> = Vec::new();
    for subject in &subjects {
        let trial = move |device: &Device| subject.run(device).map_err(|(_, error)| error);
        trials.push((subject.name(), subject.arch(), Box::new(trial)));
    }
    for (name, trial) in OTHERS {
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let trial = move |device: &Device| trial(device).map_err(|error| error.to_string());
            trials.push((format!("{name}, {arch}"), arch, Box::new(trial)));
        }
    }
    let found = crate::on_all_cores(trials.len(), |number| {
        let (name, arch, trial) = &trials[number];
        wrong(name, *arch, number as u64, trial)
    });
    let found: Vec<String> = found.into_iter().flatten().collect();
    assert!(found.is_empty(), "{} of {} kernels:\n{}", found.len(), trials.len(), found.join("\n"));
}
