//! Streams and events of a GPU.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent, CUevent_flags_enum, CUstream, CUstream_flags_enum};

use super::context::Context;
use super::driver::{call, check};
use crate::error::Result;

/// A stream, ours or borrowed.
pub(crate) struct CudaStream {
    context: &'static Context,
    handle: CUstream,
    owned: bool,
    /// Keeps cudarc's stream alive, if it is one.
    _keeper: Option<Arc<cudarc::driver::CudaStream>>,
}

// SAFETY: the driver's functions may be called from any thread; the handle is only passed to them.
unsafe impl Send for CudaStream {}
// SAFETY: as above.
unsafe impl Sync for CudaStream {}

impl CudaStream {
    /// A new stream. It is a blocking one: its work is ordered with that of the legacy default stream, which candle and
    /// cudarc use by default.
    pub(crate) fn new(context: &'static Context) -> Result<Self> {
        let _current = context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: a valid place to write to; 0 is `CU_STREAM_DEFAULT`.
        unsafe { call!(cuStreamCreate(&raw mut handle, 0)) }?;
        Ok(Self { context, handle, owned: true, _keeper: None })
    }

    /// A new stream whose work is ordered with nobody else's.
    pub(super) fn independent(context: &'static Context) -> Result<Self> {
        let _current = context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: a valid place to write to.
        unsafe { call!(cuStreamCreate(&raw mut handle, CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32)) }?;
        Ok(Self { context, handle, owned: true, _keeper: None })
    }

    /// Someone else's stream.
    ///
    /// # Safety
    /// It belongs to the context, and lives until this value is dropped.
    pub(crate) unsafe fn borrow(context: &'static Context, handle: CUstream) -> Self {
        Self { context, handle, owned: false, _keeper: None }
    }

    /// A stream of cudarc, if it is of the same context. (It may be the per-thread default stream, which is a different
    /// one on every thread, so events can't be recorded in it later.)
    pub(crate) fn of_cudarc(context: &'static Context, stream: &Arc<cudarc::driver::CudaStream>) -> Option<Self> {
        let handle = stream.cu_stream();
        let of_context = context.is(stream.context().cu_ctx());
        of_context.then(|| Self { context, handle, owned: false, _keeper: Some(Arc::clone(stream)) })
    }

    pub(crate) fn context(&self) -> &'static Context {
        self.context
    }

    pub(crate) fn handle(&self) -> CUstream {
        self.handle
    }

    /// Whether the stream lives for as long as this value, so that events can still be recorded in it later.
    pub(super) fn is_owned(&self) -> bool {
        self.owned
    }

    /// The driver's number of the capture that the stream is in, if it is in one.
    pub(crate) fn capture_id(&self) -> Result<Option<u64>> {
        let _current = self.context.bind()?;
        self.context.driver().capture_id(self.handle)
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.context.bind()?;
        // SAFETY: a live stream.
        unsafe { call!(cuStreamSynchronize(self.handle)) }
    }

    pub(crate) fn record(&self, timed: bool) -> Result<CudaEvent> {
        let _current = self.context.bind()?;
        let flags =
            if timed { CUevent_flags_enum::CU_EVENT_DEFAULT } else { CUevent_flags_enum::CU_EVENT_DISABLE_TIMING };
        let mut handle = ptr::null_mut();
        // SAFETY: a valid place to write to.
        unsafe { call!(cuEventCreate(&raw mut handle, flags as u32)) }?;
        let event = CudaEvent { context: self.context, handle };
        // SAFETY: a live event and a live stream of one context.
        unsafe { call!(cuEventRecord(event.handle, self.handle)) }?;
        Ok(event)
    }

    /// Makes later work start only after the event.
    pub(crate) fn wait(&self, event: &CudaEvent) -> Result<()> {
        let _current = self.context.bind()?;
        // SAFETY: a live event and a live stream. The event may be destroyed before the wait is over.
        unsafe { call!(cuStreamWaitEvent(self.handle, event.handle, 0)) }
    }

    /// Makes later work start only after everything that is on `other` now.
    pub(super) fn wait_for_stream(&self, other: &Self) -> Result<()> {
        self.wait(&other.record(false)?)
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_current) = self.context.bind()
        {
            // SAFETY: a live stream that nobody uses any more; its work goes on to the end.
            // An error here can only be one of earlier work, which the next synchronisation reports too.
            let _ = unsafe { call!(cuStreamDestroy_v2(self.handle)) };
        }
    }
}

/// A point in a stream.
pub(crate) struct CudaEvent {
    context: &'static Context,
    handle: CUevent,
}

// SAFETY: the driver's functions may be called from any thread; the handle is only passed to them.
unsafe impl Send for CudaEvent {}
// SAFETY: as above.
unsafe impl Sync for CudaEvent {}

impl CudaEvent {
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _current = self.context.bind()?;
        // SAFETY: a live, recorded event.
        unsafe { call!(cuEventSynchronize(self.handle)) }
    }

    /// Whether all work before it is known to be done.
    pub(crate) fn is_complete(&self) -> bool {
        let Ok(_current) = self.context.bind() else { return false };
        // SAFETY: a live, recorded event. (An error other than "not ready" leaves the question open.)
        unsafe { call!(cuEventQuery(self.handle)) }.is_ok()
    }

    /// Milliseconds from this event to `later`, both recorded with timing. Waits for both.
    pub(crate) fn elapsed_ms(&self, later: &Self) -> Result<f32> {
        self.synchronize()?;
        later.synchronize()?;
        let mut milliseconds = 0.0;
        // SAFETY: two live, completed events.
        let status = unsafe { (self.context.driver().elapsed_time)(&raw mut milliseconds, self.handle, later.handle) };
        check("cuEventElapsedTime", status)?;
        Ok(milliseconds)
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.bind() {
            // SAFETY: a live event that nobody uses any more; pending waits for it stay in force.
            let _ = unsafe { call!(cuEventDestroy_v2(self.handle)) };
        }
    }
}
