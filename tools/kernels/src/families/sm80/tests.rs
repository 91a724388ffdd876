//! The text of this family's kernels, their instructions, and the pairs of kernels that must be alike.

use epilogue::evt::{BroadcastClass, ParameterClass, Tree, TreeBuilder, Types, ValidTree};
use epilogue::expr::Op;
use epilogue::gemm::{Builder, Formats, Instruction, KernelKey, Sm80Key, SplitK, Tile};
use epilogue::{Device, ElementType, ops};
use epilogue_runtime::{Arch, Output, Source, testing};
use expect_test::expect_file;
use rayon::prelude::*;

use super::set::{self, key};
use crate::epilogues::{self, everything, plain, row_reduction};
use crate::gate::Subject;
use crate::tests::{alike_but_for_scales, differences, generated_part, packed, typed};

/// The tile of 128 by 128 of a 16-bit type, or of 64 by 64 of f64, with k-tiles of 64 or 128 bytes.
fn medium(instruction: Instruction) -> Tile {
    let extent = if instruction == Instruction::MmaF64 { 64 } else { 128 };
    let is_it = |tile: &&Tile| (tile.m, tile.n) == (extent, extent);
    *Tile::all(instruction).iter().find(is_it).expect("such a tile")
}

fn valid(tree: &Tree, instruction: Instruction) -> ValidTree {
    let (a, b) = instruction.elements();
    tree.validate(Types::new(a, b)).expect("a valid tree")
}

fn source(tree: &ValidTree, key: &Sm80Key) -> Source {
    epilogue::gemm::source(tree, &KernelKey::Sm80(*key)).expect("every kernel of sm_80 is emitted")
}

/// The generated part of a kernel: the text after the headers.
fn generated(tree: &Tree, key: &Sm80Key) -> String {
    generated_part(&source(&valid(tree, key.instruction), key).code)
}

#[test]
fn generated_code_is_as_committed() {
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    let of_f16 = generated(&row_reduction(), &f16);
    expect_file!["../../../../../tests/golden/row_reduction.cu"].assert_eq(&of_f16);
    expect_file!["../../../../../tests/golden/everything.cu"].assert_eq(&generated(&everything(), &f16));
    let f64 = key(Instruction::MmaF64, medium(Instruction::MmaF64));
    let differing = differences(&of_f16, &generated(&row_reduction(), &f64));
    expect_file!["../../../../../tests/golden/row_reduction_f64.diff"].assert_eq(&differing);
}

/// The kernels of epilogues with phases: of the product, with the tail of its reductions, and of what comes after it.
#[test]
fn generated_code_of_phases_is_as_committed() {
    if testing::compiler("generated_code_of_phases_is_as_committed").is_none() {
        return;
    }
    let device = Device::emulated(Arch::SM_80).expect("a device");
    let plan = |tree: Tree| {
        let builder = Builder::<()>::new(&device, tree).elements(ElementType::BF16, ElementType::BF16);
        let tile = medium(Instruction::MmaBf16);
        builder.problem(256, 256, 256).tile(tile).split_k(SplitK::None).plan().expect("a plan")
    };
    let softmax = plan(epilogues::softmax());
    let later: Vec<String> = softmax.later_sources().map(|source| generated_part(&source.code)).collect();
    assert_eq!(later.len(), 1, "the sums come with the maxima");
    expect_file!["../../../../../tests/golden/softmax_phase_1.cu"].assert_eq(&later[0]);
    let loss = plan(epilogues::cross_entropy());
    assert_eq!(loss.later_sources().count(), 0);
    expect_file!["../../../../../tests/golden/cross_entropy.cu"].assert_eq(&generated_part(loss.source()));
    let factor = plan(epilogues::row_factor());
    assert_eq!(factor.later_sources().count(), 0);
    expect_file!["../../../../../tests/golden/row_factor.cu"].assert_eq(&generated_part(factor.source()));
}

/// All phases in one kernel, where rows lie in its tile.
#[test]
fn generated_code_of_phases_in_a_tile_is_as_committed() {
    let bf16 = Sm80Key { in_tile: true, ..key(Instruction::MmaBf16, medium(Instruction::MmaBf16)) };
    expect_file!["../../../../../tests/golden/softmax_in_tile.cu"].assert_eq(&generated(&epilogues::softmax(), &bf16));
}

/// Bits of a lane's neighbouring columns, random numbers of these, and integers of 32 bits where they are enough.
#[test]
fn generated_code_of_bits_random_numbers_and_integers_is_as_committed() {
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    expect_file!["../../../../../tests/golden/packed.cu"].assert_eq(&generated(&packed(), &f16));
    expect_file!["../../../../../tests/golden/dropout.cu"].assert_eq(&generated(&epilogues::dropout(), &f16));
    expect_file!["../../../../../tests/golden/typed.cu"].assert_eq(&generated(&typed(ElementType::I32), &f16));
}

