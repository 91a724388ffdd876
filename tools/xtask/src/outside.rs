//! A new user's crate: outside of the workspace, with README's example and lines of `Cargo.toml`, and the library by its
//! path.

use std::path::Path;

use crate::say::say;
use crate::workspace::{Failure, cargo, root};

/// The features that the example is run with: those that one gets without asking, and none.
const FEATURES: [(&str, &str); 2] = [("default", ""), ("none", ", default-features = false")];

/// Says how the library was compiled, and the time of a product.
const SPEED: &str = r#"use epilogue::prelude::*;

#[epilogue]
fn plain(accum: Accum) -> Tensor {
    let d = accum;
    d
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let (a, b) = (device.full::<f32>([512, 512], 0.5)?, device.full::<f32>([512, 512], 0.5)?);
    let mut d = device.zeros::<f32>([512, 512])?;
    let gemm = Gemm::plan::<Plain>(&device, &a, &b)?;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let start = std::time::Instant::now();
        gemm.run(&a, &b, Plain { d: &mut d })?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    println!("{}{}", device.describe(), gemm.choice());
    println!("milliseconds: {}", least * 1e3);
    Ok(())
}
"#;

/// Words of both descriptions, if the library is compiled without optimisation.
const SLOW: &str = "compiled without optimisation";

/// Makes the crate, and runs it with each set of features, then with README's profile.
pub(crate) fn run() -> Result<(), Failure> {
    let folder = root().join("target/outside");
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    std::fs::create_dir_all(folder.join("src/bin"))?;
    std::fs::write(folder.join("src/main.rs"), example(&readme)?)?;
    std::fs::write(folder.join("src/bin/speed.rs"), SPEED)?;
    for (name, features) in FEATURES {
        std::fs::write(folder.join("Cargo.toml"), manifest(&root(), features, ""))?;
        started(&folder, "outside")?;
        say!("README's example runs outside of the workspace with the features: {name}");
    }
    let slow = speed(&folder, 2)?;
    let (_, features) = FEATURES[1];
    std::fs::write(folder.join("Cargo.toml"), manifest(&root(), features, profile(&readme)?))?;
    let fast = speed(&folder, 0)?;
    say!("a product of 512x512x512 takes {slow:.2} ms by `cargo run`, and {fast:.2} ms with README's profile");
    if slow < 10.0 * fast {
        return Err("README's profile makes less difference than is said".into());
    }
    Ok(())
}

/// The milliseconds of a product. `SLOW` must be said as often.
fn speed(folder: &Path, said: usize) -> Result<f64, Failure> {
    let output = started(folder, "speed")?;
    let times = output.matches(SLOW).count();
    if times != said {
        return Err(format!("`{SLOW}` is said {times} times instead of {said}:\n{output}").into());
    }
    let time = output.lines().find_map(|line| line.strip_prefix("milliseconds: ")?.parse().ok());
    time.ok_or_else(|| format!("there is no time in:\n{output}").into())
}

/// Runs one of the crate's programs, as a user's Cargo would be started, and not as this workspace's; its output.
fn started(folder: &Path, program: &str) -> Result<String, Failure> {
    let mut command = cargo(&["run", "--bin", program]);
    command.current_dir(folder).env_remove("CARGO_TARGET_DIR").env_remove("EPILOGUE_TOOLS");
    for profile in ["OPT_LEVEL", "DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"] {
        command.env_remove(format!("CARGO_PROFILE_DEV_{profile}"));
    }
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("`{program}` does not run: {text}").into()) }
}

fn manifest(library: &Path, features: &str, profile: &str) -> String {
    let path = library.display().to_string();
    // A workspace of its own: it lies in the folder of another one.
    format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nepilogue = {{ path = \
         {path:?}{features} }}\n\n[workspace]\n\n{profile}\n"
    )
}

/// The text's first example that is a program.
fn example(text: &str) -> Result<&str, Failure> {
    let mut examples = text.split("```rust\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    examples.find(|example| example.contains("fn main()")).ok_or_else(|| "README has no example with `main`".into())
}

/// The profile that the text advises.
fn profile(text: &str) -> Result<&str, Failure> {
    let mut lines = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    lines.find(|lines| lines.starts_with("[profile.")).ok_or_else(|| "README has no lines of a profile".into())
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

    /// README, the guide and the library itself advise the same lines.
    #[test]
    fn the_profile_is_the_same_everywhere() {
        let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file");
        let readme = read("README.md");
        let lines = profile(&readme).expect("a profile");
        let guide = read("src/guide/first_product.rs").replace("//! ", "");
        assert_eq!(profile(&guide).expect("a profile"), lines);
        let advice = read("runtime/src/optimisation.rs").replace('\\', "");
        assert!(
            lines.lines().count() == 3 && lines.lines().all(|line| advice.contains(&format!("`{line}`"))),
            "{lines}"
        );
        assert!(profile("no lines").is_err());
    }
}
