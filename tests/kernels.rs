//! Emitted kernels, compiled by NVRTC: no spills, the instructions that were meant, and their text.

use std::collections::BTreeSet;

use epilogue::evt::{Axis, Form, ParameterClass, ReduceOp, Reduction, ShapeClass, Tree, TreeBuilder, Types, ValidTree};
use epilogue::expr::Op;
use epilogue::gemm::{Instruction, KernelKey, Major, OperandLayout, Sm80Key, SplitKind, Tile};
use epilogue::{ElementType, ops};
use epilogue_runtime::{Arch, Compiler, Output, Source, testing};
use expect_test::expect_file;
use ptx_vm::Module;
use ptx_vm_conformance::uncovered;
use rayon::iter::{Either, IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};

/// `D = alpha * accum + tanh(beta * C)`, and the sum of every row of D.
fn row_reduction() -> Tree {
    let mut b = TreeBuilder::new("row_reduction", "seed.rs");
    let accum = b.accum("accum");
    let c = b.parameter("c", ParameterClass::Tensor, None);
    let alpha = b.parameter("alpha", ParameterClass::Scalar, None);
    let beta = b.parameter("beta", ParameterClass::Scalar, None);
    b.at(3, 13);
    let left = b.apply(Op::Mul, &[alpha, accum]);
    let right = b.apply(Op::Mul, &[beta, c]);
    let right = b.call(ops::tanh::function(), &[right]);
    let d = b.apply(Op::Add, &[left, right]);
    b.name(d, "d");
    let sum = Reduction { axis: Axis::Row, batch: false, op: ReduceOp::Add, form: Form::Complete };
    let reduction = b.reduce(sum, d);
    b.output("d", d, ShapeClass::Tensor, None);
    b.output("reduction", reduction, ShapeClass::ColumnVector, None);
    b.finish()
}

/// Bias, GELU, a residual read and written in place, and reductions of all kinds.
fn everything() -> Tree {
    let mut b = TreeBuilder::new("everything", "all.rs");
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let scale = b.parameter("scale", ParameterClass::ColumnVector, Some(ElementType::F32));
    let residual = b.parameter("residual", ParameterClass::TensorMut, None);
    let gain = b.parameter("gain", ParameterClass::DeviceScalar, Some(ElementType::F32));
    let x = b.apply(Op::Mul, &[accum, scale]);
    let x = b.apply(Op::Add, &[x, bias]);
    b.name(x, "x");
    let y = b.call(ops::gelu::function(), &[x]);
    let y = b.apply(Op::Mul, &[y, gain]);
    b.name(y, "y");
    let z = b.apply(Op::Add, &[y, residual]);
    b.output("pre", x, ShapeClass::Tensor, Some(ElementType::F32));
    b.output("residual", z, ShapeClass::Tensor, None);
    let reduction = |axis, op, form| Reduction { axis, batch: false, op, form };
    let sums = b.reduce(reduction(Axis::Row, ReduceOp::SumSquares, Form::Complete), z);
    b.output("sums", sums, ShapeClass::ColumnVector, None);
    let most = b.reduce(reduction(Axis::Column, ReduceOp::Max, Form::Complete), y);
    b.output("most", most, ShapeClass::RowVector, None);
    let all = b.reduce(reduction(Axis::All, ReduceOp::AbsMax, Form::Complete), z);
    b.output("all", all, ShapeClass::Scalar, None);
    let partial = b.reduce(reduction(Axis::Row, ReduceOp::Add, Form::Partial), y);
    b.output("partial", partial, ShapeClass::ColumnVector, None);
    b.finish()
}

/// D = accum.
fn plain() -> Tree {
    let mut b = TreeBuilder::new("plain", "plain.rs");
    let accum = b.accum("accum");
    b.output("d", accum, ShapeClass::Tensor, None);
    b.finish()
}

fn valid(tree: &Tree, instruction: Instruction) -> ValidTree {
    let element = instruction.element();
    tree.validate(Types::new(element, element)).expect("a valid tree")
}

fn source(tree: &ValidTree, key: &Sm80Key) -> Source {
    epilogue::gemm::source(tree, &KernelKey::Sm80(*key)).expect("every kernel of sm_80 is emitted")
}

