//! Emitted kernels, compiled by NVRTC: no spills, the intended instructions, and their text.

mod automatic;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use epilogue::evt::{BroadcastClass, ParameterClass, Position, Tree, TreeBuilder, Types, ValidTree};
use epilogue::expr::{Logic, Op};
use epilogue::gemm::sm90::{self, Sm90Key, Tile as Sm90Tile};
use epilogue::gemm::{
    Builder, Formats, Instruction, KernelKey, Major, OperandLayout, ReadingShape, Sm80Key, SplitK, Tile,
};
use epilogue::{Device, ElementType, ops};
use epilogue_runtime::{Arch, Output, Source, testing};
use expect_test::expect_file;
use ptx_vm::Module;
use ptx_vm_conformance::uncovered;
use rayon::prelude::*;

use super::epilogues::{everything, plain, row_reduction};
use super::gate::{Gate, Report, Subject};
use super::set::sm80 as key;
use super::{ablation, choices, elements, epilogues, others, predict, published, set};

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

/// Accesses of local memory, outside the loop of products, of kernels that are known to lack a register or a few: words that
/// are stored and loaded once for a tile. (Compiled by the NVRTC that `cargo xtask tools` installs.)
fn kept(report: &str) -> usize {
    let known = [
        ("256x128 by 2 warpgroups, 4 stages, clusters of 1x2, groups of 8 along M, patches of 2 axes", 0),
        ("row_reduction mma.m16n8k16 f16: 128x128x32, warps of 64x64, 4 stages, patches of a gradient", 4),
        ("row_reduction mma.m16n8k16 f16: 128x128x32, warps of 64x64, 4 stages, transposed patches", 4),
        ("bias_gelu_residual wgmma bf16: 256x128 by 2 warpgroups, 4 stages, clusters of 1x2", 2),
        ("row_reduction wgmma tf32: 128x128 ping-pong, 6 stages, groups of 8 along M", 2),
        ("rms_norm wgmma bf16: 128x256 by 2 warpgroups, 4 stages, clusters of 2x1", 8),
        ("quantised_rows wgmma bf16: 128x128 ping-pong, 6 stages, clusters of 2x1", 2),
        ("rms_norm wgmma bf16: 128x256 by 2 warpgroups, 4 stages, clusters of 1x8", 5),
        ("softmax wgmma bf16: 128x256 by 2 warpgroups, 4 stages, clusters of 2x2", 5),
        ("quantised_rows wgmma bf16: 128x128 ping-pong, 6 stages, clusters of 1x8", 4),
    ];
    known.iter().find(|(kernel, _)| report.contains(kernel)).map_or(0, |(_, accesses)| *accesses)
}

/// The report on a kernel, which is made once, whichever test asks first; `None` if its family has no such kernel.
fn checked(gate: &Gate, subject: &Subject) -> Option<Arc<Report>> {
    type Once = Arc<OnceLock<Option<Arc<Report>>>>;
    static REPORTS: Mutex<Option<HashMap<String, Once>>> = Mutex::new(None);
    let name = format!("{} {} {:?}", subject.tree.name(), subject.arch, subject.key);
    let once = {
        let mut reports = REPORTS.lock().expect("no test panics with it");
        Arc::clone(reports.get_or_insert_default().entry(name).or_default())
    };
    once.get_or_init(|| gate.check(subject).expect("it compiles").map(Arc::new)).clone()
}

/// Kernels of two accumulators are in the set, with every instruction, register and copy that is checked.
#[test]
fn two_accumulators_are_in_the_covering_set() {
    let swiglu = set::covering().into_iter().filter(|subject| subject.tree.name() == "swiglu");
    let (sm90, sm80): (Vec<_>, Vec<_>) = swiglu.partition(|subject| matches!(subject.key, KernelKey::Sm90(_)));
    assert!(sm80.len() == 4 && sm90.len() >= 7, "{} {}", sm80.len(), sm90.len());
}

/// Products of which positions leave tiles out are in the set.
#[test]
fn causal_products_are_in_the_covering_set() {
    let causal = set::covering().into_iter().filter(|subject| subject.tree.name() == "causal");
    assert_eq!(causal.count(), 4);
}

