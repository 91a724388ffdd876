//! Texts and names of kernels of every family.

pub(crate) mod toy;

use epilogue_runtime::{Arch, Device, Output, testing};

use super::sm80::kernel::{Instruction, Sm80Key, Tile};
use super::{FAMILIES, KernelKey, sm80, sm90};
use crate::ElementType::{self, BF16, F8E4M3, F8E5M2, F32};
use crate::device;
use crate::evt::{BroadcastClass, ParameterClass, Phases, Prices, TreeBuilder, Types};
use crate::expr::Op;
use crate::gemm::Builder;
use crate::gemm::emit::emit;
use crate::gemm::emit::symbol::symbol;
use crate::gemm::kernel::device_struct::DeviceStruct;
use crate::gemm::kernel::structs::STRUCTS;
use crate::gemm::kernel::{ArgumentViews, ReadingShape, SplitKind};
use crate::gemm::problem::{Arithmetic, Formats, Major, OperandLayout};

#[test]
fn families_are_listed_from_the_oldest() {
    assert!(FAMILIES.iter().map(|family| family.arch().capability()).is_sorted());
}

/// No struct that the host fills lacks its description in a family's kernels.
#[test]
fn every_struct_of_a_header_is_described() {
    for (folder, own) in [("sm80/", sm80::kernel::structs::STRUCTS), ("sm90/", sm90::kernel::structs::STRUCTS)] {
        let structs = [own, STRUCTS].concat();
        let mut paths = device::paths();
        paths.retain(|path| path.starts_with(folder) || !path.contains('/'));
        let text = device::inlined_with(&paths, &|name| DeviceStruct::find(&structs, name).map(DeviceStruct::cuda));
        let left: Vec<&str> = text.lines().filter(|line| line.starts_with("#include")).collect();
        assert!(left.is_empty(), "{folder}: {left:?}");
    }
}

/// Digits of an argument, and of its batch, change the type of its field, the headers, and what copies its boxes, and nothing
/// else; and accessing both digits of two tensors and an output in the largest tiles keeps nothing in memory.
#[test]
fn digits_change_the_type_of_a_field() {
    let mut tree = TreeBuilder::new("heads", "heads.rs");
    let accum = tree.accum("accum");
    let c = tree.parameter("c", ParameterClass::Tensor, None);
    let mask = tree.parameter("mask", ParameterClass::Tensor, Some(BF16));
    let x = tree.apply(Op::Add, &[accum, c]);
    let x = tree.apply(Op::Mul, &[x, mask]);
    tree.output("d", x, BroadcastClass::Tensor, None);
    let tree = tree.finish();
    let valid = tree.validate(Types::new(BF16, BF16)).expect("a valid tree");
    let phases = Phases::of(valid, Prices::GPU);
    // By lanes, and by boxes; of rows and columns, of the batch, of all.
    for (arch, direct, [digits, batches], field) in [
        (Arch::SM_80, 0, [0b111, 0], "DigitsView<"),
        (Arch::SM_90A, 0b111, [0b111, 0], "DigitsView<"),
        (Arch::SM_90A, 0, [0b111, 0], "DigitsView<"),
        (Arch::SM_80, 0, [0, 0b111], "BatchesTensorView<"),
        (Arch::SM_90A, 0b111, [0, 0b111], "BatchesTensorView<"),
        (Arch::SM_80, 0, [0b111, 0b111], "BatchesDigitsView<"),
    ] {
        let device = Device::emulated(arch).expect("a device");
        let builder = Builder::<()>::new(&device, tree.clone()).elements(BF16, BF16);
        let choice = builder.problem(4096, 4096, 4096).choose().expect("a choice");
        let mut key = choice.kernel().expect("a GPU has kernels").key;
        if let KernelKey::Sm90(key) = &mut key {
            key.direct = direct;
        }
        let of_digits = ArgumentViews { digits, batches, ..ArgumentViews::default() };
        let [plain, digits] =
            [ArgumentViews::default(), of_digits].map(|views| emit(&phases, &key, views).expect("a kernel").source);
        assert!(!plain.code.contains("Digit"));
        let generated = |text: &str| {
            let at = text.find("// ==== what follows is generated").expect("a generated part");
            text[at..].lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, after) = (generated(&plain.code), generated(&digits.code));
        assert_eq!(before.len(), after.len());
        let copied = after.iter().filter(|line| line.contains("_digit_boxes<Config>(")).count();
        assert_eq!(copied, if arch == Arch::SM_90A && direct == 0 { 3 } else { 0 });
        let differ = before.iter().zip(&after).filter(|(x, y)| x != y);
        for (x, y) in differ {
            // Of the struct, and where the generated part begins.
            let number = ["static_assert(sizeof(", "#line "].iter().any(|word| x.contains(word) && y.contains(word));
            let boxes = x.contains("_boxes(") && y.contains("_digit_boxes<Config>(");
            assert!(number || boxes || x.contains("TensorView<") && y.contains(field), "{x} / {y}");
        }
        let Some(compiler) = testing::compiler("digits_change_the_type_of_a_field") else { return };
        let compiled = compiler.compile(&digits, arch, Output::Cubin).expect("it compiles");
        let resources = compiled.log.kernel(&digits.entry).expect("resources");
        assert_eq!((resources.spill_store_bytes, resources.spill_load_bytes), (0, 0), "{key}: {resources:?}");
    }
}

