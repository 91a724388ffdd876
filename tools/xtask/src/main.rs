//! Tasks that a person would otherwise have to remember: tools, the test suite, kernel checks, the GPU bundle, drawings
//! of results. `cargo xtask --help` lists the tasks.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod bundle;
mod counts;
mod emulated;
mod machine_loops;
mod messages;
mod outside;
mod parts;
mod plot;
mod prose;
mod quick;
mod results;
mod say;
mod soak;
mod structure;
mod suite;
mod table;
mod targets;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::say::say;
use crate::workspace::{Failure, cargo};

/// The project's tasks: tools, tests, kernel checks, bundles, results.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs the tools, then builds and runs every test; nothing is skipped.
    ///
    /// Random cases are the same ones each time, so that a change is judged by what it changes;
    /// `--seed new --cases 20` looks for more.
    Test(suite::Options),
    /// Compiles GEMM kernels, disassembles them and prints what they are made of; fails if one is not what it was
    /// meant to be.
    Kernels(Kernels),
    /// Runs every mutant of the kernels in ptx-vm and prints what found how many, and why the others are right.
    ///
    /// A mutant has one mistake in a barrier, wait, fence, count or swizzle. Tests run a sample.
    Mutate {
        /// Only kernels whose name contains the text, such as `sm_90a` or `te::auto`.
        #[arg(long, value_name = "TEXT", default_value = "")]
        of: String,
    },
    /// Tries the kernels' short formulas (erf, tanh) on every f32 and prints their errors; fails if one is too large.
    ///
    /// It takes minutes; tests run a sample.
    Approximations,
    /// Random schedules without end: what is printed of a failure is its seed and the smallest schedule that still fails.
    ///
    /// Each is of a computation drawn at random. It must be refused, or be right in the interpreter, as native code
    /// and, for some, on the emulated GPU.
    Soak(soak::Options),
    /// Prints the GEMM kernel that is chosen for each shape, best first.
    Choices {
        /// Instead, what the choices depend on: each of the model's numbers is varied by 30 %.
        #[arg(long, conflicts_with = "others")]
        ablation: bool,
        /// Instead, what other libraries choose for the same shapes, and why the model differs.
        #[arg(long)]
        others: bool,
    },
    /// Predicts how long a kernel takes, from its machine code, and draws one block's timeline.
    ///
    /// Without a product it prints those that the GPU bundle measures first, for both families, beside what the model of
    /// the choice says.
    Predict(Predict),
    /// Compares the model with what others measured (benches/published): a table by regime, and a chart.
    ///
    /// Constants are fitted to some sources; the model is judged by the others.
    Published {
        /// Every row, too.
        #[arg(long)]
        rows: bool,
        /// A number of the model at another value, such as `sm90.start=2000`; several are possible.
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
    },
    /// Compares predictions by machine code with published times of others' kernels, step by step.
    Foreign {
        /// Instead, prints the counts of a kernel of this cubin, for a file of tools/kernels/src/foreign/ladders.
        #[arg(long, value_name = "FILE", requires = "kernel")]
        cubin: Option<std::path::PathBuf>,
        /// A part of the kernel's mangled name.
        #[arg(long, value_name = "NAME", requires = "cubin")]
        kernel: Option<String>,
    },
    /// Writes what to expect of GPUs that have measured nothing yet, with the model's error: benches/results/forecast.md.
    Forecast,
    /// Fits the model's constants to the times that GPUs recorded (benches/results), and prints both.
    ///
    /// It prints each constant before and after, with the error of the predictions; nothing is written.
    Fit {
        /// The folders with results of one GPU each; all those of benches/results if none is given.
        folders: Vec<std::path::PathBuf>,
    },
    /// Prints the import circles and the layers of the workspace, as the test of its structure sees them.
    Structure,
    /// Counts the sentences that break the rules for prose in CONTRIBUTING.md.
    Prose {
        /// Instead, those of the files whose path contains the text.
        #[arg(long, value_name = "TEXT")]
        of: Option<String>,
    },
    /// Prints every message with which the library refuses something, for reading them in a row.
    Messages,
    /// Runs README's example in a new crate outside of the workspace, with the default features and with none.
    ///
    /// It compiles everything anew, into target/outside.
    Outside,
    /// Installs NVRTC and nvdisasm, pinned, into .tools (or the folder that `EPILOGUE_TOOLS` names).
    Tools,
    /// Installs the Python libraries that `cargo bench --bench peers` measures beside this one, into .tools/peers.
    Peers {
        /// Torch, too: about 3 GB, most of it for GPUs.
        #[arg(long)]
        torch: bool,
    },
    /// Makes target/gpu-bundle: one program with every check and measurement for a machine with a GPU.
    ///
    /// Its peers and the compiled kernels lie beside it; `run.sh` there needs neither Rust nor a network
    /// (benches/results/README.md).
    GpuBundle,
    /// Draws the results under benches/results as SVG: speed, ratio to cuBLASLt, roofline.
    Plot,
    /// Prints the results under benches/results as Markdown: targets, ratios, knobs.
    Table,
    /// Fetches the weights of all-MiniLM-L6-v2, which the examples `minilm…` read, into .tools/minilm.
    FetchMinilm,
}

