//! The kernels that a plan has compiled for a GPU, with the memory of its runs.

use std::sync::Arc;

use epilogue_runtime::{DeviceTensor, Kernel, Source, Stream};

use super::super::executable::{Executable, Kept};
use super::super::operation::{GivenRun, Operation};
use crate::ElementType;
use crate::evt::reference::Multiplication;
use crate::gemm::families::KernelKey;
use crate::gemm::kernel::ArgumentViews;
use crate::gemm::kernel::launch::LaunchDescription;
use crate::gemm::kernel::loading::loads;
use crate::gemm::model::choice::ChosenKernel;
use crate::gemm::problem::picked::Picked;
use crate::gemm::problem::{Error, Major, Packed, Problem, Unpacked};
use crate::gemm::run::later::{KeptLater, LaterKernel};
use crate::gemm::run::merged::Merger;
use crate::gemm::run::repack::{CopiedOperand, CopyKernels, Repacker};
use crate::gemm::run::variant::Variant;
use crate::gemm::run::workspace::Workspace;
use crate::pool::Pool;
use crate::variants::Variants;

/// The kernels of a plan.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) operation: Arc<Operation>,
    pub(super) chosen: ChosenKernel,
    /// The product's, by key, and by the arguments that are no plain matrices.
    pub(super) variants: Variants<(KernelKey, ArgumentViews), Variant>,
    /// The planned one.
    planned: Arc<Variant>,
    /// The kernels of the launches after the product's; none if all phases are in the tile.
    pub(super) later: Vec<LaterKernel>,
    /// Their variants, by number and by arguments that are no plain matrices.
    pub(super) later_variants: Variants<(usize, ArgumentViews), LaterKernel>,
    /// Memory for values that later parts read.
    pub(super) slots: Pool<Vec<DeviceTensor>>,
    pub(super) workspaces: Pool<Workspace>,
    /// One workspace pool per later kernel.
    pub(super) later_workspaces: Vec<Pool<Workspace>>,
    /// Copies operands whose batches have two strides.
    pub(super) merger: Merger,
    /// Copies operands that the kernel can't load as they are.
    pub(super) repacker: Repacker,
    /// The kernels of these copies.
    pub(super) copy_kernels: CopyKernels,
}

impl Kernels {
    /// Compiles the kernels of a choice.
    ///
    /// # Errors
    /// [`Error::NotInCluster`] if the device can't run its clusters; the compiler's.
    pub(super) fn compile(operation: &Arc<Operation>, chosen: &ChosenKernel) -> Result<Self, Error> {
        let Operation { device, phases, problem, multiprocessors, .. } = &**operation;
        let (key, split_k) = (chosen.chosen.key, chosen.chosen.split_k);
        let views = ArgumentViews::planned_of_product(phases, key.in_tile(), problem)?;
        let variant = Variant::compile(device, phases, (&key, views), split_k, *multiprocessors)?;
        let later = match key.in_tile() {
            true => Vec::new(),
            false => LaterKernel::compile_all(device, phases, problem, key.fast_math())?,
        };
        let kernels = Self::of(operation, chosen.clone(), variant, later);
        kernels.prepare_copies()?;
        Ok(kernels)
    }

    /// Kernels that have been compiled: the product's, and one for each launch after it.
    fn of(operation: &Arc<Operation>, chosen: ChosenKernel, variant: Variant, later: Vec<LaterKernel>) -> Self {
        let (planned, variants) = (Arc::new(variant), Variants::default());
        variants.put((planned.key, planned.views), Arc::clone(&planned));
        Self {
            chosen,
            variants,
            planned,
            later,
            later_variants: Variants::default(),
            slots: Pool::default(),
            workspaces: Pool::default(),
            later_workspaces: (1..operation.phases.passes().len()).map(|_| Pool::default()).collect(),
            merger: Merger::default(),
            repacker: Repacker::new(&operation.device, operation.multiprocessors),
            copy_kernels: CopyKernels::default(),
            operation: Arc::clone(operation),
        }
    }

    /// Compiles the copies that come before a run with operands as planned. With a bundle, it must have all of them.
    fn prepare_copies(&self) -> Result<(), Error> {
        let (candidate, operation) = (&self.chosen.chosen, &*self.operation);
        let Some(loading) = candidate.key.of_family().loading() else { return Ok(()) };
        if candidate.repacking.is_none() || operation.problem.is_empty() {
            return Ok(());
        }
        let Problem { m, n, k, .. } = operation.problem;
        let (types, (a, b)) = (operation.tree().types(), operation.settings.layouts);
        // All B have one layout, so one kernel copies them.
        for (operand, element, shape, layout, major) in [
            (CopiedOperand::A, types.a, [m, k], a, loading.majors.0),
            (CopiedOperand::B(0), types.b, [k, n], b, loading.majors.1),
        ] {
            let mn_major = operand.takes_mn_major(loading.multiplied);
            let picks =
                operation.problem.reading.is_picked() && !loading.reading.is_picked() && operand == CopiedOperand::A;
            if !picks && loads(mn_major, layout, major) {
                continue;
            }
            let index = picks.then(|| operation.device.without_memory(ElementType::I32, [m])).transpose()?;
            let picked = index.as_ref().map(|index| Picked { index });
            // The kernel of a copy depends on which axis is contiguous.
            let along_k = matches!(layout.major, Major::K) == matches!(operand, CopiedOperand::A);
            let tensor = if along_k {
                operation.device.without_memory(element, shape)?
            } else {
                operation.device.without_memory(element, [shape[1], shape[0]])?.transpose()?
            };
            self.copy_kernels.prepare(&operation.device, &tensor, operand, major, picked)?;
        }
        Ok(())
    }
}

impl Executable for Kernels {
    fn run(&self, stream: &Stream, given: &GivenRun<'_, '_>) -> Result<(), Error> {
        match self.chosen_for(given)? {
            chosen if self.takes_launches(&chosen) => self.run_passes(stream, &chosen, given),
            chosen => self.run_kernel(stream, &chosen, given, &[]),
        }
    }

    fn describe(&self, given: &GivenRun<'_, '_>) -> Result<LaunchDescription, Error> {
        self.described(given)
    }

    fn pack(&self, _b: Unpacked<'_>) -> Result<Packed, Error> {
        Err(Error::NoPacking { device: self.operation.device.to_string() })
    }

    fn source(&self) -> &str {
        &self.planned.emitted.source.code
    }

    fn kernels(&self) -> Vec<(&Source, &Kernel)> {
        let product = (&self.planned.emitted.source, &self.planned.kernel);
        let later = self.later.iter().map(|later| (&later.emitted.source, &later.kernel));
        std::iter::once(product).chain(later).collect()
    }

    fn multiplication(&self) -> (Multiplication, bool) {
        (self.planned.key.multiplication(), self.planned.key.fast_math())
    }

    fn kept(&self) -> Option<Kept> {
        let (chosen, planned) = (self.chosen.clone(), self.planned.kept()?);
        let later = self.later.iter().map(LaterKernel::kept).collect::<Option<Vec<_>>>()?;
        Some(Box::new(move |operation| {
            let later = later.iter().map(KeptLater::attached).collect::<Option<Vec<_>>>()?;
            Some(Box::new(Self::of(operation, chosen.clone(), planned.attached()?, later)))
        }))
    }

    #[cfg(test)]
    fn compiled_variant(&self, suits: &dyn Fn(&Variant) -> bool) -> Option<Arc<Variant>> {
        self.variants.find(suits)
    }
}
