//! Saves a tensor expression with its schedule as JSON, and reads it back.
//!
//! The text is an object with `format` ([`FORMAT`]), `version` ([`VERSION`]), `nodes`, `schedule`, `record` and
//! `tensors`. `nodes` is a list of variables, axes, functions, expressions, reductions and operations; each refers only
//! to earlier ones, by their places. `schedule` has the stages in order, the outputs and the groups. `record` has the
//! applied primitives as text. `tensors` has the tensors that were named when it was saved. Floating-point numbers are
//! strings, so that every value is kept exactly.
//!
//! Reading trusts nothing. `serde` reads the text as plain data (`document.rs`) and refuses a member that is not listed
//! there. Expressions are then built and checked like those that a program writes, and the schedule by its primitives. So
//! a stage that doesn't compute its origin is refused ([`agreement`](super::agreement)). The length of the text and the
//! number of its parts are limited (`limits.rs`). Only the CUDA text of hand-written elementwise functions is taken
//! unchecked. So compile a schedule only if you would also run code by its author.
//!
//! This module knows the text format. It must never lower or run anything.

mod checks;
mod document;
mod functions;
mod known;
mod limits;
mod names;
mod nodes;
mod schedule;
mod write;

use self::document::Header;
use self::schedule::read_schedule;
use self::write::write_schedule;
use super::Schedule;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::tensor::Tensor;

/// The value of `format`.
pub(crate) const FORMAT: &str = "epilogue.te.schedule";

/// The version that is written. Other versions are refused.
pub(crate) const VERSION: u64 = 1;

impl Schedule {
    /// The expression and its schedule as JSON. `tensors` are those that [`Schedule::from_json`] gives back, for
    /// example the arguments of [`lower`](crate::te::lower).
    ///
    /// # Errors
    /// [`ScheduleError::NotScheduled`] for a tensor of another schedule; [`ScheduleError::Json`] for what the format
    /// can't express.
    pub fn to_json(&self, tensors: &[&Tensor]) -> Result<String, TeError> {
        let document = write_schedule(self, tensors)?;
        serde_json::to_string(&document).map_err(|error| mistake(error.to_string()))
    }

    /// Reads the text of [`Schedule::to_json`]. Gives the schedule and the tensors that were named when it was saved.
    /// All its variables and axes are new ones.
    ///
    /// # Errors
    /// [`ScheduleError::JsonSize`] for more than 4 MiB of text, 32768 nodes, 1024 stages or 256 groups. Also for
    /// operations and functions that are too large when shared parts count once for each use; [`ScheduleError::Json`]
    /// for text that is not valid, of another version, or incomplete; the error of the constructor or primitive that
    /// refuses its content.
    pub fn from_json(text: &str) -> Result<(Self, Vec<Tensor>), TeError> {
        limits::BYTES.check(text.len())?;
        let header: Result<Header, _> = serde_json::from_str(text);
        let header = header.map_err(|error| unread(if error.is_data() { "" } else { "it is not JSON: " }, &error))?;
        if header.format.as_deref() != Some(FORMAT) {
            return Err(mistake(format!("its `format` is not \"{FORMAT}\"")));
        }
        match header.version {
            Some(VERSION) => read_schedule(serde_json::from_str(text).map_err(|error| unread("", &error))?),
            Some(other) => Err(mistake(format!("it is of version {other}; version {VERSION} can be read"))),
            None => Err(mistake("it has no `version`".to_owned())),
        }
    }
}

fn unread(what: &str, error: &serde_json::Error) -> TeError {
    let mut reason = format!("{what}{error}");
    // It quotes names and strings of the text.
    if let Some((end, _)) = reason.char_indices().nth(1000) {
        reason.truncate(end);
        reason.push_str(&format!("… at line {} column {}", error.line(), error.column()));
    }
    mistake(reason)
}

fn mistake(reason: String) -> TeError {
    ScheduleError::Json { reason }.into()
}
