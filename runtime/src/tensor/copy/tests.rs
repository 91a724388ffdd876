//! Copies on every device, compared with a walk over indices.

use half::f16;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ptx_vm::{Detector, Module, Options};

use super::kernel;
use crate::{Arch, Device, DeviceTensor, ElementType, Error, LayoutError, Output, testing};

/// Views of one shape, of two buffers.
#[derive(Clone, Debug)]
struct Case {
    element: ElementType,
    extents: Vec<usize>,
    source: View,
    target: View,
}

/// The layout of a view: the order of its axes in memory, which of them are broadcast, elements between rows and before
/// the first.
#[derive(Clone, Debug)]
struct View {
    order: Vec<usize>,
    repeated: Vec<bool>,
    padding: usize,
    first: usize,
}

impl View {
    /// A view of new memory, and that memory, whose bytes depend on their offsets and `seed`.
    fn make(&self, device: &Device, element: ElementType, extents: &[usize], seed: usize) -> [DeviceTensor; 2] {
        let inner: Vec<usize> =
            self.order.iter().map(|&axis| if self.repeated[axis] { 1 } else { extents[axis] }).collect();
        let mut outer = inner.clone();
        outer.last_mut().into_iter().for_each(|last| *last += self.padding);
        let count = self.first + outer.iter().product::<usize>();
        let bytes: Vec<u8> = (0..count * element.size()).map(|i| (seed + i * 31 + i / 256) as u8).collect();
        let memory = device.tensor_from_bytes(element, &bytes, [count]).unwrap();
        let mut view = memory.slice(0, self.first..count).unwrap().reshape(&outer).unwrap();
        if let Some(last) = inner.len().checked_sub(1) {
            view = view.slice(last, 0..inner[last]).unwrap();
        }
        let places: Vec<usize> =
            (0..inner.len()).map(|axis| self.order.iter().position(|&other| other == axis).unwrap()).collect();
        [view.permute(&places).unwrap().broadcast_to(extents).unwrap(), memory]
    }
}

/// The offsets of the elements of a view in its memory, in row-major order.
fn places(view: &DeviceTensor) -> Vec<usize> {
    let place = |number: usize| {
        let axes = view.shape().iter().zip(view.strides()).rev();
        let start = (number, view.offset());
        axes.fold(start, |(rest, at), (&n, &stride)| (rest / n, at + rest % n * stride.unsigned_abs())).1
    };
    (0..view.len()).map(place).collect()
}

fn check(device: &Device, case: &Case) {
    let size = case.element.size();
    let [source, memory] = case.source.make(device, case.element, &case.extents, 3);
    let memory = memory.to_bytes().unwrap();
    let wanted: Vec<u8> = places(&source).iter().flat_map(|&at| memory[at * size..][..size].to_vec()).collect();
    assert_eq!(source.to_bytes().unwrap(), wanted, "{case:?}");
    let copy = source.contiguous().unwrap();
    assert!(copy.is_contiguous() && copy.device() == device, "{case:?}");
    assert_eq!(copy.to_bytes().unwrap(), wanted, "{case:?}");
    // Only the view's elements of the target's memory are written.
    let [mut target, memory] = case.target.make(device, case.element, &case.extents, 5);
    let mut expected = memory.to_bytes().unwrap();
    for (&at, value) in places(&target).iter().zip(wanted.chunks(size)) {
        expected[at * size..][..size].copy_from_slice(value);
    }
    target.copy_from_tensor(&source).unwrap();
    assert_eq!(memory.to_bytes().unwrap(), expected, "{case:?}");
}

fn cases() -> impl Strategy<Value = Case> {
    let extent = || prop::sample::select(vec![1usize, 2, 3, 4, 7, 8, 9, 16, 31, 33, 64, 65]);
    let extents = (0usize..5).prop_flat_map(move |rank| prop::collection::vec(extent(), rank));
    let few = extents.prop_filter("small enough", |extents| extents.iter().product::<usize>() <= 20_000);
    few.prop_flat_map(|extents| {
        let view = |repeats: bool| {
            let rank = extents.len();
            let order = Just((0..rank).collect::<Vec<_>>()).prop_shuffle();
            let repeated = prop::collection::vec(prop::bool::weighted(if repeats { 0.2 } else { 0.0 }), rank);
            (order, repeated, 0usize..9, 0usize..9).prop_map(|(order, repeated, padding, first)| View {
                order,
                repeated,
                padding,
                first,
            })
        };
        let element = prop::sample::select(vec![ElementType::I8, ElementType::F16, ElementType::F32, ElementType::F64]);
        (element, view(true), view(false), Just(extents.clone())).prop_map(|(element, source, target, extents)| Case {
            element,
            extents,
            source,
            target,
        })
    })
}

/// A device with the race detector.
fn watchful(arch: Arch) -> Device {
    Device::emulated_with(arch, Options::default().detector(Detector::On)).unwrap()
}