/// Kernels with block scales are in the set, have as many products as their twins without, and keep nothing in local memory.
#[test]
fn block_scales_are_in_the_covering_set_and_change_no_products() {
    const NAME: &str = "block_scales_are_in_the_covering_set";
    let without = |subject: &Subject| {
        let key = match subject.key {
            KernelKey::Sm80(key) if key.formats.are_scaled() => {
                KernelKey::Sm80(Sm80Key { formats: Formats::PLAIN, ..key })
            }
            KernelKey::Sm90(key) if key.formats.are_scaled() => {
                KernelKey::Sm90(Sm90Key { formats: Formats::PLAIN, ..key })
            }
            _ => return None,
        };
        Some((subject.clone(), Subject { key, ..subject.clone() }))
    };
    let pairs: Vec<_> = set::covering().iter().filter_map(without).collect();
    let sm80 = pairs.iter().filter(|(subject, _)| matches!(subject.key, KernelKey::Sm80(_))).count();
    assert!(sm80 == 5 && pairs.len() - sm80 >= 9, "{sm80} of {}", pairs.len());
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let wrong = |(scaled, twin): &(Subject, Subject)| {
        let check = |subject| checked(&gate, subject).expect("there is such a kernel");
        let (scaled, twin) = (check(scaled), check(twin));
        let right = scaled.findings.is_empty() && scaled.kept == 0 && scaled.products() == twin.products();
        (!right).then(|| format!("{scaled}\n{twin}"))
    };
    let wrong: Vec<String> = some_of(pairs).par_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Kernels with groups of K, and of transposed patches, keep nothing in memory, and have the registers, products and copies of
/// their twins of plain matrices.
#[test]
fn groups_of_k_and_transposed_patches_change_no_products_and_no_loads() {
    const NAME: &str = "groups_of_k_and_transposed_patches_change_no_products_and_no_loads";
    let mut set = set::operands::covering_depth_sm90();
    assert_eq!(set.len(), 6);
    let transposed = set::operands::covering_transposed_patches_sm90();
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

/// Kernels for sm_90a that pick rows are in the set; beside their twins of rows in order they have as many products, copies of
/// the engine for B alone, and no more registers, and they keep nothing in local memory.
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
    let pairs: Vec<_> = set::covering().iter().filter_map(twins).collect();
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

/// Of fewer cases than kernels, some all over the set; `cargo xtask kernels` checks all.
fn some_of<T>(set: Vec<T>) -> Vec<T> {
    let (all, wanted) = (set.len(), testing::cases(set.len() as u32) as usize);
    let is_wanted = |i: usize| (i + 1) * wanted / all > i * wanted / all;
    set.into_iter().enumerate().filter(|(i, _)| is_wanted(*i)).map(|(_, kernel)| kernel).collect()
}

#[test]
fn covering_set_is_as_meant_and_of_instructions_that_ptx_vm_is_tested_on() {
    const NAME: &str = "covering_set_is_as_meant";
    let Some(compiler) = testing::compiler(NAME) else { return };
    let set = set::covering();
    assert!(set.len() <= 299, "{}", set.len());
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let some = some_of(set);
    let reports: Vec<_> = some.par_iter().filter_map(|subject| checked(&gate, subject)).collect();
    let failed: Vec<String> = reports
        .iter()
        .filter(|r| !r.findings.is_empty() || r.kept != kept(&r.to_string()))
        .map(ToString::to_string)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(reports.len() >= 55, "{}", reports.len());
    let mut untested = BTreeSet::new();
    for report in &reports {
        let module = Module::parse(&report.ptx).expect("ptx-vm takes what NVRTC makes");
        for kernel in module.kernels() {
            untested.extend(uncovered(kernel.opcodes()).into_iter().map(str::to_owned));
        }
    }
    assert!(untested.is_empty(), "no conformance case for {untested:?}");
}

/// Softmax, a norm and a quantisation of rows of 256 columns, in the tile of either schedule, and of wider rows in a cluster's: the products' loop is untouched,
/// and nothing but some words of a tile is kept in memory.
#[test]
fn phases_in_a_tile_are_as_meant() {
    const NAME: &str = "phases_in_a_tile_are_as_meant";
    let Some(compiler) = testing::compiler(NAME) else { return };
    let mut set = set::covering_in_tile();
    let is_wide = |subject: &&Subject| subject.arch == Arch::SM_90A && subject.key.tile().1 == 256;
    assert_eq!((set.len(), set.iter().filter(is_wide).count()), (12, 6));
    let in_cluster = set::covering_in_cluster();
    assert_eq!((in_cluster.len(), in_cluster.iter().filter(is_wide).count()), (6, 5));
    set.extend(in_cluster);
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let reports: Vec<_> = set.par_iter().filter_map(|subject| checked(&gate, subject)).collect();
    let failed = reports.iter().filter(|r| !r.findings.is_empty() || r.kept != kept(&r.to_string()));
    let failed: Vec<String> = failed.map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Changes of the model's choices are visible in review.
#[test]
fn choices_are_as_committed() {
    expect_file!["../../../../tests/golden/choices.txt"]
        .assert_eq(&choices::table().expect("a kernel for every shape"));
}

#[test]
fn choices_on_other_gpus_are_as_committed() {
    expect_file!["../../../../tests/golden/choices_of_gpus.txt"]
        .assert_eq(&choices::of_gpus().expect("a kernel for every shape"));
}

/// Regimes, counts and ratios of the published times, and what others' kernels say of the choices.
#[test]
fn published_times_are_priced_as_committed() {
    expect_file!["../../../../tests/golden/published.txt"]
        .assert_eq(&published::text().expect("a price for every row"));
}

/// The times by the machine code, beside the model's. Where they differ by much, the table says why.
#[test]
fn predictions_are_as_committed() {
    const NAME: &str = "predictions_are_as_committed";
    let (Some(compiler), Some(nvdisasm)) = (testing::compiler(NAME), testing::nvdisasm(NAME)) else { return };
    let table = predict::headline(&Gate::new(compiler, Some(nvdisasm))).expect("a prediction for every shape");
    assert!(!table.contains("REASONS"), "{table}");
    expect_file!["../../../../tests/golden/predicted.txt"].assert_eq(&table);
}

/// What the choices depend on, and other libraries' choices: both follow from the model's constants.
#[test]
fn the_ablation_is_as_committed() {
    expect_file!["../../../../tests/golden/ablation.txt"]
        .assert_eq(&ablation::table().expect("a kernel for every shape"));
}

#[test]
fn choices_of_others_are_explained_as_committed() {
    expect_file!["../../../../tests/golden/others.txt"].assert_eq(&others::table().expect("a kernel for every shape"));
}

/// Epilogues of 16-bit results take no more instructions than their limit: short formulas without branches.
#[test]
fn epilogues_take_few_instructions() {
    const NAME: &str = "epilogues_take_few_instructions";
    let Some(compiler) = testing::compiler(NAME) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let measured = elements::measure(&gate).expect("all compile");
    let grown: Vec<String> = measured.iter().filter(|m| m.exceeds()).map(ToString::to_string).collect();
    assert!(grown.is_empty(), "{}", grown.join("\n"));
}

/// The generated part of a kernel: the text after the headers.
fn generated(tree: &Tree, key: &Sm80Key) -> String {
    generated_part(&source(&valid(tree, key.instruction), key).code)
}

fn generated_part(code: &str) -> String {
    let marker = "// ==== what follows is generated ====\n";
    let at = code.find(marker).expect("the marker");
    // The number of this line is the length of the headers, which has nothing to do with this part.
    let lines = code[at + marker.len()..].lines().filter(|line| !(line.starts_with("#line") && line.contains(".cu\"")));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn generated_code_is_as_committed() {
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    let of_f16 = generated(&row_reduction(), &f16);
    expect_file!["../../../../tests/golden/row_reduction.cu"].assert_eq(&of_f16);
    expect_file!["../../../../tests/golden/everything.cu"].assert_eq(&generated(&everything(), &f16));
    let f64 = key(Instruction::MmaF64, medium(Instruction::MmaF64));
    let differing = differences(&of_f16, &generated(&row_reduction(), &f64));
    expect_file!["../../../../tests/golden/row_reduction_f64.diff"].assert_eq(&differing);
}

/// The lines in which a text differs from one of as many lines.
fn differences(before: &str, after: &str) -> String {
    assert_eq!(before.lines().count(), after.lines().count(), "{after}");
    let lines = before.lines().zip(after.lines()).enumerate().filter(|(_, (before, after))| before != after);
    lines.map(|(i, (before, after))| format!("line {}\n- {before}\n+ {after}\n", i + 1)).collect()
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
    expect_file!["../../../../tests/golden/softmax_phase_1.cu"].assert_eq(&later[0]);
    let loss = plan(epilogues::cross_entropy());
    assert_eq!(loss.later_sources().count(), 0);
    expect_file!["../../../../tests/golden/cross_entropy.cu"].assert_eq(&generated_part(loss.source()));
    let factor = plan(epilogues::row_factor());
    assert_eq!(factor.later_sources().count(), 0);
    expect_file!["../../../../tests/golden/row_factor.cu"].assert_eq(&generated_part(factor.source()));
}

/// All phases in one kernel, where rows lie in its tile.
#[test]
fn generated_code_of_phases_in_a_tile_is_as_committed() {
    let bf16 = Sm80Key { in_tile: true, ..key(Instruction::MmaBf16, medium(Instruction::MmaBf16)) };
    expect_file!["../../../../tests/golden/softmax_in_tile.cu"].assert_eq(&generated(&epilogues::softmax(), &bf16));
    expect_file!["../../../../tests/golden/softmax_in_tile_sm_90a.cu"].assert_eq(&generated_for_sm_90a(
        &epilogues::softmax(),
        false,
        64,
    ));
}

/// The same where rows lie in the tiles of a cluster, whose blocks exchange what they have of them.
#[test]
fn generated_code_of_phases_in_a_cluster_is_as_committed() {
    let along_rows = sm90::Cluster { m: 1, n: 4 };
    let code = generated_in_clusters(&epilogues::softmax(), (false, along_rows), 256);
    expect_file!["../../../../tests/golden/softmax_in_cluster_sm_90a.cu"].assert_eq(&code);
}

/// A kernel for sm_90a with everything: constants, the product's instruction, arguments, visitor, instantiation; and
/// one whose rows are N, so that rows and columns are exchanged.
#[test]
fn generated_code_for_sm_90a_is_as_committed() {
    let [rows, columns] = [false, true].map(|swapped| generated_for_sm_90a(&everything(), swapped, 4096));
    expect_file!["../../../../tests/golden/everything_sm_90a.cu"].assert_eq(&rows);
    expect_file!["../../../../tests/golden/everything_sm_90a_swapped.diff"].assert_eq(&differences(&rows, &columns));
}

fn generated_for_sm_90a(tree: &Tree, swapped: bool, n: usize) -> String {
    generated_in_clusters(tree, (swapped, sm90::Cluster { m: 2, n: 1 }), n)
}

fn generated_in_clusters(tree: &Tree, (swapped, cluster): (bool, sm90::Cluster), n: usize) -> String {
    let tile = Sm90Tile::all().iter().find(|t| (t.rows, t.columns, t.consumers) == (128, 64, 2));
    let request = sm90::Request {
        tile: tile.copied(),
        swap_ab: Some(swapped),
        stages: Some(4),
        cluster: Some(cluster),
        raster: Some(sm90::Raster { group: 8, along_n: false }),
        split_k: Some(SplitK::None),
        ..sm90::Request::default()
    };
    let builder = Builder::<()>::new(&Device::emulated(Arch::SM_90A).expect("an emulated device"), tree.clone());
    let k_major = OperandLayout::packed(Major::K);
    let builder = builder.elements(ElementType::BF16, ElementType::BF16).layouts(k_major, k_major);
    let choice = builder.problem(4096, n, 4096).sm90(request).choose().expect("a kernel");
    let key = choice.kernel().expect("a kernel").key;
    let tree = tree.validate(Types::new(ElementType::BF16, ElementType::BF16)).expect("a valid tree");
    let code = epilogue::gemm::source(&tree, &key).expect("it is emitted").code;
    generated_part(&code)
}

/// Integers, positions and truth values, read in every way.
fn typed(integers: ElementType) -> Tree {
    let mut b = TreeBuilder::new("typed", "typed.rs");
    let accum = b.accum("accum");
    let mask = b.parameter("mask", ParameterClass::Tensor, Some(ElementType::Bool));
    let padding = b.parameter("padding", ParameterClass::RowVector, Some(ElementType::Bool));
    let labels = b.parameter("labels", ParameterClass::ColumnVector, Some(integers));
    let names = b.parameter("names", ParameterClass::RowVector, Some(integers));
    let (labels, names) = (b.integer(labels), b.integer(names));
    let [row, column, columns] = [Position::Row, Position::Column, Position::Columns].map(|p| b.position(p));
    let at_label = b.apply(Op::Eq, &[column, labels]);
    let open = b.logic(Logic::Not, &[padding]);
    let open = b.logic(Logic::And, &[mask, open]);
    let keep = b.logic(Logic::Or, &[open, at_label]);
    b.name(keep, "keep");
    let named = b.real(names);
    let d = b.apply(Op::Select, &[keep, accum, named]);
    let place = b.apply(Op::Sub, &[columns, row]);
    let place = b.apply(Op::Max, &[place, names]);
    b.name(place, "place");
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("keep", keep, BroadcastClass::Tensor, None);
    b.output("place", place, BroadcastClass::Tensor, Some(ElementType::I32));
    b.finish()
}

/// Bits: of a lane's neighbouring columns on sm_80, of units of both orientations on sm_90a.
#[test]
fn generated_code_of_bits_is_as_committed() {
    let tree = || {
        let mut b = TreeBuilder::new("packed", "packed.rs");
        let accum = b.accum("accum");
        let keep = b.parameter("keep", ParameterClass::Bits, None);
        let zero = b.literal(0.0);
        let d = b.apply(Op::Select, &[keep, accum, zero]);
        let positive = b.apply(Op::Gt, &[d, zero]);
        b.output("d", d, BroadcastClass::Tensor, None);
        b.output_bits("positive", positive);
        b.finish()
    };
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    expect_file!["../../../../tests/golden/packed.cu"].assert_eq(&generated(&tree(), &f16));
    expect_file!["../../../../tests/golden/packed_sm_90a.cu"].assert_eq(&generated_for_sm_90a(&tree(), false, 4096));
    let swapped = generated_for_sm_90a(&tree(), true, 4096);
    assert!(swapped.contains("store_bits<Config>(arguments.output1, work, problem, block, column, x);"), "{swapped}");
}

/// Random numbers: of a lane's neighbouring columns on sm_80, of units of both orientations on sm_90a.
#[test]
fn generated_code_of_random_numbers_is_as_committed() {
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    expect_file!["../../../../tests/golden/dropout.cu"].assert_eq(&generated(&epilogues::dropout(), &f16));
    expect_file!["../../../../tests/golden/dropout_sm_90a.cu"].assert_eq(&generated_for_sm_90a(
        &epilogues::dropout(),
        false,
        4096,
    ));
    let swapped = generated_for_sm_90a(&epilogues::dropout(), true, 4096);
    assert!(swapped.contains("random_unit<Config>(_seed, 1u, work, problem, block, column, "), "{swapped}");
}

/// 32 bits where they are enough, on sm_80; 64 on sm_90a.
#[test]
fn generated_code_of_integers_and_truth_values_is_as_committed() {
    let f16 = key(Instruction::MmaF16, medium(Instruction::MmaF16));
    expect_file!["../../../../tests/golden/typed.cu"].assert_eq(&generated(&typed(ElementType::I32), &f16));
    let wide = typed(ElementType::I64);
    expect_file!["../../../../tests/golden/typed_sm_90a.cu"].assert_eq(&generated_for_sm_90a(&wide, false, 4096));
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

/// A profiler shows which epilogue ran.
#[test]
fn kernels_are_called_after_their_epilogue() {
    if testing::compiler("kernels_are_called_after_their_epilogue").is_none() {
        return;
    }
    for arch in [Arch::SM_80, Arch::SM_90A] {
        let device = Device::emulated(arch).expect("an emulated device");
        let builder = Builder::<()>::new(&device, row_reduction()).elements(ElementType::F16, ElementType::F16);
        let gemm = builder.problem(4096, 4096, 4096).plan().expect("a plan");
        let (rows, columns) = gemm.choice().tile();
        let kernel = gemm.kernel().expect("a kernel");
        assert_eq!(kernel.name(), format!("row_reduction_f16_{rows}x{columns}"));
        assert!(kernel.ptx().contains(&format!(".entry {}(", kernel.name())), "{}", kernel.ptx());
        assert!(kernel.log().kernels.iter().all(|resources| resources.kernel == kernel.name()), "{:?}", kernel.log());
    }
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
