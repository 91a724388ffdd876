//! For tests: what to do if this machine lacks something, and the number of cases of a property test.
//!
//! With plain `cargo test`, a test that needs NVRTC says that it was skipped, and passes. If `EPILOGUE_REQUIRE_NVRTC`
//! is set (`cargo xtask test` sets it after installing NVRTC), the test fails instead: nothing is skipped unnoticed.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::compile::compiler::Compiler;
use crate::compile::discovery;

/// NVRTC, for the test called `test`; `None`, with a message, if there is none.
///
/// # Panics
/// Without NVRTC, if `EPILOGUE_REQUIRE_NVRTC` is set.
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

/// The disassembler in the tool folder, for the test called `test`; `None`, with a message, if there is none.
///
/// # Panics
/// Without it, if `EPILOGUE_REQUIRE_NVRTC` is set.
#[must_use]
pub fn nvdisasm(test: &str) -> Option<PathBuf> {
    let place = discovery::tool_folder().map(|tools| tools.join("cuda/nvidia/cu13/bin/nvdisasm"));
    let found = place.filter(|path| path.is_file());
    if found.is_none() {
        missing(test, "nvdisasm", "it is not in the tool folder");
    }
    found
}

/// The number of random cases of a property test: `default`, times `EPILOGUE_CASES` if that is set (`cargo xtask test
/// --cases` sets it).
///
/// # Panics
/// If `EPILOGUE_CASES` is not a positive number: otherwise nobody would notice that fewer cases run than were asked
/// for.
#[must_use]
pub fn cases(default: u32) -> u32 {
    let Some(scale) = std::env::var_os("EPILOGUE_CASES") else { return default };
    let scale = scale.to_str().and_then(|text| text.parse::<f64>().ok()).filter(|scale| *scale > 0.0);
    let scale = scale.expect("EPILOGUE_CASES is a positive number, by which the number of random cases is multiplied");
    // The conversion saturates.
    (f64::from(default) * scale).ceil() as u32
}

/// Some of the cases that a test lists, in their order: others at each run, and as many of them as [`cases`] says. All
/// of them unless `EPILOGUE_CASES` is below 1.
#[must_use]
pub fn some_of<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let random = RandomState::new();
    let mut drawn: Vec<usize> = (0..all.len()).collect();
    drawn.sort_by_key(|place| random.hash_one(place));
    drawn.truncate(cases(count) as usize);
    let all = all.into_iter().enumerate().filter(|(place, _)| drawn.contains(place));
    all.map(|(_, case)| case).collect()
}

fn missing(test: &str, what: &str, reason: &str) {
    assert!(std::env::var_os("EPILOGUE_REQUIRE_NVRTC").is_none(), "test `{test}`: {reason}");
    // The test harness hides what a passing test writes with `eprintln!`, but not this.
    let message =
        format!("SKIPPED: test `{test}` needs {what}, which this machine lacks (`cargo xtask test` installs it)");
    let _ = writeln!(io::stderr(), "{message}");
}