fn on_any_views(device: &Device, count: u32) {
    let config = Config { failure_persistence: None, ..Config::with_cases(testing::cases(count)) };
    let result = TestRunner::new(config).run(&cases(), |case| {
        check(device, &case);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn any_views_on_the_cpu() {
    on_any_views(&Device::cpu(), 600);
}

#[test]
fn any_views_on_a_gpu() {
    if testing::compiler("any_views_on_a_gpu").is_some() {
        on_any_views(&watchful(Arch::SM_80), 60);
    }
}

/// Ten axes that can't be merged: more than a kernel can take.
#[test]
fn many_axes() {
    let mut devices = vec![Device::cpu()];
    devices.extend(testing::compiler("many_axes").map(|_| watchful(Arch::SM_90A)));
    let view = |padding, first| View { order: (0..10).rev().collect(), repeated: vec![false; 10], padding, first };
    let extents = vec![3, 2, 2, 1, 2, 2, 3, 2, 2, 2];
    for device in devices {
        let (source, target) = (view(1, 1), View { order: (0..10).collect(), ..view(2, 3) });
        check(&device, &Case { element: ElementType::F16, extents: extents.clone(), source, target });
    }
}

#[test]
fn a_view_of_the_same_memory() {
    let mut devices = vec![Device::cpu()];
    devices.extend(testing::compiler("a_view_of_the_same_memory").map(|_| watchful(Arch::SM_80)));
    for device in devices {
        let values: Vec<f32> = (0..9).map(|i| i as f32).collect();
        let m = device.tensor(&values, [3, 3]).unwrap();
        m.clone().copy_from_tensor(&m.transpose().unwrap()).unwrap();
        assert_eq!(m.to_vec::<f32>().unwrap(), [0.0, 3.0, 6.0, 1.0, 4.0, 7.0, 2.0, 5.0, 8.0], "{device}");
        // One column to another of the same matrix, and a row to all rows.
        m.slice(1, 0..1).unwrap().copy_from_tensor(&m.slice(1, 2..3).unwrap()).unwrap();
        assert_eq!(m.to_vec::<f32>().unwrap(), [6.0, 3.0, 6.0, 7.0, 4.0, 7.0, 8.0, 5.0, 8.0], "{device}");
        m.clone().copy_from_tensor(&m.slice(0, 1..2).unwrap()).unwrap();
        assert_eq!(m.to_vec::<f32>().unwrap(), [7.0, 4.0, 7.0].repeat(3), "{device}");
        // From another device; and copies that are refused.
        let mut twice = m.slice(0, 0..1).unwrap().broadcast_to([2, 3]).unwrap();
        let other = Device::cpu().tensor(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        assert!(matches!(twice.copy_from_tensor(&other), Err(Error::Layout(LayoutError::WriteToRepeated { .. }))));
        m.clone().copy_from_tensor(&other).unwrap();
        assert_eq!(m.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0].repeat(3), "{device}");
        let wide = Device::cpu().zeros::<f32>([3, 4]).unwrap();
        assert!(matches!(m.clone().copy_from_tensor(&wide), Err(Error::Layout(LayoutError::Broadcast { .. }))));
        let half = device.zeros::<f16>([3, 3]).unwrap();
        assert!(matches!(m.clone().copy_from_tensor(&half), Err(Error::ElementType { .. })));
        let none = device.zeros::<f32>([0, 3]).unwrap();
        assert!(none.copy_to(&device).unwrap().is_empty());
        none.slice(1, 0..2).unwrap().copy_from_tensor(&none.slice(1, 1..3).unwrap()).unwrap();
    }
}

/// Without either barrier, a square is read before it is complete, or overwritten before it is read.
#[test]
fn both_barriers_of_a_square_are_needed() {
    let Some(compiler) = testing::compiler("both_barriers_of_a_square_are_needed") else { return };
    for comment in ["// the square is whole", "// the square is read: the next one may take its place"] {
        let mut source = kernel::source("copy_transposed_4", "transposed", 4);
        let mutant = source.code.replace(&format!("__syncthreads();  {comment}"), "");
        assert_ne!(mutant, source.code);
        source.code = mutant;
        let mutant = compiler.compile(&source, Arch::SM_80, Output::Ptx).unwrap();
        let device = watchful(Arch::SM_80);
        device.substitute("copy_transposed_4", Some(Module::parse(&mutant.ptx).unwrap())).unwrap();
        let (from, to) = (device.zeros::<f32>([200, 200]).unwrap(), device.zeros::<f32>([200, 200]).unwrap());
        let raced = kernel::launch_blocks(&from.transpose().unwrap(), &to, (3, &device.default_stream()));
        let raced = raced.expect_err(comment).to_string();
        assert!(raced.contains("race, "), "{comment}: {raced}");
    }
}

#[test]
fn kernels_keep_nothing_in_local_memory() {
    let Some(compiler) = testing::compiler("kernels_keep_nothing_in_local_memory") else { return };
    for (way, words) in [("direct", &[1, 2, 4, 8, 16][..]), ("transposed", &[1, 2, 4, 8])] {
        for &word in words {
            let source = kernel::source(&format!("copy_{way}_{word}"), way, word);
            let log = compiler.compile(&source, Arch::SM_80, Output::Cubin).unwrap().log;
            assert!(log.diagnostics.is_empty(), "{:?}", log.diagnostics);
            let used = &log.kernels[0];
            assert_eq!((used.spill_store_bytes, used.spill_load_bytes), (0, 0), "{way} {word}");
            // So that 6 or 4 blocks of 256 threads run at once, in which each thread has 4 words on their way.
            assert!(used.registers <= if way == "direct" { 40 } else { 64 }, "{way} {word}: {used:?}");
        }
    }
}
