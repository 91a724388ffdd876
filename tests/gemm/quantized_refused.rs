//! Refusals of quantised weights.

use epilogue::Error;
use epilogue::gemm::{
    Arithmetic, CodeType, Feature, FormatError, Left, Quantization, Right, Window, ZeroPoints, depth, patches,
    quantized, scaled, supports,
};
use epilogue::prelude::*;

use crate::quantized::Plain;

fn refused<'a>(a: impl Into<Left<'a>>, b: impl Into<Right<'a>>) -> String {
    Gemm::plan::<Plain>(&Device::cpu(), a, b).expect_err("it does not fit").to_string()
}

#[test]
fn what_does_not_fit_is_refused_by_name() -> Result<(), Error> {
    let device = Device::cpu();
    let a = device.full::<f32>([4, 64], 1.0)?;
    let codes = device.zeros::<u8>([6, 32])?;
    let scales = device.full::<f16>([6, 2], f16::ONE)?;
    let weights = quantized(CodeType::Int4, &codes, &scales).group(32);

    assert_eq!(
        refused(&a, weights.group(24)),
        "24 codes share a scale; needed is a multiple of 16, as 32, 64 or 128, or all of K: leave `.group(…)` out"
    );
    assert_eq!(
        refused(&a, weights.group(64)),
        "the scales of int4 with scales of f16 per group of 64 have shape [6, 2]; needed is [6, 1]: one for each column of B and \
         group of K"
    );
    assert_eq!(
        refused(&a, weights.zero_point(8)),
        "int4 has no zero points: leave them out, or give the codes as uint4"
    );
    let unsigned = quantized(CodeType::Uint4, &codes, &scales).group(32);
    assert_eq!(
        refused(&a, unsigned),
        "uint4 needs zero points: give `.zero_points(&tensor)`, or one for all codes, as `.zero_point(8)` for symmetric weights"
    );
    assert_eq!(refused(&a, unsigned.zero_point(16)), "the zero point is 16; a code of uint4 is 0 to 15");
    let (short, wide) = (device.zeros::<u8>([6, 1])?, device.zeros::<i8>([6, 2])?);
    assert_eq!(
        refused(&a, unsigned.zero_points(&short)),
        "the zero points of uint4 with scales of f16 per group of 32 and zero points have shape [6, 1]; needed is [6, 2]: one for \
         each column of B and group of K"
    );
    assert_eq!(
        refused(&a, unsigned.zero_points(&wide)),
        "the zero points hold i8; needed is u8, a code for each group"
    );
    assert_eq!(refused(&a, quantized(CodeType::Int8, &codes, &scales)), "the codes hold u8; int8 needs a tensor of i8");
    assert_eq!(
        refused(&a, weights.depth(62)),
        "the codes have shape [6, 32]; int4 needs [N, ceil(K / 2)] or [L, N, ceil(K / 2)], and `.depth(62)` was given"
    );
    let flat = device.zeros::<u8>([32])?;
    assert_eq!(
        refused(&a, quantized(CodeType::Int4, &flat, &scales)),
        "the codes have shape [32]; int4 needs [N, ceil(K / 2)] or [L, N, ceil(K / 2)]"
    );
    let doubles = device.zeros::<f64>([6, 2])?;
    assert_eq!(
        refused(&a, quantized(CodeType::Int4, &codes, &doubles).group(32)),
        "the scales of quantised weights hold f64; needed is f16, bf16 or f32"
    );
    let other = device.zeros::<f32>([4, 63])?;
    assert_eq!(
        refused(&other, weights),
        "A of shape [4, 63] and B of shape [64, 6] differ in K: A is [M, K], B is [K, N]"
    );
    assert_eq!(
        refused(&device.zeros::<f64>([4, 64])?, weights),
        "quantised weights are multiplied by an A of f32, bf16 or f16, and A holds f64: convert it to one of these"
    );
    let with = |what| {
        format!("there are no quantised weights in a product with {what}: dequantise them, by `Quantized::dequantized`")
    };
    let images = device.zeros::<f32>([1, 4, 4, 16])?;
    assert_eq!(refused(patches(&images, Window::of([2, 2])), weights), with("patches of images"));
    let ends = device.tensor(&[64i32], [1])?;
    assert_eq!(refused(depth(&a).in_groups_to(&ends), weights), with("groups of K"));
    let a_scales = device.zeros::<f32>([4, 1])?;
    assert!(refused(scaled(&a, &a_scales), weights).starts_with("A has block scales, and B has none"));
    Ok(())
}

