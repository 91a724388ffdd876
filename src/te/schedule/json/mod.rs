//! Schedules as text: a tensor expression with its schedule, saved as JSON and read back.
//!
//! The text is an object: `format` ([`FORMAT`]), `version` ([`VERSION`]), `nodes`, `schedule`, `record` and `tensors`.
//! `nodes` is a list of variables, axes, functions, expressions, reductions and operations, each of which refers only
//! to earlier ones, by their places. `schedule` has the stages in order, the outputs and the groups; `record` the
//! primitives that were applied, as text; `tensors` the tensors that were named when it was saved. Numbers of
//! floating-point type are strings, so that every value is kept.
//!
//! Reading trusts nothing: expressions are built and checked as the ones a program writes, and what a schedule primitive
//! would refuse is refused. How long a text may be and of how many parts is limited (`limits.rs`). Only the CUDA text of hand-written elementwise functions is taken as it is, so don't compile
//! a schedule whose author you wouldn't run code of.
//!
//! This module knows the form of the text. It must never lower or run anything.

mod limits;
mod names;
mod nodes;
mod schedule;
mod write;

use serde_json::Value;

use self::schedule::read_schedule;
use self::write::write_schedule;
use super::Schedule;
use crate::te::error::TeError;
use crate::te::lang::tensor::Tensor;

/// What `format` says.
pub(crate) const FORMAT: &str = "epilogue.te.schedule";

/// The version that is written. Other versions are refused.
pub(crate) const VERSION: u64 = 1;

impl Schedule {
    /// The expression and its schedule as JSON. `tensors` are those that [`Schedule::from_json`] gives back: the
    /// arguments of [`lower`](crate::te::lower), say.
    ///
    /// # Errors
    /// [`TeError::NotScheduled`] for a tensor of another schedule; [`TeError::Json`] for what has no text.
    pub fn to_json(&self, tensors: &[&Tensor]) -> Result<String, TeError> {
        Ok(write_schedule(self, tensors)?.to_string())
    }

    /// An expression and its schedule from the text that [`Schedule::to_json`] made, and the tensors that were given to
    /// it. All variables, axes and tensors are new ones.
    ///
    /// # Errors
    /// [`TeError::JsonSize`] for more than 4 MiB of text, 32768 nodes, 1024 stages or 256 groups, or for operations and
    /// functions that are too large where what they share is counted for each of them; [`TeError::Json`] for text that
    /// is none, of another version, or not whole; the error of the constructor or primitive that refuses what it says.
    pub fn from_json(text: &str) -> Result<(Self, Vec<Tensor>), TeError> {
        limits::BYTES.check(text.len())?;
        let value: Value = serde_json::from_str(text).map_err(|error| mistake(format!("it is not JSON: {error}")))?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(mistake(format!("its `format` is not \"{FORMAT}\"")));
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => read_schedule(&value),
            Some(other) => Err(mistake(format!("it is of version {other}; version {VERSION} can be read"))),
            None => Err(mistake("it has no `version`".to_owned())),
        }
    }
}

fn mistake(reason: String) -> TeError {
    TeError::Json { reason }
}
