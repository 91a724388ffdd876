//! The worked examples: each has the finding that its head describes, and none once it is mended.

#![allow(clippy::unwrap_used)]

use ptx_vm::race::{Finding, RaceCause};
use ptx_vm::{Arch, Argument, Detector, Launch, LaunchError, LaunchFailure, Machine, Module, Options, Report};

/// An argument of an example.
enum Given {
    /// A buffer of this many zero bytes.
    Zeros(u64),
    U32(u32),
    U64(u64),
}

/// Runs the first kernel of a text.
fn run(text: &str, options: Options, launch: &Launch, given: &[Given]) -> Result<Report, LaunchFailure> {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let name = module.kernels().next().unwrap().name().to_owned();
    let machine = Machine::new(options.detector(Detector::On));
    let arguments = given.iter().map(|given| match *given {
        Given::U32(value) => Argument::U32(value),
        Given::U64(value) => Argument::U64(value),
        Given::Zeros(bytes) => {
            let buffer = machine.allocate(bytes, "buffer").unwrap();
            machine.fill(buffer, bytes, 0).unwrap();
            Argument::Address(buffer)
        }
    });
    let arguments: Vec<_> = arguments.collect();
    machine.launch(&module, &name, launch, &arguments)
}

fn races(text: &str, arch: Arch, launch: &Launch, given: &[Given]) -> Vec<Finding> {
    run(text, Options::default().arch(arch), launch, given).unwrap_or_else(|error| panic!("{error}")).races
}

/// The text with the line that mends it, and without those that it replaces.
fn mended(text: &str, replaced: &[&str]) -> String {
    let kept = |line: &&str| !replaced.iter().any(|part| line.contains(part));
    text.lines().filter(kept).map(|line| line.replace("// FIX: ", "") + "\n").collect()
}

fn causes(findings: &[Finding]) -> Vec<RaceCause> {
    let cause = |finding: &Finding| match finding {
        Finding::Race(race) => Some(race.cause),
        Finding::Fault { .. } => None,
    };
    findings.iter().filter_map(cause).collect()
}

#[test]
fn of_triton() {
    let text = include_str!("../examples/triton_row_sums.ptx");
    let launch = Launch::new([4, 1, 1], [128, 1, 1]).shared_bytes(16);
    let given = [Given::Zeros(8192), Given::Zeros(16), Given::U64(0), Given::U64(0)];
    // Depending on which warp runs first, the sums are not there yet, or they are and nothing orders them.
    let options = Options::default().arch(Arch::Sm90a);
    let early = run(text, options.clone(), &launch, &given).unwrap_err();
    assert!(matches!(early.error, LaunchError::Uninitialised { .. }) && early.to_string().contains("row_sums.py:9"));
    let found = run(text, options.memory_checks(false), &launch, &given).unwrap().races;
    assert!(causes(&found).contains(&RaceCause::Unordered), "{found:?}");
    assert!(found[0].to_string().contains("row_sums.py:9"), "{}", found[0]);
    assert_eq!(races(&mended(text, &[]), Arch::Sm90a, &launch, &given), []);
}

#[test]
fn of_cutlass() {
    let text = include_str!("../examples/cutlass_mma_pipeline.ptx");
    let launch = Launch::new([1, 1, 1], [32, 1, 1]).shared_bytes(1536);
    let given = [Given::Zeros(2048), Given::Zeros(1024), Given::Zeros(512), Given::U32(4)];
    let found = causes(&races(text, Arch::Sm80, &launch, &given));
    assert!(!found.is_empty() && found.iter().all(|&cause| cause == RaceCause::NotWaited), "{found:?}");
    assert_eq!(races(&mended(text, &[]), Arch::Sm80, &launch, &given), []);
}

#[test]
fn of_rustc() {
    let text = include_str!("../examples/rust_histogram.ptx");
    let launch = Launch::new([2, 1, 1], [64, 1, 1]);
    let given = [Given::Zeros(512), Given::U64(128), Given::Zeros(1024), Given::U64(256)];
    assert!(!races(text, Arch::Sm80, &launch, &given).is_empty());
    let replaced = ["ld.global.b32 \t%r5", "add.s32 \t%r6", "st.global.b32 \t[%rd12]"];
    assert_eq!(races(&mended(text, &replaced), Arch::Sm80, &launch, &given), []);
}
