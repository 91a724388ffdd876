//! Splits an opcode into its parts, and refuses it if a part is not understood.

use crate::error::ParseError;
use crate::numerics::format::Rounding;
use crate::syntax::ast::ScalarType;

/// An opcode, split at its dots. Every part that is read is marked; [`Opcode::finish`] refuses an opcode with unread
/// parts.
pub(super) struct Opcode<'a> {
    pub(super) text: &'a str,
    pub(super) line: u32,
    parts: Vec<&'a str>,
    used: u64,
}

impl<'a> Opcode<'a> {
    pub(super) fn new(text: &'a str, line: u32) -> Self {
        Self { text, line, parts: text.split('.').collect(), used: 1 }
    }

    /// The mnemonic.
    pub(super) fn base(&self) -> &'a str {
        self.parts[0]
    }

    /// An error that names this instruction.
    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::Unsupported { line: self.line, opcode: self.text.into(), message: message.into() }
    }

    fn tick(&mut self, index: usize) {
        if index < 64 {
            self.used |= 1 << index;
        }
    }

    fn is_used(&self, index: usize) -> bool {
        index < 64 && self.used >> index & 1 != 0
    }

    /// Reads a modifier. Gives whether the opcode has it.
    pub(super) fn take(&mut self, name: &str) -> bool {
        let found = (1..self.parts.len()).find(|&i| !self.is_used(i) && self.parts[i] == name);
        if let Some(index) = found {
            self.tick(index);
        }
        found.is_some()
    }

    /// Reads the first of these modifiers that the opcode has.
    pub(super) fn take_any(&mut self, names: &[&str]) -> Option<&'a str> {
        let index = (1..self.parts.len()).find(|&i| !self.is_used(i) && names.contains(&self.parts[i]))?;
        self.tick(index);
        Some(self.parts[index])
    }

    /// Reads the next modifier that is a type.
    pub(super) fn scalar(&mut self) -> Result<ScalarType, ParseError> {
        self.optional_scalar().ok_or_else(|| self.error("a type is missing"))
    }

    /// Reads the next modifier that is a type, if there is one.
    pub(super) fn optional_scalar(&mut self) -> Option<ScalarType> {
        let (index, scalar) = (1..self.parts.len())
            .filter(|&i| !self.is_used(i))
            .find_map(|i| Some((i, ScalarType::from_name(self.parts[i])?)))?;
        self.tick(index);
        Some(scalar)
    }

    /// Reads `.rn`, `.rz`, `.rm` or `.rp`, if the opcode has one.
    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        Some(match self.take_any(&["rn", "rz", "rm", "rp", "rna"])? {
            "rn" => Rounding::NearestEven,
            "rz" => Rounding::TowardZero,
            "rm" => Rounding::Down,
            "rna" => Rounding::NearestAway,
            _ => Rounding::Up,
        })
    }

    /// Skips hints that only change speed.
    pub(super) fn skip_cache_hints(&mut self) -> bool {
        const HINTS: [&str; 22] = [
            "ca",
            "cg",
            "cs",
            "lu",
            "cv",
            "wb",
            "wt",
            "L1::evict_normal",
            "L1::evict_unchanged",
            "L1::evict_first",
            "L1::evict_last",
            "L1::no_allocate",
            "L2::evict_normal",
            "L2::evict_first",
            "L2::evict_last",
            "L2::64B",
            "L2::128B",
            "L2::256B",
            "unified",
            "nc",
            "L2::evict_unchanged",
            "L2::no_allocate",
        ];
        while self.take_any(&HINTS).is_some() {}
        self.take("L2::cache_hint")
    }

    /// Refuses the opcode if a modifier has not been read.
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        match (1..self.parts.len()).find(|&i| !self.is_used(i)) {
            None => Ok(()),
            Some(index) => Err(self.error(format!("modifier `.{}` is not known here", self.parts[index]))),
        }
    }
}
