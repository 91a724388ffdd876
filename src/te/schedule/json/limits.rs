//! How large a saved schedule may be. What reading, lowering and compiling cost follows from its parts, and these are
//! limited; so a text that is made to take long is refused by name.

use crate::te::error::TeError;

/// Up to how many there may be of something.
pub(super) struct Limit {
    what: &'static str,
    most: usize,
}

/// The text.
pub(super) const BYTES: Limit = Limit { what: "bytes", most: 4 << 20 };
/// What the stages are made of.
pub(super) const NODES: Limit = Limit { what: "nodes", most: 1 << 15 };
pub(super) const STAGES: Limit = Limit { what: "stages", most: 1 << 10 };
pub(super) const GROUPS: Limit = Limit { what: "groups", most: 1 << 8 };
/// What operations, reductions and ranges are made of, where a part that several share counts for each.
pub(super) const PARTS: Limit =
    Limit { what: "parts of expressions, counted for each operation and range that has them,", most: 1 << 17 };
/// What a function does, where one that it calls several times counts each time.
pub(super) const STEPS: Limit =
    Limit { what: "steps of one function, with those of the functions it calls,", most: 1 << 14 };
/// Functions that call each other.
pub(super) const CALLS: Limit = Limit { what: "functions that call each other in a row", most: 64 };

impl Limit {
    /// # Errors
    /// [`TeError::JsonSize`] for more.
    pub(super) fn check(&self, given: usize) -> Result<(), TeError> {
        let Self { what, most } = *self;
        if given > most { Err(TeError::JsonSize { what, given, most }) } else { Ok(()) }
    }
}
