//! Memory that begins at a cache line: a vector's lanes are then in one line, not in two.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use epilogue_runtime::{Error, HostBytes};

use crate::exhaustion;

/// Elements, the first at the beginning of a cache line. They are 0 until they are written.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    memory: Option<HostBytes>,
    element: PhantomData<T>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { memory: None, element: PhantomData }
    }
}

impl<T: Pod> Lines<T> {
    /// This many, which a thread needs to compute at all: without them [the run ends](exhaustion).
    pub(crate) fn zeroed(length: usize) -> Self {
        Self::try_zeroed(length).unwrap_or_else(|error| exhaustion::ended(error))
    }

    /// This many.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn try_zeroed(length: usize) -> Result<Self, Error> {
        let memory = Some(HostBytes::zeroed(length.saturating_mul(size_of::<T>()))?);
        Ok(Self { memory, element: PhantomData })
    }

    /// Has this many elements at least: those that it has had, and others that are 0.
    pub(crate) fn grow(&mut self, length: usize) {
        if length > self.len() {
            // (Where it grows little by little, all is copied a few times only.)
            let mut more = Self::zeroed(length.max(self.len() + self.len() / 2));
            more[..self.len()].copy_from_slice(self);
            *self = more;
        }
    }
}

impl<T: Pod> Deref for Lines<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.memory.as_ref().map_or(&[], |memory| bytemuck::cast_slice(memory))
    }
}

impl<T: Pod> DerefMut for Lines<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.memory.as_mut().map_or(&mut [], |memory| bytemuck::cast_slice_mut(memory))
    }
}
