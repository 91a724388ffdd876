//! `cargo xtask test --target aarch64`: the tests of the CPU, built for another instruction set and run by an emulator.
//!
//! Debian's packages have the linker and the emulator; rustup has the standard library. Missing parts are installed.
//! Nothing of a GPU runs: NVIDIA's compiler is not there, and its tests say that they were skipped.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::machine_loops::{MachineLoop, loops};
use crate::say::say;
use crate::workspace::{Failure, cargo, root};

/// An instruction set that tests are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Target {
    /// AArch64, by QEMU: a CPU without dot products, one with them, and one with everything.
    Aarch64,
}

/// Tests that run on one CPU of the emulator.
pub(crate) struct Run {
    /// The CPU, as the emulator calls it, and what it stands for.
    pub(crate) cpu: &'static str,
    pub(crate) what: &'static str,
    /// Arguments of cargo.
    pub(crate) arguments: Vec<&'static str>,
}

impl Target {
    /// The name that rustc has for it.
    pub(crate) const fn triple(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Debian's packages, and the programs by which they are recognised.
    const fn packages(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::Aarch64 => {
                [("gcc-aarch64-linux-gnu", "aarch64-linux-gnu-gcc"), ("qemu-user-static", "qemu-aarch64-static")]
            }
        }
    }

    /// Installs the standard library, the linker and the emulator, unless they are there.
    pub(crate) fn install(self) -> Result<(), Failure> {
        let installed = Command::new("rustup").args(["target", "list", "--installed"]).current_dir(root()).output();
        let installed = installed.map_err(|e| format!("rustup is needed for the target {}: {e}", self.triple()))?;
        if !String::from_utf8_lossy(&installed.stdout).lines().any(|line| line == self.triple()) {
            step(Command::new("rustup").args(["target", "add", self.triple()]).current_dir(root()))?;
        }
        let is_there = |program: &str| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let missing: Vec<&str> =
            self.packages().into_iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| package).collect();
        if missing.is_empty() {
            return Ok(());
        }
        say!("installing Debian's packages: {}", missing.join(" "));
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(&missing);
        step(install.env("DEBIAN_FRONTEND", "noninteractive")).map_err(|failure| {
            format!("{failure}\ninstall these packages of Debian's, then run this again: {}", missing.join(" ")).into()
        })
    }

    /// Cargo's arguments that build what all runs need.
    pub(crate) fn build(self) -> Vec<&'static str> {
        let mut arguments = self.cargo();
        arguments.extend(["--lib", "--test", "gemm", "--test", "language", "--test", "te", "--no-run"]);
        arguments
    }

    /// The runs. Instructions that a CPU may lack are used by products only, so one CPU does the rest.
    pub(crate) fn runs(self) -> Vec<Run> {
        let of = |cpu, what, words: &[&'static str]| {
            let mut arguments = self.cargo();
            arguments.extend(["--no-fail-fast"]);
            arguments.extend(words);
            Run { cpu, what, arguments }
        };
        // A limit of the process's memory is the emulator's, too, so the tests of little memory don't run.
        let library = ["--lib", "--", "--skip", "exhaustion::"];
        let products = ["--lib", "--", "gemm::cpu::", "simd::", "lane::"];
        // Long lists of convolutions take an hour there; random ones are tried instead.
        let integration = ["--test", "gemm", "--test", "language", "--", "cpu", "--skip", "cases_on_the_cpu"];
        let expressions = ["--test", "te"];
        match self {
            Self::Aarch64 => vec![
                of("max", "all extensions", &library),
                of("max", "all extensions", &integration),
                of("max", "all extensions", &expressions),
                of("neoverse-n1", "dot products", &products),
                of("cortex-a53", "no extensions", &products),
            ],
        }
    }

    /// Checks the machine code of the library: its product of f32s has 24 multiply-adds in at most 30 instructions, without
    /// the stack.
    pub(crate) fn check_code(self) -> Result<(), Failure> {
        let Self::Aarch64 = self;
        // The disassembler takes the place of the emulator: cargo runs it with the program.
        let mut command = cargo(&self.cargo());
        command.args(["--lib", "--quiet"]).envs(self.environment("max"));
        command.env(self.variable("RUNNER"), "aarch64-linux-gnu-objdump --disassemble --no-show-raw-insn");
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the disassembler has no output")?;
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let dense: Vec<_> = loops(lines, "fmla", 400).into_iter().filter(|found| found.counted >= 24).collect();
        if !child.wait()?.success() {
            return Err("the library could not be disassembled".into());
        }
        let best = dense.iter().filter(|found| !found.spills && 24 * found.instructions <= 30 * found.counted);
        let Some(MachineLoop { start, instructions, counted, .. }) = best.max_by_key(|found| found.counted) else {
            return Err(format!("no loop has 24 fmla in 30 instructions; there are {dense:?}").into());
        };
        say!("the product of f32s: {counted} fmla in {instructions} instructions, at {start:#x}");
        Ok(())
    }

    /// A variable of cargo's for the target.
    fn variable(self, name: &str) -> String {
        format!("CARGO_TARGET_{}_{name}", self.triple().to_uppercase().replace('-', "_"))
    }

    /// Tests of the library for the target. Dependencies are not optimised: compiling would take longer than the tests gain.
    fn cargo(self) -> Vec<&'static str> {
        let words = ["test", "--package", "epilogue", "--target", self.triple(), "--features", "te"];
        let unoptimised = ["--config", "profile.dev.package.ptx-vm.opt-level=0"];
        words.into_iter().chain(unoptimised).collect()
    }

    /// The environment in which cargo builds for the target, and runs programs on a CPU of the emulator.
    pub(crate) fn environment(self, cpu: &str) -> Vec<(String, OsString)> {
        let [(_, linker), (_, emulator)] = self.packages();
        vec![
            (self.variable("LINKER"), linker.into()),
            (self.variable("RUNNER"), format!("{emulator} -cpu {cpu} -L /usr/aarch64-linux-gnu").into()),
            // NVIDIA's libraries for the computer that builds are none for the target.
            ("EPILOGUE_TOOLS".into(), root().join("target/no-tools").into_os_string()),
        ]
    }
}

fn step(command: &mut Command) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} failed ({status})").into()),
        Err(error) => Err(format!("{command:?}: {error}").into()),
    }
}
