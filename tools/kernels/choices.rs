//! The model's choices: for every shape of a table the best kernel for an H200, with what limits it; and for the shapes
//! of `benches/gemm_shapes.txt` the best four on three GPUs.

use std::error::Error;
use std::fmt::Write;

use epilogue::ElementType;
use epilogue::evt::{Tree, Types};
use epilogue::gemm::sm90::{self, Wgmma};
use epilogue::gemm::{
    Arithmetic, Candidate, Instruction, KernelKey, Machine, Major, OperandLayout, Problem, SplitK, Workload, rank,
};
use epilogue_runtime::Arch;

use super::epilogues::{bias_gelu_residual, everything, plain, row_reduction};

const SHAPES: &str = include_str!("../../benches/gemm_shapes.txt");

/// A line of the table: M, N, K, the operands and the epilogue; and what other libraries choose there, as far as it is
/// known (kernels' names in profiles of cuBLAS 12 and 13 on an H100; nvMatmulHeuristics 0.1 for an H200).
type Line = (usize, usize, usize, &'static str, &'static str, &'static str);

const TABLE: [Line; 62] = [
    (1024, 1024, 1024, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 2x1"),
    (1536, 1536, 1536, "bf16", "plain", ""),
    (2048, 2048, 2048, "bf16", "plain", "nvMatmulHeuristics 256x128, clusters of 1x2"),
    (3072, 3072, 3072, "bf16", "plain", "nvMatmulHeuristics 128x192, clusters of 2x1"),
    (4096, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128, clusters of 1x2"),
    (5120, 5120, 5120, "bf16", "plain", ""),
    (6144, 6144, 6144, "bf16", "plain", ""),
    (8192, 8192, 8192, "bf16", "plain", "cuBLAS 128x256, 4 stages, clusters of 2x1; or 256x128, 1x2; or 192x192, 2x1"),
    (16384, 16384, 16384, "bf16", "plain", ""),
    (1024, 1024, 1024, "bf16", "bias_gelu_residual", ""),
    (1536, 1536, 1536, "bf16", "bias_gelu_residual", ""),
    (2048, 2048, 2048, "bf16", "bias_gelu_residual", ""),
    (3072, 3072, 3072, "bf16", "bias_gelu_residual", ""),
    (4096, 4096, 4096, "bf16", "bias_gelu_residual", ""),
    (5120, 5120, 5120, "bf16", "bias_gelu_residual", ""),
    (6144, 6144, 6144, "bf16", "bias_gelu_residual", ""),
    (8192, 8192, 8192, "bf16", "bias_gelu_residual", ""),
    (16384, 16384, 16384, "bf16", "bias_gelu_residual", ""),
    (2048, 2048, 2048, "bf16", "row_reduction", ""),
    (4096, 4096, 4096, "bf16", "row_reduction", ""),
    (8192, 8192, 8192, "bf16", "row_reduction", ""),
    (2048, 2048, 2048, "bf16", "everything", ""),
    (4096, 4096, 4096, "bf16", "everything", ""),
    (8192, 8192, 8192, "bf16", "everything", ""),
    (1, 4096, 4096, "bf16", "plain", ""),
    (16, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (32, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (64, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x32 of 128 of K, 8 stages, clusters of 1x2"),
    (128, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 64x64"),
    (1, 28672, 8192, "bf16", "plain", ""),
    (16, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 1x4"),
    (32, 28672, 8192, "bf16", "plain", ""),
    (64, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 64x128, clusters of 1x4"),
    (64, 4096, 14336, "bf16", "plain", "nvMatmulHeuristics 64x32"),
    (64, 2112, 7168, "bf16", "plain", "nvMatmulHeuristics 64x16"),
    (128, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 128x128, clusters of 1x4"),
    (128, 28672, 8192, "bf16", "bias_gelu_residual", ""),
    (256, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 128x64"),
    (512, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 128x128, clusters of 2x1"),
    (1024, 4096, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 14336, 4096, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 4096, 14336, "bf16", "plain", "nvMatmulHeuristics 256x128"),
    (4096, 2112, 7168, "bf16", "plain", "nvMatmulHeuristics 128x192, clusters of 4x1"),
    (16384, 3072, 768, "bf16", "bias_gelu_residual", ""),
    (16384, 768, 3072, "bf16", "bias_gelu_residual", ""),
    (768, 3072, 16384, "bf16", "plain", ""),
    (128, 128, 16384, "bf16", "plain", "nvMatmulHeuristics split-K of 10"),
    (256, 256, 32768, "bf16", "plain", "nvMatmulHeuristics split-K of 7"),
    (4096, 4096, 64, "bf16", "plain", ""),
    (4096, 4096, 256, "bf16", "plain", ""),
    (4096, 4096, 1024, "bf16", "plain", ""),
    (4096, 4096, 1024, "bf16", "bias_gelu_residual", ""),
    (4096, 4096, 16384, "bf16", "plain", ""),
    (8192, 8192, 8192, "e4m3", "plain", ""),
    (8192, 8192, 8192, "e4m3 fast", "plain", ""),
    (4096, 4096, 4096, "e4m3", "plain", ""),
    (4096, 4096, 7168, "e4m3", "plain", ""),
    (4096, 7168, 16384, "e4m3", "plain", ""),
    (4096, 2112, 7168, "e4m3", "plain", ""),
    (128, 7168, 16384, "e4m3", "plain", ""),
    (64, 24576, 1536, "e4m3", "plain", ""),
    (8192, 8192, 8192, "e4m3", "bias_gelu_residual", ""),
];

fn tree(name: &str) -> Tree {
    match name {
        "plain" => plain(),
        "row_reduction" => row_reduction(),
        "everything" => everything(),
        _ => bias_gelu_residual(),
    }
}

/// The table as text: a line for every shape.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    let mut text =
        String::from("# What the model chooses for an H200: kernel; split of K; prediction; what others choose.\n");
    for (m, n, k, types, epilogue, others) in TABLE {
        let (element, fast_fp8) = match types {
            "bf16" => (ElementType::BF16, false),
            "e4m3 fast" => (ElementType::F8E4M3, true),
            _ => (ElementType::F8E4M3, false),
        };
        let arithmetic = if fast_fp8 { Arithmetic::FastFp8 } else { Arithmetic::Exact };
        let valid = tree(epilogue).validate(Types::new(element, element))?;
        let instruction =
            Wgmma::of(element, element, arithmetic).ok_or("an instruction for every type of the table")?;
        let packed = OperandLayout::packed(Major::K);
        let problem = Problem::new(m, n, k);
        let workload = sm90::Workload { problem, instruction, a: packed, b: packed, fast_fp8, tree: &valid };
        let ranked = sm90::rank(&Machine::h200(), &workload, |_| true);
        let best = ranked.first().ok_or("a kernel for every shape of the table")?;
        let KernelKey::Sm90(key) = &best.key else { return Err("a kernel of another family".into()) };
        let split = if best.split_k == SplitK::None { String::new() } else { format!("; {}", best.split_k) };
        let tera = 2e-6 * m as f64 * n as f64 * k as f64 / best.microseconds;
        write!(
            text,
            "{m}x{n}x{k} {types} {epilogue}: {key}{split}; {:.1} us, {tera:.0} TFLOP/s, bound by {}",
            best.microseconds, best.bound
        )?;
        text.push_str(&if others.is_empty() { "\n".to_owned() } else { format!("; {others}\n") });
    }
    Ok(text)
}

/// Prints the table, then the best kernels for every shape of the file, on an A100, an H100 and an H200. Those for
/// sm_90a are printed as the model ranks them, whether or not this version can emit them.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    println!("{}", table()?);
    let tree = bias_gelu_residual();
    for (name, machine) in [("A100", Machine::a100()), ("H100", Machine::h100()), ("H200", Machine::h200())] {
        println!("== {name}, epilogue {} ==", tree.name());
        for line in SHAPES.lines().filter(|line| !line.starts_with('#')) {
            println!("{line}");
            for (i, candidate) in candidates(&machine, line)?.iter().take(4).enumerate() {
                println!("  {}. {candidate}", i + 1);
            }
        }
    }
    Ok(())
}

/// The candidates of both families for a line of the file, best first.
fn candidates(machine: &Machine, line: &str) -> Result<Vec<Candidate>, Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [m, n, k, l, element, ..] = words[..] else { return Err(format!("too short a line: {line}").into()) };
    let element = ElementType::ALL.into_iter().find(|e| e.name() == element).ok_or("an unknown element type")?;
    let valid = bias_gelu_residual().validate(Types::new(element, element))?;
    let (problem, l) = (Problem::new(m.parse()?, n.parse()?, k.parse()?), l.parse()?);
    let problem = if l == 1 { problem } else { problem.batched(l) };
    let row_major = |columns: usize| OperandLayout {
        copy_bytes: [16, 8, 4]
            .into_iter()
            .find(|b| (columns * element.size()).is_multiple_of(*b))
            .unwrap_or(element.size()),
        ..OperandLayout::packed(Major::Mn)
    };
    let (a, b) = (OperandLayout { major: Major::K, ..row_major(problem.k) }, row_major(problem.n));
    let mut all = Vec::new();
    if let Some(instruction) = Instruction::of(element, element, Arithmetic::Exact) {
        all.extend(rank(machine, &Workload { problem, instruction, a, b, epilogue: valid.cost() })?);
    }
    if let Some(instruction) = Wgmma::of(element, element, Arithmetic::Exact).filter(|_| machine.arch == Arch::SM_90A) {
        all.extend(sm90::rank(
            machine,
            &sm90::Workload { problem, instruction, a, b, fast_fp8: false, tree: &valid },
            |_| true,
        ));
    }
    all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    Ok(all)
}
