//! Convolutions on sm_90a: patches that tensor copies load in im2col mode, and those that they don't.

use epilogue::gemm::{Arithmetic, Builder, Candidate, KernelKey, Left, SplitK, Window, filter, patches, sm90};
use epilogue::prelude::*;
use epilogue::{Arch, Argument, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::testing;

use crate::convolution::{Layer, Plain, Shape, check, hard_cases, integers, padded, tensor};

pub(crate) fn hopper(completion: Completion) -> Result<Device, Error> {
    Ok(Device::emulated_with(Arch::SM_90A, Options::default().detector(Detector::On).completion(completion).seed(11))?)
}

pub(crate) fn tile(rows: usize, columns: usize, schedule: sm90::Schedule) -> Option<sm90::Tile> {
    let wanted = |tile: &&sm90::Tile| (tile.rows, tile.columns, tile.schedule) == (rows, columns, schedule);
    sm90::Tile::all().iter().find(wanted).copied()
}

pub(crate) fn small() -> sm90::Request {
    sm90::Request { tile: tile(64, 32, sm90::Schedule::Cooperative), ..sm90::Request::default() }
}

/// The axes of the patches that a chosen kernel loads by boxes; 0 for others.
pub(crate) fn boxed(candidate: Option<&Candidate>) -> usize {
    match candidate.map(|candidate| candidate.key) {
        Some(KernelKey::Sm90(key)) => key.reading.patches().map_or(0, |patches| patches.axes),
        _ => 0,
    }
}

pub(crate) fn in_boxes<E>(builder: Builder<E>, request: sm90::Request) -> Builder<E> {
    let builder = builder.sm90(request);
    let choice = builder.choose().expect("a kernel for sm_90a");
    assert!(boxed(choice.kernel()) > 0, "{choice}");
    builder
}

/// Cases that are easily done wrong, with channels of whole 16 bytes.
fn cases() -> Vec<Shape> {
    let of = |channels: usize| channels.next_multiple_of(8);
    // Groups have whole k-tiles.
    let aligned = |shape: Shape| match shape.groups {
        1 => Shape { channels: of(shape.channels), ..shape },
        groups => Shape { channels: 64 * groups, ..shape },
    };
    let mut cases: Vec<Shape> = hard_cases().into_iter().map(aligned).collect();
    // One element that doesn't move is a matrix.
    cases.retain(|shape| {
        let is_matrix = shape.size.iter().product::<usize>() == 1 && shape.stride == vec![1; 2];
        !(is_matrix && shape.padding[0] == (0, 0)) && shape.groups <= 4
    });
    let three = |inputs, channels| padded(Shape::of(inputs, channels, 9, [3, 3]), &[(1, 1); 2]);
    cases.extend([
        // Rows that end behind the last image, at its last pixel, and in a tile of their own.
        Shape { images: 1, ..three([8, 8], 8) },
        Shape { images: 5, ..three([3, 7], 24) },
        Shape { images: 1, ..three([1, 65], 8) },
        // Channels of several k-tiles, with and without a tail.
        three([3, 3], 128),
        three([2, 4], 65 * 8),
        // As far as steps, offsets and corners go.
        Shape { stride: vec![8, 7], ..three([20, 17], 8) },
        Shape { dilation: vec![1, 255], ..padded(Shape::of([2, 150], 8, 4, [1, 2]), &[(0, 0), (110, 127)]) },
        padded(Shape::of([3, 2], 8, 4, [2, 1]), &[(128, 3), (0, 0)]),
        Shape {
            dilation: vec![2, 1, 1],
            ..padded(Shape::of([3, 2, 2], 8, 4, [16, 1, 1]), &[(16, 15), (0, 0), (0, 0)])
        },
    ]);
    cases
}

#[test]
fn cases_by_boxes() -> Result<(), Error> {
    use ElementType::F16;
    if testing::compiler("convolution_boxes::cases_by_boxes").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    for shape in testing::some_of(cases()) {
        check(&device, (F16, F16), &shape, |builder| in_boxes(builder, small()))?;
    }
    Ok(())
}

/// Both schedules, clusters that share A, B or both, every way of sharing K, also with parts that have nothing.
#[test]
fn tiles_clusters_and_splits() -> Result<(), Error> {
    use ElementType::{BF16, F8E4M3, F32, I8};
    use sm90::Schedule::{Cooperative, PingPong};
    if testing::compiler("convolution_boxes::tiles_clusters_and_splits").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Random)?;
    let shape =
        Shape { images: 3, stride: vec![1, 2], ..padded(Shape::of([9, 17], 72, 70, [3, 3]), &[(1, 2), (0, 1)]) };
    let cluster = |m, n| Some(sm90::Cluster { m, n });
    for (tile, cluster, split_k) in testing::some_of([
        (tile(128, 64, Cooperative), cluster(2, 1), SplitK::None),
        (tile(64, 64, PingPong), cluster(1, 2), SplitK::None),
        (tile(64, 32, Cooperative), cluster(2, 2), SplitK::Serial(3)),
        (tile(64, 96, PingPong), cluster(1, 1), SplitK::Parallel(2)),
        (tile(64, 32, Cooperative), cluster(1, 1), SplitK::Stream),
        (tile(64, 16, Cooperative), cluster(2, 1), SplitK::Stream),
        // 18 k-tiles among 7: three each, so that the last part is empty.
        (tile(64, 64, Cooperative), cluster(1, 1), SplitK::Serial(7)),
        (tile(64, 64, PingPong), cluster(1, 1), SplitK::Parallel(7)),
    ]) {
        let request = sm90::Request { tile, cluster, split_k: Some(split_k), ..sm90::Request::default() };
        check(&device, (BF16, BF16), &shape, |builder| in_boxes(builder, request))?;
    }
    // Groups, also where parts are empty, of a tile with more columns than a group has.
    let in_groups = Shape { channels: 384, filters: 72, groups: 3, images: 2, ..shape };
    for (tile, cluster, split_k) in testing::some_of([
        (tile(128, 32, Cooperative), cluster(2, 1), SplitK::None),
        (tile(64, 64, PingPong), cluster(1, 2), SplitK::None),
        (tile(64, 32, Cooperative), cluster(2, 1), SplitK::Serial(7)),
        (tile(64, 16, Cooperative), cluster(1, 1), SplitK::Parallel(4)),
        (tile(64, 32, Cooperative), cluster(1, 1), SplitK::Stream),
    ]) {
        let request = sm90::Request { tile, cluster, split_k: Some(split_k), ..sm90::Request::default() };
        check(&device, (BF16, BF16), &in_groups, |builder| in_boxes(builder, request))?;
    }
    let of_bytes = Shape { channels: 256, groups: 2, ..padded(Shape::of([4, 3], 256, 20, [2, 3]), &[(1, 0), (1, 1)]) };
    check(&device, (I8, I8), &of_bytes, |builder| in_boxes(builder, small()))?;
    let volume = padded(Shape::of([3, 4, 5], 48, 20, [2, 3, 2]), &[(1, 0), (1, 1), (0, 1)]);
    for elements in testing::some_of([(I8, I8), (F8E4M3, F8E4M3), (F32, F32)]) {
        let arithmetic = if elements.0 == F32 { Arithmetic::Tf32 } else { Arithmetic::Exact };
        check(&device, elements, &volume, |builder| in_boxes(builder.arithmetic(arithmetic), small()))?;
    }
    Ok(())
}

