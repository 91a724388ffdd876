//! Device memory: allocations with guard gaps between them, shared by all worker threads.
//!
//! The blocks of a kernel run on several threads and may access the same bytes, by design (flags, counters) or by
//! mistake. So every access to an allocation's bytes is atomic and relaxed. The kernel's own ordering comes from fences
//! that are issued for its acquire and release instructions. Accesses of different sizes may overlap: the supported
//! hosts execute aligned accesses of up to 8 bytes as single instructions, and what a racing kernel reads is
//! unspecified anyway.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::window;
use crate::error::MemoryError;

/// Unmapped bytes between two allocations.
const GUARD: u64 = 1 << 16;
/// The alignment of every allocation, the same as CUDA's.
const ALIGNMENT: u64 = 512;
/// The size of the largest allocation.
const LIMIT: u64 = 1 << 36;

/// An address in a machine's device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

/// One allocation.
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) size: u64,
    pub(crate) name: String,
    words: Box<[AtomicU64]>,
    /// One bit for every byte: whether it was written.
    written: Box<[AtomicU64]>,
    /// Whether all bytes are known to be written. It is set when a single host call covers the allocation.
    all_written: AtomicBool,
}

/// `count` zeroed words, without touching their pages; `None` if the host has not enough memory. `count` must not be 0.
fn zeroed(count: u64) -> Option<Box<[AtomicU64]>> {
    let count = usize::try_from(count).ok()?;
    let layout = Layout::array::<AtomicU64>(count).ok()?;
    // SAFETY: the size of the layout is not 0, because `count` is not 0.
    let words = unsafe { std::alloc::alloc_zeroed(layout) };
    if words.is_null() {
        return None;
    }
    // SAFETY: the words were just allocated by the global allocator with the layout of this slice. Zero is a valid
    // AtomicU64, and nothing else owns the words.
    Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(words.cast::<AtomicU64>(), count)) })
}

impl Allocation {
    /// A new allocation; `None` if the host has not enough memory.
    pub(crate) fn new(base: u64, size: u64, name: &str) -> Option<Self> {
        Some(Self {
            base,
            size,
            name: name.into(),
            // One word more than needed lets a wide access read past the last byte's word.
            words: zeroed(size / 8 + 2)?,
            written: zeroed(size / 64 + 2)?,
            all_written: AtomicBool::new(size == 0),
        })
    }

    /// The address of the first byte. It is valid for `size` bytes, through atomics only.
    #[inline(always)]
    pub(crate) fn data(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }

    #[inline(always)]
    fn load_u8(&self, offset: u64) -> u8 {
        debug_assert!(offset < self.size);
        // SAFETY: the offset is inside the allocation, which is only accessed through atomics.
        unsafe { AtomicU8::from_ptr(self.data().add(offset as usize).cast_mut()) }.load(Relaxed)
    }

    #[inline(always)]
    fn store_u8(&self, offset: u64, value: u8) {
        debug_assert!(offset < self.size);
        // SAFETY: as for `load_u8`.
        unsafe { AtomicU8::from_ptr(self.data().add(offset as usize).cast_mut()) }.store(value, Relaxed);
    }

