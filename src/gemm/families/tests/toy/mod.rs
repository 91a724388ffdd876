//! A family that the product does not have. It shows what a family adds, and what it touches outside of its folder.
//!
//! A lane multiplies the elements of neighbouring columns of a row by plain FMA, from memory. So any strides do. The visitor of
//! rows takes every epilogue. `docs/recipes/gpu-family.md` tells how this folder was written.

mod emit;
mod family;
mod key;
mod run;

use epilogue_runtime::{Arch, Device, DeviceTensor, testing};

use self::family::Toy;
pub(crate) use self::key::ToyKey;
use super::super::{Families, KernelKey};
use crate::ElementType::{self, BF16, F32, F64};
use crate::evt::random::{self, Choices, Profile};
use crate::evt::reference::encode;
use crate::evt::{Axis, BroadcastClass, Form, OutputKind, ParameterClass, ReduceOp, Reduction, Tree, TreeBuilder};
use crate::expr::Op;
use crate::gemm::{Builder, Gemm, SplitK};
use crate::{Argument, ops};

/// A device that chooses among this family's kernels alone.
fn device() -> Device {
    let device = Device::emulated(Arch::SM_80).expect("a device");
    Families(&[&Toy]).give(&device);
    device
}

/// A plan of M, N, K and a batch; 0 of them is a product without.
fn plan(tree: Tree, element: ElementType, [m, n, k, batch]: [usize; 4]) -> Gemm {
    let builder = Builder::<()>::new(&device(), tree).elements(element, element).problem(m, n, k);
    let builder = if batch == 0 { builder } else { builder.batch(batch) };
    builder.plan().expect("a plan")
}

fn tensor(device: &Device, element: ElementType, shape: &[usize], choices: &mut Choices<'_>) -> DeviceTensor {
    let values = random::values(choices, element, shape.iter().product());
    device.tensor_from_bytes(element, &encode(element, &values), shape).expect("memory")
}

/// The shape of an argument; in a batch, each product has its own.
fn shape_of(class: BroadcastClass, packed: bool, [m, n, _, batch]: [usize; 4]) -> Vec<usize> {
    let n = if packed { n.div_ceil(8) } else { n };
    let mut shape = match class {
        BroadcastClass::Scalar => vec![],
        BroadcastClass::RowVector => vec![n],
        BroadcastClass::ColumnVector => vec![m],
        BroadcastClass::Tensor => vec![m, n],
    };
    if batch > 0 {
        shape.insert(0, batch);
    }
    shape
}

/// Runs a plan on random operands and arguments, and compares every output with the reference.
fn check(gemm: &Gemm, extents: [usize; 4], choices: &mut Choices<'_>) {
    assert!(matches!(gemm.choice().kernel().expect("a kernel").key, KernelKey::Toy(_)));
    let (device, tree, [m, n, k, batch]) = (gemm.device(), gemm.tree(), extents);
    let mut matrix = |element, rows, columns| {
        let own = [rows, columns];
        let shape = if batch == 0 { own.to_vec() } else { vec![batch, rows, columns] };
        tensor(device, element, &shape, choices)
    };
    let a = matrix(tree.types().a, m, k);
    let b: Vec<DeviceTensor> = tree.accumulators().iter().map(|_| matrix(tree.types().b, k, n)).collect();
    let right: Vec<&DeviceTensor> = b.iter().collect();
    let mut parameters = Vec::new();
    for parameter in tree.parameters() {
        let (class, bits) = (parameter.class.broadcast_class(), parameter.class == ParameterClass::Bits);
        parameters.push(match parameter.class {
            ParameterClass::Scalar | ParameterClass::Seed => None,
            _ => Some(tensor(device, parameter.element, &shape_of(class, bits, extents), choices)),
        });
    }
    let mut outputs = Vec::new();
    for output in tree.outputs().iter().filter(|output| output.parameter.is_none()) {
        let of_all = matches!(output.kind, OutputKind::Reduce(reduction) if reduction.batch);
        let shape = match output.is_partial() {
            true => gemm.partials_shape(output.name).expect("partials"),
            false => shape_of(output.class, output.packed, if of_all { [m, n, k, 0] } else { extents }),
        };
        outputs.push((output.name, device.zeros_of(output.element, shape).expect("memory")));
    }
    let mut arguments: Vec<Argument<'_>> = Vec::new();
    for (given, parameter) in parameters.iter_mut().zip(tree.parameters()) {
        arguments.push(match given {
            None if parameter.class == ParameterClass::Seed => Argument::Seed(7, 1),
            None => Argument::Scalar(0.5),
            Some(tensor) => match parameter.class {
                ParameterClass::TensorMut => Argument::Output(tensor),
                _ => Argument::Input(tensor),
            },
        });
    }
    arguments.extend(outputs.iter_mut().map(|(_, output)| Argument::Output(output)));
    let reference = gemm.reference_arguments(&a, &right[..], &arguments).expect("a reference");
    let stream = device.default_stream();
    gemm.run_arguments(&stream, &a, &right[..], &arguments).expect("a run");
    stream.synchronize().expect("no fault");
    drop(arguments);
    let overwritten =
        tree.outputs().iter().filter_map(|output| Some((output.name, parameters[output.parameter?.index()].as_ref()?)));
    for (name, output) in outputs.iter().map(|(name, output)| (*name, output)).chain(overwritten) {
        let compared = reference.compare(name, output).expect("an output").check();
        assert!(compared.is_ok(), "{name}: {}", compared.expect_err("a difference"));
    }
}

