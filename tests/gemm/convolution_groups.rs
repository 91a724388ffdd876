//! Convolutions with groups of channels, beside a convolution for each group. (The other tests of convolutions have cases
//! with groups, too.)

use epilogue::gemm::{
    Builder, KernelKey, Left, PatchBoxes, Right, SplitK, Tile, Window, filter, gradient_filter,
    gradient_filter_in_groups, gradient_patches, patches, sm90, transposed_patches,
};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

use crate::convolution::{Gated, Plain, integers, tensor};

#[epilogue]
pub(crate) fn statistics(
    accum: Accum,
    bias: RowVector<f32>,
    weight: ColumnVector<f32>,
    residual: Tensor<f32>,
) -> (Tensor<f32>, RowVector<f32>, ColumnVector<f32>, DeviceScalar<f32>) {
    let y = relu(accum + bias) * weight + residual;
    let sums = reduction_op(y, Column, Add);
    let largest = reduction_op(y, Row, Max);
    let total = reduction_op(y, All, Add);
    (y, sums, largest, total)
}

/// Fractions, whose sums depend on their order.
fn rough(device: &Device, element: ElementType, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let value = |i: usize| ((i + 31 * seed) as f64 * 0.618_034).fract() - 0.5;
    tensor(device, element, shape, &(0..shape.iter().product()).map(value).collect::<Vec<_>>())
}

/// The CPU, and emulated devices with the race detector if there is a compiler.
fn devices(test: &str) -> Result<Vec<Device>, Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler(test).is_some() {
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let options = Options::default().detector(Detector::On).completion(Completion::Random).seed(7);
            devices.push(Device::emulated_with(arch, options)?);
        }
    }
    Ok(devices)
}

fn part(x: &DeviceTensor, axis: usize, group: usize, groups: usize) -> Result<DeviceTensor, Error> {
    let each = x.shape()[axis] / groups;
    Ok(x.slice(axis, group * each..(group + 1) * each)?)
}

/// The kernel of a plan for sm_90a, small enough for an emulated device; any other device's own.
fn small<E>(builder: Builder<E>, device: &Device, of_sm90: bool) -> Builder<E> {
    if device.arch() != Some(Arch::SM_90A) {
        return builder;
    }
    if !of_sm90 {
        return builder.tile(*Tile::all(epilogue::gemm::Instruction::MmaF16).last().expect("a tile"));
    }
    let tile = sm90::Tile::all().iter().find(|tile| (tile.rows, tile.columns) == (64, 32)).copied();
    let builder = builder.sm90(sm90::Request { tile, swap_ab: Some(false), ..sm90::Request::default() });
    let choice = builder.choose().expect("a kernel for sm_90a");
    assert!(choice.kernel().is_some_and(|kernel| matches!(kernel.key, KernelKey::Sm90(_))), "{choice}");
    builder
}

