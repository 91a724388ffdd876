//! A new user's crate: outside of the workspace, with README's example, and the library by its path.

use std::path::Path;

use crate::say::say;
use crate::workspace::{Failure, cargo, root};

/// The features that the example is run with: those that one gets without asking, and none.
const FEATURES: [(&str, &str); 2] = [("default", ""), ("none", ", default-features = false")];

/// Makes the crate, and runs it with each set of features.
pub(crate) fn run() -> Result<(), Failure> {
    let folder = root().join("target/outside");
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/main.rs"), example(&readme)?)?;
    for (name, features) in FEATURES {
        std::fs::write(folder.join("Cargo.toml"), manifest(&root(), features))?;
        let mut command = cargo(&["run"]);
        // As a user's Cargo would be started, and not as this workspace's.
        command.current_dir(&folder).env_remove("CARGO_TARGET_DIR").env_remove("EPILOGUE_TOOLS");
        if !command.status()?.success() {
            return Err(format!("README's example does not run with the features: {name}").into());
        }
        say!("README's example runs outside of the workspace with the features: {name}");
    }
    Ok(())
}

fn manifest(library: &Path, features: &str) -> String {
    let path = library.display().to_string();
    // A workspace of its own: it lies in the folder of another one.
    format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nepilogue = {{ path = \
         {path:?}{features} }}\n\n[workspace]\n"
    )
}

/// The text's first example that is a program.
fn example(text: &str) -> Result<&str, Failure> {
    let mut examples = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    examples.find(|example| example.contains("fn main()")).ok_or_else(|| "README has no example with `main`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_has_a_program() {
        let text = std::fs::read_to_string(root().join("README.md")).expect("a file");
        let program = example(&text).expect("an example");
        assert!(program.starts_with("use epilogue::prelude::*;") && program.ends_with('}'), "{program}");
        assert!(example("```rust\nlet x = 1;\n```\n").is_err());
    }
}