/// Which kernels to look at.
#[derive(Args)]
struct Kernels {
    /// Only kernels made for it.
    #[arg(long)]
    arch: Option<Arch>,
    /// Every kernel there is, which takes a day.
    #[arg(long)]
    all: bool,
    /// Kernels that together have any three choices that a kernel can have, such as a tile, a layout and a split; which
    /// takes hours.
    #[arg(long, conflicts_with = "all")]
    threes: bool,
    /// The part with number I of N equal parts, from 1.
    #[arg(long, value_name = "I/N")]
    part: Option<String>,
    /// Only kernels whose name contains the text, such as `s8` or `256x128`.
    #[arg(long, value_name = "TEXT")]
    named: Option<String>,
}

/// The kernels to predict.
#[derive(Args)]
struct Predict {
    /// The product's extents, of bf16: M, N and K, such as 4096x4096x1024.
    #[arg(value_name = "MxNxK")]
    product: Option<String>,
    /// Kernels for it: for `sm_80` on an A100, for `sm_90a` on an H200.
    #[arg(long, value_enum, default_value = "sm_90a", requires = "product")]
    arch: Arch,
    /// plain, residual, `bias_gelu_residual`, `row_reduction` or everything.
    #[arg(long, value_name = "NAME", default_value = "plain", requires = "product")]
    epilogue: String,
    /// The best kernel whose name contains the text, such as `128x256` or `ping-pong`, in place of the best one.
    #[arg(long, value_name = "TEXT", default_value = "", requires = "product")]
    named: String,
}

impl Predict {
    fn run(&self) -> Result<(), Failure> {
        tools::install_pinned()?;
        let Some(product) = &self.product else { return kernel_checks(&["predict"]) };
        let file =
            workspace::root().join(format!("target/predict/{product}_{}_{}.json", self.arch.name(), self.epilogue));
        let text = file.display().to_string();
        let arch = self.arch.name();
        let words = [
            "predict",
            product,
            "--arch",
            arch,
            "--epilogue",
            &self.epilogue,
            "--named",
            &self.named,
            "--timeline",
            &text,
        ];
        kernel_checks(&words)?;
        say!("{}", plot::timeline::draw(&file)?.display());
        Ok(())
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Arch {
    #[value(name = "sm_80")]
    Sm80,
    #[value(name = "sm_90a")]
    Sm90a,
}

impl Arch {
    const fn name(self) -> &'static str {
        match self {
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }
}

impl Kernels {
    /// As the example `kernels` takes them.
    fn words(&self) -> Vec<&str> {
        let arch = self.arch.map(Arch::name);
        let valued = [("--arch", arch), ("--part", self.part.as_deref()), ("--named", self.named.as_deref())];
        let which = [self.all.then_some("--all"), self.threes.then_some("--threes")];
        let mut words: Vec<&str> = which.into_iter().flatten().collect();
        words.extend(valued.iter().filter_map(|(name, value)| value.map(|value| [*name, value])).flatten());
        words
    }
}

impl Task {
    fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Test(options) if options.quick => quick::run(options),
            Self::Test(options) => suite::run(options),
            Self::Kernels(kernels) => tools::install_pinned().and_then(|_| kernel_checks(&kernels.words())),
            Self::Mutate { of } => mutate(of),
            Self::Approximations => program(&["--example", "approximations"], &[]),
            Self::Soak(options) => soak::run(options),
            Self::Choices { ablation: true, .. } => kernel_checks(&["choices", "--ablation"]),
            Self::Choices { others: true, .. } => kernel_checks(&["choices", "--others"]),
            Self::Choices { .. } => kernel_checks(&["choices"]),
            Self::Predict(predict) => predict.run(),
            Self::Published { rows, set } => published(*rows, set),
            Self::Foreign { cubin: Some(cubin), kernel: Some(kernel) } => tools::install_pinned()
                .and_then(|_| kernel_checks(&["foreign", "--cubin", &cubin.display().to_string(), "--kernel", kernel])),
            Self::Foreign { .. } => kernel_checks(&["foreign"]),
            Self::Forecast => forecast(),
            Self::Fit { folders } => fit(folders),
            Self::Structure => structure::print(),
            Self::Prose { of } => prose::print(of.as_deref()),
            Self::Messages => {
                say::print(format_args!("{}", messages::all()?));
                Ok(())
            }
            Self::Outside => outside::run(),
            Self::Tools => {
                say!("NVRTC and nvdisasm are in {}", tools::install_pinned()?.display());
                Ok(())
            }
            Self::Peers { torch } => {
                say!("the peers are in {}", tools::install_peers(*torch)?.display());
                Ok(())
            }
            Self::GpuBundle => bundle::make().map(drop),
            Self::Plot => {
                plot::all()?.iter().for_each(|file| say!("{}", file.display()));
                Ok(())
            }
            Self::Table => {
                say::print(format_args!("{}", table::all()?));
                Ok(())
            }
            Self::FetchMinilm => {
                say!("all-MiniLM-L6-v2 is in {}", tools::fetch_minilm()?.display());
                Ok(())
            }
        }
    }
}

