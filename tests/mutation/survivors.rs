//! The mutants that nothing shows to be wrong, and why they are not.

use epilogue_runtime::ptx_vm::mutate::Operator;

/// Mutants of one kind at one place.
pub(crate) struct Survivor {
    pub(crate) operator: Operator,
    /// Part of the name of the kernels; empty for all.
    pub(crate) kernels: &'static str,
    /// How the mutated instruction begins.
    pub(crate) instruction: &'static str,
    /// Part of a line of CUDA C++ that it comes from, or of one that calls that; empty for anywhere.
    pub(crate) place: &'static str,
    /// Why the mutant is as right as the kernel.
    pub(crate) reason: &'static str,
}

const NUMBER: &str =
    "all threads of the block execute this very barrier, and none else has a number: any number will do";
const EMPTY: &str = "the main loop has waited for every group that has copies: only empty ones are left";
const RESET: &str =
    "sets the counter to 0 for the next launch, which this one's end orders; nobody reads it in this one";
const TWICE: &str = "with split-K the block meets at another barrier before the epilogue writes over the stages";

const fn survivor(
    operator: Operator,
    kernels: &'static str,
    instruction: &'static str,
    place: &'static str,
    reason: &'static str,
) -> Survivor {
    Survivor { operator, kernels, instruction, place, reason }
}

/// All that are known.
pub(crate) const SURVIVORS: &[Survivor] = &[
    survivor(Operator::BarrierId, "", "bar.sync 0;", "", NUMBER),
    survivor(Operator::DropWait, "", "cp.async.wait_group 0;", "the groups left are empty", EMPTY),
    survivor(Operator::LooserWait, "", "cp.async.wait_group 0;", "the groups left are empty", EMPTY),
    survivor(Operator::Early, "", "bar.sync 0;", "everyone has read the last stage", EMPTY),
    survivor(Operator::DropBarrier, "Serial", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::DropBarrier, "Parallel", "bar.sync 0;", "everyone has read the last stage", TWICE),
    survivor(Operator::WeakerOrder, "", "st.release.gpu.global", "store_release(counter, 0)", RESET),
    survivor(Operator::NarrowerScope, "", "st.release.gpu.global", "store_release(counter, 0)", RESET),
];
