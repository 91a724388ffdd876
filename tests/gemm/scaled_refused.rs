//! Refusals of scales of blocks.

use epilogue::Error;
use epilogue::gemm::{Arithmetic, Left, Right, ScaleError, Window, depth, patches, rows, scaled};
use epilogue::prelude::*;

use crate::scaled::{Operands, Plain};

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let operands = Operands::new(&device, [6, 200, 300], (None, None), 1)?;
    let (a, b, of_a, of_b) = (&operands.a, &operands.b[0], &operands.of_a, &operands.of_b[0]);
    let refused = |left: Left<'_>, right: Right<'_>| {
        Gemm::plan::<Plain>(&device, left, right).expect_err("it does not fit").to_string()
    };
    let one = "give both, as `scaled(&a, &a_scales)` and `scaled(&b, &b_scales)`; a scale for each row or column alone is a \
               vector of the epilogue";
    assert_eq!(refused(scaled(a, of_a).into(), b.into()), format!("A has block scales, and B has none: {one}"));
    assert_eq!(refused(a.into(), scaled(b, of_b).into()), format!("B has block scales, and A has none: {one}"));
    let halves = device.full([6, 3], f16::ONE)?;
    assert_eq!(
        refused(scaled(a, &halves).into(), scaled(b, of_b).into()),
        "the block scales of A hold f16; needed is f32"
    );
    let (few, turned) = (device.full::<f32>([6, 2], 1.0)?, device.full::<f32>([2, 3], 1.0)?);
    assert_eq!(
        refused(scaled(a, &few).into(), scaled(b, of_b).into()),
        "the block scales of A have shape [6, 2]; needed is [6, 3] for A of shape [6, 300]: one for each row and 128 of K"
    );
    assert_eq!(
        refused(scaled(a, of_a).into(), scaled(b, &turned).into()),
        "the block scales of B have shape [2, 3]; needed is [3, 2] for B of shape [300, 200]: one for each 128 of K and 128 \
         columns"
    );
    let (wide_a, wide_b) = (device.full::<f32>([6, 300], 1.0)?, device.full::<f32>([300, 200], 1.0)?);
    assert_eq!(
        refused(scaled(&wide_a, of_a).into(), scaled(&wide_b, of_b).into()),
        "block scales are for FP8, and A holds f32 and B f32: give both f8e4m3 or f8e5m2; a scale for each row or column alone \
         is a vector of the epilogue"
    );
    let builder = Gemm::builder::<Plain>(&device).operands(operands.left(), operands.right())?;
    assert_eq!(
        builder.arithmetic(Arithmetic::FastFp8).choose().expect_err("it sums over all of K").to_string(),
        "fast FP8 sums over all of K, and block scales need the sum of each 128: leave `.arithmetic(…)` out"
    );
    let index = device.tensor(&[0i32, 5], [2])?;
    let with = |what| {
        format!(
            "there are no block scales of a product with {what}: multiply without them, or give a matrix with its rows in order"
        )
    };
    assert_eq!(refused(rows(a).scaled(of_a).picked(&index).into(), operands.right()), with("rows that an index picks"));
    let images = device.full([1, 4, 4, 2], f8e4m3::from_f32(1.0))?;
    let text = refused(patches(&images, Window::of([2, 2])), operands.right());
    assert_eq!(text, format!("B has block scales, and A has none: {one}"));
    let ends = device.tensor(&[300i32], [1])?;
    assert_eq!(
        refused(depth(a).in_groups_to(&ends), operands.right()),
        format!("B has block scales, and A has none: {one}")
    );
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F8E4M3, ElementType::F8E4M3).problem(8, 8, 8);
    let text = builder.clone().block_scales().depth_groups(2).choose().expect_err("no such product").to_string();
    assert_eq!(text, with("groups of K"));
    let text = builder.block_scales().patches(64).choose().expect_err("no such product").to_string();
    assert_eq!(text, with("patches of images"));

    // A run refuses before it writes.
    let mut d = device.full::<f32>([6, 200], 77.0)?;
    let gemm = Gemm::plan::<Plain>(&device, operands.left(), operands.right())?;
    let error = gemm.run(a, b, Plain { accum: &mut d }).expect_err("planned with scales");
    assert_eq!(
        error.to_string(),
        "the operands have no block scales, and this GEMM was planned for operands with block scales: plan it for such operands"
    );
    let error = Gemm::plan::<Plain>(&device, a, b)?.run(operands.left(), operands.right(), Plain { accum: &mut d });
    assert!(matches!(error, Err(Error::Scales(ScaleError::Other { given: true }))));
    let foreign = Device::emulated(Arch::SM_80)?.full::<f32>([6, 3], 1.0)?;
    let error = gemm.run(scaled(a, &foreign), operands.right(), Plain { accum: &mut d }).expect_err("another device");
    assert!(error.to_string().starts_with("a_scales is on "), "{error}");
    // An output may not be scales.
    let memory = device.full::<f32>([6, 200], 77.0)?;
    let own = memory.slice(1, 0..3)?;
    let error = gemm.run(scaled(a, &own), operands.right(), Plain { accum: &mut memory.clone() });
    assert!(matches!(error, Err(Error::OutputAliasesInput { input: "a_scales", .. })), "{error:?}");
    assert!(d.to_vec::<f32>()?.iter().chain(&memory.to_vec::<f32>()?).all(|x| *x == 77.0));
    Ok(())
}
