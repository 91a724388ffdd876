//! Compiled kernels on disk, shared by any number of processes.
//!
//! An entry's name is the blake3 hash of everything that the output depends on. The file repeats that hash and holds a
//! hash of its content, so that a truncated, damaged or misplaced file is noticed, removed and made anew. A file is
//! written under a temporary name and renamed: readers see all of it or nothing.
//!
//! The cache only saves time. Where it can't be read or written, kernels are compiled.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The first bytes of an entry; the number changes with the form.
const MAGIC: &[u8; 8] = b"EPILOG\x00\x01";
const HASH: usize = blake3::OUT_LEN;
const HEADER: usize = MAGIC.len() + 2 * HASH;
const EXTENSION: &str = "kernel";
/// Leftovers of processes that died while writing.
const STALE: Duration = Duration::from_secs(3600);

/// Total size at which old entries are removed, unless another is given.
const DEFAULT_LIMIT: u64 = 1 << 30;

/// The hash of everything that an output depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey([u8; HASH]);

impl CacheKey {
    /// The hash of the parts, which are kept apart by their lengths.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

/// A folder of compiled kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCache {
    folder: PathBuf,
    limit: u64,
}

impl KernelCache {
    /// A cache in `folder`, which is made when the first entry is written.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), limit: DEFAULT_LIMIT }
    }

    /// The same folder, kept below `bytes`: when an entry makes it larger, the entries unused for longest go.
    #[must_use]
    pub fn limited_to(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The user's cache: the folder that the environment variable `EPILOGUE_CACHE` names, else `epilogue` in the
    /// system's place for caches (`XDG_CACHE_HOME`, `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). `None` when
    /// `EPILOGUE_CACHE` is `off`, or no place is known.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        match variable("EPILOGUE_CACHE") {
            Some(named) if named.as_os_str() == "off" => return None,
            Some(named) => return Some(Self::at(named)),
            None => {}
        }
        let folder = if cfg!(windows) {
            variable("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            variable("HOME").map(|home| home.join("Library/Caches"))
        } else {
            variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
        };
        folder.map(|folder| Self::at(folder.join("epilogue")))
    }

    /// Where the entries are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, key: CacheKey) -> PathBuf {
        self.folder.join(key.to_hex().as_str()).with_extension(EXTENSION)
    }

    /// The content stored under `key`, if it is there and whole. A damaged entry is removed.
    #[must_use]
    pub fn load(&self, key: CacheKey) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = fs::read(&path).ok()?;
        let whole = bytes.len() >= HEADER
            && &bytes[..MAGIC.len()] == MAGIC
            && bytes[MAGIC.len()..MAGIC.len() + HASH] == key.0
            && bytes[MAGIC.len() + HASH..HEADER] == *blake3::hash(&bytes[HEADER..]).as_bytes();
        if !whole {
            // Another process may have replaced it meanwhile: then a good entry is lost, and made again.
            let _ = fs::remove_file(&path);
            return None;
        }
        // The time of last use, for `trim`. Not being able to set it only makes the entry look older.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        bytes.drain(..HEADER);
        Some(bytes)
    }

    /// Stores `content` under `key`.
    ///
    /// # Errors
    /// The system's, when the folder or the file can't be written. Nothing is left behind then.
    pub fn store(&self, key: CacheKey, content: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{}-{}-{number}.tmp", key.to_hex(), process::id()));
        let written = write_entry(&temporary, key, content).and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.trim();
        Ok(())
    }

    /// Removes the entries unused for longest until three quarters of the limit are left, and stale temporary files.
    fn trim(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for file in files.flatten() {
            let (path, Ok(data)) = (file.path(), file.metadata()) else { continue };
            let Ok(modified) = data.modified() else { continue };
            match path.extension().and_then(|e| e.to_str()) {
                Some(EXTENSION) => entries.push((modified, data.len(), path)),
                Some("tmp") if modified.elapsed().is_ok_and(|age| age > STALE) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, bytes, path) in entries {
            if total <= self.limit / 4 * 3 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

fn write_entry(path: &Path, key: CacheKey, content: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(MAGIC)?;
    file.write_all(&key.0)?;
    file.write_all(blake3::hash(content).as_bytes())?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end of a test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("epilogue-cache-{name}-{}", process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn keeps_parts_apart() {
        assert_ne!(CacheKey::of(&[b"ab", b"c"]), CacheKey::of(&[b"a", b"bc"]));
        assert_eq!(CacheKey::of(&[b"ab", b"c"]), CacheKey::of(&[b"ab", b"c"]));
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = Folder::new("round-trip");
        let cache = KernelCache::at(&folder.0);
        let key = CacheKey::of(&[b"a"]);
        assert_eq!(cache.load(key), None);
        cache.store(key, b"content").unwrap();
        assert_eq!(cache.load(key).unwrap(), b"content");
        cache.store(key, b"").unwrap();
        assert_eq!(cache.load(key).unwrap(), b"");
        assert_eq!(cache.load(CacheKey::of(&[b"b"])), None);
    }

    #[test]
    fn every_damage_is_noticed() {
        let folder = Folder::new("damage");
        let cache = KernelCache::at(&folder.0);
        let (key, other) = (CacheKey::of(&[b"a"]), CacheKey::of(&[b"b"]));
        cache.store(key, b"some content").unwrap();
        let good = fs::read(cache.path(key)).unwrap();
        for length in 0..good.len() {
            fs::write(cache.path(key), &good[..length]).unwrap();
            assert_eq!(cache.load(key), None, "truncated to {length}");
            assert!(!cache.path(key).exists());
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(cache.path(key), bad).unwrap();
            assert_eq!(cache.load(key), None, "byte {at} changed");
        }
        fs::write(cache.path(key), [good.as_slice(), b"x"].concat()).unwrap();
        assert_eq!(cache.load(key), None);
        // An entry under another's name.
        fs::write(cache.path(other), &good).unwrap();
        assert_eq!(cache.load(other), None);
        fs::write(cache.path(key), &good).unwrap();
        assert_eq!(cache.load(key).unwrap(), b"some content");
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let folder = Folder::new("trim");
        let entry = HEADER as u64 + 100;
        let cache = KernelCache::at(&folder.0).limited_to(4 * entry);
        let keys: Vec<CacheKey> = (0..5u8).map(|i| CacheKey::of(&[&[i]])).collect();
        for (age, &key) in (1..=4).rev().zip(&keys) {
            cache.store(key, &[0; 100]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age * 60);
            File::options().append(true).open(cache.path(key)).unwrap().set_modified(time).unwrap();
        }
        assert!(cache.load(keys[0]).is_some()); // now the most recent
        cache.store(keys[4], &[0; 100]).unwrap();
        let left: Vec<bool> = keys.iter().map(|&key| cache.load(key).is_some()).collect();
        assert_eq!(left, [true, false, false, true, true]);
    }

    #[test]
    fn an_unwritable_folder_is_an_error_and_leaves_nothing() {
        let folder = Folder::new("file");
        fs::write(&folder.0, b"a file, not a folder").unwrap();
        assert!(KernelCache::at(&folder.0).store(CacheKey::of(&[]), b"x").is_err());
        fs::remove_file(&folder.0).unwrap();
    }
}