#[test]
fn arithmetics_and_formats_go_together() -> Result<(), Error> {
    let device = Device::cpu();
    let a = device.full::<f32>([4, 64], 1.0)?;
    let (codes, scales) = (device.zeros::<u8>([6, 32])?, device.full::<f16>([6, 2], f16::ONE)?);
    let weights = quantized(CodeType::Int4, &codes, &scales).group(32);
    let builder = Gemm::builder::<Plain>(&device).operands(&a, weights)?;
    let text = builder.arithmetic(Arithmetic::FastBf16).choose().expect_err("it is another").to_string();
    assert_eq!(
        text,
        "fast bf16 doesn't apply to quantised weights: take `Arithmetic::Exact` or `Arithmetic::Int8Activations`"
    );
    let b = device.zeros::<f32>([64, 6])?;
    let builder = Gemm::builder::<Plain>(&device).operands(&a, &b)?.arithmetic(Arithmetic::Int8Activations);
    assert_eq!(
        builder.choose().expect_err("B isn't quantised").to_string(),
        "8-bit activations are for quantised weights, and B is a tensor of f32: give `quantized(…)`, or leave \
         `.arithmetic(…)` out"
    );
    let builder = Gemm::builder::<Plain>(&device).elements(ElementType::F32, ElementType::U8).problem(4, 6, 64);
    assert_eq!(
        builder.weights(weights.quantization()).choose().expect_err("types differ").to_string(),
        "the element types are f32 and u8, and quantised weights are multiplied as elements of A's type: give \
         `.elements(f32, f32)`"
    );
    Ok(())
}

#[test]
fn a_run_refuses_before_it_writes() -> Result<(), Error> {
    let device = Device::cpu();
    let a = device.full::<f32>([4, 64], 1.0)?;
    let (codes, scales) = (device.zeros::<u8>([6, 32])?, device.full::<f16>([6, 2], f16::ONE)?);
    let weights = quantized(CodeType::Int4, &codes, &scales).group(32);
    let dense = weights.dequantized(ElementType::F32)?;
    let (gemm, plain) = (Gemm::plan::<Plain>(&device, &a, weights)?, Gemm::plan::<Plain>(&device, &a, &dense)?);
    let mut d = device.full::<f32>([4, 6], 77.0)?;
    let mut run = |gemm: &Gemm<Plain>, b: Right<'_>| {
        gemm.run(&a, b, Plain { accum: &mut d }).expect_err("another plan's").to_string()
    };
    let planned = "int4 with scales of f16 per group of 32";
    assert_eq!(
        run(&gemm, (&dense).into()),
        format!(
            "B is a plain tensor, and this GEMM was planned for weights of {planned}: plan it for the weights that it multiplies"
        )
    );
    assert!(run(&plain, weights.into()).contains("B is weights of int4"));
    let column = device.full::<f16>([6, 1], f16::ONE)?;
    let text = run(&gemm, quantized(CodeType::Int4, &codes, &column).into());
    assert!(text.starts_with("B is weights of int4 with scales of f16 per column, and"), "{text}");
    let packed = gemm.pack(weights)?;
    assert_eq!(
        run(&plain, (&packed).into()),
        format!(
            "B is packed for f32 by weights of {planned} with `Arithmetic::Exact`, and this plan multiplies f32 by f32 with \
             `Arithmetic::Exact`: pack it with this plan"
        )
    );
    assert!(matches!(gemm.pack(&dense), Err(Error::Format(FormatError::Other { .. }))));
    assert!(matches!(plain.pack(weights), Err(Error::Format(FormatError::Other { .. }))));
    assert_eq!(d.to_vec::<f32>()?, [77.0; 24]);
    Ok(())
}

/// GPUs say so, in every way in which they are asked.
#[test]
fn gpus_refuse_them_by_name() -> Result<(), Error> {
    let format = Quantization {
        codes: CodeType::Uint4,
        scales: ElementType::F16,
        zero_points: ZeroPoints::Each,
        group: Some(128),
    };
    for (arch, name) in [(Arch::SM_80, "sm_80"), (Arch::SM_90A, "sm_90a")] {
        let gpu = Device::emulated(arch)?;
        let said = format!(
            "an emulated {name} doesn't multiply weights of uint4 with scales of f16 per group of 128 and zero points: dequantise \
             them, by `Quantized::dequantized`, or use the CPU device"
        );
        for arithmetic in [Arithmetic::Exact, Arithmetic::Int8Activations] {
            let feature = Feature::Weights { a: ElementType::F16, format, arithmetic };
            assert_eq!(supports(&gpu, feature).expect_err("none has").to_string(), said);
            let builder = Gemm::builder::<Plain>(&gpu).elements(ElementType::F16, ElementType::F16);
            let builder = builder.problem(16, 256, 256).weights(format).arithmetic(arithmetic);
            assert_eq!(builder.choose().expect_err("none has").to_string(), said);
            assert_eq!(builder.plan().expect_err("none has").to_string(), said);
        }
        // What it advises can be done, and bytes of the same shape are multiplied.
        let (codes, scales) = (gpu.zeros::<u8>([256, 128])?, gpu.zeros::<f16>([256, 2])?);
        let zero_points = gpu.zeros::<u8>([256, 2])?;
        let weights = quantized(CodeType::Uint4, &codes, &scales).group(128).zero_points(&zero_points);
        let a = gpu.zeros::<f16>([16, 256])?;
        assert!(matches!(Gemm::plan::<Plain>(&gpu, &a, weights), Err(Error::Format(FormatError::Device { .. }))));
        let dense = weights.dequantized(ElementType::F16)?;
        assert!(Gemm::builder::<Plain>(&gpu).operands(&a, &dense)?.choose().is_ok());
        let bytes = gpu.zeros::<u8>([256, 256])?;
        assert!(Gemm::builder::<Plain>(&gpu).operands(&a, &bytes)?.choose().is_ok());
    }
    Ok(())
}
