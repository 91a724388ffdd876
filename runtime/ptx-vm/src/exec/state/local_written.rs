//! The bytes of a warp's local memory that its lanes have written.

/// One bit for every byte of every lane. Empty if reads are not checked.
#[derive(Debug, Default)]
pub(in crate::exec) struct LocalWritten {
    words: Vec<u64>,
    /// The words of a lane.
    stride: usize,
}

impl LocalWritten {
    /// Makes room for this many bytes of each lane.
    pub(in crate::exec) fn new(bytes: u32) -> Self {
        let stride = (bytes as usize).div_ceil(64);
        Self { words: vec![0; stride * 32], stride }
    }

    pub(in crate::exec) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The word and the bits of an access. It is aligned, and has up to 8 bytes, so it is in one word.
    fn place(&self, lane: usize, offset: u32, bytes: u32) -> (usize, u64) {
        (lane * self.stride + offset as usize / 64, ((1 << bytes) - 1) << (offset % 64))
    }

    /// Records that bytes were written, or that an undefined value was.
    pub(in crate::exec) fn mark(&mut self, lane: usize, offset: u32, bytes: u32, is_defined: bool) {
        let (word, bits) = self.place(lane, offset, bytes);
        if let Some(word) = self.words.get_mut(word) {
            *word = if is_defined { *word | bits } else { *word & !bits };
        }
    }

    /// Whether one of these bytes was written, as far as this is checked.
    pub(in crate::exec) fn any(&self, lane: usize, offset: u32, bytes: u32) -> bool {
        let (word, bits) = self.place(lane, offset, bytes);
        self.words.get(word).is_none_or(|word| word & bits != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::LocalWritten;

    #[test]
    fn lanes_and_bytes_are_kept_apart() {
        let mut written = LocalWritten::new(72);
        written.mark(3, 64, 8, true);
        assert!(written.any(3, 64, 1) && written.any(3, 71, 1) && !written.any(3, 56, 8) && !written.any(4, 64, 8));
        written.mark(3, 64, 4, false);
        assert!(!written.any(3, 64, 4) && written.any(3, 64, 8));
        assert!(LocalWritten::new(0).any(31, 0, 8));
    }
}
