//! The whole bundle on a machine without a GPU: every step succeeds, or says why it was left out.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use epilogue_runtime::testing;

/// The random cases are the same in every run of the tests.
fn program(device: &str, out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_epilogue-gpu"));
    command.args(["--seed", "1", "--device", device, "--out"]).arg(out).args(arguments);
    command
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The exit status and the output.
fn run(device: &str, out: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    said(&program(device, out, arguments).output().expect("the program runs"))
}

/// An empty folder for results, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("epilogue-rehearsal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn results(&self) -> String {
        std::fs::read_to_string(self.0.join("results.jsonl")).expect("results")
    }

    /// The records of wrong results, one per line.
    fn wrong(&self) -> String {
        let results = self.results();
        results.lines().filter(|line| line.contains("\"kind\":\"wrong\"")).collect::<Vec<_>>().join("\n")
    }

    /// The number of records that contain a text.
    fn count(&self, what: &str) -> usize {
        self.results().lines().filter(|line| line.contains(what)).count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_step_ends_well_without_a_gpu() {
    if testing::compiler("every_step_ends_well_without_a_gpu").is_none() {
        return;
    }
    let out = Folder::new("emulated");
    let (status, text) = run("emulated", &out.0, &["--tier", "3"]);
    assert!(status == Some(0) && !text.contains("FAILED") && !text.contains("WRONG"), "{text}\n{}", out.wrong());
    assert!(out.count("\"kind\":\"correct\"") >= 5 && out.count("\"kind\":\"speed\"") >= 6, "{}", out.results());
    assert!(out.count("\"kind\":\"skipped\"") >= 1, "what a rehearsal leaves out is said");
    assert_eq!(out.count("\"ms\":"), 0, "a rehearsal measures nothing");

    // All records are there, so nothing runs again.
    let (status, text) = run("emulated", &out.0, &["--tier", "3"]);
    assert!(status == Some(0) && !text.contains(" s  "), "{text}");
}

/// NVRTC is not needed either.
#[test]
fn every_step_ends_well_on_the_cpu() {
    let out = Folder::new("cpu");
    let (status, text) = run("cpu", &out.0, &["--tier", "3"]);
    assert!(status == Some(0) && !text.contains("FAILED") && !text.contains("WRONG"), "{text}\n{}", out.wrong());
    assert!(out.count("\"kind\":\"correct\"") >= 13 && out.count("\"kind\":\"speed\"") >= 20, "{}", out.results());
}

/// Steps that compile kernels wait for a compiler; the others are done.
#[test]
fn without_nvrtc_what_needs_it_is_left() {
    let out = Folder::new("no-nvrtc");
    let mut command = program("emulated", &out.0, &[]);
    let (status, text) = said(&command.env("EPILOGUE_NVRTC", "/nowhere").output().expect("the program runs"));
    assert!(status == Some(0) && text.contains("compile kernels, and NVRTC was not found"), "{text}");
    assert!(out.count("\"step\":\"conformance/") >= 32 && out.count("\"step\":\"correctness/") == 0, "{text}");
}

#[test]
fn a_failure_is_told_by_the_status_and_made_good_by_the_next_run() {
    let out = Folder::new("broken");
    let only = ["--only", "conformance/13"];
    // A folder in the place of a file that a step writes.
    let blocked = out.0.join("conformance.jsonl");
    std::fs::create_dir_all(&blocked).expect("a folder");
    let (status, text) = run("emulated", &out.0, &only);
    assert!(status == Some(1) && text.contains("FAILED conformance/13: "), "{text}");
    std::fs::remove_dir(&blocked).expect("removed");
    let (status, text) = run("emulated", &out.0, &only);
    assert!(status == Some(0) && text.contains(" s  conformance/13") && !text.contains("FAILED"), "{text}");
    let (status, text) = run("emulated", &out.0, &only);
    assert!(status == Some(0) && !text.contains(" s  "), "{text}");
    // Nothing can be written, so nothing begins.
    let (status, _) = run("emulated", &blocked, &only);
    assert_eq!(status, Some(2));
}

#[test]
fn mistakes_on_the_command_line_are_told() {
    let out = Folder::new("mistakes");
    let (status, text) = run("cpu", &out.0, &["--help"]);
    assert!(status == Some(0) && text.contains("Usage: epilogue-gpu"), "{text}");
    for (arguments, wrong) in [
        (["--only", "no such"], "no step's name contains `no such`"),
        (["--tier", "4"], "invalid value '4' for '--tier"),
    ] {
        let output = program("cpu", &out.0, &arguments).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(wrong), "{text}");
    }
}

/// Nothing keeps running that would disturb the next run, and finished steps are kept.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_ends_whole_and_goes_on_later() {
    use std::time::{Duration, Instant};

    let within = |limit: u64, wanted: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(limit);
        while !wanted() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        wanted()
    };
    let out = Folder::new("interrupted");
    let mark = out.0.display().to_string();
    let processes = || {
        let all = std::fs::read_dir("/proc").expect("processes").flatten();
        let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        lines.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
    };
    let arguments = ["--tier", "1", "--only", "correctness"];
    let mut child = program("cpu", &out.0, &arguments).stdout(std::process::Stdio::null()).spawn().expect("a process");
    let file = out.0.join("results.jsonl");
    let begun = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"end\""));
    assert!(within(60, &begun) && processes() >= 1);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(within(10, &|| processes() == 0), "a worker goes on");
    let (status, text) = run("cpu", &out.0, &arguments);
    assert!(status == Some(0), "{text}");
    let ended: Vec<String> = out
        .results()
        .lines()
        .filter(|line| line.contains("\"kind\":\"end\""))
        .filter_map(|line| line.split("\"step\":").nth(1).map(str::to_owned))
        .collect();
    let different: std::collections::BTreeSet<&String> = ended.iter().collect();
    assert!(ended.len() == different.len() && ended.len() > 20, "{ended:?}");
}

#[test]
fn without_a_gpu_the_error_says_so() {
    if epilogue_runtime::Device::cuda(0).is_ok() {
        return; // there is one
    }
    let output = Command::new(env!("CARGO_BIN_EXE_epilogue-gpu")).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("driver"), "{text}");
}
