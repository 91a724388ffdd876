//! What stopped a warp, before it is given its place in the text.

use crate::error::{LaunchError, MemorySpace, Site};
use crate::exec::context::{Context, Flow};
use crate::program::Program;
use crate::syntax::ast::Location;

/// Why an instruction could not be executed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(in crate::exec) lane: Option<u32>,
    pub(in crate::exec) kind: FaultKind,
}

#[derive(Debug)]
pub(crate) enum FaultKind {
    OutOfBounds { space: MemorySpace, address: u64, bytes: u32, nearest: String },
    Misaligned { space: MemorySpace, address: u64, alignment: u32 },
    Uninitialised { space: MemorySpace, address: u64, bytes: u32, buffer: String },
    Invalid(String),
    Trap,
}

impl Context<'_> {
    /// Stops the launch.
    #[cold]
    pub(in crate::exec) fn fail(&mut self, lane: Option<usize>, kind: FaultKind) -> Flow {
        self.fault = Some(Box::new(Fault { lane: lane.map(|l| l as u32), kind }));
        Flow::Fault
    }

    /// Stops the launch because an instruction was used in a way PTX leaves undefined.
    #[cold]
    pub(in crate::exec) fn invalid(&mut self, lane: Option<usize>, message: impl Into<String>) -> Flow {
        self.fail(lane, FaultKind::Invalid(message.into()))
    }
}

impl Fault {
    /// The error that a caller sees.
    pub(in crate::exec) fn into_error(self, mut site: Site) -> LaunchError {
        site.lane = self.lane;
        let site = Box::new(site);
        match self.kind {
            FaultKind::OutOfBounds { space, address, bytes, nearest } => {
                LaunchError::OutOfBounds { site, space, address, bytes, nearest }
            }
            FaultKind::Misaligned { space, address, alignment } => {
                LaunchError::Misaligned { site, space, address, alignment }
            }
            FaultKind::Uninitialised { space, address, bytes, buffer } => {
                LaunchError::Uninitialised { site, space, address, bytes, buffer }
            }
            FaultKind::Invalid(message) => LaunchError::Invalid { site, message },
            FaultKind::Trap => LaunchError::Trap { site },
        }
    }
}

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

    /// A `.loc` as `file:line`, with the place it was inlined at.
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

    /// The file and line that a user wrote: of inlined code, where the outermost call stands.
    pub(crate) fn source_place(&self, location: Location) -> (String, u32) {
        let (file, line) = location.inlined_at.unwrap_or((location.file, location.line));
        (self.file(file).to_owned(), line)
    }
}
