//! Memory of a GPU, and the order of the work that uses it.
//!
//! Every allocation remembers its last writer and its readers since then. Before work on another stream uses it, that
//! stream is made to wait. For our own streams the event is recorded only then, so that a program with one stream pays
//! nothing. (The event may order more than needed, never less.) For borrowed streams, whose life we don't control, it
//! is recorded right after each use. If others capture a stream, nothing is recorded: see [`in_capture`].

use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::sys::CUdeviceptr;
use smallvec::SmallVec;

use super::driver::call;
use super::gpu::Gpu;
use super::graph::{Relaxed, default_stream_captured};
use super::stream::{CudaEvent, CudaStream};
use crate::error::exchange::ExchangeError;
use crate::error::{Error, Result};

/// The number of events of borrowed streams from which completed ones are looked for and dropped.
const POINTS_KEPT: usize = 8;

/// How work uses an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AllocationAccess {
    Read,
    Write,
}

/// The end of a use.
#[derive(Clone)]
enum Use {
    /// Everything on one of our streams.
    Stream(Arc<CudaStream>),
    /// A point of a borrowed stream.
    Point(Arc<CudaEvent>),
}

/// A use, and the streams that already wait for it.
struct Entry {
    by: Use,
    awaited: SmallVec<[Weak<CudaStream>; 1]>,
}

impl Entry {
    fn new(by: &Use) -> Self {
        Self { by: by.clone(), awaited: SmallVec::new() }
    }

    fn is_on(&self, stream: &Arc<CudaStream>) -> bool {
        matches!(&self.by, Use::Stream(s) if Arc::ptr_eq(s, stream))
    }

    /// Makes later work of `stream` wait for this use.
    fn precede(&mut self, stream: &Arc<CudaStream>) -> Result<()> {
        let weak = Arc::downgrade(stream);
        if self.is_on(stream) || self.awaited.iter().any(|s| s.ptr_eq(&weak)) {
            return Ok(());
        }
        match &self.by {
            Use::Stream(s) => stream.wait_for_stream(s)?,
            Use::Point(event) => stream.wait(event)?,
        }
        self.awaited.push(weak);
        Ok(())
    }
}

/// The uses that later ones may have to wait for.
#[derive(Default)]
struct Uses {
    writer: Option<Entry>,
    readers: SmallVec<[Entry; 2]>,
    /// The scope that the memory was lent for is over: others may use it now.
    ended: bool,
}

impl Uses {
    fn require_lasting(&self) -> Result<()> {
        if self.ended { Err(ExchangeError::Ended.into()) } else { Ok(()) }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.writer.iter_mut().chain(&mut self.readers)
    }

    fn precede(&mut self, stream: &Arc<CudaStream>, access: AllocationAccess) -> Result<()> {
        match access {
            AllocationAccess::Read => self.writer.iter_mut().try_for_each(|u| u.precede(stream)),
            AllocationAccess::Write => self.all().try_for_each(|u| u.precede(stream)),
        }
    }

    /// Makes the host wait for all of them, even after an error.
    fn wait(&mut self) -> Result<()> {
        let mut waited = Ok(());
        for used in self.all() {
            waited = waited.and(match &used.by {
                Use::Stream(stream) => stream.synchronize(),
                Use::Point(event) => event.synchronize(),
            });
        }
        waited
    }

    /// Lets the host wait for what work on `stream` would have to wait for. (What it waits for already has been put on
    /// it.)
    fn finish_before(&mut self, stream: &Arc<CudaStream>, access: AllocationAccess) -> Result<()> {
        let readers: &mut [Entry] = if access == AllocationAccess::Write { &mut self.readers } else { &mut [] };
        for used in self.writer.iter_mut().chain(readers) {
            match &used.by {
                _ if used.is_on(stream) => {}
                Use::Stream(other) if other.capture_id()?.is_some() => return Err(captured_elsewhere()),
                Use::Stream(other) => other.synchronize()?,
                Use::Point(event) => event.synchronize()?,
            }
        }
        Ok(())
    }