/// If maps end, kernels for sm_80 take over; the choice and the refusal say so.
#[test]
fn what_boxes_do_not_reach() -> Result<(), Error> {
    use ElementType::F16;
    let emulated = testing::compiler("convolution_boxes::what_boxes_do_not_reach").is_some();
    let device = hopper(Completion::Eager)?;
    let three = |channels| padded(Shape::of([12, 11], channels, 6, [3, 3]), &[(1, 1); 2]);
    for (shape, limit) in [
        (three(4), "channels are contiguous, and pixels begin at multiples of 16 bytes and are whole ones"),
        (Shape { stride: vec![1, 9], ..three(8) }, "the window moves by at most 8"),
        (
            Shape { dilation: vec![1, 256], ..padded(Shape::of([2, 40], 8, 4, [1, 2]), &[(0, 0), (120, 120)]) },
            "fit 16 bits (of one axis), 8 (of two) or 5 (of three), signed; and the reach, unsigned",
        ),
        (padded(Shape::of([3, 2], 8, 4, [2, 1]), &[(129, 3), (0, 0)]), "the padding before each axis"),
        (padded(Shape::of([0, 2], 8, 4, [2, 1]), &[(2, 3), (0, 0)]), "images have elements"),
    ] {
        let x = device.without_memory(F16, shape.of_x())?;
        let w = filter(&device.without_memory(F16, shape.of_w())?)?;
        let builder = Gemm::builder::<Layer>(&device).operands(shape.left(&x), &w)?;
        let choice = builder.choose()?;
        assert_eq!(boxed(choice.kernel()), 0, "{choice}");
        let said = choice.to_string();
        assert!(said.contains("; kernels for sm_90a load patches only where ") && said.contains(limit), "{said}");
        let refused = builder.sm90(sm90::Request::default()).choose().expect_err("no kernel").to_string();
        assert!(
            refused.contains(limit) && refused.ends_with("leave the request for one out for a kernel for sm_80"),
            "{refused}"
        );
        if emulated {
            check(&device, (F16, F16), &shape, |builder| builder)?;
        }
    }
    // By extents the window is not known, if it isn't said.
    let shape = three(64);
    let x = device.without_memory(F16, shape.of_x())?;
    let w = filter(&device.without_memory(F16, shape.of_w())?)?;
    let builder = Gemm::builder::<Layer>(&device).operands(shape.left(&x), &w)?;
    for (request, reason) in [
        (sm90::Request { swap_ab: Some(true), ..small() }, "patches of images are the rows of a tile"),
        (
            sm90::Request { hints: Some(sm90::Hints { a: sm90::Hint::First, ..sm90::Hints::default() }), ..small() },
            "take no hint for A",
        ),
    ] {
        let refused = builder.clone().sm90(request).choose().expect_err("no kernel").to_string();
        assert!(refused.contains(reason), "{refused}");
    }
    let layout = epilogue::gemm::OperandLayout::packed(epilogue::gemm::Major::K);
    let extents = Gemm::builder::<Layer>(&device).elements(F16, F16).problem(4096, 256, 9 * 64).layouts(layout, layout);
    let unknown = extents.clone().patches(4096 * 64).choose()?.to_string();
    assert!(unknown.contains("only where the window is known"), "{unknown}");
    let boxes = epilogue::gemm::PatchBoxes { axes: 2, taps: 9, channels: 64 };
    let known = extents.clone().patches(4096 * 64).patch_boxes(boxes).choose()?;
    assert_eq!(boxed(known.kernel()), 2, "{known}");
    // Filters of 8 bits would have to be a tile's rows, in place of the patches.
    let narrow = extents.elements(F16, ElementType::I8).patches(4096 * 64).patch_boxes(boxes);
    let chosen = narrow.clone().choose()?;
    assert!(matches!(chosen.kernel().map(|chosen| chosen.key), Some(KernelKey::Sm80(_))), "{chosen}");
    let refused = narrow.sm90(sm90::Request::default()).choose().expect_err("no kernel").to_string();
    assert!(refused.contains("patches of images as a tile's rows, and convert nothing but those"), "{refused}");
    Ok(())
}

