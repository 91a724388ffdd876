//! Groups of rows by the kernels for sm_90a, on the emulated device with the race detector.

use epilogue::gemm::sm90::{Cluster, Raster, Request, Schedule, Staging, Tile};
use epilogue::gemm::{Builder, KernelKey, Major, OperandLayout, SplitK, rows};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, Error};
use epilogue_runtime::ptx_vm::Completion;
use epilogue_runtime::testing;
use half::f16;

use crate::groups::{Pin, all_groups, groups_are_separate_runs, rough, wrong_bounds};
use crate::hopper::{alone, device};

/// Several rings of operands around; tiles of both schedules, swapped, in clusters along M and N, with rasters in which a
/// group's tiles don't fill one.
fn requests() -> Vec<Request> {
    let together = alone(64, 32, Schedule::Cooperative);
    let in_turns = alone(64, 64, Schedule::PingPong);
    // Blocks of a cluster share boxes of 64 columns.
    let clustered = alone(128, 128, Schedule::Cooperative);
    vec![
        Request { swap_ab: Some(false), stages: Some(3), ..together },
        Request { swap_ab: Some(false), raster: Some(Raster { group: 1, along_n: true }), ..in_turns },
        Request { swap_ab: Some(true), ..alone(64, 8, Schedule::Cooperative) },
        Request { swap_ab: Some(true), ..in_turns },
        Request { swap_ab: Some(false), cluster: Some(Cluster { m: 2, n: 1 }), ..clustered },
        Request { swap_ab: Some(false), cluster: Some(Cluster { m: 2, n: 2 }), ..clustered },
    ]
}

#[test]
fn the_bits_are_those_of_separate_runs() -> Result<(), Error> {
    if testing::compiler("groups_sm90::the_bits_are_those_of_separate_runs").is_none() {
        return Ok(());
    }
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Lazy, Completion::Random][i % 2], i as u64);
        let Tile { rows, columns, .. } = request.tile.expect("a tile");
        let m = if request.swap_ab == Some(true) { columns } else { rows };
        let pin = Pin::Sm90(request);
        groups_are_separate_runs(&device, &[7, 0, 1, m, 0], 24, pin)?;
        groups_are_separate_runs(&device, &[0, m + 1, 1, 3 * m - 1], 264, pin)?;
        groups_are_separate_runs(&device, &[0, 0], 24, pin)?;
    }
    let device = device(Completion::Eager, 1);
    let many: Vec<usize> = (0..384).map(|g| [0, 0, 1, 0, 0, 0, 0, 0][g % 8]).collect();
    groups_are_separate_runs(&device, &many, 24, Pin::Sm90(requests()[2]))
}

#[test]
fn reductions_over_all_groups() -> Result<(), Error> {
    if testing::compiler("groups_sm90::reductions_over_all_groups").is_none() {
        return Ok(());
    }
    for (i, request) in requests().into_iter().enumerate() {
        all_groups(&device(Completion::Random, i as u64), Some(Pin::Sm90(request)))?;
    }
    Ok(())
}

#[test]
fn wrong_bounds_are_reported_and_harmless() -> Result<(), Error> {
    if testing::compiler("groups_sm90::wrong_bounds_are_reported_and_harmless").is_none() {
        return Ok(());
    }
    wrong_bounds(&device(Completion::Random, 1), Some(Pin::Sm90(requests()[0])))
}

#[epilogue]
fn gated(gate: Accum, up: Accum, c: Tensor, bias: RowVector, sums: TensorMut<f32>) -> (Tensor, TensorMut<f32>) {
    let d = silu(gate + bias) * up + c;
    sums += d;
    (d, sums)
}

