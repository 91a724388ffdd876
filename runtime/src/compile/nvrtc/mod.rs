//! NVRTC on this machine: a library file and its version. It is loaded only when something must be compiled.
//!
//! Loading takes longer (some 40 ms) than everything else between a program's start and a cached kernel. So a library's
//! version is stored in the kernel cache, under the file's path, size and time.

mod library;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use crate::compile::cache::{CacheKey, KernelCache};
use crate::error::{Error, Result};

use library::Library;
pub(crate) use library::{CompiledKernel, Unusable};

/// Memory for one compilation, in bytes. A kernel of 3,200 lines takes 31 MiB as PTX and 6 MiB more as machine code.
const ROOM: usize = 64 << 20;

/// An NVRTC that is known to load.
pub(crate) struct Nvrtc {
    pub(crate) path: PathBuf,
    pub(crate) version: (u32, u32),
    library: OnceLock<Library>,
}

impl Nvrtc {
    /// The NVRTC of a library file, or of a bare name for the system's loader.
    pub(crate) fn at(path: &Path) -> Result<&'static Self, Unusable> {
        static KNOWN: Mutex<BTreeMap<PathBuf, &'static Nvrtc>> = Mutex::new(BTreeMap::new());
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nvrtc) = known.get(&path) {
            return Ok(nvrtc);
        }
        let nvrtc: &'static Self = Box::leak(Box::new(Self::remembered_or_loaded(&path)?));
        known.insert(path, nvrtc);
        Ok(nvrtc)
    }

    fn remembered_or_loaded(path: &Path) -> Result<Self, Unusable> {
        let file = fs::metadata(path).ok();
        let make = |version, library| Self { path: path.to_owned(), version, library };
        let memory = KernelCache::of_user().zip(file.and_then(|f| Some((f.len(), f.modified().ok()?))));
        let memory = memory.map(|(cache, (bytes, time))| (cache, key(path, bytes, time)));
        if let Some((cache, key)) = &memory
            && let Some(version) = cache.load(*key).as_deref().and_then(parse_version)
        {
            return Ok(make(version, OnceLock::new()));
        }
        let library = Library::open(path)?;
        let version = library.version;
        if let Some((cache, key)) = &memory {
            // If this fails, the next process loads the library again.
            let _ = cache.store(*key, format!("{}.{}", version.0, version.1).as_bytes());
        }
        Ok(make(version, OnceLock::from(library)))
    }

    /// Compiles a source. `cubin` says whether the options ask for machine code.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where NVRTC would find no memory: it ends the process then.
    pub(crate) fn compile(&self, name: &str, code: &str, options: &[String], cubin: bool) -> Result<CompiledKernel> {
        let library = self.library()?;
        if Vec::<u8>::new().try_reserve_exact(ROOM).is_err() {
            return Err(Error::OutOfMemory { device: "this computer".to_owned(), bytes: ROOM });
        }
        library.compile(name, code, options, cubin)
    }

    fn library(&self) -> Result<&Library> {
        if let Some(library) = self.library.get() {
            return Ok(library);
        }
        let changed = |what: String| Error::Nvrtc {
            call: "library",
            message: format!("{} loaded before and does not any more: it {what}", self.path.display()),
        };
        let opened = Library::open(&self.path).map_err(|unusable| changed(unusable.to_string()))?;
        if opened.version != self.version {
            return Err(changed(format!("is of CUDA {}.{}", opened.version.0, opened.version.1)));
        }
        Ok(self.library.get_or_init(|| opened))
    }
}

fn key(path: &Path, bytes: u64, time: SystemTime) -> CacheKey {
    let time = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
    let path = path.as_os_str().as_encoded_bytes();
    CacheKey::of(&[b"the version of an NVRTC", path, &bytes.to_le_bytes(), &time.to_le_bytes()])
}

fn parse_version(text: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version(b"13.0"), Some((13, 0)));
        assert_eq!(parse_version(b"13"), None);
        assert_eq!(parse_version(b"13.x"), None);
    }

    #[test]
    fn another_file_of_the_same_name_is_another_key() {
        let (path, time) = (Path::new("libnvrtc.so.13"), SystemTime::UNIX_EPOCH);
        assert_eq!(key(path, 1, time), key(path, 1, time));
        assert_ne!(key(path, 1, time), key(path, 2, time));
        assert_ne!(key(path, 1, time), key(path, 1, time + std::time::Duration::from_nanos(1)));
    }
}
