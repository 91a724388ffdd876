//! Finds the model.

use std::path::{Path, PathBuf};

/// Where `cargo xtask fetch-minilm` puts the model: the tool folder.
pub(crate) fn of_model() -> Result<PathBuf, String> {
    let folders: Vec<PathBuf> = match std::env::var_os("EPILOGUE_TOOLS") {
        Some(tools) => vec![PathBuf::from(tools)],
        None => Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(".tools")).collect(),
    };
    let found = folders.iter().map(|folder| folder.join("minilm")).find(|f| f.join("model.safetensors").is_file());
    found.ok_or_else(|| {
        format!("no minilm/model.safetensors in {}; run `cargo xtask fetch-minilm` first", folders[0].display())
    })
}