/// Two accumulators, and two tensors against the reference: one in boxes that have rows of other groups, too, and one
/// in place; with counts, and one plan for other numbers of groups and more rows.
#[test]
fn two_accumulators_and_tensors_in_place() -> Result<(), Error> {
    if testing::compiler("groups_sm90::two_accumulators_and_tensors_in_place").is_none() {
        return Ok(());
    }
    let staging = Some(Staging { step: 16, output_stages: 1, input_stages: 2 });
    for (i, request) in [
        Request { swap_ab: Some(false), staging, ..alone(64, 128, Schedule::Cooperative) },
        Request { swap_ab: Some(false), cluster: Some(Cluster { m: 2, n: 1 }), ..alone(64, 128, Schedule::PingPong) },
    ]
    .into_iter()
    .enumerate()
    {
        let device = device(Completion::Random, i as u64);
        let builder = Gemm::builder::<Gated>(&device).elements(ElementType::F16, ElementType::F16);
        let layout = OperandLayout::packed(Major::K);
        let gemm = builder
            .problem(64, 40, 64)
            .padded_groups(2)
            .layouts(layout, OperandLayout::packed(Major::Mn))
            .multiprocessors(4)
            .sm90(request)
            .plan()?;
        for (counts, most) in [(&[70, 0, 33][..], 75), (&[1], 1), (&[64, 64], 64)] {
            let (groups, n, k) = (counts.len(), 40, 72);
            let bounds: Vec<i32> = counts.to_vec();
            let bounds = device.tensor(&bounds, [groups])?;
            let (a, b) = (rough(&device, &[groups, most, k], 1)?, rough(&device, &[2, groups, k, n], 2)?);
            let half = |i: usize| b.slice(0, i..i + 1).and_then(|b| b.reshape([groups, k, n]));
            let (gate, up, left) = (half(0)?, half(1)?, rows(&a).in_groups_of(&bounds));
            let (c, bias) = (rough(&device, &[groups, most, n], 3)?, rough(&device, &[groups, n], 4)?);
            let mut d = device.full::<f16>([groups, most, n], f16::ONE)?;
            let mut sums = device.full::<f32>([groups, most, n], 2.0)?;
            let expected =
                gemm.reference(left, [&gate, &up], Gated { c: &c, bias: &bias, sums: &mut sums, d: &mut d })?;
            gemm.run(left, [&gate, &up], Gated { c: &c, bias: &bias, sums: &mut sums, d: &mut d })?;
            expected.compare("d", &d)?.check()?;
            expected.compare("sums", &sums)?.check()?;
        }
    }
    Ok(())
}

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

/// A launch has shared memory for the table of its groups; where that is too large, a kernel for sm_80 runs.
#[test]
fn one_plan_takes_any_number_of_groups() -> Result<(), Error> {
    if testing::compiler("groups_sm90::one_plan_takes_any_number_of_groups").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let (a, b, mut d) = (rough(&device, &[8, 64], 1)?, rough(&device, &[64, 64], 2)?, device.zeros::<f16>([8, 64])?);
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(8, 64, 64);
    let along_n = OperandLayout::packed(Major::Mn);
    let gemm = builder.groups(2).layouts(OperandLayout::packed(Major::K), along_n).sm90(requests()[0]).plan()?;
    let mut described = |groups: usize| {
        let ends = device.full::<i32>([groups], 8)?;
        gemm.describe_launch(rows(&a).in_groups_to(&ends), &b, &[Argument::Output(&mut d)])
    };
    let [two, many, too_many] = [2, 1000, 30_000].map(&mut described);
    let (two, many, too_many) = (two?, many?, too_many?);
    assert_eq!(many.launch.shared_bytes - two.launch.shared_bytes, 998 * 8);
    assert!(two.maps.len() == 3 && many.entry == two.entry);
    assert!(too_many.maps.is_empty() && too_many.launch.shared_bytes < two.launch.shared_bytes, "{too_many:?}");
    Ok(())
}

/// The model takes a kernel of either family; what those for sm_90a don't have is refused by name, and computed by the
/// others where nobody asked.
#[test]
fn what_they_do_not_have() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    let of = || Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16).problem(65536, 1536, 2048);
    let family = |builder: Builder<Plain>| Ok::<_, Error>(builder.choose()?.kernel().map(|kernel| kernel.key.family()));
    let choice = of().groups(128).choose()?.to_string();
    assert!(choice.contains("wgmma") && choice.contains("groups of rows"), "{choice}");
    let Some(KernelKey::Sm90(few)) = of().problem(1024, 1536, 2048).groups(256).choose()?.kernel().map(|k| k.key)
    else {
        panic!("few rows for each are what swapped kernels are for");
    };
    assert!(few.swap_ab, "{few}");
    let along_m = OperandLayout::packed(Major::Mn);
    let others = [of().groups(100_000), of().layouts(along_m, along_m).groups(8)];
    let reasons = ["which has no room for so many", "that is contiguous along K"];
    for (builder, reason) in others.into_iter().zip(reasons) {
        assert_eq!(family(builder.clone())?, Some(Arch::SM_80));
        let refused = builder.sm90(Request::default()).choose().expect_err("there is no such kernel").to_string();
        assert!(refused.contains(reason) && refused.contains("leave the request for one out"), "{refused}");
    }
    let split = of().groups(8).sm90(Request { split_k: Some(SplitK::Stream), ..Request::default() });
    let refused = split.choose().expect_err("there is no such kernel").to_string();
    assert!(refused.contains("products with groups don't split K"), "{refused}");
    Ok(())
}
