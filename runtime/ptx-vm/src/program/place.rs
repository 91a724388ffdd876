//! The place of an instruction in the text and its source, for messages.

use super::Program;
use crate::error::Site;
use crate::syntax::ast::Location;

impl Program {
    /// The place of an instruction, in a block and a warp.
    pub(crate) fn site(&self, kernel: &str, pc: u32, block: [u32; 3], warp: u32) -> Site {
        let origin = self.origins.get(pc as usize).or(self.origins.last());
        Site {
            kernel: kernel.into(),
            line: origin.map_or(0, |o| o.line),
            source: origin.and_then(|o| o.location).map(|l| self.source(l)),
            opcode: origin.map_or_else(String::new, |o| self.opcodes[o.opcode as usize].clone()),
            block,
            warp,
            lane: None,
        }
    }

    /// A `.loc` as `file:line`, with the place where it was inlined.
    fn source(&self, location: Location) -> String {
        let own = format!("{}:{}", self.file(location.file), location.line);
        match location.inlined_at {
            Some((number, line)) => format!("{own}, inlined at {}:{line}", self.file(number)),
            None => own,
        }
    }

    fn file(&self, number: u32) -> &str {
        self.files.iter().find(|f| f.0 == number).map_or("?", |f| f.1.as_str())
    }

    /// The file and line in the user's source. For inlined code it is that of the outermost call.
    pub(crate) fn source_place(&self, location: Location) -> (String, u32) {
        let (file, line) = location.inlined_at.unwrap_or((location.file, location.line));
        (self.file(file).to_owned(), line)
    }
}
