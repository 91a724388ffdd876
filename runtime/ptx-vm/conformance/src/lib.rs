//! Conformance tests for every PTX instruction that this project uses, as data: for each instruction, shape and type a
//! micro-kernel, inputs made from a seed, an independent oracle, and a comparison.
//!
//! [`cases::all`] gives the set. [`run`] runs it on [`ptx_vm::Machine`]. Any [`device::Device`] takes these PTX texts,
//! inputs and comparisons. [`record`] keeps the results of a device, so that they can be replayed without it.
//! [`covered`] lists the instruction forms that the set tests, so that a test can assert that it covers every
//! instruction of a kernel.
//!
//! Oracles never call the crate under test. Nothing here knows the project's kernels.

pub mod case;
pub mod cases;
pub mod device;
pub mod elementwise;
pub mod images;
pub mod oracle;
pub mod record;
pub mod run;
pub mod straight_line;
pub mod template;
pub mod tensor;
pub mod values;

use std::collections::BTreeSet;

pub use case::{Case, Compare, Mismatch};

/// The full opcodes that the conformance cases test.
pub fn covered() -> BTreeSet<String> {
    let scaffold = template::SCAFFOLD.iter().map(|opcode| (*opcode).to_string());
    cases::all().into_iter().flat_map(|case| case.covers).chain(scaffold).collect()
}

/// The opcodes among `opcodes` that no conformance case tests.
pub fn uncovered<'a>(opcodes: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let covered = covered();
    opcodes.into_iter().filter(|opcode| !covered.contains(*opcode)).collect()
}