fn key(instruction: Instruction, tile: Tile) -> Sm80Key {
    Sm80Key {
        instruction,
        tile,
        split_k: SplitKind::None,
        a: OperandLayout::packed(Major::K),
        b: OperandLayout::packed(Major::Mn),
        vector: 16 / instruction.accumulator().size(),
        epilogue_passes: tile
            .epilogue_passes(instruction.accumulator(), tile.stages * tile.stage_bytes(instruction.element())),
        fast_math: false,
    }
}

/// Kernels that together have every instruction, tile, layout, copy width, split and kind of epilogue at least once.
fn covering_set() -> Vec<(Tree, Sm80Key)> {
    let mut set = Vec::new();
    let layouts = [(Major::K, Major::Mn), (Major::K, Major::K), (Major::Mn, Major::Mn), (Major::Mn, Major::K)];
    let splits = [SplitKind::None, SplitKind::Serial, SplitKind::Parallel];
    for instruction in Instruction::ALL {
        let size = instruction.element().size();
        let widths: Vec<usize> = [16, 8, 4, 2].into_iter().filter(|w| *w >= size).collect();
        for (i, tile) in Tile::all(instruction).iter().enumerate() {
            let tree = [row_reduction(), everything(), plain()][i % 3].clone();
            let (a, b) = layouts[i % 4];
            let base = key(instruction, *tile);
            set.push((tree, Sm80Key { a: OperandLayout::packed(a), b: OperandLayout::packed(b), ..base }));
        }
        for (i, (a, b)) in layouts.into_iter().enumerate() {
            for (j, width) in widths.iter().enumerate() {
                let tile = Tile::all(instruction)[5 - (i + j) % 3];
                let a = OperandLayout { major: a, copy_bytes: *width };
                let b = OperandLayout { major: b, copy_bytes: widths[(j + i) % widths.len()] };
                let tree = [everything(), row_reduction()][j % 2].clone();
                set.push((tree, Sm80Key { a, b, split_k: splits[(i + j) % 3], ..key(instruction, tile) }));
            }
        }
    }
    set
}

/// What a kernel compiles to: its PTX, or what is wrong with it.
fn compiled(compiler: &Compiler, tree: &Tree, key: &Sm80Key, arch: Arch) -> Result<String, String> {
    let source = source(&valid(tree, key.instruction), key);
    let compiled =
        compiler.compile(&source, arch, Output::Cubin).map_err(|error| format!("{}: {error}", tree.name()))?;
    let resources = compiled.log.kernel(&source.entry);
    let resources = resources.ok_or_else(|| format!("no resources in the log: {}", compiled.log.text))?;
    let spilled = resources.spill_store_bytes + resources.spill_load_bytes + resources.stack_bytes;
    let warned: Vec<String> = compiled.log.warnings().map(ToString::to_string).collect();
    if spilled == 0 && warned.is_empty() {
        return Ok(compiled.ptx);
    }
    Err(format!("{} {} {} on {arch}: {resources:?} {warned:?}", tree.name(), key.instruction, key.tile))
}

#[test]
fn covering_set_compiles_without_spills_to_instructions_that_ptx_vm_is_tested_on() {
    let Some(compiler) = testing::compiler("covering_set_compiles_without_spills") else { return };
    let set = covering_set();
    assert!(set.len() <= 120, "{}", set.len());
    let (texts, failures): (Vec<_>, Vec<_>) = set
        .par_iter()
        .enumerate()
        .map(|(i, (tree, key))| {
            let arch = if i % 4 == 3 { Arch::SM_90A } else { Arch::SM_80 };
            compiled(&compiler, tree, key, arch)
        })
        .partition_map(|result: Result<String, String>| match result {
            Ok(ptx) => Either::Left(ptx),
            Err(failure) => Either::Right(failure),
        });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let mut untested = BTreeSet::new();
    for ptx in &texts {
        let module = Module::parse(ptx).expect("ptx-vm takes what NVRTC makes");
        for kernel in module.kernels() {
            untested.extend(uncovered(kernel.opcodes()).into_iter().map(str::to_owned));
        }
    }
    assert!(untested.is_empty(), "no conformance case for {untested:?}");
}

