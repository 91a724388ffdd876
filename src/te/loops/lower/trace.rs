//! The trace of a lowering: the program after each pass.

use std::fmt;

use crate::te::error::TeError;
use crate::te::loops::ir::program::Program;

/// The program after each pass of [`lower_traced`](crate::te::lower_traced), up to the one that failed, if one did.
///
/// It is printed as TVMScript, with one listing for each pass that changed the program.
#[derive(Clone, Debug)]
pub struct Trace {
    passes: Vec<(&'static str, Program)>,
    result: Result<Program, TeError>,
}

impl Trace {
    pub(super) fn new(passes: Vec<(&'static str, Program)>, result: Result<Program, TeError>) -> Self {
        Self { passes, result }
    }

    /// Each pass with the program that it made, in order. A pass has the name of its module under `te/loops/lower`.
    #[must_use]
    pub fn passes(&self) -> &[(&'static str, Program)] {
        &self.passes
    }

    /// The result of [`lower`](crate::te::lower()).
    ///
    /// # Errors
    /// The errors of [`lower`](crate::te::lower()).
    pub fn into_result(self) -> Result<Program, TeError> {
        self.result
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = String::new();
        for (pass, program) in &self.passes {
            let listing = program.script();
            match listing == before {
                true => writeln!(f, "=== {pass}: no change\n")?,
                false => writeln!(f, "=== {pass}\n{listing}")?,
            }
            before = listing;
        }
        match &self.result {
            Ok(_) => Ok(()),
            Err(error) => writeln!(f, "=== refused: {error}"),
        }
    }
}
