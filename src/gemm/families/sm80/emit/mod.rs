//! Writes the kernels for sm_80 and later.

pub(crate) mod later;

use crate::cuda::Writer;
use crate::evt::Computation;
use crate::gemm::emit::arguments::FamilyHeaders;
use crate::gemm::emit::needed;
use crate::gemm::emit::rows::RowVisitor;
use crate::gemm::emit::text::{Emitted, KernelText};
use crate::gemm::families::sm80::kernel::{Sm80Key, Tile};
use crate::gemm::kernel::{ArgumentViews, PatchKind, ReadingShape, SplitKind};
use crate::gemm::problem::{Divided, Major, OperandLayout};

/// The family in device code.
const NAMESPACE: &str = "sm80";

/// Writes a kernel.
pub(crate) fn emit(of: &Computation<'_>, (key, views): (&Sm80Key, ArgumentViews), symbol: &str) -> Emitted {
    let tree = of.tree;
    let mut kernel = KernelText::new(format!("{}.cu", tree.name()), of, key.fast_math, views);
    let (header, common, gemm) = match key.reading {
        ReadingShape::Rows | ReadingShape::Picked => ("sm80/gemm.cuh", "Common<Config>", "gemm"),
        ReadingShape::Groups(Divided::Rows) | ReadingShape::PickedGroups => {
            ("sm80/groups.cuh", "GroupCommon<Config>", "group_gemm")
        }
        ReadingShape::Groups(Divided::Depth) => ("sm80/groups.cuh", "GroupCommon<Config>", "depth_gemm"),
        ReadingShape::Patches(patches) => match patches.kind {
            PatchKind::Row => ("sm80/patches.cuh", "PatchCommon<Config>", "gemm"),
            PatchKind::Transposed => ("sm80/transposed_patches.cuh", "TransposedPatchCommon<Config>", "gemm"),
            PatchKind::Dilated => ("sm80/gradient_patches.cuh", "GradientPatchCommon<Config>", "gemm"),
        },
    };
    let (mut family, mut common) = (vec![header], format!("sm80::{common}"));
    if key.reading.is_picked() {
        family.push("sm80/picked.cuh");
        common = format!("sm80::PickedCommon<{common}>");
    }
    if key.formats.are_scaled() {
        family.push("sm80/scaled.cuh");
        common = format!("ScaledCommon<{common}, {}>", key.accumulators);
    }
    let (name, file, instruction, tile) = (tree.name(), tree.file(), key.instruction, key.tile);
    kernel.begin(
        &[&format!("GEMM with the epilogue `{name}` ({file})."), &format!("{instruction}; {tile}.")],
        &FamilyHeaders::of(&family),
    );
    configuration(&mut kernel.code, key);
    kernel.definitions();
    kernel.parameters(&format!("{common} common;"), &format!("sizeof({common}) == {}", key.common_bytes()));
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
