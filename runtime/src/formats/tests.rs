//! The formats beside ggml's, torch's and torchao's own blocks (`tests/golden/formats/`), and what is refused.

use super::*;

const GGML: &str = include_str!("../../../tests/golden/formats/ggml.txt");
const SCALED: &str = include_str!("../../../tests/golden/formats/scaled.txt");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn floats(hex: &str) -> Vec<f32> {
    bytes(hex).chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

/// With the sign of 0; a NaN is a NaN.
fn assert_same(given: &[f32], needed: &[f32], line: &str) {
    let same = |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    assert!(given.len() == needed.len() && given.iter().zip(needed).all(same), "{line}\n{given:?}\n{needed:?}");
}

fn ggml(name: &str) -> Box<dyn BlockFormat> {
    match name {
        "Q4_0" => Box::new(Q4_0),
        "Q4_1" => Box::new(Q4_1),
        "Q5_0" => Box::new(Q5_0),
        "Q8_0" => Box::new(Q8_0),
        "Q4_K" => Box::new(Q4_K),
        "Q5_K" => Box::new(Q5_K),
        "Q6_K" => Box::new(Q6_K),
        "MXFP4" => Box::new(GgmlMxfp4),
        other => panic!("{other}"),
    }
}

#[test]
fn ggmls_blocks_have_its_values_and_its_codes() {
    let (mut decoded, mut encoded) = (0, 0);
    for line in GGML.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        match parts[..] {
            ["decode", name, block, values] => {
                let format = ggml(name);
                let block = bytes(block);
                assert_eq!(block.len(), format.code_bytes());
                // Products are exact, so only a minimum makes a -0 of ggml's a 0 here or the other way round.
                let (given, needed) = (format.decode(&block, &[]).unwrap(), floats(values));
                assert!(given == needed, "{line}\n{given:?}\n{needed:?}");
                decoded += 1;
            }
            ["encode", name, values, block] => {
                let values = floats(values);
                let made = match name {
                    "Q4_0" => Q4_0.encode(&values),
                    "Q4_1" => Q4_1.encode(&values),
                    "Q8_0" => Q8_0.encode(&values),
                    other => panic!("{other}"),
                };
                assert_eq!(made.unwrap(), (bytes(block), vec![]), "{line}");
                encoded += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!((decoded, encoded), (32, 21));
}

fn mx(element: &str, mode: &str) -> Mx {
    let mode = match mode {
        "floor" => ScaleMode::Floor,
        "rceil" => ScaleMode::Rceil,
        "ceil" => ScaleMode::Ceil,
        "even" => ScaleMode::Even,
        other => panic!("{other}"),
    };
    match element {
        "e4m3" => Mx::fp8_e4m3(mode),
        "e5m2" => Mx::fp8_e5m2(mode),
        "e2m3" => Mx::fp6_e2m3(mode),
        "e3m2" => Mx::fp6_e3m2(mode),
        "e2m1" => Mx::fp4(mode),
        other => panic!("{other}"),
    }
}

fn check_encoded(format: &dyn EncodeBlocks, values: &[f32], scales: &str, codes: &str, line: &str) -> Vec<f32> {
    let (codes, scales) = (bytes(codes), bytes(scales));
    assert_eq!(format.encode(values).unwrap(), (codes.clone(), scales.clone()), "{line}");
    format.decode(&codes, &scales).unwrap()
}

#[test]
fn torchs_and_torchaos_bits_are_made_and_read() {
    let mut inputs: Vec<Vec<f32>> = Vec::new();
    let mut counts = [0; 4];
    for line in SCALED.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let input = |i: &str| inputs[i.parse::<usize>().unwrap()].clone();
        match parts[..] {
            ["input", _, values] => inputs.push(floats(values)),
            ["mx", element, mode, i, scale, codes] => {
                check_encoded(&mx(element, mode), &input(i), scale, codes, line);
                counts[0] += 1;
            }
            ["mx", element, mode, i, scale, codes, values] => {
                let decoded = check_encoded(&mx(element, mode), &input(i), scale, codes, line);
                assert_same(&decoded, &floats(values), line);
                counts[1] += 1;
            }
            ["nvfp4", scale, i, scales, codes, values] => {
                let format = Nvfp4::new(floats(scale)[0]).unwrap();
                let decoded = check_encoded(&format, &input(i), scales, codes, line);
                assert_same(&decoded, &floats(values), line);
                counts[2] += 1;
            }
            ["f32", element, block, i, scales, codes] => {
                let element = ScaledElement::ALL.into_iter().find(|own| own.element_type().name() == element).unwrap();
                let format = F32Scaled::new(element, block.parse().unwrap()).unwrap();
                check_encoded(&format, &input(i), scales, codes, line);
                counts[3] += 1;
            }
            ["blocked", rows, per_row, blocked] => {
                let (rows, per_row) = (rows.parse().unwrap(), per_row.parse().unwrap());
                let scales: Vec<u8> = (0..rows * per_row).map(|i: usize| ((7 * i + 1) % 251) as u8).collect();
                assert_eq!(scale_layout::to_blocked(&scales, rows, per_row).unwrap(), bytes(blocked));
                assert_eq!(scale_layout::from_blocked(&bytes(blocked), rows, per_row).unwrap(), scales);
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(counts, [360, 120, 70, 132]);
}

/// The element's own values times a power of two, the largest among them. (`Ceil` has a scale that is larger than
/// needed, which may cost a bit of small values.)
#[test]
fn values_that_a_block_holds_exactly_come_back() {
    for element in ["e4m3", "e5m2", "e2m3", "e3m2", "e2m1"] {
        for mode in ["floor", "rceil", "even"] {
            let format = mx(element, mode);
            let (own, most) = (format.element(), f64::from(format.element().largest()));
            for exponent in [-100, -3, 0, 7, 60] {
                let exact = |i: i32| own.decode(own.encode(most / f64::from(i + 1))) * 2f64.powi(exponent);
                let values: Vec<f32> = (0..32).map(|i| exact(i) as f32).collect();
                let (codes, scales) = format.encode(&values).unwrap();
                assert_same(&format.decode(&codes, &scales).unwrap(), &values, &format!("{format:?}"));
            }
        }
    }
}

/// A scale of 2^-127 is one as any.
#[test]
fn the_smallest_blocks_are_not_halved() {
    let value = f32::from_bits(3 << 21); // 3 · 2^-128
    for mode in ScaleMode::ALL {
        let format = Mx::fp4(mode);
        let (codes, scales) = format.encode(&[value; 32]).unwrap();
        assert_eq!(scales, [0]);
        assert_eq!(format.decode(&codes, &scales).unwrap(), [value; 32]);
    }
}

#[test]
fn rceil_rounds_up_as_the_instruction_does() {
    let byte = |x: f32| ScaleMode::Rceil.scale_byte(x * 448.0, SmallFloat::E4M3);
    assert_eq!([byte(1.0), byte(1.0f32.next_up()), byte(2.0)], [127, 128, 128]);
    let smallest = f32::from_bits(1 << 22); // 2^-127
    let of = |x: f32| ScaleMode::Rceil.scale_byte(x * 4.0, SmallFloat::E2M1);
    assert_eq!([of(0.0), of(smallest), of(smallest * 2.0)], [0, 0, 1]);
    assert_eq!(ScaleMode::Rceil.scale_byte(f32::INFINITY, SmallFloat::E4M3), 254);
    for mode in ScaleMode::ALL {
        assert_eq!(mode.scale_byte(f32::NAN, SmallFloat::E2M1), 255);
    }
}

#[test]
fn nan_is_a_scale_where_scales_have_it() {
    let mut values = [1.5f32; 32];
    values[31] = f32::NAN;
    for mode in ScaleMode::ALL {
        for format in [Mx::fp8_e4m3(mode), Mx::fp4(mode)] {
            let (codes, scales) = format.encode(&values).unwrap();
            assert!(format.decode(&codes, &scales).unwrap().iter().all(|x| x.is_nan()));
        }
    }
    let (codes, scales) = Nvfp4::default().encode(&values).unwrap();
    let back = Nvfp4::default().decode(&codes, &scales).unwrap();
    assert!(back[..16].iter().all(|x| *x == 1.5) && back[16..].iter().all(|x| x.is_nan()));
}

#[test]
fn what_a_format_does_not_hold_is_refused() {
    let not_finite = |made: Result<_, FormatError>, at: usize| match made {
        Err(FormatError::NotFinite { index, .. }) => assert_eq!(index, at),
        other => panic!("{other:?}"),
    };
    let mut values = [1.0f32; 64];
    values[40] = f32::INFINITY;
    not_finite(Q4_0.encode(&values), 40);
    not_finite(Q4_1.encode(&values), 40);
    not_finite(Q8_0.encode(&values), 40);
    not_finite(F32Scaled::new(ScaledElement::I8, 16).unwrap().encode(&values), 40);
    let large = [1e8f32; 32];
    for made in [Q4_0.encode(&large), Q4_1.encode(&large), Q8_0.encode(&large)] {
        assert!(matches!(made, Err(FormatError::Scale { block: 0, .. })), "{made:?}");
    }
    // The range of Q4_1 may exceed f32.
    let mut wide = [f32::MAX; 32];
    wide[0] = f32::MIN;
    assert!(matches!(Q4_1.encode(&wide), Err(FormatError::Scale { .. })));
    assert!(matches!(Q8_0.encode(&[0.0; 33]), Err(FormatError::Ragged { block: 32, given: 33, .. })));
    assert!(matches!(Q8_0.decode(&[0; 35], &[]), Err(FormatError::Bytes { part: "codes", .. })));
    assert!(matches!(Q8_0.decode(&[0; 34], &[0]), Err(FormatError::Bytes { part: "scales", .. })));
    let format = Mx::fp4(ScaleMode::Floor);
    assert!(matches!(format.decode(&[0; 32], &[0]), Err(FormatError::Bytes { part: "scales", needed: 2, .. })));
    assert!(matches!(format.decode_into(&[0; 16], &[0], &mut [0.0; 31]), Err(FormatError::Ragged { .. })));
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e-38] {
        assert!(matches!(Nvfp4::new(scale), Err(FormatError::TensorScale { .. })));
    }
    assert_eq!(F32Scaled::new(ScaledElement::I8, 0), Err(FormatError::Block { given: 0 }));
    assert!(Q4_K.decode(&[], &[]).unwrap().is_empty());
}

/// Scales of any bits, from a file: no panic, and zeros for a scale of 0.
#[test]
fn any_bytes_are_decoded() {
    for name in ["Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "MXFP4"] {
        let format = ggml(name);
        for byte in 0..=255 {
            let values = format.decode(&vec![byte; format.code_bytes()], &[]).unwrap();
            assert_eq!(values.len(), format.block_len());
            assert!(byte != 0 || name == "MXFP4" || values.iter().all(|x| *x == 0.0));
        }
    }
    assert!(GgmlMxfp4.decode(&[255; 17], &[]).unwrap().iter().all(|x| x.is_nan()));
}
