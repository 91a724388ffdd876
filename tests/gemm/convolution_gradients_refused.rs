//! Refusals of gradients of convolutions.

use epilogue::gemm::{Filter, Left, Window, filter, gradient_filter, gradient_patches, patches, transposed_patches};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::testing;

use crate::convolution_gradients::Plain;

/// All of it is refused by name, and nothing is written.
#[test]
fn what_is_no_gradient_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let (x, w) = (device.zeros::<f32>([2, 6, 5, 4])?, device.zeros::<f32>([8, 3, 3, 4])?);
    let dy = device.zeros::<f32>([2, 3, 3, 8])?;
    let window = Window::of([3, 3]).stride([2, 2]).padding([1, 1]);
    let (forward, backward) = (filter(&w)?, gradient_filter(&w)?);
    let plan = |left: Left<'_>, filter: &Filter| -> String {
        Gemm::plan::<Plain>(&device, left, filter).expect_err("no gradient").to_string()
    };
    for (left, filter, message) in [
        (
            gradient_patches(&dy, window, [7, 5]),
            &backward,
            "the window has outputs [4, 3] in images of [7, 5], and their gradient is of [3, 3]: give the extents of the images \
             that the outputs were made of",
        ),
        (
            gradient_patches(&dy, window, [0, 5]),
            &backward,
            "the window reaches over 3 elements along H, and the image has 0 there with 1 before them and 1 after them: give a \
             smaller window, a smaller dilation, or more padding",
        ),
        (
            gradient_patches(&dy, window.stride([2, 0]), [6, 5]),
            &backward,
            "the window's stride is [2, 0]: give at least 1 for every axis",
        ),
        (
            gradient_patches(&dy, Window::of([3]), [6]),
            &backward,
            "x has shape [2, 3, 3, 8], and the window 1 axes: give [N, W, C]",
        ),
        (
            gradient_patches(&dy, Window::of([1, 3]).stride([2, 2]).padding([0, 1]), [6, 5]),
            &backward,
            "a filter of [3, 3] elements and a window of [1, 3]: give a window of the filter's size",
        ),
        (
            gradient_patches(&dy, window, [6, 5]),
            &forward,
            "B is a filter of another kind than A's patches: multiply `gradient_patches(…)` by `gradient_filter(&w)?`",
        ),
        (
            patches(&x, window),
            &backward,
            "B is a filter of another kind than A's patches: multiply `patches(…)` by `filter(&w)?`",
        ),
        (
            transposed_patches(&x, window),
            &forward,
            "B is a filter of another kind than A's patches: multiply `transposed_patches(…)` by the gradient of the outputs, a \
             tensor",
        ),
        (
            gradient_patches(&device.zeros::<f32>([2, 3, 3, 7])?, window, [6, 5]),
            &backward,
            "patches of a gradient of shape [2, 3, 3, 7] have 63 elements, 9 of the window for each of 7 filters, and B of shape \
             [72, 4] has 72 rows: give the filters that made these outputs",
        ),
    ] {
        assert_eq!(plan(left, filter), message);
    }
    let far = plan(gradient_patches(&dy, window.padding([1 << 40, 1]), [6, 5]), &backward);
    assert!(far.starts_with("H with its padding has 2199023255558 elements; the largest possible is"), "{far}");
    let shape = gradient_filter(&device.zeros::<f32>([8, 3])?).expect_err("no filter").to_string();
    assert!(shape.starts_with("filters have shape [8, 3]: give [K, S, C]"), "{shape}");

    let transposed = |b: &DeviceTensor| -> String {
        Gemm::plan::<Plain>(&device, transposed_patches(&x, window), b).expect_err("no gradient").to_string()
    };
    assert_eq!(
        transposed(&device.zeros::<f32>([17, 8])?),
        "the window has outputs [2, 3, 3] in images of shape [2, 6, 5, 4], and B has shape [17, 8]: give the gradient of these \
         outputs, of their shape with the filters behind it, or as a matrix"
    );
    assert_eq!(
        transposed(&device.zeros::<f32>([2, 3, 4, 8])?),
        "the window has outputs [2, 3, 3] in images of shape [2, 6, 5, 4], and B has shape [2, 3, 4, 8]: give the gradient of \
         these outputs, of their shape with the filters behind it, or as a matrix"
    );
    assert_eq!(
        transposed(&device.zeros::<f32>([2, 3, 4, 8])?.slice(2, 0..3)?),
        "the outputs' gradient of shape [2, 3, 3, 8] has strides [96, 32, 8, 1], and its pixels must lie one stride apart: give a \
         contiguous copy"
    );

    // Runs.
    let gemm = Gemm::plan::<Plain>(&device, transposed_patches(&x, window), &dy)?;
    let mut turned = device.full::<f32>([3, 3, 4, 8], 5.0)?;
    assert_eq!(
        gemm.run(transposed_patches(&x, window), &dy, Plain { y: &mut turned }).expect_err("filters last").to_string(),
        "argument `y` has shape [3, 3, 4, 8]; needed is [36, 8], or [8, 3, 3, 4]"
    );
    let left = gradient_patches(&dy, window, [6, 5]);
    let gemm = Gemm::plan::<Plain>(&device, left, &backward)?;
    let mut small = device.full::<f32>([2, 5, 5, 4], 5.0)?;
    assert_eq!(
        gemm.run(left, &backward, Plain { y: &mut small }).expect_err("another image").to_string(),
        "argument `y` has shape [2, 5, 5, 4]; needed is [60, 4], or [2, 6, 5, 4]"
    );
    let mut images = device.full::<f32>([2, 6, 5, 4], 5.0)?;
    let failed = gemm.run(gradient_patches(&dy, window, [5, 4]), &backward, Plain { y: &mut images });
    assert!(failed.is_err());
    assert!(
        [&turned, &small, &images].iter().all(|of| of.to_vec::<f32>().is_ok_and(|of| of.iter().all(|y| *y == 5.0)))
    );
    Ok(())
}