/// Each group has the bits of a convolution of its own, and so have its gradients.
#[test]
fn every_group_has_the_bits_of_its_own_convolution() -> Result<(), Error> {
    for device in devices("convolution_groups::every_group_has_the_bits_of_its_own_convolution")? {
        let element = if device.arch().is_none() { ElementType::F32 } else { ElementType::F16 };
        for (groups, channels, filters) in [(2, 128, 48), (3, 24, 30)] {
            let whole = channels / groups % 64 == 0;
            let x = rough(&device, element, &[2, 5, 6, channels], 1)?;
            let w = rough(&device, element, &[filters, 3, 2, channels / groups], 2)?;
            let dy = rough(&device, element, &[2, 3, 4, filters], 3)?;
            let window = Window::of([3, 2]).stride([2, 1]).padding_around([(2, 1), (0, 0)]).dilation([1, 2]);
            let in_groups = window.groups(groups);

            let run = |left: Left<'_>, right: Right<'_>, y: &mut DeviceTensor, by_boxes: bool| -> Result<(), Error> {
                let builder = Gemm::builder::<Plain>(&device).operands(left, right.clone())?;
                small(builder, &device, by_boxes).plan()?.run(left, right, Plain { y })
            };
            let same = |one: &DeviceTensor, other: &DeviceTensor| {
                assert_eq!(one.to_bytes()?, other.to_bytes()?, "{groups} groups on {device}");
                Ok::<_, Error>(())
            };
            let (mut y, alone) = (device.zeros::<f32>([2, 3, 4, filters])?, device.zeros::<f32>([2, 3, 4, filters])?);
            run(patches(&x, in_groups), (&filter(&w)?).into(), &mut y, whole)?;
            for group in 0..groups {
                let filter = filter(&part(&w, 0, group, groups)?)?;
                let x = part(&x, 3, group, groups)?;
                run(patches(&x, window), (&filter).into(), &mut part(&alone, 3, group, groups)?, whole)?;
            }
            same(&y, &alone)?;

            let (mut dx, alone) = (device.zeros::<f32>(x.shape())?, device.zeros::<f32>(x.shape())?);
            let mirrored = gradient_filter_in_groups(&w, groups)?;
            run(gradient_patches(&dy, in_groups, [5, 6]), (&mirrored).into(), &mut dx, false)?;
            for group in 0..groups {
                let (filter, dy) = (gradient_filter(&part(&w, 0, group, groups)?)?, part(&dy, 3, group, groups)?);
                let left = gradient_patches(&dy, window, [5, 6]);
                run(left, (&filter).into(), &mut part(&alone, 3, group, groups)?, false)?;
            }
            same(&dx, &alone)?;

            let (mut dw, alone) = (device.zeros::<f32>(w.shape())?, device.zeros::<f32>(w.shape())?);
            run(transposed_patches(&x, in_groups), (&dy).into(), &mut dw, whole)?;
            for group in 0..groups {
                let (x, dy) = (part(&x, 3, group, groups)?, part(&dy, 3, group, groups)?);
                run(transposed_patches(&x, window), (&dy).into(), &mut part(&alone, 0, group, groups)?, whole)?;
            }
            same(&dw, &alone)?;
            assert!([&y, &dx, &dw].iter().all(|of| of.to_vec::<f32>().is_ok_and(|of| of.iter().any(|x| *x != 0.0))));
        }
    }
    Ok(())
}

/// A window of one element is a batch of matrices: the plan, kernel and bits of that, and so are its gradients.
#[test]
fn single_elements_are_a_batch_of_products() -> Result<(), Error> {
    let device = Device::cpu();
    let (groups, pixels) = (4, 126);
    let x = rough(&device, ElementType::F32, &[2, 7, 9, 40], 1)?;
    let w = rough(&device, ElementType::F32, &[24, 1, 1, 10], 2)?;
    let dy = rough(&device, ElementType::F32, &[2, 7, 9, 24], 3)?;
    let window = Window::of([1, 1]).groups(groups);
    let batch = |x: &DeviceTensor, each: usize| x.reshape([pixels, groups, each])?.permute(&[1, 0, 2]);
    let (x_batch, dy_batch) = (batch(&x, 10)?, batch(&dy, 6)?);
    let w_batch = w.reshape([groups, 6, 10])?;

    let check = |left: Left<'_>, right: Right<'_>, a: &DeviceTensor, b: &DeviceTensor, y: &mut DeviceTensor| {
        let gemm = Gemm::plan::<Plain>(&device, left, right.clone())?;
        gemm.run(left, right, Plain { y })?;
        let (m, n) = (a.shape()[1], b.shape()[2]);
        let mut d = device.zeros::<f32>([groups, m, n])?;
        gemm.run(a, b, Plain { y: &mut d })?;
        Ok::<_, Error>(d)
    };
    let mut y = device.zeros::<f32>([2, 7, 9, 24])?;
    let d = check(patches(&x, window), (&filter(&w)?).into(), &x_batch, &w_batch.transpose()?, &mut y)?;
    assert_eq!(batch(&y, 6)?.to_bytes()?, d.to_bytes()?);
    let mut dx = device.zeros::<f32>([2, 7, 9, 40])?;
    let mirrored = gradient_filter_in_groups(&w, groups)?;
    let d = check(gradient_patches(&dy, window, [7, 9]), (&mirrored).into(), &dy_batch, &w_batch, &mut dx)?;
    assert_eq!(batch(&dx, 10)?.to_bytes()?, d.to_bytes()?);
    let mut dw = device.zeros::<f32>([24, 1, 1, 10])?;
    let d = check(transposed_patches(&x, window), (&dy).into(), &x_batch.transpose()?, &dy_batch, &mut dw)?;
    assert_eq!(dw.reshape([groups, 6, 10])?.transpose()?.to_bytes()?, d.to_bytes()?);
    // Without groups nothing is a batch.
    let one = filter(&rough(&device, ElementType::F32, &[24, 1, 1, 40], 2)?)?;
    let gemm = Gemm::plan::<Plain>(&device, patches(&x, Window::of([1, 1]).groups(1)), &one)?;
    gemm.run(patches(&x, Window::of([1, 1])), &one, Plain { y: &mut y })?;
    let mut d = device.zeros::<f32>([pixels, 24])?;
    gemm.run(&x.reshape([pixels, 40])?, one.matrix(), Plain { y: &mut d })?;
    assert_eq!(y.to_bytes()?, d.to_bytes()?);
    Ok(())
}

