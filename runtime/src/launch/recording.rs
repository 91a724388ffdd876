//! Recorded launches: the content of a stream that records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::device::cuda::{Allocation, AllocationAccess};
use crate::device::emulated::EmulatedMemory;
use crate::device::launch::Launch;
use crate::device::loaded::Loaded;
use crate::error::{Error, Result};
use crate::memory::buffer::{Buffer, BufferMemory};

/// A launch with all that it needs, for as long as it may be done.
#[derive(Clone)]
pub(crate) struct RecordedLaunch {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) shape: Launch,
    /// The bytes of each parameter.
    pub(crate) values: Vec<SmallVec<[u8; 8]>>,
    pub(crate) uses: Vec<(Arc<Buffer>, AllocationAccess)>,
    /// The listener for the kernel's failures.
    pub(crate) _kernel: Arc<dyn Send + Sync>,
}

impl RecordedLaunch {
    /// The GPU's memory that it uses.
    pub(crate) fn cuda_uses(&self) -> impl Iterator<Item = (&Allocation, AllocationAccess)> {
        self.uses.iter().filter_map(|(buffer, access)| match buffer.memory() {
            BufferMemory::Cuda(allocation) => Some((allocation, *access)),
            BufferMemory::Host(_) | BufferMemory::Emulated(_) | BufferMemory::None { .. } => None,
        })
    }

    /// The emulated device's memory that it uses, and whether it writes it.
    pub(crate) fn emulated_uses(&self) -> impl Iterator<Item = (&EmulatedMemory, bool)> {
        self.uses.iter().filter_map(|(buffer, access)| buffer.emulated_use(*access))
    }
}

/// The launches that have been recorded so far; `None` when the recording is over.
pub(crate) struct Recording(Mutex<Option<Vec<RecordedLaunch>>>);

impl Default for Recording {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl Recording {
    pub(crate) fn add(&self, launches: impl IntoIterator<Item = RecordedLaunch>) -> Result<()> {
        match &mut *self.launches() {
            Some(recorded) => {
                recorded.extend(launches);
                Ok(())
            }
            None => {
                let reason = "the stream was for a capture that is over: put work on it inside of the function only";
                Err(Error::Capture { reason: reason.to_owned() })
            }
        }
    }

    /// Ends it.
    pub(crate) fn end(&self) -> Vec<RecordedLaunch> {
        self.launches().take().unwrap_or_default()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.launches().is_none()
    }

    fn launches(&self) -> MutexGuard<'_, Option<Vec<RecordedLaunch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
