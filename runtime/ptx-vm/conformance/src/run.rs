//! Runs cases on the machine.

use ptx_vm::Options;

use crate::case::{Case, Mismatch};
use crate::device::{self, Emulated, EmulatedError};

/// The reason why a case did not pass.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The machine did not run it.
    #[error("{case}: {error}")]
    Machine {
        /// The case.
        case: String,
        /// The error.
        error: EmulatedError,
    },
    /// The output differs.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// The output of a case on a machine with the given options (except that the case sets the architecture).
///
/// # Errors
/// If the text is refused, the launch fails, or the race detector is on and reports something.
pub fn output(case: &Case, input: &[u8], options: Options) -> Result<Vec<u8>, Failure> {
    let machine = Emulated::new(case.target, options);
    device::output(&machine, case, input).map_err(|error| Failure::Machine { case: case.name.clone(), error })
}

/// Runs a case with a seed, and compares the output.
///
/// # Errors
/// If the case does not pass.
pub fn run(case: &Case, seed: u64, options: Options) -> Result<(), Failure> {
    let input = case.input(seed);
    let found = output(case, &input, options)?;
    Ok(case.check(&input, &found)?)
}