/// Values that are one for all columns, or one for each column, row or group, take two shapes: those of a convolution
/// without groups, and those of a batch; and outputs may be views whose rows are two axes.
#[test]
fn arguments_have_every_shape() -> Result<(), Error> {
    for device in devices("convolution_groups::arguments_have_every_shape")? {
        let values = |shape: &[usize], seed: usize| {
            tensor(&device, ElementType::F32, shape, &integers(shape.iter().product(), seed, -3.0, 7))
        };
        let (groups, m, n) = (3, 2 * 4 * 5, 4);
        let halves = |shape: &[usize], seed: usize| {
            tensor(&device, ElementType::F16, shape, &integers(shape.iter().product(), seed, -3.0, 7))
        };
        let (x, w) = (halves(&[2, 4, 5, 15], 1)?, filter(&halves(&[12, 3, 3, 5], 2)?)?);
        let window = Window::of([3, 3]).padding([1, 1]).groups(groups);
        let gemm = Gemm::plan::<Statistics>(&device, patches(&x, window), &w)?;
        let (bias, weight, residual) = (values(&[12], 3)?, values(&[2, 4, 5], 4)?, values(&[2, 4, 5, 12], 5)?);
        let packed = |x: &DeviceTensor, shape: &[usize]| -> Result<DeviceTensor, Error> {
            let copy = device.zeros_of(x.element_type(), shape)?;
            copy.clone().copy_from_bytes(&x.to_bytes()?)?;
            Ok(copy)
        };
        let by_group = residual.reshape([m, groups, n])?.permute(&[1, 0, 2])?;
        let mut all: Vec<Vec<Vec<f32>>> = Vec::new();
        for way in 0..4 {
            let apart = device.full::<f32>([2, 4, 7, 16], 9.0)?;
            let (bias, weight, residual) = match way {
                0 | 3 => (bias.clone(), weight.clone(), residual.clone()),
                1 => (bias.clone(), weight.reshape([m])?, residual.reshape([m, 12])?),
                _ => {
                    let weights = weight.reshape([1, m])?.broadcast_to([groups, m])?;
                    (bias.reshape([groups, n])?, weights, packed(&by_group, &[groups, m, n])?)
                }
            };
            let mut y = match way {
                0 => device.zeros::<f32>([2, 4, 5, 12])?,
                1 => device.zeros::<f32>([m, 12])?,
                2 => device.zeros::<f32>([groups, m, n])?,
                _ => apart.slice(2, 1..6)?.slice(3, 2..14)?,
            };
            let mut sums = if way == 2 { device.zeros::<f32>([groups, n])? } else { device.zeros::<f32>([12])? };
            let mut largest = match way {
                0 | 3 => device.zeros::<f32>([2, 4, 5, groups])?,
                _ => device.zeros::<f32>([groups, m])?,
            };
            let mut total = device.zeros::<f32>([groups])?;
            let reference = {
                let (y, sums, largest, total) = (&mut y, &mut sums, &mut largest, &mut total);
                let (bias, weight, residual) = (&bias, &weight, &residual);
                let arguments = Statistics { bias, weight, residual, y, sums, largest, total };
                gemm.reference(patches(&x, window), &w, arguments)?
            };
            {
                let (y, sums, largest, total) = (&mut y, &mut sums, &mut largest, &mut total);
                let (bias, weight, residual) = (&bias, &weight, &residual);
                let arguments = Statistics { bias, weight, residual, y, sums, largest, total };
                gemm.run(patches(&x, window), &w, arguments)?;
            }
            for (name, of) in [("y", &y), ("sums", &sums), ("largest", &largest), ("total", &total)] {
                reference.compare(name, of)?.check()?;
            }
            let y = if way == 2 { y.permute(&[1, 0, 2])? } else { y };
            let largest = if matches!(way, 0 | 3) { largest } else { largest.transpose()? };
            all.push([&y, &sums, &largest, &total].iter().map(|of| of.to_vec::<f32>()).collect::<Result<_, _>>()?);
            assert!(apart.slice(3, 0..2)?.to_vec::<f32>()?.iter().all(|x| *x == 9.0));
        }
        assert!(all.iter().all(|way| *way == all[0]), "{device}");
        assert_eq!(all[0][3].iter().sum::<f32>(), all[0][0].iter().sum::<f32>());
    }
    Ok(())
}

