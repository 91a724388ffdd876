//! Refusals of convolutions: of their windows, images and filters, and of what kernels don't have.

use epilogue::gemm::{Filter, Left, Window, depth, filter, patches, rows};
use epilogue::prelude::*;
use epilogue::{Arch, Error};
use epilogue_runtime::testing;

use crate::convolution::Plain;

/// All of it is refused by name, and nothing is written.
#[test]
fn what_is_no_convolution_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let x = device.zeros::<f32>([2, 6, 5, 4])?;
    let w = device.zeros::<f32>([8, 3, 3, 4])?;
    let weights = filter(&w)?;
    let plan = |left: Left<'_>, filter: &Filter| -> String {
        Gemm::plan::<Plain>(&device, left, filter).expect_err("no convolution").to_string()
    };
    let three = Window::of([3, 3]);
    for (left, message) in [
        (patches(&x, Window::of([])), "the window has 0 axes: give 1, 2 or 3, as in `Window::of([3, 3])`"),
        (patches(&x, Window::of([1; 4])), "the window has 4 axes: give 1, 2 or 3, as in `Window::of([3, 3])`"),
        (patches(&x, Window::of([3])), "x has shape [2, 6, 5, 4], and the window 1 axes: give [N, W, C]"),
        (patches(&x, Window::of([3, 0])), "the window's size is [3, 0]: give at least 1 for every axis"),
        (patches(&x, three.stride([0, 1])), "the window's stride is [0, 1]: give at least 1 for every axis"),
        (patches(&x, three.dilation([1, 0])), "the window's dilation is [1, 0]: give at least 1 for every axis"),
        (
            patches(&x, three.dilation([1, 4]).padding_around([(0, 0), (2, 1)])),
            "the window reaches over 9 elements along W, and the image has 5 there with 2 before them and 1 after them: give a \
             smaller window, a smaller dilation, or more padding",
        ),
        (
            patches(&x, three.dilation([usize::MAX, 1])),
            "the window reaches over 18446744073709551615 elements along H, and the image has 6 there with 0 before them and 0 \
             after them: give a smaller window, a smaller dilation, or more padding",
        ),
        (
            patches(&x, Window::of([5, 1])),
            "a filter of [3, 3] elements and a window of [5, 1]: give a window of the filter's size",
        ),
    ] {
        assert_eq!(plan(left, &weights), message);
    }
    let padded = plan(patches(&x, three.padding([1 << 40, 0])), &weights);
    assert!(padded.starts_with("H with its padding has 2199023255558 elements; the largest possible is"), "{padded}");
    let many = plan(patches(&x, three.padding([1 << 20, 1 << 20])), &weights);
    assert!(many.starts_with("M is 8796"), "{many}");
    let narrow = filter(&device.zeros::<f32>([8, 3, 3, 3])?)?;
    assert_eq!(
        plan(patches(&x, three), &narrow),
        "patches of images of shape [2, 6, 5, 4] have 36 elements, 9 of the window for each of 4 channels, and B of shape \
         [27, 8] has 27 rows: give filters of as many channels"
    );
    let refused = |result: Result<Filter, Error>| result.expect_err("no filter").to_string();
    assert_eq!(
        refused(filter(&device.zeros::<f32>([8, 3])?)),
        "filters have shape [8, 3]: give [K, S, C], [K, R, S, C] or [K, T, R, S, C], with the channels of x last"
    );
    assert_eq!(
        refused(filter(&w.slice(3, 0..2)?)),
        "filters of shape [8, 3, 3, 2] have strides [36, 12, 4, 1], and the elements of one must lie one after another: give a \
         contiguous copy"
    );
    let (matrix, batch) = (device.zeros::<f32>([60, 36])?, device.zeros::<f32>([2, 36, 8])?);
    let error = |result: Result<Gemm<Plain>, Error>| result.expect_err("no convolution").to_string();
    assert_eq!(
        error(Gemm::plan::<Plain>(&device, &matrix, &weights)),
        "B is a filter, and A is no images under a window: give `patches(&x, window)`, or the filter's `matrix()`"
    );
    assert_eq!(
        error(Gemm::plan::<Plain>(&device, patches(&x, three), &batch)),
        "A is patches, and B has shape [2, 36, 8]: give one matrix, [K, N], for all images"
    );
    assert_eq!(
        error(Gemm::builder::<Plain>(&device).operands(patches(&x, three), &weights)?.groups(3).plan()),
        "A is patches, and the product has groups of rows: give patches without groups, or a matrix with groups"
    );

    // Runs.
    let gemm = Gemm::plan::<Plain>(&device, patches(&x, three), &weights)?;
    let mut y = device.full::<f32>([2, 4, 3, 7], 5.0)?;
    assert_eq!(
        gemm.run(patches(&x, three), &weights, Plain { y: &mut y }).expect_err("7 filters").to_string(),
        "argument `y`: columns are 8, but axes [3] have 7 elements"
    );
    let mut large = device.full::<f32>([2, 6, 5, 8], 5.0)?;
    assert_eq!(
        gemm.run(patches(&x, three), &weights, Plain { y: &mut large }).expect_err("no padding").to_string(),
        "argument `y` has shape [2, 6, 5, 8]; needed is [24, 8], or [2, 4, 3, 8]"
    );
    // Images, lines and pixels; none of them lie one after another.
    let mut mixed = device.full::<f32>([3, 8, 4, 2], 5.0)?.permute(&[3, 2, 0, 1])?;
    let refused = gemm.run(patches(&x, three), &weights, Plain { y: &mut mixed }).expect_err("three axes").to_string();
    assert!(
        refused.starts_with("argument `y`: the rows, axes [0, 1, 2], are [2, 4, 3] with strides [1, 2, 64]"),
        "{refused}"
    );
    assert!([&y, &large, &mixed].iter().all(|of| of.to_vec::<f32>().is_ok_and(|of| of.iter().all(|y| *y == 5.0))));
    // Groups are of matrices: an A is either.
    let _: [Left<'_>; 2] = [rows(&matrix).in_groups(&x), depth(&matrix).in_groups(&x)];
    Ok(())
}

