//! The model's choices: for every shape of a table the best kernel for an H200, with what limits it; and for the shapes
//! of `benches/gemm_shapes.txt` the best kernel on each of the GPUs that users have.

use std::error::Error;
use std::fmt::Write;

use epilogue::ElementType;
use epilogue::evt::Types;
use epilogue::gemm::{Arithmetic, Candidate, Machine, Major, Offer, OperandLayout, Problem, SplitK};

use super::epilogues::bias_gelu_residual;
use super::families;
use super::shapes::Shape;

const SHAPES: &str = include_str!("../../../benches/gemm_shapes.txt");

/// The table as text: a line for every shape.
pub(crate) fn table() -> Result<String, Box<dyn Error>> {
    let mut text =
        String::from("# What the model chooses for an H200: kernel; split of K; prediction; what others choose.\n");
    for shape in Shape::all()? {
        let ranked = shape.ranked(families::predicted())?;
        let best = &ranked[0];
        let (key, split_k) = (best.key, best.split_k);
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

/// GPUs that users have: those that differ in how they are priced. A GPU without kernels of its own runs older ones.
pub(crate) const GPUS: [&str; 14] = [
    "A100 SXM 40GB",
    "A10",
    "RTX 3090",
    "L4",
    "L40S",
    "RTX 4090",
    "H100 PCIe",
    "H100 SXM",
    "H100 NVL",
    "H200 SXM",
    "B200",
    "RTX 5090",
    "RTX PRO 6000",
    "DGX Spark",
];

/// The best kernel for each shape of the file on each GPU, with an epilogue, as text. They are as the model ranks
/// them, whether or not this version can emit them.
pub(crate) fn of_gpus() -> Result<String, Box<dyn Error>> {
    let name = bias_gelu_residual().name();
    let mut text =
        format!("# What the model chooses for the shapes of benches/gemm_shapes.txt with the epilogue {name}.\n");
    for gpu in GPUS {
        let machine = Machine::of_model(gpu.parse()?);
        writeln!(text, "== {gpu} ==")?;
        for line in SHAPES.lines().filter(|line| !line.starts_with('#')) {
            let shape: Vec<&str> = line.split_whitespace().take(5).collect();
            let ranked = candidates(&machine, line)?;
            let best = ranked.first().ok_or("no kernel for a shape of the file")?;
            let (split, us) = (best.split_k, best.microseconds);
            writeln!(text, "{}: {}; {split}; {us:.1} us, bound by {}", shape.join(" "), best.key, best.bound)?;
        }
    }
    Ok(text)
}

/// Prints both tables.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    println!("{}\n{}", table()?, of_gpus()?);
    Ok(())
}

/// The candidates of all families for a line of the file, best first.
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
    let offer = Offer { problem, layouts: (a, b), arithmetic: Arithmetic::Exact, tree: &valid };
    Ok(offer.candidates(machine))
}
