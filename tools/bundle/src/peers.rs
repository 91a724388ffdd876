//! Peers that are separate programs: PyTorch, eager and compiled, and Triton, in Python; CUB, compiled here by nvcc.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::{Machine, tool};
use crate::step::Step;

/// The number of shapes in `peers/common.py`: the headline's, as far as Triton's kernel takes them (rows of whole 16
/// bytes).
const SHAPES: usize = 12;
const COMPILED_IN_TIER_1: [usize; 3] = [0, 1, 4];

pub(crate) fn steps() -> Vec<Step> {
    // Inductor caches what it compiles, which takes much longer than the timing.
    let numbers = COMPILED_IN_TIER_1.map(|shape| shape.to_string());
    let arguments: Vec<String> = ["default".into(), "--compile-only".into()].into_iter().chain(numbers).collect();
    let compile = move |machine: &Machine| python(machine, "torch_gemm.py", &arguments);
    let mut steps =
        vec![Step::new("peers/torch/compile", 1, 90, compile).preparing("peers/torch/default/").without_nvrtc()];
    for shape in 0..SHAPES {
        let mut step = |name: String, tier, seconds, program: &'static str, arguments: Vec<String>| {
            steps.push(
                Step::timed(name, tier, seconds, move |machine| python(machine, program, &arguments)).without_nvrtc(),
            );
        };
        let number = shape.to_string();
        if COMPILED_IN_TIER_1.contains(&shape) {
            let arguments = vec!["default".to_owned(), number.clone()];
            step(format!("peers/torch/default/{shape}"), 1, 25, "torch_gemm.py", arguments);
        }
        let arguments = vec!["max-autotune-no-cudagraphs".to_owned(), number.clone()];
        step(format!("peers/torch/max-autotune/{shape}"), 3, 180, "torch_gemm.py", arguments);
        step(format!("peers/triton/{shape}"), 3, 120, "triton_gemm.py", vec![number]);
    }
    steps
}

/// Runs a peer's program, which prints one JSON object per line.
pub(crate) fn python(machine: &Machine, program: &str, arguments: &[String]) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "PyTorch and Triton are peers on a GPU only"})]);
    }
    let file = machine.bundle.join("peers").join(program);
    records_of(program, Command::new(tool("python3")).arg(&file).args(arguments))
}

/// Compiles CUB's reductions and scans, which takes nvcc half a minute.
pub(crate) fn compile_cub(machine: &Machine) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "CUB is a peer on a GPU only"})]);
    }
    let mut compiler = Command::new(tool("nvcc"));
    compiler.args(["-O3", "-std=c++17", "-arch=native", "-o"]).arg(cub_program(machine));
    let skipped = |why: String| Ok(vec![json!({"kind": "skipped", "why": why})]);
    match compiler.arg(machine.bundle.join("peers/cub.cu")).output() {
        Err(error) => skipped(format!("nvcc: {error}")),
        Ok(output) if !output.status.success() => {
            skipped(format!("nvcc: {}", last_lines(&String::from_utf8_lossy(&output.stderr))))
        }
        Ok(_) => Ok(Vec::new()),
    }
}

/// Runs CUB's reductions and scans.
pub(crate) fn cub(machine: &Machine) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "CUB is a peer on a GPU only"})]);
    }
    records_of("cub", &mut Command::new(cub_program(machine)))
}

/// CUB's program, kept in the cache folder, so that it is compiled once.
fn cub_program(machine: &Machine) -> PathBuf {
    std::env::var_os("EPILOGUE_CACHE").map_or_else(|| machine.bundle.clone(), PathBuf::from).join("cub-peer")
}

/// Runs a program that prints one JSON object per line.
fn records_of(program: &str, command: &mut Command) -> Outcome<Vec<Value>> {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Ok(vec![json!({"kind": "skipped", "why": format!("{program}: {error}")})]),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() {
        let errors = last_lines(&String::from_utf8_lossy(&output.stderr));
        records.push(json!({"kind": "skipped", "why": format!("{program}: {errors}")}));
    }
    Ok(records)
}

fn last_lines(text: &str) -> String {
    let mut last: Vec<&str> = text.lines().rev().take(3).collect();
    last.reverse();
    last.join(" | ")
}
