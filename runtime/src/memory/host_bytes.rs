//! Where arrays of this computer's memory come from.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::device::host::has_room;
use crate::error::{Error, Result};

/// Alignment of all: a cache line, which is also the widest vector register.
const LINE: usize = 64;
/// A large page.
const LARGE: usize = 2 << 20;

/// Bytes, 0 until they are written; the first begins a cache line.
///
/// If whole pages of 2 MiB fit, the bytes are aligned to them, and Linux is asked for large pages. With pages of 4 KiB,
/// looking pages up takes a large part of the time to read much memory. A long array took 1.4 times as long; weights
/// that are used once in a while took 1.5 times as long. (EPYCs with Zen 4, the second on a virtual machine.)
pub struct HostBytes {
    pointer: NonNull<u8>,
    count: usize,
    layout: Layout,
}

// SAFETY: the bytes belong to the value alone, and have no place that they must stay at.
unsafe impl Send for HostBytes {}
// SAFETY: whoever shares it can only read.
unsafe impl Sync for HostBytes {}

impl HostBytes {
    /// This many.
    ///
    /// # Errors
    /// There is not enough memory, in this computer or in the limits of the process's control groups (a container's).
    pub fn zeroed(count: usize) -> Result<Self> {
        let fail = || Error::OutOfMemory { device: "the CPU".to_owned(), bytes: count };
        let layout = layout(count).ok_or_else(fail)?;
        if !has_room(count) {
            return Err(fail());
        }
        // SAFETY: the size is not 0.
        let pointer = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or_else(fail)?;
        ask_for_large_pages(pointer, layout);
        // SAFETY: the allocation has as many.
        unsafe { pointer.write_bytes(0, count) };
        Ok(Self { pointer, count, layout })
    }

    /// Whether there may be room for this many, in this computer and in the limits of the process's control groups.
    #[must_use]
    pub fn have_room(count: usize) -> bool {
        has_room(count)
    }

    /// The address of the first byte. Writers may use it while others have a reference to this value.
    #[must_use]
    pub const fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }
}

/// Room for this many, and up to the end of a large page if that is not much more.
fn layout(count: usize) -> Option<Layout> {
    let whole = count.checked_next_multiple_of(LARGE)?;
    let size = if whole - count <= count / 4 { whole } else { count };
    let alignment = if size < LARGE { LINE } else { LARGE };
    Layout::from_size_align(size.max(1), alignment).ok()
}

#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large_pages(pointer: NonNull<u8>, layout: Layout) {
    let whole = layout.size() / LARGE * LARGE;
    if whole > 0 {
        // SAFETY: these whole pages are part of the allocation, and the advice changes nothing that a program can see.
        // It may be refused, and then the pages are as usual.
        unsafe { libc::madvise(pointer.as_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_large_pages(_: NonNull<u8>, _: Layout) {}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation has this many bytes, and all of them have been written.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.count) }
    }
}

impl DerefMut for HostBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and nobody else has a reference to them.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.count) }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for HostBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBytes({})", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::physical_memory;

    #[test]
    fn bytes_are_zero_and_keep_what_is_written() {
        for (count, alignment) in [(0, LINE), (1, LINE), (100, LINE), (LARGE - LARGE / 8, LARGE), (LARGE + 5, LARGE)] {
            let mut bytes = HostBytes::zeroed(count).expect("memory");
            assert_eq!((bytes.len(), bytes.pointer().as_ptr() as usize % alignment), (count, 0));
            assert!(bytes.iter().all(|byte| *byte == 0));
            if let Some(last) = bytes.last_mut() {
                *last = 7;
                assert_eq!(bytes[count - 1], 7);
            }
        }
    }

    #[test]
    fn no_more_than_a_quarter_is_added() {
        for count in [1, LARGE / 2, LARGE * 4 / 5, LARGE, LARGE + 1, LARGE * 8 / 5, 3 * LARGE + 1, 4 * LARGE + 1] {
            let size = layout(count).expect("it is allowed").size();
            assert!(count <= size && size <= count + count / 4, "{count}: {size}");
        }
        assert_eq!(layout(LARGE * 7 / 8).map(|layout| layout.size()), Some(LARGE));
    }

    #[test]
    fn too_many_are_refused() {
        let too_much = physical_memory().map_or(isize::MAX as usize, |bytes| bytes as usize + 1);
        for count in [too_much, isize::MAX as usize, usize::MAX] {
            let refused = HostBytes::zeroed(count);
            assert!(matches!(refused, Err(Error::OutOfMemory { bytes, .. }) if bytes == count), "{refused:?}");
        }
    }
}
