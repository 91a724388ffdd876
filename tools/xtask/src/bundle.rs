//! `cargo xtask gpu-bundle`: everything that a machine with a GPU needs to check and measure this project, in one
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say::say;
use crate::tools;
use crate::workspace::{Failure, root};

/// The size limit: a bundle and the repository together have at most 60 MiB.
const LIMIT: u64 = 48 * 1024 * 1024;

/// Makes `target/gpu-bundle`: the program, the script that runs it, the peers, and kernels that are compiled in
/// advance.
pub(crate) fn make() -> Result<PathBuf, Failure> {
    tools::install_pinned()?;
    let folder = root().join("target/gpu-bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("peers"))?;
    build(&folder)?;
    let source = root().join("tools/bundle");
    fs::copy(source.join("run.sh"), folder.join("run.sh"))?;
    for entry in fs::read_dir(source.join("peers"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), folder.join("peers").join(entry.file_name()))?;
        }
    }
    fs::write(folder.join("commit"), commit())?;
    run(Command::new(folder.join("epilogue-gpu")).arg("precompile").arg(folder.join("kernels")))?;
    let size = bytes(&folder)?;
    say!(
        "{:.1} MiB in {}; on the GPU machine: ./run.sh --tier 1 --out results",
        size as f64 / 1048576.0,
        folder.display()
    );
    if let Some((major, minor)) = glibc_needed(&fs::read(folder.join("epilogue-gpu"))?) {
        say!(
            "it runs where glibc is {major}.{minor} or newer (`ldd --version`); build it on an older system for others"
        );
    }
    if size > LIMIT {
        return Err(format!("the bundle has {size} bytes, more than the {LIMIT} that may travel").into());
    }
    Ok(folder)
}

/// Builds the program, and strips it.
fn build(folder: &Path) -> Result<(), Failure> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = root().join("target");
    run(Command::new(program)
        .args(["build", "--release", "--package", "epilogue-bundle", "--target-dir"])
        .arg(&target)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .current_dir(root()))?;
    fs::copy(target.join("release/epilogue-gpu"), folder.join("epilogue-gpu"))?;
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}

/// The commit, with a mark if the working tree differs from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}+changes"),
        (None, _) => "unknown".to_owned(),
    }
}

/// The newest version of glibc in the names of a program's symbols, such as `GLIBC_2.34`.
fn glibc_needed(program: &[u8]) -> Option<(u32, u32)> {
    const NAME: &[u8] = b"GLIBC_";
    let starts = (0..program.len()).filter(|start| program[*start..].starts_with(NAME));
    let version = |start: usize| {
        let rest = &program[start + NAME.len()..];
        let length = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let mut numbers = std::str::from_utf8(&rest[..length]).ok()?.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??))
    };
    starts.filter_map(version).max()
}

fn bytes(folder: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() { bytes(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_needed() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBC_";
        assert_eq!(glibc_needed(program), Some((2, 34)));
        assert_eq!(glibc_needed(b"GLIBC"), None);
    }
}
