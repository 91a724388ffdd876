//! How much memory the control groups of this process leave it: a container's limit is one, and a process that goes
//! beyond it is killed. Groups of both versions are read, with those that they are in.
//!
//! Files of pages that the system can give up are a part of a group's use, and don't count here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Which interface a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The names of a version's files, and of the pages in `memory.stat` that can be given up.
struct Names {
    limit: &'static str,
    used: &'static str,
    given_up: [&'static str; 2],
}

impl Version {
    const fn names(self) -> Names {
        match self {
            Self::One => Names {
                limit: "memory.limit_in_bytes",
                used: "memory.usage_in_bytes",
                given_up: ["total_inactive_file", "total_active_file"],
            },
            Self::Two => {
                Names { limit: "memory.max", used: "memory.current", given_up: ["inactive_file", "active_file"] }
            }
        }
    }
}

/// The groups that this process is in.
pub(crate) struct ControlGroups(Vec<(PathBuf, Version)>);

impl ControlGroups {
    /// The groups of this process, looked up once.
    pub(crate) fn of_process() -> &'static Self {
        static GROUPS: LazyLock<ControlGroups> = LazyLock::new(|| {
            let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
            ControlGroups::of(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"))
        });
        &GROUPS
    }

    /// The groups that `/proc/self/cgroup` names, in the places that `/proc/self/mountinfo` says.
    fn of(named: &str, mounts: &str) -> Self {
        let mut groups = Vec::new();
        for line in named.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
            let version = if controllers.is_empty() {
                Version::Two
            } else if controllers.split(',').any(|name| name == "memory") {
                Version::One
            } else {
                continue;
            };
            let Some((root, top)) = mounts.lines().find_map(|line| mount(line, version)) else { continue };
            // In a container that sees its own groups only, the path may lie outside of them.
            let below = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
            let is_below = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            let group = if is_below { top.join(below) } else { top.clone() };
            let all = group.ancestors().take_while(|group| group.starts_with(&top));
            groups.extend(all.map(|group| (group.to_owned(), version)));
        }
        Self(groups)
    }

    /// The lowest limit, in bytes; `None` without any.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit_by(&read)
    }

    /// How many bytes can be added before a limit is reached; `None` without any limit.
    pub(crate) fn free(&self) -> Option<u64> {
        self.free_by(&read)
    }

    fn limit_by(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        self.0.iter().filter_map(|(group, version)| limit(group, *version, read)).min()
    }

    fn free_by(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        let free = |(group, version): &(PathBuf, Version)| {
            let limit = limit(group, *version, read)?;
            let Names { used, given_up, .. } = version.names();
            let used = number(&read(&group.join(used))?)?;
            let statistics = read(&group.join("memory.stat")).unwrap_or_default();
            let pages = statistics.lines().filter_map(|line| line.split_once(' '));
            let given_up = pages.filter(|(name, _)| given_up.contains(name)).filter_map(|(_, bytes)| number(bytes));
            Some(limit.saturating_sub(used.saturating_sub(given_up.sum())))
        };
        self.0.iter().filter_map(free).min()
    }
}

/// A group's own limit. Version 1 says that there is none by a number beyond all memory, version 2 by `max`.
fn limit(group: &Path, version: Version, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    number(&read(&group.join(version.names().limit))?).filter(|bytes| *bytes < 1 << 60)
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The mounted root within the groups, and the mount point; `None` if the line mounts no groups of this version that
/// limit memory.
fn mount(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let fits = match version {
        Version::One => name == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => name == "cgroup2",
    };
    let mut place = place.split(' ').skip(3);
    let (root, top) = (place.next()?, place.next()?);
    fits.then(|| (unescaped(root), unescaped(top)))
}

/// A path of `mountinfo`, where spaces and the like are octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(pairs.iter().fold(text.to_owned(), |text, (number, is)| text.replace(number, is)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// The files of a system, with the groups of a process.
    fn check(named: &str, mounts: &str, files: &[(&str, &str)], limit: Option<u64>, free: Option<u64>) {
        let groups = ControlGroups::of(named, mounts);
        let read =
            |path: &Path| files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned());
        assert_eq!((groups.limit_by(&read), groups.free_by(&read)), (limit, free), "{:?}", groups.0);
    }

    #[test]
    fn groups_of_version_2_count_with_all_that_they_are_in() {
        let mounts = "24 1 0:22 / /proc rw,nosuid - proc proc rw\n\
                      35 24 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let files = [
            ("/sys/fs/cgroup/a.slice/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/a.slice/memory.current", "3221225472\n"),
            (
                "/sys/fs/cgroup/a.slice/memory.stat",
                "anon 1073741824\nfile 2147483648\ninactive_file 1073741824\nactive_file 536870912\n",
            ),
            ("/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n"),
            ("/sys/fs/cgroup/a.slice/b.scope/memory.current", "1073741824\n"),
        ];
        // 1.5 of the 3 GiB can be given up.
        check("0::/a.slice/b.scope\n", mounts, &files, Some(4 * GIB), Some(5 * GIB / 2));
        check("0::/other\n", mounts, &files, None, None);
        check("", mounts, &files, None, None);
        check("0::/a.slice", "", &files, None, None);
        // A group of its own that is lower.
        let lower = [
            ("/sys/fs/cgroup/a.slice/b.scope/memory.max", "1073741824\n"),
            ("/sys/fs/cgroup/a.slice/b.scope/memory.current", "2073741824\n"),
            files[0],
            files[1],
        ];
        check("0::/a.slice/b.scope\n", mounts, &lower, Some(GIB), Some(0));
    }

    #[test]
    fn a_container_sees_its_own_groups_at_the_top() {
        let files = [("/sys/fs/cgroup/memory.max", "2147483648"), ("/sys/fs/cgroup/memory.current", "1073741824")];
        let mounts = "35 24 0:29 /docker/4d3d /sys/fs/cgroup ro - cgroup2 cgroup rw";
        for named in ["0::/", "0::/docker/4d3d", "0::/../4d3d"] {
            check(named, mounts, &files, Some(2 * GIB), Some(GIB));
        }
    }

    #[test]
    fn groups_of_version_1_have_other_files() {
        let named = "12:cpu,cpuacct:/docker/4d3d\n4:memory:/docker/4d3d\n1:name=systemd:/docker/4d3d\n0::/\n";
        let mounts = "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      35 31 0:32 / /sys/fs/cgroup/mem\\040ory rw,relatime - cgroup cgroup rw,memory\n";
        let files = [
            ("/sys/fs/cgroup/mem ory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/mem ory/memory.usage_in_bytes", "8589934592\n"),
            ("/sys/fs/cgroup/mem ory/docker/4d3d/memory.limit_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/mem ory/docker/4d3d/memory.usage_in_bytes", "805306368\n"),
            (
                "/sys/fs/cgroup/mem ory/docker/4d3d/memory.stat",
                "inactive_file 5\nrss 536870912\ntotal_inactive_file 268435456\ntotal_active_file 0\n",
            ),
        ];
        check(named, mounts, &files, Some(GIB), Some(GIB / 2));
    }

    #[test]
    fn what_is_no_such_file_says_nothing() {
        for text in ["::", "0", "0::", "4:memory", "\n\n", "x y - cgroup2", " - ", "0::/\u{0}"] {
            let groups = ControlGroups::of(text, text);
            assert_eq!((groups.limit_by(&|_| None), groups.free_by(&|_| None)), (None, None), "{text:?}");
        }
        let _ = (ControlGroups::of_process().limit(), ControlGroups::of_process().free());
    }
}
