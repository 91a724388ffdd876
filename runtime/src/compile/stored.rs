//! Stores compiled kernels: their key, their format, and the NVRTC that they are from.
//!
//! An entry's key contains the version of the NVRTC that compiled it. So two versions can share a folder without
//! replacing each other's kernels. It contains nothing else of the library: neither its path nor its size or time.
//! Builds of one version (12.9.41 and 12.9.86 both report 12.9) count as equal.
//!
//! The versions that have written entries are stored in a separate entry. Without NVRTC, a kernel is looked up under
//! each of them, newest first: what was compiled once runs without the library.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::compile::cache::{CacheKey, KernelCache, Miss};
use crate::compile::nvrtc::CompiledKernel;
use crate::compile::source::Source;

/// Changes whenever the options that the compiler adds or the stored format change.
const GENERATION: &[u8] = b"epilogue kernels 2";

/// The most versions under which kernels are looked up.
const VERSIONS: usize = 16;

/// NVRTC's version: major, minor.
pub(crate) type Version = (u32, u32);

/// The hash of everything that an output depends on, except the compiler. The source's name is part of it, since
/// messages and line information contain it.
pub(crate) fn source_key(source: &Source, options: &[String]) -> CacheKey {
    let mut parts = vec![GENERATION, source.name.as_bytes(), source.code.as_bytes()];
    parts.extend(options.iter().map(String::as_bytes));
    CacheKey::of(&parts)
}

fn key_by(source: CacheKey, (major, minor): Version) -> CacheKey {
    CacheKey::of(&[source.as_bytes(), &major.to_le_bytes(), &minor.to_le_bytes()])
}

/// The kernel that this version has compiled from a source.
pub(crate) fn load(cache: &KernelCache, source: CacheKey, version: Version) -> Result<CompiledKernel, Miss> {
    note(cache, version);
    decode(&cache.look_up(key_by(source, version))?).ok_or_else(|| Miss::Damaged { path: cache.folder().to_owned() })
}

/// The kernel that any version has compiled from a source.
pub(crate) fn load_by_any(cache: &KernelCache, source: CacheKey) -> Option<CompiledKernel> {
    versions(cache).into_iter().rev().find_map(|version| decode(&cache.load(key_by(source, version))?))
}

/// Stores what a version has compiled. A failure to write is not reported, since the cache only saves time.
pub(crate) fn store(cache: &KernelCache, source: CacheKey, version: Version, made: &CompiledKernel) {
    note(cache, version);
    let _ = cache.store(key_by(source, version), &encode(made));
}

fn versions_key() -> CacheKey {
    CacheKey::of(&[GENERATION, b"the versions of NVRTC"])
}

fn versions(cache: &KernelCache) -> BTreeSet<Version> {
    let Some(text) = cache.load(versions_key()).and_then(|text| String::from_utf8(text).ok()) else {
        return BTreeSet::new();
    };
    let version = |line: &str| {
        let (major, minor) = line.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    text.lines().take(VERSIONS).filter_map(version).collect()
}

/// Adds a version to those under which kernels are looked up, once per process. If another process does so at the same
/// time, one of the two may be lost; then the next process adds it.
fn note(cache: &KernelCache, version: Version) {
    static NOTED: Mutex<BTreeSet<(PathBuf, Version)>> = Mutex::new(BTreeSet::new());
    if !NOTED.lock().unwrap_or_else(PoisonError::into_inner).insert((cache.folder().to_owned(), version)) {
        return;
    }
    let mut known = versions(cache);
    if known.insert(version) {
        while known.len() > VERSIONS {
            known.pop_first();
        }
        let lines: String = known.iter().map(|(major, minor)| format!("{major}.{minor}\n")).collect();
        let _ = cache.store(versions_key(), lines.as_bytes());
    }
}

/// The three parts, each after its length.
pub(crate) fn encode(made: &CompiledKernel) -> Vec<u8> {
    let parts = [&made.cubin, made.ptx.as_bytes(), made.log.as_bytes()];
    let mut bytes = Vec::with_capacity(parts.iter().map(|p| p.len() + 8).sum());
    for part in parts {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

pub(crate) fn decode(mut bytes: &[u8]) -> Option<CompiledKernel> {
    let mut part = || {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        bytes = rest;
        Some(part.to_vec())
    };
    let (cubin, ptx, log) = (part()?, String::from_utf8(part()?).ok()?, String::from_utf8(part()?).ok()?);
    Some(CompiledKernel { cubin, ptx, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> CompiledKernel {
        CompiledKernel { cubin: vec![1, 2, 3], ptx: text.to_owned(), log: String::new() }
    }

    #[test]
    fn entries_round_trip() {
        let made = made("ptx");
        let bytes = encode(&made);
        let again = decode(&bytes).unwrap();
        assert_eq!((again.cubin, again.ptx, again.log), (made.cubin, made.ptx, made.log));
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none());
        }
    }

    /// Versions don't replace each other's kernels; without a compiler, the newest version's kernel is taken.
    #[test]
    fn every_version_has_its_own_and_the_newest_serves_where_there_is_none() {
        let folder = std::env::temp_dir().join(format!("epilogue-stored-{}", std::process::id()));
        let cache = KernelCache::at(&folder);
        let source = source_key(&Source::new("k.cu", "k", "code"), &[]);
        assert!(load_by_any(&cache, source).is_none());
        for (version, text) in [((12, 9), "old"), ((13, 1), "new"), ((12, 10), "between")] {
            assert!(matches!(load(&cache, source, version), Err(Miss::NotThere)));
            store(&cache, source, version, &made(text));
        }
        assert_eq!(load(&cache, source, (12, 9)).unwrap().ptx, "old");
        assert_eq!(load(&cache, source, (12, 10)).unwrap().ptx, "between");
        assert_eq!(load_by_any(&cache, source).unwrap().ptx, "new");
        let other = source_key(&Source::new("k.cu", "k", "code"), &["--fmad=false".to_owned()]);
        assert!(load_by_any(&cache, other).is_none());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