    fn note(&mut self, by: &Use, access: AllocationAccess) {
        if access == AllocationAccess::Write {
            self.readers.clear();
            self.writer = Some(Entry::new(by));
            return;
        }
        match by {
            Use::Stream(stream) => self.readers.retain(|u| !u.is_on(stream)),
            // Otherwise tensors that are only read on borrowed streams would collect more and more events.
            Use::Point(_) if self.readers.len() >= POINTS_KEPT => {
                self.readers.retain(|u| !matches!(&u.by, Use::Point(event) if event.is_complete()));
            }
            Use::Point(_) => {}
        }
        self.readers.push(Entry::new(by));
    }
}

/// An allocation of this library or of another owner.
pub(crate) struct Allocation {
    gpu: &'static Gpu,
    address: CUdeviceptr,
    owner: Owner,
    writable: bool,
    uses: Mutex<Uses>,
}

/// Something that owns memory, which is freed when it is dropped.
pub(crate) type Keeper = Box<dyn Any + Send + Sync>;

/// The owner of an allocation, which decides what happens at its end.
enum Owner {
    /// This library, which frees it.
    Us,
    /// Someone else, who frees it.
    Lender,
    /// Someone else, who has lent it for a scope.
    Scope,
    /// A value that is dropped after the last use.
    Kept { keeper: Keeper },
}

impl Allocation {
    /// Memory filled with zeros.
    pub(crate) fn zeroed(gpu: &'static Gpu, bytes: usize) -> Result<Self> {
        let allocation = Self::uninitialised(gpu, bytes)?;
        let _current = gpu.context.bind()?;
        let stream = gpu.default_stream()?;
        // SAFETY: the allocation has at least `bytes` bytes, and the stream is the one it was allocated on.
        unsafe { call!(cuMemsetD8Async(allocation.address, 0, bytes, stream.handle())) }?;
        Ok(allocation)
    }

    /// Memory that holds `bytes`.
    pub(crate) fn holding(gpu: &'static Gpu, bytes: &[u8]) -> Result<Self> {
        let allocation = Self::uninitialised(gpu, bytes.len())?;
        allocation.write(0, bytes)?;
        Ok(allocation)
    }

    /// Memory that its creator fills before anyone else can read it. It is allocated on the default stream.
    pub(crate) fn uninitialised(gpu: &'static Gpu, bytes: usize) -> Result<Self> {
        let _current = gpu.context.bind()?;
        let stream = gpu.default_stream()?;
        let size = bytes.max(1);
        let mut address = 0;
        let made = if gpu.context.has_pools {
            // SAFETY: a valid place to write to, a live stream.
            unsafe { call!(cuMemAllocAsync(&raw mut address, size, stream.handle())) }
        } else {
            // SAFETY: a valid place to write to.
            unsafe { call!(cuMemAlloc_v2(&raw mut address, size)) }
        };
        made.map_err(|e| gpu.context.allocation_error(e, bytes))?;
        let writer = Some(Entry::new(&Use::Stream(Arc::clone(stream))));
        let uses = Uses { writer, ..Uses::default() };
        Ok(Self { gpu, address, owner: Owner::Us, writable: true, uses: Mutex::new(uses) })
    }

    /// Someone else's memory. Work that others have pending on it is not known here.
    ///
    /// # Safety
    /// The address is memory of this GPU that lives until this value is dropped and its uses are over.
    pub(crate) unsafe fn borrow(gpu: &'static Gpu, address: CUdeviceptr) -> Self {
        Self { gpu, address, owner: Owner::Lender, writable: true, uses: Mutex::default() }
    }

    /// Someone else's memory, until [`end`](Self::end).
    ///
    /// # Safety
    /// The address is memory of this GPU that lives until `end` has been called.
    pub(crate) unsafe fn lent(gpu: &'static Gpu, address: CUdeviceptr, writable: bool) -> Self {
        Self { gpu, address, owner: Owner::Scope, writable, uses: Mutex::default() }
    }

    /// Whether the memory is lent for a scope.
    pub(crate) fn is_of_scope(&self) -> bool {
        matches!(self.owner, Owner::Scope)
    }