fn main() -> ExitCode {
    match CommandLine::parse().task.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.to_string().trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Runs all mutants; the test runs a sample of them.
fn mutate(of: &str) -> Result<(), Failure> {
    let packages = tools::install_pinned()?;
    let mut command = cargo(&["test", "--package", "epilogue", "--test", "mutation", "--", "--nocapture"]);
    command.env("EPILOGUE_NVRTC", tools::nvrtc_in(&packages)?).env("EPILOGUE_MUTANTS", "all");
    command.env("EPILOGUE_MUTANTS_OF", of);
    if command.status()?.success() { Ok(()) } else { Err("a mutant is not explained".into()) }
}

/// Fits the model to the results in these folders, or to all.
fn fit(folders: &[std::path::PathBuf]) -> Result<(), Failure> {
    let mut folders = folders.to_vec();
    if folders.is_empty() {
        folders.extend(results::Gpu::all()?.into_iter().map(|gpu| gpu.folder));
    }
    for folder in folders {
        let mut command = cargo(&["run", "--quiet", "--release", "--package", "epilogue-bundle", "--", "fit"]);
        if !command.arg(&folder).status()?.success() {
            return Err(format!("nothing was fitted to {}", folder.display()).into());
        }
    }
    Ok(())
}

/// Prints the model beside published times, and draws them.
fn published(rows: bool, set: &[String]) -> Result<(), Failure> {
    let file = workspace::root().join("target/published.csv");
    let text = file.display().to_string();
    let mut words = vec!["published", "--chart", &text];
    words.extend(rows.then_some("--rows"));
    words.extend(set.iter().flat_map(|change| ["--set", change]));
    kernel_checks(&words)?;
    say!("{}", plot::published::draw(&file)?.display());
    Ok(())
}

/// Writes the forecast.
fn forecast() -> Result<(), Failure> {
    tools::install_pinned()?;
    let file = workspace::root().join("benches/results/forecast.md");
    kernel_checks(&["forecast", &file.display().to_string()])?;
    println!("{}", file.display());
    Ok(())
}

/// Runs the package `tools/kernels`.
fn kernel_checks(arguments: &[&str]) -> Result<(), Failure> {
    program(&["--package", "epilogue-kernels", "--"], arguments)
}

/// Runs one of the workspace's programs.
fn program(which: &[&str], arguments: &[&str]) -> Result<(), Failure> {
    if cargo(&["run", "--quiet"]).args(which).args(arguments).status()?.success() {
        Ok(())
    } else {
        Err(format!("`cargo run {}` failed: what it printed says why", which.join(" ")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
    }

    #[test]
    fn kernels_are_asked_for_as_the_example_takes_them() {
        let words = |line: &str| match CommandLine::try_parse_from(line.split_whitespace()).map(|it| it.task) {
            Ok(Task::Kernels(kernels)) => kernels.words().join(" "),
            Ok(_) => panic!("another task"),
            Err(error) => format!("error: {}", error.kind()),
        };
        assert_eq!(words("xtask kernels --named s8 --all --arch sm_90a"), "--all --arch sm_90a --named s8");
        assert_eq!(words("xtask kernels"), "");
        assert!(words("xtask kernels --arch sm_75").starts_with("error: "));
    }
}
