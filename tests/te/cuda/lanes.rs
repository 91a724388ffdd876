//! Vectorised loops, which read and write several elements at a time if addresses allow it; and shared memory beyond
//! what a kernel may have by default.

use epilogue::te::{self, Program, TeError};
use epilogue::{Arch, Device, DeviceTensor, ElementType};
use epilogue_runtime::testing::cases;
use proptest::prelude::*;

use crate::case::{Numbers, device, lacks_nvrtc, read, run};
use crate::values::integers;

/// `B = A * 2 + D`, four threads per block, `lanes` neighbouring elements per thread.
fn affine(element: ElementType, lanes: i32) -> Result<Program, TeError> {
    let (n, m) = (te::var("n"), te::var("m"));
    let a = te::placeholder_of(element, [n, m], "A");
    let d = te::placeholder_of(element, [m], "D");
    let b = te::compute([n, m], "B", |[i, j]| a.at([i, j]) * 2 + d.at([j]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, lane) = stage.split(b.axis(1)?, lanes)?;
    let (block, thread) = stage.split(outer, 4)?;
    stage.bind(b.axis(0)?, te::thread_axis("blockIdx.y"))?;
    stage.bind(block, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    stage.vectorize(lane)?;
    te::lower(&s, &[&a, &d, &b], "affine")
}

/// A tensor of the values that begins `offset` elements into its memory and has `gap` elements between its rows.
fn placed(numbers: &Numbers, offset: usize, gap: usize) -> Result<DeviceTensor, TeError> {
    let (rows, columns) = (numbers.shape[0], numbers.shape[1]);
    let width = columns + gap;
    let mut all = vec![0.0; rows * width + offset];
    for i in 0..rows {
        all[offset + i * width..][..columns].copy_from_slice(&numbers.values[i * columns..][..columns]);
    }
    let memory = Numbers::new(numbers.element, &[all.len()], all).on(device());
    let rows = memory.slice(0, offset..offset + rows * width)?.reshape([rows, width])?;
    Ok(rows.slice(1, 0..columns)?)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(24)) })]

    #[test]
    fn of_any_alignment(
        element in prop::sample::select(vec![
            ElementType::F32, ElementType::F16, ElementType::F64, ElementType::I8, ElementType::BF16, ElementType::I32,
        ]),
        lanes in prop::sample::select(vec![2, 3, 4, 6, 8, 16]),
        (n, m) in (0usize..4, 0usize..150), (offset, gap) in (0usize..9, 0usize..9), seed: u64,
    ) {
        if lacks_nvrtc("lanes::of_any_alignment") {
            return Ok(());
        }
        let program = affine(element, lanes).unwrap();
        let kernel = program.build(device()).unwrap();
        let a = Numbers::new(element, &[n, m], integers(n * m, seed));
        let d = Numbers::new(element, &[m], integers(m, seed ^ 1));
        let (x, y) = (placed(&a, offset, gap).unwrap(), d.on(device()));
        let mut b = placed(&Numbers::new(element, &[n, m], vec![0.0; n * m]), gap, offset).unwrap();
        kernel.run(&[(&x).into(), (&y).into(), (&mut b).into()]).unwrap();
        let wanted: Vec<f64> = a.values.iter().enumerate().map(|(i, x)| x * 2.0 + d.values[i % m]).collect();
        prop_assert_eq!(read(&b), wanted);
    }
}

