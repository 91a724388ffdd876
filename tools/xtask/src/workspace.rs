//! The workspace's folder, how cargo is called in it, and why a task fails.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

/// Why a task failed, for a person to read.
pub(crate) type Failure = Box<dyn Error>;

/// Cargo, in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).map_or(own.clone(), PathBuf::from)
}
