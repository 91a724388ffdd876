//! Writes the modelled files with one mistake each, beside their models: `mutants.rs`.

#[path = "mutants.rs"]
#[allow(dead_code, reason = "the models use the rest")]
mod mutants;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let mut text = String::new();
    for (i, mutant) in mutants::MUTANTS.iter().enumerate() {
        let Some((module, path)) = mutants::FILES.into_iter().find(|(name, _)| *name == mutant.file) else {
            return Err(format!("no file is named {}", mutant.file).into());
        };
        let (file, models) = (read(&here.join(path))?, read(&here.join(format!("{module}.rs")))?);
        let times = file.matches(mutant.right).count();
        if times != 1 {
            let Mutant { name, right, .. } = mutant;
            return Err(format!("`{name}`: {path} has this text {times} times, not once:\n{right}").into());
        }
        let file = file.replace(mutant.right, mutant.wrong);
        writeln!(
            text,
            "mod mutant_{i} {{\npub(crate) mod {module} {{\n{file}\n}}\npub(crate) mod models {{\n{models}\n}}\n}}"
        )?;
    }
    text.push_str("pub(super) const MODELS_OF_MUTANTS: &[&[(&str, fn())]] = &[\n");
    for i in 0..mutants::MUTANTS.len() {
        writeln!(text, "&mutant_{i}::models::MODELS,")?;
    }
    text.push_str("];\n");
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("mutants.rs"), text)?;
    Ok(())
}

use mutants::Mutant;

/// A file without its own documentation, which is not allowed inside another one.
fn read(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    // A build script says so to Cargo.
    #[allow(clippy::print_stdout, reason = "Cargo reads it")]
    {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(text.lines().filter(|line| !line.starts_with("//!")).fold(String::new(), |text, line| text + line + "\n"))
}
