//! The CPU as a device: its memory, and what the system tells of it.

use std::alloc::{self, Layout};
use std::fs;
use std::ptr::NonNull;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};
use crate::properties::Properties;

/// Alignment of every buffer: a cache line, which is also the widest vector register.
const ALIGNMENT: usize = 64;

/// Zeroed or filled memory of the process. Bytes are reached only under `lock`.
pub(crate) struct HostMemory {
    pointer: NonNull<u8>,
    layout: Layout,
    lock: RwLock<()>,
}

// SAFETY: the memory belongs to this value alone, and every access holds `lock` (or promises in an `unsafe` call that
// nobody else accesses it).
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(crate) fn zeroed(bytes: usize) -> Result<Self> {
        let fail = || Error::OutOfMemory { device: "the CPU".to_owned(), bytes };
        // Linux grants more than there is, and kills the process when it is used.
        if bytes as u64 > physical_memory().unwrap_or(u64::MAX) {
            return Err(fail());
        }
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| fail())?;
        // SAFETY: the size is not zero.
        let pointer = unsafe { alloc::alloc(layout) };
        let pointer = NonNull::new(pointer).ok_or_else(fail)?;
        ask_for_large_pages(pointer, bytes);
        // SAFETY: the allocation is as long.
        unsafe { pointer.as_ptr().write_bytes(0, layout.size()) };
        Ok(Self { pointer, layout, lock: RwLock::new(()) })
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(crate) fn read_lock(&self) -> RwLockReadGuard<'_, ()> {
        // A panic while the lock was held leaves bytes that are still bytes.
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_lock(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies bytes out. The caller has checked the range.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) {
        let _lock = self.read_lock();
        debug_assert!(offset + into.len() <= self.layout.size());
        // SAFETY: the range lies in the allocation, and no one writes while the lock is held.
        unsafe { self.pointer.as_ptr().add(offset).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
    }

    /// Copies bytes in. The caller has checked the range.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        let _lock = self.write_lock();
        debug_assert!(offset + from.len() <= self.layout.size());
        // SAFETY: the range lies in the allocation, and no one else accesses it while the lock is held.
        unsafe { self.pointer.as_ptr().add(offset).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `zeroed`.
        unsafe { alloc::dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

/// Asks Linux for pages of 2 MiB where they fit in: with the usual ones of 4 KiB, a good part of the time that reading much
/// memory takes goes into finding its pages (1.4 times as long in all on an EPYC of 2023).
#[cfg(target_os = "linux")]
fn ask_for_large_pages(pointer: NonNull<u8>, bytes: usize) {
    const LARGE: usize = 2 << 20;
    let start = (pointer.as_ptr() as usize).next_multiple_of(LARGE);
    let end = (pointer.as_ptr() as usize + bytes) / LARGE * LARGE;
    if start < end {
        // SAFETY: these whole pages are part of the allocation, and the advice changes nothing that a program can see. It
        // may be refused, and then the pages are as usual.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: NonNull<u8>, _: usize) {}

/// What Linux tells of the CPU; elsewhere only the number of cores is known.
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
        memory_bytes: physical_memory().unwrap_or(0),
        clock_khz: 0,
        driver_version: 0,
    }
}

/// This computer's memory in bytes, where the system tells.
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

    #[test]
    fn memory_starts_zeroed_and_keeps_what_is_written() {
        let memory = HostMemory::zeroed(100).unwrap();
        assert_eq!(memory.pointer() as usize % ALIGNMENT, 0);
        let mut bytes = [1u8; 100];
        memory.read(0, &mut bytes);
        assert_eq!(bytes, [0; 100]);
        memory.write(97, &[7, 8, 9]);
        memory.read(0, &mut bytes);
        assert_eq!(bytes[96..], [0, 7, 8, 9]);
        assert!(HostMemory::zeroed(isize::MAX as usize).is_err());
        let too_much = physical_memory().map_or(isize::MAX as usize, |bytes| bytes as usize + 1);
        assert!(matches!(HostMemory::zeroed(too_much), Err(Error::OutOfMemory { .. })));
    }
}
