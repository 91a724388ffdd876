//! Runs every case on the machine, and tests the set of cases itself.

use std::collections::HashSet;

use ptx_vm::{Arithmetic, Completion, Detector, Generation, Options};
use ptx_vm_conformance::{Case, cases, covered, run, uncovered};

/// Runs cases with several seeds, and reports all that fail, not only the first.
fn pass(seeds: &[u64], options: &Options, chosen: impl Fn(&Case) -> bool) {
    let mut failures = Vec::new();
    let mut count = 0;
    for case in cases::all().iter().filter(|case| chosen(case)) {
        count += 1;
        for seed in seeds {
            if let Err(failure) = run::run(case, *seed, options.clone()) {
                failures.push(failure.to_string());
                break;
            }
        }
    }
    assert!(count > 0, "no case was chosen");
    let list = failures.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {count} cases fail:\n{list}", failures.len());
}

#[test]
fn every_case_passes() {
    pass(&[2, 3], &Options::default().workers(1), |_| true);
}

/// Several workers, and asynchronous work that completes late or at random: the same results.
#[test]
fn parallel_and_late_completion_change_nothing() {
    let asynchronous = |case: &Case| case.covers.iter().any(|o| o.contains("async") || o.contains("mbarrier"));
    for completion in [Completion::Eager, Completion::Lazy, Completion::Random] {
        pass(&[4], &Options::default().workers(2).completion(completion), asynchronous);
    }
    pass(&[5], &Options::default().workers(2), |case| case.blocks > 1 && !asynchronous(case));
}

/// All kernels are correct, so the race detector must report nothing.
#[test]
fn the_detector_is_silent() {
    pass(&[2], &Options::default().workers(1).detector(Detector::On), |_| true);
}

/// On small integers, which even seeds give, the bit models must be exact too.
#[test]
fn bit_models_agree_on_exact_products() {
    for generation in [Generation::Ampere, Generation::Ada, Generation::Hopper, Generation::BlackwellRtx] {
        let options = Options::default().workers(1).arithmetic(Arithmetic::Exact(generation));
        pass(&[6], &options, |case| {
            let product = case.name.starts_with("mma.") || case.name.starts_with("wgmma.");
            let of = |types: &[&str]| types.iter().any(|ty| case.name.contains(ty));
            let modelled = match generation {
                Generation::Ampere => !case.name.starts_with("wgmma.") && !of(&["e4m3", "e5m2", "f8f6f4", "mxf4"]),
                Generation::BlackwellRtx => !case.name.starts_with("wgmma."),
                _ => !of(&["f8f6f4", "mxf4"]),
            };
            product && modelled
        });
    }
}

/// The model of `tcgen05.mma`, likewise; it has no other.
#[test]
fn the_bit_model_of_tensor_memory_agrees_on_exact_products() {
    let options = Options::default().workers(1).arithmetic(Arithmetic::Exact(Generation::Blackwell));
    pass(&[6], &options, |case| case.name.starts_with("tcgen05.mma"));
}

#[test]
fn names_are_unique_and_covers_are_true() {
    let mut names = HashSet::new();
    for case in cases::all() {
        assert!(names.insert(case.name.clone()), "two cases are named {}", case.name);
        let mut opcodes: HashSet<&str> = HashSet::new();
        for line in case.module.lines() {
            // An opcode follows a guard, if there is one; several may stand on a line.
            for statement in line.split(';') {
                let words = statement.split_whitespace().filter(|w| !w.starts_with('@') && !w.ends_with(':'));
                opcodes.extend(words.take(1));
            }
        }
        for opcode in &case.covers {
            assert!(opcodes.contains(opcode.as_str()), "{} has no {opcode}", case.name);
        }
    }
}

#[test]
fn coverage_is_by_full_opcode() {
    assert!(covered().len() > 900);
    assert_eq!(uncovered(["add.s32", "add.s31", "ld.param.u64"]), ["add.s31"]);
}

/// A machine that computes something else must not pass: each result, changed in one bit, is a mismatch.
#[test]
fn comparisons_notice_a_wrong_bit() {
    for case in cases::all() {
        let input = case.input(2);
        let expected = case.expected(&input);
        assert_eq!(expected.len(), case.output_bytes, "{}", case.name);
        assert!(case.check(&input, &expected).is_ok(), "{}", case.name);
        let mut changed = expected;
        // The sign of each slot's lowest 16 bits, which no comparison ignores for all slots.
        for slot in changed.chunks_mut(8) {
            slot[1] ^= 0x80;
            slot[slot.len() / 2 - 1] ^= 0x40;
        }
        assert!(case.check(&input, &changed).is_err(), "{} accepts anything", case.name);
    }
}
