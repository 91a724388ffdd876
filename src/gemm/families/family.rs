//! Questions to a family: [`Family`] is asked about a product, [`FamilyKey`] about one kernel.
//!
//! The rest of `gemm` knows families by these two traits alone. A method with a body gives the answer of a simple family: one
//! without clusters, tensor maps or copies of operands.

use std::fmt;

use epilogue_runtime::{Arch, Device, Kernel, Launch};
use smallvec::SmallVec;

use super::list::{KernelKey, Pins};
use crate::ElementType;
use crate::evt::reference::Multiplication;
use crate::evt::{Computation, ValidTree};
use crate::gemm::emit::text::Emitted;
use crate::gemm::kernel::SplitK;
use crate::gemm::kernel::device_struct::Part;
use crate::gemm::kernel::finish::Within;
use crate::gemm::kernel::formula::OwnQuantities;
use crate::gemm::kernel::launch::MapDescription;
use crate::gemm::kernel::loading::Loading;
use crate::gemm::kernel::settings::Switches;
use crate::gemm::kernel::shape::ReadingShape;
use crate::gemm::kernel::views::ArgumentViews;
use crate::gemm::model::candidate::Candidate;
use crate::gemm::model::machine::Machine;
use crate::gemm::model::offer::Offer;
use crate::gemm::model::selection::{LaunchedPart, Request, Selection};
use crate::gemm::problem::patches::Patches;
use crate::gemm::problem::{Arithmetic, Error, Knob, Left, OperandLayout, OperandView, Problem};
use crate::gemm::run::kernel_run::KernelRun;
use crate::gemm::run::sought::{Sought, WantedKernel};

/// A family of kernels, asked about a product.
pub(crate) trait Family: Sync {
    /// The oldest architecture that its kernels run on.
    fn arch(&self) -> Arch;

    /// Whether its kernels run on GPUs of this architecture.
    fn runs_on(&self, arch: Arch) -> bool;

    /// Whether it has an instruction for operands of these types.
    fn multiplies(&self, types: (ElementType, ElementType), arithmetic: Arithmetic) -> bool;

    /// Why its kernels don't have this knob; `None` if they have.
    fn lacks(&self, knob: Knob) -> Option<&'static str>;

    /// Whether its kernels take operands in any layout, without a copy. A run falls back to it if no other
    /// family loads its operands.
    fn takes_any_layout(&self) -> bool;

    /// Whether blocks of its kernels run in clusters.
    fn has_clusters(&self) -> bool;

    /// Whether a run that falls back to this family finds a tile of these rows and columns; `true` if no run falls back to it.
    fn has_tile(&self, _selection: &Selection<'_>, _accumulators: usize, _tile: (usize, usize)) -> bool {
        true
    }

    /// Its kernels for a way in which later phases are computed, on tiles that `counts` accepts, best first.
    ///
    /// # Errors
    /// Why no tile fits.
    fn candidates(
        &self,
        selection: &Selection<'_>,
        way: &LaunchedPart<'_>,
        counts: &dyn Fn((usize, usize)) -> bool,
    ) -> Result<Vec<Candidate>, String>;

