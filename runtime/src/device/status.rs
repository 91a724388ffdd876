//! Failures that kernels report for data that they can't use, such as an index outside of its tensor.
//!
//! A failing kernel must not stop, because that would cost the process its CUDA context. It notes its first failure in
//! the device's record, accesses nothing outside of its memory, and ends as usual. The host checks the record whenever
//! it has waited for the device.
//!
//! The kernel's module has a variable `epilogue_status`, which is filled when the module is loaded:
//!
//! ```text
//! struct Record { u32 state, site; u64 kernel; i64 value, limit; };   // state: 0 free, 1 being written, 2 complete
//! struct Status { Record* record; u64 kernel; };                      // a null record: nobody listens
//! ```
//!
//! A device has one record, with its newest unread failure. It is not known which results a failure has affected (other
//! launches, on other streams, may have read them). So each tensor and stream that existed at the time reports it once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::compile::failure::{RECORD_BYTES, Site};
use crate::device::cuda::HostRecord;
use crate::device::emulated::EmulatedMemory;
use crate::error::{DataError, Error, Result};

/// The name of the variable through which a module reports failures.
pub const STATUS_VARIABLE: &str = "epilogue_status";

/// The place that a device's kernels write to.
pub(crate) enum Record {
    Cuda(HostRecord),
    Emulated(EmulatedMemory),
}

impl Record {
    fn address(&self) -> u64 {
        match self {
            Self::Cuda(record) => record.device_address(),
            Self::Emulated(memory) => memory.address(),
        }
    }

    /// The record, if it is complete. Then it is free again.
    fn take(&self) -> Result<Option<[u8; RECORD_BYTES]>> {
        match self {
            Self::Cuda(record) => Ok(record.take()),
            Self::Emulated(memory) => {
                let mut bytes = [0; RECORD_BYTES];
                memory.read(0, &mut bytes)?;
                if bytes[..4] != 2u32.to_le_bytes() {
                    return Ok(None);
                }
                memory.write(0, &[0; RECORD_BYTES])?;
                Ok(Some(bytes))
            }
        }
    }
}

/// A device's failures.
#[derive(Default)]
pub(crate) struct Status {
    record: OnceLock<Record>,
    /// How many failures have been read from the record.
    count: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// The sites of the kernels that are loaded.
    sites: BTreeMap<u64, Arc<[Site]>>,
    newest: Option<DataError>,
}

/// How many of a device's failures a tensor or a stream has already reported.
#[derive(Debug)]
pub(crate) struct SeenFailures(AtomicU64);

impl Status {
    /// For something new, which reports none of the failures so far.
    pub(crate) fn seen(&self) -> SeenFailures {
        SeenFailures(AtomicU64::new(self.count.load(Ordering::Acquire)))
    }

    /// Registers a kernel's sites; gives its number, and the content of its module's variable.
    pub(crate) fn register(&self, sites: &[Site], record: impl FnOnce() -> Result<Record>) -> Result<(u64, [u8; 16])> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let address = match self.record.get() {
            Some(record) => record.address(),
            None => {
                let made = record()?;
                self.record.get_or_init(|| made).address()
            }
        };
        state.next += 1;
        let number = state.next;
        state.sites.insert(number, sites.into());
        let mut variable = [0; 16];
        variable[..8].copy_from_slice(&address.to_le_bytes());
        variable[8..].copy_from_slice(&number.to_le_bytes());
        Ok((number, variable))
    }

    /// Forgets a kernel, none of whose launches is running.
    pub(crate) fn forget(&self, kernel: u64) {
        let _ = self.collect();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).sites.remove(&kernel);
    }

    fn collect(&self) -> Result<()> {
        let Some(record) = self.record.get() else { return Ok(()) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = record.take()? else { return Ok(()) };
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let site = usize::try_from(word(0) >> 32).unwrap_or(usize::MAX);
        let known = state.sites.get(&word(8)).and_then(|sites| sites.get(site));
        let failure = known.map_or(DataError::Unknown, |site| site.failure(word(16) as i64, word(24) as i64));
        state.newest = Some(failure);
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// The newest failure, if it has not been reported through `seen`.
    pub(crate) fn report(&self, seen: &SeenFailures) -> Result<()> {
        self.collect()?;
        let count = self.count.load(Ordering::Acquire);
        if seen.0.swap(count, Ordering::AcqRel) >= count {
            return Ok(());
        }
        let newest = self.state.lock().unwrap_or_else(PoisonError::into_inner).newest.clone();
        newest.map_or(Ok(()), |failure| Err(Error::Data(failure)))
    }
}
