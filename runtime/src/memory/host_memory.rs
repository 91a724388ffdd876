//! Memory of this computer for CPU tensors: its owner, and who may access it when.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::LazyLock;

use crate::error::Result;
use crate::error::exchange::ExchangeError;
use crate::layout::element::{Element, ElementType, PlainElement};
use crate::memory::host_bytes::HostBytes;
use crate::memory::host_lock::{Held, HostLock, HostUse, Refusal, Waits};

/// Memory whose bytes are accessed only under its lock.
pub(crate) struct HostMemory {
    pointer: NonNull<u8>,
    bytes: usize,
    rights: Rights,
    lock: HostLock,
    owner: Owner,
}

/// The rights to someone else's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) write: bool,
    /// Whether all bytes from the first to the last belong to the lender, not only those of the elements.
    pub(crate) gaps: bool,
}

impl Rights {
    const ALL: Self = Self { write: true, gaps: true };
}

/// The owner of the memory, who decides what happens at its end.
enum Owner {
    /// This value.
    Allocated { _bytes: HostBytes },
    /// This value, which has it as the parts of a `Vec`.
    Vec(TakenVec),
    /// A caller, until [`HostMemory::end`].
    Scope,
    /// A value that is dropped with this one.
    Kept { _keeper: Box<dyn Send + Sync> },
}

/// The parts of a `Vec`, without its pointer.
struct TakenVec {
    element: ElementType,
    length: usize,
    capacity: usize,
    /// Calls `Vec::from_raw_parts` and drops the result.
    free: unsafe fn(NonNull<u8>, usize, usize),
}

/// # Safety
/// A `Vec<T>` was taken apart into these.
unsafe fn free_vec<T>(pointer: NonNull<u8>, length: usize, capacity: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Vec::from_raw_parts(pointer.as_ptr().cast::<T>(), length, capacity) });
}

