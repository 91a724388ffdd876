//! Writes the kernels for sm_80 and later.

pub(crate) mod later;

use crate::cuda::Writer;
use crate::evt::Computation;
use crate::gemm::emit::arguments::FamilyHeaders;
use crate::gemm::emit::needed;
use crate::gemm::emit::rows::RowVisitor;
use crate::gemm::emit::text::{Emitted, KernelText};
use crate::gemm::families::sm80::kernel::structs::STRUCTS;
use crate::gemm::families::sm80::kernel::{Sm80Key, Tile};
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::kernel::{ArgumentViews, SplitKind};
use crate::gemm::problem::{Divided, Major, OperandLayout};

/// The family in device code.
const NAMESPACE: &str = "sm80";

/// Writes a kernel.
pub(crate) fn emit(of: &Computation<'_>, (key, views): (&Sm80Key, ArgumentViews), symbol: &str) -> Emitted {
    let tree = of.tree;
    let mut kernel = KernelText::new(format!("{}.cu", tree.name()), of, key.fast_math, views);
    let parts = key.parts();
    let common = Part::cuda(&parts, key.accumulators);
    let gemm = match key.reading.divided() {
        None => "gemm",
        Some(Divided::Rows) => "group_gemm",
        Some(Divided::Depth) => "depth_gemm",
    };
    let (name, file, instruction, tile) = (tree.name(), tree.file(), key.instruction, key.tile);
    let headers: Vec<_> = parts.iter().map(|part| part.header).chain(instruction.header()).collect();
    kernel.begin(
        &[&format!("GEMM with the epilogue `{name}` ({file})."), &format!("{instruction}; {tile}.")],
        &FamilyHeaders::of(&headers, STRUCTS),
    );
    configuration(&mut kernel.code, key);
    kernel.definitions();
    kernel.parameters(
        &format!("{common} common;"),
        &format!("sizeof({common}) == {}", Part::bytes(&parts, key.accumulators)),
    );
    if key.reading.divided() != Some(Divided::Depth) {
        needed::specialisation(&mut kernel.code, tree);
    }
    let of_rows = key.reading.divides_rows();
    RowVisitor::write(&mut kernel.code, NAMESPACE, &kernel.epilogue, kernel.tail.as_ref(), of_rows);
    let over_groups = match tree.reductions().any(|(.., reduction)| reduction.batch) {
        _ if !of_rows => "",
        true => ", true",
        false => ", false",
    };
    let call = format!("sm80::{gemm}<epilogue::Config, epilogue::Visitor{over_groups}>");
    let mut emitted = kernel.finish(symbol, &format!("{}, 1", key.tile.threads()), &call);
    emitted.source.sites.extend(key.reading.sites());
    emitted
}

fn configuration(code: &mut Writer, key: &Sm80Key) {
    let Tile { m, n, k, warp_m, warp_n, stages } = key.tile;
    let major = |layout: OperandLayout| match layout.major {
        Major::K => "K",
        Major::Mn => "MN",
    };
    let split_k = match key.split_k {
        SplitKind::None => "None",
        SplitKind::Serial => "Serial",
        SplitKind::Parallel => "Parallel",
        SplitKind::Stream => "Stream",
    };
    writeln! { code, "
        struct Config {{
            using A = {a_element};
            using B = {b_element};
            static constexpr sm80::Arithmetic ARITHMETIC = sm80::Arithmetic::{arithmetic};
            static constexpr int TILE_M = {m}, TILE_N = {n}, TILE_K = {k};
            static constexpr int ACCUMULATORS = {accumulators};
            static constexpr int WARP_M = {warp_m}, WARP_N = {warp_n};
            static constexpr int STAGES = {stages};
            static constexpr sm80::Major A_MAJOR = sm80::Major::{a_major}, B_MAJOR = sm80::Major::{b_major};
            static constexpr int A_COPY = {a_copy}, B_COPY = {b_copy};
            static constexpr sm80::SplitK SPLIT_K = sm80::SplitK::{split_k};
            static constexpr int VECTOR = {vector}, EPILOGUE_PASSES = {passes};
        }};
        static_assert(sm80::SHARED_BYTES<Config> == {shared}, \"as the host asks for\");",
        a_element = key.instruction.elements().0.name(),
        b_element = key.instruction.elements().1.name(),
        arithmetic = key.instruction.cuda_name(),
        a_major = major(key.a),
        b_major = major(key.b),
        a_copy = key.a.copy_bytes,
        b_copy = key.b.copy_bytes,
        accumulators = key.accumulators,
        vector = key.vector,
        passes = key.epilogue_passes,
        shared = key.tile.shared_bytes(key.instruction)
    }
}
