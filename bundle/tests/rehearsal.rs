//! The whole bundle, run through on a machine without a GPU: every step ends well, and says what it left out.

use std::path::Path;
use std::process::Command;

use epilogue_runtime::testing;

fn run(device: &str, out: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_epilogue-gpu"))
        .args(["--device", device, "--out"])
        .arg(out)
        .args(arguments)
        .output()
        .expect("the program runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_step_ends_well_without_a_gpu() {
    if testing::compiler("every_step_ends_well_without_a_gpu").is_none() {
        return;
    }
    let out = std::env::temp_dir().join(format!("epilogue-rehearsal-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    let (good, text) = run("emulated", &out, &["--tier", "3"]);
    assert!(good && !text.contains("FAILED") && !text.contains("WRONG"), "{text}");
    let results = std::fs::read_to_string(out.join("results.jsonl")).expect("results");
    let count = |what: &str| results.lines().filter(|line| line.contains(what)).count();
    assert!(count("\"kind\":\"correct\"") >= 5 && count("\"kind\":\"speed\"") >= 6, "{results}");
    assert!(count("\"kind\":\"skipped\"") >= 1, "what a rehearsal leaves out is said");
    assert_eq!(count("\"ms\":"), 0, "a rehearsal measures nothing");

    // Everything is there, so nothing runs again.
    let (good, text) = run("emulated", &out, &["--tier", "3"]);
    assert!(good && !text.contains(" s  "), "{text}");
    let _ = std::fs::remove_dir_all(&out);
}

/// Nor is NVRTC needed.
#[test]
fn every_step_ends_well_on_the_cpu() {
    let out = std::env::temp_dir().join(format!("epilogue-rehearsal-cpu-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&out);
    let (good, text) = run("cpu", &out, &["--tier", "3"]);
    assert!(good && !text.contains("FAILED") && !text.contains("WRONG"), "{text}");
    let results = std::fs::read_to_string(out.join("results.jsonl")).expect("results");
    let count = |what: &str| results.lines().filter(|line| line.contains(what)).count();
    assert!(count("\"kind\":\"correct\"") >= 13 && count("\"kind\":\"speed\"") >= 20, "{results}");
    let _ = std::fs::remove_dir_all(&out);
}

#[test]
fn without_a_gpu_the_error_says_so() {
    if epilogue_runtime::Device::cuda(0).is_ok() {
        return; // there is one
    }
    let output = Command::new(env!("CARGO_BIN_EXE_epilogue-gpu")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("driver"), "{text}");
}