pub(crate) fn halves(device: &Device, shape: &[usize], seed: usize) -> Result<DeviceTensor, Error> {
    let values: Vec<f64> = integers(shape.iter().product(), seed, -300.0, 601).iter().map(|x| x / 64.0).collect();
    tensor(device, ElementType::F16, shape, &values)
}

/// A window of one element over images that are no matrix has the plain product's bits.
#[test]
fn single_elements_have_the_bits_of_a_matrix() -> Result<(), Error> {
    if testing::compiler("convolution_boxes::single_elements_have_the_bits_of_a_matrix").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let (x, w) = (halves(&device, &[3, 5, 7, 200], 1)?, halves(&device, &[24, 1, 1, 200], 2)?);
    let wide = device.full::<f16>([3, 5, 9, 208], f16::NAN)?;
    let mut cropped = wide.slice(2, 1..8)?.slice(3, 8..208)?;
    cropped.copy_from_bytes(&x.to_bytes()?)?;
    let (filter, window, matrix) = (filter(&w)?, Window::of([1, 1]), x.reshape([105, 200])?);
    let gemm =
        in_boxes(Gemm::builder::<Plain>(&device).operands(patches(&cropped, window), &filter)?, small()).plan()?;
    let dense = Gemm::builder::<Plain>(&device)
        .operands(&matrix, filter.matrix())?
        .sm90(sm90::Request { swap_ab: Some(false), ..small() });
    let dense = dense.plan()?;
    let (mut y, mut d) = (device.zeros::<f32>([3, 5, 7, 24])?, device.zeros::<f32>([105, 24])?);
    gemm.run(patches(&cropped, window), &filter, Plain { y: &mut y })?;
    dense.run(&matrix, filter.matrix(), Plain { y: &mut d })?;
    assert_eq!(y.to_bytes()?, d.to_bytes()?);
    Ok(())
}

