//! Looks for NVRTC.
//!
//! In this order: `EPILOGUE_NVRTC` (a library, or a folder with one; if it is set, nothing else is tried); `CUDA_HOME`
//! and `CUDA_PATH`; `/usr/local/cuda*`; the system loader's own path; `site-packages` of the Python environments that
//! `VIRTUAL_ENV` and `CONDA_PREFIX` name, of the user and of the system; the tool folder that `EPILOGUE_TOOLS` names.
//!
//! The library runs as part of this process. So the search takes none that others may write (see [`crate::compile::trust`]),
//! opens nothing in the working directory or above it, and starts no program.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::compile::nvrtc::{Nvrtc, Unusable};
use crate::compile::trust::{Named, distrust};
use crate::error::Absent;

/// Folders of the toolkit that can have libraries.
const TOOLKIT_FOLDERS: [&str; 4] = ["lib64", "lib", "targets/x86_64-linux/lib", "bin"];
/// Folders of NVIDIA's wheels that can have NVRTC: first CUDA 13's layout, then CUDA 12's.
const WHEEL_FOLDERS: [&str; 3] = ["nvidia/cu13/lib", "nvidia/cu13/bin/x86_64", "nvidia/cuda_nvrtc/lib"];
/// The names that the loader is asked for, newest first.
const BARE_NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};

/// The first NVRTC that loads and is new enough.
pub(crate) fn find_nvrtc() -> Result<&'static Nvrtc, Absent> {
    let mut search = Search::default();
    if let Some(named) = variable("EPILOGUE_NVRTC") {
        let found = if named.is_dir() { search.folder(&named, Named::ByUser) } else { search.library(&named) };
        return found.ok_or_else(|| search.into_absent());
    }
    search.everywhere().ok_or_else(|| search.into_absent())
}

#[derive(Default)]
struct Search {
    searched: Vec<PathBuf>,
    unusable: Vec<String>,
    untrusted: Vec<String>,
}

impl Search {
    fn everywhere(&mut self) -> Option<&'static Nvrtc> {
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).map(|root| (root, Named::ByUser));
        for (root, named) in named.chain(installed_toolkits().into_iter().map(|root| (root, Named::ByNobody))) {
            if let Some(found) = TOOLKIT_FOLDERS.iter().find_map(|folder| self.folder(&root.join(folder), named)) {
                return Some(found);
            }
        }
        if let Some(found) = BARE_NAMES.iter().find_map(|name| self.library(Path::new(name))) {
            return Some(found);
        }
        let tools = tool_folder().map(|tools| (tools.join("cuda"), Named::ByUser));
        site_packages().into_iter().chain(tools).find_map(|(packages, named)| self.wheels(&packages, named))
    }

    fn wheels(&mut self, packages: &Path, named: Named) -> Option<&'static Nvrtc> {
        WHEEL_FOLDERS.iter().find_map(|folder| self.folder(&packages.join(folder), named))
    }

    /// The newest library in a folder, if all files of NVRTC there can be trusted: loading one of them loads others.
    fn folder(&mut self, folder: &Path, named: Named) -> Option<&'static Nvrtc> {
        if self.searched.iter().any(|p| p == folder) {
            return None;
        }
        self.searched.push(folder.to_owned());
        let parts: Vec<PathBuf> = fs::read_dir(folder)
            .ok()?
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().contains("nvrtc"))
            .map(|entry| entry.path())
            .collect();
        if let Some(reason) = parts.iter().find_map(|part| distrust(part, named)) {
            self.untrusted.push(reason);
            return None;
        }
        let is_library = |path: &&PathBuf| path.file_name().is_some_and(|name| is_nvrtc(&name.to_string_lossy()));
        let mut libraries: Vec<&PathBuf> = parts.iter().filter(is_library).collect();
        libraries.sort();
        libraries.into_iter().rev().find_map(|library| self.at(library))
    }

    fn library(&mut self, path: &Path) -> Option<&'static Nvrtc> {
        self.searched.push(path.to_owned());
        self.at(path)
    }

    fn at(&mut self, path: &Path) -> Option<&'static Nvrtc> {
        match Nvrtc::at(path) {
            Ok(nvrtc) => return Some(nvrtc),
            Err(Unusable::NotThere) => {}
            Err(unusable) => self.unusable.push(format!("{} {unusable}", path.display())),
        }
        None
    }

    fn into_absent(self) -> Absent {
        Absent::Nvrtc { searched: self.searched, unusable: self.unusable, untrusted: self.untrusted }
    }
}

