//! The model's choices: for every shape of a table the best kernel for an H200, with what limits it; and for the shapes
//! of `benches/gemm_shapes.txt` the best four on three GPUs.

use std::error::Error;
use std::fmt::Write;

use epilogue::ElementType;
use epilogue::evt::Types;
use epilogue::gemm::sm90::{self, Wgmma};
use epilogue::gemm::{
    Arithmetic, Candidate, Instruction, Machine, Major, OperandLayout, Problem, SplitK, Workload, rank,
};
use epilogue_runtime::Arch;

use super::epilogues::bias_gelu_residual;
use super::shapes::{self, Shape};

const SHAPES: &str = include_str!("../../../benches/gemm_shapes.txt");

/// The table as text: a line for every shape.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    let mut text =
        String::from("# What the model chooses for an H200: kernel; split of K; prediction; what others choose.\n");
    for shape in Shape::all()? {
        let ranked = shape.ranked(&Machine::h200())?;
        let best = &ranked[0];
        let (key, split_k) = shapes::key(best)?;
        let split = if split_k == SplitK::None { String::new() } else { format!("; {split_k}") };
        let Problem { m, n, k, .. } = shape.problem;
        let tera = 2e-6 * m as f64 * n as f64 * k as f64 / best.microseconds;
        write!(
            text,
            "{}: {key}{split}; {:.1} us, {tera:.0} TFLOP/s, bound by {}",
            shape.name(),
            best.microseconds,
            best.bound
        )?;
        text.push_str(&if shape.others.is_empty() { "\n".to_owned() } else { format!("; {}\n", shape.others) });
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
        all.extend(rank(
            machine,
            &Workload { problem, instruction, a, b, epilogue: valid.cost(), lines: None, needed: 1.0 },
        )?);
    }
    if let Some(instruction) = Wgmma::of(element, element, Arithmetic::Exact).filter(|_| machine.arch == Arch::SM_90A) {
        all.extend(sm90::rank(
            machine,
            &sm90::Workload { problem, instruction, a, b, fast_fp8: false, tree: &valid, lines: None, needed: 1.0 },
            |_| true,
        ));
    }
    all.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
    Ok(all)
}
