//! Writes the kernels for sm_90a.
//!
//! As for sm_80, the configuration, the arguments' struct, the function of one element, the visitor and the entry are
//! generated; and also the product instruction, whose list of registers depends on the tile's width.

mod configuration;
mod inputs;
mod visitor;
mod wgmma;

use self::visitor::VisitorText;
use super::text::{Emitted, KernelText};
use crate::evt::ValidTree;
use crate::gemm::kernel::sm90::{COMMON_BYTES, PARAMETER_ALIGNMENT, SharedMap, Sm90Key, Traffic};

/// Writes a kernel.
pub(crate) fn emit(trees: (&ValidTree, Option<&ValidTree>), (key, digits): (&Sm90Key, u64), symbol: &str) -> Emitted {
    let tree = trees.0;
    let traffic = Traffic::of(tree, key.direct);
    let mut kernel = KernelText::new(format!("{}.cu", tree.name()), trees, key.fast_math, digits);
    let (name, file) = (tree.name(), tree.file());
    kernel.begin(&format!("// GEMM with the epilogue `{name}` ({file}).\n// {key}."), "sm90/gemm.cuh");
    let rounds = key.epilogue_rounds(tree.cost(), &traffic);
    kernel.code.lines(&key.configuration(&SharedMap::of(key, &traffic), rounds));
    kernel.code.blank();
    wgmma::multiply(&mut kernel.code, key);
    kernel.definitions();
    let maps = traffic.maps().len();
    let of_tail = kernel.tail.as_ref().map_or(0, |tail| tail.epilogue.arguments.layout.size());
    let bytes = 128 * maps + COMMON_BYTES + kernel.epilogue.arguments.layout.size() + of_tail;
    let bytes = bytes.next_multiple_of(PARAMETER_ALIGNMENT);
    kernel.parameters(
        &format!("sm90::TensorMap maps[{maps}];\nsm90::Common common;"),
        &format!("sizeof(sm90::Common) == {COMMON_BYTES} && sizeof(Parameters) == {bytes}"),
    );
    VisitorText::write(&mut kernel.code, key, &traffic, &kernel.epilogue, kernel.tail.as_ref());
    let call = "sm90::Gemm<epilogue::Config, epilogue::Multiply, epilogue::Visitor, epilogue::Parameters>::run";
    kernel.finish(symbol, &format!("{}, 1", key.threads()), call)
}
