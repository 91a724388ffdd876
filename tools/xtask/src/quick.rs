//! `cargo xtask test --quick`: a sample of the tests for minutes in which one changes something, not for a commit.
//!
//! It builds one package, with few features, without optimisation: what a person waits for is the build.

use crate::counts::Counts;
use crate::parts::Parts;
use crate::say::say;
use crate::suite::{self, Options};
use crate::tools;
use crate::workspace::Failure;

/// The build of every part.
const BUILD: &str = "test --package epilogue --no-default-features --features te,emulated --no-fail-fast \
                     --config profile.dev.opt-level=0 --config profile.dev.package.ptx-vm.opt-level=1";

/// The parts, and which tests they are.
const PARTS: [(&str, &str); 3] = [
    ("the language, and tensor expressions in the interpreter", "--test language --test te"),
    ("products on the CPU, and on an emulated GPU with races", "--test gemm -- on_the_cpu emulated::without_races"),
    ("the guide's first pages", "--doc -- guide::first_product guide::cookbook"),
];

/// The tests that no part has.
const LEFT_OUT: &str = "left out: kernels for sm_90a, most of those for sm_80, plans for GPUs, bundles, graphs; automatic \
                        kernels and code by Cranelift; unit tests; the mutation, tile and fuzz programs; ptx-vm's own tests; the \
                        macros' messages; the command, the examples and the other pages of the guide";

/// Random cases are this part of those of the whole suite.
const FEWER: f64 = 0.25;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let mut parts = Parts::begin("quick", "about 5 minutes on two cores, most of it the first build");
    let fewer = options.with_fewer_cases(FEWER);
    let packages = parts.time("tools", tools::install_pinned)?;
    let library = tools::nvrtc_in(&packages)?;
    let mut counts = Counts::default();
    for (name, tests) in PARTS {
        let words: Vec<&str> = BUILD.split_whitespace().chain(tests.split_whitespace()).collect();
        counts.add(parts.time(name, || suite::cargo(&words, &library, &fewer))?, "");
    }
    parts.end()?;
    say!("{} of about {} tests passed", counts.total(), Counts::known()?);
    say!("{LEFT_OUT}: `cargo xtask test` runs them");
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::workspace::root;

    /// A filter that fits nothing would pass.
    #[test]
    fn every_filter_names_something() {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file");
        let names = |path: &str, name: &str| read(path).contains(name);
        assert!(names("tests/gemm/main.rs", "mod on_the_cpu") && names("tests/gemm/main.rs", "fn without_races"));
        assert!(root().join("src/guide/first_product.rs").exists() && names("src/guide/mod.rs", "mod cookbook"));
    }
}