/// Infinite elements reach the outputs whose window they are in, and nothing else: not from beside the channels, nor
/// where a part of K has nothing.
#[test]
fn infinite_elements_stay_in_their_windows() -> Result<(), Error> {
    if testing::compiler("convolution_boxes::infinite_elements_stay_in_their_windows").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let wide = device.full::<f16>([4, 6, 7, 24], f16::INFINITY)?;
    let mut x = wide.slice(0, 1..3)?.slice(1, 1..5)?.slice(2, 2..6)?.slice(3, 8..16)?;
    let w = filter(&device.full::<f16>([8, 3, 3, 8], f16::ONE)?)?;
    let window = Window::of([3, 3]).padding([1, 1]);
    for split_k in [SplitK::None, SplitK::Serial(4), SplitK::Parallel(4)] {
        let request = sm90::Request { split_k: Some(split_k), ..small() };
        let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(patches(&x, window), &w)?, request).plan()?;
        for corner in [0, 15, 5] {
            let mut values = integers(2 * 16 * 8, 1, -3.0, 7);
            values[8 * corner] = f64::INFINITY;
            x.copy_from_bytes(&epilogue::evt::reference::encode(ElementType::F16, &values))?;
            let mut y = device.zeros::<f32>([2, 4, 4, 8])?;
            gemm.run(patches(&x, window), &w, Plain { y: &mut y })?;
            for (i, y) in y.to_vec::<f32>()?.chunks(8).enumerate() {
                let near = i < 16 && (i / 4).abs_diff(corner / 4) <= 1 && (i % 4).abs_diff(corner % 4) <= 1;
                let right = |y: &f32| if near { *y == f32::INFINITY } else { y.is_finite() };
                assert!(y.iter().all(right), "{split_k} {corner} {i}: {y:?}");
            }
        }
    }
    Ok(())
}

/// One plan for windows of other sizes and numbers of axes, and for images that boxes don't reach. Also for filters
/// that are contiguous along their number, or no multiples of 16 bytes apart.
#[test]
fn one_plan_runs_other_windows() -> Result<(), Error> {
    if testing::compiler("convolution_boxes::one_plan_runs_other_windows").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Random)?;
    let (x, w) = (halves(&device, &[2, 6, 5, 16], 1)?, halves(&device, &[16, 3, 3, 16], 2)?);
    let window = Window::of([3, 3]).padding([1, 1]);
    let of_plan = filter(&w)?;
    let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(patches(&x, window), &of_plan)?, small()).plan()?;
    let run = |left: Left<'_>, b: &DeviceTensor, shape: &[usize]| -> Result<Vec<f32>, Error> {
        let mut y = device.full::<f32>(shape, f32::NAN)?;
        let expected = gemm.reference(left, b, Plain { y: &mut y })?;
        gemm.run(left, b, Plain { y: &mut y })?;
        expected.compare("y", &y)?.check()?;
        Ok(y.to_vec()?)
    };
    let first = run(patches(&x, window), of_plan.matrix(), &[2, 6, 5, 16])?;
    // B contiguous along N, and with rows that must be copied first.
    let along_n = tensor_along_n(&device, of_plan.matrix())?;
    assert_eq!(run(patches(&x, window), &along_n, &[2, 6, 5, 16])?, first);
    let wide = device.full::<f16>([16, 145], f16::NAN)?;
    let mut odd = wide.slice(1, 1..145)?;
    odd.copy_from_bytes(&w.to_bytes()?)?;
    assert_eq!(run(patches(&x, window), &odd.transpose()?, &[2, 6, 5, 16])?, first);
    // Channels first: copied one by one, by a kernel for sm_80.
    let planes = device.full::<f16>([2, 16, 6, 5], f16::NAN)?;
    let mut planes = planes.permute(&[0, 2, 3, 1])?;
    planes.copy_from_bytes(&x.to_bytes()?)?;
    assert_eq!(run(patches(&planes, window), of_plan.matrix(), &[2, 6, 5, 16])?, first);
    // Its launch has a map that descriptions don't have.
    let mut y = device.zeros::<f32>([2, 6, 5, 16])?;
    let described = gemm.describe_launch(patches(&x, window), &of_plan, &[Argument::Output(&mut y)]);
    let refused = described.expect_err("a map in im2col mode").to_string();
    assert!(
        refused.contains("loads patches by a tensor map in im2col mode, which descriptions don't have"),
        "{refused}"
    );
    // Other windows, of other axes.
    let one = halves(&device, &[8, 2, 1, 16], 3)?;
    let of_window = Window::of([2, 1]).stride([2, 9]);
    run(patches(&x, of_window), filter(&one)?.matrix(), &[2, 3, 1, 8])?;
    run(patches(&x, of_window.stride([2, 3])), filter(&one)?.matrix(), &[2, 3, 2, 8])?;
    let line = halves(&device, &[2, 30, 16], 4)?;
    run(patches(&line, Window::of([2]).dilation([7])), filter(&one)?.matrix(), &[2, 23, 8])?;
    Ok(())
}