    /// Ends all use of memory that was lent: refuses later uses, and makes later work of its owner's stream wait for those
    /// so far.
    pub(crate) fn end(&self, stream: &Arc<CudaStream>) {
        let mut uses = self.uses();
        uses.ended = true;
        let ordered = self.gpu.context.bind().and_then(|_current| uses.precede(stream, AllocationAccess::Write));
        if ordered.is_err() {
            // Errors of earlier work are reported by every later synchronisation, too.
            let _ = uses.wait();
        }
    }

    /// Memory of a value that is kept until the last use is over. Work that others have pending on it is not known
    /// here.
    ///
    /// # Safety
    /// The address is memory of this GPU that lives until `keeper` is dropped.
    pub(crate) unsafe fn kept_by(gpu: &'static Gpu, address: CUdeviceptr, writable: bool, keeper: Keeper) -> Self {
        Self { gpu, address, owner: Owner::Kept { keeper }, writable, uses: Mutex::default() }
    }

    /// The value that owns the memory, if it is someone else's.
    pub(crate) fn keeper(&self) -> Option<&Keeper> {
        match &self.owner {
            Owner::Kept { keeper } => Some(keeper),
            Owner::Us | Owner::Lender | Owner::Scope => None,
        }
    }

    /// The value that owns the memory: from now on only it does.
    pub(crate) fn into_keeper(mut self) -> Option<Keeper> {
        match std::mem::replace(&mut self.owner, Owner::Lender) {
            Owner::Kept { keeper } => Some(keeper),
            Owner::Us | Owner::Lender | Owner::Scope => None,
        }
    }

    /// Makes later uses wait for everything that is on `stream` now.
    pub(crate) fn follow(&self, stream: &CudaStream) -> Result<()> {
        let event = stream.record(false)?;
        self.uses().note(&Use::Point(Arc::new(event)), AllocationAccess::Write);
        Ok(())
    }

    /// Makes later work of `stream` wait for all uses so far.
    pub(crate) fn precede(&self, stream: &Arc<CudaStream>) -> Result<()> {
        let _current = self.gpu.context.bind()?;
        self.uses().precede(stream, AllocationAccess::Write)
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Waits until all uses so far are over.
    pub(crate) fn wait(&self) -> Result<()> {
        let _current = self.gpu.context.bind()?;
        self.uses().wait()
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies bytes out after all writes so far. The caller has checked the range.
    pub(crate) fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        if into.is_empty() {
            return Ok(());
        }
        let _current = self.gpu.context.bind()?;
        let stream = self.gpu.default_stream()?;
        let mut uses = self.uses();
        uses.require_lasting()?;
        uses.precede(stream, AllocationAccess::Read)?;
        let source = self.address + offset as u64;
        // SAFETY: the range lies in the allocation; `into` outlives the copy, because the stream is waited for.
        unsafe {
            call!(cuMemcpyDtoHAsync_v2(into.as_mut_ptr().cast::<c_void>(), source, into.len(), stream.handle()))
        }?;
        stream.synchronize()
    }

    /// Copies bytes in after all uses so far. The caller has checked the range.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.gpu.context.bind()?;
        let stream = self.gpu.default_stream()?;
        let mut uses = self.uses();
        uses.require_lasting()?;
        uses.precede(stream, AllocationAccess::Write)?;
        let target = self.address + offset as u64;
        // SAFETY: the range lies in the allocation; `from` outlives the copy, because the stream is waited for (it
        // may be page-locked memory, from which copies are asynchronous).
        unsafe { call!(cuMemcpyHtoDAsync_v2(target, from.as_ptr().cast::<c_void>(), from.len(), stream.handle())) }?;
        uses.note(&Use::Stream(Arc::clone(stream)), AllocationAccess::Write);
        stream.synchronize()
    }
}

impl Drop for Allocation {
    /// Frees the memory in stream order, after the last use. Errors can only be those of earlier work, which every
    /// later synchronisation reports, too.
    fn drop(&mut self) {
        let mut uses = std::mem::take(&mut *self.uses());
        let Ok(_current) = self.gpu.context.bind() else { return };
        let _ = match &self.owner {
            Owner::Lender | Owner::Scope => return,
            // Its owner knows nothing about the streams that use it, so this waits for them.
            Owner::Kept { .. } => uses.wait(),
            Owner::Us if self.gpu.context.has_pools => self.free_in_order(&mut uses),
            Owner::Us => self.free_after_waiting(&mut uses),
        };
    }
}

