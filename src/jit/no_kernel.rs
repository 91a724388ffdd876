//! Kernels on a CPU without an instruction set of ours: there are none.

use super::body::Body;
use super::rows::RowProgram;
use crate::tuning::Vectors;

/// Whether there is code for this CPU.
pub(crate) const fn has_code() -> bool {
    false
}

/// A body, compiled.
#[derive(Debug)]
pub(crate) enum Kernel {}

impl Kernel {
    /// There is no code for this CPU.
    pub(crate) fn compile(_body: &Body, _vectors: Vectors) -> Option<Self> {
        None
    }

    /// None is ever compiled.
    pub(crate) fn lanes(&self) -> usize {
        match *self {}
    }

    /// # Safety
    /// None is ever compiled.
    pub(crate) unsafe fn run(&self, _addresses: &[*mut u8], _count: usize) {}
}

/// The body of a tile, compiled.
#[derive(Debug)]
pub(crate) enum TileKernel {}

impl TileKernel {
    /// There is no code for this CPU.
    pub(crate) fn compile(_body: &Body, _extents: [usize; 2], _vectors: Vectors) -> Option<Self> {
        None
    }

    /// None is ever compiled.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match *self {}
    }

    /// # Safety
    /// None is ever compiled.
    pub(crate) unsafe fn run(&self, _rows: *const u8, _columns: *const u8, _totals: *mut u8, _elements: usize) {}
}

/// A row program, compiled.
#[derive(Debug)]
pub(crate) enum RowKernel {}

impl RowKernel {
    /// There is no code for this CPU.
    pub(crate) fn compile(_program: &RowProgram, _vectors: Vectors) -> Option<Self> {
        None
    }

    /// # Safety
    /// None is ever compiled.
    pub(crate) unsafe fn run(&self, _addresses: &mut [*mut u8], _apart: &[isize], _rows: usize) {}
}
