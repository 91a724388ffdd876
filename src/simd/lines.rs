//! Memory that begins at a cache line: a vector's lanes are in one line then, not in two.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

use super::stream::LINE;

/// A cache line.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Elements, the first at the beginning of a cache line. Those nobody has written are 0.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    memory: Vec<Line>,
    length: usize,
    element: PhantomData<T>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { memory: Vec::new(), length: 0, element: PhantomData }
    }
}

impl<T: Pod> Lines<T> {
    pub(crate) fn zeroed(length: usize) -> Self {
        let lines = (length * size_of::<T>()).div_ceil(LINE);
        Self { memory: bytemuck::allocation::zeroed_vec(lines), length, element: PhantomData }
    }

    /// The same, or `None` if there is not enough memory.
    pub(crate) fn try_zeroed(length: usize) -> Option<Self> {
        let lines = length.checked_mul(size_of::<T>())?.div_ceil(LINE);
        let memory = bytemuck::allocation::try_zeroed_vec(lines).ok()?;
        Some(Self { memory, length, element: PhantomData })
    }

    /// Has this many elements at least.
    pub(crate) fn grow(&mut self, length: usize) {
        if length > self.length {
            self.memory.resize((length * size_of::<T>()).div_ceil(LINE), Line::zeroed());
            self.length = length;
        }
    }
}

impl<T: Pod> Deref for Lines<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.memory)[..self.length]
    }
}

impl<T: Pod> DerefMut for Lines<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.memory)[..self.length]
    }
}
