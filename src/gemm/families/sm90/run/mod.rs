//! Launches of this family: shape, tensor maps, and the kernel that a run seeks.

pub(crate) mod tensor_maps;
pub(crate) mod wanted;

use epilogue_runtime::{Device, DeviceTensor, Kernel, Launch};

use self::tensor_maps::{Tensors, is_batched};
use super::kernel::{SharedMap, Sm90Key, Traffic};
use crate::evt::ValidTree;
use crate::gemm::kernel::formula::OwnQuantities;
use crate::gemm::kernel::formula::Quantity;
use crate::gemm::problem::Error;
use crate::gemm::run::kernel_run::KernelRun;

/// The shape of a launch. Every kernel is persistent.
pub(crate) fn shape(
    key: &Sm90Key,
    tree: &ValidTree,
    kernel: &Kernel,
    device: &Device,
    allowed: u32,
) -> Result<(Launch, Option<u32>), Error> {
    let cluster = key.cluster.blocks() as u32;
    let bytes = SharedMap::of(key, &Traffic::of(tree, key.direct)).bytes().max(key.cores.least_shared_bytes());
    let shape = Launch {
        grid: [cluster, 1, 1],
        block: [key.threads() as u32, 1, 1],
        cluster: [cluster, 1, 1],
        shared_bytes: bytes as u32,
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

/// The bytes of the tensor maps.
pub(crate) fn map_bytes(key: &Sm90Key, run: &KernelRun<'_>) -> Result<Vec<u8>, Error> {
    tensors(run).maps(key, &Traffic::of(run.tree, key.direct))
}

/// Quantities of this family's formulas.
pub(crate) fn own_quantities(key: &Sm90Key, run: &KernelRun<'_>) -> Result<OwnQuantities, Error> {
    let KernelRun { problem, a, b, .. } = *run;
    let bit_of_b = |(i, b): (usize, &DeviceTensor)| i64::from(is_batched(b, 2)) << i;
    let mut own = OwnQuantities::from_slice(&[
        (Quantity::RasterGroup, key.raster.group as i64),
        (Quantity::RasterAlongN, key.raster.along_n.into()),
        (Quantity::BatchedA, is_batched(a, 2).into()),
        (Quantity::BatchedB, b.iter().enumerate().map(bit_of_b).sum()),
    ]);
    if let (Some(patches), Some(_)) = (&run.reading.patches(), key.reading.patches()) {
        let taps = patches.window.size.iter().product();
        let of_filters = || tensors(run).steps_of_b().map(|steps| steps.counts(problem.n, taps));
        // What transposed patches are multiplied by is a batch like any other.
        let steps = if key.reading.is_transposed() { Some([0; 2]) } else { of_filters() };
        let [columns, positions] = steps.ok_or_else(|| {
            let reason = "the filters of its groups lie apart: give a contiguous copy";
            Error::NoKernel { kernel: run.variant.key.to_string(), reason }
        })?;
        own.extend([
            (Quantity::BoxChannels, key.box_channels() as i64),
            (Quantity::FilterColumns, columns as i64),
            (Quantity::FilterPositions, positions as i64),
        ]);
    }
    Ok(own)
}
