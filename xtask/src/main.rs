//! The project's chores: what a person would otherwise have to remember. Run `cargo xtask` for the list.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bundle;
mod chores;
mod plot;
mod results;
mod suite;
mod table;
mod targets;
mod tools;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::chores::{Asked, Choice, Chore, Chosen, Value};

/// Why a chore failed, for a person to read.
type Failure = Box<dyn Error>;

const CHORES: [Chore; 9] = [
    Chore {
        name: "test",
        options: &[
            Choice {
                name: "--nvrtc",
                value: Value::OneOf(&["all"]),
                does: "The tests that compile kernels run again on NVRTC 12.9, 13.2 and 13.5.",
            },
            Choice {
                name: "--cases",
                value: Value::Any("SCALE"),
                does: "Properties are tried on so many times as many random cases.",
            },
            Choice {
                name: "--seed",
                value: Value::Any("N"),
                does: "Draws the random cases from this number, or from another one each time (`new`).",
            },
        ],
        does: &[
            "Installs the tools, then builds and runs every test; nothing is skipped.",
            "Random cases are the same ones each time, so that a change is judged by what it changes;",
            "`--seed new --cases 20` looks for more.",
        ],
        run: |chosen| {
            let nvrtc = if chosen.has("--nvrtc") { suite::Nvrtc::All } else { suite::Nvrtc::Pinned };
            suite::run(nvrtc, &suite::Random::asked(chosen.value("--seed"), chosen.value("--cases"))?)
        },
    },
    Chore {
        name: "kernels",
        options: &[
            Choice { name: "--arch", value: Value::OneOf(&["sm_80", "sm_90a"]), does: "Only kernels made for it." },
            Choice { name: "--all", value: Value::None, does: "Every kernel there is, which takes hours." },
            Choice {
                name: "--part",
                value: Value::Any("I/N"),
                does: "Of N equal parts the one with number I, from 1.",
            },
            Choice {
                name: "--named",
                value: Value::Any("TEXT"),
                does: "Only kernels whose name contains the text, such as `s8` or `256x128`.",
            },
        ],
        does: &[
            "Compiles GEMM kernels, disassembles them and prints what they are made of; fails where one is not what it",
            "was meant to be.",
        ],
        run: |chosen| tools::install_pinned().and_then(|_| example("kernels", &chosen.words())),
    },
    Chore {
        name: "mutate",
        options: &[Choice {
            name: "--of",
            value: Value::Any("TEXT"),
            does: "Only kernels whose name contains the text, such as `sm_90a` or `te::auto`.",
        }],
        does: &[
            "Runs every mutant of the kernels (one mistake in a barrier, wait, fence, count or swizzle each) in ptx-vm,",
            "prints what found how many, and why the others are right; tests run a sample.",
        ],
        run: mutate,
    },
    Chore {
        name: "choices",
        options: &[],
        does: &["Prints which GEMM kernel is chosen for which shape, best first."],
        run: |_| example("kernels", &["choices"]),
    },
    Chore {
        name: "tools",
        options: &[],
        does: &["Installs NVRTC and nvdisasm, pinned, into .tools (or the folder that EPILOGUE_TOOLS names)."],
        run: |_| {
            let folder = tools::install_pinned()?;
            println!("NVRTC and nvdisasm are in {}", folder.display());
            Ok(())
        },
    },
    Chore {
        name: "gpu-bundle",
        options: &[],
        does: &[
            "Makes target/gpu-bundle: one program with every check and measurement for a machine with a GPU, its peers,",
            "and the kernels compiled; `run.sh` there needs neither Rust nor a network (benches/results/README.md).",
        ],
        run: |_| bundle::make().map(drop),
    },
    Chore {
        name: "plot",
        options: &[],
        does: &["Draws the results under benches/results as SVG: speed, ratio to cuBLASLt, roofline."],
        run: |_| {
            plot::all()?.iter().for_each(|file| println!("{}", file.display()));
            Ok(())
        },
    },
    Chore {
        name: "table",
        options: &[],
        does: &["Prints the results under benches/results as Markdown: targets, ratios, knobs."],
        run: |_| {
            print!("{}", table::all()?);
            Ok(())
        },
    },
    Chore {
        name: "fetch-minilm",
        options: &[],
        does: &["Fetches the weights of all-MiniLM-L6-v2, which the examples `minilm…` read, into .tools/minilm."],
        run: |_| {
            let folder = tools::fetch_minilm()?;
            println!("all-MiniLM-L6-v2 is in {}", folder.display());
            Ok(())
        },
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match chores::read(&CHORES, &words) {
        Ok(Asked::Help(text)) => {
            println!("{}", text.trim_end());
            Ok(())
        }
        Ok(Asked::Run(chore, chosen)) => (chore.run)(&chosen),
        Err(wrong) => Err(wrong),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Runs all mutants, of which the test runs a sample.
fn mutate(chosen: &Chosen) -> Result<(), Failure> {
    let packages = tools::install_pinned()?;
    let mut command = cargo(&["test", "--package", "epilogue", "--test", "mutation", "--", "--nocapture"]);
    command.env("EPILOGUE_NVRTC", tools::nvrtc_in(&packages)?).env("EPILOGUE_MUTANTS", "all");
    command.env("EPILOGUE_MUTANTS_OF", chosen.value("--of").unwrap_or_default());
    if command.status()?.success() { Ok(()) } else { Err("a mutant is not explained".into()) }
}

/// Runs one of the workspace's examples.
fn example(name: &str, arguments: &[&str]) -> Result<(), Failure> {
    let mut command = cargo(&["run", "--quiet", "--example", name, "--"]);
    if command.args(arguments).status()?.success() {
        Ok(())
    } else {
        Err(format!("the example `{name}` failed").into())
    }
}

/// Cargo, in the workspace's folder.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// The workspace's folder.
fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.parent().map_or(own.clone(), PathBuf::from)
}
