//! The text of the kernels of later phases.

use super::NAMESPACE;
use crate::evt::Computation;
use crate::expr::cuda::element_name;
use crate::gemm::emit::arguments::FamilyHeaders;
use crate::gemm::emit::rows::RowVisitor;
use crate::gemm::emit::text::{Emitted, KernelText};
use crate::gemm::families::sm80::kernel::structs::STRUCTS;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::kernel::later::{LATER_COMMON_BYTES, LaterKey};

/// Writes the kernel of a later phase, the `phase`th.
pub(crate) fn emit(
    of: &Computation<'_>,
    (key, views): (LaterKey, ArgumentViews),
    phase: usize,
    symbol: &str,
) -> Emitted {
    let tree = of.tree;
    let (name, file) = (tree.name(), tree.file());
    let mut kernel = KernelText::new(format!("{name}_phase_{phase}.cu"), of, key.fast_math, views);
    let comment = format!("Phase {phase} of the epilogue `{name}` ({file}), after its product.");
    kernel.begin(&[&comment], &FamilyHeaders::of(&["sm80/later.cuh"], STRUCTS));
    let ((tile_m, tile_n), (warp_m, warp_n)) = (LaterKey::TILE, key.warp());
    writeln! { kernel.code, "
        struct Config {{
            using Accumulator = {};
            static constexpr int TILE_M = {tile_m}, TILE_N = {tile_n};
            static constexpr int ACCUMULATORS = 1;
            static constexpr int WARP_M = {warp_m}, WARP_N = {warp_n};
            static constexpr sm80::SplitK SPLIT_K = sm80::SplitK::None;
            static constexpr int VECTOR = {};
        }};",
        element_name(tree.types().accumulator),
        key.vector()
    }
    kernel.definitions();
    kernel.parameters("sm80::LaterCommon common;", &format!("sizeof(sm80::LaterCommon) == {LATER_COMMON_BYTES}"));
    RowVisitor::write(&mut kernel.code, NAMESPACE, &kernel.epilogue, kernel.tail.as_ref(), false);
    let call = "sm80::later<epilogue::Config, epilogue::Visitor>";
    kernel.finish(symbol, &LaterKey::THREADS.to_string(), call)
}
