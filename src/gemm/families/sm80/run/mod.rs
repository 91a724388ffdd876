//! Launches of this family: shape, parameter, and the kernel that a run seeks.

pub(crate) mod patches;
pub(crate) mod wanted;

use epilogue_runtime::{Device, Kernel, Launch};

use self::patches::{put_divisors, put_patches};
use super::kernel::{OPERAND_BYTES, PARAMETER_ALIGNMENT, PATCHES_BYTES, Sm80Key};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameters::{ParameterBytes, ROW_INDEX_BYTES, scales_bytes};
use crate::gemm::kernel::stream::Stream as Line;
use crate::gemm::kernel::{PatchKind, SplitKind};
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::{Error, OperandView};
use crate::gemm::run::fill::{put_groups, put_index};
use crate::gemm::run::launch::{Filling, Run, extent_name, operand_name, put_sums};

/// The numbers of `sm80::Line`.
const LINE: [&str; 4] = ["streamed", "blocks_of_k", "share", "longer"];

/// The shape of a launch; a kernel with stream-K is persistent.
pub(crate) fn shape(
    key: &Sm80Key,
    kernel: &Kernel,
    device: &Device,
    allowed: u32,
) -> Result<(Launch, Option<u32>), Error> {
    let block = [key.tile.threads() as u32, 1, 1];
    let shared_bytes = key.tile.shared_bytes(key.instruction) as u32;
    let shape = Launch { block, shared_bytes, ..Launch::default() };
    let persistent = match key.split_k {
        SplitKind::Stream => {
            let active = kernel.active_clusters(&shape)?;
            let of_each = active / device.properties().multiprocessors.max(1);
            Some(active.min(allowed.saturating_mul(of_each.max(1))))
        }
        SplitKind::None | SplitKind::Serial | SplitKind::Parallel => None,
    };
    Ok((shape, persistent))
}

/// `sm80::Common`; `sm80/gemm.cuh` describes its fields.
pub(crate) fn parameter(key: &Sm80Key, run: &Run<'_>, filling: &Filling<'_>) -> Result<(ParameterBytes, usize), Error> {
    let Filling { grid, places, workspace, .. } = *filling;
    let mut bytes = run.room(key.common_bytes(), PARAMETER_ALIGNMENT, filling)?;
    for (i, (of, view)) in run.operands().enumerate() {
        let (at, name) = (OPERAND_BYTES * i, || operand_name(of));
        bytes.put_address(at, (of, view.address), 0, || name() + ".pointer");
        bytes.put_named_words(at + 8, &[view.outer as u64, view.k as u64, view.batch as u64], |i| {
            format!("{}.{}", name(), ["outer_stride", "k_stride", "batch_stride"][i])
        });
    }
    let at = OPERAND_BYTES * (1 + run.b.len());
    bytes.put_named_ints(at, &run.extents(grid), extent_name);
    let line = Line::numbers(grid.streamed, run.blocks_of_k(grid, key.tile.k), grid.blocks as usize);
    let line = line.map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    bytes.put_named_ints(at + 32, &line, |i| format!("line.{}", LINE[i]));
    put_sums(&mut bytes, at + 48, places, workspace);
    if let Some(bounds) = run.reading.bounds() {
        put_groups(&mut bytes, at + 64, bounds, run.problem.batch);
    }
    if let (Some(patches), Some(shape)) = (&run.reading.patches(), key.reading.patches()) {
        put_patches(&mut bytes, at + 64, patches);
        if shape.kind != PatchKind::Row {
            put_divisors(&mut bytes, at + 64 + PATCHES_BYTES, patches);
        }
    }
    if let Some(Picked { index }) = run.reading.picked() {
        let offset = key.common_bytes() - ROW_INDEX_BYTES;
        let rows = OperandView::of_a(run.a).outer_extent;
        put_index(&mut bytes, offset, (Memory::Index, "picked"), index, [rows, key.reading.index_site()]);
    }
    if let Some(scales) = run.scales {
        let offset = key.common_bytes() - scales_bytes(key.accumulators);
        scales.put(&mut bytes, offset, |i| run.scales_of_b(i));
    }
    Ok((bytes, key.common_bytes()))
}