/// Convolutions that no kernel takes.
#[test]
fn what_kernels_do_not_have() -> Result<(), Error> {
    let hopper = Device::emulated(Arch::SM_90A)?;
    let x = hopper.without_memory(ElementType::F16, [2, 64, 64, 64])?;
    let w = hopper.without_memory(ElementType::F16, [128, 3, 3, 64])?;
    let (window, filter) = (Window::of([3, 3]).padding([1, 1]), filter(&w)?);
    let builder = Gemm::builder::<Plain>(&hopper).operands(patches(&x, window), &filter)?;
    let chosen = builder.choose()?.to_string();
    assert!(chosen.contains(", patches of 2 axes") && chosen.contains("wgmma"), "{chosen}");

    // Positions along H are counted in 16 bits, and along W further.
    if testing::compiler("convolution_refused::what_kernels_do_not_have").is_none() {
        return Ok(());
    }
    let device = Device::emulated(Arch::SM_80)?;
    let filter = epilogue::gemm::filter(&device.zeros::<f16>([8, 3, 1, 8])?)?;
    let (window, mut y) = (Window::of([3, 1]), device.zeros::<f32>([1, 39_998, 1, 8])?);
    let x = device.zeros::<f16>([1, 40_000, 1, 8])?;
    let gemm = Gemm::plan::<Plain>(&device, patches(&x, window), &filter)?;
    assert_eq!(
        gemm.run(patches(&x, window), &filter, Plain { y: &mut y }).expect_err("16 bits").to_string(),
        "along H the window begins at up to 39997, and kernels count to 32767 there (along W further): give parts of the images, \
         or exchange the axes"
    );
    Ok(())
}