/// What is generated of a kernel: the text after the headers.
fn generated(tree: &Tree, key: &Sm80Key) -> String {
    let code = source(&valid(tree, key.instruction), key).code;
    let marker = "// ==== what follows is generated ====\n";
    let at = code.find(marker).expect("the marker");
    // The number of the line is the headers' length: it says nothing about this part.
    let lines = code[at + marker.len()..].lines().filter(|line| !(line.starts_with("#line") && line.contains(".cu\"")));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn generated_code_is_as_committed() {
    let f16 = key(Instruction::MmaF16, Tile::all(Instruction::MmaF16)[2]);
    expect_file!["golden/row_reduction.cu"].assert_eq(&generated(&row_reduction(), &f16));
    expect_file!["golden/everything.cu"].assert_eq(&generated(&everything(), &f16));
    let f64 = key(Instruction::MmaF64, Tile::all(Instruction::MmaF64)[2]);
    expect_file!["golden/row_reduction_f64.cu"].assert_eq(&generated(&row_reduction(), &f64));
}

#[test]
fn emission_is_deterministic_and_keeps_the_users_names_and_lines() {
    let key = key(Instruction::MmaBf16, Tile::all(Instruction::MmaBf16)[3]);
    let code = source(&valid(&row_reduction(), key.instruction), &key).code;
    assert_eq!(code, source(&valid(&row_reduction(), key.instruction), &key).code);
    let at = code.find("#line 3 \"seed.rs\"\n").expect("the user's line");
    let statement = code[at..].lines().nth(1).expect("a statement after it");
    assert!(statement.starts_with("    const float d = alpha * accum + math::"), "{statement}");
    assert!(!code.contains("#include"), "it stands alone");
    // After the user's lines the kernel's own numbering goes on where it would be.
    let (number, line) = code.lines().enumerate().find(|(_, l)| l.contains(".cu\"")).expect("a #line back");
    assert_eq!(line, format!("#line {} \"row_reduction.cu\"", number + 2));
}

/// An epilogue, its parameters and its values may all be called like each other, and like anything in the kernel.
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
    let wrong: Vec<String> = names
        .par_iter()
        .filter_map(|name| {
            let mut b = TreeBuilder::new(name, "names.rs");
            let accum = b.accum("accum");
            let vector = b.parameter(name, ParameterClass::RowVector, None);
            let scalar = b.parameter("bias_", ParameterClass::Scalar, None);
            let scaled = b.apply(Op::Mul, &[scalar, vector]);
            let sum = b.apply(Op::Add, &[accum, scaled]);
            let result = b.call(ops::tanh::function(), &[sum]);
            b.name(result, name);
            b.output("d", result, ShapeClass::Tensor, None);
            let key = key(Instruction::MmaF16, Tile::all(Instruction::MmaF16)[2]);
            let source = source(&valid(&b.finish(), key.instruction), &key);
            let compiled = compiler.compile(&source, Arch::SM_80, Output::Ptx);
            compiled.err().map(|error| format!("{name}: {error}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The multiplications, fragment loads and copies of a 128×128×32 tile, once each in the unrolled loop.
#[test]
fn instruction_counts() {
    let Some(compiler) = testing::compiler("instruction_counts") else { return };
    let key = key(Instruction::MmaF16, Tile::all(Instruction::MmaF16)[2]);
    let source = source(&valid(&plain(), key.instruction), &key);
    let ptx = compiler.compile(&source, Arch::SM_80, Output::Ptx).expect("it compiles").ptx;
    let count = |what: &str| ptx.matches(what).count();
    // A warp's 64×64 in two steps of k16: 4 × 8 products each, 4 + 4 loads of four matrices each.
    assert_eq!(count("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 2 * 4 * 8);
    assert_eq!(count("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 2 * 4);
    assert_eq!(count("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), 2 * 4);
    // 128 threads copy 8 KiB of A and of B: 4 times 16 bytes each, before the loop (3 stages) and in it.
    assert_eq!(count("cp.async.cg.shared.global"), (3 + 1) * (4 + 4));
    assert_eq!(count(".local"), 0, "no local memory");
}
