//! Copies between two views of one shape, with as few axes and as wide words as their strides allow.

use smallvec::SmallVec;

/// Bytes of the widest word.
const WIDEST: usize = 16;

/// The side, in words, of a square that is copied at once in a transposition: 16 lines of either view.
const SQUARE: usize = 16;

/// One axis of two views: its extent, and the strides of the view that is read and of the view that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A copy between two views of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strided {
    /// Bytes of a word: 1, 2, 4, 8 or 16. They are contiguous in both views.
    pub(crate) word: usize,
    /// The axes, with strides in bytes, by decreasing stride of what is written. None has extent 1.
    pub(crate) axes: SmallVec<[Axis; 4]>,
}

/// A copy with different contiguous axes: one of the read view, another of the written view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transposed {
    pub(crate) read: Axis,
    pub(crate) written: Axis,
    /// The other axes.
    pub(crate) outer: SmallVec<[Axis; 4]>,
}

impl Strided {
    /// Strides are in elements of `element` bytes; `alignment`, a power of two, divides the addresses of both first
    /// elements.
    pub(crate) fn new(shape: &[usize], from: &[isize], to: &[isize], element: usize, alignment: usize) -> Self {
        let bytes = |stride: isize| stride.unsigned_abs() * element;
        let mut given: SmallVec<[Axis; 4]> = (shape.iter().zip(from).zip(to))
            .filter(|((extent, _), _)| **extent != 1)
            .map(|((&extent, &from), &to)| Axis { extent, from: bytes(from), to: bytes(to) })
            .collect();
        given.sort_by_key(|axis| std::cmp::Reverse((axis.to, axis.from)));
        let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
        for axis in given {
            match axes.last_mut() {
                Some(outer) if outer.from == axis.from * axis.extent && outer.to == axis.to * axis.extent => {
                    *outer = Axis { extent: outer.extent * axis.extent, ..axis };
                }
                _ => axes.push(axis),
            }
        }
        let mut copy = Self { word: element, axes };
        while copy.word < WIDEST.min(alignment) && copy.widen() {}
        copy.axes.retain(|axis| axis.extent != 1);
        copy
    }

    /// Merges pairs of words into one, if they are contiguous in both views.
    fn widen(&mut self) -> bool {
        let wide = 2 * self.word;
        let Some((inner, outer)) = self.axes.split_last_mut() else { return false };
        let neighbours = inner.from == self.word && inner.to == self.word && inner.extent.is_multiple_of(2);
        if !neighbours || outer.iter().any(|axis| !axis.from.is_multiple_of(wide) || !axis.to.is_multiple_of(wide)) {
            return false;
        }
        *inner = Axis { extent: inner.extent / 2, from: wide, to: wide };
        self.word = wide;
        true
    }

    /// The number of words.
    pub(crate) fn words(&self) -> usize {
        self.axes.iter().map(|axis| axis.extent).product()
    }

    /// The copy as a transposition, if it is one.
    pub(crate) fn transposed(&self) -> Option<Transposed> {
        let (written, outer) = self.axes.split_last().filter(|(inner, _)| inner.to == self.word)?;
        let read = outer.iter().position(|axis| axis.from == self.word)?;
        let mut outer: SmallVec<[Axis; 4]> = outer.into();
        let read = outer.remove(read);
        (written.from != self.word).then_some(Transposed { read, written: *written, outer })
    }

    /// Copies within this computer's memory.
    ///
    /// # Safety
    /// All memory that the axes reach may be read from `from` and written to `to`, and the two have no byte in common.
    pub(crate) unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; a word's bytes are neighbours.
        unsafe {
            match self.word {
                1 => self.copy_words::<u8>(from, to),
                2 => self.copy_words::<u16>(from, to),
                4 => self.copy_words::<u32>(from, to),
                8 => self.copy_words::<u64>(from, to),
                _ => self.copy_words::<u128>(from, to),
            }
        }
    }

    /// # Safety
    /// That of [`copy`](Self::copy), for words of this size.
    unsafe fn copy_words<Word: Copy>(&self, from: *const u8, to: *mut u8) {
        debug_assert_eq!(size_of::<Word>(), self.word);
        let one = Axis { extent: 1, from: 0, to: 0 };
        if let Some(Transposed { read, written, outer }) = self.transposed() {
            // SAFETY: the offsets are inside of what the axes reach.
            return each_offset(&outer, |source, target| unsafe {
                copy_square::<Word>(read, written, from.add(source), to.add(target));
            });
        }
        let (inner, outer) = self.axes.split_last().unwrap_or((&one, &[]));
        each_offset(outer, |source, target| {
            // SAFETY: as above.
            let (from, to) = unsafe { (from.add(source), to.add(target)) };
            if inner.extent == 1 || inner.from == self.word && inner.to == self.word {
                // SAFETY: the words are neighbours in both.
                return unsafe { std::ptr::copy_nonoverlapping(from, to, inner.extent * self.word) };
            }
            for i in 0..inner.extent {
                // SAFETY: as above.
                unsafe { copy_word::<Word>(from.add(i * inner.from), to.add(i * inner.to)) };
            }
        });
    }
}

