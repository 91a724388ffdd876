//! The choice of how a product is computed, and why: [`Choice`] as users see it, [`Chosen`] as a kind of device makes it.

use std::fmt;
use std::sync::Arc;

use super::executable::Executable;
use super::operation::Operation;
use crate::gemm::model::Candidate;
use crate::gemm::model::choice::{Origin, shortlist};
use crate::gemm::problem::Error;

/// The choice of the kernel, with the model's ranking of the others.
#[derive(Clone, Debug)]
pub struct Choice(Arc<dyn Chosen>);

/// A choice, as a kind of device makes it. `Display` says why.
pub(crate) trait Chosen: fmt::Debug + fmt::Display + Send + Sync {
    /// Rows and columns of the tile.
    fn tile(&self) -> (usize, usize);

    /// The chosen kernel; `None` if the device has none.
    fn kernel(&self) -> Option<&Candidate> {
        None
    }

    /// All kernels that it was chosen among, best first.
    fn candidates(&self) -> &[Candidate] {
        &[]
    }

    /// The candidates that autotuning measures; none if there is nothing to choose.
    ///
    /// # Errors
    /// [`Error::NoClock`].
    fn contenders(&self, _operation: &Operation) -> Result<Vec<Candidate>, Error> {
        Ok(Vec::new())
    }

    /// The choice of exactly this candidate; `None` if it is not one of this choice's.
    fn with(&self, _candidate: &Candidate, _origin: Origin) -> Option<Choice> {
        None
    }

    /// Compiles what was chosen. If the device can't run it, the next best is chosen, unless it was asked for.
    ///
    /// # Errors
    /// The compiler's, or the first refusal if no kernel of the choice can be had.
    fn compile(&self, operation: &Arc<Operation>) -> Result<Compiled, Error>;
}

/// The choice that was compiled at last, and the result.
pub(crate) type Compiled = (Choice, Box<dyn Executable>);

impl Choice {
    pub(crate) fn of(chosen: impl Chosen + 'static) -> Self {
        Self(Arc::new(chosen))
    }

    /// Rows and columns of the tile; per-tile partials have one entry for each tile.
    #[must_use]
    pub fn tile(&self) -> (usize, usize) {
        self.0.tile()
    }

    /// The chosen kernel; `None` on the CPU, which has no kernels.
    #[must_use]
    pub fn kernel(&self) -> Option<&Candidate> {
        self.0.kernel()
    }

    /// All kernels that could run the product, best first by the model; empty on the CPU.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        self.0.candidates()
    }

    /// The candidates worth measuring, best first: at most two for each tile and eight in all. The model predicts at
    /// most twice the time of the best for each of them. If all of these need copies of the operands, the best one
    /// without copies is added.
    #[must_use]
    pub fn shortlist(&self) -> Vec<Candidate> {
        shortlist(self.candidates())
    }

    pub(crate) fn contenders(&self, operation: &Operation) -> Result<Vec<Candidate>, Error> {
        self.0.contenders(operation)
    }

    /// The choice of exactly this candidate.
    ///
    /// # Errors
    /// [`Error::NoKernel`] for one that is not among them.
    pub(crate) fn with(&self, candidate: &Candidate, origin: Origin) -> Result<Self, Error> {
        let reason = "it is not a candidate of this choice: take one that `candidates()` lists";
        self.0.with(candidate, origin).ok_or_else(|| Error::NoKernel { kernel: candidate.key.to_string(), reason })
    }

    pub(crate) fn compile(&self, operation: &Arc<Operation>) -> Result<Compiled, Error> {
        self.0.compile(operation)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