/// The vector instructions exist, and the same program runs everywhere.
#[test]
fn vectors_are_loaded_and_stored() -> Result<(), TeError> {
    if lacks_nvrtc("lanes::vectors_are_loaded_and_stored") {
        return Ok(());
    }
    for (element, lanes) in [(ElementType::F32, 4), (ElementType::F16, 8), (ElementType::F64, 2), (ElementType::I8, 16)]
    {
        let program = affine(element, lanes)?;
        let inputs = [Numbers::new(element, &[3, 70], integers(210, 5)), Numbers::new(element, &[70], integers(70, 6))];
        run(&program, &inputs, &[(element, vec![3, 70])]).assert_equal();
        let kernel = program.build(device())?;
        let ptx = kernel.launches()[0].ptx();
        for instruction in ["ld.global", "st.global"] {
            let wide = ptx.lines().filter(|line| line.contains(instruction));
            let bits = |line: &str| {
                let count = if line.contains(".v4.") {
                    4
                } else if line.contains(".v2.") {
                    2
                } else {
                    1
                };
                let size = [64, 32, 16, 8].into_iter().find(|bits| line.contains(&format!("{bits} ")));
                count * size.unwrap_or(0)
            };
            assert!(wide.map(bits).max() == Some(128), "{element}: no 16-byte {instruction}\n{ptx}");
        }
    }
    Ok(())
}

/// Loads under a condition, or of elements that the loop also writes, stay single.
#[test]
fn what_may_not_be_moved_is_not() -> Result<(), TeError> {
    if lacks_nvrtc("lanes::what_may_not_be_moved_is_not") {
        return Ok(());
    }
    let n = te::var("n");
    let a = te::placeholder([n], "A");
    // Padding: there is no element before the first.
    let b = te::compute([n], "B", |[i]| te::Expr::from(i).greater(0).select(a.at([i - 1]), 7.0) + a.at([i]))?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (outer, lane) = stage.split(b.axis(0)?, 4)?;
    stage.bind(outer, te::thread_axis("threadIdx.x"))?;
    stage.vectorize(lane)?;
    let program = te::lower(&s, &[&a, &b], "padded")?;
    for n in [1, 4, 16, 19] {
        let input = Numbers::new(ElementType::F32, &[n], integers(n, 2));
        run(&program, &[input], &[(ElementType::F32, vec![n])]).assert_equal();
    }
    Ok(())
}

/// Rows of `columns` elements reversed through shared memory.
fn reversed(columns: i32) -> Result<Program, TeError> {
    let n = te::var("n");
    let a = te::placeholder((n, columns), "A");
    let near = te::compute((n, columns), "near", |[i, j]| a.at([i, j]) + 1)?;
    let b = te::compute((n, columns), "B", |[i, j]| near.at((i, columns - 1 - j)) * 2)?;
    let mut s = te::create_schedule(&[&b]);
    let stage = s.stage(&b)?;
    let (_, thread) = stage.split(b.axis(1)?, 64)?;
    stage.bind(b.axis(0)?, te::thread_axis("blockIdx.x"))?;
    stage.bind(thread, te::thread_axis("threadIdx.x"))?;
    s.compute_at(&near, &b, b.axis(0)?)?;
    s.set_scope(&near, "shared")?;
    let loops = s.stage(&near)?.loops().to_vec();
    let (_, thread) = s.stage(&near)?.split(loops[1], 64)?;
    s.stage(&near)?.bind(thread, te::thread_axis("threadIdx.x"))?;
    te::lower(&s, &[&a, &b], "reversed")
}

#[test]
fn more_shared_memory_than_without_asking() -> Result<(), TeError> {
    if lacks_nvrtc("lanes::more_shared_memory_than_without_asking") {
        return Ok(());
    }
    // 48 KiB, a little more, and as much as the device has.
    for (columns, dynamic) in [(12 << 10, false), ((12 << 10) + 64, true), (163 << 8, true)] {
        let program = reversed(columns)?;
        let input = Numbers::new(ElementType::F32, &[2, columns as usize], integers(2 * columns as usize, 4));
        run(&program, &[input], &[(ElementType::F32, vec![2, columns as usize])]).assert_equal();
        assert_eq!(program.build(device())?.source().contains("extern __shared__"), dynamic);
    }
    let too_much = reversed((163 << 8) + 64)?;
    let error = too_much.build(device()).unwrap_err().to_string();
    assert!(error.contains("167168 bytes of shared memory") && error.contains("at most 166912"), "{error}");
    let hopper = Device::emulated(Arch::SM_90A)?;
    too_much.build(&hopper)?;
    assert!(reversed((227 << 8) + 64)?.build(&hopper).is_err());
    Ok(())
}
