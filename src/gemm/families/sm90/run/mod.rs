//! Launches of this family: shape, parameter, tensor maps, and the kernel that a run seeks.

mod patches;
pub(crate) mod tensor_maps;
pub(crate) mod wanted;

use epilogue_runtime::{Device, DeviceTensor, Kernel, Launch};

use self::patches::put_patches;
use self::tensor_maps::{Tensors, is_batched};
use super::kernel::{COMMON, PARAMETER_ALIGNMENT, PICKED_ROWS, SharedMap, Sm90Key, Traffic, Units};
use crate::evt::ValidTree;
use crate::gemm::kernel::device_struct::{DeviceValue, Filler};
use crate::gemm::kernel::launch::Memory;
use crate::gemm::kernel::parameter_bytes::ParameterBytes;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::{Error, OperandView};
use crate::gemm::run::fill::{index_values, put_groups};
use crate::gemm::run::launch::{Filling, KernelRun, sums};

/// The shape of a launch. Every kernel is persistent.
pub(crate) fn shape(
    key: &Sm90Key,
    tree: &ValidTree,
    kernel: &Kernel,
    device: &Device,
    allowed: u32,
) -> Result<(Launch, Option<u32>), Error> {
    let cluster = key.cluster.blocks() as u32;
    let shape = Launch {
        grid: [cluster, 1, 1],
        block: [key.threads() as u32, 1, 1],
        cluster: [cluster, 1, 1],
        shared_bytes: SharedMap::of(key, &Traffic::of(tree, key.direct)).bytes() as u32,
        programmatic_dependent_launch: key.dependent_launch,
    };
    let clusters = kernel.active_clusters(&shape)?;
    if clusters == 0 {
        let reason = format!("{device} has no room for {cluster} such blocks together");
        return Err(Error::NotInCluster { epilogue: tree.name(), reason });
    }
    Ok((shape, Some(clusters.min(allowed / cluster).max(1) * cluster)))
}

/// The tensors of a run.
pub(crate) fn tensors<'a>(run: &KernelRun<'a>) -> Tensors<'a> {
    let KernelRun { tree, problem, a, b, arguments, reading, .. } = *run;
    Tensors { tree, problem, a, b, arguments, patches: reading.patches() }
}

/// The tensor maps and `sm90::Common`; `sm90/gemm.cuh` describes its fields.
pub(crate) fn parameter(
    key: &Sm90Key,
    run: &KernelRun<'_>,
    filling: &Filling<'_>,
) -> Result<(ParameterBytes, usize), Error> {
    let Filling { grid, places, workspace, .. } = *filling;
    let traffic = Traffic::of(run.tree, key.direct);
    let KernelRun { problem, a, b, .. } = *run;
    let maps = tensors(run).maps(key, &traffic)?;
    let at = maps.len() + key.common_bytes();
    let mut bytes = run.room(at, PARAMETER_ALIGNMENT, filling)?;
    bytes.put_maps(0, &maps);
    let mut to = Filler { bytes: &mut bytes, at: maps.len() };
    let bit_of_b = |(i, b): (usize, &DeviceTensor)| i32::from(is_batched(b, 2)) << i;
    let batched = [i32::from(is_batched(a, 2)), b.iter().enumerate().map(bit_of_b).sum()];
    let blocks_of_k = run.blocks_of_k(grid, key.instruction.tile_k());
    let units = Units::of(key, &problem, grid.splits);
    let clusters = grid.blocks as usize / key.cluster.blocks();
    let deal = units.deal(grid.streamed, blocks_of_k, clusters);
    let numbers = run.extents(grid).into_iter().chain(batched).chain(deal).map(DeviceValue::from);
    to.put(&COMMON, &String::new, numbers.chain(sums(places, workspace)));
    if let Some(bounds) = run.reading.bounds() {
        put_groups(&mut to, bounds, run.problem.batch);
    }
    if let (Some(patches), Some(_)) = (&run.reading.patches(), key.reading.patches()) {
        let taps = patches.window.size.iter().product();
        let of_filters = || tensors(run).steps_of_b().map(|steps| steps.counts(problem.n, taps));
        // What transposed patches are multiplied by is a batch like any other.
        let steps = if key.reading.is_transposed() { Some([0; 2]) } else { of_filters() };
        let steps = steps.ok_or_else(|| {
            let reason = "the filters of its groups lie apart: give a contiguous copy";
            Error::NoKernel { kernel: run.variant.key.to_string(), reason }
        })?;
        put_patches(&mut to, patches, key.box_channels(), steps);
    }
    if let (Some(Picked { index }), true) = (run.reading.picked(), key.reading.is_picked()) {
        let view = OperandView::of_a(a);
        let (row_bytes, site) = (view.outer * view.element.size().cast_signed(), key.reading.index_site());
        let matrix = [DeviceValue::address(Memory::A, view.address), row_bytes.into()];
        let index = index_values(Memory::Index, index, [view.outer_extent, site]);
        to.put(&PICKED_ROWS, &|| "picked".to_owned(), matrix.into_iter().chain(index));
    }
    if let Some(scales) = run.scales {
        scales.put(&mut to, |i| run.scales_of_b(i));
    }
    Ok((bytes, at))
}