fn called(name: &'static str, a: ElementType, b: ElementType, arithmetic: Arithmetic) -> String {
    let mut builder = TreeBuilder::new(name, "names.rs");
    let accum = builder.accum("accum");
    builder.output("d", accum, BroadcastClass::Tensor, None);
    let tree = builder.finish().validate(Types::new(a, b)).expect("a valid tree");
    let instruction = Instruction::of(a, b, arithmetic).expect("an instruction");
    let tiles = Tile::all(instruction);
    let tile = *tiles.iter().find(|tile| tile.m < 256).expect("a smaller tile");
    let key = Sm80Key {
        instruction,
        tile,
        split_k: SplitKind::None,
        a: OperandLayout::packed(Major::K),
        b: OperandLayout::packed(Major::K),
        vector: 1,
        epilogue_passes: 1,
        accumulators: 1,
        reading: ReadingShape::Rows,
        formats: Formats::PLAIN,
        in_tile: false,
        fast_math: false,
    };
    symbol(&tree, &KernelKey::Sm80(key))
}

#[test]
fn kernels_are_called_after_their_epilogue() {
    assert_eq!(called("bias_gelu", BF16, BF16, Arithmetic::Exact), "bias_gelu_bf16_128x256");
    assert_eq!(called("scaled", F8E4M3, F8E5M2, Arithmetic::Exact), "scaled_f8e4m3_f8e5m2_128x256");
    assert_eq!(called("plain", F32, F32, Arithmetic::Tf32), "plain_tf32_128x256");
    assert_eq!(called("plain", F32, F32, Arithmetic::FastBf16), "plain_fast_bf16_128x256");
    assert_eq!(called("plain", F32, F32, Arithmetic::Exact), "plain_f32_128x128");
}

/// Names that C++ does not allow, and names that C++ and CUDA define.
#[test]
fn every_name_gives_an_identifier() {
    for (name, expected) in [
        ("r#struct", "struct_bf16_128x256"),
        ("größe", "gruf6udfe_bf16_128x256"),
        ("__global__", "global_bf16_128x256"),
        ("2d", "v2d_bf16_128x256"),
        ("tanh", "tanh_bf16_128x256"),
        ("NULL", "NULL_bf16_128x256"),
    ] {
        assert_eq!(called(name, BF16, BF16, Arithmetic::Exact), expected);
    }
}
