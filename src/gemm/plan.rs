//! A plan: an operation, what was chosen for it, and what was compiled.
//!
//! A run passes here once: [`run`](Plan::run) checks its stream, [`checked`](Plan::checked) its operands and arguments, and the
//! plan's [`Executable`] does the rest on its kind of device.

use std::sync::Arc;

use epilogue_runtime::{Stream, trace};

use super::devices::Choice;
use super::devices::executable::Executable;
use super::devices::operation::{GivenRun, Operation};
use super::kernel::launch::LaunchDescription;
use super::model::Candidate;
use super::model::choice::Origin;
use super::problem::{Error, FormatError, GroupsError, Left, Problem, Right, RowsError, ScaleError, ScatterError};
use super::run::check;
use super::run::images::with_matrices;
use crate::Argument;

/// A plan, without the type of its epilogue.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) operation: Arc<Operation>,
    pub(crate) choice: Choice,
    pub(crate) executable: Box<dyn Executable>,
}

impl Plan {
    /// Compiles what was chosen.
    ///
    /// # Errors
    /// The compiler's.
    pub(crate) fn new(operation: Arc<Operation>, choice: &Choice) -> Result<Self, Error> {
        let (choice, executable) = choice.compile(&operation)?;
        Ok(Self { operation, choice, executable })
    }

    /// A plan of the same operation with exactly this candidate.
    pub(crate) fn with(&self, candidate: &Candidate, origin: Origin) -> Result<Self, Error> {
        Self::new(Arc::clone(&self.operation), &self.choice.with(candidate, origin)?)
    }

    pub(crate) fn run(
        &self,
        stream: &Stream,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let device = &self.operation.device;
        if stream.device() != device {
            let (given, needed) = (stream.device().to_string(), device.to_string());
            return Err(Error::ForeignStream { given, needed });
        }
        self.checked(a, b, arguments, |given| {
            let (epilogue, Problem { m, n, k, batch, .. }) = (self.operation.tree().name(), given.problem);
            trace::event!(TRACE, "run", epilogue = epilogue, m = m, n = n, k = k, batch = batch);
            self.executable.run(stream, given)
        })
    }

    /// The launch that [`run`](Self::run) does, as data.
    pub(crate) fn describe_launch(
        &self,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
    ) -> Result<LaunchDescription, Error> {
        self.checked(a, b, arguments, |given| self.executable.describe(given))
    }

    /// Checks what a run is given, and does something with it as matrices and vectors.
    pub(super) fn checked<R>(
        &self,
        a: Left<'_>,
        b: &Right<'_>,
        arguments: &[Argument<'_>],
        work: impl FnOnce(&GivenRun<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (device, tree) = (&self.operation.device, self.operation.tree());
        check::operands(device, tree, a, b)?;
        check::packing(b, self.operation.purpose())?;
        with_matrices(a, b, tree, arguments, |a, b, arguments| {
            let problem = Problem::of(a, b.clone())?;
            self.check_reading(&problem)?;
            check::arguments(device, tree, &problem, self.choice.tile(), (a, b), arguments)?;
            work(&GivenRun { problem, a, b, arguments })
        })
    }

    /// Checks that a run's product has groups, picked rows or scales if the plan's has. (A may be a matrix or patches, whatever
    /// it was planned as: the window decides which patches are a matrix.)
    fn check_reading(&self, given: &Problem) -> Result<(), Error> {
        let planned = &self.operation.problem;
        if planned.reading.is_picked() != given.reading.is_picked() {
            return Err(RowsError::Other { given: given.reading.is_picked() }.into());
        }
        if planned.formats != given.formats && planned.formats.b.is_quantized() | given.formats.b.is_quantized() {
            return Err(FormatError::Other { planned: planned.formats.b, given: given.formats.b }.into());
        }
        if planned.formats != given.formats {
            return Err(ScaleError::Other { given: given.formats.are_scaled() }.into());
        }
        if planned.placing != given.placing {
            return Err(ScatterError::Other { given: given.placing.is_scattered() }.into());
        }
        let [planned, given] = [planned, given].map(|problem| problem.reading.divided());
        if planned != given {
            return Err(GroupsError::Other { planned, given }.into());
        }
        Ok(())
    }
}
