//! Groups of K, made by hand: on the CPU and by the kernels of both families, on emulated devices with the race detector.

use epilogue::gemm::launch::{FieldValue, Memory};
use epilogue::gemm::sm90::{Cluster, Raster, Request, Schedule, Staging};
use epilogue::gemm::{Arithmetic, Builder, Divided, KernelKey, Major, OperandLayout, SplitK, depth, rows};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DataError, DeviceTensor, Error, runtime};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;
use half::f16;

use crate::groups::{Pin, rough, tile as smallest_tile};
use crate::hopper::{alone, device};

/// The gradient of weights beside one from elsewhere, with a statistic of every kind.
#[epilogue]
fn gradient(
    accum: Accum,
    scale: Scalar,
    c: Tensor,
    bias: RowVector,
) -> (Tensor<f32>, ColumnVector, RowVector, DeviceScalar) {
    let dw = scale * accum + c + bias;
    let rows = reduction_op(dw, Row, Add);
    let columns = reduction_op(dw, Column, Add);
    let largest = reduction_op(dw, All, AbsMax);
    (dw, rows, columns, largest)
}

/// Rough numbers, one row for each index of K, which lie as an operand of this major does; infinities where `infinite`.
fn operand(
    device: &Device,
    [k, extent]: [usize; 2],
    seed: usize,
    major: Major,
    infinite: impl Fn(usize) -> bool,
) -> Result<DeviceTensor, Error> {
    let value = |place: usize| {
        let (i, j) = if major == Major::Mn { (place / extent, place % extent) } else { (place % k, place / k) };
        let rough = ((i * extent + j + seed * 977) as f32 * 0.618_034).fract() - 0.5;
        if infinite(i) { f16::INFINITY } else { f16::from_f32(rough) }
    };
    let values: Vec<f16> = (0..k * extent).map(value).collect();
    match major {
        Major::Mn => Ok(device.tensor(&values, [k, extent])?),
        Major::K => Ok(device.tensor(&values, [extent, k])?.transpose()?),
    }
}

/// Parts of K: the length of each, and the part of infinities. Elements before the first part and behind the last are
/// always infinite.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    lengths: &'a [usize],
    infinite: Option<usize>,
}

const fn parts(lengths: &[usize]) -> Parts<'_> {
    Parts { lengths, infinite: None }
}

/// The bits of a run for each part, with the same tile.
fn parts_are_separate_runs(
    device: &Device,
    parts: Parts<'_>,
    [m, n]: [usize; 2],
    major: Major,
    pin: Pin,
) -> Result<(), Error> {
    let (before, groups) = (3, parts.lengths.len());
    let mut offsets = vec![before];
    parts.lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
    let k = offsets[groups] + 2;
    let infinite = |i: usize| {
        let of = parts.infinite.map_or(0..0, |g| offsets[g]..offsets[g + 1]);
        i < before || i >= offsets[groups] || of.contains(&i)
    };
    let a = operand(device, [k, m.next_multiple_of(8)], 1, major, infinite)?.transpose()?.slice(0, 0..m)?;
    let b = operand(device, [k, n], 2, major, infinite)?;
    let (c, bias) = (rough(device, &[groups, m, n], 3)?, rough(device, &[groups, n], 4)?);
    let bounds: Vec<i32> = offsets.iter().map(|offset| *offset as i32).collect();
    let bounds = device.tensor(&bounds, [bounds.len()])?;
    let outputs = |groups: &[usize]| {
        let shapes = [&[m, n][..], &[m], &[n], &[]].map(|own| groups.iter().chain(own).copied().collect::<Vec<_>>());
        let made: Vec<DeviceTensor> =
            shapes.into_iter().map(|shape| device.full::<f32>(shape, 77.0)).collect::<Result<_, _>>()?;
        Ok::<[DeviceTensor; 4], Error>(made.try_into().expect("four"))
    };
    let left = depth(&a).in_groups(&bounds);
    let gemm = pin.on(Gemm::builder::<Gradient>(device).operands(left, &b)?).plan()?;
    let mut all = outputs(&[groups])?;
    let [dw, rows, columns, largest] = &mut all;
    gemm.run(left, &b, Gradient { scale: 0.75, c: &c, bias: &bias, dw, rows, columns, largest })?;
    for (g, own) in offsets.windows(2).enumerate() {
        let (a, b) = (a.slice(1, own[0]..own[1])?, b.slice(0, own[0]..own[1])?);
        let (c, bias) = (c.slice(0, g..g + 1)?.reshape([m, n])?, bias.slice(0, g..g + 1)?.reshape([n])?);
        let mut one = outputs(&[])?;
        let alone = pin.on(Gemm::builder::<Gradient>(device).operands(&a, &b)?).plan()?;
        let [dw, rows, columns, largest] = &mut one;
        alone.run(&a, &b, Gradient { scale: 0.75, c: &c, bias: &bias, dw, rows, columns, largest })?;
        for (of_all, one) in all.iter().zip(&one) {
            let same = of_all.slice(0, g..g + 1)?.to_bytes()? == one.to_bytes()?;
            assert!(same, "{parts:?} {g}, {major:?}: {}\n{}", gemm.choice(), alone.choice());
        }
    }
    Ok(())
}

