//! Gradients of convolutions on sm_90a: patches of a gradient, and transposed ones, that tensor copies load in im2col mode, and
//! those that they don't.

use epilogue::gemm::{
    Arithmetic, KernelKey, Left, Major, OperandLayout, PatchBoxes, Right, SplitK, Window, filter, gradient_filter,
    gradient_patches, patches, sm90, transposed_patches,
};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::Completion;
use epilogue_runtime::testing;

use crate::convolution::{Plain, Shape, padded};
use crate::convolution_boxes::{boxed, halves, hopper, in_boxes, small, tile};
use crate::convolution_gradients::{Backward, Of, cases, check};

/// The shape with numbers of channels or filters that boxes take, and without strides where boxes don't take them.
fn boxable(of: Of, shape: Shape) -> Shape {
    let Shape { groups, channels, filters, .. } = shape;
    match of {
        Of::Images if groups > 1 => Shape { filters: 64 * groups, ..shape },
        Of::Images => Shape { filters: filters.next_multiple_of(8), ..shape },
        Of::Filters => Shape { channels: channels.div_ceil(groups).next_multiple_of(64) * groups, ..shape },
    }
}

/// Whether boxes take it, and it is small enough.
fn is_boxed(of: Of, shape: &Shape) -> bool {
    let moves_by_one = shape.stride.iter().all(|stride| *stride == 1);
    let is_single = shape.size.iter().product::<usize>() == 1;
    let is_matrix = is_single && moves_by_one && shape.padding.iter().all(|padding| *padding == (0, 0));
    let within = shape.stride.iter().all(|stride| *stride <= 8);
    !is_matrix
        && shape.groups <= 4
        && shape.channels <= 128
        && shape.images > 0
        && (of == Of::Filters && within || moves_by_one)
}

#[test]
fn cases_by_boxes() -> Result<(), Error> {
    use ElementType::F16;
    if testing::compiler("convolution_gradient_boxes::cases_by_boxes").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let three = |inputs, channels, filters| padded(Shape::of(inputs, channels, filters, [3, 3]), &[(1, 1); 2]);
    let mut all = cases();
    all.extend([
        // K that ends at the last pixel of the last image, and one behind; pixels of several k-tiles, and images of several.
        Shape { images: 1, ..three([8, 8], 8, 8) },
        Shape { images: 1, ..three([5, 13], 8, 24) },
        Shape { images: 5, ..three([3, 7], 9, 8) },
        // The mirrored window begins in the image, and ends in it: its padding is below 0.
        padded(Shape::of([4, 5], 8, 8, [2, 1]), &[(3, 0), (0, 4)]),
        padded(Shape::of([7], 8, 16, [2]), &[(4, 6)]),
        // As far as offsets and corners go.
        Shape { dilation: vec![1, 255], ..padded(Shape::of([2, 150], 8, 8, [1, 2]), &[(0, 0), (127, 127)]) },
        padded(Shape::of([3, 2], 8, 8, [1, 1]), &[(127, 3), (0, 0)]),
    ]);
    let of = |of: Of| all.iter().map(move |shape| (of, boxable(of, shape.clone())));
    let boxed = |(of, shape): &(Of, Shape)| is_boxed(*of, shape);
    let [images, filters] = [Of::Images, Of::Filters].map(|gradient| of(gradient).filter(boxed).collect::<Vec<_>>());
    assert!(images.len() >= 20 && filters.len() >= 30, "{} {}", images.len(), filters.len());
    for (of, shape) in testing::some_of(images.into_iter().chain(filters)) {
        check(&device, of, F16, &shape, |builder| in_boxes(builder, small()))?;
    }
    Ok(())
}

