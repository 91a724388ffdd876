//! A block's shared memory.

use super::global::bit_range;

/// The byte that fills fresh shared memory. As a float of any width it is a NaN.
pub(crate) const POISON: u8 = 0xff;

/// The shared memory of one block. Only the worker that runs the block's cluster accesses it.
pub(crate) struct SharedMemory {
    /// 16-byte words, so that every access the hardware would allow is aligned here too.
    words: Vec<u128>,
    size: u32,
    /// One bit for every byte: whether it was written. Empty if reads are not checked.
    written: Vec<u64>,
    /// The number of unwritten bytes, if reads are checked.
    unwritten: u32,
    /// Start and end of bytes that belong to no variable. Whether they are accessed is checked elsewhere; here they count
    /// as written.
    gaps: Box<[(u32, u32)]>,
}

impl SharedMemory {
    pub(crate) fn new(size: u32, checked: bool, gaps: &[(u32, u32)]) -> Self {
        let written = if checked { vec![0; (size as usize).div_ceil(64)] } else { vec![] };
        let gaps = gaps.iter().filter(|(start, _)| *start < size).map(|&(start, end)| (start, end.min(size)));
        let mut memory = Self {
            words: vec![u128::MAX; (size as usize).div_ceil(16)],
            size,
            written,
            unwritten: 0,
            gaps: gaps.collect(),
        };
        memory.forget_writes();
        memory
    }

    /// Resets it for the next block.
    pub(crate) fn reset(&mut self) {
        self.words.fill(u128::from_ne_bytes([POISON; 16]));
        self.forget_writes();
    }

    fn forget_writes(&mut self) {
        self.written.fill(0);
        self.unwritten = if self.is_checked() { self.size } else { 0 };
        for (start, end) in self.gaps.clone() {
            self.mark_written(start, end - start);
        }
    }

    #[inline(always)]
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    #[inline(always)]
    pub(crate) fn data(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised and at least `size` bytes long; u8 has no alignment.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.size as usize) }
    }

    /// Its bytes, for writing.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised and at least `size` bytes long; u8 has no alignment; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.size as usize) }
    }

    #[inline(always)]
    pub(crate) fn is_checked(&self) -> bool {
        !self.written.is_empty()
    }

    #[inline]
    pub(crate) fn mark_written(&mut self, offset: u32, bytes: u32) {
        if self.is_checked() {
            for (word, mask) in bit_range(u64::from(offset), u64::from(bytes)) {
                self.unwritten -= (mask & !self.written[word]).count_ones();
                self.written[word] |= mask;
            }
        }
    }

    /// Marks bytes as unwritten, because an undefined value was copied to them.
    pub(crate) fn mark_unwritten(&mut self, offset: u32, bytes: u32) {
        if self.is_checked() {
            for (word, mask) in bit_range(u64::from(offset), u64::from(bytes)) {
                self.unwritten += (mask & self.written[word]).count_ones();
                self.written[word] &= !mask;
            }
        }
    }

    /// Whether every byte was written, or reads are not checked.
    #[inline(always)]
    pub(crate) fn is_all_written(&self) -> bool {
        self.unwritten == 0
    }

    /// Whether every byte of a range was written, as far as this is checked.
    #[inline]
    pub(crate) fn is_written(&self, offset: u32, bytes: u32) -> bool {
        !self.is_checked()
            || bit_range(u64::from(offset), u64::from(bytes)).all(|(word, mask)| self.written[word] & mask == mask)
    }
}
