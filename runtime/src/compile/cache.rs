//! Compiled kernels on disk, shared by any number of processes.
//!
//! An entry's name is the blake3 hash of everything that the output depends on. The file repeats that hash and has a
//! hash of its content, so a truncated, damaged or misplaced file is detected, removed and made again. A file is
//! written under a temporary name and then renamed: readers see all of it or nothing.
//!
//! The cache only saves time. If it can't be read or written, kernels are compiled.
//!
//! An entry is code that runs as this user: one that other users may write is never used. If the cache's folder is one
//! that others may write, the user gets a sub-folder. The cache doesn't touch files in the folder whose names are not
//! its own.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::compile::trust;

/// The first bytes of an entry; the number changes with the format.
const MAGIC: &[u8; 8] = b"EPILOG\x00\x01";
const HASH: usize = blake3::OUT_LEN;
const HEADER: usize = MAGIC.len() + 2 * HASH;
const EXTENSION: &str = "kernel";
const ASIDE: &str = "aside";
/// The most bytes of an entry; a longer file is ignored.
const LONGEST: u64 = 1 << 28;
/// The age from which temporary files are left over from processes that died while writing.
const STALE: Duration = Duration::from_secs(3600);

/// The total size at which old entries are removed, unless another limit is given.
const DEFAULT_LIMIT: u64 = 1 << 30;

/// The hash of everything that an output depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheKey([u8; HASH]);