impl Allocation {
    fn free_in_order(&self, uses: &mut Uses) -> Result<()> {
        let first = match uses.all().next() {
            Some(Entry { by: Use::Stream(stream), .. }) => Some(Arc::clone(stream)),
            _ => None,
        };
        let stream = match first {
            Some(only) if uses.all().all(|u| u.is_on(&only)) => only,
            _ => {
                let stream = self.gpu.reclaim_stream()?;
                uses.precede(stream, AllocationAccess::Write)?;
                Arc::clone(stream)
            }
        };
        // SAFETY: allocated in stream order; the stream comes after every use, and there will be no other.
        unsafe { call!(cuMemFreeAsync(self.address, stream.handle())) }
    }

    fn free_after_waiting(&self, uses: &mut Uses) -> Result<()> {
        uses.wait()?;
        // SAFETY: allocated by `cuMemAlloc`; every use is over.
        unsafe { call!(cuMemFree_v2(self.address)) }
    }
}

/// Puts `work` on a stream that others capture. A graph may not wait for what is not in it: so the host does, now. When
/// the graph runs is known to its owner only, who orders it with everything else.
fn in_capture(
    stream: &Arc<CudaStream>,
    locked: &mut [(MutexGuard<'_, Uses>, AllocationAccess)],
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if stream.handle() == Gpu::of(stream)?.default_stream()?.handle() {
        return Err(default_stream_captured());
    }
    {
        let _relaxed = Relaxed::enter()?;
        for (uses, access) in locked {
            uses.finish_before(stream, *access)?;
        }
    }
    work()
}

/// A captured launch may run after the scope.
pub(crate) fn lent_only() -> Error {
    let reason = "a tensor's memory is lent for a scope only, and the graph may run after it: let the tensor take the slice \
                  (`Device::take_cuda_slice`), or run before the capture";
    Error::Capture { reason: reason.to_owned() }
}

fn captured_elsewhere() -> Error {
    let reason = "a tensor was last used on another stream, which is being captured, too: use the tensor on one of them \
                  first, or wait for that use before the capture begins";
    Error::Capture { reason: reason.to_owned() }
}

/// Runs `work`, which puts something on `stream`, after the conflicting uses of the allocations, and notes it as a use
/// of each. No other work can be put on them meanwhile.
pub(crate) fn order(
    stream: &Arc<CudaStream>,
    allocations: &[(&Allocation, AllocationAccess)],
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let _current = stream.context().bind()?;
    // Sorted by address, so that all threads lock in one order; writers first, so that the write stays if an allocation
    // is used both ways.
    let mut used: SmallVec<[(&Allocation, AllocationAccess); 8]> = SmallVec::from_slice(allocations);
    used.sort_by_key(|&(allocation, access)| (std::ptr::from_ref(allocation) as usize, std::cmp::Reverse(access)));
    used.dedup_by_key(|&mut (allocation, _)| std::ptr::from_ref(allocation) as usize);
    let mut locked: SmallVec<[(MutexGuard<'_, Uses>, AllocationAccess); 8]> =
        used.iter().map(|&(allocation, access)| (allocation.uses(), access)).collect();
    locked.iter().try_for_each(|(uses, _)| uses.require_lasting())?;
    if stream.context().driver().capture_id(stream.handle())?.is_some() {
        if used.iter().any(|(allocation, _)| allocation.is_of_scope()) {
            return Err(lent_only());
        }
        return in_capture(stream, &mut locked, work);
    }
    for (uses, access) in &mut locked {
        uses.precede(stream, *access)?;
    }
    work()?;
    let by = if stream.is_owned() {
        Use::Stream(Arc::clone(stream))
    } else {
        // Without the event, later work could not wait for this use, so it is waited for now.
        let event = stream.record(false).or_else(|error| stream.synchronize().and(Err(error)))?;
        Use::Point(Arc::new(event))
    };
    for (uses, access) in &mut locked {
        uses.note(&by, *access);
    }
    Ok(())
}
