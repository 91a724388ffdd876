//! Weights of 8 bits with activations of 16 by the kernels for sm_90a, on the emulated device with the race detector.

use epilogue::gemm::sm90::{Cluster, Request, Schedule, Staging};
use epilogue::gemm::{Builder, KernelKey, Major, OperandLayout, SplitK};
use epilogue::prelude::*;
use epilogue::{Argument, DeviceTensor, ElementType, Error};
use epilogue_runtime::ptx_vm::Completion;
use epilogue_runtime::testing;
use half::f16;

use crate::groups::rough;
use crate::hopper::{device, tile, tree};

/// Tiles of both schedules, with rings that wrap around, of several blocks of 64 rows, in clusters, with every way of sharing K.
fn requests() -> Vec<Request> {
    let of = |rows, columns, schedule, (m, n), split_k| Request {
        tile: Some(tile(rows, columns, schedule)),
        swap_ab: Some(true),
        stages: Some(3),
        cluster: Some(Cluster { m, n }),
        split_k: Some(split_k),
        ..Request::default()
    };
    let (together, in_turns) = (Schedule::Cooperative, Schedule::PingPong);
    vec![
        of(64, 8, together, (1, 1), SplitK::None),
        of(128, 64, together, (1, 2), SplitK::Serial(2)),
        of(64, 64, in_turns, (2, 1), SplitK::Parallel(2)),
        of(256, 64, together, (1, 1), SplitK::Stream),
        Request { pending: Some(0), ..of(128, 64, in_turns, (1, 1), SplitK::None) },
        Request {
            staging: Some(Staging { step: 16, output_stages: 2, input_stages: 2 }),
            ..of(64, 32, together, (1, 4), SplitK::None)
        },
    ]
}

/// Values that every 8-bit type has, in both signs as far as it has them.
fn weights(element: ElementType, count: usize) -> Vec<f64> {
    let signed = element != ElementType::U8;
    (0..count).map(|i| f64::from((i * 7 + i / 5) as u32 % 15) - if signed { 7.0 } else { 0.0 }).collect()
}

fn of_values(device: &Device, element: ElementType, values: &[f64], shape: [usize; 2]) -> Result<DeviceTensor, Error> {
    let bytes = epilogue::evt::reference::encode(element, values);
    Ok(device.tensor_from_bytes(element, &bytes, shape)?)
}

fn is_sm90(builder: &Builder) -> Result<bool, Error> {
    Ok(builder.choose()?.kernel().is_some_and(|chosen| matches!(chosen.key, KernelKey::Sm90(_))))
}

/// The conversion is exact and K is in the instruction's order: so a kernel on the same tile gives the bits that it gives of
/// weights of 16 bits with the same values.
#[test]
fn the_bits_are_those_of_16_bit_weights() -> Result<(), Error> {
    if testing::compiler("weights::the_bits_are_those_of_16_bit_weights").is_none() {
        return Ok(());
    }
    let narrow = [ElementType::I8, ElementType::U8, ElementType::F8E4M3, ElementType::F8E5M2];
    for (i, request) in requests().into_iter().enumerate() {
        let device = device([Completion::Lazy, Completion::Random, Completion::Eager][i % 3], i as u64);
        let (wide, weight) = ([ElementType::F16, ElementType::BF16][i % 2], narrow[i % 4]);
        // E5M2 has 3 significant bits, so its values are halved.
        let values = |count| -> Vec<f64> {
            let halved = if weight == ElementType::F8E5M2 { 0.5 } else { 1.0 };
            weights(weight, count).into_iter().map(|x| (x * halved).trunc()).collect()
        };
        for (m, n, k) in [(9, 144, 208), (70, 264, 448), (33, 72, 16), (5, 80, 0)] {
            let activations: Vec<f64> = (0..m * k).map(|i| f64::from((i * 31 % 257) as u32) / 64.0 - 2.0).collect();
            let a = of_values(&device, wide, &activations, [m, k])?;
            let c = of_values(&device, wide, &vec![0.25; m * n], [m, n])?;
            let bias = of_values(&device, wide, &vec![1.5; n], [1, n])?.reshape([n])?;
            let mut results = Vec::new();
            for element in [wide, weight] {
                let b = of_values(&device, element, &values(n * k), [n, k])?.transpose()?;
                let along_k = OperandLayout::packed(Major::K);
                let builder = Builder::<()>::new(&device, tree()).elements(wide, element).problem(m, n, k);
                let gemm = builder.layouts(along_k, along_k).multiprocessors(4).sm90(request).plan()?;
                let mut d = of_values(&device, wide, &vec![0.0; m * n], [m, n])?;
                let mut sums = device.zeros::<f32>([m])?;
                let arguments = &mut [
                    Argument::Input(&bias),
                    Argument::Input(&c),
                    Argument::Output(&mut d),
                    Argument::Output(&mut sums),
                ];
                gemm.run_arguments(&device.default_stream(), &a, &b, arguments)?;
                results.push((d.to_bytes()?, sums.to_bytes()?));
            }
            assert!(results[0] == results[1], "{wide} by {weight}, {m}x{n}x{k}: {request}");
        }
    }
    Ok(())
}