    /// Its kernels for a product that a tool offers, best first, whether or not this version emits them; none if it does not
    /// multiply these operands.
    fn priced(&self, offer: &Offer<'_>, machine: &Machine) -> Vec<Candidate>;

    /// Whether the user set knobs that only its kernels have.
    fn is_pinned(&self, pins: &Pins) -> bool;

    /// The kernel that the user described; what was left open is that of the best candidate.
    ///
    /// # Errors
    /// Why there is none.
    fn asked(&self, selection: &Selection<'_>, request: &Request, candidates: &[Candidate])
    -> Result<Candidate, Error>;

    /// Why lines lie in no tile of its kernels, nor in a cluster's tiles; `None` if they do, or if there is nothing to say.
    fn why_not_in_tile(&self, selection: &Selection<'_>, way: &LaunchedPart<'_>) -> Option<String>;

    /// Limits of its kernels that this product meets, as sentences for a choice.
    fn limits(&self, selection: &Selection<'_>) -> Vec<String>;
}

/// A kernel of a family, which is generated from this key.
pub(crate) trait FamilyKey: fmt::Display {
    /// Its family.
    fn family(&self) -> &'static dyn Family;

    /// The element types of A and B.
    fn elements(&self) -> (ElementType, ElementType);

    /// Rows and columns of the product in a tile.
    fn tile(&self) -> (usize, usize);

    /// The depth of a k-tile, which is what one pipeline stage holds.
    fn tile_k(&self) -> usize;

    /// Stages of its pipeline.
    fn stages(&self) -> usize;

    /// How it multiplies.
    fn multiplication(&self) -> Multiplication;

    /// The layouts of A and B in memory.
    fn layouts(&self) -> (OperandLayout, OperandLayout);

    /// This kernel with these switches, as far as the family has them.
    fn with(&self, switches: Switches) -> KernelKey;

    /// Where whole lines lie, if all phases are computed from them.
    fn within(&self) -> Option<Within>;

    /// Rows and columns of the product in which whole lines lie.
    fn line_tile(&self) -> (usize, usize) {
        self.tile()
    }

    /// Whether approximate instructions are allowed for outputs of any type.
    fn fast_math(&self) -> bool;

    /// How it reads A.
    fn reading(&self) -> ReadingShape;

    /// Blocks of a cluster along M and along N.
    fn cluster(&self) -> (usize, usize) {
        (1, 1)
    }

    /// Whether every GPU of the architecture can run its clusters.
    fn is_portable(&self) -> bool {
        true
    }

    /// How it loads its operands; `None` if it takes them in any layout.
    fn loading(&self) -> Option<Loading> {
        None
    }

    /// The kernel with its predicted time for a product; `None` if it has no room for the epilogue.
    fn estimate(&self, offer: &Offer<'_>, machine: &Machine, split_k: SplitK) -> Option<Candidate>;

    /// Writes the kernel's text.
    ///
    /// # Errors
    /// The reason if the family has no kernel for this key.
    fn emit(&self, of: &Computation<'_>, views: ArgumentViews, symbol: &str) -> Result<Emitted, &'static str>;

    /// The shape of a launch, without its grid; and, for a persistent kernel, the most blocks, on `allowed` multiprocessors.
    ///
    /// # Errors
    /// [`Error::NotInCluster`] if the device can't run a cluster so large; those of the device.
    fn shape(
        &self,
        tree: &ValidTree,
        kernel: &Kernel,
        device: &Device,
        allowed: u32,
    ) -> Result<(Launch, Option<u32>), Error>;

    /// Bytes of one place for a tile's sums in the workspace.
    fn sum_bytes(&self) -> usize;

    /// Bytes of shared memory, behind a kernel's own, of its table of groups.
    fn table_bytes(&self, _groups: usize) -> usize {
        0
    }

    /// Neighbouring columns that a lane's epilogue handles at once.
    fn neighbours(&self) -> usize;

    /// Alignment of the kernel's parameter.
    fn parameter_alignment(&self) -> usize;

    /// The parts of the kernel's parameter, behind its tensor maps and in front of the epilogue's arguments.
    fn parts(&self) -> SmallVec<[&'static Part; 4]>;

    /// Quantities that only this family's formulas have, for a run.
    ///
    /// # Errors
    /// Why the kernel does not compute this run.
    fn own_quantities(&self, _run: &KernelRun<'_>) -> Result<OwnQuantities, Error> {
        Ok(OwnQuantities::new())
    }

    /// The bytes of the tensor maps.
    ///
    /// # Errors
    /// Errors of tensor maps.
    fn map_bytes(&self, _run: &KernelRun<'_>) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }

    /// The parameter's tensor maps.
    fn maps(&self, _run: &KernelRun<'_>) -> Vec<MapDescription> {
        Vec::new()
    }

    /// Whether the kernel counts the positions of these patches.
    ///
    /// # Errors
    /// Why it does not.
    fn check_patches(&self, _patches: &Patches) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the kernel computes a run for which another is better.
    fn serves(&self, problem: &Problem, a: Left<'_>, b: &[OperandView]) -> bool;

    /// The candidate that has this key, as a run seeks it; `None` if the family has none.
    fn wanted(&self, candidate: &Candidate, of: &Sought<'_>) -> Option<WantedKernel>;
}
