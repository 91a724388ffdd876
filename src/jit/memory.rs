//! Memory with machine code. It is never writable and executable at the same time.

use memmap2::{Mmap, MmapMut};

/// Machine code that can be called as long as this lives.
#[derive(Debug)]
pub(super) struct Executable(Mmap);

impl Executable {
    /// `None` if there is no memory, or the system allows no new code.
    pub(super) fn new(code: &[u8]) -> Option<Self> {
        let mut memory = MmapMut::map_anon(code.len()).ok()?;
        memory.copy_from_slice(code);
        Some(Self(memory.make_exec().ok()?))
    }

    pub(super) fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
