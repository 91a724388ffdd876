//! Checks whether other users of this computer could have put a file where it is found.
//!
//! A library that is loaded, and a kernel that is run, is code in this process. So files that others may write are not
//! used. On systems without Unix's owners and modes nothing is checked.

use std::path::Path;

/// The source of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The user, in an environment variable. As with `PATH`, it may belong to any user.
    ByUser,
    /// Nobody: it was found in a search of the usual places.
    ByNobody,
}

/// Why others could have put something at `path`; `None` if they can't. Checks the file and every folder above it, as
/// named and with symbolic links resolved.
#[cfg(unix)]
pub(crate) fn distrust(path: &Path, named: Named) -> Option<String> {
    let resolved = path.canonicalize().ok()?;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut all = absolute.ancestors().chain(resolved.ancestors());
    all.find_map(|place| {
        let data = std::fs::metadata(place).ok()?;
        fault(&data, named).map(|reason| format!("{} {reason}", place.display()))
    })
}

#[cfg(not(unix))]
pub(crate) fn distrust(_path: &Path, _named: Named) -> Option<String> {
    None
}

/// A problem with the owner and mode of a file or folder.
#[cfg(unix)]
fn fault(data: &std::fs::Metadata, named: Named) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let (owner, group, mode, me) = (data.uid(), data.gid(), data.mode(), user());
    // In a sticky folder, such as /tmp, others can add files but not replace them; the check of what is below decides.
    let sticky = data.is_dir() && mode & 0o1000 != 0;
    if mode & 0o002 != 0 && !sticky {
        return Some(format!("may be written by everyone (mode {:o})", mode & 0o7777));
    }
    if named == Named::ByUser {
        return None;
    }
    if owner != 0 && owner != me {
        return Some(format!("belongs to user {owner}"));
    }
    // For root's files the administrator chose the group; a user's private group has the user's number.
    if mode & 0o020 != 0 && !sticky && owner != 0 && group != owner {
        return Some(format!("may be written by group {group} (mode {:o})", mode & 0o7777));
    }
    None
}

/// The user that this process runs as.
#[cfg(unix)]
pub(crate) fn user() -> u32 {
    // SAFETY: the function has no preconditions and can't fail.
    unsafe { libc::geteuid() }
}

/// Whether a file or folder belongs to this user, and no other user may write it.
#[cfg(unix)]
pub(crate) fn is_own(data: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let of_group = data.mode() & 0o020 != 0 && data.gid() != data.uid();
    data.uid() == user() && data.mode() & 0o002 == 0 && !of_group
}

/// Whether only this user and the administrator may write a file or folder.
#[cfg(unix)]
pub(crate) fn is_private(data: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    is_own(data) || (data.uid() == 0 && data.mode() & 0o022 == 0)
}

/// The name of this user's folder beside those of others.
#[cfg(unix)]
pub(crate) fn own_folder() -> String {
    format!("user-{}", user())
}

/// Makes a folder and those above it, for this user only.
#[cfg(unix)]
pub(crate) fn create_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
pub(crate) fn is_own(_data: &std::fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
pub(crate) fn is_private(_data: &std::fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
pub(crate) fn own_folder() -> &'static str {
    "user"
}

#[cfg(not(unix))]
pub(crate) fn create_folder(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Opens what is at a path for reading, without waiting: somebody may have put a pipe there, and opening one waits for
/// whoever writes to it. Before it is read, it must be known for a file.
pub(crate) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

/// Writes a new file, which must not exist yet. Only this user may write it, and everybody may read it.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options.open(path)?.write_all(bytes)
}

/// A pipe that nobody writes to.
#[cfg(all(test, unix))]
pub(crate) fn make_pipe(at: &Path) {
    let name = std::ffi::CString::new(at.as_os_str().as_encoded_bytes()).expect("a path without zero bytes");
    // SAFETY: a text that ends with zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_others_may_write_is_not_trusted() {
        let folder = std::env::temp_dir().join(format!("epilogue-trust-{}", std::process::id()));
        fs::create_dir_all(folder.join("lib")).unwrap();
        let file = folder.join("lib/libnvrtc.so.13");
        fs::write(&file, b"").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for mode in [0o700, 0o755] {
            set(&folder, mode);
            set(&file, 0o644);
            assert_eq!(distrust(&file, Named::ByNobody), None, "{mode:o}");
        }
        for named in [Named::ByUser, Named::ByNobody] {
            set(&file, 0o666);
            assert!(distrust(&file, named).unwrap().contains("may be written by everyone (mode 666)"));
            set(&file, 0o644);
            set(&folder, 0o777);
            let reason = distrust(&file, named).unwrap();
            assert!(reason.contains(&folder.display().to_string()) && reason.contains("everyone"), "{reason}");
            // A link to it from elsewhere is not trusted either.
            let link = std::env::temp_dir().join(format!("epilogue-trust-link-{}-{named:?}", std::process::id()));
            std::os::unix::fs::symlink(&file, &link).unwrap();
            assert!(distrust(&link, named).is_some());
            fs::remove_file(&link).unwrap();
            set(&folder, 0o755);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