#[test]
fn emission_is_deterministic_and_keeps_the_users_names_and_lines() {
    let key = key(Instruction::MmaBf16, medium(Instruction::MmaBf16));
    let code = source(&valid(&row_reduction(), key.instruction), &key).code;
    assert_eq!(code, source(&valid(&row_reduction(), key.instruction), &key).code);
    let at = code.find("#line 3 \"seed.rs\"\n").expect("the user's line");
    let statement = code[at..].lines().nth(1).expect("a statement after it");
    assert!(statement.starts_with("    const float d = alpha * accum + math::"), "{statement}");
    assert!(!code.contains("#include"), "it stands alone");
    // After the user's lines the kernel's own line numbers continue correctly.
    let (number, line) = code.lines().enumerate().find(|(_, l)| l.contains(".cu\"")).expect("a #line back");
    assert_eq!(line, format!("#line {} \"row_reduction.cu\"", number + 2));
}

/// An epilogue, its parameters and its values may all have the same names, and those of anything in the kernel.
#[test]
fn any_name_may_be_used() {
    let Some(compiler) = testing::compiler("any_name_may_be_used") else { return };
    let names = [
        "bias",
        "arguments",
        "values",
        "fetched",
        "row",
        "m",
        "v",
        "element",
        "problem",
        "work",
        "column",
        "max",
        "math",
        "tanh",
        "epilogue",
        "needs_bias",
        "u32",
        "Values",
        "Parameters",
        "Visitor",
        "Real",
        "Config",
        "parameters",
        "sm80",
    ];
    // Several names in a kernel, because each kernel takes the compiler a second.
    let wrong: Vec<String> = names
        .par_chunks(6)
        .filter_map(|names| {
            let mut b = TreeBuilder::new(names[0], "names.rs");
            let mut value = b.accum("accum");
            let scalar = b.parameter("bias_", ParameterClass::Scalar, None);
            for name in names {
                let vector = b.parameter(name, ParameterClass::RowVector, None);
                let scaled = b.apply(Op::Mul, &[scalar, vector]);
                let sum = b.apply(Op::Add, &[value, scaled]);
                value = b.call(ops::tanh::function(), &[sum]);
                b.name(value, name);
            }
            b.output("d", value, BroadcastClass::Tensor, None);
            let key = key(Instruction::MmaF16, medium(Instruction::MmaF16));
            let source = source(&valid(&b.finish(), key.instruction), &key);
            let compiled = compiler.compile(&source, Arch::SM_80, Output::Ptx);
            compiled.err().map(|error| format!("{names:?}: {error}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The multiplications, fragment loads and copies of a 128×128×32 tile, in the unrolled loop and before it.
#[test]
fn instruction_counts() {
    let Some(compiler) = testing::compiler("instruction_counts") else { return };
    let key = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    let source = source(&valid(&plain(), key.instruction), &key);
    let ptx = compiler.compile(&source, Arch::SM_80, Output::Ptx).expect("it compiles").ptx;
    let count = |what: &str| ptx.matches(what).count();
    // A warp's 64×64 in two steps of k16: 4 × 8 products each, 4 + 4 loads of four matrices each. The first step's operands
    // of the first block are loaded before the loop; the loop's last step loads those of the next block.
    assert_eq!(count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 2 * 4 * 8);
    assert_eq!(count("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), (1 + 2) * 4);
    assert_eq!(count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), (1 + 2) * 4);
    // 128 threads copy 8 KiB of A and of B: 4 times 16 bytes each, before the loop (3 stages) and in it.
    assert_eq!(count("cp.async.cg.shared.global"), (3 + 1) * (4 + 4));
    assert_eq!(count(".local"), 0, "no local memory");
}

/// Kernels of two accumulators, and products whose positions leave tiles out, are in the set.
#[test]
fn two_accumulators_and_masks_are_in_the_covering_set() {
    let count = |name| set::covering().iter().filter(|subject| subject.tree.name() == name).count();
    assert_eq!((count("swiglu"), count("causal")), (4, 1));
}

/// Kernels with block scales have as many products as their twins without, and keep nothing in local memory.
#[test]
fn block_scales_change_no_products() {
    let without = |subject: Subject| match subject.key {
        KernelKey::Sm80(key) if key.formats.are_scaled() => {
            let twin = KernelKey::Sm80(Sm80Key { formats: Formats::PLAIN, ..key });
            Some((subject.clone(), Subject { key: twin, ..subject }))
        }
        _ => None,
    };
    let pairs: Vec<_> = set::covering().into_iter().filter_map(without).collect();
    assert_eq!(pairs.len(), 5);
    alike_but_for_scales("block_scales_change_no_products", pairs);
}