// SAFETY: every access of the memory holds `lock` (or promises in an `unsafe` call that nobody else accesses it). The
// memory's owner may be sent and shared: bytes, `Vec`s of `Element`s, a keeper that says so, or a scope that outlives
// its use.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    pub(crate) fn zeroed(bytes: usize) -> Result<Self> {
        let zeroed = HostBytes::zeroed(bytes)?;
        Ok(Self::new(zeroed.pointer(), bytes, Rights::ALL, Owner::Allocated { _bytes: zeroed }))
    }

    /// The memory of a `Vec`.
    pub(crate) fn of_vec<T: Element>(values: Vec<T>) -> Self {
        let mut values = ManuallyDrop::new(values);
        let (length, capacity) = (values.len(), values.capacity());
        // SAFETY: a `Vec`'s pointer is never null. (A slice's would be one to the part in use only.)
        let pointer = unsafe { NonNull::new_unchecked(values.as_mut_ptr().cast::<u8>()) };
        let taken = TakenVec { element: T::TYPE, length, capacity, free: free_vec::<T> };
        Self::new(pointer, length * size_of::<T>(), Rights::ALL, Owner::Vec(taken))
    }

    /// Memory of a caller, until [`end`](Self::end).
    ///
    /// # Safety
    /// Until `end` returns, the memory has values, and it is written (or, if it is to be written, read) only through
    /// this value. If not all of it belongs to the lender, this holds for the elements of tensors.
    pub(crate) unsafe fn of_scope(pointer: NonNull<u8>, bytes: usize, rights: Rights) -> Self {
        Self::new(pointer, bytes, rights, Owner::Scope)
    }

    /// Memory of a value that is kept as long as this one lives.
    ///
    /// # Safety
    /// As for [`of_scope`](Self::of_scope), until `keeper` is dropped.
    pub(crate) unsafe fn kept_by(
        keeper: Box<dyn Send + Sync>,
        pointer: NonNull<u8>,
        bytes: usize,
        rights: Rights,
    ) -> Self {
        Self::new(pointer, bytes, rights, Owner::Kept { _keeper: keeper })
    }

    fn new(pointer: NonNull<u8>, bytes: usize, rights: Rights, owner: Owner) -> Self {
        static WAITS: LazyLock<Waits> = LazyLock::new(Waits::default);
        Self { pointer, bytes, rights, lock: HostLock::new(&WAITS), owner }
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(crate) fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether this memory ends with a scope.
    pub(crate) fn is_of_scope(&self) -> bool {
        matches!(self.owner, Owner::Scope)
    }

    /// Ends all use of the memory: waits for other threads' current uses, and refuses later ones.
    pub(crate) fn end(&self) {
        self.lock.end();
    }

    /// The element type of the `Vec` that the memory came from.
    pub(crate) fn vec_element(&self) -> Option<ElementType> {
        match &self.owner {
            Owner::Vec(taken) => Some(taken.element),
            Owner::Allocated { .. } | Owner::Scope | Owner::Kept { .. } => None,
        }
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The `Vec` that the memory came from, if it has this type.
    pub(crate) fn into_vec<T: PlainElement>(mut self) -> Option<Vec<T>> {
        if self.vec_element() != Some(T::TYPE) {
            return None;
        }
        // The rest owns nothing.
        let Owner::Vec(taken) = std::mem::replace(&mut self.owner, Owner::Scope) else { return None };
        // SAFETY: a `Vec<T>` (every element type is of one Rust type) was taken apart into these, and nobody else has
        // them.
        Some(unsafe { Vec::from_raw_parts(self.pointer.as_ptr().cast::<T>(), taken.length, taken.capacity) })
    }

    /// Waits until the memory may be used so.
    pub(crate) fn hold(&self, wants: HostUse) -> Result<Held<'_>> {
        if wants == HostUse::Write && !self.rights.write {
            return Err(ExchangeError::ReadOnly.into());
        }
        self.lock.hold(wants).map_err(|refusal| match refusal {
            Refusal::Ended => ExchangeError::Ended.into(),
            Refusal::Circle => ExchangeError::WaitsForItself.into(),
        })
    }

    /// Copies bytes out. The caller has checked the range.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let _lock = self.hold(HostUse::Read)?;
        debug_assert!(offset + into.len() <= self.bytes);
        // SAFETY: the range lies in the memory, and no one writes while the lock is held.
        unsafe { self.pointer.as_ptr().add(offset).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies bytes in. The caller has checked the range.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let _lock = self.hold(HostUse::Write)?;
        debug_assert!(offset + from.len() <= self.bytes);
        // SAFETY: the range lies in the memory, and no one else accesses it while the lock is held.
        unsafe { self.pointer.as_ptr().add(offset).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Vec(taken) = &self.owner {
            // SAFETY: these are the parts of the `Vec` that was taken, of the type that `free` is for.
            unsafe { (taken.free)(self.pointer, taken.length, taken.capacity) };
        }
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn memory_starts_zeroed_and_keeps_what_is_written() {
        let memory = HostMemory::zeroed(100).unwrap();
        let mut bytes = [1u8; 100];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 100]);
        memory.write(97, &[7, 8, 9]).unwrap();
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes[96..], [0, 7, 8, 9]);
        assert!(matches!(HostMemory::zeroed(isize::MAX as usize), Err(Error::OutOfMemory { .. })));
    }

    #[test]
    fn a_vec_is_freed_or_given_back_as_it_was() {
        let mut values = Vec::with_capacity(10);
        values.extend([1.5f64, 2.5]);
        let place = values.as_ptr();
        let memory = HostMemory::of_vec(values);
        assert_eq!((memory.pointer().cast_const().cast(), memory.bytes()), (place, 16));
        assert!(HostMemory::of_vec(vec![1u8]).into_vec::<i8>().is_none());
        let back = memory.into_vec::<f64>().unwrap();
        assert_eq!((back.as_ptr(), back.capacity(), back.as_slice()), (place, 10, &[1.5, 2.5][..]));
        drop(HostMemory::of_vec(back));
        drop(HostMemory::of_vec(Vec::<f32>::new()));
    }
}
