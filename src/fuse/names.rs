//! The names of an epilogue that a program makes.
//!
//! Trees take names that live as long as the program, as those of source text do. Names that count what they name are
//! enough, because a listing has the user's: so no expression leaves a name behind, and regions that compute the same
//! have equal trees, whatever their tensors are called. Equal trees share a plan and a compiled kernel.

use crate::evt::MAX_ACCUMULATORS;

/// The name of every epilogue.
pub(super) const TREE: &str = "fused";
/// Where it was written.
pub(super) const FILE: &str = "tensor expression";

/// The product with this number.
pub(super) fn accumulator(number: usize) -> Option<&'static str> {
    ACCUMULATORS.get(number).copied()
}

/// The name of the parameter with this number.
pub(super) fn parameter(number: usize) -> Option<&'static str> {
    PARAMETERS.get(number).copied()
}

/// The name of the output with this number.
pub(super) fn output(number: usize) -> Option<&'static str> {
    OUTPUTS.get(number).copied()
}

const ACCUMULATORS: [&str; MAX_ACCUMULATORS] = ["accum", "accum1", "accum2", "accum3"];

const PARAMETERS: [&str; 32] = [
    "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15", "p16", "p17",
    "p18", "p19", "p20", "p21", "p22", "p23", "p24", "p25", "p26", "p27", "p28", "p29", "p30", "p31",
];

const OUTPUTS: [&str; 16] =
    ["d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15"];
