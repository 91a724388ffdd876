//! `cargo xtask test`: every test, with everything that tests need, and the time of each part.

use std::ffi::OsString;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::Instant;

use crate::counts::Counts;
use crate::emulated::{Run, Target};
use crate::parts::{Parts, minutes};
use crate::say::say;
use crate::tools;
use crate::workspace::{Failure, root};

/// The options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The tests that compile kernels run again on NVRTC 12.9, 13.2 and 13.5.
    #[arg(long, value_name = "WHICH")]
    nvrtc: Option<Nvrtc>,
    /// Draws the random cases from this number, or from another one each time (`new`).
    #[arg(long, value_name = "N", default_value_t = Seed(Seed::USUAL))]
    seed: Seed,
    /// Instead, the CPU's tests for another instruction set, run by an emulator: cross linker and emulator are Debian's.
    /// Random cases are a tenth of `--cases`.
    #[arg(long, value_name = "NAME", conflicts_with = "nvrtc")]
    target: Option<Target>,
    /// Properties are tried on this many times the number of random cases that they name. The default keeps the time of all
    /// tests on two cores below a quarter of an hour.
    #[arg(long, value_name = "SCALE", default_value_t = Scale(0.4))]
    cases: Scale,
    /// A sample in about 5 minutes on two cores: the CPU's tests, an emulated GPU with races, the guide's first pages. It
    /// says what it leaves out.
    #[arg(long, conflicts_with = "nvrtc")]
    pub(crate) quick: bool,
}

