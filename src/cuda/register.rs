//! The types of registers.

use std::fmt;

/// The C++ type of a value in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    F32,
    F64,
    I32,
    I64,
    Bool,
}

impl Register {
    /// Its name in C++.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F64 => "double",
            Self::I32 => "int",
            Self::I64 => "long long",
            Self::Bool => "bool",
        }
    }

    /// Bytes of a value, as C++ lays it out.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::Bool => 1,
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
