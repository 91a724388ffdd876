//! One plan runs any window: what A is read as doesn't depend on the window that it was planned with.

use epilogue::gemm::{Left, Right, Window, filter, gradient_filter, gradient_patches, patches, transposed_patches};
use epilogue::prelude::*;
use epilogue::{Arch, DeviceTensor, Error};
use epilogue_runtime::ptx_vm::{Detector, Options};
use epilogue_runtime::testing;

use crate::convolution::Plain;

fn devices(test: &str) -> Result<Vec<Device>, Error> {
    let mut devices = vec![Device::cpu()];
    if testing::compiler(test).is_some() {
        for arch in [Arch::SM_80, Arch::SM_90A] {
            devices.push(Device::emulated_with(arch, Options::default().detector(Detector::On))?);
        }
    }
    Ok(devices)
}

fn halves(device: &Device, values: &[f32], shape: &[usize]) -> Result<DeviceTensor, Error> {
    Ok(device.tensor(&values.iter().copied().map(f16::from_f32).collect::<Vec<_>>(), shape)?)
}

/// A plan for the first product runs both, and one for the second does.
fn both(device: &Device, products: &[(Left<'_>, Right<'_>, &[usize], &[f32]); 2]) -> Result<(), Error> {
    for planned in [0, 1] {
        let (left, right, ..) = &products[planned];
        let gemm = Gemm::plan::<Plain>(device, *left, right.clone())?;
        for (left, right, shape, expected) in products {
            let mut y = device.full::<f32>(*shape, f32::NAN)?;
            gemm.run(*left, right.clone(), Plain { y: &mut y })?;
            assert_eq!(y.to_vec::<f32>()?, *expected, "planned {planned} on {device}: {}", gemm.choice());
        }
    }
    Ok(())
}

/// Images [1, 2, 3, 4] of 2×2: a filter of one element, and one of four.
#[test]
fn one_plan_runs_any_window() -> Result<(), Error> {
    for device in devices("convolution_windows::one_plan_runs_any_window")? {
        let tensor = |values: &[f32], shape: &[usize]| halves(&device, values, shape);
        let x = tensor(&[1.0, 2.0, 3.0, 4.0], &[1, 2, 2, 1])?;
        let (ten, four) = (tensor(&[10.0], &[1, 1, 1, 1])?, tensor(&[1.0, 10.0, 100.0, 1000.0], &[1, 2, 2, 1])?);
        let matrix = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
        let column = tensor(&[1.0, 10.0], &[2, 1])?;
        let apart = tensor(&[1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 4.0, 0.0, 0.0, 0.0], &[1, 2, 6, 1])?;
        let apart = apart.slice(2, 0..4)?;
        let (single, whole) = (Window::of([1, 1]), Window::of([2, 2]));
        let (of_ten, of_four) = (filter(&ten)?, filter(&four)?);
        let of_single = (patches(&x, single), Right::from(&of_ten), &[1, 2, 2, 1][..], &[10f32, 20.0, 30.0, 40.0][..]);
        let of_whole = (patches(&x, whole), Right::from(&of_four), &[1, 1, 1, 1][..], &[4321f32][..]);
        // A matrix that is no image.
        let of_matrix: (_, _, &[usize], &[f32]) =
            (Left::from(&matrix), Right::from(&column), &[3, 1], &[21f32, 43.0, 65.0]);
        both(&device, &[of_matrix, of_whole.clone()])?;
        both(&device, &[of_single.clone(), of_whole])?;
        // One element that moves by 2, which is no plain matrix.
        let of_corner = (patches(&x, single.stride([2, 2])), Right::from(&of_ten), &[1, 1, 1, 1][..], &[10f32][..]);
        both(&device, &[of_single.clone(), of_corner])?;
        // Images that lie apart, whose pixels are no rows of one matrix.
        let of_apart: (_, _, &[usize], &[f32]) = (
            patches(&apart, single),
            Right::from(&of_ten),
            &[1, 2, 4, 1],
            &[10f32, 0.0, 20.0, 0.0, 30.0, 0.0, 40.0, 0.0],
        );
        both(&device, &[of_single.clone(), of_apart])?;
    }
    Ok(())
}

/// The gradients of both windows.
#[test]
fn one_plan_runs_the_gradients_of_any_window() -> Result<(), Error> {
    for device in devices("convolution_windows::one_plan_runs_the_gradients_of_any_window")? {
        let tensor = |values: &[f32], shape: [usize; 4]| halves(&device, values, &shape);
        let x = tensor(&[1.0, 2.0, 3.0, 4.0], [1, 2, 2, 1])?;
        let (ten, four) = (tensor(&[10.0], [1, 1, 1, 1])?, tensor(&[1.0, 10.0, 100.0, 1000.0], [1, 2, 2, 1])?);
        let (single, whole) = (Window::of([1, 1]), Window::of([2, 2]));
        let (dy, one): (DeviceTensor, DeviceTensor) =
            (tensor(&[1.0, 0.0, -1.0, 2.0], [1, 2, 2, 1])?, tensor(&[3.0], [1, 1, 1, 1])?);
        let (of_ten, of_four) = (gradient_filter(&ten)?, gradient_filter(&four)?);
        let of_single = (
            gradient_patches(&dy, single, [2, 2]),
            Right::from(&of_ten),
            &[1, 2, 2, 1][..],
            &[10f32, 0.0, -10.0, 20.0][..],
        );
        let of_whole = (
            gradient_patches(&one, whole, [2, 2]),
            Right::from(&of_four),
            &[1, 2, 2, 1][..],
            &[3f32, 30.0, 300.0, 3000.0][..],
        );
        both(&device, &[of_single, of_whole])?;
        // Zeros lie between the outputs of a window that moves by 2.
        let wide = tensor(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], [1, 3, 3, 1])?;
        let stepped = (
            gradient_patches(&dy, single.stride([2, 2]), [3, 3]),
            Right::from(&of_ten),
            &[1, 3, 3, 1][..],
            &[10f32, 0.0, 0.0, 0.0, 0.0, 0.0, -10.0, 0.0, 20.0][..],
        );
        let again = (
            gradient_patches(&wide, single, [3, 3]),
            Right::from(&of_ten),
            &[1, 3, 3, 1][..],
            &[10f32, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0][..],
        );
        both(&device, &[again, stepped])?;
        let of_filter = (transposed_patches(&x, single), Right::from(&dy), &[1, 1, 1, 1][..], &[1f32 - 3.0 + 8.0][..]);
        let of_filters =
            (transposed_patches(&x, whole), Right::from(&one), &[1, 2, 2, 1][..], &[3f32, 6.0, 9.0, 12.0][..]);
        both(&device, &[of_filter, of_filters])?;
    }
    Ok(())
}