/// Places along an axis are counted in 32 bits; kernels for sm_80 have 16 for all but the last.
#[test]
fn places_are_counted_in_32_bits() -> Result<(), Error> {
    if testing::compiler("convolution_boxes::places_are_counted_in_32_bits").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_90A)?;
    let (x, w) = (halves(&device, &[1, 40_000, 1, 8], 1)?, halves(&device, &[8, 3, 1, 8], 2)?);
    let (filter, window) = (filter(&w)?, Window::of([3, 1]).stride([8, 1]));
    let request = sm90::Request { tile: tile(128, 8, sm90::Schedule::Cooperative), ..sm90::Request::default() };
    let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(patches(&x, window), &filter)?, request).plan()?;
    let mut y = device.zeros::<f32>([1, 5000, 1, 8])?;
    let expected = gemm.reference(patches(&x, window), &filter, Plain { y: &mut y })?;
    gemm.run(patches(&x, window), &filter, Plain { y: &mut y })?;
    expected.compare("y", &y)?.check()?;
    Ok(())
}

/// A copy of a matrix whose columns are contiguous.
fn tensor_along_n(device: &Device, matrix: &DeviceTensor) -> Result<DeviceTensor, Error> {
    let mut copy = device.zeros::<f16>(matrix.shape())?;
    copy.copy_from_bytes(&matrix.to_bytes()?)?;
    Ok(copy)
}

/// Several filters for one image, whose boxes A shares, and an epilogue of several launches.
#[test]
fn several_accumulators() -> Result<(), Error> {
    #[epilogue]
    fn gated(gate: Accum, up: Accum) -> Tensor<f32> {
        let h = silu(gate) * up;
        let share = exp(h - reduction_op(h, Row, Max));
        let y = share / reduction_op(share, Row, Add);
        y
    }
    if testing::compiler("convolution_boxes::several_accumulators").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let of = |shape: &[usize], seed: usize| {
        let values: Vec<f64> = integers(shape.iter().product(), seed, -3.0, 7).iter().map(|x| x / 8.0).collect();
        tensor(&device, ElementType::F16, shape, &values)
    };
    let (x, one, two) = (of(&[2, 4, 5, 16], 1)?, of(&[6, 3, 3, 16], 2)?, of(&[6, 3, 3, 16], 3)?);
    let (one, two, window) = (filter(&one)?, filter(&two)?, Window::of([3, 3]).padding([1, 1]));
    let builder = Gemm::builder::<Gated>(&device).operands(patches(&x, window), [&one, &two])?;
    let gemm = in_boxes(builder, small()).plan()?;
    let mut y = device.zeros::<f32>([2, 4, 5, 6])?;
    let expected = gemm.reference(patches(&x, window), [&one, &two], Gated { y: &mut y })?;
    gemm.run(patches(&x, window), [&one, &two], Gated { y: &mut y })?;
    expected.compare("y", &y)?.check()?;
    Ok(())
}
