//! For tests: what to do where this machine lacks something, and how many cases a property is tried on.
//!
//! Under plain `cargo test` a test that needs NVRTC says that it was skipped and passes. Where `EPILOGUE_REQUIRE_NVRTC`
//! is set (as `cargo xtask test` does, after installing it) the test fails instead: nothing is skipped unnoticed.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::compiler::Compiler;
use crate::discovery;

/// NVRTC, for the test called `test`; `None`, with a message, where there is none.
///
/// # Panics
/// Without NVRTC where `EPILOGUE_REQUIRE_NVRTC` is set.
#[must_use]
pub fn compiler(test: &str) -> Option<Compiler> {
    match Compiler::find() {
        Ok(compiler) => Some(compiler),
        Err(absent) => {
            missing(test, "NVRTC", &absent.to_string());
            None
        }
    }
}

/// The disassembler of the tool folder, for the test called `test`; `None`, with a message, where there is none.
///
/// # Panics
/// Without it where `EPILOGUE_REQUIRE_NVRTC` is set.
#[must_use]
pub fn nvdisasm(test: &str) -> Option<PathBuf> {
    let place = discovery::tool_folder().map(|tools| tools.join("cuda/nvidia/cu13/bin/nvdisasm"));
    let found = place.filter(|path| path.is_file());
    if found.is_none() {
        missing(test, "nvdisasm", "it is not in the tool folder");
    }
    found
}

/// How many random cases a property is tried on: `default`, times `EPILOGUE_CASES` where that is set (`cargo xtask test
/// --cases` sets it).
///
/// # Panics
/// Where `EPILOGUE_CASES` is no positive number: fewer cases than were asked for would go unnoticed.
#[must_use]
pub fn cases(default: u32) -> u32 {
    let Some(scale) = std::env::var_os("EPILOGUE_CASES") else { return default };
    let scale = scale.to_str().and_then(|text| text.parse::<f64>().ok()).filter(|scale| *scale > 0.0);
    let scale = scale.expect("EPILOGUE_CASES is a positive number, by which the number of random cases is multiplied");
    // A conversion that saturates.
    (f64::from(default) * scale).ceil() as u32
}

fn missing(test: &str, what: &str, reason: &str) {
    assert!(std::env::var_os("EPILOGUE_REQUIRE_NVRTC").is_none(), "test `{test}`: {reason}");
    // The test harness keeps what `eprintln!` writes in a passing test to itself; this it does not.
    let message =
        format!("SKIPPED: test `{test}` needs {what}, which this machine lacks (`cargo xtask test` installs it)");
    let _ = writeln!(io::stderr(), "{message}");
}