#[test]
fn the_bits_are_those_of_separate_runs() -> Result<(), Error> {
    let pin = Pin::Tile(smallest_tile());
    let of = |device: &Device, lengths: &[usize], major| {
        parts_are_separate_runs(device, parts(lengths), [37, 40], major, pin)
    };
    for lengths in [&[0][..], &[9, 0, 1, 70], &[0, 33, 0]] {
        of(&Device::cpu(), lengths, Major::Mn)?;
        of(&Device::cpu(), lengths, Major::K)?;
    }
    if testing::compiler("depth::the_bits_are_those_of_separate_runs").is_none() {
        return Ok(());
    }
    let device = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?;
    for lengths in [&[9, 0, 1, 70][..], &[0, 33, 0]] {
        of(&device, lengths, Major::Mn)?;
        of(&device, lengths, Major::K)?;
    }
    let infinite = Parts { lengths: &[40, 7, 33], infinite: Some(1) };
    parts_are_separate_runs(&device, infinite, [37, 40], Major::Mn, pin)?;
    let many: Vec<usize> = (0..40).map(|g| [0, 2, 17][g % 3]).collect();
    of(&device, &many, Major::Mn)
}

/// Rings that wrap around within a part and at its end, tiles of both schedules, swapped, in clusters along M and N.
fn requests() -> Vec<Request> {
    let together = alone(64, 32, Schedule::Cooperative);
    let in_turns = alone(64, 64, Schedule::PingPong);
    // Blocks of a cluster share boxes of 64 columns.
    let clustered = alone(128, 128, Schedule::Cooperative);
    vec![
        Request { swap_ab: Some(false), stages: Some(2), ..together },
        Request { swap_ab: Some(false), stages: Some(3), raster: Some(Raster { group: 1, along_n: true }), ..in_turns },
        Request { swap_ab: Some(true), ..alone(64, 8, Schedule::Cooperative) },
        Request { swap_ab: Some(true), stages: Some(3), ..in_turns },
        Request { swap_ab: Some(false), stages: Some(2), cluster: Some(Cluster { m: 2, n: 1 }), ..clustered },
        Request { swap_ab: Some(false), stages: Some(3), cluster: Some(Cluster { m: 2, n: 2 }), ..clustered },
    ]
}

/// Parts end anywhere, beside neighbours of infinities; empty ones are at the beginning, at the end, or everywhere.
#[test]
fn on_sm90_the_bits_are_those_of_separate_runs() -> Result<(), Error> {
    if testing::compiler("depth::on_sm90_the_bits_are_those_of_separate_runs").is_none() {
        return Ok(());
    }
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Lazy, Completion::Random][i % 2], i as u64);
        let extents = if i < 4 { [37, 40] } else { [150, 136] };
        let of = |lengths: &[usize], infinite, major| {
            parts_are_separate_runs(&device, Parts { lengths, infinite }, extents, major, Pin::Sm90(request))
        };
        of(&[0, 9, 0, 1, 70, 0], None, Major::Mn)?;
        of(&[64, 63, 65, 128, 1, 200, 127], Some(1), Major::Mn)?;
        of(&[0, 0], None, Major::Mn)?;
        if i % 3 == 0 {
            of(&[5, 64, 67], Some(2), Major::K)?;
        }
    }
    let device = device(Completion::Eager, 1);
    let many: Vec<usize> = (0..220).map(|g| [0, 1, 3, 0, 0, 66][g % 6]).collect();
    parts_are_separate_runs(&device, parts(&many), [37, 40], Major::Mn, Pin::Sm90(requests()[2]))
}

#[epilogue]
fn accumulate(accum: Accum, dw: TensorMut<f32>) -> (TensorMut<f32>, RowVector, DeviceScalar) {
    dw += accum;
    let columns = reduction_op(dw, (Column, Batch), Add);
    let largest = reduction_op(dw, (All, Batch), AbsMax);
    (dw, columns, largest)
}

