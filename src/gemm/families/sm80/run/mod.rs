//! Launches of this family: shape, parameter, and the kernel that a run seeks.

pub(crate) mod patches;
pub(crate) mod wanted;

use epilogue_runtime::{Device, Kernel, Launch};

use self::patches::put_patches;
use super::kernel::{LINE, PARAMETER_ALIGNMENT, Sm80Key};
use crate::gemm::kernel::SplitKind;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler, OPERAND, PROBLEM, ROW_INDEX, SUMS};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::kernel::stream::Stream;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::{Error, OperandView};
use crate::gemm::run::fill::{index_values, put_groups};
use crate::gemm::run::launch::{Filling, KernelRun, operand_name, sums};

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

/// `sm80::Common` (`sm80/gemm.cuh`), the reading's part, and the scales.
pub(crate) fn parameter(
    key: &Sm80Key,
    run: &KernelRun<'_>,
    filling: &Filling<'_>,
) -> Result<(ParameterBytes, usize), Error> {
    let Filling { grid, places, workspace, .. } = *filling;
    let mut bytes = run.room(key.common_bytes(), PARAMETER_ALIGNMENT, filling)?;
    let mut to = Filler { bytes: &mut bytes, at: 0 };
    for (of, view) in run.operands() {
        let address = DeviceValue::address(of, view.address);
        to.put(&OPERAND, &|| operand_name(of), [address, view.outer.into(), view.k.into(), view.batch.into()]);
    }
    to.put(&PROBLEM, &|| "problem".to_owned(), run.extents(grid));
    let line = Stream::numbers(grid.streamed, run.blocks_of_k(grid, key.tile.k), grid.blocks as usize);
    to.put(&LINE, &|| "line".to_owned(), line);
    to.put(&SUMS, &|| "workspace".to_owned(), sums(places, workspace));
    if let Some(bounds) = run.reading.bounds() {
        put_groups(&mut to, bounds, run.problem.batch);
    }
    if let Some(Picked { index }) = run.reading.picked() {
        let rows = OperandView::of_a(run.a).outer_extent;
        let index = index_values(Memory::Index, index, [rows, key.reading.index_site()]);
        to.put(&ROW_INDEX, &|| "picked".to_owned(), index);
    }
    if let (Some(patches), Some(shape)) = (run.reading.patches(), key.reading.patches()) {
        put_patches(&mut to, &patches, shape.kind);
    }
    if let Some(scales) = run.scales {
        scales.put(&mut to, |i| run.scales_of_b(i));
    }
    Ok((bytes, key.common_bytes()))
}
