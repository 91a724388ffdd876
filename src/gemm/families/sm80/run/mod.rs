//! Launches of this family: their shape, and the kernel that a run seeks.

pub(crate) mod wanted;

use epilogue_runtime::{Device, Kernel, Launch};

use super::kernel::Sm80Key;
use crate::gemm::kernel::SplitKind;
use crate::gemm::problem::Error;

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
