//! The text of a kernel.

use super::key::{COMMON, ToyKey};
use crate::device;
use crate::evt::Computation;
use crate::expr::cuda::element_name;
use crate::gemm::emit::arguments::FamilyHeaders;
use crate::gemm::emit::rows::RowVisitor;
use crate::gemm::emit::text::{Emitted, KernelText};
use crate::gemm::kernel::ArgumentViews;

/// Writes a kernel.
pub(super) fn emit(of: &Computation<'_>, (key, views): (&ToyKey, ArgumentViews), symbol: &str) -> Emitted {
    let tree = of.tree;
    let mut kernel = KernelText::new(format!("{}.cu", tree.name()), of, key.fast_math, views);
    let comment = format!("GEMM by plain FMA with the epilogue `{}` ({}).", tree.name(), tree.file());
    let headers = FamilyHeaders::of(&["sm80/reduce.cuh", "sweep.cuh", "views.cuh"], &[&COMMON]);
    kernel.begin(&[&comment], &headers);
    kernel.code.verbatim(&device::with_fields(include_str!("gemm.cuh"), "", &|name| headers.fields(name)));
    let ((tile_m, tile_n), (warp_m, warp_n)) = (ToyKey::TILE, ToyKey::WARP);
    writeln! { kernel.code, "
        struct Config {{
            using A = {element};
            using B = {element};
            using Accumulator = {accumulator};
            static constexpr int TILE_M = {tile_m}, TILE_N = {tile_n};
            static constexpr int ACCUMULATORS = {accumulators};
            static constexpr int WARP_M = {warp_m}, WARP_N = {warp_n};
            static constexpr sm80::SplitK SPLIT_K = sm80::SplitK::None;
            static constexpr int VECTOR = {vector};
        }};",
        element = key.element.name(),
        accumulator = element_name(tree.types().accumulator),
        accumulators = key.accumulators,
        vector = ToyKey::VECTOR
    }
    kernel.definitions();
    let size = COMMON.bytes(key.accumulators);
    kernel.parameters("toy::Common<Config> common;", &format!("sizeof(toy::Common<Config>) == {size}"));
    RowVisitor::write(&mut kernel.code, "toy", &kernel.epilogue, kernel.tail.as_ref(), false);
    kernel.finish(symbol, &ToyKey::THREADS.to_string(), "toy::gemm<epilogue::Config, epilogue::Visitor>")
}
