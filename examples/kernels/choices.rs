//! What the model chooses for the shapes of `benches/gemm_shapes.txt`.

use std::error::Error;

use epilogue::ElementType;
use epilogue::evt::Types;
use epilogue::gemm::sm90::{self, Wgmma};
use epilogue::gemm::{Arithmetic, Candidate, Instruction, Machine, Major, OperandLayout, Problem, Workload, rank};
use epilogue_runtime::Arch;

use super::epilogues::bias_gelu_residual;

const SHAPES: &str = include_str!("../../benches/gemm_shapes.txt");

/// Prints the best kernels for every shape, on an A100, an H100 and an H200. Those for sm_90a are printed as the model
/// has them, whether or not this version can emit them.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
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