/// Gradients that no kernel takes.
#[test]
fn what_kernels_do_not_have() -> Result<(), Error> {
    let hopper = Device::emulated(Arch::SM_90A)?;
    let dy = hopper.without_memory(ElementType::F16, [2, 32, 32, 128])?;
    let matrix = hopper.without_memory(ElementType::F16, [9 * 128, 64])?;
    let left = gradient_patches(&dy, Window::of([3, 3]).padding([1, 1]).stride([2, 2]), [64, 64]);
    let builder = Gemm::builder::<Plain>(&hopper).operands(left, &matrix)?;
    let chosen = builder.choose()?.to_string();
    assert!(chosen.contains(", patches of a gradient") && chosen.contains("mma.m16n8k16"), "{chosen}");
    let refused = builder.sm90(epilogue::gemm::sm90::Request::default()).choose().expect_err("no kernel").to_string();
    assert!(refused.contains("only where no zeros lie between the images' elements"), "{refused}");
    if testing::compiler("convolution_gradients_refused::what_kernels_do_not_have").is_none() {
        return Ok(());
    }
    // Remainders of positions are counted in 16 bits for all axes.
    let device = Device::emulated(Arch::SM_80)?;
    let filter = gradient_filter(&device.zeros::<f16>([8, 1, 1, 8])?)?;
    let (dy, window) = (device.zeros::<f16>([1, 2, 2, 8])?, Window::of([1, 1]).stride([257, 256]));
    let left = gradient_patches(&dy, window, [258, 257]);
    let mut dx = device.zeros::<f32>([1, 258, 257, 8])?;
    assert_eq!(
        Gemm::plan::<Plain>(&device, left, &filter)?
            .run(left, &filter, Plain { y: &mut dx })
            .expect_err("16 bits")
            .to_string(),
        "the window moves by [257, 256], and kernels of a gradient count the product of these to 65536: give smaller strides, or \
         compute it on the CPU"
    );
    Ok(())
}
