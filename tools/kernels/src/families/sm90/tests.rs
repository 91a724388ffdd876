//! The text of this family's kernels, their instructions, and the pairs of kernels that must be alike.

use epilogue::evt::{Tree, Types};
use epilogue::gemm::sm90::{Cluster, Raster, Request, Sm90Key, TensorCores, Tile};
use epilogue::gemm::{Builder, Formats, KernelKey, Major, OperandLayout, ReadingShape, SplitK};
use epilogue::{Device, ElementType};
use epilogue_runtime::{Arch, GpuModel, testing};
use expect_test::expect_file;
use rayon::prelude::*;

use super::{elements, operands, set};
use crate::epilogues::{self, everything};
use crate::gate::{Gate, Report, Subject};
use crate::tests::{alike_but_for_scales, checked, differences, generated_part, packed, typed};

fn generated(tree: &Tree, swapped: bool, n: usize) -> String {
    generated_in_clusters(TensorCores::Wgmma, tree, (swapped, Cluster { m: 2, n: 1 }), n)
}

fn generated_in_clusters(cores: TensorCores, tree: &Tree, (swapped, cluster): (bool, Cluster), n: usize) -> String {
    let tile = Tile::all().iter().find(|t| (t.rows, t.columns, t.consumers) == (128, 64, 2));
    let request = Request {
        tile: tile.copied(),
        swap_ab: Some(swapped),
        stages: Some(4),
        cluster: Some(cluster),
        raster: Some(Raster { group: 8, along_n: false }),
        split_k: Some(SplitK::None),
        ..Request::default()
    };
    let builder = Builder::<()>::new(&Device::emulated(cores.arch()).expect("an emulated device"), tree.clone());
    let k_major = OperandLayout::packed(Major::K);
    let builder = builder.elements(ElementType::BF16, ElementType::BF16).layouts(k_major, k_major);
    let builder = builder.problem(4096, n, 4096);
    let builder = match cores {
        TensorCores::Wgmma => builder.sm90(request),
        TensorCores::Tcgen05 => builder.sm100(request),
    };
    let choice = builder.choose().expect("a kernel");
    let key = choice.kernel().expect("a kernel").key;
    let tree = tree.validate(Types::new(ElementType::BF16, ElementType::BF16)).expect("a valid tree");
    let code = epilogue::gemm::source(&tree, &key).expect("it is emitted").code;
    generated_part(&code)
}

/// A kernel with everything: constants, the product's instruction, arguments, visitor, instantiation; and
/// one whose rows are N, so that rows and columns are exchanged.
#[test]
fn generated_code_is_as_committed() {
    let [rows, columns] = [false, true].map(|swapped| generated(&everything(), swapped, 4096));
    expect_file!["../../../../../tests/golden/everything_sm_90a.cu"].assert_eq(&rows);
    expect_file!["../../../../../tests/golden/everything_sm_90a_swapped.diff"].assert_eq(&differences(&rows, &columns));
}

/// The lines that a kernel for sm_100a has and the same one for sm_90a lacks: where sums are, which rows a block has, the product's
/// instruction and the loads of its sums.
#[test]
fn generated_code_for_sm_100a_is_as_committed() {
    let [hopper, blackwell] = [TensorCores::Wgmma, TensorCores::Tcgen05]
        .map(|cores| generated_in_clusters(cores, &everything(), (false, Cluster { m: 2, n: 1 }), 4096));
    let known: std::collections::BTreeSet<&str> = hopper.lines().collect();
    let added: String = blackwell.lines().filter(|line| !known.contains(line)).flat_map(|line| [line, "\n"]).collect();
    expect_file!["../../../../../tests/golden/everything_sm_100a.added"].assert_eq(&added);
}

/// All phases in one kernel, where rows lie in its tile.
#[test]
fn generated_code_of_phases_in_a_tile_is_as_committed() {
    let code = generated(&epilogues::softmax(), false, 64);
    expect_file!["../../../../../tests/golden/softmax_in_tile_sm_90a.cu"].assert_eq(&code);
}