    /// Copies bytes out. `offset + to.len()` must not exceed `size`.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) {
        assert!(offset + to.len() as u64 <= self.size, "checked by the caller");
        let mut at = 0;
        while at < to.len() {
            let address = offset + at as u64;
            if address.is_multiple_of(8) && to.len() - at >= 8 {
                let word = self.words[(address / 8) as usize].load(Relaxed);
                to[at..at + 8].copy_from_slice(&word.to_le_bytes());
                at += 8;
            } else {
                to[at] = self.load_u8(address);
                at += 1;
            }
        }
    }

    /// Copies bytes in and marks them as written. `offset + from.len()` must not exceed `size`.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        assert!(offset + from.len() as u64 <= self.size, "checked by the caller");
        let mut at = 0;
        while at < from.len() {
            let address = offset + at as u64;
            match from[at..].first_chunk::<8>() {
                Some(chunk) if address.is_multiple_of(8) => {
                    self.words[(address / 8) as usize].store(u64::from_le_bytes(*chunk), Relaxed);
                    at += 8;
                }
                _ => {
                    self.store_u8(address, from[at]);
                    at += 1;
                }
            }
        }
        self.mark_written(offset, from.len() as u64);
    }

    /// Fills a range with one byte and marks it as written.
    pub(crate) fn fill(&self, offset: u64, bytes: u64, value: u8) {
        const CHUNK: usize = 4096;
        let chunk = [value; CHUNK];
        let mut at = 0;
        while at < bytes {
            let n = (bytes - at).min(CHUNK as u64);
            self.write(offset + at, &chunk[..n as usize]);
            at += n;
        }
    }

    /// Whether every byte is known to be written.
    #[inline(always)]
    pub(crate) fn is_all_written(&self) -> bool {
        self.all_written.load(Relaxed)
    }

    /// Marks every byte as written. Bytes that nothing has written are zero.
    pub(crate) fn mark_all_written(&self) {
        self.all_written.store(true, Relaxed);
    }

    /// Marks a range as written.
    #[inline]
    pub(crate) fn mark_written(&self, offset: u64, bytes: u64) {
        if bytes == self.size {
            self.all_written.store(true, Relaxed);
        }
        for (word, mask) in bit_range(offset, bytes) {
            let bits = &self.written[word];
            if bits.load(Relaxed) & mask != mask {
                bits.fetch_or(mask, Relaxed);
            }
        }
    }

    /// Whether every byte of a range was written.
    #[inline]
    pub(crate) fn is_written(&self, offset: u64, bytes: u64) -> bool {
        self.is_all_written()
            || bit_range(offset, bytes).all(|(word, mask)| self.written[word].load(Relaxed) & mask == mask)
    }
}

/// The words of a bitmap, with the bits in each, that a range of bits covers.
#[inline]
pub(crate) fn bit_range(start: u64, length: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = start + length;
    let last = if length == 0 { start / 64 } else { end.div_ceil(64) };
    (start / 64..last).map(move |word| {
        let from = start.saturating_sub(word * 64);
        let to = (end - word * 64).min(64);
        let mask = (u64::MAX >> (64 - (to - from))) << from;
        (word as usize, mask)
    })
}

/// A type that is loaded, stored or updated as a whole.
pub(crate) trait Word: Copy {
    /// Loads a word. `pointer` must be aligned, inside an allocation.
    ///
    /// # Safety
    /// `pointer` must be valid for an aligned atomic access of this size.
    unsafe fn load(pointer: *const u8) -> Self;
    /// Stores a word.
    ///
    /// # Safety
    /// `pointer` must be valid for an aligned atomic access of this size.
    unsafe fn store(self, pointer: *const u8);
    /// The word's bits, zero-extended.
    fn into_bits(self) -> u64;
    /// The low bits as a word.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! word {
    ($($int:ty, $atomic:ty;)*) => {$(
        impl Word for $int {
            #[inline(always)]
            unsafe fn load(pointer: *const u8) -> Self {
                // SAFETY: by this function's contract.
                unsafe { <$atomic>::from_ptr(pointer.cast_mut().cast()) }.load(Relaxed)
            }
            #[inline(always)]
            unsafe fn store(self, pointer: *const u8) {
                // SAFETY: by this function's contract.
                unsafe { <$atomic>::from_ptr(pointer.cast_mut().cast()) }.store(self, Relaxed);
            }
            #[inline(always)]
            fn into_bits(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $int
            }
        }
    )*};
}

word! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// All allocations of a machine.
#[derive(Default)]
pub(crate) struct GlobalMemory {
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    living: BTreeMap<u64, Arc<Allocation>>,
    next: u64,
}