/// Truth values of eight columns in a byte, where that is of one group or not, and reductions over all groups.
#[test]
fn bits_and_sums_of_all_groups() -> Result<(), Error> {
    #[epilogue]
    fn masked(accum: Accum, mask: Bits) -> (Tensor<f32>, Bits, ColumnVector<f32>, DeviceScalar<f32>) {
        let y = if mask { accum } else { 0.0 };
        let positive = y > 0.0;
        let row = reduction_op(y, (Row, Batch), Add);
        let total = reduction_op(y, (All, Batch), Add);
        (y, positive, row, total)
    }
    for device in devices("convolution_groups::bits_and_sums_of_all_groups")? {
        for (filters, whole) in [(32, true), (24, false)] {
            let (groups, m) = (2, 2 * 3 * 4);
            let of = |shape: &[usize], seed: usize| {
                tensor(&device, ElementType::F16, shape, &integers(shape.iter().product(), seed, -3.0, 7))
            };
            let (x, w) = (of(&[2, 3, 4, 8], 1)?, filter(&of(&[filters, 3, 3, 4], 2)?)?);
            let window = Window::of([3, 3]).padding([1, 1]).groups(groups);
            let gemm = Gemm::plan::<Masked>(&device, patches(&x, window), &w)?;
            let bytes = if whole { filters / 8 } else { (filters / groups).div_ceil(8) };
            let shape = if whole { vec![2, 3, 4, bytes] } else { vec![groups, m, bytes] };
            let random: Vec<u8> = (0..shape.iter().product::<usize>()).map(|i| (i * 89 + i / 7) as u8).collect();
            let mask = device.tensor(&random, &shape)?;
            let (mut y, mut positive) = (device.zeros::<f32>([2, 3, 4, filters])?, device.zeros::<u8>(&shape)?);
            let (mut row, mut total) = (device.zeros::<f32>([2, 3, 4])?, device.zeros::<f32>([])?);
            let reference = {
                let (y, positive, row, total) = (&mut y, &mut positive, &mut row, &mut total);
                gemm.reference(patches(&x, window), &w, Masked { mask: &mask, y, positive, row, total })?
            };
            {
                let (y, positive, row, total) = (&mut y, &mut positive, &mut row, &mut total);
                gemm.run(patches(&x, window), &w, Masked { mask: &mask, y, positive, row, total })?;
            }
            for (name, of) in [("y", &y), ("positive", &positive), ("row", &row), ("total", &total)] {
                reference.compare(name, of)?.check()?;
            }
            // A bit is that of its column among all filters, where bytes are those of whole groups.
            let (y, positive) = (y.to_vec::<f32>()?, positive.to_vec::<u8>()?);
            for (i, y) in y.iter().enumerate() {
                let (pixel, k) = (i / filters, i % filters);
                let each = filters / groups;
                let byte = if whole { pixel * bytes + k / 8 } else { (k / each * m + pixel) * bytes + k % each / 8 };
                let bit = if whole { k % 8 } else { k % each % 8 };
                assert_eq!(positive[byte] >> bit & 1 == 1, *y > 0.0, "{device} {i}");
            }
            let sums = y.chunks(filters).map(|row| row.iter().sum::<f32>()).collect::<Vec<_>>();
            assert_eq!(row.to_vec::<f32>()?, sums);
        }
    }
    Ok(())
}