impl Options {
    /// These options with a part of the random cases.
    pub(crate) fn with_fewer_cases(&self, part: f64) -> Self {
        Self { cases: Scale(self.cases.0 * part), ..*self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Nvrtc {
    All,
}

/// The seed of random cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u64);

impl Seed {
    /// The default: results should depend on the change, not on the cases that are drawn.
    const USUAL: u64 = 20_260_101;
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            // A number that is different each time.
            "new" => Ok(Self(RandomState::new().hash_one(0))),
            text => text.parse().map(Self).map_err(|_| "an integer from 0 or `new` is wanted".to_owned()),
        }
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many times as many random cases as usual.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale(f64);

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let positive = text.parse().ok().filter(|scale: &f64| *scale > 0.0 && scale.is_finite());
        positive.map(Self).ok_or_else(|| "a positive number is wanted".to_owned())
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The small library, without code for this CPU: tests of what is left of it, compiled as fast as can be. (Of one package:
/// the features of others would bring everything back.)
const WITHOUT_FEATURES: &str = "test --package epilogue --no-default-features --features te --no-fail-fast \
                                --config profile.dev.opt-level=0 --config profile.dev.package.ptx-vm.opt-level=0 --test te";

/// Installs, builds, tests. Fails if anything fails or is ignored. (Tests that lack something fail here instead of
/// being skipped: `EPILOGUE_REQUIRE_NVRTC`.)
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    if let Some(target) = options.target {
        return on(target, options);
    }
    let mut parts =
        Parts::begin("test", "about 25 minutes on two cores, half of it the build (`--quick`: a sample in about 5)");
    say!("random cases: --seed {} --cases {}", options.seed, options.cases);
    let packages = parts.time("tools", || {
        tools::fetch_minilm()?;
        tools::install_pinned()
    })?;
    let library = tools::nvrtc_in(&packages)?;
    let cargo = |arguments: &[&str], library: &Path| cargo(arguments, library, options);
    // Includes the examples, with their own crate types: one is a library that a test loads.
    parts.time("build", || cargo(&["test", "--workspace", "--no-run"], &library).map(drop))?;
    // All failures are shown, not only the first.
    let all_targets = ["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];
    let mut counts = parts.time("tests", || cargo(&all_targets, &library))?;
    counts.add(parts.time("doc tests", || cargo(&["test", "--workspace", "--doc"], &library))?, "");
    let without_features: Vec<&str> = WITHOUT_FEATURES.split_whitespace().collect();
    counts.add(parts.time("without default features", || cargo(&without_features, &library))?, "small library");
    let as_many = counts.check();
    if options.nvrtc == Some(Nvrtc::All) {
        for (version, packages) in parts.time("other tools", tools::install_others)? {
            let library = tools::nvrtc_in(&packages)?;
            counts.add(parts.time(&format!("tests, NVRTC {version}"), || cargo(&all_targets, &library))?, version);
        }
    }
    parts.end()?;
    say!("{} tests passed", counts.total());
    match counts.ignored() {
        0 => as_many,
        n => Err(format!("{n} tests were ignored: none may be").into()),
    }
}

/// How much longer a test takes on an emulator.
const SLOWER: f64 = 10.0;

/// Builds and runs the tests of the CPU for a target, on each of its emulator's CPUs.
fn on(target: Target, options: &Options) -> Result<(), Failure> {
    let mut parts = Parts::begin(
        &format!("test-{}", target.triple()),
        "about half an hour on two cores (estimated): the emulator is slow",
    );
    parts.time("tools", || target.install())?;
    let cases = Scale(options.cases.0 / SLOWER);
    let cargo = |arguments: &[&str], cpu: &str| {
        let mut command = common(options.seed, cases);
        command.envs(target.environment(cpu));
        counted(command, arguments)
    };
    let runs = target.runs();
    parts.time("build", || cargo(&target.build(), runs[0].cpu))?;
    parts.time("machine code", || target.check_code())?;
    let (mut passed, mut ignored) = (0, 0);
    for Run { cpu, what, arguments } in &runs {
        let counts = parts.time(&format!("tests on {cpu} ({what})"), || cargo(arguments, cpu))?;
        if counts.total() == 0 {
            return Err(format!("no test ran on {cpu}: cargo {}", arguments.join(" ")).into());
        }
        (passed, ignored) = (passed + counts.total(), ignored + counts.ignored());
    }
    parts.end()?;
    say!("{passed} tests passed");
    if ignored == 0 { Ok(()) } else { Err(format!("{ignored} tests were ignored: none may be").into()) }
}

/// Cargo, with the environment variables of all tests.
fn common(seed: Seed, cases: Scale) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command
        .current_dir(root())
        .env("EPILOGUE_CASES", cases.to_string())
        .env("PROPTEST_RNG_SEED", seed.to_string())
        .env("EPILOGUE_CACHE", root().join("target/kernel-cache"));
    command
}

/// Runs cargo with the environment of tests and examples that compile kernels, prints its output, and counts.
pub(crate) fn cargo(arguments: &[&str], nvrtc: &Path, options: &Options) -> Result<Counts, Failure> {
    let mut command = common(options.seed, options.cases);
    command.env("EPILOGUE_NVRTC", nvrtc).env("EPILOGUE_TOOLS", tools::folder()).env("EPILOGUE_REQUIRE_NVRTC", "1");
    counted(command, arguments)
}

/// Runs cargo, prints its output, and counts.
fn counted(mut command: Command, arguments: &[&str]) -> Result<Counts, Failure> {
    // One pipe for both, so that a program's name, which cargo writes, comes before what the program writes.
    let (output, both) = std::io::pipe()?;
    // The names of programs are read without colours.
    command.env("CARGO_TERM_COLOR", "never").args(arguments).stdout(both.try_clone()?).stderr(both);
    let mut child = command.spawn()?;
    // It keeps the pipe open.
    drop(command);
    let (mut counts, begun) = (Counts::default(), Instant::now());
    for line in BufReader::new(output).lines() {
        let line = line?;
        let before = counts.total();
        counts.read(&line);
        say!("{line}");
        if counts.total() > before {
            let elapsed = minutes(begun.elapsed().as_secs_f64());
            say!("--- {} tests passed in this part, in {elapsed}", counts.total());
        }
    }
    let status = child.wait()?;
    if status.success() { Ok(counts) } else { Err(format!("cargo {} failed ({status})", arguments.join(" ")).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_cases_are_asked_for() {
        assert_eq!(("7".parse(), "0.5".parse()), (Ok(Seed(7)), Ok(Scale(0.5))));
        assert_ne!("new".parse::<Seed>(), "new".parse());
        assert!(["-1", "old"].iter().all(|text| text.parse::<Seed>().is_err()));
        assert!(["0", "many", "inf", "-2"].iter().all(|text| text.parse::<Scale>().is_err()));
    }
}
