//! Where NVRTC may be.
//!
//! In order: `EPILOGUE_NVRTC` (a library, or a folder that holds one; if set, nothing else is looked at), `CUDA_HOME`
//! and `CUDA_PATH`, `/usr/local/cuda*`, the system loader's own path, Python environments' `site-packages`, the tool
//! folder (`EPILOGUE_TOOLS`, or `.tools` in an ancestor of the current folder or of the program), and last what
//! `python3` itself says its `site-packages` are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::error::Absent;
use crate::nvrtc::Nvrtc;

/// Folders of the toolkit that hold libraries.
const TOOLKIT_FOLDERS: [&str; 4] = ["lib64", "lib", "targets/x86_64-linux/lib", "bin"];
/// Folders of NVIDIA's wheels that hold NVRTC: CUDA 13's layout, then CUDA 12's.
const WHEEL_FOLDERS: [&str; 3] = ["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/lib"];
/// What the loader is asked for, newest first.
const BARE_NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};

/// The first NVRTC that loads and is new enough.
pub(crate) fn find_nvrtc() -> Result<&'static Nvrtc, Absent> {
    let mut search = Search::default();
    if let Some(named) = variable("EPILOGUE_NVRTC") {
        let found = if named.is_dir() { search.folder(&named) } else { search.library(&named) };
        return found.ok_or_else(|| search.into_absent());
    }
    search.everywhere().ok_or_else(|| search.into_absent())
}

#[derive(Default)]
struct Search {
    searched: Vec<PathBuf>,
}

impl Search {
    fn everywhere(&mut self) -> Option<&'static Nvrtc> {
        for root in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).chain(installed_toolkits()) {
            if let Some(found) = TOOLKIT_FOLDERS.iter().find_map(|folder| self.folder(&root.join(folder))) {
                return Some(found);
            }
        }
        if let Some(found) = BARE_NAMES.iter().find_map(|name| self.library(Path::new(name))) {
            return Some(found);
        }
        for packages in site_packages().into_iter().chain(tool_folders().into_iter().map(|t| t.join("cuda"))) {
            if let Some(found) = self.wheels(&packages) {
                return Some(found);
            }
        }
        python_packages().iter().find_map(|packages| self.wheels(packages))
    }

    fn wheels(&mut self, packages: &Path) -> Option<&'static Nvrtc> {
        WHEEL_FOLDERS.iter().find_map(|folder| self.folder(&packages.join(folder)))
    }

    /// The newest library of a folder.
    fn folder(&mut self, folder: &Path) -> Option<&'static Nvrtc> {
        if self.searched.iter().any(|p| p == folder) {
            return None;
        }
        self.searched.push(folder.to_owned());
        let mut libraries: Vec<PathBuf> = fs::read_dir(folder)
            .ok()?
            .flatten()
            .filter(|entry| is_nvrtc(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        libraries.sort();
        libraries.iter().rev().find_map(|library| Nvrtc::at(library))
    }

    fn library(&mut self, path: &Path) -> Option<&'static Nvrtc> {
        self.searched.push(path.to_owned());
        Nvrtc::at(path)
    }

    fn into_absent(self) -> Absent {
        Absent::Nvrtc { searched: self.searched }
    }
}

/// Whether a file is NVRTC itself, not its builtins nor the variants for other linkage.
fn is_nvrtc(name: &str) -> bool {
    name == "libnvrtc.so"
        || name.starts_with("libnvrtc.so.")
        || (name.starts_with("nvrtc64_") && name.ends_with(".dll") && !name.contains(".alt"))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Folders `parent/prefix*`, last in the alphabet (the newest version) first.
fn folders(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)).map(|e| e.path()).collect();
    found.sort();
    found.reverse();
    found
}

/// `/usr/local/cuda` (what the administrator chose), then the versions.
fn installed_toolkits() -> Vec<PathBuf> {
    let mut found = folders(Path::new("/usr/local"), "cuda");
    found.sort_by_key(|path| path.file_name().is_none_or(|name| name != "cuda"));
    found
}

/// `site-packages` of the active environment, the user and the system.
fn site_packages() -> Vec<PathBuf> {
    let roots = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(variable)
        .chain(variable("HOME").map(|home| home.join(".local")))
        .chain([PathBuf::from("/usr/local"), PathBuf::from("/usr")]);
    let mut found = Vec::new();
    for root in roots {
        for python in folders(&root.join("lib"), "python3") {
            found.extend(
                ["site-packages", "dist-packages"].map(|name| python.join(name)).into_iter().filter(|p| p.is_dir()),
            );
        }
    }
    found
}

/// What `python3` says: finds environments that only the interpreter knows of. Asked once, and last, because it costs
/// a process.
fn python_packages() -> &'static [PathBuf] {
    static PACKAGES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    PACKAGES.get_or_init(|| {
        let program = "import site, sysconfig\n\
                       print(sysconfig.get_path('purelib'))\n\
                       print('\\n'.join(site.getsitepackages()))";
        let Ok(output) = Command::new("python3").args(["-c", program]).output() else { return Vec::new() };
        String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
    })
}

/// The tool folders that exist, nearest first.
pub(crate) fn tool_folders() -> Vec<PathBuf> {
    if let Some(named) = variable("EPILOGUE_TOOLS") {
        return vec![named];
    }
    let starts = [env::current_dir().ok(), env::current_exe().ok()];
    let mut found: Vec<PathBuf> = Vec::new();
    for start in starts.iter().flatten() {
        for folder in start.ancestors().map(|a| a.join(".tools")) {
            if folder.is_dir() && !found.contains(&folder) {
                found.push(folder);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nvrtc_itself_counts() {
        for name in ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12.9.86", "nvrtc64_130_0.dll"] {
            assert!(is_nvrtc(name), "{name}");
        }
        for name in ["libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0", "libnvrtc_static.a", "nvrtc64_130_0.alt.dll"] {
            assert!(!is_nvrtc(name), "{name}");
        }
    }

    #[test]
    fn a_folder_without_nvrtc_is_remembered_as_searched() {
        let folder = env::temp_dir();
        let mut search = Search::default();
        assert!(search.folder(&folder).is_none());
        assert!(search.library(Path::new("/nowhere/libnvrtc.so.13")).is_none());
        assert_eq!(
            search.into_absent(),
            Absent::Nvrtc { searched: vec![folder, PathBuf::from("/nowhere/libnvrtc.so.13")] }
        );
    }
}