/// Infinite elements in a group's channels or filters reach that group's outputs only, also where a part of K has
/// nothing.
#[test]
fn infinite_elements_stay_in_their_group() -> Result<(), Error> {
    for device in devices("convolution_groups::infinite_elements_stay_in_their_group")? {
        for channels in [64, 8, 5] {
            for split_k in [SplitK::None, SplitK::Serial(4), SplitK::Parallel(7)] {
                if device.arch().is_none() && split_k != SplitK::None {
                    continue;
                }
                for (in_x, in_w) in [(true, false), (false, true)] {
                    let (groups, filters) = (3, 4);
                    let mut values = vec![1.0; 16 * groups * channels];
                    let mut weights = vec![1.0; groups * filters * 9 * channels];
                    if in_x {
                        let channel = |i: usize| i % (groups * channels) / channels;
                        values
                            .iter_mut()
                            .enumerate()
                            .filter(|(i, _)| channel(*i) == 1)
                            .for_each(|(_, x)| *x = f64::INFINITY);
                    }
                    if in_w {
                        let group = |i: usize| i / (filters * 9 * channels);
                        weights.iter_mut().enumerate().filter(|(i, _)| group(*i) == 1).for_each(|(_, x)| *x = f64::NAN);
                    }
                    let x = tensor(&device, ElementType::F16, &[1, 4, 4, groups * channels], &values)?;
                    let w = filter(&tensor(&device, ElementType::F16, &[groups * filters, 3, 3, channels], &weights)?)?;
                    let window = Window::of([3, 3]).groups(groups);
                    let builder = Gemm::builder::<Plain>(&device).operands(patches(&x, window), &w)?;
                    let builder = small(builder, &device, channels == 64);
                    let builder = if split_k == SplitK::None { builder } else { builder.split_k(split_k) };
                    let mut y = device.zeros::<f32>([1, 2, 2, groups * filters])?;
                    builder.plan()?.run(patches(&x, window), &w, Plain { y: &mut y })?;
                    for (i, y) in y.to_vec::<f32>()?.iter().enumerate() {
                        let is_second = i % (groups * filters) / filters == 1;
                        let right = if is_second { !y.is_finite() } else { *y == (9 * channels) as f32 };
                        assert!(right, "{device} {channels} {split_k:?} {i}: {y}");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Several accumulators and an epilogue of several phases; on Hopper by boxes.
#[test]
fn several_accumulators_and_phases() -> Result<(), Error> {
    for device in devices("convolution_groups::several_accumulators_and_phases")? {
        let of = |shape: &[usize], seed: usize| {
            let values: Vec<f64> = integers(shape.iter().product(), seed, -3.0, 7).iter().map(|x| x / 16.0).collect();
            tensor(&device, ElementType::F16, shape, &values)
        };
        let (x, one, two) = (of(&[2, 3, 4, 128], 1)?, of(&[20, 2, 3, 64], 2)?, of(&[20, 2, 3, 64], 3)?);
        let window = Window::of([2, 3]).padding([1, 1]).groups(2);
        let (first, second) = (filter(&one)?, filter(&two)?);
        let builder = Gemm::builder::<Gated>(&device).operands(patches(&x, window), [&first, &second])?;
        let gemm = small(builder, &device, true).plan()?;
        let run = |all_b: [&DeviceTensor; 2]| -> Result<Vec<f32>, Error> {
            let mut y = device.zeros::<f32>([2, 4, 4, 20])?;
            let expected = gemm.reference(patches(&x, window), all_b, Gated { y: &mut y })?;
            gemm.run(patches(&x, window), all_b, Gated { y: &mut y })?;
            expected.compare("y", &y)?.check()?;
            // A group's shares are those of one.
            let sums = y.to_vec::<f32>()?.chunks(10).map(|group| group.iter().sum::<f32>()).collect::<Vec<_>>();
            assert!(sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums:?}");
            Ok(y.to_vec()?)
        };
        let expected = run([first.matrix(), second.matrix()])?;
        let batch = |w: &DeviceTensor| w.reshape([2, 10, 6 * 64])?.transpose();
        assert_eq!(run([&batch(&one)?, &batch(&two)?])?, expected, "{device}");
        // Rows that must be copied first.
        let along_n = |w: &DeviceTensor| along_n(&device, filter(w)?.matrix(), 24);
        assert_eq!(run([&along_n(&one)?, &along_n(&two)?])?, expected, "{device}");
    }
    Ok(())
}

/// A copy of a matrix, or of a batch, whose rows are contiguous and lie so far apart.
fn along_n(device: &Device, matrix: &DeviceTensor, pitch: usize) -> Result<DeviceTensor, Error> {
    let (mut shape, last) = (matrix.shape().to_vec(), matrix.rank() - 1);
    let columns = std::mem::replace(&mut shape[last], pitch);
    let mut copy = device.full::<f16>(shape, f16::NAN)?.slice(last, 0..columns)?;
    copy.copy_from_bytes(&matrix.to_bytes()?)?;
    Ok(copy)
}

/// One plan for filters that lie in every way: as batches, contiguous along K or N, those of a group behind the last one's or
/// between its columns, at odd addresses, and apart.
#[test]
fn one_plan_runs_filters_of_every_layout() -> Result<(), Error> {
    #[epilogue]
    fn both(one: Accum, two: Accum) -> Tensor<f32> {
        let y = one - 2.0 * two;
        y
    }
    for device in devices("convolution_groups::one_plan_runs_filters_of_every_layout")? {
        let (groups, filters, k) = (2, 32, 4 * 64);
        let x = rough(&device, ElementType::F16, &[2, 3, 4, 128], 1)?;
        let w = [2, 3].map(|seed| rough(&device, ElementType::F16, &[filters, 2, 2, 64], seed));
        let [one, two] = w;
        let (one, two) = (one?, two?);
        let window = Window::of([2, 2]).groups(groups);
        let batch = |w: &DeviceTensor| w.reshape([groups, filters / groups, k])?.transpose();
        let matrix = |w: &DeviceTensor| Ok::<_, Error>(filter(w)?.matrix().clone());
        let apart = |w: &DeviceTensor| -> Result<DeviceTensor, Error> {
            let mut copy = device.zeros::<f16>([groups, k + 8, 16])?.slice(1, 0..k)?;
            copy.copy_from_bytes(&batch(w)?.to_bytes()?)?;
            Ok(copy)
        };
        // Two are contiguous along N in one tile only in runs of 64.
        let wide = |builder: Builder<Both>| match device.arch() {
            Some(Arch::SM_90A) => {
                let tile = sm90::Tile::all().iter().find(|tile| (tile.rows, tile.columns) == (128, 128)).copied();
                builder.sm90(sm90::Request { tile, swap_ab: Some(false), ..sm90::Request::default() })
            }
            _ => builder,
        };
        let of_plan = along_n(&device, &matrix(&one)?, filters)?;
        let builder = Gemm::builder::<Both>(&device).operands(patches(&x, window), [&of_plan, &of_plan])?;
        let gemm = wide(builder).plan()?;
        let run = |all_b: [&DeviceTensor; 2]| -> Result<Vec<f32>, Error> {
            let mut y = device.full::<f32>([2, 2, 3, filters], f32::NAN)?;
            let expected = gemm.reference(patches(&x, window), all_b, Both { y: &mut y })?;
            gemm.run(patches(&x, window), all_b, Both { y: &mut y })?;
            expected.compare("y", &y)?.check()?;
            Ok(y.to_vec()?)
        };
        let along = |w: &DeviceTensor, pitch: usize| along_n(&device, &matrix(w)?, pitch);
        let of_batch = |w: &DeviceTensor, pitch: usize| along_n(&device, &batch(w)?, pitch);
        let expected = run([&of_plan, &along(&two, filters)?])?;
        for (number, all_b) in [
            [along(&one, 40)?, along(&two, 32)?],
            // One must be copied, and the other lies in another way than copies do.
            [along(&one, 32)?, along(&two, 33)?],
            [of_batch(&one, 16)?, of_batch(&two, 24)?],
            [of_batch(&one, 17)?, of_batch(&two, 16)?],
            [matrix(&one)?, matrix(&two)?],
            [batch(&one)?, matrix(&two)?],
            // Two ways at once, and groups that lie apart: kernels for sm_80.
            [along(&one, 32)?, of_batch(&two, 16)?],
            [apart(&one)?, apart(&two)?],
        ]
        .iter()
        .enumerate()
        {
            let found = run([&all_b[0], &all_b[1]])?;
            // Without tensor copies, and on the CPU with columns that lie elsewhere, sums have other orders.
            let near = |(one, other): (&f32, &f32)| (one - other).abs() < 1e-4;
            assert!(found.iter().zip(&expected).all(near), "{device} {number}");
            if device.arch().is_some() && number < 6 {
                assert_eq!(found, expected, "{device} {number}");
            }
        }
    }
    Ok(())
}

/// Packed filters are packed group by group, and have the bits of those that are not; so have bf16s that f32s are rounded to.
#[test]
fn packed_filters() -> Result<(), Error> {
    use epilogue::gemm::Arithmetic;
    let device = Device::cpu();
    let (x, w) =
        (rough(&device, ElementType::F32, &[2, 9, 9, 64], 1)?, rough(&device, ElementType::F32, &[96, 3, 3, 32], 2)?);
    let (window, filter) = (Window::of([3, 3]).padding([1, 1]).groups(2), filter(&w)?);
    for arithmetic in [Arithmetic::Exact, Arithmetic::FastBf16] {
        let builder = Gemm::builder::<Plain>(&device).operands(patches(&x, window), &filter)?.arithmetic(arithmetic);
        let gemm = builder.plan()?;
        let packed = gemm.pack(&w.reshape([2, 48, 3 * 3 * 32])?.transpose()?)?;
        let (mut y, mut again) = (device.zeros::<f32>([2, 9, 9, 96])?, device.zeros::<f32>([2, 9, 9, 96])?);
        gemm.run(patches(&x, window), &filter, Plain { y: &mut y })?;
        gemm.run(patches(&x, window), &packed, Plain { y: &mut again })?;
        assert_eq!(y.to_bytes()?, again.to_bytes()?);
        let refused = gemm.run(patches(&x, window), &gemm.pack(filter.matrix())?, Plain { y: &mut y });
        assert_eq!(
            refused.expect_err("one matrix").to_string(),
            "B was packed as one matrix, and the window has 2 groups of channels: pack a matrix for each, [2, R·S·C/2, K/2], as \
             `Window::groups` says"
        );
    }
    Ok(())
}

/// On Hopper boxes have whole k-tiles of one group's channels; the choice and the refusal say where not.
#[test]
fn boxes_have_the_channels_of_one_group() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    let plan = |element: ElementType, channels: usize, groups: usize| -> Result<Builder<Plain>, Error> {
        let x = device.without_memory(element, [8, 64, 64, channels])?;
        let w = filter(&device.without_memory(element, [256, 3, 3, channels / groups])?)?;
        let window = Window::of([3, 3]).padding([1, 1]).groups(groups);
        Gemm::builder::<Plain>(&device).operands(patches(&x, window), &w)
    };
    let reason = "groups of channels have whole k-tiles of 128 bytes (multiples of 64 channels of 16 bits, of 128 of 8, of 32 of \
                  f32)";
    for (element, channels, groups, whole) in [
        (ElementType::F16, 256, 4, true),
        (ElementType::BF16, 256, 2, true),
        (ElementType::F16, 256, 8, false),
        (ElementType::F16, 320, 4, false),
        (ElementType::F16, 320, 1, true),
        (ElementType::F8E4M3, 512, 4, true),
        (ElementType::F8E4M3, 256, 4, false),
    ] {
        let builder = plan(element, channels, groups)?;
        let said = builder.choose()?.to_string();
        assert_eq!(said.contains(", patches of 2 axes") && said.contains("wgmma"), whole, "{said}");
        assert_eq!(said.contains(reason), !whole, "{said}");
        let asked = builder.sm90(sm90::Request::default()).choose();
        match asked {
            Ok(_) => assert!(whole),
            Err(refused) => assert!(!whole && refused.to_string().contains(reason), "{refused}"),
        }
    }
    // By extents, too.
    let layout = epilogue::gemm::OperandLayout::packed(epilogue::gemm::Major::K);
    for (channels, whole) in [(64, true), (32, false)] {
        let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F16, ElementType::F16);
        let builder = builder.problem(8 * 64 * 64, 64, 9 * channels).batch(4).layouts(layout, layout);
        let boxes = PatchBoxes { axes: 2, taps: 9, channels };
        let said = builder.patches(8 * 64 * 64 * channels).patch_boxes(boxes).choose()?.to_string();
        assert_eq!(said.contains("wgmma"), whole, "{said}");
    }
    // Filters whose groups lie apart.
    let x = device.without_memory(ElementType::F16, [8, 64, 64, 128])?;
    let apart = device.without_memory(ElementType::F16, [2, 160, 9 * 64])?.slice(1, 0..128)?.transpose()?;
    let window = Window::of([3, 3]).padding([1, 1]).groups(2);
    let said = Gemm::builder::<Plain>(&device).operands(patches(&x, window), &apart)?.choose()?.to_string();
    assert!(said.contains("only where the filters of one group lie behind the last one's"), "{said}");
    Ok(())
}

/// `column()` counts a group's columns, and `batch()` is the group.
#[test]
fn positions_are_those_of_a_group() -> Result<(), Error> {
    #[epilogue]
    fn numbered(accum: Accum) -> Tensor<f32> {
        let channel = batch() * columns() + column();
        let y = accum + real(1000 * channel + row());
        y
    }
    let device = Device::cpu();
    let (x, w) = (device.zeros::<f32>([1, 3, 4, 6])?, filter(&device.zeros::<f32>([9, 2, 2, 2])?)?);
    let window = Window::of([2, 2]).groups(3);
    let mut y = device.zeros::<f32>([1, 2, 3, 9])?;
    Gemm::plan::<Numbered>(&device, patches(&x, window), &w)?.run(patches(&x, window), &w, Numbered { y: &mut y })?;
    let expected: Vec<f32> = (0..54).map(|i| (1000 * (i % 9) + i / 9) as f32).collect();
    assert_eq!(y.to_vec::<f32>()?, expected);
    Ok(())
}
