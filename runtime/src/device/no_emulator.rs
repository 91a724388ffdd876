//! Replaces `emulated` in a build without the feature `emulated`: values of these types can't exist.

use std::convert::Infallible;

use crate::device::launch::Launch;
use crate::error::Result;

/// The machine of an emulated device, which can't exist.
pub(crate) enum Emulator {}

/// Its memory.
pub(crate) enum EmulatedMemory {}

/// Its code.
pub(crate) type Module = Infallible;

/// Use of its memory.
pub(crate) struct Use;

impl Use {
    pub(crate) fn of<'a>(_: impl IntoIterator<Item = (&'a EmulatedMemory, bool)>) -> Self {
        Self
    }
}

impl Emulator {
    pub(crate) fn launch(&self, _: &Module, _: &str, _: &Launch, _: &[&[u8]]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn has_room(&self, _: u32) -> bool {
        match *self {}
    }

    pub(crate) fn write_variable(&self, _: &Module, _: &str, _: &[u8]) -> Result<()> {
        match *self {}
    }

    /// The code of a kernel's PTX.
    pub(crate) fn load(&self, _: &str, _: &str) -> Result<Module> {
        match *self {}
    }
}

impl EmulatedMemory {
    pub(crate) fn zeroed(emulator: &Emulator, _: usize, _: &str) -> Result<Self> {
        match *emulator {}
    }

    pub(crate) fn holding(emulator: &Emulator, _: &[u8], _: &str) -> Result<Self> {
        match *emulator {}
    }

    pub(crate) fn uninitialised(emulator: &Emulator, _: usize, _: &str) -> Result<Self> {
        match *emulator {}
    }

    pub(crate) fn address(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn read(&self, _: usize, _: &mut [u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<()> {
        match *self {}
    }
}
