//! For tests: what to do where this machine lacks something.
//!
//! Under plain `cargo test` a test that needs NVRTC says that it was skipped and passes. Where `EPILOGUE_REQUIRE_NVRTC`
//! is set (as `cargo xtask test` does, after installing it) the test fails instead: nothing is skipped unnoticed.

use crate::compiler::Compiler;

/// NVRTC, for the test called `test`; `None`, with a message, where there is none.
///
/// # Panics
/// Without NVRTC where `EPILOGUE_REQUIRE_NVRTC` is set.
#[must_use]
#[allow(clippy::print_stderr, reason = "a skipped test must say so")]
pub fn compiler(test: &str) -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(absent) => {
            assert!(std::env::var_os("EPILOGUE_REQUIRE_NVRTC").is_none(), "test `{test}`: {absent}");
            eprintln!("SKIPPED: test `{test}` needs NVRTC, which this machine lacks (`cargo xtask test` installs it)");
            None
        }
    }
}