/// This holds where rows lie in the tiles of a cluster, whose blocks exchange what they have of them.
#[test]
fn generated_code_of_phases_in_a_cluster_is_as_committed() {
    let along_rows = Cluster { m: 1, n: 4 };
    let code = generated_in_clusters(TensorCores::Wgmma, &epilogues::softmax(), (false, along_rows), 256);
    expect_file!["../../../../../tests/golden/softmax_in_cluster_sm_90a.cu"].assert_eq(&code);
}

/// Bits and random numbers of units of both orientations; integers of 64 bits.
#[test]
fn generated_code_of_bits_random_numbers_and_integers_is_as_committed() {
    let of = |tree: &Tree| generated(tree, false, 4096);
    expect_file!["../../../../../tests/golden/packed_sm_90a.cu"].assert_eq(&of(&packed()));
    let swapped = generated(&packed(), true, 4096);
    assert!(swapped.contains("store_bits<Config>(arguments.output1, work, problem, block, column, x);"), "{swapped}");
    expect_file!["../../../../../tests/golden/dropout_sm_90a.cu"].assert_eq(&of(&epilogues::dropout()));
    let swapped = generated(&epilogues::dropout(), true, 4096);
    assert!(swapped.contains("random_unit<Config>(_seed, 1u, work, problem, block, column, "), "{swapped}");
    expect_file!["../../../../../tests/golden/typed_sm_90a.cu"].assert_eq(&of(&typed(ElementType::I64)));
}

/// Kernels of two accumulators, and products whose positions leave tiles out, are in the set.
#[test]
fn two_accumulators_and_masks_are_in_the_covering_set() {
    let count = |name| set::covering(TensorCores::Wgmma).iter().filter(|subject| subject.tree.name() == name).count();
    let (two, masked) = (count("swiglu"), count("causal"));
    assert!(two >= 7 && masked == 3, "{two} {masked}");
}

/// Epilogues of several phases: wide tiles are in both sets, where rows lie in a tile and in a cluster's.
#[test]
fn phases_in_wide_tiles_are_in_the_covering_set() {
    let counts = [set::in_tile(TensorCores::Wgmma), set::in_cluster(TensorCores::Wgmma)].map(|set| {
        let wide = set.iter().filter(|subject| subject.key.tile().1 == 256).count();
        (set.len(), wide)
    });
    assert_eq!(counts, [(9, 6), (6, 5)]);
}

/// Kernels with block scales have as many products as their twins without, and keep nothing in local memory.
#[test]
fn block_scales_change_no_products() {
    let without = |subject: Subject| match subject.key {
        KernelKey::Sm90(key) if key.formats.are_scaled() => {
            let twin = KernelKey::Sm90(Sm90Key { formats: Formats::PLAIN, ..key });
            Some((subject.clone(), Subject { key: twin, ..subject }))
        }
        _ => None,
    };
    let pairs: Vec<_> = set::covering(TensorCores::Wgmma).into_iter().filter_map(without).collect();
    assert!(pairs.len() >= 9, "{}", pairs.len());
    alike_but_for_scales("block_scales_change_no_products", pairs);
}

