//! Quantisation with f32 scales, compared bit for bit with `runtime::formats::F32Scaled`.

use epilogue::runtime::formats::{BlockFormat, EncodeBlocks, F32Scaled, ScaledElement};
use epilogue::te::{self, Expr, TeError, ops, var};
use epilogue::{Device, ElementType};

use super::{devices, normal, rounded, upload};

/// Rows with ties, zeros, and magnitudes from subnormal to large.
fn rows(element: ElementType, rows: usize, k: usize) -> Vec<f64> {
    let mut values = normal(rows * k, (rows * k) as u64);
    for (at, x) in values.iter_mut().enumerate() {
        match at / k % 4 {
            1 => *x = (*x * 2.0).round() / 2.0 + if at % k == 0 { 127.0 } else { 0.0 },
            2 if at % k < 16 => *x = 0.0,
            3 => *x *= if element == ElementType::F16 { 1e-4 } else { 2e-44 },
            _ => {}
        }
    }
    rounded(element, &values)
}

#[test]
fn codes_and_scales_are_those_of_the_format() -> Result<(), TeError> {
    let has_compiler = epilogue_runtime::testing::compiler("codes_and_scales_are_those_of_the_format").is_some();
    let cases = [
        (ElementType::F32, ScaledElement::I8, Some(16)),
        (ElementType::F32, ScaledElement::I8, None),
        (ElementType::BF16, ScaledElement::I8, Some(32)),
        (ElementType::F16, ScaledElement::I8, Some(128)),
        (ElementType::BF16, ScaledElement::F8E4M3, None),
        (ElementType::F32, ScaledElement::F8E4M3, Some(128)),
        (ElementType::F32, ScaledElement::F8E5M2, Some(32)),
    ];
    for (place, device) in devices().iter().enumerate().take(if has_compiler { 2 } else { 1 }) {
        // Two of them on the emulated GPU, which is slow.
        for (input, element, block) in cases.into_iter().step_by(1 + 3 * place).take(7 - 5 * place) {
            let (m, k) = (5, 256);
            let x = te::placeholder_of(input, [Expr::from(var("m")), Expr::from(k)], "x");
            let (codes, scales) = ops::quantize(&x, element, block)?;
            let values = rows(input, m, k);
            let given = upload(device, input, &values, &[m, k])?;
            let per_row = k / block.unwrap_or(k);
            let mut made = device.zeros_of(element.element_type(), [m, k])?;
            let mut by = device.zeros::<f32>([m, per_row])?;
            let kernel = te::auto::build(&[&codes, &scales])?.build(device)?;
            kernel.run_bound(&[(&x, (&given).into()), (&codes, (&mut made).into()), (&scales, (&mut by).into())])?;

            let format = F32Scaled::new(element, block.unwrap_or(k)).expect("a block");
            let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
            let (own_codes, own_scales) = format.encode(&values).expect("finite values");
            let what = format!("{input} to {element:?} by {block:?} on {device}");
            assert_eq!(by.to_bytes()?, own_scales, "{what}");
            let given = made.to_bytes()?;
            let differing = given.iter().zip(&own_codes).position(|(x, y)| x != y);
            assert_eq!(differing.map(|at| (at, values[at], given[at], own_codes[at])), None, "{what}");

            // The way back.
            let rows = var("m");
            let q = te::placeholder_of(element.element_type(), [Expr::from(rows), k.into()], "q");
            let s = te::placeholder([Expr::from(rows), per_row.into()], "s");
            let back = ops::dequantize(&q, &s, ElementType::F32)?;
            let mut decoded = device.zeros::<f32>([m, k])?;
            let kernel = te::auto::build(&[&back])?.build(device)?;
            kernel.run_bound(&[(&q, (&made).into()), (&s, (&by).into()), (&back, (&mut decoded).into())])?;
            let wanted = format.decode(&own_codes, &own_scales).expect("whole blocks");
            assert_eq!(decoded.to_vec::<f32>()?, wanted, "{what}");
        }
    }
    Ok(())
}

#[test]
fn numbers_that_are_not_finite_are_seen_in_the_scale() -> Result<(), TeError> {
    let x = te::placeholder([3, 16], "x");
    let (codes, scales) = ops::quantize(&x, ScaledElement::I8, 16)?;
    let mut values = vec![1.0f32; 48];
    (values[3], values[20]) = (f32::NAN, f32::NEG_INFINITY);
    let device = Device::cpu();
    let given = device.tensor(&values, [3, 16])?;
    let (mut made, mut by) = (device.zeros::<i8>([3, 16])?, device.zeros::<f32>([3, 1])?);
    let kernel = te::auto::build(&[&codes, &scales])?.build(&device)?;
    kernel.run_bound(&[(&x, (&given).into()), (&codes, (&mut made).into()), (&scales, (&mut by).into())])?;
    let by = by.to_vec::<f32>()?;
    assert!(by[0].is_nan() && by[1] == f32::INFINITY && by[2] == 1.0 / 127.0, "{by:?}");
    assert_eq!(made.to_vec::<i8>()?[32..], [127; 16]);
    Ok(())
}

#[test]
fn shapes_that_are_no_blocks_are_refused() {
    let refused = |result: Result<(), TeError>| result.unwrap_err().to_string();
    let quantized = |shape: &[Expr], block: Option<usize>| {
        let x = te::placeholder(shape.to_vec(), "x");
        ops::quantize(&x, ScaledElement::I8, block).map(|_| ())
    };
    let (m, n) = (Expr::from(var("m")), Expr::from(var("n")));
    assert!(quantized(&[m.clone(), n.clone()], None).is_ok());
    assert!(quantized(&[m.clone(), 32 * n.clone()], Some(32)).is_ok());
    for (shape, block) in [(vec![m.clone(), n.clone()], 32), (vec![m, 48.into()], 32), (vec![32.into()], 0)] {
        let said = refused(quantized(&shape, Some(block)));
        assert!(said.contains("a multiple of the blocks of"), "{said}");
    }
    assert!(refused(quantized(&[], None)).contains("[…, K]"));
    let integers = te::placeholder_of(ElementType::I32, [32], "x");
    assert!(ops::quantize(&integers, ScaledElement::I8, None).is_err());

    let of = |codes: &[i64], element, scales: &[i64], dtype| {
        let extents = |shape: &[i64]| shape.iter().map(|extent| Expr::from(*extent)).collect::<Vec<_>>();
        let codes = te::placeholder_of(element, extents(codes), "q");
        ops::dequantize(&codes, &te::placeholder(extents(scales), "s"), dtype).map(|_| ())
    };
    let (i8, f32) = (ElementType::I8, ElementType::F32);
    assert!(of(&[2, 32], i8, &[2, 2], f32).is_ok() && of(&[32], i8, &[1], ElementType::BF16).is_ok());
    for (codes, scales) in [(&[2, 32], &[2, 3][..]), (&[2, 32], &[3, 2]), (&[2, 32], &[2]), (&[2, 32], &[2, 0])] {
        let said = refused(of(codes, i8, scales, f32));
        assert!(said.contains("[…, K/block] for codes […, K]"), "{said}");
    }
    assert!(of(&[32], ElementType::I32, &[1], f32).is_err() && of(&[32], i8, &[1], i8).is_err());
}
