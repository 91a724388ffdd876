//! A kernel as callers see it: its name, its parameters, its program.

use super::{Program, SpecialSource};

/// A kernel of a module.
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) program: Program,
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub alignment: usize,
    /// Offset in the parameter block, in bytes.
    pub offset: usize,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The bytes of shared memory that it declares, without dynamic shared memory.
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.static_shared
    }

    /// Whether its code uses variables of the module.
    pub(crate) fn names_variables(&self) -> bool {
        self.program.fills.iter().any(|fill| matches!(fill.source, SpecialSource::Variable { .. }))
    }

    /// The full opcodes of its instructions, sorted, each once.
    pub fn opcodes(&self) -> Vec<&str> {
        let mut opcodes: Vec<_> = self.program.opcodes.iter().map(String::as_str).collect();
        opcodes.sort_unstable();
        opcodes
    }
}