/// Both schedules, clusters that share A, B or both, every way of sharing K, also with parts that have nothing; tiles that end
/// within an element of the window, and behind the last.
#[test]
fn tiles_clusters_and_splits() -> Result<(), Error> {
    use ElementType::{BF16, F8E4M3, F32, I8};
    use sm90::Schedule::{Cooperative, PingPong};
    if testing::compiler("convolution_gradient_boxes::tiles_clusters_and_splits").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Random)?;
    let cluster = |m, n| Some(sm90::Cluster { m, n });
    let asked =
        |(tile, cluster, split_k)| sm90::Request { tile, cluster, split_k: Some(split_k), ..Default::default() };
    let of_images = padded(Shape::of([5, 9], 70, 72, [3, 2]), &[(1, 2), (0, 1)]);
    for how in testing::some_of([
        (tile(128, 64, Cooperative), cluster(1, 2), SplitK::None),
        (tile(64, 128, PingPong), cluster(2, 1), SplitK::Serial(3)),
        (tile(64, 32, Cooperative), cluster(1, 1), SplitK::Stream),
    ]) {
        check(&device, Of::Images, BF16, &of_images, |builder| in_boxes(builder, asked(how)))?;
    }
    // Two k-tiles of channels, or one with a tail, of other types; their filters are copied first, to rows along K.
    for (element, filters) in testing::some_of([(I8, 16 * 3), (F8E4M3, 16 * 3), (F32, 36)]) {
        let arithmetic = if element == F32 { Arithmetic::Tf32 } else { Arithmetic::Exact };
        let shape = padded(Shape::of([3, 4, 5], 20, filters, [2, 3, 2]), &[(1, 0), (1, 1), (0, 1)]);
        check(&device, Of::Images, element, &shape, |builder| in_boxes(builder.arithmetic(arithmetic), small()))?;
    }
    let groups_of_filters = Shape { groups: 3, channels: 36, filters: 192, ..of_images };
    check(&device, Of::Images, BF16, &groups_of_filters, |builder| in_boxes(builder, small()))?;

    // 3 boxes of rows, and 4 k-tiles: in 3 parts two each, so that the last one is empty.
    let of_filters =
        Shape { stride: vec![1, 2], images: 3, ..padded(Shape::of([9, 17], 64, 72, [1, 3]), &[(0, 0), (1, 2)]) };
    for how in testing::some_of([
        (tile(128, 128, Cooperative), cluster(2, 2), SplitK::Serial(3)),
        (tile(256, 64, Cooperative), cluster(1, 2), SplitK::None),
        (tile(64, 96, PingPong), cluster(1, 1), SplitK::Parallel(3)),
        (tile(64, 32, Cooperative), cluster(1, 1), SplitK::Stream),
    ]) {
        check(&device, Of::Filters, BF16, &of_filters, |builder| in_boxes(builder, asked(how)))?;
    }
    // Groups, of a tile with more rows and columns than a group has; filters whose rows must be copied first.
    let in_groups = Shape { channels: 128, filters: 80, groups: 2, images: 1, ..of_filters };
    for how in testing::some_of([
        (tile(256, 64, Cooperative), cluster(1, 1), SplitK::Serial(3)),
        (tile(64, 128, Cooperative), cluster(2, 1), SplitK::Stream),
    ]) {
        check(&device, Of::Filters, BF16, &in_groups, |builder| in_boxes(builder, asked(how)))?;
    }
    check(&device, Of::Filters, BF16, &Shape { filters: 6, ..in_groups }, |builder| in_boxes(builder, small()))
}

