//! CUDA graphs: launches that are captured once and then launched together.
//!
//! The library captures on a stream of its own that nothing else uses. It does so only while it gives the driver
//! launches that were recorded before. Others may capture whatever they like, with this library's work in it;
//! [`beside`] and `memory::order` then do what must not be captured outside of it.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{CUgraphExec, CUstreamCaptureMode};

use super::context::Context;
use super::driver::call;
use super::gpu::Gpu;
use super::stream::CudaStream;
use crate::error::{Error, Result};

/// A graph that can be launched.
pub(crate) struct ExecutableGraph {
    context: &'static Context,
    handle: CUgraphExec,
    /// Held while it is launched: the driver's graphs may not be used by two threads at once.
    launching: Mutex<()>,
}

// SAFETY: the driver's functions may be called from any thread; the handle is only passed to them, under the lock.
unsafe impl Send for ExecutableGraph {}
// SAFETY: as above.
unsafe impl Sync for ExecutableGraph {}

impl ExecutableGraph {
    /// The launches of `work` on the stream that it is given.
    pub(crate) fn of(context: &'static Context, work: impl FnOnce(&CudaStream) -> Result<()>) -> Result<Self> {
        let _current = context.bind()?;
        let stream = CudaStream::independent(context)?;
        let (mut graph, mut handle) = (ptr::null_mut(), ptr::null_mut());
        let captured = {
            let _alone = context.capturing();
            // Others' calls are not to fail because of this capture.
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            // SAFETY: a live stream of nobody else's.
            unsafe { call!(cuStreamBeginCapture_v2(stream.handle(), mode)) }?;
            let worked = work(&stream);
            // SAFETY: a capturing stream and a valid place to write to.
            let ended = unsafe { call!(cuStreamEndCapture(stream.handle(), &raw mut graph)) };
            worked.and(ended)
        };
        let made = captured.and_then(|()| {
            // SAFETY: a valid place to write to, and a graph; the driver makes a copy of the graph.
            unsafe { call!(cuGraphInstantiateWithFlags(&raw mut handle, graph, 0)) }
        });
        if !graph.is_null() {
            // SAFETY: the graph is this function's. An error can only be one of earlier work.
            let _ = unsafe { call!(cuGraphDestroy(graph)) };
        }
        made?;
        Ok(Self { context, handle, launching: Mutex::new(()) })
    }

    /// Puts it on a stream. The memory that its kernels use is ordered by the caller.
    pub(crate) fn launch(&self, stream: &CudaStream) -> Result<()> {
        let _current = self.context.bind()?;
        let _launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a live graph and a live stream of one context.
        unsafe { call!(cuGraphLaunch(self.handle, stream.handle())) }
    }
}

impl Drop for ExecutableGraph {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.bind() {
            // SAFETY: nobody launches it any more; launches that are under way go on to the end.
            let _ = unsafe { call!(cuGraphExecDestroy(self.handle)) };
        }
    }
}

/// While it lives, this thread may make calls that have nothing to do with a capture, though one is under way.
pub(super) struct Relaxed {
    before: CUstreamCaptureMode,
}

impl Relaxed {
    pub(super) fn enter() -> Result<Self> {
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: a valid place to read from and write to.
        unsafe { call!(cuThreadExchangeStreamCaptureMode(&raw mut mode)) }?;
        Ok(Self { before: mode })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { call!(cuThreadExchangeStreamCaptureMode(&raw mut self.before)) };
    }
}

/// Calls `make`, which makes memory for work on `stream` and fills it on the default stream. If others capture that work,
/// the memory is ready when this returns, and the capture knows nothing of it.
pub(crate) fn beside<T>(stream: &CudaStream, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if stream.capture_id()?.is_none() {
        return make();
    }
    let default = Gpu::of(stream)?.default_stream()?;
    if stream.handle() == default.handle() {
        return Err(default_stream_captured());
    }
    let _relaxed = Relaxed::enter()?;
    let made = make()?;
    default.synchronize()?;
    Ok(made)
}

/// Memory is made, filled and read on that stream.
pub(super) fn default_stream_captured() -> Error {
    let reason = "the device's default stream, which uploads and readbacks are ordered on, can't be captured: use \
                  `Device::new_stream`";
    Error::Capture { reason: reason.to_owned() }
}
