//! Machine code gives the bits of the steps that it is made of.

use epilogue_runtime::testing;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::super::machine::{COMPILED, FORCED};
use super::property::{Case, Setup, case};
#[cfg(target_arch = "x86_64")]
use crate::jit::NARROW;

/// Runs something with or without machine code.
fn with<T>(machine: bool, run: impl FnOnce() -> T) -> T {
    FORCED.set(Some(machine));
    let result = run();
    FORCED.set(None);
    result
}

fn check(case: Case) -> Result<(), TestCaseError> {
    let setup = Setup::of(&case.of_floats())?;
    let (steps, machine) = (with(false, || setup.run())?, with(true, || setup.run())?);
    for ((output, steps), machine) in setup.tree.outputs().iter().zip(&steps).zip(&machine) {
        for (place, (want, got)) in steps.iter().zip(machine).enumerate() {
            // Which NaN it is doesn't count.
            let same = want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan());
            prop_assert!(same, "{} {place}: {want:e} by steps, {got:e} by code\n{:?}", output.name, setup.tree);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_epilogues_have_the_same_bits(case in case()) {
        check(case)?;
    }
}

#[cfg(target_arch = "x86_64")]
proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_epilogues_have_the_same_bits_in_vectors_of_256_bits(case in case()) {
        NARROW.set(true);
        let result = check(case);
        NARROW.set(false);
        result?;
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn most_random_epilogues_are_compiled() {
    if crate::jit::Kernel::compile(&crate::jit::Body::default()).is_none() {
        return;
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut compiled, count) = (0, 200);
    for _ in 0..count {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let before = COMPILED.get();
        check(case).expect("the same bits");
        compiled += usize::from(COMPILED.get() > before);
    }
    assert!(compiled > count / 2, "only {compiled} of {count}");
}
