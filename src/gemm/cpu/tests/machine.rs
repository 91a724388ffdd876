//! Machine code gives the bits of the steps that it is made of.

use epilogue_runtime::{Device, testing};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::super::machine::{COMPILED, FAR, FORCED, PAST};
use super::super::{Operands, Programs, TileShape, execute};
use super::property::{Case, Setup, case};
use super::{tensor, values};
use crate::evt::{Axis, BroadcastClass, Form, Phases, Prices, ReduceOp, Reduction, TreeBuilder, Types};
use crate::expr::Op;
#[cfg(target_arch = "x86_64")]
use crate::jit::NARROW;
use crate::{Argument, ElementType};

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

/// Softmax and a matrix of bf16s, in tiles that are wider than what is left for the last.
#[test]
fn what_is_written_past_the_caches_is_there() {
    let device = Device::cpu();
    let mut b = TreeBuilder::new("softmax", file!());
    let accum = b.accum("accum");
    let of_row = |op| Reduction { axis: Axis::Row, batch: false, op, form: Form::Complete };
    let largest = b.reduce(of_row(ReduceOp::Max), accum);
    let shifted = b.apply(Op::Sub, &[accum, largest]);
    let e = b.apply(Op::Exp, &[shifted]);
    let sum = b.reduce(of_row(ReduceOp::Add), e);
    let d = b.apply(Op::Div, &[e, sum]);
    b.output("d", d, BroadcastClass::Tensor, None);
    b.output("shifted", shifted, BroadcastClass::Tensor, Some(ElementType::BF16));
    let tree = b.finish().validate(Types::new(ElementType::F32, ElementType::F32)).expect("a valid tree");
    let phases = Phases::of(tree, Prices::CPU);
    let (m, k) = (70, 9);
    let a = tensor(&values(m * k, 1), &[m, k], |x| x);
    // Rows begin at cache lines but in the last two.
    for (n, is_aligned) in [(64, true), (160, true), (2144, true), (100, false), (33, false)] {
        let b = tensor(&values(k * n, 2), &[k, n], |x| x * 0.3);
        let run = |far: bool| {
            let [mut d, mut shifted] =
                [ElementType::F32, ElementType::BF16].map(|element| device.zeros_of(element, [m, n]).expect("memory"));
            let arguments = [Argument::Output(&mut d), Argument::Output(&mut shifted)];
            let programs = Programs::default();
            FAR.set(far);
            let before = PAST.get();
            with(true, || {
                let tile = TileShape { m: 32, n: 64 };
                execute(&programs, &phases, Operands::of(&a, &[&b]), None, &arguments, tile).expect("a run");
            });
            FAR.set(false);
            let is_past = PAST.get() > before;
            (is_past, [d, shifted].map(|output| output.to_bytes().expect("bytes")))
        };
        let ((is_past, far), (_, near)) = (run(true), run(false));
        let has_code = crate::jit::Kernel::compile(&crate::jit::Body::default()).is_some();
        assert_eq!(is_past, is_aligned && has_code, "{n} columns");
        assert!(far == near, "{n} columns");
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
