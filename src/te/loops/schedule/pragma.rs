//! `pragma`: sets a property of a loop that changes how it runs, not what it computes.

use super::stage::Stage;
use crate::te::error::{ScheduleError, TeError};
use crate::te::expr::axis::Axis;
use crate::te::loops::ir::pragma::{Pragma, PragmaValue};

impl Stage {
    /// Sets a property of a loop and everything inside it: see [`Pragma`] for the keys and their meaning. A second
    /// pragma with the same key replaces the first.
    ///
    /// ```
    /// # use epilogue::te;
    /// # fn main() -> Result<(), te::TeError> {
    /// let a = te::placeholder([64], "A");
    /// let b = te::compute([64], "B", |[i]| a.at([i]) * 2.0)?;
    /// let mut s = te::create_schedule(&[&b]);
    /// let (outer, _) = s.stage(&b)?.split(b.axis(0)?, 4)?;
    /// s.stage(&b)?.pragma(outer, "auto_unroll_max_step", 16)?;
    /// s.stage(&b)?.pragma(outer, "unroll_explicit", true)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ScheduleError::NotALoop`]; [`ScheduleError::Pragma`] for an unknown key, or a value that it doesn't take.
    pub fn pragma(&mut self, axis: Axis, key: &str, value: impl Into<PragmaValue>) -> Result<(), TeError> {
        self.leaf(axis)?;
        let pragma = Pragma::parse(key, &value.into())
            .map_err(|reason| ScheduleError::Pragma { key: key.to_owned(), reason })?;
        self.pragmas.retain(|(of, known)| *of != axis || known.key() != key);
        self.pragmas.push((axis, pragma));
        self.note("pragma", &format!("{}, \"{key}\", {}", axis.name(), pragma.value()));
        Ok(())
    }
}
