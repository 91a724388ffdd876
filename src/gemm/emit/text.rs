//! A kernel's text while it is written, and when it is.

use std::fmt::Write as _;

use epilogue_runtime::Source;

use super::arguments::EpilogueArguments;

/// A kernel's text and what its launch needs to know of it.
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

/// A text that knows its own line, to return to after the user's.
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
