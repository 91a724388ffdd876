//! Non-temporal stores, which bypass the caches: for data that is too long to be in a cache when it is read. The CPU
//! then doesn't read a line of memory before it writes it. Also prefetches, for loads that the CPU doesn't foresee.

/// Bytes of a cache line, which is written as a whole.
pub(crate) const LINE: usize = 64;

/// Data of this many bytes doesn't fit in a CPU's caches.
pub(crate) const FAR: usize = 32 << 20;

/// Copies elements to memory, bypassing the caches.
///
/// # Safety
/// `to` is aligned, all elements from there on are writable, and no other thread touches them before a [`Fence`] of
/// this thread is dropped.
pub(crate) unsafe fn store<T: Copy>(to: *mut T, elements: &[T]) {
    let before = (to.addr().next_multiple_of(LINE) - to.addr()) / size_of::<T>();
    let (head, rest) = elements.split_at(before.min(elements.len()));
    let (body, tail) = rest.split_at(rest.len() - rest.len() % (LINE / size_of::<T>()));
    // SAFETY: these are parts of what the caller promises; the body begins at a line and consists of whole lines.
    unsafe {
        std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        let to = to.add(head.len());
        lines(to.cast(), body.as_ptr().cast(), size_of_val(body) / LINE);
        std::ptr::copy_nonoverlapping(tail.as_ptr(), to.add(body.len()), tail.len());
    }
}

/// Prefetches elements to the second-level cache. They may lie anywhere, even outside the process' memory.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn fetch<T, const COUNT: usize>(from: *const T) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    for line in (0..COUNT * size_of::<T>()).step_by(LINE) {
        // SAFETY: every x86-64 CPU has the instruction, which ignores addresses that can't be read.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast::<i8>().wrapping_add(line)) };
    }
}

/// Prefetches a line to the first-level cache. It may lie anywhere.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn fetch_near(from: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    // SAFETY: every x86-64 CPU has the instruction, which ignores addresses that can't be read.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) };
}

/// Other CPUs foresee by themselves.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) const fn fetch<T, const COUNT: usize>(_: *const T) {}

/// Other CPUs foresee by themselves.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(crate) const fn fetch_near(_: *const u8) {}

/// Orders a thread's stores when it is dropped: a thread that is notified afterwards sees them. Every thread with
/// non-temporal stores must have one.
#[derive(Debug)]
pub(crate) struct Fence;

impl Drop for Fence {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 CPU has the instruction.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// # Safety
/// `to` is the beginning of a cache line, `count` lines from there on are writable, and as many bytes are readable from
/// `from` on.
#[cfg(target_arch = "x86_64")]
unsafe fn lines(to: *mut u8, from: *const u8, count: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    let (to, from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
    for place in 0..count * (LINE / size_of::<__m128i>()) {
        // SAFETY: the place is within the lines, which are aligned; every x86-64 CPU has the instructions.
        unsafe { _mm_stream_si128(to.add(place), _mm_loadu_si128(from.add(place))) };
    }
}

/// # Safety
/// `count` lines are writable from `to` on and readable from `from` on.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn lines(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, count * LINE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_stored_wherever_it_begins() {
        fn check<T: Copy + PartialEq + std::fmt::Debug + Default>(of: impl Fn(usize) -> T) {
            let _fence = Fence;
            for first in [0, 1, 5, 16, 63, 64] {
                for count in [0, 1, 15, 16, 64, 100, 1000] {
                    let from: Vec<T> = (1..=count).map(&of).collect();
                    let mut to = vec![T::default(); first + count + 9];
                    // SAFETY: the elements are within `to`.
                    unsafe { store(to.as_mut_ptr().add(first), &from) };
                    assert_eq!(to[first..first + count], from);
                    let others = to[..first].iter().chain(&to[first + count..]);
                    assert!(others.eq(vec![T::default(); first + 9].iter()));
                }
            }
        }
        check(|i| i as f32);
        check(|i| i as u8);
        check(|i| i as i64);
        check(|i| i as u16);
    }
}