/// An epilogue whose value is `then` of the accumulator.
fn tree(name: &'static str, then: impl FnOnce(&mut TreeBuilder)) -> Tree {
    let mut builder = TreeBuilder::new(name, "toy.rs");
    then(&mut builder);
    builder.finish()
}

fn plain() -> Tree {
    tree("plain", |b| {
        let accum = b.accum("accum");
        b.output("d", accum, BroadcastClass::Tensor, None);
    })
}

/// `gelu(accum + bias)`, in bf16.
fn bias_gelu() -> Tree {
    tree("bias_gelu", |b| {
        let accum = b.accum("accum");
        let bias = b.parameter("bias", ParameterClass::RowVector, None);
        let sum = b.apply(Op::Add, &[accum, bias]);
        let d = b.call(ops::gelu::function(), &[sum]);
        b.output("d", d, BroadcastClass::Tensor, Some(BF16));
    })
}

/// The sum of each row, beside the product.
fn row_sums() -> Tree {
    tree("row_sums", |b| {
        let accum = b.accum("accum");
        b.output("d", accum, BroadcastClass::Tensor, None);
        let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
        let sums = b.reduce(sum, accum);
        b.output("sums", sums, BroadcastClass::ColumnVector, None);
    })
}

/// Whether NVRTC is there.
fn has_compiler(name: &str) -> bool {
    testing::compiler(name).is_some()
}

/// A plain product, a bias with GELU, and a row reduction; alone and in a batch; with edges along every extent.
#[test]
fn products_are_those_of_the_reference() {
    if !has_compiler("toy::products_are_those_of_the_reference") {
        return;
    }
    let words: Vec<u32> = (0..40_000_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let choices = &mut Choices::new(&words);
    for (element, tree) in [(F32, plain()), (F64, plain()), (BF16, bias_gelu()), (F32, row_sums())] {
        for extents in [[37, 45, 19, 0], [33, 7, 5, 3]] {
            check(&plan(tree.clone(), element, extents), extents, choices);
        }
    }
}

/// Random epilogues: several accumulators, partials, phases, positions, integers, bits, and random numbers.
#[test]
fn every_epilogue_is_taken() {
    if !has_compiler("toy::every_epilogue_is_taken") {
        return;
    }
    let cases = testing::cases(8);
    for case in 0..cases {
        let words: Vec<u32> =
            (0..20_000_u32).map(|i| (i + case * 20_000).wrapping_mul(2_654_435_761).rotate_left(case)).collect();
        let choices = &mut Choices::new(&words);
        let profile = Profile { phases: case % 2 == 1, chance: true, bits: true, ..Profile::default() };
        let (tree, extents) = (random::tree(choices, profile), [20, 41, 9, [0, 2][case as usize / 2 % 2]]);
        check(&plan(tree, [F32, BF16][case as usize % 2], extents), extents, choices);
    }
}

/// A device that has other families refuses, offers and chooses by these.
#[test]
fn a_device_is_asked_for_its_own_families() {
    let of = |element| Builder::<()>::new(&device(), plain()).elements(element, element).problem(64, 64, 64);
    let chosen = of(F32).choose().expect("a kernel");
    assert_eq!(chosen.candidates().len(), 1);
    assert_eq!(chosen.kernel().expect("a kernel").key.to_string(), "FMA f32: 32x32");
    // This family has no instruction for them, and no tiles to choose.
    let refused = of(ElementType::I8).choose().expect_err("no instruction");
    assert!(refused.to_string().contains("i8"), "{refused}");
    let refused = of(F32).split_k(SplitK::Serial(2)).choose().expect_err("no knob").to_string();
    assert!(refused.contains("because its kernels have one form"), "{refused}");
    // Other devices have all families.
    let other = Device::emulated(Arch::SM_80).expect("a device");
    let builder = Builder::<()>::new(&other, plain()).elements(F32, F32).problem(64, 64, 64);
    assert!(!matches!(builder.choose().expect("a kernel").kernel().expect("a kernel").key, KernelKey::Toy(_)));
}
