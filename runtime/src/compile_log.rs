//! What NVRTC's log says, in numbers.

use std::fmt;

/// How bad a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The source does not compile.
    Error,
    /// It compiles, and something is suspect.
    Warning,
}

/// One message of the compiler or of ptxas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file and line it is about, as `#line` directives name them.
    pub location: Option<(String, u32)>,
    /// ptxas's number, such as `C7511`.
    pub code: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((file, line)) = &self.location {
            write!(f, "{file}:{line}: ")?;
        }
        f.write_str(match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// What a kernel needs of a multiprocessor, by ptxas's account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The kernel's symbol.
    pub kernel: String,
    /// Registers of one thread.
    pub registers: u32,
    /// Bytes of one thread's stack.
    pub stack_bytes: u32,
    /// Bytes written to memory because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes read back.
    pub spill_load_bytes: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Static shared memory, in bytes.
    pub shared_bytes: u32,
}

/// A compilation's log. Resources are known for machine code only: PTX has no registers yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileLog {
    /// The log as NVRTC wrote it.
    pub text: String,
    /// Every kernel's resources.
    pub kernels: Vec<Resources>,
    /// Errors and warnings, those of ptxas (`C75xx` and the like) among them.
    pub diagnostics: Vec<Diagnostic>,
}