#[epilogue]
fn gated(gate: Accum, up: Accum, scales: RowVector<f32>, c: Tensor) -> Tensor {
    let d = silu(gate * scales) * up + c;
    d
}

/// Several weights that share the activations, in groups of rows too, against the reference.
#[test]
fn experts_of_two_weights_each() -> Result<(), Error> {
    if testing::compiler("weights::experts_of_two_weights_each").is_none() {
        return Ok(());
    }
    let (n, k, groups) = (136, 144, 3);
    let tiles = [(128, 16, 1), (256, 32, 2)];
    for (i, (rows, columns, consumers)) in tiles.into_iter().enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i], 3);
        let tile = epilogue::gemm::sm90::Tile { rows, columns, schedule: Schedule::Cooperative, consumers };
        let request = Request { tile: Some(tile), ..Request::default() };
        let weight = |seed: u32| -> Result<DeviceTensor, Error> {
            let all: Vec<i8> = (0..(groups * n * k) as u32).map(|i| ((i * 37 + seed) % 255) as u8 as i8).collect();
            Ok(device.tensor(&all, [groups, n, k])?.permute(&[0, 2, 1])?)
        };
        let (gate, up) = (weight(1)?, weight(100)?);
        let m = 75;
        let (x, c) = (rough(&device, &[m, k], 4)?, rough(&device, &[m, n], 5)?);
        let scales = device.tensor(&vec![0.01f32; groups * n], [groups, n])?;
        let ends = device.tensor(&[9i32, 9, 71], [groups])?;
        let mut d = device.full::<f16>([m, n], f16::ONE)?;
        let left = epilogue::gemm::rows(&x).in_groups_to(&ends);
        let gemm = Gemm::builder::<Gated>(&device).operands(left, [&gate, &up])?.sm90(request).plan()?;
        let expected = gemm.reference(left, [&gate, &up], Gated { scales: &scales, c: &c, d: &mut d })?;
        gemm.run(left, [&gate, &up], Gated { scales: &scales, c: &c, d: &mut d })?;
        expected.compare("d", &d)?.check()?;
    }
    Ok(())
}

#[test]
fn few_rows_choose_the_kernel_that_reads_half_the_bytes() -> Result<(), Error> {
    let device = device(Completion::Eager, 0);
    let along_k = OperandLayout::packed(Major::K);
    let of = |m, weight, b| {
        let builder = Builder::<()>::new(&device, crate::hopper::plain()).elements(ElementType::BF16, weight);
        builder.problem(m, 4096, 4096).layouts(along_k, b)
    };
    for m in [1, 16, 64] {
        let builder = of(m, ElementType::I8, along_k);
        assert!(is_sm90(&builder)?, "{}", builder.choose()?);
        let wide = of(m, ElementType::BF16, along_k).choose()?;
        let time = |choice: &epilogue::gemm::Choice| choice.kernel().map(|chosen| chosen.microseconds);
        assert!(time(&builder.choose()?) < time(&wide), "{}\n{wide}", builder.choose()?);
    }
    // Along N they would have to be copied first, which takes longer than the product.
    assert!(!is_sm90(&of(16, ElementType::I8, OperandLayout::packed(Major::Mn)))?);
    Ok(())
}

#[test]
fn weights_that_are_no_rows_of_a_tile_are_refused() {
    let device = device(Completion::Eager, 0);
    let of = |request, b| {
        let builder = Builder::<()>::new(&device, crate::hopper::plain()).elements(ElementType::F16, ElementType::U8);
        builder.problem(64, 64, 64).layouts(OperandLayout::packed(Major::K), b).sm90(request)
    };
    let (along_k, along_n) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
    let columns = Request { swap_ab: Some(false), ..Request::default() };
    let refused = of(columns, along_k).choose().expect_err("no such kernel").to_string();
    assert!(refused.ends_with("ask for `swap_ab: Some(true)`, or leave it open"), "{refused}");
    // Weights along N are copied first.
    let copied = of(Request::default(), along_n).choose().expect("a kernel").to_string();
    assert!(copied.contains("B is copied first (the instruction takes it contiguous along K only)"), "{copied}");
}