/// The results of one plan for a K of this extent, and bounds.
fn accumulated(gemm: &Gemm<Accumulate>, extent: usize, offsets: &[i32]) -> Result<[DeviceTensor; 3], Error> {
    let (device, groups) = (gemm.device(), offsets.len() - 1);
    let (a, b) = (rough(device, &[extent, 40], 1)?.transpose()?, rough(device, &[extent, 72], 2)?);
    let offsets = device.tensor(offsets, [offsets.len()])?;
    let mut dw = device.full::<f32>([groups, 40, 72], 1.0)?;
    let (mut columns, mut largest) = (device.zeros::<f32>([72])?, device.zeros::<f32>([])?);
    gemm.run(
        depth(&a).in_groups(&offsets),
        &b,
        Accumulate { dw: &mut dw, columns: &mut columns, largest: &mut largest },
    )?;
    Ok([dw, columns, largest])
}

fn values(results: &[DeviceTensor; 3]) -> Result<Vec<f32>, Error> {
    let all = results.iter().map(DeviceTensor::to_vec::<f32>).collect::<Result<Vec<_>, _>>()?;
    Ok(all.concat())
}

fn plan_of_accumulate(device: &Device, pin: Option<Pin>) -> Result<Gemm<Accumulate>, Error> {
    let along = OperandLayout::packed(Major::Mn);
    let builder = Gemm::builder::<Accumulate>(device).elements(ElementType::F16, ElementType::F16);
    let builder = builder.problem(40, 72, 200).depth_groups(3).layouts(along, along);
    pin.map_or(builder.clone(), |pin| pin.on(builder)).plan()
}

/// Bounds that decrease or lie outside are replaced by the nearest that don't, and reported.
#[test]
fn wrong_bounds_are_reported_and_harmless() -> Result<(), Error> {
    if testing::compiler("depth::wrong_bounds_are_reported_and_harmless").is_none() {
        return Ok(());
    }
    let sm80 = Device::emulated_with(Arch::SM_80, Options::default().detector(Detector::On))?;
    for (device, pin) in [(sm80, None), (device(Completion::Random, 1), Some(Pin::Sm90(requests()[1])))] {
        let gemm = plan_of_accumulate(&device, pin)?;
        for (given, taken, is_wrong) in [
            ([0, 5, 90, 200], [0, 5, 90, 200], false),
            ([3, 3, 77, 190], [3, 3, 77, 190], false),
            ([0, 90, 10, 130], [0, 90, 90, 130], true),
            ([-5, 90, 130, 1000], [0, 90, 130, 200], true),
            ([0, 90, i32::MIN, i32::MAX], [0, 90, 90, 200], true),
        ] {
            let expected = values(&accumulated(&gemm, 200, &taken)?)?;
            device.check()?;
            let got = accumulated(&gemm, 200, &given)?;
            match device.check() {
                Ok(()) if !is_wrong => {}
                Err(runtime::Error::Data(DataError::Bound { bound, extent: 200 })) if is_wrong => {
                    assert!(given.iter().any(|given| i64::from(*given) == bound), "{bound}");
                }
                checked => panic!("{given:?}: {checked:?}"),
            }
            // Each has its report, too.
            for tensor in &got {
                let _ = tensor.to_vec::<f32>();
            }
            assert_eq!(values(&got)?, expected, "{given:?}");
        }
    }
    Ok(())
}

/// One plan takes any bounds, K and number of groups, again and again; of no K, or no groups with any, every gradient is of
/// nothing.
#[test]
fn one_plan_takes_any_parts() -> Result<(), Error> {
    if testing::compiler("depth::one_plan_takes_any_parts").is_none() {
        return Ok(());
    }
    let (cpu, device) = (Device::cpu(), device(Completion::Random, 5));
    for request in [requests()[1], requests()[4]] {
        let plans = [plan_of_accumulate(&cpu, None)?, plan_of_accumulate(&device, Some(Pin::Sm90(request)))?];
        for (extent, offsets) in
            [(200, &[0, 5, 90, 200][..]), (300, &[7, 300]), (200, &[0, 5, 90, 200]), (64, &[0; 6]), (0, &[0, 0, 0])]
        {
            let of = |gemm| values(&accumulated(gemm, extent, offsets)?);
            let (expected, got) = (of(&plans[0])?, of(&plans[1])?);
            let close = |(x, y): (&f32, &f32)| (x - y).abs() <= 1e-3 * x.abs().max(1.0);
            assert!(expected.len() == got.len() && expected.iter().zip(&got).all(close), "{extent} {offsets:?}");
        }
    }
    Ok(())
}

