//! A kernel, emitted and compiled, with the data that its launch needs.

use std::sync::Arc;

use epilogue_runtime::{Device, KeptKernel, Kernel, Launch};

use crate::evt::Phases;
use crate::gemm::emit;
use crate::gemm::emit::text::Emitted;
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::tiles::Tiled;
use crate::gemm::kernel::{ArgumentViews, SplitK};
use crate::gemm::problem::{Error, Problem};

/// A compiled kernel with what its launch needs.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) key: KernelKey,
    /// The arguments that are no plain matrices.
    pub(crate) views: ArgumentViews,
    pub(crate) split_k: SplitK,
    pub(crate) emitted: Arc<Emitted>,
    pub(crate) kernel: Kernel,
    /// The shape of a launch, without its grid.
    pub(crate) shape: Launch,
    /// The most blocks of a persistent kernel, whose blocks take one tile after another: as many as run at once.
    pub(crate) persistent_blocks: Option<u32>,
}

impl Variant {
    /// Emits and compiles a kernel; `views` has the arguments that are no plain matrices. A persistent kernel fills the
    /// device, or the given number of its SMs.
    ///
    /// # Errors
    /// [`Error::NotInCluster`] if the device can't run clusters of this size; errors of emission and compilation.
    pub(crate) fn compile(
        device: &Device,
        phases: &Phases,
        (key, views): (&KernelKey, ArgumentViews),
        split_k: SplitK,
        multiprocessors: Option<usize>,
    ) -> Result<Self, Error> {
        let (emitted, tree) = (emit::emit(phases, key, views)?, phases.in_product(key.in_tile()));
        let kernel = device.compile(&emitted.source)?;
        let allowed = multiprocessors.map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX));
        let (shape, persistent_blocks) = key.of_family().shape(tree, &kernel, device, allowed)?;
        Ok(Self { key: *key, views, split_k, emitted: Arc::new(emitted), kernel, shape, persistent_blocks })
    }

    /// This variant without a handle of the device.
    pub(crate) fn kept(&self) -> Option<KeptVariant> {
        let Self { key, views, split_k, emitted, kernel, shape, persistent_blocks } = self;
        Some(KeptVariant {
            key: *key,
            views: *views,
            split_k: *split_k,
            emitted: Arc::clone(emitted),
            kernel: kernel.kept()?,
            shape: *shape,
            persistent_blocks: *persistent_blocks,
        })
    }

    /// A product, and the tiles that the kernel cuts it into.
    pub(crate) fn tiled<'p>(&self, problem: &'p Problem) -> Tiled<'p> {
        let ((m, n), key) = (self.key.tile(), self.key.of_family());
        Tiled { problem, tile: [m, n, key.tile_k()], cluster: key.cluster(), splits: self.split_k.splits() }
    }

    /// Bytes of one place for a tile's sums in the workspace.
    pub(crate) fn sum_bytes(&self) -> usize {
        self.key.of_family().sum_bytes()
    }
}

/// A [`Variant`] that a device keeps: it holds no handle of the device.
#[derive(Debug)]
pub(crate) struct KeptVariant {
    key: KernelKey,
    views: ArgumentViews,
    split_k: SplitK,
    emitted: Arc<Emitted>,
    kernel: KeptKernel,
    shape: Launch,
    persistent_blocks: Option<u32>,
}

impl KeptVariant {
    /// The variant; `None` if the device is gone.
    pub(crate) fn attached(&self) -> Option<Variant> {
        let Self { key, views, split_k, emitted, kernel, shape, persistent_blocks } = self;
        Some(Variant {
            key: *key,
            views: *views,
            split_k: *split_k,
            emitted: Arc::clone(emitted),
            kernel: kernel.attached()?,
            shape: *shape,
            persistent_blocks: *persistent_blocks,
        })
    }
}