/// If maps end, kernels for sm_80 take over; the choice and the refusal say so.
#[test]
fn what_boxes_do_not_reach() -> Result<(), Error> {
    use ElementType::{F16, F32, I8};
    let device = hopper(Completion::Eager)?;
    let three = |channels, filters| padded(Shape::of([12, 11], channels, filters, [3, 3]), &[(1, 1); 2]);
    for (of, element, shape, limit) in [
        (Of::Images, F16, Shape { stride: vec![1, 2], ..three(8, 8) }, "no zeros lie between the images' elements"),
        (Of::Images, F16, three(8, 12), "pixels begin at multiples of 16 bytes and are whole ones"),
        (Of::Images, F16, Shape { groups: 2, ..three(16, 64) }, "groups of channels have whole k-tiles of 128 bytes"),
        (Of::Filters, F16, three(8, 8), "transposed ones have multiples of 64 channels (of each group)"),
        (Of::Filters, F16, Shape { groups: 2, ..three(192, 8) }, "transposed ones have multiples of 64 channels"),
        (Of::Filters, F16, Shape { stride: vec![1, 9], ..three(64, 8) }, "the window moves by at most 8"),
        (Of::Filters, F32, three(64, 8), "transposed ones are of 16 bits"),
        (Of::Filters, I8, three(64, 16), "transposed ones are of 16 bits"),
    ] {
        let (x, dy) = (device.without_memory(element, shape.of_x())?, device.without_memory(element, shape.of_y())?);
        let (groups, taps) = (shape.groups, shape.size.iter().product::<usize>());
        let of_group = [groups, taps * shape.filters / groups, shape.channels / groups];
        let filters = device.without_memory(element, &of_group[usize::from(groups == 1)..])?;
        let (left, right) = match of {
            Of::Images => (shape.of_gradient(&dy), Right::from(&filters)),
            Of::Filters => (shape.transposed(&x), Right::from(&dy)),
        };
        let arithmetic = if element == F32 { Arithmetic::Tf32 } else { Arithmetic::Exact };
        let builder = Gemm::builder::<Backward>(&device).operands(left, right)?.arithmetic(arithmetic);
        let choice = builder.choose()?;
        assert_eq!(boxed(choice.kernel()), 0, "{choice}");
        let said = choice.to_string();
        assert!(said.contains("; kernels for sm_90a load patches only where ") && said.contains(limit), "{said}");
        let refused = builder.sm90(sm90::Request::default()).choose().expect_err("no kernel").to_string();
        assert!(
            refused.contains(limit) && refused.ends_with("leave the request for one out for a kernel for sm_80"),
            "{refused}"
        );
    }
    // By extents, too.
    let across = OperandLayout::packed(Major::Mn);
    let extents = Gemm::builder::<Plain>(&device).elements(F16, F16).layouts(across, across).patches(8 * 64 * 64 * 64);
    let of = |channels| {
        let boxes = PatchBoxes { axes: 2, taps: 9, channels };
        extents.clone().problem(9 * channels, 256, 8 * 64 * 64).patch_boxes(boxes)
    };
    let known = of(64).choose()?;
    assert!(boxed(known.kernel()) == 2 && known.to_string().contains("transposed patches of 2 axes"), "{known}");
    let other = of(32).choose()?;
    assert!(boxed(other.kernel()) == 0 && other.to_string().contains("multiples of 64 channels"), "{other}");
    let swapped = of(64).sm90(sm90::Request { swap_ab: Some(true), ..small() }).choose();
    let refused = swapped.expect_err("no kernel").to_string();
    assert!(refused.contains("patches of images are the rows of a tile"), "{refused}");
    let of_bytes = of(64).elements(F16, I8).sm90(sm90::Request::default()).choose().expect_err("no kernel").to_string();
    assert!(of_bytes.contains("patches of images as a tile's rows, and convert nothing but those"), "{of_bytes}");
    Ok(())
}

/// Training on a GPU of this architecture takes its own kernels: of large layers the model chooses them, for the gradients, too.
#[test]
fn the_model_chooses_boxes_for_large_layers() -> Result<(), Error> {
    let device = Device::emulated(Arch::SM_90A)?;
    for (extent, channels, filters) in [(56, 64, 64), (28, 128, 256), (14, 256, 256), (7, 512, 512)] {
        let of = |shape: &[usize]| device.without_memory(ElementType::BF16, shape);
        let (x, dy) = (of(&[256, extent, extent, channels])?, of(&[256, extent, extent, filters])?);
        let (forward, mirrored) = (filter(&of(&[filters, 3, 3, channels])?)?, of(&[9 * filters, channels])?);
        let window = Window::of([3, 3]).padding([1, 1]);
        let all: [(Left<'_>, Right<'_>); 3] = [
            (patches(&x, window), (&forward).into()),
            (gradient_patches(&dy, window, [extent, extent]), (&mirrored).into()),
            (transposed_patches(&x, window), (&dy).into()),
        ];
        for (left, right) in all {
            let choice = Gemm::builder::<Plain>(&device).operands(left, right)?.choose()?;
            assert_eq!(boxed(choice.kernel()), 2, "{choice}");
        }
    }
    Ok(())
}

