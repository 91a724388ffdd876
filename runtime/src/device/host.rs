//! The CPU's properties, as the system reports them.

use std::fs;
use std::sync::LazyLock;

use crate::device::properties::Properties;
use crate::memory::control_groups::ControlGroups;

/// Linux's report about the CPU; on other systems only the number of cores is known.
pub(crate) fn properties() -> Properties {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let name = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| field(&text, "model name").map(str::to_owned));
    let l2 =
        fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size").ok().and_then(|text| kibibytes(&text));
    Properties {
        name: name.unwrap_or_else(|| format!("CPU ({})", std::env::consts::ARCH)),
        arch: None,
        multiprocessors: u32::try_from(cores).unwrap_or(u32::MAX),
        shared_bytes_per_block: 0,
        shared_bytes_per_multiprocessor: 0,
        registers_per_multiprocessor: 0,
        threads_per_multiprocessor: 1,
        l2_bytes: l2.unwrap_or(0),
        memory_bytes: memory().unwrap_or(0),
        clock_khz: 0,
        memory_clock_khz: 0,
        memory_bus_bits: 0,
        power_milliwatts: 0,
        driver_version: 0,
    }
}

/// Up to how many bytes nobody asks for the control groups' use of memory: reading their files takes as long as filling
/// some hundred KiB.
const FEW: usize = 1 << 22;

/// Whether there may be room for this many bytes more. Linux grants more than it has, and more than a container may
/// have, and kills the process that uses it.
pub(crate) fn has_room(bytes: usize) -> bool {
    let groups = || ControlGroups::of_process().free().unwrap_or(u64::MAX);
    bytes as u64 <= physical_memory().unwrap_or(u64::MAX) && (bytes <= FEW || bytes as u64 <= groups())
}

/// The memory in bytes that this process may have, if the system reports it.
fn memory() -> Option<u64> {
    physical_memory().into_iter().chain(ControlGroups::of_process().limit()).min()
}

/// This computer's memory in bytes, if the system reports it.
pub(crate) fn physical_memory() -> Option<u64> {
    static MEMORY: LazyLock<Option<u64>> = LazyLock::new(|| {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        kibibytes(field(&text, "MemTotal")?)
    });
    *MEMORY
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// `16384K` or `16384 kB` in bytes.
fn kibibytes(text: &str) -> Option<u64> {
    let digits = text.trim().trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_files_are_understood() {
        assert_eq!(field("a\t: 1\nmodel name\t: Some CPU @ 2: fast\n", "model name"), Some("Some CPU @ 2: fast"));
        assert_eq!(kibibytes("16384K\n"), Some(16384 * 1024));
        assert_eq!(kibibytes("16 kB"), Some(16384));
        assert_eq!(kibibytes("?"), None);
    }
}
