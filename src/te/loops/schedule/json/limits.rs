//! The limits of a saved schedule's size. The cost of reading, lowering and compiling it follows from the number of its
//! parts. The limits refuse a text that was made to be slow.

use crate::te::error::{ScheduleError, TeError};

/// The greatest number of something.
pub(super) struct Limit {
    what: &'static str,
    most: usize,
}

/// The length of the text.
pub(super) const BYTES: Limit = Limit { what: "bytes", most: 4 << 20 };
/// The nodes: what stages are made of.
pub(super) const NODES: Limit = Limit { what: "nodes", most: 1 << 15 };
pub(super) const STAGES: Limit = Limit { what: "stages", most: 1 << 10 };
pub(super) const GROUPS: Limit = Limit { what: "groups", most: 1 << 8 };
/// The parts of operations, reductions and ranges. A part that several of them share counts for each.
pub(super) const PARTS: Limit =
    Limit { what: "parts of expressions, counted for each operation and range that has them,", most: 1 << 17 };
/// The steps of functions. A function that is called several times counts each time.
pub(super) const STEPS: Limit =
    Limit { what: "steps of one function, with those of the functions it calls,", most: 1 << 14 };
/// The depth of functions that call each other.
pub(super) const CALLS: Limit = Limit { what: "functions that call each other in a row", most: 64 };

impl Limit {
    /// # Errors
    /// [`ScheduleError::JsonSize`] if there are more.
    pub(super) fn check(&self, given: usize) -> Result<(), TeError> {
        let Self { what, most } = *self;
        if given > most { Err(ScheduleError::JsonSize { what, given, most }.into()) } else { Ok(()) }
    }
}
