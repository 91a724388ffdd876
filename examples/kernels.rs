//! Which kernel is chosen for which shape, and whether every kernel compiles without spills.
//!
//! `cargo xtask kernels` prints the model's ranking for the shapes of `benches/gemm_shapes.txt`; `cargo xtask kernels
//! --all` compiles the whole product of instruction, tile, layout, copy width and split-K by NVRTC and reports spills.
#![allow(clippy::print_stdout, reason = "a command-line program")]

use std::error::Error;
use std::process::ExitCode;

use epilogue::evt::{ParameterClass, ShapeClass, Tree, TreeBuilder, Types};
use epilogue::expr::Op;
use epilogue::gemm::{
    Arithmetic, Instruction, KernelKey, Machine, Major, OperandLayout, Problem, Sm80Key, SplitKind, Tile, Workload,
    rank, source,
};
use epilogue::{ElementType, ops};
use epilogue_runtime::{Arch, Compiler, Output};

const SHAPES: &str = include_str!("../benches/gemm_shapes.txt");

/// gelu(accum + bias) + residual.
fn bias_gelu_residual() -> Tree {
    let mut b = TreeBuilder::new("bias_gelu_residual", file!());
    let accum = b.accum("accum");
    let bias = b.parameter("bias", ParameterClass::RowVector, None);
    let residual = b.parameter("residual", ParameterClass::Tensor, None);
    let x = b.apply(Op::Add, &[accum, bias]);
    let x = b.call(ops::gelu::function(), &[x]);
    let d = b.apply(Op::Add, &[x, residual]);
    b.output("d", d, ShapeClass::Tensor, None);
    b.finish()
}

fn element(name: &str) -> Option<ElementType> {
    ElementType::ALL.into_iter().find(|e| e.name() == name)
}

/// Prints the three best kernels for every shape, on an A100 and an H100.
fn ranks() -> Result<(), Box<dyn Error>> {
    let tree = bias_gelu_residual();
    for (name, machine) in [("A100", Machine::a100()), ("H100 (kernels of sm_80)", Machine::h100())] {
        println!("== {name}, epilogue {} ==", tree.name());
        for line in SHAPES.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let mut number = || {
                words
                    .next()
                    .ok_or("a line of gemm_shapes.txt is too short")?
                    .parse::<usize>()
                    .map_err(|e| e.to_string())
            };
            let (m, n, k, l) = (number()?, number()?, number()?, number()?);
            let element = words.next().and_then(element).ok_or("an unknown element type in gemm_shapes.txt")?;
            let valid = tree.validate(Types::new(element, element))?;
            let instruction = Instruction::of(element, Arithmetic::Exact).ok_or("no instruction for the type")?;
            let problem = if l == 1 { Problem::new(m, n, k) } else { Problem::new(m, n, k).batched(l) };
            let (a, b) = (OperandLayout::packed(Major::K), OperandLayout::packed(Major::Mn));
            let workload = Workload { problem, instruction, a, b, epilogue: valid.cost() };
            println!("{line}");
            for (i, candidate) in rank(&machine, &workload)?.iter().take(3).enumerate() {
                println!("  {}. {candidate}", i + 1);
            }
        }
    }
    Ok(())
}

/// Every kernel that can be chosen for an epilogue, but for the number of splits.
fn all_keys() -> Vec<Sm80Key> {
    let mut keys = Vec::new();
    for instruction in Instruction::ALL {
        let widths: Vec<usize> = [16, 8, 4, 2].into_iter().filter(|w| *w >= instruction.element().size()).collect();
        for tile in Tile::all(instruction) {
            for (a_major, b_major) in
                [(Major::K, Major::Mn), (Major::K, Major::K), (Major::Mn, Major::Mn), (Major::Mn, Major::K)]
            {
                for a_width in &widths {
                    for b_width in &widths {
                        for split_k in [SplitKind::None, SplitKind::Serial, SplitKind::Parallel] {
                            let accumulator = instruction.accumulator();
                            let pipeline = tile.stages * tile.stage_bytes(instruction.element());
                            keys.push(Sm80Key {
                                instruction,
                                tile: *tile,
                                split_k,
                                a: OperandLayout { major: a_major, copy_bytes: *a_width },
                                b: OperandLayout { major: b_major, copy_bytes: *b_width },
                                vector: 16 / accumulator.size(),
                                epilogue_passes: tile.epilogue_passes(accumulator, pipeline),
                                fast_math: false,
                            });
                        }
                    }
                }
            }
        }
    }
    keys
}

/// Compiles them all and prints what spills; gives the number of kernels that do.
fn compile_all() -> Result<usize, Box<dyn Error>> {
    let (compiler, tree, keys) = (Compiler::find()?, bias_gelu_residual(), all_keys());
    let mut spilling = 0;
    for (i, key) in keys.iter().enumerate() {
        let element = key.instruction.element();
        let source = source(&tree.validate(Types::new(element, element))?, &KernelKey::Sm80(*key))?;
        for arch in [Arch::SM_80, Arch::SM_90A] {
            let compiled = compiler.compile(&source, arch, Output::Cubin)?;
            let resources = compiled.log.kernel(&source.entry).ok_or("the log lacks the kernel's resources")?;
            let bytes = resources.spill_store_bytes + resources.spill_load_bytes + resources.stack_bytes;
            if bytes != 0 {
                spilling += 1;
                println!("{arch} {key:?}: {resources:?}");
            }
        }
        if i % 100 == 99 {
            println!("{} of {} kernels, {spilling} spilling", i + 1, keys.len());
        }
    }
    println!("{} kernels for two architectures, {spilling} spilling", keys.len());
    Ok(spilling)
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let all = std::env::args().any(|argument| argument == "--all");
    let spilling = if all { compile_all()? } else { ranks().map(|()| 0)? };
    Ok(if spilling == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
