//! What every PTX instruction that this project uses must compute, as data: one micro-kernel for each instruction, shape
//! and type, inputs from a seed, an independent oracle, and how outputs are compared.
//!
//! [`cases::all`] gives the set. [`run`] runs it on [`ptx_vm::Machine`]; the same PTX, inputs and comparisons serve on
//! any [`device::Device`], and [`record`] keeps what a device gave, to be replayed where there is none. [`covered`]
//! lists the instruction forms that the set tests, so that a test can assert that every instruction a kernel contains
//! is among them.
//!
//! Oracles never call the crate under test. Nothing here knows the project's kernels.

pub mod case;
pub mod cases;
pub mod device;
pub mod elementwise;
pub mod oracle;
pub mod record;
pub mod run;
pub mod straight_line;
pub mod template;
pub mod tensor;
pub mod values;

use std::collections::BTreeSet;

pub use case::{Case, Compare, Mismatch, Target};

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
