//! Peers that are Python programs: PyTorch eager and compiled, Triton. Each times cuBLAS's plain product too, which ties
//! its figures to the others'.

use std::process::Command;

use serde_json::{Value, json};

use crate::Outcome;
use crate::machine::{Machine, tool};
use crate::steps::Step;

pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::new("peers/torch/headline", 1, 90, |machine| python(machine, "torch_gemm.py", &["headline"])),
        Step::new("peers/torch/all", 2, 400, |machine| python(machine, "torch_gemm.py", &["all"])),
        Step::new("peers/triton", 2, 200, |machine| python(machine, "triton_gemm.py", &[])),
    ]
}

/// Runs a peer's program, which prints one JSON object a line.
fn python(machine: &Machine, program: &str, arguments: &[&str]) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "PyTorch and Triton are peers on a GPU only"})]);
    }
    let file = machine.bundle.join("peers").join(program);
    let output = match Command::new(tool("python3")).arg(&file).args(arguments).output() {
        Ok(output) => output,
        Err(error) => return Ok(vec![json!({"kind": "skipped", "why": format!("python3: {error}")})]),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = errors.lines().rev().take(3).collect();
        records.push(json!({"kind": "skipped", "why": format!("{program}: {}", last.join(" | "))}));
    }
    Ok(records)
}