/// A window of one element over images that are no matrix has the plain product's bits, transposed, too.
#[test]
fn single_elements_have_the_bits_of_a_matrix() -> Result<(), Error> {
    if testing::compiler("convolution_gradient_boxes::single_elements_have_the_bits_of_a_matrix").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let (x, dy) = (halves(&device, &[3, 5, 7, 128], 1)?, halves(&device, &[3, 5, 7, 24], 2)?);
    let wide = device.full::<f16>([3, 5, 9, 136], f16::NAN)?;
    let mut cropped = wide.slice(2, 1..8)?.slice(3, 8..136)?;
    cropped.copy_from_bytes(&x.to_bytes()?)?;
    let (left, matrix) = (transposed_patches(&cropped, Window::of([1, 1])), x.reshape([105, 128])?.transpose()?);
    let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(left, &dy)?, small()).plan()?;
    let of_pixels = dy.reshape([105, 24])?;
    let dense = Gemm::builder::<Plain>(&device)
        .operands(&matrix, &of_pixels)?
        .sm90(sm90::Request { swap_ab: Some(false), ..small() });
    let dense = dense.plan()?;
    let (mut dw, mut d) = (device.zeros::<f32>([24, 1, 1, 128])?, device.zeros::<f32>([128, 24])?);
    gemm.run(left, &dy, Plain { y: &mut dw })?;
    dense.run(&matrix, &of_pixels, Plain { y: &mut d })?;
    assert_eq!(dw.reshape([24, 128])?.to_bytes()?, d.transpose()?.contiguous()?.to_bytes()?);
    // Rows of the matrix may be contiguous as well, and are then stored by boxes.
    let mut rows = device.zeros::<f32>([128, 24])?;
    gemm.run(left, &dy, Plain { y: &mut rows })?;
    assert_eq!(rows.to_bytes()?, d.to_bytes()?);
    Ok(())
}

