//! Runs NVIDIA's compute-sanitizer on one kernel of each family.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::Outcome;
use crate::correctness;
use crate::machine::{Machine, tool};
use crate::step::Step;

const TOOLS: [&str; 3] = ["memcheck", "racecheck", "synccheck"];

/// One after the other: the first one compiles the kernel, and the others find it in the cache.
pub(crate) fn steps() -> Vec<Step> {
    correctness::families()
        .map(|family| Step::new(format!("sanitizer/{family}"), 1, 30, move |machine| check(machine, &family)))
        .collect()
}

fn check(machine: &Machine, family: &str) -> Outcome<Vec<Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "compute-sanitizer needs a GPU"})]);
    }
    let program = tool("compute-sanitizer");
    let mut records = Vec::new();
    for checker in TOOLS {
        match run(&program, family, checker)? {
            Ok(record) => records.push(record),
            Err(why) => {
                records.push(json!({"kind": "skipped", "why": why}));
                break;
            }
        }
    }
    Ok(records)
}

/// The result of one checker for a family, or why it can't run on this machine.
fn run(program: &Path, family: &str, checker: &str) -> Outcome<Result<Value, String>> {
    let own = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(["--tool", checker, "--error-exitcode", "77"]).arg(own).args(["family", family, "7", "cuda"]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Ok(Err(format!("{}: {error}", program.display()))),
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("Device not supported") {
        return Ok(Err("compute-sanitizer doesn't support this machine".into()));
    }
    let tail: String = text.lines().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    let kind = if output.status.success() { "clean" } else { "wrong" };
    Ok(Ok(json!({"kind": kind, "family": family, "checker": checker, "what": tail})))
}
