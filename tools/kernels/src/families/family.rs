//! Questions of the checks and predictions to a family: [`Family`] about its kernels together, [`Kernel`] about one.

use std::error::Error;
use std::fmt;

use epilogue::evt::{Tree, ValidTree};
use epilogue::gemm::Machine;
use epilogue_runtime::{Arch, Resources};

use crate::gate::{Gate, Subject};
use crate::predict::issue::Work;
use crate::predict::{Code, Prediction, Subject as Predicted};
use crate::sass::Sass;
use crate::shapes::Shape;

/// A family of kernels.
pub(crate) trait Family: Sync {
    /// The oldest architecture that its kernels run on, which is the family's name.
    fn arch(&self) -> Arch;

    /// The GPU that its kernels are predicted for: its name in a text, and its numbers.
    fn gpu(&self) -> (&'static str, Machine);

    /// Whether times can be predicted by the machine code of its kernels: where the same warps multiply and wait.
    fn is_predicted(&self) -> bool {
        true
    }

    /// The beginning of the names of the model's constants that are its own.
    fn constants(&self) -> &'static str;

    /// The step of the GPU bundle that tells the value of one of its constants, if it isn't the one of most constants.
    fn measured_by(&self, _constant: &str) -> Option<&'static str> {
        None
    }

    /// Whether its GPU multiplies the operands of a shape.
    fn multiplies(&self, _shape: &Shape) -> bool {
        true
    }

    /// Kernels that together have everything at least once: instructions, tiles, layouts, splits, kinds of epilogues.
    fn covering(&self) -> Vec<Subject>;

    /// Every kernel that can be chosen for an epilogue.
    fn all(&self, tree: &Tree) -> Vec<Subject>;

    /// The instructions that epilogues take; none if their number has no limit, or if there is no nvdisasm.
    ///
    /// # Errors
    /// The kernel that does not compile.
    fn measured(&self, _gate: &Gate) -> Result<Vec<Measured>, String> {
        Ok(Vec::new())
    }

    /// The choices of other libraries beside its kernels, as text; `None` if none are known.
    ///
    /// # Errors
    /// A shape for which it has no kernel.
    fn others(&self) -> Result<Option<String>, Box<dyn Error>> {
        Ok(None)
    }
}

/// A kernel of a family.
pub(crate) trait Kernel {
    /// The choices that distinguish it from others, as words in the same order for all kernels of the family.
    fn choices(&self, arch: Arch) -> Vec<String>;

    /// Choices that its name leaves out, to be appended to it.
    fn details(&self) -> String {
        String::new()
    }

    /// Its tile, as its name has it.
    fn tile(&self) -> String;

    /// Bytes of shared memory that a launch asks for.
    fn shared_bytes(&self, tree: &ValidTree) -> usize;

    /// The most shared memory of a block (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    fn shared_limit(&self) -> usize;

    /// Bytes that may be spilled where it costs nothing. The machine code shows that no products wait for them.
    fn stack_limit(&self) -> u32;

    /// Notes what is wrong with its registers and static shared memory.
    fn check_resources(&self, _findings: &mut Vec<String>, _resources: &Resources) {}

    /// Notes what is wrong with its machine code; gives the number of accesses of local memory outside the loop of products.
    fn check(&self, findings: &mut Vec<String>, tree: &ValidTree, sass: &Sass) -> usize;

    /// Turns of the loop of products for one k-tile, if one turn does this work.
    fn turns(&self, product: &Work) -> f64;

    /// Its time on the family's GPU.
    fn predict(&self, subject: &Predicted, code: &Code) -> Prediction;
}

/// The instructions that an epilogue takes for an element.
pub(crate) struct Measured {
    pub(crate) name: &'static str,
    /// The instruction that multiplies.
    pub(crate) instruction: String,
    pub(crate) per_element: f64,
    pub(crate) limit: f64,
}

impl Measured {
    /// Whether it takes more than the limit.
    pub(crate) fn exceeds(&self) -> bool {
        self.per_element > self.limit
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, instruction, per_element, limit } = self;
        write!(f, "{per_element:>5.1} instructions an element (at most {limit})  {name} {instruction}")
    }
}
