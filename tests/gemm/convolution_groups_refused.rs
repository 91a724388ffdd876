//! Refusals of convolutions with groups of channels.

use epilogue::Error;
use epilogue::gemm::{
    Left, Right, Window, filter, gradient_filter, gradient_filter_in_groups, gradient_patches, patches,
    transposed_patches,
};
use epilogue::prelude::*;

use crate::convolution::Plain;
use crate::convolution_groups::Statistics;

/// All of it is refused by name, and nothing is written.
#[test]
fn what_has_no_groups_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let (x, w) = (device.zeros::<f32>([2, 6, 5, 4])?, device.zeros::<f32>([8, 3, 3, 2])?);
    let (weights, three) = (filter(&w)?, Window::of([3, 3]));
    let plan = |left: Left<'_>, right: Right<'_>| -> String {
        Gemm::plan::<Plain>(&device, left, right).expect_err("no groups").to_string()
    };
    for (groups, message) in [
        (
            3,
            "x has shape [2, 6, 5, 4], whose 4 channels don't divide into 3 groups: give `.groups(…)` a divisor of 4, 1 for a \
             convolution without groups",
        ),
        (
            0,
            "x has shape [2, 6, 5, 4], whose 4 channels don't divide into 0 groups: give `.groups(…)` a divisor of 4, 1 for a \
             convolution without groups",
        ),
        (
            4,
            "patches of images of shape [2, 6, 5, 4] have 9 elements, 9 of the window for each of 1 channels of each of 4 groups, \
             and B of shape [4, 18, 2] has 18 rows: give filters of as many channels",
        ),
        (
            1,
            "patches of images of shape [2, 6, 5, 4] have 36 elements, 9 of the window for each of 4 channels, and B of shape \
             [18, 8] has 18 rows: give filters of as many channels",
        ),
    ] {
        assert_eq!(plan(patches(&x, three.groups(groups)), (&weights).into()), message);
    }
    let seven = filter(&device.zeros::<f32>([7, 3, 3, 2])?)?;
    assert_eq!(
        plan(patches(&x, three.groups(2)), (&seven).into()),
        "B has shape [18, 7], whose 7 columns don't divide into 2 groups: give each group as many filters"
    );
    assert_eq!(
        plan(patches(&x, three.groups(2)), (&device.zeros::<f32>([3, 18, 4])?).into()),
        "A is patches, and B has shape [3, 18, 4]: give one matrix, [K, N], for all images, or one for each of 2 groups"
    );
    let uneven = |groups| gradient_filter_in_groups(&w, groups).expect_err("no groups").to_string();
    assert_eq!(
        uneven(3),
        "B has shape [8, 3, 3, 2], whose 8 filters don't divide into 3 groups: give each group as many filters"
    );
    assert!(uneven(0).contains("8 filters don't divide into 0 groups"));
    let dy = device.zeros::<f32>([2, 4, 3, 8])?;
    assert_eq!(
        plan(gradient_patches(&dy, three.groups(2), [6, 5]), (&gradient_filter(&w)?).into()),
        "the filter is laid out for groups of channels, 1 of them, and the window has 2: make it by `gradient_filter_in_groups(&w, 2)?`"
    );
    assert_eq!(
        plan(gradient_patches(&dy, three, [6, 5]), (&gradient_filter_in_groups(&w, 2)?).into()),
        "the filter is laid out for groups of channels, 2 of them, and the window has 1: make it by `gradient_filter_in_groups(&w, 1)?`"
    );
    assert_eq!(
        plan(transposed_patches(&x, three.groups(2)), (&device.zeros::<f32>([2, 4, 3, 7])?).into()),
        "B has shape [2, 4, 3, 7], whose 7 columns don't divide into 2 groups: give each group as many filters"
    );

    // Arguments.
    let window = three.groups(2);
    let gemm = Gemm::plan::<Statistics>(&device, patches(&x, window), &weights)?;
    let fives = |shape: &[usize]| device.full::<f32>(shape, 5.0);
    let run = |shapes: [&[usize]; 7]| -> Result<String, Error> {
        let [bias, weight, residual] = [0, 1, 2].map(|i| fives(shapes[i]));
        let (bias, weight, residual) = (&bias?, &weight?, &residual?);
        let [y, sums, largest, total] = [3, 4, 5, 6].map(|i| fives(shapes[i]));
        let (mut y, mut sums, mut largest, mut total) = (y?, sums?, largest?, total?);
        let refused = {
            let (y, sums, largest, total) = (&mut y, &mut sums, &mut largest, &mut total);
            let arguments = Statistics { bias, weight, residual, y, sums, largest, total };
            gemm.run(patches(&x, window), &weights, arguments).expect_err("another shape").to_string()
        };
        for of in [&y, &sums, &largest, &total] {
            assert!(of.to_vec::<f32>()?.iter().all(|x| *x == 5.0));
        }
        Ok(refused)
    };
    let right: [&[usize]; 7] = [&[8], &[2, 4, 3], &[2, 4, 3, 8], &[2, 4, 3, 8], &[8], &[2, 4, 3, 2], &[2]];
    for (i, given, message) in [
        (
            0,
            &[7][..],
            "argument `bias` has shape [7]; needed is [4], or [2, 4] for one per batch, or [8] for all groups",
        ),
        (
            1,
            &[2, 4, 4],
            "argument `weight` has shape [2, 4, 4]; needed is [24], or [2, 24] for one per batch, or [2, 4, 3], or [2, 4, 3, 2] \
             for all groups",
        ),
        (
            2,
            &[2, 4, 3, 7],
            "argument `residual` has shape [2, 4, 3, 7]; needed is [24, 4], or [2, 24, 4] for one per batch, or [2, 4, 3, 4], or \
             [2, 4, 3, 8] for all groups",
        ),
        (3, &[2, 4, 3, 4], "argument `y` has shape [2, 4, 3, 4]; needed is [2, 24, 4], or [2, 4, 3, 8] for all groups"),
        (4, &[4], "argument `sums` has shape [4]; needed is [2, 4], or [8] for all groups"),
        (5, &[2, 4, 3], "argument `largest` has shape [2, 4, 3]; needed is [2, 24], or [2, 4, 3, 2] for all groups"),
        (6, &[], "argument `total` has shape []; needed is [2]"),
    ] {
        let mut shapes = right;
        shapes[i] = given;
        assert_eq!(run(shapes)?, message);
    }
    Ok(())
}
