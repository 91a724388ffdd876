//! `cargo xtask test`: every test, with everything that tests need, and how long each part took.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Failure, root, tools};

/// Which compilers the tests run with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nvrtc {
    /// The pinned one.
    Pinned,
    /// The others too.
    All,
}

/// The random cases that properties are tried on.
pub(crate) struct Random {
    /// What the cases are drawn from; the same ones each time.
    seed: u64,
    /// How many times as many as usual.
    scale: f64,
}

impl Random {
    /// Where nothing else is asked for: a change is judged by what it changes, not by the cases that are drawn.
    const SEED: u64 = 20_260_101;

    /// From a command line's words: a number or `new`, and a positive number.
    pub(crate) fn asked(seed: Option<&str>, scale: Option<&str>) -> Result<Self, Failure> {
        let seed = match seed {
            None => Self::SEED,
            Some("new") => new_seed(),
            Some(text) => text.parse().map_err(|_| format!("--seed takes an integer from 0 or `new`, not `{text}`"))?,
        };
        let positive = |text: &str| text.parse().ok().filter(|scale: &f64| *scale > 0.0 && scale.is_finite());
        let scale = match scale {
            None => 1.0,
            Some(text) => positive(text).ok_or_else(|| format!("--cases takes a positive number, not `{text}`"))?,
        };
        Ok(Self { seed, scale })
    }
}

/// A number that is another one each time.
fn new_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// Installs, builds, tests. Fails when anything fails or is ignored. (Tests that lack
/// something fail here instead of skipping themselves: `EPILOGUE_REQUIRE_NVRTC`.)
pub(crate) fn run(nvrtc: Nvrtc, random: &Random) -> Result<(), Failure> {
    println!("random cases: --seed {} --cases {}", random.seed, random.scale);
    let mut parts = Parts::default();
    let packages = parts.time("tools", tools::install_pinned)?;
    let library = tools::nvrtc_in(&packages)?;
    let cargo = |arguments: &[&str], library: &Path| cargo(arguments, library, random);
    // Examples are built as what they are: one is a library that a test loads.
    parts.time("build of examples", || cargo(&["build", "--workspace", "--examples"], &library).map(drop))?;
    // All failures are worth seeing at once.
    let all_targets = ["test", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];
    parts.time("build of tests", || cargo(&[&all_targets[..], &["--no-run"]].concat(), &library).map(drop))?;
    let mut counts = parts.time("tests", || cargo(&all_targets, &library))?;
    counts.add(&parts.time("doc tests", || cargo(&["test", "--workspace", "--doc"], &library))?);
    parts.time("all-MiniLM-L6-v2", || minilm(&|words| cargo(words, &library)))?;
    if nvrtc == Nvrtc::All {
        for (version, packages) in parts.time("other tools", tools::install_others)? {
            let library = tools::nvrtc_in(&packages)?;
            counts.add(&parts.time(&format!("tests, NVRTC {version}"), || cargo(&all_targets, &library))?);
        }
    }
    parts.print();
    println!("{} tests passed", counts.passed);
    match counts.ignored {
        0 => Ok(()),
        n => Err(format!("{n} tests were ignored: none may be").into()),
    }
}

/// The whole model on the CPU against its reference, and a layer of it on the emulated device.
fn minilm(cargo: &dyn Fn(&[&str]) -> Result<Counts, Failure>) -> Result<(), Failure> {
    tools::fetch_minilm()?;
    let example = ["run", "--quiet", "--example", "minilm", "--"];
    cargo(&[&example[..], &["--check", "tests/golden/minilm/reference.json"]].concat())?;
    cargo(&[&example[..], &["--device", "emulated"]].concat()).map(drop)
}

/// How long each part took.
#[derive(Default)]
struct Parts(Vec<(String, Duration)>);

impl Parts {
    fn time<T>(&mut self, name: &str, part: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        println!("=== {name}");
        let start = Instant::now();
        let done = part();
        self.0.push((name.to_owned(), start.elapsed()));
        if done.is_err() {
            self.print();
        }
        done
    }

    fn print(&self) {
        let mut total = Duration::ZERO;
        println!("seconds");
        for (name, time) in &self.0 {
            total += *time;
            println!("{:8.1}  {name}", time.as_secs_f64());
        }
        println!("{:8.1}  together", total.as_secs_f64());
    }
}

/// What test programs report.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    ignored: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.ignored += other.ignored;
    }

    /// Reads `test result: ok. 5 passed; 0 failed; 1 ignored; …`.
    fn read(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// Runs cargo with the tests' environment, passes its output on and counts.
fn cargo(arguments: &[&str], nvrtc: &Path, random: &Random) -> Result<Counts, Failure> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .env("EPILOGUE_NVRTC", nvrtc)
        .env("EPILOGUE_TOOLS", tools::folder())
        .env("EPILOGUE_REQUIRE_NVRTC", "1")
        .env("EPILOGUE_CASES", random.scale.to_string())
        .env("PROPTEST_RNG_SEED", random.seed.to_string())
        .env("EPILOGUE_CACHE", root().join("target/kernel-cache"))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut counts = Counts::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            counts.read(&line);
            println!("{line}");
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
        let asked = |seed, scale| Random::asked(seed, scale).map(|random| (random.seed, random.scale));
        assert_eq!(asked(None, None).unwrap(), (Random::SEED, 1.0));
        assert_eq!(asked(Some("7"), Some("0.5")).unwrap(), (7, 0.5));
        assert_ne!(asked(Some("new"), None).unwrap(), asked(Some("new"), None).unwrap());
        for (seed, scale) in [(Some("-1"), None), (Some("old"), None), (None, Some("0")), (None, Some("many"))] {
            assert!(asked(seed, scale).is_err(), "{seed:?} {scale:?}");
        }
    }

    #[test]
    fn counts_are_read() {
        let mut counts = Counts::default();
        for line in [
            "running 7 tests",
            "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.00s",
        ] {
            counts.read(line);
        }
        assert_eq!(counts, Counts { passed: 6, ignored: 2 });
    }
}
