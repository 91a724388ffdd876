//! The places of variables in shared and in local memory. There are gaps between them, so that an index that runs over is
//! noticed.

use crate::error::ParseError;
use crate::program::Variables;
use crate::syntax::ast::Variable;

/// More shared memory than any architecture has.
const SHARED_LIMIT: u32 = 1 << 20;
/// The least number of bytes between two shared variables that belong to neither. A whole row of banks, so that the gaps
/// change no bank conflict.
const SHARED_GAP: u32 = 128;
/// The most local memory of a thread, in bytes (PTX ISA: 512 KiB).
const LOCAL_LIMIT: u32 = 512 * 1024;
/// The least number of bytes on both sides of a local variable: some elements of any type. It is not more because every
/// call that is expanded has variables of its own.
const LOCAL_GAP: u32 = 32;

/// The places of shared variables.
#[derive(Clone, Default)]
pub(super) struct SharedLayout {
    /// The bytes that the variables need without gaps.
    pub(super) bytes: u32,
    /// The end of the last one.
    pub(super) end: u32,
    /// Name, offset and size of each, in order.
    names: Vec<(String, u32, u32)>,
}

impl SharedLayout {
    pub(super) fn add(&mut self, variable: &Variable<'_>) -> Result<u32, ParseError> {
        allot(&mut self.bytes, variable, SHARED_LIMIT)?;
        let offset = self.after_gap(variable.alignment);
        self.names.push((variable.name.to_owned(), offset, variable.bytes() as u32));
        self.end = offset + variable.bytes() as u32;
        Ok(offset)
    }

    /// The first place for something else with this alignment.
    pub(super) fn after_gap(&self, alignment: u32) -> u32 {
        if self.end == 0 { 0 } else { (self.end + SHARED_GAP).next_multiple_of(alignment.max(SHARED_GAP)) }
    }

    /// The variables, with the bytes between them, and between the last one and what begins at `after`.
    pub(super) fn finish(self, after: u32) -> Variables {
        let starts = self.names.iter().skip(1).map(|(_, start, _)| *start).chain([after]);
        let ends = self.names.iter().map(|(_, start, bytes)| start + bytes);
        let gaps = ends.zip(starts).filter(|(end, start)| end < start).collect();
        Variables { names: self.names, gaps }
    }
}

/// The places of a thread's local variables and of the parameters that its calls pass, which are local memory, too.
#[derive(Default)]
pub(super) struct LocalLayout {
    /// The bytes that the variables need without gaps.
    pub(super) bytes: u32,
    /// The end of the last one.
    pub(super) end: u32,
    /// Whether the last one is a local variable.
    guarded: bool,
    variables: Variables,
}

impl LocalLayout {
    /// A local variable: what is beside it belongs to nothing.
    pub(super) fn add(&mut self, variable: &Variable<'_>) -> Result<u32, ParseError> {
        self.place(variable, true)
    }

    /// A parameter. Its address is not taken, so it needs no gaps.
    pub(super) fn add_parameter(&mut self, variable: &Variable<'_>) -> Result<u32, ParseError> {
        self.place(variable, false)
    }

    fn place(&mut self, variable: &Variable<'_>, guarded: bool) -> Result<u32, ParseError> {
        allot(&mut self.bytes, variable, LOCAL_LIMIT)?;
        let gap = if (guarded || self.guarded) && self.end > 0 { LOCAL_GAP } else { 0 };
        let offset = (self.end + gap).next_multiple_of(variable.alignment);
        if gap > 0 {
            self.variables.gaps.push((self.end, offset));
        }
        self.variables.names.push((variable.name.to_owned(), offset, variable.bytes() as u32));
        (self.end, self.guarded) = (offset + variable.bytes() as u32, guarded);
        Ok(offset)
    }

    /// The variables with the bytes between them, and the bytes of a thread's local memory.
    pub(super) fn finish(mut self) -> (Variables, u32) {
        let gap = if self.guarded { LOCAL_GAP } else { 0 };
        let end = (self.end + gap).next_multiple_of(16);
        if gap > 0 {
            self.variables.gaps.push((self.end, end));
        }
        (self.variables, end)
    }
}

/// Reserves aligned space for a variable. Gives its offset.
pub(super) fn allot(used: &mut u32, variable: &Variable<'_>, limit: u32) -> Result<u32, ParseError> {
    let offset = used.checked_next_multiple_of(variable.alignment);
    let end = offset.and_then(|o| o.checked_add(u32::try_from(variable.bytes()).ok()?)).filter(|&end| end <= limit);
    match (offset, end) {
        (Some(offset), Some(end)) => {
            *used = end;
            Ok(offset)
        }
        _ => {
            let message = format!("`{}` does not fit: at most {limit} bytes", variable.name);
            Err(ParseError::Name { line: variable.line, message })
        }
    }
}
