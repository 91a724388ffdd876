//! NVIDIA's compute-sanitizer over one kernel of each family.

use std::process::Command;

use serde_json::json;

use crate::correctness;
use crate::machine::{Machine, tool};
use crate::steps::Step;

const TOOLS: [&str; 3] = ["memcheck", "racecheck", "synccheck"];

pub(crate) fn steps() -> Vec<Step> {
    correctness::families()
        .flat_map(|family| TOOLS.map(|checker| (family.clone(), checker)))
        .map(|(family, checker)| {
            Step::new(format!("sanitizer/{checker}/{family}"), 1, 10, move |machine| check(machine, &family, checker))
        })
        .collect()
}

fn check(machine: &Machine, family: &str, checker: &str) -> crate::Outcome<Vec<serde_json::Value>> {
    if machine.is_rehearsal() {
        return Ok(vec![json!({"kind": "skipped", "why": "compute-sanitizer needs a GPU"})]);
    }
    let program = tool("compute-sanitizer");
    let own = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(["--tool", checker, "--error-exitcode", "77"]).arg(own).args(["family", family, "7", "cuda"]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            return Ok(vec![json!({"kind": "skipped", "why": format!("{}: {error}", program.display())})]);
        }
    };
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if text.contains("Device not supported") {
        return Ok(vec![json!({"kind": "skipped", "why": "compute-sanitizer doesn't support this machine"})]);
    }
    let tail: String = text.lines().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    let kind = if output.status.success() { "clean" } else { "wrong" };
    Ok(vec![json!({"kind": kind, "family": family, "checker": checker, "what": tail})])
}