impl CacheKey {
    /// The hash of the parts; their lengths are hashed, too, so that parts can't run together.
    #[must_use]
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The hash's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; HASH] {
        &self.0
    }

    pub(crate) const fn from_bytes(bytes: [u8; HASH]) -> Self {
        Self(bytes)
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

    /// The same cache, kept below `bytes`: when an entry makes it larger, the entries that were unused for longest are
    /// removed.
    #[must_use]
    pub fn limited_to(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// The user's cache: the folder that the environment variable `EPILOGUE_CACHE` names, else `epilogue` in the
    /// system's folder for caches (`XDG_CACHE_HOME`, `~/.cache`, `~/Library/Caches`, `%LOCALAPPDATA%`). `None` if
    /// `EPILOGUE_CACHE` is `off`, or if no folder is known.
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

    /// The folder that was named.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the entries: the cache's folder, or a sub-folder of this user's if others may write the cache's
    /// folder.
    ///
    /// # Errors
    /// The sub-folder belongs to another user, or the folder's name is empty; then nothing is read or written.
    pub fn place(&self) -> io::Result<PathBuf> {
        if self.folder.as_os_str().is_empty() {
            let reason = "the name of the cache's folder is empty: name one, `.` for the working directory";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let Ok(data) = fs::metadata(&self.folder) else { return Ok(self.folder.clone()) };
        if trust::is_private(&data) {
            return Ok(self.folder.clone());
        }
        let own = self.folder.join(trust::own_folder());
        match fs::symlink_metadata(&own) {
            Ok(data) if data.is_dir() && trust::is_own(&data) => Ok(own),
            Ok(_) => {
                let (all, own) = (self.folder.display(), own.display());
                let reason = format!("others may write {all}, and {own} in it is not a folder of this user's alone");
                Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
            }
            Err(_) => Ok(own),
        }
    }

    fn path(&self, key: CacheKey) -> io::Result<PathBuf> {
        Ok(self.place()?.join(entry_name(key)))
    }

    /// The content stored under `key`, if the entry exists and is intact. A damaged entry is removed.
    #[must_use]
    pub fn load(&self, key: CacheKey) -> Option<Vec<u8>> {
        self.look_up(key).ok()
    }

    /// [`load`](Self::load), with the reason where there is nothing.
    pub(crate) fn look_up(&self, key: CacheKey) -> Result<Vec<u8>, Miss> {
        let path = self.path(key).map_err(Miss::Unreadable)?;
        let file = open_entry(&path)?;
        let mut bytes = Vec::new();
        (&file).take(LONGEST).read_to_end(&mut bytes).map_err(Miss::Unreadable)?;
        let whole = bytes.len() >= HEADER
            && &bytes[..MAGIC.len()] == MAGIC
            && bytes[MAGIC.len()..MAGIC.len() + HASH] == key.0
            && bytes[MAGIC.len() + HASH..HEADER] == *blake3::hash(&bytes[HEADER..]).as_bytes();
        if !whole {
            // Another process may have replaced it meanwhile: then a good entry is lost, and has to be made again.
            let _ = fs::remove_file(&path);
            return Err(Miss::Damaged { path });
        }
        // The time of the last use, for `trim`. If it can't be set, the entry only seems older than it is.
        let _ = file.set_modified(SystemTime::now());
        bytes.drain(..HEADER);
        Ok(bytes)
    }

    /// Stores `content` under `key`.
    ///
    /// # Errors
    /// The system's error, if the folder or the file can't be written. Then no file is left behind.
    pub fn store(&self, key: CacheKey, content: &[u8]) -> io::Result<()> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let place = self.place()?;
        trust::create_folder(&place)?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = place.join(format!("{}-{}-{number}.tmp", key.to_hex(), process::id()));
        let written = write_entry(&temporary, key, content).and_then(|()| replace(&temporary, &place, key));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.trim(&place, &entry_name(key));
        Ok(())
    }

    /// Removes the entries that were unused for longest, the new one last, until three quarters of the limit are left;
    /// and old temporary files and folders.
    fn trim(&self, place: &Path, new: &str) {
        let Ok(files) = fs::read_dir(place) else { return };
        let mut entries: Vec<(bool, SystemTime, u64, PathBuf)> = Vec::new();
        for file in files.flatten() {
            let (path, Ok(data)) = (file.path(), file.metadata()) else { continue };
            let Ok(modified) = data.modified() else { continue };
            let name = file.file_name();
            match written_as(&name.to_string_lossy()) {
                Some(Written::Entry) if data.is_file() => {
                    // A time that has not come yet is no time of a use.
                    let used = if is_to_come(modified) { SystemTime::UNIX_EPOCH } else { modified };
                    entries.push((name == new, used, data.len(), path));
                }
                Some(Written::Temporary) if data.is_file() && is_stale(modified) => _ = fs::remove_file(path),
                Some(Written::Aside) if data.is_dir() && is_stale(modified) => _ = fs::remove_dir_all(path),
                _ => {}
            }
        }
        let mut total: u64 = entries.iter().map(|(_, _, bytes, _)| bytes).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, _, bytes, path) in entries {
            if total <= self.limit / 4 * 3 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Whether a file was left over by a process that died. Clocks of two machines may differ a little.
fn is_stale(modified: SystemTime) -> bool {
    is_to_come(modified) || modified.elapsed().is_ok_and(|age| age > STALE)
}

fn is_to_come(modified: SystemTime) -> bool {
    modified > SystemTime::now() + STALE
}

/// Why the cache gives nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Miss {
    #[error(
        "it has not been compiled before, or was removed since: sources, options, architecture and NVRTC all count"
    )]
    NotThere,
    #[error("{} is damaged, or of another form", path.display())]
    Damaged { path: PathBuf },
    #[error("{} is not a file of this user's alone, or is far too long", path.display())]
    Untrusted { path: PathBuf },
    #[error("it can't be read: {0}")]
    Unreadable(io::Error),
    #[error("there is no cache: `EPILOGUE_CACHE` is `off`, or no folder is known for it")]
    NoCache,
}

fn entry_name(key: CacheKey) -> String {
    format!("{}.{EXTENSION}", key.to_hex())
}

/// The kind of a file of the cache, according to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Entry,
    Temporary,
    /// A folder that had an entry's name.
    Aside,
}

/// `HASH.kernel`, `HASH-PROCESS-NUMBER.tmp`, `HASH-PROCESS-NUMBER.aside`; `None` for files that are not the cache's.
fn written_as(name: &str) -> Option<Written> {
    let (hash, rest) = name.split_at_checked(2 * HASH)?;
    if !hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    if rest.strip_prefix('.') == Some(EXTENSION) {
        return Some(Written::Entry);
    }
    let (numbers, kind) = rest.strip_prefix('-')?.rsplit_once('.')?;
    let (process, number) = numbers.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let kind = match kind {
        "tmp" => Written::Temporary,
        ASIDE => Written::Aside,
        _ => return None,
    };
    (is_number(process) && is_number(number)).then_some(kind)
}

