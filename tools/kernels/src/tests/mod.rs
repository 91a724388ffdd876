//! Emitted kernels, compiled by NVRTC: no spills, the intended instructions, and their text.

mod automatic;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, OnceLock};

use epilogue::evt::{BroadcastClass, ParameterClass, Position, Tree, TreeBuilder};
use epilogue::expr::{Logic, Op};
use epilogue::gemm::Builder;
use epilogue::{Device, ElementType};
use epilogue_runtime::{Arch, testing};
use expect_test::expect_file;
use ptx_vm::Module;
use ptx_vm_conformance::uncovered;
use rayon::prelude::*;

use super::epilogues::row_reduction;
use super::gate::{Gate, Report, Subject};
use super::{ablation, choices, predict, published, set};

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
        ("quantised_rows tcgen05 bf16: 128x256 by 2 warpgroups, 4 stages, clusters of 2x2", 5),
    ];
    known.iter().find(|(kernel, _)| report.contains(kernel)).map_or(0, |(_, accesses)| *accesses)
}

/// The report on a kernel, which is made once, whichever test asks first; `None` if its family lacks the kernel.
pub(crate) fn checked(gate: &Gate, subject: &Subject) -> Option<Arc<Report>> {
    type Once = Arc<OnceLock<Option<Arc<Report>>>>;
    static REPORTS: Mutex<Option<HashMap<String, Once>>> = Mutex::new(None);
    let name = format!("{} {} {:?}", subject.tree.name(), subject.arch, subject.key);
    let once = {
        let mut reports = REPORTS.lock().expect("no test panics with it");
        Arc::clone(reports.get_or_insert_default().entry(name).or_default())
    };
    once.get_or_init(|| gate.check(subject).expect("it compiles").map(Arc::new)).clone()
}

/// Checks that kernels with block scales are as their twins without, the second of each pair.
pub(crate) fn alike_but_for_scales(name: &str, pairs: Vec<(Subject, Subject)>) {
    let Some(compiler) = testing::compiler(name) else { return };
    let gate = Gate::new(compiler, testing::nvdisasm(name));
    let wrong = |(scaled, twin): &(Subject, Subject)| {
        let check = |subject| checked(&gate, subject).expect("there is such a kernel");
        let (scaled, twin) = (check(scaled), check(twin));
        let right = scaled.findings.is_empty() && scaled.kept == 0 && scaled.products() == twin.products();
        (!right).then(|| format!("{scaled}\n{twin}"))
    };
    let wrong: Vec<String> = some_of(pairs).par_iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With fewer cases than kernels, some all over the set are taken; `cargo xtask kernels` checks all.
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
    assert!(set.len() <= 390, "{}", set.len());
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
    let phased = ["softmax", "rms_norm", "quantised_rows"];
    let is_phased = |subject: &Subject| subject.key.in_tile() && phased.contains(&subject.tree.name());
    let set: Vec<_> = set::covering().into_iter().filter(is_phased).collect();
    assert_eq!(set.len(), (12 + 6) + (9 + 6));
    let gate = Gate::new(compiler, testing::nvdisasm(NAME));
    let some = some_of(set);
    let reports: Vec<_> = some.par_iter().filter_map(|subject| checked(&gate, subject)).collect();
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

/// Numbers on which the choices depend, and other libraries' choices: both follow from the model's constants.
#[test]
fn the_ablation_is_as_committed() {
    expect_file!["../../../../tests/golden/ablation.txt"]
        .assert_eq(&ablation::table().expect("a kernel for every shape"));
}

#[test]
fn choices_of_others_are_explained_as_committed() {
    expect_file!["../../../../tests/golden/others.txt"].assert_eq(&crate::others().expect("a kernel for every shape"));
}

pub(crate) fn generated_part(code: &str) -> String {
    let marker = "// ==== what follows is generated ====\n";
    let at = code.find(marker).expect("the marker");
    // The number of this line is the length of the headers, which has nothing to do with this part.
    let lines = code[at + marker.len()..].lines().filter(|line| !(line.starts_with("#line") && line.contains(".cu\"")));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The lines in which a text differs from one of as many lines.
pub(crate) fn differences(before: &str, after: &str) -> String {
    assert_eq!(before.lines().count(), after.lines().count(), "{after}");
    let lines = before.lines().zip(after.lines()).enumerate().filter(|(_, (before, after))| before != after);
    lines.map(|(i, (before, after))| format!("line {}\n- {before}\n+ {after}\n", i + 1)).collect()
}

/// Integers, positions and truth values, read in every way.
pub(crate) fn typed(integers: ElementType) -> Tree {
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

/// Bits that are read and written.
pub(crate) fn packed() -> Tree {
    let mut b = TreeBuilder::new("packed", "packed.rs");
    let accum = b.accum("accum");
    let keep = b.parameter("keep", ParameterClass::Bits, None);
    let zero = b.literal(0.0);
    let d = b.apply(Op::Select, &[keep, accum, zero]);
    let positive = b.apply(Op::Gt, &[d, zero]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output_bits("positive", positive);
    b.finish()
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
