//! The project's chores: what a person would otherwise have to remember. Run `cargo xtask` for the list.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bundle;
mod plot;
mod results;
mod suite;
mod table;
mod targets;
mod tools;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a chore failed, for a person to read.
type Failure = Box<dyn Error>;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [--nvrtc all]   install the tools, then build and run every test; nothing is skipped.
                       With `--nvrtc all`, the tests that compile kernels run again on NVRTC 12.9, 13.2 and 13.5
  kernels [--arch sm_80|sm_90a] [--all] [--part I/N]
                       compile GEMM kernels, disassemble them and print what they are made of; fails where one is not
                       what it was meant to be. With `--all` every kernel there is, which takes hours
  mutate               run every mutant of the kernels (one mistake in a barrier, wait, fence, count or swizzle each)
                       in ptx-vm, print what found how many, and why the others are right; tests run a sample
  choices              print which GEMM kernel is chosen for which shape, best first
  tools                install NVRTC and nvdisasm, pinned, into .tools (or the folder that EPILOGUE_TOOLS names)
  gpu-bundle           make target/gpu-bundle: one program with every check and measurement for a machine with a GPU, its
                       peers, and the kernels compiled; `run.sh` there needs neither Rust nor a network
  plot                 draw the results under benches/results as SVG: speed, ratio to cuBLASLt, roofline
  table                print the results under benches/results as Markdown: targets, ratios, knobs
  fetch-minilm         fetch the weights of all-MiniLM-L6-v2, which the example `minilm_ffn` reads, into .tools/minilm
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => suite::run(suite::Nvrtc::Pinned),
        ["test", "--nvrtc", "all"] => suite::run(suite::Nvrtc::All),
        ["tools"] => tools::install_pinned().map(|folder| println!("NVRTC and nvdisasm are in {}", folder.display())),
        ["kernels", options @ ..] => tools::install_pinned().and_then(|_| example("kernels", options)),
        ["mutate"] => mutate(),
        ["choices"] => example("kernels", &["choices"]),
        ["gpu-bundle"] => bundle::make().map(|_| ()),
        ["plot"] => plot::all().map(|files| files.iter().for_each(|file| println!("{}", file.display()))),
        ["table"] => table::all().map(|text| print!("{text}")),
        ["fetch-minilm"] => tools::fetch_minilm().map(|folder| println!("all-MiniLM-L6-v2 is in {}", folder.display())),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all mutants, of which the test runs a sample.
fn mutate() -> Result<(), Failure> {
    let packages = tools::install_pinned()?;
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.args(["test", "--package", "epilogue", "--test", "mutation", "--", "--nocapture"]).current_dir(root());
    command.env("EPILOGUE_NVRTC", tools::nvrtc_in(&packages)?).env("EPILOGUE_MUTANTS", "all");
    if command.status()?.success() { Ok(()) } else { Err("a mutant is not explained".into()) }
}

/// Runs one of the workspace's examples.
fn example(name: &str, arguments: &[&str]) -> Result<(), Failure> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.args(["run", "--quiet", "--example", name, "--"]).args(arguments).current_dir(root());
    if command.status()?.success() { Ok(()) } else { Err(format!("the example `{name}` failed").into()) }
}

/// The workspace's folder.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or(own.clone(), PathBuf::from)
}