#[epilogue]
fn gated(gate: Accum, up: Accum, c: Tensor, sums: TensorMut<f32>) -> (Tensor, TensorMut<f32>) {
    let d = silu(gate) * up + c;
    sums += d;
    (d, sums)
}

/// Two accumulators, a tensor in boxes and one in place, against the reference; bounds are ends, every second of a tensor's
/// elements; with a launch that begins early.
#[test]
fn two_accumulators_and_tensors_in_place() -> Result<(), Error> {
    if testing::compiler("depth::two_accumulators_and_tensors_in_place").is_none() {
        return Ok(());
    }
    let staging = Some(Staging { step: 16, output_stages: 1, input_stages: 2 });
    for (i, request) in [
        Request { swap_ab: Some(false), staging, ..alone(64, 128, Schedule::Cooperative) },
        Request { swap_ab: Some(false), cluster: Some(Cluster { m: 2, n: 1 }), ..alone(64, 128, Schedule::PingPong) },
        Request { swap_ab: Some(true), ..Request::default() },
    ]
    .into_iter()
    .enumerate()
    {
        let device = device(Completion::Random, i as u64);
        let along = OperandLayout::packed(Major::Mn);
        let gemm = Gemm::builder::<Gated>(&device)
            .elements(ElementType::F16, ElementType::F16)
            .problem(72, 40, 200)
            .depth_groups(2)
            .layouts(along, along)
            .multiprocessors(4)
            .dependent_launch(true)
            .sm90(request)
            .plan()?;
        for ends in [&[70, 70, 133][..], &[1], &[64, 128]] {
            let (groups, m, n, k) = (ends.len(), 70, 40, 140);
            let apart: Vec<i32> = ends.iter().flat_map(|end| [*end, -7]).collect();
            let bounds = device.tensor(&apart, [groups, 2])?.slice(1, 0..1)?.reshape([groups])?;
            let (a, b) = (rough(&device, &[k, 72], 1)?.transpose()?.slice(0, 0..m)?, rough(&device, &[2, k, n], 2)?);
            let half = |i: usize| b.slice(0, i..i + 1).and_then(|b| b.reshape([k, n]));
            let (gate, up, left) = (half(0)?, half(1)?, depth(&a).in_groups_to(&bounds));
            let c = rough(&device, &[groups, m, n], 3)?;
            let mut d = device.full::<f16>([groups, m, n], f16::ONE)?;
            let mut sums = device.full::<f32>([groups, m, n], 2.0)?;
            let expected = gemm.reference(left, [&gate, &up], Gated { c: &c, sums: &mut sums, d: &mut d })?;
            gemm.run(left, [&gate, &up], Gated { c: &c, sums: &mut sums, d: &mut d })?;
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

#[test]
fn what_groups_of_k_refuse() -> Result<(), Error> {
    let device = Device::cpu();
    let (a, b) = (rough(&device, &[4, 8], 1)?, rough(&device, &[8, 6], 2)?);
    let offsets = device.tensor(&[0i32, 3, 8], [3])?;
    let gemm = Gemm::plan::<Plain>(&device, depth(&a).in_groups(&offsets), &b)?;
    let mut d = device.zeros::<f16>([2, 4, 6])?;
    let wrong = device.tensor(&[0i32, 3, 9], [3])?;
    let refused = gemm.run(depth(&a).in_groups(&wrong), &b, Plain { d: &mut d }).expect_err("beyond K");
    assert_eq!(
        refused.to_string(),
        "offsets[2] is 9, and the groups before it take 3 of the 8 indices of K: give one from 3 to 8"
    );
    let refused = gemm.run(rows(&a).in_groups(&offsets), &b, Plain { d: &mut d }).expect_err("another kernel");
    assert_eq!(
        refused.to_string(),
        "A has groups of rows, and this GEMM was planned for groups of K: plan it for such an A"
    );
    let batch = b.reshape([1, 8, 6])?;
    let refused = Gemm::plan::<Plain>(&device, depth(&a).in_groups(&offsets), &batch).expect_err("a batch");
    assert_eq!(
        refused.to_string(),
        "B has shape [1, 8, 6], and K is divided into groups: give one matrix, whose K they share"
    );
    // Along K, where a group may begin anywhere, kernels for sm_80 copy elements one by one.
    let emulated = Device::emulated(Arch::SM_80)?;
    let builder = Gemm::builder::<Plain>(&emulated).elements(ElementType::F16, ElementType::F16);
    let packed = OperandLayout::packed(Major::K);
    let choice = builder.problem(64, 64, 64).layouts(packed, packed).depth_groups(3).choose()?;
    let single = OperandLayout { major: Major::K, copy_bytes: 2 };
    assert_eq!(choice.kernel().map(|kernel| kernel.key.layouts()), Some((single, single)));
    Ok(())
}

/// The model takes a kernel of either family; what those for sm_90a don't have is refused by name, and computed by the
/// others where nobody asked.
#[test]
fn what_kernels_for_sm90_do_not_have() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    let (f16, f32) = (ElementType::F16, ElementType::F32);
    let of = |element| {
        let along = OperandLayout::packed(Major::Mn);
        let builder = Gemm::builder::<Plain>(&device).elements(element, element).problem(2048, 1536, 65536);
        builder.layouts(along, along).depth_groups(32)
    };
    let family = |builder: Builder<Plain>| Ok::<_, Error>(builder.choose()?.kernel().map(|kernel| kernel.key.family()));
    let choice = of(f16).choose()?.to_string();
    assert!(choice.contains("wgmma") && choice.contains("groups of K"), "{choice}");
    let few = of(f16).problem(16, 1536, 65536).depth_groups(32).sm90(Request::default()).choose()?;
    let Some(KernelKey::Sm90(few)) = few.kernel().map(|kernel| kernel.key) else {
        panic!("few rows are what swapped kernels are for");
    };
    assert!(few.swap_ab && few.reading.divided() == Some(Divided::Depth), "{few}");
    for (builder, reason) in [
        (of(f16).depth_groups(100_000), "which has no room for so many"),
        (of(f32).arithmetic(Arithmetic::Tf32), "of 16-bit operands only"),
        (of(ElementType::F8E4M3), "of 16-bit operands only"),
    ] {
        assert_eq!(family(builder.clone())?, Some(Arch::SM_80));
        let refused = builder.sm90(Request::default()).choose().expect_err("there is no such kernel").to_string();
        assert!(refused.contains(reason) && refused.contains("leave the request for one out"), "{refused}");
    }
    let split = of(f16).sm90(Request { split_k: Some(SplitK::Stream), ..Request::default() });
    let refused = split.choose().expect_err("there is no such kernel").to_string();
    assert!(refused.contains("products with groups don't split K"), "{refused}");
    // Operands that are contiguous along K are copied to rows along M and N.
    let along_k = OperandLayout::packed(Major::K);
    let copied = of(f16).layouts(along_k, along_k).sm90(Request::default()).choose()?;
    let text = copied.to_string();
    assert!(text.contains("A and B are copied first (parts of K are loaded in rows along M or N"), "{text}");
    let layouts = copied.kernel().map(|kernel| kernel.key.layouts());
    let packed = OperandLayout::packed(Major::Mn);
    assert_eq!(layouts, Some((packed, packed)));
    Ok(())
}

/// A launch has shared memory for the table of its groups, and can be described; where that is too large, a kernel for sm_80
/// runs.
#[test]
fn launches_are_described() -> Result<(), Error> {
    if testing::compiler("depth::launches_are_described").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let (a, b) = (rough(&device, &[64, 8], 1)?.transpose()?, rough(&device, &[64, 64], 2)?);
    let along = OperandLayout::packed(Major::Mn);
    let gemm = Gemm::builder::<Plain>(&device)
        .elements(ElementType::F16, ElementType::F16)
        .problem(8, 64, 64)
        .depth_groups(2)
        .layouts(along, along)
        .sm90(requests()[0])
        .plan()?;
    let described = |groups: usize| {
        let ends = device.full::<i32>([groups], 64)?;
        let mut d = device.zeros::<f16>([groups, 8, 64])?;
        gemm.describe_launch(depth(&a).in_groups_to(&ends), &b, &[Argument::Output(&mut d)])
    };
    let [two, many, too_many] = [2, 1000, 30_000].map(described);
    let (two, many, too_many) = (two?, many?, too_many?);
    assert_eq!(many.launch.shared_bytes - two.launch.shared_bytes, 998 * 8);
    assert!(two.maps.len() == 3 && many.entry == two.entry);
    assert!(too_many.maps.is_empty(), "{too_many:?}");
    let value = |name: &str| two.fields.iter().find(|field| field.name == name).map(|field| field.value);
    assert_eq!(value("groups.bounds"), Some(FieldValue::Address(Memory::Bounds, 0)));
    let numbers = ["groups.stride", "groups.count", "groups.form"].map(value);
    assert_eq!(numbers, [1, 2, 1].map(|number| Some(FieldValue::Integer(number))));
    Ok(())
}