/// Opens an entry, if it is a file of at most `LONGEST` bytes that no other user may write. Opening must not block:
/// another user may have put a pipe there.
fn open_entry(path: &Path) -> Result<File, Miss> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    }
    // On Windows, setting a file's time needs write access.
    #[cfg(not(unix))]
    options.append(true);
    let file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Miss::NotThere,
        _ => Miss::Unreadable(error),
    })?;
    let data = file.metadata().map_err(Miss::Unreadable)?;
    if data.is_file() && data.len() <= LONGEST && trust::is_private(&data) {
        return Ok(file);
    }
    Err(Miss::Untrusted { path: path.to_owned() })
}

/// Renames a written file to an entry's name. A folder of that name, which a rename can't replace, is moved away first,
/// and removed.
fn replace(temporary: &Path, place: &Path, key: CacheKey) -> io::Result<()> {
    let path = place.join(entry_name(key));
    let renamed = fs::rename(temporary, &path);
    if renamed.is_err() && fs::symlink_metadata(&path).is_ok_and(|data| data.is_dir()) {
        let aside = temporary.with_extension(ASIDE);
        fs::rename(&path, &aside)?;
        let renamed = fs::rename(temporary, &path);
        let _ = fs::remove_dir_all(aside);
        return renamed;
    }
    renamed
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
        let good = fs::read(cache.path(key).unwrap()).unwrap();
        for length in 0..good.len() {
            fs::write(cache.path(key).unwrap(), &good[..length]).unwrap();
            assert_eq!(cache.load(key), None, "truncated to {length}");
            assert!(!cache.path(key).unwrap().exists());
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(cache.path(key).unwrap(), bad).unwrap();
            assert_eq!(cache.load(key), None, "byte {at} changed");
        }
        fs::write(cache.path(key).unwrap(), [good.as_slice(), b"x"].concat()).unwrap();
        assert_eq!(cache.load(key), None);
        // An entry under the name of another.
        fs::write(cache.path(other).unwrap(), &good).unwrap();
        assert_eq!(cache.load(other), None);
        fs::write(cache.path(key).unwrap(), &good).unwrap();
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
            File::options().append(true).open(cache.path(key).unwrap()).unwrap().set_modified(time).unwrap();
        }
        assert!(cache.load(keys[0]).is_some()); // now the most recent
        cache.store(keys[4], &[0; 100]).unwrap();
        let left: Vec<bool> = keys.iter().map(|&key| cache.load(key).is_some()).collect();
        assert_eq!(left, [true, false, false, true, true]);
    }

    /// Something that is not this user's file, in an entry's place: it is not read, does not block, and is replaced by
    /// the next store.
    #[cfg(unix)]
    #[test]
    fn what_is_no_file_of_ones_own_is_not_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("places");
        let cache = KernelCache::at(&folder.0);
        let key = CacheKey::of(&[b"a"]);
        cache.store(key, b"content").unwrap();
        let path = cache.path(key).unwrap();
        let good = fs::read(&path).unwrap();
        let elsewhere = folder.0.join("elsewhere");
        fs::write(&elsewhere, &good).unwrap();
        let pipe = |at: &Path| trust::make_pipe(at);
        let long = |at: &Path| File::create(at).unwrap().set_len(LONGEST + 1).unwrap();
        let makers: [&dyn Fn(&Path); 6] = [
            &pipe,
            &long,
            &|at| std::os::unix::fs::symlink(&elsewhere, at).unwrap(),
            &|at| std::os::unix::fs::symlink("/dev/zero", at).unwrap(),
            &|at| fs::create_dir_all(at.join("full")).unwrap(),
            &|at| {
                fs::write(at, &good).unwrap();
                fs::set_permissions(at, fs::Permissions::from_mode(0o666)).unwrap();
            },
        ];
        for (number, make) in makers.into_iter().enumerate() {
            fs::remove_file(&path).unwrap();
            make(&path);
            assert_eq!(cache.load(key), None, "maker {number}");
            cache.store(key, b"content").unwrap();
            assert_eq!(cache.load(key).unwrap(), b"content", "maker {number}");
            let left = fs::read_dir(&folder.0).unwrap().count();
            assert_eq!(left, 2, "maker {number}: beside the entry and what links lead to, nothing is left");
        }
    }

    /// Others' clocks may be wrong, and so may this machine's have been.
    #[test]
    fn entries_of_times_to_come_go_first_and_the_new_one_last() {
        let folder = Folder::new("future");
        let entry = HEADER as u64 + 100;
        let cache = KernelCache::at(&folder.0).limited_to(2 * entry);
        let keys: Vec<CacheKey> = (0..3u8).map(|i| CacheKey::of(&[&[i]])).collect();
        for key in &keys[..2] {
            cache.store(*key, &[0; 100]).unwrap();
            let time = SystemTime::now() + 1000 * STALE;
            File::options().append(true).open(cache.path(*key).unwrap()).unwrap().set_modified(time).unwrap();
        }
        cache.store(keys[2], &[0; 100]).unwrap();
        assert_eq!(keys.iter().map(|key| cache.load(*key).is_some()).collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn a_cache_without_a_name_is_none() {
        let (cache, key) = (KernelCache::at(""), CacheKey::of(&[b"a"]));
        let refused = cache.store(key, b"content").unwrap_err().to_string();
        assert!(refused.contains("is empty"), "{refused}");
        assert!(cache.load(key).is_none() && !Path::new(&entry_name(key)).exists());
    }

    /// A folder that everyone may write gets a sub-folder that only this user may.
    #[cfg(unix)]
    #[test]
    fn a_shared_folder_gets_a_sub_folder() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = Folder::new("shared");
        fs::create_dir_all(&folder.0).unwrap();
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o1777)).unwrap();
        let (cache, key) = (KernelCache::at(&folder.0), CacheKey::of(&[b"a"]));
        cache.store(key, b"content").unwrap();
        assert_eq!(cache.load(key).unwrap(), b"content");
        let own = cache.place().unwrap();
        assert_eq!(own.parent(), Some(folder.0.as_path()));
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        // If somebody else may write that, too, it is not used.
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(cache.load(key), None);
        let refused = cache.store(key, b"content").unwrap_err().to_string();
        assert!(refused.contains("is not a folder of this user's alone"), "{refused}");
    }

    /// Old files with other names belong to others.
    #[cfg(unix)]
    #[test]
    fn only_files_of_the_caches_own_naming_are_removed() {
        let folder = Folder::new("foreign");
        let cache = KernelCache::at(&folder.0).limited_to(1);
        cache.store(CacheKey::of(&[b"a"]), b"x").unwrap();
        let hash = CacheKey::of(&[b"b"]).to_hex();
        let (own, foreign) = (
            [format!("{hash}-1234-5.tmp"), format!("{hash}-1234-6.tmp"), format!("{hash}.kernel")],
            ["report.tmp".to_owned(), "notes.kernel".to_owned(), format!("{hash}-x-5.tmp"), format!("{hash}.tmp")],
        );
        for name in own.iter().chain(&foreign) {
            let file = File::create(folder.0.join(name)).unwrap();
            let is_to_come = name.ends_with("-6.tmp");
            file.set_modified(if is_to_come { SystemTime::now() + 2 * STALE } else { SystemTime::now() - 2 * STALE })
                .unwrap();
        }
        let aside = folder.0.join(format!("{hash}-1234-5.aside"));
        fs::create_dir_all(aside.join("full")).unwrap();
        File::open(&aside).unwrap().set_modified(SystemTime::now() - 2 * STALE).unwrap();
        cache.store(CacheKey::of(&[b"c"]), b"x").unwrap();
        assert!(own.iter().all(|name| !folder.0.join(name).exists()) && !aside.exists());
        assert!(foreign.iter().all(|name| folder.0.join(name).exists()));
    }

    #[test]
    fn an_unwritable_folder_is_an_error_and_leaves_nothing() {
        let folder = Folder::new("file");
        fs::write(&folder.0, b"a file, not a folder").unwrap();
        assert!(KernelCache::at(&folder.0).store(CacheKey::of(&[]), b"x").is_err());
        fs::remove_file(&folder.0).unwrap();
    }
}