/// Kernels with groups of K, and of transposed patches, keep nothing in memory. Registers, products and copies are those of
/// their twins of plain matrices.
#[test]
fn groups_of_k_and_transposed_patches_change_no_products_and_no_loads() {
    const NAME: &str = "groups_of_k_and_transposed_patches_change_no_products_and_no_loads";
    let mut set = operands::depth(TensorCores::Wgmma);
    assert_eq!(set.len(), 6);
    let transposed = operands::transposed_patches(TensorCores::Wgmma);
    assert_eq!(transposed.len(), 4);
    // With the most boxes of patches, and with those of a cluster.
    set.extend(transposed.into_iter().step_by(2));
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let wrong = |subject: &Subject| {
        let KernelKey::Sm90(key) = subject.key else { return Some(subject.key.to_string()) };
        let twin = Sm90Key { reading: ReadingShape::Rows, ..key };
        let twin = Subject { key: KernelKey::Sm90(twin), ..subject.clone() };
        let check = |subject| checked(&gate, subject).expect("there is such a kernel");
        let (one, twin) = (check(subject), check(&twin));
        let right = one.findings.is_empty() && one.kept == twin.kept && one.size() == twin.size();
        (!right).then(|| format!("{one}\n{twin}"))
    };
    let wrong: Vec<String> = set.par_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels for sm_90a that pick rows are in the set. They have as many products as their twins of rows in order, and no more
/// registers. The engine copies B alone, and nothing is kept in local memory.
#[test]
fn picked_rows_are_in_the_covering_set_and_change_no_products() {
    const NAME: &str = "picked_rows_are_in_the_covering_set";
    let twins = |subject: &Subject| match subject.key {
        KernelKey::Sm90(key) if key.reading.is_picked() => {
            let twin = KernelKey::Sm90(Sm90Key { reading: key.reading.in_order(), ..key });
            Some((subject.clone(), Subject { key: twin, ..subject.clone() }))
        }
        _ => None,
    };
    let pairs: Vec<_> = set::covering(TensorCores::Wgmma).iter().filter_map(twins).collect();
    assert_eq!(pairs.len(), 4);
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let wrong = |(picked, twin): &(Subject, Subject)| {
        let check = |subject| checked(&gate, subject).expect("there is such a kernel");
        let (picked, twin) = (check(picked), check(twin));
        // A is one box of a stage, as it is contiguous along K.
        let loads = |report: &Report| report.size().2.map(|[_, _, (_, loads), ..]| loads);
        let loads = loads(&picked).map(|loads| loads + 1) == loads(&twin);
        let ([registers, of_twin], spilled) = ([&picked, &twin].map(|report| report.size().0), picked.size().1);
        let right = picked.findings.is_empty()
            && picked.products() == twin.products()
            && loads
            && registers <= of_twin + 4
            && spilled == 0;
        (!right).then(|| format!("{picked}\n{twin}"))
    };
    let wrong: Vec<String> = pairs.par_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels for sm_100a have the same instructions where they are compiled for a B300, which multiplies no integers.
#[test]
fn a_b300_has_the_kernels_of_a_b200() {
    const NAME: &str = "a_b300_has_the_kernels_of_a_b200";
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let arch = GpuModel::of_driver("NVIDIA GB300").map(GpuModel::arch).expect("a known GPU");
    assert_eq!((arch.to_string().as_str(), TensorCores::of(arch)), ("sm_103a", Some(TensorCores::Tcgen05)));
    let floats = |subject: &Subject| subject.key.elements().0.size() != 1;
    let set = set::covering(TensorCores::Tcgen05).into_iter().filter(floats).step_by(16);
    let wrong: Vec<String> = set
        .map(|subject| gate.check(&Subject { arch, ..subject }).expect("it compiles").expect("there is such a kernel"))
        .filter(|report| !report.findings.is_empty())
        .map(|report| report.to_string())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let of = |element| {
        let target =
            epilogue_runtime::bundle::Builder::new().target(GpuModel::of_driver("NVIDIA GB300").expect("known"));
        let builder = Builder::<()>::new(&target, epilogues::plain()).elements(element, element);
        let choice = builder.problem(4096, 4096, 4096).choose().expect("a plan");
        choice.kernel().expect("a kernel").key.family()
    };
    assert_eq!((of(ElementType::BF16), of(ElementType::I8)), (Arch::SM_100A, Arch::SM_80));
}

/// Epilogues of 16-bit results take no more instructions than their limit: short formulas without branches.
#[test]
fn epilogues_take_few_instructions() {
    const NAME: &str = "epilogues_take_few_instructions";
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let measured = elements::measure(TensorCores::Wgmma, &gate).expect("all compile");
    let grown: Vec<String> = measured.iter().filter(|m| m.exceeds()).map(ToString::to_string).collect();
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}