/// # Safety
/// Both may be accessed.
unsafe fn copy_word<Word: Copy>(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; any alignment is right.
    unsafe { to.cast::<Word>().write_unaligned(from.cast::<Word>().read_unaligned()) };
}

/// Copies square by square, so that memory lines that are written stay in the cache until they are complete.
///
/// # Safety
/// That of [`Strided::copy`], for two axes.
unsafe fn copy_square<Word: Copy>(read: Axis, written: Axis, from: *const u8, to: *mut u8) {
    for first_read in (0..read.extent).step_by(SQUARE) {
        for first_written in (0..written.extent).step_by(SQUARE) {
            for i in first_read..(first_read + SQUARE).min(read.extent) {
                for j in first_written..(first_written + SQUARE).min(written.extent) {
                    let (source, target) = (i * read.from + j * written.from, i * read.to + j * written.to);
                    // SAFETY: the caller's promise.
                    unsafe { copy_word::<Word>(from.add(source), to.add(target)) };
                }
            }
        }
    }
}

/// Calls `visit` with the offsets of every index of the axes; the last axis is the fastest.
pub(crate) fn each_offset(axes: &[Axis], mut visit: impl FnMut(usize, usize)) {
    if axes.iter().any(|axis| axis.extent == 0) {
        return;
    }
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, axes.len());
    let (mut from, mut to) = (0, 0);
    loop {
        visit(from, to);
        let mut place = axes.len();
        loop {
            if place == 0 {
                return;
            }
            place -= 1;
            let axis = axes[place];
            index[place] += 1;
            (from, to) = (from + axis.from, to + axis.to);
            if index[place] < axis.extent {
                break;
            }
            (from, to) = (from - axis.from * axis.extent, to - axis.to * axis.extent);
            index[place] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(extent: usize, from: usize, to: usize) -> Axis {
        Axis { extent, from, to }
    }

    #[test]
    fn neighbours_are_one_axis_of_wide_words() {
        // [3, 4, 8] of 2 bytes, contiguous in both.
        let whole = Strided::new(&[3, 4, 8], &[32, 8, 1], &[32, 8, 1], 2, 256);
        assert_eq!((whole.word, whole.axes.as_slice()), (16, [axis(12, 16, 16)].as_slice()));
        // Rows cut out of wider ones: with a pitch of 24 elements words can have 16 bytes, with 10 elements 4.
        let rows = Strided::new(&[3, 8], &[24, 1], &[8, 1], 2, 256);
        assert_eq!((rows.word, rows.axes.as_slice()), (16, [axis(3, 48, 16)].as_slice()));
        let rows = Strided::new(&[3, 8], &[10, 1], &[8, 1], 2, 256);
        assert_eq!((rows.word, rows.axes.as_slice()), (4, [axis(3, 20, 16), axis(4, 4, 4)].as_slice()));
        // An odd first address, and an odd extent.
        assert_eq!(Strided::new(&[3, 8], &[8, 1], &[8, 1], 2, 2).word, 2);
        assert_eq!(Strided::new(&[3, 5], &[5, 1], &[5, 1], 2, 256).axes.as_slice(), [axis(15, 2, 2)]);
        // A scalar.
        assert_eq!(Strided::new(&[], &[], &[], 8, 256), Strided { word: 8, axes: SmallVec::new() });
    }

    #[test]
    fn rows_that_become_columns_are_seen() {
        let turned = Strided::new(&[2, 5, 7], &[35, 1, 5], &[35, 7, 1], 4, 256);
        let expected =
            Transposed { read: axis(5, 4, 28), written: axis(7, 20, 4), outer: [axis(2, 140, 140)][..].into() };
        assert_eq!(turned.transposed(), Some(expected));
        // These elements with the axes in the other order.
        assert_eq!(Strided::new(&[5, 2, 7], &[1, 35, 5], &[7, 35, 1], 4, 256), turned);
        assert_eq!(Strided::new(&[5, 7], &[7, 1], &[7, 1], 4, 256).transposed(), None);
        // Rows that repeat one element are not contiguous in what is read.
        assert_eq!(Strided::new(&[5, 7], &[0, 2], &[7, 1], 4, 256).transposed(), None);
    }
}