/// Whether a file is NVRTC itself, not its builtins or a variant for other linkage.
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

/// `/usr/local/cuda` (the administrator's choice), then the versions.
fn installed_toolkits() -> Vec<PathBuf> {
    let mut found = folders(Path::new("/usr/local"), "cuda");
    found.sort_by_key(|path| path.file_name().is_none_or(|name| name != "cuda"));
    found
}

/// `site-packages` of the active environment, the user and the system.
fn site_packages() -> Vec<(PathBuf, Named)> {
    let roots = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(variable)
        .map(|root| (root, Named::ByUser))
        .chain(variable("HOME").map(|home| (home.join(".local"), Named::ByNobody)))
        .chain(["/usr/local", "/usr"].map(|root| (PathBuf::from(root), Named::ByNobody)));
    let mut found = Vec::new();
    for (root, named) in roots {
        for python in folders(&root.join("lib"), "python3") {
            let packages = ["site-packages", "dist-packages"].map(|name| python.join(name));
            found.extend(packages.into_iter().filter(|path| path.is_dir()).map(|path| (path, named)));
        }
    }
    found
}

/// The tool folder that the environment names.
pub(crate) fn tool_folder() -> Option<PathBuf> {
    variable("EPILOGUE_TOOLS")
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
        assert!(search.folder(&folder, Named::ByNobody).is_none());
        assert!(search.library(Path::new("/nowhere/libnvrtc.so.13")).is_none());
        assert_eq!(
            search.into_absent(),
            Absent::Nvrtc {
                searched: vec![folder, PathBuf::from("/nowhere/libnvrtc.so.13")],
                unusable: Vec::new(),
                untrusted: Vec::new()
            }
        );
    }

    /// A file that is no library, and a pipe: the loader would wait for its writer.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_that_does_not_load_is_named_with_the_reason() {
        let folder = env::temp_dir().join(format!("epilogue-discovery-unusable-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (text, pipe) = (folder.join("libnvrtc.so.12"), folder.join("libnvrtc.so.13"));
        fs::write(&text, b"no library").unwrap();
        crate::compile::trust::make_pipe(&pipe);
        let mut search = Search::default();
        assert!(search.folder(&folder, Named::ByUser).is_none());
        let said = search.into_absent().to_string();
        for part in [
            "no NVRTC that was found can be used",
            &format!("{} does not load (", text.display()),
            &format!("{} does not load (it is not a file)", pipe.display()),
        ] {
            assert!(said.contains(part), "{said}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A library that everyone may write is not used, nor is one beside other parts that everyone may write.
    #[cfg(unix)]
    #[test]
    fn a_library_that_others_may_write_is_named_in_the_error() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = env::temp_dir().join(format!("epilogue-discovery-{}", std::process::id()));
        for writable in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"] {
            fs::create_dir_all(&folder).unwrap();
            for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"] {
                fs::write(folder.join(name), b"").unwrap();
            }
            fs::set_permissions(folder.join(writable), fs::Permissions::from_mode(0o666)).unwrap();
            let mut search = Search::default();
            assert!(search.folder(&folder, Named::ByNobody).is_none());
            let said = search.into_absent().to_string();
            assert!(
                said.contains("Not taken, because others may have put it there") && said.contains(writable),
                "{said}"
            );
            fs::remove_dir_all(&folder).unwrap();
        }
    }
}
