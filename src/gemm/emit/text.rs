//! A kernel's text, finished and while it is written.

use std::fmt::Write as _;

use epilogue_runtime::Source;

use super::arguments::EpilogueArguments;

/// A kernel's text, with what its launch needs.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) source: Source,
    pub(crate) arguments: EpilogueArguments,
    /// Those of its tail, which follow them.
    pub(crate) tail: Option<EpilogueArguments>,
}

impl Emitted {
    /// Bytes of all arguments.
    pub(crate) fn argument_bytes(&self) -> usize {
        self.arguments.layout.size() + self.tail.as_ref().map_or(0, |tail| tail.layout.size())
    }
}

/// A text that counts its lines, so that `#line` can return to them after the user's.
pub(crate) struct Numbered {
    name: String,
    pub(crate) text: String,
}

impl Numbered {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), text: String::new() }
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(crate) fn resume_numbering(&mut self) {
        let next = self.text.lines().count() + 2;
        let _ = writeln!(self.text, "#line {next} {:?}", self.name);
    }
}