impl GlobalMemory {
    /// Makes an allocation. Its bytes count as unwritten.
    pub(crate) fn allocate(&self, bytes: u64, name: &str) -> Result<Arc<Allocation>, MemoryError> {
        if bytes > LIMIT {
            return Err(MemoryError::TooLarge { bytes, limit: LIMIT });
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let base = table.next.max(window::GLOBAL);
        let Some(allocation) = Allocation::new(base, bytes, name) else {
            return Err(MemoryError::OutOfMemory { bytes });
        };
        table.next = (base + bytes + GUARD).next_multiple_of(ALIGNMENT);
        let allocation = Arc::new(allocation);
        table.living.insert(base, Arc::clone(&allocation));
        Ok(allocation)
    }

    pub(crate) fn free(&self, address: u64) -> Result<(), MemoryError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        table.living.remove(&address).map(drop).ok_or(MemoryError::NotAllocated { address })
    }

    /// The allocation that contains a whole range, and the range's offset in it.
    pub(crate) fn range(&self, address: u64, bytes: u64) -> Result<(Arc<Allocation>, u64), MemoryError> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let below = table.living.range(..=address).next_back().map(|(_, a)| a);
        match below {
            Some(a) if address - a.base <= a.size && bytes <= a.size - (address - a.base) => {
                Ok((Arc::clone(a), address - a.base))
            }
            _ => {
                let all: Vec<_> = table.living.values().map(Arc::clone).collect();
                Err(MemoryError::OutOfBounds { address, bytes, nearest: nearest(&all, address) })
            }
        }
    }

    /// Everything that is allocated now, by address.
    pub(crate) fn living(&self) -> Vec<Arc<Allocation>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.living.values().map(Arc::clone).collect()
    }
}

/// The allocation nearest to an address, in words.
pub(crate) fn nearest(allocations: &[Arc<Allocation>], address: u64) -> String {
    let distance = |a: &Allocation| {
        if address < a.base { a.base - address } else { address.saturating_sub(a.base + a.size) }
    };
    match allocations.iter().min_by_key(|a| distance(a)) {
        None => "nothing is allocated".into(),
        Some(a) if address < a.base => {
            format!("{} bytes before buffer `{}` of {} bytes", a.base - address, a.name, a.size)
        }
        Some(a) if address >= a.base + a.size => {
            format!("{} bytes past the end of buffer `{}` of {} bytes", address - a.base - a.size, a.name, a.size)
        }
        Some(a) => format!("at byte {} of buffer `{}` of {} bytes", address - a.base, a.name, a.size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_at_every_alignment() {
        for offset in 0..9 {
            for length in 0..40 {
                let a = Allocation::new(0, 64, "a").unwrap();
                let data: Vec<u8> = (0..length).map(|i| i as u8 + 1).collect();
                a.write(offset, &data);
                let mut back = vec![0; data.len()];
                a.read(offset, &mut back);
                assert_eq!(back, data);
                assert!(a.is_written(offset, length));
                assert!(!a.is_written(offset, length + 1));
                assert!(offset == 0 || !a.is_written(offset - 1, 1));
            }
        }
    }

    #[test]
    fn bit_ranges_cover_exactly_their_bits() {
        for (start, length) in [(0, 0), (5, 0), (0, 64), (3, 61), (3, 62), (60, 200), (64, 64), (127, 1)] {
            let bits: Vec<u64> = bit_range(start, length)
                .flat_map(|(w, m)| (0..64).filter(move |b| m >> b & 1 != 0).map(move |b| w as u64 * 64 + b))
                .collect();
            assert_eq!(bits, (start..start + length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_range_over_a_guard_gap_is_refused_and_named() {
        let memory = GlobalMemory::default();
        let a = memory.allocate(100, "a").unwrap();
        memory.allocate(100, "b").unwrap();
        assert!(memory.range(a.base, 100).is_ok());
        let MemoryError::OutOfBounds { nearest, .. } = memory.range(a.base + 100, 1).err().unwrap() else { panic!() };
        assert_eq!(nearest, "0 bytes past the end of buffer `a` of 100 bytes");
        memory.free(a.base).unwrap();
        assert!(memory.range(a.base, 1).is_err());
        assert_eq!(memory.free(a.base), Err(MemoryError::NotAllocated { address: a.base }));
    }
}