/// Infinite elements reach the elements of filters that met them, and nothing else: not from beside the channels, nor
/// from beside the outputs' gradient, nor where a part of K has nothing.
#[test]
fn infinite_elements_stay_in_their_windows() -> Result<(), Error> {
    if testing::compiler("convolution_gradient_boxes::infinite_elements_stay_in_their_windows").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Lazy)?;
    let inside = |shape: [usize; 4]| -> Result<DeviceTensor, Error> {
        let [n, h, w, c] = shape;
        let wide = device.full::<f16>([n + 2, h + 2, w + 3, c + 16], f16::INFINITY)?;
        let mut view = wide.slice(0, 1..n + 1)?.slice(1, 1..h + 1)?.slice(2, 1..w + 1)?.slice(3, 8..c + 8)?;
        view.copy_from(&vec![f16::ONE; n * h * w * c])?;
        Ok(view)
    };
    let window = Window::of([3, 3]).padding([1, 1]);
    let (x, dy) = (inside([2, 5, 4, 64])?, device.full::<f16>([2, 5, 4, 8], f16::ONE)?);
    for split_k in [SplitK::None, SplitK::Serial(3), SplitK::Parallel(4)] {
        let request = sm90::Request { split_k: Some(split_k), ..small() };
        let left = transposed_patches(&x, window);
        let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(left, &dy)?, request).plan()?;
        // In the corner of the second image: five elements of the window never meet it.
        let mut corner = x.slice(0, 1..2)?.slice(1, 0..1)?.slice(2, 0..1)?.slice(3, 5..6)?;
        for infinite in [false, true] {
            corner.copy_from(&[if infinite { f16::INFINITY } else { f16::ONE }])?;
            let mut dw = device.zeros::<f32>([8, 3, 3, 64])?;
            gemm.run(left, &dy, Plain { y: &mut dw })?;
            for (i, w) in dw.to_vec::<f32>()?.iter().enumerate() {
                let (tap, channel) = (i / 64 % 9, i % 64);
                let met = infinite && channel == 5 && tap / 3 < 2 && tap % 3 < 2;
                assert!(if met { *w == f32::INFINITY } else { w.is_finite() }, "{split_k} {i}: {w}");
            }
        }
    }
    // For the gradient of images: elements beside the outputs' gradient.
    let dy = inside([2, 5, 4, 64])?;
    let filters = gradient_filter(&device.full::<f16>([64, 3, 3, 8], f16::ONE)?)?;
    let left = gradient_patches(&dy, window, [5, 4]);
    let gemm = in_boxes(Gemm::builder::<Plain>(&device).operands(left, &filters)?, small()).plan()?;
    let mut dx = device.zeros::<f32>([2, 5, 4, 8])?;
    gemm.run(left, &filters, Plain { y: &mut dx })?;
    let along = |at: usize, extent: usize| if at == 0 || at + 1 == extent { 2.0 } else { 3.0 };
    for (i, dx) in dx.to_vec::<f32>()?.chunks(8).enumerate() {
        let outputs = along(i / 4 % 5, 5) * along(i % 4, 4);
        assert!(dx.iter().all(|x| *x == 64.0 * outputs), "{i}: {dx:?}");
    }
    Ok(())
}

/// A plan for any one of the three, with several accumulators, runs a convolution and its gradients, all by boxes.
#[test]
fn one_plan_runs_them_all() -> Result<(), Error> {
    #[epilogue]
    fn both(one: Accum, two: Accum) -> Tensor<f32> {
        let y = one - 2.0 * two;
        y
    }
    if testing::compiler("convolution_gradient_boxes::one_plan_runs_them_all").is_none() {
        return Ok(());
    }
    let device = hopper(Completion::Random)?;
    let (x, dy) = (halves(&device, &[2, 5, 6, 64], 1)?, halves(&device, &[2, 5, 6, 128], 2)?);
    let dz = halves(&device, &[2, 5, 6, 128], 3)?;
    let w = [4, 5].map(|seed| halves(&device, &[128, 3, 3, 64], seed));
    let [w, v] = w;
    let (w, v) = (w?, v?);
    let (forward, of_images) = ([filter(&w)?, filter(&v)?], [gradient_filter(&w)?, gradient_filter(&v)?]);
    let window = Window::of([3, 3]).padding([1, 1]);
    let all: [(Left<'_>, Right<'_>, &[usize]); 3] = [
        (patches(&x, window), [&forward[0], &forward[1]].into(), &[2, 5, 6, 128]),
        (gradient_patches(&dy, window, [5, 6]), [&of_images[0], &of_images[1]].into(), &[2, 5, 6, 64]),
        (transposed_patches(&x, window), [&dy, &dz].into(), &[128, 3, 3, 64]),
    ];
    for (left, right, _) in testing::some_of(&all) {
        let wide = sm90::Request { tile: tile(128, 128, sm90::Schedule::Cooperative), ..small() };
        let gemm = in_boxes(Gemm::builder::<Both>(&device).operands(*left, right.clone())?, wide).plan()?;
        assert!(matches!(gemm.choice().kernel().map(|kernel| kernel.key), Some(KernelKey::Sm90(_))));
        for (left, right, shape) in &all {
            let mut y = device.full::<f32>(shape, f32::NAN)?;
            let expected = gemm.reference(*left, right.clone(), Both { y: &mut y })?;
            gemm.run(*left, right.clone(), Both { y: &mut y })?;
            expected.compare("y", &y)?.check()?;
        }
    }
    Ok(())
}
