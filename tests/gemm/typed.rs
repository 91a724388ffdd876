//! Integers and truth values in kernels: every way in which they reach a lane, on tiles of both orientations and with
//! every split of K. The random trees of the other tests have them, too.

use epilogue::evt::random::Choices;
use epilogue::evt::{Tree, ValueType, Width};
use epilogue::gemm::sm90::Request;
use epilogue::gemm::{Arithmetic, Builder, Instruction, Major, Problem, SplitK, Tile};
use epilogue::prelude::*;
use epilogue_runtime::ptx_vm::{Completion, Detector, Options};
use epilogue_runtime::{Arch, testing};
use epilogue_testing::case::{Family, Kernel};

use crate::hopper::{BF16, device, planned, small_tiles};

/// 32-bit integers.
#[epilogue]
fn narrow(
    accum: Accum,
    mask: Tensor<bool>,
    padding: RowVector<bool>,
    labels: ColumnVector<i32>,
    names: RowVector<i32>,
    total: TensorMut<i8>,
    past: DeviceScalar<u8>,
) -> (Tensor, Tensor<bool>, Tensor<i32>, RowVector<bool>, ColumnVector, Tensor<i8>, ColumnVector) {
    let hidden = column() > row() + integer(past) || !mask && padding;
    let d = if hidden { -1.0 } else { accum + real(integer(labels).min(1000).max(-1000)) };
    let same = integer(names) == integer(labels) || column() == integer(labels);
    let place = if same { row() - column() } else { integer(names).max(batch() - 7) };
    let total = if column() <= row() { integer(labels) } else { integer(total) };
    let even = padding || columns() - column() == 2;
    let last = rows() - row();
    let picked = reduction_op(if same { 1.0 } else { 0.0 }, Row, Add);
    (d, hidden, place, even, last, total, picked)
}

/// 64-bit integers, which wrap, and are not exact in f32.
#[epilogue]
fn wide(
    accum: Accum,
    labels: ColumnVector<i64>,
    names: RowVector<i64>,
    each: Tensor<i64>,
) -> (Tensor<i64>, Tensor<bool>, Tensor<i32>) {
    let sum = integer(each) * 3 + (integer(labels) - integer(names)) * 1234567890123;
    let above = integer(names) > 16777217 * column() || accum > real(integer(each));
    let place = if above { -integer(labels) } else { row() * columns() + column() };
    (sum, above, place)
}

/// With two accumulators.
#[epilogue]
fn gated(
    gate: Accum,
    up: Accum,
    mask: Tensor<bool>,
    padding: RowVector<bool>,
) -> (Tensor, Tensor<bool>, Tensor<i32>, RowVector<bool>) {
    let open = gate > 0.0 && mask;
    let d = if open { up } else { gate };
    let larger = up > gate || padding;
    let place = if larger { row() } else { -column() };
    let even = padding || columns() - column() == 2;
    (d, larger, place, even)
}

const SHAPES: [(usize, usize, usize, usize); 4] = [(150, 72, 200, 1), (33, 129, 65, 2), (1, 3, 0, 3), (64, 17, 321, 1)];

#[track_caller]
fn check(kernel: &Kernel, name: &str, seed: u32) {
    for (i, (m, n, k, batch)) in SHAPES.into_iter().enumerate() {
        let problem = Problem::new(m, n, k);
        let problem = if batch == 1 { problem } else { problem.batched(batch) };
        let result = kernel.product(problem, &mut Choices::new(&[seed, i as u32, 7, 77, 5, 13]));
        result.unwrap_or_else(|error| panic!("{name}: {problem:?}: {error}"));
    }
}

fn trees() -> [Tree; 2] {
    [Narrow::tree(), Wide::tree()]
}

#[test]
fn the_width_of_integers_is_what_they_need() {
    for (tree, expected) in trees().into_iter().zip([Width::Bits32, Width::Bits64]) {
        let tree = tree.validate(epilogue::evt::Types::new(ElementType::F16, ElementType::F16)).expect("a valid tree");
        let mut widths = tree.values().iter().filter_map(|value| match value.ty {
            ValueType::Integer(width) => Some(width),
            ValueType::Real(_) | ValueType::Bool | ValueType::Seed => None,
        });
        assert!(widths.clone().count() > 5 && widths.all(|width| width == expected));
    }
}

#[test]
fn on_sm_90a() {
    if testing::compiler("typed::on_sm_90a").is_none() {
        return;
    }
    let splits = [SplitK::None, SplitK::Serial(2), SplitK::Parallel(3), SplitK::Stream];
    for (i, (request, split_k)) in small_tiles().into_iter().zip(splits).enumerate() {
        let device = device([Completion::Random, Completion::Lazy][i % 2], i as u64);
        let request = Request { split_k: Some(split_k), ..request };
        for tree in trees() {
            let kernel = planned(&device, tree, request);
            check(&kernel, &request.to_string(), i as u32);
        }
    }
}

#[test]
fn on_sm_80_and_on_the_cpu() {
    let of = |element| Family {
        elements: (element, element),
        arithmetic: Arithmetic::Exact,
        hopper: false,
        repacked: false,
    };
    let emulated = testing::compiler("typed::on_sm_80_and_on_the_cpu").is_some();
    let splits = [SplitK::None, SplitK::Serial(3), SplitK::Parallel(2), SplitK::Stream];
    for (i, (element, split_k)) in
        [ElementType::F16, ElementType::F64, ElementType::I8].into_iter().zip(splits).enumerate()
    {
        let family = of(element);
        for tree in trees() {
            let layout = (Major::K, Major::K);
            let cpu = Kernel::planned(Builder::new(&Device::cpu(), tree.clone()).problem(64, 64, 64), &family, layout)
                .expect("a plan");
            check(&cpu, "the CPU", i as u32);
            if !emulated {
                continue;
            }
            let options = Options::default().detector(Detector::On).completion(Completion::Lazy).seed(i as u64);
            let device = Device::emulated_with(Arch::SM_80, options).expect("an emulated device");
            let tiles = Tile::all(Instruction::of(element, element, Arithmetic::Exact).expect("an instruction"));
            let builder = Builder::new(&device, tree).problem(64, 64, 64);
            let builder = builder.tile(tiles[tiles.len() - 2]).split_k(split_k);
            let kernel = Kernel::planned(builder, &family, layout).expect("a plan");
            check(&kernel, &format!("{element} {split_k:?}"), i as u32);
        }
    }
}

#[test]
fn of_two_accumulators() {
    let cpu = Builder::new(&Device::cpu(), Gated::tree()).problem(64, 64, 64);
    let mut builders = vec![("the CPU".to_owned(), cpu)];
    if testing::compiler("typed::of_two_accumulators").is_some() {
        let device = |arch| {
            let options = Options::default().detector(Detector::On).completion(Completion::Lazy);
            Device::emulated_with(arch, options).expect("an emulated device")
        };
        builders.push(("sm_80".to_owned(), Builder::new(&device(Arch::SM_80), Gated::tree()).problem(64, 64, 64)));
        for swap_ab in [false, true] {
            let request = Request { swap_ab: Some(swap_ab), split_k: Some(SplitK::Serial(2)), ..Request::default() };
            let builder = Builder::new(&device(Arch::SM_90A), Gated::tree()).problem(64, 64, 64).sm90(request);
            builders.push((request.to_string(), builder));
        }
    }
    for (i, (name, builder)) in builders.into_iter().enumerate() {
        let kernel = Kernel::planned(builder, &BF16, (Major::K, Major::K));
        let kernel = kernel.unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&kernel, &name, i as u32);
    }
}
