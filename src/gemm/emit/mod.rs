//! Emission: from a valid tree and the key of a kernel to complete CUDA C++.
//!
//! The configuration, the arguments' struct, the function of one element, the visitor and the kernel's entry are
//! generated; everything else is the headers of `src/device/`, inlined. Nothing here makes choices.

pub(crate) mod arguments;
pub(crate) mod element;
pub(crate) mod epilogue;
pub(crate) mod needed;
pub(crate) mod reducers;
pub(crate) mod symbol;
pub(crate) mod tail;
pub(crate) mod text;

use epilogue_runtime::Source;

use self::symbol::{later_symbol, symbol};
use self::text::Emitted;
use super::families::sm90::kernel::supported::supports;
use super::families::{sm80, sm90};
use super::kernel::later::LaterKey;
use super::kernel::{ArgumentViews, KernelKey, SplitKind};
use super::problem::Error;
use crate::evt::{Pass, Phases, Prices, ValidTree};

/// Why a tree's phases are not computed in a tile.
const NOT_IN_TILE: &str = "the epilogue's phases can't be computed in a tile: ask for `Finish::SecondLaunch`";

/// Writes a kernel of a product: of its first part and the launch's tail, or of all phases, as the key says. `views` are
/// its arguments that are no plain matrices.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub(crate) fn emit(phases: &Phases, key: &KernelKey, views: ArgumentViews) -> Result<Emitted, Error> {
    let refused = |reason| Error::NoKernel { kernel: key.to_string(), reason };
    let of = phases.computation(key.in_tile()).ok_or_else(|| refused(NOT_IN_TILE))?;
    let symbol = symbol(of.tree, key);
    let emitted = match key {
        KernelKey::Sm80(kernel) => {
            let split_k = match kernel.split_k {
                SplitKind::None => "None",
                SplitKind::Serial => "Serial",
                SplitKind::Parallel => "Parallel",
                SplitKind::Stream => "Stream",
            };
            sm80::emit::emit(&of, (kernel, views), split_k, &symbol)
        }
        KernelKey::Sm90(kernel) => match supports(kernel) {
            Ok(()) => sm90::emit::emit(&of, (kernel, views), &symbol),
            Err(reason) => return Err(refused(reason)),
        },
    };
    Ok(emitted.with_places(of.tree, views))
}

/// Writes the kernel of a launch after the product's.
pub(crate) fn emit_later(pass: &Pass<'_>, (key, views): (LaterKey, ArgumentViews), phase: usize) -> Emitted {
    let tree = &pass.part.tree;
    sm80::emit::later::emit(&pass.computation(), (key, views), phase, &later_symbol(tree, phase))
        .with_places(tree, views)
}

/// The CUDA C++ of a kernel, without any device. Of an epilogue that is computed from its own reductions, it is the kernel
/// with the product, which computes all of it or only the first phase, as the key says.
///
/// # Errors
/// [`Error::NoKernel`] if its family has no such kernel.
pub fn source(tree: &ValidTree, key: &KernelKey) -> Result<Source, Error> {
    Ok(emit(&Phases::of(tree.clone(), Prices::GPU), key, ArgumentViews::default())?.source)
}

#[cfg(test)]
mod tests {
    use epilogue_runtime::{Arch, Device, Output, testing};

    use super::*;
    use crate::ElementType;
    use crate::evt::{BroadcastClass, ParameterClass, TreeBuilder, Types};
    use crate::expr::Op;
    use crate::gemm::Builder;
    use crate::gemm::model::choice::Chosen;

    /// Digits of an argument, and of its batch, change the type of its field, the headers, and what copies its boxes, and nothing
    /// else; and accessing both digits of two tensors and an output in the largest tiles keeps nothing in memory.
    #[test]
    fn digits_change_the_type_of_a_field() {
        let mut tree = TreeBuilder::new("heads", "heads.rs");
        let accum = tree.accum("accum");
        let c = tree.parameter("c", ParameterClass::Tensor, None);
        let mask = tree.parameter("mask", ParameterClass::Tensor, Some(ElementType::BF16));
        let x = tree.apply(Op::Add, &[accum, c]);
        let x = tree.apply(Op::Mul, &[x, mask]);
        tree.output("d", x, BroadcastClass::Tensor, None);
        let tree = tree.finish();
        let valid = tree.validate(Types::new(ElementType::BF16, ElementType::BF16)).expect("a valid tree");
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
            let builder = Builder::<()>::new(&device, tree.clone()).elements(ElementType::BF16, ElementType::BF16);
            let choice = builder.problem(4096, 4096, 4096).choose().expect("a choice");
            let Chosen::Gpu(gpu) = &choice.kind else { panic!("a GPU has kernels") };
            let key = match gpu.chosen.key {
                KernelKey::Sm90(key) => KernelKey::Sm90(crate::gemm::families::sm90::kernel::Sm90Key { direct, ..key }),
                KernelKey::Sm80(key) => KernelKey::Sm80(key),
            };
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
                let number =
                    ["static_assert(sizeof(", "#line "].iter().any(|word| x.contains(word) && y.contains(word));
                let boxes = x.contains("_boxes(") && y.contains("_digit_boxes<Config>(");
                assert!(number || boxes || x.contains("TensorView<") && y.contains(field), "{x} / {y}");
            }
            let Some(compiler) = testing::compiler("digits_change_the_type_of_a_field") else { return };
            let compiled = compiler.compile(&digits, arch, Output::Cubin).expect("it compiles");
            let resources = compiled.log.kernel(&digits.entry).expect("resources");
            assert_eq!((resources.spill_store_bytes, resources.spill_load_bytes), (0, 0), "{key}: {resources:?}");
        }
    }
}
