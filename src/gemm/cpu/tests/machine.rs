//! Machine code gives the bits of the steps that it is made of.

use std::sync::Arc;

use epilogue_runtime::{Device, testing};
use proptest::prelude::*;
#[cfg(target_arch = "x86_64")]
use proptest::strategy::ValueTree as _;

use super::super::machine::Machine;
use super::super::programs::Typed;
use super::super::{Operands, Programs, TileShape, execute};
use super::property::{Case, Setup, case};
use super::{tensor, values};
use crate::evt::{Axis, BroadcastClass, Form, Phases, Prices, ReduceOp, Reduction, TreeBuilder, Types};
use crate::expr::Op;
use crate::sync::lock;
use crate::tuning::{MachineCode, Stores, Tuning, Vectors};
use crate::{Argument, ElementType};

const STEPS: Tuning = Tuning { code: MachineCode::Never, vectors: Vectors::Longest, stores: Stores::BySize };
const CODE: Tuning = Tuning { code: MachineCode::Always, ..STEPS };

/// The machine code of the last run: that of each part with some.
fn code_of(programs: &Programs) -> Vec<Arc<Machine>> {
    let Some(last) = lock(&programs.last).clone() else { return Vec::new() };
    let found: Vec<_> = match &last.program {
        Typed::F32(parts) => parts.iter().filter_map(|part| part.machines.find(Option::is_some)).collect(),
        Typed::F64(parts) => parts.iter().filter_map(|part| part.machines.find(Option::is_some)).collect(),
    };
    found.iter().filter_map(|made| made.as_ref().clone()).collect()
}

/// Compares steps with code of some tuning. Gives whether there was code.
fn check(case: Case, tuning: Tuning) -> Result<bool, TestCaseError> {
    let setup = Setup::of(&case.of_floats())?;
    let (by_steps, by_code) = (Programs::new(STEPS), Programs::new(tuning));
    let (steps, machine) = (setup.run(&by_steps)?, setup.run(&by_code)?);
    prop_assert!(code_of(&by_steps).is_empty());
    for ((output, steps), machine) in setup.tree.outputs().iter().zip(&steps).zip(&machine) {
        for (place, (want, got)) in steps.iter().zip(machine).enumerate() {
            // Which NaN it is doesn't count.
            let same = want.to_bits() == got.to_bits() || (want.is_nan() && got.is_nan());
            prop_assert!(same, "{} {place}: {want:e} by steps, {got:e} by code\n{:?}", output.name, setup.tree);
        }
    }
    Ok(!code_of(&by_code).is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_epilogues_have_the_same_bits(case in case()) {
        check(case, CODE)?;
    }
}

#[cfg(target_arch = "x86_64")]
proptest! {
    #![proptest_config(ProptestConfig { cases: testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_epilogues_have_the_same_bits_in_vectors_of_256_bits(case in case()) {
        check(case, CODE.vectors(Vectors::Shortest))?;
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
            let programs = Programs::new(CODE.stores(if far { Stores::PastCaches } else { Stores::Cached }));
            let tile = TileShape { m: 32, n: 64 };
            execute(&programs, &phases, Operands::of(&a, &[&b]), None, &arguments, tile).expect("a run");
            let is_past = code_of(&programs).iter().any(|code| format!("{code:?}").contains("past: true"));
            (is_past, [d, shifted].map(|output| output.to_bytes().expect("bytes")))
        };
        let ((is_past, far), (is_near_past, near)) = (run(true), run(false));
        let has_code = crate::jit::has_code();
        assert_eq!(is_past, is_aligned && has_code, "{n} columns");
        assert!(!is_near_past, "{n} columns");
        assert!(far == near, "{n} columns");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn most_random_epilogues_are_compiled() {
    if !crate::jit::has_code() {
        return;
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut compiled, count) = (0, 200);
    for _ in 0..count {
        let case = case().new_tree(&mut runner).expect("a case").current();
        compiled += usize::from(check(case, CODE).expect("the same bits"));
    }
    assert!(compiled > count / 2, "only {compiled} of {count}");
}
